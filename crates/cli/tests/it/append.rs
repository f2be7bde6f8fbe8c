//! The messages of an `append` that cannot go to the end, and the results of following its advice.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use probity_log::storage::SmallDisk;

use crate::audit::{LINE, assert_intact, new_log, probity, run, text};

/// Lines of entries with payloads that do not compress.
fn bulky_lines(count: u64) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    let line = |number| {
        let payload: String = (0..100).map(|_| noise()).collect();
        format!("{{\"action\":\"write\",\"key\":\"k{number}\",\"payload\":\"{payload}\"}}\n")
    };
    (0..count).map(line).collect()
}

/// Returns the command that a failed `append` advises, without the program.
fn advised(stderr: &[u8]) -> Vec<String> {
    let said = text(stderr);
    let (_, advice) = said.split_once("go on with: probity ").expect(&said);
    advice.split_whitespace().map(str::to_owned).collect()
}

/// Keys of the entries in the log, in order.
fn keys(folder: &Path) -> Vec<String> {
    let export = run(folder, &["export", "audit", "--format", "jsonl"], b"");
    let exported = text(&export.stdout);
    let key = |line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        entry["key"].as_str().unwrap().to_owned()
    };
    exported.lines().map(key).collect()
}

/// Runs `append` until the disk is full; gives its advice, where it could open the log at all.
fn append_until_full(folder: &Path, append: &[String], mode: &str) -> Option<Vec<String>> {
    let before = keys(folder).len();
    let more = ["--receipts", "--durability", mode];
    // The advised command takes over the options of the command that stopped.
    let durability = append.iter().position(|word| word == "--durability");
    let of_before = |place: usize| durability.is_some_and(|at| (at..at + 2).contains(&place));
    let words = append.iter().enumerate();
    let words = words.filter(|(place, word)| !of_before(*place) && *word != "--receipts");
    let args: Vec<&str> = words.map(|(_, word)| word.as_str()).chain(more).collect();
    let appended = run(folder, &args, b"");
    assert_eq!(appended.status.code(), Some(1), "{mode}");
    let said = text(&appended.stderr);
    let end = ": No space left on device (os error 28)\nhelp: make room on the disk; a log is repaired when it is opened";
    assert!(
        said.contains(" audit") && said.contains(end),
        "{mode}: {said}"
    );
    // Reading and verifying need no room.
    let verified = run(folder, &["verify", "audit", "--key", "audit.key"], b"");
    let found = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(0), "{found}");
    let kept = keys(folder).len() - before;
    let receipts = text(&appended.stdout).lines().count();
    assert!(kept >= receipts, "{mode}: {kept} of {receipts}");
    if !said.contains("go on with") {
        assert_eq!(kept, 0, "{said}");
        return None;
    }
    let noun = if kept == 1 { "entry" } else { "entries" };
    let counted = format!("{kept} {noun} appended");
    assert!(said.contains(&counted), "{counted}: {said}");
    let unsaid = kept - receipts;
    let rest = format!("{counted}, the last {unsaid} of them without a receipt");
    assert_eq!(said.contains(&rest), unsaid > 0, "{rest}: {said}");
    // M11: how evidence of those is had, and that their lines are there, was not said.
    let first = before + receipts;
    let prove = format!("probity prove audit --stream default --index {first}");
    assert_eq!(said.contains(&prove), unsaid > 0, "{prove}: {said}");
    Some(advised(&appended.stderr))
}

