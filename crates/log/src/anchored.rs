//! The heads that the stream `heads` anchored last. An opening must find them again, whatever
//! happened to checkpoints and their copies.
//!
//! The stream is read backwards, from its newest signed head to the last frame that names all
//! streams, and then on behind the signed head. Only frames that a holder of the log's keys sealed
//! count. Behind the signed head they must also say what the log would say there, because the
//! opening is about to sign for them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use probity_format::DecodeError;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::Decompressor;
use probity_format::frame::Frame;
use probity_format::geometry::Geometry;
use probity_format::keys::MasterKey;
use probity_format::record::Record;
use probity_format::stream::StreamName;
use probity_format::tree::{Frontier, leaf_hash};

use crate::epochs::{Certificates, Epochs, Floor};
use crate::error::LogError;
use crate::files::Files;
use crate::heads::Heads;
use crate::heads_entry::HeadsEntry;
use crate::history::read_checkpoint;
use crate::journal::History;
use crate::records::Records;
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::scan::{Position, scan_believed};
use crate::segments::Identity;
use crate::uncovered::{Covering, Uncovered};

/// The last anchored head of each stream, by the origin of its checkpoints.
pub(crate) type Anchored = BTreeMap<String, Checkpoint>;

/// The content of the stream `heads`.
pub(crate) struct AnchoredHeads {
    /// The last head of each stream.
    pub(crate) heads: Anchored,
    /// The floor of each stream: its head and the opening that anchored it. A stream without a head
    /// has the last opening that anchored all streams.
    pub(crate) floors: BTreeMap<String, Floor>,
    /// The heads of each stream that frames name behind every head of `heads` that a key of the
    /// journal signed.
    pub(crate) uncovered: BTreeMap<String, Vec<Uncovered>>,
    /// Frames of the stream that were read before the first that is damaged.
    pub(crate) read: u64,
    /// The first frame behind the signed head that the log would not have written there: nobody may
    /// sign for it.
    pub(crate) end: Option<u64>,
}

/// Reads the heads that were anchored last.
///
/// A damaged frame is skipped and noted: `verify` reports its fault.
///
/// # Errors
/// [`LogError::Broken`] where the stream is not the one that was signed; errors of the storage.
pub(crate) fn read_anchored(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    history: &History,
    (master, certificates): (&MasterKey, &dyn Certificates),
    repairs: &mut RecoveryReport,
) -> Result<AnchoredHeads, LogError> {
    let name = StreamName::heads();
    let identity = Identity::built_in(geometry, &name);
    let head = signed_head(files, heads, geometry, history)?;
    let bound = history.bound_heads().map_or(0, |bound| bound.size);
    let mut reading = Reading {
        files,
        name: &name,
        identity,
        epochs: Epochs::new(master, certificates, &name, identity.id),
        decompressor: Decompressor::default(),
        found: Anchored::new(),
        floors: BTreeMap::new(),
        all: None,
        damaged: None,
        settled: head.as_ref().map_or(0, Checkpoint::size).max(bound),
        uncovered: BTreeMap::new(),
        geometry,
        others: others(geometry, history),
        end: None,
    };
    let position = match &head {
        Some(head) => reading.read_back(head, repairs)?,
        None => None,
    };
    let read = if let Some(position) = position {
        let whole = reading.read_forward(position, None)?;
        reading.damaged.unwrap_or(whole)
    } else {
        reading.found.clear();
        reading.floors.clear();
        reading.all = None;
        reading.read_forward(Position::start(identity), head.as_ref())?
    };
    let mut anchored = reading.anchored(read);
    if !anchored.uncovered.is_empty() {
        let covering = Covering::of(files, heads, geometry, history)?;
        let named = anchored.uncovered.values_mut().flatten();
        named.for_each(|named| named.covering = covering);
    }
    Ok(anchored)
}

/// The head of the stream `heads` itself that the last certificate binds, if there is one.
///
/// # Errors
/// [`LogError::Broken`] where it is no head.
pub(crate) fn bound_heads(
    geometry: &Geometry,
    history: &History,
) -> Result<Option<Checkpoint>, LogError> {
    let Some(bound) = history.bound_heads() else {
        return Ok(None);
    };
    let origin = geometry.stream_origin(StreamName::HEADS);
    let head = Checkpoint::new(&origin, bound.size, bound.root);
    head.map(Some).map_err(|error| LogError::Broken {
        place: "key certificate".into(),
        reason: error.to_string(),
    })
}

