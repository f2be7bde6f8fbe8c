//! The advice of commands, and commands that cannot print: options that exist, and a status that
//! says so.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs::{self};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use tempfile::TempDir;

pub(crate) fn probity(at: &Path, args: &[&str]) -> Command {
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

pub(crate) fn run(at: &Path, args: &[&str]) -> Output {
    probity(at, args).output().unwrap()
}

pub(crate) fn done(at: &Path, args: &[&str]) {
    let ran = run(at, args);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{args:?}: {said}");
}

/// Makes a log with two entries, and the files that commands of the tests read.
pub(crate) fn place() -> TempDir {
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

/// A folder whose name cannot be that of a log made `init` advise a command without the options that
/// it had: a log typed as advised can never erase anybody.
#[test]
fn the_advised_init_keeps_what_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let chosen = [
        "init",
        "Akte M\u{fc}ller",
        "--erasable",
        "--proofs",
        "entry",
        "--key",
        "the root.key",
        "--json",
    ];
    let said = String::from_utf8(run(at, &chosen).stderr).unwrap();
    let command = "probity init 'Akte M\u{fc}ller' --origin NAME --key 'the root.key' --erasable --proofs entry --json";
    assert!(said.contains(command), "{said}");
    assert!(!at.join("the root.key").exists());
}

/// Advice named no folder, left the key out, or had a name with a space as two words.
#[test]
fn advised_commands_name_the_log_and_the_key_that_were_given() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let dir = "a log";
    let key = ["--key", "the key"];
    let with = |args: &[&'static str]| [args, &key].concat();
    done(at, &with(&["init", dir, "--origin", "example.com/log"]));
    fs::write(at.join("lines"), "{\"action\":\"read\"}\n").unwrap();
    done(at, &with(&["append", dir, "lines"]));
    let cases = [
        (
            with(&["prove", dir, "--index", "9", "-o", "p"]),
            "probity export 'a log' --stream default --format csv --key 'the key'",
        ),
        (
            with(&["append", dir, "lines", "--stream", "none"]),
            "probity stream list 'a log' --key 'the key'; make one with: probity stream create 'a log' NAME --key 'the key'",
        ),
        (
            with(&["append", dir, "lines", "--stream", "journal"]),
            "probity export 'a log' --stream journal --format jsonl --key 'the key'",
        ),
    ];
    for (args, command) in cases {
        let said = String::from_utf8(run(at, &args).stderr).unwrap();
        assert!(said.contains(command), "{args:?}: {said}");
    }
}

/// `append` sent to `verify`, which calls a log without its keys intact: it needs none of them.
#[test]
fn a_log_without_its_keys_is_told_which_file_to_put_back() {
    let folder = place();
    let at = folder.path();
    for file in ["master.key", "signing.key", "witness.key"] {
        let path = at.join("audit/keys").join(file);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = run(at, &["append", "audit", "lines"]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        let what = match file {
            "signing.key" => "the signing key".to_owned(),
            _ => format!("keys/{file} alone"),
        };
        let remedy = format!("help: put {what} back, as said");
        assert!(said.contains(&remedy), "{said}");
        assert!(!said.contains("see all faults"), "{said}");
        fs::write(&path, bytes).unwrap();
    }
    done(at, &["append", "audit", "lines"]);
}

/// `verify` with a key said of a folder that it may not enter that the log was deleted.
#[test]
fn a_folder_that_cannot_be_entered_is_no_deleted_log() {
    let folder = place();
    let at = folder.path();
    let closed = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(at.join("audit"), permissions).unwrap();
    };
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    for key in [&["--key", "audit.vkey"][..], &[]] {
        closed(0o000);
        let mut command = probity(at, &[&["verify", "audit", "--json"], key].concat());
        if fs::read_dir(at.join("audit")).is_ok() {
            // The superuser enters every folder.
            command.uid(65_534);
        }
        let refused = command.output().unwrap();
        closed(0o750);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(
            said.contains("check who owns the folder and its permissions"),
            "{said}"
        );
    }
    fs::remove_dir_all(at.join("audit")).unwrap();
    let gone = run(at, &["verify", "audit", "--key", "audit.vkey"]);
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(said.contains("the log was deleted"), "{said}");
}

/// A file in the place of the folder of second copies made an intact log broken.
#[test]
fn a_file_named_for_second_copies_breaks_no_log() {
    let folder = place();
    let at = folder.path();
    let commands: [&[&str]; 4] = [
        &["verify", "audit"],
        &["append", "audit", "lines"],
        &["export", "audit", "--format", "csv"],
        &[
            "check-receipts",
            "receipts",
            "--log",
            "audit",
            "--key",
            "audit.vkey",
        ],
    ];
    let is_refused = |ran: Output, what: &[&str]| {
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{what:?}: {said}");
        assert!(said.contains("audit.vkey is no folder"), "{what:?}: {said}");
        assert!(ran.stdout.is_empty(), "{what:?}");
    };
    for args in commands {
        let mut command = probity(at, args);
        is_refused(
            command.env("PROBITY_HEADS", "audit.vkey").output().unwrap(),
            args,
        );
    }
    for args in [commands[0], commands[3]] {
        is_refused(run(at, &[args, &["--heads", "audit.vkey"]].concat()), args);
    }
    done(at, &["verify", "audit"]);
}

/// A verification that lacked its second copies had no `error` in its document.
#[test]
fn a_verification_without_its_second_copies_says_so_in_its_document() {
    let folder = place();
    let at = folder.path();
    fs::create_dir(at.join("empty")).unwrap();
    let ran = run(at, &["verify", "audit", "--heads", "empty", "--json"]);
    assert_eq!(ran.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let error = document.get("error").and_then(|error| error.as_str());
    assert!(
        error.unwrap().contains("no second copy of a head"),
        "{document}"
    );
    let help = document.get("help").and_then(|help| help.as_str());
    assert!(
        help.unwrap().contains("probity verify audit --since FILE"),
        "{document}"
    );
    assert_eq!(
        document.get("status").and_then(serde_json::Value::as_u64),
        Some(1)
    );
}

/// Wrong usage was answered with a tip that takes an unknown option for a value.
#[test]
fn an_unknown_option_is_not_advised_as_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["store", "rewrite", "data", "--json"]);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(said.contains("unexpected argument '--json'"), "{said}");
    assert!(!said.contains("as a value"), "{said}");
}

