//! Whose the frames are that stand behind a signed head, as far as somebody with the root key, or without, can tell.

use probity_format::Version;
use probity_format::frame::Frame;
use probity_format::stream::StreamName;

use super::Subject;
use crate::epochs::{
    Certificates, CertifiedEpochs, CertifiedKey, Certifies, Epochs, Origin, is_admitted,
};
use crate::opener::Opener;

/// What a verification does with the keys that it has.
#[derive(Clone, Copy)]
pub(super) enum Keys<'a> {
    /// It has none.
    Absent,
    /// It tells who sealed a frame, and opens nothing.
    Tell(&'a Opener),
    /// It opens every section as well.
    Open(&'a Opener),
}

/// What tells whose a frame is.
#[derive(Clone, Copy)]
pub(super) struct Sealers<'a> {
    pub(super) keys: Keys<'a>,
    /// The openings that the journal has, and the losses that it says were accepted.
    pub(super) told: &'a CertifiedEpochs,
    /// Whether damaged frames of the journal were passed over, which may have certified the key of any opening.
    pub(super) is_passed: bool,
}

impl<'a> Sealers<'a> {
    const fn opener(&self) -> Option<&'a Opener> {
        match self.keys {
            Keys::Open(opener) | Keys::Tell(opener) => Some(opener),
            Keys::Absent => None,
        }
    }

    /// What opens the sections of frames, if they are to be opened.
    pub(super) const fn opening(&self) -> Option<&'a Opener> {
        match self.keys {
            Keys::Open(opener) => Some(opener),
            Keys::Absent | Keys::Tell(_) => None,
        }
    }

    /// The keys that tell who wrote the frames of `subject` behind its checkpoint: none in version 2, where anybody can write them.
    pub(super) fn telling(&self, subject: &Subject) -> Option<&'a Opener> {
        self.opener().filter(|_| subject.version != Version::V2)
    }

    /// What opens the frames of `subject` behind its checkpoint, if they are to be opened.
    pub(super) fn opening_behind(&self, subject: &Subject) -> Option<&'a Opener> {
        self.opening().filter(|_| self.telling(subject).is_some())
    }

    /// What says of a frame of `subject` behind its checkpoint whether it counts. Where a frame of the journal was passed over, one of an opening that is
    /// not known is undecided: it counts, so that it is missed nowhere, and the tree that it is in is compared with what is known of it.
    pub(super) fn believing<'b>(
        &'b self,
        subject: &'b Subject,
    ) -> Box<dyn FnMut(&Frame<'_>) -> bool + 'b> {
        let (told, is_passed, floor) = (self.told, self.is_passed, subject.floor());
        let name = &subject.name;
        let Some(opener) = self.telling(subject) else {
            return Box::new(move |frame| is_admitted(floor, frame) && told.admits(name, frame));
        };
        let epochs = Epochs::new(&opener.master, self, name, subject.id);
        let mut epochs = epochs.above(floor);
        Box::new(move |frame| match epochs.standing(frame) {
            Origin::Own => true,
            Origin::Unknown => is_passed,
            Origin::Foreign => false,
        })
    }
}

/// The second copies of heads vouch for what stands in the journal too, which the opener of a reader does not look at; it knows of openings that came meanwhile.
impl Certificates for Sealers<'_> {
    fn certified_in(&self, number: u32) -> Option<CertifiedKey> {
        let told = self.told.certified_in(number);
        told.or_else(|| self.opener()?.certified_in(number))
    }

    fn certifies(&self, number: u32) -> Certifies {
        match (self.told.certifies(number), self.opener()) {
            (Certifies::Unknown, Some(opener)) => opener.certifies(number),
            (told, _) => told,
        }
    }

    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool {
        let mut opener = self.opener().into_iter();
        self.told.is_left_behind(stream, frame, epoch)
            || opener.any(|opener| opener.is_left_behind(stream, frame, epoch))
    }
}
