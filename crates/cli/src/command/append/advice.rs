//! The command that goes on where an `append` stopped: the same options, as a shell takes them back.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use probity_log::Compression;

use crate::args::{Append, DurabilityChoice};
use crate::config::Environment;
use crate::shell::{quoted, quoted_text};

/// The command of `args` that begins with `line`, whose entry gets `index`, and writes proofs into a folder like `proofs`.
///
/// What the environment named is named too: a command that is typed elsewhere would take another key, and make second copies of the heads in
/// another folder. A loss that was accepted is recorded, and no other one is accepted unseen.
pub(super) fn command(
    args: &Append,
    environment: &Environment,
    proofs: Option<&Path>,
    (line, index): (u64, u64),
) -> String {
    let mut words = Words::default();
    if let Some(heads) = &environment.heads {
        words.word("env");
        words.word(&format!("PROBITY_HEADS={}", quoted(heads)));
    }
    words.word("probity append");
    words.path(&args.dir);
    words.path(&args.file);
    words.option("--stream", args.stream.as_str());
    let key = args.key.as_ref().or(environment.key_file.as_ref());
    words.file("--key", key);
    if args.compression != Compression::default() {
        words.option("--compression", &args.compression.to_string());
    }
    words.flag("--receipts", args.receipts);
    words.flag("--json", args.json);
    words.file("--proofs", proofs.map(free).as_ref());
    words.flag("--skip-invalid", args.skip_invalid);
    words.flag("--exported", args.exported);
    if let Some(name) = &args.idempotency_key {
        words.option("--idempotency-key", name);
    }
    let durability = args.durability.to_possible_value();
    if let Some(mode) = durability.filter(|_| args.durability != DurabilityChoice::default()) {
        words.option("--durability", mode.get_name());
    }
    if let Some(seconds) = args.key_interval.seconds() {
        words.option("--key-interval", &seconds.to_string());
    }
    words.option("--from-line", &line.to_string());
    words.option("--at-index", &index.to_string());
    words.0
}

/// The command that shows what is in the log of `args`.
pub(super) fn look(args: &Append, environment: &Environment) -> String {
    let mut words = Words::default();
    words.word("probity export");
    words.path(&args.dir);
    words.option("--stream", args.stream.as_str());
    words.option("--format", "csv");
    let key = args.key.as_ref().or(environment.key_file.as_ref());
    words.file("--key-file", key);
    words.0
}

/// A folder for proofs like `path` that is not there yet: the one that was begun holds some already.
fn free(path: &Path) -> PathBuf {
    let is_empty = path
        .read_dir()
        .map_or(true, |mut files| files.next().is_none());
    if is_empty {
        return path.to_owned();
    }
    let numbered = |number: u32| {
        let mut name = path.components().as_path().as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    let mut others = (2..).map(numbered);
    others
        .find(|other| !other.exists())
        .unwrap_or_else(|| path.to_owned())
}

/// Words of a command, one behind the other.
#[derive(Default)]
struct Words(String);

impl Words {
    fn word(&mut self, word: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(word);
    }

    fn path(&mut self, path: &Path) {
        self.word(&quoted(path));
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        if is_set {
            self.word(name);
        }
    }

    fn option(&mut self, name: &str, value: &str) {
        // What begins as an option does would be taken for one.
        let between = if value.starts_with('-') { '=' } else { ' ' };
        let value = quoted_text(value);
        self.word(&format!("{name}{between}{value}"));
    }

    fn file(&mut self, name: &str, path: Option<&PathBuf>) {
        if let Some(path) = path {
            self.word(name);
            self.path(path);
        }
    }
}
