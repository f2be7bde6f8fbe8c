//! Proofs of which a part was changed, or comes from another proof: they are refused.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

use probity_format::note::VerifierKey;
use probity_format::proof::{Certified, EntryProof, EntryProofError, Evidence, Signers};
use probity_log::StreamName;

use crate::prove::{anchor, check, configs, proof_text, reader, sample, says};

/// Returns whether `text` is refused, or rightly proves another entry than `index` that its
/// evidence shows as well. Where a whole section or frame is shown, the place alone selects the
/// entry.
fn is_refused_or_proves_another(text: &str, key: &VerifierKey, index: u64) -> bool {
    let proved = EntryProof::parse(text).and_then(|proof| {
        let proved = proof.check(key)?;
        Ok((proved, matches!(proof.evidence, Evidence::Entry { .. })))
    });
    match proved {
        Err(_) => true,
        Ok((_, true)) => false,
        Ok((proved, _)) => {
            let number = u32::try_from(proved.index).unwrap();
            proved.index != index && says(&proved.entry().unwrap(), number)
        }
    }
}

#[test]
fn a_proof_with_any_byte_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let (reader, anchor) = (reader(&path), anchor(&path));
    for (stream, _) in configs() {
        let text = proof_text(&reader, &stream, 17);
        assert_eq!(check(&text, &anchor), Ok(17));
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1 << (place % 8);
            // Bytes that are no text are refused before they come here.
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(
                    is_refused_or_proves_another(&changed, &anchor, 17),
                    "{stream}: byte {place} of {}",
                    text.len()
                );
            }
            let cut = text.get(..place).unwrap_or_default();
            assert!(check(cut, &anchor).is_err(), "{stream}: cut at {place}");
        }
    }
}

#[test]
fn a_proof_with_any_line_removed_repeated_or_moved_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let (reader, anchor) = (reader(&path), anchor(&path));
    for (stream, _) in configs() {
        let text = proof_text(&reader, &stream, 5);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut changed: Vec<Vec<&str>> = Vec::new();
        for place in 0..lines.len() {
            let mut removed = lines.clone();
            removed.remove(place);
            changed.push(removed);
            let mut repeated = lines.clone();
            repeated.insert(place, lines[place]);
            changed.push(repeated);
            for other in 0..place {
                let mut swapped = lines.clone();
                swapped.swap(place, other);
                changed.push(swapped);
            }
        }
        for lines in changed {
            let changed = lines.concat();
            assert!(
                changed == text || check(&changed, &anchor).is_err(),
                "{stream}\n{changed}"
            );
        }
    }
}

/// Each part of a proof, and how to take it over from another.
type Part = (&'static str, fn(&mut EntryProof, EntryProof));

const PARTS: [Part; 16] = [
    ("identity", |to, from| to.identity = from.identity),
    ("signers", |to, from| to.signers = from.signers),
    ("journal size", |to, from| {
        mix(to, from, |to, from| to.size = from.size);
    }),
    ("journal signatures", |to, from| {
        mix(to, from, |to, from| to.signatures = from.signatures);
    }),
    ("witness", |to, from| {
        mix(to, from, |to, from| to.witness = from.witness);
    }),
    ("certificate", |to, from| {
        mix(to, from, |to, from| to.certificate = from.certificate);
    }),
    ("last frame", |to, from| {
        mix(to, from, |to, from| to.last = from.last);
    }),
    ("first key", |to, from| {
        mix(to, from, |to, from| to.first_key = from.first_key);
    }),
    ("links", |to, from| {
        mix(to, from, |to, from| to.links = from.links);
    }),
    ("older head", |to, from| {
        mix(to, from, |to, from| to.grown = from.grown);
    }),
    ("first key and links", |to, from| {
        mix(to, from, |to, from| {
            (to.first_key, to.links) = (from.first_key, from.links);
        });
    }),
    ("record", |to, from| to.record = from.record),
    ("place", |to, from| to.place = from.place),
    ("evidence", |to, from| to.evidence = from.evidence),
    ("path", |to, from| to.path = from.path),
    ("checkpoint", |to, from| to.checkpoint = from.checkpoint),
];

fn certified(proof: &mut EntryProof) -> &mut Certified {
    match &mut proof.signers {
        Signers::Certified(shown) => shown,
        Signers::Listed { .. } => panic!("a log of version 3 lists no keys"),
    }
}

fn mix(to: &mut EntryProof, mut from: EntryProof, take: fn(&mut Certified, Certified)) {
    take(certified(to), certified(&mut from).clone());
}

#[test]
fn no_part_of_another_proof_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let other_folder = tempfile::tempdir().unwrap();
    // Another log, though with the same name, root key and entries.
    let other = sample(other_folder.path());
    let (reader, other, anchor) = (reader(&path), reader(&other), anchor(&path));
    for (stream, _) in configs() {
        let neighbour = configs().into_iter().find(|(name, _)| *name != stream);
        let texts = [
            proof_text(&reader, &stream, 18),
            proof_text(&reader, &stream, 3),
            proof_text(&reader, &neighbour.unwrap().0, 17),
            proof_text(&other, &stream, 17),
        ];
        let text = proof_text(&reader, &stream, 17);
        for (source, from) in texts.iter().enumerate() {
            for (name, take) in PARTS {
                let mut mixed = EntryProof::parse(&text).unwrap();
                take(&mut mixed, EntryProof::parse(from).unwrap());
                // A mixture that cannot be encoded, such as an identity beside an entry alone, is
                // no proof.
                let Ok(mixed) = mixed.encode() else { continue };
                assert!(
                    // Entries of one frame share most parts.
                    mixed == text || is_refused_or_proves_another(&mixed, &anchor, 17),
                    "{stream}: {name} of proof {source}"
                );
            }
        }
        assert!(matches!(
            check(&texts[3], &anchor),
            Err(EntryProofError::UnknownKey)
        ));
    }
}

#[test]
fn a_proof_for_another_index_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path());
    let stream = StreamName::new("entry.aes-256-gcm.whole").unwrap();
    let text = proof_text(&reader(&path), &stream, 5);
    let moved = text.replace("\nindex 0\n", "\nindex 1\n");
    assert!(matches!(
        check(&moved, &anchor(&path)),
        Err(EntryProofError::Form(_))
    ));
    let mut proof = EntryProof::parse(&text).unwrap();
    proof.place += 1;
    let error = proof.check(&anchor(&path)).err().unwrap();
    assert_eq!(error.part(), "entry");
}
