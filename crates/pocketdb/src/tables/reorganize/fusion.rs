//! Builds the keys of an index in one pass: the keys of the merged parts, without those lost, with
//! those gained.

use alloc::vec::Vec;

use crate::error::Result;
use crate::pager::Pager;
use crate::pager::arena::Area;
use crate::pager::bytes::{narrow, part, put};
use crate::pager::directory::Entry;
use crate::pager::flash::Nand;
use crate::pager::root::SecureStore;
use crate::pager::seal::{PAYLOAD_BYTES, ROLE_LIST, ROLE_PART};
use crate::pager::sort::{Repeats, Run, Sorter, ascending, descending};
use crate::tables::base::Base;
use crate::tables::change::Tables;
use crate::tables::id::ID_BYTES;
use crate::tables::keys::{IDS_PER_PAGE, Keys};
use crate::tables::reorganize::Site;

/// Number of frames of the fusion itself: two pages being written, and one of lost entries.
const FUSION_FRAMES: usize = 3;
/// Number of frames for each merged part: a page of keys, the next one, and one of ids.
const PRESENT_FRAMES: usize = 3;

/// The entries of a merged part in order.
struct Present {
    keys: Keys,
    /// The key being read, and its remaining ids.
    number: u32,
    next: u32,
    end: u32,
    key: Vec<u8>,
    /// The next entry.
    record: Vec<u8>,
}

/// Entries in order, with the next one read ahead.
struct Ahead<E> {
    entries: E,
    record: Vec<u8>,
    there: bool,
}

/// The writer of the new keys.
struct Writer {
    records: Area,
    ids: Area,
    keys: Keys,
    /// Number of ids written so far, of all keys.
    total: u32,
    key: Vec<u8>,
}