/// L5: after a full disk the advice was to run the command again, which appended 40,786 entries
/// twice. Now the advice names the line to go on with, from what is on the disk. Following it as
/// often as one likes gives every entry once.
#[test]
fn a_full_disk_is_said_with_place_and_remedy_and_the_advice_doubles_nothing() {
    let Some(mut disk) = SmallDisk::mounted("the program on a full disk", 512 << 10) else {
        return;
    };
    let folder = disk.path().to_owned();
    let made = run(&folder, &["init", "audit"], b"");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let elsewhere = tempfile::tempdir().unwrap();
    let input = elsewhere.path().join("entries.jsonl");
    // Lines without an entry stand between: lines and entries are not counted alike.
    let spaced: String =
        bulky_lines(4000)
            .lines()
            .enumerate()
            .fold(String::new(), |all, (number, line)| {
                let blank = if number % 7 == 3 { "\n" } else { "" };
                all + line + "\n" + blank
            });
    fs::write(&input, spaced).unwrap();
    let mut append = vec![
        "append".to_owned(),
        "audit".to_owned(),
        input.display().to_string(),
    ];
    for mode in ["strict", "group", "relaxed"] {
        if let Some(advice) = append_until_full(&folder, &append, mode) {
            append = advice;
        }
    }
    assert!(append.contains(&"--at-index".to_owned()), "{append:?}");
    disk.remount("size=16m").unwrap();
    let args: Vec<&str> = append.iter().map(String::as_str).collect();
    let done = run(&folder, &args, b"");
    assert!(done.status.success(), "{}", text(&done.stderr));
    // Followed once more, it is refused.
    let again = run(&folder, &args, b"");
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("more than expected"),
        "{}",
        text(&again.stderr)
    );
    let wanted: Vec<String> = (0..4000).map(|number| format!("k{number}")).collect();
    let found = keys(&folder);
    assert!(found == wanted, "{} entries for 4000 lines", found.len());
    assert_intact(&folder, 4000);
}

/// Whoever has no advice, because the machine went away with it, repeats the command.
#[test]
fn a_command_with_a_key_that_is_repeated_after_a_full_disk_records_no_line_twice() {
    // The largest first frame fits, of 4 MiB of rows that compress to half; all frames do not.
    let Some(mut disk) = SmallDisk::mounted("a repeated command on a full disk", 2560 << 10) else {
        return;
    };
    let folder = disk.path().to_owned();
    let made = run(&folder, &["init", "audit"], b"");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let elsewhere = tempfile::tempdir().unwrap();
    let input = elsewhere.path().join("entries.jsonl");
    fs::write(&input, bulky_lines(4000)).unwrap();
    let input = input.display().to_string();
    let append = ["append", "audit", &input, "--idempotency-key", "monday's"];
    let stopped = run(&folder, &append, b"");
    assert_eq!(stopped.status.code(), Some(1));
    let said = text(&stopped.stderr);
    assert!(
        said.contains("--idempotency-key 'monday'\\''s' --from-line"),
        "{said}"
    );
    let before = keys(&folder).len();
    assert!(before > 100, "{before}");
    disk.remount("size=16m").unwrap();
    let again = run(&folder, &append, b"");
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(
        text(&again.stdout),
        format!(
            "{} entries appended to stream default; {before} lines were already recorded, the first as entry 0\n",
            4000 - before
        )
    );
    let wanted: Vec<String> = (0..4000).map(|number| format!("k{number}")).collect();
    let found = keys(&folder);
    assert!(found == wanted, "{} entries for 4000 lines", found.len());
    assert_intact(&folder, 4000);
}

/// `check-receipts` refused every file of receipts in which one said `already_recorded`, as each repeated command prints them.
#[test]
fn receipts_of_a_command_that_is_repeated_are_held() {
    let folder = new_log();
    let input = b"{\"action\":\"read\",\"idempotency_key\":\"a\"}\n";
    let append = ["append", "audit", "--receipts"];
    let mut printed = Vec::new();
    for _ in 0..2 {
        printed.extend(run(folder.path(), &append, input).stdout);
    }
    assert!(
        text(&printed).contains("already_recorded"),
        "{}",
        text(&printed)
    );
    let check = [
        "check-receipts",
        "-",
        "--log",
        "audit",
        "--key",
        "audit.vkey",
    ];
    let checked = run(folder.path(), &check, &printed);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    assert!(
        text(&checked.stdout).contains("2 receipts"),
        "{}",
        text(&checked.stdout)
    );
}

