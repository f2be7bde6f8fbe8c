//! The store: commit buffer, units of rows, commit, rollback and recovery in bounded memory.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::buffer::{self, ChainEnd};
use crate::bytes::{narrow, part};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, FlashCounters, Nand, PAGE_BYTES};
use crate::index::{self, IndexKey};
use crate::limits::{BUFFER_BLOCKS, TABLES_MAX, UNIT_ROWS};
use crate::recovery::{memory_plan, read_chunks, read_schema, waiting_pages};
use crate::root::{
    DIRECTORY_ENTRY_BYTES, RootRecord, SCHEMA_AT, SecureStore, format_store, read_head,
    read_newest, write_record,
};
use crate::seal::{CipherCounters, PAYLOAD_BYTES, PageIdentity, ROLE_BUFFER, ROLE_DATA, Seal};

/// Rows of one table that may wait in the commit buffer, the open transaction included.
pub(crate) const WINDOW_ROWS: u32 = 448;
/// Pages of the commit buffer's ring.
pub(crate) const RING_PAGES: u64 = BUFFER_BLOCKS as u64 * BLOCK_PAGES as u64;
/// Pages of the ring in use at which the waiting rows are written again, densely.
const DENSIFY_PAGES: u64 = RING_PAGES / 2;
/// Pages of the ring kept free for writing the waiting rows again.
const RESERVE_PAGES: u64 = RING_PAGES / 4;
/// Bytes of one chunk of the directory.
pub(crate) const CHUNK_BYTES: usize = crate::unit::CHUNK_ENTRIES as usize * DIRECTORY_ENTRY_BYTES;

/// Operations since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Operations of the flash device.
    pub flash: FlashCounters,
    /// Operations of the cipher.
    pub cipher: CipherCounters,
    /// Records written to the secure store.
    pub root_writes: u64,
    /// Bytes of memory in use, the same at every size of the database.
    pub memory_bytes: usize,
}

pub(crate) struct Frame {
    page: u32,
    epoch: u64,
    used: u64,
    pub(crate) bytes: Box<[u8]>,
}

/// Tables of fixed-width rows on flash; a row's id is its rank of insertion, beginning at 1.
pub struct Store<F: Nand, S: SecureStore> {
    pub(crate) flash: F,
    pub(crate) secure: S,
    pub(crate) seal: Seal,
    pub(crate) widths: Vec<u16>,
    pub(crate) committed: RootRecord,
    /// Rows of every table, those of the open transaction included (the paper's End).
    pub(crate) rows: [u32; TABLES_MAX],
    /// Per table, the buffer page of each waiting row, by id modulo [`WINDOW_ROWS`].
    pub(crate) places: Vec<u64>,
    /// The buffer page being filled.
    pub(crate) open_page: Box<[u8]>,
    /// The second page of a pair that is built together.
    pub(crate) work_page: Box<[u8]>,
    pub(crate) indexes: Vec<IndexKey>,
    open_used: usize,
    pub(crate) chain: ChainEnd,
    pub(crate) buffer_next: u64,
    pub(crate) frames: Vec<Frame>,
    /// The table that owns each chunk of the directory.
    pub(crate) chunks: Vec<u8>,
    clock: u64,
    pub(crate) root_writes: u64,
    memory_bytes: usize,
    poisoned: bool,
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Creates an empty store of tables with rows of `widths` bytes, searchable by `indexes`.
    ///
    /// `secret` is fresh randomness; it never leaves the secure store. `memory` bytes bound what
    /// the store allocates.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Memory`], or a failure of the device or the secure store.
    pub fn create(
        flash: F,
        mut secure: S,
        secret: &[u8; 32],
        widths: &[u16],
        indexes: &[IndexKey],
        memory: usize,
    ) -> Result<Self> {
        if widths.is_empty() || widths.len() > TABLES_MAX {
            return Err(Error::Limit("the number of tables"));
        }
        let fits = |width: &u16| (1..=buffer::ROW_FIT_BYTES).contains(&usize::from(*width));
        if !widths.iter().all(fits) {
            return Err(Error::Limit("the width of a row"));
        }
        if flash.blocks() <= BUFFER_BLOCKS {
            return Err(Error::DeviceFull);
        }
        memory_plan(widths.len(), secure.capacity(), memory)?;
        if waiting_pages(widths) > RESERVE_PAGES - 2 * u64::from(BLOCK_PAGES) {
            return Err(Error::Limit("the width of all rows together"));
        }
        let mut seal = Seal::new(secret);
        let schema = index::encode_schema(widths, indexes)?;
        let mut record = RootRecord::empty(BUFFER_BLOCKS * BLOCK_PAGES);
        record.schema_bytes = narrow(schema.len());
        record.schema_code = seal.root_code(&schema);
        secure.write(SCHEMA_AT, &schema)?;
        write_record(&mut secure, &mut seal, &record)?;
        // The head comes last: without it nothing opens.
        format_store(&mut secure, flash.blocks(), secret)?;
        Self::open(flash, secure, memory)
    }

