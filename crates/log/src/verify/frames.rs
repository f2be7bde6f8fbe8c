//! Recomputes the hash of every stored frame, on all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;

use probity_format::Version;
use probity_format::frame::Frame;
use probity_format::record::Record;
use probity_format::segment::Place;
use probity_format::width::{to_u64, to_usize};
use probity_queue::{Receiver, SendError, Sender, channel};

use super::stored::open;
use super::{Fault, FaultClass, Faults, Subject, Verifier};
use crate::error::LogError;
use crate::opener::Opener;
use crate::opening::Opening;
use crate::scan::read_some;
use crate::segments as layout;

/// Bytes of frames read at once by one thread.
const READ_BYTES: u64 = 4 << 20;
/// Frames read at once by one thread.
const READ_FRAMES: usize = 4_096;
/// Pieces that wait for each thread.
const WAITING: usize = 2;

/// Consecutive frames of one segment, and the place of each.
type Piece = Vec<(Record, Place)>;

/// The shared state of the threads that check frames of one stream.
pub(super) struct Work<'a> {
    verifier: &'a Verifier<'a>,
    subject: &'a Subject,
    opener: Option<&'a Opener>,
    bytes_done: AtomicU64,
    bytes_all: u64,
    erased: AtomicU64,
    partly_erased: AtomicU64,
    found: Mutex<Faults>,
    epochs: Mutex<Vec<EpochsSeen>>,
    failed: Mutex<Option<LogError>>,
}

/// The epochs of the first and the last frame of a piece.
struct EpochsSeen {
    first: EpochSeen,
    last: EpochSeen,
}

/// The epoch of one frame.
#[derive(Clone, Copy)]
struct EpochSeen {
    record: Record,
    place: Place,
    number: u32,
    salt: [u8; 16],
}

impl EpochSeen {
    /// The epoch of `frame`; nothing in version 2, whose writers promised nothing.
    fn new(record: &Record, place: Place, frame: &Frame<'_>) -> Option<Self> {
        let header = &frame.clear.header;
        let is_numbered = header.version() != Version::V2;
        let salt = header.salt.first_chunk().filter(|_| is_numbered)?;
        Some(Self {
            record: *record,
            place,
            number: header.epoch,
            salt: *salt,
        })
    }

    /// Returns whether a writer may have gone on from this epoch to that of `next`.
    fn is_before(&self, next: &Self) -> bool {
        self.number < next.number || self.number == next.number && self.salt == next.salt
    }
}

/// The findings of all threads.
pub(super) struct Outcome {
    pub(super) faults: Faults,
    pub(super) bytes: u64,
    pub(super) erased_sections: u64,
    pub(super) partly_erased_sections: u64,
}

