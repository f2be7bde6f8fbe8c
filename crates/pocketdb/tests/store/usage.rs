//! The figures of `stats` are true: every operation is counted again outside the engine.

use std::cell::Cell;
use std::rc::Rc;

use probity_pocketdb::flash::{
    FlashCounters, FlashError, Nand, PAGE_BYTES, PageState, SECTOR_BYTES, Simulator,
};
use probity_pocketdb::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use probity_pocketdb::secure::MemoryStore;
use probity_pocketdb::{Error, Extent, Operations, SecureStore, SecureStoreError, Store, Usage};

use crate::script::{BLOCKS, MEMORY, Model, SECRET, STORE_BYTES, answers, create_tables, play};

/// Place of the secret from which the next keys are derived.
const CHAIN: std::ops::Range<usize> = 336..368;

/// Operations of the devices, in the order of the fields of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Done {
    reads: u64,
    sectors: u64,
    programs: u64,
    erases: u64,
    records: u64,
}

#[derive(Clone, Default)]
struct Tally(Rc<Cell<Done>>);

impl Tally {
    fn add(&self, change: impl FnOnce(&mut Done)) {
        let mut done = self.0.get();
        change(&mut done);
        self.0.set(done);
    }
}

/// A device that tells what is asked of it.
struct Counted<T> {
    inner: T,
    tally: Tally,
    /// Counters of the device before this opening.
    before: FlashCounters,
}

impl Nand for Counted<Simulator> {
    fn blocks(&self) -> u32 {
        self.inner.blocks()
    }

    fn read(&mut self, page: u32, at: usize, out: &mut [u8]) -> Result<PageState, FlashError> {
        self.tally.add(|done| {
            done.reads += 1;
            done.sectors += (out.len() / SECTOR_BYTES) as u64;
        });
        self.inner.read(page, at, out)
    }

    fn program(&mut self, page: u32, bytes: &[u8]) -> Result<(), FlashError> {
        assert_eq!(bytes.len(), PAGE_BYTES);
        self.tally.add(|done| done.programs += 1);
        self.inner.program(page, bytes)
    }

    fn erase(&mut self, block: u32) -> Result<(), FlashError> {
        self.tally.add(|done| done.erases += 1);
        self.inner.erase(block)
    }

    fn counters(&self) -> FlashCounters {
        let (now, before) = (self.inner.counters(), self.before);
        FlashCounters {
            page_reads: now.page_reads - before.page_reads,
            sector_reads: now.sector_reads - before.sector_reads,
            programs: now.programs - before.programs,
            erases: now.erases - before.erases,
        }
    }
}

impl SecureStore for Counted<MemoryStore> {
    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    fn read(&mut self, offset: usize, out: &mut [u8]) -> Result<(), SecureStoreError> {
        self.inner.read(offset, out)
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), SecureStoreError> {
        if bytes.len() == ROOT_RECORD_BYTES {
            self.tally.add(|done| done.records += 1);
        }
        self.inner.write(offset, bytes)
    }

    fn sync(&mut self) -> Result<(), SecureStoreError> {
        self.inner.sync()
    }
}

fn counted(
    flash: Simulator,
    secure: MemoryStore,
) -> (Counted<Simulator>, Counted<MemoryStore>, Tally) {
    let tally = Tally::default();
    let before = flash.counters();
    let flash = Counted {
        inner: flash,
        tally: tally.clone(),
        before,
    };
    let secure = Counted {
        inner: secure,
        tally: tally.clone(),
        before,
    };
    (flash, secure, tally)
}

fn done(operations: &Operations) -> Done {
    let flash = &operations.flash;
    Done {
        reads: flash.page_reads,
        sectors: flash.sector_reads,
        programs: flash.programs,
        erases: flash.erases,
        records: operations.root_writes,
    }
}

#[test]
fn the_sums_kept_are_those_of_every_operation_counted_outside() {
    let (flash, secure) = (Simulator::new(BLOCKS), MemoryStore::new(STORE_BYTES));
    let (flash, secure, tally) = counted(flash, secure);
    let mut store = Store::create(flash, secure, &SECRET, MEMORY).unwrap();
    create_tables(&mut store).unwrap();
    // The first ring makes the store, before there is an opening that could count.
    tally.add(|done| done.records -= RECORD_SLOTS as u64);
    let mut total = Done::default();
    let mut model = Model::default();
    let mut tally = tally;
    for opening in 0..8u32 {
        play(&mut store, &mut model, opening * 9..(opening + 1) * 9).unwrap();
        if opening % 3 == 1 {
            let extent = if opening == 1 {
                Extent::Whole
            } else {
                Extent::Levels
            };
            store.reorganize(extent, u32::MAX, u64::MAX).unwrap();
        }
        answers(&mut store, &model, "while it is counted").unwrap();
        store.verify().unwrap();
        let (flash, mut secure) = store.close().unwrap();
        let now = tally.0.get();
        assert!(now.reads > 0 && now.programs > 0 && now.records > 0);
        total.reads += now.reads;
        total.sectors += now.sectors;
        total.programs += now.programs;
        total.erases += now.erases;
        total.records += now.records;
        let usage = Usage::read(&mut secure).unwrap();
        assert_eq!(done(&usage.last), now, "opening {opening}");
        assert_eq!(done(&usage.total), total, "opening {opening}");
        let (flash, secure, next) = counted(flash.inner, secure.inner);
        tally = next;
        store = Store::open(flash, secure, MEMORY).unwrap();
    }
    assert!(total.erases > 10, "{total:?}");
}

