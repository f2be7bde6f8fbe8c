//! An attacker with the root key and earlier signing keys of `keys/`: seals, rebuilds and signs as
//! the log does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use probity_format::DecodeError;
use probity_format::certificate::Certificate;
use probity_format::checkpoint::Checkpoint;
use probity_format::compress::{Compression, Decompressor};
use probity_format::frame::{FRAME_TRAILER_BYTES, Frame, FrameHeader};
use probity_format::geometry::Geometry;
use probity_format::keys::{EpochKey, EpochSalt, MasterKey, Secret};
use probity_format::note::{SignedNote, SigningKey};
use probity_format::row::{encode_row, row_bytes};
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys, SubjectSection};
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES, segment_file_name, segment_header};
use probity_format::stream::{Cipher, StreamId, StreamName};
use probity_format::tile::TreeWriter;
use probity_format::wrap::{WrappedKind, WrappingKey};

use crate::world::{ORIGIN, Scene, config, options, root};

/// The seed of the signing key that is in `keys/` now.
pub(crate) fn seed(log: &Path) -> [u8; 32] {
    *unwrapped(log, "signing", WrappedKind::Signing).expose()
}

fn unwrapped(log: &Path, name: &str, kind: WrappedKind) -> Secret {
    let wrapped = fs::read(log.join(format!("keys/{name}.key"))).unwrap();
    wrapping(log)
        .unwrap(kind, name.as_bytes(), &wrapped)
        .unwrap()
}

fn wrapping(log: &Path) -> WrappingKey {
    root().wrapping_key(&geometry(log).fingerprint())
}

fn geometry(log: &Path) -> Geometry {
    Geometry::parse(&fs::read_to_string(log.join("probity.toml")).unwrap()).unwrap()
}

/// Signs for `origin` with the key of a seed.
pub(crate) fn signer(origin: &str, seed: &[u8; 32]) -> SigningKey {
    SigningKey::from_seed(origin, seed).unwrap()
}

pub(crate) fn stream_origin(stream: &str) -> String {
    format!("{ORIGIN}/streams/{stream}")
}

/// The frames of a stream as they are stored.
fn frames(scene: &Scene<'_>, stream: &str) -> Vec<Vec<u8>> {
    let records = &scene.world.records[stream];
    let mut frames = Vec::with_capacity(records.len());
    let mut segment = (u64::MAX, Vec::new());
    for record in records {
        if segment.0 != record.segment {
            let name = segment_file_name(record.segment);
            let bytes = scene.read(&format!("log/streams/{stream}/{name}"));
            segment = (record.segment, bytes);
        }
        frames.push(segment.1[record.offset as usize..record.end() as usize].to_vec());
    }
    frames
}

/// The keys that the journal certifies, by frame.
fn certified(scene: &Scene<'_>) -> BTreeMap<u32, [u8; 32]> {
    let mut keys = BTreeMap::new();
    for (number, frame) in (0..).zip(frames(scene, "journal")) {
        let frame = Frame::parse(&frame).unwrap();
        let body = frame.open(0, None, &mut Decompressor::default()).unwrap();
        let columns = body.columns().unwrap();
        for entry in (0..columns.len()).map(|place| columns.entry(place).unwrap()) {
            if entry.action == "key.certify" {
                let note = SignedNote::parse(entry.payload).unwrap();
                let certificate = Certificate::parse(note.text()).unwrap();
                keys.insert(number, *certificate.successor().key());
            }
        }
    }
    keys
}

/// A stream in the hands of the thief: its frames, to be changed and written back.
pub(crate) struct Stolen {
    pub(crate) stream: String,
    pub(crate) frames: Vec<Vec<u8>>,
    master: MasterKey,
    id: StreamId,
    /// The keys that the journal certifies, by frame.
    certified: BTreeMap<u32, [u8; 32]>,
}

impl Stolen {
    pub(crate) fn new(scene: &Scene<'_>, stream: &str) -> Self {
        let log = scene.log();
        let fingerprint = geometry(&log).fingerprint();
        let name = StreamName::new(stream).unwrap();
        Self {
            id: StreamId::new(&fingerprint, &name, &config(stream)),
            master: MasterKey::new(unwrapped(&log, "master", WrappedKind::Master)),
            stream: stream.to_owned(),
            frames: frames(scene, stream),
            certified: certified(scene),
        }
    }

    /// The frame of the journal that certifies the newest key.
    pub(crate) fn newest(&self) -> u32 {
        *self.certified.last_key_value().unwrap().0
    }

    fn epoch(&self, header: &FrameHeader) -> EpochKey {
        let salt = EpochSalt::of_frame(header.version(), &header.salt);
        let epoch = self.master.epoch_key(&self.id, header.epoch, &salt);
        epoch.certified_by(&self.certified[&header.epoch])
    }

    /// The entries of frame `number`, as rows.
    pub(crate) fn rows(&self, number: usize) -> Vec<Vec<u8>> {
        let frame = Frame::parse(&self.frames[number]).unwrap();
        let header = frame.clear.header;
        let key = self
            .epoch(&header)
            .section_key(&header.salt, header.frame, 0);
        let key = (config(&self.stream).cipher == Cipher::Aes256Gcm).then_some(key);
        let body = frame
            .open(0, key.as_ref(), &mut Decompressor::default())
            .unwrap();
        let columns = body.columns().unwrap();
        let row = |index| {
            let entry = columns.entry(index).unwrap();
            let mut row = vec![0; row_bytes(&entry)];
            encode_row(&entry, &mut row);
            row
        };
        (0..columns.len()).map(row).collect()
    }

