//! The entries of the stream `heads`: the published heads of other streams, as payloads of lines of
//! text.
//!
//! `docs/format.md`, "Heads". The stream is in clear, so that everybody can check it.

use probity_format::checkpoint::Checkpoint;
use probity_format::stream::StreamName;
use probity_format::{DecodeError, Entry};

use crate::journal::{from_hexadecimal, number};
use crate::journal_entry::JournalEntry;

/// Checkpoints of other streams were published; the payload has three lines for each.
const HEADS: &str = "heads";
/// The key of entries in a frame that names the last head of every stream.
const ALL: &str = "all";
/// The root of an index over frames of a stream; the key is its name, the payload the first and
/// last frame, and the root.
const INDEX_ROOT: &str = "index.root";

/// An entry of the stream, parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadsEntry {
    /// Heads of other streams, in a frame that names those of all where `is_all`.
    Heads {
        is_all: bool,
        heads: Vec<Checkpoint>,
    },
    /// Frames up to `last` of a stream have an index.
    IndexRoot { stream: StreamName, last: u64 },
}

impl HeadsEntry {
    /// Parses `entry`.
    ///
    /// # Errors
    /// When it is none that the log writes.
    pub(crate) fn read(entry: &Entry<'_>) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("heads entry", 0, reason);
        match entry.action {
            HEADS if entry.key.is_empty() || entry.key == ALL.as_bytes() => Ok(Self::Heads {
                is_all: !entry.key.is_empty(),
                heads: heads_of(entry)?,
            }),
            HEADS => Err(error("has a key that is neither empty nor \"all\"")),
            INDEX_ROOT => {
                let malformed = || error("does not say which frames an index is over");
                let stream = std::str::from_utf8(entry.key).ok();
                let stream = stream.and_then(|name| StreamName::new(name).ok());
                let last = indexed(entry.payload).ok_or_else(malformed)?;
                let stream = stream.ok_or_else(malformed)?;
                Ok(Self::IndexRoot { stream, last })
            }
            _ => Err(error("has an unknown action")),
        }
    }
}

/// The last frame of the range in the payload of an `index.root`: `FIRST LAST HEX64` and a line
/// feed.
fn indexed(payload: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(payload).ok()?.strip_suffix('\n')?;
    let mut words = line.split(' ');
    let (first, last) = (number(words.next()?)?, number(words.next()?)?);
    let _root: [u8; 32] = from_hexadecimal(words.next()?)?;
    (words.next().is_none() && first <= last).then_some(last)
}

/// `heads` as entries, of a frame that names those of all streams where `is_all`.
pub(crate) fn heads_entries<'a>(
    heads: impl Iterator<Item = &'a Checkpoint>,
    is_all: bool,
) -> Vec<JournalEntry> {
    let mut entries = JournalEntry::portions(HEADS, heads.map(Checkpoint::encode));
    for entry in entries.iter_mut().filter(|_| is_all) {
        ALL.clone_into(&mut entry.key);
    }
    entries
}

/// The heads in the payload of an entry: bodies of checkpoints, three lines each.
pub(crate) fn heads_of(entry: &Entry<'_>) -> Result<Vec<Checkpoint>, DecodeError> {
    let text = std::str::from_utf8(entry.payload)
        .map_err(|_not_utf8| DecodeError::new("heads entry", 0, "is not text"))?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let heads = lines.chunks(3);
    heads
        .map(|head| Checkpoint::parse(&head.concat()))
        .collect()
}

#[cfg(test)]
mod tests {
    use probity_format::Timestamp;
    use probity_format::tree::leaf_hash;

    use super::*;

    fn entry<'a>(action: &'a str, key: &'a str, payload: &'a str) -> Entry<'a> {
        let time = Timestamp::from_nanoseconds(1).unwrap();
        Entry {
            payload: payload.as_bytes(),
            ..Entry::new(time, action, key.as_bytes())
        }
    }

    #[test]
    fn heads_are_read_as_they_are_written() {
        let head = |name: &str, size: u64| {
            Checkpoint::new(name, size, leaf_hash(&size.to_le_bytes())).unwrap()
        };
        let heads = [head("a/streams/one", 3), head("a/streams/two", 4)];
        for is_all in [true, false] {
            let written = heads_entries(heads.iter(), is_all);
            let [one] = written.as_slice() else {
                panic!("{written:?}")
            };
            let time = Timestamp::from_nanoseconds(1).unwrap();
            let read = HeadsEntry::read(&one.entry(time)).unwrap();
            let heads = heads.to_vec();
            assert_eq!(read, HeadsEntry::Heads { is_all, heads });
        }
    }

    #[test]
    fn what_the_log_would_not_write_is_refused() {
        let root = "ab".repeat(32);
        let good = format!("3 9 {root}\n");
        let read = HeadsEntry::read(&entry(INDEX_ROOT, "default", &good)).unwrap();
        let stream = StreamName::default();
        assert_eq!(read, HeadsEntry::IndexRoot { stream, last: 9 });
        for bad in [
            entry(HEADS, "some", ""),
            entry(HEADS, "all", "a\n1"),
            entry(
                HEADS,
                "",
                "a\n01\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
            ),
            entry(INDEX_ROOT, "default", "9 3 00\n"),
            entry(INDEX_ROOT, "default", &good.replace("3 9", "9 3")),
            entry(INDEX_ROOT, "default", &good.replace("3 9", "03 9")),
            entry(INDEX_ROOT, "default", &good.to_uppercase()),
            entry(INDEX_ROOT, "Default", &good),
            entry("before", "0", ""),
        ] {
            let (action, key) = (bad.action, bad.key);
            assert!(HeadsEntry::read(&bad).is_err(), "{action} {key:?}");
        }
    }
}
