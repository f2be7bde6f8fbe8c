//! The commands of the manuals, typed as they stand, and what they must say where something is in the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::Place;

const POCKET: &str = include_str!("../../../../docs/pocketdb-tutorial.md");
const DISGUISE: &str = include_str!("../../../../docs/disguise-tutorial.md");

/// Returns the blocks of shell commands of a section.
fn blocks(manual: &str, section: &str) -> Vec<String> {
    let text = manual.split(section).nth(1).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks.map(str::to_owned).collect()
}

/// Types a block into a shell that ends at the first command that fails; gives what it says.
fn typed(place: &Place, block: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-eu", "-c", block])
        .current_dir(place.folder.path())
        .env("PATH", path)
        .env_remove("PROBITY_POCKET_ROOT")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{block}\n{stdout}{stderr}");
    assert_eq!(stderr, "", "{block}");
    stdout
}

/// The second of the first steps ended with an error. Nothing said what the imported file held, and
/// nothing filled the table that it refers to. All of them are typed here as they stand.
#[test]
fn the_first_steps_work_as_they_are_printed() {
    let place = Place::new();
    fs::remove_file(place.path("vault.sql")).unwrap();
    let blocks = blocks(POCKET, "## First steps");
    assert_eq!(blocks.len(), 2);
    let said = blocks.iter().map(|block| typed(&place, block));
    let said = said.collect::<Vec<_>>().concat();
    for line in [
        "imported 2 rows into doctors",
        "imported 3 rows into visits",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(place.count("vault.pocket", "visits"), json!(2));
}

/// The example database of another manual was refused with half a sentence, and nothing said that such tables cannot be kept. What is in
/// the way is named with both paths, and one of the two keys is taken over as a plain column.
#[test]
fn a_database_with_two_paths_is_refused_by_both_and_taken_over_without_one() {
    let place = Place::new();
    let blocks = blocks(DISGUISE, "## On a database of your own");
    let tables = blocks.first().unwrap();
    let sql = tables.split('"').nth(1).unwrap();
    let mut database = probity_disguise::database::Sqlite::open(&place.path("app.db")).unwrap();
    for statement in sql.split(';') {
        probity_disguise::Database::execute(&mut database, statement, &[]).unwrap();
    }
    drop(database);
    let create = ["create", "a", "--from", "sqlite:app.db", "--size", "16"];
    let (_, stderr) = place.run(&create, 1);
    for said in [
        "the table likes reaches people by two paths of foreign keys",
        "likes.user_id",
        "likes.post_id, posts.author_id",
        "--unlinked TABLE.COLUMN",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
    assert!(!place.path("a").exists() && !place.path("a.root").exists());
    let (_, stderr) = place.run(&[&create[..], &["--unlinked", "likes.id"]].concat(), 1);
    assert!(
        stderr.contains("foreign key of the column likes.id"),
        "{stderr}"
    );
    let options = ["--unlinked", "likes.user_id", "--index", "likes.user_id"];
    place.run(&[&create[..], &options].concat(), 0);
    let sql = "SELECT people.name FROM likes JOIN posts ON likes.post_id = posts.id \
               JOIN people ON posts.author_id = people.id WHERE likes.user_id = 19";
    assert_eq!(place.json(&["query", "a", sql]), json!({"name": "Al"}));
    // The import again, into a schema of one's own.
    let schema = "CREATE TABLE p (id INTEGER PRIMARY KEY, n INTEGER); \
                  CREATE TABLE o (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(id)); \
                  CREATE TABLE l (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(id), o INTEGER REFERENCES o(id))";
    fs::write(place.path("two.sql"), schema).unwrap();
    let (_, stderr) = place.run(&["create", "b", "--schema", "two.sql"], 1);
    let said = "a second path of foreign keys to the table p is not possible";
    assert!(stderr.contains(said), "{stderr}");
}

/// Commands on an empty file ended with status 1 and the advice for a damaged one. An empty file is
/// damage, whichever of the two it is.
#[test]
fn an_empty_file_in_the_place_of_either_is_damage() {
    let place = Place::filled();
    let (chip, root) = (place.path("v"), place.path("v.root"));
    let whole = [fs::read(&chip).unwrap(), fs::read(&root).unwrap()];
    let commands: [&[&str]; 4] = [
        &["verify", "v"],
        &["stats", "v"],
        &["query", "v", "SELECT id FROM doctors"],
        &["exec", "v", "DELETE FROM visits"],
    ];
    let empty = |path: &PathBuf| (path.clone(), Vec::new());
    let mut cases = vec![empty(&chip), empty(&root)];
    for content in [&b"PRB"[..], b"PRBFLASH", &[0; 4096]] {
        cases.push((chip.clone(), content.to_vec()));
    }
    for (path, content) in cases {
        fs::write(&path, content).unwrap();
        for command in commands {
            let (_, stderr) = place.run(command, 3);
            assert!(stderr.contains("help: take an undamaged copy"), "{stderr}");
        }
        fs::write(&chip, &whole[0]).unwrap();
        fs::write(&root, &whole[1]).unwrap();
    }
    // A file that was never a root file is another file, named by mistake.
    fs::write(place.path("long"), vec![7; (1 << 20) + 1]).unwrap();
    for other in ["long", "vault.sql"] {
        let (_, stderr) = place.run(&["verify", "v", "--root", other], 1);
        assert!(stderr.contains("--root ROOT"), "{stderr}");
    }
    place.run(&["verify", "v"], 0);
}

/// A deleted row was counted under the heading of rows.
#[test]
fn stats_say_that_deleted_rows_are_among_those_inserted() {
    let place = Place::filled();
    place.run(&["exec", "v", "DELETE FROM visits WHERE id < 11"], 0);
    let (said, _) = place.run(&["stats", "v"], 0);
    let heading = said.lines().next().unwrap();
    assert_eq!(heading, "table    rows inserted");
    let visits = said.lines().find(|line| line.starts_with("visits"));
    assert!(visits.unwrap().ends_with("300"), "{said}");
    assert_eq!(place.count("v", "visits"), json!(290));
    let (help, _) = place.run(&["stats", "--help"], 0);
    assert!(help.contains("deleted ones included"), "{help}");
}
