//! The commands of the README, typed as they stand.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Returns the blocks of `text` that are fenced as `language`.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(said)) if said == language => open = Some(Vec::new()),
            (None, Some("")) => {
                panic!("a block does not say what it holds: sh is run by this test, text is not")
            }
            (Some(lines), Some("")) => {
                found.push(lines.join("\n"));
                open = None;
            }
            (Some(lines), None) => lines.push(line),
            _ => {}
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the README without its pictures.
fn readme() -> String {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    without(&text, "mermaid")
}

/// Gives the blocks of other languages their ends, so that those stand for themselves.
fn without(text: &str, language: &str) -> String {
    let begin = format!("```{language}\n");
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, block)) = rest.split_once(&begin) {
        kept.push_str(before);
        rest = block.split_once("```\n").unwrap().1;
    }
    kept + rest
}

/// UX 7: the README failed in its fifth minute: `audit.vkey` did not exist, nor did the files of the pocket database. Every block
/// of shell commands runs now, in order, in an empty folder, and leaves what the text says.
#[test]
fn the_commands_of_the_readme_run_in_an_empty_folder() {
    let text = readme();
    let commands = blocks(&without(&text, "text"), "sh");
    assert!(commands.len() >= 5, "{commands:?}");
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_probity"));
    #[expect(clippy::disallowed_methods, reason = "the path is the test's own")]
    let path = std::env::var("PATH").unwrap();
    let ran = Command::new("sh")
        .args(["-eu", "-c", &commands.join("\n")])
        .current_dir(folder.path())
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8(ran.stderr).unwrap()
    );
    for wanted in [
        "log created in audit",
        "\nholds: entry 0 of stream default",
        "\nheld: ",
        "2026-03-01",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let made = folder.path().join("first-steps");
    let key = fs::read_to_string(made.join("audit.vkey")).unwrap();
    assert!(key.starts_with("example.com/audit+"), "{key}");
    assert!(
        fs::read_to_string(made.join("alice.jsonl"))
            .unwrap()
            .contains("ticket 4711")
    );
}

/// Ends the process that it holds.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The README said that both proxies make their log, and printed them without the option for it.
/// The first attempt ended with `there is no log in data-audit`. The printed command of the
/// embedded store runs in an empty folder, on any free port.
#[test]
fn the_proxies_of_the_readme_make_their_log() {
    let text = readme();
    let blocks = blocks(&without(&text, "sh"), "text");
    let commands = blocks.iter().flat_map(|block| block.lines());
    let proxies: Vec<&str> = commands
        .filter(|line| line.starts_with("probity proxy "))
        .collect();
    assert!(proxies.iter().all(|line| line.contains(" --init ")));
    let stored = proxies.iter().find(|line| line.contains(" --store "));
    let arguments = stored.unwrap().replace("127.0.0.1:6381", "127.0.0.1:0");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command
        .args(arguments.split(' ').skip(1))
        .current_dir(folder.path())
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_HEADS")
        .stdout(Stdio::piped());
    let mut proxy = Running(command.spawn().unwrap());
    let mut said = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert!(said.ends_with("; recording to data-audit\n"), "{said}");
    assert!(folder.path().join("data-audit/probity.toml").is_file());
}

/// The reading list left out two documents, and `register` recorded nothing. Proxy, disguise and
/// server were shown with one log at once, which the log refuses while the proxy runs.
#[test]
fn the_readme_names_every_document_and_gives_each_server_a_log_of_its_own() {
    let root = root();
    let text = readme();
    for document in fs::read_dir(root.join("docs")).unwrap() {
        let name = document.unwrap().file_name().into_string().unwrap();
        assert!(text.contains(&format!("(docs/{name})")), "{name}");
    }
    let blocks = blocks(&without(&text, "sh"), "text");
    let commands = blocks.iter().flat_map(|block| block.lines());
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("probity "))
        .collect();
    let log_of = |command: &str| {
        let (_, rest) = command.split_once(" --log ")?;
        rest.split(' ').next().map(str::to_owned)
    };
    let is_server = |command: &&str| command.starts_with("probity proxy ");
    let servers: Vec<&str> = commands.iter().copied().filter(is_server).collect();
    assert_eq!(servers.len(), 2, "{commands:?}");
    for server in servers {
        let log = log_of(server).unwrap();
        let of_log = commands
            .iter()
            .filter(|it| log_of(it).as_ref() == Some(&log));
        assert_eq!(of_log.count(), 1, "{log} has more than one writer");
    }
    let changes = ["disguise register", "disguise apply", "disguise reveal"];
    for command in commands {
        let is_change = changes.iter().any(|change| command.contains(change));
        assert!(!is_change || log_of(command).is_some(), "{command}");
    }
}

/// Replaces what differs from run to run: every number, and the last entry behind its time.
fn shape(report: &str) -> Vec<String> {
    let lines = report.lines().map(|line| {
        let line = line
            .split_once("\"time\"")
            .map_or(line, |(before, _)| before);
        let mut shape = String::new();
        for character in line.chars() {
            match character {
                '0'..='9' if shape.ends_with('0') => {}
                '0'..='9' => shape.push('0'),
                other => shape.push(other),
            }
        }
        shape
    });
    lines.collect()
}

/// The README showed a report of the demo that no version printed: lines were missing, and names of
/// files had no folder.
#[test]
fn the_readme_shows_what_the_demo_prints() {
    let text = readme();
    let shown = blocks(&without(&text, "sh"), "text");
    let shown = shown.iter().find(|block| block.contains("recorded "));
    let shown = shape(shown.unwrap());
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(["demo", "--dir", "shown"])
        .current_dir(folder.path())
        .env_remove("PROBITY_HEADS")
        .env_remove("PROBITY_KEY_FILE")
        .output()
        .unwrap();
    let printed = shape(&String::from_utf8(output.stdout).unwrap());
    let begun = printed
        .iter()
        .position(|line| line == "next, try:")
        .unwrap();
    let mut expected = printed[..=begun].to_vec();
    expected.push("  ...".to_owned());
    assert_eq!(shown, expected);
}
