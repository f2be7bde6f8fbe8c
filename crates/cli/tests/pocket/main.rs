//! The real program with a pocket database: made, filled, asked, measured, damaged.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

mod cut;
mod interrupted;
mod losses;
mod manual;
mod mistakes;
mod person;
mod rows;
mod schema;
mod sources;
mod told;
mod untaken;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;

const SCHEMA: &str = "
CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT(30) INDEXED, fee REAL); -- who
CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor INTEGER REFERENCES doctors(id), day INTEGER INDEXED, note TEXT(40));
INSERT INTO doctors VALUES (1, 'Lee', 40.5), (2, 'O''Neil; Sons', 60);
";

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("vault.sql"), SCHEMA).unwrap();
        Self { folder }
    }

    /// Makes a place with a database of two doctors and 300 visits.
    fn filled() -> Self {
        let place = Self::new();
        place.run(&["create", "v", "--schema", "vault.sql", "--size", "16"], 0);
        let rows = (0..300).map(|n| format!("{},{},\"note, {n}\"\n", n % 2 + 1, 100 + n % 30));
        let rows = rows.collect::<String>();
        fs::write(place.path("visits.csv"), format!("doctor,day,note\n{rows}")).unwrap();
        place.run(&["import", "v", "visits", "visits.csv"], 0);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
        command.args(args).current_dir(self.folder.path());
        command
            .env_remove("PROBITY_POCKET_ROOT")
            .env_remove("PROBITY_KEY_FILE")
            .stdin(Stdio::null());
        command
    }

    fn output(&self, args: &[&str], root: Option<&Path>) -> Output {
        let mut command = self.program(&["pocket"]);
        command.args(args);
        if let Some(root) = root {
            command.env("PROBITY_POCKET_ROOT", root);
        }
        command.output().unwrap()
    }

    fn run(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.output(args, None);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        let found = output.status.code();
        assert_eq!(found, Some(status), "{args:?}\n{stdout}{stderr}");
        (stdout, stderr)
    }

    fn json(&self, args: &[&str]) -> Value {
        let (stdout, _) = self.run(&[args, &["--json"]].concat(), 0);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
    }

    fn count(&self, file: &str, table: &str) -> Value {
        let sql = format!("SELECT COUNT(*) AS n FROM {table}");
        self.json(&["query", file, &sql])["n"].clone()
    }
}

