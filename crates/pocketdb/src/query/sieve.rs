//! Filters candidates: deleted rows and rows that do not fulfil the condition are dropped.
//!
//! Tests of referenced tables are made slot by slot for all rows of a chunk, in the order of the
//! referenced ids. So each page of those tables is read once per chunk.

use crate::error::Result;
use crate::pager::arena::Arena;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::query::chunk::{Chunk, Reached};
use crate::query::condition::{Condition, Node};
use crate::tables::catalogue::OWN;
use crate::tables::change::Tables;
use crate::tables::id::{RowId, TableId};

/// The criteria by which candidates are kept.
pub(crate) struct Sieve<'t, 'c, 'a, F: Nand, S: SecureStore> {
    pub(crate) tables: &'t mut Tables<F, S>,
    pub(crate) table: TableId,
    pub(crate) condition: &'c Condition<'a>,
    pub(crate) reached: &'c Reached,
    /// The highest id up to which rows are known to fulfil the condition.
    pub(crate) sure: u32,
    /// Tests that every row must pass, as a bit set.
    pub(crate) required: u32,
}

impl<F: Nand, S: SecureStore> Sieve<'_, '_, '_, F, S> {
    /// Keeps the rows of a chunk, from `from` on, that are not deleted and fulfil the condition.
    pub(crate) fn sift(&mut self, chunk: &mut Chunk, from: usize) -> Result<()> {
        self.sift_own(chunk, from)?;
        for (number, test) in self.condition.tests.iter().enumerate() {
            let slot = test.reach.slot;
            let tests = self.required_of(slot);
            // All tests of a slot are made together with its first one.
            if slot != OWN && tests.trailing_zeros() as usize == number {
                self.sift_slot((slot, tests), chunk, from)?;
            }
        }
        if self.has_more() {
            self.sift_rest(chunk, from)?;
        }
        let mut kept = from;
        for row in from..chunk.count() {
            if chunk.is_dropped(self.arena(), row) {
                continue;
            }
            if kept != row {
                chunk.copy_ids(self.arena_mut(), row, kept);
            }
            kept += 1;
        }
        chunk.truncate(kept);
        Ok(())
    }

    /// Drops rows that are deleted, or fail a test of their own columns.
    #[inline(never)] // Keeps its local variables off the stack of the other steps.
    fn sift_own(&mut self, chunk: &Chunk, from: usize) -> Result<()> {
        let own = self.required_of(OWN);
        for row in from..chunk.count() {
            let id = chunk.id(self.arena(), row, 0);
            let kept = !self.is_deleted_in(chunk, row)?
                && (id.is_within(self.sure) || self.passes_all(own, id)?);
            if !kept {
                chunk.drop_row(self.arena_mut(), row);
            }
        }
        Ok(())
    }

    /// Drops rows that reference a row of the table in `slot` that fails one of `tests`.
    #[inline(never)]
    fn sift_slot(&mut self, (slot, tests): (u8, u32), chunk: &Chunk, from: usize) -> Result<()> {
        let mut pairs = 0;
        for row in from..chunk.count() {
            let id = chunk.id(self.arena(), row, 0);
            if !id.is_within(self.sure) {
                let found = self.id_in(chunk, row, slot)?;
                chunk.put_pair(self.arena_mut(), pairs, found, row);
                pairs += 1;
            }
        }
        chunk.sort_pairs(self.arena_mut(), pairs);
        let mut last = None;
        for rank in 0..pairs {
            let (id, row) = chunk.pair(self.arena(), rank);
            let passes = match last {
                Some((known, passes)) if known == id => passes,
                _ => self.passes_all(tests, id)?,
            };
            last = Some((id, passes));
            if !passes {
                chunk.drop_row(self.arena_mut(), row);
            }
        }
        Ok(())
    }

    /// Drops rows that fail the part of the condition besides the required tests.
    #[inline(never)]
    fn sift_rest(&mut self, chunk: &Chunk, from: usize) -> Result<()> {
        for row in from..chunk.count() {
            let id = chunk.id(self.arena(), row, 0);
            if id.is_within(self.sure) {
                continue;
            }
            let fulfils = match self.condition.root {
                Some(root) => self.fulfils(root, chunk, row)?,
                None => true,
            };
            if !fulfils {
                chunk.drop_row(self.arena_mut(), row);
            }
        }
        Ok(())
    }

    /// Returns whether a row of a chunk fulfils a part of the condition, besides the required tests.
    fn fulfils(&mut self, node: u16, chunk: &Chunk, row: usize) -> Result<bool> {
        match self.condition.node(node) {
            Node::Always => Ok(true),
            Node::And(a, b) => Ok(self.fulfils(a, chunk, row)? && self.fulfils(b, chunk, row)?),
            Node::Or(a, b) => Ok(self.fulfils(a, chunk, row)? || self.fulfils(b, chunk, row)?),
            Node::Test(number) if self.required >> number & 1 == 1 => Ok(true),
            Node::Test(number) => {
                let test = self.condition.test(number);
                let id = self.id_in(chunk, row, test.reach.slot)?;
                self.condition.row_passes(self.tables, &test, id)
            }
        }
    }

    /// Returns the id of a row of a chunk in `slot`.
    fn id_in(&mut self, chunk: &Chunk, row: usize, slot: u8) -> Result<RowId> {
        if let Some(at) = self.reached.at(slot) {
            return Ok(chunk.id(self.arena(), row, at));
        }
        let id = chunk.id(self.arena(), row, 0);
        self.tables.base.join_id(self.table, id, usize::from(slot))
    }

    /// Returns whether the row `id` of the tested table passes all of `tests`.
    fn passes_all(&mut self, tests: u32, id: RowId) -> Result<bool> {
        for (number, test) in self.condition.tests.iter().enumerate() {
            if tests >> number & 1 == 1 && !self.condition.row_passes(self.tables, test, id)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_deleted_in(&mut self, chunk: &Chunk, row: usize) -> Result<bool> {
        let id = chunk.id(self.arena(), row, 0);
        if self.tables.base.is_hole(self.table, id)? {
            return Ok(true);
        }
        if !self.tables.summary.any_deletes() {
            return Ok(false);
        }
        if self.tables.is_named_deleted(self.table, id)? {
            return Ok(true);
        }
        for number in 0..self.tables.base.catalogue.slots_of(self.table).len() {
            let target = self.tables.base.catalogue.slot(self.table, number)?.table;
            if !self.tables.summary.has_deletes(target) {
                continue;
            }
            let found = match u8::try_from(number)
                .ok()
                .and_then(|slot| self.reached.at(slot))
            {
                Some(at) => chunk.id(self.arena(), row, at),
                None => self.tables.base.join_id(self.table, id, number)?,
            };
            if self.tables.is_named_deleted(target, found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

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

    fn arena(&self) -> &Arena {
        &self.tables.base.pager.arena
    }

    fn arena_mut(&mut self) -> &mut Arena {
        &mut self.tables.base.pager.arena
    }
}
