//! The heads of a stream that an opening knows from different places. All of them must be of one
//! history, the one that is found.

use probity_format::checkpoint::Checkpoint;
use probity_format::tile::TreeWriter;
use probity_format::tree::Hash;

use crate::durable::Durable;

/// The source of a known head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The stream's checkpoint.
    Checkpoint,
    /// The second copy of that.
    Copy,
    /// The stream `heads`, or of `heads` itself the last certificate.
    Anchored,
    /// A frame of `heads` that no head covers.
    Uncovered,
    /// The writer's note of durable frames.
    Noted,
}

impl Source {
    /// The words used in errors.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Copy => "second copy of the head",
            Self::Anchored => "anchored head",
            Self::Uncovered => "head in an unsigned frame of heads",
            Self::Noted => "note of what is durable",
        }
    }
}

/// A head of a tree that is not empty.
#[derive(Debug)]
pub(crate) struct KnownHead {
    pub(crate) source: Source,
    pub(crate) size: u64,
    pub(crate) root: Hash,
    /// True when the tree that is found has another root at this size.
    is_other: bool,
}

/// All heads that are known of one stream.
#[derive(Debug, Default)]
pub(crate) struct KnownHeads(Vec<KnownHead>);

impl KnownHeads {
    /// Adds a head, unless there is none or it is that of the empty tree.
    pub(crate) fn add(&mut self, source: Source, head: Option<&Checkpoint>) {
        if let Some(head) = head {
            self.push(source, head.size(), *head.root());
        }
    }

    /// Adds the frames that were noted as durable.
    pub(crate) fn add_noted(&mut self, noted: &Durable) {
        self.push(Source::Noted, noted.frames, noted.root);
    }

    fn push(&mut self, source: Source, size: u64, root: Hash) {
        if size > 0 {
            self.0.push(KnownHead {
                source,
                size,
                root,
                is_other: false,
            });
        }
    }

    /// The heads of fewer than `size` frames.
    pub(crate) fn below(&self, size: u64) -> impl Iterator<Item = &KnownHead> {
        self.0.iter().filter(move |known| known.size < size)
    }

    /// Returns two signed heads of one size with different roots: the one to be refused, and the
    /// one that it differs from.
    pub(crate) fn forked(&self) -> Option<(&KnownHead, &KnownHead)> {
        let signed = self.0.iter().filter(|known| known.source != Source::Noted);
        signed.clone().find_map(|one| {
            let differs = |it: &&KnownHead| it.size == one.size && it.root != one.root;
            // An anchored head is never the one to be refused.
            let is_measure = one.source == Source::Anchored;
            let other = signed.clone().rev().find(differs);
            other.filter(|_| !is_measure).map(|other| (one, other))
        })
    }

    /// Compares those of the present size of `tree`.
    pub(crate) fn look(&mut self, tree: &TreeWriter) {
        let size = tree.size();
        if !self.0.iter().any(|known| known.size == size) {
            return;
        }
        let root = tree.root();
        for known in self.0.iter_mut().filter(|known| known.size == size) {
            known.is_other |= known.root != root;
        }
    }

    /// The first known head that the tree differs from; signed heads come before noted ones.
    pub(crate) fn differing(&self) -> Option<&KnownHead> {
        self.0.iter().find(|known| known.is_other)
    }
}
