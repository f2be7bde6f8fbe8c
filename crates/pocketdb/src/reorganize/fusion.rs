//! The keys of an index: those of the parts taken in without those lost, with those gained, in one
//! pass.

use crate::arena::Area;
use crate::bytes::{narrow, part, put};
use crate::directory::Entry;
use crate::error::Result;
use crate::flash::Nand;
use crate::keys::{IDS_PER_PAGE, Keys};
use crate::limits::{KEY_BYTES_MAX, PARTS_MAX};
use crate::part::{ID_BYTES, Side as PartSide};
use crate::reorganize::Site;
use crate::reorganize::entries::ENTRY_BYTES_MAX;
use crate::root::SecureStore;
use crate::seal::{PAYLOAD_BYTES, ROLE_LIST, ROLE_PART};
use crate::sort::{Repeats, Run, Sorted, ascending, descending};
use crate::store::Store;

/// Frames that fusion uses itself: two pages being written, one of entries that are lost.
const FUSION_FRAMES: usize = 3;
/// Frames for each part taken in: a page of keys, the one behind it, and one of ids.
const PRESENT_FRAMES: usize = 3;

/// The entries of a part in order.
#[derive(Clone, Copy)]
struct Present {
    side: PartSide,
    keys: Keys,
    /// The key whose ids are read, and the ids left of it.
    number: u32,
    next: u32,
    end: u32,
    key: [u8; KEY_BYTES_MAX],
}

/// The entries of all parts taken in, and the next one of each.
struct Presents {
    parts: [Option<(Present, [u8; ENTRY_BYTES_MAX])>; PARTS_MAX],
}

/// Entries in order and the next one.
struct Ahead<E> {
    entries: E,
    record: [u8; ENTRY_BYTES_MAX],
    there: bool,
}

/// The keys being written.
struct Writer {
    records: Area,
    ids: Area,
    keys: Keys,
    /// Ids written so far, all keys together.
    total: u32,
    key: [u8; KEY_BYTES_MAX],
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Builds the keys of one index.
    pub(super) fn build_keys(&mut self, site: &mut Site, number: usize) -> Result<()> {
        let job = self.job(number)?;
        let lost = self.sorted_lost(site, &job)?;
        let mut presents = self.present_entries(number, job.width)?;
        let parts = presents.parts.iter().flatten().count();
        let frames = FUSION_FRAMES + PRESENT_FRAMES * parts;
        let gained = self.sorted_gained(site, &job, frames)?;
        let (mut gained, mut lost) = (Ahead::new(gained), Ahead::new(lost));
        gained.advance(self, job.width)?;
        lost.advance(self, job.width)?;
        let mut writer = Writer {
            records: self.arena.lease(1)?,
            ids: self.arena.lease(1)?,
            keys: Keys {
                page: site.body.pages,
                count: 0,
                list: site.lists.pages,
                width: job.width - ID_BYTES,
            },
            total: 0,
            key: [0; KEY_BYTES_MAX],
        };
        self.arena.area_mut(writer.records).fill(0);
        self.arena.area_mut(writer.ids).fill(0);
        let mut record = [0u8; ENTRY_BYTES_MAX];
        let record = record.get_mut(..job.width).unwrap_or(&mut []);
        let mut old = self.next_entry(&mut presents, record)?;
        while old || gained.there {
            if old && lost.is_before(record, job.width) {
                lost.advance(self, job.width)?;
            } else if old && lost.is_equal(record, job.width) {
                old = self.next_entry(&mut presents, record)?;
            } else if old && !gained.is_before(record, job.width) {
                self.write_entry(site, &mut writer, record)?;
                old = self.next_entry(&mut presents, record)?;
            } else {
                let entry = gained.record;
                self.write_entry(site, &mut writer, part(&entry, 0, job.width))?;
                gained.advance(self, job.width)?;
            }
        }
        self.finish_keys(site, number, writer)
    }

    /// The first entries of the parts taken in.
    fn present_entries(&mut self, number: usize, width: usize) -> Result<Presents> {
        let mut presents = Presents {
            parts: [None; PARTS_MAX],
        };
        let table = usize::from(self.catalogue.index(number)?.table);
        let kept = usize::from(self.committed.part.kept);
        for (place, rank) in presents.parts.iter_mut().zip(kept..self.parts.len()) {
            let part = self.parts.get(rank).filter(|part| part.own(table) > 0);
            let Some(side) = part.map(|part| part.side) else {
                continue;
            };
            let mut present = Present {
                side,
                keys: self.keys(side, number)?,
                number: 0,
                next: 0,
                end: 0,
                key: [0; KEY_BYTES_MAX],
            };
            let mut record = [0; ENTRY_BYTES_MAX];
            let entry = record.get_mut(..width).unwrap_or(&mut []);
            if self.next_present(&mut present, entry)? {
                *place = Some((present, record));
            }
        }
        Ok(presents)
    }

    /// Copies the smallest next entry of the parts taken in; false behind the last one.
    fn next_entry(&mut self, presents: &mut Presents, record: &mut [u8]) -> Result<bool> {
        let parts = presents.parts.iter_mut().filter(|place| place.is_some());
        let smallest = parts.min_by_key(|place| place.map(|(_, entry)| entry));
        let Some(place) = smallest else {
            return Ok(false);
        };
        let Some((present, entry)) = place else {
            return Ok(false);
        };
        let width = record.len();
        record.copy_from_slice(part(entry, 0, width));
        let next = entry.get_mut(..width).unwrap_or(&mut []);
        if !self.next_present(present, next)? {
            *place = None;
        }
        Ok(true)
    }

