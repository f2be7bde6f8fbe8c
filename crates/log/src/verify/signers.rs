//! The signers of a stream's heads: the key that was due, and the heads that need none.

use probity_format::Version;

use super::anchoring::anchoring_frame;
use super::heads::Opening;
use crate::error::frames;
use crate::first_signer::first_signer;

impl Opening<'_> {
    /// The key that had to sign a head of `size` frames, if `signer` may not have; `given` as in
    /// [`Opening::open`].
    pub(super) fn missed(&self, signer: usize, size: u64, given: Option<u64>) -> Option<usize> {
        let shown = given.map(|given| given.max(self.named()));
        let due = self.due(size, shown.unwrap_or_default());
        let is_shown = shown.is_some_and(|shown| size <= shown);
        // Behind damage some keys may be unknown.
        let is_exact = self.is_journal() && !self.is_passed && !is_shown;
        (signer < due || is_exact && signer != due).then_some(due)
    }

    /// The frames of which the checkpoint in `note` shows the root to whoever compares another head:
    /// none where its own signer is not the one that was due.
    pub(super) fn shown_by(&self, note: Option<&[u8]>) -> u64 {
        let opened = note.and_then(|note| self.history.open(note, &self.origin).ok());
        let due = opened.filter(|(signer, head)| self.missed(*signer, head.size(), None).is_none());
        due.map_or(0, |(_, head)| head.size())
    }

    /// The number, in the chain from 0, of the key that had to sign a checkpoint of `size` frames,
    /// or of the first that might.
    ///
    /// The journal's checkpoint is signed by the key certified last within it, that of the heads by
    /// one that was certified when there were fewer. Another stream's is signed after its heads of
    /// that size and below were anchored, so by no earlier key than those frames were. An
    /// unanchored head is signed after all frames that were read before it. No key moves on between
    /// a head and the frame that names it.
    ///
    /// Any key may have signed a head of at most `shown` frames, whose root is compared.
    fn due(&self, size: u64, shown: u64) -> usize {
        let named = self.anchors.certificates_before(size);
        let read = match self.anchors.last() {
            Some((anchored, _)) if size <= anchored => named,
            _ if size == 0 => named,
            _ => named.max(self.certificates_read),
        };
        first_signer(self.history, self.name, (size, shown), read)
    }

    /// Frames that the last head of the stream in `heads` covers.
    pub(super) fn named(&self) -> u64 {
        self.anchors.last().map_or(0, |(size, _)| size)
    }

    /// The fault of a checkpoint over `size` frames, where `heads` names more of the stream. A head is
    /// anchored after its checkpoint was replaced, and was read before.
    pub(super) fn is_older(&self, size: u64) -> Option<String> {
        let by = if self.history.v2.is_some() {
            Version::V2
        } else {
            Version::NEWEST
        };
        if self.is_heads() {
            return self.is_below_bound(size);
        }
        let (anchored, frame) = self.anchors.last().filter(|(more, _)| *more > size)?;
        Some(format!(
            "covers {}, but {} {frame} anchored {anchored}: an older checkpoint was put back",
            frames(size),
            anchoring_frame(by)
        ))
    }

    /// The fault of a checkpoint of `heads` over `size` frames, where a certificate binds more of them:
    /// it was published before the certificate was made, and was read after.
    fn is_below_bound(&self, size: u64) -> Option<String> {
        let certificates = self.history.certificates.iter();
        let bound = certificates.filter_map(|(link, frame)| Some((link.heads?.size, frame)));
        let (most, frame) = bound.max_by_key(|(bound, _)| *bound)?;
        (most > size).then(|| {
            format!(
                "covers {}, but the key certificate in journal frame {frame} binds {most}: an older checkpoint was put back",
                frames(size)
            )
        })
    }
}
