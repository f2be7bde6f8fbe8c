//! After a backup was restored: what the log tells of in any stream, and what was erased from it.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use probity_disguise::{ApplyRequest, Engine, SpecFile, Value};
use probity_format::keys::RootKey;
use probity_format::{Entry, Outcome, Timestamp};
use probity_log::{Durability, Log, Options, StreamName};

use crate::place::{APPLY, Place, prepared};

const MISSED_NOTHING: &str = "the database lacks nothing that the log has\n";

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

/// A backup was from the middle of a disguise in chunks. A replay said that nothing was missed, with rows in
/// clear that were hidden since: it names the disguise, until that is done.
#[test]
fn a_replay_names_what_goes_on_in_chunks() {
    let place = prepared();
    let text = fs::read_to_string(place.path("leave.toml")).unwrap();
    let file = SpecFile::parse(&text).unwrap();
    let mut engine = Engine::stored(place.database()).unwrap();
    let request = ApplyRequest {
        spec: &file.spec,
        user: Some(Value::Int(19)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap(),
    };
    let id = engine.chunks().begin(&request).unwrap().to_string();
    drop(engine);
    for replay in [&["--dry-run"][..], &[]] {
        let replay = [&["disguise", "replay", "--log", "audit"], replay].concat();
        assert_eq!(place.json(&replay, 4)["unfinished"][0], id.as_str());
        let (said, _) = place.run(&replay, 4);
        assert!(said.contains(&format!("resume --id {id}")), "{said}");
    }
    place.run(&["disguise", "resume", "--id", &id], 0);
    // Of a log without operations nothing says that it is the database's.
    place.begin_log();
    let replay = ["disguise", "replay", "--log", "audit"];
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

/// A backup from before the first registration was to be prepared anew by the advice of the error,
/// after which a replay said that the database had missed nothing: everybody was back in clear.
#[test]
fn a_database_that_the_log_does_not_tell_of_has_not_missed_nothing() {
    let place = Place::sqlite();
    fs::copy(place.path("app.db"), place.path("before.db")).unwrap();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = |user: &str, log: &[&str]| {
        let credential = format!("{user}.key");
        let named = ["--user", user, "--credential-out", &credential];
        let register = ["disguise", "register", "--spec", "leave.toml"];
        place.run(&[&register[..], &named, log].concat(), 0);
    };
    register("19", &["--log", "audit"]);
    let apply = ["disguise", "apply", "--user", "19", "--spec", "leave.toml"];
    place.run(&[&apply[..], &["--log", "audit"]].concat(), 0);
    fs::copy(place.path("before.db"), place.path("app.db")).unwrap();
    let replay = ["disguise", "replay", "--log", "audit"];
    let (_, told) = place.run(&replay, 1);
    assert!(told.contains("restore a later one"), "{told}");
    register("20", &[]);
    let (said, _) = place.run(&replay, 4);
    assert!(
        said.contains("of other databases or tenants, and none of this one"),
        "{said}"
    );
    assert!(
        place.json(&replay, 4)["of_other_databases"]
            .as_u64()
            .unwrap()
            > 0
    );
    // One that is told of in another log has none of its operations in this one.
    fs::copy(place.path("before.db"), place.path("app.db")).unwrap();
    place.run(&["init", "other"], 0);
    fs::remove_file(place.path("20.key")).unwrap();
    register("20", &["--log", "other"]);
    let (_, told) = place.run(&replay, 1);
    assert!(told.contains("in another log"), "{told}");
}

/// Of two logs under one root key each said that the database had missed nothing, and what was
/// forgotten in one came back by the other.
#[test]
fn a_log_that_does_not_tell_of_all_operations_says_so() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    place.run(&["init", "other", "--key", "audit.key"], 0);
    let audit = ["--log", "audit"];
    let other = ["--log", "other", "--key", "audit.key"];
    let register = |user: &str, log: &[&str]| {
        let credential = format!("{user}.key");
        let named = ["--user", user, "--credential-out", &credential];
        let register = ["disguise", "register", "--spec", "leave.toml"];
        place.run(&[&register[..], &named, log].concat(), 0);
    };
    register("19", &audit);
    let apply = ["disguise", "apply", "--user", "19", "--spec", "leave.toml"];
    place.run(&[&apply[..], &audit].concat(), 0);
    let replay = [&["disguise", "replay"], &audit[..]].concat();
    let (said, _) = place.run(&replay, 0);
    assert!(said.contains(MISSED_NOTHING), "{said}");
    let credential = ["--user", "20", "--credential-out", "20.key"];
    let register_there = [
        &["disguise", "register", "--spec", "leave.toml"],
        &credential[..],
        &other,
    ]
    .concat();
    let (_, refused) = place.run(&register_there, 1);
    assert!(refused.contains("in another log"), "{refused}");
    // A program before noted no log.
    let unnoted = "DELETE FROM probity_settings WHERE name = x'6c6f67'";
    assert_eq!(place.database().execute(unnoted, &[]).unwrap(), 1);
    place.run(&register_there, 0);
    let (said, _) = place.run(&replay, 4);
    assert!(said.contains("this log lacks"), "{said}");
    assert_eq!(place.json(&replay, 4)["untold"], 1);
    fs::copy(place.path("app.db"), place.path("before.db")).unwrap();
    // Made another one, it is told of from then on.
    place.run(&[&["disguise", "separate"], &audit[..]].concat(), 0);
    let (said, _) = place.run(&replay, 4);
    assert!(said.contains("was separated"), "{said}");
    let hold = [
        "disguise", "hold", "--user", "20", "--actor", "x", "--basis", "y",
    ];
    let (_, refused) = place.run(&hold, 1);
    assert!(refused.contains("would be missing there"), "{refused}");
    assert!(refused.contains("--log DIR"), "{refused}");
    place.run(&[&hold[..], &audit].concat(), 0);
    place.run(&replay, 0);
    // What went on under its new name is no part of a backup from before, whatever is done there since.
    fs::copy(place.path("before.db"), place.path("app.db")).unwrap();
    let (_, refused) = place.run(&["disguise", "separate"], 1);
    assert!(refused.contains("would be missing there"), "{refused}");
    place.run(&replay, 4);
    place.run(&[&hold[..], &audit].concat(), 0);
    place.run(&replay, 4);
}

/// A copy that was made another database in the log of its original, or in none, was taken for a
/// backup of itself: what it had forgotten was back after a restore, and a replay missed nothing.
#[test]
fn a_copy_has_a_log_of_its_own_and_is_no_backup_of_itself() {
    let place = prepared();
    place.run(&APPLY, 0);
    place.run(&["init", "copies", "--key", "audit.key"], 0);
    let separate = ["disguise", "separate"];
    let (_, refused) = place.run(&separate, 1);
    assert!(refused.contains("would be missing there"), "{refused}");
    let (_, refused) = place.run(&[&separate[..], &["--log", "audit"]].concat(), 1);
    assert!(
        refused.contains("records the operations on this database already"),
        "{refused}"
    );
    let backup = place.path("backup.db");
    fs::copy(place.path("app.db"), &backup).unwrap();
    let copies = ["--log", "copies", "--key", "audit.key"];
    let separate = [&separate[..], &copies].concat();
    let replay = [&["disguise", "replay"], &copies[..]].concat();
    place.run(&separate, 0);
    place.run(&replay, 0);
    // Nor is it made another one in a log that it had before.
    let (_, refused) = place.run(&["disguise", "separate", "--log", "audit"], 1);
    assert!(
        refused.contains("records the operations on this database already"),
        "{refused}"
    );
    let holder = ["--user", "19", "--credential", "19.pw"];
    let forget = [
        &["disguise", "forget", "--everything"],
        &holder[..],
        &copies,
    ]
    .concat();
    place.run(&forget, 0);
    fs::copy(&backup, place.path("app.db")).unwrap();
    place.run(&replay, 1);
    place.run(&separate, 0);
    let authority = ["--user", "20", "--actor", "x", "--basis", "y"];
    let hold = [&["disguise", "hold"], &authority[..], &copies].concat();
    place.run(&hold, 0);
    let (said, _) = place.run(&replay, 4);
    assert!(said.contains("another copy of the same database"), "{said}");
}

/// A replay into an older backup had made the records again under other names, which were then
/// forgotten. In a newer backup, with the records of then, a replay called the forgetting done.
#[test]
fn what_was_forgotten_under_other_names_is_not_done_here() {
    let place = prepared();
    let path = |name: &str| place.path(name);
    fs::copy(path("app.db"), path("older.db")).unwrap();
    let id = place.json(&APPLY, 0)["id"].as_str().unwrap().to_owned();
    fs::copy(path("app.db"), path("newer.db")).unwrap();
    fs::copy(path("older.db"), path("app.db")).unwrap();
    let replay = [
        "disguise",
        "replay",
        "--log",
        "audit",
        "--spec",
        "leave.toml",
    ];
    place.run(&replay, 0);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let forget = [&["disguise", "forget", "--id", &id], &holder[..]].concat();
    place.run(&forget, 0);
    fs::copy(path("newer.db"), path("app.db")).unwrap();
    for _again in 0..2 {
        let (said, _) = place.run(&replay, 4);
        assert!(said.contains("forget it again"), "{said}");
    }
    place.run(&forget, 0);
    place.run(&replay, 0);
}

/// The other way round, the records of a replay are in the backup, and those of before were
/// forgotten. With everything, one record that was found stood for those of another disguise.
#[test]
fn what_was_forgotten_of_an_original_is_not_done_to_its_repetition() {
    let users = "[users]\ntable = \"people\"\nid = \"id\"\nplaceholder = { id = { RandNum = { lb = 1000000, ub = 2000000 } }, name = { RandStr = { len = 9 } } }\n";
    let name = "[[modify]]\ntable = \"people\"\ncolumn = \"name\"\nvalue = { ConstStr = \"x\" }\n";
    let posts = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"author_id\"]\n";
    for everything in [false, true] {
        let place = prepared();
        let path = |name: &str| place.path(name);
        let apply = |steps: &str| {
            fs::write(path("one.toml"), format!("{users}{steps}")).unwrap();
            let one = ["disguise", "apply", "--spec", "one.toml"];
            let one = [&one[..], &["--user", "19", "--log", "audit"]].concat();
            place.json(&one, 0)["id"].as_str().unwrap().to_owned()
        };
        if everything {
            apply(name);
        }
        fs::copy(path("app.db"), path("before.db")).unwrap();
        let id = apply(posts);
        fs::copy(path("app.db"), path("original.db")).unwrap();
        fs::copy(path("before.db"), path("app.db")).unwrap();
        let replay = ["disguise", "replay", "--log", "audit"];
        let replay = [&replay[..], &["--spec", "one.toml"]].concat();
        place.run(&replay, 0);
        fs::copy(path("app.db"), path("repeated.db")).unwrap();
        fs::copy(path("original.db"), path("app.db")).unwrap();
        place.run(&replay, 0);
        let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
        let what = if everything {
            vec!["disguise", "forget", "--everything"]
        } else {
            vec!["disguise", "forget", "--id", &id]
        };
        let forget = [&what[..], &holder].concat();
        place.run(&forget, 0);
        fs::copy(path("repeated.db"), path("app.db")).unwrap();
        let (said, _) = place.run(&replay, 4);
        assert!(said.contains("forget it again"), "{said}");
        place.run(&forget, 0);
        place.run(&replay, 0);
    }
}

/// A reveal that its person does not repeat was listed by each replay for ever. An authority ends that, with the
/// name that the replay prints, and the log says who did.
#[test]
fn what_a_replay_lists_is_dismissed_by_its_name() {
    let place = prepared();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&[&apply[..], &["--log", "audit"]].concat(), 0)["id"].clone();
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    let reveal = [
        "disguise",
        "reveal",
        "--user",
        "19",
        "--credential",
        "19.pw",
    ];
    let id = ["--id", id.as_str().unwrap(), "--log", "audit"];
    place.run(&[&reveal[..], &id].concat(), 0);
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    let replay = ["disguise", "replay", "--log", "audit"];
    let replay = [&replay[..], &["--spec", "leave.toml"]].concat();
    let listed = place.json(&replay, 4);
    let operation = listed["missed"][0]["operation"].as_str().unwrap();
    let (said, _) = place.run(&replay, 4);
    assert!(said.contains(&format!("(operation {operation})")), "{said}");
    assert!(
        said.contains("probity disguise dismiss OPERATION"),
        "{said}"
    );
    let dismiss = |operation: &str, status| {
        let decided = ["--actor", "the office", "--basis", "ticket 7"];
        let dismiss = ["disguise", "dismiss", operation, "--spec", "leave.toml"];
        let dismiss = [&dismiss[..], &["--log", "audit"], &decided].concat();
        place.run(&dismiss, status)
    };
    let (_, stderr) = dismiss("0f1", 2);
    assert!(stderr.contains("16 hexadecimal digits"), "{stderr}");
    let (_, stderr) = dismiss(&"0f".repeat(8), 1);
    assert!(stderr.contains("is not on the list"), "{stderr}");
    assert!(stderr.contains("replay --dry-run"), "{stderr}");
    let (said, _) = dismiss(operation, 0);
    assert!(said.starts_with("1 operation dismissed"), "{said}");
    assert_eq!(place.run(&replay, 0).0, MISSED_NOTHING);
    let (_, stderr) = dismiss(operation, 1);
    assert!(stderr.contains("is not on the list"), "{stderr}");
    let export = ["export", "audit", "--format", "jsonl"];
    let export = [&export[..], &["--action", "disguise.dismiss"]].concat();
    let (said, _) = place.run(&export, 0);
    let entries: Vec<&str> = said.lines().filter(|it| it.contains("\"ok\"")).collect();
    assert!(
        entries.len() == 1 && entries[0].contains("the office") && entries[0].contains("ticket 7"),
        "{said}"
    );
    // The person still comes back.
    place.run(&[&reveal[..], &id].concat(), 0);
    assert_eq!(place.run(&replay, 0).0, MISSED_NOTHING);
}

