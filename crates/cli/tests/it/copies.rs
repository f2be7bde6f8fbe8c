//! The folder of the second copies of the heads: whose they are, where they go, and older copies of a log beside them.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, moves files, and waits for another process"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use probity_testing::program::Program;
use tempfile::TempDir;

const PROBITY: Program = Program::new(env!("CARGO_BIN_EXE_probity"));
const LINE: &[u8] = b"{\"action\":\"read\",\"subject\":\"alice\"}\n";
const PATIENCE: Duration = Duration::from_mins(1);

/// Begins the program in `at`, with `heads` as `PROBITY_HEADS`.
fn begin(at: &Path, heads: Option<&str>, args: &[&str]) -> Child {
    let mut command = PROBITY.command(at, args);
    command.envs(heads.map(|heads| ("PROBITY_HEADS", heads)));
    command.spawn().unwrap()
}

/// Returns both outputs of a program that ended with `status`.
fn texts(output: &Output, status: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{stdout}{stderr}");
    (stdout, stderr)
}

fn probity(at: &Path, heads: Option<&str>, args: &[&str], status: i32) -> (String, String) {
    let mut child = begin(at, heads, args);
    // A command that reads no input may have ended.
    drop(child.stdin.take().unwrap().write_all(LINE));
    texts(&child.wait_with_output().unwrap(), status)
}

/// Returns the names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Copies a folder as a backup does.
fn copy(at: &Path, from: &str, to: &str) {
    let mut copy = Command::new("cp");
    let copied = copy.args(["-a", from, to]).current_dir(at).status();
    assert!(copied.unwrap().success());
}

/// Makes the log `a` with second copies in `h`, which hold two entries' heads.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, Some("h"), &["init", "a"], 0);
    probity(at, Some("h"), &["append", "a"], 0);
    probity(at, Some("h"), &["append", "a"], 0);
    folder
}

fn is_about_another(said: &str, heads: &str) {
    let told = format!("{heads} holds the second copies of the heads of another log, a\n");
    assert!(said.contains(&told), "{said}");
    assert!(said.contains("PROBITY_HEADS names that folder"), "{said}");
    assert!(
        said.contains("a folder of second copies of its own"),
        "{said}"
    );
    assert!(
        said.contains("leave the copies of the other where they are"),
        "{said}"
    );
    assert!(!said.contains("away"), "{said}");
}

