//! Checks the files of `keys/` with the root key.

use probity_format::stream::StreamName;

use super::stored::{is_strange, is_there};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason, Verifier};
use crate::error::LogError;
use crate::heads::Heads;
use crate::keystore::{SIGNING, SigningKeyState, WITNESS, Witness};
use crate::opener::Opener;

impl Verifier<'_> {
    /// Checks that the key in `keys/` is the one that the journal certified last. Another one shows
    /// that the journal, or `keys/`, is an older copy: every reader with the root key calls this.
    /// Returns the state of the key; nothing where the journal is not read.
    pub(super) fn check_signing_key(
        &self,
        opener: &Opener,
        is_passed: bool,
        faults: &mut Faults,
        unchecked: &mut Names,
    ) -> Result<Option<SigningKeyState>, LogError> {
        let heads = Heads::new(self.heads.for_reading());
        let (state, history) = match opener.signing_key(&self.geometry, &heads) {
            // The journal's own faults are reported where it is checked.
            Err(error) if is_strange(&error) => return Ok(None),
            read => read?,
        };
        // A reader may have been opened before an erasure.
        opener.take_erasures(&history.erasures);
        if !matches!(state, SigningKeyState::Older | SigningKeyState::Uncertified) {
            return Ok(Some(state));
        }
        // Frames that the checkpoint covers and the keys do not open may have certified a later key.
        // They are a fault of their own.
        let claimed = self.claimed_size(&StreamName::journal())?;
        if is_passed || claimed.is_some_and(|claimed| history.read.size < claimed) {
            unchecked.push(SIGNING, UncheckedReason::Undecided);
        } else {
            push(faults, FaultClass::KeyChain, SIGNING, state.fault());
        }
        Ok(Some(state))
    }

    /// Checks that there is a key which signs: a writer needs it. Readers do not call this, because
    /// a copy of the log without that key has all entries.
    pub(super) fn check_signs(
        &self,
        state: Option<SigningKeyState>,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if let Some(state @ SigningKeyState::Missing) = state {
            let class = if is_there(&self.files, SIGNING)? {
                FaultClass::KeyChain
            } else {
                FaultClass::Missing
            };
            push(faults, class, SIGNING, state.fault());
        }
        Ok(())
    }

    /// Checks that the witness key in `keys/` is the one that the geometry names. Readers do not
    /// call this, because only a writer uses the key.
    pub(super) fn check_witness_key(
        &self,
        opener: &Opener,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        if let Some(witness) = opener.witness(&self.geometry)? {
            let class = match witness {
                Witness::Missing => FaultClass::Missing,
                _ => FaultClass::KeyChain,
            };
            push(faults, class, WITNESS, witness.reason());
        }
        Ok(())
    }
}

fn push(faults: &mut Faults, class: FaultClass, place: &str, detail: Option<String>) {
    if let Some(detail) = detail {
        faults.push(Fault::new(class, &StreamName::journal(), place, detail));
    }
}
