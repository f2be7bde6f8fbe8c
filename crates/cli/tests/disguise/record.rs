//! The log's record of who did what to whom, and its readers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use probity_disguise::{Database as _, Value as Cell};
use serde_json::Value;

use crate::place::{APPLY, Place, prepared};

/// Returns the entries of the log that `filters` choose, as anybody with its key exports them.
fn entries(place: &Place, filters: &[&str]) -> Vec<Value> {
    let export = [&["export", "audit", "--format", "jsonl"], filters].concat();
    let (exported, _) = place.run(&export, 0);
    let lines = exported.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn actions(entries: &[Value]) -> Vec<(&str, &str)> {
    entries
        .iter()
        .map(|it| {
            let outcome = it["outcome"].as_str().unwrap_or("ok");
            (it["action"].as_str().unwrap(), outcome)
        })
        .collect()
}

/// UX 5: `apply` without `--user` hid everybody, at once and without a question, so that a script with one option left out
/// emptied the site. Everybody is meant only where it is said, and what is not recorded is said, too.
#[test]
fn everybody_is_hidden_only_where_it_is_said_and_a_missing_log_is_named() {
    let place = prepared();
    let register = ["disguise", "register", "--user", "20"];
    place.run(&register, 0);
    let before = place.rows();
    let apply = ["disguise", "apply", "--spec", "leave.toml"];
    let (_, stderr) = place.run(&apply, 2);
    assert!(
        stderr.contains("--everybody") && stderr.contains("--user"),
        "{stderr}"
    );
    let both = [&apply[..], &["--user", "19", "--everybody"]].concat();
    place.run(&both, 2);
    assert_eq!(place.rows(), before);
    let (_, stderr) = place.run(&[&apply[..], &["--everybody"]].concat(), 0);
    assert!(
        stderr.contains("leaves no entry") && stderr.contains("--log"),
        "{stderr}"
    );
    assert!(!place.rows().concat().contains("Bea"));
    assert!(entries(&place, &[]).is_empty());
}

/// UX 3: entries of the command line said neither who did it nor what for. They say what the arguments say, and else the login
/// name, which the program takes from the system and nobody has confirmed.
#[test]
fn an_entry_says_who_did_it_and_what_for() {
    let place = prepared();
    let said = [
        "--actor",
        "registrar",
        "--purpose",
        "end of term",
        "--basis",
        "statute 7",
    ];
    let id = place.json(&[&APPLY[..], &said[..]].concat(), 0)["id"].clone();
    let id = id.as_str().unwrap();
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    let reveal = ["disguise", "reveal", "--id", id];
    place.run(&[&reveal[..], &holder[..]].concat(), 0);
    let (_, stderr) = place.run(&[&APPLY[..], &["--actor", ""]].concat(), 2);
    assert!(stderr.contains("--actor"), "{stderr}");
    let told = entries(&place, &[]);
    let field = |at: usize, name: &str| told[at][name].as_str().unwrap_or("").to_owned();
    assert_eq!(field(0, "actor"), "registrar");
    assert_eq!(field(0, "purpose"), "end of term");
    assert_eq!(field(0, "basis"), "statute 7");
    let login = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let login = String::from_utf8(login.stdout).unwrap();
    assert_eq!(field(1, "actor"), login.trim());
    assert_eq!(
        (field(1, "purpose"), field(1, "basis")),
        (String::new(), String::new())
    );
    assert_eq!(told.len(), 2);
}

/// S20: wrong passwords given to `list` and `speaks-for` were told to no log. Each is an entry, by the name that counts them
/// for one person.
#[test]
fn each_wrong_password_is_an_entry_under_the_name_of_its_person() {
    let place = prepared();
    fs::write(place.path("guess.pw"), "a guess\n").unwrap();
    for command in ["list", "speaks-for", "export"] {
        let ask = ["disguise", command, "--user", "19", "--log", "audit"];
        let guess = [&ask[..], &["--credential", "guess.pw"]].concat();
        for _ in 0..2 {
            let (_, stderr) = place.run(&guess, 1);
            assert!(stderr.contains("the credential does not fit"), "{stderr}");
        }
    }
    let name = name(&place, "19");
    let told = entries(&place, &["--subject", &name]);
    assert_eq!(
        actions(&told),
        [
            ("disguise.list", "denied"),
            ("disguise.list", "denied"),
            ("disguise.speaks-for", "denied"),
            ("disguise.speaks-for", "denied"),
            ("disguise.export", "denied"),
            ("disguise.export", "denied"),
        ]
    );
    assert_eq!(entries(&place, &[]).len(), 6);
    for (count, it) in (1..).zip(&told) {
        let payload: Value = serde_json::from_str(it["payload"].as_str().unwrap()).unwrap();
        assert_eq!(payload["refusals"], count, "{payload}");
    }
    assert!(entries(&place, &["--subject", &self::name(&place, "20")]).is_empty());
}

/// Returns the name that entries have for a user from now on.
fn name(place: &Place, user: &str) -> String {
    let ask = ["disguise", "subject-name", "--user", user, "--log", "audit"];
    place.json(&ask, 0)["names"][0].as_str().unwrap().to_owned()
}

/// UX 3: no command turned an id into the hash that stands in the log. Whoever has a key of the log
/// and the database finds a person's disguises. So does the person with their credential; nobody
/// else's credential is accepted.
#[test]
fn a_person_is_found_in_the_log_by_its_key_or_by_their_credential() {
    let place = prepared();
    let register = [
        "disguise",
        "register",
        "--user",
        "20",
        "--credential-out",
        "20.key",
    ];
    place.run(&register, 0);
    let id = place.json(&APPLY, 0)["id"].as_str().unwrap().to_owned();
    // Also while the person is away.
    let name = name(&place, "19");
    let ask = ["disguise", "subject-name", "--user", "19", "--log", "audit"];
    let own = [&ask[..], &["--credential", "19.pw"]].concat();
    assert_eq!(place.json(&own, 0)["names"][0], name.as_str());
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", &id], &holder[..]].concat(),
        0,
    );
    place.run(
        &[&["disguise", "forget", "--everything"], &holder[..]].concat(),
        0,
    );
    let (_, stderr) = place.run(&[&ask[..], &["--credential", "20.key"]].concat(), 1);
    assert!(stderr.contains("the credential does not fit"), "{stderr}");
    let told = entries(&place, &["--subject", &name]);
    assert_eq!(
        actions(&told),
        [
            ("disguise.apply", "ok"),
            ("disguise.reveal", "ok"),
            ("disguise.forget", "ok"),
            ("disguise.subject-name", "denied"),
        ]
    );
    let (_, stderr) = place.run(&["disguise", "subject-name", "--user", "19"], 2);
    assert!(stderr.contains("--log"), "{stderr}");
}

