//! Hidden rows and values of a person, exported to the holder of the credential.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::engine::Engine;
use super::options::Options;
use super::{accounts, concern, holders};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{CatalogTable, Column, Database, Dialect};
use crate::error::{DisguiseId, Doing as _, Error};
use crate::execute::update::{self, Updates};
use crate::records::co_owned::slots_of;
use crate::records::commitment::PersonCommitment;
use crate::records::credential::Credential;
use crate::records::hold::Held;
use crate::records::principal::Reached;
use crate::records::section::{Change, Copied, Modified};
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;

/// The savepoint that undoes the update of the records before the transaction ends.
const SAVEPOINT: &str = "SAVEPOINT probity_export";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_export";
const RELEASE: &str = "RELEASE SAVEPOINT probity_export";

/// Columns and values, in the order of the table.
pub type Cells = Vec<(String, Value)>;

/// A change that a disguise made to a row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HiddenChange {
    /// The disguise removed the row, which had these cells.
    Removed(Cells),
    /// The disguise removed the row when the last of several owners had left; the cells name people
    /// by their placeholders.
    Left(Cells),
    /// The disguise overwrote a value of the row.
    Modified {
        /// The column.
        column: String,
        /// The value before.
        before: Value,
        /// The value since.
        after: Value,
    },
    /// The disguise replaced a person that the row names by a placeholder.
    Decorrelated {
        /// The column.
        column: String,
        /// The person named before.
        before: Value,
        /// The placeholder.
        after: Value,
    },
}

/// The hidden values of a row, and the values that stand there since.
pub type Difference<'a> = (Vec<(&'a str, &'a Value)>, Vec<(&'a str, &'a Value)>);

impl HiddenChange {
    /// Returns one word for the change.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Removed(_) => "removed",
            Self::Left(_) => "left",
            Self::Modified { .. } => "modified",
            Self::Decorrelated { .. } => "decorrelated",
        }
    }

    /// Gives every number its shortest digits, see [`shorten`].
    fn shorten(&mut self, dialect: Dialect, table: &CatalogTable) {
        match self {
            Self::Removed(cells) | Self::Left(cells) => shorten(dialect, table, cells),
            Self::Modified {
                column,
                before,
                after,
            }
            | Self::Decorrelated {
                column,
                before,
                after,
            } => {
                for value in [before, after] {
                    shorten_value(dialect, table, column, value);
                }
            }
        }
    }

    /// Returns the hidden values with their columns, and for changed values also the new ones.
    pub fn difference(&self) -> Difference<'_> {
        match self {
            Self::Removed(cells) | Self::Left(cells) => {
                let cells = cells.iter().map(|(name, value)| (name.as_str(), value));
                (cells.collect(), Vec::new())
            }
            Self::Modified {
                column,
                before,
                after,
            }
            | Self::Decorrelated {
                column,
                before,
                after,
            } => (
                vec![(column.as_str(), before)],
                vec![(column.as_str(), after)],
            ),
        }
    }
}

/// One row, or one value of a row, that is hidden.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Hidden {
    /// The disguise that hides it.
    pub disguise: DisguiseId,
    /// The time at which it was applied, as its caller gave it.
    pub time: Option<Timestamp>,
    /// The table.
    pub table: String,
    /// The identifying values of the row now, or when it was removed.
    pub identity: Cells,
    /// The change.
    pub change: HiddenChange,
}

/// Everything that disguises hide of a person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Exported {
    /// The person, under a nonce of this export.
    pub person: PersonCommitment,
    /// The rows and values, the oldest disguise first.
    pub hidden: Vec<Hidden>,
    /// The disguises of which a record cannot be read, because a part of it is missing or damaged.
    pub unreadable: BTreeSet<DisguiseId>,
}

impl Exported {
    /// The form of the documents of exports. Those of form 2 name the person, and earlier ones say
    /// neither the form nor whose they are.
    pub const FORM: u32 = 2;

