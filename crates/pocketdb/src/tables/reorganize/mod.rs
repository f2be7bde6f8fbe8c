//! Reorganisation: builds a part with the rows of a moment, beside the present parts.
//!
//! It includes all rows that are newer than the parts. It also merges the newest parts: all, or as
//! many as pay off. The work is a fixed sequence of tasks: the sections of every table,
//! then the keys of every index. Each task reads the present parts and the units as of the start of
//! the reorganisation. So a task can be repeated at any time with the same result. A record stores
//! the number of tasks done. Queries and changes between tasks use the present parts. One last
//! record replaces the merged parts by the new one.

mod entries;
mod fusion;
mod levels;
mod sections;

pub use self::levels::Extent;

use crate::error::{Error, Result};
use crate::limits::UNIT_ROWS;
use crate::pager::Pager;
use crate::pager::bytes::{narrow, small};
use crate::pager::directory::{CHUNK_ENTRIES, Entry};
use crate::pager::directory_code::Written;
use crate::pager::flash::{FlashError, Nand};
use crate::pager::log::Log;
use crate::pager::root::{Level, PartState, RootRecord, SecureStore};
use crate::pager::side::{Side, all_sides};
use crate::tables::base::{Base, owner_of};
use crate::tables::catalogue::{DELETES, FIRST_TABLE, UPDATES, stored};
use crate::tables::change::{Moment, Tables};
use crate::tables::id::{RowId, TableId};
use crate::tables::part::{LIVE, Part, SECTIONS_MAX, Spot, section_number, section_pages};
use crate::tables::reorganize::levels::{new_rows, parts_to_keep};
use crate::tables::store::Store;

/// The progress of a reorganisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of tasks done.
    pub done: u32,
    /// Number of tasks in total.
    pub tasks: u32,
    /// `true` once the new part is in use.
    pub finished: bool,
}

/// One task of a reorganisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Section { table: TableId, section: u32 },
    Index(usize),
}

/// The state that the tasks of a reorganisation share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    /// The new part: its place, and its rows, which are those at the start of the reorganisation.
    pub(crate) frozen: Part,
    /// The deletes and updates that are already applied in the oldest merged part.
    counted: Moment,
    /// The two logs.
    pub(crate) body: Log,
    pub(crate) lists: Log,
}

impl Site {
    /// Returns the deletes and updates at the start of the reorganisation.
    fn until(&self) -> Moment {
        Moment {
            deletes: self.frozen.rows(DELETES),
            updates: self.frozen.rows(UPDATES),
        }
    }

    /// Returns the place of a row once the new part is in use: in it, or in a part that stays.
    fn spot_after<F: Nand, S: SecureStore>(
        &self,
        base: &Base<F, S>,
        table: TableId,
        id: RowId,
    ) -> Result<Spot> {
        if !id.is_within(self.frozen.first(table)) {
            return Ok(self.frozen.spot(table));
        }
        base.spot(table, id).ok_or(Error::Root("lacks a part"))
    }

    #[inline(never)] // Keeps its local variables off the stack of the other tasks.
    fn new<F: Nand, S: SecureStore>(base: &mut Base<F, S>) -> Result<Self> {
        let state = base.pager.root.committed.part;
        let side = base.pager.root.building_side();
        let frozen = Part::read(base, side)?;
        // Without a part to merge, the new one is the oldest that counts.
        let oldest = base.parts.get(usize::from(state.kept)).unwrap_or(&frozen);
        Ok(Self {
            frozen,
            counted: Moment {
                deletes: oldest.rows(DELETES),
                updates: oldest.rows(UPDATES),
            },
            body: base.pager.continue_log(side.body, state.next.body)?,
            lists: base.pager.continue_log(side.lists, state.next.lists)?,
        })
    }
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Begins a reorganisation of `extent`, or continues one, for at most `tasks` tasks.
    ///
    /// A whole one replaces a smaller one in progress; a smaller one continues a whole one.
    ///
    /// After `operations` operations of the flash device the current task is abandoned, and the
    /// next call starts it again. Completed tasks survive a loss of power. Queries and changes are
    /// allowed between two calls.
    ///
    /// # Errors
    /// [`Error::Refused`] inside a transaction, or a failure of the device. [`Error::DeviceFull`]
    /// when the device has no room for both parts, which changes nothing.
    pub fn reorganize(&mut self, extent: Extent, tasks: u32, operations: u64) -> Result<Progress> {
        self.usable()?;
        if self.tables.base.has_changes() || self.in_transaction {
            return Err(Error::Refused(
                "a reorganisation inside a transaction".into(),
            ));
        }
        self.tables.base.pager.drop_temporary()?;
        self.tables.base.pager.allowance = Some(operations);
        let result = do_tasks(&mut self.tables, extent, tasks);
        self.tables.base.pager.allowance = None;
        match result {
            Ok(progress) => Ok(progress),
            Err(Error::Stopped) => {
                leave_task(&mut self.tables.base.pager)?;
                Ok(self.tables.base.progress())
            }
            Err(Error::DeviceFull) => {
                leave_task(&mut self.tables.base.pager)?;
                Err(Error::DeviceFull)
            }
            Err(error) => {
                self.tables.base.pager.poison();
                Err(error)
            }
        }
    }

