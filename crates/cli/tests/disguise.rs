//! The real program against real databases: a person leaves, comes back, and the log tells of it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use probity_disguise::database::{Sqlite, connect};
use probity_disguise::{ApplyRequest, Credential, Database, Engine, SpecFile};
use probity_format::Timestamp;
use serde_json::Value;
use tempfile::TempDir;

#[path = "../../disguise/tests/server/mariadb.rs"]
mod mariadb;
#[path = "../../disguise/tests/server/postgres.rs"]
mod postgres;
#[path = "../../disguise/tests/server/mod.rs"]
mod server;

const TABLES: [&str; 6] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE posts (id BIGINT PRIMARY KEY, author_id BIGINT REFERENCES people(id), text VARCHAR(80))",
    "CREATE TABLE likes (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES people(id), post_id BIGINT REFERENCES posts(id))",
    "INSERT INTO people VALUES (19, 'Bea Very-Personal'), (20, 'Al')",
    "INSERT INTO posts VALUES (1, 19, 'hello'), (2, 20, 'world')",
    "INSERT INTO likes VALUES (1, 19, 2), (2, 20, 1)",
];

/// A folder with a log, and a database with two people in it.
struct Place {
    folder: TempDir,
    url: String,
}

impl Place {
    fn new(url: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = url(folder.path());
        let place = Self { folder, url };
        let mut database = place.database();
        for sql in TABLES {
            database.execute(sql, &[]).unwrap();
        }
        place.run(&["init", "audit"], 0);
        place
    }

    fn sqlite() -> Self {
        Self::new(|folder| {
            let file = folder.join("app.db");
            drop(Sqlite::open(&file).unwrap());
            format!("sqlite:{}", file.display())
        })
    }

    fn database(&self) -> Box<dyn Database> {
        connect(&self.url).unwrap()
    }

    fn rows(&self) -> Vec<String> {
        let mut database = self.database();
        let mut all = Vec::new();
        for table in ["people", "posts", "likes"] {
            let sql = format!("SELECT * FROM {table} ORDER BY id");
            let rows = database.query(&sql, &[]).unwrap();
            all.extend(rows.iter().map(|row| format!("{table} {row:?}")));
        }
        all
    }

