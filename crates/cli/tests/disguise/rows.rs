//! Hidden rows under migrations, and the export of texts that were redacted.

use std::fs;

use serde_json::Value;

use crate::place::prepared;

#[test]
fn a_migration_reaches_the_rows_that_are_disguised() {
    let place = prepared();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let mut database = place.database();
    for sql in [
        "ALTER TABLE people ADD COLUMN loud VARCHAR(40)",
        "UPDATE people SET loud = upper(name)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mapping = "[[update]]\nname = \"0001 loud names\"\ntable = \"people\"\n[[update.into]]\ntable = \"people\"\nrest = true\nsql = { loud = \"upper(name)\" }\n";
    fs::write(place.path("0001.toml"), mapping).unwrap();
    let update = [
        "disguise",
        "update",
        "--file",
        "0001.toml",
        "--log",
        "audit",
    ];
    place.begin_log();
    let updates = place.json(&update, 0);
    assert_eq!(updates["updates"][0], "0001 loud names");
    assert_eq!(updates["entry"]["stream"], "default");
    let (_, stderr) = place.run(&update, 1);
    assert!(stderr.contains("recorded already"), "{stderr}");
    fs::write(
        place.path("wrong.toml"),
        mapping.replace("loud =", "quiet ="),
    )
    .unwrap();
    let (_, stderr) = place.run(&["disguise", "update", "--file", "wrong.toml"], 1);
    assert!(stderr.contains("no column quiet"), "{stderr}");
    fs::write(place.path("worse.toml"), "[[update]]\nname = 1\n").unwrap();
    let (_, stderr) = place.run(&["disguise", "update", "--file", "worse.toml"], 1);
    assert!(
        stderr.contains("worse.toml") && stderr.contains("line 2"),
        "{stderr}"
    );
    let (listed, _) = place.run(&["disguise", "update"], 0);
    assert_eq!(listed, "0001 loud names\n");
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", &id], &holder[..]].concat(),
        0,
    );
    let loud = database
        .query("SELECT loud FROM people WHERE id = 19", &[])
        .unwrap();
    assert_eq!(loud[0][0].to_string(), "BEA VERY-PERSONAL");
}

const NOTES: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, name = { RandStr = { len = 20 } } }
[tables.likes]
readers = ["user_id"]
owners = []
[tables.notes]
through = ["post_id"]
[[modify]]
table = "notes"
column = "text"
redact = { emails = true, own_names = ["name"] }
[[decorrelate]]
table = "posts"
owners = ["author_id"]
"#;

#[test]
fn texts_under_posts_lose_names_and_their_owner_takes_the_whole_away() {
    let place = prepared();
    let mut database = place.database();
    for sql in [
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, post_id BIGINT REFERENCES posts(id), text TEXT, size REAL, scan BLOB)",
        "INSERT INTO notes VALUES (1, 1, 'Bea: bea@example.org', 0.5, x'00ff')",
        "INSERT INTO notes VALUES (2, 2, 'Bea: bea@example.org', 0.5, x'00ff')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    fs::write(place.path("notes.toml"), NOTES).unwrap();
    place.run(&["disguise", "check", "--spec", "notes.toml"], 0);
    let of = ["--spec", "notes.toml", "--user", "19"];
    let plan = place.json(&[&["disguise", "plan"], &of[..]].concat(), 0);
    assert_eq!(plan["steps"][0]["action"], "redact");
    assert_eq!(plan["steps"][0]["rows"], 1);
    let applied = place.json(&[&["disguise", "apply"], &of[..]].concat(), 0);
    let texts = "SELECT text FROM notes ORDER BY id";
    let rows = database.query(texts, &[]).unwrap();
    let rows: Vec<String> = rows.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(rows, ["[redacted]: [redacted]", "Bea: bea@example.org"]);
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let export = [&["disguise", "export"], &holder[..]].concat();
    let exported = place.json(&export, 0);
    let row = &exported["rows"][0];
    assert_eq!(row["disguise"], applied["id"]);
    assert_eq!(
        (&row["table"], &row["change"]),
        (&Value::from("notes"), &Value::from("modified"))
    );
    assert_eq!(row["values"]["text"], "Bea: bea@example.org");
    assert_eq!(row["since"]["text"], "[redacted]: [redacted]");
    assert_eq!(row["row"]["id"], 1);
    fs::write(place.path("19.json"), exported.to_string()).unwrap();
    let carry = [
        "pocket",
        "create",
        "19.pocket",
        "--subject",
        "19",
        "--disguises",
        "19.json",
    ];
    place.run(&carry, 0);
    assert_eq!(exported["entry"]["index"], 0);
    let (shown, _) = place.run(&export, 0);
    assert!(
        shown.contains("notes 1 modified: text \"Bea: bea@example.org\""),
        "{shown}"
    );
    let one = [&export[..], &["--id", "0000000000000000"]].concat();
    place.run(&one, 1);
    fs::write(place.path("wrong.pw"), "another password\n").unwrap();
    let wrong = [
        "disguise",
        "export",
        "--user",
        "19",
        "--credential",
        "wrong.pw",
    ];
    let (_, stderr) = place.run(&wrong, 1);
    assert!(stderr.contains("the credential does not fit"), "{stderr}");
    let id = applied["id"].as_str().unwrap();
    place.begin_log();
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    let rows = database.query(texts, &[]).unwrap();
    assert_eq!(rows[0][0].to_string(), "Bea: bea@example.org");
}

