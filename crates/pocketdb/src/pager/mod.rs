//! The pager: flash, the secure store, sealing, page frames, space, logs of pages and commits.
//!
//! It knows pages and elements by their owners' numbers, never tables or values.

pub(crate) mod arena;
pub(crate) mod blocks;
pub(crate) mod buffer;
pub(crate) mod bytes;
pub(crate) mod commit;
pub(crate) mod directory;
pub(crate) mod directory_code;
pub(crate) mod error;
pub mod flash;
pub(crate) mod generations;
pub(crate) mod list;
pub(crate) mod log;
#[cfg(feature = "std")]
pub(crate) mod medium;
pub(crate) mod note;
pub(crate) mod recovery;
pub(crate) mod ring;
pub(crate) mod root;
pub(crate) mod run;
pub(crate) mod scratch;
pub(crate) mod seal;
pub(crate) mod secrets;
#[cfg(feature = "std")]
pub mod secure;
pub(crate) mod series;
pub(crate) mod shape;
pub(crate) mod side;
pub(crate) mod sort;
pub(crate) mod usage;
pub(crate) mod window;

use alloc::boxed::Box;

use crate::limits::TABLES_MAX;
use crate::pager::arena::{Area, Arena};
use crate::pager::blocks::Blocks;
use crate::pager::commit::{Pending, Root};
use crate::pager::directory::{Places, Structure, TEMPORARY};
use crate::pager::error::{Error, Result};
use crate::pager::flash::{BLOCK_PAGES, FlashError, Nand};
use crate::pager::generations::keys_code;
use crate::pager::log::Log;
use crate::pager::note::{check_closed, write_memory};
use crate::pager::ring::{read_newest, write_ring};
use crate::pager::root::{Origin, PartState, RootRecord, SecureStore, format_store, read_head};
use crate::pager::seal::{PageIdentity, Seal, Since, first_secrets};
use crate::pager::secrets::{ChainSlot, write_chain, write_generation};
use crate::pager::shape::Shape;
use crate::pager::sort::Effort;
use crate::pager::usage::Usage;
use crate::pager::window::{Room, Window};

/// Pages on flash, and the commits that make them durable.
pub(crate) struct Pager<F: Nand, S: SecureStore> {
    pub(crate) flash: F,
    pub(crate) root: Root<S>,
    pub(crate) arena: Arena,
    pub(crate) blocks: Blocks,
    pub(crate) window: Window,
    /// Memory of the arena and the window.
    room: Room,
    /// The elements and units of every owner of rows.
    shapes: [Shape; TABLES_MAX],
    /// Number of device operations that a reorganisation may still use.
    pub(crate) allowance: Option<u64>,
    /// Number of blocks of both logs of the part being built, with the current task's.
    pub(crate) grown: [u32; 2],
    /// The temporary log of statements.
    pub(crate) temporary: Log,
    /// Work of the present statement besides reading.
    pub(crate) effort: Effort,
    poisoned: bool,
    /// True once a page was not erased behind one that was: a loss of power may leave that in
    /// further blocks.
    pub(crate) suspects_blocks: bool,
}

/// The content of a secure store that an opening begins with.
pub(crate) struct Stored {
    seal: Box<Seal>,
    pub(crate) committed: RootRecord,
    /// The form of the store, which an opening changes if it is an earlier one.
    pub(crate) origin: Origin,
}

impl Stored {
    /// Reads the secure store of a device with `blocks` blocks.
    #[inline(never)] // Keeps its local variables off the stack of what follows.
    pub(crate) fn read(secure: &mut impl SecureStore, blocks: u32) -> Result<Self> {
        let head = read_head(secure)?;
        if head.blocks != blocks {
            return Err(Error::Root("belongs to a device of another size"));
        }
        // Before the format is raised, no page is sealed in the present form.
        let since = head.origin.since.unwrap_or(Since::NEVER);
        let mut seal = Box::new(Seal::new(&head.secret, since));
        let committed = read_newest(secure, &mut seal)?;
        check_closed(secure, &mut seal, committed.sequence)?;
        Ok(Self {
            seal,
            committed,
            origin: head.origin,
        })
    }
}

