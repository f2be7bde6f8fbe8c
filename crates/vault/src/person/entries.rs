//! Log entries about a person.

use std::collections::HashMap;
use std::fmt::Write as _;

use probity_format::Timestamp;
use probity_format::time::format_time;
use probity_log::AcceptedLoss;
use probity_log::reader::{Damage, Filter, Found, Reader};
use probity_pocketdb::flash::Nand;
use probity_pocketdb::{SecureStore, Value};

use super::names::{Others, Shown};
use super::{Person, WITHHELD};
use crate::error::VaultError;
use crate::observer::Observer;

/// The tables, referenced ones first.
const SCHEMA: [&str; 8] = [
    "CREATE TABLE controllers (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE processors (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE actors (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE purposes (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE bases (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE acts (id INTEGER PRIMARY KEY, controller INTEGER REFERENCES controllers(id), \
     processor INTEGER REFERENCES processors(id), actor INTEGER REFERENCES actors(id), \
     purpose INTEGER REFERENCES purposes(id), basis INTEGER REFERENCES bases(id), \
     submitter TEXT(255), claimed TEXT(16), policy TEXT(64), rule TEXT(255))",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, act INTEGER REFERENCES acts(id), \
     day TEXT(10) INDEXED, time INTEGER INDEXED, taken INTEGER, action TEXT(64) INDEXED, outcome TEXT(8) INDEXED, \
     stream TEXT(128), number INTEGER, others INTEGER, erased INTEGER)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, entry INTEGER REFERENCES entries(id), \
     field TEXT(12), encoding TEXT(8), piece INTEGER, text TEXT(300))",
];
/// The tables of names, in the order in which an act refers to them.
const DICTIONARIES: [&str; 5] = ["controllers", "processors", "actors", "purposes", "bases"];
/// The most names per dictionary, and the most acts, that are kept in memory.
const NAMES_MAX: usize = 1 << 20;
/// Bytes of one piece of a key or a payload.
const PIECE_BYTES: usize = 300;
/// The most accepted losses that the database names.
const LOSSES_MAX: usize = 100;
/// Characters of a date in RFC 3339.
const DAY_BYTES: usize = 10;

/// Imports the entries about the person. Returns what was left out because of damage.
pub(super) fn fill<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    reader: &Reader,
    damaged_too: bool,
    observer: &mut dyn Observer,
) -> Result<Damage, VaultError> {
    person.create(&SCHEMA)?;
    person.about("log", reader.origin())?;
    let filter = Filter {
        subject: Some(person.subject.clone()),
        ..Filter::default()
    };
    let mut entries = Entries {
        person,
        dictionaries: DICTIONARIES.map(Dictionary::new),
        acts: HashMap::new(),
    };
    let mut number = 0;
    let mut visit = |found: &Found<'_>| {
        number += 1;
        observer.took(number);
        entries.entry(found)
    };
    let damage = if damaged_too {
        reader.read_damaged(&filter, &mut visit)?
    } else {
        reader.read(&filter, &mut visit)?;
        Damage::default()
    };
    mark_damage(person, &damage)?;
    let lost: Vec<&AcceptedLoss> = reader.accepted_losses().collect();
    mark_losses(person, &lost)?;
    Ok(damage)
}

/// Records in the database itself which parts of the log were given up: whom they were about is not
/// known.
fn mark_losses<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    lost: &[&AcceptedLoss],
) -> Result<(), VaultError> {
    for AcceptedLoss { loss, time, .. } in lost.iter().take(LOSSES_MAX) {
        let said = format!(
            "{}: {} from frame {} to before {}, accepted at {}",
            loss.stream,
            loss.lost_part(),
            loss.from,
            loss.to,
            format_time(*time)
        );
        person.about("lost", &said)?;
    }
    match lost.len().saturating_sub(LOSSES_MAX) {
        0 => Ok(()),
        more => person.about("lost_more", &more.to_string()),
    }
}

/// Records in the database itself what the log had lost, because its reader sees no message and no
/// exit status.
fn mark_damage<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    damage: &Damage,
) -> Result<(), VaultError> {
    if damage.is_none() {
        return Ok(());
    }
    let missing = damage.missing();
    let entries = match (missing.entries, missing.is_least) {
        (0, true) => "unknown".to_owned(),
        (entries, true) => format!("at least {entries}"),
        (entries, false) => entries.to_string(),
    };
    let faults = u64::try_from(damage.faults.len()).unwrap_or(u64::MAX);
    let faults = faults.saturating_add(damage.faults_unlisted);
    person.about("missing", &entries)?;
    person.about("faults", &faults.to_string())
}

struct Entries<'p, 'a, F: Nand, S: SecureStore> {
    person: &'p mut Person<'a, F, S>,
    dictionaries: [Dictionary; DICTIONARIES.len()],
    acts: HashMap<Act, i64>,
}

/// A table of names.
struct Dictionary {
    table: &'static str,
    ids: HashMap<String, i64>,
}

impl Dictionary {
    fn new(table: &'static str) -> Self {
        Self {
            table,
            ids: HashMap::new(),
        }
    }

