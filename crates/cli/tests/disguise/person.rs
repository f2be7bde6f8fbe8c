//! A person leaves and comes back on every database, and nothing else happens.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use probity_disguise::database::connect;
use serde_json::Value;

use crate::place::{APPLY, Place, prepared};
use crate::{mariadb, postgres};

fn a_person_leaves_and_returns(place: &Place) {
    let before = place.rows();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    place.run(&["disguise", "check", "--spec", "leave.toml"], 0);
    let plan = ["disguise", "plan", "--spec", "leave.toml", "--user", "19"];
    let plan = place.json(&plan, 0);
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3, "{plan}");
    // Nobody could bring 19 back yet, and a machine reads that as a person does.
    assert_eq!(plan["refusals"].as_array().unwrap().len(), 1, "{plan}");
    assert_eq!(place.rows(), before);
    for (user, file) in [("19", "19.key"), ("20", "20.key")] {
        let register = [
            "disguise",
            "register",
            "--spec",
            "leave.toml",
            "--user",
            user,
        ];
        place.run(&[&register[..], &["--credential-out", file]].concat(), 0);
        let mode = fs::metadata(place.path(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let applied = place.json(&APPLY, 0);
    assert_eq!(applied["rows"]["likes"], 1);
    assert_eq!(applied["placeholders"], 1);
    assert_eq!(applied["entry"]["index"], 0);
    let id = applied["id"].as_str().unwrap();
    assert!(!place.rows().concat().contains("Bea"));
    let holder = ["--user", "19", "--credential", "19.key"];
    let listed = place.json(&[&["disguise", "list"], &holder[..]].concat(), 0);
    assert_eq!(listed["disguises"][0]["id"], id);
    let spoken = place.json(&[&["disguise", "speaks-for"], &holder[..]].concat(), 0);
    assert_eq!(spoken["placeholders"].as_array().unwrap().len(), 1);
    // The credential of somebody else reveals nothing, and that is recorded too.
    let hidden = place.rows();
    let reveal = |file, user| {
        [
            "disguise",
            "reveal",
            "--id",
            id,
            "--user",
            user,
            "--credential",
            file,
            "--log",
            "audit",
        ]
    };
    let (_, stderr) = place.run(&reveal("20.key", "19"), 1);
    assert!(stderr.contains("the credential does not fit"), "{stderr}");
    assert_eq!(place.rows(), hidden);
    let revealed = place.json(&reveal("19.key", "19"), 0);
    assert_eq!(revealed["complete"], true);
    assert_eq!(place.rows(), before);
    the_log_tells_of_it_without_names(place);
}

fn the_log_tells_of_it_without_names(place: &Place) {
    place.run(&["verify", "audit"], 0);
    let (exported, _) = place.run(&["export", "audit", "--format", "jsonl"], 0);
    let entries: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<(&str, &str)> = entries
        .iter()
        .map(|it| {
            (
                it["action"].as_str().unwrap(),
                it["outcome"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("disguise.apply", "ok"),
            ("disguise.reveal", "denied"),
            ("disguise.reveal", "ok")
        ]
    );
    assert!(
        !exported.contains("Bea") && !exported.contains("\"19\""),
        "{exported}"
    );
}

#[test]
fn a_person_leaves_and_returns_on_sqlite() {
    a_person_leaves_and_returns(&Place::sqlite());
}

#[test]
fn a_person_leaves_and_returns_on_postgres() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    a_person_leaves_and_returns(&Place::new(|_| postgres::url(&socket)));
}

#[test]
fn a_person_leaves_and_returns_on_mariadb() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    database.execute("CREATE DATABASE app", &[]).unwrap();
    a_person_leaves_and_returns(&Place::new(|_| mariadb::url(&socket, "app")));
}

#[test]
fn what_is_forgotten_stays_gone_and_what_cannot_return_is_named() {
    let place = prepared();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let mut database = place.database();
    database
        .execute("INSERT INTO people VALUES (19, 'somebody new')", &[])
        .unwrap();
    let reveal = [
        "disguise",
        "reveal",
        "--id",
        &id,
        "--user",
        "19",
        "--credential",
        "19.pw",
    ];
    let revealed = place.json(&reveal, 4);
    assert_eq!(revealed["complete"], false);
    assert_eq!(revealed["kept"][0]["table"], "people");
    assert_eq!(
        revealed["kept"][0]["reason"],
        "a row with its key exists again"
    );
    let forget = [
        "disguise",
        "forget",
        "--user",
        "19",
        "--credential",
        "19.pw",
        "--everything",
        "--log",
        "audit",
    ];
    // Nothing says that the log is that of the database, in which something was done without.
    let (_, stderr) = place.run(&forget, 1);
    assert!(stderr.contains("disguise begin-log"), "{stderr}");
    let begin = ["disguise", "begin-log", "--log", "audit"];
    let begun = place.json(&begin, 0);
    let first = begun["entry"]["index"].as_u64().unwrap();
    let entry = place.json(&forget, 0)["entry"]["index"].as_u64().unwrap();
    assert_eq!(entry, first + 1);
    let (_, stderr) = place.run(&reveal, 1);
    assert!(stderr.contains("the credential does not fit"), "{stderr}");
}

#[test]
fn what_is_wrong_is_named_with_file_and_line_and_nothing_changes() {
    let place = prepared();
    let before = place.rows();
    let text = fs::read_to_string(place.path("leave.toml")).unwrap();
    let cases = [
        (
            format!("{text}\n[[remove]]\ntable = \"lokes\"\n"),
            "table lokes is not in the database",
        ),
        (
            format!("{text}where = \"id = 1; DROP TABLE people\"\n"),
            "; is left over",
        ),
        (format!("{text}where = \"(id = 1\"\n"), "line"),
        (
            format!("{text}wherever = \"id = 1\"\n"),
            "unknown field `wherever`",
        ),
    ];
    for (number, (spec, message)) in cases.iter().enumerate() {
        assert_ne!(*spec, text, "case {number}");
        fs::write(place.path("wrong.toml"), spec).unwrap();
        let apply = ["disguise", "apply", "--spec", "wrong.toml", "--user", "19"];
        let (_, stderr) = place.run(&apply, 1);
        assert!(
            stderr.contains(message) && stderr.contains("line ") && stderr.contains("wrong.toml"),
            "{number}: {stderr}"
        );
        assert_eq!(place.rows(), before);
    }
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "nineteen",
    ];
    let (_, stderr) = place.run(&apply, 1);
    assert!(stderr.contains("is a number here"), "{stderr}");
    let absent = ["disguise", "draft", "--db", "sqlite:absent.db"];
    place.run(&absent, 1);
    assert!(!place.path("absent.db").exists());
    place.run(
        &[
            "disguise",
            "forget",
            "--user",
            "19",
            "--credential",
            "19.pw",
        ],
        2,
    );
}
