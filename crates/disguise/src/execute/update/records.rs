//! Applies updates to records: the sections of a bag are rewritten by the updates after it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Recorded, Row, Update, as_numbers};
use crate::database::Catalog;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Error, UpdateError};
use crate::records::bag::Bag;
use crate::records::co_owned::{self, slot};
use crate::records::section::{Change, Copied, Modified, Section};
use crate::records::unawaited::Unawaited;
use crate::schema::ResolvedSchema;

/// All updates, and the context to apply them.
pub(crate) struct Updates<'a> {
    pub(crate) recorded: &'a [Recorded],
    pub(crate) code: &'a BTreeMap<String, Box<dyn Update>>,
    pub(crate) catalog: &'a Catalog,
    pub(crate) live: &'a ResolvedSchema,
    pub(crate) salt: &'a [u8],
    /// Placeholders whose own disguise was revealed: nothing of their rows in the users table comes back.
    pub(crate) gone: BTreeSet<Vec<u8>>,
}

/// New sections in the order of their creation, and the new names of shared rows.
#[derive(Default)]
struct Anew {
    sections: Vec<Section>,
    moves: Vec<Move>,
}

/// A row that has a new name.
struct Move {
    from: Named,
    to: Vec<u8>,
}

enum Named {
    Slot(Vec<u8>),
    Version(u64),
}

/// The two sides of one overwritten value, mapped.
struct Sides {
    before: Row,
    after: Row,
}

/// The numbers of the targets by which the updates led from a row to another.
type Way = Vec<usize>;

