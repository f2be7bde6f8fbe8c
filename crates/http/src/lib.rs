//! The HTTP server: translates HTTP requests into calls of the library, and results into JSON.

#![forbid(unsafe_code)]

mod app_state;
mod attempts;
mod body;
pub mod config;
mod connections;
mod credential;
mod database_entry;
mod document;
mod gate;
pub mod hidden;
mod operation;
mod pool;
mod problem;
mod repeat;
mod request_context;
mod secret;
mod server;
mod socket;
mod time;
mod token;

pub use config::{Config, ConfigError};
pub use credential::caution_of_password;
pub use database_entry::PlaceError;
pub use document::openapi;
pub use operation::operations;
pub use server::{Server, StartError};