/// Damaged sums ended the program behind a commit.
#[test]
fn damaged_sums_stop_nothing_and_are_told() {
    let mut store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    )
    .unwrap();
    create_tables(&mut store).unwrap();
    let (flash, mut secure) = store.close().unwrap();
    assert!(!Usage::read(&mut secure).unwrap().is_damaged());
    // The sums stand behind both sizes of memory.
    secure.bytes_mut()[80..208].fill(0xFF);
    let mut store = Store::open(flash, secure, MEMORY).unwrap();
    play(&mut store, &mut Model::default(), 0..3).unwrap();
    let (_, mut secure) = store.close().unwrap();
    let usage = Usage::read(&mut secure).unwrap();
    assert!(usage.is_damaged());
    let time = probity_pocketdb::flash::CostModel::default().nanoseconds(&usage.total.flash);
    assert_eq!(time, u64::MAX);
}

/// A secret of zeros would have given keys that everybody can derive.
#[test]
fn a_chain_of_keys_that_is_zeros_is_refused() {
    let mut store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    )
    .unwrap();
    create_tables(&mut store).unwrap();
    play(&mut store, &mut Model::default(), 0..3).unwrap();
    let (flash, mut secure) = store.close().unwrap();
    secure.bytes_mut()[CHAIN].fill(0);
    let refused = Store::open(flash, secure, MEMORY).err();
    assert_eq!(refused, Some(Error::Root("is damaged")));
}

/// A root file of zeros, as a loss of power may leave one, was called another kind of file.
#[test]
fn a_secure_store_of_zeros_is_damage() {
    let store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    );
    let (flash, mut secure) = store.unwrap().close().unwrap();
    secure.bytes_mut().fill(0);
    let refused = Store::open(flash, secure, MEMORY).err();
    assert_eq!(refused, Some(Error::Root("begins with zeros")));
}

/// The memory given stood in the store without a code. One flipped bit made it 0, the database opened no
/// more, and the message was one about too little memory.
#[test]
fn no_flipped_bit_of_the_memory_given_keeps_a_store_shut() {
    let mut store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    )
    .unwrap();
    create_tables(&mut store).unwrap();
    let (flash, secure) = store.close().unwrap();
    // The sums with the memory, and the note of it.
    for bit in (64 * 8..80 * 8).chain(368 * 8..393 * 8) {
        let mut damaged = secure.clone();
        damaged.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
        type Opened = Store<Simulator, MemoryStore>;
        assert_eq!(Opened::memory_given(&mut damaged), Ok(MEMORY), "bit {bit}");
        let store = Store::open(flash.clone(), damaged, MEMORY).unwrap();
        let (_, mut mended) = store.close().unwrap();
        let usage = Usage::read(&mut mended).unwrap();
        assert_eq!(usage.memory_given, MEMORY as u64, "bit {bit}");
    }
    let mut damaged = secure;
    for (at, bit) in [(66, 1), (370, 4)] {
        damaged.bytes_mut()[at] ^= bit;
    }
    let refused = Store::<Simulator, MemoryStore>::memory_given(&mut damaged);
    assert_eq!(refused, Err(Error::Root("is damaged")));
}

/// A store of an earlier version has no note: it opens as before, gets one, and a memory that no
/// store is created with is damage.
#[test]
fn a_store_without_a_note_of_its_memory_gets_one_when_it_is_closed() {
    let mut store = Store::create(
        Simulator::new(BLOCKS),
        MemoryStore::new(STORE_BYTES),
        &SECRET,
        MEMORY,
    )
    .unwrap();
    create_tables(&mut store).unwrap();
    let (flash, mut secure) = store.into_parts();
    secure.bytes_mut()[368..512].fill(0);
    type Opened = Store<Simulator, MemoryStore>;
    assert_eq!(Opened::memory_given(&mut secure), Ok(MEMORY));
    let mut damaged = secure.clone();
    damaged.bytes_mut()[66] ^= 1;
    let refused = Opened::memory_given(&mut damaged).unwrap_err();
    assert!(matches!(refused, Error::Root(_)), "{refused}");
    let store = Store::open(flash, secure, MEMORY).unwrap();
    let (_, mut secure) = store.close().unwrap();
    assert_ne!(secure.bytes_mut()[368..393], [0; 25]);
    secure.bytes_mut()[66] ^= 1;
    assert_eq!(Opened::memory_given(&mut secure), Ok(MEMORY));
}
