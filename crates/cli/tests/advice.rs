//! The advice of commands, and commands that cannot print: options that exist, and a status that
//! says so.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn probity(at: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command
        .args(args)
        .current_dir(at)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .env_remove("PROBITY_POCKET_ROOT")
        .stdin(Stdio::null());
    command
}

fn run(at: &Path, args: &[&str]) -> Output {
    probity(at, args).output().unwrap()
}

fn done(at: &Path, args: &[&str]) {
    let ran = run(at, args);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}");
}

/// Makes a log with two entries, and the files that commands of the tests read.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, &["init", "audit", "--origin", "example.com/audit"]);
    let line = "{\"action\":\"read\",\"key\":\"user:7\",\"subject\":\"alice\"}\n";
    fs::write(at.join("lines"), line).unwrap();
    let appended = run(at, &["append", "audit", "lines", "--receipts"]);
    assert!(appended.status.success());
    fs::write(at.join("receipts"), appended.stdout).unwrap();
    done(at, &["prove", "audit", "--index", "0", "-o", "proof"]);
    fs::write(
        at.join("schema.sql"),
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT(9))",
    )
    .unwrap();
    done(at, &["pocket", "create", "vault", "--schema", "schema.sql"]);
    let config = format!(
        "listen = \"127.0.0.1:0\"\nlog.folder = \"audit\"\n[database.app]\nurl = \"sqlite:app.db\"\n[[token]]\nname = \"shop\"\n\
         sha256 = \"{}\"\ndatabases = [\"app\"]\noperations = [\"list\"]\n",
        "0123456789abcdef".repeat(4)
    );
    fs::write(at.join("probity.toml"), config).unwrap();
    folder
}

/// With the root key elsewhere a command advised an option that it refuses.
#[test]
fn each_command_advises_the_option_that_it_has() {
    let folder = place();
    let at = folder.path();
    fs::rename(at.join("audit.key"), at.join("kept")).unwrap();
    let commands: [&[&str]; 8] = [
        &["append", "audit", "lines"],
        &["stream", "create", "audit", "persons"],
        &["stream", "list", "audit"],
        &["prove", "audit", "--index", "0", "-o", "other-proof"],
        &["export", "audit", "--format", "jsonl"],
        &["subject", "export", "audit", "alice", "--pocket", "alice"],
        &[
            "pocket",
            "create",
            "bob",
            "--log",
            "audit",
            "--subject",
            "bob",
        ],
        &["verify", "audit"],
    ];
    for args in commands {
        // A verification without a key lacks none: it is given one that is not there.
        let is_verify = args.first() == Some(&"verify");
        let more: &[&str] = if is_verify {
            &["--key", "audit.key"]
        } else {
            &[]
        };
        let refused = run(at, &[args, more].concat());
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        let (_, advice) = said.split_once(" with --").expect(&said);
        let option = format!("--{}", advice.split(' ').next().unwrap());
        done(at, &[args, &[&option, "kept"]].concat());
    }
    let refused = run(at, &["serve", "--config", "probity.toml"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    let option = "key_file in the section log of the configuration";
    assert!(said.contains(option), "{said}");
}

/// The remedy for a wrong or missing key names the option of the command, too.
#[test]
fn a_key_of_another_log_and_a_verifier_key_that_is_gone_are_advised_by_their_options() {
    let folder = place();
    let at = folder.path();
    done(at, &["init", "other"]);
    let export = ["export", "audit", "--format", "csv", "--key", "other.key"];
    let receipts = [
        "check-receipts",
        "receipts",
        "--log",
        "audit",
        "--key",
        "gone",
    ];
    let prove = [
        "prove",
        "audit",
        "--index",
        "0",
        "-o",
        "p",
        "--recipient-key",
        "gone",
    ];
    let commands: [(&[&str], &str); 7] = [
        (&export, "with --key FILE or"),
        (
            &["append", "audit", "lines", "--key", "other.key"],
            "with --key FILE or",
        ),
        (
            &["verify", "audit", "--key", "other.key"],
            "with --key FILE;",
        ),
        (
            &["check-proof", "proof", "--key", "gone"],
            "with --key FILE;",
        ),
        (&receipts, "with --key FILE;"),
        (
            &["pocket", "verify", "vault", "--keyless", "gone"],
            "with --keyless VKEY;",
        ),
        (&prove, "with --recipient-key FILE;"),
    ];
    for (args, option) in commands {
        let said = String::from_utf8(run(at, args).stderr).unwrap();
        assert!(said.contains(option), "{args:?}: {said}");
    }
}

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

/// A log, a key and an input whose names begin as options do were advised with commands that are wrong usage.
#[test]
fn advice_about_names_that_begin_as_options_works_as_it_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let typed = |command: &str| {
        let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args([
                "-c",
                &format!("PATH={}:$PATH; {command}", program.display()),
            ])
            .current_dir(at)
            .env_remove("PROBITY_KEY_FILE")
            .env_remove("PROBITY_HEADS")
            .stdin(Stdio::null());
        shell.output().unwrap()
    };
    let behind = |text: &[u8], before: &str| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let (_, command) = text.split_once(before).expect(&text);
        command.lines().next().unwrap().to_owned()
    };
    let made = run(at, &["init", "--origin", "example.com/audit", "--", "-d"]);
    assert!(made.status.success(), "{made:?}");
    let verify = behind(&made.stdout, "they check a copy with: ");
    let verified = typed(&verify);
    assert!(verified.status.success(), "{verify}: {verified:?}");
    fs::write(at.join("-in"), "hello\n").unwrap();
    let stopped = run(
        at,
        &["append", "--key=-d.key", "--proofs=-p", "--", "-d", "-in"],
    );
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    let go_on = behind(&stopped.stderr, "go on with: ");
    fs::write(at.join("-in"), "{\"action\":\"read\"}\n").unwrap();
    let after = typed(&go_on);
    assert!(after.status.success(), "{go_on}: {after:?}");
    assert!(at.join("-p/default.0.tlog-proof").exists(), "{go_on}");
}
