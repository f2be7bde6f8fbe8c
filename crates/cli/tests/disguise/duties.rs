//! Holds and receipts.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::place::{APPLY, prepared};

#[test]
fn a_hold_stands_in_the_way_until_it_is_lifted_and_the_log_tells_of_both() {
    let place = prepared();
    let authority = [
        "--actor",
        "legal office",
        "--basis",
        "file 12/2026",
        "--log",
        "audit",
    ];
    let hold = [&["disguise", "hold", "--user", "19"], &authority[..]].concat();
    let nobody = [
        "disguise", "hold", "--user", "21", "--actor", "x", "--basis", "y",
    ];
    let (_, stderr) = place.run(&nobody, 1);
    assert!(stderr.contains("has no row of this user"), "{stderr}");
    assert!(stderr.contains("--away"), "{stderr}");
    // One who is there was refused without advice.
    let there = [
        "disguise", "hold", "--user", "20", "--actor", "x", "--basis", "y", "--away",
    ];
    let (_, refused) = place.run(&there, 1);
    assert!(refused.contains("help: leave out --away"), "{refused}");
    let away = place.json(&[&nobody[..], &["--away"]].concat(), 0);
    let away = away["hold"].as_str().unwrap();
    place.run(
        &[
            "disguise", "lift", "--hold", away, "--actor", "x", "--basis", "y",
        ],
        0,
    );
    place.begin_log();
    let hold = place.json(&hold, 0)["hold"].as_str().unwrap().to_owned();
    let before = place.rows();
    let (_, stderr) = place.run(&APPLY, 1);
    assert!(stderr.contains("a legal hold on the person"), "{stderr}");
    assert_eq!(place.rows(), before);
    let listed = place.json(&["disguise", "holds", "--user", "19"], 0);
    assert_eq!(listed["holds"][0]["basis"], "file 12/2026");
    let lift = [&["disguise", "lift", "--hold", &hold], &authority[..]].concat();
    place.run(&lift, 0);
    let (_, stderr) = place.run(&lift, 1);
    assert!(stderr.contains("no such hold"), "{stderr}");
    place.run(&APPLY, 0);
    let (exported, _) = place.run(&["export", "audit", "--format", "jsonl"], 0);
    let told: Vec<Value> = exported
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let actions: Vec<&str> = told
        .iter()
        .map(|it| it["action"].as_str().unwrap())
        .collect();
    assert_eq!(
        actions,
        [
            "disguise.hold",
            "disguise.apply",
            "disguise.lift",
            "disguise.lift",
            "disguise.apply"
        ]
    );
    assert_eq!(told[0]["actor"], "legal office");
    assert_eq!(told[0]["basis"], "file 12/2026");
    place.run(&["disguise", "hold", "--actor", "x", "--basis", "y"], 2);
}

#[test]
fn a_receipt_proves_what_was_forgotten_to_whoever_has_the_public_key() {
    let place = prepared();
    let key = |file: &'static str| {
        let args = [
            "disguise",
            "receipt-key",
            file,
            "--name",
            "example.com/receipts",
        ];
        place.run(&args, 0).0
    };
    fs::write(place.path("receipts.pub"), key("receipts.key")).unwrap();
    assert_eq!(
        fs::read_to_string(place.path("receipts.pub")).unwrap(),
        key("receipts.key")
    );
    fs::write(place.path("other.pub"), key("other.key")).unwrap();
    let mode = fs::metadata(place.path("receipts.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let forget = |credential, key, status| {
        let args = [
            "disguise",
            "forget",
            "--user",
            "19",
            "--credential",
            credential,
            "--id",
            &id,
            "--receipt",
            "19.receipt",
            "--receipt-key",
            key,
        ];
        place.run(&args, status)
    };
    // Without a key that signs, nothing is forgotten; without the right credential, there is no receipt.
    forget("19.pw", "absent.key", 1);
    forget("receipts.pub", "receipts.key", 1);
    assert!(!place.path("19.receipt").exists());
    forget("19.pw", "receipts.key", 0);
    let check = |key, user, status| {
        let args = [
            "disguise",
            "check-receipt",
            "19.receipt",
            "--key",
            key,
            "--user",
            user,
        ];
        place.run(&args, status)
    };
    let (stdout, _) = check("receipts.pub", "19", 0);
    assert!(stdout.contains(&id), "{stdout}");
    check("receipts.pub", "20", 3);
    check("other.pub", "19", 3);
    let text = fs::read_to_string(place.path("19.receipt")).unwrap();
    assert!(text.contains(&id) && !text.contains("Bea"));
    fs::write(place.path("19.receipt"), text.replace("bags ", "bags 9")).unwrap();
    check("receipts.pub", "19", 3);
}

/// On a full standard output the error did not say that the work was done, and a repetition did it
/// twice.
#[test]
fn a_full_output_does_not_hide_that_the_work_is_done() {
    let place = prepared();
    let told = |args: &[&str], done: &str| {
        let mut command = place.command(&[&["disguise"], args].concat());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("{done}, then ")), "{told}");
        assert!(told.contains("do not repeat the command"), "{told}");
    };
    let first = |list: &str, field: &str| {
        let listed = place.json(&["disguise", list], 0);
        listed[list][0][field].as_str().unwrap().to_owned()
    };
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let audit = ["--log", "audit"];
    let authority = ["--actor", "x", "--basis", "y", "--log", "audit"];
    let hold = [&["hold", "--user", "19"], &authority[..]].concat();
    told(&hold, "was placed");
    let hold = first("holds", "hold");
    told(
        &[&["lift", "--hold", &hold], &authority[..]].concat(),
        "was lifted",
    );
    let grace = ["--grace", "1d"];
    told(&[&APPLY[1..], &grace].concat(), "was scheduled");
    let due = first("scheduled", "id");
    told(
        &[&["cancel", "--id", &due], &audit[..]].concat(),
        "was cancelled",
    );
    told(&APPLY[1..], "was applied");
    let listed = place.json(&[&["disguise", "list"], &holder[..]].concat(), 0);
    let id = listed["disguises"][0]["id"].as_str().unwrap();
    told(
        &[&["reveal", "--id", id], &holder[..]].concat(),
        "was revealed",
    );
    told(&["sweep", "--log", "audit"], "the sweep is done");
    told(
        &[&["forget", "--everything"], &holder[..]].concat(),
        "for good",
    );
    let other = [
        "--user",
        "20",
        "--credential-out",
        "20.key",
        "--log",
        "audit",
    ];
    told(&[&["register"], &other[..]].concat(), "of 20 holds");
    let other = ["--user", "20", "--credential", "20.key", "--log", "audit"];
    told(
        &[&["unregister"], &other[..]].concat(),
        "is not registered any more",
    );
}
