//! The records that a disguise writes, until they are stored.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::principals::Principals;
use super::worked_out::WorkedOut;
use crate::crypto::record_key::RecordKey;
use crate::crypto::suite::PublicKey;
use crate::error::Error;
use crate::records::bag::Bag;
use crate::records::section::{Change, Section};
use crate::records::subject::Naming;
use crate::schema::ResolvedTable;

/// The most last sections that may belong to the step that is being written.
const SECTIONS_A_STEP_MAX: usize = 16;

const UNMET: &str = "somebody of whom it would hide rows had everything forgotten since, where the database did not have it: what it hid of theirs would be lost. Apply it anew to each of the others";

/// People whose records were destroyed since the disguise that is applied again, as entries name
/// them, each with the key of that time. One id may have had several people.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// People whose records of this disguise were destroyed.
    pub(crate) disguise: Vec<(String, PublicKey)>,
    /// People whose records were all destroyed.
    pub(crate) everything: Vec<(String, PublicKey)>,
    /// People whose records were all destroyed where this disguise was not.
    pub(crate) unmet: Vec<(String, PublicKey)>,
    /// The naming of people in those entries.
    pub(crate) naming: Naming,
}

impl Forgotten {
    pub(crate) const fn is_empty(&self) -> bool {
        self.disguise.is_empty() && self.everything.is_empty()
    }
}

/// Bags of a disguise in progress.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) bags: BTreeMap<Vec<u8>, Bag>,
    /// Values of the removed rows that no record has.
    pub(super) worked_out: WorkedOut,
    /// The number of noted rows and values.
    pub(super) noted: usize,
}

impl Notes {
    /// Returns the bag of `principal`, a new one if there is none.
    pub(super) fn bag_of(&mut self, principal: Vec<u8>) -> Result<&mut Bag, Error> {
        Ok(match self.bags.entry(principal) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(Bag::empty(RecordKey::generate()?)),
        })
    }

    /// Notes in the bag of `principal` by which names removed rows name nobody.
    pub(super) fn name_nobody(
        &mut self,
        principal: &[u8],
        nobody: BTreeSet<Vec<u8>>,
    ) -> Result<(), Error> {
        if !nobody.is_empty() {
            self.bag_of(principal.to_vec())?.nobody.extend(nobody);
        }
        Ok(())
    }

    /// Notes a change to rows of `table`, joined with like ones of the same step.
    pub(super) fn add(
        &mut self,
        principal: Vec<u8>,
        number: u32,
        table: &ResolvedTable,
        mut change: Change,
    ) -> Result<(), Error> {
        self.noted = self.noted.saturating_add(change.rows());
        let bag = self.bag_of(principal)?;
        let same = |section: &&mut Section| section.step == number && section.table == table.name;
        // A step writes at most a few kinds of sections: for each column and for whole rows.
        let mut candidates = bag
            .sections
            .iter_mut()
            .rev()
            .take(SECTIONS_A_STEP_MAX)
            .filter(same);
        if !candidates.any(|section| joins(&mut section.change, &mut change)) {
            bag.sections.push(Section::new(number, table, change));
        }
        Ok(())
    }

    /// Drops the records that were destroyed since under the key that they would be sealed to,
    /// except those that other disguises need. Records of others stay, and copies of shared rows
    /// too.
    pub(super) fn forget(
        &mut self,
        forgotten: &Forgotten,
        principals: &Principals<'_>,
    ) -> Result<(), Error> {
        self.bags.retain(|name, _| !principals.has_forgotten(name));
        if forgotten.is_empty() && forgotten.unmet.is_empty() {
            return Ok(());
        }
        let salt = principals.notes.salt;
        for (owner, mut bag) in std::mem::take(&mut self.bags) {
            let names = forgotten.naming.all(salt, &owner)?;
            let key = principals.known.get(&owner).map(|(public, _)| public);
            let is_among = |some: &[(String, PublicKey)]| {
                let mut some = some.iter();
                some.any(|(name, with)| names.contains(name) && key == Some(with))
            };
            if is_among(&forgotten.unmet) && !bag.is_empty() {
                let what = UNMET.to_owned();
                return Err(Error::Value { what });
            }
            if is_among(&forgotten.everything) {
                continue;
            }
            if is_among(&forgotten.disguise) {
                bag.sections.retain(Section::is_for_departed);
                bag.principals.clear();
                bag.drop_notes();
            }
            if !bag.is_empty() {
                self.bags.insert(owner, bag);
            }
        }
        Ok(())
    }
}

/// Moves the rows of `more` into `last` when both are of one kind and concern the same columns.
fn joins(last: &mut Change, more: &mut Change) -> bool {
    match (last, more) {
        (Change::Removed { rows, .. }, Change::Removed { rows: more, .. }) => {
            rows.append(more);
            true
        }
        (
            Change::Copied { departed, rows, .. },
            Change::Copied {
                departed: also,
                rows: more,
                ..
            },
        ) if departed == also => {
            rows.append(more);
            true
        }
        (
            Change::Modified { column, rows, .. },
            Change::Modified {
                column: also,
                rows: more,
                ..
            },
        )
        | (
            Change::Decorrelated { column, rows, .. },
            Change::Decorrelated {
                column: also,
                rows: more,
                ..
            },
        ) if column == also => {
            rows.append(more);
            true
        }
        _ => false,
    }
}
