//! Losses of a takeover: parts of another database that a pocket database cannot keep.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use probity_disguise::database::{Catalog, CatalogTable};
use probity_disguise::{Column, Database, DatabaseError, DatabaseErrorKind, Dialect, Value};
use probity_pocketdb::limits::{COLUMNS_MAX, NAME_BYTES_MAX};

use super::keys::CutKey;
use super::unique::UniqueKey;
use crate::error::{Loss, VaultError};

/// Greatest number of tables of a pocket database.
const TABLES_MAX: usize = probity_pocketdb::limits::TABLES_MAX - 2;

/// The unique keys of each table.
pub(super) type Keys = BTreeMap<String, Vec<UniqueKey>>;

/// Refuses what would be lost, but for that of the tables `plain`.
pub(super) fn refuse_losses(
    database: &mut dyn Database,
    (catalog, keys): (&Catalog, &Keys),
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
        if table.columns.len() > COLUMNS_MAX {
            return Err(VaultError::TooManyColumns {
                table: name.clone(),
                found: table.columns.len(),
                most: COLUMNS_MAX,
            });
        }
        if plain.contains(name) {
            continue;
        }
        let keys = keys.get(name).map(Vec::as_slice).unwrap_or_default();
        let losses = losses(database, (name, table), keys)?;
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
        if !starts
            || said.len() > NAME_BYTES_MAX
            || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        {
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
    (name, table): (&str, &CatalogTable),
    keys: &[UniqueKey],
) -> Result<Vec<Loss>, VaultError> {
    let mut lost = Vec::new();
    for column in generated(database, name)? {
        lost.push(Loss::Generated(column));
    }
    for loss in keys.iter().filter_map(|key| key.loss(table)) {
        if !lost.contains(&loss) {
            lost.push(loss);
        }
    }
    if database.dialect() == Dialect::Sqlite {
        for column in &table.columns {
            if converts_nothing(column) && kinds(database, name, &column.name)?.len() > 1 {
                lost.push(Loss::NumbersAndTexts(column.name.clone()));
            }
        }
    }
    Ok(lost)
}

/// Returns the foreign keys of a table to tables of other schemas or databases, which the catalog
/// does not have.
pub(super) fn keys_elsewhere(
    database: &mut dyn Database,
    table: &str,
) -> Result<Vec<CutKey>, VaultError> {
    let name = literal(database.dialect(), table);
    let sql = match database.dialect() {
        Dialect::Sqlite => return Ok(Vec::new()),
        Dialect::Mysql => format!(
            "SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR '+'), \
             CONCAT(referenced_table_schema, '.', referenced_table_name) \
             FROM information_schema.key_column_usage WHERE table_schema = DATABASE() \
             AND BINARY table_name = '{name}' AND referenced_table_schema <> DATABASE() \
             GROUP BY constraint_name, referenced_table_schema, referenced_table_name ORDER BY 1"
        ),
        _ => format!(
            "SELECT string_agg(a.attname::text, '+' ORDER BY u.n), format('%I.%I', n.nspname, t.relname) \
             FROM pg_constraint k \
             JOIN pg_class t ON t.oid = {} JOIN pg_namespace n ON n.oid = t.relnamespace \
             JOIN unnest(k.conkey) WITH ORDINALITY u(own, n) ON true \
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own \
             WHERE k.contype = 'f' AND {} \
             AND NOT (pg_table_is_visible(t.oid) AND n.nspname = ANY (current_schemas(false))) \
             GROUP BY k.oid, n.nspname, t.relname ORDER BY 1",
            whole_table("k.confrelid"),
            is_key_of(&name)
        ),
    };
    let keys = ask(database, &sql)?.into_iter();
    let keys = keys.filter_map(|row| match row.as_slice() {
        [columns, target] => Some(CutKey {
            column: format!("{table}.{columns}"),
            target: target.to_string(),
        }),
        _ => None,
    });
    Ok(keys.collect())
}

/// Returns a text as it stands between single quotes.
pub(super) fn literal(dialect: Dialect, text: &str) -> String {
    let text = text.replace('\'', "''");
    match dialect {
        Dialect::Mysql => text.replace('\\', "\\\\"),
        _ => text,
    }
}

/// Returns the condition of `PostgreSQL` that a table's name alone refers to it; `name` is a literal.
pub(super) fn is_named(table: &str, name: &str) -> String {
    format!("{table}.relname = '{name}' AND pg_table_is_visible({table}.oid)")
}

/// Returns the subquery of `PostgreSQL` for a table and its partitions; `name` is a literal.
pub(super) fn with_partitions(name: &str) -> String {
    let named = is_named("w", name);
    format!(
        "(SELECT w.oid FROM pg_class w WHERE {named} \
         UNION SELECT p.relid FROM pg_class w, pg_partition_tree(w.oid) p WHERE {named})"
    )
}

/// Returns the expression of `PostgreSQL` for the table that the rows of a table are shown under, as
/// the catalog has it: of a partition the highest one above it in the schemas, or else its root.
pub(super) fn whole_table(table: &str) -> String {
    format!(
        "coalesce((SELECT w.oid FROM pg_partition_ancestors({table}) WITH ORDINALITY p(oid, n) \
         JOIN pg_class w ON w.oid = p.oid JOIN pg_namespace s ON s.oid = w.relnamespace \
         WHERE pg_table_is_visible(w.oid) AND s.nspname = ANY (current_schemas(false)) \
         ORDER BY p.n DESC LIMIT 1), pg_partition_root({table}), {table})"
    )
}

/// Returns the condition of `PostgreSQL` that a foreign key `k` is one of a table or its partitions,
/// and not a copy that the server made of another one of them. A copy of a key of a table above these
/// is their own; one for the partitions of its target leads to some of the rows.
pub(super) fn is_key_of(name: &str) -> String {
    let own = with_partitions(name);
    format!(
        "k.conrelid IN {own} AND (k.conparentid = 0 OR \
         (NOT EXISTS (SELECT FROM pg_constraint q WHERE q.oid = k.conparentid AND q.conrelid IN {own}) \
         AND k.confrelid = (WITH RECURSIVE u(parent, target) AS (SELECT k.conparentid, k.confrelid \
         UNION ALL SELECT q.conparentid, q.confrelid FROM u JOIN pg_constraint q ON q.oid = u.parent) \
         SELECT target FROM u WHERE parent = 0)))"
    )
}

/// Returns whether a column of `SQLite` keeps numbers and texts as they are, and compares them so.
pub(super) fn converts_nothing(column: &Column) -> bool {
    let declared = column.declared.to_ascii_uppercase();
    // A strict table has the type ANY, which converts nothing either.
    declared.is_empty() || declared.contains("BLOB") || declared == "ANY"
}

/// A kind of the values in a column of `SQLite`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
}

