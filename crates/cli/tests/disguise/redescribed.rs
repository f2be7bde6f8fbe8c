//! A replay makes disguises again by the description of tables by which they were made.

use std::fs;

use crate::place::{Place, prepared};

const USERS: &str = "[users]\ntable = \"people\"\nid = \"id\"\n[users.placeholder]\nid = { RandNum = { lb = 1000, ub = 900000 } }\nname = { RandStr = { len = 9 } }\n";
const REMOVE: &str = "[[remove]]\ntable = \"msgs\"\n";
const MESSAGES: [&str; 2] = [
    "CREATE TABLE msgs (id INTEGER PRIMARY KEY, a BIGINT, b BIGINT)",
    "INSERT INTO msgs VALUES (1, 19, 20), (2, 20, 19), (3, 19, 19), (4, 20, 20)",
];

fn messages(place: &Place) -> Vec<String> {
    let sql = "SELECT id FROM msgs ORDER BY id";
    let rows = place.database().query(sql, &[]).unwrap();
    rows.concat().iter().map(ToString::to_string).collect()
}

/// The table of messages belongs to whom `b` names by a first specification, and to whom `a` names by another one.
fn described() -> Place {
    let place = prepared();
    for sql in MESSAGES {
        place.database().execute(sql, &[]).unwrap();
    }
    for owner in ["a", "b"] {
        let text = format!("{USERS}[tables.msgs]\nowners = [\"{owner}\"]\n{REMOVE}");
        fs::write(place.path(&format!("m{owner}.toml")), text).unwrap();
    }
    fs::write(place.path("plain.toml"), REMOVE).unwrap();
    let id = apply(&place, "mb.toml");
    reveal(&place, &id);
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    place
}

fn apply(place: &Place, spec: &str) -> String {
    let apply = ["disguise", "apply", "--spec", spec, "--user", "19"];
    let done = place.json(&[&apply[..], &["--log", "audit"]].concat(), 0);
    done["id"].as_str().unwrap().to_owned()
}

fn reveal(place: &Place, id: &str) {
    let reveal = ["disguise", "reveal", "--id", id, "--user", "19"];
    let with = ["--credential", "19.pw", "--log", "audit"];
    place.run(&[&reveal[..], &with].concat(), 0);
}

fn replay(place: &Place, specs: &[&str], status: i32) -> String {
    let mut replay = vec!["disguise", "replay", "--log", "audit"];
    replay.extend(specs.iter().flat_map(|it| ["--spec", it]));
    place.run(&replay, status).0
}

/// A replay took the owners of a table from what the restored database remembered of an earlier specification: it hid
/// rows of another person, left those of who had left in clear, and said that all was done.
#[test]
fn a_disguise_is_made_again_by_the_tables_of_its_own_specification() {
    let place = described();
    let id = apply(&place, "ma.toml");
    assert_eq!(messages(&place), ["2", "4"]);
    for _ in 0..2 {
        fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
        let said = replay(&place, &["ma.toml"], 0);
        assert!(said.contains("disguise.apply"), "{said}");
        assert_eq!(messages(&place), ["2", "4"]);
    }
    reveal(&place, &id);
    assert_eq!(messages(&place), ["1", "2", "3", "4"]);
}

/// A specification that describes nothing was applied by the description of then. A replay looks for it among those given,
/// and does nothing where it is not there.
#[test]
fn a_disguise_is_not_made_again_by_another_description() {
    let place = described();
    let id = apply(&place, "ma.toml");
    reveal(&place, &id);
    apply(&place, "plain.toml");
    assert_eq!(messages(&place), ["2", "4"]);
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    let said = replay(&place, &["plain.toml"], 4);
    assert!(said.contains("described otherwise"), "{said}");
    assert_eq!(messages(&place), ["1", "2", "3", "4"]);
    replay(&place, &["plain.toml", "ma.toml"], 0);
    assert_eq!(messages(&place), ["2", "4"]);
}
