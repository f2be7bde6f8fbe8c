//! The recipient's trust: a known key, and further conditions that a proof must fulfil.

use super::certified::{Certified, Compared, Told, journal_origin};
use super::chain::KeyChain;
use super::error::EntryProofError;
use crate::checkpoint::Checkpoint;
use crate::cosignature::WitnessKey;
use crate::note::{PUBLIC_KEY_BYTES, VerifierKey};

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
    /// The certificates after that key, needed if the proof begins with a later key. They must hold
    /// a key of the proof. A key that they show as replaced is refused, whatever else supports the
    /// proof, `stream` excepted.
    pub chain: Option<&'a KeyChain>,
    /// A witness that must have cosigned the journal's head in the proof; the witness key is then
    /// accepted.
    pub witness: Option<Witness<'a>>,
    /// A head of the journal that the recipient remembers; the witness key is then accepted. It
    /// needs no signature. If it is older than the proof's, the key that was the newest there must
    /// lead to the one that signed.
    pub journal: Option<&'a Checkpoint>,
    /// A head of the entry's stream that the recipient remembers: the proof must show that very
    /// head. It needs no signature, and no key can change what it covers.
    pub stream: Option<&'a Checkpoint>,
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
            stream: None,
        }
    }
}

/// The parts of a proof that trust is checked against, whatever the proof's form.
pub(super) struct Offer<'a> {
    pub(super) log: &'a str,
    /// The stream's checkpoint, signed by the last of `keys`.
    pub(super) checkpoint: &'a Checkpoint,
    /// Number of the entry's frame.
    pub(super) frame: u64,
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
    /// Checks that each condition of the trust holds for the proof. None of them weakens another.
    pub(super) fn accept(&self, offer: &Offer<'_>) -> Result<Vouched, EntryProofError> {
        // Destructured completely, so that a condition added later cannot be ignored here for any
        // form of proof.
        let Self {
            key,
            chain,
            witness,
            journal,
            stream,
        } = *self;
        if let Some(chain) = chain {
            offer.suits(chain)?;
        }
        offer.agrees_with(chain, journal, stream)?;
        let vouched = Vouched {
            kept: journal.map(Checkpoint::size),
            cosigned: witness.map(|one| offer.cosigned(one)).transpose()?,
        };
        if offer.is_witness(key) {
            offer.check_witness(key, vouched)?;
        } else if !offer.leads_from(key.key()) {
            let chain = chain.ok_or(EntryProofError::UnknownKey)?;
            offer.follows(chain, key)?;
        }
        match chain {
            Some(chain) if offer.shared_with(chain).is_none() => Err(EntryProofError::OtherKeys),
            _ => Ok(vouched),
        }
    }
}

