//! Filters candidates: deleted rows and rows that do not fulfil the condition are dropped.
//!
//! Tests of referenced tables are made slot by slot for all rows of a chunk, in the order of the
//! referenced ids. So each page of those tables is read once per chunk.

use crate::error::Result;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::query::condition::Condition;
use crate::query::rows::{Chunk, Reached};
use crate::tables::catalogue::OWN;
use crate::tables::change::Tables;
use crate::tables::id::{RowId, TableId};

/// The criteria by which candidates are kept.
pub(crate) struct Sieve<'c, 'a> {
    pub(crate) table: TableId,
    pub(crate) condition: &'c Condition<'a>,
    pub(crate) reached: &'c Reached,
    /// The highest id up to which rows are known to fulfil the condition.
    pub(crate) sure: u32,
    /// Tests that every row must pass, as a bit set.
    pub(crate) required: u32,
}

impl Sieve<'_, '_> {
    /// Returns the required tests of the table in `slot`, as a bit set.
    fn required_of(&self, slot: u8) -> u32 {
        let tests = self.condition.tests.iter().zip(0u32..);
        tests
            .filter(|(test, _)| test.reach.slot == slot)
            .fold(0, |all, (_, number)| all | 1 << number)
            & self.required
    }

    /// Returns whether a condition has more than its required tests.
    fn has_more(&self) -> bool {
        let known = self.required.count_ones() as usize;
        self.condition.root.is_some() && known < self.condition.tests.len()
    }
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Keeps the rows of a chunk, from `from` on, that are not deleted and fulfil the condition.
    pub(crate) fn sift(
        &mut self,
        sieve: &Sieve<'_, '_>,
        chunk: &mut Chunk,
        from: usize,
    ) -> Result<()> {
        self.sift_own(sieve, chunk, from)?;
        for (number, test) in sieve.condition.tests.iter().enumerate() {
            let slot = test.reach.slot;
            let tests = sieve.required_of(slot);
            // All tests of a slot are made together with its first one.
            if slot != OWN && tests.trailing_zeros() as usize == number {
                self.sift_slot(sieve, (slot, tests), chunk, from)?;
            }
        }
        if sieve.has_more() {
            self.sift_rest(sieve, chunk, from)?;
        }
        let mut kept = from;
        for row in from..chunk.count() {
            if chunk.is_dropped(self, row) {
                continue;
            }
            if kept != row {
                chunk.copy_ids(self, row, kept);
            }
            kept += 1;
        }
        chunk.truncate(kept);
        Ok(())
    }

    /// Drops rows that are deleted, or fail a test of their own columns.
    #[inline(never)] // Keeps its local variables off the stack of the other steps.
    fn sift_own(&mut self, sieve: &Sieve<'_, '_>, chunk: &Chunk, from: usize) -> Result<()> {
        let own = sieve.required_of(OWN);
        for row in from..chunk.count() {
            let id = chunk.id(self, row, 0);
            let kept = !self.is_deleted_in(sieve.table, sieve.reached, chunk, row)?
                && (id.is_within(sieve.sure) || self.passes_all(sieve.condition, own, id)?);
            if !kept {
                chunk.drop_row(self, row);
            }
        }
        Ok(())
    }

    /// Drops rows that reference a row of the table in `slot` that fails one of `tests`.
    #[inline(never)]
    fn sift_slot(
        &mut self,
        sieve: &Sieve<'_, '_>,
        (slot, tests): (u8, u32),
        chunk: &Chunk,
        from: usize,
    ) -> Result<()> {
        let mut pairs = 0;
        for row in from..chunk.count() {
            let id = chunk.id(self, row, 0);
            if !id.is_within(sieve.sure) {
                let found = self.id_in(sieve, chunk, row, slot)?;
                chunk.put_pair(self, pairs, found, row);
                pairs += 1;
            }
        }
        chunk.sort_pairs(self, pairs);
        let mut last = None;
        for rank in 0..pairs {
            let (id, row) = chunk.pair(self, rank);
            let passes = match last {
                Some((known, passes)) if known == id => passes,
                _ => self.passes_all(sieve.condition, tests, id)?,
            };
            last = Some((id, passes));
            if !passes {
                chunk.drop_row(self, row);
            }
        }
        Ok(())
    }

    /// Drops rows that fail the part of the condition besides the required tests.
    #[inline(never)]
    fn sift_rest(&mut self, sieve: &Sieve<'_, '_>, chunk: &Chunk, from: usize) -> Result<()> {
        let (condition, known) = (sieve.condition, sieve.required);
        for row in from..chunk.count() {
            let id = chunk.id(self, row, 0);
            if id.is_within(sieve.sure) {
                continue;
            }
            let mut ids = |tables: &mut Self, slot| tables.id_in(sieve, chunk, row, slot);
            let fulfils = match condition.root {
                Some(root) => self.fulfils(condition, root, known, &mut ids)?,
                None => true,
            };
            if !fulfils {
                chunk.drop_row(self, row);
            }
        }
        Ok(())
    }

    /// Returns the id of a row of a chunk in `slot`.
    fn id_in(
        &mut self,
        sieve: &Sieve<'_, '_>,
        chunk: &Chunk,
        row: usize,
        slot: u8,
    ) -> Result<RowId> {
        if let Some(at) = sieve.reached.at(slot) {
            return Ok(chunk.id(self, row, at));
        }
        let id = chunk.id(self, row, 0);
        self.base.join_id(sieve.table, id, usize::from(slot))
    }

    /// Returns whether the row `id` of the tested table passes all of `tests`.
    fn passes_all(&mut self, condition: &Condition<'_>, tests: u32, id: RowId) -> Result<bool> {
        for (number, test) in condition.tests.iter().enumerate() {
            if tests >> number & 1 == 1 && !self.passes(condition, test, id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_deleted_in(
        &mut self,
        table: TableId,
        reached: &Reached,
        chunk: &Chunk,
        row: usize,
    ) -> Result<bool> {
        let id = chunk.id(self, row, 0);
        if self.base.is_hole(table, id)? {
            return Ok(true);
        }
        if !self.summary.any_deletes() {
            return Ok(false);
        }
        if self.is_named_deleted(table, id)? {
            return Ok(true);
        }
        for number in 0..self.base.catalogue.slots_of(table).len() {
            let target = self.base.catalogue.slot(table, number)?.table;
            if !self.summary.has_deletes(target) {
                continue;
            }
            let found = match u8::try_from(number).ok().and_then(|slot| reached.at(slot)) {
                Some(at) => chunk.id(self, row, at),
                None => self.base.join_id(table, id, number)?,
            };
            if self.is_named_deleted(target, found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