    /// Copies the next entry of a part; false behind the last one.
    fn next_present(&mut self, present: &mut Present, record: &mut [u8]) -> Result<bool> {
        let (side, keys) = (present.side, present.keys);
        let width = keys.width;
        while present.next == present.end {
            if present.number == keys.count {
                return Ok(false);
            }
            let mut after = [0u8; KEY_BYTES_MAX];
            let after = after.get_mut(..width).unwrap_or(&mut []);
            present.end = self.record(side, &keys, present.number + 1, after)?;
            let key = present.key.get_mut(..width).unwrap_or(&mut []);
            present.next = self.record(side, &keys, present.number, key)?;
            present.number += 1;
        }
        let id = self.list_id(side.lists, keys.list, present.next)?;
        present.next += 1;
        put(record, 0, part(&present.key, 0, width));
        put(record, width, &descending(id));
        Ok(true)
    }

    fn write_entry(&mut self, site: &mut Site, writer: &mut Writer, entry: &[u8]) -> Result<()> {
        let width = writer.keys.width;
        let key = part(entry, 0, width);
        if writer.keys.count == 0 || key != part(&writer.key, 0, width) {
            put(&mut writer.key, 0, key);
            self.write_record(site, writer)?;
            writer.keys.count += 1;
        }
        let id = ascending(part(entry, width, ID_BYTES));
        let at = (writer.total % IDS_PER_PAGE) as usize * ID_BYTES;
        put(self.arena.area_mut(writer.ids), at, &id.to_le_bytes());
        writer.total += 1;
        if writer.total.is_multiple_of(IDS_PER_PAGE) {
            self.part_append(&mut site.lists, ROLE_LIST, writer.ids)?;
        }
        Ok(())
    }

    /// Writes the writer's key with the number of ids before its own.
    fn write_record(&mut self, site: &mut Site, writer: &Writer) -> Result<()> {
        let keys = &writer.keys;
        let per_page = keys.per_page();
        let at = (keys.count % per_page) as usize * (keys.width + ID_BYTES);
        let page = self.arena.area_mut(writer.records);
        put(page, at, part(&writer.key, 0, keys.width));
        put(page, at + keys.width, &writer.total.to_le_bytes());
        if (keys.count + 1).is_multiple_of(per_page) {
            self.part_append(&mut site.body, ROLE_PART, writer.records)?;
        }
        Ok(())
    }

    /// Ends the last list, writes the upper levels, and notes where everything is.
    fn finish_keys(&mut self, site: &mut Site, number: usize, mut writer: Writer) -> Result<()> {
        writer.key = [u8::MAX; KEY_BYTES_MAX];
        self.write_record(site, &writer)?;
        let keys = writer.keys;
        if !(keys.count + 1).is_multiple_of(keys.per_page()) {
            self.part_append(&mut site.body, ROLE_PART, writer.records)?;
        }
        if !writer.total.is_multiple_of(IDS_PER_PAGE) {
            self.part_append(&mut site.lists, ROLE_LIST, writer.ids)?;
        }
        let mut below = (keys.page, keys.count.div_ceil(keys.per_page()));
        for &pages in keys.levels()?.iter() {
            let start = site.body.pages;
            self.write_level(site, below, keys.width, writer.records)?;
            below = (start, pages);
        }
        self.arena.release(writer.ids);
        self.arena.release(writer.records);
        let entry = Entry {
            page: keys.page,
            epoch: u64::from(keys.count) | u64::from(keys.list) << 32,
            rows: 0,
        };
        self.set_entry(site.frozen.side.contents, narrow(number), &entry)
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
            let frame = self.log_load(site.frozen.side.body, ROLE_PART, first + page)?;
            let at = (page % per_page) as usize * width;
            self.arena.copy_to_page(frame, 0, width, (area, 0), at);
            if (page + 1).is_multiple_of(per_page) || page + 1 == pages {
                self.part_append(&mut site.body, ROLE_PART, area)?;
            }
        }
        Ok(())
    }
}

/// Entries that come one after the other.
trait Entries {
    /// Copies the next entry; false behind the last one.
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &mut [u8],
    ) -> Result<bool>;
}

impl Entries for Run {
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &mut [u8],
    ) -> Result<bool> {
        self.next(store, record)
    }
}

impl Entries for Sorted<Repeats> {
    fn entry<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        record: &mut [u8],
    ) -> Result<bool> {
        self.next(store, record)
    }
}

impl<E: Entries> Ahead<E> {
    fn new(entries: E) -> Self {
        Self {
            entries,
            record: [0; ENTRY_BYTES_MAX],
            there: false,
        }
    }

    fn advance<F: Nand, S: SecureStore>(
        &mut self,
        store: &mut Store<F, S>,
        width: usize,
    ) -> Result<()> {
        let record = self.record.get_mut(..width).unwrap_or(&mut []);
        self.there = self.entries.entry(store, record)?;
        Ok(())
    }

    fn is_before(&self, record: &[u8], width: usize) -> bool {
        self.there && part(&self.record, 0, width) < record
    }

    fn is_equal(&self, record: &[u8], width: usize) -> bool {
        self.there && part(&self.record, 0, width) == record
    }
}
