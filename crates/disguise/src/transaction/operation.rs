//! Operations in the log and in the database, so that a restored backup can learn which ones it has
//! missed.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::{Entry, Outcome, Timestamp};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::crypto::suite::{PublicKey, XWING_STORED_BYTES};
use crate::crypto::{KEY_BYTES, random};
use crate::database::tenant::{TenantConnection, TenantScope};
use crate::database::value::{Value, put_bytes};
use crate::database::{Database, DatabaseErrorKind};
use crate::error::Error;
use crate::execute::apply::ApplyRequest;
use crate::records::name::name;
use crate::records::name::{digits, undigits};
use crate::records::settings::own_salt;
use crate::records::tables::OPERATIONS;
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};
use crate::transaction::payload::Payload;

/// Bytes of the random id of an operation.
const ID_BYTES: usize = 8;

/// The outcome in an entry when no database could be asked about the commit.
const UNKNOWN: &str = "unknown";

/// The random id of an operation.
pub(crate) type OperationId = [u8; ID_BYTES];

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    Done,
    Undone,
    /// The connection was lost at the commit, and nobody could be asked.
    Unknown,
}

/// The reason why an entry does not say which operation it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The log has erased its person.
    Erased,
    /// Its payload is of another form: a newer program or another one wrote it.
    OtherForm,
}

/// An operation as an entry of the log describes it.
#[derive(Debug, Clone)]
pub struct LoggedOperation {
    pub(crate) id: OperationId,
    pub(crate) fate: CommitOutcome,
    pub(crate) action: String,
    pub(crate) key: String,
    pub(crate) subject: Option<String>,
    pub(crate) actor: String,
    pub(crate) basis: String,
    pub(crate) time: Timestamp,
    /// True if the database has the operation, or the next one of its person, and still has some of
    /// the records it destroyed: somebody has put them back.
    pub(crate) is_put_back: bool,
    /// The reason why nothing but action and time of it are known, its database perhaps.
    pub(crate) unread: Option<Unread>,
    pub(crate) facts: LoggedFacts,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what a payload may say, each by itself"
)]
/// The fields of a payload, apart from counts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoggedFacts {
    operation: String,
    database: String,
    pub(crate) specification: Option<String>,
    pub(crate) parameters: Option<String>,
    pub(crate) public_key: Option<String>,
    /// The public key that was replaced.
    pub(crate) old_key: Option<String>,
    /// Its person keeps the private key, and nothing else opens it.
    pub(crate) key_alone: bool,
    /// A credential reached rows behind placeholders.
    pub(crate) over: bool,
    pub(crate) expires: Option<i64>,
    pub(crate) due: Option<i64>,
    pub(crate) disguise: Option<String>,
    /// The outcome of the commit, if the entry contains nothing else.
    commit: Option<String>,
    /// True if links of forgotten records were kept, for other disguises.
    pub(crate) links_kept: bool,
    /// Names of records that were destroyed; entries of older programs lack them when they were too
    /// many.
    pub(crate) destroyed: Option<Vec<String>>,
    /// There were more than the entry names.
    pub(crate) destroyed_cut: bool,
    /// The disguises whose records were destroyed with everything else of a person.
    pub(crate) disguises: Option<Vec<String>>,
    /// Disguises in chunks in progress that were ended for the person, or left them out from then
    /// on.
    pub(crate) chunks: Option<Vec<String>>,
    /// The number of placeholders that the person spoke for then.
    pub(crate) placeholders: Option<u64>,
    /// The number of rows that a disguise in chunks had touched when it was ended.
    pub(crate) hidden: Option<u64>,
    /// The number of rows and values that a reveal did not bring back.
    pub(crate) kept: Option<u64>,
}

impl LoggedOperation {
    /// Returns the operation of `entry` that the database remembers if it was done. An entry says
    /// that it is about to be committed, or that the commit failed. The last entry of an operation
    /// is decisive, so all of them are needed. Of one that is done and has another form, action and
    /// time are known.
    pub fn of(entry: &Entry<'_>) -> Option<Self> {
        if !entry.action.starts_with("disguise.") {
            return None;
        }
        let facts: Option<LoggedFacts> = serde_json::from_slice(entry.payload).ok();
        let is_none = |it: &LoggedFacts| it.operation.is_empty();
        if facts.as_ref().is_some_and(is_none) {
            return None;
        }
        facts
            .and_then(|facts| Self::read(entry, facts))
            .or_else(|| Self::unread(entry, Unread::OtherForm))
    }

