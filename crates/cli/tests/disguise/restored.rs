//! After a backup was restored: what the log tells of in any stream, and what was erased from it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use probity_format::keys::RootKey;
use probity_format::{Entry, Outcome, Timestamp};
use probity_log::{Durability, Log, Options, StreamName};

use crate::place::{Place, prepared};

const MISSED_NOTHING: &str = "the database has missed nothing that the log tells of\n";

/// Restores a backup after which person 19 had everything forgotten; `options` name the log.
fn forgotten(place: &Place, options: &[&str]) {
    let run = |args: &[&str]| {
        let user = ["--user", "19"];
        place.run(&[&["disguise"], args, &user, options].concat(), 0);
    };
    run(&["apply", "--spec", "leave.toml"]);
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    run(&["forget", "--credential", "19.pw", "--everything"]);
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
}

fn opens(place: &Place) -> bool {
    let list = ["disguise", "list", "--user", "19", "--credential", "19.pw"];
    place.command(&list).output().unwrap().status.success()
}

/// A replay read the stream `default` alone, and had missed nothing of what stood in another.
#[test]
fn what_another_stream_tells_of_is_missed_too() {
    let place = prepared();
    place.run(&["stream", "create", "audit", "shop"], 0);
    forgotten(&place, &["--log", "audit", "--stream", "shop"]);
    assert!(opens(&place));
    let replay = ["disguise", "replay", "--log", "audit"];
    let looked = place.json(&[&replay[..], &["--dry-run"]].concat(), 0);
    assert_eq!(looked["missed"][0]["action"], "disguise.forget");
    let done = place.json(&replay, 0);
    assert_eq!(done["missed"][0]["outlook"], "done");
    assert_eq!(done["entry"]["stream"], "default");
    assert!(!opens(&place));
    assert_eq!(place.run(&replay, 0).0, MISSED_NOTHING);
}

/// The entry of forgetting was erased together with its person, and a replay said that nothing was missed.
#[test]
fn what_was_erased_from_the_log_is_told_of_as_perhaps_missed() {
    let place = prepared();
    place.run(&["init", "erasing", "--erasable"], 0);
    forgotten(&place, &["--log", "erasing"]);
    let named = [
        "disguise",
        "subject-name",
        "--user",
        "19",
        "--log",
        "erasing",
    ];
    let (names, _) = place.run(&named, 0);
    let text = fs::read_to_string(place.path("erasing.key")).unwrap();
    let root = RootKey::from_text(&text).unwrap();
    let log = Log::open(&place.path("erasing"), &root, Options::default()).unwrap();
    assert!(log.erase(names.lines().next().unwrap()).unwrap().is_some());
    log.close().unwrap();
    let replay = ["disguise", "replay", "--log", "erasing"];
    let missed = place.json(&replay, 4);
    let missed = missed["missed"].as_array().unwrap();
    assert_eq!(missed.len(), 2, "{missed:?}");
    assert_eq!(missed[1]["action"], "disguise.forget");
    let reason = missed[1]["reason"].as_str().unwrap();
    assert!(reason.contains("was erased from the log"), "{reason}");
}

/// Loses the last of some durable entries, as a disk does that breaks after a crash, and accepts it.
fn lose_an_entry(place: &Place) {
    let log = place.path("audit");
    let text = fs::read_to_string(place.path("audit.key")).unwrap();
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let copy = |from: &str, to: &str| {
        let (from, to) = (place.path(from), place.path(to));
        let copied = Command::new("cp").arg("-a").arg(&from).arg(&to).status();
        assert!(copied.unwrap().success());
    };
    let open = Log::open(&log, &RootKey::from_text(&text).unwrap(), options).unwrap();
    let mut appender = open.appender(&StreamName::default()).unwrap();
    for key in [b"a", b"b"] {
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
        appender
            .append_durable(&Entry::new(time, "write", key))
            .unwrap();
    }
    copy("audit", "killed");
    copy("audit.heads", "killed.heads");
    drop(appender);
    open.close().unwrap();
    for (name, killed) in [("audit", "killed"), ("audit.heads", "killed.heads")] {
        fs::remove_dir_all(place.path(name)).unwrap();
        copy(killed, name);
    }
    let segment = log.join("streams/default/segments/00000000000000000000.seg");
    let content = fs::read(&segment).unwrap();
    fs::write(&segment, content.split_at(content.len() - 10).0).unwrap();
    place.run(&["append", "audit", "/dev/null", "--accept-loss"], 0);
}

/// A replay over a log whose loss had been accepted said that nothing was missed, although what was
/// lost might have been a disguise.
#[test]
fn what_an_accepted_loss_may_have_told_of_is_named_by_every_replay() {
    let place = prepared();
    let log = ["--log", "audit"];
    forgotten(&place, &log);
    lose_an_entry(&place);
    let replay = ["disguise", "replay", "--log", "audit"];
    for args in [&["--dry-run"][..], &[]] {
        let done = place.json(&[&replay[..], args].concat(), 4);
        assert_eq!(done["missed"].as_array().unwrap().len(), 1, "{done}");
        assert_eq!(done["lost"][0]["stream"], "default", "{done}");
        assert_eq!(done["lost"][0]["kind"], "frames", "{done}");
    }
    assert!(!opens(&place));
    let (said, noted) = place.run(&replay, 4);
    assert!(said.starts_with(MISSED_NOTHING), "{said}");
    assert!(
        noted.contains("not in the log any more: stream default"),
        "{noted}"
    );
    let verified = place.json(&["verify", "audit", "--key", "audit.key"], 4);
    assert_eq!(verified["losses"][0]["kind"], "frames", "{verified}");
}

/// An entry of a forgetting whose payload this program cannot read counted as none, and a replay said
/// that nothing was missed. Entries that name no operation, or another database, are still none.
#[test]
fn what_cannot_be_read_is_told_of_as_perhaps_missed() {
    let place = prepared();
    let replay = ["disguise", "replay", "--log", "audit"];
    place.run(
        &[
            "disguise",
            "apply",
            "--user",
            "19",
            "--spec",
            "leave.toml",
            "--log",
            "audit",
        ],
        0,
    );
    let append = |payload: &str, outcome: Outcome| {
        let text = fs::read_to_string(place.path("audit.key")).unwrap();
        let root = RootKey::from_text(&text).unwrap();
        let log = Log::open(&place.path("audit"), &root, Options::default()).unwrap();
        let mut appender = log.appender(&StreamName::default()).unwrap();
        let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
        let entry = Entry {
            payload: payload.as_bytes(),
            outcome,
            ..Entry::new(time, "disguise.forget", b"all")
        };
        appender.append_durable(&entry).unwrap();
        drop(appender);
        log.close().unwrap();
    };
    append("{\"what\":\"refused before it had a number\"}", Outcome::Ok);
    append("{\"operation\":7}", Outcome::Failed);
    let other = "0".repeat(64);
    append(
        &format!("{{\"operation\":7,\"database\":\"{other}\"}}"),
        Outcome::Ok,
    );
    assert_eq!(place.run(&replay, 0).0, MISSED_NOTHING);
    for (number, payload) in [
        "{\"operation\":7}",
        "{\"operation\":\"none\",\"links_kept\":\"yes\"}",
        "no JSON",
    ]
    .into_iter()
    .enumerate()
    {
        append(payload, Outcome::Ok);
        let missed = place.json(&replay, 4);
        let missed = missed["missed"].as_array().unwrap();
        assert_eq!(missed.len(), number + 1, "{payload}: {missed:?}");
        let reason = missed[number]["reason"].as_str().unwrap();
        assert!(reason.contains("does not know"), "{reason}");
    }
}
