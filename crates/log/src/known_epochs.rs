//! The openings of a log as a reader knows them; the reader asks the journal again about later
//! ones.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use probity_format::Version;
use probity_format::stream::StreamName;

use crate::epochs::{Certificates, CertifiedEpochs, CertifiedKey, Certifies};
use crate::history::read_history;
use crate::opener::Opener;

/// The openings of the log for writing, as the journal was read last.
#[derive(Default)]
pub(crate) struct KnownEpochs {
    pub(crate) certified: CertifiedEpochs,
    /// Numbers that were looked for in vain. A certificate is published before any frame of its
    /// epoch is written, so one that is missing when the frame is read never comes.
    missing: BTreeSet<u32>,
}

impl KnownEpochs {
    pub(crate) fn new(certified: CertifiedEpochs) -> Self {
        Self {
            certified,
            missing: BTreeSet::new(),
        }
    }
}

impl Certificates for Opener {
    /// Reads the journal again for a certificate that a writer may have added since.
    fn certified_in(&self, number: u32) -> Option<CertifiedKey> {
        let epochs = self.epochs.read().unwrap_or_else(PoisonError::into_inner);
        let found = epochs.certified.certified_in(number);
        let is_missing = epochs.missing.contains(&number);
        drop(epochs);
        if found.is_some() || is_missing || self.version == Version::V2 {
            return found;
        }
        let history = read_history(&self.files, &self.geometry, Some(&self.master));
        let mut epochs = self.epochs.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(history) = history {
            let certified = CertifiedEpochs::of(&history);
            // Reading stops at the damage of a journal, while verification reads past it.
            if certified.certified_in(number).is_some() {
                epochs.certified = certified;
            }
        }
        let found = epochs.certified.certified_in(number);
        if found.is_none() {
            epochs.missing.insert(number);
        }
        found
    }

    /// Reads the journal again for a certificate that a writer may have added since.
    fn certifies(&self, number: u32) -> Certifies {
        let epochs = self.epochs.read().unwrap_or_else(PoisonError::into_inner);
        let known = epochs.certified.certifies(number);
        drop(epochs);
        if known != Certifies::Unknown {
            return known;
        }
        let now = read_history(&self.files, &self.geometry, Some(&self.master));
        now.map_or(known, |now| CertifiedEpochs::of(&now).certifies(number))
    }

    fn is_left_behind(&self, stream: &StreamName, frame: u64, epoch: u32) -> bool {
        let epochs = self.epochs.read().unwrap_or_else(PoisonError::into_inner);
        epochs.certified.is_left_behind(stream, frame, epoch)
    }
}