    /// Opens a store and restores exactly its committed state.
    ///
    /// # Errors
    /// [`Error::Root`], [`Error::NewerFormat`], [`Error::Tampered`], [`Error::Memory`], or a
    /// failure of the device or the secure store.
    pub fn open(flash: F, mut secure: S, memory: usize) -> Result<Self> {
        let (blocks, secret) = read_head(&mut secure)?;
        if blocks != flash.blocks() {
            return Err(Error::Root("belongs to a device of another size"));
        }
        let mut seal = Seal::new(&secret);
        let committed = read_newest(&mut secure, &mut seal)?;
        let (widths, indexes) = read_schema(&mut secure, &mut seal, &committed)?;
        let (frames, memory_bytes) = memory_plan(widths.len(), secure.capacity(), memory)?;
        let chunks = read_chunks(&mut secure, &committed)?;
        let blank = || vec_of(PAGE_BYTES).into_boxed_slice();
        let mut store = Self {
            places: alloc::vec![0; widths.len() * WINDOW_ROWS as usize],
            rows: committed.tables.map(|table| table.rows),
            chain: ChainEnd {
                sequence: committed.buffer_last,
                code: committed.buffer_code,
            },
            buffer_next: committed.buffer_next,
            frames: (0..frames)
                .map(|_| Frame {
                    page: u32::MAX,
                    epoch: 0,
                    used: 0,
                    bytes: blank(),
                })
                .collect(),
            open_page: blank(),
            work_page: blank(),
            indexes,
            open_used: 0,
            chunks,
            clock: 0,
            root_writes: 0,
            memory_bytes,
            poisoned: false,
            flash,
            secure,
            seal,
            widths,
            committed,
        };
        store.recover()?;
        Ok(store)
    }

    /// Appends a row in the open transaction and returns its id.
    ///
    /// # Errors
    /// [`Error::Limit`] when the transaction holds too many rows of the table (roll it back or
    /// commit it), [`Error::Value`] for a row of another width.
    pub fn insert(&mut self, table: usize, row: &[u8]) -> Result<u32> {
        self.usable()?;
        let width = self.width(table)?;
        if row.len() != usize::from(width) {
            return Err(Error::Value(alloc::format!(
                "a row of table {table} has {width} bytes"
            )));
        }
        let id = self
            .count(table)
            .checked_add(1)
            .ok_or(Error::Limit("the number of rows"))?;
        if id - self.placed(table) > WINDOW_ROWS {
            return Err(Error::Limit("the number of rows in one transaction"));
        }
        if let Err(error) = self.append(table, id, row, RESERVE_PAGES) {
            self.poisoned = !matches!(error, Error::Limit(_));
            return Err(error);
        }
        if let Some(rows) = self.rows.get_mut(table) {
            *rows = id;
        }
        Ok(id)
    }

    /// Makes every inserted row final.
    ///
    /// # Errors
    /// A failure of the device or the secure store; the handle is then poisoned, and opening the
    /// store again shows whether the commit came to be.
    pub fn commit(&mut self) -> Result<()> {
        self.usable()?;
        let result = self.commit_rows();
        self.poisoned = result.is_err();
        result
    }

    /// Forgets every row inserted since the last commit.
    pub fn rollback(&mut self) {
        self.rows = self.committed.tables.map(|table| table.rows);
        self.chain = ChainEnd {
            sequence: self.committed.buffer_last,
            code: self.committed.buffer_code,
        };
        self.open_used = 0;
    }

