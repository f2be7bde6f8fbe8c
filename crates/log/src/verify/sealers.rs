//! The sealers of frames behind a signed head, as far as a reader with or without the root key can
//! tell.

use probity_format::Version;
use probity_format::frame::Frame;
use probity_format::stream::StreamName;

use super::Subject;
use crate::epochs::{
    Certificates, CertifiedEpochs, CertifiedKey, Certifies, Epochs, Origin, is_admitted,
};
use crate::opener::Opener;

/// The keys of a verification, and their use.
#[derive(Clone, Copy)]
pub(super) enum Keys<'a> {
    /// No keys.
    Absent,
    /// Keys that show who sealed a frame; sections are not opened.
    Tell(&'a Opener),
    /// Keys that open every section as well.
    Open(&'a Opener),
}

/// The data that shows who sealed a frame.
#[derive(Clone, Copy)]
pub(super) struct Sealers<'a> {
    pub(super) keys: Keys<'a>,
    /// The openings and accepted losses that the journal records.
    pub(super) told: &'a CertifiedEpochs,
    /// True when damaged frames of the journal were skipped, which may have certified the key of
    /// any opening.
    pub(super) is_passed: bool,
}

impl<'a> Sealers<'a> {
    const fn opener(&self) -> Option<&'a Opener> {
        match self.keys {
            Keys::Open(opener) | Keys::Tell(opener) => Some(opener),
            Keys::Absent => None,
        }
    }

    /// The opener of sections, if they are to be opened.
    pub(super) const fn opening(&self) -> Option<&'a Opener> {
        match self.keys {
            Keys::Open(opener) => Some(opener),
            Keys::Absent | Keys::Tell(_) => None,
        }
    }

    /// The keys that show who wrote the frames of `subject` behind its checkpoint: none in version
    /// 2, where anybody can write them.
    pub(super) fn telling(&self, subject: &Subject) -> Option<&'a Opener> {
        self.opener().filter(|_| subject.version != Version::V2)
    }

    /// The opener of the frames of `subject` behind its checkpoint, if they are to be opened.
    pub(super) fn opening_behind(&self, subject: &Subject) -> Option<&'a Opener> {
        self.opening().filter(|_| self.telling(subject).is_some())
    }

    /// Returns a test whether a frame of `subject` behind its checkpoint counts. Where a frame of
    /// the journal was skipped, a frame of an unknown opening is undecided. It counts, so that it
    /// is not reported as missing, and its tree is compared with the known heads.
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

/// The second copies of heads confirm journal frames too, which a reader's opener does not check;
/// the opener knows of openings that came meanwhile.
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