/// That a replay notes the log which has operations of the database was tested in the library alone. The
/// program refuses every log before, one of an empty log says that nothing makes it this database's, and
/// after the replay of its own log that one is taken and another refused.
#[test]
fn a_replay_notes_the_log_that_has_operations_of_the_database() {
    let place = prepared();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    place.run(&apply, 0);
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    let hold = |basis: &str, log: &str, status| {
        let hold = ["disguise", "hold", "--user", "20", "--actor", "x"];
        let to = ["--basis", basis, "--log", log];
        place.run(&[&hold[..], &to].concat(), status).1
    };
    place.begin_log();
    hold("file 7", "audit", 0);
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    place.run(&["init", "other"], 0);
    let is_unsaid = |log| hold("file 8", log, 1).contains("nothing shows that this log");
    assert!(is_unsaid("audit") && is_unsaid("other"));
    let replay = |log, status| place.run(&["disguise", "replay", "--log", log], status);
    let (said, _) = replay("other", 4);
    assert!(
        said.contains("nothing says that this one is its own"),
        "{said}"
    );
    assert!(is_unsaid("other"));
    let (said, _) = replay("audit", 0);
    assert!(said.contains("disguise.hold"), "{said}");
    let holds = place.json(&["disguise", "holds", "--user", "20"], 0);
    assert_eq!(holds["holds"][0]["basis"], "file 7", "{holds}");
    let refused = hold("file 8", "other", 1);
    assert!(refused.contains("in another log"), "{refused}");
    replay("other", 1);
    hold("file 8", "audit", 0);
    let (said, _) = replay("audit", 0);
    assert_eq!(said.lines().next(), MISSED_NOTHING.lines().next());
}

