//! Reads segments frame by frame, for recovery and for readers that follow bytes rather than records.

use probity_format::Version;
use probity_format::frame::{FRAME_HEADER_BYTES, Frame, FrameHeader};
use probity_format::record::Record;
use probity_format::segment::{
    FOOTER_MAGIC, SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, encode_footer,
    segment_file_name,
};
use probity_format::stream::{StreamId, StreamName};

use crate::error::LogError;
use crate::files::Files;
use crate::storage::File;

/// Where a scan stands: everything before is whole.
#[derive(Debug, Clone)]
pub(crate) struct Position {
    pub(crate) header: SegmentHeader,
    /// Whether the segment's file exists and its header is whole.
    pub(crate) begun: bool,
    pub(crate) offset: u64,
    pub(crate) next_frame: u64,
    pub(crate) next_entry: u64,
    pub(crate) last_epoch: u32,
}

impl Position {
    /// Before the first segment of a stream.
    pub(crate) const fn start(version: Version, stream: StreamId, fingerprint: [u8; 32]) -> Self {
        let header = SegmentHeader {
            version,
            number: 0,
            stream,
            fingerprint,
            first_frame: 0,
            first_entry: 0,
        };
        Self {
            header,
            begun: false,
            offset: 0,
            next_frame: 0,
            next_entry: 0,
            last_epoch: 0,
        }
    }

    /// Behind the frame of `record`, unless its segment is gone or has no whole header.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) fn behind(
        files: &Files,
        stream: &StreamName,
        record: &Record,
    ) -> Result<Option<Self>, LogError> {
        let path = format!("streams/{stream}/{}", segment_file_name(record.segment));
        let Some(file) = files.open_read(&path)? else {
            return Ok(None);
        };
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let length = files.attempt("measure", &path, |_| file.length())?;
        if length < u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default() {
            return Ok(None);
        }
        read(files, &path, &*file, &mut bytes, 0)?;
        let header = SegmentHeader::decode(&bytes).ok();
        Ok(header.map(|header| Self {
            header,
            begun: true,
            offset: record.end(),
            next_frame: record.frame.saturating_add(1),
            next_entry: record.next_entry(),
            last_epoch: record.epoch,
        }))
    }
}

/// Why a scan stopped.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing more is stored.
    Clean,
    /// Bytes follow that are not whole: what, and how many in this file.
    Torn { what: &'static str, bytes: u64 },
    /// A whole frame follows that is not believed, with as many bytes from its beginning to the end of this file.
    Foreign { bytes: u64 },
}

