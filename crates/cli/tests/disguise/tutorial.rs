//! The tutorial of the documentation, typed as it stands.

use std::path::Path;

use crate::place::Place;

const DOCUMENT: &str = include_str!("../../../../docs/disguise-tutorial.md");

/// Returns the commands of the section, in order, without what they print.
fn commands() -> Vec<String> {
    let section = DOCUMENT
        .split("## On a database of your own")
        .nth(1)
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let mut commands = Vec::new();
    for block in blocks {
        let shows_output = block.lines().any(|line| line.starts_with("$ "));
        let lines = block
            .lines()
            .filter(|line| !shows_output || line.starts_with("$ "));
        let lines = lines.map(|line| line.trim_start_matches("$ "));
        if block.starts_with("sqlite3") {
            // The database has the same tables and people; its program may be missing.
            continue;
        }
        commands.extend(lines.map(str::to_owned));
    }
    commands
}

/// UX 7: the tutorial scheduled the removal of somebody who had no credential, and exported what was not hidden any more. Each of
/// its commands is typed here as it stands, with the ids that the ones before have printed, and each does its work.
#[test]
fn every_command_of_the_tutorial_works_as_it_is_printed() {
    let place = Place::sqlite();
    std::fs::remove_dir_all(place.path("audit")).unwrap();
    for key in ["audit.key", "audit.vkey"] {
        std::fs::remove_file(place.path(key)).unwrap();
    }
    let heads = place.path("audit.heads");
    if heads.exists() {
        std::fs::remove_dir_all(heads).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let mut ids: Vec<(String, String)> = Vec::new();
    for command in &commands {
        let mut typed = command.clone();
        for (printed, real) in &ids {
            typed = typed.replace(printed, real);
        }
        if typed.starts_with("export ") {
            // A shell of its own types each command; the place says where the database is.
            continue;
        }
        let output = std::process::Command::new("sh")
            .args(["-c", &typed])
            .current_dir(place.folder.path())
            .env("PATH", &path)
            .env("PROBITY_DB", &place.url)
            .env_remove("PROBITY_KEY_FILE")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success(), "{typed}\n{stdout}{stderr}");
        assert_eq!(stderr, "", "{typed}");
        if let Some(real) = stdout.strip_prefix("disguise ") {
            let printed = DOCUMENT.split(&format!("{command}\ndisguise ")).nth(1);
            let printed = printed.unwrap().get(..16).unwrap().to_owned();
            ids.push((printed, real.get(..16).unwrap().to_owned()));
        }
        what_it_shows(command, &stdout);
    }
    assert_eq!(ids.len(), 3);
    // Who had everything forgotten has left.
    assert!(!place.rows().concat().contains("Bea"));
}

/// Checks that a command does what the text beside it says.
fn what_it_shows(command: &str, stdout: &str) {
    if command.contains("pocket create") {
        assert!(!stdout.contains(" 0 rows"), "{stdout}");
    }
    if command.contains("export audit --format jsonl --subject") {
        assert!(
            stdout.contains("disguise.apply") && stdout.contains("disguise.reveal"),
            "{stdout}"
        );
    }
}
