//! How is it done from any language? Translates HTTP requests into calls of the library, and results into JSON.

#![forbid(unsafe_code)]

mod attempts;
mod body;
pub mod config;
mod connections;
mod credential;
mod desk;
mod document;
mod door;
mod gate;
pub mod hidden;
mod operation;
mod place;
mod pool;
mod problem;
mod repeat;
mod secret;
mod server;
mod socket;
mod time;
mod token;

pub use config::{Config, ConfigError};
pub use document::openapi;
pub use operation::operations;
pub use place::PlaceError;
pub use server::{Server, StartError};