    fn of(tenant: Option<&Value>, user: &Value) -> Result<Self, Error> {
        Ok(Self {
            person: PersonCommitment::new(tenant, user)?,
            hidden: Vec::new(),
            unreadable: BTreeSet::new(),
        })
    }
}

impl<D: Database> Engine<D> {
    /// Returns everything that the disguises of the holder of `credential` hide, or one of them.
    /// The oldest come first, in the form that later updates give them. Nothing is changed, and an
    /// entry records the export.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::NoSuchDisguise`], [`Error::Ended`], [`Error::Update`],
    /// [`Error::Database`], [`Error::Audit`].
    pub fn export(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        id: Option<DisguiseId>,
        time: Timestamp,
    ) -> Result<Exported, Error> {
        let key = id.map_or_else(String::new, |id| id.to_string());
        let asked = OperationRequest::new("disguise.export", key, Some(user), time);
        let options = &self.options;
        self.transactions.operation(&asked, |open| {
            // Updates note the new places of shared rows, for a reveal; here the notes are undone.
            control(&mut open.database, SAVEPOINT)?;
            let exported = hidden((open, options), (user, credential), id, time)?;
            control(&mut open.database, BACK)?;
            control(&mut open.database, RELEASE)?;
            let mut rows: BTreeMap<String, u64> = BTreeMap::new();
            for it in &exported.hidden {
                let count = rows.entry(it.table.clone()).or_default();
                *count = count.saturating_add(1);
            }
            open.done(&asked, Payload::new().counting("rows", &rows))?;
            Ok(exported)
        })
    }
}