    /// Rows of `table`, those of the open transaction included.
    pub fn count(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Copies the row `id` of `table` to `out`.
    ///
    /// # Errors
    /// [`Error::Key`] when there is no such row, [`Error::Tampered`] when it is not the one that
    /// was written.
    pub fn read(&mut self, table: usize, id: u32, out: &mut [u8]) -> Result<()> {
        self.usable()?;
        let width = usize::from(self.width(table)?);
        if id == 0 || id > self.count(table) {
            return Err(Error::Key(alloc::format!("table {table} has no row {id}")));
        }
        if out.len() != width {
            return Err(Error::Value(alloc::format!(
                "a row of table {table} has {width} bytes"
            )));
        }
        if id > self.placed(table) {
            return self.read_waiting(table, id, out);
        }
        let unit = (id - 1) / UNIT_ROWS;
        let slot = (id - 1) % UNIT_ROWS;
        let (start, epoch) = self.unit_place(table, unit)?;
        let per_page = narrow(PAYLOAD_BYTES / width);
        let page = start + slot / per_page;
        let frame = self.load(&data_identity(page, epoch, table, unit))?;
        let at = (slot % per_page) as usize * width;
        out.copy_from_slice(part(self.frame(frame), at, width));
        Ok(())
    }

    /// Reads every page that holds committed rows and checks that it is the one written.
    ///
    /// # Errors
    /// [`Error::Tampered`] with the first page that is not.
    pub fn verify(&mut self) -> Result<u64> {
        self.usable()?;
        self.forget_frames();
        let mut checked = 0;
        let mut end = ChainEnd {
            sequence: self.committed.buffer_last,
            code: self.committed.buffer_code,
        };
        while end.sequence >= self.committed.buffer_start {
            end = self.read_link(&end)?;
            checked += 1;
        }
        for table in 0..self.widths.len() {
            let pages = self.unit_pages(table);
            let data = data_pages(usize::from(self.width(table)?));
            for unit in 0..self.placed(table) / UNIT_ROWS {
                let (start, epoch) = self.unit_place(table, unit)?;
                for page in 0..pages {
                    let role = if page < data {
                        ROLE_DATA
                    } else {
                        index::role(page - data)
                    };
                    let identity = data_identity(start + page, epoch, table, unit);
                    self.load(&PageIdentity { role, ..identity })?;
                    checked += 1;
                }
            }
        }
        Ok(checked)
    }

    /// Operations and memory since the store was opened.
    pub fn counters(&self) -> StoreCounters {
        StoreCounters {
            flash: self.flash.counters(),
            cipher: self.seal.counters,
            root_writes: self.root_writes,
            memory_bytes: self.memory_bytes,
        }
    }

    /// The device and the secure store, for the next opening; the open transaction is lost.
    pub fn into_parts(self) -> (F, S) {
        (self.flash, self.secure)
    }

    pub(crate) fn usable(&self) -> Result<()> {
        if self.poisoned {
            Err(Error::Poisoned)
        } else {
            Ok(())
        }
    }

    pub(crate) fn width(&self, table: usize) -> Result<u16> {
        let unknown = || Error::Name(alloc::format!("there is no table {table}"));
        self.widths.get(table).copied().ok_or_else(unknown)
    }

    /// Rows of `table` that are in units; the later ones wait in the buffer.
    pub(crate) fn placed(&self, table: usize) -> u32 {
        self.committed
            .tables
            .get(table)
            .map_or(0, |state| state.units * UNIT_ROWS)
    }

    pub(crate) fn place_index(table: usize, id: u32) -> usize {
        table * WINDOW_ROWS as usize + (id % WINDOW_ROWS) as usize
    }

    pub(crate) fn place(&self, table: usize, id: u32) -> u64 {
        self.places
            .get(Self::place_index(table, id))
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn set_place(&mut self, table: usize, id: u32, sequence: u64) {
        if let Some(place) = self.places.get_mut(Self::place_index(table, id)) {
            *place = sequence;
        }
    }

    pub(crate) fn append(&mut self, table: usize, id: u32, row: &[u8], reserve: u64) -> Result<()> {
        let tag = u8::try_from(table).unwrap_or(u8::MAX);
        for _ in 0..2 {
            if self.open_used == 0 {
                self.open_used = buffer::begin(&mut self.open_page, &self.chain);
            }
            if let Some(used) = buffer::append(&mut self.open_page, self.open_used, tag, id, row) {
                self.open_used = used;
                self.set_place(table, id, self.buffer_next);
                return Ok(());
            }
            self.program_open_page(reserve)?;
        }
        Err(Error::Limit("the width of a row"))
    }

    /// Programs the page being filled and continues the chain with it, while at least `reserve`
    /// pages of the ring remain free.
    pub(crate) fn program_open_page(&mut self, reserve: u64) -> Result<()> {
        if self.open_used == 0 {
            return Ok(());
        }
        let sequence = self.buffer_next;
        if sequence - self.committed.buffer_start >= RING_PAGES - reserve {
            return Err(Error::Limit("the number of rows in one transaction"));
        }
        let identity = buffer_identity(sequence);
        buffer::link(&mut self.open_page, &self.chain);
        if identity.page.is_multiple_of(BLOCK_PAGES) {
            self.flash.erase(identity.page / BLOCK_PAGES)?;
        }
        let code = self.seal.close(&identity, &mut self.open_page);
        self.flash.program(identity.page, &self.open_page)?;
        self.chain = ChainEnd { sequence, code };
        self.buffer_next += 1;
        self.open_used = 0;
        Ok(())
    }

    fn commit_rows(&mut self) -> Result<()> {
        if self.rows == self.committed.tables.map(|table| table.rows) {
            return Ok(());
        }
        self.program_open_page(RESERVE_PAGES)?;
        let mut record = self.next_record();
        for (state, &rows) in record.tables.iter_mut().zip(&self.rows) {
            state.rows = rows;
        }
        self.finish(record)?;
        for table in 0..self.widths.len() {
            while self.count(table) - self.placed(table) >= UNIT_ROWS {
                self.place_unit(table)?;
            }
        }
        if self.buffer_next - self.committed.buffer_start > DENSIFY_PAGES {
            self.densify()?;
        }
        Ok(())
    }

    /// The record that keeps everything but follows the buffer's present end.
    pub(crate) fn next_record(&self) -> RootRecord {
        RootRecord {
            sequence: self.committed.sequence + 1,
            buffer_next: self.buffer_next,
            buffer_last: self.chain.sequence,
            buffer_code: self.chain.code,
            ..self.committed
        }
    }

    pub(crate) fn finish(&mut self, record: RootRecord) -> Result<()> {
        write_record(&mut self.secure, &mut self.seal, &record)?;
        self.root_writes += 1;
        self.committed = record;
        Ok(())
    }

    pub(crate) fn read_waiting(&mut self, table: usize, id: u32, out: &mut [u8]) -> Result<()> {
        let sequence = self.place(table, id);
        let from_open = sequence == self.buffer_next && self.open_used > 0;
        let frame = if from_open {
            None
        } else {
            Some(self.load(&buffer_identity(sequence))?)
        };
        let page = match frame {
            Some(index) => self.frames.get(index).map_or(&[][..], |frame| &frame.bytes),
            None => &self.open_page,
        };
        let wanted = |row: &buffer::Located| usize::from(row.table) == table && row.id == id;
        let found = buffer::rows(page, &self.widths).filter(wanted).last();
        let missing = Error::Tampered {
            page: buffer_identity(sequence).page,
            what: "row",
        };
        let at = found.ok_or(missing)?.at;
        out.copy_from_slice(part(page, at, out.len()));
        Ok(())
    }

    pub(crate) fn frame(&self, index: usize) -> &[u8] {
        self.frames.get(index).map_or(&[], |frame| &frame.bytes)
    }

    fn forget_frames(&mut self) {
        for frame in &mut self.frames {
            frame.page = u32::MAX;
        }
    }

    /// Reads, checks and decrypts a page, or finds it in memory; returns its frame.
    pub(crate) fn load(&mut self, identity: &PageIdentity) -> Result<usize> {
        self.clock += 1;
        let held = |frame: &Frame| frame.page == identity.page && frame.epoch == identity.epoch;
        let index = match self.frames.iter().position(held) {
            Some(index) => index,
            None => self.fetch(identity)?.0,
        };
        if let Some(frame) = self.frames.get_mut(index) {
            frame.used = self.clock;
        }
        Ok(index)
    }

    /// Reads a page from flash into the frame used least recently; returns its code as well.
    pub(crate) fn fetch(&mut self, identity: &PageIdentity) -> Result<(usize, [u8; 16])> {
        let oldest = self
            .frames
            .iter()
            .enumerate()
            .min_by_key(|(_, frame)| frame.used);
        let index = oldest.map_or(0, |(index, _)| index);
        let frame = self
            .frames
            .get_mut(index)
            .ok_or(Error::Limit("the number of frames"))?;
        frame.page = u32::MAX;
        self.flash.read(identity.page, 0, &mut frame.bytes)?;
        let code = self.seal.open(identity, &mut frame.bytes)?;
        frame.page = identity.page;
        frame.epoch = identity.epoch;
        frame.used = self.clock;
        Ok((index, code))
    }
}

pub(crate) fn buffer_identity(sequence: u64) -> PageIdentity {
    let page = u32::try_from(sequence % RING_PAGES).unwrap_or(0);
    PageIdentity {
        page,
        epoch: sequence,
        role: ROLE_BUFFER,
        table: 0,
        unit: 0,
    }
}

pub(crate) fn data_identity(page: u32, epoch: u64, table: usize, unit: u32) -> PageIdentity {
    let table = u8::try_from(table).unwrap_or(u8::MAX);
    PageIdentity {
        page,
        epoch,
        role: ROLE_DATA,
        table,
        unit,
    }
}

pub(crate) fn data_pages(width: usize) -> u32 {
    UNIT_ROWS.div_ceil(narrow(PAYLOAD_BYTES / width.max(1)).max(1))
}

pub(crate) fn vec_of(bytes: usize) -> Vec<u8> {
    alloc::vec![0; bytes]
}
