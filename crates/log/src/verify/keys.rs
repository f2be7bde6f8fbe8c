//! Checks the files of `keys/` with the root key.

use probity_format::stream::StreamName;

use super::stored::{is_strange, is_there};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, UncheckedReason, Verifier};
use crate::error::LogError;
use crate::history::read_history;
use crate::keystore::{NO_SIGNING, NOT_SIGNING, OLDER, SIGNING, SigningKeyState, WITNESS, Witness};
use crate::opener::Opener;

/// Times that the signing key is read again because a writer changes it meanwhile.
const SIGNING_KEY_READS_MAX: u32 = 8;

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
        let (mut state, mut is_cut) = (SigningKeyState::Older, false);
        for _ in 0..SIGNING_KEY_READS_MAX {
            // The journal first: a writer certifies a key before it replaces the old one, and
            // another one may follow meanwhile.
            let (files, master) = (&self.files, &opener.master);
            let history = read_history(files, &self.geometry, Some(master));
            let history = match history {
                // The journal's own faults are reported where it is checked.
                Err(error) if is_strange(&error) => return Ok(None),
                history => history?,
            };
            // A reader may have been opened before an erasure.
            opener.take_erasures(&history.erasures);
            // Frames that the checkpoint covers and the keys do not open may have certified a later
            // key. They are a fault of their own.
            let claimed = self.claimed_size(&StreamName::journal())?;
            is_cut = claimed.is_some_and(|claimed| history.read.size < claimed);
            state = opener.signing_key_state(&self.geometry, &history)?;
            if state != SigningKeyState::Older {
                return Ok(Some(state));
            }
        }
        if is_passed || is_cut {
            unchecked.push(SIGNING, UncheckedReason::Undecided);
        } else {
            push(faults, FaultClass::KeyChain, SIGNING, OLDER);
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
        if state == Some(SigningKeyState::Missing) {
            if is_there(&self.files, SIGNING)? {
                push(faults, FaultClass::KeyChain, SIGNING, NOT_SIGNING);
            } else {
                push(faults, FaultClass::Missing, SIGNING, NO_SIGNING);
            }
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
        if let Some(witness) = opener.witness(&self.geometry)?
            && let Some(reason) = witness.reason()
        {
            let class = match witness {
                Witness::Missing => FaultClass::Missing,
                _ => FaultClass::KeyChain,
            };
            push(faults, class, WITNESS, reason);
        }
        Ok(())
    }
}

fn push(faults: &mut Faults, class: FaultClass, place: &str, detail: &str) {
    faults.push(Fault::new(class, &StreamName::journal(), place, detail));
}
