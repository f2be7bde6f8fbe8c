//! The folder of the second copies of the heads: what is said when it is not the one that the log has.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use tempfile::TempDir;

/// Runs the program, with `heads` as `PROBITY_HEADS`; gives standard output and standard error.
pub(crate) fn probity(
    at: &Path,
    heads: Option<&str>,
    args: &[&str],
    status: i32,
) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.args(args).current_dir(at);
    command
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS");
    command.envs(heads.map(|heads| ("PROBITY_HEADS", heads)));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let line = b"{\"action\":\"read\"}\n";
    drop(child.stdin.take().unwrap().write_all(line));
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let said = format!("{args:?}: {stdout}{stderr}");
    assert_eq!(output.status.code(), Some(status), "{said}");
    (stdout, stderr)
}

pub(crate) fn shell(at: &Path, command: &str) {
    let mut sh = Command::new("sh");
    let ran = sh.args(["-c", command]).current_dir(at).status();
    assert!(ran.unwrap().success(), "{command}");
}

/// Makes a log with an entry, whose second copies are in the folder `kept`.
pub(crate) fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let init = ["init", "audit", "--origin", "example.com/audit"];
    probity(at, Some("kept"), &init, 0);
    let (_, stderr) = probity(at, Some("kept"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
    folder
}

/// `PROBITY_HEADS` was forgotten once, and nothing said so at the time. From then on the untouched
/// log was broken because "no writer leaves them so" and somebody else must have signed. The
/// opening warns, the fault names the cause, and the manual's remedy mends it.
#[test]
fn a_folder_of_heads_that_was_forgotten_once_is_named_and_mended() {
    let folder = place();
    let at = folder.path();
    let (_, stderr) = probity(at, None, &["append", "audit"], 0);
    let warning =
        "warning: audit.heads held no second copy of the signed heads of 3 streams of this log";
    assert!(stderr.starts_with(warning), "{stderr}");
    assert!(stderr.contains("with PROBITY_HEADS"), "{stderr}");
    // Once only: from here on there are copies in that folder.
    let (_, stderr) = probity(at, None, &["append", "audit"], 0);
    assert_eq!(stderr, "");
    let (found, _) = probity(at, Some("kept"), &["verify", "audit"], 3);
    let cause = "another folder of second copies (PROBITY_HEADS) was used";
    let faults: Vec<&str> = found
        .lines()
        .filter(|line| line.starts_with("fault "))
        .collect();
    assert_eq!(faults.len(), 3, "{found}");
    assert!(faults.iter().all(|fault| fault.contains(cause)), "{found}");
    let (_, stderr) = probity(at, Some("kept"), &["append", "audit"], 3);
    assert!(stderr.contains(cause), "{stderr}");
    // The manual says: the newer copies fit, the older ones say nothing else, and the opening is in
    // the journal.
    probity(
        at,
        None,
        &[
            "verify",
            "audit",
            "--heads",
            "audit.heads",
            "--key",
            "audit.vkey",
        ],
        0,
    );
    let export = [
        "export", "audit", "--stream", "journal", "--format", "jsonl",
    ];
    let (journal, _) = probity(at, None, &export, 0);
    assert!(journal.contains("copy default 0 1"), "{journal}");
    shell(
        at,
        "cp audit.heads/* kept/ && mv audit.heads forgotten.heads",
    );
    probity(
        at,
        Some("kept"),
        &["verify", "audit", "--key", "audit.vkey"],
        0,
    );
    let (_, stderr) = probity(at, Some("kept"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
    probity(
        at,
        Some("kept"),
        &["verify", "audit", "--key", "audit.key"],
        0,
    );
}

/// The manual set `PROBITY_HEADS` in its second step, after `init`, whose second copies stayed
/// beside the log. Verified without the variable, an honest log looked as if somebody else had
/// signed. The first commands of the manual run as they stand, and the log that they make is intact
/// with the variable and without it.
#[test]
fn the_first_commands_of_the_manual_make_a_log_with_one_folder_of_heads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = fs::read_to_string(root.join("docs/operating.md")).unwrap();
    let (_, section) = manual.split_once("## Before the first day\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let set = section.find("PROBITY_HEADS=").unwrap();
    assert!(set < section.find("probity init").unwrap());
    let (_, commands) = section.split_once("```text\n").unwrap();
    let (commands, _) = commands.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("mnt/elsewhere/heads")).unwrap();
    fs::create_dir(at.join("srv")).unwrap();
    let program = env!("CARGO_BIN_EXE_probity");
    let commands = commands
        .replace("probity init", &format!("{program} init"))
        .replace("/mnt", "mnt")
        .replace("/srv", "srv");
    shell(at, &format!("unset PROBITY_KEY_FILE\n{commands}"));
    let heads = Some("mnt/elsewhere/heads/audit");
    let (_, stderr) = probity(at, heads, &["append", "srv/audit"], 0);
    assert_eq!(stderr, "");
    let verify = ["verify", "srv/audit", "--key", "srv/audit.vkey"];
    let (text, _) = probity(at, heads, &verify, 0);
    assert!(text.contains("\nintact: "), "{text}");
    probity(at, None, &verify, 0);
}

/// Step 3 of the manual's section about two folders ran without the variable set to the newer one.
/// The step compared with the older copies and ended with status 3. Each of its three commands runs
/// as it stands there, with `PROBITY_HEADS` as the operator has it.
#[test]
fn the_commands_about_two_folders_run_as_the_manual_prints_them() {
    let folder = place();
    let at = folder.path();
    probity(at, None, &["append", "audit"], 0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = fs::read_to_string(root.join("docs/troubleshooting.md")).unwrap();
    let (_, section) = manual
        .split_once("## Two folders of second copies\n")
        .unwrap();
    for (number, status) in [(1, 0), (2, 3), (3, 0)] {
        let start = format!("\n{number}. `");
        let (_, step) = section.split_once(&start).unwrap();
        let (command, _) = step.split_once('`').unwrap();
        let program = env!("CARGO_BIN_EXE_probity");
        let command = command
            .replace("probity ", &format!("{program} "))
            .replace("DIR", "audit")
            .replace("NEWER", "audit.heads")
            .replace("OLDER", "kept")
            .replace("--key KEY", "--key audit.vkey");
        let mut sh = Command::new("sh");
        sh.args(["-c", &command]).current_dir(at);
        let sh = sh
            .env_remove("PROBITY_KEY_FILE")
            .env("PROBITY_HEADS", "kept");
        let output = sh.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(status), "{command}: {said}");
        assert!(number < 3 || said.contains("copy default 0 1"), "{said}");
    }
}

/// The other direction: the first copies lie beside the log, and the variable was set afterwards. The section about two folders said to
/// copy over the folder of `PROBITY_HEADS`, which holds the newer ones here.
#[test]
fn heads_that_were_sent_elsewhere_after_the_first_opening_are_mended_as_the_manual_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, None, &["init", "audit"], 0);
    let (_, stderr) = probity(at, Some("kept"), &["append", "audit"], 0);
    assert!(stderr.starts_with("warning: kept held no second copy"));
    let verify = |heads, status| {
        let command = ["verify", "audit", "--heads", heads, "--key", "audit.vkey"];
        probity(at, None, &command, status).0
    };
    verify("kept", 0);
    let found = verify("audit.heads", 3);
    let mut faults = found.lines().filter(|line| line.starts_with("fault "));
    assert!(faults.all(|fault| fault.contains("which normal writing cannot produce")));
    let export = [
        "export", "audit", "--stream", "journal", "--format", "jsonl",
    ];
    let (journal, _) = probity(at, Some("kept"), &export, 0);
    assert!(journal.contains("copy journal 0 1"), "{journal}");
    shell(at, "mv audit.heads older.heads");
    let verify = ["verify", "audit", "--key", "audit.vkey"];
    probity(at, Some("kept"), &verify, 0);
    let (_, stderr) = probity(at, Some("kept"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
    // Moving the folder while nothing writes needs no mending.
    shell(at, "mv kept moved");
    let (_, stderr) = probity(at, Some("moved"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
    probity(at, Some("moved"), &verify, 0);
}

/// With the disk of the second copies not mounted, the writer made its folders on the local disk,
/// and began new copies there.
#[test]
fn second_copies_on_a_disk_that_is_not_mounted_are_refused() {
    let folder = place();
    let at = folder.path();
    shell(at, "mkdir mnt && mv kept mnt/kept");
    let (_, stderr) = probity(at, Some("mnt/kept"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
    shell(at, "mv mnt unmounted");
    let init = ["init", "other"];
    for command in [&["append", "audit"][..], &init] {
        let (_, stderr) = probity(at, Some("mnt/kept"), command, 1);
        assert!(stderr.contains("have no place in mnt/kept"), "{stderr}");
        assert!(!at.join("mnt").exists() && !at.join("other").exists());
    }
    shell(at, "mv unmounted mnt");
    let (_, stderr) = probity(at, Some("mnt/kept"), &["append", "audit"], 0);
    assert_eq!(stderr, "");
}

/// Half-written files of a killed writer stayed among the second copies for good. The next opening
/// removes them, unless a folder below holds something, which may be another log's.
#[test]
fn what_a_killed_writer_left_among_the_second_copies_is_removed() {
    let folder = place();
    let at = folder.path();
    shell(
        at,
        "touch kept/.tmp-1-0 && mkdir kept/other && touch kept/other/.tmp-1-0",
    );
    probity(at, Some("kept"), &["append", "audit"], 0);
    assert!(at.join("kept/other/.tmp-1-0").exists());
    shell(at, "rm kept/other/.tmp-1-0");
    probity(at, Some("kept"), &["append", "audit"], 0);
    assert!(!at.join("kept/.tmp-1-0").exists());
}

/// A named folder of second copies was empty, as of a disk that is not mounted. Every reader but
/// `verify` compared with it in silence: an older copy of the log passed for the newest. A replay
/// then said that the database had missed nothing.
#[test]
fn no_reader_takes_an_empty_folder_of_second_copies_for_a_comparison() {
    let folder = place();
    let at = folder.path();
    shell(at, "mkdir empty");
    let mut database = Sqlite::open(&at.join("app.db")).unwrap();
    for sql in [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
        "INSERT INTO people VALUES (19, 'Bea')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    drop(database);
    let (receipts, _) = probity(at, Some("kept"), &["append", "audit", "--receipts"], 0);
    shell(at, &format!("echo '{}' > receipts", receipts.trim_end()));
    let register =
        "disguise register --db sqlite:app.db --user 19 --credential-out 19.key --log audit";
    probity(
        at,
        Some("kept"),
        &register.split(' ').collect::<Vec<_>>(),
        0,
    );
    let replay = "disguise replay --log audit --db sqlite:app.db --dry-run";
    let replay: Vec<&str> = replay.split(' ').collect();
    let key = "audit.vkey";
    let receipts = ["check-receipts", "receipts", "--log", "audit", "--key", key];
    let commands: [&[&str]; 11] = [
        &["verify", "audit"],
        &receipts,
        &["export", "audit", "--format", "jsonl"],
        &["stream", "list", "audit"],
        &["prove", "audit", "--index", "0", "-o", "proof"],
        &["keys", "chain", "audit", "-o", "chain"],
        &["keys", "status", "audit"],
        &[
            "pocket",
            "create",
            "vault",
            "--log",
            "audit",
            "--subject",
            "7",
        ],
        &["subject", "export", "audit", "7", "--pocket", "copy"],
        &replay,
        &replay[..replay.len() - 1],
    ];
    for heads in ["empty", "nowhere"] {
        for args in commands {
            let (_, stderr) = probity(at, Some(heads), args, 1);
            let said = format!("no second copy of a head of this log in {heads}");
            assert!(stderr.contains(&said), "{args:?}: {stderr}");
        }
        let named = [&receipts[..], &["--heads", heads]].concat();
        probity(at, None, &named, 1);
    }
    probity(at, None, &[&receipts[..], &["--heads", "kept"]].concat(), 0);
    // Without a named folder nothing was asked for, but the log's own work comes with a warning.
    let (_, stderr) = probity(at, None, &replay, 0);
    let warning = "warning: there is no second copy of a head of this log in audit.heads";
    assert!(stderr.contains(warning), "{stderr}");
    let (_, stderr) = probity(at, Some("kept"), &replay, 0);
    assert!(!stderr.contains("warning"), "{stderr}");
}

/// A slash behind the name of the log put the second copies into the log itself.
#[test]
fn a_log_has_the_same_second_copies_however_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, None, &["init", "audit/"], 0);
    shell(at, "ln -s audit link");
    let inside = at.join("audit");
    for (from, name) in [
        (at, "audit"),
        (at, "audit/"),
        (at, "./audit/."),
        (&inside, "."),
    ] {
        let (_, stderr) = probity(from, None, &["append", name], 0);
        assert_eq!(stderr, "", "{name}");
        let (text, _) = probity(from, None, &["verify", name], 0);
        assert!(text.contains("\nintact: "), "{text}");
    }
    let (_, stderr) = probity(at, None, &["append", "link", "--key", "audit.key"], 0);
    assert_eq!(stderr, "");
    assert!(!inside.join(".heads").exists() && !at.join("link.heads").exists());
}

/// A log with only keys and notes left, as where the disk with its streams is not mounted, passed
/// for an interrupted creation. `init` replaced the keys, and nothing of the log could be read when
/// the disk was back.
#[test]
fn what_is_left_of_a_log_is_no_creation_that_was_cut_short() {
    let folder = place();
    let at = folder.path();
    let keys = fs::read(at.join("audit/keys/master.key")).unwrap();
    shell(at, "mkdir away; mv audit/streams kept away");
    shell(
        at,
        "if [ -e audit/subjects ]; then mv audit/subjects away; fi",
    );
    let init = ["init", "audit", "--origin", "example.com/audit"];
    probity(at, Some("kept"), &init, 1);
    assert_eq!(fs::read(at.join("audit/keys/master.key")).unwrap(), keys);
    shell(
        at,
        "rm -rf audit/streams; mv away/streams audit/; mv away/kept .",
    );
    shell(
        at,
        "if [ -e away/subjects ]; then mv away/subjects audit/; fi",
    );
    let export = ["export", "audit", "--format", "jsonl"];
    probity(at, Some("kept"), &export, 0);
}

/// If the geometry was gone too, nothing examined what was left. `init`, which the error advised,
/// wrote new keys over those of the log, and `proxy --init` did so without being asked.
#[test]
fn keys_of_a_log_whose_other_files_are_gone_are_never_overwritten() {
    let init = ["init", "audit", "--origin", "example.com/audit"];
    let export = ["export", "audit", "--format", "jsonl"];
    let gone = "mkdir away; mv audit/streams audit.vkey kept away; if [ -e audit/subjects ]; then mv audit/subjects away; fi";
    let back = "mv away/streams audit/; mv away/kept .; rm -f audit.vkey; mv away/audit.vkey .; if [ -e away/subjects ]; then rm -rf audit/subjects; mv away/subjects audit/; fi";

    // The notes say that frames were durable.
    let folder = place();
    let at = folder.path();
    shell(at, &format!("{gone}; mv audit/probity.toml away"));
    let append = probity(at, Some("kept"), &["append", "audit"], 1);
    assert!(
        append.1.contains("put them back from a backup"),
        "{}",
        append.1
    );
    let refused = probity(at, Some("kept"), &init, 1);
    assert!(refused.1.contains("holds a log already"), "{}", refused.1);
    assert!(!refused.1.contains("probity append"), "{}", refused.1);
    shell(at, &format!("{back}; mv away/probity.toml audit/"));
    probity(at, Some("kept"), &export, 0);

    // Nothing says so: the keys are kept.
    for left in ["", "probity.toml"] {
        let folder = place();
        let at = folder.path();
        shell(
            at,
            &format!("{gone}; mv audit/durable away; cp audit/probity.toml away"),
        );
        if left.is_empty() {
            shell(at, "rm audit/probity.toml");
        }
        let made = probity(at, Some("kept"), &init, 0);
        assert!(made.1.contains("are kept in audit/set-aside"), "{}", made.1);
        shell(at, "rm -rf audit/streams audit/keys/* kept");
        shell(
            at,
            "for key in audit/set-aside/keys-*; do name=${key#audit/set-aside/keys-}; mv $key audit/keys/${name%-0-0}; done",
        );
        shell(
            at,
            &format!("{back}; cp away/durable away/probity.toml audit/"),
        );
        probity(at, Some("kept"), &export, 0);
    }
}

/// A link `audit.heads` to a disk that was not mounted passed for a log without second copies.
/// Readers ended with 0 over an older copy of the log, and `append` with "File exists".
#[test]
fn a_link_to_second_copies_that_are_out_of_reach_is_named() {
    let folder = place();
    let at = folder.path();
    shell(at, "mv kept disk; ln -s disk audit.heads");
    for (away, status) in [(false, 0), (true, 1)] {
        if away {
            shell(at, "mv disk elsewhere");
        }
        for command in [
            &["verify", "audit"][..],
            &["export", "audit", "--format", "jsonl"],
            &["keys", "status", "audit"],
            &["append", "audit"],
        ] {
            let (_, said) = probity(at, None, command, status);
            assert_eq!(said.contains("audit.heads"), away, "{command:?}: {said}");
        }
    }
}

/// A file of any name in the folder of second copies passed for a comparison: an older copy of the
/// log was exported, and a proof made of it, with status 0.
#[test]
fn a_file_that_is_no_stream_of_the_log_is_no_second_copy() {
    let folder = place();
    let at = folder.path();
    shell(at, "cp -a audit older && cp -a kept good");
    probity(at, Some("kept"), &["append", "audit"], 0);
    shell(
        at,
        "rm -r audit && mv older audit && rm kept/* && echo x > kept/x",
    );
    // A copy of a stream without new entries is as little without those that each log has.
    shell(at, "cp good/default kept/");
    for command in [
        &["export", "audit", "--format", "jsonl"][..],
        &["prove", "audit", "--index", "0", "-o", "proof"],
        &["keys", "chain", "audit", "-o", "chain"],
        &["stream", "list", "audit"],
    ] {
        let (_, stderr) = probity(at, Some("kept"), command, 1);
        assert!(stderr.contains("there is no second copy"), "{stderr}");
    }
    // A damaged copy of a stream is a fault.
    for name in ["journal", "default", "heads"] {
        shell(at, &format!("cp good/* kept/ && echo x > kept/{name}"));
        probity(
            at,
            Some("kept"),
            &["export", "audit", "--format", "jsonl"],
            3,
        );
    }
}
