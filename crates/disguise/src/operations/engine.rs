//! The engine: one connection, one description of the application, and its transactions.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::crypto::random;
use crate::crypto::suite::Suite;
use crate::database::tenant::{Tenant, TenantScope, TenantScoped};
use crate::database::value::Value;
use crate::database::{Catalog, Column, Database, Vocabulary};
use crate::error::{Doing as _, Error};
use crate::execute::update::Update;
use crate::records::credential::KeyCost;
use crate::records::hold::cohort;
use crate::records::installation::{self, Installation};
use crate::records::principal::Registration;
use crate::records::settings;
use crate::records::subject::{Naming, SubjectKey};
use crate::schema::name_matching::{CatalogNames, Fitting};
use crate::schema::{Pseudo, ResolvedSchema, Schema};
use crate::spec::redact::{Redactor, Redactors};
use crate::spec::{Spec, SpecFile, described, description};
use crate::transaction::admission::Admission;
use crate::transaction::audit::{OperationRequest, Sink};
use crate::transaction::pending_entry::{PendingEntry, Request};

/// The description that [`Engine::install`] stored in a database.
///
/// # Errors
/// [`Error::NotInstalled`] when there is none.
pub fn stored_description(database: &mut dyn Database) -> Result<(Schema, Pseudo), Error> {
    Ok(described(&settings::description(database)?)?)
}

/// The number of tries of an operation while transactions of others conflict with it.
pub(super) const TRIES_MAX: u32 = 32;
/// The approximate number of rows of a person that a disguise in one go holds in memory, by
/// default.
pub const APPLY_ROWS: NonZero<u32> = NonZero::new(10_000).unwrap();
/// The approximate bytes of removed rows and overwritten values that a reveal holds in memory, by
/// default.
pub const REVEAL_BYTES: usize = 16 << 20;
/// The longest pause between two tries, in milliseconds.
const PAUSE_MILLISECONDS_MAX: u64 = 256;

/// A function that delivers a new credential to its person.
pub type HandOver =
    Box<dyn FnMut(&Registration) -> Result<(), Box<dyn std::error::Error + Send + Sync>>>;

/// A function that receives a sentence about a completed operation.
pub(super) type Notice = Box<dyn FnMut(&str)>;

/// Applies and reveals disguises over one connection.
///
/// Every operation is one serialisable transaction; on any error it is rolled back and nothing has changed.
pub struct Engine<D: Database> {
    pub(super) database: TenantScoped<D>,
    pub(super) schema: Schema,
    /// The description as the caller gave it.
    pub(super) said: Pseudo,
    /// The description in the names of the database.
    pub(super) pseudo: Pseudo,
    pub(super) cost: KeyCost,
    pub(super) suite: Option<Suite>,
    pub(super) apply_rows: NonZero<u32>,
    pub(super) reveal_bytes: usize,
    pub(super) sink: Option<Box<dyn Sink>>,
    pub(super) naming: Naming,
    pub(super) admission: Option<Arc<Admission>>,
    pub(super) live: Option<(i64, Catalog, ResolvedSchema)>,
    /// Updates by code, by name.
    pub(super) updates: BTreeMap<String, Box<dyn Update>>,
    pub(super) redactors: Redactors,
    /// Operations that the log has as done in the current transaction.
    pub(super) promises: Vec<PendingEntry>,
    /// The request that owns the current transaction and ends it, if there is one.
    pub(super) request: Option<Request>,
    /// True if rows were removed since the last checkpoint of the files.
    pub(super) has_removed: bool,
    pub(super) notice: Option<Notice>,
    pub(super) hand_over: Option<HandOver>,
}

