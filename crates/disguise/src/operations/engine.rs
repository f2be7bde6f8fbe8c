//! The engine: one connection, one description of the application, and what may be asked of them.

use std::sync::Arc;

use super::chunks::Chunks;
use super::decay::Decay;
use super::holds::Holds;
use super::missed::Missed;
use super::options::Options;
use super::people::{HandOver, People};
use super::preview::Preview;
use super::schedule::Schedule;
use super::update_list::UpdateList;
use crate::database::Database;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::installation::refuse_lost;
use crate::records::settings;
use crate::records::subject::SubjectKey;
use crate::schema::{Pseudo, Schema};
use crate::spec::{SpecFile, described};
use crate::transaction::admission::Admission;
use crate::transaction::audit::Sink;
use crate::transaction::transactions::Transactions;

/// The description that [`Engine::install`] stored in a database.
///
/// # Errors
/// [`Error::NotInstalled`] when there is none.
pub fn stored_description(database: &mut dyn Database) -> Result<(Schema, Pseudo), Error> {
    Ok(described(&settings::description(database)?)?)
}

/// Applies and reveals disguises over one connection.
///
/// Every operation is one serialisable transaction; on any error it is rolled back and nothing has changed.
pub struct Engine<D: Database> {
    pub(super) transactions: Transactions<D>,
    pub(super) options: Options,
    hand_over: Option<HandOver>,
}

impl<D: Database> Engine<D> {
    /// An engine for the application that `schema` and `pseudo` describe.
    pub fn new(database: D, schema: Schema, pseudo: Pseudo) -> Self {
        Self {
            transactions: Transactions::new(database, schema, pseudo),
            options: Options::default(),
            hand_over: None,
        }
    }

    /// Lets `hand_over` take each new credential once, before anything is committed under it. It
    /// must store the credential durably, so that nobody is registered under a lost key. If it
    /// fails, the operation is refused with [`Error::HandOver`]. A refusal later, even at the
    /// commit, leaves a credential that opens nothing; after [`Error::Unsettled`] it may open
    /// everything.
    pub fn set_hand_over(&mut self, hand_over: HandOver) {
        self.hand_over = Some(hand_over);
    }

    /// Lets `notice` take the warnings of a completed operation: removed rows can still be read in
    /// a file, with the file, the reason, and the remedy.
    pub fn set_notice(&mut self, notice: Box<dyn FnMut(&str)>) {
        self.transactions.set_notice(notice);
    }

    /// Binds every later operation to a tenant, the value of the tenant columns. Rows, people,
    /// credentials and holds belong to that tenant alone. It is required if the description names
    /// tenant columns.
    pub fn set_tenant(&mut self, tenant: Option<Value>) {
        self.transactions.set_tenant(tenant);
    }

    /// Sets the tenant from its written form.
    ///
    /// # Errors
    /// See [`Engine::tenant`].
    pub fn set_written_tenant(&mut self, text: &str) -> Result<(), Error> {
        let tenant = self.tenant(text)?;
        self.set_tenant(Some(tenant));
        Ok(())
    }

    /// Returns whether the description names tenant columns.
    pub fn has_tenants(&self) -> bool {
        self.transactions.application.has_tenants()
    }

    /// Sends every operation to `sink` before it is committed.
    pub fn set_sink(&mut self, sink: Box<dyn Sink>) {
        self.transactions.set_sink(sink);
    }

    /// Names people in the entries under this key, which belongs to the log that the sink writes
    /// to. Without one the names are hashes that anybody with the salt of the database can compute.
    pub fn set_subject_key(&mut self, key: Arc<SubjectKey>) {
        self.transactions.set_subject_key(key);
    }

    /// Lets every transaction of this engine wait for a place in `admission`, which other engines may share.
    pub fn set_admission(&mut self, admission: Arc<Admission>) {
        self.transactions.set_admission(admission);
    }

    /// Returns the options, which hold for every later operation.
    pub const fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Returns the people who have keys: their registrations, passwords and keys.
    pub const fn people(&mut self) -> People<'_, D> {
        People {
            transactions: &mut self.transactions,
            options: &self.options,
            hand_over: &mut self.hand_over,
        }
    }

    /// Returns the legal holds.
    pub const fn holds(&mut self) -> Holds<'_, D> {
        Holds {
            transactions: &mut self.transactions,
        }
    }

    /// Returns the schedule: disguises that are to come, and records that end.
    pub const fn schedule(&mut self) -> Schedule<'_, D> {
        Schedule {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the disguises in chunks.
    pub const fn chunks(&mut self) -> Chunks<'_, D> {
        Chunks {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the updates that are recorded of the rows.
    pub const fn updates(&mut self) -> UpdateList<'_, D> {
        UpdateList {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the operations that the database has missed since its backup.
    pub const fn missed(&mut self) -> Missed<'_, D> {
        Missed {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the decay of accounts that are inactive.
    pub const fn decay(&mut self) -> Decay<'_, D> {
        Decay {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the preview: checks and plans, before anything is changed.
    pub const fn preview(&mut self) -> Preview<'_, D> {
        Preview {
            transactions: &mut self.transactions,
            options: &self.options,
        }
    }

    /// Returns the connection, for the application's own statements.
    pub const fn database(&mut self) -> &mut D {
        &mut self.transactions.database.database
    }

    /// Creates an engine with the description that [`Engine::install`] stored.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] when there is none, [`Error::RecordsLost`] when there was one.
    pub fn stored(mut database: D) -> Result<Self, Error> {
        match stored_description(&mut database) {
            Ok((schema, pseudo)) => Ok(Self::new(database, schema, pseudo)),
            Err(Error::NotInstalled) => {
                refuse_lost(&mut database)?;
                Err(Error::NotInstalled)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates an engine from the given description, the one in the specification, and for missing
    /// parts the one that [`Engine::install`] stored. Returns nothing if none of them names the
    /// users table.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`] when the stored description is damaged.
    pub fn described_by(
        mut database: D,
        file: Option<&SpecFile>,
        beside: (Option<Schema>, Option<Pseudo>),
    ) -> Result<Option<Self>, Error> {
        let (schema, pseudo) = beside;
        let pseudo = pseudo.or_else(|| file.and_then(|file| file.pseudo.clone()));
        let own = file.filter(|file| file.pseudo.is_some() || !file.schema.is_empty());
        let schema = schema.or_else(|| own.map(|file| file.schema.clone()));
        let known = match stored_description(&mut database) {
            Ok(known) => Some(known),
            Err(Error::NotInstalled) => None,
            Err(error) => return Err(error),
        };
        let (known_schema, known_pseudo) = known.unzip();
        let schema = schema.or(known_schema).unwrap_or_default();
        let pseudo = pseudo.or(known_pseudo);
        Ok(pseudo.map(|pseudo| Self::new(database, schema, pseudo)))
    }
}
