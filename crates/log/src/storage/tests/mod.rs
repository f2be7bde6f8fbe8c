//! Tests of the storage contract on a real disk, in memory, after crashes and under faults.

mod crash;
mod disk;
mod faults;
mod parity;
