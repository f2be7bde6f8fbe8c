//! One stream under verification, and its known heads.

use probity_format::Version;
use probity_format::checkpoint::Checkpoint;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tree::Hash;

use super::FaultClass;
use super::anchors::Anchors;
use crate::accepted::AcceptedLoss;
use crate::epochs::Floor;
use crate::segments::Identity;
use crate::uncovered::Uncovered;

/// One stream as it is to be checked.
pub(crate) struct Subject {
    pub(crate) name: StreamName,
    pub(crate) config: StreamConfig,
    pub(crate) id: StreamId,
    pub(crate) version: Version,
    pub(crate) fingerprint: [u8; 32],
    /// The fixed checkpoint.
    pub(crate) head: Option<Checkpoint>,
    /// Roots known from elsewhere, in order of size.
    pub(crate) known: Vec<KnownHead>,
    /// The size below which frames are taken as read: that of a checkpoint given with `--since`.
    pub(super) since: u64,
    /// The heads that are anchored.
    pub(super) anchors: Anchors,
    /// With the root key, the heads in frames that the log's keys sealed and no head covers.
    pub(super) uncovered: Vec<Uncovered>,
    /// With the root key, the first loss of frames in the unsigned end of the journal, and the fault
    /// where they are there.
    pub(super) lost: Option<(AcceptedLoss, String)>,
}

impl Subject {
    /// The identity that its frames and segments carry.
    pub(crate) fn identity(&self) -> Identity {
        Identity::of_stream(self.version, self.id, &self.config, self.fingerprint)
    }

    /// Frames that the last anchored head covers.
    pub(super) fn anchored(&self) -> u64 {
        self.anchors.last().map_or(0, |(size, _)| size)
    }

    /// The floor: frames behind it are not older than the last opening that anchored the stream's
    /// head.
    pub(crate) fn floor(&self) -> Option<Floor> {
        self.anchors.floor()
    }

    /// The roots known from elsewhere of a tree of `size` frames.
    pub(super) fn known_at(&self, size: u64) -> &[KnownHead] {
        let from = self.known.partition_point(|known| known.size < size);
        let to = self.known.partition_point(|known| known.size <= size);
        self.known.get(from..to).unwrap_or_default()
    }
}

/// A root known from elsewhere: its source, and the meaning of a difference.
pub(crate) struct KnownHead {
    pub(crate) size: u64,
    pub(crate) root: Hash,
    pub(crate) source: String,
    pub(crate) class: FaultClass,
}