    /// Cancels a reorganisation in progress; the present parts stay.
    ///
    /// # Errors
    /// A failure of the device or the secure store.
    pub fn cancel_reorganization(&mut self) -> Result<()> {
        self.usable()?;
        if self.tables.base.has_changes() || self.in_transaction {
            return Err(Error::Refused(
                "a reorganisation inside a transaction".into(),
            ));
        }
        self.tables.base.give_up()
    }

    /// Returns the progress of the current reorganisation; finished if there is none.
    pub fn progress(&self) -> Progress {
        self.tables.base.progress()
    }

    /// Returns the number of reorganisations completed since the database was created.
    pub fn instance(&self) -> u32 {
        self.tables.base.instance()
    }

    /// Returns the number of reorganised parts; each costs a search in every index.
    pub fn parts(&self) -> usize {
        self.tables.base.parts.len()
    }
}

impl<F: Nand, S: SecureStore> Base<F, S> {
    fn give_up(&mut self) -> Result<()> {
        if !self.pager.root.committed.part.building {
            return Ok(());
        }
        self.pager
            .root
            .disown_side(self.pager.root.building_side())?;
        self.finish_part(PartState {
            building: false,
            ..self.pager.root.committed.part
        })?;
        Ok(self.pager.remark_blocks()?)
    }

    /// Returns the progress of the current reorganisation; finished if there is none.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.pager.root.committed.part;
        Progress {
            done: if state.building { state.tasks } else { 0 },
            tasks: narrow(self.tasks().count()),
            finished: !state.building,
        }
    }

    /// Returns the number of reorganisations completed since the database was created.
    pub(crate) fn instance(&self) -> u32 {
        self.pager.root.committed.part.instance
    }

    /// Returns the tasks, referenced tables first.
    fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        let tables = self.catalogue.table_ids();
        let sections = tables.clone().flat_map(move |table| {
            (0..SECTIONS_MAX)
                .filter(move |&section| section_pages(&self.catalogue, table, section, 1) > 0)
                .map(move |section| Task::Section { table, section })
        });
        let indexes = tables.flat_map(move |table| self.catalogue.indexes_of(table));
        sections.chain(indexes.map(Task::Index))
    }

    /// Returns the entries of the part being built that count behind so many tasks.
    pub(crate) fn written(&self, tasks: u32) -> Written {
        let mut written = Written::nothing();
        for table in self.catalogue.table_ids() {
            written.begin(section_number(table, LIVE));
        }
        for task in self.tasks().take(tasks as usize) {
            written.complete(match task {
                Task::Section { table, section } => section_number(table, section),
                Task::Index(index) => narrow(index),
            });
        }
        written
    }

    /// Commits another state of the parts.
    fn finish_part(&mut self, part: PartState) -> Result<()> {
        let record = self.record_with(part)?;
        Ok(self.pager.root.finish(&record)?)
    }

    /// Returns a record with another state of the parts, and with the code of the directory.
    #[inline(never)] // Keeps the set of entries off the stack of the tasks.
    fn record_with(&mut self, part: PartState) -> Result<RootRecord> {
        let written = self.written(part.tasks);
        let mut record = self.pager.record_with(part)?;
        record.directory = self.pager.root.directory_code(&record, &written)?;
        Ok(record)
    }
}

/// Records the start: every row that is committed now, and that is in none of the `kept` oldest
/// parts, belongs to the new part.
#[inline(never)] // Keeps its local variables off the stack of the other tasks.
fn begin_part<F: Nand, S: SecureStore>(base: &mut Base<F, S>, kept: usize) -> Result<()> {
    let state = base.pager.root.committed.part;
    // Pages of a cancelled reorganisation have the keys of the next generation, which is used
    // again.
    let (next, since_sequence) = if state.next.since > 0 {
        (state.next, state.since_sequence)
    } else {
        let next = base.pager.window.next();
        base.pager.root.begin_generation(next)?
    };
    let side = Side::new(next.side);
    base.pager.root.disown_side(side)?;
    let older = kept
        .checked_sub(1)
        .and_then(|number| base.parts.get(number).copied());
    for table in base.catalogue.table_ids() {
        let rows = base.count(table);
        let first = match older {
            Some(part) => part.rows(table),
            // Changes applied in all parts need not be kept.
            None if table < FIRST_TABLE => rows,
            None => 0,
        };
        let entry = Entry {
            page: 0,
            epoch: u64::from(rows) | u64::from(first) << 32,
            rows: 0,
        };
        base.pager
            .root
            .set_entry(side.contents, section_number(table, LIVE), &entry)?;
    }
    base.finish_part(PartState {
        building: true,
        kept: small(kept),
        tasks: 0,
        next: Level {
            body: 0,
            lists: 0,
            ..next
        },
        since_sequence,
        ..state
    })
}