impl Updates<'_> {
    /// Applies to `bag` the updates recorded since the first `known` ones.
    pub(crate) fn apply(
        &self,
        database: &mut dyn TenantConnection,
        bag: &mut Bag,
        known: u32,
    ) -> Result<(), Error> {
        as_numbers(self.live, database.dialect(), &mut bag.sections);
        let since = usize::try_from(known).unwrap_or(usize::MAX);
        let Some(since @ [_, ..]) = self.recorded.get(since..) else {
            return Ok(());
        };
        let mut anew = Anew::default();
        for section in std::mem::take(&mut bag.sections) {
            if touches(since, &section.table) {
                self.section(database, since, section, &mut anew)?;
            } else {
                anew.sections.push(section);
            }
        }
        bag.sections = anew.sections;
        for rows in std::mem::take(&mut bag.unawaited) {
            if touches(since, &rows.table) {
                self.unawaited(database, since, rows, &mut bag.unawaited)?;
            } else {
                bag.unawaited.push(rows);
            }
        }
        rename(database, anew.moves)
    }

    fn section(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        section: Section,
        anew: &mut Anew,
    ) -> Result<(), Error> {
        let Section {
            step,
            table,
            change,
        } = section;
        let owner = matches!(change, Change::Decorrelated { .. });
        match change {
            Change::Removed { columns, rows } => {
                for row in rows {
                    let row = whole(&table, &columns, row);
                    let rows = self.rows(database, since, row)?;
                    self.removed(step, rows, anew);
                }
            }
            Change::Copied {
                departed,
                columns,
                rows,
            } => {
                for copy in rows {
                    let row = whole(&table, &columns, copy.row);
                    for row in self.rows(database, since, row)? {
                        let origin = CopyOrigin {
                            step,
                            departed,
                            version: copy.version,
                        };
                        self.copied(origin, row, anew);
                    }
                }
            }
            Change::Modified {
                identity,
                column,
                rows,
            }
            | Change::Decorrelated {
                identity,
                column,
                rows,
            } => {
                let column = ColumnOfStep {
                    step,
                    owner,
                    table: &table,
                    identity: &identity,
                    column: &column,
                };
                for row in rows {
                    self.cell(database, since, column, &row, anew)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the rows that a row becomes by all updates, one after the other.
    fn rows(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        row: Row,
    ) -> Result<Vec<Row>, Error> {
        let made = self.made(database, since, row)?.into_iter();
        Ok(made.map(|(_, row)| row).collect())
    }

    /// Returns the rows that a row becomes by all updates, each with the way that led to it: two
    /// forms of one row become the same row where the ways are the same.
    fn made(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        row: Row,
    ) -> Result<Vec<(Way, Row)>, Error> {
        let mut rows = vec![(Way::new(), row)];
        for update in since {
            let mut next = Vec::with_capacity(rows.len());
            for (way, row) in rows {
                let is_whole = row.is_whole;
                let became = self
                    .step(database, update, row)
                    .map_err(|source| Error::Update {
                        name: update.name.clone(),
                        source,
                    })?;
                next.extend(became.into_iter().map(|(number, row)| {
                    let way = way.iter().copied().chain([number]).collect();
                    (way, Row { is_whole, ..row })
                }));
            }
            rows = next;
        }
        Ok(rows)
    }

    fn step(
        &self,
        database: &mut dyn TenantConnection,
        update: &Recorded,
        row: Row,
    ) -> Result<Vec<(usize, Row)>, UpdateError> {
        match &update.mapping {
            Some(mapping) if mapping.table != row.table => Ok(vec![(0, row)]),
            Some(mapping) => mapping.rows(database, self.catalog, &row),
            None => {
                let code = self.code.get(&update.name).ok_or(UpdateError::NoCode)?;
                let rows = code.rows(row).map_err(UpdateError::Wrong)?;
                // Of code nothing is known but the order of the rows for each table.
                let mut of_table: BTreeMap<String, usize> = BTreeMap::new();
                let numbered = rows.into_iter().map(|row| {
                    let next = of_table.entry(row.table.clone()).or_default();
                    let number = *next;
                    *next = next.saturating_add(1);
                    (number, row)
                });
                Ok(numbered.collect())
            }
        }
    }

    /// Adds the keys that rows have by which others refer to them and do not wait.
    fn unawaited(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        rows: Unawaited,
        anew: &mut Vec<Unawaited>,
    ) -> Result<(), Error> {
        for key in rows.keys {
            let row = Row {
                is_whole: false,
                ..whole(&rows.table, &rows.columns, key)
            };
            for Row { table, columns, .. } in self.rows(database, since, row)? {
                let (columns, key): (Vec<String>, Vec<Value>) = columns.into_iter().unzip();
                let same = |it: &&mut Unawaited| it.table == table && it.columns == columns;
                match anew.iter_mut().find(same) {
                    Some(same) => same.keys.push(key),
                    None if columns.is_empty() => {}
                    None => anew.push(Unawaited {
                        table,
                        columns,
                        keys: vec![key],
                    }),
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of a removed row. Those that belonged to a row of the users table share its
    /// fate: they are dropped if it was a placeholder that is gone.
    fn removed(&self, step: u32, rows: Vec<Row>, anew: &mut Anew) {
        let pseudo = &self.live.pseudo;
        let mut users = rows.iter().filter(|row| row.table == pseudo.table);
        let user = users.find_map(|row| row.value(&pseudo.id));
        if user.is_some_and(|id| self.gone.contains(&id.principal())) {
            return;
        }
        let is_split = user.is_some();
        for row in rows {
            if is_split && row.table != pseudo.table {
                anew.removed(Section::of_user(step), row);
            } else {
                anew.removed(step, row);
            }
        }
    }

    /// Adds a copy of a shared row: it keeps its version, and its removal is known by the names of
    /// the new rows.
    fn copied(&self, origin: CopyOrigin, row: Row, anew: &mut Anew) {
        let CopyOrigin {
            step,
            departed,
            version,
        } = origin;
        let (columns, values): (Vec<String>, Vec<Value>) = row.columns.into_iter().unzip();
        let copy = Whole {
            step,
            table: row.table,
            columns,
        };
        if let Some(identity) = self.identity(&copy.table, &copy.columns, &values) {
            anew.moves.push(Move {
                from: Named::Version(version),
                to: slot(self.salt, &copy.table, &identity),
            });
        }
        let row = Copied {
            version,
            row: values,
        };
        let same = anew
            .sections
            .iter_mut()
            .find_map(|it| match &mut it.change {
                Change::Copied {
                    departed: also,
                    columns,
                    rows,
                } if it.step == step
                    && it.table == copy.table
                    && *also == departed
                    && *columns == copy.columns =>
                {
                    Some(rows)
                }
                _ => None,
            });
        if let Some(rows) = same {
            rows.push(row);
            return;
        }
        let (columns, rows) = (copy.columns, vec![row]);
        anew.sections.push(Section {
            step: copy.step,
            table: copy.table,
            change: Change::Copied {
                departed,
                columns,
                rows,
            },
        });
    }

    /// Returns the values of the present identifying columns of a table.
    fn identity(&self, table: &str, columns: &[String], values: &[Value]) -> Option<Vec<Value>> {
        let names = &self.live.table(table)?.identity;
        let value = |name: &String| {
            let place = columns.iter().position(|column| column == name)?;
            values.get(place).cloned()
        };
        names.iter().map(value).collect()
    }

    /// Adds the values in which the two sides of an overwritten value differ after the updates.
    fn cell(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        of: ColumnOfStep<'_>,
        record: &Modified,
        anew: &mut Anew,
    ) -> Result<(), Error> {
        let ColumnOfStep {
            step,
            owner,
            table,
            identity,
            column,
        } = of;
        let side = |value: Value| {
            let mut columns: Vec<(String, Value)> = identity
                .iter()
                .cloned()
                .zip(record.identity.iter().cloned())
                .filter(|(name, _)| name != column)
                .collect();
            columns.push((column.to_owned(), value));
            Row {
                table: table.to_owned(),
                columns,
                is_whole: false,
            }
        };
        let before = self.made(database, since, side(record.before.clone()))?;
        let after = self.made(database, since, side(record.after.clone()))?;
        for (way, before) in before {
            let mut same = after.iter();
            let same = same.find(|(of, it)| *of == way && it.table == before.table);
            let Some((_, after)) = same else {
                // The overwritten value made no such row, so the row is missing.
                self.removed(step, vec![before], anew);
                continue;
            };
            let sides = Sides {
                before,
                after: after.clone(),
            };
            let (columns, values): (Vec<String>, Vec<Value>) =
                sides.after.columns.iter().cloned().unzip();
            let Some(names) = self.identity(&sides.after.table, &columns, &values) else {
                // Under its former key, the value is told of and stays.
                anew.value(of, record.clone());
                continue;
            };
            anew.moves.push(Move {
                from: Named::Slot(slot(self.salt, table, &record.identity)),
                to: slot(self.salt, &sides.after.table, &names),
            });
            self.differences(step, owner, &sides, &names, anew);
        }
        Ok(())
    }

    fn differences(&self, step: u32, owner: bool, sides: &Sides, names: &[Value], anew: &mut Anew) {
        let table = sides.after.table.clone();
        let Some(known) = self.live.table(&table) else {
            return;
        };
        for (column, after) in &sides.after.columns {
            let Some(before) = sides.before.value(column).filter(|it| !it.same(after)) else {
                continue;
            };
            let row = Modified {
                identity: names.to_vec(),
                before: before.clone(),
                after: after.clone(),
            };
            let of = ColumnOfStep {
                step,
                owner: owner && known.people().any(|it| it == column),
                table: &table,
                identity: &known.identity,
                column,
            };
            anew.value(of, row);
        }
    }
}

/// The place of a copy of a shared row among the records.
#[derive(Clone, Copy)]
struct CopyOrigin {
    step: u32,
    departed: bool,
    version: u64,
}

/// A column of a table that a step overwrote, either an owner column or another.
#[derive(Clone, Copy)]
struct ColumnOfStep<'r> {
    step: u32,
    owner: bool,
    table: &'r str,
    identity: &'r [String],
    column: &'r str,
}

/// Whole rows of one kind.
struct Whole {
    step: u32,
    table: String,
    columns: Vec<String>,
}

/// Returns whether one of the updates may concern rows of `table`.
fn touches(since: &[Recorded], table: &str) -> bool {
    let about = |it: &Recorded| it.mapping.as_ref().is_none_or(|it| it.table == table);
    since.iter().any(about)
}

fn whole(table: &str, columns: &[String], row: Vec<Value>) -> Row {
    Row::new(table.to_owned(), columns.iter().cloned().zip(row).collect())
}

impl Anew {
    fn removed(&mut self, step: u32, row: Row) {
        let (columns, values): (Vec<String>, Vec<Value>) = row.columns.into_iter().unzip();
        let same = self
            .sections
            .iter_mut()
            .find_map(|it| match &mut it.change {
                Change::Removed {
                    columns: also,
                    rows,
                } if it.step == step && it.table == row.table && *also == columns => Some(rows),
                _ => None,
            });
        if let Some(rows) = same {
            rows.push(values);
            return;
        }
        let rows = vec![values];
        self.sections.push(Section {
            step,
            table: row.table,
            change: Change::Removed { columns, rows },
        });
    }

    fn value(&mut self, of: ColumnOfStep<'_>, row: Modified) {
        let ColumnOfStep {
            step,
            owner,
            table,
            identity,
            column,
        } = of;
        let same = self.sections.iter_mut().find_map(|it| {
            let here = it.step == step && it.table == table;
            match &mut it.change {
                Change::Modified {
                    column: also, rows, ..
                } if here && !owner && *also == column => Some(rows),
                Change::Decorrelated {
                    column: also, rows, ..
                } if here && owner && *also == column => Some(rows),
                _ => None,
            }
        });
        if let Some(rows) = same {
            rows.push(row);
            return;
        }
        let (identity, column) = (identity.to_vec(), column.to_owned());
        let rows = vec![row];
        self.sections.push(Section {
            step,
            table: table.to_owned(),
            change: if owner {
                Change::Decorrelated {
                    identity,
                    column,
                    rows,
                }
            } else {
                Change::Modified {
                    identity,
                    column,
                    rows,
                }
            },
        });
    }
}

/// Stores the new names of removed shared rows.
fn rename(database: &mut dyn TenantConnection, moves: Vec<Move>) -> Result<(), Error> {
    let (mut by_slot, mut by_version) = (Vec::new(), Vec::new());
    for it in &moves {
        match &it.from {
            Named::Slot(slot) => by_slot.push(slot.clone()),
            Named::Version(version) => by_version.push(*version),
        }
    }
    let named = co_owned::slots(database, &by_slot)?;
    let versions = co_owned::slots_of(database, &by_version)?;
    let (mut gone, mut there) = (Vec::new(), BTreeMap::new());
    for it in moves {
        let found = match &it.from {
            Named::Slot(slot) => named.get_key_value(slot),
            Named::Version(version) => versions.iter().find(|(_, found)| **found == *version),
        };
        if let Some((slot, version)) = found.filter(|(slot, _)| **slot != it.to) {
            gone.push(slot.clone());
            there.insert(it.to, *version);
        }
    }
    gone.retain(|slot| !there.contains_key(slot));
    co_owned::remove_slots(database, &gone)?;
    let there: Vec<(Vec<u8>, u64)> = there.into_iter().collect();
    co_owned::put_slots(database, &there)
}
