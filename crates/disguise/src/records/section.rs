//! Sections: the records of one principal and one disguise that a reveal needs, kept in a bag.

use std::sync::Arc;

use crate::database::Column;
use crate::database::value::Value;
use crate::records::day::Day;
use crate::records::shape::ShapeOf;
use crate::schema::ResolvedTable;
use crate::statements::row::picked;

/// Set in the step of removed rows that an update split from a row of the users table: they share
/// the fate of that row.
const OF_USER: u32 = 1 << 31;

/// The changes of one step of a disguise to one table, as they concern one principal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// Number of the step, and a mark of [`Section::of_user`]; a reveal goes from high to low.
    pub(crate) step: u32,
    pub(crate) table: String,
    pub(crate) change: Change,
    /// The columns of the table when the change was made. Records of programs before have none.
    pub(crate) shape: ShapeOf,
    /// The number of updates that it met, where it stays as it was before the next one, which cannot
    /// tell what its rows became.
    pub(crate) held: Option<u32>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// Whole rows that were removed.
    Removed {
        columns: Vec<String>,
        rows: Vec<Vec<Value>>,
    },
    /// Shared rows that were removed when the last owner left. Every owner keeps a copy that names
    /// only placeholders. The first to return puts it back.
    Copied {
        /// The holder had left before, so that the copy counts once that leaving is revealed.
        departed: bool,
        columns: Vec<String>,
        rows: Vec<Copied>,
    },
    /// Values that were overwritten, by the identity that the row had afterwards.
    Modified {
        identity: Vec<String>,
        column: String,
        rows: Vec<Modified>,
    },
    /// Owners that were replaced, by the identity that the row had afterwards.
    Decorrelated {
        identity: Vec<String>,
        column: String,
        rows: Vec<Modified>,
    },
}

impl Change {
    pub(crate) const fn rows(&self) -> usize {
        match self {
            Self::Removed { rows, .. } => rows.len(),
            Self::Copied { rows, .. } => rows.len(),
            Self::Modified { rows, .. } | Self::Decorrelated { rows, .. } => rows.len(),
        }
    }

    /// Returns the identities of the rows; of whole rows the values of the columns `key`.
    pub(crate) fn identities(&self, key: &[String]) -> Vec<Vec<Value>> {
        match self {
            Self::Removed { columns, rows } => {
                rows.iter().map(|row| picked(columns, row, key)).collect()
            }
            Self::Copied { columns, rows, .. } => {
                let rows = rows.iter();
                rows.map(|it| picked(columns, &it.row, key)).collect()
            }
            Self::Modified { rows, .. } | Self::Decorrelated { rows, .. } => {
                rows.iter().map(|it| it.identity.clone()).collect()
            }
        }
    }

    /// Keeps those rows for which `keeps` is true, which is asked once for each in order.
    fn retain(&mut self, mut keeps: impl FnMut() -> bool) {
        match self {
            Self::Removed { rows, .. } => rows.retain(|_| keeps()),
            Self::Copied { rows, .. } => rows.retain(|_| keeps()),
            Self::Modified { rows, .. } | Self::Decorrelated { rows, .. } => {
                rows.retain(|_| keeps());
            }
        }
    }

    /// Returns the columns whose values it has.
    fn columns(&self) -> impl Iterator<Item = &String> {
        let (columns, column) = match self {
            Self::Removed { columns, .. } | Self::Copied { columns, .. } => (columns, None),
            Self::Modified {
                identity, column, ..
            }
            | Self::Decorrelated {
                identity, column, ..
            } => (identity, Some(column)),
        };
        columns.iter().chain(column)
    }
}

/// Whole rows of a section.
pub(crate) type WholeRows<'s> = Box<dyn Iterator<Item = &'s [Value]> + 's>;

impl Section {
    /// Creates the section of a change to `table`.
    pub(crate) fn new(step: u32, table: &ResolvedTable, change: Change) -> Self {
        Self {
            shape: ShapeOf::Known(Arc::clone(table.shape())),
            step,
            table: table.name.clone(),
            change,
            held: None,
        }
    }

