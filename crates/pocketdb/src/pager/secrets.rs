//! The secrets of the generations of keys in the secure store, and the one from which the next comes.

use zeroize::Zeroizing;

use crate::pager::error::Result;
use crate::pager::note::NOTES;
use crate::pager::root::{RECORDS_AT, SecureStore};
use crate::pager::side::SIDES;

/// Offset of the generations' secrets, one for each side; zeros if there is none.
const GENERATIONS_AT: usize = 208;
/// Offsets of the secret from which the next generation's is derived: it stands in one of two slots, and
/// the next one is written to the other.
const CHAINS_AT: [usize; 2] = [GENERATIONS_AT + SIDES * SECRET_BYTES, 432];
/// Length of a secret in bytes.
pub(crate) const SECRET_BYTES: usize = 32;
const _: () = assert!(
    CHAINS_AT[0] + SECRET_BYTES <= NOTES.start
        && NOTES.end <= CHAINS_AT[1]
        && CHAINS_AT[1] + SECRET_BYTES <= RECORDS_AT,
    "secrets lie beside the notes and before the records"
);

/// One of the two places of the secret from which the next generation's is derived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ChainSlot {
    /// The place in a new store, and in one of an earlier format.
    #[default]
    First,
    Second,
}

impl ChainSlot {
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Second];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    fn at(self) -> usize {
        match self {
            Self::First => CHAINS_AT[0],
            Self::Second => CHAINS_AT[1],
        }
    }
}

/// Returns the secret of the generation of `side`; `None` once it was destroyed.
pub(crate) fn read_generation(
    store: &mut impl SecureStore,
    side: u8,
) -> Result<Option<Zeroizing<[u8; 32]>>> {
    let mut secret = Zeroizing::new([0u8; SECRET_BYTES]);
    let at = GENERATIONS_AT + usize::from(side) * SECRET_BYTES;
    store.read(at, &mut *secret)?;
    Ok((*secret != [0; SECRET_BYTES]).then_some(secret))
}

/// Writes the secret of the generation of `side`; zeros destroy it.
pub(crate) fn write_generation(
    store: &mut impl SecureStore,
    side: u8,
    secret: &[u8; SECRET_BYTES],
) -> Result<()> {
    let at = GENERATIONS_AT + usize::from(side) * SECRET_BYTES;
    Ok(store.write(at, secret)?)
}

/// Returns a slot's secret from which the next generation's is derived.
pub(crate) fn read_chain(
    store: &mut impl SecureStore,
    slot: ChainSlot,
) -> Result<Zeroizing<[u8; SECRET_BYTES]>> {
    let mut secret = Zeroizing::new([0u8; SECRET_BYTES]);
    store.read(slot.at(), &mut *secret)?;
    Ok(secret)
}

/// Writes a slot's secret from which the next generation's is derived; zeros destroy it.
pub(crate) fn write_chain(
    store: &mut impl SecureStore,
    slot: ChainSlot,
    secret: &[u8; SECRET_BYTES],
) -> Result<()> {
    Ok(store.write(slot.at(), secret)?)
}