    /// Frame `number` with other entries, and every later one moved along with them.
    pub(crate) fn reseal(&mut self, number: usize, rows: &[Vec<u8>]) {
        let mut next = Frame::parse(&self.frames[number])
            .unwrap()
            .clear
            .header
            .first_entry;
        for at in number..self.frames.len() {
            let header = Frame::parse(&self.frames[at]).unwrap().clear.header;
            let moved = at > number && header.first_entry != next;
            if at == number || moved {
                let rows = if at == number {
                    rows.to_vec()
                } else {
                    self.rows(at)
                };
                self.frames[at] = self.sealed(&header, header.frame, next, &rows);
            }
            let header = Frame::parse(&self.frames[at]).unwrap().clear.header;
            next = header.first_entry + u64::from(header.entries);
        }
    }

    /// Appends a frame with these entries.
    pub(crate) fn push(&mut self, rows: &[Vec<u8>]) {
        self.push_in_epoch_of(self.frames.len() - 1, rows);
    }

    /// Appends a frame with these entries, sealed in the epoch of frame `like`.
    pub(crate) fn push_in_epoch_of(&mut self, like: usize, rows: &[Vec<u8>]) {
        let header = |frame: &Vec<u8>| Frame::parse(frame).unwrap().clear.header;
        let last = header(self.frames.last().unwrap());
        let next = last.first_entry + u64::from(last.entries);
        let frame = self.sealed(&header(&self.frames[like]), last.frame + 1, next, rows);
        self.frames.push(frame);
    }

    /// A frame sealed as the log would, in the epoch of `like`.
    fn sealed(
        &self,
        like: &FrameHeader,
        frame: u64,
        first_entry: u64,
        rows: &[Vec<u8>],
    ) -> Vec<u8> {
        let place = FramePlace {
            stream: self.id,
            frame,
            first_entry,
            seed: 1,
            fresh: *b"the thief has 16",
        };
        let mut out = Vec::new();
        let record = FrameSealer::new(config(&self.stream), Compression::DEFAULT)
            .unwrap()
            .seal(
                &place,
                &self.epoch(like),
                &[&rows.concat()],
                &mut Nobody,
                &mut out,
            )
            .unwrap();
        out.truncate(record.length as usize);
        out
    }

    /// Changes the bytes of a frame in clear, and sets its root to match.
    pub(crate) fn bend(&mut self, number: usize, change: impl FnOnce(&mut Vec<u8>)) {
        let frame = &mut self.frames[number];
        change(frame);
        let root = Frame::parse(frame).unwrap().sealed_root();
        let content = frame.len() - FRAME_TRAILER_BYTES;
        frame[content..].copy_from_slice(root.as_bytes());
    }

    /// Writes the frames back with segments, tiles and bundles to match; with `seed`, the
    /// checkpoint too.
    pub(crate) fn write(&self, scene: &mut Scene<'_>, seed: Option<&[u8; 32]>) {
        let folder = format!("log/streams/{}", self.stream);
        scene.remove(&format!("{folder}/segments"));
        scene.remove(&format!("{folder}/tile"));
        let mut tree = TreeWriter::new();
        let mut segment = Segment::new(self, 0);
        for (number, frame) in self.frames.iter().enumerate() {
            if segment.is_full(frame) {
                segment.close(scene);
                segment = Segment::new(self, number as u64);
            }
            let parsed = Frame::parse(frame).unwrap();
            let record = parsed.record(Place::default());
            tree.append(&record.encode()).unwrap();
            segment.bytes.extend_from_slice(frame);
        }
        segment.close(scene);
        for file in tree.take_files().write {
            scene.write(&format!("{folder}/{}", file.path), &file.bytes);
        }
        if let Some(seed) = seed {
            let origin = stream_origin(&self.stream);
            let head = Checkpoint::new(&origin, tree.size(), tree.root()).unwrap();
            let note = head.sign(&[&signer(&origin, seed)]).unwrap();
            scene.write(&format!("{folder}/checkpoint"), note.as_bytes());
        }
    }
}

/// The segment that is being written.
struct Segment {
    name: String,
    bytes: Vec<u8>,
}

impl Segment {
    fn new(stolen: &Stolen, first_frame: u64) -> Self {
        let name = segment_file_name(first_frame);
        Self {
            name: format!("log/streams/{}/{name}", stolen.stream),
            bytes: segment_header(&stolen.id).to_vec(),
        }
    }

    fn is_full(&self, frame: &[u8]) -> bool {
        let empty = self.bytes.len() == SEGMENT_HEADER_BYTES;
        !empty && (self.bytes.len() + frame.len()) as u64 > options().segment_bytes_max
    }

    fn close(&self, scene: &mut Scene<'_>) {
        scene.write(&self.name, &self.bytes);
    }
}

/// No subjects: the thief re-seals streams without sections of subjects.
struct Nobody;

impl SubjectKeys for Nobody {
    fn section_key(
        &mut self,
        _subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        Err(DecodeError::new(
            "subjects",
            0,
            "are not in the thief's reach",
        ))
    }
}