    /// Reads an entry with these facts; nothing where it has another form.
    fn read(entry: &Entry<'_>, facts: LoggedFacts) -> Option<Self> {
        let fate = match entry.outcome {
            Outcome::Ok => CommitOutcome::Done,
            _ if facts.commit.as_deref() == Some(UNKNOWN) => CommitOutcome::Unknown,
            _ => CommitOutcome::Undone,
        };
        Some(Self {
            id: undigits(&facts.operation)?,
            fate,
            action: entry.action.to_owned(),
            key: String::from_utf8(entry.key.to_vec()).ok()?,
            subject: entry.subjects.iter().next().map(str::to_owned),
            actor: entry.actor.to_owned(),
            basis: entry.basis.to_owned(),
            time: entry.time,
            is_put_back: false,
            unread: None,
            facts,
        })
    }

    /// Returns what an entry says that cannot be read otherwise: that there was such an operation,
    /// and perhaps in which database.
    fn unread(entry: &Entry<'_>, why: Unread) -> Option<Self> {
        let is_done = entry.action.starts_with("disguise.") && entry.outcome == Outcome::Ok;
        let payload: serde_json::Value = serde_json::from_slice(entry.payload).unwrap_or_default();
        let database = payload.get("database").and_then(|it| it.as_str());
        is_done.then(|| Self {
            id: OperationId::default(),
            fate: CommitOutcome::Done,
            action: entry.action.to_owned(),
            key: String::new(),
            subject: None,
            actor: String::new(),
            basis: String::new(),
            time: entry.time,
            is_put_back: false,
            unread: Some(why),
            facts: LoggedFacts {
                database: database.unwrap_or_default().to_owned(),
                ..LoggedFacts::default()
            },
        })
    }

    /// Returns whether it was done in the database with this salt.
    pub(crate) fn is_of(&self, salt: &[u8]) -> bool {
        self.facts.database == name(b"database", &[salt])
    }

    /// Returns whether it cannot be read and may be of this database.
    fn may_be_of(&self, salts: [&[u8]; 2]) -> bool {
        let is_of_one = || salts.into_iter().any(|salt| self.is_of(salt));
        self.unread.is_some() && (self.facts.database.is_empty() || is_of_one())
    }

    /// Returns whether it names records that were destroyed.
    pub(crate) fn names_records(&self) -> bool {
        self.facts
            .destroyed
            .as_ref()
            .is_some_and(|it| !it.is_empty())
    }

    /// Returns whether its person can replace it by doing the same again.
    fn may_be_repeated(&self) -> bool {
        let again = ["register", "reveal", "key", "password", "forget", "update"];
        let action = self.action.strip_prefix("disguise.");
        action.is_some_and(|action| again.contains(&action))
    }

    /// Returns the key with which a person began a change of a credential.
    fn begun_with(&self) -> Option<&str> {
        match self.action.as_str() {
            "disguise.password" => self.facts.public_key.as_deref(),
            "disguise.key" => self.facts.old_key.as_deref(),
            _ => None,
        }
    }

    /// Returns the key that a person had after it.
    fn ended_with(&self) -> Option<&str> {
        let changes = matches!(&*self.action, "disguise.password" | "disguise.key");
        self.facts.public_key.as_deref().filter(|_key| changes)
    }

    /// Returns the public key that it names.
    pub(crate) fn public_key(&self) -> Option<PublicKey> {
        Self::key(self.facts.public_key.as_deref()?)
    }

    /// Returns the public key that it names as replaced.
    pub(crate) fn old_key(&self) -> Option<PublicKey> {
        Self::key(self.facts.old_key.as_deref()?)
    }

    fn key(digits: &str) -> Option<PublicKey> {
        let plain = undigits::<KEY_BYTES>(digits).map(|key| key.to_vec());
        let hybrid = || undigits::<XWING_STORED_BYTES>(digits).map(|key| key.to_vec());
        PublicKey::decode(&plain.or_else(hybrid)?).ok()
    }
}

/// The operations that the streams of a log tell of.
#[derive(Debug, Default)]
pub struct Operations(BTreeMap<String, Vec<LoggedOperation>>);

impl Operations {
    /// Adds the next entry of `stream`; entries without an operation are left out. Of one that
    /// `is_erased`, only action and time are known.
    pub fn add(&mut self, stream: &str, entry: &Entry<'_>, is_erased: bool) {
        let told = if is_erased {
            LoggedOperation::unread(entry, Unread::Erased)
        } else {
            LoggedOperation::of(entry)
        };
        if let Some(told) = told {
            self.0.entry(stream.to_owned()).or_default().push(told);
        }
    }

