//! The worth of a head that somebody keeps, against whoever holds all keys of the log.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and waits for another process"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::evidence::{append, copy, entry, place, probity};

/// Waits until the checkpoint of the stream `default` covers `frames`.
fn await_published(log: &Path, frames: &str) {
    let checkpoint = log.join("streams/default/checkpoint");
    let covers = || {
        let note = fs::read_to_string(&checkpoint).unwrap();
        note.lines().nth(1) == Some(frames)
    };
    let patience = Instant::now() + Duration::from_mins(1);
    while !covers() {
        assert!(Instant::now() < patience, "{frames} are not published");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// With a head that the log had signed and an older copy in its place, `prove --checkpoint` said with status 1 to wait for the writer or to open that
/// copy for writing. The head shows that it was put back: status 3, and nothing is to be written.
#[test]
fn a_head_that_was_kept_shows_an_older_copy_to_whoever_makes_a_proof() {
    let folder = place();
    let at = folder.path();
    let audit = at.join("audit");
    let mut writer = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["append", "audit", "--key", "audit.key"])
        .current_dir(at)
        .env_remove("PROBITY_HEADS")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    input.write_all(entry("second").as_bytes()).unwrap();
    await_published(&audit, "2");
    copy(at, "audit", "back");
    input.write_all(entry("third").as_bytes()).unwrap();
    await_published(&audit, "3");
    fs::copy(audit.join("streams/default/checkpoint"), at.join("kept")).unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success());
    for opened in [false, true] {
        if opened {
            probity(at, &["append", "back", "--key", "audit.key"], "", 0);
        }
        let prove = [
            "prove",
            "back",
            "--index",
            "1",
            "-o",
            "proof",
            "--key",
            "audit.key",
            "--checkpoint",
            "kept",
        ];
        let (_, said) = probity(at, &prove, "", 3);
        assert!(
            said.contains("an older copy of the log was put back"),
            "{said}"
        );
        assert!(!said.contains("for writing"), "{said}");
        assert!(said.contains("verify back --since kept"), "{said}");
        assert!(!at.join("proof").exists());
    }
}

/// A proof of an entry of the journal, made for the keeper of an older head of the journal, was
/// undecided for that keeper, with the advice to ask for the very proof that it was.
#[test]
fn a_proof_for_the_keeper_of_a_head_is_accepted_beside_that_head() {
    let folder = place();
    let at = folder.path();
    append(at, "audit", "late");
    let heads = [
        ("journal", "journal"),
        ("heads", "heads"),
        ("heads", "journal"),
        ("default", "default"),
        ("default", "journal"),
    ];
    for (number, (stream, kept)) in heads.into_iter().enumerate() {
        let kept = format!("--checkpoint older/streams/{kept}/checkpoint");
        for command in [
            format!("prove audit --stream {stream} --index 0 -o proof-{number} {kept}"),
            format!("check-proof proof-{number} --key audit.vkey {kept}"),
        ] {
            probity(at, &command.split(' ').collect::<Vec<_>>(), "", 0);
        }
    }
}

/// The command in the remedy of `said`, as a shell runs it.
fn advised(at: &Path, said: &str) -> (String, i32) {
    let (_, rest) = said.split_once("probity verify").unwrap();
    let rest = rest.split(['\n', ';']).next().unwrap();
    let command = format!("probity verify{rest}");
    let folder = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let done = Command::new("sh")
        .args(["-c", &command])
        .current_dir(at)
        .env("PATH", path)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .output()
        .unwrap();
    (command, done.status.code().unwrap())
}

/// Checks that `prove older` under the `heads` of journal and stream ends with `status`, and that its
/// remedy names the file, gives the advice, and has a command that ends with the last status.
fn check_remedy(
    at: &Path,
    [journal, stream]: [&str; 2],
    status: i32,
    (named, advice, compared): (&str, &str, i32),
) {
    let args = [
        "prove",
        "older",
        "--index",
        "0",
        "-o",
        "proof",
        "--key",
        "audit.key",
    ];
    let heads = ["--checkpoint", journal, "--checkpoint", stream];
    let (_, said) = probity(at, &[&args[..], &heads].concat(), "", status);
    assert!(said.contains(&format!("the head is in {named};")), "{said}");
    assert!(said.contains(advice), "{said}");
    let (command, ended) = advised(at, &said);
    assert_eq!(command, format!("probity verify older --since {named}"));
    assert_eq!(ended, compared, "{command}");
    for ending in ["", ".heads"] {
        let (now, then) = (format!("older{ending}"), format!("before{ending}"));
        let same = Command::new("diff")
            .args(["-r", &now, &then])
            .current_dir(at)
            .status();
        assert!(same.unwrap().success(), "{command}");
    }
    assert!(!at.join("proof").exists());
}

