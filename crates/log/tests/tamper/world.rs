//! The log under attack, with everything an attacker may have collected: older copies, stolen keys,
//! a fork, another log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probity_format::geometry::Geometry;
use probity_format::keys::{RootKey, Secret};
use probity_format::note::VerifierKey;
use probity_format::record::Record;
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_first_frame};
use probity_format::tile::{Bundle, decode_bundle};
use probity_format::{Entry, Subjects, Timestamp, Version};
use probity_log::verify::{Report, VerifyOptions, verify};
use probity_log::{Cipher, Log, LogError, Options, Proofs, StreamConfig, StreamName};
use tempfile::TempDir;

use crate::thief;

pub(crate) const ORIGIN: &str = "example.com/log";
/// The stream with more frames than a tile is wide.
pub(crate) const LONG: &str = "default";
/// A stream in clear, in which an attacker with the signing key can forge content without a cipher.
pub(crate) const CLEAR: &str = "clear";
/// Streams without sections of subjects: those that a thief re-seals.
pub(crate) const TOGETHER: [&str; 4] = [LONG, "entry", "second", CLEAR];

pub(crate) fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

pub(crate) fn configs() -> Vec<(&'static str, StreamConfig)> {
    let config = StreamConfig::default();
    let with = |proofs| StreamConfig { proofs, ..config };
    vec![
        (LONG, config),
        ("entry", with(Proofs::Entry)),
        ("second", config),
        (
            "erasable",
            StreamConfig {
                erasable: true,
                ..config
            },
        ),
        (
            CLEAR,
            StreamConfig {
                cipher: Cipher::DangerNone,
                ..with(Proofs::Entry)
            },
        ),
    ]
}

pub(crate) fn config(stream: &str) -> StreamConfig {
    let found = configs().into_iter().find(|(name, _)| *name == stream);
    found.map_or(StreamConfig::JOURNAL, |(_, config)| config)
}

pub(crate) fn options() -> Options {
    Options {
        segment_bytes_max: 4096,
        frame_entries_max: 2,
        // Checkpoints are those of closing, so that every run makes the same log.
        checkpoint_interval: std::time::Duration::from_hours(1),
        ..Options::default()
    }
}

pub(crate) fn append(log: &Log, stream: &str, numbers: std::ops::Range<u32>) {
    let mut appender = log.appender(&StreamName::new(stream).unwrap()).unwrap();
    for number in numbers {
        let (key, subject) = (format!("user:{}", number % 7), format!("s{}", number % 5));
        let entry = Entry {
            subjects: Subjects::joined(if number % 3 == 0 { "" } else { &subject }),
            payload: &number.to_le_bytes(),
            ..Entry::new(
                Timestamp::from_nanoseconds(1_000_000 + i64::from(number)).unwrap(),
                "read",
                key.as_bytes(),
            )
        };
        appender.append(&entry).unwrap();
    }
    appender.flush().unwrap();
}

/// Opens the log at `path`, appends to every stream, and closes it.
fn session(path: &Path, long: std::ops::Range<u32>, others: std::ops::Range<u32>) {
    let log = Log::open(path, &root(), options()).unwrap();
    for (name, config) in configs() {
        log.create_stream(&StreamName::new(name).unwrap(), config)
            .unwrap();
        let numbers = if name == LONG { &long } else { &others };
        append(&log, name, numbers.clone());
    }
    log.close().unwrap();
}

/// The subject that was erased, and came back.
pub(crate) const ERASED: &str = "s4";

fn erase(path: &Path) {
    let log = Log::open(path, &root(), options()).unwrap();
    log.erase(ERASED).unwrap().unwrap();
    log.close().unwrap();
}

fn create(path: &Path) {
    Log::create(path, ORIGIN, &root(), config(LONG), options())
        .unwrap()
        .close()
        .unwrap();
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.unwrap().success());
}

