//! The keys of a stream's epochs, as its frames name them. They open frames and show who sealed
//! them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use probity_format::Version;
use probity_format::certificate::Certificate;
use probity_format::compress::Decompressor;
use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::{EpochKey, EpochSalt, MasterKey};
use probity_format::note::{PUBLIC_KEY_BYTES, SignedNote};
use probity_format::stream::{StreamId, StreamName};

use crate::accepted::AcceptedLoss;
use crate::journal::History;
use crate::journal_entry::action;
use crate::repairs::RepairKind;

/// The public key that a certificate of the journal certifies.
pub(crate) type CertifiedKey = [u8; PUBLIC_KEY_BYTES];

/// An opening of the log for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// The frame of the journal with its certificate.
    pub(crate) number: u32,
    /// The key that is certified there.
    pub(crate) key: CertifiedKey,
}

/// The part of the journal that concerns epochs.
pub(crate) trait Certificates {
    /// The key that frame `number` of the journal certifies, if it does and is signed for. Nothing
    /// is written in an opening before that.
    fn certified_in(&self, number: u32) -> Option<CertifiedKey>;

    /// The content of frame `number` of the journal, signed for or not.
    fn certifies(&self, number: u32) -> Certifies;

    /// Returns whether frame `frame` of `stream`, of epoch `epoch`, was left behind by a loss that
    /// a later opening accepted.
    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool;
}

/// The content of a journal frame, as far as it certifies a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Certifies {
    Key(CertifiedKey),
    Nothing,
    /// The journal does not go so far, or the frame is damaged.
    Unknown,
}

/// The lower bound for frames of an opening. When the opening's frame in `heads` named the head, it
/// had taken over all earlier frames, so later frames are not of an earlier opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Floor {
    /// Frames that the head covers.
    pub(crate) size: u64,
    /// The epoch of the frame that names it.
    pub(crate) epoch: u32,
}

impl Floor {
    /// Returns whether frame `frame` may be of epoch `epoch`.
    pub(crate) const fn admits(&self, frame: u64, epoch: u32) -> bool {
        frame < self.size || epoch >= self.epoch
    }
}

/// The openings that a journal records.
#[derive(Debug, Default, Clone)]
pub(crate) struct CertifiedEpochs {
    /// In the order of their numbers. The first key of an hourly change is one as well; no frame
    /// names it.
    epochs: Vec<Epoch>,
    losses: Vec<LeftBehind>,
    /// Frames of the journal that are signed for.
    signed: u64,
    /// Frames of the journal that were read; none where some of them were passed over.
    read: u64,
    /// True when frames of the journal were skipped, which may have certified the key of any
    /// opening.
    is_passed: bool,
}

/// A loss of frames that an opening accepted.
#[derive(Debug, Clone)]
struct LeftBehind {
    stream: StreamName,
    /// The first frame that is gone.
    from: u64,
    /// The epoch of the opening that accepted it.
    epoch: u32,
}

/// The openings of a log, for a reader without keys.
pub(crate) struct Openings {
    pub(crate) epochs: CertifiedEpochs,
    /// The floor of each stream, from the last opening that anchored its head.
    pub(crate) floors: BTreeMap<StreamName, Floor>,
}

impl Openings {
    /// Returns whether `frame`, behind the signed head of `stream`, may be the log's own: see
    /// [`CertifiedEpochs::admits`].
    pub(crate) fn admit(&self, stream: &StreamName, frame: &Frame<'_>) -> bool {
        let floor = self.floors.get(stream).copied();
        is_admitted(floor, frame) && self.epochs.admits(stream, frame)
    }
}

/// Returns whether `frame` is not older than the `floor` of its stream, if there is one.
pub(crate) fn is_admitted(floor: Option<Floor>, frame: &Frame<'_>) -> bool {
    let header = &frame.clear.header;
    floor.is_none_or(|floor| floor.admits(header.frame, header.epoch))
}

impl CertifiedEpochs {
    /// Collects the openings of `history`.
    pub(crate) fn of(history: &History) -> Self {
        Self::signed(history, history.signed.unwrap_or_else(|| history.frames()))
    }

