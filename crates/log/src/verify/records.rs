//! Reads the records that a checkpoint covers; where they contradict the root that was signed, finds out which do.
//!
//! Records are stored twice over: in bundles, and in the headers of the frames they stand for. The tiles hold their
//! hashes. If the tiles have the signed root, each record that differs is named, and the frame stands in for it, so
//! that one damaged record hides nothing behind it.

use std::collections::BTreeSet;

use probity_format::checkpoint::Checkpoint;
use probity_format::record::Record;
use probity_format::tile::{Bundle, Tile, decode_bundle, decode_tile};
use probity_format::tree::{Frontier, Hash, leaf_hash};

use super::stored::{Stored, is_strange};
use super::{Fault, FaultClass, Subject, Verifier};
use crate::error::LogError;
use crate::files::TILE_FILE_BYTES_MAX;
use crate::scan::{Position, scan};

/// The records of a stream, as far as its checkpoint reaches.
pub(super) struct Found {
    /// As stored, or as their frames say where the stored one is damaged; `None` where both are.
    pub(super) records: Vec<Option<Record>>,
    /// Whether they have the root that was signed.
    pub(super) are_signed: bool,
    /// Bundles whose damage is reported already.
    pub(super) reported: BTreeSet<String>,
}

/// Reads the records that the checkpoint of `subject` covers.
pub(super) fn read(
    verifier: &Verifier<'_>,
    subject: &Subject,
    faults: &mut Vec<Fault>,
) -> Result<Found, LogError> {
    let size = subject.head.as_ref().map_or(0, Checkpoint::size);
    let mut reading = Reading {
        verifier,
        subject,
        size,
        records: Vec::new(),
        reported: BTreeSet::new(),
        faults,
    };
    for index in 0..size.div_ceil(256) {
        reading.read_bundle(index)?;
    }
    let are_signed = reading.match_root()?;
    Ok(Found {
        records: reading.records,
        are_signed,
        reported: reading.reported,
    })
}

struct Reading<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    size: u64,
    records: Vec<Option<Record>>,
    reported: BTreeSet<String>,
    faults: &'a mut Vec<Fault>,
}

