//! The examples in the help of every command: each can be copied to a shell as it is printed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "the test makes programs that stand in for others"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::{CommandFactory as _, Parser as _};
use probity_cli::args::Args;

/// Widths of terminals, narrower and wider than the examples.
const WIDTHS: [&str; 4] = ["40", "80", "100", "200"];

/// Stands between the calls that the stand-in records.
const CALL: &str = "\u{1}";
/// Stands behind each argument of a call.
const ARGUMENT: &str = "\u{2}";

/// Returns the words of every command that has no commands below it, and of those that do.
fn commands() -> Vec<Vec<String>> {
    fn collect(command: &clap::Command, above: &[String], found: &mut Vec<Vec<String>>) {
        for below in command.get_subcommands() {
            let mut words = above.to_vec();
            words.push(below.get_name().to_owned());
            collect(below, &words, found);
            found.push(words);
        }
    }
    let mut found = Vec::new();
    collect(&Args::command(), &[], &mut found);
    found
}

/// Returns the examples of a command as a terminal of `width` columns shows them.
fn printed(words: &[String], width: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    let output = command
        .args(words)
        .arg("--help")
        .env("COLUMNS", width)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let examples = help.split_once("Examples:\n").map(|(_, rest)| rest);
    // Behind an empty line stands no command.
    let examples = examples.map(|rest| rest.split("\n\n").next().unwrap());
    examples.unwrap_or_default().to_owned()
}

/// Runs `script` as a shell does with what is pasted, and returns the arguments of each call of
/// the program, sorted. Everything that the shell says is a fault.
fn calls(script: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    // One write for each call: both ends of a pipe run at once.
    let record = concat!(
        "#!/bin/sh\n",
        "call=$(printf '\\001'; for it; do printf '%s\\002' \"$it\"; done)\n",
        "printf '%s' \"$call\" >> \"$CALLS\"\n",
    );
    let stand_ins = [
        ("probity", record),
        ("tail", "#!/bin/sh\n"),
        // Stands for the line that one command hands to another.
        ("head", "#!/bin/sh\necho 19\n"),
    ];
    for (program, text) in stand_ins {
        let path = folder.path().join(program);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let recorded = folder.path().join("calls");
    let output = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder.path())
        .env("PATH", search_path(folder.path()))
        .env("CALLS", &recorded)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "", "{script}");
    let text = fs::read_to_string(recorded).unwrap_or_default();
    let calls = text.split(CALL).skip(1).map(|call| {
        let words = call.split_terminator(ARGUMENT);
        words.map(str::to_owned).collect()
    });
    let mut calls: Vec<Vec<String>> = calls.collect();
    calls.sort_unstable();
    calls
}

/// Puts the stand-ins before the programs of the system.
fn search_path(first: &Path) -> String {
    format!("{}:/usr/bin:/bin", first.display())
}

/// The help broke long examples at a hundred columns like prose. Pasted, the first half of
/// `disguise forget ... --log audit` ran alone: it destroyed records, and no log took an entry.
#[test]
fn every_example_can_be_pasted_at_any_width() {
    let mut seen = 0;
    for words in commands() {
        let widest = calls(&printed(&words, "200"));
        for call in &widest {
            let parsed = Args::try_parse_from([&["probity".to_owned()], call.as_slice()].concat());
            let refused = parsed.err().map(|error| error.to_string());
            assert_eq!(refused, None, "{words:?}: {call:?}");
        }
        for width in WIDTHS {
            let printed = printed(&words, width);
            assert_eq!(calls(&printed), widest, "{words:?} at {width}: {printed}");
            let lines = printed.lines().filter(|line| line.starts_with("  "));
            let begun = lines.filter(|line| !line.starts_with("   ")).count();
            let is_whole = printed.lines().all(|line| line.starts_with("  "));
            assert!(is_whole && begun > 0 || printed.is_empty(), "{printed}");
        }
        seen += widest.len();
    }
    assert!(seen > 100, "{seen} examples");
}

/// The README said that each command prints a JSON object with `--json`, and several have no such
/// option.
#[test]
fn the_commands_without_json_are_those_that_the_manual_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = fs::read_to_string(root.join("docs/command-line.md")).unwrap();
    let (before, _) = manual.split_once(" have no `--json`.").unwrap();
    let (_, sentence) = before.rsplit_once("\n\n").unwrap();
    let mut named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    named.sort_unstable();
    let mut without = Vec::new();
    for words in commands() {
        let mut command = Args::command();
        for word in &words {
            command = command.find_subcommand(word).unwrap().clone();
        }
        let has_json = command.get_arguments().any(|it| it.get_id() == "json");
        if !command.has_subcommands() && !has_json {
            without.push(words.join(" "));
        }
    }
    without.sort_unstable();
    assert_eq!(named, without);
}
