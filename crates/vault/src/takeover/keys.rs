//! Foreign keys of another database: their order, and those that a pocket database cannot keep.

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::database::{Catalog, CatalogTable, ForeignKey};

use crate::error::VaultError;

/// Returns the foreign key of one column.
pub(super) fn key_of<'t>(table: &'t CatalogTable, column: &str) -> Option<&'t ForeignKey> {
    let mut keys = table.foreign_keys.iter();
    keys.find(|key| key.columns == [column.to_owned()])
}

/// Refuses a key to a column that refers to a table itself, because nothing here can refer to it.
pub(super) fn refuse_chains(catalog: &Catalog) -> Result<(), VaultError> {
    for (name, table) in catalog {
        for key in &table.foreign_keys {
            let ([from], [to]) = (key.columns.as_slice(), key.to_columns.as_slice()) else {
                continue;
            };
            let target = catalog.get(&key.to_table);
            if let Some(further) = target.and_then(|target| key_of(target, to)) {
                return Err(VaultError::KeyOfKey {
                    column: format!("{name}.{from}"),
                    target: format!("{}.{to}", key.to_table),
                    last: further.to_table.clone(),
                });
            }
        }
    }
    Ok(())
}

/// Refuses a column that refers to two others, because a column here refers to one.
pub(super) fn refuse_two_targets(catalog: &Catalog) -> Result<(), VaultError> {
    for (name, table) in catalog {
        for (number, key) in table.foreign_keys.iter().enumerate() {
            let mut before = table.foreign_keys.iter().take(number);
            if let Some(other) = before.find(|other| other.columns == key.columns) {
                let target =
                    |it: &ForeignKey| format!("{}.{}", it.to_table, it.to_columns.join("+"));
                return Err(VaultError::TwoTargets {
                    column: format!("{name}.{}", key.columns.join("+")),
                    targets: [target(other), target(key)],
                });
            }
        }
    }
    Ok(())
}

/// A foreign key to a table that is not taken over; its columns become plain ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutKey {
    /// The referring column, as `TABLE.COLUMN`; several are joined by `+`.
    pub column: String,
    /// The table that it refers to.
    pub target: String,
}

/// Removes the foreign keys to tables that are not imported, which it returns, the `unlinked` ones, and
/// those that another one repeats.
pub(super) fn link(
    catalog: &mut Catalog,
    elsewhere: Vec<CutKey>,
    unlinked: &[String],
) -> Result<Vec<CutKey>, VaultError> {
    let tables: BTreeSet<String> = catalog.keys().cloned().collect();
    let mut unused: BTreeSet<&String> = unlinked.iter().collect();
    let mut cut = elsewhere;
    for (name, table) in catalog.iter_mut() {
        remove_repeated(&mut table.foreign_keys);
        table.foreign_keys.retain(|key| {
            let key = CutKey {
                column: format!("{name}.{}", key.columns.join("+")),
                target: key.to_table.clone(),
            };
            if tables.contains(&key.target) {
                unused.remove(&key.column);
                return !unlinked.contains(&key.column);
            }
            cut.push(key);
            false
        });
    }
    cut.retain(|key| {
        unused.remove(&key.column);
        !unlinked.contains(&key.column)
    });
    match unused.first() {
        None => Ok(cut),
        Some(column) => Err(VaultError::NoForeignKey {
            column: (*column).clone(),
        }),
    }
}

fn remove_repeated(keys: &mut Vec<ForeignKey>) {
    let parts = |key: &ForeignKey| {
        let (own, other) = (key.columns.clone(), key.to_columns.clone());
        (own, key.to_table.clone(), other)
    };
    let mut known = BTreeSet::new();
    keys.retain(|key| known.insert(parts(key)));
}

/// Refuses tables of which one leads to another along two paths, because a row keeps one id of each
/// table that it leads to.
pub(super) fn refuse_two_paths(catalog: &Catalog, order: &[String]) -> Result<(), VaultError> {
    // The path of foreign keys from each table to every table that it leads to.
    let mut ways: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for name in order {
        let mut own: BTreeMap<&str, String> = BTreeMap::new();
        let keys = catalog.get(name).map(|table| table.foreign_keys.as_slice());
        for key in keys.unwrap_or_default() {
            let first = format!("{name}.{}", key.columns.join("+"));
            let further = ways.get(key.to_table.as_str()).into_iter().flatten();
            let further = further.map(|(table, way)| (*table, format!("{first}, {way}")));
            let reached = [(key.to_table.as_str(), first.clone())];
            for (table, way) in reached.into_iter().chain(further) {
                let Some(before) = own.insert(table, way.clone()) else {
                    continue;
                };
                return Err(VaultError::TwoPaths {
                    table: name.clone(),
                    target: table.to_owned(),
                    paths: [before, way],
                });
            }
        }
        ways.insert(name, own);
    }
    Ok(())
}

/// Returns the tables, each after those that it references.
pub(super) fn in_order(catalog: &Catalog) -> Result<Vec<String>, VaultError> {
    let mut left: BTreeMap<&String, &CatalogTable> = catalog.iter().collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let ready = |(_, table): &(&&String, &&CatalogTable)| {
            let mut keys = table.foreign_keys.iter();
            keys.all(|key| !left.contains_key(&key.to_table))
        };
        let Some(name) = left.iter().find(ready).map(|(name, _)| (*name).clone()) else {
            return Err(VaultError::Circle {
                tables: left.into_keys().cloned().collect(),
            });
        };
        left.remove(&name);
        order.push(name);
    }
    Ok(order)
}
