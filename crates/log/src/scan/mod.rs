//! Reads segments frame by frame, for recovery and for readers that follow bytes rather than
//! records.

mod position;
mod v2;

use std::io;
use std::sync::Arc;

use probity_format::Version;
use probity_format::frame::{Frame, FrameHeader};
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::stream::StreamName;
use probity_format::width::{to_u64, to_usize};

use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::segments::{self, Cuts, HEADER_END, Identity};
use crate::storage::File;
pub(crate) use position::Position;

/// Bytes read at once where a frame is looked for.
const SEARCH_BYTES: u64 = 1 << 20;

/// The reason why a scan stopped.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing more is stored.
    Clean,
    /// The number of bytes that follow in this file and are not whole, or that the next segment
    /// holds as well.
    Torn { bytes: u64 },
    /// A whole frame follows that is not believed; the count is from its beginning to the end of
    /// this file.
    Foreign { bytes: u64 },
}

/// Returns whether a whole frame that is due is to be believed.
pub(crate) type Believe<'a> = &'a mut dyn FnMut(&Record, &Frame<'_>) -> bool;

/// Calls `visit` for each whole frame from `position` on, and moves it along.
///
/// A whole frame can be from any writer. See [`scan_believed`].
///
/// # Errors
/// Errors of the storage and of `visit`.
pub(crate) fn scan<E: From<LogError>>(
    files: &Files,
    stream: &StreamName,
    position: &mut Position,
    visit: &mut dyn FnMut(&Record, &Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    scan_believed(files, stream, position, &mut |_, _| true, visit)
}

/// Scans like [`scan`], up to the first frame that `believe` refuses; the position stays before it.
///
/// # Errors
/// Errors of the storage and of `visit`.
pub(crate) fn scan_believed<E: From<LogError>>(
    files: &Files,
    stream: &StreamName,
    position: &mut Position,
    believe: Believe<'_>,
    visit: &mut dyn FnMut(&Record, &Frame<'_>) -> Result<(), E>,
) -> Result<End, E> {
    let mut scan = Scan::new(files, stream, position.identity.version)?;
    loop {
        match scan.next(position, believe)? {
            Ok((record, frame)) => {
                visit(&record, &frame)?;
                position.pass(&record, &frame.clear.header);
            }
            Err(end) => return Ok(end),
        }
    }
}

/// A segment that is open for a scan, and its length when it was opened.
struct OpenSegment {
    name: String,
    file: Arc<dyn File>,
    length: u64,
}

/// Reads one frame after the other, all into the same memory.
pub(crate) struct Scan<'a> {
    files: &'a Files,
    stream: StreamName,
    cuts: Cuts,
    open: Option<OpenSegment>,
    buffer: Vec<u8>,
}

impl<'a> Scan<'a> {
    /// Begins a scan of `stream`; its position is the caller's.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn new(
        files: &'a Files,
        stream: &StreamName,
        version: Version,
    ) -> Result<Self, LogError> {
        Ok(Self {
            files,
            stream: stream.clone(),
            cuts: segments::cuts(files, stream, version)?,
            open: None,
            buffer: Vec::new(),
        })
    }

    /// Reads the frame at `position`, or finds why the scan ends there. The caller moves the position
    /// behind the frame.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn next(
        &mut self,
        position: &mut Position,
        believe: Believe<'_>,
    ) -> Result<Result<(Record, Frame<'_>), End>, LogError> {
        let (record, left) = match self.due(position, believe)? {
            Ok(due) => due,
            Err(end) => return Ok(Err(end)),
        };
        let frame = Frame::parse(&self.buffer).map_err(|error| LogError::Broken {
            place: position.path(&self.stream),
            reason: error.to_string(),
        })?;
        if !position.precedes(&frame.clear.header) || !believe(&record, &frame) {
            return Ok(Err(End::Foreign { bytes: left }));
        }
        Ok(Ok((record, frame)))
    }

    /// Reads the bytes of the due frame into the buffer, from the segment that has it. Returns its
    /// record, and the bytes of the segment's file from there on.
    fn due(
        &mut self,
        position: &mut Position,
        believe: Believe<'_>,
    ) -> Result<Result<(Record, u64), End>, LogError> {
        let (files, stream, buffer) = (self.files, &self.stream, &mut self.buffer);
        loop {
            let open = match self.open.take() {
                Some(open) => open,
                None => match opened(files, stream, position)? {
                    Ok(open) => open,
                    Err(end) => return Ok(Err(end)),
                },
            };
            let (name, file) = (open.name.as_str(), &*open.file);
            let left = open.length.saturating_sub(position.offset);
            match next(files, stream, (name, file), position, left, &self.cuts)? {
                Next::Frame => {}
                Next::Twice => {
                    if !goes_on(files, stream, (name, file), position, believe, buffer)? {
                        return Ok(Err(End::Torn { bytes: left }));
                    }
                    position.strange.insert(position.next_frame);
                }
                Next::Segment(segment) => {
                    position.turn(segment);
                    continue;
                }
                Next::Strange(segment) => {
                    position.strange.insert(segment);
                    return Ok(Err(End::Clean));
                }
                Next::End(end) => return Ok(Err(end)),
            }
            let Some(record) = read_frame(files, name, file, position, left, buffer)? else {
                return Ok(Err(End::Torn { bytes: left }));
            };
            self.open = Some(open);
            return Ok(Ok((record, left)));
        }
    }
}