#[test]
fn a_database_is_made_filled_asked_and_measured() {
    let place = Place::filled();
    assert_eq!(place.count("v", "visits"), json!(300));
    let mode = fs::metadata(place.path("v.root"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let sql = "SELECT name, COUNT(*) AS visits, AVG(fee) AS fee FROM visits JOIN doctors ON visits.doctor = doctors.id \
               WHERE day = 103 GROUP BY name";
    let (table, _) = place.run(&["query", "v", sql], 0);
    assert_eq!(
        table,
        "name          visits  fee\nO'Neil; Sons      10  60.0\n"
    );
    let (csv, _) = place.run(&["query", "v", sql, "--format", "csv"], 0);
    assert_eq!(csv, "name,visits,fee\nO'Neil; Sons,10,60.0\n");
    let found = place.json(&["query", "v", sql]);
    assert_eq!(
        found,
        json!({"name": "O'Neil; Sons", "visits": 10, "fee": 60.0})
    );
    let (plan, _) = place.run(&["query", "v", sql, "--explain"], 0);
    assert!(plan.contains("by index visits.day -> visits"), "{plan}");
    let done = place.json(&["exec", "v", "BEGIN; DELETE FROM visits WHERE day = 103; UPDATE doctors SET fee = 1 WHERE id = 1; COMMIT"]);
    assert_eq!(done["rows_changed"], json!(11));
    assert_eq!(place.count("v", "visits"), json!(290));
    place.run(&["verify", "v"], 0);
    let before = place.json(&["stats", "v"]);
    place.run(
        &["query", "v", "SELECT note FROM visits WHERE day = 104"],
        0,
    );
    let after = place.json(&["stats", "v"]);
    let number = |stats: &Value, set: &str, name: &str| stats[set][name].as_u64().unwrap();
    let grown = number(&after, "since_creation", "page_reads")
        - number(&before, "since_creation", "page_reads");
    assert_eq!(grown, number(&after, "last_command", "page_reads"));
    assert_eq!(after["ram_given_bytes"], json!(65_536));
    assert!(after["ram_planned_bytes"].as_u64().unwrap() <= 65_536);
    assert_eq!(
        after["tables"][1],
        json!({"name": "visits", "rows_inserted": 300})
    );
    assert!(after["wear"]["blocks_erased"].as_u64().unwrap() > 1);
}

#[test]
fn a_simulation_tells_times_and_changes_nothing() {
    let place = Place::filled();
    let (before, root) = (
        fs::read(place.path("v")).unwrap(),
        place.count("v", "visits"),
    );
    let insertion = "INSERT INTO visits VALUES (NULL, 1, 5, 'x')";
    let told = place.json(&["simulate", "v", insertion]);
    // One program and its transfer, times the calibration; the insertion reads little.
    assert!(told["simulated_us"].as_u64().unwrap() >= 351, "{told}");
    assert_eq!(told["programs"], json!(1));
    assert_eq!(place.count("v", "visits"), root);
    let after = fs::read(place.path("v")).unwrap();
    // Opening programs nothing.
    assert_eq!(before.len(), after.len());
    assert_eq!(before, after);
}

#[test]
fn rows_come_from_json_and_a_refused_row_tells_what_stays() {
    let place = Place::filled();
    let rows =
        r#"[{"name": "Ada", "fee": 7}, {"fee": 1.5, "name": "Bo"}] {"name": "Cy", "fee": 2}"#;
    fs::write(place.path("d.json"), rows).unwrap();
    let done = place.json(&["import", "v", "doctors", "d.json", "--rows-per-commit", "2"]);
    assert_eq!(
        done,
        json!({"version": 1, "command": "pocket import", "table": "doctors", "rows": 3})
    );
    assert_eq!(place.count("v", "doctors"), json!(5));
    fs::write(
        place.path("bad.csv"),
        "doctor,day,note\n1,5,a\n1,6,b\n9,7,c\n",
    )
    .unwrap();
    let import = ["import", "v", "visits", "bad.csv", "--rows-per-commit", "1"];
    let (_, stderr) = place.run(&import, 1);
    assert!(
        stderr.contains("2 rows were imported, then line 4"),
        "{stderr}"
    );
    assert!(stderr.contains("doctors has no row 9"), "{stderr}");
    assert_eq!(place.count("v", "visits"), json!(302));
}

/// One of four reals was stored as its neighbour.
#[test]
fn reals_of_json_are_stored_as_they_are() {
    let place = Place::filled();
    let reals = ["9.671479570429177", "0.1", "5e-324", "-17.308641975308642"];
    for (number, real) in reals.iter().enumerate() {
        let row = format!(r#"{{"name": "R{number}", "fee": {real}}}"#);
        fs::write(place.path("real.json"), row).unwrap();
        place.json(&["import", "v", "doctors", "real.json"]);
        let sql = format!("SELECT fee FROM doctors WHERE name = 'R{number}'");
        let found = place.json(&["query", "v", &sql]);
        let shown = found["fee"].as_f64();
        assert_eq!(shown, real.parse().ok(), "{found}");
    }
}

/// Each page of rows was read by itself. Where rows were deleted meanwhile, the next page began too
/// far on, and rows that nobody had deleted were missing, with status 0. Everything is read as of
/// one moment: the imported rows end with the newest and have no hole.
#[test]
fn a_database_that_changes_meanwhile_is_taken_over_as_of_one_moment() {
    let place = Place::new();
    let mut other = Sqlite::open(&place.path("app.db")).unwrap();
    other.query("PRAGMA journal_mode = WAL", &[]).unwrap();
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
        INSERT INTO notes SELECT i FROM n";
    for sql in ["CREATE TABLE notes (number INTEGER)", rows] {
        other.execute(sql, &[]).unwrap();
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut first = 0;
            while !done.load(Ordering::SeqCst) && first < 19_000 {
                first += 10;
                let delete = format!("DELETE FROM notes WHERE number <= {first}");
                other.execute(&delete, &[]).unwrap();
            }
        });
        place.run(
            &["create", "c", "--from", "sqlite:app.db", "--size", "16"],
            0,
        );
        done.store(true, Ordering::SeqCst);
    });
    let sql = "SELECT COUNT(*) AS rows, MIN(number) AS low, MAX(number) AS high FROM notes";
    let found = place.json(&["query", "c", sql]);
    let number = |name: &str| found[name].as_i64().unwrap();
    assert_eq!(number("high"), 20_000, "{found}");
    assert_eq!(number("rows"), 20_001 - number("low"), "{found}");
}