impl<F: Nand, S: SecureStore> Tables<F, S> {
    /// Builds the keys of one index.
    #[inline(never)] // Keeps its local variables off the stack of the other tasks.
    pub(super) fn build_keys(&mut self, site: &mut Site, number: usize) -> Result<()> {
        let job = self.base.job(number)?;
        // Lost entries go to a run first, because both sorts need the same frames.
        let lost = self.sorted_lost(site, &job)?;
        let mut presents = self.base.present_entries(number, job.width)?;
        let frames = FUSION_FRAMES + PRESENT_FRAMES * presents.len();
        let gained = self.sorted_gained(site, &job, frames)?;
        let mut gained = Ahead::new(gained, job.width);
        let mut lost = Ahead::new(lost, job.width);
        gained.advance(&mut self.base.pager)?;
        lost.advance(&mut self.base.pager)?;
        let width = job.width - ID_BYTES;
        let mut writer = Writer {
            records: self.base.pager.arena.lease(1)?,
            ids: self.base.pager.arena.lease(1)?,
            keys: Keys {
                side: site.frozen.side,
                page: site.body.pages,
                count: 0,
                list: site.lists.pages,
                width,
            },
            total: 0,
            key: alloc::vec![0; width],
        };
        self.base.pager.arena.area_mut(writer.records).fill(0);
        self.base.pager.arena.area_mut(writer.ids).fill(0);
        let mut record = alloc::vec![0; job.width];
        let mut old = self.base.next_entry(&mut presents, &mut record)?;
        // One pass over five streams: equal entries of the old and the lost ones cancel out, and a
        // lost entry that no part has is skipped.
        while old || gained.there {
            if old && lost.is_before(&record) {
                lost.advance(&mut self.base.pager)?;
            } else if old && lost.is_equal(&record) {
                old = self.base.next_entry(&mut presents, &mut record)?;
            } else if old && !gained.is_before(&record) {
                self.base.write_entry(site, &mut writer, &record)?;
                old = self.base.next_entry(&mut presents, &mut record)?;
            } else {
                self.base.write_entry(site, &mut writer, &gained.record)?;
                gained.advance(&mut self.base.pager)?;
            }
        }
        self.base.finish_keys(site, number, &mut writer)
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    /// Opens the entries of the merged parts.
    fn present_entries(&mut self, number: usize, width: usize) -> Result<Vec<Present>> {
        let mut presents = Vec::new();
        let table = self.catalogue.index(number)?.table;
        let kept = usize::from(self.pager.committed.part.kept);
        for rank in kept..self.parts.len() {
            let part = self.parts.get(rank).filter(|part| part.own(table) > 0);
            let Some(side) = part.map(|part| part.side) else {
                continue;
            };
            let keys = Keys::read(self, side, number)?;
            let mut present = Present {
                keys,
                number: 0,
                next: 0,
                end: 0,
                key: alloc::vec![0; keys.width],
                record: alloc::vec![0; width],
            };
            if self.next_present(&mut present)? {
                presents.reserve_exact(1);
                presents.push(present);
            }
        }
        Ok(presents)
    }

    /// Copies the smallest next entry of the merged parts; returns `false` after the last one.
    fn next_entry(&mut self, presents: &mut Vec<Present>, record: &mut [u8]) -> Result<bool> {
        let entries = presents.iter().enumerate();
        let smallest = entries.min_by(|(_, one), (_, other)| one.record.cmp(&other.record));
        let Some(number) = smallest.map(|(number, _)| number) else {
            return Ok(false);
        };
        if let Some(present) = presents.get_mut(number) {
            record.copy_from_slice(&present.record);
            if !self.next_present(present)? {
                presents.remove(number);
            }
        }
        Ok(true)
    }

    /// Advances to the next entry of a part; returns `false` after the last one.
    fn next_present(&mut self, present: &mut Present) -> Result<bool> {
        let keys = present.keys;
        while present.next == present.end {
            if present.number == keys.count {
                return Ok(false);
            }
            let number = present.number;
            // The end first: the record read last leaves its key.
            present.end = keys.record(&mut self.pager, number + 1, &mut present.key)?;
            present.next = keys.record(&mut self.pager, number, &mut present.key)?;
            present.number += 1;
        }
        let id = keys.id(&mut self.pager, present.next)?;
        present.next += 1;
        put(&mut present.record, 0, &present.key);
        put(&mut present.record, keys.width, &descending(id.number()));
        Ok(true)
    }

    fn write_entry(&mut self, site: &mut Site, writer: &mut Writer, entry: &[u8]) -> Result<()> {
        let width = writer.keys.width;
        let key = part(entry, 0, width);
        if writer.keys.count == 0 || key != &*writer.key {
            put(&mut writer.key, 0, key);
            self.write_record(site, writer)?;
            writer.keys.count += 1;
        }
        let id = ascending(part(entry, width, ID_BYTES));
        let at = (writer.total % IDS_PER_PAGE) as usize * ID_BYTES;
        put(self.pager.arena.area_mut(writer.ids), at, &id.to_le_bytes());
        writer.total += 1;
        if writer.total.is_multiple_of(IDS_PER_PAGE) {
            self.pager
                .part_append(&mut site.lists, ROLE_LIST, writer.ids)?;
        }
        Ok(())
    }

    /// Writes the writer's key with the number of ids before its own.
    fn write_record(&mut self, site: &mut Site, writer: &Writer) -> Result<()> {
        let keys = &writer.keys;
        let per_page = keys.per_page();
        let at = (keys.count % per_page) as usize * (keys.width + ID_BYTES);
        let page = self.pager.arena.area_mut(writer.records);
        put(page, at, &writer.key);
        put(page, at + keys.width, &writer.total.to_le_bytes());
        if (keys.count + 1).is_multiple_of(per_page) {
            self.pager
                .part_append(&mut site.body, ROLE_PART, writer.records)?;
        }
        Ok(())
    }

    /// Ends the last list, writes the upper levels, and records their places.
    fn finish_keys(&mut self, site: &mut Site, number: usize, writer: &mut Writer) -> Result<()> {
        // One record more than keys ends the last list.
        writer.key.fill(u8::MAX);
        self.write_record(site, writer)?;
        let keys = writer.keys;
        if !(keys.count + 1).is_multiple_of(keys.per_page()) {
            self.pager
                .part_append(&mut site.body, ROLE_PART, writer.records)?;
        }
        if !writer.total.is_multiple_of(IDS_PER_PAGE) {
            self.pager
                .part_append(&mut site.lists, ROLE_LIST, writer.ids)?;
        }
        // Each level is written from the one below, which is on flash: memory holds one page of it.
        let mut below = (keys.page, keys.count.div_ceil(keys.per_page()));
        for &pages in keys.levels()?.iter() {
            let start = site.body.pages;
            self.write_level(site, below, keys.width, writer.records)?;
            below = (start, pages);
        }
        self.pager.arena.release(writer.ids);
        self.pager.arena.release(writer.records);
        let entry = Entry {
            page: keys.page,
            epoch: u64::from(keys.count) | u64::from(keys.list) << 32,
            rows: 0,
        };
        Ok(self
            .pager
            .set_entry(site.frozen.side.contents, narrow(number), &entry)?)
    }

    /// Writes the first keys of the `pages` pages from `first` on.
    fn write_level(
        &mut self,
        site: &mut Site,
        (first, pages): (u32, u32),
        width: usize,
        area: Area,
    ) -> Result<()> {
        let per_page = narrow(PAYLOAD_BYTES / width.max(1));
        for page in 0..pages {
            let frame = self
                .pager
                .log_load(site.frozen.side.body, ROLE_PART, first + page)?;
            let at = (page % per_page) as usize * width;
            self.pager
                .arena
                .copy_to_page(frame, 0, width, (area, 0), at);
            if (page + 1).is_multiple_of(per_page) || page + 1 == pages {
                self.pager.part_append(&mut site.body, ROLE_PART, area)?;
            }
        }
        Ok(())
    }
}

/// A sorted sequence of entries.
trait Entries {
    /// Copies the next entry; returns `false` after the last one.
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        record: &mut [u8],
    ) -> Result<bool>;
}

impl Entries for Run {
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        record: &mut [u8],
    ) -> Result<bool> {
        Ok(self.next(pager, record)?)
    }
}

impl Entries for Sorter<Repeats> {
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        record: &mut [u8],
    ) -> Result<bool> {
        Ok(self.next(pager, record)?)
    }
}

impl<E: Entries> Ahead<E> {
    fn new(entries: E, width: usize) -> Self {
        Self {
            entries,
            record: alloc::vec![0; width],
            there: false,
        }
    }

    fn advance<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<()> {
        self.there = self.entries.entry(pager, &mut self.record)?;
        Ok(())
    }

    fn is_before(&self, record: &[u8]) -> bool {
        self.there && *self.record < *record
    }

    fn is_equal(&self, record: &[u8]) -> bool {
        self.there && *self.record == *record
    }
}