/// Opens the segment at `position`, and begins it where the position is before its first frame.
fn opened(
    files: &Files,
    stream: &StreamName,
    position: &mut Position,
) -> Result<Result<OpenSegment, End>, LogError> {
    let name = position.path(stream);
    let file = match files.open_read(&name) {
        // No frame of the stream was met yet: the first segment's name belongs to no file.
        Err(error) if is_strange(&error) && position.next_frame == 0 => {
            position.strange.insert(position.segment);
            return Ok(Err(End::Clean));
        }
        opened => opened?,
    };
    let Some(file) = file else {
        return Ok(Err(End::Clean));
    };
    let length = files.attempt("measure", &name, |_| file.length())?;
    if !position.begun && !begin(files, &name, &*file, length, position)? {
        return Ok(Err(End::Torn { bytes: length }));
    }
    Ok(Ok(OpenSegment { name, file, length }))
}

/// Returns whether the segment at `position` continues with the due frame, although another file
/// claims to begin with it. That file must not hold the frame, or must hold the same bytes. If both
/// hold different frames, the signer of one of them decides.
fn goes_on(
    files: &Files,
    stream: &StreamName,
    here: (&str, &dyn File),
    position: &Position,
    believe: Believe<'_>,
    buffer: &mut Vec<u8>,
) -> Result<bool, LogError> {
    let due = position.next_frame;
    let path = segments::path(position.identity.version, stream, due);
    let other = match files.open_read(&path) {
        Err(error) if is_strange(&error) => None,
        opened => opened?,
    };
    let mut copied = None;
    if let Some(other) = other {
        let mut there = position.clone();
        there.turn(due);
        if is_believed(files, (&path, &*other), &mut there, believe, buffer)? {
            copied = Some(std::mem::take(buffer));
        }
    }
    let goes_on = is_believed(files, here, &mut position.clone(), believe, buffer)?;
    Ok(goes_on && copied.is_none_or(|frame| frame == *buffer))
}

/// Returns whether the due frame is in `file` at `position`, whole and to be believed.
fn is_believed(
    files: &Files,
    (name, file): (&str, &dyn File),
    position: &mut Position,
    believe: Believe<'_>,
    buffer: &mut Vec<u8>,
) -> Result<bool, LogError> {
    let length = files.attempt("measure", name, |_| file.length())?;
    if !position.begun && !begin(files, name, file, length, position)? {
        return Ok(false);
    }
    let left = length.saturating_sub(position.offset);
    let record = read_frame(files, name, file, position, left, buffer)?;
    Ok(record.is_some_and(|record| {
        Frame::parse(buffer)
            .is_ok_and(|frame| position.precedes(&frame.clear.header) && believe(&record, &frame))
    }))
}

