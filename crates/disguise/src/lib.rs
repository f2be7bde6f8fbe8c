//! How is a person hidden in a database and brought back?

#![forbid(unsafe_code)]

mod apply;
mod audit;
mod credential;
mod crypto;
pub mod database;
mod draft;
mod engine;
mod error;
mod generate;
mod plan;
mod predicate;
mod principal;
mod record;
mod reveal;
mod schema;
mod spec;
mod store;
mod table;
mod update;
mod value;

pub use apply::{Applied, ApplyRequest};
pub use audit::Sink;
pub use credential::{Credential, KeyCost, RecoveryToken};
pub use crypto::SecretKey;
pub use database::{Column, Database, DatabaseError, DatabaseErrorKind, Dialect};
pub use draft::{Draft, draft};
pub use engine::{Engine, Listed, stored_description};
pub use error::Error;
pub use generate::Generator;
pub use plan::PlannedStep;
pub use principal::Registration;
pub use reveal::{Kept, KeptReason, References, RevealRequest, Revealed, Rows};
pub use schema::{Pseudo, Schema};
pub use spec::{Spec, SpecError, SpecFile};
pub use store::DisguiseId;
pub use update::{Mapping, Row, Update, UpdateError};
pub use value::Value;
