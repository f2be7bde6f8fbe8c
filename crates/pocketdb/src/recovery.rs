//! What an opening does: read the committed window, and continue behind everything left over.

use alloc::vec::Vec;

use crate::buffer::{self, ChainEnd};
use crate::bytes::take;
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, Nand, PAGE_BYTES, PageState, SECTOR_BYTES};
use crate::index::{self, IndexKey};
use crate::limits::{INDEXES_MAX, TABLES_MAX, UNIT_ROWS};
use crate::root::{
    DIRECTORY_AT, DIRECTORY_ENTRY_BYTES, RootRecord, SCHEMA_AT, SCHEMA_BYTES, SecureStore,
};
use crate::seal::Seal;
use crate::store::{CHUNK_BYTES, Frame, RING_PAGES, Store, WINDOW_ROWS, buffer_identity, vec_of};

/// Distance between the unit epochs of two openings.
const EPOCHS_PER_OPENING: u64 = 1 << 20;
/// Page frames a store keeps at most, and at least.
const FRAMES: core::ops::RangeInclusive<usize> = 2..=12;
/// Stack set aside in the plan of the memory.
const STACK_BYTES: usize = 8 * 1024;
/// Memory for the widths and the indexes.
const SCHEMA_RAM_BYTES: usize = TABLES_MAX * 2 + INDEXES_MAX * size_of::<IndexKey>();

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Reads the buffer page `end`, checks that it is the very one, and returns its link.
    pub(crate) fn read_link(&mut self, end: &ChainEnd) -> Result<ChainEnd> {
        let identity = buffer_identity(end.sequence);
        let (frame, code) = self.fetch(&identity)?;
        if code != end.code {
            return Err(Error::Tampered {
                page: identity.page,
                what: "commit buffer page",
            });
        }
        Ok(buffer::previous(self.frame(frame)))
    }

    /// Finds the waiting rows and continues behind everything an earlier opening may have left.
    pub(crate) fn recover(&mut self) -> Result<()> {
        let mut end = self.chain;
        while end.sequence >= self.committed.buffer_start {
            let previous = self.read_link(&end)?;
            self.note_waiting(end.sequence)?;
            end = previous;
        }
        // No number of a page that an interrupted transaction may have programmed comes again.
        let pages = u64::from(BLOCK_PAGES);
        self.buffer_next = (self.buffer_next + RING_PAGES).next_multiple_of(pages);
        self.committed.epoch += EPOCHS_PER_OPENING;
        self.committed.unit_next = self.clean_unit_start()?;
        // One turn of the ring was skipped: the old window lies as many pages behind as before.
        self.committed.buffer_start += RING_PAGES;
        self.densify()
    }

    /// Notes where the waiting rows of one committed buffer page are.
    pub(crate) fn note_waiting(&mut self, sequence: u64) -> Result<()> {
        let index = self.load(&buffer_identity(sequence))?;
        let Self {
            frames,
            places,
            widths,
            committed,
            rows,
            ..
        } = self;
        let page = frames.get(index).map_or(&[][..], |frame| &frame.bytes);
        for row in buffer::rows(page, widths) {
            let table = usize::from(row.table);
            let placed = committed
                .tables
                .get(table)
                .map_or(0, |state| state.units * UNIT_ROWS);
            let known = rows.get(table).copied().unwrap_or(0);
            if (placed + 1..=known).contains(&row.id)
                && let Some(place) = places.get_mut(Self::place_index(table, row.id))
            {
                *place = sequence;
            }
        }
        Ok(())
    }

    /// The first page of the unit area that nothing was programmed behind.
    pub(crate) fn clean_unit_start(&mut self) -> Result<u32> {
        let next = self.committed.unit_next;
        if next.is_multiple_of(BLOCK_PAGES) {
            return Ok(next);
        }
        let mut sector = vec_of(SECTOR_BYTES);
        Ok(match self.flash.read(next, 0, &mut sector)? {
            PageState::Erased => next,
            PageState::Programmed => next.next_multiple_of(BLOCK_PAGES),
        })
    }
}

pub(crate) fn read_schema(
    secure: &mut impl SecureStore,
    seal: &mut Seal,
    record: &RootRecord,
) -> Result<(Vec<u16>, Vec<IndexKey>)> {
    let bytes = record.schema_bytes as usize;
    if bytes > SCHEMA_BYTES {
        return Err(Error::Root("is damaged"));
    }
    let mut schema = vec_of(bytes);
    secure.read(SCHEMA_AT, &mut schema)?;
    if seal.root_code(&schema) != record.schema_code {
        return Err(Error::Root("is damaged"));
    }
    Ok(index::decode_schema(&schema))
}

pub(crate) fn read_chunks(secure: &mut impl SecureStore, record: &RootRecord) -> Result<Vec<u8>> {
    let mut chunks = Vec::new();
    for chunk in 0..record.directory_chunks as usize {
        let mut entry = [0u8; DIRECTORY_ENTRY_BYTES];
        secure.read(DIRECTORY_AT + chunk * CHUNK_BYTES, &mut entry)?;
        chunks.push(take::<1>(&entry, 12)[0]);
    }
    Ok(chunks)
}

/// Buffer pages that the waiting rows of all tables fill at most.
pub(crate) fn waiting_pages(widths: &[u16]) -> u64 {
    let pages = |width: &u16| WINDOW_ROWS.div_ceil(buffer::rows_per_page(*width)) + 1;
    widths.iter().map(|width| u64::from(pages(width))).sum()
}

/// The number of page frames that `memory` allows, and the sum of everything in bytes.
pub(crate) fn memory_plan(
    tables: usize,
    store_bytes: usize,
    memory: usize,
) -> Result<(usize, usize)> {
    let frame = PAGE_BYTES + size_of::<Frame>();
    let places = tables * WINDOW_ROWS as usize * size_of::<u64>();
    // A vector that grows holds its old and its new half-used content for a moment.
    let chunks = 3 * store_bytes.saturating_sub(DIRECTORY_AT) / CHUNK_BYTES;
    // Two pages being built, the indexes, one row in flight, keys and state, the stack.
    let fixed = 3 * PAGE_BYTES + SCHEMA_RAM_BYTES + places + chunks + 2048 + STACK_BYTES;
    let frames = (memory.saturating_sub(fixed) / frame).min(*FRAMES.end());
    if frames < *FRAMES.start() {
        return Err(Error::Memory {
            needed: fixed + FRAMES.start() * frame,
            given: memory,
        });
    }
    Ok((frames, fixed + frames * frame))
}