/// The remedy for a head that the recipient keeps named the journal's checkpoint, whichever file
/// was wrong, and a placeholder for that file. Whoever gave two heads compared the wrong one.
#[test]
fn the_remedy_for_a_kept_head_names_its_file_and_its_command_changes_nothing() {
    let folder = place();
    let at = folder.path();
    let keep = |log: &str, stream: &str, to: &str| {
        fs::copy(
            at.join(format!("{log}/streams/{stream}/checkpoint")),
            at.join(to),
        )
        .unwrap();
    };
    keep("older", "journal", "journal head");
    keep("older", "default", "older head");
    append(at, "audit", "second");
    keep("audit", "default", "stream head");
    keep("audit", "journal", "newer head");
    probity(
        at,
        &["init", "other", "--origin", "example.com/other"],
        "",
        0,
    );
    let append_to = ["append", "other", "--key", "other.key"];
    probity(at, &append_to, &entry("nobody"), 0);
    keep("other", "default", "another");
    keep("other", "journal", "another journal");
    copy(at, "older", "before");
    let check = |heads, status, of_file| check_remedy(at, heads, status, of_file);
    let put_back = "put the newer copy of the whole log back";
    let (of_stream, of_journal) = ("streams/default/checkpoint", "streams/journal/checkpoint");
    check(
        ["journal head", "stream head"],
        1,
        ("'stream head'", of_stream, 3),
    );
    check(
        ["newer head", "older head"],
        3,
        ("'newer head'", put_back, 3),
    );
    check(["journal head", "another"], 1, ("another", of_stream, 2));
    check(
        ["another journal", "older head"],
        1,
        ("'another journal'", of_journal, 2),
    );
}

/// S17: a folder from yesterday's backup, with its key, signs a forged entry of which `check-proof` says that it holds. Whoever
/// keeps one head of the true log compares with it, and the forgery does not stand under that head.
#[test]
fn a_forgery_of_an_expired_key_does_not_stand_under_a_head_that_was_kept() {
    let folder = place();
    let at = folder.path();
    append(at, "audit", "second");
    fs::copy(at.join("audit/streams/default/checkpoint"), at.join("kept")).unwrap();
    append(at, "older", "forger");
    let prove = |log: &str, index: &str, to: &str, more: &[&str], status| {
        let args = [
            "prove",
            log,
            "--index",
            index,
            "-o",
            to,
            "--key",
            "audit.key",
        ];
        probity(at, &[&args, more].concat(), "", status).1
    };
    let check = |file: &str, more: &[&str], status| {
        let args = ["check-proof", file, "--key", "audit.vkey"];
        let (stdout, stderr) = probity(at, &[&args, more].concat(), "", status);
        stdout + &stderr
    };
    let kept = ["--checkpoint", "kept"];
    prove("older", "1", "forged", &[], 0);
    assert!(check("forged", &[], 0).contains("forger"));
    let found = check("forged", &kept, 3);
    assert!(
        found.starts_with("broken, checkpoint: another history was signed"),
        "{found}"
    );
    // Of another size, nothing can be said about the two heads: it is not taken for proved.
    append(at, "older", "forger");
    prove("older", "1", "longer", &[], 0);
    assert!(check("longer", &kept, 1).contains("they cannot be compared"));
    // The head is signed by no key of the forged log, which says nothing of either.
    prove("older", "1", "none", &kept, 1);
    assert!(!at.join("none").exists());
    // The true log goes on; the entry is proved under the head that was kept.
    append(at, "audit", "third");
    prove("audit", "1", "now", &[], 0);
    assert!(
        check("now", &kept, 1).contains("probity prove DIR --stream S --index N --checkpoint FILE")
    );
    prove("audit", "1", "then", &kept, 0);
    let held = check("then", &kept, 0);
    assert!(
        held.contains("second") && held.contains("kept head  kept: the same"),
        "{held}"
    );
    // A later entry does not stand under the head.
    prove("audit", "2", "late", &kept, 1);
}