impl<'a> Work<'a> {
    /// Work on `bytes_all` bytes of `subject`.
    pub(super) fn new(
        verifier: &'a Verifier<'a>,
        subject: &'a Subject,
        opener: Option<&'a Opener>,
        bytes_all: u64,
    ) -> Self {
        Self {
            verifier,
            subject,
            opener,
            bytes_done: AtomicU64::new(0),
            bytes_all,
            erased: AtomicU64::new(0),
            partly_erased: AtomicU64::new(0),
            found: Mutex::default(),
            epochs: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Starts the additional threads.
    pub(super) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> Frames<'scope> {
        // One thread is enough for a single read.
        let others = match self.bytes_all {
            0..=READ_BYTES => 0,
            _ => self.verifier.jobs().saturating_sub(1),
        };
        let (sender, receiver) = channel::<Piece>(others.saturating_mul(WAITING));
        for _ in 0..others {
            let receiver = receiver.clone();
            scope.spawn(move || {
                let mut checking = Checking::new(self);
                while let Ok(piece) = receiver.recv() {
                    checking.check(&piece);
                }
            });
        }
        Frames {
            checking: Checking::new(self),
            has_others: others > 0,
            sender,
            receiver,
            piece: Piece::new(),
            bytes: 0,
        }
    }

    /// The findings, once all threads have ended.
    pub(super) fn finish(self) -> Result<Outcome, LogError> {
        self.check_epochs();
        let failed = self.failed.into_inner();
        if let Some(error) = failed.unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let found = self.found.into_inner();
        Ok(Outcome {
            faults: found.unwrap_or_else(PoisonError::into_inner),
            bytes: self.bytes_done.into_inner(),
            erased_sections: self.erased.into_inner(),
            partly_erased_sections: self.partly_erased.into_inner(),
        })
    }

    /// Checks that no piece begins with an earlier epoch than the one before it ends with.
    fn check_epochs(&self) {
        let mut pieces = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.sort_by_key(|piece| piece.first.record.frame);
        for (before, piece) in pieces.iter().zip(pieces.iter().skip(1)) {
            self.check_order(&before.last, &piece.first);
        }
    }

    fn check_order(&self, before: &EpochSeen, next: &EpochSeen) {
        if before.is_before(next) {
            return;
        }
        let detail = "is of an earlier epoch than the frame before it: it was left behind once, and put back";
        let path = layout::path(self.subject.version, &self.subject.name, next.place.segment);
        self.fault((&path, next.place), &next.record, FaultClass::Frame, detail);
    }

    fn check_piece(
        &self,
        piece: &[(Record, Place)],
        buffer: &mut Vec<u8>,
        mut opening: Option<&mut Opening<'_>>,
    ) -> Result<(), LogError> {
        let (Some((_, first)), Some((last, at))) = (piece.first(), piece.last()) else {
            return Ok(());
        };
        let path = layout::path(self.subject.version, &self.subject.name, first.segment);
        // A missing segment is reported once, where segments are checked.
        let Some(file) = open(&self.verifier.files, &path)? else {
            return Ok(());
        };
        let end = layout::behind(*at, last.length).offset;
        let wanted = (first.offset, end.saturating_sub(first.offset));
        read_some(&self.verifier.files, &path, &*file, buffer, wanted)?;
        let mut seen: Option<EpochsSeen> = None;
        let mut rest: &[u8] = buffer;
        for (record, place) in piece {
            if rest.is_empty() {
                // A segment that ends too early is reported once, where segments are checked.
                break;
            }
            let bytes = to_usize(record.length);
            let Some((frame, after)) = rest.split_at_checked(bytes) else {
                self.fault((&path, *place), record, FaultClass::Frame, "is cut off");
                break;
            };
            rest = after;
            let opening = opening.as_deref_mut();
            let Some(epoch) = self.check_frame((&path, *place), record, frame, opening) else {
                continue;
            };
            match &mut seen {
                Some(seen) => {
                    self.check_order(&seen.last, &epoch);
                    seen.last = epoch;
                }
                None => {
                    seen = Some(EpochsSeen {
                        first: epoch,
                        last: epoch,
                    });
                }
            }
        }
        let mut epochs = self.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        epochs.extend(seen);
        drop(epochs);
        let read = to_u64(buffer.len());
        // Relaxed: figures only.
        let done = self
            .bytes_done
            .fetch_add(read, Ordering::Relaxed)
            .saturating_add(read);
        if let Some(progress) = &self.verifier.options.progress {
            progress(done, self.bytes_all);
        }
        Ok(())
    }

    /// Checks one frame; returns its epoch where it matches its record.
    fn check_frame(
        &self,
        place: (&str, Place),
        record: &Record,
        bytes: &[u8],
        opening: Option<&mut Opening<'_>>,
    ) -> Option<EpochSeen> {
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(error) => {
                self.fault(place, record, FaultClass::Frame, &error.to_string());
                return None;
            }
        };
        let stored = frame.record(place.1);
        let (id, config) = (&self.subject.id, &self.subject.config);
        if stored == *record && !frame.clear.is_of(id, config) {
            let detail = "is of another stream or log, or sealed in another way than the stream is created for";
            self.fault(place, record, FaultClass::Frame, detail);
        } else if stored != *record {
            let detail = if stored.sealed_root == record.sealed_root {
                "its header is not what its record says"
            } else {
                "its bytes are not the ones its record commits to"
            };
            self.fault(place, record, FaultClass::Frame, detail);
        } else if frame.trailer() != Some(stored.sealed_root) {
            self.fault(
                place,
                record,
                FaultClass::Frame,
                "does not end with its own root",
            );
        } else {
            if let Some(opening) = opening {
                if let Err(error) = opening.check(&frame) {
                    self.fault(place, record, FaultClass::Content, &error.to_string());
                }
                for lost in opening.take_unexplained() {
                    self.fault(place, record, FaultClass::Content, &lost.to_string());
                }
            }
            return EpochSeen::new(record, place.1, &frame);
        }
        None
    }

