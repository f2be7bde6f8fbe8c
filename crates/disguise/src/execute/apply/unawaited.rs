//! Rows for which removed rows do not wait when they return: those that were not there either when
//! the rows went, and those in a circle of rows of several people, of whom nobody could begin.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;

use super::circles::note_circles;
use super::notes::Notes;
use super::worked_out::{WorkedOut, removed_key};
use crate::database::Dialect;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::unawaited::Unawaited;
use crate::schema::{Reference, ResolvedSchema, ResolvedTable};
use crate::statements::row::encoded;
use crate::statements::table::present;

/// The bags of a transaction, by their principals.
pub(super) type Bags = BTreeMap<Vec<u8>, Bag>;

/// Keys of rows, by their texts.
type Keys = BTreeMap<Vec<u8>, Vec<Value>>;

/// A key, and the principals whose removed rows refer to it.
type Referring<'b> = (Vec<Value>, BTreeSet<&'b Vec<u8>>);

/// Keys for which removed rows do not wait, by principal, table and columns.
#[derive(Default)]
pub(super) struct Found(BTreeMap<(Vec<u8>, String, Vec<String>), Keys>);

impl Found {
    pub(super) fn add(&mut self, principal: &[u8], to: &Reference, key: Vec<Value>) {
        let name = (
            principal.to_vec(),
            to.to_table.clone(),
            to.to_columns.clone(),
        );
        self.0.entry(name).or_default().insert(encoded(&key), key);
    }
}

/// Notes in the bags of this transaction for which rows the removed rows do not wait.
pub(super) fn note_unawaited(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    notes: &mut Notes,
) -> Result<(), Error> {
    let mut found = Found::default();
    let removed = (&notes.bags, &notes.worked_out);
    if note_dangling(database, live, removed, &mut found)? {
        refuse_orphans(database, live, removed)?;
    }
    note_circles(database, live, removed, &mut found)?;
    for ((principal, table, columns), keys) in found.0 {
        let keys = keys.into_values().collect();
        let bag = notes.bag_of(principal)?;
        let shape = live.shape(&table);
        bag.unawaited.push(Unawaited {
            table,
            columns,
            keys,
            shape,
        });
    }
    Ok(())
}

/// Finds the references of removed rows that led nowhere when the rows went: those that only the
/// description says, and those that the database did not enforce for all rows. Rows that went in the
/// same transaction were there. Returns whether a declared one is among them.
fn note_dangling(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (bags, worked_out): (&Bags, &WorkedOut),
    found: &mut Found,
) -> Result<bool, Error> {
    let mut is_declared = false;
    let mut doubtful = Vec::new();
    for table in removed_tables(live, bags) {
        let references = table.references.iter();
        let references = references.filter(|it| table.may_lead_nowhere(it));
        doubtful.extend(references.map(|it| (table, it)));
    }
    for (table, reference) in doubtful {
        let mut by_key: BTreeMap<Vec<u8>, Referring<'_>> = BTreeMap::new();
        for (principal, columns, row) in rows_of(bags, &table.name) {
            let of = (table, worked_out);
            if let Some(key) = removed_key(of, (columns, row), &reference.columns) {
                let all = by_key.entry(encoded(&key));
                let (_, principals) = all.or_insert_with(|| (key, BTreeSet::new()));
                principals.insert(principal);
            }
        }
        let keys: Vec<Vec<Value>> = by_key.values().map(|(key, _)| key.clone()).collect();
        let by = &reference.to_columns;
        let there = present(database, &reference.to_table, by, &keys)?;
        by_key.retain(|name, _| !there.contains(name));
        if by_key.is_empty() {
            continue;
        }
        let to = live.table(&reference.to_table).into_iter();
        let gone = to.flat_map(|to| rows_of(bags, &to.name).map(move |row| (to, row)));
        let gone = gone.filter_map(|(to, (_, columns, row))| {
            removed_key((to, worked_out), (columns, row), by)
        });
        // Rows of another spelling, which the database may take for the same, are not waited for.
        // The other way round, a row would wait for good for one that it never meant.
        let gone: BTreeSet<Vec<u8>> = gone.map(|key| encoded(&key)).collect();
        for (key, principals) in by_key.into_values() {
            if gone.contains(&encoded(&key)) {
                continue;
            }
            is_declared |= table.declares(reference);
            for principal in principals {
                found.add(principal, reference, key.clone());
            }
        }
    }
    Ok(is_declared)
}

