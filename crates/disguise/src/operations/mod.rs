//! Operations of the engine, over one connection and with one description of the application.

mod chunk;
mod concern;
mod decay;
mod disguise;
mod engine;
mod export;
mod foretell;
mod forget;
mod hold;
mod keys;
mod of_nobody;
mod once;
mod ownership;
mod pending_entry;
mod plan;
mod replay;
mod replay_action;
mod replay_decision;
mod replay_keys;
mod replay_obstacles;
mod replay_strangers;
mod reveal;
mod sweep;
mod unregister;
mod update;
mod written_id;

pub use chunk::{CHUNK_ROWS, Halted, Progress};
pub use decay::{DecayRequest, Decayed};
pub use engine::{APPLY_ROWS, Engine, HandOver, REVEAL_BYTES, stored_description};
pub use export::{Cells, Difference, Hidden, HiddenChange};
pub use replay::{MissingOperation, ReplayRequest, Replayability};
pub use reveal::Listed;
pub use sweep::{Rowless, SWEEP_RECORDS, Swept};