/// With one folder named for two logs, the second creation ended in the middle, called the evidence
/// broken and advised to move away the copies of the first: the only sign of its rollback.
#[test]
fn a_new_log_is_refused_where_another_log_keeps_its_copies_and_nothing_is_made() {
    let folder = place();
    let at = folder.path();
    let before = names(at);
    let copies = names(&at.join("h"));
    let made: [&[&str]; 3] = [
        &["init", "b"],
        &["init", "b", "--origin", "a"],
        &[
            "proxy",
            "--log",
            "b",
            "--init",
            "--store",
            "s",
            "--listen",
            "127.0.0.1:0",
        ],
    ];
    for args in made {
        let (_, said) = probity(at, Some("h"), args, 1);
        is_about_another(&said, "h");
        assert_eq!(names(at), before, "{args:?}");
        assert_eq!(names(&at.join("h")), copies);
    }
    let (document, _) = probity(at, Some("h"), &["init", "b", "--json"], 1);
    assert!(
        document.contains(r#""status":1,"error":"h holds"#),
        "{document}"
    );
    // The copies of a log beside whose folder nothing is left.
    let (_, said) = probity(at, None, &["init", "c"], 0);
    assert_eq!(said, "");
    for gone in ["c", "c.key", "c.vkey"] {
        let gone = at.join(gone);
        if gone.is_dir() {
            fs::remove_dir_all(gone).unwrap();
        } else {
            fs::remove_file(gone).unwrap();
        }
    }
    let (_, said) = probity(at, None, &["init", "c"], 1);
    assert!(said.contains("PROBITY_HEADS is not set"), "{said}");
    assert!(!said.contains("away"), "{said}");
    // The advice.
    probity(at, Some("h-of-b"), &["init", "b"], 0);
    probity(at, Some("h-of-b"), &["append", "b"], 0);
    probity(at, Some("h"), &["append", "a"], 0);
    probity(at, Some("h"), &["verify", "a", "--key", "a.vkey"], 0);
}

/// An opening with the copies of another log said "rolled back", "restore the newer copy" or "move
/// the copy away", whichever came first.
#[test]
fn every_command_says_that_the_copies_are_another_logs() {
    let folder = place();
    let at = folder.path();
    probity(at, None, &["init", "b"], 0);
    probity(at, None, &["append", "b"], 0);
    let copies = names(&at.join("h"));
    let commands: [&[&str]; 9] = [
        &["append", "b"],
        &["export", "b", "--format", "jsonl"],
        &["export", "b", "--format", "jsonl", "--damaged-too"],
        &["prove", "b", "--index", "0", "-o", "proof"],
        &["keys", "status", "b"],
        &["keys", "chain", "b", "-o", "chain"],
        &["stream", "create", "b", "more"],
        &["stream", "list", "b"],
        &[
            "proxy",
            "--log",
            "b",
            "--store",
            "s",
            "--listen",
            "127.0.0.1:0",
        ],
    ];
    for args in commands {
        let (_, said) = probity(at, Some("h"), args, 3);
        is_about_another(&said, "h");
    }
    let verifications: [(Option<&str>, &[&str]); 2] = [
        (Some("h"), &["verify", "b"]),
        (None, &["verify", "b", "--heads", "h"]),
    ];
    for (heads, args) in verifications {
        let (found, _) = probity(at, heads, args, 3);
        let faults: Vec<&str> = found
            .lines()
            .filter(|line| line.starts_with("fault"))
            .collect();
        assert_eq!(faults.len(), 3, "{found}");
        for fault in faults {
            assert!(fault.contains("is of a/streams/"), "{fault}");
            assert!(fault.contains("another log: a log has a folder of second copies of its own"));
            assert!(!fault.contains("away"), "{fault}");
        }
    }
    assert_eq!(names(&at.join("h")), copies);
    // Neither log was changed.
    probity(at, None, &["verify", "b", "--key", "b.key"], 0);
    probity(at, Some("h"), &["verify", "a", "--key", "a.key"], 0);
}

/// Two logs of one name cannot be told apart by it: the advice is right for both causes.
#[test]
fn copies_of_another_log_of_the_same_name_are_never_advised_away() {
    let folder = place();
    let at = folder.path();
    fs::create_dir(at.join("x")).unwrap();
    probity(&at.join("x"), None, &["init", "a"], 0);
    let heads = at.join("h");
    let heads = heads.to_str();
    let (_, said) = probity(&at.join("x"), heads, &["append", "a"], 3);
    assert!(
        said.contains("where another log of the same name keeps"),
        "{said}"
    );
    assert!(!said.contains("away"), "{said}");
    let (found, _) = probity(&at.join("x"), heads, &["verify", "a"], 3);
    assert!(
        found.contains("or another log of its name keeps its copies there"),
        "{found}"
    );
    assert!(!found.contains("away"), "{found}");
}

/// The disk of the copies was unmounted, and the message blamed another writer or an edit.
#[test]
fn copies_that_are_gone_under_a_writer_are_said_to_be_gone() {
    for gone in ["h", "h/default"] {
        let folder = place();
        let at = folder.path();
        let mut child = begin(at, Some("h"), &["append", "a", "--receipts"]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(LINE).unwrap();
        let began = Instant::now();
        let read = || fs::read(at.join("h/default")).unwrap();
        let before = read();
        while read() == before {
            assert!(began.elapsed() < PATIENCE, "nothing was published");
            sleep(Duration::from_millis(20));
        }
        fs::rename(at.join(gone), at.join("elsewhere")).unwrap();
        // Writing goes on until the failure shows.
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{gone}: nothing ended");
            drop(input.write_all(LINE));
            sleep(Duration::from_millis(50));
        }
        drop(input);
        let (_, said) = texts(&child.wait_with_output().unwrap(), 1);
        assert!(
            said.contains("h does not hold the second copy of the head of stream"),
            "{said}"
        );
        assert!(said.contains("was moved, emptied or unmounted"), "{said}");
        assert!(said.contains("help: mount the disk"), "{said}");
        assert!(!said.contains("another writer"), "{said}");
        // The advice.
        fs::rename(at.join("elsewhere"), at.join(gone)).unwrap();
        probity(at, Some("h"), &["append", "a"], 0);
        probity(at, Some("h"), &["verify", "a", "--key", "a.vkey"], 0);
    }
}

/// Returns the first block of commands below `heading` of a manual.
fn commands(manual: &str, heading: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join(manual)).unwrap();
    let (_, section) = text.split_once(&format!("{heading}\n")).unwrap();
    let (_, block) = section.split_once("```text\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// The manual said that an older copy is read without more. With the variable set, or beside newer
/// copies, both commands ended with status 3, and `prove` named no way.
#[test]
fn an_older_copy_is_read_by_the_commands_of_the_manual() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for made in ["srv", "backup", "old"] {
        fs::create_dir(at.join(made)).unwrap();
    }
    let heads = at.join("heads");
    let heads = heads.to_str();
    probity(at, heads, &["init", "srv/audit"], 0);
    probity(at, heads, &["append", "srv/audit"], 0);
    copy(at, "srv/audit", "backup/audit");
    probity(at, heads, &["append", "srv/audit"], 0);
    // Where the variable is set, both say what to do.
    let export = [
        "export",
        "backup/audit",
        "--key",
        "srv/audit.key",
        "--format",
        "jsonl",
    ];
    let prove = [
        "prove",
        "backup/audit",
        "--key",
        "srv/audit.key",
        "--index",
        "0",
        "-o",
        "p",
    ];
    for args in [export.as_slice(), &prove] {
        let (_, said) = probity(at, heads, args, 3);
        let advice = "without DIR.heads beside it and with PROBITY_HEADS unset";
        assert!(said.contains(advice), "{said}");
    }
    let program = env!("CARGO_BIN_EXE_probity");
    let script = commands("docs/operating.md", "### Reading an older copy");
    let script = script
        .replace("probity ", &format!("{program} "))
        .replace("/backup", "backup")
        .replace("/old", "old")
        .replace("/srv", "srv");
    let mut sh = Command::new("sh");
    sh.args(["-e", "-c", &script]).current_dir(at);
    sh.env_remove("PROBITY_KEY_FILE");
    sh.env("PROBITY_HEADS", heads.unwrap());
    let (text, _) = texts(&sh.output().unwrap(), 0);
    assert!(text.contains("alice"), "{text}");
    let proof = at.join("entry.tlog-proof");
    assert!(proof.is_file(), "{text}");
    let check = ["check-proof", "entry.tlog-proof", "--key", "srv/audit.vkey"];
    probity(at, None, &check, 0);
}

/// The manual said that writing to an older copy is refused. It is where the copies are newer, and
/// only there; the manual says which states pass, and this holds them to it.
#[test]
fn an_older_copy_is_written_to_as_the_manual_says() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, None, &["init", "a"], 0);
    probity(at, None, &["append", "a"], 0);
    copy(at, "a", "a.backup");
    copy(at, "a.heads", "a.heads.backup");
    // The published second entry is what the backup lacks.
    probity(at, None, &["append", "a"], 0);
    let restore = |log: &str, from: &str| {
        drop(fs::remove_dir_all(at.join(log)));
        copy(at, from, log);
    };
    restore("refused", "a.backup");
    copy(at, "a.heads", "refused.heads");
    let key = ["--key", "a.key"];
    let append = |log: &str, status: i32| {
        let args = [&["append", log], key.as_slice()].concat();
        probity(at, None, &args, status).1
    };
    let said = append("refused", 3);
    assert!(said.contains("rolled back"), "{said}");
    restore("warned", "a.backup");
    let said = append("warned", 0);
    assert!(said.contains("warned.heads held no second copy"), "{said}");
    restore("silent", "a.backup");
    copy(at, "a.heads.backup", "silent.heads");
    assert_eq!(append("silent", 0), "");
    // A checkpoint that somebody kept finds it.
    let since = [
        "verify",
        "silent",
        "--since",
        "a/streams/default/checkpoint",
    ];
    let (found, _) = probity(at, None, &since, 3);
    assert!(found.contains("broken"), "{found}");
    let manual =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md"));
    let manual = manual.unwrap();
    for said in [
        "status 3, `the log was rolled back`",
        "a warning",
        "**nothing says it**",
    ] {
        assert!(manual.contains(said), "{said}");
    }
}