/// Abandons the pages that a task has written; their blocks are free, as after an opening.
fn leave_task<F: Nand, S: SecureStore>(pager: &mut Pager<F, S>) -> Result<()> {
    pager.arena.reset();
    pager.grown = [0; 2];
    pager.drop_temporary()?;
    Ok(pager.remark_blocks()?)
}

fn do_tasks<F: Nand, S: SecureStore>(
    tables: &mut Tables<F, S>,
    extent: Extent,
    tasks: u32,
) -> Result<Progress> {
    if extent == Extent::Whole && tables.base.pager.root.committed.part.kept > 0 {
        tables.base.give_up()?;
    }
    if !tables.base.pager.root.committed.part.building {
        let kept = match extent {
            Extent::Whole => 0,
            Extent::Levels if new_rows(&tables.base) == 0 => return Ok(tables.base.progress()),
            Extent::Levels => parts_to_keep(&tables.base),
        };
        begin_part(&mut tables.base, kept)?;
    }
    for _ in 0..tasks {
        let number = tables.base.pager.root.committed.part.tasks as usize;
        let Some(task) = tables.base.tasks().nth(number) else {
            break;
        };
        do_task(tables, task)?;
    }
    let mut progress = tables.base.progress();
    if progress.done == progress.tasks {
        // The window is rewritten, which cannot be abandoned in between.
        tables.base.pager.allowance = None;
        if let Err(error) = use_part(tables) {
            tables.base.pager.poison();
            return Err(error);
        }
        progress.finished = true;
    }
    Ok(progress)
}

fn do_task<F: Nand, S: SecureStore>(tables: &mut Tables<F, S>, task: Task) -> Result<()> {
    loop {
        match try_task(tables, task) {
            // The failed block is abandoned; the task starts again after it.
            Err(Error::Flash(FlashError::BadBlock)) => leave_task(&mut tables.base.pager)?,
            result => return result,
        }
    }
}

fn try_task<F: Nand, S: SecureStore>(tables: &mut Tables<F, S>, task: Task) -> Result<()> {
    // A task begins with all frames, whatever an abandoned one still leases.
    tables.base.pager.arena.reset();
    tables.base.pager.grown = [0; 2];
    let state = tables.base.pager.root.committed.part;
    let mut site = Site::new(&mut tables.base)?;
    match task {
        Task::Section { table, section } => site.build_section(tables, table, section)?,
        Task::Index(index) => site.build_keys(tables, index)?,
    }
    tables.base.pager.arena.reset();
    tables.base.pager.drop_temporary()?;
    tables.base.finish_part(PartState {
        tasks: state.tasks + 1,
        next: Level {
            body: site.body.pages,
            lists: site.lists.pages,
            ..state.next
        },
        ..state
    })
}

/// Replaces the merged parts by the new one, and frees their blocks.
#[inline(never)] // Keeps its local variables off the stack of the other tasks.
fn use_part<F: Nand, S: SecureStore>(tables: &mut Tables<F, S>) -> Result<()> {
    // Waiting rows are rewritten under the next generation; the pages before become unreadable
    // with its keys.
    tables.base.pager.waiting().densify()?;
    // No block is taken from here on, because directory entries of parts in use are removed.
    let catalogue = stored::move_away(&mut tables.base.pager)?;
    let state = tables.base.pager.root.committed.part;
    for level in state.merged() {
        tables.base.pager.root.disown_side(Side::new(level.side))?;
    }
    let side = tables.base.pager.root.building_side();
    let part = Part::read(&mut tables.base, side)?;
    for table in tables.base.catalogue.table_ids() {
        let chunk = part.rows(table) / UNIT_ROWS / CHUNK_ENTRIES;
        tables
            .base
            .pager
            .root
            .disown_before(owner_of(table), chunk)?;
    }
    tables.base.pager.root.keep_disowned();
    let after = state.advanced();
    let record = RootRecord {
        catalogue,
        ..tables.base.record_with(after)?
    };
    tables.base.pager.root.finish(&record)?;
    for side in all_sides() {
        if state.is_in_use(side) && !after.is_in_use(side) {
            tables.base.pager.root.destroy_generation(side)?;
        }
    }
    tables.base.pager.grown = [0; 2];
    tables.base.read_parts()?;
    tables.base.pager.remark_blocks()?;
    tables.summary.clear();
    tables.summarize()
}