    fn output(&self, args: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_probity"))
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("PROBITY_KEY_FILE")
            .env("PROBITY_DATABASE", &self.url)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs the program, expects the status, and gives both outputs.
    fn run(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.output(args);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(
            output.status.code(),
            Some(status),
            "{args:?}\n{stdout}{stderr}"
        );
        (stdout, stderr)
    }

    fn json(&self, args: &[&str], status: i32) -> Value {
        let (stdout, _) = self.run(&[args, &["--json"]].concat(), status);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn a_person_leaves_and_returns(place: &Place) {
    let before = place.rows();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    place.run(&["disguise", "check", "--spec", "leave.toml"], 0);
    let plan = ["disguise", "plan", "--spec", "leave.toml", "--user", "19"];
    let plan = place.json(&plan, 0);
    assert_eq!(plan.as_array().unwrap().len(), 3, "{plan}");
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
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "19",
        "--log",
        "audit",
    ];
    let applied = place.json(&apply, 0);
    assert_eq!(applied["rows"]["likes"], 1);
    assert_eq!(applied["placeholders"], 1);
    assert_eq!(applied["entry"]["index"], 0);
    let id = applied["id"].as_str().unwrap();
    assert!(!place.rows().concat().contains("Bea"));
    let holder = ["--user", "19", "--credential", "19.key"];
    let listed = place.json(&[&["disguise", "list"], &holder[..]].concat(), 0);
    assert_eq!(listed[0]["id"], id);
    let spoken = place.json(&[&["disguise", "speaks-for"], &holder[..]].concat(), 0);
    assert_eq!(spoken.as_array().unwrap().len(), 1);
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
    assert!(stderr.contains("no such disguise"), "{stderr}");
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

fn prepared() -> Place {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    fs::write(place.path("19.pw"), "a long password\n").unwrap();
    let register = [
        "disguise",
        "register",
        "--user",
        "19",
        "--password-file",
        "19.pw",
    ];
    place.run(
        &[&register[..], &["--credential-out", "19.token"]].concat(),
        0,
    );
    place
}

#[test]
fn a_password_and_its_token_open_the_same_and_a_new_key_replaces_both() {
    let place = prepared();
    let applied = place.json(
        &["disguise", "apply", "--spec", "leave.toml", "--user", "19"],
        0,
    );
    let id = applied["id"].as_str().unwrap();
    for file in ["19.pw", "19.token"] {
        let listed = place.json(
            &["disguise", "list", "--user", "19", "--credential", file],
            0,
        );
        assert_eq!(listed[0]["id"], id);
    }
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.token",
        "--new-key",
    ];
    place.run(&[&rekey[..], &["--credential-out", "new.key"]].concat(), 0);
    for file in ["19.pw", "19.token"] {
        let reveal = [
            "disguise",
            "reveal",
            "--id",
            id,
            "--user",
            "19",
            "--credential",
            file,
        ];
        let (_, stderr) = place.run(&reveal, 1);
        assert!(stderr.contains("the credential does not fit"), "{stderr}");
    }
    place.json(
        &["disguise", "reveal", "--id", id, "--credential", "new.key"],
        0,
    );
    assert!(place.rows().concat().contains("Bea"));
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
    assert_eq!(place.json(&forget, 0)["entry"]["index"], 0);
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

#[test]
fn two_of_three_shares_open_and_fewer_or_other_ones_do_not() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let outs = |name: &str| -> Vec<String> {
        let files = ["a", "b", "c"].map(|it| format!("{name}.{it}"));
        files
            .iter()
            .flat_map(|file| ["--share-out".to_owned(), file.clone()])
            .collect()
    };
    for user in ["19", "20"] {
        let outs = outs(user);
        let mut register = vec!["disguise", "register", "--user", user, "--log", "audit"];
        register.extend(outs.iter().map(String::as_str));
        let (stdout, _) = place.run(&register, 0);
        assert_eq!(stdout, "");
        // One file too few: no file is left behind, and nobody is registered.
        let few = [&register[..4], &["--share-out", "x"]].concat();
        place.run(&few, 2);
        assert!(!place.path("x").exists());
    }
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let reveal = |files: &[&str], status| {
        let mut args = vec!["disguise", "reveal", "--id", &id, "--user", "19"];
        for file in files {
            args.extend(["--credential", file]);
        }
        place.run(&args, status).1
    };
    assert!(reveal(&["19.a"], 2).contains("two are needed"));
    reveal(&["19.a", "19.b", "19.c"], 2);
    for (first, second) in [("19.a", "20.b"), ("19.b", "19.b"), ("20.a", "20.b")] {
        let stderr = reveal(&[first, second], 1);
        assert!(stderr.contains("the credential does not fit"), "{stderr}");
    }
    reveal(&["19.c", "19.a"], 0);
    assert!(place.rows().concat().contains("Bea"));
}

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
    let hold = place.json(&hold, 0)["hold"].as_str().unwrap().to_owned();
    let before = place.rows();
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "19",
        "--log",
        "audit",
    ];
    let (_, stderr) = place.run(&apply, 1);
    assert!(stderr.contains("a legal hold on the person"), "{stderr}");
    assert_eq!(place.rows(), before);
    let listed = place.json(&["disguise", "holds", "--user", "19"], 0);
    assert_eq!(listed[0]["basis"], "file 12/2026");
    let lift = [&["disguise", "lift", "--hold", &hold], &authority[..]].concat();
    place.run(&lift, 0);
    let (_, stderr) = place.run(&lift, 1);
    assert!(stderr.contains("no such hold"), "{stderr}");
    place.run(&apply, 0);
    let (exported, _) = place.run(&["export", "audit", "--format", "jsonl"], 0);
    let told: Vec<Value> = exported
        .lines()
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

#[test]
fn a_disguise_in_its_grace_period_is_cancelled_or_swept_and_one_that_ended_is_gone() {
    let place = prepared();
    let before = place.rows();
    let apply = |more: &[&str]| {
        let apply = [
            "disguise",
            "apply",
            "--spec",
            "leave.toml",
            "--user",
            "19",
            "--log",
            "audit",
        ];
        let applied = place.json(&[&apply[..], more].concat(), 0);
        applied["id"].as_str().unwrap().to_owned()
    };
    let id = apply(&["--grace", "30d"]);
    assert_eq!(place.rows(), before);
    let scheduled = ["disguise", "scheduled", "--user", "19"];
    assert_eq!(place.json(&scheduled, 0)[0]["id"], id.as_str());
    let sweep = ["disguise", "sweep", "--log", "audit"];
    let swept = place.json(&sweep, 0);
    assert_eq!(swept["applied"].as_array().unwrap().len(), 0);
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
    assert!(place.json(&list, 0)[0]["expires"].is_string());
    // As if the year had gone by.
    let mut database = place.database();
    let sql = "UPDATE probity_deadlines SET due = 1";
    assert!(database.execute(sql, &[]).unwrap() > 0);
    assert!(place.json(&sweep, 0)["records"].as_u64().unwrap() > 0);
    assert_eq!(place.json(&list, 0).as_array().unwrap().len(), 0);
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
    ];
    place.run(&reveal, 0);
    assert_eq!(place.rows(), before);
    place.run(&["disguise", "decay", "--spec", "leave.toml"], 2);
}

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
    let holder = ["--user", "19", "--credential", "19.pw"];
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
    assert_eq!(plan[0]["action"], "redact");
    assert_eq!(plan[0]["rows"], 1);
    let applied = place.json(&[&["disguise", "apply"], &of[..]].concat(), 0);
    let texts = "SELECT text FROM notes ORDER BY id";
    let rows = database.query(texts, &[]).unwrap();
    let rows: Vec<String> = rows.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(rows, ["[redacted]: [redacted]", "Bea: bea@example.org"]);
    let holder = ["--user", "19", "--credential", "19.pw"];
    let export = [&["disguise", "export", "--log", "audit"], &holder[..]].concat();
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
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    let rows = database.query(texts, &[]).unwrap();
    assert_eq!(rows[0][0].to_string(), "Bea: bea@example.org");
}

