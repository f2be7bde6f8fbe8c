//! The places of a stream's frames: segment file and offset.
//!
//! `docs/format.md`, "Segment". Records hold the length of frames, and names of segments the number
//! of their first frame. Both together give the place of each frame. Records of version 2 hold the
//! place itself.

use std::collections::BTreeSet;

use probity_format::frame::FrameHeader;
use probity_format::geometry::Geometry;
use probity_format::record::Record;
use probity_format::segment::{
    Place, SEGMENT_HEADER_BYTES, segment_file_name, segment_first_frame,
};
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::width::to_u64;
use probity_format::{Version, v2};

use crate::error::LogError;
use crate::files::Files;

/// The identity that the frames and segments of one stream carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    pub(crate) id: StreamId,
    /// The fields of the configuration in headers of version 2.
    sealing: Option<v2::Sealing>,
    pub(crate) fingerprint: [u8; 32],
}

impl Identity {
    /// The identity of the stream `name` with `config` in the log with `geometry`.
    pub(crate) fn new(geometry: &Geometry, name: &StreamName, config: &StreamConfig) -> Self {
        let fingerprint = geometry.fingerprint();
        let id = StreamId::new(&fingerprint, name, config);
        Self::of_stream(geometry.version(), id, config, fingerprint)
    }

    /// The identity of the stream `id` with `config` in a log of `version` with `fingerprint`.
    pub(crate) fn of_stream(
        version: Version,
        id: StreamId,
        config: &StreamConfig,
        fingerprint: [u8; 32],
    ) -> Self {
        let sealing = config.v2.map(|_| v2::Sealing {
            proofs: config.proofs,
            cipher: config.cipher,
        });
        Self {
            version,
            id,
            sealing,
            fingerprint,
        }
    }

    /// Returns whether a frame with `header` belongs to the stream.
    pub(crate) fn owns(&self, header: &FrameHeader) -> bool {
        header.stream == self.id && header.v2 == self.sealing
    }

    /// The identity of the journal.
    pub(crate) fn journal(geometry: &Geometry) -> Self {
        Self::built_in(geometry, &StreamName::journal())
    }

    /// The identity of the built-in stream `name`.
    pub(crate) fn built_in(geometry: &Geometry, name: &StreamName) -> Self {
        let config = StreamConfig::journal(geometry.version());
        Self::new(geometry, name, &config)
    }
}

/// [`SEGMENT_HEADER_BYTES`] as an offset.
pub(crate) const HEADER_END: u64 = to_u64(SEGMENT_HEADER_BYTES);

/// The file of segment `segment` of stream `name`.
pub(crate) fn path(version: Version, name: &StreamName, segment: u64) -> String {
    let file = match version {
        Version::V2 => v2::segment_file_name(segment),
        _ => segment_file_name(segment),
    };
    format!("streams/{name}/{file}")
}

/// The folder of the segments of stream `name`.
pub(crate) fn folder(name: &StreamName) -> String {
    format!("streams/{name}/segments")
}

/// The frames with which segments begin; empty in version 2, whose records hold the places of
/// frames.
pub(crate) type Cuts = BTreeSet<u64>;

/// The frames with which the segments begin that stream `name` has now.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn cuts(files: &Files, name: &StreamName, version: Version) -> Result<Cuts, LogError> {
    if version == Version::V2 {
        return Ok(Cuts::new());
    }
    let found = files.list(&folder(name))?;
    Ok(cuts_among(&found))
}

/// The frames with which the segments among these files begin.
pub(crate) fn cuts_among(files: &[String]) -> Cuts {
    files
        .iter()
        .filter_map(|file| segment_first_frame(file))
        .collect()
}

/// The place of frame `frame` if a segment begins with it; the first segment does, there or not.
pub(crate) fn begins(cuts: &Cuts, frame: u64) -> Option<Place> {
    (frame == 0 || cuts.contains(&frame)).then_some(Place {
        segment: frame,
        offset: HEADER_END,
    })
}

/// The place behind a frame of `length` bytes at `place`, in the same segment.
pub(crate) const fn behind(place: Place, length: u32) -> Place {
    #[expect(clippy::as_conversions, reason = "32 bits are no more than 64")]
    let length = length as u64;
    Place {
        segment: place.segment,
        offset: place.offset.saturating_add(length),
    }
}

/// Follows the records of a stream in order, and computes the places of their frames.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) cuts: Cuts,
    /// The place of the next frame, if no segment begins with it; nothing behind an unknown record.
    next: Option<Place>,
}

impl Walk {
    pub(crate) const fn new(cuts: Cuts) -> Self {
        Self { cuts, next: None }
    }

    /// The place of frame `frame`, which is the next.
    pub(crate) fn due(&self, frame: u64) -> Option<Place> {
        begins(&self.cuts, frame).or(self.next)
    }

    /// Moves on behind frame `frame`. Returns its place, if that is known.
    pub(crate) fn pass(&mut self, frame: u64, record: Option<&Record>) -> Option<Place> {
        let said = record.and_then(Record::place);
        let place = said.or_else(|| self.due(frame));
        let length = record.map(|record| record.length);
        self.next = place
            .zip(length)
            .map(|(place, length)| behind(place, length));
        place
    }

    /// Sets `place` as the place of the next frame.
    pub(crate) const fn found(&mut self, place: Place) {
        self.next = Some(place);
    }
}
