//! The additional content of a version 2 journal: heads of streams, and in each frame the number of
//! the last earlier frame with more than heads.

use probity_format::checkpoint::Checkpoint;
use probity_format::{DecodeError, Entry};

use crate::heads_entry::heads_of;

/// The first entry of a frame; its key is the number of the last earlier frame with more than
/// heads.
const BEFORE: &str = "before";
/// Heads of other streams, which newer logs keep in a stream of their own.
const HEADS: &str = "heads";

/// The additional content of such a journal, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct JournalV2 {
    /// The last frame with more than heads.
    telling: Option<u64>,
    /// Heads of other streams with the journal frame. Their number grows with every second, so the
    /// caller that adds frames takes them away.
    pub(crate) heads: Vec<(Checkpoint, u64)>,
}

impl JournalV2 {
    /// Handles the entry at `place` in frame `frame`; returns whether it is one that no newer
    /// journal has.
    ///
    /// `is_next` is true when no frame before was left out: the frame's statement about earlier
    /// frames is then compared.
    ///
    /// # Errors
    /// When the frame does not name the earlier one that it must, or an entry is malformed.
    pub(crate) fn take(
        &mut self,
        entry: &Entry<'_>,
        place: usize,
        frame: u64,
        is_next: bool,
    ) -> Result<bool, DecodeError> {
        if place == 0 {
            let named = before(entry);
            if is_next && named != self.telling {
                let reason = "does not name the frame before that says more than heads";
                return Err(DecodeError::new("journal entry", 0, reason));
            }
            if named.is_some() {
                self.telling = named;
                return Ok(true);
            }
        }
        if entry.action == HEADS {
            let heads = heads_of(entry)?;
            self.heads
                .extend(heads.into_iter().map(|head| (head, frame)));
            return Ok(true);
        }
        self.telling = Some(frame);
        Ok(false)
    }
}

/// The frame that `entry` names as the last before its own with more than heads.
fn before(entry: &Entry<'_>) -> Option<u64> {
    let text = std::str::from_utf8(entry.key).ok()?;
    let number: u64 = text.parse().ok()?;
    (entry.action == BEFORE && number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use probity_format::Timestamp;

    use super::*;

    fn entry<'a>(action: &'a str, key: &'a [u8]) -> Entry<'a> {
        Entry::new(Timestamp::from_nanoseconds(1).unwrap(), action, key)
    }

    #[test]
    fn a_frame_names_the_last_one_before_that_says_more_than_heads() {
        let mut journal = JournalV2::default();
        let create = entry("stream.create", b"a");
        assert_eq!(journal.take(&create, 0, 0, true), Ok(false));
        assert_eq!(journal.take(&entry(BEFORE, b"0"), 0, 1, true), Ok(true));
        assert_eq!(journal.take(&entry(HEADS, b""), 1, 1, true), Ok(true));
        for wrong in [
            entry(BEFORE, b"1"),
            entry(BEFORE, b"00"),
            entry(HEADS, b""),
            create,
        ] {
            assert!(journal.clone().take(&wrong, 0, 2, true).is_err());
        }
        assert_eq!(journal.take(&entry(BEFORE, b"0"), 0, 2, true), Ok(true));
        // Behind a gap it is believed.
        assert_eq!(journal.take(&entry(BEFORE, b"4"), 0, 7, false), Ok(true));
        assert_eq!(journal.take(&entry(BEFORE, b"4"), 0, 8, true), Ok(true));
    }
}
