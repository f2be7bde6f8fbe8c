//! Operations that run later, or again: grace periods, decay, restored backups, chunks.

use std::fs;

use probity_disguise::{ApplyRequest, Credential, Database as _, Engine, SpecFile};
use probity_format::Timestamp;

use crate::place::{APPLY, prepared};

#[test]
fn a_disguise_in_its_grace_period_is_cancelled_or_swept_and_one_that_ended_is_gone() {
    let place = prepared();
    let before = place.rows();
    let apply = |more: &[&str]| {
        let applied = place.json(&[&APPLY[..], more].concat(), 0);
        applied["id"].as_str().unwrap().to_owned()
    };
    let id = apply(&["--grace", "30d"]);
    assert_eq!(place.rows(), before);
    let scheduled = ["disguise", "scheduled", "--user", "19"];
    assert_eq!(place.json(&scheduled, 0)["scheduled"][0]["id"], id.as_str());
    let sweep = ["disguise", "sweep", "--log", "audit"];
    let swept = place.json(&sweep, 0);
    assert_eq!(swept["applied"].as_array().unwrap().len(), 0);
    // A second one would hide again who came back after the first.
    let (_, stderr) = place.run(&[&APPLY[..], &["--grace", "1d"]].concat(), 1);
    assert!(
        stderr.contains(&id) && stderr.contains("cancel"),
        "{stderr}"
    );
    let cancel = ["disguise", "cancel", "--id", &id, "--log", "audit"];
    place.run(&cancel, 0);
    let (_, stderr) = place.run(&cancel, 1);
    assert!(stderr.contains("no such disguise is scheduled"), "{stderr}");
    let id = apply(&["--grace", "0s", "--expires", "1y"]);
    let dry = place.json(&["disguise", "expire", "--dry-run"], 0);
    assert_eq!(dry["applied"][0], id.as_str());
    assert_eq!(place.rows(), before);
    let swept = place.json(&sweep, 0);
    assert_eq!(swept["applied"][0], id.as_str());
    assert!(!place.rows().concat().contains("Bea"));
    let list = ["disguise", "list", "--user", "19", "--credential", "19.pw"];
    assert!(place.json(&list, 0)["disguises"][0]["expires"].is_string());
    // Simulates that the year has gone by.
    let mut database = place.database();
    let sql = "UPDATE probity_deadlines SET due = 1";
    assert!(database.execute(sql, &[]).unwrap() > 0);
    assert!(place.json(&sweep, 0)["records"].as_u64().unwrap() > 0);
    assert_eq!(
        place.json(&list, 0)["disguises"].as_array().unwrap().len(),
        0
    );
    let wrong = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "20",
        "--grace",
        "soon",
    ];
    place.run(&wrong, 2);
}

/// Somebody asked for a grace period, left at once and came back: the next sweep hid them again, named
/// nowhere. What waits ends with the disguise at once, by name, and a reveal names what waits still.
#[test]
fn what_waits_ends_with_a_disguise_at_once_and_is_named_after_a_reveal() {
    let place = prepared();
    let before = place.rows();
    let apply = |more: &[&str]| place.json(&[&APPLY[..], more].concat(), 0);
    for more in [&[][..], &["--chunk-rows", "1"][..]] {
        let waits = apply(&["--grace", "0s"])["id"].clone();
        let applied = apply(more);
        assert_eq!(applied["ended"][0], waits, "{applied}");
        let id = applied["id"].as_str().unwrap();
        let reveal = ["disguise", "reveal", "--id", id, "--user", "19"];
        let reveal = [&reveal[..], &["--credential", "19.pw", "--log", "audit"]].concat();
        let (_, stderr) = place.run(&reveal, 0);
        assert!(!stderr.contains("scheduled"), "{stderr}");
        let swept = place.json(&["disguise", "sweep", "--log", "audit"], 0);
        assert_eq!(swept["applied"].as_array().unwrap().len(), 0);
        assert_eq!(place.rows(), before);
    }
    let applied = apply(&[])["id"].as_str().unwrap().to_owned();
    let reveal = ["disguise", "reveal", "--id", &applied, "--user", "19"];
    let reveal = [&reveal[..], &["--credential", "19.pw", "--log", "audit"]].concat();
    place.run(&reveal, 0);
    let waits = apply(&["--grace", "9d"])["id"].as_str().unwrap().to_owned();
    let (_, stderr) = place.run(&reveal, 0);
    let advice = format!("probity disguise cancel --id {waits}");
    assert!(stderr.contains(&advice), "{stderr}");
}

