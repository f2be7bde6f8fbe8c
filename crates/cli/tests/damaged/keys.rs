//! Keys that are not the log's, a chain of keys that is not whole, and words about damage that say no more than is known.

use std::fs;
use std::path::Path;

use crate::loss::killed;
use crate::{Place, flip, segment};

/// A change of the log, and how its verification without a key ends.
type Change = (fn(&Path), i32);

/// The certificates that a damaged journal still had were handed out with status 0. Whoever got them took the beginning for the whole.
#[test]
fn the_chain_of_keys_of_a_damaged_log_is_refused_and_nothing_written() {
    let place = Place::new();
    let chain = ["keys", "chain", "audit", "-o", "chain"];
    let refused = |place: &Place| {
        let (_, error) = place.run(&chain, 3, "");
        assert!(error.contains("probity verify"), "{error}");
        assert!(!place.path("chain").exists());
    };
    let checkpoint = "streams/journal/checkpoint";
    place.changed(
        |log| fs::remove_file(log.join(checkpoint)).unwrap(),
        refused,
    );
    place.changed(
        |log| {
            let note = fs::read_to_string(log.join(checkpoint)).unwrap();
            let mut lines: Vec<&str> = note.split('\n').collect();
            lines[1] = "1";
            fs::write(log.join(checkpoint), lines.join("\n")).unwrap();
        },
        refused,
    );
    place.changed(
        |log| {
            for part in ["streams", "keys", "subjects"] {
                fs::remove_dir_all(log.join(part)).unwrap_or_default();
            }
        },
        refused,
    );
    place.run(&chain, 0, "");
}

/// In every command `--key` names a file of a key. Given to `export` it was the key of entries, of
/// which there were none, and the empty answer had status 0.
#[test]
fn an_export_takes_no_file_for_the_key_of_an_entry() {
    let place = Place::new();
    let export = ["export", "audit", "--format", "jsonl", "--key"];
    let (output, _) = place.run(&[&export[..], &["audit.key"]].concat(), 0, "");
    assert!(!output.is_empty());
    // No file, and a file that is none of a root key.
    for wrong in ["nowhere", "audit.vkey"] {
        let (output, error) = place.run(&[&export[..], &[wrong]].concat(), 1, "");
        assert!(output.is_empty() && error.contains(wrong), "{error}");
    }
}

/// `keys status` said that nobody can sign for the log, with status 0. `verify` with the root key
/// said nothing.
#[test]
fn a_log_for_which_nobody_can_sign_is_damaged() {
    let place = Place::new();
    place.changed(
        |log| fs::remove_file(log.join("keys/signing.key")).unwrap(),
        |place| {
            let (output, _) = place.run(&["keys", "status", "audit"], 3, "");
            assert!(output.contains("nobody can sign"), "{output}");
            let (output, _) = place.run(&["verify", "audit", "--key", "audit.key"], 3, "");
            assert!(output.contains("keys/signing.key: is missing"), "{output}");
        },
    );
}

/// `keys status` printed the witness key and did not say that its file was missing, without which no
/// command writes to the log. It names the file, the consequence and the remedy, with the root key and
/// without it.
#[test]
fn a_missing_witness_key_is_named_with_what_it_prevents() {
    let place = Place::new();
    let status = ["keys", "status", "audit"];
    let remove = |log: &Path| fs::remove_file(log.join("keys/witness.key")).unwrap();
    let is_named = |output: &str| {
        for words in [
            "keys/witness.key",
            "is missing: the log is read and verified as before",
            "no command writes to it",
            "put this file alone back from any backup of this log",
        ] {
            assert!(output.contains(words), "{words}: {output}");
        }
    };
    place.changed(remove, |place| {
        is_named(&place.run(&status, 3, "").0);
        let (output, _) = place.run(&["keys", "status", "audit", "--json"], 3, "");
        let document: serde_json::Value = serde_json::from_str(&output).unwrap();
        let fault = document["witness_key_file"].as_str().unwrap();
        assert!(fault.starts_with("is missing: "), "{fault}");
        // Whoever only reads the log has a copy without the key, and need not have the root key.
        fs::rename(place.path("audit.key"), place.path("elsewhere")).unwrap();
        is_named(&place.run(&status, 0, "").0);
        fs::rename(place.path("elsewhere"), place.path("audit.key")).unwrap();
        let (_, error) = place.run(&["append", "audit"], 3, "");
        assert!(error.contains("keys/witness.key: is missing"), "{error}");
    });
    let other = |log: &Path| {
        let signing = fs::read(log.join("keys/signing.key")).unwrap();
        fs::write(log.join("keys/witness.key"), signing).unwrap();
    };
    place.changed(other, |place| {
        let (output, _) = place.run(&status, 3, "");
        let words = "keys/witness.key: is not the key that probity.toml names";
        assert!(output.contains(words), "{output}");
    });
    let (output, _) = place.run(&status, 0, "");
    let words = "keys/witness.key: the key that probity.toml names";
    assert!(output.contains(words), "{output}");
}

/// The last frame was damaged, and beside the fault the report said that its bytes were no frame and never noted as durable. Neither was true.
#[test]
fn of_a_damaged_tail_no_more_is_said_than_is_known() {
    let place = killed();
    flip(segment(&place.path("audit")), |length| length - 40);
    let (output, _) = place.run(&["verify", "audit", "--key", "audit.key"], 3, "");
    assert!(output.contains("fault frame: stream default"), "{output}");
    assert!(output.contains("do not read as a frame"), "{output}");
    assert!(!output.contains("never"), "{output}");
}

/// With the root key, a damaged master key or a folder in place of the slots ended `verify --json`
/// without a document. The advice was the command that had just ended.
#[test]
fn a_verification_that_damage_ends_has_a_document_and_advice_that_leads_on() {
    let place = Place::new();
    let changes: [Change; 2] = [
        (
            |log| fs::create_dir_all(log.join("subjects/slots")).unwrap(),
            3,
        ),
        (
            |log| fs::write(log.join("keys/master.key"), "short").unwrap(),
            0,
        ),
    ];
    for (change, without_key) in changes {
        place.changed(change, |place| {
            let args = ["verify", "audit", "--key", "audit.key", "--json"];
            let (output, said) = place.run(&args, 3, "");
            let document: serde_json::Value = serde_json::from_str(&output).unwrap();
            assert_eq!(document["verdict"], "broken");
            assert_eq!(document["status"], 3);
            let (error, help) = (document["error"].as_str(), document["help"].as_str());
            let whole = format!("error: {}\nhelp: {}\n", error.unwrap(), help.unwrap());
            assert_eq!(whole, said);
            assert!(
                said.contains("without the root key: probity verify audit; then"),
                "{said}"
            );
            let (output, _) = place.run(&["verify", "audit", "--json"], without_key, "");
            let document: serde_json::Value = serde_json::from_str(&output).unwrap();
            assert!(document["faults"].is_array(), "{output}");
        });
    }
}