impl<D: Database> Engine<D> {
    /// An engine for the application that `schema` and `pseudo` describe.
    pub fn new(database: D, schema: Schema, pseudo: Pseudo) -> Self {
        Self {
            database: TenantScoped {
                database,
                tenancy: TenantScope::none(),
                vocabulary: Vocabulary::default(),
                refusal: None,
            },
            schema,
            said: pseudo.clone(),
            pseudo,
            cost: KeyCost::DEFAULT,
            suite: None,
            apply_rows: APPLY_ROWS,
            reveal_bytes: REVEAL_BYTES,
            sink: None,
            naming: Naming(None),
            admission: None,
            live: None,
            updates: BTreeMap::new(),
            redactors: Redactors::new(),
            promises: Vec::new(),
            request: None,
            has_removed: false,
            notice: None,
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
        self.notice = Some(notice);
    }

    /// Gives the engine a redactor by code, which specifications name.
    pub fn set_redactor(&mut self, redactor: Box<dyn Redactor>) {
        self.redactors.insert(redactor.name().to_owned(), redactor);
    }

    /// Sets the cost of a password; it must be the same for registering and for opening.
    pub const fn set_key_cost(&mut self, cost: KeyCost) {
        self.cost = cost;
    }

    /// Binds every later operation to a tenant, the value of the tenant columns. Rows, people,
    /// credentials and holds belong to that tenant alone. It is required if the description names
    /// tenant columns.
    pub fn set_tenant(&mut self, tenant: Option<Value>) {
        self.database.tenancy.tenant = tenant.map(Tenant::new);
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

    pub(super) fn tenant_set(&self) -> Option<&Value> {
        self.database.tenancy.tenant.as_ref().map(|it| &it.value)
    }

    /// Returns whether the description names tenant columns.
    pub fn has_tenants(&self) -> bool {
        self.schema.has_tenants()
    }

    /// Returns the declared foreign keys by which a row of one tenant could refer to a row of
    /// another, one sentence each. They are never followed to another tenant: referred rows are
    /// looked up among the rows of the same tenant.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn cross_tenant_keys(&mut self) -> Result<Vec<String>, Error> {
        self.refresh()?;
        Ok(self.described()?.1.cross_tenant_keys())
    }

    /// Returns cautions about the tables that `spec` touches, for a person to read before it is
    /// applied, one sentence each. They cover triggers, former versions of rows that the database
    /// keeps, and foreign keys from other schemas and databases. Names in the files that differ
    /// from those of the database come first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`].
    pub fn cautions(&mut self, spec: &Spec) -> Result<Vec<String>, Error> {
        // Creating or dropping a trigger does not change the table.
        self.live = None;
        self.refresh()?;
        let dialect = self.database.dialect();
        let (catalog, live) = self.described()?;
        let mut fitting = Fitting::new(CatalogNames::new(dialect, catalog));
        let spec = fitting.spec(spec);
        let mut cautions = live.notes.clone();
        cautions.append(&mut fitting.notes);
        cautions.append(&mut live.cautions(dialect, &spec));
        cautions.extend(self.scarce_ids()?);
        cautions.extend(self.caution_of_everybody()?);
        Ok(cautions)
    }

    /// Sets the suite of keys that are made from now on. Without one, a registration makes a key of
    /// X25519, and a change of the key one of the same suite.
    pub const fn set_suite(&mut self, suite: Option<Suite>) {
        self.suite = suite;
    }

    /// Sets the approximate number of rows of a person that a disguise in one go holds in memory.
    /// Beyond, it takes them part by part in its one transaction. Each part has records of its own,
    /// like the chunks of a disguise.
    pub const fn set_apply_rows(&mut self, rows: NonZero<u32>) {
        self.apply_rows = rows;
    }

    /// Sets the approximate bytes of removed rows and overwritten values that a reveal holds in
    /// memory. Records beyond, frequent with very many rows, are read twice: once to list their
    /// contents, and again in their turn.
    pub const fn set_reveal_bytes(&mut self, bytes: usize) {
        self.reveal_bytes = bytes;
    }

    /// Sends every operation to `sink` before it is committed.
    pub fn set_sink(&mut self, sink: Box<dyn Sink>) {
        self.sink = Some(sink);
    }

    /// Names people in the entries under this key, which belongs to the log that the sink writes
    /// to. Without one the names are hashes that anybody with the salt of the database can compute.
    pub fn set_subject_key(&mut self, key: Arc<SubjectKey>) {
        self.naming = Naming(Some(key));
    }

    /// Lets every transaction of this engine wait for a place in `admission`, which other engines may share.
    pub fn set_admission(&mut self, admission: Arc<Admission>) {
        self.admission = Some(admission);
    }

    /// Returns the connection, for the application's own statements.
    pub const fn database(&mut self) -> &mut D {
        &mut self.database.database
    }

    /// Creates missing tables of the engine and stores the description of the application, so that
    /// a reveal needs no file. Nothing of the application is changed.
    ///
    /// # Errors
    /// [`Error::Spec`] when the description does not fit the database, [`Error::Database`].
    pub fn install(&mut self) -> Result<(), Error> {
        self.refresh()?;
        let text = description(&self.schema, &self.pseudo).map_err(|error| Error::Value {
            what: error.to_string(),
        })?;
        let installation = Installation::new(self.database.dialect(), &text);
        if installation.is_done(&mut self.database)? {
            return Ok(());
        }
        installation::lock(&mut self.database)?;
        let outcome = self.prepare(&installation);
        installation::unlock(&mut self.database);
        outcome
    }

    /// Prepares the database under the installation lock. The tables come first, because `MariaDB`
    /// ends the transaction with each of them; without a salt they do not count as installed.
    fn prepare(&mut self, installation: &Installation<'_>) -> Result<(), Error> {
        if !installation.has_tables(&mut self.database)? {
            self.transaction_of_all(|engine| installation::create(&mut engine.database))?;
        }
        let work = |engine: &mut Self| {
            installation.note_tables(&mut engine.database)?;
            engine.refuse_other_tenancy()?;
            if installation.is_described(&mut engine.database)? {
                return Ok(());
            }
            settings::put_description(&mut engine.database, installation.description)
        };
        self.tried(|engine, work| engine.transaction_of_all(work), work)
    }

    /// Creates an engine with the description that [`Engine::install`] stored.
    ///
    /// # Errors
    /// [`Error::NotInstalled`] when there is none.
    pub fn stored(mut database: D) -> Result<Self, Error> {
        let (schema, pseudo) = stored_description(&mut database)?;
        Ok(Self::new(database, schema, pseudo))
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

    /// Binds later statements to the tenant that was set; refuses a missing or an unexpected
    /// tenant.
    pub(super) fn enter(&mut self) -> Result<(), Error> {
        self.need_tenant()?;
        let Some(tenant) = &self.database.tenancy.tenant else {
            return Ok(());
        };
        let value = tenant.value.clone();
        self.refresh()?;
        if self.database.tenancy.tag().is_empty() {
            self.refuse_other_form(&value)?;
            let salt = settings::own_salt(&mut self.database)?;
            self.database.tenancy.salted(&salt);
        }
        Ok(())
    }

    /// Refuses a missing tenant, and one in a database without tenants.
    pub(super) fn need_tenant(&self) -> Result<(), Error> {
        match (self.has_tenants(), &self.database.tenancy.tenant) {
            (false, None) | (true, Some(_)) => Ok(()),
            (false, Some(_)) => Err(no_tenants()),
            (true, None) => Err(Error::Tenant {
                what: "the database has tenants, so one must be named".to_owned(),
            }),
        }
    }

    /// Refuses a tenant that the database treats as equal to one stored in another form.
    fn refuse_other_form(&mut self, tenant: &Value) -> Result<(), Error> {
        let (_, live) = self.described()?;
        let users = live.table(&live.pseudo.table).ok_or(Error::NotInstalled)?;
        let column = users.tenant.clone().ok_or(Error::NotInstalled)?;
        let integer = users
            .catalog
            .column(&column)
            .is_some_and(Column::is_integer);
        let is_integer = matches!(tenant, Value::Int(_) | Value::UInt(_));
        let wrong = |what: &str| {
            Err(Error::Tenant {
                what: what.to_owned(),
            })
        };
        if tenant.is_null() || matches!(tenant, Value::Text(text) if text.is_empty()) {
            return wrong("NULL and the empty text are no tenants");
        }
        if integer != is_integer {
            return wrong("the tenant columns hold values of another type");
        }
        let dialect = self.database.dialect();
        let (table, column) = (dialect.quote(&users.name), dialect.quote(&column));
        let sql = format!("SELECT {column} FROM {table} WHERE {column} = ? LIMIT 1");
        let rows = self.database.query(&sql, std::slice::from_ref(tenant));
        let rows = rows.doing("looking for the tenant")?;
        let other = rows.iter().flatten().next();
        if other.is_some_and(|held| held.principal() != tenant.principal()) {
            return wrong("the database has the tenant in another form, like capitals in it");
        }
        Ok(())
    }

    /// Refuses to introduce tenants, or to give them up, while anybody is registered or anything is
    /// hidden.
    fn refuse_other_tenancy(&mut self) -> Result<(), Error> {
        let before = match stored_description(&mut self.database) {
            Ok((before, _)) => before,
            Err(Error::NotInstalled) => return Ok(()),
            Err(error) => return Err(error),
        };
        let what = match (before.has_tenants(), self.has_tenants()) {
            (false, true) => "people are registered without a tenant",
            (true, false) => "people are registered as those of tenants",
            _ => return Ok(()),
        };
        if settings::is_in_use(&mut self.database)? {
            return Err(Error::Tenant {
                what: format!(
                    "{what}; reveal what is hidden and forget everybody before the description changes"
                ),
            });
        }
        Ok(())
    }

    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let version = self
            .database
            .catalog_version()
            .doing("reading the schema")?;
        if self
            .live
            .as_ref()
            .is_none_or(|(known, _, _)| *known != version)
        {
            let catalog = self.database.catalog().doing("reading the schema")?;
            let own = |name: &String| !name.starts_with("probity_");
            let catalog: Catalog = catalog.into_iter().filter(|(name, _)| own(name)).collect();
            let dialect = self.database.dialect();
            let live = ResolvedSchema::new(dialect, catalog.clone(), &self.schema, &self.said)?;
            // From here on the database's spelling of the users table and its columns is used.
            self.pseudo.clone_from(&live.pseudo);
            self.database.vocabulary = Vocabulary::of(&catalog);
            self.live = Some((version, catalog, live));
        }
        if let Some((_, _, live)) = &self.live
            && live.has_tenants
        {
            self.database.tenancy.columns = live.tenant_columns();
            self.database.tenancy.shared = live.shared_tables();
        }
        Ok(())
    }

    pub(super) fn described(&self) -> Result<(&Catalog, &ResolvedSchema), Error> {
        self.live
            .as_ref()
            .map(|(_, catalog, live)| (catalog, live))
            .ok_or(Error::NotInstalled)
    }

    /// Runs an operation in one transaction, and again after a conflict with another one. A refusal
    /// is an entry too, logged after the rollback.
    pub(super) fn operation<T>(
        &mut self,
        asked: &OperationRequest<'_>,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.has_removed |= asked.removes();
        if let (Some(request), Some(user)) = (&mut self.request, asked.user) {
            request.cohort = Some(cohort(&request.salt, &user.principal()));
        }
        let outcome = self.tried(|engine, work| engine.transaction(work), work);
        self.told(asked, outcome)
    }

    /// Runs an operation that concerns all tenants.
    pub(super) fn operation_of_all<T>(
        &mut self,
        asked: &OperationRequest<'_>,
        work: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tenant = self.database.tenancy.tenant.take();
        let outcome = self.tried(|engine, work| engine.transaction_of_all(work), work);
        let outcome = self.told(asked, outcome);
        self.database.tenancy.tenant = tenant;
        outcome
    }

    /// Runs `work` in transactions until none conflicts with others.
    pub(super) fn tried<T, W: FnMut(&mut Self) -> Result<T, Error>>(
        &mut self,
        transaction: impl Fn(&mut Self, &mut W) -> Result<T, Error>,
        mut work: W,
    ) -> Result<T, Error> {
        if self.request.is_some() {
            let outcome = transaction(self, &mut work);
            if let (Err(error), Some(request)) = (&outcome, &mut self.request) {
                request.is_in_conflict = error.is_conflict();
            }
            return outcome;
        }
        let mut tries = 1;
        loop {
            match transaction(self, &mut work) {
                Err(error) if error.is_conflict() && tries < TRIES_MAX => {
                    self.retract(&error)?;
                    pause(tries)?;
                    tries = tries.saturating_add(1);
                }
                outcome => return outcome,
            }
        }
    }

    pub(super) fn transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.transaction_of_all(|engine| {
            engine.enter()?;
            work(engine)
        })
    }

