//! The recipient's trust: a known key, and further conditions that a proof must fulfil.

use super::certified::{Certified, Told, journal_origin};
use super::chain::KeyChain;
use super::error::EntryProofError;
use crate::checkpoint::Checkpoint;
use crate::cosignature::WitnessKey;
use crate::note::VerifierKey;

/// The conditions that a proof is checked with. Each must hold, whatever the form of the proof: a
/// condition that the proof cannot show is an error.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over `Trust::key`"
)]
pub struct Trust<'a> {
    /// A key of the log: any signing key, or its witness key, which has the name
    /// `LOG/streams/journal`.
    pub key: &'a VerifierKey,
    /// The certificates after that key, needed if the proof begins with a later key.
    pub chain: Option<&'a KeyChain>,
    /// A witness that must have cosigned the journal's head in the proof; the witness key is then
    /// accepted.
    pub witness: Option<Witness<'a>>,
    /// A head of the journal that the recipient remembers; the witness key is then accepted. It
    /// needs no signature.
    pub journal: Option<&'a Checkpoint>,
}

/// A witness whose cosignature the recipient requires.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose a time over `Witness::from`"
)]
pub struct Witness<'a> {
    /// The key of the witness.
    pub key: &'a WitnessKey,
    /// The earliest accepted time of the cosignature, in seconds since 1970; `None` accepts any
    /// time.
    pub since: Option<u64>,
}

impl<'a> From<&'a WitnessKey> for Witness<'a> {
    /// Accepts a cosignature of any time.
    fn from(key: &'a WitnessKey) -> Self {
        Self { key, since: None }
    }
}

impl<'a> Trust<'a> {
    /// Trusts `key` alone, without further conditions.
    pub const fn key(key: &'a VerifierKey) -> Self {
        Self {
            key,
            chain: None,
            witness: None,
            journal: None,
        }
    }
}

/// The parts of a proof that trust is checked against, whatever the proof's form.
pub(super) struct Offer<'a> {
    pub(super) log: &'a str,
    /// The stream's checkpoint, signed by the last of `keys`.
    pub(super) checkpoint: &'a Checkpoint,
    /// The keys of the proof, each certified by the one before.
    pub(super) keys: &'a [VerifierKey],
    /// The journal; a proof of version 1 has none.
    pub(super) journal: Option<(&'a Told, &'a Certified)>,
}

/// The facts that support the proof besides the key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vouched {
    /// Time of the witness's cosignature, in seconds since 1970.
    pub(super) cosigned: Option<u64>,
    /// Size of the remembered head that the journal equals or extends.
    pub(super) kept: Option<u64>,
}

impl Trust<'_> {
    /// Checks that each condition of the trust holds for the proof.
    pub(super) fn accept(&self, offer: &Offer<'_>) -> Result<Vouched, EntryProofError> {
        // Destructured completely, so that a condition added later cannot be ignored here for any
        // form of proof.
        let Self {
            key,
            chain,
            witness,
            journal,
        } = *self;
        let vouched = Vouched {
            kept: journal.map(|kept| offer.grew_from(kept)).transpose()?,
            cosigned: witness.map(|one| offer.cosigned(one)).transpose()?,
        };
        if let Some(chain) = chain {
            offer.suits(chain)?;
        }
        if offer.is_witness(key) {
            offer.check_witness(key, vouched)?;
        } else if !offer.leads_from(key) {
            let chain = chain.ok_or(EntryProofError::UnknownKey)?;
            let followed = chain.follow(key).map_err(EntryProofError::Chain)?;
            // From each of these keys the proof's own links lead to the key that signed the
            // journal.
            if !offer.keys.iter().any(|key| followed.contains(key.key())) {
                return Err(EntryProofError::ChainTooShort);
            }
        }
        Ok(vouched)
    }
}

impl Offer<'_> {
    fn leads_from(&self, key: &VerifierKey) -> bool {
        self.keys.iter().any(|led| led.key() == key.key())
    }

    /// Returns whether `key` is the witness key, which certifies no other key. It is recognised by
    /// its name, because a forger can choose the witness key in a proof.
    fn is_witness(&self, key: &VerifierKey) -> bool {
        let shown = self.journal.map(|(_, shown)| &shown.witness);
        key.name() == journal_origin(self.log) || shown == Some(key.key())
    }

    /// Checks that `key` is the witness key of the journal in the proof, and that a cosignature or
    /// a remembered head supports it.
    fn check_witness(&self, key: &VerifierKey, vouched: Vouched) -> Result<(), EntryProofError> {
        let (_, shown) = self.shown("the witness key")?;
        if vouched.kept.is_none() && vouched.cosigned.is_none() {
            return Err(EntryProofError::NotVouched);
        }
        if shown.witness == *key.key() {
            Ok(())
        } else {
            Err(EntryProofError::OtherWitnessKey)
        }
    }

    /// Checks that the journal equals or extends `kept`, and returns the size of `kept`.
    fn grew_from(&self, kept: &Checkpoint) -> Result<u64, EntryProofError> {
        let journal = journal_origin(self.log);
        if kept.origin() != journal {
            return Err(EntryProofError::OtherHead {
                kept: kept.origin().into(),
                log: self.log.into(),
            });
        }
        // A proof of version 1 about an entry of the journal has the journal's head as its
        // checkpoint.
        let (size, grew) = if self.journal.is_none() && self.checkpoint.origin() == journal {
            let head = self.checkpoint;
            let same = (head.size() == kept.size()).then(|| head.root() == kept.root());
            (head.size(), same)
        } else {
            let (told, shown) = self.shown("a head of the journal")?;
            (told.head.size(), told.grew_from(kept, shown.grown.as_ref()))
        };
        let kept = kept.size();
        match grew {
            Some(true) => Ok(kept),
            Some(false) => Err(EntryProofError::OtherHistory { kept }),
            None => Err(EntryProofError::NotCompared { kept, size }),
        }
    }

    /// Returns the time at which `witness` cosigned the journal's head.
    fn cosigned(&self, witness: Witness<'_>) -> Result<u64, EntryProofError> {
        let (told, _) = self.shown("a witness")?;
        let Witness { key, since } = witness;
        let cosigned = key.cosigned(&told.note).map_err(EntryProofError::Journal)?;
        let witness = || key.name().into();
        let time = cosigned.ok_or_else(|| EntryProofError::NotCosigned { witness: witness() })?;
        match since.filter(|since| time < *since) {
            None => Ok(time),
            Some(since) => Err(EntryProofError::CosignedEarlier {
                witness: witness(),
                time,
                since,
            }),
        }
    }

    /// Checks that a chain file is of this log, and that the proof shows the journal.
    fn suits(&self, chain: &KeyChain) -> Result<(), EntryProofError> {
        self.shown("a chain of keys")?;
        if chain.log() == self.log {
            Ok(())
        } else {
            Err(EntryProofError::OtherName {
                known: chain.log().into(),
                log: self.log.into(),
            })
        }
    }

    /// Returns the journal in the proof, which the condition `asked` is compared with.
    fn shown(&self, asked: &'static str) -> Result<(&Told, &Certified), EntryProofError> {
        self.journal.ok_or(EntryProofError::NoJournal { asked })
    }
}
