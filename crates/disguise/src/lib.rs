//! How is a person hidden in a database and brought back?

#![forbid(unsafe_code)]

mod admission;
mod apply;
mod audit;
mod cascade;
mod caution;
mod chunk_note;
mod co_owned;
mod concerned;
mod context;
mod credential;
mod credential_text;
mod crypto;
pub mod database;
mod deadline;
mod draft;
mod engine;
mod error;
mod filler;
mod forgotten;
mod generate;
mod hold;
mod holder;
mod installation;
mod intent;
mod lax;
mod leaving;
mod name_matching;
mod once;
mod operation;
mod outcome;
mod overwrite;
mod pace;
mod path;
mod payload;
mod plan;
mod predicate;
mod principal;
mod receipt;
mod record;
mod record_names;
mod redact;
mod refusal;
mod reveal;
mod scheduled;
mod schema;
mod separation;
mod share;
mod spec;
mod store;
mod subject;
mod suite;
mod table;
mod tenant;
mod trial;
mod update;
mod value;

pub use admission::Admission;
pub use apply::{Applied, ApplyRequest};
pub use audit::Sink;
pub use cascade::Referring;
pub use credential::{Credential, KeyCost, Protection, RecoveryToken};
pub use credential_text::CredentialLine;
pub use crypto::SecretKey;
pub use database::{Column, Database, DatabaseError, DatabaseErrorKind, Dialect, Said};
pub use draft::{Draft, draft};
pub use engine::{
    APPLY_ROWS, CHUNK_ROWS, Cells, DecayRequest, Decayed, Difference, Engine, Halted, HandOver,
    Hidden, HiddenChange, Listed, MissingOperation, Progress, REVEAL_BYTES, ReplayRequest,
    Replayability, SWEEP_RECORDS, Swept, stored_description,
};
pub use error::Error;
pub use generate::Generator;
pub use hold::{Authority, Hold, HoldId, Holding};
pub use once::{Answered, Once};
pub use operation::{LoggedOperation, Operations};
pub use pace::{Clock, Share, ShareError};
pub use plan::PlannedStep;
pub use principal::Registration;
pub use receipt::{Receipt, ReceiptError};
pub use redact::Redactor;
pub use reveal::{Kept, KeptReason, References, RevealRequest, Revealed, Rows};
pub use scheduled::Scheduled;
pub use schema::{Pseudo, Schema};
pub use share::{SHARES, TokenShare};
pub use spec::{Spec, SpecError, SpecFile};
pub use store::DisguiseId;
pub use subject::SubjectKey;
pub use suite::Suite;
pub use update::{Mapping, Row, Update, UpdateError};
pub use value::Value;