#[test]
fn a_line_that_is_recorded_already_is_said_with_the_first_receipt() {
    let folder = new_log();
    let line = |key: &str, more: &str| {
        format!("{{\"action\":\"read\",\"key\":\"{more}\",\"idempotency_key\":\"{key}\"}}\n")
    };
    let receipts = |input: &str| {
        let args = ["append", "audit", "--receipts"];
        let appended = run(folder.path(), &args, input.as_bytes());
        assert!(appended.status.success(), "{}", text(&appended.stderr));
        let parse = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let lines = text(&appended.stdout);
        lines.lines().map(parse).collect::<Vec<_>>()
    };
    let first = receipts(&(line("a", "1") + &line("b", "2") + &line("a", "1")));
    let repeated = receipts(&(line("b", "2") + &line("c", "3")));
    let indices: Vec<_> = first
        .iter()
        .chain(&repeated)
        .map(|it| it["index"].as_u64().unwrap())
        .collect();
    assert_eq!(indices, [0, 1, 0, 1, 2]);
    assert_eq!(first[2]["already_recorded"], true);
    assert_eq!(first[0].get("already_recorded"), None);
    for (repeat, of) in [(&first[2], &first[0]), (&repeated[0], &first[1])] {
        assert_eq!(
            (&repeat["frame"], &repeat["record"]),
            (&of["frame"], &of["record"])
        );
    }
    let appended = run(
        folder.path(),
        &["append", "audit", "--json"],
        line("b", "2").as_bytes(),
    );
    let document: serde_json::Value = serde_json::from_slice(&appended.stdout).unwrap();
    assert_eq!(
        document,
        serde_json::json!({"version": 1, "command": "append", "status": 0, "stream": "default", "appended": 0, "refused": 0, "already_recorded": 1, "first_recorded": 1})
    );
    // Said of the line, without what either entry says.
    let reused = line("d", "4") + &line("a", "secret") + &line("e", "5");
    let refused = run(folder.path(), &["append", "audit"], reused.as_bytes());
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        text(&refused.stderr),
        "error: 1 entry appended, then line 2: the idempotency key stands for entry 0 of the stream, which says something \
         else\nhelp: give each entry an idempotency key of its own; if it is another entry, give it another key; then begin with it: \
         --from-line 2 --at-index 4; to leave it out, go on with: probity append audit - --stream default --from-line 3 \
         --at-index 4\n"
    );
    let skipped = run(
        folder.path(),
        &["append", "audit", "--skip-invalid"],
        reused.as_bytes(),
    );
    assert_eq!(skipped.status.code(), Some(1));
    assert_eq!(
        text(&skipped.stdout),
        "1 entry appended to stream default; 1 line was already recorded, the first as entry 3\n"
    );
    assert_intact(folder.path(), 5);
}

#[test]
fn names_before_lines_and_times_of_keys_are_checked() {
    let folder = new_log();
    let long = "x".repeat(235);
    let refused = [
        ["--idempotency-key", ""],
        ["--idempotency-key", &long],
        ["--key-interval", "0"],
        ["--key-interval", "86401"],
        ["--key-interval", "1h"],
    ];
    for [option, value] in refused {
        let args = ["append", "audit", option, value];
        let refused = run(folder.path(), &args, LINE);
        assert_eq!(refused.status.code(), Some(2), "{option} {value}");
        assert!(
            text(&refused.stderr).contains(option),
            "{}",
            text(&refused.stderr)
        );
    }
    let (option, long) = ("--idempotency-key", "x".repeat(234));
    let args = ["append", "audit", option, &long, "--key-interval", "1"];
    let taken = run(folder.path(), &args, LINE);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
}

/// UX 12: Ctrl-C ended `append` without a word of what is durable, and the next opening reported repairs.
#[test]
fn a_signal_ends_an_append_in_order_and_says_where_to_go_on() {
    for signal in ["INT", "TERM"] {
        let folder = new_log();
        let mut child = probity(folder.path(), &["append", "audit", "--receipts"])
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&LINE.repeat(2)).unwrap();
        stdin.write_all(b"\n{\"action\":\"x\"}\n").unwrap();
        let mut receipts = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..3 {
            receipts.next().unwrap().unwrap();
        }
        // Half a line is no entry.
        stdin.write_all(b"{\"action\":\"half").unwrap();
        let id = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", signal, &id])
                .status()
                .unwrap()
                .success()
        );
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1));
        assert_eq!(
            text(&ended.stderr),
            "error: 3 entries appended, then a signal asked to stop\n\
             help: go on with: probity append audit - --stream default --receipts --from-line 5 --at-index 3\n"
        );
        drop(stdin);
        let input = [
            &LINE.repeat(2)[..],
            b"\n{\"action\":\"x\"}\n{\"action\":\"y\"}\n",
        ]
        .concat();
        let advice = advised(&ended.stderr);
        let args: Vec<&str> = advice.iter().map(String::as_str).collect();
        let after = run(folder.path(), &args, &input);
        assert!(after.status.success(), "{}", text(&after.stderr));
        assert_eq!(text(&after.stderr), "", "nothing had to be repaired");
        assert_intact(folder.path(), 4);
    }
}

