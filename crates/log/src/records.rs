//! Finds records of a stream in its bundles, without reading the others, and the frames that they
//! describe.

use std::cmp::Ordering;

use probity_format::DecodeError;
use probity_format::limits::TILE_WIDTH;
use probity_format::proof::{ProveError, inclusion_proof, root_from_inclusion};
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::tile::{Bundle, TileReadError, TileReader, decode_bundle};
use probity_format::tree::{Hash, leaf_hash};

use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX, unless_strange};
use crate::scan::{Position, stored_frame};
use crate::segments::{self, Cuts, Identity};

/// The records that a checkpoint of `size` frames covers. Keeps the bundle read last, and the place
/// found last.
pub(crate) struct Records<'a> {
    files: &'a Files,
    stream: &'a StreamName,
    identity: Identity,
    size: u64,
    /// The root of their tree; without one nothing confirms the records.
    root: Option<Hash>,
    bundle: Option<(u64, Vec<Record>)>,
    /// Listed when the first place is asked for.
    cuts: Option<Cuts>,
    /// A frame and its place.
    placed: Option<(u64, Place)>,
}

impl<'a> Records<'a> {
    /// Records as they are stored. The caller checks the data derived from them: one may be in the
    /// place of another.
    pub(crate) const fn new(
        files: &'a Files,
        stream: &'a StreamName,
        identity: Identity,
        size: u64,
    ) -> Self {
        Self {
            files,
            stream,
            identity,
            size,
            root: None,
            bundle: None,
            cuts: None,
            placed: None,
        }
    }

    /// Records that are compared with the tree of `size` frames that has `root`: another one in
    /// their place is damage.
    pub(crate) const fn of_tree(
        files: &'a Files,
        stream: &'a StreamName,
        identity: Identity,
        size: u64,
        root: Hash,
    ) -> Self {
        let mut records = Self::new(files, stream, identity, size);
        records.root = Some(root);
        records
    }

    /// The record of the frame that holds entry `index`, if the checkpoint covers it.
    ///
    /// # Errors
    /// When a bundle on the way is missing or damaged.
    pub(crate) fn of_entry(&mut self, index: u64) -> Result<Option<Record>, LogError> {
        let (mut low, mut high) = (0, self.size);
        while low < high {
            let middle = low.midpoint(high);
            let record = self.record(middle)?;
            if index < record.first_entry {
                high = middle;
            } else if index < record.next_entry() {
                return Ok(Some(record));
            } else {
                low = middle.saturating_add(1);
            }
        }
        Ok(None)
    }

