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
use crate::tables::reorganize::entries::{Adaptation, Job};

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

impl Present {
    /// Advances to the next entry of a part; returns `false` after the last one.
    fn next<F: Nand, S: SecureStore>(&mut self, pager: &mut Pager<F, S>) -> Result<bool> {
        let keys = self.keys;
        while self.next == self.end {
            if self.number == keys.count {
                return Ok(false);
            }
            let number = self.number;
            // The end first: the record read last leaves its key.
            self.end = keys.record(pager, number + 1, &mut self.key)?;
            self.next = keys.record(pager, number, &mut self.key)?;
            self.number += 1;
        }
        let id = keys.id(pager, self.next)?;
        self.next += 1;
        put(&mut self.record, 0, &self.key);
        put(&mut self.record, keys.width, &descending(id.number()));
        Ok(true)
    }
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

impl Writer {
    fn write<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        site: &mut Site,
        entry: &[u8],
    ) -> Result<()> {
        let width = self.keys.width;
        let key = part(entry, 0, width);
        if self.keys.count == 0 || key != &*self.key {
            put(&mut self.key, 0, key);
            self.write_record(pager, site)?;
            self.keys.count += 1;
        }
        let id = ascending(part(entry, width, ID_BYTES));
        let at = (self.total % IDS_PER_PAGE) as usize * ID_BYTES;
        put(pager.arena.area_mut(self.ids), at, &id.to_le_bytes());
        self.total += 1;
        if self.total.is_multiple_of(IDS_PER_PAGE) {
            site.lists.append_or_fail(pager, ROLE_LIST, self.ids)?;
        }
        Ok(())
    }

    /// Writes the writer's key with the number of ids before its own.
    fn write_record<F: Nand, S: SecureStore>(
        &self,
        pager: &mut Pager<F, S>,
        site: &mut Site,
    ) -> Result<()> {
        let keys = &self.keys;
        let per_page = keys.per_page();
        let at = (keys.count % per_page) as usize * (keys.width + ID_BYTES);
        let page = pager.arena.area_mut(self.records);
        put(page, at, &self.key);
        put(page, at + keys.width, &self.total.to_le_bytes());
        if (keys.count + 1).is_multiple_of(per_page) {
            site.body.append_or_fail(pager, ROLE_PART, self.records)?;
        }
        Ok(())
    }

