//! The pair of pages that a unit has for each index: tags, and filters with pointers.

use crate::error::Result;
use crate::limits::{FILTER_UNITS, UNIT_ROWS};
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{narrow, part, put, set_bit, take, u16_at};
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::{KeyHash, PAYLOAD_BYTES, ROLE_FILTER, ROLE_KEY, TAG_BYTES};
use crate::tables::base::Base;
use crate::tables::hashes::{HASH_BYTES, Hashes};
use crate::tables::id::TableId;
use crate::tables::index::{
    Cursor, FILTER_BYTES, POINTER_BYTES, POINTERS_AT, load_page, number_of, positions,
};
use crate::tables::unit::Site;

/// The value for no slot; a unit has fewer slots.
const NO_SLOT: u8 = u8::MAX;

impl Site {
    /// Builds and programs the pair of pages of one index, given the hashes of the unit's rows.
    #[inline(never)] // Keeps its local variables off the stack while hashes are made.
    pub(crate) fn build_index<F: Nand, S: SecureStore>(
        &mut self,
        base: &mut Base<F, S>,
        number: usize,
        hashes: Hashes,
        pair: Area,
    ) -> Result<()> {
        self.build_pair(base, number, hashes, pair)?;
        self.program(&mut base.pager, ROLE_KEY, pair, 0)?;
        self.program(&mut base.pager, ROLE_FILTER, pair, 1)
    }

    /// Fills the two pages of `pair` with the tags, filters and pointers of one index.
    fn build_pair<F: Nand, S: SecureStore>(
        &self,
        base: &mut Base<F, S>,
        number: usize,
        (hashes, at): Hashes,
        pair: Area,
    ) -> Result<()> {
        base.pager.arena.area_mut(pair).fill(0);
        let before = self.unit.checked_sub(1);
        let mut behind = match before.filter(|&unit| unit >= base.first_unit(self.table)) {
            Some(before) => {
                let first = base.catalogue.indexes_of(self.table).start;
                carry_filters(base, self.table, before, number - first, pair)?;
                Some(Cursor::new(
                    base,
                    number,
                    [0; HASH_BYTES],
                    self.unit * UNIT_ROWS,
                )?)
            }
            None => None,
        };
        // Within the unit the rows find each other in memory; only a key's first row looks back.
        let mut seen = Seen::new();
        for slot in 0..UNIT_ROWS {
            let hash_at = at + slot as usize * HASH_BYTES;
            let area = base.pager.arena.area(hashes);
            let hash: KeyHash = take(area, hash_at);
            let same =
                |other: u8| part(area, at + usize::from(other) * HASH_BYTES, HASH_BYTES) == hash;
            let row = self.unit * UNIT_ROWS + slot;
            let distance = match seen.insert(slot, &hash, same) {
                Some(before) => slot - u32::from(before),
                None => match &mut behind {
                    Some(cursor) => {
                        cursor.hash = hash;
                        let found = cursor.in_cover(base, self.unit - 1)?;
                        found.map_or(0, |found| row - found)
                    }
                    None => 0,
                },
            };
            let filter = base.pager.arena.area_page(pair, 1);
            positions(&hash).for_each(|position| set_bit(filter, position));
            set_pointer(filter, slot, distance);
        }
        self.write_tags(&mut base.pager, number, &seen, (at, hashes), pair);
        Ok(())
    }

    /// Writes the tags of the rows that are the last with their key, and noise in the other slots.
    fn write_tags<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        number: usize,
        seen: &Seen,
        (at, hashes): (usize, Area),
        pair: Area,
    ) {
        let slots = narrow(PAYLOAD_BYTES.div_ceil(TAG_BYTES));
        for slot in 0..slots {
            // One tag for each key: equal tags would show equal keys.
            let tag = if slot < UNIT_ROWS && seen.is_last(slot) {
                let hash = take(pager.arena.area(hashes), at + slot as usize * HASH_BYTES);
                pager.root.seal.tag(&hash, self.epoch)
            } else {
                pager.root.seal.noise(number_of(number), slot, self.epoch)
            };
            let place = slot as usize * TAG_BYTES;
            let page = pager.arena.area_page(pair, 0);
            let room = PAYLOAD_BYTES.saturating_sub(place).min(TAG_BYTES);
            put(page, place, part(&tag, 0, room));
        }
    }
}

/// A hash table of a unit's slots by key, which finds equal keys.
struct Seen {
    first: [u8; 256],
    next: [u8; UNIT_ROWS as usize],
    last: [bool; UNIT_ROWS as usize],
}

impl Seen {
    fn new() -> Self {
        Self {
            first: [NO_SLOT; 256],
            next: [NO_SLOT; UNIT_ROWS as usize],
            last: [true; UNIT_ROWS as usize],
        }
    }

    /// Adds a slot; returns the last earlier slot for which `same` holds.
    fn insert(&mut self, slot: u32, hash: &KeyHash, same: impl Fn(u8) -> bool) -> Option<u8> {
        let [bucket, ..] = *hash;
        let number = u8::try_from(slot).unwrap_or(NO_SLOT);
        let head = self.first.get_mut(usize::from(bucket))?;
        let mut before = *head;
        if let Some(next) = self.next.get_mut(slot as usize) {
            *next = before;
        }
        *head = number;
        while before != NO_SLOT && !same(before) {
            before = self
                .next
                .get(usize::from(before))
                .copied()
                .unwrap_or(NO_SLOT);
        }
        let found = (before != NO_SLOT).then_some(before)?;
        if let Some(last) = self.last.get_mut(usize::from(found)) {
            *last = false;
        }
        Some(found)
    }

    fn is_last(&self, slot: u32) -> bool {
        self.last.get(slot as usize).copied().unwrap_or(false)
    }
}

/// Copies the filters and pointers of `before` and the units before it.
fn carry_filters<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    table: TableId,
    before: u32,
    rank: usize,
    pair: Area,
) -> Result<()> {
    let kept = FILTER_UNITS as usize - 1;
    let frame = load_page(base, table, before, rank, ROLE_FILTER)?;
    base.pager
        .arena
        .copy_to_page(frame, 0, kept * FILTER_BYTES, (pair, 1), FILTER_BYTES);
    let pointers = kept * POINTER_BYTES;
    let to = POINTERS_AT + POINTER_BYTES;
    base.pager
        .arena
        .copy_to_page(frame, POINTERS_AT, pointers, (pair, 1), to);
    Ok(())
}

/// Writes the 12 bits of one pointer of the newest unit of a filter page.
fn set_pointer(page: &mut [u8], slot: u32, distance: u32) {
    assert!(
        distance < 1 << 12,
        "the bound keeps distances under 12 bits"
    );
    let at = POINTERS_AT + slot as usize * 3 / 2;
    let shift = 4 * (slot % 2);
    let both = u32::from(u16_at(page, at)) | (distance & 0xFFF) << shift;
    put(page, at, part(&both.to_le_bytes(), 0, 2));
}
