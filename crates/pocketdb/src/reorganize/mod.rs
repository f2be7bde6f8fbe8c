//! Reorganisation: a part that holds all rows of a moment, built beside the present one.
//!
//! The work is a fixed row of tasks: the sections of every table, then the keys of every index.
//! Each task reads the present part and the units as they were at the moment of the beginning,
//! so that it may be begun anew at any time and makes the same again. A record keeps how many
//! tasks are done. Queries and changes go on between tasks and see the present part; one last
//! record puts the new part in its place.

mod entries;
mod fusion;
mod sections;

use crate::arena::Area;
use crate::catalogue::{DELETES, FIRST_TABLE, UPDATES};
use crate::change::Moment;
use crate::directory::{CHUNK_ENTRIES, Entry, owner_of};
use crate::error::{Error, Result};
use crate::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::limits::UNIT_ROWS;
use crate::log::Log;
use crate::part::{LIVE, Part, SECTIONS_MAX, Side, section_number};
use crate::root::{PartState, SecureStore, read_generation, write_generation};
use crate::seal::next_secret;
use crate::store::{Pending, Store};

/// How far a reorganisation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Tasks done.
    pub done: u32,
    /// Tasks altogether.
    pub tasks: u32,
    /// Whether the reorganised part is in use.
    pub finished: bool,
}

/// One task of a reorganisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Section { table: usize, section: u32 },
    Index(usize),
}

/// What the tasks of a reorganisation share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    /// Where the new part is written.
    pub(crate) side: Side,
    /// The rows of the moment of the beginning.
    pub(crate) frozen: Part,
    /// The two logs.
    pub(crate) body: Log,
    pub(crate) lists: Log,
}

impl Site {
    /// The deletes and updates of the moment of the beginning.
    fn until(&self) -> Moment {
        Moment {
            deletes: self.frozen.rows(DELETES),
            updates: self.frozen.rows(UPDATES),
        }
    }
}

impl<F: Nand, S: SecureStore> Store<F, S> {
    /// Begins a reorganisation, or goes on with one: at most `tasks` tasks.
    ///
    /// After `operations` operations of the flash device the task under way is left, to be begun
    /// anew by the next call. What is done is kept across a loss of power; queries and changes
    /// may come between two calls.
    ///
    /// # Errors
    /// [`Error::Refused`] inside a transaction; [`Error::DeviceFull`] when both parts find no room
    /// beside each other, which leaves everything as it was; or a failure of the device.
    pub fn reorganize(&mut self, tasks: u32, operations: u64) -> Result<Progress> {
        self.usable()?;
        if self.has_changes() || self.in_transaction {
            return Err(Error::Refused(
                "a reorganisation inside a transaction".into(),
            ));
        }
        self.drop_temporary()?;
        self.allowance = Some(operations);
        let result = self.do_tasks(tasks);
        self.allowance = None;
        match result {
            Ok(progress) => Ok(progress),
            Err(Error::Stopped) => {
                self.leave_task()?;
                Ok(self.progress())
            }
            Err(Error::DeviceFull) => {
                self.leave_task()?;
                Err(Error::DeviceFull)
            }
            Err(error) => {
                self.poison();
                Err(error)
            }
        }
    }

    /// Gives up a reorganisation under way; the present part stays.
    ///
    /// # Errors
    /// A failure of the device or the secure store.
    pub fn cancel_reorganization(&mut self) -> Result<()> {
        self.usable()?;
        if self.has_changes() || self.in_transaction {
            return Err(Error::Refused(
                "a reorganisation inside a transaction".into(),
            ));
        }
        if !self.committed.part.building {
            return Ok(());
        }
        self.disown_side(self.building_side());
        let record = self.record_with(PartState {
            building: false,
            ..self.committed.part
        })?;
        self.finish(&record)?;
        self.remark_blocks()
    }

    /// How far the reorganisation under way has come; finished where there is none.
    pub fn progress(&self) -> Progress {
        let state = self.committed.part;
        Progress {
            done: if state.building { state.tasks } else { 0 },
            tasks: crate::bytes::narrow(self.tasks().count()),
            finished: !state.building,
        }
    }

    /// Reorganisations completed since the database was created.
    pub fn instance(&self) -> u32 {
        self.committed.part.instance
    }

    fn do_tasks(&mut self, tasks: u32) -> Result<Progress> {
        if !self.committed.part.building {
            self.begin_part()?;
        }
        for _ in 0..tasks {
            let number = self.committed.part.tasks as usize;
            let Some(task) = self.tasks().nth(number) else {
                break;
            };
            self.do_task(task)?;
        }
        let mut progress = self.progress();
        if progress.done == progress.tasks {
            // The window is written anew, which cannot be left in the middle.
            self.allowance = None;
            if let Err(error) = self.use_part() {
                self.poison();
                return Err(error);
            }
            progress.finished = true;
        }
        Ok(progress)
    }