    pub(super) fn begin_transaction(&mut self) -> Result<(), Error> {
        self.database.begin().doing("beginning")
    }

    pub(super) fn transaction_of_all<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.request.is_some() {
            return work(self);
        }
        let admission = self.admission.clone();
        let _place = admission.as_deref().map(Admission::enter);
        self.begin_transaction()?;
        let done = match work(self) {
            Ok(done) => done,
            Err(error) => {
                // The first error is the one to report; a connection that cannot roll back is lost anyway.
                self.database.rollback().unwrap_or_default();
                return Err(error);
            }
        };
        self.commit()?;
        Ok(done)
    }
}

/// Waits before the next try. The pause is random and grows, so that operations that met do not
/// meet again at once. Without it a server that sees a deadlock of many may choose the same victim
/// each time.
pub(super) fn pause(tries: u32) -> Result<(), Error> {
    let longest = 1_u64.checked_shl(tries).unwrap_or(u64::MAX);
    let longest = longest.min(PAUSE_MILLISECONDS_MAX);
    let drawn = u64::from(u16::from_le_bytes(random()?));
    let pause = drawn.checked_rem(longest).unwrap_or(0);
    thread::park_timeout(Duration::from_millis(pause));
    Ok(())
}

pub(super) fn no_tenants() -> Error {
    Error::Tenant {
        what: "the description names no tenant columns, so that there are no tenants".to_owned(),
    }
}