    /// Returns the id of `name`, and inserts a new name first.
    fn id<F: Nand, S: SecureStore>(
        &mut self,
        person: &mut Person<'_, F, S>,
        name: &str,
    ) -> Result<i64, VaultError> {
        if let Some(&known) = self.ids.get(name) {
            return Ok(known);
        }
        let statement = format!("INSERT INTO {} (name) VALUES (?)", self.table);
        person.insert(&statement, &[Value::Text(name)])?;
        let id = next_id(self.ids.len())?;
        self.ids.insert(name.to_owned(), id);
        Ok(id)
    }
}

/// A combination of names, submitter, claims and policy; a row of `acts`.
#[derive(PartialEq, Eq, Hash)]
struct Act {
    names: [i64; DICTIONARIES.len()],
    submitter: String,
    /// The fields that only the caller vouches for, separated by spaces.
    claimed: String,
    /// The policy's digest in hexadecimal digits.
    policy: String,
    rule: String,
}

impl<F: Nand, S: SecureStore> Entries<'_, '_, F, S> {
    fn entry(&mut self, found: &Found<'_>) -> Result<(), VaultError> {
        let subject = self.person.subject.clone();
        let entry = Others::of(found, &subject).shown(&found.entry, found.stream);
        let act = self.act(&entry)?;
        let time = format_time(entry.time);
        let number = i64::try_from(found.index).unwrap_or(i64::MAX);
        let subjects =
            found.entry.subjects.iter().count() + found.closed.subjects + found.missing.subjects;
        let subjects = i64::try_from(subjects).unwrap_or(i64::MAX);
        let values = [
            Value::Integer(act),
            Value::Text(time.get(..DAY_BYTES).unwrap_or(&time)),
            Value::Integer(entry.time.nanoseconds()),
            Value::Integer(entry.taken.map_or(0, Timestamp::nanoseconds)),
            Value::Text(&entry.action),
            Value::Text(entry.outcome.as_str()),
            Value::Text(&entry.stream),
            Value::Integer(number),
            // The person may see how many others an entry concerns, not who they are.
            Value::Integer((subjects - 1).max(0)),
            Value::Integer(i64::from(found.erased)),
        ];
        self.person.insert(
            "INSERT INTO entries (act, day, time, taken, action, outcome, stream, number, others, erased) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &values,
        )?;
        let id = self.person.last("entries");
        self.content(id, "key", entry.key.as_deref())?;
        self.content(id, "payload", entry.payload.as_deref())?;
        let request = entry.idempotency.map(hex);
        self.content(id, "idempotency", request.as_deref().map(str::as_bytes))
    }

    /// Returns the id of the act of `entry`, and inserts a new act first.
    fn act(&mut self, entry: &Shown<'_>) -> Result<i64, VaultError> {
        let said = [
            &entry.controller,
            &entry.processor,
            &entry.actor,
            &entry.purpose,
            &entry.basis,
        ];
        let mut names = [0; DICTIONARIES.len()];
        let dictionaries = self.dictionaries.iter_mut().zip(said);
        for (id, (dictionary, name)) in names.iter_mut().zip(dictionaries) {
            *id = dictionary.id(self.person, name)?;
        }
        let claimed: Vec<&str> = entry.claimed.fields().collect();
        let act = Act {
            names,
            submitter: entry.submitter.to_string(),
            claimed: claimed.join(" "),
            policy: entry.policy.map(|it| hex(it)).unwrap_or_default(),
            rule: entry.rule.to_string(),
        };
        if let Some(&known) = self.acts.get(&act) {
            return Ok(known);
        }
        let mut values = act.names.map(Value::Integer).to_vec();
        let said = [&act.submitter, &act.claimed, &act.policy, &act.rule];
        values.extend(said.map(|text| Value::Text(text)));
        self.person.insert(
            "INSERT INTO acts (controller, processor, actor, purpose, basis, submitter, claimed, policy, rule) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &values,
        )?;
        let id = next_id(self.acts.len())?;
        self.acts.insert(act, id);
        Ok(id)
    }

    /// Writes a key or a payload in pieces; an empty one gives no row, and one that is left out a row
    /// that says so.
    fn content(&mut self, entry: i64, field: &str, bytes: Option<&[u8]>) -> Result<(), VaultError> {
        let statement =
            "INSERT INTO contents (entry, field, encoding, piece, text) VALUES (?, ?, ?, ?, ?)";
        let owner = [Value::Integer(entry), Value::Text(field)];
        if let Some(bytes) = bytes {
            return self.person.pieces(statement, &owner, bytes, PIECE_BYTES);
        }
        let mut values = owner.to_vec();
        values.extend([Value::Text(WITHHELD), Value::Integer(1), Value::Text("")]);
        self.person.insert(statement, &values)
    }
}

/// Returns the id of the row after `count` others.
fn next_id(count: usize) -> Result<i64, VaultError> {
    if count >= NAMES_MAX {
        return Err(VaultError::TooManyNames);
    }
    Ok(i64::try_from(count + 1).unwrap_or(i64::MAX))
}

/// Formats a digest in lower-case hexadecimal digits.
fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}
