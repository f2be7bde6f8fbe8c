//! The commands that the program advises: a shell takes them as they stand.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::place::{APPLY, Place, prepared};

/// Runs a line in a shell that knows nothing but the path of the program.
fn typed(place: &Place, line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", line])
        .current_dir(place.folder.path())
        .env("PATH", path)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_DB")
        .output()
        .unwrap()
}

/// Returns the commands in an advice, each a line.
fn commands(stderr: &str) -> Vec<&str> {
    let is_command = |line: &&str| line.starts_with("probity disguise ");
    stderr.lines().filter(is_command).collect()
}

fn let_people(place: &Place, sql: &str) {
    place.database().execute(sql, &[]).unwrap();
}

const KEEP: &str =
    "CREATE TRIGGER people_stay BEFORE DELETE ON people BEGIN SELECT RAISE(ABORT, 'not now'); END";

/// H1: the command to go on with a disguise in chunks named neither database nor log. Followed, it
/// hid everything, and the log told of the beginning alone.
#[test]
fn a_disguise_in_chunks_goes_on_with_all_that_it_was_begun_with() {
    let place = prepared();
    fs::rename(place.path("audit.key"), place.path("other place.key")).unwrap();
    let key = ["--key", "other place.key"];
    place.run(
        &[&["stream", "create", "audit", "pers"], &key[..]].concat(),
        0,
    );
    let said = [
        "--stream",
        "pers",
        "--actor",
        "registrar",
        "--purpose",
        "it's closed",
        "--basis",
        "Art 17",
    ];
    let chunks = ["--chunk-rows", "1", "--share", "0.9"];
    let apply = [&APPLY[..], &key, &said, &chunks].concat();
    let_people(&place, KEEP);
    let (_, stopped) = place.run(&apply, 1);
    let (_, again) = place.run(&apply, 1);
    let advised = commands(&stopped);
    assert_eq!(advised, commands(&again), "{stopped}\n{again}");
    let [resume, cancel, reveal] = advised.as_slice() else {
        panic!("{stopped}");
    };
    for (command, more) in [
        (resume, " --chunk-rows 1 --share 0.9"),
        (cancel, ""),
        (reveal, " --user 19 --credential FILE"),
    ] {
        let end = " --log audit --stream pers --key 'other place.key' --actor registrar --purpose 'it'\\''s closed' --basis 'Art 17'";
        assert!(command.ends_with(&format!("{more}{end}")), "{command}");
        assert!(
            command.contains(&format!("--db {}", place.url)),
            "{command}"
        );
    }
    let_people(&place, "DROP TRIGGER people_stay");
    let done = typed(&place, resume);
    assert!(done.status.success(), "{done:?}");
    let export = ["export", "audit", "--format", "jsonl", "--action"];
    let (entries, _) = place.run(&[&export[..], &["disguise.apply"], &key].concat(), 0);
    let last = entries.lines().last().unwrap();
    assert!(last.contains("it's closed"), "{entries}");
    assert!(!last.contains("\"failed\""), "{entries}");
}

/// H1: an address in a file may hold a password: advised commands name the file alone.
#[test]
fn no_advice_shows_the_password_of_a_database() {
    let place = prepared();
    let_people(&place, KEEP);
    let file = place.path("the address");
    fs::write(&file, format!("{}\n", place.url)).unwrap();
    let chunks = ["--chunk-rows", "1", "--db-file", "the address"];
    let (_, stderr) = place.run(&[&APPLY[..], &chunks].concat(), 1);
    for command in commands(&stderr) {
        assert!(command.contains("--db-file 'the address'"), "{command}");
        assert!(!command.contains(&place.url), "{command}");
    }
}

/// H1: a disguise that was begun with a log could be ended without one: nothing told of its end, and
/// nothing could mend that.
#[test]
fn what_was_begun_with_a_log_does_not_end_without_one() {
    let place = prepared();
    let_people(&place, KEEP);
    let (_, stderr) = place.run(&[&APPLY[..], &["--chunk-rows", "1"]].concat(), 1);
    let id = stderr.split(" --id ").nth(1).unwrap();
    let id = id.split_whitespace().next().unwrap();
    let_people(&place, "DROP TRIGGER people_stay");
    let hidden = place.rows();
    for command in ["resume", "cancel"] {
        let (_, stderr) = place.run(&["disguise", command, "--id", id], 1);
        assert!(
            stderr.contains("was begun with a log") && stderr.contains("--log"),
            "{stderr}"
        );
    }
    place.run(&["disguise", "resume"], 1);
    assert_eq!(place.rows(), hidden);
    place.run(&["disguise", "resume", "--log", "audit"], 0);
    // What was begun without a log needs none.
    let holder = ["--user", "19", "--credential", "19.pw", "--log", "audit"];
    place.run(
        &[&["disguise", "reveal", "--id", id], &holder[..]].concat(),
        0,
    );
    let_people(&place, KEEP);
    let (without, _) = APPLY.split_at(6);
    place.run(&[without, &["--chunk-rows", "1"]].concat(), 1);
    let_people(&place, "DROP TRIGGER people_stay");
    place.run(&["disguise", "resume"], 0);
}

