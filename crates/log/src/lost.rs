//! Sections of subjects that do not open though they should.

use std::fmt;

use probity_format::Timestamp;

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
        f.write_str(if self.accepted.is_some() {
            ", which was accepted when the log was opened"
        } else {
            ", and no signed erasure says so"
        })
    }
}

/// The fault of a frame with a lost section.
pub(crate) const NEEDS_KEY: &str = "needs the key of a subject that subjects/slots does not hold though no signed erasure \
                                    says so; restore the folder subjects/ from a backup";