    /// Returns all operations by their times; those of one stream stay in its order.
    pub fn in_order(self) -> Vec<LoggedOperation> {
        let mut streams: Vec<_> = self.0.into_values().map(Vec::into_iter).collect();
        let mut next = BTreeMap::new();
        for (place, stream) in streams.iter_mut().enumerate() {
            next.extend(stream.next().map(|it| ((it.time.nanoseconds(), place), it)));
        }
        let mut all = Vec::new();
        while let Some(((_, place), told)) = next.pop_first() {
            all.push(told);
            let after = streams.get_mut(place).and_then(Iterator::next);
            next.extend(after.map(|it| ((it.time.nanoseconds(), place), it)));
        }
        all
    }
}

/// Notes a new operation in its transaction. Returns the payload of its entry.
pub(crate) fn begin(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    payload: Payload,
) -> Result<(OperationId, String), Error> {
    let id = random::<ID_BYTES>()?;
    let key = database.tenancy().key(&id);
    insert_all(database, OPERATIONS, &["id"], &[vec![key]])?;
    Ok((id, named(payload, database.tenancy(), salt, id)))
}

/// Returns the payload that takes back an operation logged as done: it was not, or its outcome is
/// unknown.
pub(crate) fn taken_back(
    tenancy: &TenantScope,
    salt: &[u8],
    (id, fate): (OperationId, CommitOutcome),
    reason: Option<&Error>,
) -> String {
    let mut payload = Payload::new();
    if let Some(error) = reason {
        payload.put("reason", error.reason());
    }
    if fate == CommitOutcome::Unknown {
        payload.put("commit", UNKNOWN);
    }
    named(payload, tenancy, salt, id)
}

fn named(mut payload: Payload, tenancy: &TenantScope, salt: &[u8], id: OperationId) -> String {
    payload.put("operation", digits(&id));
    if !tenancy.tag().is_empty() {
        payload.put("tenant", digits(tenancy.tag()));
    }
    payload
        .with("database", name(b"database", &[salt]))
        .into_text()
}

/// Returns whether the operation noted under `key` was committed, as far as a connection without a
/// transaction can see it. Over `another` connection than its own it may still be running, and an
/// insertion of the same key waits for its end.
pub(crate) fn fate(
    database: &mut dyn Database,
    salt: &[u8],
    key: &Value,
    another: bool,
) -> Option<CommitOutcome> {
    // The same address may lead to another database by now, which knows nothing of the operation.
    if own_salt(database).ok()? != salt {
        return None;
    }
    if is_remembered(database, key)? {
        return Some(CommitOutcome::Done);
    }
    if !another {
        return Some(CommitOutcome::Undone);
    }
    match inserted(database, key) {
        Ok(()) => Some(CommitOutcome::Undone),
        Err(DatabaseErrorKind::Unique) => Some(CommitOutcome::Done),
        Err(_) => is_remembered(database, key)?.then_some(CommitOutcome::Done),
    }
}

fn is_remembered(database: &mut dyn Database, key: &Value) -> Option<bool> {
    let sql = format!("SELECT id FROM {OPERATIONS} WHERE id = ?");
    let rows = database.query(&sql, std::slice::from_ref(key));
    Some(!rows.ok()?.is_empty())
}

/// Tries an insertion and takes it back.
fn inserted(database: &mut dyn Database, key: &Value) -> Result<(), DatabaseErrorKind> {
    let sql = format!("INSERT INTO {OPERATIONS} (id) VALUES (?)");
    database.begin().map_err(|error| error.kind)?;
    let patience = database.dialect().short_patience();
    let outcome = patience
        .map_or(Ok(0), |sql| database.execute(sql, &[]))
        .and_then(|_| database.attempt(&sql, std::slice::from_ref(key)));
    // The connection is not used for anything else.
    database.rollback().unwrap_or_default();
    outcome.map(drop).map_err(|error| error.kind)
}

/// Remembers an operation that a replay may have remembered before.
pub(crate) fn remember(database: &mut dyn TenantConnection, id: OperationId) -> Result<(), Error> {
    let row = vec![vec![database.tenancy().key(&id)]];
    delete_keys(database, OPERATIONS, &["id".to_owned()], &row)?;
    insert_all(database, OPERATIONS, &["id"], &row)
}

