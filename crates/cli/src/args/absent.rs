//! The commands about people in databases, in a program that was built without them.

use std::ffi::OsString;

use clap::{Args as ClapArgs, Subcommand};

/// The commands about people in databases.
#[derive(Subcommand)]
pub enum DatabasesCommand {
    /// Not in this build: hides people in SQL databases, and brings them back
    Disguise(Absent),
    /// Not in this build: a person's own copy
    Pocket(Absent),
    /// Not in this build: exports what concerns one person
    Subject(Absent),
    /// Not in this build: hides people over HTTP
    Serve(Absent),
}

/// Arguments of a command that was not built.
#[derive(ClapArgs)]
#[command(disable_help_flag = true)]
pub struct Absent {
    /// Arguments that nothing reads.
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
