//! What the recipient of a proof goes by: a key, and what binds the log to it over the years.

use super::certified::{Certified, Told, journal_origin};
use super::chain::KeyChain;
use super::error::EntryProofError;
use crate::checkpoint::Checkpoint;
use crate::cosignature::WitnessKey;
use crate::note::VerifierKey;

/// What a proof is checked with. Each part must hold, whatever the form of the proof: one that it cannot show is an error.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose field by field over `Trust::key`"
)]
pub struct Trust<'a> {
    /// A key of the log: any signing key, or its witness key, which is known by its name, `LOG/streams/journal`.
    pub key: &'a VerifierKey,
    /// The certificates behind that key, where the proof begins with a later one.
    pub chain: Option<&'a KeyChain>,
    /// A witness that must have cosigned the journal's head in the proof, which vouches for the witness key.
    pub witness: Option<Witness<'a>>,
    /// A head of the journal that the recipient remembers, which vouches as well. It needs no signature.
    pub journal: Option<&'a Checkpoint>,
}

/// A witness whose cosignature the recipient asks for.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers choose a time over `Witness::from`"
)]
pub struct Witness<'a> {
    /// Its key.
    pub key: &'a WitnessKey,
    /// The earliest time at which it may have cosigned, in seconds since 1970; any time where there is none.
    pub since: Option<u64>,
}

impl<'a> From<&'a WitnessKey> for Witness<'a> {
    /// Whenever it cosigned.
    fn from(key: &'a WitnessKey) -> Self {
        Self { key, since: None }
    }
}

impl<'a> Trust<'a> {
    /// Trusts `key` alone.
    pub const fn key(key: &'a VerifierKey) -> Self {
        Self {
            key,
            chain: None,
            witness: None,
            journal: None,
        }
    }
}

/// What a proof shows to believe it by, whatever its form.
pub(super) struct Offer<'a> {
    pub(super) log: &'a str,
    /// The stream's checkpoint, signed by the last of `keys`.
    pub(super) checkpoint: &'a Checkpoint,
    /// The keys that the proof leads over, each certified by the one before.
    pub(super) keys: &'a [VerifierKey],
    /// The journal, which a proof of version 1 does not show.
    pub(super) journal: Option<(&'a Told, &'a Certified)>,
}

/// What vouches for the proof besides the key.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vouched {
    /// When the witness cosigned, in seconds since 1970.
    pub(super) cosigned: Option<u64>,
    /// Size of the remembered head that the journal is, or grew from.
    pub(super) kept: Option<u64>,
}

impl Trust<'_> {
    /// Whether the recipient has reason to believe the proof: each part of the trust holds of it.
    pub(super) fn accept(&self, offer: &Offer<'_>) -> Result<Vouched, EntryProofError> {
        // Taken apart whole, so that nothing that is ever added to it is passed over here, for any form of proof.
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
            // From each of them on the proof's own links lead to the one that signed the journal.
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

    /// Whether `key` is the witness key, which vouches for no key. The recipient knows it by its name: what a proof says of it is the
    /// forger's to choose.
    fn is_witness(&self, key: &VerifierKey) -> bool {
        let shown = self.journal.map(|(_, shown)| &shown.witness);
        key.name() == journal_origin(self.log) || shown == Some(key.key())
    }

    /// The witness key counts where somebody else vouches for the journal, and the journal bears its line.
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

    /// The size of `kept`, which the journal is or grew from.
    fn grew_from(&self, kept: &Checkpoint) -> Result<u64, EntryProofError> {
        let journal = journal_origin(self.log);
        if kept.origin() != journal {
            return Err(EntryProofError::OtherHead {
                kept: kept.origin().into(),
                log: self.log.into(),
            });
        }
        // A proof of version 1 about an entry of the journal has the journal's own head.
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

    /// When `witness` cosigned the journal's head.
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

    /// A chain file is of this log, and of one whose proofs show the journal.
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

    /// The journal in the proof, with which `asked` is compared.
    fn shown(&self, asked: &'static str) -> Result<(&Told, &Certified), EntryProofError> {
        self.journal.ok_or(EntryProofError::NoJournal { asked })
    }
}