/// A backup with nothing but people who were registered without a log took the first log that was named,
/// without a word. It is taken still, as in the first use of a database, and the program says what else it
/// may be: the right log is refused from then on, and brings the backup to its end after another restoring.
#[test]
fn a_log_that_is_named_first_after_registrations_without_one_is_noted_with_a_warning() {
    let place = prepared();
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    let restore = || fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    let hold = |log: &str| {
        let hold = ["disguise", "hold", "--user", "20", "--actor", "x"];
        let to = ["--basis", "file 7", "--log", log];
        place.run(&[&hold[..], &to].concat(), 0).1
    };
    let warning = "restore it again and replay that log first";
    let (_, said) = place.run(&APPLY, 0);
    assert!(said.contains(warning), "{said}");
    let said = hold("audit");
    assert!(!said.contains(warning), "{said}");
    restore();
    place.run(&["init", "other"], 0);
    let replay = ["disguise", "replay", "--spec", "leave.toml", "--log"];
    place.run(&[&replay[..], &["other"]].concat(), 4);
    let said = hold("other");
    assert!(said.contains(warning), "{said}");
    let (_, refused) = place.run(&[&replay[..], &["audit"]].concat(), 1);
    assert!(refused.contains("in another log"), "{refused}");
    restore();
    let (_, said) = place.run(&[&replay[..], &["audit"]].concat(), 0);
    assert!(!said.contains(warning), "{said}");
    assert!(!place.rows().concat().contains("Bea"));
    // A registration that is recorded says itself which log it is.
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = ["disguise", "register", "--spec", "leave.toml"];
    let of = ["--user", "19", "--credential-out", "19.key"];
    let audit = ["--log", "audit"];
    let (_, said) = place.run(&[&register[..], &of, &audit].concat(), 0);
    assert!(!said.contains(warning), "{said}");
    let (_, said) = place.run(&APPLY, 0);
    assert!(!said.contains(warning), "{said}");
}