/// A fault of the command line was said to be one of the specification, which was to be corrected.
#[test]
fn a_fault_of_a_parameter_or_of_a_condition_is_not_one_of_the_specification() {
    let place = prepared();
    let decay = [
        "disguise",
        "decay",
        "--spec",
        "leave.toml",
        "--log",
        "audit",
    ];
    let of = [&decay[..], &["--inactive", "people.nope > 20"]].concat();
    let (_, stderr) = place.run(&of, 1);
    assert!(stderr.contains("--inactive does not fit"), "{stderr}");
    let (_, stderr) = place.run(&[&APPLY[..], &["--set", "topc=dogs"]].concat(), 1);
    assert!(
        stderr.contains("the parameters do not fit") && stderr.contains("--set"),
        "{stderr}"
    );
}

#[test]
fn inactive_people_are_disguised_and_come_back() {
    let place = prepared();
    let before = place.rows();
    let mut spec = fs::read_to_string(place.path("leave.toml")).unwrap();
    spec.insert_str(0, "inactive = \"people.name < :name\"\n");
    fs::write(place.path("decay.toml"), spec).unwrap();
    let decay = [
        "disguise",
        "decay",
        "--spec",
        "decay.toml",
        "--set",
        "name=Z",
        "--log",
        "audit",
    ];
    let dry = place.json(&[&decay[..], &["--dry-run"]].concat(), 0);
    assert_eq!(
        (&dry["people"], &dry["unregistered"]),
        (&1.into(), &1.into())
    );
    assert_eq!(place.rows(), before);
    let fast = ["--page", "1", "--per-minute", "100000"];
    let done = place.json(&[&decay[..], &fast].concat(), 0);
    assert_eq!(done["disguises"].as_array().unwrap().len(), 1, "{done}");
    assert!(!place.rows().concat().contains("Bea"));
    assert_eq!(place.json(&decay, 0)["people"], 0);
    let id = done["disguises"][0].as_str().unwrap();
    let reveal = [
        "disguise",
        "reveal",
        "--id",
        id,
        "--user",
        "19",
        "--credential",
        "19.pw",
        "--log",
        "audit",
    ];
    place.run(&reveal, 0);
    assert_eq!(place.rows(), before);
    place.run(&["disguise", "decay", "--spec", "leave.toml"], 2);
}

#[test]
fn a_restored_backup_is_told_what_it_missed() {
    let place = prepared();
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    let before = place.rows();
    let id = place.json(&APPLY, 0)["id"].as_str().unwrap().to_owned();
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    assert_eq!(place.rows(), before);
    let replay = ["disguise", "replay", "--log", "audit"];
    // Without the specification it can only be named.
    let missed = place.json(&replay, 4);
    assert_eq!(missed["missed"][0]["key"], id.as_str());
    let reason = missed["missed"][0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("its specification is not given"),
        "{reason}"
    );
    let replay = [&replay[..], &["--spec", "leave.toml"]].concat();
    let looked = place.json(&[&replay[..], &["--dry-run"]].concat(), 0);
    assert_eq!(looked["missed"][0]["outlook"], "possible");
    assert_eq!(place.rows(), before);
    let done = place.json(&replay, 0);
    assert_eq!(done["missed"][0]["outlook"], "done");
    assert_eq!(done["entry"]["stream"], "default");
    assert!(!place.rows().join("").contains("Bea"));
    let (shown, _) = place.run(&replay, 0);
    assert_eq!(shown, "the database lacks nothing that the log has\n");
    place.run(&["disguise", "replay"], 2);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", &id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
    place.run(&["verify", "audit"], 0);
}