#[test]
fn a_database_takes_over_another_one() {
    let place = Place::new();
    let mut other = Sqlite::open(&place.path("app.db")).unwrap();
    for sql in [
        "CREATE TABLE towns (code TEXT PRIMARY KEY, name TEXT)",
        "CREATE TABLE people (id INTEGER PRIMARY KEY, town TEXT REFERENCES towns(code), name TEXT, height REAL)",
        "INSERT INTO towns VALUES ('L', 'Lyon'), ('P', 'Paris')",
        "INSERT INTO people VALUES (1, 'P', 'Ada', 1.7), (2, 'L', 'Bo', 2), (3, 'P', NULL, 1.5)",
        // UX 10: what disguises keep in a database, bytes that have no form here, stopped it.
        "CREATE TABLE probity_operations (id BLOB PRIMARY KEY, user BLOB)",
        "INSERT INTO probity_operations VALUES (x'0102', x'00FF')",
    ] {
        other.execute(sql, &[]).unwrap();
    }
    let create = [
        "create",
        "c",
        "--from",
        "sqlite:app.db",
        "--index",
        "people.name",
    ];
    let (_, stderr) = place.run(&create, 1);
    assert!(stderr.contains("of people: name is NULL"), "{stderr}");
    assert!(!place.path("c").exists() && !place.path("c.root").exists());
    place.run(
        &[&create[..], &["--null-as-empty", "--size", "16"]].concat(),
        0,
    );
    let sql = "SELECT people.name, towns.name AS town, height FROM people JOIN towns ON people.town = towns.code WHERE people.name = 'Bo'";
    let found = place.json(&["query", "c", sql]);
    assert_eq!(found, json!({"name": "Bo", "town": "Lyon", "height": 2.0}));
    assert_eq!(place.count("c", "people"), json!(3));
    place.run(&["query", "c", "SELECT * FROM probity_operations"], 1);
}

/// P3, P10, P11 and the lock: four bytes of the image once asked for 8 GiB. A flipped bit of the
/// root was reported as another file's, a refused query left a heading, and the root file was open
/// to two at once.
#[test]
fn what_is_refused_is_refused_before_anything_is_believed() {
    let place = Place::filled();
    let query = ["query", "v", "SELECT note FROM visits", "--format", "csv"];
    let wrong = [
        "query",
        "v",
        "SELECT note FROM visits WHERE day = 'x' AND",
        "--format",
        "csv",
    ];
    assert_eq!(place.run(&wrong, 1).0, "");
    assert!(place.run(&query, 0).0.starts_with("note\n"));
    let none = [
        "query",
        "v",
        "SELECT note FROM visits WHERE day = 0",
        "--format",
        "csv",
    ];
    assert_eq!(place.run(&none, 0).0, "note\n");

    let root = fs::File::open(place.path("v.root")).unwrap();
    root.try_lock().unwrap();
    let (_, stderr) = place.run(&["verify", "v"], 1);
    assert!(stderr.contains("another program has it open"), "{stderr}");
    drop(root);
    place.run(&["verify", "v"], 0);

    for (file, at) in [("v.root", 3), ("v.root", 9), ("v.root", 14), ("v.root", 20)] {
        let whole = fs::read(place.path(file)).unwrap();
        let mut changed = whole.clone();
        changed[at] ^= 4;
        fs::write(place.path(file), changed).unwrap();
        place.run(&["verify", "v"], 3);
        fs::write(place.path(file), &whole).unwrap();
    }
    let mut chip = fs::read(place.path("v")).unwrap();
    chip[8..12].fill(0xFF);
    fs::write(place.path("v"), chip).unwrap();
    let (_, stderr) = place.run(&["verify", "v"], 3);
    assert!(stderr.contains("more than it has counts for"), "{stderr}");
}

/// S14: a copied pair of files encrypted other rows under the same key stream. The difference of
/// two pages gave what only one of the copies held.
#[test]
fn copies_of_both_files_never_share_a_key_stream() {
    let place = Place::filled();
    for (from, to) in [("v", "w"), ("v.root", "w.root")] {
        fs::copy(place.path(from), place.path(to)).unwrap();
    }
    let known = "known to everybody, known to everybody..";
    let secret = "HIV positive, patient secret, HIV positi";
    for (file, note) in [("v", known), ("w", secret)] {
        let insert = format!("INSERT INTO visits (doctor, day, note) VALUES (1, 7, '{note}')");
        place.run(&["exec", file, &insert], 0);
    }
    let [one, other] = ["v", "w"].map(|file| fs::read(place.path(file)).unwrap());
    let pages = one.chunks(2048).zip(other.chunks(2048)).skip(1);
    let mut different = 0;
    for (one, other) in pages.filter(|(one, other)| one != other) {
        let equal = one.iter().zip(other).filter(|(a, b)| a == b).count();
        assert!(equal < 100, "{equal} equal bytes of two pages");
        different += 1;
    }
    assert!(different > 0);
}

