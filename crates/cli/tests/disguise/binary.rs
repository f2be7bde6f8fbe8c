//! A person whose id is of bytes leaves, comes back and has a receipt.

use std::fs;

use crate::place::Place;

const USER: &str = "0x00fe1234567890abcdef001122334455";

#[test]
fn a_person_with_an_id_of_bytes_leaves_and_returns() {
    let place = Place::sqlite();
    let mut database = place.database();
    for sql in [
        "DROP TABLE likes",
        "DROP TABLE posts",
        "DROP TABLE people",
        "CREATE TABLE people (id BLOB PRIMARY KEY, name TEXT NOT NULL)",
        "CREATE TABLE posts (id INTEGER PRIMARY KEY, author_id BLOB REFERENCES people(id), text TEXT)",
        "CREATE TABLE likes (id INTEGER PRIMARY KEY, user_id BLOB REFERENCES people(id))",
        "INSERT INTO people VALUES (x'00fe1234567890abcdef001122334455', 'Bea'), (x'ff', 'Al')",
        "INSERT INTO posts VALUES (1, x'00fe1234567890abcdef001122334455', 'hello'), (2, x'ff', 'world')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    drop(database);
    let before = place.rows();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let of =
        |command, more: &[&'static str]| [&["disguise", command, "--user", USER], more].concat();
    let spec = ["--spec", "leave.toml"];
    place.run(&of("check", &spec), 0);
    let (_, refused) = place.run(
        &["disguise", "plan", "--spec", "leave.toml", "--user", "0xf"],
        1,
    );
    assert!(refused.contains("hexadecimal digits"), "{refused}");
    let register = [&spec[..], &["--credential-out", "bea.key"]].concat();
    place.run(&of("register", &register), 0);
    let applied = place.json(&of("apply", &spec), 0);
    assert_eq!(applied["rows"]["posts"], 1, "{applied}");
    assert!(!place.rows().concat().contains("Bea"));
    let id = applied["id"].as_str().unwrap();
    let holder = ["--credential", "bea.key", "--id", id];
    let reveal = ["disguise", "reveal", "--user", USER];
    let revealed = place.json(&[&reveal[..], &holder].concat(), 0);
    assert_eq!(revealed["complete"], true, "{revealed}");
    assert_eq!(place.rows(), before);
    place.run(&of("apply", &spec), 0);
    let key = [
        "disguise",
        "receipt-key",
        "own.key",
        "--name",
        "example.com/own",
    ];
    fs::write(place.path("own.pub"), place.run(&key, 0).0).unwrap();
    let forget = [
        "--credential",
        "bea.key",
        "--everything",
        "--receipt",
        "bea.receipt",
        "--receipt-key",
        "own.key",
    ];
    place.run(&of("forget", &forget), 0);
    let check = [
        "disguise",
        "check-receipt",
        "bea.receipt",
        "--key",
        "own.pub",
    ];
    place.run(&[&check[..], &["--user", USER]].concat(), 0);
    let (_, refused) = place.run(&[&check[..], &["--user", "0xff"]].concat(), 3);
    assert!(refused.contains("somebody else"), "{refused}");
}
