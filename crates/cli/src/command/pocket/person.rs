//! A person's own database: what a log holds about one subject, in a fixed schema.
//!
//! The schema is section 16 of `docs/pocketdb.md`. Names that recur are rows of small tables, so
//! that an entry is narrow and a query on any of them follows an index.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_log::reader::{Filter, Found};
use probity_pocketdb::Value;

use super::change::NoRows;
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::command::open_reader;
use crate::config::Environment;
use crate::entry_json::{format_time, needs_base64};
use crate::failure::Failure;

/// The tables, referenced ones first.
const SCHEMA: [&str; 9] = [
    "CREATE TABLE about (id INTEGER PRIMARY KEY, name TEXT(16), value TEXT(255))",
    "CREATE TABLE controllers (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE processors (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE actors (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE purposes (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE bases (id INTEGER PRIMARY KEY, name TEXT(255))",
    "CREATE TABLE acts (id INTEGER PRIMARY KEY, controller INTEGER REFERENCES controllers(id), \
     processor INTEGER REFERENCES processors(id), actor INTEGER REFERENCES actors(id), \
     purpose INTEGER REFERENCES purposes(id), basis INTEGER REFERENCES bases(id))",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, act INTEGER REFERENCES acts(id), \
     day TEXT(10) INDEXED, time INTEGER INDEXED, action TEXT(64) INDEXED, outcome TEXT(8) INDEXED, \
     stream TEXT(128), number INTEGER, others INTEGER, erased INTEGER)",
    "CREATE TABLE contents (id INTEGER PRIMARY KEY, entry INTEGER REFERENCES entries(id), \
     field TEXT(8), encoding TEXT(8), piece INTEGER, text TEXT(300))",
];
/// The tables of names, in the order in which an act refers to them.
const DICTIONARIES: [&str; 5] = ["controllers", "processors", "actors", "purposes", "bases"];
/// Names and combinations of them that are remembered while entries come in.
const NAMES_MAX: usize = 1 << 20;
/// Bytes of one piece of a key or a payload.
const PIECE_BYTES: usize = 300;
/// Characters of a date in RFC 3339.
const DAY_BYTES: usize = 10;
/// Rows that become final together.
const ROWS_PER_COMMIT: u32 = 32;

/// Takes the entries about the subject that the arguments name.
pub(super) fn fill(
    place: &Place,
    vault: &mut Vault,
    args: &PocketCreate,
    environment: &Environment,
) -> Result<(), Failure> {
    let (Some(log), Some(subject)) = (&args.log, &args.subject) else {
        return Ok(());
    };
    let reader = open_reader(log, args.log_key.as_deref(), environment)?;
    let mut person = Person {
        place,
        vault,
        names: std::array::from_fn(|_| HashMap::new()),
        acts: HashMap::new(),
        pending: 0,
    };
    for statement in SCHEMA {
        person.execute(statement, &[])?;
    }
    person.about("subject", subject)?;
    person.about("log", reader.origin())?;
    let filter = Filter {
        subject: Some(subject.clone()),
        ..Filter::default()
    };
    reader.read(&filter, &mut |found| person.entry(found))?;
    person.commit()
}

struct Person<'a> {
    place: &'a Place,
    vault: &'a mut Vault,
    /// The ids of the names in each dictionary.
    names: [HashMap<String, i64>; DICTIONARIES.len()],
    acts: HashMap<[i64; DICTIONARIES.len()], i64>,
    /// Rows since the last commit.
    pending: u32,
}

