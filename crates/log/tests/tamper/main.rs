//! Every kind of tampering is found, classed and placed; clean and crashed logs raise no alarm.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed, and attacks reach around the storage"
)]

mod campaign;
mod heads;
mod kinds;
mod older_heads;
mod older_journal;
mod opening;
mod quiet;
mod random;
mod reading;
mod regression;
mod thief;
mod unsigned;
mod world;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probity_format::keys::{RootKey, Secret};
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{FaultClass, Report, SkippedReason, VerifyOptions, verify};
use probity_log::{Log, LogError, Options, Proofs, StreamConfig, StreamName};

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

fn keyless(path: &Path) -> Report {
    verify(path, &VerifyOptions::default()).unwrap()
}

fn keyed(path: &Path) -> Report {
    verify(
        path,
        &VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        },
    )
    .unwrap()
}

fn append(path: &Path, rounds: u32) {
    let options = Options {
        segment_bytes_max: 8192,
        frame_entries_max: 20,
        ..Options::default()
    };
    let log = Log::open(path, &root(), options).unwrap();
    let mut appender = log.appender(&StreamName::default()).unwrap();
    for number in 0..rounds {
        let key = format!("user:{}", number % 7);
        let subject = if number % 3 == 0 {
            String::new()
        } else {
            format!("s{}", number % 5)
        };
        let entry = Entry {
            subjects: Subjects::joined(&subject),
            payload: &number.to_le_bytes(),
            ..Entry::new(
                Timestamp::from_nanoseconds(1_000_000 + i64::from(number)).unwrap(),
                "read",
                key.as_bytes(),
            )
        };
        appender.append(&entry).unwrap();
    }
    drop(appender);
    log.close().unwrap();
}

fn sample(folder: &Path, config: StreamConfig) -> PathBuf {
    let path = folder.join("log");
    Log::create(
        &path,
        "example.com/log",
        &root(),
        config,
        Options::default(),
    )
    .unwrap()
    .close()
    .unwrap();
    append(&path, 700);
    append(&path, 300);
    path
}

/// A copy of the log and of the second copy of its heads.
fn copy(path: &Path, name: &str) -> PathBuf {
    let copy = path.with_file_name(name);
    for (from, to) in [
        (path.to_owned(), copy.clone()),
        (
            path.with_file_name("log.heads"),
            copy.with_file_name(format!("{name}.heads")),
        ),
    ] {
        drop(fs::remove_dir_all(&to));
        assert!(
            Command::new("cp")
                .arg("-a")
                .args([from, to])
                .status()
                .unwrap()
                .success()
        );
    }
    copy
}

fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.push(entry);
        }
    }
    found.sort();
    found
}

