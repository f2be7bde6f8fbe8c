//! Heads of a stream that the thief of a replaced key signs on the journal of that key's own time.

use probity_format::cosignature::WitnessKey;
use probity_format::proof::{Certified, Witness};
use probity_format::tree::node_hash;

use super::*;

const LOG: &str = "example.com/audit";
const WITNESS: &str = "witness.example/w";

/// A log whose signing key was replaced three times, and what was there while that key was the
/// newest.
struct Then {
    places: LogLocation,
    /// A proof that was made then.
    honest: String,
    /// The head of the journal.
    journal: Checkpoint,
    /// The replaced key, under the name of the stream.
    key: SigningKey,
}

impl Then {
    fn new() -> Self {
        let places = created();
        let log = opened(&places);
        append(&log);
        log.publish().unwrap();
        let keys = log.core().keys.lock();
        let keys = keys.unwrap_or_else(PoisonError::into_inner);
        let key = keys.signer(&origin("default")).unwrap();
        drop(keys);
        let honest = proved(&places);
        log.close().unwrap();
        age(&places, 3);
        let known = VerifierKey::new(LOG, *key.verifier_key().key()).unwrap();
        let proved = EntryProof::parse(&honest).unwrap().check(&known).unwrap();
        Self {
            places,
            honest,
            journal: proved.journal.unwrap(),
            key,
        }
    }

    /// The proof of that time, on a journal with a cosignature of that time.
    fn honest(&self, witness: &SigningKey) -> EntryProof {
        let honest = EntryProof::parse(&self.honest).unwrap();
        EntryProof {
            signers: Signers::Certified(Box::new(self.cosigned(witness))),
            ..honest
        }
    }

    /// A proof under a head of the stream that never was, which the replaced key signed since.
    fn forged(&self, witness: &SigningKey) -> EntryProof {
        let honest = self.honest(witness);
        let beside = leaf_hash(b"what never was");
        let root = node_hash(&leaf_hash(&honest.record.encode()), &beside);
        let fake = Checkpoint::new(&origin("default"), 2, root).unwrap();
        EntryProof {
            path: vec![beside],
            checkpoint: fake.sign(&[&self.key]).unwrap(),
            ..honest
        }
    }

    /// The evidence of that time with a line of the witness.
    fn cosigned(&self, witness: &SigningKey) -> Certified {
        let Signers::Certified(mut shown) = EntryProof::parse(&self.honest).unwrap().signers else {
            panic!("the log is of version 3");
        };
        let message = format!("cosignature/v1\ntime 99\n{}", self.journal.encode());
        let signature = witness.sign(message.as_bytes()).unwrap();
        let blob = [&99_u64.to_be_bytes()[..], &signature].concat();
        let id = known(witness).id();
        shown.signatures.push(Signature::new(WITNESS, id, blob));
        *shown
    }
}

fn witness() -> SigningKey {
    SigningKey::from_seed(WITNESS, &[9; 32]).unwrap()
}

fn known(witness: &SigningKey) -> WitnessKey {
    WitnessKey::new(WITNESS, *witness.verifier_key().key()).unwrap()
}

/// A head of the journal or a cosignature from the time of a replaced key switched off the check
/// that today's chain shows it as replaced. Either shows that the key was the newest then, and
/// nothing of what was signed with it since.
#[test]
fn evidence_from_the_time_of_a_replaced_key_vouches_for_nothing_that_it_signed_since() {
    let then = Then::new();
    let reader = Reader::open_at(&then.places, &root()).unwrap();
    let replaced = VerifierKey::new(LOG, *then.key.verifier_key().key()).unwrap();
    let chain = key_chain(&then.places).unwrap();
    let signer = witness();
    let cosigner = known(&signer);
    let forged = then.forged(&signer);
    for key in [
        reader.anchor(),
        &replaced,
        reader.geometry.witness().unwrap(),
    ] {
        for (is_kept, is_cosigned) in [(true, false), (false, true), (true, true)] {
            let trust = Trust {
                chain: Some(&chain),
                witness: is_cosigned.then(|| Witness::from(&cosigner)),
                journal: is_kept.then_some(&then.journal),
                ..Trust::key(key)
            };
            let refused = forged.check_with(&trust).err();
            assert!(
                matches!(refused, Some(EntryProofError::Replaced)),
                "{key:?}, {is_kept}, {is_cosigned}: {refused:?}"
            );
        }
    }
}

