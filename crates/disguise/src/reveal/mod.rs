//! Undoes a disguise from its records, row by row, keeping disguised whatever can no longer be put back safely.

mod put_back;
mod rewrite;
mod tidy;

use std::collections::{BTreeMap, BTreeSet};

use crate::apply::encoded;
use crate::database::Database;
use crate::error::Error;
use crate::principal::{Reach, Reached};
use crate::record::{Bag, Change, Section};
use crate::schema::{Known, Live};
use crate::store::{self, DisguiseId};
use crate::table::existing;
use crate::value::Value;

/// What happens to rows made while a placeholder owned things, when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum References {
    /// They go to the returning owner.
    #[default]
    Recorrelate,
    /// They are deleted.
    Delete,
    /// They and the placeholder stay.
    Retain,
}

/// Whether a row may come back in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Rows {
    /// Each column that is unchanged comes back.
    #[default]
    PerColumn,
    /// A row of which one column changed stays disguised whole.
    Whole,
}

/// What is asked of [`Engine::reveal`](crate::Engine::reveal).
pub struct RevealRequest<'a> {
    /// Who asks; needed for a password or a token.
    pub user: Value,
    /// What they prove it with.
    pub credential: crate::Credential<'a>,
    /// Which disguise.
    pub id: DisguiseId,
    /// What happens to rows made meanwhile.
    pub references: References,
    /// Whether rows may come back in part.
    pub rows: Rows,
    /// The time of the entry.
    pub time: probity_format::Timestamp,
}

/// Why a row stayed disguised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeptReason {
    /// A row with its identity exists again.
    RowExists,
    /// A unique key or another constraint refuses it.
    Refused,
    /// The row to change is not there; another disguise may have removed it.
    Absent,
    /// The application changed the value meanwhile, and wins.
    Changed,
    /// Another column of the row was changed, and whole rows were asked for.
    PartOfRow,
    /// A row that it refers to is not there.
    ParentMissing,
    /// Its owner is not there.
    OwnerMissing,
    /// The table or a column is no longer there.
    SchemaChanged,
}

impl KeptReason {
    /// One clause for a person.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RowExists => "a row with its key exists again",
            Self::Refused => "a constraint of the database refuses it",
            Self::Absent => "the row is not there",
            Self::Changed => "the application changed it meanwhile",
            Self::PartOfRow => "another column of the row was changed meanwhile",
            Self::ParentMissing => "a row that it refers to is not there",
            Self::OwnerMissing => "its owner is not there",
            Self::SchemaChanged => "its table or column is no longer there",
        }
    }
}

/// A row or value that stayed disguised; a later reveal tries it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Its table.
    pub table: String,
    /// Its identifying values.
    pub identity: String,
    /// The column, when it is about one.
    pub column: Option<String>,
    /// Why.
    pub reason: KeptReason,
}

/// What a reveal did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revealed {
    /// Rows and values put back in each table.
    pub restored: BTreeMap<String, u64>,
    /// What stayed disguised.
    pub kept: Vec<Kept>,
}

impl Revealed {
    /// Whether everything came back.
    pub const fn is_complete(&self) -> bool {
        self.kept.is_empty()
    }
}

/// One reveal in progress.
pub(crate) struct Work<'a> {
    pub(crate) database: &'a mut dyn Database,
    pub(crate) live: &'a Live,
    pub(crate) salt: &'a [u8],
    pub(crate) reach: &'a Reach,
    pub(crate) references: References,
    pub(crate) rows: Rows,
    pub(crate) revealed: Revealed,
    /// Placeholders that kept records still need.
    pub(crate) needed: BTreeSet<Vec<u8>>,
}

/// A bag being emptied.
struct Open<'a> {
    reached: &'a Reached,
    bag: Bag,
    /// A placeholder of this bag could not go yet.
    waiting: bool,
}