impl Offer<'_> {
    fn leads_from(&self, key: &[u8; PUBLIC_KEY_BYTES]) -> bool {
        self.keys.iter().any(|led| led.key() == key)
    }

    /// Checks that `chain` leads from `key` to one of the proof's keys, from each of which the
    /// proof's own links lead to the key that signed the journal.
    fn follows(&self, chain: &KeyChain, key: &VerifierKey) -> Result<(), EntryProofError> {
        let followed = chain.follow(key).map_err(EntryProofError::Chain)?;
        if self.keys.iter().any(|key| followed.contains(key.key())) {
            Ok(())
        } else {
            Err(EntryProofError::ChainTooShort)
        }
    }

    /// Checks the proof against the chain and the remembered heads. A contradiction comes before
    /// what leaves the proof open, and a replaced key before what would lead to it.
    fn agrees_with(
        &self,
        chain: Option<&KeyChain>,
        journal: Option<&Checkpoint>,
        stream: Option<&Checkpoint>,
    ) -> Result<(), EntryProofError> {
        // For the journal's own entries a remembered head of the journal is one of their stream.
        let is_own = |kept: &&Checkpoint| kept.origin() == self.checkpoint.origin();
        let stream = stream.or_else(|| journal.filter(is_own));
        let stands = stream.map_or(Ok(()), |kept| self.stands_under(kept));
        let is_remembered = stream.is_some() && stands.is_ok();
        let newest = chain.filter(|_| !is_remembered);
        let newest = newest.map_or(Ok(()), |chain| self.is_newest_in(chain));
        let grew = journal.map_or(Ok(()), |kept| self.grew_from(kept, chain));
        let failed = [newest, grew, stands].into_iter().filter_map(Result::err);
        match failed.min_by_key(EntryProofError::leaves_open) {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Checks that the proof stands under `kept`, a head of its stream that the recipient remembers.
    fn stands_under(&self, kept: &Checkpoint) -> Result<(), EntryProofError> {
        let shown = self.checkpoint;
        if kept.origin() != shown.origin() {
            return Err(EntryProofError::OtherStream {
                kept: kept.origin().into(),
                shown: shown.origin().into(),
            });
        }
        let size = shown.size();
        if kept.size() != size {
            return Err(EntryProofError::NotUnder {
                kept: kept.size(),
                size,
                is_covered: self.frame < kept.size(),
            });
        }
        if kept.root() == shown.root() {
            Ok(())
        } else {
            Err(EntryProofError::OtherRoot { size })
        }
    }

    /// Returns the last of the proof's keys that `chain` holds.
    fn shared_with(&self, chain: &KeyChain) -> Option<&VerifierKey> {
        let mut latest_first = self.keys.iter().rev();
        latest_first.find(|key| chain.holds(key))
    }

    /// Checks that `chain` shows none of the proof's keys as replaced by a key that is not the
    /// proof's. Otherwise the holder of the replaced key could have signed, at any time since: what
    /// supports the journal of its time says nothing of the stream's head.
    fn is_newest_in(&self, chain: &KeyChain) -> Result<(), EntryProofError> {
        let Some(shared) = self.shared_with(chain) else {
            return Ok(());
        };
        if shared.key() == chain.newest() {
            return Ok(());
        }
        chain.follow(shared).map_err(EntryProofError::Chain)?;
        Err(EntryProofError::Replaced)
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

    /// Checks that the journal equals `kept`, or grew from it under the keys that were certified
    /// from there on.
    fn grew_from(
        &self,
        kept: &Checkpoint,
        chain: Option<&KeyChain>,
    ) -> Result<(), EntryProofError> {
        let journal = journal_origin(self.log);
        if kept.origin() != journal {
            return Err(EntryProofError::OtherHead {
                kept: kept.origin().into(),
                log: self.log.into(),
            });
        }
        // A proof of version 1 about an entry of the journal has the journal's head as its
        // checkpoint.
        let head = self.checkpoint;
        let (size, compared) = if self.journal.is_none() && head.origin() == journal {
            let is_comparable = head.size() == kept.size();
            let compared = is_comparable.then(|| Compared::of_equal_size(kept, head));
            (head.size(), compared.unwrap_or(Compared::Unknown))
        } else {
            let (told, shown) = self.shown("a head of the journal")?;
            (told.head.size(), told.compared(kept, shown.grown.as_ref()))
        };
        let kept = kept.size();
        match compared {
            Compared::Equal => Ok(()),
            Compared::Other => Err(EntryProofError::OtherHistory { kept }),
            Compared::Unknown => Err(EntryProofError::NotCompared { kept, size }),
            Compared::Grown(None) => Err(EntryProofError::OlderKeyNotShown { kept }),
            Compared::Grown(Some(key)) => self.continues(key, chain, kept),
        }
    }

    /// Checks that `key`, the newest under a remembered head of `kept` frames, leads to the key
    /// that signed.
    fn continues(
        &self,
        key: &VerifierKey,
        chain: Option<&KeyChain>,
        kept: u64,
    ) -> Result<(), EntryProofError> {
        if self.leads_from(key.key()) {
            return Ok(());
        }
        let chain = chain.filter(|chain| chain.holds(key));
        let chain = chain.ok_or(EntryProofError::NotFromKept { kept })?;
        self.follows(chain, key)
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
