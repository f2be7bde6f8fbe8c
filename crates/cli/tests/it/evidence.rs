//! The worth of a receipt, and of a head that somebody keeps, against whoever holds all keys of the
//! log.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use probity_testing::program::Program;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) fn probity(folder: &Path, args: &[&str], input: &str, status: i32) -> (String, String) {
    Program::new(env!("CARGO_BIN_EXE_probity")).ends(folder, args, input, status)
}

pub(crate) fn entry(actor: &str) -> String {
    format!("{{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"7\",\"actor\":\"{actor}\"}}\n")
}

pub(crate) fn append(folder: &Path, log: &str, actor: &str) -> String {
    let args = ["append", log, "--receipts", "--key", "audit.key"];
    probity(folder, &args, &entry(actor), 0).0
}

pub(crate) fn copy(folder: &Path, from: &str, to: &str) {
    for ending in ["", ".heads"] {
        let to = folder.join(format!("{to}{ending}"));
        let is_copied = || {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(format!("{from}{ending}")).arg(&to);
            copy.current_dir(folder).status().unwrap().success()
        };
        // A writer takes its temporary files away under the copy.
        let mut tries = 0;
        while !is_copied() {
            tries += 1;
            assert!(tries < 20, "{} is not copied", to.display());
            fs::remove_dir_all(&to).unwrap();
        }
    }
}

/// Makes a log with one entry, and `older`, a copy of it as it was then, heads and keys included.
pub(crate) fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    probity(
        folder.path(),
        &["init", "audit", "--origin", "example.com/audit"],
        "",
        0,
    );
    append(folder.path(), "audit", "first");
    copy(folder.path(), "audit", "older");
    folder
}

/// UX 4: a receipt was line, stream and index, which any log has. With the hash of its frame's
/// record the holder finds manipulations by the operator, who has every key. The operator may have
/// removed the entry, put another in its place, or changed a byte of it.
#[test]
fn the_holder_of_a_receipt_finds_what_was_removed_or_replaced() {
    let folder = place();
    let at = folder.path();
    let receipt = append(at, "audit", "ceo");
    let document: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(document["log"], "example.com/audit");
    assert_eq!(
        (document["index"].as_u64(), document["frame"].as_u64()),
        (Some(1), Some(1))
    );
    fs::write(at.join("receipt"), &receipt).unwrap();
    let check = |log: &str, status| {
        let args = [
            "check-receipts",
            "receipt",
            "--log",
            log,
            "--key",
            "audit.vkey",
        ];
        probity(at, &args, "", status).0
    };
    let verify = |log: &str, status| {
        probity(at, &["verify", log, "--key", "audit.vkey"], "", status);
    };
    append(at, "audit", "later");
    assert_eq!(
        check("audit", 0),
        "held: 1 receipt, all as the log has them\n"
    );
    // Removed: each byte that is left is signed.
    verify("older", 0);
    assert!(check("older", 3).contains("it is not there"));
    // Replaced: the same keys sign another entry at the same index.
    append(at, "older", "nobody");
    verify("older", 0);
    let found = check("older", 3);
    assert!(
        found.contains("is not the one that was receipted"),
        "{found}"
    );
    // Changed behind the record that commits to it.
    copy(at, "audit", "changed");
    let segment = at.join("changed/streams/default/segments/00000000000000000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let last = bytes.len() - 1;
    bytes[last - 40] ^= 1;
    fs::write(&segment, bytes).unwrap();
    check("changed", 3);
    // Another's receipt, and what is none.
    fs::write(
        at.join("receipt"),
        receipt.replace("example.com/audit", "example.com/other"),
    )
    .unwrap();
    assert!(check("audit", 3).contains("it is of the log example.com/other"));
    fs::write(
        at.join("receipt"),
        "{\"line\":1,\"stream\":\"default\",\"index\":0}\n",
    )
    .unwrap();
    check("audit", 1);
}

/// An older copy of everything was put back, except for the segment with the newest frames after
/// its head. `check-receipts` said that all are held, also where the second copies were out of
/// reach. No opening that the older journal has could have written them.
#[test]
fn a_receipt_of_frames_behind_an_older_copy_is_not_held() {
    let folder = place();
    let at = folder.path();
    fs::write(at.join("receipt"), append(at, "audit", "ceo")).unwrap();
    let check = |more: &[&str], status| {
        let args = ["check-receipts", "receipt", "--key", "audit.vkey", "--log"];
        probity(at, &[&args[..], more].concat(), "", status).0
    };
    let segment = "streams/default/segments/00000000000000000000.seg";
    fs::copy(
        at.join("audit").join(segment),
        at.join("older").join(segment),
    )
    .unwrap();
    assert!(check(&["older"], 3).contains("it is not there"));
    let found = check(&["older", "--heads", "audit.heads", "--json"], 3);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["verdict"], "broken");
    assert_eq!(found["held"], 0);
    check(&["audit", "--heads", "audit.heads"], 0);
}