    fn fault(&self, (path, at): (&str, Place), record: &Record, class: FaultClass, detail: &str) {
        let place = format!("{path}, frame {} at byte {}", record.frame, at.offset);
        let fault = Fault::new(class, &self.subject.name, place, detail);
        self.found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(fault);
    }
}

/// Distributes frames in pieces of about [`READ_BYTES`], and checks those for which the other
/// threads have no room.
pub(super) struct Frames<'a> {
    checking: Checking<'a>,
    has_others: bool,
    sender: Sender<Piece>,
    receiver: Receiver<Piece>,
    /// The piece under way, and its bytes.
    piece: Piece,
    bytes: u64,
}

impl Frames<'_> {
    /// Adds the next known record, if its frame is to be read.
    pub(super) fn add(&mut self, record: &Record, place: Place) {
        let work = self.checking.work;
        let is_wanted = work.verifier.wants(work.subject, record);
        let bytes = self.bytes.saturating_add(u64::from(record.length));
        let follows = self
            .piece
            .last()
            .is_none_or(|(last, at)| layout::behind(*at, last.length) == place);
        let fits = bytes <= READ_BYTES && self.piece.len() < READ_FRAMES;
        if !(is_wanted && follows && fits) {
            self.deal();
        }
        if is_wanted {
            self.bytes = self.bytes.saturating_add(u64::from(record.length));
            self.piece.push((*record, place));
        }
    }

    fn deal(&mut self) {
        let piece = std::mem::take(&mut self.piece);
        self.bytes = 0;
        if piece.is_empty() {
            return;
        }
        let kept = if self.has_others {
            self.sender.try_send(piece).err().map(SendError::into_value)
        } else {
            Some(piece)
        };
        if let Some(piece) = kept {
            self.checking.check(&piece);
        }
    }

    /// Distributes the rest, and helps until nothing waits.
    pub(super) fn finish(mut self) {
        self.deal();
        self.sender.close();
        while let Ok(piece) = self.receiver.try_recv() {
            self.checking.check(&piece);
        }
    }
}

/// The state of one thread.
struct Checking<'a> {
    work: &'a Work<'a>,
    opening: Option<Opening<'a>>,
    buffer: Vec<u8>,
}

impl<'a> Checking<'a> {
    fn new(work: &'a Work<'a>) -> Self {
        let Subject {
            name, id, config, ..
        } = work.subject;
        let opening = |opener| Opening::new(opener, name, *id, *config);
        Self {
            work,
            opening: work.opener.map(opening),
            buffer: Vec::new(),
        }
    }

    /// Checks a piece, unless a thread failed.
    fn check(&mut self, piece: &[(Record, Place)]) {
        let failed = || {
            self.work
                .failed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if failed().is_some() {
            return;
        }
        let checked = self
            .work
            .check_piece(piece, &mut self.buffer, self.opening.as_mut());
        if let Err(error) = checked {
            *failed() = Some(error);
        }
    }
}

impl Drop for Checking<'_> {
    fn drop(&mut self) {
        if let Some(opening) = &self.opening {
            // Relaxed: figures only.
            let (erased, partly) = (opening.erased, opening.partly_erased);
            self.work.erased.fetch_add(erased, Ordering::Relaxed);
            self.work.partly_erased.fetch_add(partly, Ordering::Relaxed);
        }
    }
}
