//! Output of commands, on standard output and in files: all of it, for those whom it is for, or a failure.

#![expect(clippy::disallowed_methods, reason = "a test prepares files")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;

use crate::advice::{done, place, probity, run};

/// `probity help > /dev/full` ended with status 0, as if the help had been printed.
#[test]
fn a_standard_output_that_takes_nothing_is_a_failure_of_every_command() {
    let folder = place();
    let at = folder.path();
    let query = "SELECT COUNT(*) FROM t";
    let commands: [&[&str]; 24] = [
        &["help"],
        &["--help"],
        &["-h"],
        &["--version"],
        &["help", "append"],
        &["append", "--help"],
        &["disguise", "apply", "--help"],
        &["init", "another"],
        &["append", "audit", "lines"],
        &["append", "audit", "lines", "--json"],
        &["append", "audit", "lines", "--receipts"],
        &["verify", "audit"],
        &["verify", "audit", "--json"],
        &["export", "audit", "--format", "jsonl"],
        &["export", "audit", "--format", "csv"],
        &["check-proof", "proof", "--key", "audit.vkey"],
        &[
            "check-receipts",
            "receipts",
            "--log",
            "audit",
            "--key",
            "audit.vkey",
        ],
        &["stream", "list", "audit"],
        &["keys", "status", "audit"],
        &["pocket", "query", "vault", query],
        &["pocket", "query", "vault", query, "--format", "csv"],
        &["pocket", "stats", "vault"],
        &["pocket", "verify", "vault"],
        &["prove", "audit", "--index", "0", "-o", "third-proof"],
    ];
    for args in commands {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = probity(at, args).stdout(full).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("standard output: "), "{args:?}: {said}");
        // An append was done, and a repetition recorded its entries twice.
        let is_done = args.first() == Some(&"append")
            && !args.contains(&"--receipts")
            && !args.contains(&"--help");
        if is_done {
            assert!(
                said.contains(" appended, then cannot write"),
                "{args:?}: {said}"
            );
            assert!(said.contains("do not repeat"), "{args:?}: {said}");
        }
    }
    // Wrong usage is reported on standard error, and nothing else is written.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let wrong = probity(at, &["verify"]).stdout(full).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

/// The verifier key, to be handed out, could be read by its owner alone.
#[test]
fn what_is_handed_out_can_be_read_by_all_and_secrets_by_their_owner() {
    let folder = place();
    let at = folder.path();
    done(at, &["keys", "chain", "audit", "-o", "chain"]);
    done(at, &["pocket", "reorganize", "vault"]);
    done(at, &["pocket", "sign", "vault", "-o", "digest"]);
    let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o777;
    for name in ["audit.vkey", "chain", "vault.vkey"] {
        assert_eq!(mode(name), 0o644, "{name}");
    }
    for name in ["audit.key", "vault.root", "proof", "audit/keys/master.key"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

/// The heading of a CSV export came before the refusal of a log that was rolled back.
#[test]
fn a_refused_export_writes_nothing() {
    let folder = place();
    let at = folder.path();
    fs::rename(
        at.join("audit/streams/default/segments"),
        at.join("segments"),
    )
    .unwrap();
    for format in ["csv", "jsonl"] {
        let ran = run(at, &["export", "audit", "--format", format]);
        assert_eq!(ran.status.code(), Some(3), "{ran:?}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    fs::rename(
        at.join("segments"),
        at.join("audit/streams/default/segments"),
    )
    .unwrap();
    let none = run(
        at,
        &["export", "audit", "--format", "csv", "--subject", "nobody"],
    );
    assert!(none.stdout.starts_with(b"stream,index,time"), "{none:?}");
}