#[test]
fn a_restored_backup_is_told_what_it_missed() {
    let place = prepared();
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    let before = place.rows();
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "19",
        "--log",
        "audit",
    ];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
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
    assert_eq!(
        shown,
        "the database has missed nothing that the log tells of\n"
    );
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
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--user",
        "19",
        "--log",
        "audit",
    ];
    let chunks = [&apply[..], &["--chunk-rows", "1"]].concat();
    let applied = place.json(&chunks, 0);
    assert_eq!(applied["rows"]["posts"], 1);
    // Told of when it was begun and when it was done.
    assert_eq!(applied["entry"]["index"], 1);
    let id = applied["id"].as_str().unwrap();
    let resumed = place.json(&["disguise", "resume", "--log", "audit"], 0);
    assert_eq!(resumed["disguises"].as_array().unwrap().len(), 0);
    place.run(&["disguise", "resume", "--id", id], 1);
    let holder = ["--user", "19", "--credential", "19.pw"];
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
    let grace = [&chunks[..], &["--grace", "3d"]].concat();
    place.run(&grace, 2);
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
        let holder = ["--user", user, "--credential", credential];
        let reveal = [&["disguise", "reveal", "--id", id], &holder[..]].concat();
        place.output(&reveal);
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
        engine.begin(&request).unwrap().to_string()
    };
    let (id, stopped) = (begin(), begin());
    let (_, stderr) = place.run(&["disguise", "resume", "--log", "audit"], 1);
    assert!(stderr.contains("give it again"), "{stderr}");
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
    let holder = ["--user", "19", "--credential", "19.pw"];
    place.run(
        &[&["disguise", "reveal", "--id", &id], &holder[..]].concat(),
        0,
    );
    assert_eq!(place.rows(), before);
}

/// Two tenants in one database, each with a person 7.
const OF_TENANTS: [&str; 6] = [
    "CREATE TABLE orgs (id TEXT PRIMARY KEY)",
    "CREATE TABLE users (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (org_id, id))",
    "CREATE TABLE notes (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, user_id INTEGER, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id))",
    "INSERT INTO orgs VALUES ('acme'), ('bolt')",
    "INSERT INTO users VALUES ('acme', 7, 'Ann'), ('bolt', 7, 'Bob')",
    "INSERT INTO notes VALUES ('acme', 1, 7), ('bolt', 1, 7)",
];

