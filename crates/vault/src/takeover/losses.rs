//! Losses of a takeover: parts of another database that a pocket database cannot keep.

use std::ops::ControlFlow;

use probity_disguise::database::{Catalog, CatalogTable};
use probity_disguise::{Database, DatabaseError, DatabaseErrorKind, Dialect, Value};

use crate::error::{Loss, VaultError};

/// Greatest number of tables of a pocket database.
const TABLES_MAX: usize = probity_pocketdb::limits::TABLES_MAX - 2;

/// Refuses what would be lost, but for that of the tables `plain`.
pub(super) fn refuse_losses(
    database: &mut dyn Database,
    catalog: &Catalog,
    plain: &[String],
) -> Result<(), VaultError> {
    if let Some(unknown) = plain.iter().find(|name| !catalog.contains_key(*name)) {
        return Err(VaultError::NoPlainTable {
            table: unknown.clone(),
        });
    }
    if catalog.len() > TABLES_MAX {
        return Err(VaultError::TooManyTables {
            found: catalog.len(),
            most: TABLES_MAX,
        });
    }
    for (name, table) in catalog {
        refuse_names(name, table)?;
        if plain.contains(name) {
            continue;
        }
        let losses = losses(database, name, table)?;
        if !losses.is_empty() {
            return Err(VaultError::Lost {
                table: name.clone(),
                losses,
            });
        }
    }
    Ok(())
}

/// Refuses names that no statement here can write.
fn refuse_names(name: &str, table: &CatalogTable) -> Result<(), VaultError> {
    let columns = table.columns.iter().map(|column| column.name.as_str());
    for said in columns.chain([name]) {
        let mut letters = said.chars();
        let starts = letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
        if !starts || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            return Err(VaultError::Name {
                name: said.to_owned(),
                table: name.to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns what would be lost of a table.
fn losses(
    database: &mut dyn Database,
    name: &str,
    table: &CatalogTable,
) -> Result<Vec<Loss>, VaultError> {
    let mut lost = Vec::new();
    for column in generated(database, name)? {
        lost.push(Loss::Generated(column));
    }
    for key in table.unique_keys.iter().filter(|key| key.len() > 1) {
        lost.push(if *key == table.primary_key {
            Loss::PrimaryKey(key.clone())
        } else {
            Loss::UniqueKey(key.clone())
        });
    }
    if database.dialect() == Dialect::Sqlite {
        for column in &table.columns {
            let declared = column.declared.to_ascii_uppercase();
            // A strict table has the type ANY, which converts nothing either.
            if (declared.is_empty() || declared.contains("BLOB") || declared == "ANY")
                && has_both(database, name, &column.name)?
            {
                lost.push(Loss::NumbersAndTexts(column.name.clone()));
            }
        }
    }
    Ok(lost)
}

/// Returns whether a column without a type has numbers and texts.
fn has_both(database: &mut dyn Database, table: &str, column: &str) -> Result<bool, VaultError> {
    let dialect = database.dialect();
    let (table, column) = (dialect.quote(table), dialect.quote(column));
    let kinds = format!(
        "SELECT DISTINCT typeof({column}) = 'text' FROM {table} \
         WHERE typeof({column}) IN ('integer', 'real', 'text')"
    );
    Ok(ask(database, &kinds)?.len() > 1)
}

/// Returns the names of the generated columns of a table.
fn generated(database: &mut dyn Database, table: &str) -> Result<Vec<String>, VaultError> {
    let mut table = table.replace('\'', "''");
    let sql = match database.dialect() {
        Dialect::Sqlite => {
            format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden IN (2, 3)")
        }
        Dialect::Mysql => {
            table = table.replace('\\', "\\\\");
            format!(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() \
                 AND table_name = '{table}' AND generation_expression <> ''"
            )
        }
        _ => format!(
            "SELECT column_name::text FROM information_schema.columns \
             WHERE table_schema = current_schema() AND table_name = '{table}' \
             AND is_generated = 'ALWAYS'"
        ),
    };
    let rows = ask(database, &sql)?;
    Ok(rows.iter().flatten().map(ToString::to_string).collect())
}

/// Returns the rows of a query of the other database.
pub(super) fn ask(database: &mut dyn Database, sql: &str) -> Result<Vec<Vec<Value>>, VaultError> {
    database.query(sql, &[]).map_err(refused)
}

/// Passes the rows of a query of the other database to `each`, one at a time.
pub(super) fn ask_each(
    database: &mut dyn Database,
    sql: &str,
    mut each: impl FnMut(&[Value]) -> Result<(), VaultError>,
) -> Result<(), VaultError> {
    let mut taken = Ok(());
    let read = database.query_each(sql, &[], &mut |row| {
        taken = each(&row);
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    taken?;
    read.map_err(refused)
}

fn refused(error: DatabaseError) -> VaultError {
    if error.kind == DatabaseErrorKind::NotUtf8 {
        return VaultError::NotUtf8;
    }
    VaultError::Query(Box::new(error))
}