    /// Ends the last list, writes the upper levels, and records their places.
    fn finish<F: Nand, S: SecureStore>(
        &mut self,
        pager: &mut Pager<F, S>,
        site: &mut Site,
        number: usize,
    ) -> Result<()> {
        // One record more than keys ends the last list.
        self.key.fill(u8::MAX);
        self.write_record(pager, site)?;
        let keys = self.keys;
        if !(keys.count + 1).is_multiple_of(keys.per_page()) {
            site.body.append_or_fail(pager, ROLE_PART, self.records)?;
        }
        if !self.total.is_multiple_of(IDS_PER_PAGE) {
            site.lists.append_or_fail(pager, ROLE_LIST, self.ids)?;
        }
        // Each level is written from the one below, which is on flash: memory holds one page of it.
        let mut below = (keys.page, keys.count.div_ceil(keys.per_page()));
        for &pages in keys.levels()?.iter() {
            let start = site.body.pages;
            write_level(pager, site, below, keys.width, self.records)?;
            below = (start, pages);
        }
        pager.arena.release(self.ids);
        pager.arena.release(self.records);
        let entry = Entry {
            page: keys.page,
            epoch: u64::from(keys.count) | u64::from(keys.list) << 32,
            rows: 0,
        };
        Ok(pager
            .root
            .set_entry(site.frozen.side.contents, narrow(number), &entry)?)
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

impl Site {
    /// Builds the keys of one index.
    #[inline(never)] // Keeps its local variables off the stack of the other tasks.
    pub(super) fn build_keys<F: Nand, S: SecureStore>(
        &mut self,
        tables: &mut Tables<F, S>,
        number: usize,
    ) -> Result<()> {
        let job = Job::new(&tables.base.catalogue, number)?;
        // Lost entries go to a run first, because both sorts need the same frames.
        let lost = self.adaptation(tables, &job).lost()?;
        let mut presents = presents(&mut tables.base, number, job.width)?;
        let frames = FUSION_FRAMES + PRESENT_FRAMES * presents.len();
        let gained = self.adaptation(tables, &job).gained(frames)?;
        let mut gained = Ahead::new(gained, job.width);
        let mut lost = Ahead::new(lost, job.width);
        gained.advance(&mut tables.base.pager)?;
        lost.advance(&mut tables.base.pager)?;
        let width = job.width - ID_BYTES;
        let mut writer = Writer {
            records: tables.base.pager.arena.lease(1)?,
            ids: tables.base.pager.arena.lease(1)?,
            keys: Keys {
                side: self.frozen.side,
                page: self.body.pages,
                count: 0,
                list: self.lists.pages,
                width,
            },
            total: 0,
            key: alloc::vec![0; width],
        };
        tables.base.pager.arena.area_mut(writer.records).fill(0);
        tables.base.pager.arena.area_mut(writer.ids).fill(0);
        let mut record = alloc::vec![0; job.width];
        let mut old = next_entry(&mut tables.base.pager, &mut presents, &mut record)?;
        // One pass over five streams: equal entries of the old and the lost ones cancel out, and a
        // lost entry that no part has is skipped.
        while old || gained.there {
            if old && lost.is_before(&record) {
                lost.advance(&mut tables.base.pager)?;
            } else if old && lost.is_equal(&record) {
                old = next_entry(&mut tables.base.pager, &mut presents, &mut record)?;
            } else if old && !gained.is_before(&record) {
                writer.write(&mut tables.base.pager, self, &record)?;
                old = next_entry(&mut tables.base.pager, &mut presents, &mut record)?;
            } else {
                writer.write(&mut tables.base.pager, self, &gained.record)?;
                gained.advance(&mut tables.base.pager)?;
            }
        }
        writer.finish(&mut tables.base.pager, self, number)
    }

    fn adaptation<'t, 's, F: Nand, S: SecureStore>(
        &'s self,
        tables: &'t mut Tables<F, S>,
        job: &'s Job,
    ) -> Adaptation<'t, 's, F, S> {
        Adaptation {
            tables,
            site: self,
            job,
        }
    }
}

/// Opens the entries of the merged parts.
fn presents<F: Nand, S: SecureStore>(
    base: &mut Base<F, S>,
    number: usize,
    width: usize,
) -> Result<Vec<Present>> {
    let mut presents = Vec::new();
    let table = base.catalogue.index(number)?.table;
    let kept = usize::from(base.pager.root.committed.part.kept);
    for rank in kept..base.parts.len() {
        let part = base.parts.get(rank).filter(|part| part.own(table) > 0);
        let Some(side) = part.map(|part| part.side) else {
            continue;
        };
        let keys = Keys::read(base, side, number)?;
        let mut present = Present {
            keys,
            number: 0,
            next: 0,
            end: 0,
            key: alloc::vec![0; keys.width],
            record: alloc::vec![0; width],
        };
        if present.next(&mut base.pager)? {
            presents.reserve_exact(1);
            presents.push(present);
        }
    }
    Ok(presents)
}

/// Copies the smallest next entry of the merged parts; returns `false` after the last one.
fn next_entry<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    presents: &mut Vec<Present>,
    record: &mut [u8],
) -> Result<bool> {
    let entries = presents.iter().enumerate();
    let smallest = entries.min_by(|(_, one), (_, other)| one.record.cmp(&other.record));
    let Some(number) = smallest.map(|(number, _)| number) else {
        return Ok(false);
    };
    if let Some(present) = presents.get_mut(number) {
        record.copy_from_slice(&present.record);
        if !present.next(pager)? {
            presents.remove(number);
        }
    }
    Ok(true)
}

/// Writes the first keys of the `pages` pages from `first` on.
fn write_level<F: Nand, S: SecureStore>(
    pager: &mut Pager<F, S>,
    site: &mut Site,
    (first, pages): (u32, u32),
    width: usize,
    area: Area,
) -> Result<()> {
    let per_page = narrow(PAYLOAD_BYTES / width.max(1));
    for page in 0..pages {
        let frame = pager.log_load(site.frozen.side.body, ROLE_PART, first + page)?;
        let at = (page % per_page) as usize * width;
        pager.arena.copy_to_page(frame, 0, width, (area, 0), at);
        if (page + 1).is_multiple_of(per_page) || page + 1 == pages {
            site.body.append_or_fail(pager, ROLE_PART, area)?;
        }
    }
    Ok(())
}
