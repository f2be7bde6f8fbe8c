//! Sections that updates make of those of a record, and the new names of shared rows.

use std::collections::{BTreeMap, BTreeSet};

use super::Row;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::co_owned;
use crate::records::section::{Change, Modified, Section};
use crate::records::shape::ShapeOf;

/// New sections in the order of their creation, and the new names of shared rows.
#[derive(Default)]
pub(super) struct Anew {
    pub(super) sections: Vec<Section>,
    pub(super) moves: Vec<Move>,
}

/// A row that has a new name.
pub(super) struct Move {
    pub(super) from: Named,
    pub(super) to: Vec<u8>,
    /// The version of the new row, where a row became several.
    pub(super) version: Option<u64>,
}

pub(super) enum Named {
    Slot(Vec<u8>),
    Version(u64),
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of the column and of its records, each by itself"
)]
/// A column of a table that a step overwrote, either an owner column or another.
#[derive(Clone, Copy)]
pub(super) struct ColumnOfStep<'r> {
    pub(super) step: u32,
    pub(super) owner: bool,
    pub(super) table: &'r str,
    pub(super) identity: &'r [String],
    pub(super) column: &'r str,
    pub(super) shape: &'r ShapeOf,
    /// The number of updates that its records have met.
    pub(super) known: u32,
    /// True if they stay behind the ones after these.
    pub(super) is_held: bool,
    /// True if they were left so before.
    pub(super) is_again: bool,
}

impl ColumnOfStep<'_> {
    /// Returns it for records that stay as they are.
    pub(super) const fn held(self) -> Self {
        Self {
            is_held: true,
            ..self
        }
    }
}

impl Anew {
    pub(super) fn removed(&mut self, step: u32, row: Row, shape: ShapeOf) {
        let (columns, values): (Vec<String>, Vec<Value>) = row.columns.into_iter().unzip();
        let same = self
            .sections
            .iter_mut()
            .find_map(|it| match &mut it.change {
                Change::Removed {
                    columns: also,
                    rows,
                } if it.step == step
                    && it.table == row.table
                    && it.shape == shape
                    && *also == columns =>
                {
                    Some(rows)
                }
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
            shape,
            held: None,
        });
    }

    pub(super) fn value(&mut self, of: ColumnOfStep<'_>, row: Modified) {
        let ColumnOfStep {
            step,
            owner,
            table,
            identity,
            column,
            shape,
            known,
            is_held,
            is_again: _,
        } = of;
        let held = is_held.then_some(known);
        let same = self.sections.iter_mut().find_map(|it| {
            let here = it.step == step && it.table == table && it.shape == *shape;
            let here = here && it.held == held;
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
            shape: shape.clone(),
            held,
        });
    }
}

/// Stores the new names of removed shared rows.
pub(super) fn rename(database: &mut dyn TenantConnection, moves: Vec<Move>) -> Result<(), Error> {
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
    let mut stays = BTreeSet::new();
    for it in moves {
        let found = match &it.from {
            Named::Slot(slot) => named.get_key_value(slot),
            Named::Version(version) => versions.iter().find(|(_, found)| **found == *version),
        };
        let Some((slot, version)) = found else {
            continue;
        };
        if *slot == it.to && it.version.is_none() {
            stays.insert(it.to);
        } else {
            gone.push(slot.clone());
            there.insert(it.to, it.version.unwrap_or(*version));
        }
    }
    gone.retain(|slot| !there.contains_key(slot) && !stays.contains(slot));
    co_owned::remove_slots(database, &gone)?;
    let there: Vec<(Vec<u8>, u64)> = there.into_iter().collect();
    co_owned::put_slots(database, &there)
}