/// Returns what is hidden by one disguise, or by all; the updates that this notes are undone later.
fn hidden<D: Database>(
    (open, options): (&mut Transactions<D>, &Options),
    (user, credential): (&Value, &Credential<'_>),
    id: Option<DisguiseId>,
    time: Timestamp,
) -> Result<Exported, Error> {
    open.refresh()?;
    accounts::refuse_namesakes(open, Some(user))?;
    let (salt, holder) = holders::former(open, user, credential, options.key_cost)?;
    let reach = holder.reach();
    let of = |it: &&Reached| id.is_none_or(|id| it.found.locator.origin.disguise == id.0);
    let meant: Vec<&Reached> = reach.bags.iter().filter(of).collect();
    let changes = |it: &&Reached| it.found.locator.changes;
    if id.is_some() && !meant.iter().any(changes) {
        return Err(Error::NoSuchDisguise);
    }
    let found = meant.len();
    let held = Held::all(&mut open.database)?;
    let mut there = Vec::with_capacity(found);
    for it in meant {
        let is_over = it.found.locator.origin.expires.is_over(time);
        if !is_over || concern::is_kept(open, options, (&salt, &held), user, (it, &reach.bags))? {
            there.push(it);
        }
    }
    let mut meant = there;
    if id.is_some() && meant.len() < found {
        return Err(Error::Ended);
    }
    meant.sort_by_key(|it| {
        let origin = it.found.locator.origin;
        (origin.time, origin.disguise)
    });
    let recorded = update::recorded(&mut open.database)?;
    let (catalog, live) = open.application.described()?;
    let (catalog, live) = (catalog.clone(), live.clone());
    let updates = Updates {
        recorded: &recorded,
        code: &options.updates,
        catalog: &catalog,
        live: &live,
        salt: &salt,
        gone: BTreeSet::new(),
    };
    let dialect = open.database.dialect();
    let mut exported = Exported::of(open.tenant(), user)?;
    for it in meant {
        let Some(mut bag) = it.read(&mut open.database)? else {
            exported.unreadable.insert(it.disguise());
            continue;
        };
        let origin = it.found.locator.origin;
        updates.apply(&mut open.database, &mut bag, origin.updates)?;
        for section in bag.sections {
            let row = |identity, change| Hidden {
                disguise: DisguiseId(origin.disguise),
                time: Timestamp::from_nanoseconds(origin.time).ok(),
                table: section.table.clone(),
                identity,
                change,
            };
            let table = live.table(&section.table);
            // Of a table that is gone nothing says which columns identify a row: it has its values alone.
            let key = table.map(|it| it.identity.as_slice());
            let rows = changed(&mut open.database, key.unwrap_or_default(), section.change)?;
            exported
                .hidden
                .extend(rows.into_iter().map(|(mut identity, mut change)| {
                    if let Some(table) = table {
                        shorten(dialect, &table.catalog, &mut identity);
                        change.shorten(dialect, &table.catalog);
                    }
                    row(identity, change)
                }));
        }
    }
    Ok(exported)
}

/// Gives every number of a column with 32 bits the shortest digits that the column reads back as the
/// same number. The driver tells it with the digits of 64 bits, as 0.10000000149011612 for 0.1.
fn shorten(dialect: Dialect, table: &CatalogTable, cells: &mut Cells) {
    for (column, value) in cells {
        shorten_value(dialect, table, column, value);
    }
}

fn shorten_value(dialect: Dialect, table: &CatalogTable, column: &str, value: &mut Value) {
    let kind = table.column(column).map_or("", Column::kind);
    let (Value::Real(wide), true) = (
        value,
        dialect == Dialect::Mysql && kind.starts_with("float"),
    ) else {
        return;
    };
    #[expect(clippy::cast_possible_truncation, reason = "a loss is noticed below")]
    let narrow = *wide as f32;
    if f64::from(narrow).to_bits() == wide.to_bits() {
        // The digits of one number are always those of another.
        *wide = narrow.to_string().parse().unwrap_or(*wide);
    }
}

fn control(database: &mut dyn TenantConnection, sql: &str) -> Result<(), Error> {
    database
        .execute(sql, &[])
        .doing("reading without a change")?;
    Ok(())
}

/// Returns the rows of a change, each with its identity.
fn changed(
    database: &mut dyn TenantConnection,
    key: &[String],
    change: Change,
) -> Result<Vec<(Cells, HiddenChange)>, Error> {
    let whole = |columns: &[String], row: Vec<Value>| -> (Cells, Cells) {
        let cells: Cells = columns.iter().cloned().zip(row).collect();
        let of_key = |(name, _): &&(String, Value)| key.contains(name);
        (cells.iter().filter(of_key).cloned().collect(), cells)
    };
    Ok(match change {
        Change::Removed { columns, rows } => rows
            .into_iter()
            .map(|row| {
                let (identity, cells) = whole(&columns, row);
                (identity, HiddenChange::Removed(cells))
            })
            .collect(),
        Change::Copied { columns, rows, .. } => in_force(database, rows)?
            .into_iter()
            .map(|row| {
                let (identity, cells) = whole(&columns, row);
                (identity, HiddenChange::Left(cells))
            })
            .collect(),
        Change::Modified {
            identity,
            column,
            rows,
        } => values(&identity, rows, |before, after| HiddenChange::Modified {
            column: column.clone(),
            before,
            after,
        }),
        Change::Decorrelated {
            identity,
            column,
            rows,
        } => values(&identity, rows, |before, after| {
            HiddenChange::Decorrelated {
                column: column.clone(),
                before,
                after,
            }
        }),
    })
}

fn values(
    identity: &[String],
    rows: Vec<Modified>,
    change: impl Fn(Value, Value) -> HiddenChange,
) -> Vec<(Cells, HiddenChange)> {
    let cells = |values: Vec<Value>| identity.iter().cloned().zip(values).collect();
    rows.into_iter()
        .map(|row| (cells(row.identity), change(row.before, row.after)))
        .collect()
}

/// Returns the rows of copies that are not void: nobody has put them back since.
fn in_force(
    database: &mut dyn TenantConnection,
    copies: Vec<Copied>,
) -> Result<Vec<Vec<Value>>, Error> {
    let versions: Vec<u64> = copies.iter().map(|it| it.version).collect();
    let removed = slots_of(database, &versions)?;
    let removed: BTreeSet<u64> = removed.into_values().collect();
    let is_removed = |it: &Copied| removed.contains(&it.version);
    let copies = copies.into_iter().filter(is_removed);
    Ok(copies.map(|it| it.row).collect())
}
