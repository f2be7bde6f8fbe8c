//! The heads that the journal anchored last: what an opening must find again, whatever became of checkpoints and their copies.
//!
//! The journal is read backwards, from its newest signed head to the last frame that certified a signing key: that frame repeats
//! every head anchored before it. Only frames that the signed head covers count.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::DecodeError;
use probity_format::certificate::Certificate;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::MasterKey;
use probity_format::limits::TILE_WIDTH;
use probity_format::note::SignedNote;
use probity_format::proof::{ProveError, inclusion_proof, root_from_inclusion};
use probity_format::record::Record;
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::tile::{TileReadError, TileReader};
use probity_format::tree::{Frontier, leaf_hash};

use crate::epochs::Epochs;
use crate::error::LogError;
use crate::files::{Files, TILE_FILE_BYTES_MAX};
use crate::heads::Heads;
use crate::history::read_checkpoint;
use crate::journal::{History, action, heads_of};
use crate::records::Records;
use crate::repairs::Repairs;
use crate::scan::{Position, scan_believed, stored_frame};

/// The last anchored head of each stream, by the origin of its checkpoints.
pub(crate) type Anchored = BTreeMap<String, Checkpoint>;

/// The heads that are anchored in a journal.
#[derive(Default)]
pub(crate) struct Found {
    /// Those in frames that the journal's signed head covers: what must be there.
    pub(crate) signed: Anchored,
    /// Those in all frames: what a later head must not be smaller than.
    pub(crate) all: Anchored,
}

/// Reads the heads that the journal anchored last.
///
/// A damaged frame is passed over and noted: `verify` says what is wrong with it.
///
/// # Errors
/// [`LogError::Broken`] where the journal is not the one that was signed; those of the storage.
pub(crate) fn read_anchored(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    history: &History,
    master: &MasterKey,
    repairs: &mut Repairs,
) -> Result<Found, LogError> {
    let Some(head) = signed_head(files, heads, geometry, history)? else {
        return Ok(Found::default());
    };
    let name = StreamName::journal();
    let id = StreamId::new(&geometry.fingerprint(), &name, &StreamConfig::JOURNAL);
    let mut journal = Journal {
        files,
        name,
        id,
        epochs: Epochs::new(master, id),
        head: &head,
        decompressor: Decompressor::default(),
        found: Anchored::new(),
    };
    if let Some(last) = journal.read_back(repairs)? {
        let signed = journal.found.clone();
        if let Some(position) = Position::behind(files, &journal.name, &last)? {
            journal.read_behind(position)?;
        }
        return Ok(Found {
            signed,
            all: journal.found,
        });
    }
    journal.found.clear();
    journal.read_forward(geometry)
}

/// The newest head of the journal that a key of the log signed: its checkpoint, or the second copy.
fn signed_head(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    history: &History,
) -> Result<Option<Checkpoint>, LogError> {
    let name = StreamName::journal();
    let origin = geometry.stream_origin(name.as_str());
    let published = match read_checkpoint(files, &name) {
        Err(LogError::Broken { .. }) => None,
        note => note?,
    };
    let published = published.map(String::into_bytes);
    let notes = [published, heads.load(&name)?];
    let opened = notes.into_iter().flatten();
    let opened = opened.filter_map(|note| history.open(&note, &origin).ok());
    Ok(opened
        .map(|(_, head)| head)
        .max_by_key(Checkpoint::size)
        .filter(|head| head.size() > 0))
}

struct Journal<'a> {
    files: &'a Files,
    name: StreamName,
    id: StreamId,
    epochs: Epochs<'a>,
    head: &'a Checkpoint,
    decompressor: Decompressor,
    found: Anchored,
}

