#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Files of the tests name the crate.
#[cfg(test)]
extern crate self as probity_disguise;

mod crypto;
pub mod database;
mod error;
mod execute;
mod operations;
mod plan;
mod records;
mod schema;
mod spec;
mod statements;
mod transaction;

pub use crypto::SecretKey;
pub use crypto::suite::Suite;
pub use database::value::Value;
pub use database::{Column, Database, DatabaseError, DatabaseErrorKind, Dialect, Said};
pub use error::{DisguiseId, Error, SpecError, UpdateError};
pub use execute::apply::{Applied, ApplyRequest};
pub use execute::reveal::{Kept, KeptReason, RevealRequest, Revealed, Rows};
pub use execute::update::{Mapping, Row, Update};
pub use operations::{
    APPLY_ROWS, CHUNK_ROWS, Cells, Chunks, Decay, DecayRequest, Decayed, Difference, Engine,
    Exported, Halted, HandOver, Hidden, HiddenChange, Holds, Listed, Missed, MissingOperation,
    Options, People, Preview, Progress, REVEAL_BYTES, ReplayRequest, Replayability, Rowless,
    SWEEP_RECORDS, Schedule, Swept, UpdateList, stored_description,
};
pub use plan::cascade::Referring;
pub use plan::step::PlannedStep;
pub use records::commitment::PersonCommitment;
pub use records::credential::{Credential, KeyCost, Protection, RecoveryToken};
pub use records::credential_text::CredentialLine;
#[cfg(feature = "fuzz")]
pub use records::fuzz;
pub use records::hold::{Authority, Hold, HoldId, Holding};
pub use records::principal::Registration;
pub use records::receipt::{Receipt, ReceiptError};
pub use records::share::{SHARES, TokenShare};
pub use records::subject::SubjectKey;
pub use records::tables::is_own_table;
pub use schema::generate::Generator;
pub use schema::{Pseudo, References, Schema};
pub use spec::draft::{Draft, draft};
pub use spec::redact::Redactor;
pub use spec::{Spec, SpecFile};
pub use transaction::admission::Admission;
pub use transaction::audit::Sink;
pub use transaction::once::{Answered, Once};
pub use transaction::operation::{LoggedOperation, Operations};
pub use transaction::pace::{Clock, Share, ShareError};
pub use transaction::scheduled::Scheduled;
