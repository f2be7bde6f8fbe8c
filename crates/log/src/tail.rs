//! Clears the bytes behind the last frame of a stream, so that the next frame can follow.

use std::collections::BTreeSet;
use std::ops::Range;

use probity_format::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader};
use probity_format::limits::FRAME_BYTES_MAX;
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::stream::StreamName;
use probity_format::width::to_u64;

use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::repairs::{RecoveryReport, Repair, RepairKind};
use crate::scan::{End, Position, read};
use crate::segments::{self, HEADER_END};
use crate::set_aside;

/// [`FRAME_BYTES_MAX`] as a length of a file.
const FRAME_BYTES_LIMIT: u64 = to_u64(FRAME_BYTES_MAX);

/// The end of one stream's segments.
pub(crate) struct Tail<'a> {
    pub(crate) files: &'a Files,
    pub(crate) name: &'a StreamName,
    pub(crate) repairs: &'a mut RecoveryReport,
    /// The frame of an opening that nobody signed for.
    pub(crate) unfinished: Option<u64>,
}

impl Tail<'_> {
    /// Removes everything behind `position`, so that the next frame can follow it.
    pub(crate) fn clear(
        &mut self,
        position: &Position,
        end: &End,
        is_lossless: bool,
    ) -> Result<(), LogError> {
        let offset = if position.begun { position.offset } else { 0 };
        let (kind, bytes) = match end {
            End::Clean => return self.clear_later_segments(position),
            End::Torn { bytes } if is_lossless && self.is_incomplete(position, *bytes)? => {
                (RepairKind::Torn, bytes)
            }
            End::Torn { bytes } => (RepairKind::Damaged, bytes),
            End::Foreign { bytes } if self.unfinished == Some(position.next_frame) => {
                (RepairKind::Opening, bytes)
            }
            End::Foreign { bytes } => (RepairKind::Foreign, bytes),
        };
        if kind != RepairKind::Torn {
            self.set_aside(&position.path(self.name), offset)?;
        }
        self.announce(kind, offset..offset.saturating_add(*bytes))?;
        self.cut(position)?;
        self.clear_later_segments(position)
    }

    /// Returns whether the `bytes` behind `position` are the beginning of the due frame or segment
    /// header and nothing else. A crash leaves that of a write that was never durable.
    fn is_incomplete(&self, position: &Position, bytes: u64) -> Result<bool, LogError> {
        let offset = if position.begun { position.offset } else { 0 };
        let header = if position.begun {
            FRAME_HEADER_BYTES
        } else {
            SEGMENT_HEADER_BYTES
        };
        if bytes < to_u64(header) {
            return Ok(true);
        }
        if !position.begun {
            return Ok(false);
        }
        let name = position.path(self.name);
        let Some(file) = self.files.open_read(&name)? else {
            return Ok(false);
        };
        let mut tail = vec![0; usize::try_from(bytes.min(FRAME_BYTES_LIMIT)).unwrap_or_default()];
        read(self.files, &name, &*file, &mut tail, offset)?;
        // A changed length makes whole frames behind look like a part of this one.
        let behind = tail.get(FRAME_MAGIC.len()..).unwrap_or_default();
        if behind
            .windows(FRAME_MAGIC.len())
            .any(|four| four == FRAME_MAGIC)
        {
            return Ok(false);
        }
        let due = |header: &FrameHeader| {
            position.identity.owns(header)
                && header.frame == position.next_frame
                && header.first_entry == position.next_entry
        };
        let header = FrameHeader::decode(&tail).ok().filter(due);
        Ok(header.is_some_and(|header| u64::from(header.length) > bytes))
    }

    fn announce(&mut self, kind: RepairKind, range: Range<u64>) -> Result<(), LogError> {
        let repair = Repair::new(kind, self.name, range);
        self.repairs.announce(self.files, repair)
    }

    /// Copies the bytes from `offset` on in the file `name` away.
    fn set_aside(&self, name: &str, offset: u64) -> Result<(), LogError> {
        let file = self.files.open_read(name)?;
        let length = match &file {
            Some(file) => self.files.attempt("measure", name, |_| file.length())?,
            None => offset,
        };
        set_aside::copy(self.files, name, offset..length)
    }

    /// Ends the segment at `position`.
    fn cut(&self, position: &Position) -> Result<(), LogError> {
        let name = position.path(self.name);
        if position.begun {
            let file = self.files.segment(&name, false)?;
            self.files
                .attempt("cut", &name, |_| file.set_length(position.offset))?;
            return self.files.sync(&name);
        }
        self.files.remove(&name)?;
        self.files.sync_folder(&segments::folder(self.name))
    }

    /// Removes later segments. They hold nothing that is known to have been durable, and neither do
    /// those in whose place the one before goes on.
    fn clear_later_segments(&mut self, position: &Position) -> Result<(), LogError> {
        let folder = segments::folder(self.name);
        let cuts = segments::cuts(self.files, self.name, position.identity.version)?;
        let behind = position.segment.saturating_add(1);
        let later: BTreeSet<u64> = cuts.range(behind..).copied().collect();
        let (mut found, mut strange, mut repairs) = (Vec::new(), Vec::new(), Vec::new());
        for first in later.union(&position.strange) {
            let name = segments::path(position.identity.version, self.name, *first);
            let kind = match self.holds_no_frame(&name) {
                // A segment that begins there later needs the name.
                Err(error) if is_strange(&error) => {
                    let repair = Repair::new(RepairKind::Later, self.name, *first..*first);
                    repairs.push(repair);
                    strange.push(name);
                    continue;
                }
                Err(error) => return Err(error),
                Ok(true) => RepairKind::Empty,
                Ok(false) => {
                    self.set_aside(&name, 0)?;
                    RepairKind::Later
                }
            };
            repairs.push(Repair::new(kind, self.name, *first..*first));
            found.push(name);
        }
        if repairs.is_empty() {
            return Ok(());
        }
        // At once: there may be many, and each announcement writes all of them.
        self.repairs.announce_all(self.files, repairs)?;
        for name in &found {
            self.files.remove(name)?;
        }
        for name in &strange {
            set_aside::take(self.files, name)?;
        }
        self.files.sync_folder(&folder)
    }

    /// Returns whether the segment `name` is no longer than its header, as a crash leaves it after
    /// a rotation.
    fn holds_no_frame(&self, name: &str) -> Result<bool, LogError> {
        let Some(file) = self.files.open_read(name)? else {
            return Ok(true);
        };
        let length = self.files.attempt("measure", name, |_| file.length())?;
        Ok(length <= HEADER_END)
    }
}
