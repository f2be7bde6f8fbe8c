//! The position of a scan in the segments of a stream.

use std::collections::BTreeSet;

use probity_format::Version;
use probity_format::frame::FrameHeader;
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;

use super::{read_header, v2};
use crate::error::LogError;
use crate::files::Files;
use crate::segments::{self, Identity};

/// The part of a frame's salt that is its epoch's.
const EPOCH_SALT_BYTES: usize = 16;

/// The position of a scan; everything before is whole.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(crate) identity: Identity,
    /// The number in the segment's name.
    pub(crate) segment: u64,
    /// True when the segment's file exists and is as long as its header.
    pub(crate) begun: bool,
    pub(crate) offset: u64,
    pub(crate) next_frame: u64,
    pub(crate) next_entry: u64,
    pub(crate) last_epoch: u32,
    /// The salt of that epoch, where it is known.
    last_salt: Option<[u8; EPOCH_SALT_BYTES]>,
    /// Names of segments that claim a frame and hold none. The segment before has the frame, or the
    /// frame is due and the name is no file's.
    pub(crate) strange: BTreeSet<u64>,
    /// The first frame and entry of the segment, from its header in version 2.
    pub(super) begin: v2::Begin,
}

impl Position {
    /// Before the first segment of a stream.
    pub(crate) fn start(identity: Identity) -> Self {
        Self {
            identity,
            segment: 0,
            begun: false,
            offset: 0,
            next_frame: 0,
            next_entry: 0,
            last_epoch: 0,
            last_salt: None,
            strange: BTreeSet::new(),
            begin: v2::Begin::default(),
        }
    }

    /// Before frame `frame` at `place`, which begins with entry `entry`.
    pub(crate) fn at(identity: Identity, place: Place, frame: u64, entry: u64) -> Self {
        Self {
            segment: place.segment,
            begun: true,
            offset: place.offset,
            next_frame: frame,
            next_entry: entry,
            ..Self::start(identity)
        }
    }

    /// Behind the frame of `record` at `place`, unless its segment is gone.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn behind(
        files: &Files,
        stream: &StreamName,
        identity: Identity,
        record: &Record,
        place: Place,
    ) -> Result<Option<Self>, LogError> {
        let end = segments::behind(place, record.length);
        let next = record.frame.saturating_add(1);
        let mut position = Self::at(identity, end, next, record.next_entry());
        if identity.version == Version::V2 {
            let begin = v2::begin_of(files, stream, place)?;
            return Ok(begin.map(|begin| {
                position.begin = begin;
                position
            }));
        }
        let name = segments::path(identity.version, stream, place.segment);
        let Some(file) = files.open_read(&name)? else {
            return Ok(None);
        };
        let length = files.attempt("measure", &name, |_| file.length())?;
        let left = length.saturating_sub(place.offset);
        let header = read_header(files, &name, &*file, &identity, place.offset, left)?;
        let header = header.filter(|header| header.frame == record.frame);
        if let Some(header) = header {
            position.enter(&header);
        }
        Ok(Some(position))
    }

    pub(crate) const fn place(&self) -> Place {
        Place {
            segment: self.segment,
            offset: self.offset,
        }
    }

    /// The file of the segment.
    pub(crate) fn path(&self, stream: &StreamName) -> String {
        segments::path(self.identity.version, stream, self.segment)
    }

    /// The file of the segment that begins with `frame`.
    pub(crate) fn path_of(&self, stream: &StreamName, frame: u64) -> String {
        segments::path(self.identity.version, stream, frame)
    }

    /// Moves on behind the frame of `record`.
    pub(crate) fn pass(&mut self, record: &Record, header: &FrameHeader) {
        self.offset = segments::behind(self.place(), record.length).offset;
        self.next_frame = record.frame.saturating_add(1);
        self.next_entry = record.next_entry();
        self.enter(header);
    }

    /// Records the epoch in `header` as that of the previous frame.
    fn enter(&mut self, header: &FrameHeader) {
        self.last_epoch = self.last_epoch.max(header.epoch);
        self.last_salt = header.salt.first_chunk().copied();
    }

    /// Returns whether a frame with `header` may be the next: epochs never go back, and two with
    /// one number are one.
    pub(super) fn precedes(&self, header: &FrameHeader) -> bool {
        let is_same = |salt| header.salt.first_chunk() == Some(&salt);
        self.identity.version == Version::V2
            || header.epoch > self.last_epoch
            || header.epoch == self.last_epoch && self.last_salt.is_none_or(is_same)
    }

    /// Moves on to the segment that begins with the frame that is due.
    pub(super) const fn turn(&mut self, segment: u64) {
        self.segment = segment;
        self.begun = false;
    }
}
