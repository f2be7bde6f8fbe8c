//! The keys of a stream's epochs, as its frames name them: for whoever opens frames or asks who sealed them.

use probity_format::Version;
use probity_format::certificate::Certificate;
use probity_format::compress::Decompressor;
use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::{EpochKey, EpochSalt, MasterKey};
use probity_format::note::{PUBLIC_KEY_BYTES, SignedNote};
use probity_format::stream::{StreamId, StreamName};

use crate::journal::{History, action};
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

/// The journal, as far as epochs hang on it.
pub(crate) trait Certificates {
    /// The key that frame `number` of the journal certifies, if it does.
    fn certified_in(&self, number: u32) -> Option<CertifiedKey>;

    /// Whether frame `frame` of `stream`, of epoch `epoch`, was left behind by a loss that a later opening accepted.
    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool;
}

/// What a journal says of openings.
#[derive(Debug, Default)]
pub(crate) struct CertifiedEpochs {
    /// In the order of their numbers. The first of an hourly change of keys is one as well; no frame names it.
    epochs: Vec<Epoch>,
    losses: Vec<AcceptedLoss>,
}

/// A loss of frames that an opening accepted.
#[derive(Debug)]
struct AcceptedLoss {
    stream: StreamName,
    /// The first frame that is gone.
    from: u64,
    /// The journal frame that says so.
    said_in: u64,
}

impl CertifiedEpochs {
    /// What `history` says.
    pub(crate) fn of(history: &History) -> Self {
        let certificates = history.certificates.iter();
        let epochs = certificates.filter_map(|(link, frame)| {
            let number = u32::try_from(*frame).ok()?;
            let key = link.successor;
            Some(Epoch { number, key })
        });
        let losses = history.losses.iter();
        let losses = losses.filter(|(loss, _)| loss.kind == RepairKind::Lost);
        let losses = losses.map(|(loss, frame)| AcceptedLoss {
            stream: loss.stream.clone(),
            from: loss.from,
            said_in: *frame,
        });
        Self {
            epochs: epochs.collect(),
            losses: losses.collect(),
        }
    }

    /// The newest certificate.
    pub(crate) fn newest(&self) -> Option<Epoch> {
        self.epochs.last().copied()
    }
}

impl Certificates for CertifiedEpochs {
    fn certified_in(&self, number: u32) -> Option<CertifiedKey> {
        let found = self
            .epochs
            .binary_search_by_key(&number, |epoch| epoch.number);
        found
            .ok()
            .and_then(|place| self.epochs.get(place))
            .map(|epoch| epoch.key)
    }

    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool {
        self.losses.iter().any(|loss| {
            loss.stream == *stream && frame >= loss.from && u64::from(epoch) < loss.said_in
        })
    }
}

/// The key that `frame` of the journal certifies, whoever wrote it.
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

/// Who sealed a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An opening that the journal has.
    Own,
    /// Somebody else.
    Foreign,
    /// Nobody can tell: what the journal says of the opening is not known, or frames of its version do not say it.
    Unknown,
}

/// Derives the keys of one stream's epochs; keeps the last, since frames of one epoch follow one another.
pub(crate) struct Epochs<'a> {
    master: &'a MasterKey,
    certificates: &'a dyn Certificates,
    name: &'a StreamName,
    stream: StreamId,
    last: Option<EpochKey>,
    decompressor: Decompressor,
}

impl<'a> Epochs<'a> {
    pub(crate) fn new(
        master: &'a MasterKey,
        certificates: &'a dyn Certificates,
        name: &'a StreamName,
        stream: StreamId,
    ) -> Self {
        Self {
            master,
            certificates,
            name,
            stream,
            last: None,
            decompressor: Decompressor::default(),
        }
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

    /// Whether an opening that the journal has sealed `frame`, exactly as it is, and no loss left it behind. Of frames of version 2 nobody can
    /// tell, so it is none of those.
    pub(crate) fn authenticate(&mut self, frame: &Frame<'_>) -> bool {
        let header = &frame.clear.header;
        self.origin(frame) == Origin::Own
            && !self
                .certificates
                .is_left_behind(self.name, header.frame, header.epoch)
    }

    /// Who sealed `frame`, as far as its authenticator and the journal say. In version 2 frames name their keys, which anybody can copy.
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
        if !self.key(&header).is_certified() && self.name.as_str() == StreamName::JOURNAL {
            self.certify(frame);
        }
        let key = self.key(&header);
        if !key.is_certified() {
            Origin::Unknown
        } else if frame.authenticated(key) {
            Origin::Own
        } else {
            Origin::Foreign
        }
    }

    /// The first frame of an opening in the journal has its certificate itself.
    fn certify(&mut self, frame: &Frame<'_>) {
        let header = &frame.clear.header;
        if u64::from(header.epoch) == header.frame
            && let Some(certified) = certified_in(frame, &mut self.decompressor)
        {
            self.last = self.last.take().map(|key| key.certified_by(&certified));
        }
    }
}
