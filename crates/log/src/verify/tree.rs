//! Checks a stream's tree: records, tiles, roots, and heads known from elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::checkpoint::Checkpoint;
use probity_format::record::Record;
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::tile::{Bundle, Tile, TileFile, TreeWriter};
use probity_format::tree::{HASH_BYTES, Hash};

use super::stored::{Stored, is_strange, names};
use super::{CheckedTree, Fault, FaultClass, Subject, Verifier, as_far_as_there, records};
use crate::error::LogError;
use crate::files::TILE_FILE_BYTES_MAX;
use crate::scan::{Position, scan};

/// Reads every record the checkpoint covers, rebuilds the tree and compares every file and root.
pub(super) fn check(
    verifier: &Verifier<'_>,
    subject: &Subject,
    faults: &mut Vec<Fault>,
) -> Result<CheckedTree, LogError> {
    let found = records::read(verifier, subject, faults)?;
    let mut rebuilt = Rebuilt {
        subject,
        tree: TreeWriter::new(),
        are_signed: found.are_signed,
        faults,
    };
    rebuilt.check_order(&found.records);
    rebuilt.check_tiles(verifier, &found.reported)?;
    let behind = rebuilt.read_behind(verifier, &found.records)?;
    if let Some(behind) = behind {
        let size = subject.head.as_ref().map_or(0, Checkpoint::size);
        rebuilt.check_known(size.saturating_add(behind));
    }
    let records: Vec<Record> = found.records.into_iter().flatten().collect();
    let mut by_segment: BTreeMap<u32, std::ops::Range<usize>> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        let range = by_segment.entry(record.segment).or_insert(place..place);
        range.end = place.saturating_add(1);
    }
    Ok(CheckedTree {
        records,
        by_segment,
        unpublished_frames: behind.unwrap_or_default(),
    })
}

struct Rebuilt<'a> {
    subject: &'a Subject,
    tree: TreeWriter,
    /// Whether the records have the signed root; otherwise the roots of their tree say nothing more.
    are_signed: bool,
    faults: &'a mut Vec<Fault>,
}