fn files(folder: &Path, all: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push(fs::read(&path).unwrap());
        }
    }
}

/// A thief with the database, its salt and the files of the log, but without a key of it, does not learn who was disguised.
/// Neither do they with a log in clear, for the names are made with a key that neither the database nor the salt gives.
#[test]
fn database_salt_and_log_files_without_a_key_do_not_tell_who_was_disguised() {
    let place = prepared();
    let register = [
        "disguise",
        "register",
        "--user",
        "20",
        "--credential-out",
        "20.key",
    ];
    place.run(&register, 0);
    place.run(&APPLY, 0);
    let names = place.json(
        &["disguise", "subject-name", "--user", "19", "--log", "audit"],
        0,
    );
    let [name, unkeyed] = [0, 1].map(|at| names["names"][at].as_str().unwrap().to_owned());
    // A thief can make the second name, which is a hash of salt and id alone.
    assert_ne!(name, unkeyed);
    assert_eq!(entries(&place, &["--subject", &name]).len(), 1);
    assert!(entries(&place, &["--subject", &unkeyed]).is_empty());
    let raw = |hex: &str| -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    };
    let mut stolen = Vec::new();
    files(&place.path("audit"), &mut stolen);
    let mut database = place.database();
    let tables = database.catalog().unwrap().into_keys();
    for table in tables.filter(|it| it.starts_with("probity_")) {
        let rows = database.query(&format!("SELECT * FROM {table}"), &[]);
        stolen.extend(rows.unwrap().into_iter().flatten().map(|cell| match cell {
            Cell::Bytes(bytes) => bytes,
            other => other.to_string().into_bytes(),
        }));
    }
    for name in [&name, &unkeyed] {
        for what in [name.as_bytes(), &raw(name)] {
            let holds = |bytes: &Vec<u8>| bytes.windows(what.len()).any(|it| it == what);
            assert!(!stolen.iter().any(holds), "{name}");
        }
    }
    // Another log of the same database has another name for the person, and another key makes no names of this log.
    place.run(&["init", "other"], 0);
    let ask = ["disguise", "subject-name", "--user", "19"];
    let other = place.json(&[&ask[..], &["--log", "other"]].concat(), 0);
    assert_ne!(other["names"][0], name.as_str());
    place.run(
        &[&ask[..], &["--log", "audit", "--key", "other.key"]].concat(),
        1,
    );
}

