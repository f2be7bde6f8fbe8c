//! Older copies of a log, or of a part of it, beside newer second copies, heads or notes: no reader takes one for the log.

use std::path::Path;

use tempfile::TempDir;

use crate::heads::{place, probity, shell};

/// The folder of a log was replaced by an older copy, or by one that somebody had gone on with
/// elsewhere. Every reader but `prove` compared it with the second copies. So a proof of an entry
/// which the log never had was made and checked.
#[test]
fn nothing_is_proved_of_a_log_that_the_second_copies_are_not_of() {
    let folder = place();
    let at = folder.path();
    shell(at, "cp -r audit older; cp -r audit fork; cp -r kept forked");
    probity(at, Some("kept"), &["append", "audit"], 0);
    for _ in 0..2 {
        let append = ["append", "fork", "--key", "audit.key"];
        probity(at, Some("forked"), &append, 0);
    }
    let key = ["--key", "audit.key", "--stream", "default"];
    for (log, heads, index, status) in [
        ("fork", "kept", "1", 3),
        ("fork", "kept", "2", 3),
        ("fork", "kept", "0", 3),
        ("older", "kept", "0", 3),
        ("fork", "forked", "2", 0),
        ("audit", "kept", "1", 0),
    ] {
        let prove = ["prove", log, "--index", index, "-o", "proof", "--overwrite"];
        probity(at, Some(heads), &[&prove[..], &key].concat(), status);
    }
}

/// Reads the stream `people` of the log `log` in each way, and proves an entry of it.
fn read_people(at: &Path, log: &str, heads: Option<&str>, status: i32) {
    shell(at, &format!("[ -e {log}.key ] || cp audit.key {log}.key"));
    let stream = ["--stream", "people"];
    let export = ["export", log, "--format", "jsonl"];
    probity(at, heads, &[&export[..], &stream].concat(), status);
    let prove = ["prove", log, "--index", "0", "-o", "proof", "--overwrite"];
    probity(at, heads, &[&prove[..], &stream].concat(), status);
}

/// Reads what stands in the journal alone.
fn read_keys(at: &Path, log: &str, heads: Option<&str>, status: i32) {
    probity(at, heads, &["stream", "list", log], status);
    let chain = ["keys", "chain", log, "-o", "chain", "--overwrite"];
    probity(at, heads, &chain, status);
    probity(at, heads, &["keys", "status", log], status);
}

/// Makes a log with two streams in `audit`, with second copies in `kept`, and older copies of both,
/// `older` and `older-kept`.
fn copied() -> TempDir {
    let folder = place();
    let at = folder.path();
    let create = ["stream", "create", "audit", "people"];
    probity(at, Some("kept"), &create, 0);
    let append = ["append", "audit", "--stream", "people"];
    probity(at, Some("kept"), &append, 0);
    shell(at, "cp -r audit older; cp -r kept older-kept");
    probity(at, Some("kept"), &append, 0);
    probity(at, Some("kept"), &["append", "audit"], 0);
    folder
}

/// A second copy, checkpoint or note of one stream showed that the journal is an older one. Whoever
/// asked for another stream, for keys or for the list of streams was told nothing. `export --stream
/// people` ended with 0 and a third of the entries.
#[test]
fn what_is_later_than_the_journal_is_told_to_every_reader() {
    let folder = copied();
    let at = folder.path();
    read_people(at, "older", Some("older-kept"), 0);
    read_keys(at, "older", Some("older-kept"), 0);
    shell(at, "cp -r older-kept newer; cp kept/default newer/default");
    read_people(at, "older", Some("newer"), 3);
    read_keys(at, "older", Some("newer"), 3);
    shell(
        at,
        "cp -r older head; cp audit/streams/default/checkpoint head/streams/default",
    );
    read_people(at, "head", None, 3);
    read_keys(at, "head", None, 3);
}

/// Without second copies `prove` compared the log with nothing. An older copy of it beside a newer
/// stream `heads` or a newer file `durable` had proofs, although every other reader detects it.
#[test]
fn nothing_is_proved_of_a_log_of_which_more_was_anchored_or_noted() {
    let folder = copied();
    let at = folder.path();
    read_people(at, "older", None, 0);
    shell(
        at,
        "cp -r older heads; rm -r heads/streams/heads; cp -r audit/streams/heads heads/streams",
    );
    read_people(at, "heads", None, 3);
    shell(at, "cp -r older durable; cp audit/durable durable");
    read_people(at, "durable", None, 3);
}

/// An older copy without its checkpoints was called a defect of the program, status 1: of the head
/// in the second copy it was taken for granted that a frame names it.
#[test]
fn an_older_copy_without_checkpoints_is_a_rollback() {
    let folder = place();
    let at = folder.path();
    shell(at, "cp -a audit older");
    probity(at, Some("kept"), &["append", "audit"], 0);
    shell(at, "rm -r audit && mv older audit");
    shell(
        at,
        "rm audit/streams/journal/checkpoint audit/streams/heads/checkpoint",
    );
    for command in [
        &["append", "audit"][..],
        &["append", "audit", "--accept-loss"],
        &["stream", "create", "audit", "other"],
    ] {
        let (_, stderr) = probity(at, Some("kept"), command, 3);
        assert!(stderr.contains("the log was rolled back"), "{stderr}");
    }
}
