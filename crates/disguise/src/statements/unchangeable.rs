//! Rows of which `SQLite` takes no change: their reference to a row of their own table leads nowhere.
//!
//! `SQLite` counts references that lead nowhere. With each change of a row it counts those to the
//! row's own table anew, also where their columns stay as they are. A row that had come in while
//! its key was not enforced was never counted, so that any change of it adds one, and the commit is
//! refused as a whole.

use crate::database::Dialect;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::ResolvedTable;
use crate::statements::overwrite::Write;
use crate::statements::table::{among, counted, lists};

/// Returns the condition for rows of `table` that refuse a change of `columns`; `None` where there
/// cannot be such a row.
pub(crate) fn unchangeable(
    dialect: Dialect,
    table: &ResolvedTable,
    columns: &[&str],
) -> Option<String> {
    if dialect != Dialect::Sqlite {
        return None;
    }
    let keys = table.catalog.foreign_keys.iter();
    let stays = |it: &String| !columns.contains(&it.as_str());
    let keys = keys.filter(|key| key.to_table == table.name && key.columns.iter().all(stays));
    let own = dialect.quote(&table.name);
    let conditions = keys.map(|key| {
        let refers = key.columns.iter();
        let refers: Vec<String> = refers
            .map(|it| format!("{own}.{} IS NOT NULL", dialect.quote(it)))
            .collect();
        let same = key.to_columns.iter().zip(&key.columns);
        let same: Vec<String> = same
            .map(|(to, from)| {
                let (to, from) = (dialect.quote(to), dialect.quote(from));
                format!("probity_parent.{to} = {own}.{from}")
            })
            .collect();
        format!(
            "({} AND NOT EXISTS (SELECT 1 FROM {own} AS probity_parent WHERE {}))",
            refers.join(" AND "),
            same.join(" AND ")
        )
    });
    let conditions: Vec<String> = conditions.collect();
    (!conditions.is_empty()).then(|| conditions.join(" OR "))
}

/// Refuses a change of `columns` where the database would refuse it at the commit.
pub(crate) fn refuse_unchangeable(
    database: &mut dyn TenantConnection,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    let dialect = database.dialect();
    let Some(of_orphans) = unchangeable(dialect, table, columns) else {
        return Ok(());
    };
    let own = database.tenancy().and(dialect, &table.name, &table.name);
    for list in lists(writes, table.identity.len()) {
        let sql = format!(
            "SELECT COUNT(*) FROM {} WHERE {}{} AND ({of_orphans})",
            dialect.quote(&table.name),
            among(dialect, &table.identity, list.len()),
            own.sql
        );
        let identities = list.iter().flat_map(|it| it.identity.iter().cloned());
        let parameters: Vec<Value> = identities.chain(own.parameters.iter().cloned()).collect();
        if counted(database, &sql, &parameters)? > 0 {
            return Err(refused(database, table));
        }
    }
    Ok(())
}

fn refused(database: &mut dyn TenantConnection, table: &ResolvedTable) -> Error {
    let message = format!(
        "table {}: a row refers to a row of the same table that is not there ({}), and SQLite takes no change of it; PRAGMA foreign_key_check lists such rows",
        table.name,
        own_keys(table)
    );
    Error::Database {
        doing: "updating rows",
        source: database.refuse(message),
    }
}

/// Returns the columns of the keys by which rows of a table refer to rows of it.
pub(crate) fn own_keys(table: &ResolvedTable) -> String {
    let keys = table.catalog.foreign_keys.iter();
    let keys = keys.filter(|key| key.to_table == table.name);
    let keys: Vec<String> = keys.map(|key| key.columns.join(", ")).collect();
    keys.join("; ")
}
