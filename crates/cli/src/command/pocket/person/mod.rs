//! A person's own database, in a fixed schema.
//!
//! The sources are a log and a store with their data about one subject, and disguises with the rows
//! that they hid. The credentials that reveal the rows come along.
//!
//! "A person's own database" in `docs/pocketdb.md` gives the schema. Recurring names are rows of small tables, so
//! that rows are narrow and a query on any name follows an index.

mod disguises;
mod entries;
mod exact_json;
mod items;

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_pocketdb::Value;

use super::change::NoRows;
use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::command::reading::{LostForm, nothing_about};
use crate::config::Environment;
use crate::entry_json::needs_base64;
use crate::failure::{Failure, Status};
use crate::output::note;

/// The table with the subject of the database and the sources of its rows.
const ABOUT: &str = "CREATE TABLE about (id INTEGER PRIMARY KEY, name TEXT(16), value TEXT(255))";
/// Rows per commit.
const ROWS_PER_COMMIT: u32 = 32;
/// Bytes of one piece of a value.
const VALUE_PIECE_BYTES: usize = 120;
/// The most values of one row.
const VALUES_MAX: usize = 8;

/// The result of an import about a subject.
pub(super) struct Filled {
    /// The status of the command, if all else succeeds.
    pub(super) status: Status,
    /// Entries of the log, if one was named.
    pub(super) entries: Option<u64>,
    /// Keys of the store, if one was named.
    pub(super) keys: Option<u64>,
    /// Losses of the log that were accepted: nothing tells whom they were about.
    pub(super) lost: Vec<LostForm>,
}

/// Imports everything about the subject that the arguments name.
pub(super) fn fill(
    place: &Place,
    vault: &mut Vault,
    args: &PocketCreate,
    environment: &Environment,
) -> Result<Filled, Failure> {
    let Some(subject) = &args.subject else {
        return Ok(Filled {
            status: Status::Done,
            entries: None,
            keys: None,
            lost: Vec::new(),
        });
    };
    let mut person = Person {
        place,
        vault,
        pending: 0,
    };
    person.create(&[ABOUT])?;
    person.about("subject", subject)?;
    let (status, lost) = entries::fill(&mut person, args, environment)?;
    items::fill(&mut person, args, subject)?;
    disguises::fill(&mut person, args)?;
    person.commit()?;
    let count = |table: &str, source: &Option<PathBuf>| {
        source.as_ref()?;
        let table = person.vault.table(table)?;
        Some(u64::from(person.vault.count(table)))
    };
    let filled = Filled {
        status,
        entries: count("entries", &args.log),
        keys: count("items", &args.store),
        lost,
    };
    tell_nothing(args, subject, &filled);
    Ok(filled)
}

/// Reports sources without the subject: a mistyped name must not pass for somebody about whom
/// nothing is held.
fn tell_nothing(args: &PocketCreate, subject: &str, filled: &Filled) {
    if let (Some(log), Some(0)) = (&args.log, filled.entries) {
        nothing_about(subject, log);
    }
    if let (Some(store), Some(0)) = (&args.store, filled.keys) {
        note(&format!(
            "0 keys about {subject} found in {}",
            store.display()
        ));
    }
}

/// The database while it is filled.
struct Person<'a> {
    place: &'a Place,
    vault: &'a mut Vault,
    /// Rows since the last commit.
    pending: u32,
}

impl Person<'_> {
    fn execute(&mut self, text: &str, values: &[Value<'_>]) -> Result<(), Failure> {
        let result = self.vault.execute(text, values, &mut NoRows);
        result.map(drop).map_err(|error| self.place.refused(error))
    }

    /// Creates tables, outside any transaction.
    fn create(&mut self, statements: &[&str]) -> Result<(), Failure> {
        self.commit()?;
        statements
            .iter()
            .try_for_each(|statement| self.execute(statement, &[]))
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

    /// Returns the id of the last row of `table`; zero without one.
    fn last(&self, table: &str) -> i64 {
        let table = self.vault.table(table);
        table.map_or(0, |table| i64::from(self.vault.count(table)))
    }

    /// Writes a value in pieces, an empty one too.
    fn value(&mut self, statement: &str, owner: &[Value<'_>], bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            let mut values = owner.to_vec();
            values.extend([Value::Text("text"), Value::Integer(1), Value::Text("")]);
            return self.insert(statement, &values);
        }
        self.pieces(statement, owner, bytes, VALUE_PIECE_BYTES)
    }

    /// Writes `bytes` in pieces, each a row of `owner`, encoding, number and text. No bytes give no
    /// row.
    fn pieces(
        &mut self,
        statement: &str,
        owner: &[Value<'_>],
        bytes: &[u8],
        piece_bytes: usize,
    ) -> Result<(), Failure> {
        let text = str::from_utf8(bytes).ok().filter(|_| !needs_base64(bytes));
        let (encoding, text) = match text {
            Some(text) if !text.contains('\0') => ("text", text.to_owned()),
            _ => ("base64", STANDARD.encode(bytes)),
        };
        let mut rest = text.as_str();
        let mut piece = 0;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.floor_char_boundary(piece_bytes));
            piece += 1;
            let mut values = Vec::with_capacity(VALUES_MAX);
            values.extend_from_slice(owner);
            values.extend([
                Value::Text(encoding),
                Value::Integer(piece),
                Value::Text(part),
            ]);
            self.insert(statement, &values)?;
            rest = after;
        }
        Ok(())
    }
}