/// Returns the kinds of the values in a column of `SQLite`, each once.
pub(super) fn kinds(
    database: &mut dyn Database,
    table: &str,
    column: &str,
) -> Result<Vec<Kind>, VaultError> {
    let dialect = database.dialect();
    let (table, column) = (dialect.quote(table), dialect.quote(column));
    let kinds = format!(
        "SELECT DISTINCT typeof({column}) = 'text' FROM {table} \
         WHERE typeof({column}) IN ('integer', 'real', 'text')"
    );
    let found = ask(database, &kinds)?;
    let found = found.iter().flatten().map(|is_text| match is_text {
        Value::Int(0) => Kind::Number,
        _ => Kind::Text,
    });
    Ok(found.collect())
}

/// Returns the names of the generated columns of a table.
fn generated(database: &mut dyn Database, table: &str) -> Result<Vec<String>, VaultError> {
    let table = literal(database.dialect(), table);
    let sql = match database.dialect() {
        Dialect::Sqlite => {
            format!("SELECT name FROM pragma_table_xinfo('{table}') WHERE hidden IN (2, 3)")
        }
        Dialect::Mysql => format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() \
             AND BINARY table_name = '{table}' AND generation_expression <> ''"
        ),
        _ => format!(
            "SELECT a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             WHERE c.relname = '{table}' AND pg_table_is_visible(c.oid) AND a.attgenerated <> '' \
             AND NOT a.attisdropped ORDER BY a.attnum"
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