/// Refuses where a row stays that refers to a removed one by a declared key. `SQLite` only counts
/// rows that refer to nothing: the removal of one that did so before would pay for another.
fn refuse_orphans(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    (bags, worked_out): (&Bags, &WorkedOut),
) -> Result<(), Error> {
    if database.dialect() != Dialect::Sqlite {
        return Ok(());
    }
    for table in removed_tables(live, bags) {
        let children = live.tables.values();
        let keys = children.flat_map(|it| it.catalog.foreign_keys.iter().map(move |key| (it, key)));
        for (child, key) in keys.filter(|(_, key)| key.to_table == table.name) {
            let by = &key.to_columns;
            let gone = rows_of(bags, &table.name);
            let gone = gone.filter_map(|(_, columns, row)| {
                removed_key((table, worked_out), (columns, row), by)
            });
            let gone: Vec<Vec<Value>> = gone.collect();
            let mut left = present(database, &child.name, &key.columns, &gone)?;
            let there = present(database, &table.name, by, &gone)?;
            left.retain(|name| !there.contains(name));
            if !left.is_empty() {
                return Err(Error::WouldOrphan {
                    table: table.name.clone(),
                    child: child.name.clone(),
                    columns: key.columns.join(", "),
                    rows: u64::try_from(left.len()).unwrap_or(u64::MAX),
                });
            }
        }
    }
    Ok(())
}

/// Returns the tables of which whole rows are in the bags.
pub(super) fn removed_tables<'l>(live: &'l ResolvedSchema, bags: &Bags) -> Vec<&'l ResolvedTable> {
    let sections = bags.values().flat_map(|bag| &bag.sections);
    let removed = sections.filter(|it| it.whole_rows().is_some());
    let names: BTreeSet<&str> = removed.map(|it| it.table.as_str()).collect();
    names.into_iter().filter_map(|it| live.table(it)).collect()
}

/// Returns the removed rows of a table, each with its principal and columns.
pub(super) fn rows_of<'b>(
    bags: &'b Bags,
    table: &str,
) -> impl Iterator<Item = (&'b Vec<u8>, &'b [String], &'b [Value])> {
    let sections = bags
        .iter()
        .flat_map(|(principal, bag)| bag.sections.iter().map(move |it| (principal, it)));
    let sections = sections.filter(move |(_, it)| it.table == table);
    sections.flat_map(|(principal, section)| {
        let whole = section.whole_rows().into_iter();
        whole.flat_map(move |(columns, rows)| rows.map(move |row| (principal, columns, row)))
    })
}

/// Returns a key in the form that all spellings of it share which a database may treat as equal:
/// numbers as texts, times without zeros at the end, without case, accents, blanks and signs. A row
/// that is taken for another in vain does not wait for it where it is not there, and for nothing
/// less.
pub(super) fn folded(key: &[Value]) -> Vec<u8> {
    let fold = |value: &Value| {
        let text = match value {
            Value::Bytes(bytes) => return Value::Bytes(bytes.clone()),
            other => other.to_string(),
        };
        if let Ok(number) = text.trim().parse::<f64>() {
            // Of zero there are two.
            return Value::Real(number + 0.0);
        }
        if is_time(&text) {
            let digits: String = text.chars().filter(char::is_ascii_digit).collect();
            return Value::Text(digits.trim_end_matches('0').to_owned());
        }
        let letters = text.nfkd().filter(|it| it.is_alphanumeric());
        Value::Text(letters.flat_map(char::to_uppercase).collect())
    };
    encoded(&key.iter().map(fold).collect::<Vec<_>>())
}

/// Returns whether a text begins with a date.
fn is_time(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut is_number = |least: usize| {
        let part = parts.next().unwrap_or_default();
        part.len() >= least && part.bytes().all(|it| it.is_ascii_digit())
    };
    is_number(4) && is_number(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_a_database_may_treat_as_equal_are_one() {
        let text = |it: &str| Value::from(it);
        for alike in [
            vec![
                Value::Int(20),
                Value::Real(20.0),
                text("20"),
                text(" 20.00"),
                Value::UInt(20),
            ],
            vec![
                text("Zo\u{eb}"),
                text("ZOE"),
                text("zoe "),
                text("Zoe\u{308}"),
            ],
            vec![text("stra\u{df}e"), text("STRASSE")],
            vec![Value::Real(0.0), Value::Int(0), Value::Real(-0.0)],
            vec![
                text("2026-01-20"),
                text("2026-01-20 00:00:00"),
                text("2026-01-20 00:00:00+00"),
            ],
        ] {
            let names: BTreeSet<Vec<u8>> = alike
                .iter()
                .map(|it| folded(std::slice::from_ref(it)))
                .collect();
            assert_eq!(names.len(), 1, "{alike:?}");
        }
        assert_ne!(folded(&[text("zoe")]), folded(&[text("zo")]));
        assert_ne!(
            folded(&[Value::Int(1), Value::Int(2)]),
            folded(&[Value::Int(2), Value::Int(1)])
        );
    }
}
