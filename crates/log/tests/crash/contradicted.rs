//! Parts of an earlier copy that a thief without any key puts back, into what a kill leaves.

use probity_log::LogError;
use probity_log::reader::{Filter, Reader};
use probity_log::storage::{Memory, Storage as _};
use probity_log::verify::{VerifyOptions, verify_at};

use crate::scenario::for_each;
use crate::twice::{base, live, moments, open};
use crate::world::{World, root};

/// Parts of a log: the stream of entries, its note of durable frames, the subjects, `heads`, the
/// journal, and the second copies of the built-in streams.
const PARTS: [&[&str]; 5] = [
    &["log/streams/default", "second/default"],
    &["log/durable"],
    &["log/subjects"],
    &["log/streams/heads", "second/heads"],
    &["log/streams/journal", "second/journal"],
];

/// Bytes of a stream's slot in `durable`, and the stream that is the third.
const NOTE_BYTES: usize = 108;
const NOTE: std::ops::Range<usize> = 2 * NOTE_BYTES..3 * NOTE_BYTES;

/// Returns the paths of all files at `path`.
fn files(memory: &Memory, path: &str) -> Vec<String> {
    let names = memory.list(path).unwrap_or_default();
    if names.is_empty() {
        return memory
            .read(path, u64::MAX)
            .map(|_| path.to_owned())
            .into_iter()
            .collect();
    }
    let paths = names.iter().map(|name| format!("{path}/{name}"));
    paths.flat_map(|path| files(memory, &path)).collect()
}

/// Puts the files at `path` of `older` in the place of those of `memory`.
fn put_back(memory: &Memory, older: &Memory, path: &str) {
    if path == "log/durable" {
        let mut now = memory.read(path, u64::MAX).unwrap();
        let then = older.read(path, u64::MAX).unwrap();
        let note = now.get_mut(NOTE).unwrap();
        note.copy_from_slice(then.get(NOTE).unwrap());
        memory.replace(path, &now).unwrap();
        return;
    }
    for file in files(memory, path) {
        memory.remove(&file).unwrap();
    }
    for file in files(older, path) {
        memory
            .replace(&file, &older.read(&file, u64::MAX).unwrap())
            .unwrap();
    }
}

/// A writer was killed between a frame of `heads`, or of the journal, and the head that covers it.
/// A thief put back the stream that the frame names, with its second copy and its note of durable
/// frames. Verification with the root key called the log intact and an export left an entry with a
/// receipt out, while no writer opened the log: that frame was evidence to the writer alone.
#[test]
fn whatever_a_writer_refuses_is_found_with_the_root_key() {
    let older = base();
    let mut states = Vec::new();
    for (number, (context, image)) in moments(&older, |places| live(places, 1)).iter().enumerate() {
        for parts in 1..1_u32 << PARTS.len() {
            // All of them, in turns: the moments beside one another are alike.
            if parts % 3 == u32::try_from(number % 3).unwrap() {
                states.push((
                    format!("{context}, parts {parts:b}"),
                    image.clone_live(),
                    parts,
                ));
            }
        }
    }
    let refused = std::sync::atomic::AtomicUsize::new(0);
    for_each(&states, |(context, image, parts)| {
        let memory = image.clone_live();
        for (place, paths) in PARTS.iter().enumerate() {
            if parts & (1 << place) != 0 {
                paths
                    .iter()
                    .for_each(|path| put_back(&memory, &older, path));
            }
        }
        let places = World::of(memory.clone_live()).places();
        let options = VerifyOptions {
            root: Some(root()),
            ..VerifyOptions::default()
        };
        let found = verify_at(&places, &options).map(|report| report.faults);
        let reader = Reader::open_at(&places, &root());
        let read =
            reader.and_then(|reader| reader.read::<LogError>(&Filter::default(), &mut |_| Ok(())));
        let Err(error) = open(&places).and_then(|log| log.close()) else {
            return;
        };
        refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let faults = found.unwrap_or_else(|found| panic!("{context}: {found:?}"));
        assert!(!faults.is_empty(), "{context}: {error}");
        // Readers stop at a slot that the signed journal counts only where they need it.
        let mut others = faults.iter().filter(|it| it.place != "subjects/slots");
        assert!(
            read.is_err() || others.next().is_none(),
            "{context}: {error}"
        );
    });
    assert!(refused.into_inner() > 100);
}