    /// Collects the openings of `history`, as if it ended behind its first `signed` frames.
    pub(crate) fn within(history: &History, signed: u64) -> Self {
        let mut all = Self::signed(history, signed);
        all.epochs.retain(|epoch| u64::from(epoch.number) < signed);
        all.read = all.read.min(signed);
        all
    }

    /// Collects the openings of `history` without what no checkpoint covers: the opening ended while it
    /// signed for that, or was about to.
    pub(crate) fn without_begun(history: &History) -> Self {
        Self::signed(history, history.covered.unwrap_or(u64::MAX))
    }

    /// Collects the openings of `history`, of which the first `signed` frames are signed for.
    fn signed(history: &History, signed: u64) -> Self {
        let certificates = history.certificates.iter();
        let epochs = certificates.filter_map(|(link, frame)| {
            let number = u32::try_from(*frame).ok()?;
            let key = link.successor;
            Some(Epoch { number, key })
        });
        let epochs: Vec<Epoch> = epochs.collect();
        let said = history.losses.iter();
        let said = said.filter(|said| said.loss.kind == RepairKind::Lost && said.frame < signed);
        let losses = said.filter_map(|AcceptedLoss { loss, frame, .. }| {
            // A long list goes on behind the frame with the certificate.
            let until = epochs.partition_point(|epoch| u64::from(epoch.number) <= *frame);
            let opening = epochs.get(until.checked_sub(1)?)?;
            Some(LeftBehind {
                stream: loss.stream.clone(),
                from: loss.from,
                epoch: opening.number,
            })
        });
        Self {
            losses: losses.collect(),
            epochs,
            signed,
            read: history.whole_frames(),
            is_passed: !history.is_whole(),
        }
    }

    /// Returns whether `frame`, behind the signed head of `stream`, may be the log's own, as far as
    /// a reader without keys can tell: an opening of the journal could have sealed it, and no
    /// accepted loss left it behind. Frames of version 2 show neither, so they are admitted.
    pub(crate) fn admits(&self, stream: &StreamName, frame: &Frame<'_>) -> bool {
        let header = &frame.clear.header;
        if header.version() == Version::V2 {
            return true;
        }
        // Before the log's very first frame nothing can be signed for.
        let is_very_first = stream.as_str() == StreamName::JOURNAL && header.frame == 0;
        let is_certified = self.certified_in(header.epoch).is_some();
        (is_certified || is_very_first && header.epoch == 0 || self.is_passed)
            && !self.is_left_behind(stream, header.frame, header.epoch)
    }

    /// The newest opening in which anything may have been written.
    pub(crate) fn newest(&self) -> Option<Epoch> {
        let mut latest_first = self.epochs.iter().rev();
        latest_first
            .find(|epoch| self.certified_in(epoch.number).is_some())
            .copied()
    }

    fn key(&self, number: u32) -> Option<CertifiedKey> {
        let place = self
            .epochs
            .binary_search_by_key(&number, |epoch| epoch.number);
        let epoch = place.ok().and_then(|place| self.epochs.get(place));
        epoch.map(|epoch| epoch.key)
    }
}

impl Certificates for CertifiedEpochs {
    fn certified_in(&self, number: u32) -> Option<CertifiedKey> {
        self.key(number).filter(|_| u64::from(number) < self.signed)
    }

    fn certifies(&self, number: u32) -> Certifies {
        match self.key(number) {
            Some(key) => Certifies::Key(key),
            None if u64::from(number) < self.read => Certifies::Nothing,
            None => Certifies::Unknown,
        }
    }

    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|loss| loss.stream == *stream && frame >= loss.from && epoch < loss.epoch)
    }
}

/// A journal that is being read: its content so far, signed for or not.
pub(crate) struct Growing<'a>(pub(crate) &'a RefCell<History>);