/// The origins of the streams whose heads the stream `heads` names: all but its own.
fn others(geometry: &Geometry, history: &History) -> BTreeSet<String> {
    let names = history.streams.iter().map(|(name, _)| name.as_str());
    let others = names.filter(|name| *name != StreamName::HEADS);
    others.map(|name| geometry.stream_origin(name)).collect()
}

/// The newest head of the stream that a key of the log signed: its checkpoint, or the second copy.
fn signed_head(
    files: &Files,
    heads: &Heads,
    geometry: &Geometry,
    history: &History,
) -> Result<Option<Checkpoint>, LogError> {
    let name = StreamName::heads();
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

struct Reading<'a> {
    files: &'a Files,
    name: &'a StreamName,
    identity: Identity,
    epochs: Epochs<'a>,
    decompressor: Decompressor,
    found: Anchored,
    floors: BTreeMap<String, Floor>,
    /// The epoch of the newest frame that names all streams.
    all: Option<u32>,
    /// The first of the frames that were passed over.
    damaged: Option<u64>,
    /// Frames that somebody signed for: in a head of the stream, or in the last certificate.
    settled: u64,
    /// The heads in the other frames.
    uncovered: BTreeMap<String, Vec<Uncovered>>,
    geometry: &'a Geometry,
    /// The origins of the streams that a frame may name.
    others: BTreeSet<String>,
    /// The first of the other frames that does not follow those before it.
    end: Option<u64>,
}