/// Runs, in a shell and as it was printed, what a failed `append` says to go on with.
fn typed(folder: &Path, stderr: &[u8], input: &[u8]) -> Output {
    let said = text(stderr);
    let (_, advice) = said.split_once("go on with: ").expect(&said);
    let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("PATH={}:$PATH; {advice}", program.display())])
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take().unwrap().write_all(input));
    child.wait_with_output().unwrap()
}

/// The advice repeated the line whose idempotency key stands for another entry, which was refused again.
#[test]
fn the_advice_after_a_conflict_of_keys_leaves_the_line_out_and_says_how_to_keep_it() {
    let line = |key: &str| format!("{{\"action\":\"read\",\"key\":\"{key}\"}}\n");
    let folder = new_log();
    let at = folder.path();
    let append = ["append", "audit", "--idempotency-key", "monday's"];
    let first = run(at, &append, (line("1") + &line("2")).as_bytes());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let changed = line("1") + &line("another") + &line("3");
    let refused = run(at, &append, changed.as_bytes());
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(
        said.contains("append it by itself, without --idempotency-key")
            && said.contains("begin with its first line; to leave it out here, go on with: "),
        "{said}"
    );
    let after = typed(at, &refused.stderr, changed.as_bytes());
    assert!(after.status.success(), "{}", text(&after.stderr));
    assert_eq!(keys(at), ["1", "2", "3"]);
    // By itself it is another entry.
    let kept = run(at, &["append", "audit"], line("another").as_bytes());
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    assert_eq!(keys(at), ["1", "2", "3", "another"]);
    assert_intact(at, 4);
}

/// The advice of an `append` that stopped left out receipts, proofs, durability and the place of
/// the second copies of the heads. Whoever typed it went on otherwise, and with other second
/// copies.
#[test]
fn the_advice_has_the_options_of_the_command_and_works_as_it_is_typed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let named = |args: &[&str], input: &[u8]| {
        let mut command = probity(at, args);
        command
            .env("PROBITY_HEADS", "second copies")
            .env("PROBITY_KEY_FILE", "root's key");
        let mut child = command.spawn().unwrap();
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap()
    };
    for args in [
        &["init", "an audit", "--origin", "example.com/audit"][..],
        &["stream", "create", "an audit", "persons"],
    ] {
        let made = named(args, b"");
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    let good = [&LINE.repeat(2)[..], b"{\"action\":\"x\"}\n"].concat();
    let args = [
        "append",
        "an audit",
        "in put.jsonl",
        "--stream",
        "persons",
        "--receipts",
        "--proofs",
        "the proofs",
        "--durability",
        "strict",
        "--compression",
        "none",
        "--key-interval",
        "60",
        "--idempotency-key=-it's",
    ];
    fs::write(
        at.join("in put.jsonl"),
        [&LINE.repeat(2)[..], b"hello\n"].concat(),
    )
    .unwrap();
    let stopped = named(&args, b"");
    assert_eq!(stopped.status.code(), Some(1), "{}", text(&stopped.stderr));
    assert_eq!(
        text(&stopped.stderr),
        "error: 2 entries appended, then line 3: column 1: not JSON: expected value\n\
         help: write one complete JSON object on each line; correct that line, then go on with: env PROBITY_HEADS='second copies' probity append \
         'an audit' 'in put.jsonl' --stream persons --key 'root'\\''s key' --compression none --receipts --proofs \
         'the proofs-2' --idempotency-key='-it'\\''s' --durability strict --key-interval 60 --from-line 3 --at-index 2\n"
    );
    fs::write(at.join("in put.jsonl"), good).unwrap();
    let after = typed(at, &stopped.stderr, b"");
    assert!(after.status.success(), "{}", text(&after.stderr));
    assert_eq!(text(&after.stderr), "");
    let receipt: serde_json::Value = serde_json::from_slice(&after.stdout).unwrap();
    assert_eq!(receipt["index"], 2);
    assert!(at.join("the proofs/persons.1.tlog-proof").exists());
    assert!(at.join("the proofs-2/persons.2.tlog-proof").exists());
    let verified = named(&["verify", "an audit"], b"");
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    assert!(!at.join("an audit.heads").exists());
}

