//! Accounts: the rows of the users table, as the people of an operation have or lack them.

use std::collections::{BTreeMap, BTreeSet};

use super::written_id::named_in;
use crate::database::value::Value;
use crate::database::{Database, Dialect};
use crate::error::{Doing as _, Error};
use crate::statements::row::encoded;
use crate::statements::table::{found, select_keys};
use crate::transaction::transactions::Transactions;

/// Refuses a user who has no row in the users table, or has one in another spelling: principals
/// are compared letter by letter.
pub(super) fn refuse_without<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
) -> Result<(), Error> {
    refuse_nobody(open, user)?;
    refuse_unknown(open, user)
}

/// Refuses a user as above, whatever the id means.
fn refuse_unknown<D: Database>(open: &mut Transactions<D>, user: &Value) -> Result<(), Error> {
    refuse_namesakes(open, Some(user))?;
    let pseudo = open.application.pseudo();
    let (table, id) = (&pseudo.table, &pseudo.id);
    let there = found(&mut open.database, table, id, std::slice::from_ref(user))?;
    match there.values().next() {
        Some(held) if held.principal() == user.principal() => Ok(()),
        Some(_) => Err(Error::Value {
            what: format!(
                "table {table} has this user in another spelling, like capitals, accents or spaces in it; name them as it does"
            ),
        }),
        None => Err(Error::NoSuchUser {
            table: table.clone(),
        }),
    }
}

/// Refuses a user who is named as away and has a row in the users table.
pub(super) fn refuse_with<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
) -> Result<(), Error> {
    match refuse_unknown(open, user) {
        Err(Error::NoSuchUser { .. }) => Ok(()),
        Ok(()) => Err(Error::Value {
            what: format!(
                "table {} has a row of this user",
                open.application.pseudo().table
            ),
        }),
        Err(error) => Err(error),
    }
}

/// Refuses a user whose id means nobody where rows say whose they are.
pub(super) fn refuse_nobody<D: Database>(
    open: &mut Transactions<D>,
    user: &Value,
) -> Result<(), Error> {
    let name = user.principal();
    // A number is equal to no other.
    let is_text = matches!(user, Value::Text(_));
    let is_nobody =
        user.is_nobody() || is_text && of_nobody(open)?.iter().any(|it| it.principal() == name);
    if !is_nobody {
        return Ok(());
    }
    Err(Error::Value {
        what: means_nobody(&open.application.pseudo().table, user),
    })
}

/// Returns a sentence about an account of which the id means nobody, if there is one.
pub(super) fn nobodys<D: Database>(open: &mut Transactions<D>) -> Result<Option<String>, Error> {
    let held = of_nobody(open)?;
    let table = &open.application.pseudo().table;
    Ok(held.first().map(|it| means_nobody(table, it)))
}

/// Returns the ids in the users table that mean nobody, or that the database takes for one that does:
/// by some collations a blank is the empty text.
fn of_nobody<D: Database>(open: &mut Transactions<D>) -> Result<Vec<Value>, Error> {
    let dialect = open.database.dialect();
    let pseudo = open.application.pseudo();
    let (table, id) = (pseudo.table.clone(), pseudo.id.clone());
    let (_, live) = open.application.described()?;
    let names = [&b"0"[..], b""].into_iter();
    let ids: Vec<Value> = match dialect {
        Dialect::Sqlite if live.has_whole_ids() => vec![Value::Int(0)],
        Dialect::Sqlite => vec![Value::Int(0), Value::from("0"), Value::from("")],
        _ => names
            .filter_map(|it| named_in(live, dialect, &id, it))
            .collect(),
    };
    let ids: Vec<Value> = ids.into_iter().filter(Value::is_nobody).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let held = found(&mut open.database, &table, &id, &ids)?;
    Ok(held.into_values().collect())
}

fn means_nobody(table: &str, user: &Value) -> String {
    let id = match user {
        Value::Text(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    format!(
        "the id {id} in table {table} means nobody where rows say whose they are, as NULL, 0 and the empty text do, so that rows of such an account would stay as they are and no hold would bind them: give the account another id, there and in the rows that name it, or let it be no account"
    )
}

/// Refuses a user, or everybody, whose id the users table has twice, as values of two types: a
/// record names a person by what is written. `SQLite` alone stores such ids, in a column
/// without a type, or as bytes.
pub(super) fn refuse_namesakes<D: Database>(
    open: &mut Transactions<D>,
    user: Option<&Value>,
) -> Result<(), Error> {
    let dialect = open.database.dialect();
    if dialect != Dialect::Sqlite || open.application.described()?.1.has_whole_ids() {
        return Ok(());
    }
    let pseudo = open.application.pseudo();
    let table = &pseudo.table;
    let id = std::slice::from_ref(&pseudo.id);
    let is_double = if let Some(user) = user {
        let all = user.namesakes().into_iter();
        let all: Vec<Vec<Value>> = all.map(|it| vec![it]).collect();
        let held = select_keys(&mut open.database, table, id, id, &all)?;
        // The affinity of the column may find the text 7.0 by the number 7, which is somebody else.
        let name = user.principal();
        let held = held.iter();
        let held = held.filter(|row| row.iter().all(|it| it.principal() == name));
        // Where no key holds over the column, that is refused by itself.
        let held: BTreeSet<Vec<u8>> = held.map(|row| encoded(row)).collect();
        held.len() > 1
    } else {
        let (column, of) = (dialect.quote(&pseudo.id), dialect.quote(table));
        let own = open.database.tenancy.and(dialect, table, table);
        let sql = format!(
            "SELECT 1 FROM {of} WHERE {column} IS NOT NULL{} GROUP BY CAST({column} AS BLOB) HAVING COUNT(DISTINCT typeof({column})) > 1 LIMIT 1",
            own.sql
        );
        let found = open.database.query(&sql, &own.parameters);
        !found.doing("looking for ids of two types")?.is_empty()
    };
    if !is_double {
        return Ok(());
    }
    let what = format!(
        "column {} of {table} holds one id as values of two types, as the number 7 and the text 7, which no record distinguishes; give the column a type, and write each id in it",
        pseudo.id
    );
    Err(Error::Value { what })
}

/// Returns the ids of everybody in the users table.
pub(super) fn ids<D: Database>(open: &mut Transactions<D>) -> Result<Vec<Value>, Error> {
    let dialect = open.database.dialect();
    let pseudo = open.application.pseudo();
    let (table, id) = (&pseudo.table, &pseudo.id);
    let own = open.database.tenancy.and(dialect, table, table);
    let (column, from) = (dialect.quote(id), dialect.quote(table));
    let query = format!("SELECT {column} FROM {from} WHERE 1=1{}", own.sql);
    let rows = open.database.query(&query, &own.parameters);
    let rows = rows.doing("reading who there is")?;
    Ok(rows.into_iter().flatten().collect())
}

/// Returns everybody in the users table, by all names that entries may have for them.
pub(super) fn by_name<D: Database>(
    open: &mut Transactions<D>,
    salt: &[u8],
) -> Result<BTreeMap<String, Value>, Error> {
    let mut people = BTreeMap::new();
    for id in ids(open)? {
        for name in open.naming().all(salt, &id.principal())? {
            people.insert(name, id.clone());
        }
    }
    Ok(people)
}