/// A slash behind a link to the log had another folder of second copies: yesterday's log was read
/// with status 0 and continued beside the newest, and the newest refused where the slash was typed.
#[test]
fn a_link_with_a_slash_has_the_copies_of_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir(at.join("data")).unwrap();
    probity(at, None, &["init", "data/log"], 0);
    std::os::unix::fs::symlink("data/log", at.join("audit")).unwrap();
    let with_key = |args: &[&'static str]| [args, &["--key", "data/log.key"]].concat();
    let spellings = ["audit", "audit/", "audit/.", "./audit//", "data/log/"];
    probity(at, None, &with_key(&["append", "audit/"]), 0);
    copy(at, "data/log", "yesterday");
    // The newest log in every spelling, each after all others.
    for spelling in spellings {
        probity(at, None, &with_key(&["append", spelling]), 0);
        probity(at, None, &with_key(&["verify", spelling]), 0);
        let export = ["export", spelling, "--format", "jsonl"];
        probity(at, None, &with_key(&export), 0);
    }
    assert_eq!(
        names(&at.join("data")),
        ["log", "log.heads", "log.key", "log.vkey"]
    );
    assert!(!at.join("audit.heads").exists());
    fs::rename(at.join("data/log"), at.join("newest")).unwrap();
    copy(at, "yesterday", "data/log");
    for spelling in spellings {
        let export = ["export", spelling, "--format", "jsonl"];
        let prove = ["prove", spelling, "--index", "0", "-o", "proof"];
        for args in [
            &["append", spelling][..],
            &["verify", spelling],
            &export,
            &prove,
        ] {
            probity(at, None, &with_key(args), 3);
        }
    }
    assert!(!at.join("audit.heads").exists());
}
