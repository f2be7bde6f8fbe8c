//! Two numbers of the secure store, each with a code of its own: the memory given, and the newest
//! record when a store was closed in order.
//!
//! "Secure store" in `docs/pocketdb-format.md` says where they stand.

use alloc::boxed::Box;

use crate::pager::bytes::{part, put, take, u64_at};
use crate::pager::error::{Error, Result};
use crate::pager::root::{SecureStore, read_head};
use crate::pager::seal::{MAC_BYTES, Seal, Since};
use crate::pager::usage::Usage;

/// Offset of the note of the memory given.
const MEMORY_AT: usize = 368;
/// Offset of the note of a closing.
const CLOSED_AT: usize = 400;
/// Offset of a note's code, behind its number.
const CODE_AT: usize = 8;
/// Offset of a note's last byte. A loss of power leaves it 0 in a note that was never written whole.
const END_AT: usize = CODE_AT + MAC_BYTES;
/// Length of a note in bytes.
const NOTE_BYTES: usize = END_AT + 1;
/// The last byte of a note.
const END: u8 = 0xA5;
const _: () = assert!(MEMORY_AT + NOTE_BYTES <= CLOSED_AT);
/// Place of both notes.
pub(crate) const NOTES: core::ops::Range<usize> = MEMORY_AT..CLOSED_AT + NOTE_BYTES;

/// Words before a number, for its code.
const MEMORY: [u8; 8] = *b"memory  ";
const CLOSED: [u8; 8] = *b"closed  ";

/// A number as the secure store has it.
struct Note {
    number: u64,
    code: [u8; MAC_BYTES],
    /// False in a store of an earlier version, and where a loss of power tore the first writing.
    is_whole: bool,
}

impl Note {
    fn read(store: &mut impl SecureStore, at: usize) -> Result<Self> {
        let mut bytes = [0; NOTE_BYTES];
        store.read(at, &mut bytes)?;
        Ok(Self {
            number: u64_at(&bytes, 0),
            code: take(&bytes, CODE_AT),
            is_whole: take::<1>(&bytes, END_AT) != [0],
        })
    }

    fn write(
        store: &mut impl SecureStore,
        at: usize,
        number: u64,
        code: &[u8; MAC_BYTES],
    ) -> Result<()> {
        let mut bytes = [END; NOTE_BYTES];
        put(&mut bytes, 0, &number.to_le_bytes());
        put(&mut bytes, CODE_AT, code);
        Ok(store.write(at, &bytes)?)
    }
}

fn code_of(seal: &mut Seal, word: [u8; 8], number: u64) -> [u8; MAC_BYTES] {
    let mut bytes = [0; 16];
    put(&mut bytes, 0, &word);
    put(&mut bytes, 8, &number.to_le_bytes());
    seal.root_code(part(&bytes, 0, 16))
}

/// Notes the memory given to a store.
pub(crate) fn write_memory(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    memory: u64,
) -> Result<()> {
    let code = code_of(seal, MEMORY, memory);
    Note::write(store, MEMORY_AT, memory, &code)
}

/// The memory given to a store.
pub(crate) struct Given {
    pub(crate) bytes: u64,
    /// True if a code vouches for it, as it does unless an earlier version made the store.
    pub(crate) is_noted: bool,
}

/// Returns the memory given, which stands in two places with one code: damage of one of the three
/// is made good by the other two.
pub(crate) fn read_memory(store: &mut impl SecureStore, seal: &mut Seal) -> Result<Given> {
    let beside = Usage::read(store)?.memory_given;
    let note = Note::read(store, MEMORY_AT)?;
    if !note.is_whole {
        return Ok(Given {
            bytes: beside,
            is_noted: false,
        });
    }
    for bytes in [note.number, beside] {
        if code_of(seal, MEMORY, bytes) == note.code || note.number == beside {
            return Ok(Given {
                bytes,
                is_noted: true,
            });
        }
    }
    Err(Error::Root("is damaged"))
}

/// Returns the memory given to the store that `secure` belongs to.
#[inline(never)] // Its keys take no stack while the store is opened.
pub(crate) fn memory_of(secure: &mut impl SecureStore) -> Result<Given> {
    let head = read_head(secure)?;
    let mut seal = Box::new(Seal::new(&head.secret, Since::NEVER));
    read_memory(secure, &mut seal)
}

/// Notes that a store is closed, of which `sequence` is the newest record.
pub(crate) fn write_closed(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    sequence: u64,
) -> Result<()> {
    let code = code_of(seal, CLOSED, sequence);
    Note::write(store, CLOSED_AT, sequence, &code)
}

/// Refuses a store whose newest record is older than the one with which it was last closed. A note
/// without its code says nothing: a loss of power tears it.
pub(crate) fn check_closed(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    newest: u64,
) -> Result<()> {
    let note = Note::read(store, CLOSED_AT)?;
    let is_true = note.is_whole && code_of(seal, CLOSED, note.number) == note.code;
    if is_true && note.number > newest {
        return Err(Error::Root("has lost the record of its last commit"));
    }
    Ok(())
}
