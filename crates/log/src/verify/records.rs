//! Reads the records that a checkpoint covers, bundle by bundle. Where they contradict the signed
//! root, finds the wrong ones.
//!
//! Records are stored twice: in bundles, and in the headers of their frames. The tiles hold their
//! hashes. If the tiles have the signed root, each record that differs is reported, and its frame
//! replaces it. So one damaged record hides nothing behind it. The first reading of all records
//! shows which source to trust; the second one checks them.

use std::collections::BTreeSet;

use probity_format::Version;
use probity_format::checkpoint::Checkpoint;
use probity_format::limits::TILE_WIDTH;
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::tile::{Bundle, Tile, decode_bundle, decode_tile};
use probity_format::tree::{Frontier, Hash, leaf_hash};

use super::stored::{Stored, is_strange, names};
use super::{Fault, FaultClass, Faults, Subject, Verifier, unless_damaged};
use crate::error::LogError;
use crate::files::TILE_FILE_BYTES_MAX;
use crate::scan::{Position, find_frame, scan};
use crate::segments::{self, Cuts, Walk};

/// The data that has the signed root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The records as stored.
    Records,
    /// The tiles, which then determine the records.
    Tiles,
    /// Neither.
    Nothing,
}

/// One record of a stream.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    /// Index of the frame.
    pub(super) frame: u64,
    /// As stored, or as in its frame where the stored one is damaged; `None` where both are.
    pub(super) record: Option<Record>,
    /// Its signed hash, where it is known.
    pub(super) signed: Option<Hash>,
    /// The place of its frame; nothing behind an unknown record, up to the next frame that is
    /// found.
    pub(super) place: Option<Place>,
    /// True when a segment begins with it.
    pub(super) is_first: bool,
}

/// Reads the records of one stream in order.
pub(super) struct Records<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    size: u64,
    trust: Trust,
    /// Bytes of the frames that are to be read.
    pub(super) bytes: u64,
    /// The record read last, and the place of its frame.
    before: Option<Record>,
    before_at: Option<Place>,
    walk: Walk,
    /// The last known place, and whether to search behind it for the next.
    last_place: Option<Place>,
    /// A frame that was found behind one whose record is unknown.
    ahead: Option<(u64, Place)>,
    /// Files of the bundle read last whose damage is reported already.
    pub(super) reported: BTreeSet<String>,
}

impl<'a> Records<'a> {
    /// Determines which data has the signed root.
    pub(super) fn survey(
        verifier: &'a Verifier<'a>,
        subject: &'a Subject,
        faults: &mut Faults,
    ) -> Result<Self, LogError> {
        let mut records = Self {
            verifier,
            subject,
            size: subject.head.as_ref().map_or(0, Checkpoint::size),
            trust: Trust::Records,
            bytes: 0,
            before: None,
            before_at: None,
            walk: Walk::new(listed_cuts(verifier, subject)?),
            last_place: None,
            ahead: None,
            reported: BTreeSet::new(),
        };
        let Some(head) = &subject.head else {
            return Ok(records);
        };
        if records.root_of_records()?.as_ref() == Some(head.root()) {
            return Ok(records);
        }
        if records.root_of_tiles()?.as_ref() == Some(head.root()) {
            records.trust = Trust::Tiles;
            return Ok(records);
        }
        records.trust = Trust::Nothing;
        let place = records.path("checkpoint");
        let detail = "neither the stored records nor the tiles have the root that was signed";
        faults.push(Fault::new(FaultClass::Tree, &subject.name, place, detail));
        Ok(records)
    }

