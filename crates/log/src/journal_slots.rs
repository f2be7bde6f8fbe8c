//! The journal's statements about the slots of subjects.

use probity_format::DecodeError;
use probity_format::slot::SlotsDigest;

use crate::journal::{Erasure, History, SignedSlots, from_hexadecimal, number};

impl History {
    /// Adds an entry of journal frame `frame` about the number of slots.
    ///
    /// # Errors
    /// When the log does not write it there.
    pub(crate) fn add_slots(
        &mut self,
        key: &str,
        payload: &str,
        frame: u64,
    ) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let malformed = || error("does not say how many slots of subjects there are");
        let slots = SignedSlots {
            count: number(key).ok_or_else(malformed)?,
            digest: SlotsDigest::from_bytes(from_hexadecimal(payload).ok_or_else(malformed)?),
        };
        if slots.count <= self.slots.count {
            return Err(error("names no more slots of subjects than before"));
        }
        self.slots = slots;
        self.slots_named_in = frame;
        Ok(())
    }

    /// Adds an erasure that journal frame `frame` records.
    ///
    /// # Errors
    /// When the log does not write it there.
    pub(crate) fn add_erasure(
        &mut self,
        key: &str,
        payload: &str,
        frame: u64,
    ) -> Result<(), DecodeError> {
        let error = |reason| DecodeError::new("journal entry", 0, reason);
        let malformed = || error("does not say which slot of subjects is erased");
        let slot = number(key).ok_or_else(malformed)?;
        let pseudonym = from_hexadecimal(payload).ok_or_else(malformed)?;
        let erasure = Erasure { pseudonym, frame };
        // A frame that was left out may have counted the slot.
        let is_none = self.is_whole() && slot >= self.slots.count;
        if is_none || self.erasures.insert(slot, erasure).is_some() {
            return Err(error("erases a slot that is none, or is erased already"));
        }
        Ok(())
    }

    /// Checks that journal frame `frame` calls the key of an erased subject destroyed.
    ///
    /// # Errors
    /// When the log does not write it there.
    pub(crate) fn check_erased(
        &mut self,
        key: &str,
        payload: &str,
        frame: u64,
    ) -> Result<(), DecodeError> {
        let (slot, pseudonym) = (number(key), from_hexadecimal(payload));
        if let Some((slot, pseudonym)) = slot.zip(pseudonym).filter(|_| !self.is_whole()) {
            // The erasure itself may be in a frame that was left out.
            let erasure = Erasure { pseudonym, frame };
            self.erasures.entry(slot).or_insert(erasure);
        }
        let erasure = slot.and_then(|slot| self.erasures.get(&slot));
        if erasure.is_none() || erasure.map(|erasure| erasure.pseudonym) != pseudonym {
            let reason = "destroys a key whose subject is not erased";
            return Err(DecodeError::new("journal entry", 0, reason));
        }
        Ok(())
    }

    /// The frame that names the slots, if no head of the log covers it.
    pub(crate) fn slots_uncovered_in(&self) -> Option<u64> {
        let signed = self.signed.unwrap_or(u64::MAX);
        Some(self.slots_named_in).filter(|frame| self.slots.count > 0 && *frame >= signed)
    }
}
