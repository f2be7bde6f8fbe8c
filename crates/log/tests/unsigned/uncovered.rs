//! Frames of `heads` and of the journal that the log's keys sealed and that no head covers: an
//! opening believes them, and whoever has the root key finds what they contradict.

use std::fs;
use std::path::Path;

use probity_format::Entry;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::MasterKey;
use probity_format::stream::StreamConfig;
use probity_format::version::Version;
use probity_format::wrap::WrappedKind;
use probity_log::reader::{Filter, Reader};
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError};

use crate::sibling::append_about;
use crate::{
    HEADS, JOURNAL, add, erasable, frames, intact, journal, options, root, said, sealed, time,
};

/// The master key of the log, which the root key opens.
fn master(path: &Path) -> MasterKey {
    let geometry = fs::read_to_string(path.join("probity.toml")).unwrap();
    let fingerprint = Geometry::parse(&geometry).unwrap().fingerprint();
    let wrapped = fs::read(path.join("keys/master.key")).unwrap();
    let wrapping = root().wrapping_key(&fingerprint);
    let master = wrapping.unwrap(WrappedKind::Master, b"master", &wrapped);
    MasterKey::new(master.unwrap())
}

/// Appends a frame to `file` with one statement of the log, which its keys seal.
fn say(path: &Path, file: &str, (action, key, payload): (&str, &str, &str)) {
    let (_, last) = frames(&path.join(JOURNAL)).pop().unwrap();
    let newest = Frame::parse(&last).unwrap().clear.header.epoch.to_string();
    let entry = |action, key, payload| Entry {
        payload,
        actor: "probity",
        taken: Some(time()),
        ..Entry::new(time(), action, key)
    };
    let told = entry(action, key.as_bytes(), payload.as_bytes());
    let entries = if file == JOURNAL {
        vec![entry("key.newest", newest.as_bytes(), b""), told]
    } else {
        vec![told]
    };
    let config = StreamConfig::journal(Version::NEWEST);
    let frame = sealed(&master(path), path, (file, config), &entries);
    add(&path.join(file), &frame);
}

fn head(stream: &str, size: usize) -> String {
    let root = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    format!("{}/streams/{stream}\n{size}\n{root}\n", crate::ORIGIN)
}

/// Faults of a verification with the root key, in words.
fn faults(path: &Path) -> Vec<String> {
    let options = VerifyOptions {
        root: Some(root()),
        ..VerifyOptions::default()
    };
    let faults = verify(path, &options).unwrap().faults.into_iter();
    faults
        .map(|it| format!("{}: {}", it.place, it.detail))
        .collect()
}

fn read(path: &Path) -> Result<(), LogError> {
    let reader = Reader::open(path, &root())?;
    reader.read::<LogError>(&Filter::default(), &mut |_| Ok(()))
}

/// The statements that contradict an erasable log with one subject, each with the file that it is
/// in and the words of its fault.
fn contradictions(path: &Path) -> Vec<(&'static str, [String; 3], &'static str)> {
    let size = frames(&path.join(JOURNAL)).len() + 1;
    let entry = |action: &str, key: &str, payload: String| [action.into(), key.into(), payload];
    let zeros = |count| "0".repeat(count);
    let heads = "heads frame";
    vec![
        (HEADS, entry("heads", "", head("default", 99)), heads),
        (HEADS, entry("heads", "", head("journal", size)), heads),
        (
            JOURNAL,
            entry("subjects", "2", zeros(64)),
            "does not hold the 2 slots that journal frame",
        ),
        (
            JOURNAL,
            entry("subject.erase", "0", zeros(32)),
            "erases another pseudonym",
        ),
        (
            JOURNAL,
            entry("recover", "", "lost default 0 1\n".into()),
            "are lost from frame 0 on",
        ),
    ]
}

/// A second creation of the log in a sealed frame behind the signed head was signed for. No log says
/// that: the frame does not follow, like one that creates a stream twice.
#[test]
fn a_second_creation_of_the_log_is_set_aside_and_never_signed() {
    let folder = tempfile::tempdir().unwrap();
    let path = erasable(folder.path());
    say(&path, JOURNAL, ("log.create", "create again", ""));
    let log = Log::open(&path, &root(), options()).unwrap();
    assert!(said(&log).contains("journal"), "{}", said(&log));
    log.close().unwrap();
    intact(&path);
    let entries = journal(&path);
    let created = entries.iter().filter(|[action, ..]| action == "log.create");
    assert_eq!(created.count(), 1, "{entries:?}");
}

/// A thief with the root key and `keys/` sealed one frame behind the signed heads that contradicts
/// the log. Verification with the root key and every reader found nothing, and no writer opened the
/// log again: its advice was to put a newer copy back, which does not exist.
#[test]
fn a_sealed_frame_that_contradicts_the_log_is_found_and_named() {
    for place in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = erasable(folder.path());
        let log = Log::open(&path, &root(), options()).unwrap();
        append_about(&log, "anna");
        log.close().unwrap();
        intact(&path);
        let (file, [action, key, payload], words) = contradictions(&path).swap_remove(place);
        let honest = fs::read(path.join(file)).unwrap();
        say(&path, file, (&action, &key, &payload));
        let alone = verify(&path, &VerifyOptions::default()).unwrap();
        assert_eq!(
            alone.faults,
            [],
            "{action}: nothing shows without a key who sealed it"
        );
        let refused = Log::open(&path, &root(), options()).unwrap_err();
        assert!(matches!(refused, LogError::Broken { .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        let found = faults(&path);
        assert!(
            found.iter().any(|it| it.contains(words)),
            "{action}: {found:?}"
        );
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{action}: {error}");
        fs::write(path.join(file), honest).unwrap();
        intact(&path);
        read(&path).unwrap();
        Log::open(&path, &root(), options())
            .unwrap()
            .close()
            .unwrap();
    }
}
