//! The ring of commit records in the secure store: the newest one is the state of the database.
//!
//! "Secure store" in `docs/pocketdb-format.md` says which record stands in which slot.

use crate::limits::{RECORD_SLOTS, ROOT_RECORD_BYTES};
use crate::pager::bytes::{part, put, take};
use crate::pager::error::{Error, Result};
use crate::pager::root::{RECORDS_AT, RootRecord, SecureStore};
use crate::pager::seal::{MAC_BYTES, Seal};

/// The number of a record behind which every slot holds one: in a ring that has got so far, what is
/// missing is never what was not written yet.
const FULL_FROM: u64 = RECORD_SLOTS as u64;
/// Offset behind the ring.
pub(crate) const RING_END: usize = RECORDS_AT + RECORD_SLOTS * ROOT_RECORD_BYTES;

/// Makes `record` the state of the database, with these numbers for its own epoch and sequence number of
/// the buffer; this single write is the commit.
#[inline(never)] // The bytes take no stack of what comes behind a commit.
pub(crate) fn write_record(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    record: &RootRecord,
    numbers: (u64, u64),
) -> Result<()> {
    put_record(store, seal, record, numbers)?;
    Ok(store.sync()?)
}

/// Writes the ring of a new store, full of `record`; returns once it is durable.
pub(crate) fn write_ring(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    mut record: RootRecord,
) -> Result<()> {
    while !is_full(&record) {
        record.sequence += 1;
        put_record(store, seal, &record, (record.epoch, record.buffer_next))?;
    }
    Ok(store.sync()?)
}

/// Returns whether `record` is the newest one of a ring that is full. One that an earlier version made is filled
/// by its first opening.
pub(crate) fn is_full(record: &RootRecord) -> bool {
    record.sequence >= FULL_FROM
}

/// Least number of slots with a number of theirs by which a ring is known without its codes.
const SLOTS_KNOWN: usize = 8;

/// Returns whether slots have numbers as those of a ring have, whatever stands before them.
pub(crate) fn is_ring(store: &mut impl SecureStore) -> Result<bool> {
    let mut known = 0;
    for slot in 0..RECORD_SLOTS {
        let mut sequence = [0; 8];
        store.read(RECORDS_AT + slot * ROOT_RECORD_BYTES, &mut sequence)?;
        let sequence = u64::from_le_bytes(sequence);
        known += usize::from(sequence > 0 && slot_of(sequence) == slot);
    }
    Ok(known >= SLOTS_KNOWN)
}

/// Returns whether the bytes of a store begin a ring that is full, so that a file of them has all of it.
#[cfg(feature = "std")]
pub(crate) fn begins_full(bytes: &[u8]) -> bool {
    crate::pager::bytes::u64_at(bytes, RECORDS_AT) >= FULL_FROM
}

fn put_record(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    record: &RootRecord,
    numbers: (u64, u64),
) -> Result<()> {
    let mut bytes = [0u8; ROOT_RECORD_BYTES];
    record.encode(numbers, &mut bytes);
    let body = part(&bytes, 0, ROOT_RECORD_BYTES - MAC_BYTES);
    let code = seal.root_code(body);
    put(&mut bytes, ROOT_RECORD_BYTES - MAC_BYTES, &code);
    let slot = slot_of(record.sequence);
    Ok(store.write(RECORDS_AT + slot * ROOT_RECORD_BYTES, &bytes)?)
}

/// Content of one slot of the ring.
#[expect(
    clippy::large_enum_variant,
    reason = "one is held at a time, and only while a store is opened"
)]
enum Slot {
    /// Nothing was ever written to it.
    Empty,
    /// Its code is not correct, as a loss of power while it was written leaves it.
    Torn,
    /// A record with a correct code.
    Intact(RootRecord),
}

/// The newest record of the ring.
///
/// A loss of power tears one write, that of the record after the newest. It neither empties a slot nor
/// makes a correct code, so that every other slot must hold the very record that belongs there: one that
/// is missing, torn, or was copied from another slot or from an earlier turn of the ring is refused. Slots
/// that were never written are only in a ring that an earlier version made, until it is full.
pub(crate) fn read_newest(store: &mut impl SecureStore, seal: &mut Seal) -> Result<RootRecord> {
    let mut newest: Option<RootRecord> = None;
    for slot in 0..RECORD_SLOTS {
        if let Slot::Intact(record) = read_slot(store, seal, slot)?
            && newest.is_none_or(|best| best.sequence < record.sequence)
        {
            newest = Some(record);
        }
    }
    let newest = newest.ok_or(Error::Root("is damaged"))?;
    for slot in 0..RECORD_SLOTS {
        let behind = (RECORD_SLOTS + slot_of(newest.sequence) - slot) % RECORD_SLOTS;
        let expected = newest.sequence.checked_sub(behind as u64);
        let next = behind + 1 == RECORD_SLOTS;
        match read_slot(store, seal, slot)? {
            Slot::Intact(record) if Some(record.sequence) == expected => {}
            Slot::Empty if expected.is_none() => {}
            Slot::Torn if next => {}
            Slot::Intact(_) => return Err(Error::Root("has a record in another one's place")),
            Slot::Empty | Slot::Torn => return Err(Error::Root("is damaged")),
        }
    }
    Ok(newest)
}

/// The slot of the record with this sequence number.
fn slot_of(sequence: u64) -> usize {
    usize::try_from(sequence % RECORD_SLOTS as u64).unwrap_or(0)
}

#[inline(never)] // The bytes take no room on the stack of an opening.
fn read_slot(store: &mut impl SecureStore, seal: &mut Seal, slot: usize) -> Result<Slot> {
    let mut bytes = [0u8; ROOT_RECORD_BYTES];
    store.read(RECORDS_AT + slot * ROOT_RECORD_BYTES, &mut bytes)?;
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(Slot::Empty);
    }
    let body = part(&bytes, 0, ROOT_RECORD_BYTES - MAC_BYTES);
    if seal.root_code(body) != take::<MAC_BYTES>(&bytes, ROOT_RECORD_BYTES - MAC_BYTES) {
        return Ok(Slot::Torn);
    }
    Ok(Slot::Intact(RootRecord::decode(body)?))
}
