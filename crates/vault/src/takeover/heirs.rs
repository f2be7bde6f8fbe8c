//! Tables that inherit from others: rows that a query shows there and not here.

use probity_disguise::database::Catalog;
use probity_disguise::{Database, Dialect, Value};

use super::losses::{ask, is_named, literal};
use crate::error::VaultError;

/// A table that is not taken over, and whose rows the other database shows in one that is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOutHeir {
    /// The table that inherits, also through others; with its schema, where that is another one.
    pub heir: String,
    /// The table that is taken over.
    pub table: String,
}

/// Returns the heirs of tables that are not taken over: those of other schemas, those that were not
/// chosen, and foreign tables. Only `PostgreSQL` has any.
pub(super) fn left_out_heirs(
    database: &mut dyn Database,
    catalog: &Catalog,
) -> Result<Vec<LeftOutHeir>, VaultError> {
    let mut found = Vec::new();
    for (table, _) in catalog.iter().filter(|(_, it)| it.has_heirs) {
        let named = is_named("p", &literal(Dialect::Postgres, table));
        // Nobody sees rows of the temporary tables of others.
        let sql = format!(
            "WITH RECURSIVE h(oid) AS \
             (SELECT i.inhrelid FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent WHERE {named} \
              UNION SELECT i.inhrelid FROM h JOIN pg_inherits i ON i.inhparent = h.oid) \
             SELECT CASE WHEN pg_table_is_visible(c.oid) AND n.nspname = ANY (current_schemas(false)) \
             THEN c.relname::text END, format('%I.%I', n.nspname, c.relname) \
             FROM h JOIN pg_class c ON c.oid = h.oid JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relpersistence <> 't' ORDER BY n.nspname, c.relname"
        );
        for row in ask(database, &sql)? {
            let heir = match row.as_slice() {
                [Value::Text(name), _] if catalog.contains_key(name) => continue,
                [Value::Null, full] => full.to_string(),
                [name, _] => name.to_string(),
                _ => continue,
            };
            let table = table.clone();
            found.push(LeftOutHeir { heir, table });
        }
    }
    Ok(found)
}