impl Work<'_> {
    /// Reveals `id`, and tries again what earlier reveals left.
    pub(crate) fn run(&mut self, id: DisguiseId) -> Result<(), Error> {
        let meant = |it: &&Reached| it.found.locator.changes && it.found.locator.disguise == id.0;
        if !self.reach.bags.iter().any(|it| meant(&it)) {
            return Err(Error::NoSuchDisguise);
        }
        self.database
            .defer_foreign_keys()
            .map_err(|source| Error::Database {
                doing: "deferring foreign keys",
                source,
            })?;
        let mut opened = self.open(|it| meant(&it))?;
        self.undo(&mut opened)?;
        let mut again = self.open(|it| it.found.locator.pending && !meant(&it))?;
        self.undo(&mut again)?;
        opened.append(&mut again);
        for open in &mut opened {
            self.principals(&mut open.bag)?;
        }
        for open in &mut opened {
            open.waiting = self.clear_placeholders(&mut open.bag)?;
        }
        self.put_away(&opened)
    }

    fn open<'r>(&mut self, meant: impl Fn(&'r Reached) -> bool) -> Result<Vec<Open<'r>>, Error>
    where
        Self: 'r,
    {
        let reach: &'r Reach = unborrowed(self.reach);
        let mut opened = Vec::new();
        for reached in reach
            .bags
            .iter()
            .filter(|it| it.found.locator.changes && meant(it))
        {
            let bag = match &reached.bag {
                Some(bag) => bag.clone(),
                None => store::read_bag(self.database, &reached.found.locator)?,
            };
            opened.push(Open {
                reached,
                bag,
                waiting: false,
            });
        }
        Ok(opened)
    }

    /// Undoes all changes in the opposite order of the steps; what cannot be undone stays in the bags.
    fn undo(&mut self, opened: &mut [Open<'_>]) -> Result<(), Error> {
        let mut sections: Vec<(usize, Section)> = Vec::new();
        for (index, open) in opened.iter_mut().enumerate() {
            sections.extend(
                std::mem::take(&mut open.bag.sections)
                    .into_iter()
                    .map(|it| (index, it)),
            );
        }
        let barred = match self.rows {
            Rows::PerColumn => BTreeSet::new(),
            Rows::Whole => self.barred(&sections)?,
        };
        sections.sort_by_key(|(_, section)| std::cmp::Reverse(section.step));
        for (index, section) in sections {
            let left = self.section(section, &barred)?;
            if let (Some(open), Some(left)) = (opened.get_mut(index), left) {
                open.bag.sections.insert(0, left);
            }
        }
        Ok(())
    }

    fn section(
        &mut self,
        section: Section,
        barred: &BTreeSet<Vec<u8>>,
    ) -> Result<Option<Section>, Error> {
        let Section {
            step,
            table: name,
            change,
        } = section;
        let live = self.live;
        let known = live.table(&name);
        let fits = known.is_some_and(|table| fits(table, &change));
        let left = match (known, change) {
            (
                Some(table),
                Change::Removed {
                    shared,
                    columns,
                    rows,
                },
            ) if fits => {
                let rows = self.put_back(table, shared, &columns, rows)?;
                Change::Removed {
                    shared,
                    columns,
                    rows,
                }
            }
            (
                Some(table),
                Change::Modified {
                    identity,
                    column,
                    rows,
                },
            ) if fits => {
                let rows = self.rewrite(table, &column, rows, barred, false)?;
                Change::Modified {
                    identity,
                    column,
                    rows,
                }
            }
            (
                Some(table),
                Change::Decorrelated {
                    identity,
                    column,
                    rows,
                },
            ) if fits => {
                let rows = self.rewrite(table, &column, rows, barred, true)?;
                Change::Decorrelated {
                    identity,
                    column,
                    rows,
                }
            }
            (_, change) => {
                self.keep_all(&name, &change);
                change
            }
        };
        Ok((left.rows() > 0).then_some(Section {
            step,
            table: name,
            change: left,
        }))
    }

    fn keep_all(&mut self, table: &str, change: &Change) {
        for _ in 0..change.rows() {
            self.keep(table, &[], None, KeptReason::SchemaChanged);
        }
    }

    fn keep(&mut self, table: &str, identity: &[Value], column: Option<&str>, reason: KeptReason) {
        let identity = identity
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let column = column.map(str::to_owned);
        self.revealed.kept.push(Kept {
            table: table.to_owned(),
            identity,
            column,
            reason,
        });
    }

    fn count(&mut self, table: &str, rows: usize) {
        if rows > 0 {
            let count = self.revealed.restored.entry(table.to_owned()).or_default();
            *count = count.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
        }
    }

    /// Which of `ids` have a row in the users table.
    fn users(&mut self, ids: &[Value]) -> Result<BTreeSet<Vec<u8>>, Error> {
        let mut seen = BTreeSet::new();
        let ids: Vec<Value> = ids
            .iter()
            .filter(|id| seen.insert(id.principal()))
            .cloned()
            .collect();
        existing(
            self.database,
            &self.live.pseudo.table,
            &self.live.pseudo.id,
            &ids,
        )
    }

    /// Check C4 for many owners: each itself, or the nearest principal behind it that still has a row.
    fn nearest(&mut self, owners: &[Value]) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut wanted = owners.to_vec();
        for owner in owners {
            wanted.extend(self.reach.behind(owner).cloned());
        }
        let there = self.users(&wanted)?;
        let mut nearest = BTreeMap::new();
        for owner in owners {
            let chain = std::iter::once(owner).chain(self.reach.behind(owner));
            for candidate in chain {
                if there.contains(&candidate.principal()) {
                    nearest.insert(owner.principal(), candidate.clone());
                    break;
                }
            }
        }
        Ok(nearest)
    }
}

/// The reach outlives the work that borrows it.
const fn unborrowed(reach: &Reach) -> &Reach {
    reach
}

/// Whether the table still has what the change speaks of.
fn fits(table: &Known, change: &Change) -> bool {
    let has = |column: &String| table.catalog.column(column).is_some();
    match change {
        Change::Removed { columns, .. } => columns.iter().all(has) && !table.identity.is_empty(),
        Change::Modified {
            identity, column, ..
        }
        | Change::Decorrelated {
            identity, column, ..
        } => *identity == table.identity && has(column),
    }
}

fn row_name(table: &Known, identity: &[Value]) -> Vec<u8> {
    let mut name = vec![Value::from(table.name.as_str())];
    name.extend_from_slice(identity);
    encoded(&name)
}
