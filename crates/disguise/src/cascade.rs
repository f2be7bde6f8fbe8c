//! Rows that refer to rows about to be removed, so that none of them changes unseen.

use std::collections::BTreeSet;

use crate::apply::encoded;
use crate::database::{Catalog, Dialect, ForeignKey, OnDelete};
use crate::error::{Doing as _, Error};
use crate::predicate::Fragment;
use crate::schema::Known;
use crate::table::list;
use crate::tenant::Session;
use crate::value::Value;

/// Refuses when rows that refer to rows about to be removed, and are not among the rows of the same table with the keys `going`,
/// would silently change.
pub(crate) fn refuse_cascade(
    database: &mut dyn Session,
    catalog: &Catalog,
    (table, chosen): (&Known, &Fragment),
    going: &[Vec<Value>],
) -> Result<(), Error> {
    let dialect = database.dialect();
    // Rows of other tenants count too: the database would change them all the same.
    let chosen = database.tenancy().bound(dialect, &table.name, chosen);
    let going: BTreeSet<Vec<u8>> = going.iter().map(|key| encoded(key)).collect();
    for (child, known) in catalog {
        let keys = known.foreign_keys.iter();
        let keys = keys.filter(|key| key.to_table == table.name);
        for key in keys.filter(|key| key.on_delete == OnDelete::Change) {
            let is_own = *child == table.name;
            let wanted = if is_own {
                let keys = table.identity.iter().map(|it| dialect.quote(it));
                let keys = keys.map(|it| format!("probity_child.{it}"));
                keys.collect::<Vec<_>>().join(",")
            } else {
                "COUNT(*)".to_owned()
            };
            let children = format!("{} AS probity_child", dialect.quote(child));
            let joined = joined(
                (dialect, table, key),
                &chosen.sql,
                (&children, "probity_child"),
            );
            let sql = format!("SELECT {wanted} FROM {joined}");
            let rows = database
                .query(&sql, &chosen.parameters)
                .doing("counting references")?;
            let rows = if is_own {
                let others = rows.iter().filter(|row| !going.contains(&encoded(row)));
                u64::try_from(others.count()).unwrap_or(u64::MAX)
            } else {
                counted(&rows)
            };
            if rows > 0 {
                return Err(Error::WouldCascade {
                    table: table.name.clone(),
                    child: child.clone(),
                    columns: key.columns.join(", "),
                    rows,
                });
            }
        }
    }
    Ok(())
}

/// The rows that `chosen` selects, joined with the rows `of` another table, or the same, that refer to them by `key`.
fn joined(
    (dialect, table, key): (Dialect, &Known, &ForeignKey),
    chosen: &str,
    (of, called): (&str, &str),
) -> String {
    // What is referred to stands first: `SQLite` compares as the column on the left does, and so do foreign keys.
    let pairs = key.to_columns.iter().zip(&key.columns);
    let same = pairs.map(|(to, from)| {
        let (to, from) = (dialect.quote(to), dialect.quote(from));
        format!("probity_gone.{to} = {called}.{from}")
    });
    format!(
        "(SELECT {} FROM {} WHERE {chosen}) AS probity_gone JOIN {of} ON {}",
        list(dialect, &key.to_columns),
        dialect.quote(&table.name),
        same.collect::<Vec<_>>().join(" AND ")
    )
}

fn counted(rows: &[Vec<Value>]) -> u64 {
    match rows.first().and_then(|row| row.first()) {
        Some(Value::Int(rows)) => rows.unsigned_abs(),
        _ => 0,
    }
}