#[test]
fn a_disguise_in_chunks_is_one_disguise_and_what_was_cut_is_resumed() {
    let place = prepared();
    let before = place.rows();
    let chunks = [&APPLY[..], &["--chunk-rows", "1"]].concat();
    let applied = place.json(&chunks, 0);
    assert_eq!(applied["rows"]["posts"], 1);
    // Told of when it was begun and when it was done.
    assert_eq!(applied["entry"]["index"], 1);
    let id = applied["id"].as_str().unwrap();
    let resumed = place.json(&["disguise", "resume", "--log", "audit"], 0);
    assert_eq!(resumed["disguises"].as_array().unwrap().len(), 0);
    place.run(&["disguise", "resume", "--id", id], 1);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
    let grace = [&chunks[..], &["--grace", "3d"]].concat();
    place.run(&grace, 2);
}

#[test]
fn whoever_works_for_a_share_of_the_time_does_the_same() {
    let place = prepared();
    let before = place.rows();
    let share = ["--share", "0.5"];
    let chunks = [&APPLY[..], &["--chunk-rows", "1"], &share].concat();
    let applied = place.json(&chunks, 0);
    assert_eq!(applied["rows"]["posts"], 1, "{applied}");
    let id = applied["id"].as_str().unwrap();
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
    for command in ["resume", "sweep", "replay"] {
        let all = ["disguise", command, "--log", "audit"];
        place.run(&[&all[..], &share].concat(), 0);
    }
    // Without chunks there is one transaction, and nothing to rest between.
    place.run(&[&APPLY[..], &share].concat(), 2);
    for wrong in ["0", "1.5", "NaN", "25%"] {
        place.run(&["disguise", "sweep", "--share", wrong], 2);
    }
}

#[test]
fn everybody_is_hidden_in_chunks_and_whoever_comes_back_stays() {
    let place = prepared();
    let before = place.rows();
    place.run(
        &[
            "disguise",
            "register",
            "--user",
            "20",
            "--credential-out",
            "20.key",
        ],
        0,
    );
    let begin = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--everybody",
        "--log",
        "audit",
    ];
    let applied = place.json(&[&begin[..], &["--chunk-rows", "1"]].concat(), 0);
    assert_eq!(applied["rows"]["people"], 2, "{applied}");
    // Told of when it was begun and when it was done.
    assert_eq!(applied["entry"]["index"], 1);
    let hidden = place.rows().join("");
    assert!(!hidden.contains("Bea"), "{hidden}");
    let id = applied["id"].as_str().unwrap();
    for (user, credential) in [("19", "19.pw"), ("20", "20.key"), ("19", "19.pw")] {
        let holder = ["--user", user, "--credential", credential, "--log", "audit"];
        let reveal = [&["disguise", "reveal", "--id", id], &holder[..]].concat();
        place.command(&reveal).output().unwrap();
    }
    assert_eq!(place.rows(), before);
    place.run(&["verify", "audit"], 0);
}

#[test]
fn what_was_begun_over_placeholders_is_resumed_with_the_credential_or_cancelled() {
    let place = prepared();
    let before = place.rows();
    let text = fs::read_to_string(place.path("leave.toml")).unwrap();
    let file = SpecFile::parse(&text).unwrap();
    let begin = || {
        let mut engine = Engine::stored(place.database()).unwrap();
        let request = ApplyRequest {
            spec: &file.spec,
            user: Some(engine.user("19").unwrap()),
            over: Some(Credential::Password("a long password")),
            parameters: [].into(),
            expires: None,
            time: Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap(),
        };
        engine.chunks().begin(&request).unwrap().to_string()
    };
    let (id, stopped) = (begin(), begin());
    place.begin_log();
    let (_, stderr) = place.run(&["disguise", "resume", "--log", "audit"], 1);
    assert!(stderr.contains("give it again"), "{stderr}");
    assert!(stderr.contains(" --over FILE"), "{stderr}");
    place.run(&["disguise", "resume", "--over", "19.pw"], 2);
    place.run(
        &["disguise", "cancel", "--id", &stopped, "--log", "audit"],
        0,
    );
    let resume = ["disguise", "resume", "--id", &id, "--log", "audit"];
    let resumed = place.json(&[&resume[..], &["--over", "19.token"]].concat(), 0);
    assert_eq!(resumed["disguises"][0]["id"], id.as_str());
    let left = place.json(&["disguise", "resume", "--log", "audit"], 0);
    assert_eq!(left["disguises"].as_array().unwrap().len(), 0);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", &id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
}

