//! Columns of `MariaDB` whose character set gives several texts one form in Unicode, in which a
//! session reads and writes them: what is read of them is compared by the server.

use std::collections::BTreeMap;

use mysql::Column;

use crate::database::DatabaseError;
use crate::database::value::Value;

/// The character sets each text of which has a form in Unicode of its own, and is that text again
/// when it is written: a test asks the server.
const ONE_TO_ONE: [&str; 20] = [
    "binary", "cp850", "cp852", "cp866", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5",
    "latin7", "macce", "macroman", "ucs2", "utf16", "utf16le", "utf32", "utf8", "utf8mb3",
    "utf8mb4",
];

/// The columns of other character sets, with theirs, by table.
#[derive(Debug, Default)]
pub(super) struct Twins(BTreeMap<String, BTreeMap<String, String>>);

/// A query that checks what it reads.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) sql: String,
    /// The table and column of each check, with which an answer begins.
    places: Vec<(String, String)>,
}

impl Twins {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a column, unless its character set is one to one.
    pub(super) fn note(&mut self, (table, column): (&Value, &Value), letters: &Value) {
        let letters = letters.to_string();
        let is_word = letters.bytes().all(|it| it.is_ascii_alphanumeric());
        if letters == "NULL" || !is_word || ONE_TO_ONE.contains(&letters.as_str()) {
            return;
        }
        let columns = self.0.entry(table.to_string()).or_default();
        columns.insert(column.to_string(), letters);
    }

    /// Returns the query `sql`, whose answer has these columns, with a check of each that is noted.
    pub(super) fn checked(&self, sql: &str, columns: &[Column]) -> Option<Checked> {
        // What such queries read, of several tables at once or sorted by its place, goes into no
        // record. A subquery in a condition changes nothing of what is read.
        let outer = outer(sql);
        if [" FROM ()", " UNION ", " ORDER BY 1"]
            .iter()
            .any(|it| outer.contains(it))
        {
            return None;
        }
        let rest = sql.strip_prefix("SELECT ")?;
        let (distinct, rest) = match rest.strip_prefix("DISTINCT ") {
            Some(rest) => ("DISTINCT ", rest),
            None => ("", rest),
        };
        let (mut checks, mut places) = (Vec::new(), Vec::new());
        for column in columns {
            let (table, name) = (column.org_table_str(), column.org_name_str());
            let letters = self
                .0
                .get(table.as_ref())
                .and_then(|it| it.get(name.as_ref()));
            let Some(letters) = letters else {
                continue;
            };
            let quoted = |it: &str| format!("`{}`", it.replace('`', "``"));
            let place = format!("{}.{}", quoted(&column.table_str()), quoted(&name));
            let check = format!(
                "BINARY {place} <=> BINARY CONVERT(CONVERT({place} USING utf8mb4) USING {letters})"
            );
            // Of a group, all texts.
            checks.push(if outer.contains(" GROUP BY ") {
                format!("MIN({check})")
            } else {
                check
            });
            places.push((table.into_owned(), name.into_owned()));
        }
        (!checks.is_empty()).then(|| Checked {
            sql: format!("SELECT {distinct}{}, {rest}", checks.join(", ")),
            places,
        })
    }
}

/// Returns a query without what is in brackets and in quotes.
fn outer(sql: &str) -> String {
    let (mut outer, mut depth, mut quote) = (String::with_capacity(sql.len()), 0_usize, None);
    for letter in sql.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => continue,
            (None, '`' | '\'' | '"') => quote = Some(letter),
            (None, '(') => {
                if depth == 0 {
                    outer.push(letter);
                }
                depth = depth.saturating_add(1);
                continue;
            }
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        if depth == 0 {
            outer.push(letter);
        }
    }
    outer
}

impl Checked {
    /// Returns the number of checks.
    pub(super) const fn checks(&self) -> usize {
        self.places.len()
    }

    /// Takes the checks from the values of an answer, and refuses a text that is not one to one.
    pub(super) fn refuse_twins(
        &self,
        values: &mut Vec<Option<mysql::Value>>,
    ) -> Result<(), DatabaseError> {
        let checks = values.drain(..self.places.len().min(values.len()));
        for (check, (table, column)) in checks.zip(&self.places) {
            if check != Some(mysql::Value::Int(1)) {
                return Err(DatabaseError::of_twin_in(Some(table), column));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outer_query_is_looked_at() {
        let inner = "SELECT `a UNION b` FROM `t` WHERE `k` IN (SELECT * FROM (SELECT 1 UNION SELECT ')') AS x) AND `c` = ?";
        assert_eq!(outer(inner), "SELECT `` FROM `` WHERE `` IN () AND `` = ?");
        assert_eq!(
            outer("SELECT `k` FROM (SELECT 1) AS q"),
            "SELECT `` FROM () AS q"
        );
    }
}