/// Everything prepared once; attacks work on copies of it.
pub(crate) struct World {
    folder: TempDir,
    /// The current log, which a [`Scene`] attacks.
    pub(crate) log: PathBuf,
    /// The log after its second session.
    pub(crate) older: PathBuf,
    /// The older copy, written on by somebody else.
    pub(crate) fork: PathBuf,
    /// Another log of the same name, root key and entries.
    pub(crate) other: PathBuf,
    /// Checkpoints of every stream after the second session, and of now.
    pub(crate) remembered: BTreeMap<String, Vec<u8>>,
    pub(crate) newest: BTreeMap<String, Vec<u8>>,
    /// The seeds of the signing keys that were ever in `keys/`, the key of the first session first.
    pub(crate) seeds: Vec<[u8; 32]>,
    pub(crate) anchor: VerifierKey,
    pub(crate) records: BTreeMap<String, Vec<Stored>>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (log, older, fork, other) = (at("log"), at("older"), at("fork"), at("other"));
        let mut seeds = Vec::new();
        create(&log);
        seeds.push(thief::seed(&log));
        session(&log, 0..400, 0..20);
        seeds.push(thief::seed(&log));
        copy(&log, &older);
        copy(&at("log.heads"), &at("older.heads"));
        copy(&log, &fork);
        copy(&at("log.heads"), &at("fork.heads"));
        session(&fork, 400..600, 20..50);
        session(&log, 400..520, 20..40);
        seeds.push(thief::seed(&log));
        erase(&log);
        seeds.push(thief::seed(&log));
        session(&log, 520..540, 40..45);
        seeds.push(thief::seed(&log));
        create(&other);
        session(&other, 0..400, 0..20);
        session(&other, 400..520, 20..40);
        session(&other, 520..540, 40..45);
        let geometry = Geometry::parse(&fs::read_to_string(log.join("probity.toml")).unwrap());
        let names = configs().into_iter().map(|(name, _)| name);
        let names: Vec<&str> = names.chain(["journal", "heads"]).collect();
        let notes = |log: &Path| {
            let note = |name: &&str| {
                let path = log.join(format!("streams/{name}/checkpoint"));
                (name.to_string(), fs::read(path).unwrap())
            };
            names.iter().map(note).collect()
        };
        let records = names
            .iter()
            .map(|name| (name.to_string(), records(&log, name)));
        Self {
            remembered: notes(&older),
            newest: notes(&log),
            records: records.collect(),
            anchor: geometry.unwrap().anchor().clone(),
            folder,
            log,
            older,
            fork,
            other,
            seeds,
        }
    }

    /// A copy of the log to attack, in a folder of its own.
    pub(crate) fn scene(&self) -> Scene<'_> {
        let folder = tempfile::tempdir().unwrap();
        copy(&self.log, &folder.path().join("log"));
        let heads = self.folder.path().join("log.heads");
        copy(&heads, &folder.path().join("log.heads"));
        Scene {
            world: self,
            folder,
            before: BTreeMap::new(),
            since: None,
        }
    }
}

/// A record, and the place of its frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) record: Record,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

impl Stored {
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.record.length)
    }
}

impl std::ops::Deref for Stored {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

/// The frames with which the segments of a stream begin, in order.
pub(crate) fn segments(log: &Path, stream: &str) -> Vec<u64> {
    let folder = log.join(format!("streams/{stream}/segments"));
    let names = fs::read_dir(folder).unwrap();
    let first = |name: std::io::Result<fs::DirEntry>| {
        segment_first_frame(name.unwrap().file_name().to_str().unwrap()).unwrap()
    };
    let mut segments: Vec<u64> = names.map(first).collect();
    segments.sort_unstable();
    segments
}

/// The records of a stream as its bundles hold them.
pub(crate) fn records(log: &Path, stream: &str) -> Vec<Stored> {
    let segments = segments(log, stream);
    let folder = log.join(format!("streams/{stream}"));
    let checkpoint = fs::read_to_string(folder.join("checkpoint")).unwrap();
    let size: u64 = checkpoint.lines().nth(1).unwrap().parse().unwrap();
    let mut records: Vec<Stored> = Vec::new();
    for index in 0..size.div_ceil(256) {
        let bundle = Bundle::of_tree(index, size).unwrap();
        let bytes = fs::read(folder.join(bundle.path())).unwrap();
        let leaves = decode_bundle(&bytes, bundle.width()).unwrap();
        for leaf in leaves {
            let record = Record::decode(Version::NEWEST, leaf).unwrap();
            let (segment, offset) = match records.last() {
                Some(last) if !segments.contains(&record.frame) => (last.segment, last.end()),
                _ => (record.frame, SEGMENT_HEADER_BYTES as u64),
            };
            records.push(Stored {
                record,
                segment,
                offset,
            });
        }
    }
    records
}

/// One copy of the log, which is put back as it was after each attack.
pub(crate) struct Scene<'w> {
    pub(crate) world: &'w World,
    folder: TempDir,
    /// The state before an attack; `None` where nothing was.
    before: BTreeMap<String, Option<Before>>,
    /// A checkpoint that the verifier remembers.
    pub(crate) since: Option<Vec<u8>>,
}

enum Before {
    File(Vec<u8>),
    Folder,
}