#[test]
fn damage_and_wrong_use_have_their_own_status() {
    let place = Place::filled();
    place.run(&["create", "v", "--size", "16"], 1);
    place.run(&["query", "v", "DELETE FROM visits"], 2);
    let (_, stderr) = place.run(&["query", "v", "SELECT nothing FROM visits"], 1);
    assert!(
        stderr.contains("nothing") && stderr.contains("at byte 7"),
        "{stderr}"
    );
    // The refusal of a script had two places in it, that of the statement and that within it.
    let script = "DELETE FROM visits WHERE id = 0; SHOW TABLES";
    let (_, stderr) = place.run(&["exec", "v", script], 1);
    let said = "statement 2, at byte 33: the pocket database refuses: SHOW is not supported\n";
    assert!(stderr.contains(said), "{stderr}");
    let (_, stderr) = place.run(&["exec", "v", "BEGIN; DELETE FROM visits"], 1);
    assert!(stderr.contains("rolled back"), "{stderr}");
    assert_eq!(place.count("v", "visits"), json!(300));
    let root = place.path("elsewhere");
    fs::rename(place.path("v.root"), &root).unwrap();
    let (_, stderr) = place.run(&["verify", "v"], 1);
    assert!(stderr.contains("help: name it with --root"), "{stderr}");
    assert_eq!(
        place.output(&["verify", "v"], Some(&root)).status.code(),
        Some(0)
    );
    place.run(&["create", "w", "--schema", "vault.sql", "--size", "16"], 0);
    // The key of another database opens nothing.
    place.run(&["verify", "v", "--root", "w.root"], 3);
    let mut bytes = fs::read(place.path("v")).unwrap();
    let written = |page: &&mut [u8]| page.iter().any(|&byte| byte != 0xFF);
    // Behind the head every page that something was written to.
    for page in bytes.chunks_mut(2048).skip(1).filter(written) {
        page[100] ^= 1;
    }
    fs::write(place.path("v"), bytes).unwrap();
    let (_, stderr) = place.run(&["verify", "v", "--root", "elsewhere"], 3);
    assert!(stderr.contains("is not what was written"), "{stderr}");
}

#[test]
fn a_reorganisation_goes_on_where_it_was_left_and_changes_no_answer() {
    let place = Place::filled();
    place.run(
        &[
            "exec",
            "v",
            "DELETE FROM visits WHERE day < 103; UPDATE doctors SET name = 'Ng' WHERE id = 2",
        ],
        0,
    );
    let sql = "SELECT visits.id, name, note FROM visits JOIN doctors ON visits.doctor = doctors.id WHERE name = 'Ng' ORDER BY visits.id";
    let (before, _) = place.run(&["query", "v", sql, "--format", "csv"], 0);
    let done = place.json(&["reorganize", "v", "--steps", "3"]);
    assert_eq!(
        (&done["tasks_done"], &done["finished"]),
        (&json!(3), &json!(false))
    );
    let (meanwhile, _) = place.run(&["query", "v", sql, "--format", "csv"], 0);
    assert_eq!(meanwhile, before);
    place.run(
        &[
            "exec",
            "v",
            "INSERT INTO visits VALUES (NULL, 2, 7, 'late')",
        ],
        0,
    );
    let done = place.json(&["reorganize", "v"]);
    assert_eq!(
        (&done["reorganizations"], &done["finished"]),
        (&json!(1), &json!(true))
    );
    let (after, _) = place.run(&["query", "v", sql, "--format", "csv"], 0);
    assert_eq!(after, format!("{before}301,Ng,late\n"));
    place.run(&["reorganize", "v", "--steps", "2"], 0);
    place.run(&["reorganize", "v", "--cancel"], 0);
    assert_eq!(
        place.json(&["reorganize", "v"])["reorganizations"],
        json!(2)
    );
    place.run(&["verify", "v"], 0);
    assert_eq!(place.count("v", "visits"), json!(271));
}