/// A disguise in chunks was begun, and its database was made another one: going on with it was refused in
/// the former log, and advised in the same one. No command of that log is advised.
#[test]
fn no_advice_goes_on_in_a_log_that_the_database_has_no_more() {
    let place = prepared();
    let_people(&place, KEEP);
    place.run(&[&APPLY[..], &["--chunk-rows", "1"]].concat(), 1);
    let_people(&place, "DROP TRIGGER people_stay");
    place.run(&["init", "second"], 0);
    place.run(&["disguise", "separate", "--log", "second"], 0);
    let (_, stderr) = place.run(&["disguise", "resume", "--log", "audit"], 1);
    assert!(
        stderr.contains("in another log") && commands(&stderr).is_empty(),
        "{stderr}"
    );
    place.run(&["disguise", "resume", "--log", "second"], 0);
    let (_, stderr) = place.run(&["disguise", "begin-log"], 2);
    assert!(stderr.contains("--log DIR"), "{stderr}");
}

/// H2: a credential was handed over to a closed standard output. The old key was void, and the new
/// one nowhere.
#[test]
fn no_credential_is_handed_over_to_nobody() {
    let place = Place::sqlite();
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let database = format!("--db {}", place.url);
    let register = format!("probity disguise register {database} --spec leave.toml --user 19");
    for nowhere in [">&-", ">/dev/null", "--json >&-"] {
        let output = typed(&place, &format!("{register} {nowhere}"));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("--credential-out FILE"), "{stderr}");
    }
    let written = typed(&place, &format!("{register} --credential-out 19.key >&-"));
    assert!(written.status.success(), "{written:?}");
    let rekey = format!("probity disguise rekey {database} --user 19 --credential 19.key");
    for what in ["", "--new-key"] {
        let output = typed(&place, &format!("{rekey} {what} >&-"));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    place.run(
        &["disguise", "list", "--user", "19", "--credential", "19.key"],
        0,
    );
}

/// M5: a specification that was cut to its comments was applied, and whoever had asked to leave
/// stayed.
#[test]
fn a_specification_that_changes_nothing_is_refused() {
    let place = prepared();
    let text = fs::read_to_string(place.path("leave.toml")).unwrap();
    let (users, _) = text.split_once("\n[[").unwrap();
    for cut in ["# nothing is left of it\n", users] {
        fs::write(place.path("leave.toml"), cut).unwrap();
        for more in [&[][..], &["--chunk-rows", "1"], &["--grace", "3d"]] {
            let (_, stderr) = place.run(&[&APPLY[..], more].concat(), 1);
            assert!(stderr.contains("changes no table"), "{stderr}");
            assert!(stderr.contains("check --spec leave.toml"), "{stderr}");
        }
        let check = ["disguise", "check", "--spec", "leave.toml"];
        let (stdout, _) = place.run(&check, 0);
        assert!(
            stdout.contains("refused if it were applied now"),
            "{stdout}"
        );
    }
}

/// M9: whoever gave another credential than theirs was told nothing more.
#[test]
fn a_credential_that_does_not_fit_is_refused_with_advice() {
    let place = prepared();
    fs::write(place.path("wrong"), "another password\n").unwrap();
    let list = ["disguise", "list", "--user", "19", "--credential", "wrong"];
    let (_, stderr) = place.run(&list, 1);
    assert!(
        stderr.contains("help: give the credential of this user"),
        "{stderr}"
    );
}

/// L24: each command that only looks said that nothing was recorded, until nobody read it any more.
#[test]
fn a_command_that_only_looks_does_not_ask_for_a_log() {
    let place = prepared();
    for command in ["list", "speaks-for"] {
        let holder = ["--user", "19", "--credential", "19.pw"];
        let (_, stderr) = place.run(&[&["disguise", command], &holder[..]].concat(), 0);
        assert!(!stderr.contains("leaves no entry"), "{stderr}");
    }
    let decay = "--spec leave.toml --inactive people.id>0 --dry-run";
    let decay: Vec<&str> = decay.split(' ').collect();
    for args in [
        &["disguise", "update"][..],
        &["disguise", "update", "--json"],
        &["disguise", "sweep", "--dry-run"],
        &[&["disguise", "decay"], &decay[..]].concat(),
    ] {
        let (_, stderr) = place.run(args, 0);
        assert!(!stderr.contains("leaves no entry"), "{args:?}: {stderr}");
    }
    let (_, stderr) = place.run(&["disguise", "sweep"], 0);
    assert!(stderr.contains("leaves no entry"), "{stderr}");
}

/// A check that tried placeholders said nothing of it, so that nobody knew whether it had.
#[test]
fn a_check_says_that_it_tried_placeholders() {
    let place = prepared();
    let check = ["disguise", "check", "--spec", "leave.toml"];
    let (said, _) = place.run(&check, 0);
    assert!(!said.contains("tried"), "{said}");
    assert!(place.json(&check, 0)["placeholders_tried"].is_null());
    let check = [&check[..], &["--try"]].concat();
    let before = place.rows();
    let (said, _) = place.run(&check, 0);
    let tried = "  tried: two placeholder users were inserted and rolled back\n";
    assert!(said.contains(tried), "{said}");
    assert_eq!(place.json(&check, 0)["placeholders_tried"], 2);
    assert_eq!(place.rows(), before);
}

/// L2: an export into a file printed no object, though one was asked for.
#[test]
fn an_export_into_a_file_prints_its_object() {
    let place = prepared();
    place.run(&APPLY, 0);
    let export = [
        "disguise",
        "export",
        "--user",
        "19",
        "--credential",
        "19.pw",
    ];
    let said = place.json(
        &[&export[..], &["--log", "audit", "-o", "19.json"]].concat(),
        0,
    );
    assert_eq!(said["file"], "19.json", "{said}");
    assert_eq!(said["rows"], 3, "{said}");
    assert_eq!(said["command"], "disguise export", "{said}");
}