    /// The tasks, referenced tables first.
    fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        let tables = FIRST_TABLE..self.catalogue.len();
        let sections = tables.clone().flat_map(move |table| {
            (0..SECTIONS_MAX)
                .filter(move |&section| self.section_pages(table, section, 1) > 0)
                .map(move |section| Task::Section { table, section })
        });
        let indexes = tables.flat_map(move |table| self.catalogue.indexes_of(table));
        sections.chain(indexes.map(Task::Index))
    }

    fn building_side(&self) -> Side {
        Side::new(self.committed.part.side ^ 1)
    }

    fn disown_side(&mut self, side: Side) {
        for owner in side.owners() {
            self.disown(owner);
        }
    }

    fn record_with(&mut self, part: PartState) -> Result<crate::root::RootRecord> {
        let mut record = self.next_record()?;
        record.part = part;
        Ok(record)
    }

    /// Notes the moment: every row that is committed now belongs to the new part.
    fn begin_part(&mut self) -> Result<()> {
        let side = self.building_side();
        self.disown_side(side);
        for table in 0..self.catalogue.len() {
            let entry = Entry {
                page: 0,
                epoch: u64::from(self.count(table)),
                rows: 0,
            };
            self.set_entry(side.contents, section_number(table, LIVE), &entry)?;
        }
        self.begin_generation()?;
        let state = self.committed.part;
        // One that was given up has left pages of the next generation: they stay in it.
        let (since_epoch, since_sequence) = match state.since_epoch {
            0 => (self.committed.epoch, self.window.next()),
            epoch => (epoch, state.since_sequence),
        };
        let record = self.record_with(PartState {
            building: true,
            tasks: 0,
            next_body: 0,
            next_lists: 0,
            since_epoch,
            since_sequence,
            ..state
        })?;
        self.finish(&record)
    }

    /// Makes the key of the next generation from that of the present one.
    fn begin_generation(&mut self) -> Result<()> {
        let side = self.committed.part.side;
        let present = read_generation(&mut self.secure, side)?;
        let present = present.ok_or(Error::Root("lacks the key of its generation"))?;
        let next = next_secret(&present);
        write_generation(&mut self.secure, side ^ 1, &next)?;
        self.pending = self.pending.max(Pending::Entries);
        self.seal.set_side(side ^ 1, Some(&next));
        Ok(())
    }

    fn do_task(&mut self, task: Task) -> Result<()> {
        loop {
            match self.try_task(task) {
                // The block that failed is left; the task begins anew behind it.
                Err(Error::Flash(FlashError::BadBlock)) => self.leave_task()?,
                result => return result,
            }
        }
    }

    fn try_task(&mut self, task: Task) -> Result<()> {
        self.arena.reset();
        let state = self.committed.part;
        let side = self.building_side();
        let mut site = Site {
            side,
            frozen: self.read_part_state(side)?,
            body: self.continue_log(side.body, state.next_body)?,
            lists: self.continue_log(side.lists, state.next_lists)?,
        };
        match task {
            Task::Section { table, section } => self.build_section(&mut site, table, section)?,
            Task::Index(index) => self.build_keys(&mut site, index)?,
        }
        self.arena.reset();
        self.drop_temporary()?;
        let record = self.record_with(PartState {
            tasks: state.tasks + 1,
            next_body: site.body.pages,
            next_lists: site.lists.pages,
            ..self.committed.part
        })?;
        self.finish(&record)
    }

    /// A log of the new part behind its first `pages` pages, past everything left over.
    fn continue_log(&mut self, owner: u8, pages: u32) -> Result<Log> {
        let mut log = Log { owner, pages };
        if !pages.is_multiple_of(BLOCK_PAGES) {
            let block = self.entry(owner, pages / BLOCK_PAGES)?.page;
            let next = block + pages % BLOCK_PAGES;
            if self.blocks.is_bad(block / BLOCK_PAGES) || !self.is_clean(next)? {
                log.pages = pages.next_multiple_of(BLOCK_PAGES);
            }
        }
        Ok(log)
    }

    /// Forgets what a task has written; its blocks are free, as after an opening.
    fn leave_task(&mut self) -> Result<()> {
        self.arena.reset();
        self.drop_temporary()?;
        self.remark_blocks()
    }

    /// Puts the new part in the place of the present one, and frees what it replaces.
    fn use_part(&mut self) -> Result<()> {
        let (old, new) = (self.side(), self.building_side());
        let part = self.read_part_state(new)?;
        // Rows that wait come with the next generation; the pages of the present one go with its key.
        self.rewrite_window()?;
        self.disown_side(old);
        for table in 0..self.catalogue.len() {
            let chunk = part.rows(table) / UNIT_ROWS / CHUNK_ENTRIES;
            self.disown_before(owner_of(table), chunk);
        }
        self.pending = Pending::Structure;
        let state = self.committed.part;
        let record = self.record_with(PartState {
            side: state.side ^ 1,
            instance: state.instance + 1,
            body: state.next_body,
            lists: state.next_lists,
            building: false,
            since_epoch: 0,
            since_sequence: 0,
            ..state
        })?;
        self.finish(&record)?;
        self.destroy_generation(state.side)?;
        self.part = part;
        self.remark_blocks()?;
        self.summary.clear();
        self.summarize()
    }

    /// Closes the first page of `area` and programs it as the next page of a log of the new part.
    pub(crate) fn part_append(&mut self, log: &mut Log, role: u8, area: Area) -> Result<()> {
        if log.pages.is_multiple_of(BLOCK_PAGES) {
            self.log_block(log.owner, log.pages / BLOCK_PAGES)?;
        }
        self.log_program(log, role, area, 0)?;
        self.arena.area_mut(area).fill(0);
        Ok(())
    }
}
