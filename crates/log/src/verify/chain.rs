//! The chain of signing keys, and the place in it of the key that the verifier knows.

use probity_format::note::VerifierKey;
use probity_format::stream::StreamName;
use probity_format::width::to_u64;

use super::{Fault, FaultClass, Faults, Report, Verifier};
use crate::error::LogError;
use crate::head_origin::named_in;
use crate::history::GEOMETRY;
use crate::journal::History;

/// The keys of a log as its journal certifies them.
pub(super) struct Chain {
    /// Number of keys, the first included.
    pub(super) keys: u64,
    /// The key certified last, under the log's own name.
    pub(super) newest: String,
    /// The number, from 1, of the key that the verifier knows; `None` where none was given or the
    /// chain has no such key.
    pub(super) known: Option<u64>,
    /// True when no older key signs a head that no frame names.
    pub(super) newest_holds: bool,
}

impl Chain {
    /// Reports the keys.
    pub(super) fn tell(self, report: &mut Report) {
        report.keys = self.keys;
        report.newest = self.newest;
        report.known_key = self.known;
        report.newest_holds = self.newest_holds;
    }
}

impl Verifier<'_> {
    /// Refuses the witness key in the place of a signing key: it certifies nothing, and its line
    /// alone shows nothing, so it tells no log from another.
    pub(super) fn check_no_witness(&self) -> Result<(), LogError> {
        let known = self.options.known_key.as_ref();
        if known.is_some() && known == self.geometry.witness() {
            return Err(LogError::WitnessKey);
        }
        Ok(())
    }

    /// Looks for the key that the verifier knows in the chain that begins with the geometry's key.
    /// Each certificate was checked as it was read.
    ///
    /// Any key of the chain shows as much as the first one: the journal's checkpoint, which covers
    /// every certificate, must be signed by the key certified last, to which the key in question
    /// leads. Whoever made another log could list the key in it, and then sign nothing more.
    pub(super) fn chain(
        &self,
        history: &History,
        (is_whole, certificates_read): (bool, usize),
        faults: &mut Faults,
    ) -> Chain {
        let known = self.options.known_key.as_ref();
        let place = known.and_then(|known| self.place_of(known, history));
        if let Some(known) = known.filter(|_| place.is_none()) {
            let detail = self.unknown(known, is_whole);
            let journal = StreamName::journal();
            faults.push(Fault::new(FaultClass::KeyChain, &journal, GEOMETRY, detail));
        }
        let number = |place: usize| to_u64(place);
        Chain {
            keys: number(history.keys.len()),
            newest: history.last_key().encode(),
            newest_holds: history.v2.is_some() || certificates_read >= history.certificates.len(),
            known: place.map(|place| number(place).saturating_add(1)),
        }
    }

    /// Returns the place, from 0, of `known` in the chain. A key signs under the name of each
    /// stream, and is the same one under any of them.
    fn place_of(&self, known: &VerifierKey, history: &History) -> Option<usize> {
        let mut keys = history.keys.iter();
        let place = keys.position(|(key, _)| key.key() == known.key())?;
        self.is_named(known).then_some(place)
    }

    fn is_named(&self, known: &VerifierKey) -> bool {
        let (name, own) = (known.name(), self.geometry.origin());
        name == own || named_in(name) == Some(own)
    }

    /// Describes a key that is not in the chain.
    fn unknown(&self, known: &VerifierKey, is_whole: bool) -> String {
        if !self.is_named(known) {
            format!(
                "names the log {}, but the key given is one of {}: this is another log",
                self.geometry.origin(),
                known.name()
            )
        } else if is_whole {
            "begins a chain of keys without the key given: this is another log, or an older copy of it from before that key".to_owned()
        } else {
            "begins a chain of keys without the key given, as far as the damaged journal shows: whether this is another log cannot be told".to_owned()
        }
    }
}
