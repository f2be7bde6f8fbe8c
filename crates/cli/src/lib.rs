//! The command line: translates arguments and JSON into calls of the library, and results into text.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "databases"),
    expect(
        dead_code,
        reason = "some of it is for the commands that are not built"
    )
)]

pub mod args;
pub mod command;
pub mod config;
#[cfg(feature = "databases")]
mod database_address;
pub mod entry_json;
pub mod envelope;
pub mod failure;
pub mod help_width;
mod input_file;
mod interruption;
mod key_file;
mod login;
mod one_line;
mod output;
mod output_file;
mod output_guard;
pub mod planned;
pub mod process;
mod progress;
mod remedy;
mod shell;
mod terminal;
pub mod visible_text;