/// A disguise in chunks that the database refused stayed begun and nothing named it: the next `resume`, meant for others, hid the
/// person. One whose first chunk is refused is cancelled; one that stops later is named with what can be done about it.
#[test]
fn a_disguise_in_chunks_that_is_refused_is_gone_or_named() {
    let place = prepared();
    let before = place.rows();
    let chunks = [&APPLY[..], &["--chunk-rows", "1"]].concat();
    let resume = ["disguise", "resume", "--log", "audit"];
    let refuse = |name: &str, when: &str| {
        let sql = format!(
            "CREATE TRIGGER {name} BEFORE {when} BEGIN SELECT RAISE(ABORT, 'not now'); END"
        );
        place.database().execute(&sql, &[]).unwrap();
    };
    let allow = |name: &str| {
        let sql = format!("DROP TRIGGER {name}");
        place.database().execute(&sql, &[]).unwrap();
    };
    refuse("likes_stay", "DELETE ON likes");
    refuse("posts_stay", "UPDATE ON posts");
    let (_, stderr) = place.run(&chunks, 1);
    assert!(!stderr.contains("was begun"), "{stderr}");
    let left = place.json(&resume, 0);
    assert_eq!(left["disguises"].as_array().unwrap().len(), 0, "{left}");
    allow("likes_stay");
    allow("posts_stay");
    let left = place.json(&resume, 0);
    assert_eq!(left["disguises"].as_array().unwrap().len(), 0, "{left}");
    assert_eq!(place.rows(), before);

    refuse("people_stay", "DELETE ON people");
    let (_, stderr) = place.run(&chunks, 1);
    let begun = stderr.split(" --id ").nth(1);
    let id = begun.and_then(|it| it.get(..16)).expect(&stderr).to_owned();
    assert!(
        stderr.contains(&format!("disguise {id} was begun")),
        "{stderr}"
    );
    assert_ne!(place.rows(), before);
    let (_, stderr) = place.run(&resume, 1);
    assert!(
        stderr.contains(&format!("disguise {id} was begun")),
        "{stderr}"
    );
    // The command again would begin a second disguise over the first.
    let hidden = place.rows();
    for again in [&chunks[..], &APPLY] {
        let (_, stderr) = place.run(again, 1);
        let refused =
            format!("disguise {id}, of the same specification for the same person, was begun");
        assert!(stderr.contains(&refused), "{stderr}");
        assert!(stderr.contains(&format!(" --id {id} ")), "{stderr}");
    }
    assert_eq!(place.rows(), hidden);
    allow("people_stay");
    let resumed = place.json(&[&resume[..], &["--id", &id]].concat(), 0);
    assert_eq!(resumed["disguises"][0]["id"], id.as_str());
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let reveal = [&["disguise", "reveal", "--id", &id], &holder[..]].concat();
    place.run(&reveal, 0);
    assert_eq!(place.rows(), before);
}

/// A signal ended a disguise in chunks at once: no id, no advice, and entries that no checkpoint covered.
#[test]
fn a_signal_ends_a_disguise_in_chunks_in_order_and_says_how_to_go_on() {
    let place = prepared();
    let mut database = place.database();
    for id in 100..400 {
        let post = format!("INSERT INTO posts VALUES ({id}, 19, 'P{id}')");
        database.execute(&post, &[]).unwrap();
    }
    drop(database);
    let slowly = ["--chunk-rows", "1", "--share", "0.02"];
    let mut applying = place.command(&[&APPLY[..], &slowly].concat());
    let applying = applying.spawn().unwrap();
    probity_testing::wait(1_500);
    let id = applying.id().to_string();
    let sent = std::process::Command::new("kill")
        // The other signal may be ignored where the tests run in the background.
        .args(["-s", "TERM", &id])
        .status();
    assert!(sent.unwrap().success());
    let ended = applying.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(
        said.contains("was begun, then a signal asked to stop"),
        "{said}"
    );
    let resume = said.split(" --id ").nth(1).unwrap();
    let id = resume.split_whitespace().next().unwrap();
    let (verified, _) = place.run(&["verify", "audit"], 0);
    assert!(
        !verified.contains("behind the last checkpoint"),
        "{verified}"
    );
    let resumed = place.json(&["disguise", "resume", "--id", id, "--log", "audit"], 0);
    assert_eq!(resumed["disguises"][0]["rows"]["posts"], 301, "{resumed}");
}
