//! Registrations of people whose accounts the application deleted.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use super::people::People;
use super::written_id::named_in;
use super::{accounts, holders};
use crate::database::Database;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::credential::Credential;
use crate::records::name::digits;
use crate::records::registry;
use crate::records::section::PrincipalKind;
use crate::records::settings;
use crate::records::tables::{PRINCIPALS, bytes, uninstalled};
use crate::statements::table::existing;
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;
use crate::transaction::{intent, scheduled};

/// Registrations that are looked at together.
const PAGE: usize = 1_000;

/// People who are registered and have no row in the users table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rowless {
    /// Their ids, as a person writes them.
    pub users: Vec<String>,
    /// The number of people whose ids are stored only as hashes.
    pub hashed: u64,
}

impl Rowless {
    /// Returns whether there is nobody.
    pub const fn is_empty(&self) -> bool {
        self.users.is_empty() && self.hashed == 0
    }

    /// Returns a caution that names these people, if there are any.
    pub fn caution(&self) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let mut who = self.users.clone();
        if self.hashed > 0 {
            who.push(format!("{} of whom the id is kept as a hash", self.hashed));
        }
        Some(format!(
            "registered, and without a row in the users table: {}; a newcomer with such an id has the key of the person before, so end it with: probity disguise unregister",
            who.join(", ")
        ))
    }
}

impl<D: Database> People<'_, D> {
    /// Ends the registration of a user whose row is gone, so that the next user with the id can
    /// register and nothing of theirs is sealed to the former person. That person's schedules and
    /// disguises in chunks end, and in those of everybody the marks that they returned or forgot;
    /// records and credentials stay theirs. An application calls this when it deletes an account,
    /// of a placeholder or of somebody who had everything forgotten, too. While the row exists, the
    /// person's credential is required.
    ///
    /// # Errors
    /// [`Error::Value`] where the users table has a row of the user and no credential is given, or
    /// where nothing was registered or marked; [`Error::WrongCredential`], [`Error::Database`],
    /// [`Error::Audit`].
    pub fn unregister(
        &mut self,
        user: &Value,
        credential: Option<&Credential<'_>>,
        time: Timestamp,
    ) -> Result<(), Error> {
        let asked = OperationRequest::new("disguise.unregister", String::new(), Some(user), time);
        let cost = self.options.key_cost;
        self.transactions.operation(&asked, |open| {
            open.refresh()?;
            match credential {
                Some(credential) => drop(holders::present(open, user, credential, cost)?),
                None => accounts::refuse_with(open, user)?,
            }
            let database = &mut open.database;
            let salt = settings::salt(database)?;
            let marks = intent::remove_marks(database, &salt, user)?;
            let name = [user.principal()];
            let known = registry::principals(database, &name)?.into_values().next();
            let key = match known {
                // The account of a placeholder may be deleted, too, and its id given to somebody.
                Some((key, PrincipalKind::Placeholder | PrincipalKind::Departed))
                    if credential.is_none() =>
                {
                    key
                }
                Some((key, PrincipalKind::Person)) => key,
                // A person who had everything forgotten is not registered and may have left marks.
                None if marks > 0 => return open.done(&asked, ended(marks)),
                _ => {
                    return Err(Error::Value {
                        what: "the user is not registered".to_owned(),
                    });
                }
            };
            registry::unregister(database, &name)?;
            let scheduled = scheduled::end(database, &key, Some(user))?;
            let (mut chunks, mut hidden) = (Vec::new(), 0_u64);
            for (id, intent) in intent::of_person(database, &key)? {
                intent::remove(database, id)?;
                chunks.push(id.to_string());
                hidden = hidden.saturating_add(intent.hidden());
            }
            let scheduled: Vec<String> = scheduled.iter().map(ToString::to_string).collect();
            let payload = ended(marks)
                .with("public_key", digits(&key.encode()))
                .with("scheduled", scheduled)
                .with("chunks", chunks)
                .with("hidden", hidden);
            open.done(&asked, payload)
        })
    }

    /// Returns the people who are registered and have no row in the users table: the application
    /// deleted it, or gave it another id. Anybody who gets the id lies under their key until
    /// [`People::unregister`] ends it. Where there are tenants nobody is named: what is kept of an
    /// id does not say of which tenant it is.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::Spec`], [`Error::NotInstalled`].
    pub fn rowless(&mut self) -> Result<Rowless, Error> {
        rowless(self.transactions)
    }
}