/// Issue 6: a receipt convinces its holder only; a proof of each entry could be had by one command an entry, later.
#[test]
fn each_entry_has_its_proof_as_soon_as_it_is_appended() {
    let folder = place();
    let at = folder.path();
    let input = format!("{}{}", entry("second"), entry("third"));
    let args = ["append", "audit", "--receipts", "--proofs", "proofs"];
    let receipts = probity(at, &args, &input, 0).0;
    let mut indices = Vec::new();
    for receipt in receipts.lines() {
        let receipt: Value = serde_json::from_str(receipt).unwrap();
        let index = receipt["index"].as_u64().unwrap();
        let proof = format!("proofs/default.{index}.tlog-proof");
        let args = ["check-proof", &proof, "--key", "audit.vkey", "--json"];
        let checked: Value = serde_json::from_str(&probity(at, &args, "", 0).0).unwrap();
        assert_eq!(checked["index"], receipt["index"]);
        assert_eq!(checked["frame"]["index"], receipt["frame"]);
        indices.push(index);
    }
    assert_eq!(indices, [1, 2]);
    assert_eq!(fs::read_dir(at.join("proofs")).unwrap().count(), 2);
    // Nothing is appended where there is no place for proofs.
    let args = ["append", "audit", "--proofs", "proofs"];
    let refused = probity(at, &args, &entry("fourth"), 1).1;
    assert!(refused.contains("holds files already"), "{refused}");
    let args = ["append", "audit", "--receipts", "--proofs", "more"];
    let next: Value = serde_json::from_str(&probity(at, &args, &entry("fourth"), 0).0).unwrap();
    assert_eq!(next["index"], 3);
}

/// Writes the proof in `from` to `to` with one character changed in what it shows of the entry.
fn forge_entry(at: &Path, from: &str, to: &str) {
    let proof = fs::read_to_string(at.join(from)).unwrap();
    let extra = proof.lines().find(|line| line.starts_with("extra "));
    let extra = extra.unwrap();
    let place = extra.len() - 8;
    let other = if extra.as_bytes().get(place) == Some(&b'A') {
        "B"
    } else {
        "A"
    };
    let mut forged = extra.to_owned();
    forged.replace_range(place..=place, other);
    fs::write(at.join(to), proof.replace(extra, &forged)).unwrap();
}

/// Whoever has the first key alone was told, after some twenty appends, that a true proof is
/// broken, with status 3. It is undecided, with status 1 and a verdict of its own, unless the proof
/// is wrong in itself. A key that does not reach it no longer hides such a fault.
#[test]
fn a_true_proof_that_the_key_does_not_reach_is_undecided_and_a_wrong_one_broken() {
    let folder = place();
    let at = folder.path();
    for _ in 0..18 {
        append(at, "audit", "more");
    }
    probity(
        at,
        &["prove", "audit", "--index", "0", "-o", "proof"],
        "",
        0,
    );
    let said = probity(
        at,
        &["check-proof", "proof", "--key", "audit.vkey", "--json"],
        "",
        1,
    );
    let document: Value = serde_json::from_str(&said.0).unwrap();
    assert_eq!(document["verdict"], "undecided");
    assert_eq!(document["status"], 1);
    assert_eq!(document["fault"]["part"], "key-chain");
    forge_entry(at, "proof", "forged");
    let args = ["check-proof", "forged", "--key", "audit.vkey"];
    let said = probity(at, &args, "", 3).0;
    assert!(said.starts_with("broken, "), "{said}");
}