/// Whether a whole frame that is due is to be believed.
pub(crate) type Believe<'a> = &'a mut dyn FnMut(&Record, &Frame<'_>) -> bool;

/// Calls `visit` for each whole frame from `position` on, and moves it along.
///
/// Whole says nothing of who wrote a frame: anybody can make one that is. See [`scan_believed`].
///
/// # Errors
/// Those of the storage and of `visit`.
pub(crate) fn scan<E: From<LogError>>(
    files: &Files,
    stream: &StreamName,
    position: &mut Position,
    visit: &mut dyn FnMut(&Record, &Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    scan_believed(files, stream, position, &mut |_, _| true, visit)
}

/// As [`scan`], up to the first frame that `believe` refuses; the position stays before it.
///
/// # Errors
/// Those of the storage and of `visit`.
pub(crate) fn scan_believed<E: From<LogError>>(
    files: &Files,
    stream: &StreamName,
    position: &mut Position,
    believe: Believe<'_>,
    visit: &mut dyn FnMut(&Record, &Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    let mut buffer = Vec::new();
    loop {
        let name = format!(
            "streams/{stream}/{}",
            segment_file_name(position.header.number)
        );
        let Some(file) = files.open_read(&name)? else {
            return Ok(End::Clean);
        };
        let length = files.attempt("measure", &name, |_| file.length())?;
        if !position.begun && !begin(files, &name, &*file, length, position)? {
            return Ok(End::Torn {
                what: "segment header",
                bytes: length,
            });
        }
        loop {
            let left = length.saturating_sub(position.offset);
            if left == 0 {
                return Ok(End::Clean);
            }
            if is_footer(files, &name, &*file, position, left)? {
                position.header.number = position.header.number.saturating_add(1);
                position.begun = false;
                break;
            }
            let Some(record) = read_frame(files, &name, &*file, position, left, &mut buffer)?
            else {
                return Ok(End::Torn {
                    what: "frame",
                    bytes: left,
                });
            };
            let frame = Frame::parse(&buffer).map_err(|error| LogError::Broken {
                place: name.clone(),
                reason: error.to_string(),
            })?;
            if !believe(&record, &frame) {
                return Ok(End::Foreign { bytes: left });
            }
            visit(&record, &frame)?;
            position.offset = record.end();
            position.next_frame = record.frame.saturating_add(1);
            position.next_entry = record.next_entry();
            position.last_epoch = position.last_epoch.max(record.epoch);
        }
    }
}

/// Reads the header of a segment that must begin at `position`; false when it is not whole.
fn begin(
    files: &Files,
    name: &str,
    file: &dyn File,
    length: u64,
    position: &mut Position,
) -> Result<bool, LogError> {
    position.header.first_frame = position.next_frame;
    position.header.first_entry = position.next_entry;
    let header_bytes = u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default();
    if length < header_bytes {
        return Ok(false);
    }
    let mut bytes = [0; SEGMENT_HEADER_BYTES];
    read(files, name, file, &mut bytes, 0)?;
    if let Err(error) = position.header.check(&bytes) {
        if error.reason == "is of another version" {
            return Err(LogError::Broken {
                place: name.to_owned(),
                reason: error.to_string(),
            });
        }
        return Ok(false);
    }
    position.begun = true;
    position.offset = header_bytes;
    Ok(true)
}

fn is_footer(
    files: &Files,
    name: &str,
    file: &dyn File,
    position: &Position,
    left: u64,
) -> Result<bool, LogError> {
    if usize::try_from(left).ok() != Some(SEGMENT_FOOTER_BYTES) {
        return Ok(false);
    }
    let mut footer = [0; SEGMENT_FOOTER_BYTES];
    read(files, name, file, &mut footer, position.offset)?;
    let frames = position
        .next_frame
        .saturating_sub(position.header.first_frame);
    let expected = encode_footer(
        &position.header,
        frames,
        position.next_entry,
        position.offset,
    );
    Ok(footer.starts_with(FOOTER_MAGIC) && footer == expected)
}

/// Reads the frame at `position` into `buffer`; `None` when it is not whole or not the one due.
fn read_frame(
    files: &Files,
    name: &str,
    file: &dyn File,
    position: &Position,
    left: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Record>, LogError> {
    let mut head = [0; FRAME_HEADER_BYTES];
    if left < u64::try_from(FRAME_HEADER_BYTES).unwrap_or_default() {
        return Ok(None);
    }
    read(files, name, file, &mut head, position.offset)?;
    let Ok(header) = FrameHeader::decode(&head) else {
        return Ok(None);
    };
    let due = header.version == position.header.version
        && header.stream == position.header.stream
        && header.frame == position.next_frame
        && header.first_entry == position.next_entry;
    if !due || u64::from(header.length) > left {
        return Ok(None);
    }
    buffer.clear();
    buffer.resize(usize::try_from(header.length).unwrap_or_default(), 0);
    read(files, name, file, buffer, position.offset)?;
    let Ok(frame) = Frame::parse(buffer) else {
        return Ok(None);
    };
    let record = frame.record(position.header.number, position.offset);
    Ok((frame.trailer() == Some(record.sealed_root)).then_some(record))
}

/// The bytes of the frame of `record`, if they are there and what it says.
///
/// # Errors
/// Those of the storage.
pub(crate) fn stored_frame(
    files: &Files,
    stream: &StreamName,
    record: &Record,
) -> Result<Option<Vec<u8>>, LogError> {
    let path = format!("streams/{stream}/{}", segment_file_name(record.segment));
    let Some(file) = files.open_read(&path)? else {
        return Ok(None);
    };
    let length = files.attempt("measure", &path, |_| file.length())?;
    if record.end() > length {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(record.length).unwrap_or_default()];
    read(files, &path, &*file, &mut bytes, record.offset)?;
    let stored = Frame::parse(&bytes).map(|frame| frame.record(record.segment, record.offset));
    Ok((stored.as_ref() == Ok(record)).then_some(bytes))
}

/// Fills `buffer` from `offset` of an open file.
pub(crate) fn read(
    files: &Files,
    name: &str,
    file: &dyn File,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), LogError> {
    let buffer = std::cell::RefCell::new(buffer);
    files.attempt("read", name, |_| {
        file.read_at(&mut buffer.borrow_mut(), offset)
    })
}