/// Returns the people who are registered and have no row in the users table, in a transaction of its
/// own.
pub(super) fn rowless<D: Database>(transactions: &mut Transactions<D>) -> Result<Rowless, Error> {
    transactions.refresh()?;
    if transactions.application.has_tenants() {
        return Ok(Rowless::default());
    }
    transactions.transaction(without_row)
}

fn without_row<D: Database>(open: &mut Transactions<D>) -> Result<Rowless, Error> {
    let mut left = BTreeSet::new();
    let mut last = None;
    loop {
        let page = registered_behind(open, last.as_ref())?;
        let mut ids: Vec<(Vec<u8>, Value)> = Vec::with_capacity(page.len());
        for name in &page {
            ids.extend(written(open, name)?.map(|id| (name.clone(), id)));
        }
        let asked: Vec<Value> = ids.iter().map(|(_, id)| id.clone()).collect();
        let users = open.application.pseudo();
        let there = existing(&mut open.database, &users.table, &users.id, &asked)?;
        let there: BTreeSet<&Vec<u8>> = ids
            .iter()
            .filter(|(_, id)| there.contains(&id.principal()))
            .map(|(name, _)| name)
            .collect();
        left.extend(page.iter().filter(|it| !there.contains(it)).cloned());
        match page.last() {
            Some(name) if page.len() == PAGE => last = Some(bytes(name)),
            _ => break,
        }
    }
    if !left.is_empty() {
        // Ids that are kept as hashes, or that a column without a type holds otherwise, are found from the other side.
        for id in accounts::ids(open)? {
            let name = registry::named(&open.database.tenancy, &id.principal());
            left.remove(&name.principal());
        }
    }
    let mut rowless = Rowless::default();
    for name in left {
        let id = written(open, &name)?.filter(|it| matches!(it, Value::Bytes(_)));
        match (id, String::from_utf8(name)) {
            (Some(id), _) => rowless.users.push(id.written()),
            (None, Ok(text)) if text.len() < registry::ID_HASH_BYTES => {
                rowless.users.push(text);
            }
            _ => rowless.hashed = rowless.hashed.saturating_add(1),
        }
    }
    Ok(rowless)
}

/// Returns the names of the next people who are registered.
fn registered_behind<D: Database>(
    open: &mut Transactions<D>,
    last: Option<&Value>,
) -> Result<Vec<Vec<u8>>, Error> {
    let person = PrincipalKind::Person.code();
    let behind = if last.is_some() { " AND id > ?" } else { "" };
    let sql = format!(
        "SELECT id FROM {PRINCIPALS} WHERE standing = {person}{behind} ORDER BY id LIMIT {PAGE}"
    );
    let parameters: Vec<Value> = last.into_iter().cloned().collect();
    let rows = open.database.query(&sql, &parameters);
    let rows = rows.map_err(uninstalled)?;
    Ok(rows.iter().flatten().map(Value::principal).collect())
}

/// Returns the id that a name stands for, as the users table may hold it; nothing for a hash.
fn written<D: Database>(open: &Transactions<D>, name: &[u8]) -> Result<Option<Value>, Error> {
    if name.len() >= registry::ID_HASH_BYTES {
        return Ok(None);
    }
    let (_, live) = open.application.described()?;
    let dialect = open.database.dialect();
    Ok(named_in(live, dialect, &live.pseudo.id, name))
}

/// Returns the field of the entry that counts the marks in disguises in chunks that ended.
fn ended(marks: u64) -> Payload {
    Payload::new().with("marks", marks)
}
