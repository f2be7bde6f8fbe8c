//! The command line: translates arguments and JSON into calls of the library, and results into text.

#![forbid(unsafe_code)]

pub mod entry_json;
