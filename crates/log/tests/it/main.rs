//! The log, as its users call it. Tests that start themselves again, or watch their process, are programs of their own.

mod altered_proofs;
mod disk;
mod forgery;
mod idempotency;
mod idempotency_damage;
mod journal;
mod moved;
mod older;
mod one_key;
mod origin;
mod people;
mod prove;
mod publishing;
mod readers;
mod repair;
mod rotation;
mod segments;
mod subjects;
mod trust;
mod witness;
mod writing;
