//! The command line: translates arguments and JSON into calls of the library, and results into text.

#![forbid(unsafe_code)]

pub mod args;
pub mod command;
pub mod config;
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
pub mod process;
mod progress;
mod shell;
mod terminal;
pub mod visible_text;