impl<F: Nand, S: SecureStore> Pager<F, S> {
    /// Creates the pager of a device and of what its secure store says, without frames.
    #[expect(
        clippy::inline_always,
        reason = "a pager that is moved takes the stack of an opening twice"
    )]
    #[inline(always)]
    pub(crate) fn new(flash: F, secure: S, stored: Stored) -> Self {
        let committed = stored.committed;
        let room = Room::default();
        Self {
            window: Window::new(&committed, &room),
            arena: Arena::new(room.frames),
            blocks: Blocks::new(flash.blocks(), committed.block_next),
            room,
            shapes: [Shape::default(); TABLES_MAX],
            allowance: None,
            grown: [0; 2],
            temporary: Log {
                owner: TEMPORARY,
                pages: 0,
            },
            effort: Effort::default(),
            poisoned: false,
            suspects_blocks: false,
            flash,
            root: Root {
                noted: (committed.epoch, committed.buffer_next),
                keeps_noted: false,
                chain: ChainSlot::default(),
                structure: Structure::default(),
                places: Places::default(),
                pending: Pending::Nothing,
                writes: 0,
                secure,
                seal: stored.seal,
                committed,
            },
        }
    }

    /// Divides the memory anew; the window is empty then.
    pub(crate) fn provide(&mut self, room: Room) {
        // Frees the old frames before allocating the new ones, so that both never exist together.
        self.arena = Arena::new(0);
        self.window = Window::new(&self.root.committed, &room);
        self.arena = Arena::new(room.frames);
        self.room = room;
    }

    /// Sets the shape of the elements and units of `owner`.
    pub(crate) fn describe(&mut self, owner: u8, shape: Shape) -> Result<()> {
        let place = self.shapes.get_mut(usize::from(owner));
        *place.ok_or(Error::Limit("the number of tables"))? = shape;
        Ok(())
    }

    /// Returns an error after a failure, and releases the leases of an operation.
    pub(crate) fn usable(&mut self) -> Result<()> {
        self.arena.reset();
        if self.poisoned {
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// Refuses every operation until the store is opened again.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Passes on a result; poisons the pager if it is an error.
    pub(crate) fn poison_after<T, E>(
        &mut self,
        result: core::result::Result<T, E>,
    ) -> core::result::Result<T, E> {
        if result.is_err() {
            self.poison();
        }
        result
    }

    /// Returns a record with the present end of the buffer and otherwise unchanged.
    pub(crate) fn next_record(&mut self) -> Result<RootRecord> {
        let mut record = RootRecord {
            sequence: self.root.committed.sequence + 1,
            structure: self.root.keep_structure()?,
            block_next: self.blocks.next(),
            ..self.root.committed
        };
        self.window.describe(&mut record);
        Ok(record)
    }

    /// Returns a record with another state of the parts.
    pub(crate) fn record_with(&mut self, part: PartState) -> Result<RootRecord> {
        let mut record = self.next_record()?;
        record.part = part;
        Ok(record)
    }

    /// Programs page `number` of `area` to `page`; at the start of a block it erases the block
    /// first.
    ///
    /// A block that fails is retired; the caller finds another one.
    pub(crate) fn program(&mut self, page: u32, area: Area, number: usize) -> Result<()> {
        self.program_with(page, area, number, F::program)
    }

    /// Programs as [`Self::program`] does, for a page that is not needed after a loss of power.
    pub(crate) fn program_temporary(&mut self, page: u32, area: Area, number: usize) -> Result<()> {
        self.program_with(page, area, number, F::program_temporary)
    }

    fn program_with(
        &mut self,
        page: u32,
        area: Area,
        number: usize,
        program: impl FnOnce(&mut F, u32, &[u8]) -> core::result::Result<(), FlashError>,
    ) -> Result<()> {
        self.spend()?;
        let erased = if page.is_multiple_of(BLOCK_PAGES) {
            self.flash.erase(page / BLOCK_PAGES)
        } else {
            Ok(())
        };
        let bytes = self.arena.area_page(area, number);
        let result = erased.and_then(|()| program(&mut self.flash, page, bytes));
        match result {
            Err(FlashError::BadBlock) => self.retire(page / BLOCK_PAGES)?,
            // A loss of power left something behind `page`, which the device sees and an opening does
            // not look for. The block is erased before its next use, and until then another one serves.
            Err(FlashError::NotErased) if !page.is_multiple_of(BLOCK_PAGES) => {
                self.suspects_blocks = true;
                return Err(FlashError::BadBlock.into());
            }
            _ => {}
        }
        Ok(result?)
    }

    /// Subtracts an operation of the device from the allowance of a reorganisation.
    fn spend(&mut self) -> Result<()> {
        match &mut self.allowance {
            Some(0) => Err(Error::Stopped),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns the frame of a page: from the cache, or read, authenticated and decrypted.
    pub(crate) fn load(&mut self, identity: &PageIdentity) -> Result<usize> {
        match self.arena.find(identity.page, identity.epoch) {
            Some(frame) => Ok(frame),
            None => Ok(self.fetch(identity)?.0),
        }
    }

    /// Reads a page from flash; returns its frame and its code.
    pub(crate) fn fetch(&mut self, identity: &PageIdentity) -> Result<(usize, [u8; 16])> {
        self.spend()?;
        let frame = self.arena.victim();
        let bytes = self.arena.page_mut(frame);
        let read = self.flash.read(identity.page, 0, bytes);
        if read == Err(FlashError::OutOfRange) {
            return Err(Error::Root("names a page that the device does not have"));
        }
        read?;
        let code = self.root.seal.open(identity, bytes)?;
        self.arena.note(frame, identity.page, identity.epoch);
        Ok((frame, code))
    }
}

/// Writes the secure store of an empty database.
///
/// It is a function of its own, so that its keys take no stack while the store is opened.
#[inline(never)]
pub(crate) fn prepare(
    secure: &mut impl SecureStore,
    blocks: u32,
    secret: &[u8; 32],
    memory: usize,
) -> Result<()> {
    let [secret, first, chain] = first_secrets(secret);
    let mut seal = Box::new(Seal::new(&secret, Since::default()));
    write_generation(secure, 0, &first)?;
    write_chain(secure, ChainSlot::First, &chain)?;
    let mut record = RootRecord::empty();
    record.structure.code = seal.root_code(&[]);
    record.directory = keys_code(secure, &mut seal, &record.part, ChainSlot::First)?;
    write_ring(secure, &mut seal, record)?;
    Usage {
        memory_given: memory as u64,
        ..Usage::default()
    }
    .write(secure)?;
    write_memory(secure, &mut seal, memory as u64)?;
    // The head is written last: without it the store cannot be opened.
    format_store(secure, blocks, &secret)
}