impl Reading<'_> {
    /// A fault of a bundle, or of a record in it.
    fn fault(&mut self, class: FaultClass, bundle: String, record: Option<usize>, detail: &str) {
        let place = record.map_or_else(
            || bundle.clone(),
            |record| format!("{bundle}, record {record}"),
        );
        self.faults
            .push(Fault::new(class, &self.subject.name, place, detail));
        self.reported.insert(bundle);
    }

    fn path(&self, path: &str) -> String {
        format!("streams/{}/{path}", self.subject.name)
    }

    fn read_bundle(&mut self, index: u64) -> Result<(), LogError> {
        let Some(wanted) = Bundle::of_tree(index, self.size) else {
            return Ok(());
        };
        let width = usize::from(wanted.width());
        let end = self.records.len().saturating_add(width);
        let path = self.path(&wanted.path());
        match self
            .stored(&[wanted, wanted.filled()].map(|bundle| (bundle.path(), bundle.width())))?
        {
            None => self.fault(FaultClass::Missing, path, None, "is missing"),
            Some((path, bytes, stored)) => match decode_bundle(&bytes, stored) {
                Err(error) => self.fault(FaultClass::Record, path, None, &error.to_string()),
                Ok(leaves) => {
                    for leaf in leaves.into_iter().take(width) {
                        let record = Record::decode(leaf);
                        if let Err(error) = &record {
                            let place = Some(self.records.len());
                            let class = FaultClass::Record;
                            self.fault(class, path.clone(), place, &error.to_string());
                        }
                        self.records.push(record.ok());
                    }
                }
            },
        }
        self.records.resize(end, None);
        Ok(())
    }

    /// The first of these files that is there: its path, content and width.
    fn stored(
        &self,
        forms: &[(String, u16); 2],
    ) -> Result<Option<(String, Vec<u8>, u16)>, LogError> {
        for (path, width) in forms {
            let path = self.path(path);
            let stored = Stored::read(&self.verifier.files, &path, TILE_FILE_BYTES_MAX)?;
            if let Some(bytes) = stored.content() {
                return Ok(Some((path, bytes, *width)));
            }
        }
        Ok(None)
    }

    /// Whether the records have the signed root, by themselves or once those that differ from the tiles are replaced.
    fn match_root(&mut self) -> Result<bool, LogError> {
        let Some(head) = &self.subject.head else {
            return Ok(true);
        };
        let hashes = self
            .records
            .iter()
            .map(|record| Some(leaf_hash(&record.as_ref()?.encode())));
        let hashes: Vec<Option<Hash>> = hashes.collect();
        if hashes.iter().all(Option::is_some) && root(hashes.iter().flatten()) == *head.root() {
            return Ok(true);
        }
        if let Some(signed) = self.signed_hashes(head)? {
            return self.replace(&hashes, &signed);
        }
        let place = self.path("checkpoint");
        let detail = "neither the stored records nor the tiles have the root that was signed";
        let fault = Fault::new(FaultClass::Tree, &self.subject.name, place, detail);
        self.faults.push(fault);
        Ok(false)
    }

    /// The hashes in the tiles of the lowest level, if they have the signed root.
    fn signed_hashes(&self, head: &Checkpoint) -> Result<Option<Vec<Hash>>, LogError> {
        let mut hashes = Vec::with_capacity(self.records.len());
        for index in 0..self.size.div_ceil(256) {
            let Some(wanted) = Tile::of_tree(0, index, self.size) else {
                return Ok(None);
            };
            let forms = [wanted, wanted.filled()].map(|tile| (tile.path(), tile.width()));
            let Some((_, bytes, stored)) = self.stored(&forms)? else {
                return Ok(None);
            };
            let Ok(tile) = decode_tile(&bytes, stored) else {
                return Ok(None);
            };
            hashes.extend(tile.into_iter().take(usize::from(wanted.width())));
        }
        Ok((root(&hashes) == *head.root()).then_some(hashes))
    }

    /// Names each record that is not the one that was signed, and looks for that one in the segments.
    fn replace(&mut self, stored: &[Option<Hash>], signed: &[Hash]) -> Result<bool, LogError> {
        let mut whole = true;
        for (place, (stored, signed)) in stored.iter().zip(signed).enumerate() {
            if stored.as_ref() == Some(signed) {
                continue;
            }
            if stored.is_some() {
                let index = u64::try_from(place / 256).unwrap_or(u64::MAX);
                let bundle = Bundle::of_tree(index, self.size).map(Bundle::path);
                let bundle = self.path(&bundle.unwrap_or_default());
                let detail = "is not the one that was signed";
                self.fault(FaultClass::Record, bundle, Some(place), detail);
            }
            let found = self.in_segment(place)?;
            let found = found.filter(|record| leaf_hash(&record.encode()) == *signed);
            whole &= found.is_some();
            if let Some(slot) = self.records.get_mut(place) {
                *slot = found;
            }
        }
        Ok(whole)
    }

    /// The record at `place` as its frame says, which stands behind the one before.
    fn in_segment(&self, place: usize) -> Result<Option<Record>, LogError> {
        let (files, subject) = (&self.verifier.files, self.subject);
        let before = match place.checked_sub(1) {
            None => Some(Position::start(subject.id, subject.fingerprint)),
            Some(before) => match self.records.get(before).and_then(Option::as_ref) {
                None => None,
                Some(record) => match Position::behind(files, &subject.name, record) {
                    Err(error) if is_strange(&error) => None,
                    position => position?,
                },
            },
        };
        let Some(mut position) = before else {
            return Ok(None);
        };
        let mut found = None;
        let scanned = scan(files, &subject.name, &mut position, &mut |record, _| {
            found = Some(*record);
            Err(Stop::Found)
        });
        match scanned {
            Err(Stop::Failed(error)) if !is_strange(&error) => Err(error),
            _ => Ok(found),
        }
    }
}

/// What ends a scan for one frame.
enum Stop {
    Found,
    Failed(LogError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Failed(error)
    }
}

fn root<'a>(hashes: impl IntoIterator<Item = &'a Hash>) -> Hash {
    let mut tree = Frontier::new();
    for hash in hashes {
        tree.push(*hash);
    }
    tree.root()
}