    /// Returns the columns of the change that may be of another family now, as they were, if that is
    /// known, and as they are.
    fn doubtful<'s>(
        &'s self,
        table: &'s ResolvedTable,
    ) -> Vec<(&'s String, Option<&'s Column>, &'s Column)> {
        if self.shape.id() == Some(table.shape().id) {
            return Vec::new();
        }
        let columns = self.change.columns();
        let columns = columns.filter_map(|name| {
            let (was, now) = (self.shape.column(name), table.catalog.column(name)?);
            // Of an enumeration a word may have gone.
            let is_same = now.members.is_empty()
                && was.is_some_and(|it| it.family(table.dialect) == now.family(table.dialect));
            (!is_same).then_some((name, was, now))
        });
        columns.collect()
    }

    /// Returns for each of the first `most` rows the column by whose value it waits for an update;
    /// nothing where no row does.
    fn waiting(&self, table: &ResolvedTable, most: usize) -> Option<Vec<Option<String>>> {
        let doubtful = self.doubtful(table);
        let by = |name: &String, value: &Value| {
            let mut found = doubtful.iter().filter(|(it, ..)| *it == name);
            found
                .any(|(_, was, now)| now.awaits_update(table.dialect, *was, value))
                .then(|| name.clone())
        };
        if doubtful.is_empty() {
            return None;
        }
        let of_row = |columns: &[String], row: &[Value]| {
            let mut cells = columns.iter().zip(row);
            cells.find_map(|(name, value)| by(name, value))
        };
        Some(match &self.change {
            Change::Removed { columns, rows } => rows
                .iter()
                .take(most)
                .map(|row| of_row(columns, row))
                .collect(),
            Change::Copied { columns, rows, .. } => rows
                .iter()
                .take(most)
                .map(|it| of_row(columns, &it.row))
                .collect(),
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
                let of_value = |row: &Modified| {
                    let of_key = of_row(identity, &row.identity);
                    of_key
                        .or_else(|| by(column, &row.before))
                        .or_else(|| by(column, &row.after))
                };
                rows.iter().take(most).map(of_value).collect()
            }
        })
    }

    /// Returns the column by whose value the rows wait for an update. All or none of them do, see
    /// [`Self::apart`].
    pub(crate) fn waits_by(&self, table: &ResolvedTable) -> Option<String> {
        self.waiting(table, 1)?.into_iter().next()?
    }

    /// Returns the rows that wait for an update apart from the others.
    pub(crate) fn apart(self, table: &ResolvedTable) -> Vec<Self> {
        let Some(waiting) = self.waiting(table, usize::MAX) else {
            return vec![self];
        };
        let waits = |it: &Option<String>| it.is_some();
        if waiting.iter().all(waits) || !waiting.iter().any(waits) {
            return vec![self];
        }
        let (mut free, mut rest) = (self.clone(), self);
        let mut of_row = waiting.iter();
        free.change
            .retain(|| of_row.next().is_some_and(Option::is_none));
        let mut of_row = waiting.iter();
        rest.change
            .retain(|| of_row.next().is_some_and(Option::is_some));
        vec![free, rest]
    }

    /// Returns the whole rows with their columns, if it contains whole rows.
    pub(crate) fn whole_rows(&self) -> Option<(&[String], WholeRows<'_>)> {
        match &self.change {
            Change::Removed { columns, rows } => {
                Some((columns, Box::new(rows.iter().map(Vec::as_slice))))
            }
            Change::Copied { columns, rows, .. } => {
                Some((columns, Box::new(rows.iter().map(|it| it.row.as_slice()))))
            }
            Change::Modified { .. } | Change::Decorrelated { .. } => None,
        }
    }

    /// Returns the column of which it has overwritten values or owners.
    pub(crate) fn overwritten(&self) -> Option<&str> {
        match &self.change {
            Change::Modified { column, .. } | Change::Decorrelated { column, .. } => Some(column),
            Change::Removed { .. } | Change::Copied { .. } => None,
        }
    }

    /// Returns the overwritten values, if it contains values.
    pub(crate) fn values(&self) -> Option<(&str, &[Modified])> {
        match &self.change {
            Change::Modified { column, rows, .. } => Some((column, rows)),
            _ => None,
        }
    }

    /// Returns the step of rows that an update split from a row of the users table that `step`
    /// removed.
    pub(crate) const fn of_user(step: u32) -> u32 {
        step | OF_USER
    }

    /// Returns whether its rows were part of a row of the users table once.
    pub(crate) const fn is_of_user(&self) -> bool {
        self.step & OF_USER != 0
    }

    /// Returns whether it has copies for a holder who had left before: they do not count with their
    /// own disguise.
    pub(crate) const fn is_for_departed(&self) -> bool {
        matches!(self.change, Change::Copied { departed: true, .. })
    }
}

/// A copy of a removed shared row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Copied {
    /// Names this removal; the copy is void once the row was put back or removed again.
    pub(crate) version: u64,
    pub(crate) row: Vec<Value>,
}

/// One overwritten value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Modified {
    pub(crate) identity: Vec<Value>,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags of one byte"
)]
/// A speaks-for record: `old` may act as `new`, whose key comes from the bag's seed and `index`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpeaksFor {
    pub(crate) old: Value,
    pub(crate) new: Value,
    pub(crate) index: u32,
    /// The placeholder row is gone; the link stays because something may hang behind it.
    pub(crate) gone: bool,
    /// The row was made because `old` left a shared row.
    pub(crate) left: bool,
    /// A reveal left it where it is, with the rows made meanwhile.
    pub(crate) retained: bool,
}

/// The disguise that made a record, and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) disguise: u64,
    /// Nanoseconds since 1970, from the caller of the disguise.
    pub(crate) time: i64,
    /// The number of updates of rows that were known then.
    pub(crate) updates: u32,
    /// The day on which the record ends.
    pub(crate) expires: Day,
    /// A byte of a hash of the principal, by which a hold on a person keeps records from ending.
    pub(crate) cohort: u8,
}

/// The kind of a registered principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PrincipalKind {
    /// A real account.
    Person,
    /// A placeholder behind which its person still owns what it owns.
    Placeholder,
    /// A placeholder of a person who left the shared row that it owns.
    Departed,
}

impl PrincipalKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Person => 0,
            Self::Placeholder => 1,
            Self::Departed => 2,
        }
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        [Self::Person, Self::Placeholder, Self::Departed]
            .into_iter()
            .find(|it| i64::from(it.code()) == code)
    }

    pub(crate) const fn is_person(self) -> bool {
        matches!(self, Self::Person)
    }
}
