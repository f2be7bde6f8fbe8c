//! Holds a key-value store inside the process.
//!
//! A [`Store`] answers the common commands of Redis 7.0 with the replies that Redis gives, from a
//! file that survives crashes. It knows no sockets: the owner of a connection takes a [`Client`]
//! for it and asks.
//!
//! ```
//! use probity_store::{Command, Commands, Options, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir()?;
//! let store = Store::open(&directory.path().join("store"), Options::default())?;
//! let mut commands = Commands::default();
//! for words in [&["SET", "greeting", "hello"][..], &["STRLEN", "greeting"]] {
//!     let mut command = Command::default();
//!     words.iter().for_each(|word| command.push(word.as_bytes()));
//!     commands.push(command);
//! }
//! let (mut client, mut replies) = (store.client(), Vec::new());
//! while !commands.is_empty() {
//!     let (sender, receiver) = std::sync::mpsc::channel();
//!     store.ask(client, commands, move |answer| {
//!         let _gone = sender.send(answer);
//!     });
//!     let answer = receiver.recv()??;
//!     replies.extend_from_slice(&answer.bytes);
//!     (client, commands) = (answer.client, answer.rest);
//! }
//! assert_eq!(replies, b"+OK\r\n:5\r\n");
//! store.close()?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod block_set;
mod client;
mod clock;
mod collection;
mod command;
mod commands;
mod contents;
mod directory;
mod draw;
mod engine;
mod expire;
mod extended;
mod facts;
mod fail;
mod generation;
mod glob;
mod key_file;
pub mod limits;
mod list;
mod live;
mod loss;
mod mark;
mod memory;
mod natural;
mod number;
mod open_error;
mod overlay;
mod owners;
mod random;
mod record;
mod records;
mod remains;
mod reply;
mod rewrite;
mod room;
mod rows;
mod salvage;
mod seal;
mod sealed_file;
mod siphash;
mod slots;
mod sorted_set;
mod space;
mod store;
mod subject;
mod table;
mod text;
mod tied;
mod watch;
mod wiping;

pub use client::Client;
pub use clock::Clock;
pub use commands::{Command, Commands};
pub use loss::Loss;
pub use memory::{Memory, NoMemory, Share};
pub use open_error::OpenError;
pub use store::{Answer, CloseError, Options, RewriteError, Store, Sync, Unanswered};
pub use subject::SubjectOf;
