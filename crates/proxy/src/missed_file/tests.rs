//! The count of missing entries is recorded exactly once, and believed only where the log's keys wrote it.

#![expect(
    clippy::disallowed_methods,
    reason = "files are put there around the storage"
)]

use std::fs;

use probity_format::keys::Secret;
use probity_log::reader::{Filter, Reader};
use probity_log::{LogError, Options, RootKey, StreamConfig};
use tempfile::TempDir;

use super::*;
use crate::kept::KeptAccount;

/// A log in a folder of its own, with three entries.
struct Place {
    folder: TempDir,
    root: RootKey,
    log: Log,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = RootKey::new(Secret::new([7; 32]));
        let path = folder.path().join("log");
        let config = StreamConfig::default();
        let log = Log::create(&path, "log", &root, config, Options::default()).unwrap();
        let this = Self { folder, root, log };
        for _ in 0..3 {
            record_unknown(&this.log, &stream()).unwrap();
        }
        this
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    fn file(&self) -> MissedFile {
        MissedFile::prepare(&self.log, &self.path()).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path().join(NAME)).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.path().join(NAME), bytes).unwrap();
    }

    fn settle(&self) -> Option<Settled> {
        settle(&self.log, &self.path()).unwrap()
    }

    fn next(&self) -> u64 {
        self.log.next_index(&stream()).unwrap()
    }

    /// The payloads of all entries behind the first three.
    fn gaps(&self) -> Vec<String> {
        self.log.publish().unwrap();
        let reader = Reader::open(&self.path(), &self.root).unwrap();
        let mut gaps = Vec::new();
        let filter = Filter::default();
        reader
            .read::<LogError>(&filter, &mut |found| {
                gaps.push(String::from_utf8_lossy(found.entry.payload).into_owned());
                Ok(())
            })
            .unwrap();
        gaps.split_off(3)
    }

    /// An account of six entries that were handed in and are gone, and of others that were not handed in.
    fn account(&self) -> Account {
        Account {
            number: 7,
            stream: stream(),
            attempt: Missed::default(),
            expected: self.next() + 6,
            replies: OnLogFailure::Forward,
            missed: Missed {
                let_go: 2,
                withheld: 3,
            },
        }
    }
}

fn stream() -> StreamName {
    StreamName::default()
}

fn said(missed: u64, replies: &str) -> String {
    format!("{{\"command\":\"\",\"missed\":{missed},\"replies\":\"{replies}\"}}")
}

fn all() -> Vec<String> {
    vec![said(8, "let go"), said(3, "withheld")]
}

#[test]
fn what_is_missing_is_recorded_once_however_often_the_file_says_it() {
    let place = Place::new();
    let file = place.file();
    file.say(&place.account()).unwrap();
    let before = place.bytes();
    let counted = Missed {
        let_go: 8,
        withheld: 3,
    };
    assert_eq!(place.settle(), Some(Settled::Counted(counted)));
    assert_eq!(place.gaps(), all());
    assert_eq!(place.settle(), None);
    // The file of before, put back.
    place.put(&before);
    assert!(place.settle().is_some());
    assert_eq!(place.gaps(), all());
}

#[test]
fn a_crash_at_any_moment_of_settling_leaves_each_gap_once() {
    for step in 0..5 {
        let place = Place::new();
        let file = place.file();
        let mut account = place.account();
        let next = place.next();
        // As `settle_account` goes, and ends after `steps` steps.
        if step == 0 {
            file.say(&account).unwrap();
        }
        let lost = account.missed.plus(account.lost(next));
        for (kind, until) in [(lost.first_kind(), 1), (lost.other_kind(), 3)] {
            if step >= until {
                let rest = if until == 1 {
                    lost.other_kind()
                } else {
                    Missed::default()
                };
                account = Account {
                    number: account.number + 1,
                    attempt: kind,
                    expected: 0,
                    missed: rest,
                    ..account
                };
                file.say(&account).unwrap();
            }
            if step > until {
                account.resolve(&place.log).unwrap();
            }
        }
        assert!(place.settle().is_some(), "{step}");
        assert_eq!(place.gaps(), all(), "{step}");
    }
}

#[test]
fn a_gap_that_outlived_the_log_that_failed_hides_no_entry() {
    for survives in [false, true] {
        let place = Place::new();
        let account = Account {
            attempt: Missed {
                let_go: 4,
                withheld: 0,
            },
            missed: Missed::default(),
            ..place.account()
        };
        if survives {
            account.resolve(&place.log).unwrap();
        }
        place.file().say(&account).unwrap();
        assert!(place.settle().is_some());
        assert_eq!(place.gaps(), [said(4, "let go"), said(6, "let go")]);
    }
}

#[test]
fn a_count_that_the_logs_keys_did_not_write_is_not_believed() {
    let place = Place::new();
    place.file().say(&place.account()).unwrap();
    let sound = place.bytes();
    let other = Place::new();
    other.file().say(&other.account()).unwrap();
    let mut changed = sound.clone();
    let digit = changed.iter().rposition(|byte| *byte == b'3').unwrap();
    *changed.get_mut(digit).unwrap() = b'4';
    let older = format!(
        "{:\n<1024}",
        "probity missed 1\ndefault\n9\nlet-go\n2\n3\nend"
    );
    let forged = [
        changed,
        other.bytes(),
        older.into_bytes(),
        sound.get(..1000).unwrap().to_vec(),
        [sound.as_slice(), b"\n"].concat(),
    ];
    for (number, forged) in (1..).zip(&forged) {
        place.put(forged);
        assert_eq!(place.settle(), Some(Settled::Unknown), "{number}");
        let unknown = r#"{"command":"","missed":null,"replies":"unknown"}"#;
        assert_eq!(place.gaps(), vec![unknown; number]);
        assert_eq!(place.settle(), None);
    }
    for empty in [&[][..], &[0; LENGTH], &[b'\n'; 5]] {
        place.put(empty);
        assert_eq!(place.settle(), None);
    }
    let file = place.path().join(NAME);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(place.settle(), Some(Settled::NoFile));
    fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/dev/null", &file).unwrap();
    assert_eq!(place.settle(), Some(Settled::NoFile));
}

#[test]
fn what_another_process_recorded_meanwhile_is_taken_off_and_nothing_else() {
    let place = Place::new();
    let mut kept = KeptAccount::new(place.file(), 7);
    let account = place.account();
    assert_eq!(kept.say(&account).unwrap(), None);
    assert!(place.settle().is_some());
    let more = Account {
        missed: Missed {
            let_go: 5,
            withheld: 3,
        },
        ..account.clone()
    };
    assert_eq!(kept.say(&more).unwrap(), Some(account));
    let rest = Account {
        number: kept.number(),
        expected: 0,
        missed: Missed {
            let_go: 3,
            withheld: 0,
        },
        ..more
    };
    assert_eq!(kept.say(&rest).unwrap(), None);
    assert!(place.settle().is_some());
    let mut expected = all();
    expected.push(said(3, "let go"));
    assert_eq!(place.gaps(), expected);
}

#[test]
fn a_file_that_somebody_cleared_settles_nothing() {
    let place = Place::new();
    let mut kept = KeptAccount::new(place.file(), 7);
    let account = place.account();
    assert_eq!(kept.say(&account).unwrap(), None);
    place.put(&[b'\n'; LENGTH]);
    let more = Account {
        missed: Missed {
            let_go: 9,
            withheld: 3,
        },
        ..account
    };
    assert_eq!(kept.say(&more).unwrap(), None);
    let Content::Account(said) = place.file().read().unwrap() else {
        panic!("the file says nothing");
    };
    assert_eq!(said, more);
}