impl Scene<'_> {
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The path of a name like `log/streams/default/checkpoint` or `log.heads/default`.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Files and folders below `name`, folders before their content.
    pub(crate) fn below(&self, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut entries: Vec<_> = fs::read_dir(self.path(name))
            .map(|entries| entries.map(|entry| entry.unwrap()).collect())
            .unwrap_or_default();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let inside = format!("{name}/{}", entry.file_name().to_str().unwrap());
            found.push(inside.clone());
            if entry.file_type().unwrap().is_dir() {
                found.extend(self.below(&inside));
            }
        }
        found
    }

    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        let mut files = self.below(name);
        files.retain(|file| self.path(file).is_file());
        files
    }

    /// Remembers everything, for tests that let the log itself change files.
    pub(crate) fn keep_all(&mut self) {
        for name in ["log", "log.heads"] {
            for inside in self.below(name) {
                self.remember(&inside);
            }
        }
    }

    fn remember(&mut self, name: &str) {
        if self.before.contains_key(name) {
            return;
        }
        let path = self.path(name);
        let before = if path.is_dir() {
            Some(Before::Folder)
        } else {
            fs::read(&path).ok().map(Before::File)
        };
        self.before.insert(name.to_owned(), before);
    }

    /// Makes the folders above `name`, remembering those that were not there.
    fn make_way(&mut self, name: &str) {
        let parts: Vec<&str> = name.split('/').collect();
        for end in 1..parts.len() {
            let folder = parts[..end].join("/");
            if !self.path(&folder).is_dir() {
                self.remove(&folder);
                self.remember(&folder);
                fs::create_dir(self.path(&folder)).unwrap();
            }
        }
    }

    pub(crate) fn write(&mut self, name: &str, content: &[u8]) {
        self.make_way(name);
        self.remember(name);
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn make_folder(&mut self, name: &str) {
        self.make_way(&format!("{name}/x"));
    }

    pub(crate) fn link(&mut self, name: &str, target: &str) {
        self.remember(name);
        std::os::unix::fs::symlink(self.path(target), self.path(name)).unwrap();
    }

    /// Removes a file, or a folder with everything in it.
    pub(crate) fn remove(&mut self, name: &str) {
        for inside in self.below(name).into_iter().rev() {
            self.remove_one(&inside);
        }
        self.remove_one(name);
    }

    fn remove_one(&mut self, name: &str) {
        self.remember(name);
        let path = self.path(name);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir(path).unwrap();
        } else if path.exists() || path.is_symlink() {
            fs::remove_file(path).unwrap();
        }
    }

    /// Puts a folder from elsewhere in the place of `name`.
    pub(crate) fn replace_folder(&mut self, name: &str, from: &Path) {
        self.remove(name);
        let mut folders = vec![(from.to_owned(), name.to_owned())];
        while let Some((from, name)) = folders.pop() {
            self.make_folder(&name);
            for entry in fs::read_dir(from).unwrap() {
                let entry = entry.unwrap();
                let inside = format!("{name}/{}", entry.file_name().to_str().unwrap());
                if entry.file_type().unwrap().is_dir() {
                    folders.push((entry.path(), inside));
                } else {
                    self.write(&inside, &fs::read(entry.path()).unwrap());
                }
            }
        }
    }

    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = self.read(name);
        change(&mut content);
        self.write(name, &content);
    }

    /// Puts everything back as it was.
    pub(crate) fn undo(&mut self) {
        self.since = None;
        let before = std::mem::take(&mut self.before);
        for name in before.keys().rev() {
            let path = self.path(name);
            if path.is_symlink() || path.is_file() {
                fs::remove_file(&path).unwrap();
            } else if path.is_dir() && !matches!(before[name], Some(Before::Folder)) {
                fs::remove_dir_all(&path).unwrap();
            }
        }
        for (name, before) in before {
            let path = self.path(&name);
            match before {
                None => {}
                Some(Before::Folder) => fs::create_dir_all(path).unwrap(),
                Some(Before::File(content)) => fs::write(path, content).unwrap(),
            }
        }
    }

    pub(crate) fn verify(&self, look: Look) -> Result<Report, LogError> {
        let options = VerifyOptions {
            root: (look == Look::Keyed).then(root),
            known_key: (look == Look::Anchor).then(|| self.world.anchor.clone()),
            since: self.since.clone(),
            jobs: 1,
            ..VerifyOptions::default()
        };
        verify(&self.log(), &options)
    }
}

/// The keys that the verifier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing.
    Keyless,
    /// The root key.
    Keyed,
    /// The log's first verifier key.
    Anchor,
}