#[test]
fn a_person_of_one_tenant_leaves_and_the_same_id_of_another_stays() {
    let place = Place::sqlite();
    let mut database = place.database();
    for sql in OF_TENANTS {
        database.execute(sql, &[]).unwrap();
    }
    for table in ["likes", "posts", "people"] {
        database
            .execute(&format!("DROP TABLE {table}"), &[])
            .unwrap();
    }
    let mut names = || {
        let rows = database.query("SELECT name FROM users ORDER BY name", &[]);
        let rows = rows.unwrap().into_iter().flatten();
        rows.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let of = |tenant: &str, args: &[&str], status: i32| {
        let tenant = ["--tenant", tenant];
        place.run(&[&["disguise"], args, &tenant[..]].concat(), status)
    };
    let (checked, _) = of("acme", &["check", "--spec", "leave.toml"], 0);
    assert!(checked.starts_with("the specification fits"), "{checked}");
    let spec = ["--spec", "leave.toml", "--user", "7"];
    for tenant in ["acme", "bolt"] {
        let out = format!("{tenant}.key");
        let register = ["register", "--credential-out", &out];
        of(tenant, &[&register[..], &spec].concat(), 0);
    }
    let apply = [&["apply", "--log", "audit", "--json"][..], &spec].concat();
    let (_, stderr) = place.run(&[&["disguise"], &apply[..]].concat(), 1);
    assert!(stderr.contains("one must be named") && stderr.contains("--tenant"));
    let (applied, _) = of("acme", &apply, 0);
    let applied: Value = serde_json::from_str(&applied).unwrap();
    let id = applied["id"].as_str().unwrap();
    assert_eq!(names(), ["Bob"]);
    let reveal = ["reveal", "--id", id, "--user", "7", "--log", "audit"];
    for (tenant, key) in [
        ("bolt", "acme.key"),
        ("bolt", "bolt.key"),
        ("acme", "bolt.key"),
    ] {
        let (_, stderr) = of(tenant, &[&reveal[..], &["--credential", key]].concat(), 1);
        assert!(stderr.contains("no such disguise"), "{stderr}");
    }
    of(
        "acme",
        &[&reveal[..], &["--credential", "acme.key"]].concat(),
        0,
    );
    assert_eq!(names(), ["Ann", "Bob"]);
    let (_, stderr) = of("acme", &["update"], 2);
    assert!(stderr.contains("whole database"), "{stderr}");
    let (entries, _) = place.run(&["export", "audit", "--format", "jsonl"], 0);
    // Hexadecimal digits spell neither name.
    let named = ["acme", "bolt"].iter().any(|name| entries.contains(name));
    assert!(!named && entries.contains("tenant"), "{entries}");
}

#[test]
fn a_person_with_a_hybrid_key_leaves_returns_and_changes_the_suite() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = [
        "disguise",
        "register",
        "--spec",
        "leave.toml",
        "--user",
        "19",
    ];
    let (_, stderr) = place.run(&[&register[..], &["--suite", "kyber"]].concat(), 2);
    assert!(stderr.contains("suite kyber is not known"), "{stderr}");
    let hybrid = ["--suite", "x-wing", "--credential-out", "19.key"];
    place.run(&[&register[..], &hybrid].concat(), 0);
    let key = fs::read_to_string(place.path("19.key")).unwrap();
    assert!(key.starts_with("probity-disguise-key-v2 x-wing "));
    let before = place.rows();
    let apply = ["disguise", "apply", "--spec", "leave.toml", "--user", "19"];
    let id = place.json(&apply, 0)["id"].as_str().unwrap().to_owned();
    let reveal = |key: &str, status: i32| {
        let reveal = ["disguise", "reveal", "--id", &id, "--user", "19"];
        place.run(&[&reveal[..], &["--credential", key]].concat(), status)
    };
    // The same bytes under the name of another suite, and of one that nobody knows.
    let plain = key.replace("v2 x-wing", "v1");
    fs::write(place.path("plain.key"), plain).unwrap();
    fs::write(place.path("odd.key"), key.replace("x-wing", "kyber")).unwrap();
    let (_, stderr) = reveal("plain.key", 1);
    assert!(stderr.contains("no such disguise"), "{stderr}");
    let (_, stderr) = reveal("odd.key", 1);
    assert!(stderr.contains("suite kyber is not known"), "{stderr}");
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.key",
    ];
    let weaker = [
        "--new-key",
        "--suite",
        "x25519",
        "--credential-out",
        "new.key",
    ];
    place.run(&[&rekey[..], &weaker].concat(), 0);
    let key = fs::read_to_string(place.path("new.key")).unwrap();
    assert!(key.starts_with("probity-disguise-key-v1 "));
    reveal("19.key", 1);
    reveal("new.key", 0);
    assert_eq!(place.rows(), before);
}