impl Journal<'_> {
    /// Reads frames from the last one back, and gives the record of the last; nothing where a record on the way is not the one
    /// that was signed.
    fn read_back(&mut self, repairs: &mut Repairs) -> Result<Option<Record>, LogError> {
        let size = self.head.size();
        let (files, folder) = (self.files, format!("streams/{}", self.name));
        let mut tiles = TileReader::new(size, |path: &str| {
            files.read(&format!("{folder}/{path}"), TILE_FILE_BYTES_MAX)
        });
        let name = self.name.clone();
        let mut records = Records::new(files, &name, size);
        let mut known = BTreeSet::new();
        let (mut until, mut last) = (0, None);
        for frame in (0..size).rev() {
            if frame < until {
                break;
            }
            let record = match records.of_frame(frame) {
                Ok(Some(record)) => record,
                Ok(None) | Err(LogError::Broken { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            let leaf = leaf_hash(&record.encode());
            if there(tiles.leaf(frame))? != Some(leaf) {
                return Ok(None);
            }
            // A path takes in every other hash of its tile, so that one of them vouches for all.
            if known.insert(frame / TILE_WIDTH) {
                let path = inclusion_proof(frame, size, |level, index| tiles.node(level, index));
                let path = match path {
                    Err(ProveError::Node(error)) => there(Err(error))?,
                    path => path.ok(),
                };
                let root = path.map(|path| root_from_inclusion(leaf, frame, size, &path));
                if root.and_then(Result::ok).as_ref() != Some(self.head.root()) {
                    return Ok(None);
                }
            }
            last = last.or(Some(record));
            match self.read_one(&record)? {
                Some(from) => until = until.max(from),
                None => repairs.note(format!(
                    "stream {name}: frame {frame} is damaged, and which heads it anchored is unknown"
                )),
            }
        }
        Ok(last)
    }

    /// Takes up what frames behind the signed head anchor.
    fn read_behind(&mut self, mut position: Position) -> Result<(), LogError> {
        let Self {
            files,
            name,
            epochs,
            decompressor,
            found,
            ..
        } = self;
        let mut believe = |_: &Record, frame: &Frame<'_>| epochs.authenticate(frame);
        let mut take = |_: &Record, frame: &Frame<'_>| {
            let told = told_by(frame, decompressor).map_err(|error| broken(&error))?;
            told.into(found);
            Ok::<(), LogError>(())
        };
        let _end = scan_believed(files, name, &mut position, &mut believe, &mut take)?;
        Ok(())
    }

    /// Takes up what a frame anchors, unless a later one did for the same stream. Gives the frame before which nothing is
    /// left to learn; nothing where it is damaged.
    fn read_one(&mut self, record: &Record) -> Result<Option<u64>, LogError> {
        let Some(bytes) = stored_frame(self.files, &self.name, record)? else {
            return Ok(None);
        };
        let frame = Frame::parse(&bytes).ok();
        let Some(frame) = frame.filter(|frame| self.epochs.authenticate(frame)) else {
            return Ok(None);
        };
        let Ok(told) = told_by(&frame, &mut self.decompressor) else {
            return Ok(None);
        };
        let repeats_all = told.certified.filter(|_| !told.heads.is_empty());
        for head in told.heads.into_iter().rev() {
            self.found.entry(head.origin().to_owned()).or_insert(head);
        }
        Ok(Some(repeats_all.unwrap_or_default()))
    }

    /// Reads the whole journal, which must have the root that was signed.
    fn read_forward(mut self, geometry: &Geometry) -> Result<Found, LogError> {
        let mut position = Position::start(geometry.version(), self.id, geometry.fingerprint());
        let mut tree = Frontier::new();
        let mut signed = None;
        let (size, root) = (self.head.size(), *self.head.root());
        let Self {
            files,
            name,
            epochs,
            decompressor,
            found,
            ..
        } = &mut self;
        let mut believe = |_: &Record, frame: &Frame<'_>| epochs.authenticate(frame);
        let mut take = |record: &Record, frame: &Frame<'_>| {
            let told = told_by(frame, decompressor).map_err(|error| broken(&error))?;
            told.into(found);
            tree.push(leaf_hash(&record.encode()));
            if tree.size() == size && tree.root() == root {
                signed = Some(found.clone());
            }
            Ok::<(), LogError>(())
        };
        let _end = scan_believed(files, name, &mut position, &mut believe, &mut take)?;
        let signed = signed.ok_or_else(|| LogError::Broken {
            place: "the journal".into(),
            reason: "is not the one that was signed, neither its records nor its segments".into(),
        })?;
        Ok(Found {
            signed,
            all: self.found,
        })
    }
}

/// What a tile says; nothing where it is missing or damaged.
fn there<T>(read: Result<T, TileReadError<LogError>>) -> Result<Option<T>, LogError> {
    match read {
        Err(TileReadError::Read(error)) => Err(error),
        read => Ok(read.ok()),
    }
}

/// What a frame of the journal says of heads.
#[derive(Default)]
struct Told {
    heads: Vec<Checkpoint>,
    /// The frame from which on heads were repeated before a key was certified.
    certified: Option<u64>,
}

impl Told {
    /// Takes the heads up in `found`, in the place of those of earlier frames.
    fn into(self, found: &mut Anchored) {
        for head in self.heads {
            found.insert(head.origin().to_owned(), head);
        }
    }
}

fn told_by(frame: &Frame<'_>, decompressor: &mut Decompressor) -> Result<Told, DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = body.columns()?;
    let mut told = Told::default();
    for index in 0..columns.len() {
        let entry = columns.entry(index)?;
        match entry.action {
            action::HEADS => told.heads.extend(heads_of(&entry)?),
            // Signed over the journal as it was before what is repeated.
            action::KEY_CERTIFY => {
                let note = SignedNote::parse(entry.payload).ok();
                let certificate = note.and_then(|note| Certificate::parse(note.text()).ok());
                told.certified = certificate.map(|it| it.size());
            }
            _ => {}
        }
    }
    Ok(told)
}

fn broken(error: &DecodeError) -> LogError {
    LogError::Broken {
        place: "the journal".into(),
        reason: error.to_string(),
    }
}
