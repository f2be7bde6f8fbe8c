//! Checks a stream's tree: records, tiles, roots, and heads known from elsewhere.

use std::collections::BTreeMap;

use probity_format::record::Record;
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::tile::{Bundle, TreeWriter, decode_bundle};

use super::{CheckedTree, Fault, FaultClass, Subject, Verifier};
use crate::error::LogError;
use crate::files::TILE_FILE_BYTES_MAX;
use crate::scan::{Position, scan};

/// Reads every record the checkpoint covers, rebuilds the tree and compares every file and root.
pub(super) fn check(
    verifier: &Verifier<'_>,
    subject: &Subject,
    faults: &mut Vec<Fault>,
) -> Result<CheckedTree, LogError> {
    let size = subject
        .head
        .as_ref()
        .map_or(0, probity_format::checkpoint::Checkpoint::size);
    let mut rebuilt = Rebuilt {
        subject,
        tree: TreeWriter::new(),
        records: Vec::new(),
        whole: true,
        faults,
    };
    for index in 0..size.div_ceil(256) {
        rebuilt.read_bundle(verifier, index, size)?;
    }
    rebuilt.check_root(size);
    rebuilt.check_tiles(verifier)?;
    let unpublished_frames = rebuilt.read_behind(verifier)?;
    rebuilt.check_known(size);
    let Rebuilt { records, .. } = rebuilt;
    let covered = usize::try_from(size)
        .unwrap_or(usize::MAX)
        .min(records.len());
    let mut records = records;
    records.truncate(covered);
    let mut by_segment: BTreeMap<u32, std::ops::Range<usize>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        let range = by_segment.entry(record.segment).or_insert(place..place);
        range.end = place.saturating_add(1);
    }
    Ok(CheckedTree {
        records,
        by_segment,
        unpublished_frames,
    })
}

struct Rebuilt<'a> {
    subject: &'a Subject,
    tree: TreeWriter,
    records: Vec<Record>,
    /// Whether every leaf so far could be read; otherwise roots say nothing more.
    whole: bool,
    faults: &'a mut Vec<Fault>,
}

