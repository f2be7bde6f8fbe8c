//! The ids of the chunks of a disguise, by which a database and a log tell its course from that in another copy of the database.

use crate::crypto::random;
use crate::error::Error;
use crate::records::name::digits;

/// Bytes of the random id of a chunk.
pub(crate) const CHUNK_ID_BYTES: usize = 8;
/// The most ids that are kept; the first ones go.
const KEPT_MAX: usize = 2_048;

/// The random id of a chunk that changed something.
pub(crate) type ChunkId = [u8; CHUNK_ID_BYTES];

/// The ids of the chunks that are done, the last of them last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChunkIds(Vec<ChunkId>);

impl ChunkIds {
    /// Adds the id of a new chunk.
    pub(crate) fn add(&mut self) -> Result<(), Error> {
        self.0.push(random()?);
        let over = self.0.len().saturating_sub(KEPT_MAX);
        self.0.drain(..over);
        Ok(())
    }

    /// Reads what [`ChunkIds::bytes`] wrote.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (ids, rest) = bytes.as_chunks::<CHUNK_ID_BYTES>();
        (rest.is_empty() && ids.len() <= KEPT_MAX).then(|| Self(ids.to_vec()))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// Returns the ids in the form of an entry.
    pub(crate) fn told(&self) -> String {
        digits(&self.bytes())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn last(&self) -> Option<ChunkId> {
        self.0.last().copied()
    }
}

/// Returns whether `id` is among the ids in the form of an entry.
pub(crate) fn has(told: &str, id: ChunkId) -> bool {
    let id = digits(&id);
    let mut all = told.as_bytes().chunks(id.len());
    all.any(|it| it == id.as_bytes())
}

/// Returns the last of the ids in the form of an entry.
pub(crate) fn last(told: &str) -> Option<ChunkId> {
    let from = told.len().checked_sub(CHUNK_ID_BYTES.saturating_mul(2))?;
    crate::records::name::undigits(told.get(from..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ids_are_kept_and_found_as_an_entry_tells_them() {
        let mut ids = ChunkIds::default();
        assert_eq!((ids.last(), last(&ids.told())), (None, None));
        ids.add().unwrap();
        let first = ids.last().unwrap();
        for _ in 1..KEPT_MAX {
            ids.add().unwrap();
        }
        assert!(has(&ids.told(), first));
        ids.add().unwrap();
        let told = ids.told();
        assert!(!has(&told, first));
        assert!(has(&told, ids.last().unwrap()));
        assert_eq!(last(&told), ids.last());
        assert_eq!(ChunkIds::of_bytes(&ids.bytes()), Some(ids.clone()));
        assert_eq!(ChunkIds::of_bytes(&ids.bytes()[1..]), None);
    }
}
