//! State that a disguise or its reveal needs, read by one query: each further one is a round trip.

use std::collections::{BTreeMap, BTreeSet};

use crate::crypto::suite::PublicKey;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::update::{self, Recorded};
use crate::records::hold::Held;
use crate::records::registry::{Registered, damaged, named, registration};
use crate::records::section::PrincipalKind;
use crate::records::settings::{SALT, SALT_MARKS, UPDATES, refuse_other_salt};
use crate::records::shape::SHAPES;
use crate::records::tables::{
    DECAYED, HOLDS, INTENTS, PRINCIPALS, SCHEDULED, SETTINGS, bytes, uninstalled,
};
use crate::schema::Pseudo;
use crate::transaction::intent::{self, Intent};

/// The codes that mark the rows of the answer.
const SETTING: i64 = 0;
const HOLD: i64 = 1;
const REGISTRATION: i64 = 2;
const INTENT: i64 = 3;
const ROW: i64 = 4;
const SALT_MARKED: i64 = 5;
const SHAPE: i64 = 6;
const DECAY: i64 = 7;
const WAIT: i64 = 8;

/// A disguise stands on this.
pub(crate) struct ApplyContext {
    /// The salt of the current tenant's records, or of this database if there are no tenants.
    pub(crate) salt: Vec<u8>,
    /// The number of recorded updates.
    pub(crate) updates: u32,
    pub(crate) held: Held,
    /// The registration of the user who is meant, if there is one.
    pub(crate) registered: Registered,
    /// True if the users table has a row of that user.
    pub(crate) has_row: bool,
    /// Disguises wait for the end of a grace period, of this user or of others.
    pub(crate) has_scheduled: bool,
}

impl ApplyContext {
    pub(crate) fn read(
        database: &mut dyn TenantConnection,
        user: Option<&Value>,
        users: &Pseudo,
    ) -> Result<Self, Error> {
        let own = database.tenancy().among_keys("WHERE");
        let mut question = Question::new();
        question.ask(
            &format!("SELECT {HOLD}, held, held, 0 FROM {HOLDS}{}", own.sql),
            &own.parameters,
        );
        question.ask_scheduled(database);
        if let Some(user) = user {
            question.ask_registration(database, user);
            question.ask_row(database, user, users);
        }
        let mut answer = question.put(database)?;
        let mut registered = BTreeMap::new();
        for (key, standing) in std::mem::take(&mut answer.registrations) {
            if let Some(user) = user {
                registered.insert(user.principal(), own_registration(&key, standing)?);
            }
        }
        Ok(Self {
            salt: salt(database, &mut answer)?,
            updates: update::count(&recorded(&answer.settings)?),
            held: Held::of(answer.held),
            registered,
            has_row: answer.has_row,
            has_scheduled: answer.has_scheduled,
        })
    }

    /// Returns the key of the user who is meant, if they are registered.
    pub(crate) fn key_of(&self, user: &Value) -> Option<&PublicKey> {
        let known = self.registered.get(&user.principal());
        known.map(|(public, _)| public)
    }

    /// Refuses a scheduled disguise, or one in progress, if somebody else has the id of its person
    /// by now: an id may be reused, and `key` belongs to the person alone. A person who is away is
    /// neither registered nor has a row.
    pub(crate) fn refuse_other_person(
        &self,
        user: Option<&Value>,
        key: Option<&PublicKey>,
    ) -> Result<(), Error> {
        let Some(user) = user else {
            return Ok(());
        };
        let registered = self.key_of(user);
        let is_theirs = match (key, registered) {
            (None, _) => false,
            (Some(key), Some(registered)) => key == registered,
            (Some(_), None) => !self.has_row,
        };
        if is_theirs {
            return Ok(());
        }
        let what = if key.is_some() {
            "somebody else has the id of the disguise's person by now, or its person is not registered any more: cancel it"
        } else {
            "the disguise names no key of its person, so that somebody else may have the id by now: cancel it, and ask for it anew"
        };
        Err(Error::Value {
            what: what.to_owned(),
        })
    }
}

/// A reveal stands on this.
pub(crate) struct RevealContext {
    /// The salt of the current tenant's records, or of this database if there are no tenants.
    pub(crate) salt: Vec<u8>,
    /// The updates recorded, the oldest first.
    pub(crate) updates: Vec<Recorded>,
    /// The disguise, as long as it comes in chunks and is neither done nor ended.
    pub(crate) intent: Option<Intent>,
    /// The key with which somebody is registered under the id of the user, if anybody is.
    pub(crate) registered: Option<PublicKey>,
    /// A decay was applied to somebody.
    pub(crate) has_decayed: bool,
    /// Disguises wait for the end of a grace period, of this user or of others.
    pub(crate) has_scheduled: bool,
}

impl RevealContext {
    pub(crate) fn read(
        database: &mut dyn TenantConnection,
        id: DisguiseId,
        user: &Value,
    ) -> Result<Self, Error> {
        let key = intent::key(database, id);
        let mut question = Question::new();
        question.ask_registration(database, user);
        let sql = format!("SELECT {INTENT}, id, what, 0 FROM {INTENTS} WHERE id = ?");
        question.ask(&sql, &[key]);
        question.ask_decayed();
        question.ask_scheduled(database);
        let mut answer = question.put(database)?;
        let intent = answer.intent.as_deref().map(Intent::decode);
        Ok(Self {
            salt: salt(database, &mut answer)?,
            updates: recorded(&answer.settings)?,
            intent: intent.transpose()?,
            registered: match answer.registrations.pop() {
                Some((key, standing)) => Some(own_registration(&key, standing)?.0),
                None => None,
            },
            has_decayed: answer.has_decayed,
            has_scheduled: answer.has_scheduled,
        })
    }
}

