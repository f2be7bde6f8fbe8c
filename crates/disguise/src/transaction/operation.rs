//! Operations in the log and in the database, so that a restored backup can learn which ones it has
//! missed.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::{Entry, Outcome, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::crypto::suite::{PublicKey, XWING_STORED_BYTES};
use crate::crypto::{KEY_BYTES, random};
use crate::database::tenant::{TAG_BYTES, TenantConnection, TenantScope};
use crate::database::value::{Value, put_bytes};
use crate::database::{Database, DatabaseErrorKind};
use crate::error::Error;
use crate::execute::apply::ApplyRequest;
use crate::records::day::Day;
use crate::records::name::name;
use crate::records::name::{digits, undigits};
use crate::records::settings::own_salt;
use crate::records::tables::{OPERATIONS, uninstalled};
use crate::statements::deletion::delete_keys;
use crate::statements::table::insert_all;
use crate::transaction::logged_facts::{DisguisesTold, LoggedFacts};
use crate::transaction::payload::Payload;

/// Bytes of the random id of an operation.
pub(crate) const ID_BYTES: usize = 8;

/// Bytes of the day before the id of an operation of which no log tells.
const DAY_BYTES: usize = 4;

/// The days during which the row of an operation without a log stays: its commit takes seconds, and
/// the clocks of two machines may differ.
const ASKED_DAYS: u32 = 2;

/// The outcome in an entry when no database could be asked about the commit.
const UNKNOWN: &str = "unknown";

/// The action of what a replay did again.
pub(crate) const REPLAY: &str = "disguise.replay";