    /// The record of `frame`, if the checkpoint covers it.
    ///
    /// # Errors
    /// When its bundle is missing or damaged.
    pub(crate) fn of_frame(&mut self, frame: u64) -> Result<Option<Record>, LogError> {
        if frame < self.size {
            self.record(frame).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The last record, if there is any.
    ///
    /// # Errors
    /// When its bundle is missing or damaged.
    pub(crate) fn last(&mut self) -> Result<Option<Record>, LogError> {
        match self.size.checked_sub(1) {
            Some(last) => self.of_frame(last),
            None => Ok(None),
        }
    }

    /// Returns the place of the frame of `record`, if the records between it and the beginning of
    /// its segment are right.
    ///
    /// # Errors
    /// When one of their bundles is missing or damaged.
    pub(crate) fn place(&mut self, record: &Record) -> Result<Place, LogError> {
        if let Some(place) = record.place() {
            return Ok(place);
        }
        let wanted = record.frame;
        let (mut frame, mut place) = self.nearest(wanted)?;
        loop {
            match frame.cmp(&wanted) {
                Ordering::Equal => break,
                Ordering::Less => {
                    place = segments::behind(place, self.record(frame)?.length);
                    frame = frame.saturating_add(1);
                }
                Ordering::Greater => {
                    frame = frame.saturating_sub(1);
                    let length = u64::from(self.record(frame)?.length);
                    place.offset = place.offset.saturating_sub(length);
                }
            }
        }
        self.placed = Some((wanted, place));
        Ok(place)
    }

    /// A frame in the segment of frame `wanted` whose place is known: the one found last, or the
    /// first.
    fn nearest(&mut self, wanted: u64) -> Result<(u64, Place), LogError> {
        let cuts = match self.cuts.take() {
            Some(cuts) => cuts,
            None => segments::cuts(self.files, self.stream, self.identity.version)?,
        };
        let first = cuts.range(..=wanted).next_back().copied();
        let first = first.unwrap_or_default();
        self.cuts = Some(cuts);
        if let Some((frame, place)) = self.placed
            && place.segment == first
            && frame.abs_diff(wanted) <= wanted.saturating_sub(first)
        {
            return Ok((frame, place));
        }
        let place = Place {
            segment: first,
            offset: segments::HEADER_END,
        };
        Ok((first, place))
    }

    /// The bytes of the frame of `record`, if they are there and match it.
    ///
    /// # Errors
    /// As [`Records::place`], and errors of the storage.
    pub(crate) fn stored(&mut self, record: &Record) -> Result<Option<Vec<u8>>, LogError> {
        let place = self.place(record)?;
        stored_frame(self.files, self.stream, &self.identity, record, place)
    }

    /// The position behind the frame of `record`, unless its segment is gone.
    ///
    /// # Errors
    /// As [`Records::place`], and errors of the storage.
    pub(crate) fn behind(&mut self, record: &Record) -> Result<Option<Position>, LogError> {
        let place = self.place(record)?;
        Position::behind(self.files, self.stream, self.identity, record, place)
    }

    fn record(&mut self, frame: u64) -> Result<Record, LogError> {
        let index = frame / TILE_WIDTH;
        let place = usize::try_from(frame % TILE_WIDTH).unwrap_or_default();
        let records = match self.bundle.take() {
            Some((known, records)) if known == index => records,
            _ => self.read(index)?,
        };
        let record = records.get(place).copied();
        self.bundle = Some((index, records));
        record.ok_or_else(|| broken(self.stream, index, "ends before its last record"))
    }

    fn read(&self, index: u64) -> Result<Vec<Record>, LogError> {
        let missing = || broken(self.stream, index, "is missing");
        let wanted = Bundle::of_tree(index, self.size).ok_or_else(missing)?;
        for bundle in [wanted, wanted.filled()] {
            let path = format!("streams/{}/{}", self.stream, bundle.path());
            let Some(bytes) = self.files.read(&path, TILE_FILE_BYTES_MAX)? else {
                continue;
            };
            let damaged = |error: DecodeError| broken(self.stream, index, error.reason);
            let leaves = decode_bundle(&bytes, bundle.width()).map_err(damaged)?;
            let version = self.identity.version;
            let width = usize::from(wanted.width());
            let leaves = leaves.into_iter().take(width);
            let records = leaves.map(|leaf| Record::decode(version, leaf));
            let records: Vec<Record> = records.collect::<Result<_, _>>().map_err(damaged)?;
            if let Some(root) = &self.root {
                self.check(index, &records, root)?;
            }
            return Ok(records);
        }
        Err(missing())
    }

    /// Checks that these are the records of bundle `index` in the tree that has `root`.
    fn check(&self, index: u64, records: &[Record], root: &Hash) -> Result<(), LogError> {
        let first = index.saturating_mul(TILE_WIDTH);
        let mut tiles = TileReader::new(self.size, |path: &str| {
            let path = format!("streams/{}/{path}", self.stream);
            unless_strange(self.files.read(&path, TILE_FILE_BYTES_MAX))
        });
        let mut before: Option<&Record> = None;
        for (record, frame) in records.iter().zip(first..) {
            let follows = before.is_none_or(|before| before.next_entry() == record.first_entry);
            let hash = as_stored(tiles.leaf(frame))?;
            if record.frame != frame || !follows || hash != Some(leaf_hash(&record.encode())) {
                let reason = format!("holds another record than the tree in the place of {frame}");
                return Err(broken(self.stream, index, &reason));
            }
            before = Some(record);
        }
        let Some(record) = records.first() else {
            return Ok(());
        };
        // A path contains every other hash of its tile, so one path confirms all of them.
        let path = inclusion_proof(first, self.size, |level, index| tiles.node(level, index));
        let path = match path {
            Err(ProveError::Node(error)) => as_stored(Err(error))?,
            path => path.ok(),
        };
        let leaf = leaf_hash(&record.encode());
        let found = path.map(|path| root_from_inclusion(leaf, first, self.size, &path));
        if found.and_then(Result::ok).as_ref() != Some(root) {
            let reason = "belongs to tiles that are damaged or of another tree";
            return Err(broken(self.stream, index, reason));
        }
        Ok(())
    }
}

/// Returns the content of a tile; nothing where it is missing or damaged.
fn as_stored<T>(read: Result<T, TileReadError<LogError>>) -> Result<Option<T>, LogError> {
    match read {
        Err(TileReadError::Read(error)) => Err(error),
        read => Ok(read.ok()),
    }
}

fn broken(stream: &StreamName, bundle: u64, reason: &str) -> LogError {
    LogError::Broken {
        place: format!("streams/{stream}, bundle {bundle} of records"),
        reason: reason.to_owned(),
    }
}
