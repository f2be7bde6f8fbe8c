//! An older journal beside newer files: the key changed within one opening, so that the older
//! journal has the opening of their frames too, and not the key that signed them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Options, StreamConfig, StreamName, advice};
use tempfile::TempDir;

use crate::world::{LONG, ORIGIN, append, copy, options, root};

const SEGMENT: &str = "log/streams/journal/segments/00000000000000000000.seg";
const JOURNAL: &str = "log/streams/journal";
const COPY: &str = "log.heads/journal";
const NOTES: &str = "log/durable";

/// A log whose key changed while it was open, and a copy from before that.
struct Moved {
    folder: TempDir,
}

impl Moved {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("newest/log");
        let config = StreamConfig::default();
        fs::create_dir(folder.path().join("newest")).unwrap();
        let log = Log::create(&path, ORIGIN, &root(), config, options()).unwrap();
        log.close().unwrap();
        let options = Options {
            key_publications_max: 1,
            ..options()
        };
        let log = Log::open(&path, &root(), options).unwrap();
        append(&log, LONG, 0..4);
        let moved = Self { folder };
        copy(&moved.at("newest"), &moved.at("older"));
        let key = || fs::read(path.join("keys/signing.key")).unwrap();
        let before = key();
        while key() == before {
            append(&log, LONG, 4..8);
            log.publish().unwrap();
        }
        // The new key signs for every stream.
        append(&log, LONG, 8..12);
        log.close().unwrap();
        moved
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The log with older `files` and without those that are `gone`.
    fn attacked(&self, files: &[&str], gone: &[&str]) -> PathBuf {
        let attacked = self.at("attacked");
        if attacked.exists() {
            fs::remove_dir_all(&attacked).unwrap();
        }
        copy(&self.at("newest"), &attacked);
        for file in files {
            self.put_back("older", file);
        }
        for file in gone {
            remove(&attacked.join(file));
        }
        attacked.join("log")
    }

    /// Puts `file` of the copy `from` in its place.
    fn put_back(&self, from: &str, file: &str) {
        let place = self.at("attacked").join(file);
        remove(&place);
        copy(&self.at(from).join(file), &place);
    }
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn open(path: &Path, accept_loss: bool) -> Result<Log, LogError> {
    let options = Options {
        accept_loss,
        ..options()
    };
    Log::open(path, &root(), options)
}

/// Everything that a verification says.
fn faults(path: &Path, is_keyed: bool) -> Vec<String> {
    let options = VerifyOptions {
        root: is_keyed.then(root),
        ..VerifyOptions::default()
    };
    let faults = verify(path, &options).unwrap().faults.into_iter();
    let faults = faults.map(|fault| format!("{}, {}: {}", fault.stream, fault.place, fault.detail));
    faults.collect()
}

/// The files of the streams with their content: what an opening might cut.
fn streams(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![path.join("streams")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

/// The words of the advice that lets a signed frame go.
fn cuts(said: &str) -> bool {
    said.contains("back without it") || said.contains("--accept-loss") || said.contains("move")
}

/// An older journal did not know the key that had signed the newer heads, so they did not count: frames of `heads`
/// that they cover were called covered by none, and the advice let them be cut where no newer copy was found. A head by
/// a key that the journal does not have shows that the journal is an older copy, and the advice is to restore it.
#[test]
fn an_older_journal_is_restored_and_nothing_that_a_newer_key_signed_is_cut() {
    let moved = Moved::new();
    let heads = ["log/streams/heads/checkpoint", "log/streams/heads/log.vkey"];
    let older_heads = [&heads[..], &[JOURNAL, COPY, "log.heads/heads"]].concat();
    let attacks: [(&[&str], &[&str]); 7] = [
        (&[SEGMENT], &[]),
        (&[SEGMENT], &["log.heads"]),
        (&[JOURNAL], &[]),
        (&[JOURNAL, COPY], &[]),
        (&[JOURNAL, COPY], &[NOTES]),
        // The heads of the stream `default` alone are by the newer key.
        (&older_heads, &[]),
        (&older_heads, &[NOTES, "log.heads/default"]),
    ];
    for (older, gone) in attacks {
        let path = moved.attacked(older, gone);
        let before = streams(&path);
        for accept_loss in [false, true] {
            let refused = open(&path, accept_loss).unwrap_err().to_string();
            assert!(!cuts(&refused), "{older:?}, {gone:?}: {refused}");
            let is_named = refused.contains(advice::NEWER_JOURNAL);
            assert!(is_named, "{older:?}, {gone:?}: {refused}");
            assert_eq!(streams(&path), before, "{older:?}, {gone:?}");
        }
        for is_keyed in [false, true] {
            let faults = faults(&path, is_keyed);
            let is_cut = faults.iter().any(|fault| cuts(fault));
            assert!(!is_cut && !faults.is_empty(), "{older:?}: {faults:#?}");
        }
        let reader = Reader::open(&path, &root()).unwrap();
        let refused = reader.iter(&Filter::default()).find_map(Result::err);
        let refused = refused.unwrap().to_string();
        assert!(!cuts(&refused), "{older:?}, {gone:?}: {refused}");
        // As advised: the journal alone comes from a copy in which it is longer.
        moved.put_back("newest", JOURNAL);
        if !gone.contains(&"log.heads") && older.contains(&COPY) {
            moved.put_back("newest", COPY);
        }
        open(&path, false).unwrap().close().unwrap();
        assert_eq!(faults(&path, true), Vec::<String>::new(), "{older:?}");
    }
}

/// Without a head by a newer key nobody has shown that the frame was signed for, and the advice
/// names both ways.
#[test]
fn a_frame_that_no_head_covers_may_still_be_of_another_hand() {
    let moved = Moved::new();
    let default = "log/streams/default/checkpoint";
    let older = [
        JOURNAL,
        "log/streams/heads/checkpoint",
        "log/streams/heads/log.vkey",
        default,
        "log/streams/default/log.vkey",
        "log.heads",
        NOTES,
    ];
    let path = moved.attacked(&older, &[]);
    let refused = open(&path, false).unwrap_err().to_string();
    assert!(refused.contains("which no checkpoint covers"), "{refused}");
    assert!(refused.contains(advice::SEGMENT), "{refused}");
    assert!(refused.contains(StreamName::JOURNAL), "{refused}");
}
