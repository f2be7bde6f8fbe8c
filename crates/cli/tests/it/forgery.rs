//! Proofs that a thief of one key forged, against what the recipient asks `check-proof` to compare.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use probity_format::cosignature::WitnessKey;
use probity_format::frame::entry_leaf;
use probity_format::geometry::Geometry;
use probity_format::keys::RootKey;
use probity_format::note::{Signature, SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::proof::{EntryProof, Evidence, Identity, Signers};
use probity_format::record::Record;
use probity_format::row::{encode_row, row_bytes};
use probity_format::segment::Place;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tree::{Hash, leaf_hash, root_of};
use probity_format::version::Version;
use probity_format::wrap::WrappedKind;
use probity_format::{Entry, Timestamp, checkpoint::Checkpoint, v2};
use serde_json::Value;
use tempfile::TempDir;

const LOG: &str = "example.com/audit";
const WITNESS: &str = "witness.example/w";

fn probity(folder: &Path, args: &[&str], status: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(args)
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    said
}

/// Makes a log with one entry, its witness key in the file `stable`, the key of a witness in
/// `witness`.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, &["init", "audit", "--origin", LOG], 0);
    append(at);
    let geometry = fs::read_to_string(at.join("audit/probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    fs::write(at.join("stable"), geometry.witness().unwrap().encode()).unwrap();
    fs::write(at.join("witness"), witness().1.encode()).unwrap();
    folder
}

fn append(at: &Path) {
    fs::write(at.join("line"), r#"{"action":"read","key":"user:7"}"#).unwrap();
    probity(at, &["append", "audit", "line", "--key", "audit.key"], 0);
}

fn witness() -> (SigningKey, WitnessKey) {
    let key = SigningKey::from_seed(WITNESS, &[3; 32]).unwrap();
    let known = WitnessKey::new(WITNESS, *key.verifier_key().key()).unwrap();
    (key, known)
}

/// Writes the head of the journal to the file `kept`, cosigned `ago` seconds ago.
fn keep_cosigned(at: &Path, ago: u64) {
    let text = fs::read(at.join("audit/streams/journal/checkpoint")).unwrap();
    let note = SignedNote::parse(&text).unwrap();
    let (key, known) = witness();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let time = now.as_secs() - ago;
    let message = format!("cosignature/v1\ntime {time}\n{}", note.text());
    let signature = key.sign(message.as_bytes()).unwrap();
    let blob = [&time.to_be_bytes()[..], &signature].concat();
    let mut lines = note.signatures().to_vec();
    lines.push(Signature::new(WITNESS, known.id(), blob));
    let note = SignedNote::with_signatures(note.text().to_owned(), lines).unwrap();
    fs::write(at.join("kept"), note.encode()).unwrap();
}

/// Returns the key in `file` of the log, unwrapped with the root key, under the name `name`.
fn stolen(at: &Path, file: &str, kind: WrappedKind, label: &[u8], name: &str) -> SigningKey {
    let root = RootKey::from_text(&fs::read_to_string(at.join("audit.key")).unwrap()).unwrap();
    let geometry = fs::read_to_string(at.join("audit/probity.toml")).unwrap();
    let geometry = Geometry::parse(&geometry).unwrap();
    let wrapped = fs::read(at.join("audit").join(file)).unwrap();
    let seed = root.wrapping_key(&geometry.fingerprint());
    let seed = seed.unwrap(kind, label, &wrapped).unwrap();
    SigningKey::from_seed(name, seed.expose()).unwrap()
}

/// Returns a proof of version 1 by `signer` alone, which is named as the stream `default` of the
/// log.
fn forged(signer: &SigningKey) -> String {
    let stream = StreamName::default();
    let text = "proofs=entry cipher=danger-none compression=none erasable=no";
    let config = StreamConfig::from_text(Version::V2, text).unwrap();
    let (log_id, anchor) = ([0; 16], [1; 32]);
    let first = VerifierKey::new(LOG, anchor).unwrap();
    let geometry = Geometry::v2(LOG, log_id, first).unwrap();
    let time = Timestamp::from_nanoseconds(1_790_000_000_000_000_000).unwrap();
    let entry = Entry::new(time, "delete", b"customer:7");
    let mut row = vec![0; row_bytes(&entry)];
    encode_row(&entry, &mut row);
    let rest = v2::RecordRest {
        sealing: v2::Sealing {
            proofs: config.proofs,
            cipher: config.cipher,
        },
        epoch: 0,
        stream: StreamId::new(&geometry.fingerprint(), &stream, &config),
        commitment: [0; 32],
        place: Place {
            segment: 0,
            offset: 128,
        },
    };
    let record = Record {
        frame: 0,
        first_entry: 0,
        entries: 1,
        length: 1000,
        time_min: time.nanoseconds(),
        time_max: time.nanoseconds(),
        sealed_root: Hash::new([9; 32]),
        entry_root: *entry_leaf(&[0; 16], &row).as_bytes(),
        v2: Some(rest),
    };
    let tree = root_of(&[leaf_hash(&record.encode())]);
    let checkpoint = Checkpoint::new(signer.verifier_key().name(), 1, tree).unwrap();
    let proof = EntryProof {
        identity: Some(Identity {
            log_id,
            anchor,
            config,
        }),
        signers: Signers::Listed {
            first_key: *signer.verifier_key().key(),
            links: Vec::new(),
        },
        record,
        place: 0,
        evidence: Evidence::Entry {
            salt: [0; 16],
            row,
            path: Vec::new(),
        },
        path: Vec::new(),
        checkpoint: checkpoint.sign(&[signer]).unwrap(),
    };
    proof.encode().unwrap()
}

/// C1: a proof of version 1 held with the witness key alone, and with `--witness` of somebody who
/// never cosigned. It held with `--checkpoint` of a head of the journal too, and was said to have
/// grown from that.
#[test]
fn no_form_of_proof_switches_off_what_was_asked_for() {
    let folder = place();
    let at = folder.path();
    fs::copy(at.join("audit/streams/journal/checkpoint"), at.join("kept")).unwrap();
    let origin = format!("{LOG}/streams/default");
    let keys = [
        ("keys/witness.key", WrappedKind::Witness, b"witness"),
        ("keys/signing.key", WrappedKind::Signing, b"signing"),
    ];
    for (file, kind, label) in keys {
        let signer = stolen(at, file, kind, label, &origin);
        fs::write(at.join("proof"), forged(&signer)).unwrap();
        let own = VerifierKey::new(LOG, *signer.verifier_key().key());
        fs::write(at.join("own"), own.unwrap().encode()).unwrap();
        for key in ["stable", "own"] {
            for more in [["--witness", "witness"], ["--checkpoint", "kept"]] {
                let args = [&["check-proof", "proof", "--key", key][..], &more].concat();
                let said = probity(at, &args, 1);
                assert!(
                    said.contains("is of version 1, which shows no journal"),
                    "{said}"
                );
            }
        }
        probity(at, &["check-proof", "proof", "--key", "stable"], 1);
    }
}

/// A cosignature of any age did, and nothing said how old it was: a thief of a backup of that day signed on from there.
#[test]
fn a_cosignature_shows_its_time_and_may_be_bounded() {
    let folder = place();
    let at = folder.path();
    keep_cosigned(at, 7200);
    let prove = [
        "prove",
        "audit",
        "--index",
        "0",
        "-o",
        "proof",
        "--checkpoint",
        "kept",
    ];
    probity(at, &prove, 0);
    let check = [
        "check-proof",
        "proof",
        "--key",
        "stable",
        "--witness",
        "witness",
    ];
    let said = probity(at, &check, 0);
    let line = said.lines().find(|line| line.starts_with("cosigned"));
    let line = line.unwrap();
    assert!(line.contains("by witness.example/w at 20"), "{line}");
    assert!(line.contains("later key changes are not covered"), "{line}");
    let document = probity(at, &[&check[..], &["--json"]].concat(), 0);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["cosigned"]["witness"], WITNESS);
    let time = document["cosigned"]["time"].as_str().unwrap();
    assert!(line.contains(time) && time.ends_with('Z'), "{time}");
    let aged = |seconds, status| {
        probity(
            at,
            &[&check[..], &["--witness-age", seconds]].concat(),
            status,
        )
    };
    aged("86400", 0);
    let said = aged("3600", 1);
    assert!(
        said.contains(time) && said.contains("--witness-age"),
        "{said}"
    );
    let alone = [
        "check-proof",
        "proof",
        "--key",
        "audit.vkey",
        "--witness-age",
        "9",
    ];
    probity(at, &alone, 2);
}

/// `verify` said that the first key was as given, next to the fault that it was another one.
#[test]
fn a_key_of_something_else_is_not_said_to_be_the_logs() {
    let folder = place();
    let at = folder.path();
    let said = probity(at, &["verify", "audit", "--key", "audit.vkey"], 0);
    assert!(said.contains("the first as given"), "{said}");
    let said = probity(at, &["verify", "audit", "--key", "stable"], 1);
    assert!(!said.contains("as given"), "{said}");
    assert!(
        said.contains("witness key") && said.contains("keys status"),
        "{said}"
    );
    probity(at, &["init", "other", "--origin", "example.com/other"], 0);
    let said = probity(at, &["verify", "audit", "--key", "other.vkey"], 3);
    assert!(!said.contains("as given"), "{said}");
    assert!(said.contains("this is another log"), "{said}");
}

/// The key that `check-proof` prints, or the newest of `keys status`, made another log of an honest
/// one for `verify` and `check-receipts`.
#[test]
fn a_later_key_verifies_the_log_and_its_receipts_and_is_named() {
    let folder = place();
    let at = folder.path();
    let receipts = probity(at, &["append", "audit", "line", "--receipts"], 0);
    let receipts = receipts.lines().find(|line| line.starts_with('{'));
    let receipts = receipts.unwrap();
    fs::write(at.join("receipts"), receipts).unwrap();
    probity(at, &["prove", "audit", "--index", "0", "-o", "of-last"], 0);
    let said = probity(at, &["keys", "status", "audit"], 0);
    let row = |said: &str, name: &str| {
        let row = said.lines().find_map(|line| line.strip_prefix(name));
        row.unwrap().trim().to_owned()
    };
    fs::write(at.join("newest"), row(&said, "newest key")).unwrap();
    let check = ["check-proof", "of-last", "--key", "newest"];
    let said = probity(at, &check, 0);
    fs::write(at.join("signer"), row(&said, "signed by")).unwrap();
    for key in ["newest", "signer"] {
        let said = probity(at, &["verify", "audit", "--key", key], 0);
        assert!(
            said.contains("the newest: certificates lead to it"),
            "{said}"
        );
        assert!(said.contains("the first as the log itself says"), "{said}");
        assert!(said.contains("\nintact: "), "{said}");
        let document = probity(at, &["verify", "audit", "--key", key, "--json"], 0);
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["key_given"], document["keys"]);
        assert_eq!(document["first_key_given"], false);
        let check = ["check-receipts", "receipts", "--log", "audit", "--key", key];
        let said = probity(at, &check, 0);
        assert!(said.contains("the key given is number"), "{said}");
    }
    let check = [
        "check-receipts",
        "receipts",
        "--log",
        "audit",
        "--key",
        "stable",
    ];
    let said = probity(at, &check, 1);
    assert!(said.contains("witness key"), "{said}");
}

/// A claimed actor wrote a line of its own, or a command to the terminal, into the report of a
/// proof.
#[test]
fn no_name_in_a_report_begins_a_line_or_commands_the_terminal() {
    let folder = place();
    let at = folder.path();
    let name = "x\u{85}actor      root\u{9b}2J\u{2028}\u{202e}";
    let line = serde_json::json!({"action": "read", "actor": name, "purpose": name, "key": name});
    fs::write(at.join("line"), line.to_string()).unwrap();
    probity(at, &["append", "audit", "line"], 0);
    probity(at, &["prove", "audit", "--index", "1", "-o", "named"], 0);
    let check = ["check-proof", "named", "--key", "audit.vkey"];
    let said = probity(at, &check, 0);
    let shown = r"x\u{85}actor      root\u{9b}2J\u{2028}\u{202e}";
    assert!(said.contains(&format!("actor      {shown}\n")), "{said}");
    assert!(
        said.contains(&format!("key        \"{shown}\"\n")),
        "{said}"
    );
    assert!(
        !said
            .chars()
            .any(|letter| letter.is_control() && letter != '\n'),
        "{said}"
    );
    let document = probity(at, &[&check[..], &["--json"]].concat(), 0);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["entry"]["actor"], name, "JSON has it as it is");
    let csv = probity(at, &["export", "audit", "--format", "csv"], 0);
    assert!(csv.contains(name), "a file has it as it is");
}