impl Rebuilt<'_> {
    fn fault(&mut self, class: FaultClass, place: String, detail: impl Into<String>) {
        self.faults
            .push(Fault::new(class, &self.subject.name, place, detail));
    }

    /// Reads the leaves of bundle `index` of a tree of `size` leaves.
    fn read_bundle(
        &mut self,
        verifier: &Verifier<'_>,
        index: u64,
        size: u64,
    ) -> Result<(), LogError> {
        let Some(wanted) = Bundle::of_tree(index, size) else {
            return Ok(());
        };
        let mut found = None;
        for bundle in [wanted, wanted.filled()] {
            let path = format!("streams/{}/{}", self.subject.name, bundle.path());
            if let Some(bytes) = read_small(verifier, &path)? {
                found = Some((bundle, path, bytes));
                break;
            }
        }
        let Some((bundle, path, bytes)) = found else {
            self.whole = false;
            let path = format!("streams/{}/{}", self.subject.name, wanted.path());
            self.fault(
                FaultClass::Missing,
                path,
                "the bundle of records is missing",
            );
            return Ok(());
        };
        let leaves = match decode_bundle(&bytes, bundle.width()) {
            Ok(leaves) => leaves,
            Err(error) => {
                self.whole = false;
                self.fault(FaultClass::Record, path, error.to_string());
                return Ok(());
            }
        };
        for leaf in leaves.into_iter().take(usize::from(wanted.width())) {
            self.add(leaf, &path);
        }
        Ok(())
    }

    /// Adds one leaf: checks that its record follows the one before.
    fn add(&mut self, leaf: &[u8], path: &str) {
        let frame = self.tree.size();
        if self.tree.append(leaf).is_err() {
            self.whole = false;
        }
        match Record::decode(leaf) {
            Ok(record) => {
                if let Some(detail) = self.out_of_order(&record, frame) {
                    self.fault(
                        FaultClass::Record,
                        format!("{path}, record {frame}"),
                        detail,
                    );
                }
                self.records.push(record);
            }
            Err(error) => {
                self.whole = false;
                self.fault(
                    FaultClass::Record,
                    format!("{path}, record {frame}"),
                    error.to_string(),
                );
            }
        }
        self.check_known_at(frame.saturating_add(1));
    }

    fn out_of_order(&self, record: &Record, frame: u64) -> Option<&'static str> {
        let config = &self.subject.config;
        let header = u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default();
        let before = self.records.last();
        let (entry, same, next) = match before {
            Some(before) => (
                before.next_entry(),
                (before.segment, before.end()),
                (before.segment.saturating_add(1), header),
            ),
            None => (0, (0, header), (0, header)),
        };
        let place = (record.segment, record.offset);
        if record.stream != self.subject.id {
            Some("is of another stream or log")
        } else if record.frame != frame {
            Some("has another frame index than its place")
        } else if record.proofs != config.proofs || record.cipher != config.cipher {
            Some("is sealed in another way than the stream is created for")
        } else if record.first_entry != entry {
            Some("does not follow the entries before")
        } else if place != same && place != next {
            Some("does not follow the bytes before")
        } else {
            None
        }
    }

    fn check_root(&mut self, size: u64) {
        let Some(head) = &self.subject.head else {
            return;
        };
        if self.whole && self.tree.size() == size && self.tree.root() != *head.root() {
            let place = format!("streams/{}/checkpoint", self.subject.name);
            self.fault(
                FaultClass::Tree,
                place,
                "the stored records do not have the root that was signed",
            );
        }
    }

    /// Compares every tile and bundle with what the records call for.
    fn check_tiles(&mut self, verifier: &Verifier<'_>) -> Result<(), LogError> {
        if !self.whole {
            return Ok(());
        }
        for file in self.tree.take_files().write {
            let path = format!("streams/{}/{}", self.subject.name, file.path);
            let full = path.split(".p/").next().unwrap_or_default().to_owned();
            let stored = read_small(verifier, &path)?;
            let is_partial = !file.full;
            match stored {
                Some(bytes) if bytes == file.bytes => {}
                Some(_) => {
                    self.fault(
                        FaultClass::Tile,
                        path,
                        "is not what the stored records call for",
                    );
                }
                // A live log may have replaced a partial file by its full form meanwhile.
                None if is_partial && read_small(verifier, &full)?.is_some() => {}
                None => self.fault(FaultClass::Missing, path, "is missing"),
            }
        }
        Ok(())
    }

    /// Follows whole frames behind the checkpoint: a crash leaves signed heads and durable frames there.
    fn read_behind(&mut self, verifier: &Verifier<'_>) -> Result<u64, LogError> {
        if !self.whole {
            return Ok(0);
        }
        let Some(mut position) = self.position(verifier)? else {
            return Ok(0);
        };
        let mut found = 0_u64;
        let mut tree = self.tree.clone();
        let mut roots = Vec::new();
        let _end = scan(
            &verifier.files,
            &self.subject.name,
            &mut position,
            &mut |record, _| {
                found = found.saturating_add(1);
                if tree.append(&record.encode()).is_ok() {
                    roots.push((tree.size(), tree.root()));
                }
                Ok(())
            },
        )?;
        self.tree = tree;
        for (size, root) in roots {
            self.compare(size, root);
        }
        Ok(found)
    }

    fn position(&self, verifier: &Verifier<'_>) -> Result<Option<Position>, LogError> {
        match self.records.last() {
            Some(last) => Position::behind(&verifier.files, &self.subject.name, last),
            None => Ok(Some(Position::start(
                self.subject.id,
                self.subject.fingerprint,
            ))),
        }
    }

    fn check_known_at(&mut self, size: u64) {
        if self.whole && self.subject.known.iter().any(|known| known.size == size) {
            self.compare(size, self.tree.root());
        }
    }

    fn compare(&mut self, size: u64, root: probity_format::tree::Hash) {
        let subject = self.subject;
        for known in subject.known.iter().filter(|known| known.size == size) {
            if known.root != root {
                let class = match known.class {
                    FaultClass::Rollback => FaultClass::Fork,
                    class => class,
                };
                self.fault(
                    class,
                    format!("streams/{}, frame {}", subject.name, size.saturating_sub(1)),
                    format!(
                        "history was rewritten: {} has another root at {size}",
                        known.source
                    ),
                );
            }
        }
    }

    /// Every head known from elsewhere must lie within the stream.
    fn check_known(&mut self, size: u64) {
        let subject = self.subject;
        let reached = self.tree.size();
        for known in subject.known.iter().filter(|known| known.size > reached) {
            if !self.whole && known.size <= size {
                continue;
            }
            self.fault(
                FaultClass::Rollback,
                format!("streams/{}/checkpoint", subject.name),
                format!(
                    "the stream has {reached} frames, but {} was signed for {}: its end was cut off or an older copy put back",
                    known.source, known.size
                ),
            );
        }
    }
}

/// The content of a tile or bundle; too long a file reads as empty and then differs.
fn read_small(verifier: &Verifier<'_>, path: &str) -> Result<Option<Vec<u8>>, LogError> {
    match verifier.files.read(path, TILE_FILE_BYTES_MAX) {
        Err(LogError::Storage { source, .. })
            if source.kind() == std::io::ErrorKind::InvalidData =>
        {
            Ok(Some(Vec::new()))
        }
        result => result,
    }
}
