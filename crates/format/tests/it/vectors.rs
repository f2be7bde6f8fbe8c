//! Runs the third-party vectors in `testdata/`: valid cases must be accepted and invalid ones
//! refused.
//!
//! An invalid case is a file named after its defect; `testdata/refusals.txt` lists the expected
//! reason for each. `tests/foreign` writes the cases: `go run . vectors DIR`.

#![expect(
    clippy::expect_used,
    reason = "a case that cannot be read is a failure"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use probity_format::checkpoint::Checkpoint;
use probity_format::note::{SignedNote, VerifierKey};
use probity_format::proof::{TlogProof, verify_inclusion};
use probity_format::tree::{Frontier, Hash, leaf_hash, root_of};

type Outcome = Result<(), Box<dyn Error>>;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("the case is text")
}

fn log_key() -> VerifierKey {
    VerifierKey::parse(text(&testdata().join("log.vkey")).trim_end()).expect("a verifier key")
}

fn cases(kind: &str, verdict: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = testdata().join(kind).join(verdict);
    let files = fs::read_dir(&folder).expect("the folder of the kind can be listed");
    let cases: BTreeMap<String, Vec<u8>> = files
        .map(|file| {
            let file = file.expect("the folder can be listed");
            let name = file.file_name().into_string().expect("names are ASCII");
            (name, fs::read(file.path()).expect("the case can be read"))
        })
        .collect();
    assert!(!cases.is_empty(), "{} is empty", folder.display());
    cases
}

/// Runs every case of a kind and returns the reasons of the refusals, one per line.
fn run(kind: &str, check: impl Fn(&[u8]) -> Outcome) -> String {
    for (name, content) in cases(kind, "accepted") {
        let outcome = check(&content);
        assert!(outcome.is_ok(), "{kind}/accepted/{name}: {outcome:?}");
    }
    let mut reasons = String::new();
    for (name, content) in cases(kind, "refused") {
        let error =
            check(&content).expect_err(&format!("{kind}/refused/{name} is one to be refused"));
        let cause = error
            .source()
            .map_or(String::new(), |cause| format!(": {cause}"));
        reasons = reasons + kind + "/" + &name + ": " + &error.to_string() + &cause + "\n";
    }
    reasons
}

fn note(content: &[u8]) -> Outcome {
    let note = SignedNote::parse(content)?;
    assert_eq!(
        note.encode().as_bytes(),
        content,
        "what is accepted has one form"
    );
    note.verify(&[log_key()])?;
    Ok(())
}

fn checkpoint(content: &[u8]) -> Outcome {
    let checkpoint = Checkpoint::open(content, &[log_key()])?;
    let note = SignedNote::parse(content)?;
    assert_eq!(checkpoint.encode(), note.text());
    Ok(())
}

fn verifier_key(content: &[u8]) -> Outcome {
    let text = std::str::from_utf8(content)?;
    assert_eq!(VerifierKey::parse(text)?.encode(), text);
    Ok(())
}

fn proof(content: &[u8]) -> Outcome {
    let text = std::str::from_utf8(content)?;
    let proof = TlogProof::parse(text)?;
    assert_eq!(proof.encode(), text);
    let checkpoint = Checkpoint::open(proof.checkpoint.as_bytes(), &[log_key()])?;
    // A forged index refers to another record than the proved one.
    let leaf = leaf_hash(format!("leaf {}", proof.index).as_bytes());
    verify_inclusion(
        leaf,
        proof.index,
        checkpoint.size(),
        &proof.path,
        checkpoint.root(),
    )?;
    Ok(())
}

#[test]
fn every_case_meets_its_verdict_and_every_refusal_its_reason() {
    let reasons = run("note", note)
        + &run("checkpoint", checkpoint)
        + &run("vkey", verifier_key)
        + &run("proof", proof);
    assert_eq!(reasons, text(&testdata().join("refusals.txt")), "{reasons}");
}

#[test]
fn roots_are_those_of_the_reference_implementation() {
    let mut frontier = Frontier::new();
    let mut leaves: Vec<Hash> = Vec::new();
    let roots = text(&testdata().join("roots.txt"));
    for line in roots.lines() {
        let (size, root) = line.split_once(' ').expect("size and root");
        let size: u64 = size.parse().expect("a number");
        while frontier.size() < size {
            let leaf = leaf_hash(format!("leaf {}", frontier.size()).as_bytes());
            frontier.push(leaf);
            leaves.push(leaf);
        }
        assert_eq!(frontier.root().to_string(), root, "{size}");
        assert_eq!(root_of(&leaves).to_string(), root, "{size}");
    }
    assert_eq!(frontier.size(), 70_000);
}