    /// Frames that the checkpoint covers.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Reads the records of bundle `index`, in its whole width.
    pub(super) fn read(
        &mut self,
        index: u64,
        faults: &mut Faults,
    ) -> Result<Vec<Placed>, LogError> {
        let Some(wanted) = Bundle::of_tree(index, self.size) else {
            return Ok(Vec::new());
        };
        self.reported.clear();
        let stored = self.read_bundle(wanted, faults)?;
        let signed = match self.trust {
            Trust::Tiles => self.hashes(index)?,
            Trust::Records | Trust::Nothing => None,
        };
        let mut placed = Vec::with_capacity(stored.len());
        let first = index.saturating_mul(TILE_WIDTH);
        for ((place, stored), frame) in stored.into_iter().enumerate().zip(first..) {
            let hash = stored.map(|record| leaf_hash(&record.encode()));
            let next: (Option<Record>, Option<Hash>) = match self.trust {
                Trust::Records => (stored, hash),
                Trust::Nothing => (stored, None),
                Trust::Tiles => {
                    let signed = signed
                        .as_ref()
                        .and_then(|hashes| hashes.get(place))
                        .copied();
                    let record = if hash.is_some() && hash == signed {
                        stored
                    } else {
                        self.replace(wanted, frame, stored.is_some(), signed, faults)?
                    };
                    (record, signed)
                }
            };
            placed.push(self.place(frame, next)?);
        }
        Ok(placed)
    }

    /// The root over the records as stored, unless one is missing or no record. Counts the bytes to
    /// be read.
    fn root_of_records(&mut self) -> Result<Option<Hash>, LogError> {
        let mut tree = Frontier::new();
        let mut is_whole = true;
        for index in 0..self.size.div_ceil(TILE_WIDTH) {
            let Some(wanted) = Bundle::of_tree(index, self.size) else {
                return Ok(None);
            };
            // Faults are reported when the records are read to be checked.
            for record in self.read_bundle(wanted, &mut Faults::default())? {
                let Some(record) = record else {
                    is_whole = false;
                    continue;
                };
                if self.verifier.wants(self.subject, &record) {
                    self.bytes = self.bytes.saturating_add(u64::from(record.length));
                }
                tree.push(leaf_hash(&record.encode()));
            }
        }
        Ok(is_whole.then(|| tree.root()))
    }

    /// The root over the hashes in the tiles of the lowest level.
    fn root_of_tiles(&self) -> Result<Option<Hash>, LogError> {
        let mut tree = Frontier::new();
        for index in 0..self.size.div_ceil(TILE_WIDTH) {
            let Some(hashes) = self.hashes(index)? else {
                return Ok(None);
            };
            for hash in hashes {
                tree.push(hash);
            }
        }
        Ok(Some(tree.root()))
    }

    /// A fault of a bundle, or of a record in it.
    fn fault(
        &mut self,
        class: FaultClass,
        bundle: String,
        record: Option<u64>,
        detail: &str,
        faults: &mut Faults,
    ) {
        let place = record.map_or_else(
            || bundle.clone(),
            |record| format!("{bundle}, record {record}"),
        );
        faults.push(Fault::new(class, &self.subject.name, place, detail));
        self.reported.insert(bundle);
    }

    fn path(&self, path: &str) -> String {
        format!("streams/{}/{path}", self.subject.name)
    }

    /// The records of a bundle; `None` in the places of those that are missing or damaged.
    fn read_bundle(
        &mut self,
        wanted: Bundle,
        faults: &mut Faults,
    ) -> Result<Vec<Option<Record>>, LogError> {
        let width = usize::from(wanted.width());
        let mut records = Vec::with_capacity(width);
        let path = self.path(&wanted.path());
        let forms = [wanted, wanted.filled()].map(|bundle| (bundle.path(), bundle.width()));
        match self.stored(&forms)? {
            None => self.fault(FaultClass::Missing, path, None, "is missing", faults),
            Some((path, bytes, stored)) => match decode_bundle(&bytes, stored) {
                Err(error) => {
                    self.fault(FaultClass::Record, path, None, &error.to_string(), faults);
                }
                Ok(leaves) => {
                    let first = wanted.index().saturating_mul(TILE_WIDTH);
                    for (leaf, frame) in leaves.into_iter().take(width).zip(first..) {
                        let record = Record::decode(self.subject.version, leaf);
                        if let Err(error) = &record {
                            let (path, frame) = (path.clone(), Some(frame));
                            let detail = error.to_string();
                            self.fault(FaultClass::Record, path, frame, &detail, faults);
                        }
                        records.push(record.ok());
                    }
                }
            },
        }
        records.resize(width, None);
        Ok(records)
    }