#[test]
fn others_check_a_reorganised_part_without_the_key() {
    let place = Place::filled();
    let (_, refused) = place.run(&["sign", "v"], 1);
    assert!(refused.contains("no reorganised part"), "{refused}");
    place.run(&["reorganize", "v"], 0);
    let signed = place.json(&["sign", "v"]);
    assert_eq!(signed["reorganizations"], 1);
    // Whoever checks has the chip, the digest and the verifier key, and no root file.
    fs::copy(place.path("v"), place.path("copy")).unwrap();
    let keyless = |status| {
        let digest = ["--keyless", "v.vkey", "--digest", "v.digest"];
        place.run(&[&["verify", "copy"][..], &digest].concat(), status)
    };
    let (said, _) = keyless(0);
    assert!(said.contains("reorganisation 1"), "{said}");
    let digest = fs::read_to_string(place.path("v.digest")).unwrap();
    let first = digest.split(' ').next().unwrap();
    let page = first.parse::<usize>().unwrap() * 2048;
    let whole = fs::read(place.path("copy")).unwrap();
    let blocks = u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    let at = (64 + 4 * blocks).next_multiple_of(2048) + page + 7;
    let mut changed = whole.clone();
    changed[at] ^= 1;
    fs::write(place.path("copy"), changed).unwrap();
    keyless(3);
    fs::write(place.path("copy"), &whole).unwrap();
    keyless(0);
    // A digest that leaves pages out, and one that the key did not sign.
    let (_, shorter) = digest.split_once('\n').unwrap();
    for forged in [
        shorter,
        &digest.replace("reorganisation 1", "reorganisation 2"),
    ] {
        fs::write(place.path("v.digest"), forged).unwrap();
        keyless(3);
    }
    fs::write(place.path("v.digest"), &digest).unwrap();
    // The next reorganisation has a digest of its own, which says which one it is.
    place.run(&["exec", "v", "DELETE FROM visits WHERE id = 7"], 0);
    place.run(&["reorganize", "v"], 0);
    place.run(&["sign", "v"], 0);
    keyless(3);
    fs::copy(place.path("v"), place.path("copy")).unwrap();
    let (said, _) = keyless(0);
    assert!(said.contains("reorganisation 2"), "{said}");
}

/// A signed extract stayed true for ever, and rows with other ends of lines passed for those signed.
#[test]
fn an_extract_says_when_it_was_signed_and_shows_every_change() {
    let place = Place::filled();
    let select = "SELECT id, note FROM visits WHERE day = 105";
    place.run(&["extract", "v", select, "-o", "rows"], 0);
    let check = |status| place.run(&["check", "rows", "--key", "v.vkey"], status);
    let (said, _) = check(0);
    assert!(said.contains("10 rows") && said.contains(select), "{said}");
    let rows = fs::read_to_string(place.path("rows")).unwrap();
    let (_, fewer) = rows.split_once('\n').unwrap();
    let other_day = rows.replace("day = 105", "day = 106");
    let other_row = rows.replacen("note", "nope", 2);
    for forged in [fewer, &other_day, &other_row] {
        assert_ne!(forged, rows);
        fs::write(place.path("rows"), forged).unwrap();
        check(3);
    }
    // Other ends of lines are other bytes, which nobody signed.
    let returns = rows.replacen("}\n", "}\r\n", 1);
    let without_time: Vec<&str> = rows
        .lines()
        .filter(|line| !line.starts_with("time "))
        .collect();
    for forged in [returns, without_time.join("\n") + "\n"] {
        assert_ne!(forged, rows);
        fs::write(place.path("rows"), forged).unwrap();
        check(3);
    }
    fs::write(place.path("rows"), &rows).unwrap();
    check(0);
    // A later extract is of a later state, and says so.
    let moment = || {
        let said = place.json(&["check", "rows", "--key", "v.vkey"]);
        let time = said["time"].as_str().unwrap().to_owned();
        (said["state"].as_u64().unwrap(), time)
    };
    let earlier = moment();
    place.run(&["exec", "v", "DELETE FROM visits WHERE day = 105"], 0);
    place.run(&["extract", "v", select, "-o", "rows", "--overwrite"], 0);
    let later = moment();
    assert!(
        later.0 > earlier.0 && later.1 > earlier.1,
        "{later:?} {earlier:?}"
    );
    fs::write(place.path("rows"), &rows).unwrap();
    assert_eq!(moment(), earlier);
    // Another database's key signed nothing of this.
    place.run(&["create", "w", "--schema", "vault.sql", "--size", "16"], 0);
    place.run(
        &["extract", "w", "SELECT id FROM doctors", "-o", "others"],
        0,
    );
    place.run(&["check", "rows", "--key", "w.vkey"], 3);
    // A digest is no extract.
    place.run(&["reorganize", "v"], 0);
    place.run(&["sign", "v"], 0);
    place.run(&["check", "v.digest", "--key", "v.vkey"], 3);
}
