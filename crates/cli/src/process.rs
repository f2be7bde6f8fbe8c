//! What the operating system may do with the memory of this process, which holds keys.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Keeps the memory of this process out of core dumps, and away from other processes of the same user.
///
/// # Errors
/// When the system refuses one of the two; the other is asked for all the same.
pub fn withhold_memory() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    // The limit is for dumps to files; a dump to a program asks whether the process may be dumped.
    let limited = setrlimit(Resource::Core, none);
    let withheld = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    Ok(limited.and(withheld)?)
}
