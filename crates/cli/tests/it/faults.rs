//! Faults that a person or a machine can cause while the program runs, shown on the real program.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use probity_log::advice;
use probity_log::storage::SmallDisk;

use crate::audit::{LINE, assert_intact, new_log, probity, run, text};

/// Returns the most memory a process has had, from the kernel's account of it.
fn memory_peak_kib(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn a_gigabyte_line_is_refused_in_little_memory() {
    let folder = new_log();
    let mut child = probity(folder.path(), &["append", "audit", "--skip-invalid"])
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE).unwrap();
    stdin
        .write_all(b"{\"action\":\"read\",\"payload\":\"")
        .unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        stdin.write_all(&piece).unwrap();
    }
    let peak = memory_peak_kib(&child).unwrap();
    stdin.write_all(b"\"}\n").unwrap();
    stdin.write_all(LINE).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(peak <= 64 * 1024, "{peak} KiB");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("line 2: longer than 2097152 bytes\nhelp: "));
    assert_eq!(
        text(&output.stdout),
        "2 entries appended to stream default\n"
    );
    assert_intact(folder.path(), 2);
}

#[test]
fn a_gigabyte_line_ends_the_command_with_what_came_before_durable() {
    let folder = new_log();
    let mut child = probity(folder.path(), &["append", "audit"])
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(LINE).unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        stdin.write_all(&piece).unwrap();
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("error: 1 entry appended, then line 2: longer than"),
        "{message}"
    );
    assert_intact(folder.path(), 1);
}

/// `ulimit -f` ended `append` by a signal, with status 153 and no word about what was recorded.
#[test]
fn a_limit_of_the_size_of_files_is_a_failure_to_write() {
    let folder = new_log();
    let line = String::from_utf8(LINE.to_vec()).unwrap();
    fs::write(folder.path().join("input"), line.repeat(100_000)).unwrap();
    let script = format!(
        "ulimit -f 64; exec {} append audit < input",
        env!("CARGO_BIN_EXE_probity")
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("File too large") && said.contains("--from-line"),
        "{said}"
    );
}

#[test]
fn a_second_writer_is_refused_and_disturbs_nothing() {
    let folder = new_log();
    let mut first = probity(folder.path(), &["append", "audit", "--receipts"])
        .spawn()
        .unwrap();
    let mut stdin = first.stdin.take().unwrap();
    let mut receipts = BufReader::new(first.stdout.take().unwrap()).lines();
    stdin.write_all(LINE).unwrap();
    // A receipt comes while the input is still open: the other end may wait for it.
    let receipt = receipts.next().unwrap().unwrap();
    assert!(
        receipt.starts_with(r#"{"line":1,"stream":"default","index":0,"#),
        "{receipt}"
    );
    let second = run(folder.path(), &["append", "audit"], LINE);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(
        text(&second.stderr),
        "error: another process is writing to audit\nhelp: stop the other writer, or, if it is a server, send it the \
         request; one database of disguises needs one log; verify and export need no lock\n"
    );
    // Readers need no lock.
    let export = run(
        folder.path(),
        &["export", "audit", "--format", "jsonl"],
        b"",
    );
    assert_eq!(text(&export.stdout).lines().count(), 1);
    let verified = run(folder.path(), &["verify", "audit"], b"");
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stdout)
    );
    stdin.write_all(LINE).unwrap();
    drop(stdin);
    let receipt = receipts.next().unwrap().unwrap();
    assert!(
        receipt.starts_with(r#"{"line":2,"stream":"default","index":1,"#),
        "{receipt}"
    );
    assert!(first.wait().unwrap().success());
    assert_intact(folder.path(), 2);
}

#[test]
fn a_read_only_disk_is_said_with_place_and_remedy_and_can_be_read() {
    let Some(mut disk) = SmallDisk::mounted("the program on a read-only disk", 512 << 10) else {
        return;
    };
    let folder = disk.path().to_owned();
    assert!(run(&folder, &["init", "audit"], b"").status.success());
    assert!(run(&folder, &["append", "audit"], LINE).status.success());
    disk.remount("ro").unwrap();
    let refused = run(&folder, &["append", "audit"], LINE);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        text(&refused.stderr),
        "error: cannot lock audit/lock: Read-only file system (os error 30)\n\
         help: mount the file system for writing\n"
    );
    assert_intact(&folder, 1);
    let export = run(&folder, &["export", "audit", "--format", "jsonl"], b"");
    assert_eq!(text(&export.stdout).lines().count(), 1);
}

