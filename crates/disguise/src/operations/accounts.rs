//! Accounts: the rows of the users table, as the people of an operation have or lack them.

use std::collections::{BTreeMap, BTreeSet};

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
    match refuse_without(open, user) {
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
        // Where no key holds over the column, that is refused by itself.
        let held: BTreeSet<Vec<u8>> = held.iter().map(|row| encoded(row)).collect();
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
        "column {} of {table} holds one id as values of two types, as the number 7 and the text 7, which no record tells apart; give the column a type, and write each id in it",
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