/// A pipe that nobody wrote into kept `append` from noticing the first signal, as the input and as the key.
#[test]
fn one_signal_ends_an_append_that_waits_for_somebody_to_write_into_a_pipe() {
    let folder = new_log();
    let at = folder.path();
    let made = Command::new("mkfifo").arg(at.join("pipe")).status();
    assert!(made.unwrap().success());
    for args in [
        &["append", "audit", "pipe"][..],
        &["append", "audit", "--key", "pipe"],
    ] {
        for signal in ["INT", "TERM"] {
            let mut child = probity(at, args).spawn().unwrap();
            // Long enough to come to the pipe; sooner is no fault either.
            std::thread::sleep(Duration::from_millis(500));
            assert!(child.try_wait().unwrap().is_none(), "{args:?}");
            let id = child.id().to_string();
            let sent = Command::new("kill").args(["-s", signal, &id]).status();
            assert!(sent.unwrap().success());
            let patience = Instant::now() + Duration::from_secs(30);
            while child.try_wait().unwrap().is_none() && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(20));
            }
            let has_ended = child.try_wait().unwrap().is_some();
            drop(child.kill());
            let ended = child.wait_with_output().unwrap();
            let said = text(&ended.stderr);
            assert!(has_ended, "{args:?} {signal}: {said}");
            assert_eq!(ended.status.code(), Some(1), "{said}");
            assert!(said.contains("a signal asked to stop"), "{said}");
        }
    }
    // Whoever writes first is waited for, and the whole of it is read.
    let mut child = probity(at, &["append", "audit", "pipe"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none());
    fs::write(at.join("pipe"), LINE.repeat(2)).unwrap();
    assert!(child.wait().unwrap().success());
    assert_intact(at, 2);
}

/// `--proofs` within the log was refused when the first entry was recorded, with the word that nothing was written.
#[test]
fn a_folder_that_takes_no_proofs_is_refused_before_anything_is_appended() {
    let folder = new_log();
    let at = folder.path();
    fs::create_dir(at.join("audit/empty")).unwrap();
    for proofs in ["audit/proofs", "audit/empty", "audit.heads/proofs"] {
        let refused = run(at, &["append", "audit", "--proofs", proofs], LINE);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{proofs}: {said}");
        assert!(
            said.contains("the log") && said.contains("nothing was written"),
            "{said}"
        );
        assert!(!said.contains("appended"), "{said}");
        assert!(!at.join("audit/proofs").exists() && !at.join("audit.heads/proofs").exists());
    }
    fs::remove_dir(at.join("audit/empty")).unwrap();
    assert_intact(at, 0);
    // A fault that arises later is reported with what is there, and not advised again.
    fs::create_dir(at.join("outer")).unwrap();
    let append = ["append", "audit", "--proofs", "outer/proofs", "--receipts"];
    let mut child = probity(at, &append).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    while !at.join("outer/proofs").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::create_dir(at.join("outer/keys")).unwrap();
    fs::copy(at.join("audit/probity.toml"), at.join("outer/probity.toml")).unwrap();
    stdin.write_all(LINE).unwrap();
    drop(stdin);
    let refused = child.wait_with_output().unwrap();
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("error: 1 entry appended, then cannot write outer/proofs"),
        "{said}"
    );
    assert!(
        !said.contains("nothing was written") && !said.contains("--proofs"),
        "{said}"
    );
    // The advice to go on ended with success, and nothing named the proof that was never made.
    let missing =
        "entry 0 has no proof yet; make it with: probity prove audit --stream default --index 0";
    assert!(said.contains(missing), "{said}");
    let after = typed(at, &refused.stderr, LINE);
    // Standard input is read from the line on that the advice names.
    assert!(after.status.success(), "{}", text(&after.stderr));
    assert_intact(at, 1);
}