/// The action of what somebody does not want to be done again.
pub(crate) const DISMISS: &str = "disguise.dismiss";

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
    /// The operations of the database after which it came, where its entry says so.
    pub(super) after: Option<Vec<OperationId>>,
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
    /// True if the database does not have the operation, and has others that were done after it:
    /// the machine stopped before its commit, or it was lost and somebody worked on without it.
    pub(crate) is_overtaken: bool,
    /// The reason why nothing but action and time of it are known, its database perhaps.
    pub(crate) unread: Option<Unread>,
    pub(crate) facts: LoggedFacts,
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
        let is_count = matches!(facts.disguises, Some(DisguisesTold::Counted(_)));
        if is_count && entry.action != "disguise.expire" {
            return None;
        }
        // A key of a suite that this program does not know is not the absence of a key.
        for key in [&facts.public_key, &facts.old_key].into_iter().flatten() {
            Self::key(key)?;
        }
        let after = facts.after.as_ref();
        let after = after.map(|all| all.iter().map(|id| undigits(id)).collect());
        let after = after
            .map(|all: Option<Vec<OperationId>>| all.ok_or(()))
            .transpose();
        Some(Self {
            id: undigits(&facts.operation)?,
            after: after.ok()?,
            fate,
            action: entry.action.to_owned(),
            key: String::from_utf8(entry.key.to_vec()).ok()?,
            subject: entry.subjects.iter().next().map(str::to_owned),
            actor: entry.actor.to_owned(),
            basis: entry.basis.to_owned(),
            time: entry.time,
            is_put_back: false,
            is_overtaken: false,
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
            after: None,
            fate: CommitOutcome::Done,
            action: entry.action.to_owned(),
            key: String::new(),
            subject: None,
            actor: String::new(),
            basis: String::new(),
            time: entry.time,
            is_put_back: false,
            is_overtaken: false,
            unread: Some(why),
            facts: LoggedFacts {
                database: database.unwrap_or_default().to_owned(),
                ..LoggedFacts::default()
            },
        })
    }

    /// Returns the name of the database in which it was done.
    pub(crate) fn database(&self) -> &str {
        &self.facts.database
    }

    /// Returns the name that the database had before, of a separation.
    pub(crate) fn former(&self) -> Option<&str> {
        self.facts.former.as_deref()
    }

    /// Returns whether it was done for one tenant, whose name in entries nobody else can tell.
    pub(crate) const fn is_of_tenant(&self) -> bool {
        self.facts.tenant.is_some()
    }

    /// Returns the tag of the tenant for whom it was done.
    pub(crate) fn tag(&self) -> Option<[u8; TAG_BYTES]> {
        undigits(self.facts.tenant.as_deref()?)
    }

    /// Returns whether all that its disguise hides was hidden after it: it applied the disguise, or
    /// was a replay that did.
    pub(crate) fn makes_whole(&self) -> bool {
        match self.action.as_str() {
            "disguise.apply" | "disguise.decay" => true,
            action => action == REPLAY && self.facts.specification.is_some(),
        }
    }

    /// Returns whether it hid all that its disguise hides, or began to.
    pub(crate) fn makes_part(&self) -> bool {
        self.action == "disguise.begin" || self.makes_whole()
    }

    /// Returns whether a scheduled disguise ended with it, because it hid the same or its person came back.
    pub(crate) fn ends_scheduled(&self, id: &str) -> bool {
        let mut ended = self.facts.scheduled.iter().flatten();
        (self.makes_part() || self.action == "disguise.reveal") && ended.any(|it| it == id)
    }

    /// Returns whether it is a reveal that left all rows and records as they were. It may have ended a
    /// disguise in chunks.
    pub(crate) fn reveals_no_row(&self) -> bool {
        self.action == "disguise.reveal" && self.unread.is_none() && self.facts.change_nothing()
    }

    /// Returns whether it is a reveal that changed rows or records.
    pub(crate) fn reveals_rows(&self) -> bool {
        self.action == "disguise.reveal" && !self.reveals_no_row()
    }

    /// Returns whether it is a reveal that left something hidden, or does not say that it left nothing.
    pub(crate) fn reveals_in_part(&self) -> bool {
        self.action == "disguise.reveal" && self.facts.kept != Some(0)
    }

    /// Returns whether it is a reveal with which rows or values came back.
    pub(crate) fn brings_back(&self) -> bool {
        let counts = [&self.facts.rows, &self.facts.values];
        let mut counts = counts.into_iter().flatten();
        self.action == "disguise.reveal" && counts.any(|(_, count)| *count > 0)
    }

    /// Returns whether it is a reveal that changed nothing at all, as its entry says. One that ended a
    /// disguise in chunks before its rows were reached does not say which records it destroyed, nor did
    /// programs before where it found nothing there.
    pub(crate) fn found_nothing(&self) -> bool {
        self.reveals_no_row() && self.facts.destroyed.is_some()
    }

    /// Returns whether something may be left to do where it was missed: replays did what others tell of, and
    /// what was only read leaves nothing.
    pub(crate) fn leaves_to_do(&self) -> bool {
        !matches!(&*self.action, REPLAY | DISMISS | "disguise.export")
    }

    /// Returns whether it is a replay that did `it` again.
    pub(crate) fn did_again(&self, it: &Self) -> bool {
        let is_it = match &self.facts.again {
            Some(id) => *id == *digits(&it.id),
            None => self.key == it.key,
        };
        self.action == REPLAY && is_it
    }

    /// Returns whether it was done in the database with this name.
    pub(crate) fn is_of(&self, database: &str) -> bool {
        self.facts.database == database
    }

    /// Returns whether it is of another database for certain than those with these names.
    pub(crate) fn is_of_another(&self, names: [&str; 2]) -> bool {
        !names.iter().any(|name| self.is_of(name)) && !self.may_be_of(names)
    }

    /// Returns whether it cannot be read and may be of this database.
    pub(super) fn may_be_of(&self, names: [&str; 2]) -> bool {
        let is_of_one = || names.into_iter().any(|name| self.is_of(name));
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
    pub(super) fn may_be_repeated(&self) -> bool {
        let again = [
            "forget",
            "key",
            "lift",
            "password",
            "register",
            "reveal",
            "unregister",
            "update",
        ];
        let action = self.action.strip_prefix("disguise.");
        action.is_some_and(|action| again.contains(&action))
    }

    /// Returns the key with which a person began a change of a credential.
    pub(super) fn begun_with(&self) -> Option<&str> {
        match self.action.as_str() {
            "disguise.password" => self.facts.public_key.as_deref(),
            "disguise.key" => self.facts.old_key.as_deref(),
            _ => None,
        }
    }

    /// Returns the key that a person had after it.
    pub(super) fn ended_with(&self) -> Option<&str> {
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

/// Notes a new operation in its transaction. Returns its id and the key of its row. Without a log
/// nobody needs the row once the commit is known: `day` stands before the id, so that a sweep can
/// remove it.
pub(crate) fn begin(
    database: &mut dyn TenantConnection,
    day: Option<Day>,
) -> Result<(OperationId, Value), Error> {
    let id = random::<ID_BYTES>()?;
    let day = day.map(|day| day.number().to_be_bytes());
    let own = [day.as_ref().map_or(&[][..], |it| it.as_slice()), &id].concat();
    let key = database.tenancy().key(&own);
    insert_all(database, OPERATIONS, &["id"], &[vec![key.clone()]])?;
    Ok((id, key))
}

/// Removes the rows of operations of which no log tells, once nobody asks what became of them any
/// more: those of the tenant, and those of all tenants.
pub(crate) fn remove_over(
    database: &mut dyn TenantConnection,
    time: Timestamp,
) -> Result<(), Error> {
    let before = Day::of(time).number().saturating_sub(ASKED_DAYS);
    let tag = database.tenancy().tag().to_vec();
    let mut rows = unlogged(database, &tag, before)?;
    if !tag.is_empty() {
        rows.append(&mut unlogged(database, &[], before)?);
    }
    let rows: Vec<Vec<Value>> = rows.into_iter().map(|key| vec![key]).collect();
    delete_keys(database, OPERATIONS, &["id".to_owned()], &rows).map(drop)
}

/// Returns the keys with `tag` of operations without a log that are older than a day.
fn unlogged(
    database: &mut dyn TenantConnection,
    tag: &[u8],
    before: u32,
) -> Result<Vec<Value>, Error> {
    let bound = |day: u32| Value::Bytes([tag, &day.to_be_bytes()].concat());
    let sql = format!("SELECT id FROM {OPERATIONS} WHERE id >= ? AND id < ?");
    let rows = database.query(&sql, &[bound(0), bound(before)]);
    let rows = rows.map_err(uninstalled)?.into_iter().flatten();
    let bytes = tag.len().saturating_add(DAY_BYTES).saturating_add(ID_BYTES);
    Ok(rows.filter(|it| it.principal().len() == bytes).collect())
}

/// The condition on the key of an operation that some log tells of: its id alone, or behind the tag of
/// a tenant. Of the others a day stands before the id.
const LOGGED: &str = "LENGTH(id) IN (8, 24)";
const _: () = assert!(
    ID_BYTES == 8 && TAG_BYTES + ID_BYTES == 24,
    "as the condition says"
);

/// Returns the keys of the operations, of all tenants, that some log tells of, each with its id.
fn logged(database: &mut dyn TenantConnection) -> Result<Vec<(Value, OperationId)>, Error> {
    let rows = database.query(&format!("SELECT id FROM {OPERATIONS} WHERE {LOGGED}"), &[]);
    let rows = rows.map_err(uninstalled)?.into_iter().flatten();
    let with_id = |key: Value| {
        let bytes = key.principal();
        let id = bytes.split_last_chunk::<ID_BYTES>().map(|(_, id)| *id);
        Ok((key, id.ok_or(Error::Forged)?))
    };
    rows.map(with_id).collect()
}

/// Returns whether some log tells of operations of the database. Each operation may ask, so one row
/// is read.
pub(crate) fn has_logged(database: &mut dyn TenantConnection) -> Result<bool, Error> {
    let sql = format!("SELECT id FROM {OPERATIONS} WHERE {LOGGED} LIMIT 1");
    let rows = database.query(&sql, &[]);
    Ok(!rows.map_err(uninstalled)?.is_empty())
}

/// Returns those of `told` that the database has, of all tenants.
pub(crate) fn had_of<'t>(
    database: &mut dyn TenantConnection,
    told: &'t [LoggedOperation],
) -> Result<Vec<&'t LoggedOperation>, Error> {
    let known: BTreeSet<OperationId> = logged(database)?.into_iter().map(|(_, id)| id).collect();
    let told = told.iter().filter(|it| it.unread.is_none());
    Ok(told.filter(|it| known.contains(&it.id)).collect())
}

