//! The output of commands about an entry on several people of whom one was erased.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail loudly, and prepares files"
)]

use std::fs;
use std::path::Path;

use probity_log::{Log, Options, RootKey};
use probity_testing::program::Program;
use serde_json::{Value, json};
use tempfile::TempDir;

fn probity(folder: &Path, args: &[&str], input: &str, status: i32) -> (String, String) {
    Program::new(env!("CARGO_BIN_EXE_probity")).ends(folder, args, input, status)
}

/// Makes a log with an entry about three people, of whom the one who acted was erased.
fn place() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    probity(at, &["init", "audit", "--erasable"], "", 0);
    let entry = json!({
        "action": "send",
        "key": "message:1",
        "subject": ["annabella", "bertram", "carlotta"],
        "actor": "annabella",
        "payload": "hello",
    });
    probity(at, &["append", "audit"], &format!("{entry}\n"), 0);
    let root = RootKey::from_text(&fs::read_to_string(at.join("audit.key")).unwrap()).unwrap();
    let log = Log::open(&at.join("audit"), &root, Options::default()).unwrap();
    log.erase("annabella").unwrap().unwrap();
    log.close().unwrap();
    folder
}

#[test]
fn an_export_shows_those_who_are_left_and_counts_those_who_are_erased() {
    let folder = place();
    let at = folder.path();
    let (lines, notes) = probity(at, &["export", "audit", "--format", "jsonl"], "", 0);
    let entry: Value = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!(entry["subject"], json!(["bertram", "carlotta"]));
    assert_eq!(entry["payload"], "hello");
    assert_eq!(
        (&entry["subjects_erased"], &entry["actor_erased"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        (entry.get("actor"), entry.get("submitter_erased")),
        (None, None)
    );
    assert!(notes.contains("1 entry without some people"), "{notes}");
    let (rows, _) = probity(at, &["export", "audit", "--format", "csv"], "", 0);
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let heading = rows.headers().unwrap().clone();
    let row = rows.records().next().unwrap().unwrap();
    let cell = |name| row.get(heading.iter().position(|found| found == name).unwrap());
    assert_eq!(cell("subject"), Some("bertram\ncarlotta"));
    assert_eq!(
        (cell("subjects_erased"), cell("actor_erased")),
        (Some("1"), Some("yes"))
    );
    assert_eq!((cell("erased"), cell("actor")), (Some(""), Some("")));
    for (subject, found) in [("carlotta", 1), ("annabella", 0)] {
        let args = ["export", "audit", "--format", "jsonl", "--subject", subject];
        assert_eq!(
            probity(at, &args, "", 0).0.lines().count(),
            found,
            "{subject}"
        );
    }
    // A caller may not claim to another log what one log says of erased people.
    probity(at, &["init", "other"], "", 0);
    let args = ["append", "other"];
    let (_, refused) = probity(at, &args, &lines, 1);
    assert!(
        refused.contains("subjects_erased") || refused.contains("actor_erased"),
        "{refused}"
    );
    probity(at, &["append", "other", "--exported"], &lines, 0);
}

#[test]
fn it_is_intact_and_can_be_proved_without_the_one_who_is_erased() {
    let folder = place();
    let at = folder.path();
    let verify = ["verify", "audit", "--key", "audit.key", "--json"];
    let report: Value = serde_json::from_str(&probity(at, &verify, "", 4).0).unwrap();
    assert_eq!(report["faults"], json!([]));
    let streams = report["streams"].as_array().unwrap();
    let of = |field: &str| {
        let counts = streams.iter().map(|stream| stream[field].as_u64().unwrap());
        counts.sum::<u64>()
    };
    assert_eq!(
        (of("erased_sections"), of("partly_erased_sections")),
        (0, 1)
    );
    probity(
        at,
        &["prove", "audit", "--index", "0", "--output", "p"],
        "",
        0,
    );
    let check = ["check-proof", "p", "--key", "audit.vkey"];
    let (text, _) = probity(at, &check, "", 0);
    assert!(
        text.contains("1 subject, erased or left out, the actor"),
        "{text}"
    );
    let document = probity(at, &[&check[..], &["--json"]].concat(), "", 0).0;
    assert!(!document.contains("annabella"));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["subjects_hidden"], json!(1), "{document}");
}

#[test]
fn a_person_carries_the_entry_and_learns_how_many_others_it_concerned() {
    let folder = place();
    let at = folder.path();
    let args = [
        "subject",
        "export",
        "audit",
        "bertram",
        "--pocket",
        "bertram.pocket",
    ];
    probity(at, &args, "", 0);
    let ask = |sql| {
        let args = ["pocket", "query", "bertram.pocket", sql, "--format", "csv"];
        let (rows, _) = probity(at, &args, "", 0);
        rows.lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    assert_eq!(ask("SELECT others, erased FROM entries"), ["2,0"]);
    // It may name the others.
    assert_eq!(
        ask("SELECT encoding FROM contents WHERE field = 'payload'"),
        ["withheld"]
    );
}
