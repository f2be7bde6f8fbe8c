//! The effect of a command on its keys: the server's command table, and the meaning of a reply.

mod deadline;
mod extract;
mod known;
mod outcome;
mod rule;
mod served;
mod table;

pub use deadline::Deadline;
pub use extract::{Extraction, KeyUse};
pub use known::KnownCommands;
pub use rule::{Meaning, Messages, Replaces, Rule, Sign};
pub use served::TableError;
pub use table::{Access, BeginSearch, CommandFacts, FindKeys, Flags, KeySpec, Table};