impl Certificates for Growing<'_> {
    fn certified_in(&self, number: u32) -> Option<CertifiedKey> {
        match self.certifies(number) {
            Certifies::Key(key) => Some(key),
            Certifies::Nothing | Certifies::Unknown => None,
        }
    }

    fn certifies(&self, number: u32) -> Certifies {
        let history = self.0.borrow();
        let number = u64::from(number);
        let place = history
            .certificates
            .binary_search_by_key(&number, |(_, frame)| *frame);
        match place.ok().and_then(|place| history.certificates.get(place)) {
            Some((link, _)) => Certifies::Key(link.successor),
            None => Certifies::Unknown,
        }
    }

    fn is_left_behind(&self, _stream: &StreamName, _frame: u64, _epoch: u32) -> bool {
        false
    }
}

/// The key that `frame` of the journal certifies, by any writer.
fn certified_in(frame: &Frame<'_>, decompressor: &mut Decompressor) -> Option<CertifiedKey> {
    let body = frame.open(0, None, decompressor).ok()?;
    let columns = body.columns().ok()?;
    for place in 0..columns.len() {
        let entry = columns.entry(place).ok()?;
        if entry.action == action::KEY_CERTIFY {
            let note = SignedNote::parse(entry.payload).ok()?;
            return Some(*Certificate::parse(note.text()).ok()?.successor().key());
        }
    }
    None
}

/// The sealer of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An opening that the journal has.
    Own,
    /// Somebody else.
    Foreign,
    /// Undecidable: the journal's record of the opening is unknown, or the frame's version does not
    /// name it.
    Unknown,
}

/// Derives the keys of one stream's epochs; keeps the last, since frames of one epoch follow one
/// another.
pub(crate) struct Epochs<'a> {
    master: &'a MasterKey,
    certificates: &'a dyn Certificates,
    name: StreamName,
    stream: StreamId,
    last: Option<EpochKey>,
    floor: Option<Floor>,
    /// True when openings that are not signed for are believed, as far as their first frame in the
    /// journal.
    takes_unsigned: bool,
    decompressor: Decompressor,
}

impl<'a> Epochs<'a> {
    pub(crate) fn new(
        master: &'a MasterKey,
        certificates: &'a dyn Certificates,
        name: &StreamName,
        stream: StreamId,
    ) -> Self {
        Self {
            master,
            certificates,
            name: name.clone(),
            stream,
            last: None,
            floor: None,
            takes_unsigned: false,
            decompressor: Decompressor::default(),
        }
    }

    /// Rejects frames that are older than `floor`.
    pub(crate) const fn above(mut self, floor: Option<Floor>) -> Self {
        self.floor = floor;
        self
    }

    /// Also believes the first frame of an opening in the journal, signed for or not, because it
    /// has its own certificate.
    pub(crate) const fn with_unsigned(mut self) -> Self {
        self.takes_unsigned = true;
        self
    }

    /// The key of the epoch that `header` names, which opens its sections.
    pub(crate) fn key(&mut self, header: &FrameHeader) -> &EpochKey {
        let salt = EpochSalt::of_frame(header.version(), &header.salt);
        let known = |key: &EpochKey| key.epoch() == header.epoch && *key.salt() == salt;
        let key = self.last.take().filter(known).unwrap_or_else(|| {
            let key = self.master.epoch_key(&self.stream, header.epoch, &salt);
            match self.certificates.certified_in(header.epoch) {
                Some(certified) => key.certified_by(&certified),
                None => key,
            }
        });
        self.last.insert(key)
    }

    /// Returns whether an opening of the journal sealed `frame` exactly as it is. A frame does not
    /// pass if a later opening went on without it, or a loss left it behind. Frames of version 2
    /// cannot show it, so they never pass.
    pub(crate) fn authenticate(&mut self, frame: &Frame<'_>) -> bool {
        self.standing(frame) == Origin::Own
    }

    /// Returns the sealer of `frame`. A frame that a later opening went on without, or that a loss
    /// left behind, is foreign.
    pub(crate) fn standing(&mut self, frame: &Frame<'_>) -> Origin {
        let header = &frame.clear.header;
        let (number, epoch) = (header.frame, header.epoch);
        let is_behind = self.certificates.is_left_behind(&self.name, number, epoch);
        if is_behind || !is_admitted(self.floor, frame) {
            return Origin::Foreign;
        }
        self.origin(frame)
    }