impl Rebuilt<'_> {
    fn fault(&mut self, class: FaultClass, place: String, detail: impl Into<String>) {
        self.faults
            .push(Fault::new(class, &self.subject.name, place, detail));
    }

    /// Checks that each record follows the one before, and builds their tree.
    fn check_order(&mut self, records: &[Option<Record>]) {
        let mut before: Option<&Record> = None;
        for (record, frame) in records.iter().zip(0_u64..) {
            let Some(record) = record else {
                before = None;
                continue;
            };
            let follows = frame == 0 || before.is_some();
            let detail = self.wrong(record, frame);
            let detail = detail.or_else(|| follows.then(|| out_of_order(before, record)).flatten());
            if let Some(detail) = detail {
                let size = u64::try_from(records.len()).unwrap_or(u64::MAX);
                let path = Bundle::of_tree(frame / 256, size).map(Bundle::path);
                let path = format!(
                    "streams/{}/{}, record {frame}",
                    self.subject.name,
                    path.unwrap_or_default()
                );
                self.fault(FaultClass::Record, path, detail);
            }
            before = Some(record);
            // A record is far shorter than the longest leaf, and no stream is as long as the largest tree.
            if self.are_signed && self.tree.append(&record.encode()).is_ok() {
                self.check_known_at(frame.saturating_add(1));
            }
        }
    }

    fn wrong(&self, record: &Record, frame: u64) -> Option<&'static str> {
        let config = &self.subject.config;
        if record.stream != self.subject.id {
            Some("is of another stream or log")
        } else if record.frame != frame {
            Some("has another frame index than its place")
        } else if record.proofs != config.proofs || record.cipher != config.cipher {
            Some("is sealed in another way than the stream is created for")
        } else {
            None
        }
    }

    /// Compares every tile and bundle with what the records call for.
    fn check_tiles(
        &mut self,
        verifier: &Verifier<'_>,
        reported: &BTreeSet<String>,
    ) -> Result<(), LogError> {
        if !self.are_signed {
            return Ok(());
        }
        let files = self.tree.take_files().write;
        for file in &files {
            let path = format!("streams/{}/{}", self.subject.name, file.path);
            let full = path.split(".p/").next().unwrap_or_default().to_owned();
            if reported.contains(&path) || reported.contains(&full) {
                continue;
            }
            let stored = read_small(verifier, &path)?;
            let is_partial = !file.full;
            match stored {
                Some(bytes) if bytes == file.bytes => {}
                Some(_) => self.wrong_tile(path),
                // A live log may have replaced a partial file by its full form meanwhile, which begins with it.
                None if is_partial && is_full_form(verifier, &full, file)? => {}
                None => self.fault(FaultClass::Missing, path, "is missing"),
            }
        }
        self.check_other_tiles(verifier, reported, &files)
    }

    /// Compares partial tiles and bundles of earlier sizes, which readers with an older checkpoint still ask for.
    fn check_other_tiles(
        &mut self,
        verifier: &Verifier<'_>,
        reported: &BTreeSet<String>,
        files: &[TileFile],
    ) -> Result<(), LogError> {
        let root = format!("streams/{}", self.subject.name);
        let called_for: BTreeMap<&str, &TileFile> = files
            .iter()
            .map(|file| (file.path.split(".p/").next().unwrap_or_default(), file))
            .collect();
        let compared: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let mut folders = vec!["tile".to_owned()];
        while let Some(folder) = folders.pop() {
            let Some(names) = names(&verifier.files, &format!("{root}/{folder}"))? else {
                let detail = "is neither a tile nor a folder of tiles";
                self.fault(FaultClass::Unknown, format!("{root}/{folder}"), detail);
                continue;
            };
            for name in names {
                let path = format!("{folder}/{name}");
                if is_tile_folder(&path) {
                    folders.push(path);
                    continue;
                }
                let Some(part) = Part::parse(&path) else {
                    let detail = "is neither a tile nor a bundle";
                    self.fault(FaultClass::Unknown, format!("{root}/{path}"), detail);
                    continue;
                };
                let whole = called_for.get(part.full.as_str());
                // What lies behind the checkpoint was left by a crash, or is just being written.
                let Some(expected) = whole.and_then(|file| part.of(&file.bytes)) else {
                    continue;
                };
                if compared.contains(path.as_str()) {
                    continue;
                }
                let path = format!("{root}/{path}");
                if reported.contains(&path) {
                    continue;
                }
                if read_small(verifier, &path)?.is_some_and(|stored| stored != expected) {
                    self.wrong_tile(path);
                }
            }
        }
        Ok(())
    }

    fn wrong_tile(&mut self, path: String) {
        let detail = "is not what the stored records call for";
        self.fault(FaultClass::Tile, path, detail);
    }

    /// Follows whole frames behind the checkpoint: a crash leaves signed heads and durable frames there. Gives how many
    /// there are, nothing where the end of the stream is damaged.
    fn read_behind(
        &mut self,
        verifier: &Verifier<'_>,
        records: &[Option<Record>],
    ) -> Result<Option<u64>, LogError> {
        let subject = self.subject;
        let position = match records.last() {
            None => Some(Position::start(subject.id, subject.fingerprint)),
            Some(None) => None,
            Some(Some(last)) => match Position::behind(&verifier.files, &subject.name, last) {
                Err(error) if is_strange(&error) => None,
                found => found?,
            },
        };
        let Some(mut position) = position else {
            return Ok(None);
        };
        let mut found = 0_u64;
        let scanned = scan(
            &verifier.files,
            &subject.name,
            &mut position,
            &mut |record, _| {
                found = found.saturating_add(1);
                if self.are_signed && self.tree.append(&record.encode()).is_ok() {
                    self.check_known_at(self.tree.size());
                }
                Ok(())
            },
        );
        as_far_as_there(scanned)?;
        Ok(Some(found))
    }

    fn check_known_at(&mut self, size: u64) {
        if self.subject.known.iter().any(|known| known.size == size) {
            self.compare(size, self.tree.root());
        }
    }

    fn compare(&mut self, size: u64, root: Hash) {
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

    /// Every head known from elsewhere must lie within the frames found.
    fn check_known(&mut self, reached: u64) {
        let subject = self.subject;
        for known in subject.known.iter().filter(|known| known.size > reached) {
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

/// Whether the file at `path` is the full form of the partial one that is expected.
fn is_full_form(
    verifier: &Verifier<'_>,
    path: &str,
    expected: &TileFile,
) -> Result<bool, LogError> {
    let Some(stored) = read_small(verifier, path)? else {
        return Ok(false);
    };
    let full = expected.path.split(".p/").next().and_then(Part::parse);
    let is_whole = full.is_some_and(|full| full.of(&stored) == Some(stored.as_slice()));
    Ok(is_whole && stored.starts_with(&expected.bytes))
}

/// How `record` does not follow the one before.
fn out_of_order(before: Option<&Record>, record: &Record) -> Option<&'static str> {
    let header = u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default();
    let (entry, same, next) = match before {
        Some(before) => (
            before.next_entry(),
            (before.segment, before.end()),
            (before.segment.saturating_add(1), header),
        ),
        None => (0, (0, header), (0, header)),
    };
    let place = (record.segment, record.offset);
    if record.first_entry != entry {
        Some("does not follow the entries before")
    } else if place != same && place != next {
        Some("does not follow the bytes before")
    } else {
        None
    }
}

/// Whether `path` leads to tiles rather than to one: a level, a group of digits, or the folder of partial forms.
fn is_tile_folder(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    path.matches('/').count() == 1 || last.starts_with('x') || last.strip_suffix(".p").is_some()
}

/// The beginning of a tile or a bundle, as its path says.
struct Part {
    /// The path of the full form.
    full: String,
    width: usize,
    is_bundle: bool,
}

impl Part {
    fn parse(path: &str) -> Option<Self> {
        let (full, width, is_bundle) = match (Tile::parse(path), Bundle::parse(path)) {
            (Ok(tile), _) => (tile.filled().path(), tile.width(), false),
            (_, Ok(bundle)) => (bundle.filled().path(), bundle.width(), true),
            _ => return None,
        };
        Some(Self {
            full,
            width: usize::from(width),
            is_bundle,
        })
    }

    /// Its bytes within those of a wider form; `None` where that is not wide enough.
    fn of<'a>(&self, wider: &'a [u8]) -> Option<&'a [u8]> {
        if !self.is_bundle {
            return wider.get(..self.width.checked_mul(HASH_BYTES)?);
        }
        let mut rest = wider;
        for _ in 0..self.width {
            let (length, after) = rest.split_first_chunk::<2>()?;
            rest = after.get(usize::from(u16::from_be_bytes(*length))..)?;
        }
        wider.get(..wider.len().checked_sub(rest.len())?)
    }
}

/// The content of a tile or bundle; what is none reads as empty and then differs.
fn read_small(verifier: &Verifier<'_>, path: &str) -> Result<Option<Vec<u8>>, LogError> {
    Ok(Stored::read(&verifier.files, path, TILE_FILE_BYTES_MAX)?.content())
}
