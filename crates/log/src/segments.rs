//! Where the frames of a stream stand: in which segment file, and at which offset.
//!
//! `docs/format.md`, "Segment". Records say how long frames are, names of segments which frame is their first; both together say where
//! each stands. Records of version 2 say it themselves.

use std::collections::BTreeSet;

use probity_format::frame::FrameHeader;
use probity_format::geometry::Geometry;
use probity_format::record::Record;
use probity_format::segment::{
    Place, SEGMENT_HEADER_BYTES, segment_file_name, segment_first_frame,
};
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::{Version, v2};

use crate::error::LogError;
use crate::files::Files;

/// What the frames and segments of one stream are bound to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    pub(crate) id: StreamId,
    /// What headers of version 2 say of the configuration.
    sealing: Option<v2::Sealing>,
    pub(crate) fingerprint: [u8; 32],
}

impl Identity {
    /// Of the stream `name` with `config` in the log with `geometry`.
    pub(crate) fn new(geometry: &Geometry, name: &StreamName, config: &StreamConfig) -> Self {
        let fingerprint = geometry.fingerprint();
        let id = StreamId::new(&fingerprint, name, config);
        Self::of_stream(geometry.version(), id, config, fingerprint)
    }

    /// Of the stream `id` with `config` in a log of `version` with `fingerprint`.
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

    /// Whether a frame with `header` belongs to the stream.
    pub(crate) fn owns(&self, header: &FrameHeader) -> bool {
        header.stream == self.id && header.v2 == self.sealing
    }

    /// Of the journal.
    pub(crate) fn journal(geometry: &Geometry) -> Self {
        Self::built_in(geometry, &StreamName::journal())
    }

    /// Of the built-in stream `name`.
    pub(crate) fn built_in(geometry: &Geometry, name: &StreamName) -> Self {
        let config = StreamConfig::journal(geometry.version());
        Self::new(geometry, name, &config)
    }
}

/// [`SEGMENT_HEADER_BYTES`] as an offset.
#[expect(clippy::as_conversions, reason = "a small constant")]
pub(crate) const HEADER_END: u64 = SEGMENT_HEADER_BYTES as u64;

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

/// The frames with which segments begin; nothing of version 2, whose records say where frames stand.
pub(crate) type Cuts = BTreeSet<u64>;

/// The frames with which the segments begin that stream `name` has now.
///
/// # Errors
/// Those of the storage.
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

/// Follows the records of a stream in order, and says where their frames stand.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) cuts: Cuts,
    /// Where the next frame stands, if no segment begins with it; nothing behind a record that is unknown.
    next: Option<Place>,
}

impl Walk {
    pub(crate) const fn new(cuts: Cuts) -> Self {
        Self { cuts, next: None }
    }

    /// Where frame `frame` stands, which is the next.
    pub(crate) fn due(&self, frame: u64) -> Option<Place> {
        begins(&self.cuts, frame).or(self.next)
    }

    /// Moves on behind frame `frame`. Gives where that stands, if it is known.
    pub(crate) fn pass(&mut self, frame: u64, record: Option<&Record>) -> Option<Place> {
        let said = record.and_then(Record::place);
        let place = said.or_else(|| self.due(frame));
        let length = record.map(|record| record.length);
        self.next = place
            .zip(length)
            .map(|(place, length)| behind(place, length));
        place
    }

    /// The next frame stands at `place`.
    pub(crate) const fn found(&mut self, place: Place) {
        self.next = Some(place);
    }
}