impl Reading<'_> {
    /// The result, after `read` frames of the stream were read.
    fn anchored(self, read: u64) -> AnchoredHeads {
        let mut floors = self.floors;
        if let Some(epoch) = self.all {
            for origin in self.others {
                floors.entry(origin).or_insert(Floor { size: 0, epoch });
            }
        }
        AnchoredHeads {
            heads: self.found,
            floors,
            uncovered: self.uncovered,
            read,
            end: self.end,
        }
    }

    /// Reads frames from the last one that `head` covers back to one that names all streams.
    /// Returns the position behind the last. Returns nothing where a record on the way is not the
    /// signed one, or the last segment is gone.
    fn read_back(
        &mut self,
        head: &Checkpoint,
        repairs: &mut RecoveryReport,
    ) -> Result<Option<Position>, LogError> {
        let size = head.size();
        let name = self.name;
        let mut records = Records::of_tree(self.files, name, self.identity, size, *head.root());
        let mut last = None;
        for frame in (0..size).rev() {
            let record = match records.of_frame(frame) {
                Ok(Some(record)) => record,
                Ok(None) | Err(LogError::Broken { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            last = last.or(Some(record));
            match self.read_one(&mut records, &record)? {
                Some(true) => break,
                Some(false) => {}
                None => {
                    self.damaged = Some(frame);
                    let range = frame..frame.saturating_add(1);
                    repairs.note(Repair::new(RepairKind::Heads, name, range));
                }
            }
        }
        match last.map(|last| records.behind(&last)) {
            None | Some(Err(LogError::Broken { .. })) => Ok(None),
            Some(behind) => behind,
        }
    }

    /// Adds the heads that a frame anchors, except for streams that a later frame anchored. Returns
    /// whether it names all streams; nothing where it is damaged.
    fn read_one(
        &mut self,
        records: &mut Records<'_>,
        record: &Record,
    ) -> Result<Option<bool>, LogError> {
        let stored = match records.stored(record) {
            Err(LogError::Broken { .. }) => None,
            stored => stored?,
        };
        let Some(bytes) = stored else {
            return Ok(None);
        };
        let frame = Frame::parse(&bytes).ok();
        let Some(frame) = frame.filter(|frame| self.epochs.authenticate(frame)) else {
            return Ok(None);
        };
        let Ok(Named { is_all, heads, .. }) = named_by(&frame, &mut self.decompressor) else {
            return Ok(None);
        };
        let epoch = frame.clear.header.epoch;
        if is_all {
            self.all = Some(epoch);
        }
        for head in heads.into_iter().rev() {
            let (origin, size) = (head.origin().to_owned(), head.size());
            let floor = Floor { size, epoch };
            self.floors.entry(origin.clone()).or_insert(floor);
            self.found.entry(origin).or_insert(head);
        }
        Ok(Some(is_all))
    }

    /// Reads on from `position` to the end and returns the number of frames. The tree must have the
    /// root that was `signed`, if one is given. A frame that nobody signed for ends the stream where
    /// it does not follow: the log's keys sealed it, and another hand used them.
    fn read_forward(
        &mut self,
        mut position: Position,
        signed: Option<&Checkpoint>,
    ) -> Result<u64, LogError> {
        let Self {
            files,
            name,
            epochs,
            decompressor,
            found,
            floors,
            all,
            settled,
            uncovered,
            geometry,
            others,
            end,
            ..
        } = self;
        let mut tree = Frontier::new();
        let mut is_signed = signed.is_none();
        let refused = Cell::new(None);
        let mut believe =
            |_: &Record, frame: &Frame<'_>| refused.get().is_none() && epochs.authenticate(frame);
        let mut take = |record: &Record, frame: &Frame<'_>| {
            let named = named_by(frame, decompressor);
            let is_open = record.frame >= *settled;
            if is_open
                && !named
                    .as_ref()
                    .is_ok_and(|it| it.follows(found, (geometry, others)))
            {
                refused.set(Some(record.frame));
                return Ok(());
            }
            let Named { is_all, heads, .. } = named.map_err(|error| broken(&error))?;
            let epoch = frame.clear.header.epoch;
            if is_all {
                *all = Some(epoch);
            }
            for head in heads {
                let (origin, size) = (head.origin().to_owned(), head.size());
                floors.insert(origin.clone(), Floor { size, epoch });
                let is_repeated =
                    found.insert(origin.clone(), head.clone()).as_ref() == Some(&head);
                if is_open && !is_repeated {
                    let said_in = format!("heads frame {}", record.frame);
                    let of_stream = uncovered.entry(origin).or_default();
                    of_stream.push(Uncovered::new(head, said_in));
                }
            }
            tree.push(leaf_hash(&record.encode()));
            is_signed |= signed
                .is_some_and(|head| tree.size() == head.size() && tree.root() == *head.root());
            Ok::<(), LogError>(())
        };
        let _end = scan_believed(files, name, &mut position, &mut believe, &mut take)?;
        *end = refused.get();
        if is_signed {
            return Ok(end.unwrap_or(position.next_frame));
        }
        let read = position.next_frame;
        let signed = signed.map_or(0, Checkpoint::size);
        Err(LogError::Broken {
            place: format!("segments of stream {name}"),
            reason: if read < signed {
                format!("frame {read} is damaged or missing, {signed} were signed for")
            } else {
                "are not those that were signed for, nor are the records".into()
            },
        })
    }
}

/// The content of a frame.
struct Named {
    /// True when it names the heads of all streams.
    is_all: bool,
    heads: Vec<Checkpoint>,
    /// Streams with an index, and the last frame that it is over.
    indexed: Vec<(StreamName, u64)>,
}

impl Named {
    /// Returns whether the log would write it behind frames that anchor the heads `found` last, of
    /// the streams `others`. It names no other stream, no head that is smaller than before, and no
    /// other of the same size; where it names all, it leaves none of them out. An index is over frames
    /// that a head covers.
    fn follows(
        &self,
        found: &Anchored,
        (geometry, others): (&Geometry, &BTreeSet<String>),
    ) -> bool {
        let mut now: BTreeMap<&str, &Checkpoint> = BTreeMap::new();
        for head in &self.heads {
            let origin = head.origin();
            let before = now.insert(origin, head).or_else(|| found.get(origin));
            let is_next = |before: &Checkpoint| {
                before.size() < head.size()
                    || before.size() == head.size() && before.root() == head.root()
            };
            if !others.contains(origin) || !before.is_none_or(is_next) {
                return false;
            }
        }
        let is_covered = |(stream, last): &(StreamName, u64)| {
            let origin = geometry.stream_origin(stream.as_str());
            let head = now.get(origin.as_str()).copied();
            let head = head.or_else(|| found.get(&origin));
            head.is_some_and(|head| *last < head.size())
        };
        self.indexed.iter().all(is_covered)
            && (!self.is_all || found.keys().all(|origin| now.contains_key(origin.as_str())))
    }
}

/// The content of `frame`.
fn named_by(frame: &Frame<'_>, decompressor: &mut Decompressor) -> Result<Named, DecodeError> {
    let body = frame.open(0, None, decompressor)?;
    let columns = body.columns()?;
    let mut named = Named {
        is_all: false,
        heads: Vec::new(),
        indexed: Vec::new(),
    };
    for index in 0..columns.len() {
        match HeadsEntry::read(&columns.entry(index)?)? {
            HeadsEntry::Heads { is_all, heads } => {
                named.is_all |= is_all;
                named.heads.extend(heads);
            }
            HeadsEntry::IndexRoot { stream, last } => named.indexed.push((stream, last)),
        }
    }
    Ok(named)
}

fn broken(error: &DecodeError) -> LogError {
    LogError::Broken {
        place: "stream heads".into(),
        reason: error.to_string(),
    }
}