/// Runs the copy of the program in `folder` with `arguments`, for a user who owns nothing here.
fn as_nobody(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(folder.join("probity")).args(arguments);
    command.current_dir(folder).env_remove("PROBITY_KEY_FILE");
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn missing_permission_is_said_with_place_and_remedy_and_an_auditor_needs_none_to_write() {
    let folder = new_log();
    assert!(
        run(folder.path(), &["append", "audit"], LINE)
            .status
            .success()
    );
    let change = |mode: &str, names: &[&str]| {
        let mut command = Command::new("chmod");
        let changed = command.arg("-R").arg(mode).args(names);
        assert!(
            changed
                .current_dir(folder.path())
                .status()
                .unwrap()
                .success()
        );
    };
    let superuser = rustix::process::geteuid().is_root();
    let append = || {
        if superuser {
            as_nobody(folder.path(), &["append", "audit", "--key", "audit.key"])
        } else {
            run(folder.path(), &["append", "audit"], b"")
        }
    };
    if superuser {
        // Other users may not enter the folder where the program was built.
        let program = env!("CARGO_BIN_EXE_probity");
        fs::copy(program, folder.path().join("probity")).unwrap();
        let path = folder.path().to_str().unwrap();
        change("a+rX", &[path]);
        change("go-rwx", &["audit/keys"]);
    } else {
        change("a-w", &["audit"]);
    }
    let refused = append();
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    let end = "error: cannot lock audit/lock: Permission denied (os error 13)\n\
               help: check who owns the folder and its permissions\n";
    assert!(said.ends_with(end), "{said}");
    // Whoever checks the log needs neither keys nor the right to write.
    let verify = ["verify", "audit"];
    let verified = if superuser {
        as_nobody(folder.path(), &verify)
    } else {
        run(folder.path(), &verify, b"")
    };
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stderr)
    );
    if superuser {
        change("go-rwx", &["audit"]);
        let refused = append();
        assert_eq!(refused.status.code(), Some(1));
        let said = text(&refused.stderr);
        let end = ": Permission denied (os error 13)\nhelp: check who owns the folder and its permissions\n";
        assert!(said.contains(" audit") && said.ends_with(end), "{said}");
    }
    change("u+rwX", &["audit"]);
    assert_intact(folder.path(), 1);
}

#[test]
fn the_key_of_another_log_is_refused() {
    let folder = new_log();
    assert!(run(folder.path(), &["init", "other"], b"").status.success());
    let export = ["export", "audit", "--format", "jsonl", "--key", "other.key"];
    for (command, option) in [
        (
            &["append", "audit", "--key", "other.key"][..],
            "--key FILE or PROBITY_KEY_FILE",
        ),
        (&export, "--key FILE or PROBITY_KEY_FILE"),
        (&["verify", "audit", "--key", "other.key"], "--key FILE"),
    ] {
        let refused = run(folder.path(), command, LINE);
        assert_eq!(refused.status.code(), Some(1), "{command:?}");
        assert_eq!(
            text(&refused.stderr),
            format!(
                "error: the root key does not open the folder keys/: it is another log's key, or keys/ is another log's\n\
                 help: give this log's own root key with {option}; if it is this one, {}\n",
                advice::FIXED_KEYS
            )
        );
    }
    assert_intact(folder.path(), 0);
}

#[test]
fn a_creation_cut_short_is_said_and_done_again_with_the_same_key() {
    let folder = new_log();
    let key = fs::read(folder.path().join("audit.key")).unwrap();
    // A crash before the first frame is durable leaves this.
    fs::remove_dir_all(folder.path().join("audit/streams")).unwrap();
    fs::remove_dir_all(folder.path().join("audit.heads")).unwrap();
    // The writer's own note of what is durable tells an emptied log from one that never began.
    let emptied = run(folder.path(), &["append", "audit"], LINE);
    assert_eq!(emptied.status.code(), Some(3));
    fs::remove_file(folder.path().join("audit/durable")).unwrap();
    let refused = run(folder.path(), &["append", "audit"], LINE);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        text(&refused.stderr),
        "error: the log at audit was never completely created\n\
         help: if anything was ever recorded in it, the log was emptied: keep this folder under another name and put a copy back; only if nothing ever was, create it \
         again with: probity init audit\n"
    );
    // The verifier key is written last: where it is there, the log was complete, and nothing replaces it.
    let refused = run(folder.path(), &["init", "audit"], b"");
    assert!(
        text(&refused.stderr).contains("audit.vkey is there already, the verifier key of a log")
    );
    fs::remove_file(folder.path().join("audit.vkey")).unwrap();
    let again = run(folder.path(), &["init", "audit"], b"");
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(fs::read(folder.path().join("audit.key")).unwrap(), key);
    assert!(
        run(folder.path(), &["append", "audit"], LINE)
            .status
            .success()
    );
    assert_intact(folder.path(), 1);
    let exists = run(folder.path(), &["init", "audit"], b"");
    assert!(text(&exists.stderr).starts_with("error: audit holds a log already\n"));
    assert_intact(folder.path(), 1);
}