/// Returns the payload of a refusal, with the number of credentials refused for the person, this
/// one included.
pub(crate) fn refused(tenancy: &TenantScope, refusals: Option<u64>, error: &Error) -> String {
    let mut payload = Payload::new().with("reason", error.reason());
    if let Some(refusals) = refusals {
        payload.put("refusals", refusals);
    }
    if !tenancy.tag().is_empty() {
        payload.put("tenant", digits(tenancy.tag()));
    }
    payload.into_text()
}

/// The operations of a log that were done in this database, or may have been, for the current
/// tenant or for all.
pub(crate) struct History<'a> {
    /// All of them in the order of the log, each with whether the database has it, or the next
    /// operation of its person's key.
    pub(crate) done: Vec<(&'a LoggedOperation, bool)>,
    pub(crate) missing: Vec<LoggedOperation>,
}

/// Returns those of `told` that were done in this database. Missing are those that it does not
/// have, in the same order; operations that their person repeated since are not missing any more.
/// Forgotten or replaced records are missing, too, when some of them are among those `there`,
/// whatever was done since: the same id may have been somebody else's. Operations erased from the
/// log may have been missed.
pub(crate) fn history<'a>(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    told: &'a [LoggedOperation],
    there: &BTreeSet<String>,
) -> Result<History<'a>, Error> {
    let whole = own_salt(database)?;
    let key = |it: &LoggedOperation| {
        let of_all = it.is_of(&whole).then(|| it.id.to_vec());
        let own = || database.tenancy().key(&it.id).principal();
        of_all.or_else(|| it.is_of(salt).then(own))
    };
    // Later entries decide.
    let known = told.iter().filter(|it| it.unread.is_none());
    let fates: BTreeMap<OperationId, CommitOutcome> = known.map(|it| (it.id, it.fate)).collect();
    let fate = |it: &LoggedOperation| fates.get(&it.id).copied().unwrap_or(it.fate);
    let promised = told.iter().filter(|it| it.fate == CommitOutcome::Done);
    let own = promised.filter(|it| it.unread.is_some() || fate(it) != CommitOutcome::Undone);
    let own = own.map(|it| (it, key(it).filter(|_| it.unread.is_none())));
    let own: Vec<(&LoggedOperation, Option<Vec<u8>>)> = own
        .filter(|(it, key)| it.may_be_of([&whole, salt]) || key.is_some())
        .collect();
    let keys = own.iter().filter_map(|(_, key)| key.clone());
    let keys: Vec<Vec<Value>> = keys.map(|key| vec![Value::Bytes(key)]).collect();
    let by = ["id".to_owned()];
    let rows = select_keys(database, OPERATIONS, &by, &by, &keys)?;
    let known: BTreeSet<Vec<u8>> = rows.iter().flatten().map(Value::principal).collect();
    let mut later = BTreeSet::new();
    // Keys with which their people went on in this database.
    let mut begun = BTreeSet::new();
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for (it, key) in own.into_iter().rev() {
        let Some(key) = key else {
            missing.push(it.clone());
            continue;
        };
        let name = (&it.action, &it.key, &it.subject);
        let is_there_again = it
            .facts
            .destroyed
            .iter()
            .flatten()
            .any(|it| there.contains(it));
        let is_known = known.contains(&key);
        if is_known {
            begun.extend(it.begun_with());
        }
        let went_on = it.ended_with().is_some_and(|key| begun.contains(key));
        done.push((it, is_known || went_on));
        if is_known && !is_there_again {
            later.insert(name);
        } else if is_known || is_there_again || !it.may_be_repeated() || !later.contains(&name) {
            missing.push(LoggedOperation {
                fate: fate(it),
                is_put_back: is_known || is_there_again && went_on,
                ..it.clone()
            });
        }
    }
    done.reverse();
    missing.reverse();
    Ok(History { done, missing })
}

/// Returns the hash of a specification in entries.
pub(crate) fn specification(text: &str) -> String {
    digits(&Sha256::digest(text))
}

/// Returns the hash of the values of parameters in entries, because the values may concern people.
pub(crate) fn parameters(salt: &[u8], request: &ApplyRequest<'_>) -> String {
    let mut all = Vec::new();
    for (name, value) in &request.parameters {
        put_bytes(&mut all, name.as_bytes());
        value.encode(&mut all);
    }
    name(b"parameters", &[salt, &all])
}