/// Returns the number of operations of the database that some log tells of, and none of `told`.
pub(crate) fn untold(
    database: &mut dyn TenantConnection,
    told: &[LoggedOperation],
    names: [&str; 2],
) -> Result<usize, Error> {
    let known: BTreeSet<OperationId> = told.iter().map(|it| it.id).collect();
    let rows = logged(database)?;
    let untold = rows.iter().filter(|(_, id)| !known.contains(id)).count();
    // Entries that cannot be read do not say which they are, and are listed as missing themselves.
    let unread = told.iter().filter(|it| it.may_be_of(names)).count();
    Ok(untold.saturating_sub(unread))
}

/// Forgets the operations that some log tells of.
pub(crate) fn remove_logged(database: &mut dyn TenantConnection) -> Result<(), Error> {
    let rows = logged(database)?.into_iter();
    let rows: Vec<Vec<Value>> = rows.map(|(key, _)| vec![key]).collect();
    delete_keys(database, OPERATIONS, &["id".to_owned()], &rows).map(drop)
}

/// Returns the payload that takes back an operation logged as done: it was not, or its outcome is
/// unknown.
pub(crate) fn taken_back(
    tenancy: &TenantScope,
    database: &str,
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
    named(payload, tenancy, database, id)
}

/// Returns the payload of the entry of an operation.
pub(crate) fn named(
    mut payload: Payload,
    tenancy: &TenantScope,
    database: &str,
    id: OperationId,
) -> String {
    payload.put("operation", digits(&id));
    if !tenancy.tag().is_empty() {
        payload.put("tenant", digits(tenancy.tag()));
    }
    payload.with("database", database).into_text()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with a key of a suite that the program does not know was read as one without a key, as
    /// programs before wrote them. It has another form.
    #[test]
    fn a_key_of_an_unknown_suite_is_not_the_absence_of_a_key() {
        let read = |key: &str| {
            let payload = format!(
                "{{\"operation\":\"0102030405060708\",\"database\":\"d\",\"public_key\":\"{key}\"}}"
            );
            let time = Timestamp::from_nanoseconds(1).unwrap();
            let mut entry = Entry::new(time, "disguise.apply", b"6b76c450218c44c4");
            entry.payload = payload.as_bytes();
            LoggedOperation::of(&entry).unwrap()
        };
        let known = read(&"07".repeat(KEY_BYTES));
        assert!(known.unread.is_none() && known.public_key().is_some());
        for unknown in ["07".repeat(KEY_BYTES + 1), "0".to_owned(), String::new()] {
            let it = read(&unknown);
            assert_eq!(it.unread, Some(Unread::OtherForm), "{unknown}");
            assert!(it.may_be_of(["d", "e"]) && !it.may_be_of(["e", "f"]));
        }
    }
}
