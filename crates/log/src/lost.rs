//! Sections of subjects that do not open though they should.

use std::fmt;

use probity_format::Timestamp;

use crate::accepted::has_closed;
use crate::advice;
use crate::history::is_giving_up;
use crate::opener::Opener;
use crate::slots::{Pseudonym, SLOTS};

/// A section that does not open though its subjects were not erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) section: u32,
    /// The slot that should hold the key, where one has its pseudonym.
    pub(crate) slot: Option<u64>,
    /// The pseudonyms of the subjects it is about, or where it [`Lost::is_partly`] lost, of those
    /// whose keys are missing.
    pub(crate) tokens: Vec<Pseudonym>,
    /// True when it opens for others whom it is about.
    pub(crate) is_partly: bool,
    /// The time at which the loss was accepted, where no slot has their pseudonyms and the journal
    /// records that.
    pub(crate) accepted: Option<Timestamp>,
    /// The remedy where it was not accepted.
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let section = self.section;
        if self.is_partly {
            write!(f, "section {section} does not open for all it is about: ")?;
        } else {
            write!(f, "section {section} does not open: ")?;
        }
        match self.slot {
            Some(slot) => write!(f, "slot {slot} of {SLOTS} does not hold its key")?,
            None => write!(f, "no slot of {SLOTS} has the pseudonym of its subject")?,
        }
        if self.accepted.is_some() {
            f.write_str(", which was accepted when the log was opened")
        } else {
            write!(f, ", and no signed erasure says so; {}", self.remedy)
        }
    }
}

/// The fault of a frame with a lost section.
pub(crate) const NEEDS_KEY: &str =
    "needs the key of a subject that subjects/slots does not hold though no signed erasure says so";
/// The remedy where an opening that accepts the loss was broken off.
const UNDER_WAY: &str = "the loss is being accepted by an opening that was broken off: put nothing back, and open the log \
                         for writing once, which finishes that";

impl Opener {
    /// The remedy for keys that are missing.
    pub(crate) fn remedy(&self) -> &'static str {
        self.remedy.get_or_init(|| {
            match is_giving_up(&self.files, &self.geometry, &self.master, self.wrapping()) {
                Ok(true) => UNDER_WAY,
                Ok(false) => advice::slots(self.version, has_closed(&self.closed)),
                // Other checks report that. A journal that cannot be read may record a loss.
                Err(_unread) => advice::slots(self.version, true),
            }
        })
    }
}
