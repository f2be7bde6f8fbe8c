//! Writes the stream `heads`: the published heads of every other stream, the journal included.

use std::sync::Arc;

use probity_format::checkpoint::Checkpoint;

use crate::anchored::Anchored;
use crate::error::LogError;
use crate::heads_entry::heads_entries;
use crate::log_state::LogState;
use crate::own_writer::{FRAME_PAYLOAD_BYTES, OwnWriter};
use crate::stream::Stream;

/// The one writer of the stream `heads`.
#[derive(Debug)]
pub(crate) struct HeadsWriter {
    own: OwnWriter,
    /// The last head of each stream that is anchored.
    anchored: Anchored,
    /// True when the next frame names the heads of all streams: readers look no further back than
    /// such a frame.
    is_all_due: bool,
}

impl HeadsWriter {
    /// The writer behind frames that anchor `anchored` last.
    pub(crate) fn new(stream: Arc<Stream>, anchored: Anchored) -> Result<Self, LogError> {
        Ok(Self {
            own: OwnWriter::new(stream)?,
            anchored,
            is_all_due: true,
        })
    }

    pub(crate) const fn stream(&self) -> &Arc<Stream> {
        self.own.stream()
    }

    /// Frames that the last head named of the stream with the checkpoints `origin` covers.
    pub(crate) fn named(&self, origin: &str) -> u64 {
        self.anchored.get(origin).map_or(0, Checkpoint::size)
    }

    /// Makes the next frame one that names all streams.
    pub(crate) const fn name_all_next(&mut self) {
        self.is_all_due = true;
    }

    /// Anchors those of `published` that grew since their last anchoring; durable once it returns.
    ///
    /// # Errors
    /// [`LogError::Broken`] where one is smaller than it was anchored, or another one of that size:
    /// nothing may be signed for it; errors of the storage.
    pub(crate) fn anchor(
        &mut self,
        core: &LogState,
        published: Vec<Checkpoint>,
    ) -> Result<(), LogError> {
        let mut grown = Vec::new();
        for head in published {
            let anchored = self.anchored.get(head.origin());
            let size = anchored.map_or(0, Checkpoint::size);
            let broken = |reason| LogError::Broken {
                place: head.origin().to_owned(),
                reason,
            };
            if head.size() < size {
                let reason = format!("has {} frames, though {size} were anchored", head.size());
                return Err(broken(reason));
            }
            if anchored.is_some_and(|it| it.size() == head.size() && it.root() != head.root()) {
                let reason = format!("has another root over {size} frames than was anchored");
                return Err(broken(reason));
            }
            if head.size() > size {
                self.anchored.insert(head.origin().to_owned(), head.clone());
                grown.push(head);
            }
        }
        if grown.is_empty() {
            return Ok(());
        }
        let all = || heads_entries(self.anchored.values(), true);
        let entries = if self.is_all_due {
            Some(all()).filter(|entries| {
                let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
                // Heads that span several frames would not be there together after a crash between
                // the frames.
                bytes <= FRAME_PAYLOAD_BYTES
            })
        } else {
            None
        };
        let entries = entries.unwrap_or_else(|| heads_entries(grown.iter(), false));
        self.own.append(core, &entries)?;
        self.is_all_due = false;
        Ok(())
    }
}
