//! Unique keys of another database as its own catalog tells them, and how far they are held here.

use probity_disguise::database::CatalogTable;
use probity_disguise::{Database, Dialect};

use super::column::compares_by_bytes;
use super::losses::{ask, is_named, literal};
use crate::error::{Loss, VaultError};

/// A unique index or an exclusion.
pub(super) struct UniqueKey {
    name: String,
    parts: Vec<Part>,
    /// True if it is over plain columns and of all rows.
    is_whole: bool,
    /// True if the index itself compares byte by byte, where a column is one of texts.
    is_of_bytes: bool,
}

struct Part {
    column: String,
    /// The length in brackets, where it is over the beginnings of texts.
    length: String,
}

impl UniqueKey {
    /// Returns its columns, where it is over whole values of them in all rows.
    pub(super) fn columns(&self) -> Option<Vec<String>> {
        let is_held = self.is_whole && self.parts.iter().all(|part| part.length.is_empty());
        let columns = self.parts.iter().map(|part| part.column.clone());
        is_held.then(|| columns.collect())
    }

    /// Returns what cannot be kept of it; none of one on a single column, which is unique here too.
    pub(super) fn loss(&self, table: &CatalogTable) -> Option<Loss> {
        if !self.is_whole {
            return Some(Loss::OtherKey(self.name.clone()));
        }
        match self.columns() {
            Some(columns) if columns.len() == 1 => None,
            Some(columns) if columns == table.primary_key => Some(Loss::PrimaryKey(columns)),
            Some(columns) => Some(Loss::UniqueKey(columns)),
            None => {
                let parts = self.parts.iter();
                let shown = parts.map(|part| format!("{}{}", part.column, part.length));
                Some(Loss::UniqueKey(shown.collect()))
            }
        }
    }

    /// Returns the single column of which it may take values for equal that are different here.
    pub(super) fn compared_otherwise(
        &self,
        dialect: Dialect,
        table: &CatalogTable,
    ) -> Option<String> {
        let columns = self.columns()?;
        let [column] = columns.as_slice() else {
            return None;
        };
        let is_exact = table
            .column(column)
            .is_some_and(|column| compares_by_bytes(dialect, column));
        (!is_exact || !self.is_of_bytes).then(|| column.clone())
    }
}

/// Returns the unique keys of a table, and its exclusions. A key of the place of rows has no index.
pub(super) fn unique_keys(
    database: &mut dyn Database,
    table: &str,
) -> Result<Vec<UniqueKey>, VaultError> {
    let name = literal(database.dialect(), table);
    let sql = match database.dialect() {
        Dialect::Sqlite => format!(
            "SELECT l.name, coalesce(i.name, ''), '', \
             CASE WHEN l.partial OR i.name IS NULL THEN '' ELSE 'whole' END, \
             CASE i.coll WHEN 'BINARY' THEN 'bytes' ELSE '' END \
             FROM pragma_index_list('{name}') l, pragma_index_xinfo(l.name) i \
             WHERE l.\"unique\" AND i.key ORDER BY l.seq, i.seqno"
        ),
        // Of expressions `MariaDB` has none, and `MySQL` names no column. An index compares as its columns do.
        Dialect::Mysql => format!(
            "SELECT index_name, coalesce(column_name, ''), \
             CASE WHEN sub_part IS NULL THEN '' ELSE CONCAT('(', sub_part, ')') END, \
             CASE WHEN column_name IS NULL THEN '' ELSE 'whole' END, 'bytes' \
             FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND BINARY table_name = '{name}' AND non_unique = 0 \
             ORDER BY index_name, seq_in_index"
        ),
        // A key that partitions alone have is one of some rows.
        _ => format!(
            "SELECT CASE WHEN c.oid = r.oid THEN i.relname::text ELSE i.oid::regclass::text END, coalesce(a.attname::text, ''), '', \
             CASE WHEN c.oid <> r.oid OR x.indisexclusion OR NOT x.indisvalid OR x.indpred IS NOT NULL OR a.attname IS NULL \
             THEN '' ELSE 'whole' END, \
             CASE WHEN coalesce(l.collisdeterministic, true) AND (o.opcdefault OR o.opcname LIKE '%pattern_ops') \
             THEN 'bytes' ELSE '' END \
             FROM pg_class r JOIN pg_class c ON c.oid = r.oid OR c.oid IN (SELECT relid FROM pg_partition_tree(r.oid)) \
             JOIN pg_index x ON x.indrelid = c.oid JOIN pg_class i ON i.oid = x.indexrelid \
             JOIN unnest(x.indkey::int2[], x.indcollation::oid[], x.indclass::oid[]) \
             WITH ORDINALITY k(own, compared, kind, n) ON k.n <= x.indnkeyatts \
             LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.own \
             LEFT JOIN pg_collation l ON l.oid = k.compared LEFT JOIN pg_opclass o ON o.oid = k.kind \
             WHERE {} AND (x.indisunique OR x.indisexclusion) AND (c.oid = r.oid OR NOT i.relispartition) \
             ORDER BY c.oid <> r.oid, i.relname, i.oid, k.n",
            is_named("r", &name)
        ),
    };
    let mut keys: Vec<UniqueKey> = Vec::new();
    for row in ask(database, &sql)? {
        let row: Vec<String> = row.iter().map(ToString::to_string).collect();
        let Ok([name, column, length, whole, bytes]) = <[String; 5]>::try_from(row) else {
            continue;
        };
        if keys.last().is_none_or(|last| last.name != name) {
            keys.push(UniqueKey {
                name,
                parts: Vec::new(),
                is_whole: true,
                is_of_bytes: true,
            });
        }
        if let Some(key) = keys.last_mut() {
            key.is_whole &= !whole.is_empty();
            key.is_of_bytes &= !bytes.is_empty();
            key.parts.push(Part { column, length });
        }
    }
    Ok(keys)
}
