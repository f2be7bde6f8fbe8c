//! The command that resumes a stopped `append`, with the same options in shell form.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use probity_log::Compression;

use crate::args::{Append, DurabilityChoice};
use crate::config::Environment;
use crate::shell::{Words, quoted};

/// Returns the command that resumes in the log at `dir` at `line`, whose entry gets `index`, and
/// writes proofs into a folder like `proofs`. `exported` is set where the input turned out to be an
/// export.
///
/// Settings from the environment are named too: in another shell the command would use another key
/// and another folder of second copies. A loss that was accepted is recorded already, and no
/// further one is accepted unseen.
pub(super) fn command(
    args: &Append,
    environment: &Environment,
    (dir, proofs, exported): (&Path, Option<&Path>, bool),
    (line, index): (&str, &str),
) -> String {
    let mut words = Words::default();
    if let Some(heads) = &environment.heads {
        words.word("env");
        words.word(&format!("PROBITY_HEADS={}", quoted(heads)));
    }
    words.word("probity append");
    words.path(dir);
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
    words.flag("--exported", exported);
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
    words.option("--from-line", line);
    words.option("--at-index", index);
    words.0
}

/// Returns the command that shows the contents of the log of `args`, which is at `dir`.
pub(super) fn look(args: &Append, environment: &Environment, dir: &Path) -> String {
    let mut words = Words::default();
    words.word("probity export");
    words.path(dir);
    words.option("--stream", args.stream.as_str());
    words.option("--format", "csv");
    let key = args.key.as_ref().or(environment.key_file.as_ref());
    words.file("--key", key);
    words.0
}

/// Returns the command that proves the entry of `index`.
pub(super) fn proof(args: &Append, environment: &Environment, index: u64) -> String {
    let mut words = Words::default();
    words.word("probity prove");
    words.path(&args.dir);
    words.option("--stream", args.stream.as_str());
    words.option("--index", &index.to_string());
    let key = args.key.as_ref().or(environment.key_file.as_ref());
    words.file("--key", key);
    words.option("-o", &format!("{}.{index}.tlog-proof", args.stream));
    words.0
}

/// Returns a free path like `path`, or an empty folder: the folder that was begun holds proofs
/// already.
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