    /// The hashes in the tile of the lowest level at `index`; nothing where there is no such tile.
    fn hashes(&self, index: u64) -> Result<Option<Vec<Hash>>, LogError> {
        let Some(wanted) = Tile::of_tree(0, index, self.size) else {
            return Ok(None);
        };
        let forms = [wanted, wanted.filled()].map(|tile| (tile.path(), tile.width()));
        let Some((_, bytes, stored)) = self.stored(&forms)? else {
            return Ok(None);
        };
        let Ok(mut hashes) = decode_tile(&bytes, stored) else {
            return Ok(None);
        };
        hashes.truncate(usize::from(wanted.width()));
        Ok(Some(hashes))
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

    /// Reports a record that differs from the signed one, and looks for that one in the segments.
    fn replace(
        &mut self,
        bundle: Bundle,
        frame: u64,
        is_stored: bool,
        signed: Option<Hash>,
        faults: &mut Faults,
    ) -> Result<Option<Record>, LogError> {
        if is_stored {
            let bundle = self.path(&bundle.path());
            let detail = "is not the one that was signed";
            self.fault(FaultClass::Record, bundle, Some(frame), detail, faults);
        }
        let found = self.in_segment(frame)?;
        Ok(found.filter(|record| Some(leaf_hash(&record.encode())) == signed))
    }

    /// Computes the place of a record's frame.
    fn place(
        &mut self,
        frame: u64,
        (record, signed): (Option<Record>, Option<Hash>),
    ) -> Result<Placed, LogError> {
        self.look_ahead(frame)?;
        let is_first = match &record {
            Some(record) if record.place().is_some() => false,
            _ => segments::begins(&self.walk.cuts, frame).is_some(),
        };
        let place = self.walk.pass(frame, record.as_ref());
        self.last_place = place.or(self.last_place);
        self.before = record;
        self.before_at = place;
        Ok(Placed {
            frame,
            record,
            signed,
            place,
            is_first,
        })
    }

    /// Searches the segment's bytes for the next frame, where the lengths of records do not lead to
    /// frame `frame`.
    fn look_ahead(&mut self, frame: u64) -> Result<(), LogError> {
        if self.subject.version == Version::V2 || self.walk.due(frame).is_some() {
            return Ok(());
        }
        if let Some(from) = self.last_place
            && self.ahead.is_none_or(|(found, _)| found < frame)
        {
            let (files, identity) = (&self.verifier.files, self.subject.identity());
            let from = Place {
                offset: from.offset.saturating_add(1),
                ..from
            };
            let after = frame.saturating_sub(1);
            let found = find_frame(files, &self.subject.name, &identity, from, after);
            // A frame that is not found now is not searched for again in this segment.
            self.ahead = Some(unless_damaged(found)?.unwrap_or((u64::MAX, from)));
        }
        if let Some((found, place)) = self.ahead
            && found == frame
        {
            self.walk.found(place);
        }
        Ok(())
    }

    /// The record of `frame` from the frame itself, which follows the one before.
    fn in_segment(&self, frame: u64) -> Result<Option<Record>, LogError> {
        let (files, subject) = (&self.verifier.files, self.subject);
        let identity = subject.identity();
        let entry = self.before.as_ref().map_or(0, Record::next_entry);
        let due = match subject.version {
            Version::V2 => None,
            _ => self.walk.due(frame),
        };
        let position = match (due, &self.before, self.before_at) {
            _ if frame == 0 => Some(Position::start(identity)),
            (Some(place), Some(_), _) => Some(Position::at(identity, place, frame, entry)),
            (None, Some(record), Some(place)) => {
                let behind = Position::behind(files, &subject.name, identity, record, place);
                unless_damaged(behind)?
            }
            _ => None,
        };
        let Some(mut position) = position else {
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

/// The frames with which the segments of a stream begin; none where its folder is none.
fn listed_cuts(verifier: &Verifier<'_>, subject: &Subject) -> Result<Cuts, LogError> {
    if subject.version == Version::V2 {
        return Ok(Cuts::new());
    }
    let found = names(&verifier.files, &segments::folder(&subject.name))?;
    Ok(segments::cuts_among(&found.unwrap_or_default()))
}

/// The reason why the search for a frame stopped.
enum Stop {
    Found,
    Failed(LogError),
}

impl From<LogError> for Stop {
    fn from(error: LogError) -> Self {
        Self::Failed(error)
    }
}