    /// Returns the sealer of `frame` by its authenticator and the journal alone. In version 2
    /// frames name their keys, which anybody can copy.
    pub(crate) fn origin(&mut self, frame: &Frame<'_>) -> Origin {
        let header = frame.clear.header;
        if header.version() == Version::V2 {
            let is_named = frame.names(self.key(&header));
            return if is_named {
                Origin::Unknown
            } else {
                Origin::Foreign
            };
        }
        let key = self.key(&header);
        if key.is_certified() {
            return origin_of(frame, key);
        }
        match self.own_certificate(frame) {
            // Nothing else is written in an opening before its certificate is signed for.
            Some(certified) => self.last.take().map_or(Origin::Unknown, |key| {
                origin_of(frame, &key.certified_by(&certified))
            }),
            None => Origin::Unknown,
        }
    }

    /// The first frame of an opening in the journal has its certificate itself.
    fn own_certificate(&mut self, frame: &Frame<'_>) -> Option<CertifiedKey> {
        let header = &frame.clear.header;
        let is_first =
            self.name.as_str() == StreamName::JOURNAL && u64::from(header.epoch) == header.frame;
        // Before the log's very first frame nothing can be signed for.
        let is_taken = is_first && (self.takes_unsigned || header.frame == 0);
        is_taken.then(|| certified_in(frame, &mut self.decompressor))?
    }
}

fn origin_of(frame: &Frame<'_>, key: &EpochKey) -> Origin {
    if frame.authenticated(key) {
        Origin::Own
    } else {
        Origin::Foreign
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use probity_format::Timestamp;
    use probity_format::certificate::{Bound, Link};
    use probity_format::geometry::Geometry;
    use probity_format::tree::EMPTY_ROOT;

    use super::*;
    use crate::repairs::Repair;

    fn history() -> History {
        let geometry = include_str!("../testdata/v3/log/probity.toml");
        let mut history = History::new(&Geometry::parse(geometry).unwrap(), &Arc::default());
        let bound = Bound {
            size: 0,
            root: EMPTY_ROOT,
        };
        for (frame, key) in [(0, 1), (5, 2), (9, 3)] {
            let link = Link::new([key; 32], bound, Some(bound), [0; 64]);
            history.certificates.push((link, frame));
        }
        let lost = Repair::new(RepairKind::Lost, &StreamName::default(), 6..8);
        // The list of repairs is long: it goes on in the frame behind the certificate.
        let time = Timestamp::from_nanoseconds(1).unwrap();
        history.losses.push(AcceptedLoss::new(lost, 6, time));
        history
    }

    /// An opening whose list of repairs went on in a second frame took its own frames for ones that
    /// the loss had left behind.
    #[test]
    fn a_loss_leaves_behind_what_is_older_than_the_opening_that_accepted_it() {
        let mut history = history();
        history.signed = Some(10);
        let stream = StreamName::default();
        let certified = CertifiedEpochs::of(&history);
        assert!(certified.is_left_behind(&stream, 6, 0));
        assert!(!certified.is_left_behind(&stream, 5, 0));
        assert!(!certified.is_left_behind(&stream, 6, 5));
        assert!(!certified.is_left_behind(&StreamName::heads(), 6, 0));
        // A loss that is not signed for does not count.
        history.signed = Some(6);
        let certified = CertifiedEpochs::of(&history);
        assert!(!certified.is_left_behind(&stream, 6, 0));
    }

    #[test]
    fn an_opening_counts_once_its_certificate_is_signed_for() {
        let mut history = history();
        history.signed = Some(9);
        let certified = CertifiedEpochs::of(&history);
        assert_eq!(certified.certified_in(5), Some([2; 32]));
        assert_eq!(certified.certified_in(9), None);
        assert_eq!(certified.certifies(9), Certifies::Key([3; 32]));
        assert_eq!(certified.certified_in(6), None);
    }
}