impl Person<'_> {
    fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        let result = self.vault.execute(text, values, &mut NoRows);
        result
            .map(drop)
            .map_err(|error| self.place.failed(self.vault, error))
    }

    fn insert(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        if self.pending == 0 {
            self.execute("BEGIN", &[])?;
        }
        self.execute(text, values)?;
        self.pending += 1;
        if self.pending >= ROWS_PER_COMMIT {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        if self.pending > 0 {
            self.pending = 0;
            self.execute("COMMIT", &[])?;
        }
        Ok(())
    }

    fn about(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let values = [Value::Text(name), Value::Text(value)];
        self.insert("INSERT INTO about (name, value) VALUES (?, ?)", &values)
    }

    fn entry(&mut self, found: &Found<'_>) -> Result<(), Failure> {
        let entry = &found.entry;
        let act = self.act([
            entry.controller,
            entry.processor,
            entry.actor,
            entry.purpose,
            entry.basis,
        ])?;
        let time = format_time(entry.time);
        let number = i64::try_from(found.index).unwrap_or(i64::MAX);
        let subjects = i64::try_from(entry.subjects.iter().count()).unwrap_or(i64::MAX);
        let values = [
            Value::Integer(act),
            Value::Text(time.get(..DAY_BYTES).unwrap_or(&time)),
            Value::Integer(entry.time.nanoseconds()),
            Value::Text(entry.action),
            Value::Text(entry.outcome.as_str()),
            Value::Text(found.stream.as_str()),
            Value::Integer(number),
            // Who else an entry concerns is not this person's to see, only that there are some.
            Value::Integer((subjects - 1).max(0)),
            Value::Integer(i64::from(found.erased)),
        ];
        self.insert(
            "INSERT INTO entries (act, day, time, action, outcome, stream, number, others, erased) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &values,
        )?;
        let table = self.vault.table("entries").unwrap_or_default();
        let id = i64::from(self.vault.count(table));
        self.content(id, "key", entry.key)?;
        self.content(id, "payload", entry.payload)
    }

    /// The id of a combination of names.
    fn act(&mut self, names: [&str; DICTIONARIES.len()]) -> Result<i64, Failure> {
        let mut ids = [0; DICTIONARIES.len()];
        for (number, (id, name)) in ids.iter_mut().zip(names).enumerate() {
            *id = self.name(number, name)?;
        }
        if let Some(&known) = self.acts.get(&ids) {
            return Ok(known);
        }
        self.insert(
            "INSERT INTO acts (controller, processor, actor, purpose, basis) VALUES (?, ?, ?, ?, ?)",
            &ids.map(Value::Integer),
        )?;
        let id = next_id(self.acts.len())?;
        self.acts.insert(ids, id);
        Ok(id)
    }

    fn name(&mut self, number: usize, name: &str) -> Result<i64, Failure> {
        let dictionary = self.names.get(number);
        if let Some(&known) = dictionary.and_then(|names| names.get(name)) {
            return Ok(known);
        }
        let table = DICTIONARIES.get(number).copied().unwrap_or_default();
        let statement = format!("INSERT INTO {table} (name) VALUES (?)");
        self.insert(&statement, &[Value::Text(name)])?;
        let Some(names) = self.names.get_mut(number) else {
            return Err(Failure::new("an act has too many names"));
        };
        let id = next_id(names.len())?;
        names.insert(name.to_owned(), id);
        Ok(id)
    }

    /// Writes a key or a payload in pieces; nothing of an empty one.
    fn content(&mut self, entry: i64, field: &str, bytes: &[u8]) -> Result<(), Failure> {
        let text = str::from_utf8(bytes).ok().filter(|_| !needs_base64(bytes));
        let (encoding, text) = match text {
            Some(text) if !text.contains('\0') => ("text", text.to_owned()),
            _ => ("base64", STANDARD.encode(bytes)),
        };
        let mut rest = text.as_str();
        let mut piece = 0;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            piece += 1;
            let values = [
                Value::Integer(entry),
                Value::Text(field),
                Value::Text(encoding),
                Value::Integer(piece),
                Value::Text(part),
            ];
            self.insert(
                "INSERT INTO contents (entry, field, encoding, piece, text) VALUES (?, ?, ?, ?, ?)",
                &values,
            )?;
            rest = after;
        }
        Ok(())
    }
}

/// The id of a row behind `count` others.
fn next_id(count: usize) -> Result<i64, Failure> {
    if count >= NAMES_MAX {
        return Err(Failure::new("the log has too many different names"));
    }
    Ok(i64::try_from(count + 1).unwrap_or(i64::MAX))
}