/// A head of the stream itself is evidence of what it covers, whatever became of the key. Without
/// evidence that the key was replaced, a forgery of its thief is like an honest proof.
#[test]
fn a_kept_head_of_the_stream_holds_beside_a_chain_in_which_its_key_was_replaced() {
    let then = Then::new();
    let reader = Reader::open_at(&then.places, &root()).unwrap();
    let chain = key_chain(&then.places).unwrap();
    let signer = witness();
    let (honest, forged) = (then.honest(&signer), then.forged(&signer));
    let trust = Trust {
        journal: Some(&then.journal),
        ..Trust::key(reader.anchor())
    };
    let known = honest.check_with(&trust).unwrap().checkpoint;
    assert!(
        forged.check_with(&trust).is_ok(),
        "nothing shows the replacement"
    );
    let trust = Trust {
        chain: Some(&chain),
        ..trust
    };
    for proof in [&honest, &forged] {
        let refused = proof.check_with(&trust).err();
        assert!(matches!(refused, Some(EntryProofError::Replaced)));
    }
    let trust = Trust {
        stream: Some(&known),
        ..trust
    };
    assert!(honest.check_with(&trust).is_ok());
    let refused = forged.check_with(&trust).err();
    assert!(
        matches!(refused, Some(EntryProofError::Replaced)),
        "{refused:?}"
    );
    let other = Checkpoint::new(known.origin(), 2, leaf_hash(b"another")).unwrap();
    let trust = Trust {
        stream: Some(&other),
        ..trust
    };
    let refused = forged.check_with(&trust).err();
    assert!(matches!(
        refused,
        Some(EntryProofError::OtherRoot { size: 2 })
    ));
    let refused = honest.check_with(&trust).err();
    assert!(matches!(refused, Some(EntryProofError::Replaced)));
    let trust = Trust {
        chain: None,
        ..trust
    };
    let refused = honest.check_with(&trust).err();
    assert!(matches!(
        refused,
        Some(EntryProofError::NotUnder {
            kept: 2,
            size: 1,
            is_covered: true
        })
    ));
    let trust = Trust {
        stream: Some(&then.journal),
        ..trust
    };
    let refused = honest.check_with(&trust).err();
    assert!(matches!(refused, Some(EntryProofError::OtherStream { .. })));
}

/// A chain without a key of the proof was no condition at all: a chain of another log of that name
/// was accepted, and so was a damaged one.
#[test]
fn a_chain_that_shares_no_key_with_the_proof_or_is_damaged_decides_nothing() {
    let then = Then::new();
    let reader = Reader::open_at(&then.places, &root()).unwrap();
    let witness_key = reader.geometry.witness().unwrap();
    let replaced = VerifierKey::new(LOG, *then.key.verifier_key().key()).unwrap();
    let signer = witness();
    let forged = then.forged(&signer);
    let namesake = created();
    age(&namesake, 3);
    let chain = key_chain(&namesake).unwrap();
    for key in [witness_key, &replaced] {
        let trust = Trust {
            chain: Some(&chain),
            journal: Some(&then.journal),
            ..Trust::key(key)
        };
        let refused = forged.check_with(&trust).err();
        assert!(
            matches!(refused, Some(EntryProofError::OtherKeys)),
            "{refused:?}"
        );
    }
    let whole = key_chain(&then.places).unwrap();
    let mut bytes = whole.encode();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let damaged = KeyChain::parse(&bytes).unwrap();
    let trust = Trust {
        chain: Some(&damaged),
        ..Trust::key(&replaced)
    };
    let refused = forged.check_with(&trust).err().unwrap();
    assert!(matches!(refused, EntryProofError::Chain(_)), "{refused:?}");
    assert!(
        refused.leaves_open(),
        "the file is wrong, and says nothing of the proof"
    );
}

/// A forgery beside a chain that shows its key as replaced was taken for a proof that is newer than
/// the chain, with the advice to get a newer chain.
#[test]
fn more_conditions_never_make_a_proof_hold_that_one_of_them_refuses() {
    let then = Then::new();
    let reader = Reader::open_at(&then.places, &root()).unwrap();
    let (last, _) = reader.history.keys.last().unwrap();
    let replaced = VerifierKey::new(LOG, *then.key.verifier_key().key()).unwrap();
    let chain = key_chain(&then.places).unwrap();
    let signer = witness();
    let cosigner = known(&signer);
    let other = Checkpoint::new(then.journal.origin(), 99, leaf_hash(b"another")).unwrap();
    let heads = [None, Some(&then.journal), Some(&other)];
    let keys = [
        reader.anchor(),
        &replaced,
        reader.geometry.witness().unwrap(),
        last,
    ];
    for proof in [then.forged(&signer), then.honest(&signer)] {
        let holds = |trust: &Trust<'_>| proof.check_with(trust).is_ok();
        for (key, journal) in keys.iter().flat_map(|key| heads.map(|head| (*key, head))) {
            for (is_chained, is_cosigned) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let trust = Trust {
                    chain: is_chained.then_some(&chain),
                    witness: is_cosigned.then(|| Witness::from(&cosigner)),
                    journal,
                    ..Trust::key(key)
                };
                // A key that needs support or a chain may get it from another condition.
                let needs = key.key() == reader.geometry.witness().unwrap().key();
                let fewer = [
                    Trust {
                        chain: None,
                        ..trust
                    },
                    Trust {
                        witness: None,
                        ..trust
                    },
                    Trust {
                        journal: None,
                        ..trust
                    },
                ];
                if !needs && holds(&trust) {
                    assert!(fewer.iter().all(holds), "{trust:?}");
                }
                assert!(!is_chained || !holds(&trust), "{trust:?}");
            }
        }
    }
}
