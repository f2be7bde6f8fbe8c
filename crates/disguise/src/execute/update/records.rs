//! Applies updates to records: the sections of a bag are rewritten by the updates after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use probity_format::width::to_u64;
use sha2::{Digest as _, Sha256};

use super::anew::{Anew, ColumnOfStep, Move, Named, rename};
use super::question::Now;
use super::typed::{Kind, Kinds, Typed};
use super::{Recorded, Row, Update, as_numbers};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Catalog, Column};
use crate::error::{Error, UpdateError};
use crate::records::bag::Bag;
use crate::records::co_owned::slot;
use crate::records::section::{Change, Copied, Section};
use crate::records::shape::{self, Shape, ShapeOf};
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

/// The numbers of the targets by which the updates led from a row to another.
pub(super) type Way = Vec<usize>;

impl Updates<'_> {
    /// Applies to `bag` the updates recorded since the first `known` ones. Rows that wait for more
    /// are then apart from the others.
    pub(crate) fn apply(
        &self,
        database: &mut dyn TenantConnection,
        bag: &mut Bag,
        known: u32,
    ) -> Result<(), Error> {
        shape::look_up(database, bag)?;
        as_numbers(self.live, database.dialect(), &mut bag.sections);
        let is_held = bag.sections.iter().any(|it| it.held.is_some());
        if is_held || !self.since(known).is_empty() {
            self.meet(database, known, bag)?;
        }
        let sections = std::mem::take(&mut bag.sections).into_iter();
        let apart = sections.flat_map(|section| match self.live.table(&section.table) {
            Some(table) => section.apart(table),
            None => vec![section],
        });
        bag.sections = apart.collect();
        Ok(())
    }

    /// Returns the updates recorded since the first `known` ones.
    fn since(&self, known: u32) -> &[Recorded] {
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        self.recorded.get(known..).unwrap_or_default()
    }

    fn meet(
        &self,
        database: &mut dyn TenantConnection,
        known: u32,
        bag: &mut Bag,
    ) -> Result<(), Error> {
        let mut anew = Anew::default();
        for section in std::mem::take(&mut bag.sections) {
            // Records that are held meet again the updates before which they were left.
            let known = section.held.unwrap_or(known);
            if touches(self.since(known), &section.table) {
                self.section(database, known, section, &mut anew)?;
            } else {
                let held = None;
                anew.sections.push(Section { held, ..section });
            }
        }
        let since = self.since(known);
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
        known: u32,
        section: Section,
        anew: &mut Anew,
    ) -> Result<(), Error> {
        let since = self.since(known);
        let Section {
            step,
            table,
            change,
            shape,
            held,
        } = section;
        let owner = matches!(change, Change::Decorrelated { .. });
        match change {
            Change::Removed { columns, rows } => {
                for row in rows {
                    let row = Typed::recorded(whole(&table, &columns, row), &shape);
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
                    let row = Typed::recorded(whole(&table, &columns, copy.row), &shape);
                    let made = self.made(database, since, row)?;
                    let is_split = made.len() > 1;
                    for (way, row) in made {
                        let origin = CopyOrigin {
                            step,
                            departed,
                            version: copy.version,
                            of_part: is_split.then(|| of_part(copy.version, &row.row.table, &way)),
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
                    shape: &shape,
                    known,
                    is_held: false,
                    is_again: held.is_some(),
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
        row: Typed,
    ) -> Result<Vec<Typed>, Error> {
        let made = self.made(database, since, row)?.into_iter();
        Ok(made.map(|(_, row)| row).collect())
    }

    /// Returns the rows that a row becomes by all updates, each with the way that led to it: two
    /// forms of one row become the same row where the ways are the same.
    pub(super) fn made(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        row: Typed,
    ) -> Result<Vec<(Way, Typed)>, Error> {
        let mut rows = vec![(Way::new(), row)];
        let mut later = since;
        while let Some((update, after)) = later.split_first() {
            let mut next = Vec::with_capacity(rows.len());
            for (way, row) in rows {
                let is_whole = row.row.is_whole;
                let became = self.step(database, (update, later), row);
                let became = became.map_err(|source| Error::Update {
                    name: update.name.clone(),
                    source,
                })?;
                next.extend(became.into_iter().map(|(number, mut row)| {
                    row.row.is_whole = is_whole;
                    let way = way.iter().copied().chain([number]).collect();
                    (way, row)
                }));
            }
            (rows, later) = (next, after);
        }
        Ok(rows)
    }

    fn step(
        &self,
        database: &mut dyn TenantConnection,
        (update, later): (&Recorded, &[Recorded]),
        row: Typed,
    ) -> Result<Vec<(usize, Typed)>, UpdateError> {
        match &update.mapping {
            Some(mapping) if mapping.table != row.row.table => Ok(vec![(0, row)]),
            Some(mapping) => {
                let catalog = self.catalog;
                let mut rows = mapping.rows(database, Now { catalog, later }, &row)?;
                for (_, row) in &mut rows {
                    update.give_types(row);
                }
                Ok(rows)
            }
            None => {
                let code = self.code.get(&update.name).ok_or(UpdateError::NoCode)?;
                let rows = code.rows(row.row.clone()).map_err(UpdateError::Wrong)?;
                // Of code nothing is known but the order of the rows for each table.
                let mut of_table: BTreeMap<String, usize> = BTreeMap::new();
                let numbered = rows.into_iter().map(|made| {
                    let next = of_table.entry(made.table.clone()).or_default();
                    let number = *next;
                    *next = next.saturating_add(1);
                    (number, row.made(made))
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
            let row = Typed::recorded(row, &rows.shape);
            for row in self.rows(database, since, row)? {
                let shape = self.shape(&row);
                let Row { table, columns, .. } = row.row;
                let (columns, key): (Vec<String>, Vec<Value>) = columns.into_iter().unzip();
                let same = |it: &&mut Unawaited| {
                    it.table == table && it.columns == columns && it.shape == shape
                };
                match anew.iter_mut().find(same) {
                    Some(same) => same.keys.push(key),
                    None if columns.is_empty() => {}
                    None => anew.push(Unawaited {
                        table,
                        columns,
                        keys: vec![key],
                        shape,
                    }),
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of a removed row. Those that belonged to a row of the users table share its
    /// fate: they are dropped if it was a placeholder that is gone.
    pub(super) fn removed(&self, step: u32, rows: Vec<Typed>, anew: &mut Anew) {
        let pseudo = &self.live.pseudo;
        let mut users = rows.iter().filter(|it| it.row.table == pseudo.table);
        let user = users.find_map(|it| it.row.value(&pseudo.id));
        if user.is_some_and(|id| self.gone.contains(&id.principal())) {
            return;
        }
        let is_split = user.is_some();
        for it in rows {
            let shape = self.shape(&it);
            let row = it.row;
            if is_split && row.table != pseudo.table {
                anew.removed(Section::of_user(step), row, shape);
            } else {
                anew.removed(step, row, shape);
            }
        }
    }

    /// Adds a copy of a shared row: it keeps its version, and its removal is known by the names of
    /// the new rows.
    fn copied(&self, origin: CopyOrigin, row: Typed, anew: &mut Anew) {
        let CopyOrigin {
            step,
            departed,
            version,
            of_part,
        } = origin;
        let shape = self.shape(&row);
        let row = row.row;
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
                version: of_part,
            });
        }
        let row = Copied {
            version: of_part.unwrap_or(version),
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
                    && it.shape == shape
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
            shape,
            held: None,
        });
    }

    /// Returns the shape of a row that updates made: a column that none of them made anew has the
    /// type of which it was recorded.
    pub(super) fn shape(&self, row: &Typed) -> ShapeOf {
        let table = &row.row.table;
        let live = self.live.shape(table);
        let recorded = |kinds: &Kinds| {
            let known = |name: &String| match kinds.get(name) {
                Some(Kind::Recorded(it)) => live
                    .column(name)
                    .is_none_or(|live| (&live.declared, &live.base) != (&it.declared, &it.base)),
                Some(Kind::Made) => false,
                None => true,
            };
            row.row.columns.iter().any(|(name, _)| known(name))
        };
        if !recorded(&row.kinds) {
            return live;
        }
        let mut columns = match &live {
            ShapeOf::Known(live) => live.columns.clone(),
            ShapeOf::None | ShapeOf::Named(_) => BTreeMap::new(),
        };
        for (name, _) in &row.row.columns {
            match row.kinds.get(name) {
                Some(Kind::Recorded(it)) => {
                    let column = Column {
                        name: name.clone(),
                        ..it.clone()
                    };
                    columns.insert(name.clone(), column);
                }
                Some(Kind::Made) => {}
                None => drop(columns.remove(name)),
            }
        }
        if columns.is_empty() {
            return ShapeOf::None;
        }
        ShapeOf::Known(Arc::new(Shape::new(table, columns.into_values())))
    }

    /// Returns the values of the present identifying columns of a table.
    pub(super) fn identity(
        &self,
        table: &str,
        columns: &[String],
        values: &[Value],
    ) -> Option<Vec<Value>> {
        let names = &self.live.table(table)?.identity;
        let value = |name: &String| {
            let place = columns.iter().position(|column| column == name)?;
            values.get(place).cloned()
        };
        names.iter().map(value).collect()
    }
}

/// The place of a copy of a shared row among the records.
#[derive(Clone, Copy)]
struct CopyOrigin {
    step: u32,
    departed: bool,
    version: u64,
    /// The version of a row that is one of several which the copy became: each goes back by itself.
    of_part: Option<u64>,
}

/// Returns the version of one of the rows that a shared row became. All its owners find the same, and
/// the version before names nothing any more: whoever returns later adds no row again that is back.
fn of_part(version: u64, table: &str, way: &[usize]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise part\0");
    hash.update(version.to_le_bytes());
    for target in way {
        hash.update(to_u64(*target).to_le_bytes());
    }
    hash.update(table.as_bytes());
    let mut part = [0; size_of::<u64>()];
    part.iter_mut()
        .zip(hash.finalize())
        .for_each(|(to, from)| *to = from);
    u64::from_le_bytes(part)
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
