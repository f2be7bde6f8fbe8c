//! Runs the transcripts of `tests/cmd`: arguments and input in, status and both outputs out.
//!
//! A transcript is a list of steps run in one empty folder. In what a step is expected to print,
//! `[..]` stands for any text within a line and a line `...` for any lines.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and prepares files"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transcript {
    step: Vec<Step>,
}

/// One run of the program, and what is done to the folder before it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    args: Vec<String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    status: i32,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files to write first.
    #[serde(default)]
    write: BTreeMap<String, String>,
    /// Text to replace in files first: file, then old, then new text.
    #[serde(default)]
    replace: Vec<(String, String, String)>,
    /// Files or folders to rename first.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    /// Folders to copy first.
    #[serde(default)]
    copy: BTreeMap<String, String>,
    /// Files that must not exist afterwards.
    #[serde(default)]
    absent: Vec<String>,
}

#[test]
fn every_transcript_is_met() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    assert!(
        paths.len() > 5,
        "the transcripts are in {}",
        folder.display()
    );
    let mut wrong = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let transcript: Transcript =
            toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        wrong.extend(
            play(&transcript)
                .into_iter()
                .map(|fault| format!("{name} {fault}")),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n\n"));
}

fn play(transcript: &Transcript) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for (number, step) in transcript.step.iter().enumerate() {
        prepare(step, folder.path());
        let (status, stdout, stderr) = run(step, folder.path());
        let place = format!("step {} ({})", number + 1, step.args.join(" "));
        if status != step.status {
            wrong.push(format!(
                "{place}: status {status}, not {}\n{stderr}",
                step.status
            ));
        }
        for (stream, printed, expected) in [
            ("stdout", stdout, &step.stdout),
            ("stderr", stderr, &step.stderr),
        ] {
            if !matches(&lines(expected), &lines(&printed)) {
                wrong.push(format!(
                    "{place}: {stream}\n{printed}---- instead of\n{expected}"
                ));
            }
        }
        for name in &step.absent {
            if folder.path().join(name).exists() {
                wrong.push(format!("{place}: {name} exists"));
            }
        }
    }
    wrong
}

fn prepare(step: &Step, folder: &Path) {
    for (name, text) in &step.write {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for (from, to) in &step.rename {
        fs::rename(folder.join(from), folder.join(to)).unwrap();
    }
    for (from, to) in &step.copy {
        copy(&folder.join(from), &folder.join(to));
    }
    for (name, old, new) in &step.replace {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.contains(old.as_str()), "{name} holds no {old}");
        fs::write(folder.join(name), text.replace(old.as_str(), new)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

fn run(step: &Step, folder: &Path) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_probity"))
        .args(&step.args)
        .current_dir(folder)
        .env_remove("PROBITY_KEY_FILE")
        .env_remove("PROBITY_UPSTREAM")
        .envs(&step.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = step.stdin.clone().into_bytes();
    // A program that refuses its arguments does not read.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others)),
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let Some((before, after)) = expected.split_once("[..]") else {
        return expected == line;
    };
    let Some(line) = line.strip_prefix(before) else {
        return false;
    };
    line.char_indices()
        .map(|(place, _)| place)
        .chain([line.len()])
        .any(|place| line_matches(after, &line[place..]))
}