const POSTS: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, name = { RandStr = { len = 20 } } }
[[decorrelate]]
table = "posts"
owners = ["author_id"]
[tables.thanks]
owners = ["giver"]
"#;

/// Neither the output nor the entry of a reveal told what the policy deleted. Of a placeholder that stays nothing was said, either.
#[test]
fn a_reveal_tells_what_it_deletes_and_which_placeholder_stays() {
    let place = prepared();
    let mut database = place.database();
    fs::write(place.path("posts.toml"), POSTS).unwrap();
    let thanks = "CREATE TABLE thanks (id BIGINT PRIMARY KEY, giver BIGINT, taker BIGINT REFERENCES people(id))";
    database.execute(thanks, &[]).unwrap();
    let apply = ["disguise", "apply", "--spec", "posts.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    for sql in [
        "INSERT INTO posts SELECT 7, author_id, 'meanwhile' FROM posts WHERE id = 1",
        "INSERT INTO thanks SELECT 1, 20, author_id FROM posts WHERE id = 1",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let reveal = ["disguise", "reveal", "--id", &id, "--user", "19"];
    let more = ["--credential", "19.pw", "--references", "delete"];
    let reveal = [&reveal[..], &more].concat();
    let (told, _) = place.run(&reveal, 4);
    assert!(
        told.contains("deleted, as made meanwhile\n  posts: 1 row\nstill disguised\n  people "),
        "{told}"
    );
    let why = ": other rows refer to it: table thanks, column taker\n";
    assert!(told.contains(why), "{told}");
    database.execute("DELETE FROM thanks", &[]).unwrap();
    let told = place.json(&reveal, 0);
    assert_eq!(told["deleted"], serde_json::json!({}));
    assert_eq!(
        database.query("SELECT id FROM people", &[]).unwrap().len(),
        2
    );
}

/// U2: the policy `retain` left rows under a placeholder for good, and neither the output nor the entry of a reveal told of them.
#[test]
fn a_reveal_tells_what_it_retains() {
    for is_json in [false, true] {
        let place = prepared();
        let mut database = place.database();
        fs::write(place.path("posts.toml"), POSTS).unwrap();
        let thanks = "CREATE TABLE thanks (id BIGINT PRIMARY KEY, giver BIGINT)";
        database.execute(thanks, &[]).unwrap();
        let apply = ["disguise", "apply", "--spec", "posts.toml", "--user", "19"];
        let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
        let made = "INSERT INTO posts SELECT 7, author_id, 'meanwhile' FROM posts WHERE id = 1";
        database.execute(made, &[]).unwrap();
        let reveal = ["disguise", "reveal", "--id", &id, "--user", "19"];
        let more = ["--credential", "19.pw", "--references", "retain"];
        let reveal = [&reveal[..], &more].concat();
        if is_json {
            let told = place.json(&reveal, 0);
            let expected = serde_json::json!({"people": 1, "posts": 1});
            assert_eq!(told["retained"], expected, "{told}");
            continue;
        }
        let (told, _) = place.run(&reveal, 0);
        let stays = "left under placeholders for good, as the policy says\n  people: 1 row\n  posts: 1 row\n";
        assert!(told.contains(stays), "{told}");
    }
}