#[test]
fn a_clean_log_verifies_in_every_mode_and_reads_back_what_was_appended() {
    for proofs in Proofs::ALL {
        for erasable in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let config = StreamConfig {
                proofs,
                erasable,
                ..StreamConfig::default()
            };
            let path = sample(folder.path(), config);
            for report in [keyless(&path), keyed(&path)] {
                assert_eq!(report.faults, [], "{config}");
                assert_eq!(report.streams[2].entries, 1000);
            }
            let reader = Reader::open(&path, &root()).unwrap();
            let mut count = 0_u64;
            reader
                .read(&Filter::default(), &mut |found| -> Result<(), LogError> {
                    assert_eq!(found.index, count);
                    let number = u32::from_le_bytes(found.entry.payload.try_into().unwrap());
                    let round = if count < 700 { count } else { count - 700 };
                    assert_eq!(u64::from(number), round);
                    assert_eq!(found.entry.key, format!("user:{}", number % 7).as_bytes());
                    count += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(count, 1000);
            let filter = Filter {
                subject: Some("s1".into()),
                ..Filter::default()
            };
            let mut hits = 0;
            reader
                .read(&filter, &mut |found| -> Result<(), LogError> {
                    assert_eq!(found.entry.subjects.as_joined(), "s1");
                    hits += 1;
                    Ok(())
                })
                .unwrap();
            let expected = (0..700)
                .chain(0..300)
                .filter(|n| n % 3 != 0 && n % 5 == 1)
                .count();
            assert_eq!(hits, expected);
        }
    }
}

/// A visitor used to end the reading with an invented error of the log's.
#[test]
fn reading_ends_with_the_error_of_whoever_reads() {
    #[derive(Debug, PartialEq)]
    enum Stopped {
        Enough(u64),
        Log(String),
    }
    impl From<LogError> for Stopped {
        fn from(error: LogError) -> Self {
            Self::Log(error.to_string())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    let reader = Reader::open(&path, &root()).unwrap();
    let stopped = reader.read(&Filter::default(), &mut |found| {
        if found.index == 41 {
            return Err(Stopped::Enough(found.index));
        }
        Ok(())
    });
    assert_eq!(stopped, Err(Stopped::Enough(41)));
    let nowhere = Filter {
        stream: Some(StreamName::new("nowhere").unwrap()),
        ..Filter::default()
    };
    let refused = reader.read(&nowhere, &mut |_| Ok(()));
    assert_eq!(
        refused,
        Err(Stopped::Log("there is no stream nowhere".into()))
    );
}

#[test]
fn a_flipped_byte_anywhere_in_the_evidence_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    let mut state = 0x9E37_79B9_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let evidence: Vec<PathBuf> = files(&path.join("streams"))
        .into_iter()
        .filter(|file| {
            let text = file.to_string_lossy();
            // No checkpoint needs partial tiles of earlier sizes; the key file is optional.
            text.ends_with(".seg") || text.ends_with("checkpoint") || is_current(&path, file)
        })
        .collect();
    assert!(evidence.len() >= 10, "{evidence:?}");
    for file in &evidence {
        let content = fs::read(file).unwrap();
        for _ in 0..12 {
            let place = random() as usize % content.len();
            let mut bad = content.clone();
            bad[place] ^= 1 << (random() % 8);
            fs::write(file, &bad).unwrap();
            let report = keyless(&path);
            assert!(
                !report.is_intact(),
                "{}: byte {place} of {}",
                file.display(),
                content.len()
            );
        }
        fs::write(file, &content).unwrap();
    }
    assert!(keyless(&path).is_intact());
}

/// Returns whether a tile file belongs to the tree as published.
fn is_current(path: &Path, file: &Path) -> bool {
    let Some((stream, tile)) = file.to_str().unwrap().split_once("/tile/") else {
        return false;
    };
    let Some((_, width)) = tile.split_once(".p/") else {
        return true;
    };
    let checkpoint = fs::read_to_string(Path::new(stream).join("checkpoint")).unwrap();
    let size: u64 = checkpoint.lines().nth(1).unwrap().parse().unwrap();
    let _ = path;
    (tile.starts_with("0/") || tile.starts_with("entries/")) && width == (size % 256).to_string()
}

#[test]
fn cut_tails_missing_files_and_restored_copies_are_named_for_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    let older = copy(&path, "older");
    append(&path, 100);
    let classes = |path: &Path| -> Vec<FaultClass> {
        let mut classes: Vec<_> = keyless(path)
            .faults
            .iter()
            .map(|fault| fault.class)
            .collect();
        classes.sort();
        classes.dedup();
        classes
    };
    assert_eq!(classes(&path), []);

    // Yesterday's copy put back: the second copy of the heads remembers.
    drop(fs::remove_dir_all(older.with_file_name("older.heads")));
    fs::rename(
        copy(&path, "heads-only").with_file_name("heads-only.heads"),
        older.with_file_name("older.heads"),
    )
    .unwrap();
    let found = classes(&older);
    assert!(
        found.contains(&FaultClass::Rollback) || found.contains(&FaultClass::Checkpoint),
        "{found:?}"
    );

    let segments = path.join("streams/default/segments");
    let last = files(&segments).pop().unwrap();
    let work = |change: &dyn Fn(&Path)| {
        let copy = copy(&path, "work");
        change(&copy);
        classes(&copy)
    };
    let in_copy = |copy: &Path, file: &Path| copy.join(file.strip_prefix(&path).unwrap());
    let truncated = work(&|copy| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(in_copy(copy, &last))
            .unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - 100).unwrap();
    });
    assert_eq!(truncated, [FaultClass::Frame, FaultClass::Segment]);
    let dropped = work(&|copy| fs::remove_file(in_copy(copy, &last)).unwrap());
    assert_eq!(dropped, [FaultClass::Segment]);
    let first = files(&segments).remove(0);
    let dropped = work(&|copy| fs::remove_file(in_copy(copy, &first)).unwrap());
    assert_eq!(dropped, [FaultClass::Missing]);
    let swapped = work(&|copy| {
        let names = files(&segments);
        let (a, b) = (in_copy(copy, &names[0]), in_copy(copy, &names[1]));
        let kept = fs::read(&a).unwrap();
        fs::copy(&b, &a).unwrap();
        fs::write(&b, kept).unwrap();
    });
    assert!(swapped.contains(&FaultClass::Frame), "{swapped:?}");
    let no_checkpoint =
        work(&|copy| fs::remove_file(copy.join("streams/default/checkpoint")).unwrap());
    assert_eq!(no_checkpoint, [FaultClass::Missing]);
    let foreign = work(&|copy| {
        fs::copy(
            copy.join("streams/journal/checkpoint"),
            copy.join("streams/default/checkpoint"),
        )
        .map(drop)
        .unwrap();
    });
    assert!(foreign.contains(&FaultClass::Checkpoint), "{foreign:?}");
    let stranger = work(&|copy| fs::create_dir(copy.join("streams/extra")).unwrap());
    assert_eq!(stranger, [FaultClass::Unknown]);
    let deleted = work(&|copy| fs::remove_dir_all(copy.join("streams/default")).unwrap());
    assert!(deleted.contains(&FaultClass::Missing), "{deleted:?}");
}

