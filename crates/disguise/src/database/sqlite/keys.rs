//! Keys of a table: those that leave no two rows alike, as `SQLite` compares its columns, and
//! foreign ones.

use rusqlite::ErrorCode;

use super::{ROW_PLACE, Sqlite, checks};
use crate::database::{CatalogTable, Column, Dialect, ForeignKey, Matching, OnDelete, OnUpdate};

impl Sqlite {
    pub(super) fn is_strict(&self, name: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT strict FROM pragma_table_list(?) WHERE schema = 'main'";
        let mut statement = self.connection.prepare_cached(sql)?;
        statement.query_row([name], |row| row.get(0))
    }

    /// Returns the name of a row's place, where rows of the table have one.
    pub(super) fn row_place(
        &self,
        name: &str,
        table: &CatalogTable,
    ) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'";
        let without_rowid: bool = self
            .connection
            .prepare_cached(sql)?
            .query_row([name], |row| row.get(0))?;
        let taken = |column: &Column| column.name.eq_ignore_ascii_case(ROW_PLACE);
        let has = !without_rowid && !table.columns.iter().any(taken);
        Ok(has.then(|| ROW_PLACE.to_owned()))
    }

    /// Returns the declared foreign keys of a table.
    pub(super) fn foreign_keys(&self, name: &str) -> rusqlite::Result<Vec<ForeignKey>> {
        let mut statement = self.connection.prepare(
            "SELECT id, \"from\", \"table\", coalesce(\"to\", ''), on_delete, on_update
               FROM pragma_foreign_key_list(?) ORDER BY id, seq",
        )?;
        let mut rows = statement.query([name])?;
        let mut keys: Vec<(i64, ForeignKey)> = Vec::new();
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            let action: String = row.get(4)?;
            if keys.last().is_none_or(|(last, _)| *last != id) {
                let key = ForeignKey {
                    columns: Vec::new(),
                    to_table: row.get(2)?,
                    to_columns: Vec::new(),
                    on_delete: OnDelete::of(&action),
                    // `RESTRICT` is never put off, whatever else is.
                    is_deferrable: action == "NO ACTION",
                    is_checked_late: true,
                    may_lead_nowhere: true,
                    // It reads `MATCH FULL` and does not enforce it.
                    matching: Matching::Simple,
                    on_update: OnUpdate::of(&row.get::<_, String>(5)?),
                };
                keys.push((id, key));
            }
            if let Some((_, key)) = keys.last_mut() {
                key.columns.push(row.get(1)?);
                key.to_columns.push(row.get(3)?);
            }
        }
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    /// Returns the keys that hold for all rows, on columns with their own comparison. A `rowid`
    /// column is a key without an index.
    pub(super) fn unique_keys(
        &self,
        (name, made): (&str, &str),
        table: &CatalogTable,
    ) -> rusqlite::Result<Vec<Vec<String>>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT l.name, l.origin = 'pk', l.partial, i.name, i.coll
               FROM pragma_index_list(?) l, pragma_index_xinfo(l.name) i
              WHERE l.\"unique\" AND i.key ORDER BY l.seq, i.seqno",
        )?;
        let mut rows = statement.query([name])?;
        let mut found: Vec<(String, bool, Vec<String>)> = Vec::new();
        let mut has_own = table.primary_key.is_empty();
        while let Some(row) = rows.next()? {
            let index: String = row.get(0)?;
            has_own |= row.get::<_, bool>(1)?;
            if found.last().is_none_or(|(last, ..)| *last != index) {
                found.push((index, !row.get::<_, bool>(2)?, Vec::new()));
            }
            let (column, collation) = (row.get::<_, Option<String>>(3)?, row.get::<_, String>(4)?);
            let Some((_, holds, columns)) = found.last_mut() else {
                continue;
            };
            // An expression has no name.
            let column = column.unwrap_or_default();
            *holds = *holds && self.compares_so((name, made), &column, &collation)?;
            columns.push(column);
        }
        let held = found.into_iter().filter(|(_, holds, _)| *holds);
        let mut keys: Vec<Vec<String>> = held.map(|(_, _, columns)| columns).collect();
        if !has_own {
            keys.push(table.primary_key.clone());
        }
        Ok(keys)
    }

    /// Returns whether an index with this collation treats the same texts as equal as the column
    /// does.
    fn compares_so(
        &self,
        (name, made): (&str, &str),
        column: &str,
        collation: &str,
    ) -> rusqlite::Result<bool> {
        if column.is_empty() {
            return Ok(false);
        }
        if !checks::names_collations(made) {
            return Ok(true);
        }
        let [column, name] = [column, name].map(|it| Dialect::Sqlite.quote(it));
        // Texts that only other collations treat as equal, compared by the column and by the index.
        let sql = format!(
            "SELECT count(*) FROM (VALUES ('a', 'A'), ('a', 'a '), ('a', 'b')) p
              WHERE p.column1 <> p.column2 COLLATE {collation}
                AND EXISTS (SELECT 1 FROM (SELECT {column} AS k FROM {name} WHERE 0 UNION ALL SELECT p.column2) q
                             WHERE q.k = p.column1)",
            collation = Dialect::Sqlite.quote(collation)
        );
        let differing = self
            .connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0));
        match differing {
            Ok(differing) => Ok(differing == 0),
            // A collation that the application alone has: nothing compares by it here.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns how a column compares texts, if otherwise than byte by byte: by the texts that it
    /// takes for equal, since `SQLite` tells no name.
    pub(super) fn collation(&self, name: &str, column: &str) -> rusqlite::Result<Option<String>> {
        let [column, name] = [column, name].map(|it| Dialect::Sqlite.quote(it));
        let takes = |one: &str, other: &str| {
            let sql = format!(
                "SELECT count(*) FROM (SELECT {column} AS k FROM {name} WHERE 0 UNION ALL SELECT ?1) q
                  WHERE q.k = ?2"
            );
            let found = self
                .connection
                .query_row(&sql, [one, other], |row| row.get::<_, i64>(0));
            match found {
                Ok(found) => Ok(found > 0),
                // A collation that the application alone has: nothing compares by it here.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::Unknown) => Ok(true),
                Err(error) => Err(error),
            }
        };
        Ok(match (takes("a", "A")?, takes("a", "a ")?) {
            (false, false) => None,
            (true, false) => Some("NOCASE".to_owned()),
            (false, true) => Some("RTRIM".to_owned()),
            (true, true) => Some(String::new()),
        })
    }
}