/// A file that is there was answered with an option that the command does not have.
#[test]
fn only_commands_with_overwrite_are_advised_to_use_it() {
    let folder = place();
    let at = folder.path();
    for (args, is_advised) in [
        (&["prove", "audit", "--index", "0", "-o", "proof"][..], true),
        (&["keys", "chain", "audit", "-o", "proof"], true),
        (
            &["pocket", "create", "proof", "--schema", "schema.sql"],
            false,
        ),
        (
            &["subject", "export", "audit", "alice", "--pocket", "proof"],
            false,
        ),
    ] {
        let ran = run(at, args);
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert_eq!(said.contains("--overwrite"), is_advised, "{args:?}: {said}");
    }
}

/// A name that cannot be a signer's was reported as a damaged key, and a secret key of receipts as
/// no key at all.
#[test]
fn names_and_keys_of_receipts_are_told_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let key = |name: &str| run(at, &["disguise", "receipt-key", "rk", "--name", name]);
    let said = String::from_utf8(key("x y").stderr).unwrap();
    assert!(
        said.contains("\"x y\" cannot be the name of a signer"),
        "{said}"
    );
    assert!(!at.join("rk").exists());
    assert!(key("example.com/r").status.success());
    fs::write(at.join("r"), "receipt").unwrap();
    let checked = run(at, &["disguise", "check-receipt", "r", "--key", "rk"]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(
        said.contains("rk holds the secret key of receipts"),
        "{said}"
    );
}

/// A file in the place of a socket was told from a socket in use after a log and its keys were made.
#[test]
fn a_proxy_makes_no_log_for_a_socket_that_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("plain"), "a file").unwrap();
    let place = format!("unix:{}", at.join("plain").display());
    let upstream = "redis://127.0.0.1:1";
    let args = [
        "proxy",
        "--log",
        "audit",
        "--init",
        "--listen",
        &place,
        "--upstream",
        upstream,
    ];
    let ran = run(at, &args);
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("is no socket"), "{said}");
    assert_eq!(
        fs::read_dir(at).unwrap().count(),
        1,
        "only the file is there"
    );
}

/// Makes a database with one person.
fn application(at: &Path) {
    let sql = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)";
    let mut database = Sqlite::open(&at.join("app.db")).unwrap();
    database.execute(sql, &[]).unwrap();
    let sql = "INSERT INTO people VALUES (19, 'Bea')";
    database.execute(sql, &[]).unwrap();
}

/// A password on standard input was taken at its end only: a person on a terminal saw it as typed,
/// and waited. A new one is asked for twice there.
#[test]
fn a_password_is_taken_at_the_end_of_its_line_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    application(at);
    let program = env!("CARGO_BIN_EXE_probity");
    let register = "disguise register --db sqlite:app.db --user 19 --password-file -";
    let list = "disguise list --db sqlite:app.db --user 19 --credential -";
    let started = Instant::now();
    let new = ["the password: ", "the same password again: "];
    for (args, prompts) in [(register, &new[..]), (list, &["the credential: "])] {
        let mut terminal = Command::new("script")
            .args(["-qec", &format!("{program} {args}"), "/dev/null"])
            .current_dir(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut typing = terminal.stdin.take().unwrap();
        let mut screen = terminal.stdout.take().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        for prompt in prompts {
            while !String::from_utf8_lossy(&seen).ends_with(prompt) {
                assert_eq!(screen.read(&mut byte).unwrap(), 1, "{seen:?}");
                seen.extend(byte);
            }
            // The terminal stays open behind the line.
            typing.write_all(b"a long password\n").unwrap();
        }
        screen.read_to_end(&mut seen).unwrap();
        let seen = String::from_utf8(seen).unwrap();
        assert!(terminal.wait().unwrap().success(), "{seen}");
        assert!(!seen.contains("a long password"), "{seen}");
        drop(typing);
    }
    let mut command = probity(at, &list.split(' ').collect::<Vec<_>>());
    let mut piped = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut typing = piped.stdin.take().unwrap();
    typing.write_all(b"a long password\n").unwrap();
    assert!(piped.wait().unwrap().success());
    drop(typing);
    assert!(started.elapsed() < Duration::from_mins(1));
}