/// The content at a position.
enum Next {
    /// Bytes that may be a frame.
    Frame,
    /// Bytes that may be a frame, while another segment claims that it begins with it.
    Twice,
    /// The end of the segment; the next has this number.
    Segment(u64),
    /// The end of the last segment; the name of the next is taken by something that is no file.
    Strange(u64),
    End(End),
}

fn next(
    files: &Files,
    stream: &StreamName,
    (name, file): (&str, &dyn File),
    position: &Position,
    left: u64,
    cuts: &Cuts,
) -> Result<Next, LogError> {
    if position.identity.version == Version::V2 {
        return Ok(if left == 0 {
            Next::End(End::Clean)
        } else if v2::is_footer(files, name, file, position, left)? {
            Next::Segment(position.segment.saturating_add(1))
        } else {
            Next::Frame
        });
    }
    let due = position.next_frame;
    if left > 0 {
        return Ok(if due != position.segment && cuts.contains(&due) {
            Next::Twice
        } else {
            Next::Frame
        });
    }
    if due == position.segment {
        return Ok(Next::End(End::Clean));
    }
    // Checked once more, because a live log begins segments meanwhile.
    let path = segments::path(position.identity.version, stream, due);
    match files.open_read(&path) {
        Err(error) if is_strange(&error) => Ok(Next::Strange(due)),
        Err(error) => Err(error),
        Ok(Some(_)) => Ok(Next::Segment(due)),
        // A name that was there a moment ago is gone.
        Ok(None) if cuts.contains(&due) => Ok(Next::Segment(due)),
        Ok(None) => Ok(Next::End(End::Clean)),
    }
}

/// Returns whether a segment that must begin at `position` is as long as its header. The header's
/// content is known already.
fn begin(
    files: &Files,
    name: &str,
    file: &dyn File,
    length: u64,
    position: &mut Position,
) -> Result<bool, LogError> {
    if position.identity.version == Version::V2 {
        return v2::begin(files, name, file, length, position);
    }
    if length < HEADER_END {
        return Ok(false);
    }
    position.begun = true;
    position.offset = HEADER_END;
    Ok(true)
}

/// Reads the frame at `position` into `buffer`; `None` when it is not whole or not the due one.
fn read_frame(
    files: &Files,
    name: &str,
    file: &dyn File,
    position: &Position,
    left: u64,
    buffer: &mut Vec<u8>,
) -> Result<Option<Record>, LogError> {
    let identity = &position.identity;
    let Some(header) = read_header(files, name, file, identity, position.offset, left)? else {
        return Ok(None);
    };
    let due = header.frame == position.next_frame && header.first_entry == position.next_entry;
    if !due || u64::from(header.length) > left {
        return Ok(None);
    }
    buffer.clear();
    buffer.resize(to_usize(header.length), 0);
    if !read_there(files, name, file, buffer, position.offset)? {
        return Ok(None);
    }
    let Ok(frame) = Frame::parse(buffer) else {
        return Ok(None);
    };
    let record = frame.record(position.place());
    Ok((frame.trailer() == Some(record.sealed_root)).then_some(record))
}

/// The header at `offset`, if `left` bytes hold one of a frame of the stream.
fn read_header(
    files: &Files,
    name: &str,
    file: &dyn File,
    identity: &Identity,
    offset: u64,
    left: u64,
) -> Result<Option<FrameHeader>, LogError> {
    let mut head = vec![0; identity.version.frame_header_bytes()];
    if left < to_u64(head.len()) {
        return Ok(None);
    }
    if !read_there(files, name, file, &mut head, offset)? {
        return Ok(None);
    }
    let header = FrameHeader::decode(&head).ok();
    Ok(header.filter(|header| identity.owns(header)))
}