/// Several questions in one; the settings are always among them.
struct Question {
    sql: String,
    parameters: Vec<Value>,
}

/// The rows of the answer, by the query that asked for them.
#[expect(
    clippy::struct_excessive_bools,
    reason = "answers to several questions, each by itself"
)]
#[derive(Default)]
struct Answer {
    settings: BTreeMap<Vec<u8>, Vec<u8>>,
    salt_marks: Vec<Vec<u8>>,
    held: BTreeSet<Vec<u8>>,
    /// Public keys and codes of standing.
    registrations: Vec<(Vec<u8>, i64)>,
    intent: Option<Vec<u8>>,
    has_row: bool,
    has_scheduled: bool,
    has_decayed: bool,
}

impl Question {
    fn new() -> Self {
        Self {
            sql: format!(
                "SELECT {SETTING}, name, value, 0 FROM {SETTINGS} WHERE name IN (?, ?) UNION ALL SELECT {SALT_MARKED}, mark, mark, 0 FROM {DECAYED} WHERE mark > ? AND mark < ? UNION ALL SELECT {SHAPE}, name, name, 0 FROM {SETTINGS} WHERE name > ? AND name < ?"
            ),
            parameters: [SALT, UPDATES]
                .iter()
                .chain(&SALT_MARKS)
                .chain(&SHAPES)
                .map(|it| bytes(it))
                .collect(),
        }
    }

    fn ask(&mut self, sql: &str, parameters: &[Value]) {
        self.sql.push_str(" UNION ALL ");
        self.sql.push_str(sql);
        self.parameters.extend_from_slice(parameters);
    }

    fn ask_registration(&mut self, database: &dyn TenantConnection, user: &Value) {
        let name = named(database.tenancy(), &user.principal());
        let sql = format!(
            "SELECT {REGISTRATION}, id, public_key, standing FROM {PRINCIPALS} WHERE id = ?"
        );
        self.ask(&sql, &[name]);
    }

    /// Asks whether `users` have a row of `user`. The salt replaces the columns of the row, which
    /// have other types.
    fn ask_row(&mut self, database: &dyn TenantConnection, user: &Value, users: &Pseudo) {
        let dialect = database.dialect();
        let (table, id) = (dialect.quote(&users.table), dialect.quote(&users.id));
        let mut own = database.tenancy().and(dialect, &users.table, &users.table);
        let sql = format!(
            "SELECT {ROW}, name, value, 0 FROM {SETTINGS} WHERE name = ? AND EXISTS (SELECT 1 FROM {table} WHERE {table}.{id} = ?{})",
            own.sql
        );
        let mut parameters = vec![bytes(SALT), user.clone()];
        parameters.append(&mut own.parameters);
        self.ask(&sql, &parameters);
    }

    /// Asks whether a decay was applied to anybody.
    fn ask_decayed(&mut self) {
        let sql = format!(
            "SELECT {DECAY}, name, value, 0 FROM {SETTINGS} WHERE name = ? AND EXISTS (SELECT 1 FROM {DECAYED} WHERE mark <= ? OR mark >= ?)"
        );
        let parameters = [&[SALT], SALT_MARKS.as_slice()].concat();
        let parameters: Vec<Value> = parameters.iter().map(|it| bytes(it)).collect();
        self.ask(&sql, &parameters);
    }

    /// Asks whether anything waits for the end of a grace period.
    fn ask_scheduled(&mut self, database: &dyn TenantConnection) {
        let mut own = database.tenancy().among_keys("WHERE");
        let sql = format!(
            "SELECT {WAIT}, name, value, 0 FROM {SETTINGS} WHERE name = ? AND EXISTS (SELECT 1 FROM {SCHEDULED}{})",
            own.sql
        );
        let mut parameters = vec![bytes(SALT)];
        parameters.append(&mut own.parameters);
        self.ask(&sql, &parameters);
    }

    fn put(&self, database: &mut dyn TenantConnection) -> Result<Answer, Error> {
        let rows = database.query(&self.sql, &self.parameters);
        let mut answer = Answer::default();
        let mut shapes = BTreeSet::new();
        for row in rows.map_err(uninstalled)? {
            let Ok(
                [
                    Value::Int(kind),
                    Value::Bytes(name),
                    Value::Bytes(value),
                    Value::Int(number),
                ],
            ) = <[Value; 4]>::try_from(row)
            else {
                return Err(Error::Forged);
            };
            match kind {
                SETTING => drop(answer.settings.insert(name, value)),
                SHAPE => drop(shapes.insert(name)),
                SALT_MARKED => answer.salt_marks.push(name),
                HOLD => drop(answer.held.insert(name)),
                REGISTRATION => answer.registrations.push((value, number)),
                ROW => answer.has_row = true,
                DECAY => answer.has_decayed = true,
                WAIT => answer.has_scheduled = true,
                INTENT => answer.intent = Some(value),
                _ => return Err(Error::Forged),
            }
        }
        database.shapes().found(shapes);
        Ok(answer)
    }
}

/// Parses the registration of the user who is meant.
fn own_registration(public: &[u8], standing: i64) -> Result<(PublicKey, PrincipalKind), Error> {
    registration(public, standing).map_err(damaged("of this user"))
}

fn salt(database: &dyn TenantConnection, answer: &mut Answer) -> Result<Vec<u8>, Error> {
    let own = answer.settings.remove(SALT).ok_or(Error::NotInstalled)?;
    refuse_other_salt(&own, &answer.salt_marks)?;
    Ok(database.tenancy().salt(own))
}

fn recorded(settings: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<Vec<Recorded>, Error> {
    update::listed(settings.get(UPDATES).map(Vec::as_slice))
}