#[test]
fn a_torn_tail_is_no_alarm_and_opening_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    let last = files(&path.join("streams/default/segments")).pop().unwrap();
    let mut content = fs::read(&last).unwrap();
    let whole = content.len();
    content.extend_from_slice(b"PBF3 half a frame");
    fs::write(&last, &content).unwrap();
    assert!(keyless(&path).is_intact());
    let log = Log::open(&path, &root(), Options::default()).unwrap();
    assert_eq!(log.repairs().len(), 1, "{:?}", log.repairs());
    log.close().unwrap();
    assert_eq!(fs::read(&last).unwrap().len(), whole);
    assert_eq!(keyed(&path).faults, []);
}

#[test]
fn missing_checkpoints_tiles_and_second_copies_are_rebuilt_on_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    for victim in [
        "streams/default/checkpoint",
        "streams/default/tile",
        "../log.heads",
    ] {
        let place = path.join(victim);
        if place.is_dir() {
            fs::remove_dir_all(&place).unwrap();
        } else {
            fs::write(&place, "torn").unwrap();
        }
        let log = Log::open(&path, &root(), Options::default()).unwrap();
        assert!(!log.repairs().is_empty(), "{victim}");
        let mut appender = log.appender(&StreamName::default()).unwrap();
        let time = Timestamp::from_nanoseconds(5).unwrap();
        appender
            .append_durable(&Entry::new(time, "read", b"again"))
            .unwrap();
        drop(appender);
        log.close().unwrap();
        assert_eq!(keyed(&path).faults, [], "{victim}");
    }
}

#[test]
fn a_known_checkpoint_binds_what_came_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = sample(folder.path(), StreamConfig::default());
    let since = fs::read(path.join("streams/default/checkpoint")).unwrap();
    append(&path, 50);
    let options = || VerifyOptions {
        since: Some(since.clone()),
        ..VerifyOptions::default()
    };
    let report = verify(&path, &options()).unwrap();
    assert_eq!(report.faults, []);
    let (whole, grown) = (keyless(&path), &report.streams[2]);
    assert!(grown.bytes < whole.streams[2].bytes / 4);
    // Unread frames are in the report, and the log is not called intact.
    assert!(!report.is_intact() && !report.has_faults() && !report.is_read_whole());
    assert!(whole.is_intact() && whole.is_read_whole());
    let skipped = &grown.skipped[0];
    assert_eq!(skipped.why, SkippedReason::BeforeCheckpoint);
    assert_eq!(grown.bytes + skipped.bytes, whole.streams[2].bytes);
    assert!(skipped.frames > 0 && skipped.frames < grown.frames);
    let options = VerifyOptions {
        from: Some(i64::MAX),
        ..VerifyOptions::default()
    };
    let report = verify(&path, &options).unwrap();
    // Journal and heads are read in full, because all streams depend on them.
    assert!(report.streams[0].skipped.is_empty() && report.streams[1].skipped.is_empty());
    let skipped = &report.streams[2].skipped[0];
    assert_eq!(skipped.why, SkippedReason::OtherTime);
    assert_eq!(
        (skipped.frames, skipped.bytes),
        (whole.streams[2].frames, whole.streams[2].bytes)
    );
}