/// Low finding of the security review: `--db` took a password, which stands in the list of processes for all to see. It is
/// refused without a word of it, and a file or the environment carries it.
#[test]
fn a_password_of_the_database_is_no_argument() {
    let place = prepared();
    let secret = "mysql://app:s3cret@127.0.0.1:9/app";
    for args in [
        &["disguise", "holds", "--db", secret][..],
        &[
            "disguise",
            "apply",
            "--spec",
            "leave.toml",
            "--everybody",
            "--db",
            secret,
        ],
        &[
            "disguise",
            "holds",
            "--db",
            "postgres://app@127.0.0.1:9/app?password=s3cret",
        ],
        &["pocket", "create", "copy.pocket", "--from", secret],
    ] {
        let (_, stderr) = place.run(args, 2);
        assert!(
            stderr.contains("password") && stderr.contains("-file FILE"),
            "{stderr}"
        );
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
    assert!(!place.path("copy.pocket").exists());
    // The file is read: its server is not there.
    fs::write(place.path("absent.url"), format!("{secret}\n")).unwrap();
    for mode in [0o644, 0o600] {
        let mode_of = Permissions::from_mode(mode);
        fs::set_permissions(place.path("absent.url"), mode_of).unwrap();
        let (_, stderr) = place.run(&["disguise", "holds", "--db-file", "absent.url"], 1);
        assert!(
            stderr.contains("cannot open the database") && !stderr.contains("s3cret"),
            "{stderr}"
        );
        // Others who could read the password were not told of.
        let is_told = stderr.contains("others can read the password in absent.url");
        assert_eq!(is_told, mode == 0o644, "{stderr}");
    }
    fs::write(place.path("app.url"), format!("{}\n", place.url)).unwrap();
    let mut holds = place.command(&["disguise", "holds", "--db-file", "app.url"]);
    assert!(
        holds
            .env_remove("PROBITY_DB")
            .output()
            .unwrap()
            .status
            .success()
    );
    let create = [
        "pocket",
        "create",
        "copy.pocket",
        "--from-file",
        "app.url",
        "--table",
        "people",
    ];
    place.run(&create, 0);
    fs::write(place.path("empty.url"), "\n").unwrap();
    let (_, stderr) = place.run(&["disguise", "holds", "--db-file", "empty.url"], 1);
    assert!(stderr.contains("does not hold the address"), "{stderr}");
}

/// UX 1: after a backup was restored, `replay` over a damaged log said that nothing was missed, while people who had left were
/// back. A log that cannot be read to its end is status 3, and nothing is done.
#[test]
fn a_replay_of_a_log_that_cannot_be_read_does_nothing() {
    let place = prepared();
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    place.run(&APPLY, 0);
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    let restored = place.rows();
    let master = place.path("audit/keys/master.key");
    let key = fs::read(&master).unwrap();
    fs::remove_file(&master).unwrap();
    let replay = [
        "disguise",
        "replay",
        "--log",
        "audit",
        "--spec",
        "leave.toml",
    ];
    for args in [&replay[..], &[&replay[..], &["--dry-run"]].concat()] {
        let (stdout, stderr) = place.run(args, 3);
        assert!(
            stdout.is_empty() && stderr.contains("nothing was done again"),
            "{stderr}"
        );
        assert_eq!(place.rows(), restored);
    }
    fs::write(&master, key).unwrap();
    place.run(&replay, 0);
    assert!(!place.rows().concat().contains("Bea"));
}

/// A mistyped id was refused as not registered. Whoever followed the help gave nobody a credential,
/// and a departure of no rows was recorded as done. An id without a row is refused by name, nothing
/// is made, and each refusal is an entry.
#[test]
fn an_id_without_a_row_gets_no_credential_and_no_departure() {
    let place = prepared();
    let before = place.rows();
    let apply = [
        "disguise",
        "apply",
        "--spec",
        "leave.toml",
        "--log",
        "audit",
    ];
    let nobody = [&apply[..], &["--user", "77"]].concat();
    let register = [
        "disguise",
        "register",
        "--spec",
        "leave.toml",
        "--user",
        "77",
    ];
    let out = ["--credential-out", "77.key", "--log", "audit"];
    let register = [&register[..], &out[..]].concat();
    let later = [&nobody[..], &["--grace", "30d"]].concat();
    let chunks = [&nobody[..], &["--chunk-rows", "1"]].concat();
    for args in [&nobody, &register, &nobody, &later, &chunks] {
        let (stdout, stderr) = place.run(args, 1);
        assert_eq!(stdout, "");
        assert!(
            stderr.contains("table people has no row of this user"),
            "{stderr}"
        );
        assert!(!stderr.contains("give them a credential"), "{stderr}");
    }
    assert!(!place.path("77.key").exists());
    assert_eq!(place.rows(), before);
    // A user with a row and no credential gets another message, and so does one who has left.
    let twenty = [&apply[..], &["--user", "20"]].concat();
    let (_, stderr) = place.run(&twenty, 1);
    assert!(stderr.contains("give them a credential first"), "{stderr}");
    let id = place.json(&APPLY, 0)["id"].as_str().unwrap().to_owned();
    let (_, stderr) = place.run(&APPLY, 1);
    assert!(stderr.contains("has no row of this user"), "{stderr}");
    let over = [&APPLY[..], &["--over", "19.pw"]].concat();
    let (_, stderr) = place.run(&over, 1);
    assert!(
        stderr.contains(&format!("away already by disguise {id}")),
        "{stderr}"
    );
    let told = entries(&place, &[]);
    let expected = [
        ("disguise.apply", "failed"),
        ("disguise.register", "failed"),
        ("disguise.apply", "failed"),
        ("disguise.schedule", "failed"),
        ("disguise.begin", "failed"),
        ("disguise.apply", "failed"),
        ("disguise.apply", "ok"),
        ("disguise.apply", "failed"),
        ("disguise.apply", "failed"),
    ];
    assert_eq!(actions(&told), expected);
}

/// The second copies of the heads went while the commit of a new key waited: the key was in force,
/// and the program said that the log is poisoned, as for an operation that was not done.
#[test]
fn an_operation_is_told_of_as_done_although_the_log_cannot_be_closed_after_it() {
    let place = prepared();
    place.run(&[&APPLY[..], &["--json"]].concat(), 0);
    let entries = place.path("audit/streams/default/segments/00000000000000000000.seg");
    let length = || fs::metadata(&entries).unwrap().len();
    let before = length();
    let mut reader = place.database();
    reader.begin_reading().unwrap();
    reader.query("SELECT COUNT(*) FROM people", &[]).unwrap();
    let rekey = [
        "disguise",
        "rekey",
        "--user",
        "19",
        "--credential",
        "19.pw",
        "--new-key",
        "--credential-out",
        "new.key",
        "--log",
        "audit",
        "--json",
    ];
    let rekeying = place.command(&rekey).spawn().unwrap();
    while length() == before {
        std::thread::yield_now();
    }
    let (heads, away) = (place.path("audit.heads"), place.path("away"));
    fs::rename(&heads, &away).unwrap();
    fs::write(&heads, "no folder").unwrap();
    reader.rollback().unwrap();
    drop(reader);
    let output = rekeying.wait_with_output().unwrap();
    fs::remove_file(&heads).unwrap();
    fs::rename(&away, &heads).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("it was done, as told above"), "{stderr}");
    let told = serde_json::Deserializer::from_slice(&output.stdout);
    let told = told.into_iter::<Value>().next().unwrap().unwrap();
    assert_eq!(told["entry"]["index"], 1, "{told}");
    let list = [
        "disguise",
        "list",
        "--user",
        "19",
        "--credential",
        "new.key",
    ];
    place.run(&list, 0);
}