#[test]
fn receipts_given_before_a_kill_are_there_afterwards() {
    let folder = new_log();
    let mut child = probity(folder.path(), &["append", "audit", "--receipts"])
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut receipts = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..100 {
        stdin.write_all(LINE).unwrap();
    }
    for _ in 0..100 {
        receipts.next().unwrap().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let verified = run(folder.path(), &["verify", "audit"], b"");
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stdout)
    );
    let after = run(folder.path(), &["append", "audit", "--receipts"], LINE);
    assert_eq!(
        text(&after.stdout).split_once(",\"log\"").unwrap().0,
        "{\"line\":1,\"stream\":\"default\",\"index\":100"
    );
    assert_intact(folder.path(), 101);
}

#[test]
fn a_reader_that_goes_away_fails_the_command_in_one_line() {
    let folder = new_log();
    let entries = LINE.repeat(50_000);
    assert!(
        run(folder.path(), &["append", "audit"], &entries)
            .status
            .success()
    );
    let mut child = probity(folder.path(), &["export", "audit", "--format", "jsonl"])
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    let said = "error: standard output was closed before its end\n";
    assert_eq!(text(&output.stderr), said);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_full_disk_under_standard_output_is_said() {
    let folder = new_log();
    assert!(
        run(folder.path(), &["append", "audit"], LINE)
            .status
            .success()
    );
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = probity(folder.path(), &["export", "audit", "--format", "csv"]);
    let output = command
        .stdout(full)
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("error: cannot write to standard output: No space left"),
        "{message}"
    );
}

#[test]
fn one_changed_byte_is_found_with_class_and_place() {
    let folder = new_log();
    assert!(
        run(folder.path(), &["append", "audit"], &LINE.repeat(1000))
            .status
            .success()
    );
    let segments = folder.path().join("audit/streams/default/segments");
    let segment = fs::read_dir(&segments)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let mut file = fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all(&bytes).unwrap();
    let verified = run(folder.path(), &["verify", "audit", "--json"], b"");
    assert_eq!(verified.status.code(), Some(3));
    let document: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    let fault = &document["faults"][0];
    assert_eq!(
        (&fault["class"], &fault["stream"]),
        (&"frame".into(), &"default".into())
    );
    assert!(
        fault["place"].as_str().unwrap().contains(".seg"),
        "{document}"
    );
}

#[test]
fn a_log_put_back_from_a_copy_is_refused_by_the_heads_kept_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = probity(folder.path(), args);
        let mut child = command
            .env("PROBITY_HEADS", elsewhere.path())
            .spawn()
            .unwrap();
        drop(child.stdin.take().unwrap().write_all(LINE));
        child.wait_with_output().unwrap()
    };
    assert!(run(&["init", "audit"]).status.success());
    assert!(run(&["append", "audit"]).status.success());
    assert!(elsewhere.path().join("default").exists());
    assert!(!folder.path().join("audit.heads").exists());
    let copied = Command::new("cp")
        .args(["-a", "audit", "older"])
        .current_dir(folder.path())
        .status();
    assert!(copied.unwrap().success());
    assert!(run(&["append", "audit"]).status.success());
    let refused = run(&["append", "older", "--key", "audit.key"]);
    assert_eq!(refused.status.code(), Some(3));
    let said = text(&refused.stderr);
    assert!(said.contains("rolled back"), "{said}");
    // Another log must not take the place of this one's heads.
    let taken = run(&["init", "another"]);
    assert!(!taken.status.success());
    assert!(text(&taken.stderr).contains("second copies of the heads of another log"));
    assert!(run(&["append", "audit"]).status.success());
}

#[test]
fn the_root_key_is_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["init", "audit"], b"");
    let key = fs::read_to_string(folder.path().join("audit.key")).unwrap();
    let secret = key.trim().rsplit(' ').next().unwrap();
    let status = run(folder.path(), &["keys", "status", "audit", "--json"], b"");
    let verified = run(
        folder.path(),
        &["verify", "audit", "--key", "audit.key"],
        b"",
    );
    for output in [made, status, verified] {
        assert!(output.status.success());
        assert!(!text(&output.stdout).contains(secret) && !text(&output.stderr).contains(secret));
    }
    for entry in fs::read_dir(folder.path().join("audit/keys")).unwrap() {
        let stored = fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&stored).contains(secret));
    }
}