/// The bytes of the frame of `record` at `place`, if they are there and match it.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn stored_frame(
    files: &Files,
    stream: &StreamName,
    identity: &Identity,
    record: &Record,
    place: Place,
) -> Result<Option<Vec<u8>>, LogError> {
    let path = segments::path(identity.version, stream, place.segment);
    let Some(file) = files.open_read(&path)? else {
        return Ok(None);
    };
    let length = files.attempt("measure", &path, |_| file.length())?;
    if segments::behind(place, record.length).offset > length {
        return Ok(None);
    }
    let mut bytes = vec![0; to_usize(record.length)];
    if !read_there(files, &path, &*file, &mut bytes, place.offset)? {
        return Ok(None);
    }
    let is_stored = Frame::parse(&bytes)
        .is_ok_and(|frame| frame.record(place) == *record && identity.owns(&frame.clear.header));
    Ok(is_stored.then_some(bytes))
}

/// Searches the same segment from `from` on for the header of a later frame of the stream than
/// `after`. Returns its index and place.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn find_frame(
    files: &Files,
    stream: &StreamName,
    identity: &Identity,
    from: Place,
    after: u64,
) -> Result<Option<(u64, Place)>, LogError> {
    let path = segments::path(identity.version, stream, from.segment);
    let Some(file) = files.open_read(&path)? else {
        return Ok(None);
    };
    let magic = identity.version.frame_magic();
    let header_bytes = identity.version.frame_header_bytes();
    let mut offset = from.offset;
    let mut buffer = Vec::new();
    loop {
        // A hole holds no frame, and may be longer than any disk.
        let data = files.attempt("read", &path, |_| file.next_data(offset))?;
        let Some(place) = data else {
            return Ok(None);
        };
        offset = place;
        read_some(files, &path, &*file, &mut buffer, (offset, SEARCH_BYTES))?;
        if buffer.is_empty() {
            return Ok(None);
        }
        for (at, window) in (0_u64..).zip(buffer.windows(header_bytes)) {
            if !window.starts_with(magic) {
                continue;
            }
            let header = FrameHeader::decode(window).ok();
            let header = header.filter(|header| identity.owns(header));
            if let Some(header) = header.filter(|header| header.frame > after) {
                let offset = offset.saturating_add(at);
                let place = Place { offset, ..from };
                return Ok(Some((header.frame, place)));
            }
        }
        // The last windows of this piece and the first of the next overlap.
        let step = buffer.len().saturating_sub(header_bytes).saturating_add(1);
        offset = offset.saturating_add(to_u64(step));
    }
}

/// Fills `buffer` from `offset` of an open file that is not truncated meanwhile.
///
/// # Errors
/// Errors of the storage, [`UnexpectedEof`](io::ErrorKind) among them.
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

/// Reads like [`read`], and returns whether the file still had these bytes. An opening beside this
/// reader cuts off the torn end that the reader measured.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn read_there(
    files: &Files,
    name: &str,
    file: &dyn File,
    buffer: &mut [u8],
    offset: u64,
) -> Result<bool, LogError> {
    match read(files, name, file, buffer, offset) {
        Ok(()) => Ok(true),
        Err(LogError::Storage { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Fills `buffer` with the bytes from `offset` on, at most `bytes` of them, as far as the file
/// goes.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn read_some(
    files: &Files,
    name: &str,
    file: &dyn File,
    buffer: &mut Vec<u8>,
    (offset, bytes): (u64, u64),
) -> Result<(), LogError> {
    loop {
        let length = files.attempt("measure", name, |_| file.length())?;
        let there = length.saturating_sub(offset).min(bytes);
        buffer.resize(usize::try_from(there).unwrap_or(usize::MAX), 0);
        // Each retry finds a shorter file, because it was truncated in between.
        if read_there(files, name, file, buffer, offset)? {
            return Ok(());
        }
    }
}