/// Whoever has the first key alone was told nothing about how to check a true proof.
#[test]
fn a_proof_says_which_key_it_needs_and_what_to_do_with_another() {
    let folder = place();
    let at = folder.path();
    for _ in 0..18 {
        append(at, "audit", "more");
    }
    let args = ["prove", "audit", "--index", "0", "-o", "proof"];
    let made = probity(at, &args, "", 0).0;
    let chain = "keys made now: probity keys chain audit -o FILE; a chain made after";
    assert!(made.contains(chain), "{made}");
    let check = |more: &[&str], status| {
        let args = [&["check-proof", "proof"], more].concat();
        let (stdout, stderr) = probity(at, &args, "", status);
        stdout + &stderr
    };
    let said = check(&["--key", "audit.vkey"], 1);
    assert!(
        said.starts_with("error: undecided: nothing in the proof leads"),
        "{said}"
    );
    let given = "a chain made with the proof with --chain FILE";
    assert!(said.contains(given), "{said}");
    probity(at, &["keys", "chain", "audit", "-o", "chain"], "", 0);
    check(&["--key", "audit.vkey", "--chain", "chain"], 0);
    let args = ["keys", "status", "audit", "--json"];
    let keys: Value = serde_json::from_str(&probity(at, &args, "", 0).0).unwrap();
    fs::write(at.join("stable"), keys["witness_key"].as_str().unwrap()).unwrap();
    let said = check(&["--key", "stable"], 1);
    assert!(
        said.contains("--witness FILE") && said.contains("--checkpoint FILE"),
        "{said}"
    );
    let kept = at.join("audit/streams/journal/checkpoint");
    fs::copy(&kept, at.join("kept")).unwrap();
    check(&["--key", "stable", "--checkpoint", "kept"], 0);
    append(at, "audit", "later");
    let args = [
        "prove",
        "audit",
        "--index",
        "19",
        "-o",
        "proof",
        "--overwrite",
    ];
    probity(at, &args, "", 0);
    let said = check(&["--key", "stable", "--checkpoint", "kept"], 1);
    assert!(
        said.contains("prove DIR --stream S --index N --checkpoint FILE"),
        "{said}"
    );
    probity(at, &[&args[..], &["--checkpoint", "kept"]].concat(), "", 0);
    let said = check(&["--key", "stable", "--checkpoint", "kept"], 0);
    assert!(
        said.contains("the journal grew from its size 20; later key changes are not covered"),
        "{said}"
    );
    // A chain of another log, and what is none.
    probity(
        at,
        &["init", "other", "--origin", "example.com/other"],
        "",
        0,
    );
    probity(at, &["keys", "chain", "other", "-o", "other.chain"], "", 0);
    check(&["--key", "audit.vkey", "--chain", "other.chain"], 3);
    let said = check(&["--key", "audit.vkey", "--chain", "stable"], 1);
    assert!(said.contains("is no chain of keys"), "{said}");
    let said = check(&["--key", "audit.vkey", "--witness", "audit.vkey"], 1);
    assert!(said.contains("is no verifier key of a witness"), "{said}");
}

/// A head of the journal from the time of a replaced key made a proof by that key hold beside a
/// chain that shows the replacement, and the remedy asked for just that head. The head of the
/// stream is what nobody can put a forgery under.
#[test]
fn a_proof_from_before_a_replacement_needs_the_head_of_its_stream_beside_a_chain() {
    let folder = place();
    let at = folder.path();
    for (stream, kept) in [("journal", "journal"), ("default", "stream")] {
        let checkpoint = at.join(format!("audit/streams/{stream}/checkpoint"));
        fs::copy(checkpoint, at.join(kept)).unwrap();
    }
    let prove = ["prove", "audit", "--index", "0", "-o"];
    probity(at, &[&prove[..], &["proof"]].concat(), "", 0);
    append(at, "audit", "second");
    append(at, "audit", "third");
    probity(at, &["keys", "chain", "audit", "-o", "chain"], "", 0);
    probity(at, &[&prove[..], &["newer"]].concat(), "", 0);
    let check = |file: &str, more: &[&str], status| {
        let args = ["check-proof", file, "--key", "audit.vkey"];
        let (stdout, stderr) = probity(at, &[&args, more].concat(), "", status);
        stdout + &stderr
    };
    let chain = ["--chain", "chain"];
    for more in [&[][..], &["--checkpoint", "journal"]] {
        let said = check("proof", &[&chain, more].concat(), 1);
        assert!(
            said.contains("undecided: the chain of keys shows"),
            "{said}"
        );
        assert!(said.contains("a head of the entry's stream"), "{said}");
    }
    let said = check("proof", &["--checkpoint", "journal"], 0);
    let covers = "the same as the journal's; later key changes are not covered";
    assert!(said.contains(covers), "{said}");
    let stream = ["--checkpoint", "stream"];
    let said = check("proof", &[&chain[..], &stream].concat(), 0);
    assert!(said.contains("kept head  stream: the same"), "{said}");
    assert!(
        said.contains("chain      ends with example.com/audit+"),
        "{said}"
    );
    let said = check("newer", &[&chain[..], &["--json"]].concat(), 0);
    let document: Value = serde_json::from_str(&said).unwrap();
    let end = document["chain_end"].as_str().unwrap();
    assert!(end.starts_with("example.com/audit+"), "{end}");
    assert_eq!(
        document["signed_by"]
            .as_str()
            .unwrap()
            .split_once('+')
            .unwrap()
            .0,
        "example.com/audit/streams/default"
    );
}
