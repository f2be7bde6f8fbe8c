//! What stands behind the last frame of a stream: taken away, so that the next frame can follow.

use probity_format::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader};
use probity_format::limits::FRAME_BYTES_MAX;
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name};
use probity_format::stream::{StreamId, StreamName};

use crate::error::LogError;
use crate::files::Files;
use crate::repairs::Repairs;
use crate::scan::{End, Position, read};
use crate::set_aside;

/// [`FRAME_BYTES_MAX`] as a length of a file.
#[expect(clippy::as_conversions, reason = "a small constant")]
const FRAME_BYTES_LIMIT: u64 = FRAME_BYTES_MAX as u64;

/// The end of one stream's segments.
pub(crate) struct Tail<'a> {
    pub(crate) files: &'a Files,
    pub(crate) name: &'a StreamName,
    pub(crate) id: StreamId,
    pub(crate) repairs: &'a mut Repairs,
}

impl Tail<'_> {
    /// Takes everything behind `position` away, so that the next frame can follow it.
    pub(crate) fn clear(
        &mut self,
        position: &Position,
        end: &End,
        is_lossless: bool,
    ) -> Result<(), LogError> {
        let name = self.segment(position);
        match end {
            End::Clean => {}
            End::Torn { what, bytes } if is_lossless && self.is_incomplete(position, *bytes)? => {
                let sentence = format!("{name}: cut off {bytes} bytes of a torn {what}");
                self.repairs.announce(self.files, sentence)?;
                self.cut(position)?;
            }
            End::Torn { bytes, .. } | End::Foreign { bytes } => {
                let offset = if position.begun { position.offset } else { 0 };
                let kept = self.set_aside(&name, offset)?;
                let why = match end {
                    End::Foreign { .. } => "which this log's keys did not seal",
                    _ => "which are no whole frame",
                };
                let sentence = format!("{name}: {bytes} bytes, {why}, set aside in {kept}");
                self.repairs.announce(self.files, sentence)?;
                self.cut(position)?;
            }
        }
        self.clear_later_segments(position)
    }

    /// Whether the `bytes` behind `position` are the beginning of the frame or segment header that is due and nothing else: what a crash leaves of a
    /// write that was never durable.
    fn is_incomplete(&self, position: &Position, bytes: u64) -> Result<bool, LogError> {
        let offset = if position.begun { position.offset } else { 0 };
        let header = if position.begun {
            FRAME_HEADER_BYTES
        } else {
            SEGMENT_HEADER_BYTES
        };
        if bytes < u64::try_from(header).unwrap_or_default() {
            return Ok(true);
        }
        if !position.begun {
            return Ok(false);
        }
        let name = self.segment(position);
        let Some(file) = self.files.open_read(&name)? else {
            return Ok(false);
        };
        let mut tail = vec![0; usize::try_from(bytes.min(FRAME_BYTES_LIMIT)).unwrap_or_default()];
        read(self.files, &name, &*file, &mut tail, offset)?;
        // A length that was changed makes whole frames behind look like a part of this one.
        let behind = tail.get(FRAME_MAGIC.len()..).unwrap_or_default();
        if behind
            .windows(FRAME_MAGIC.len())
            .any(|four| four == FRAME_MAGIC)
        {
            return Ok(false);
        }
        let due = |header: &FrameHeader| {
            header.stream == self.id
                && header.frame == position.next_frame
                && header.first_entry == position.next_entry
        };
        let header = FrameHeader::decode(&tail).ok().filter(due);
        Ok(header.is_some_and(|header| u64::from(header.length) > bytes))
    }

    /// Copies what stands from `offset` on in the file `name` away. Gives the name of the copy.
    fn set_aside(&self, name: &str, offset: u64) -> Result<String, LogError> {
        let file = self.files.open_read(name)?;
        let length = match &file {
            Some(file) => self.files.attempt("measure", name, |_| file.length())?,
            None => offset,
        };
        set_aside::copy(self.files, name, offset..length)
    }

    /// Ends the segment at `position`.
    fn cut(&self, position: &Position) -> Result<(), LogError> {
        let name = self.segment(position);
        if position.begun {
            let file = self.files.segment(&name, false)?;
            self.files
                .attempt("cut", &name, |_| file.set_length(position.offset))?;
            return self.files.sync(&name);
        }
        self.files.remove(&name)?;
        self.files
            .sync_folder(&format!("streams/{}/segments", self.name))
    }

    /// Segments behind the last one hold nothing that is known to have been durable.
    fn clear_later_segments(&mut self, position: &Position) -> Result<(), LogError> {
        let folder = format!("streams/{}/segments", self.name);
        for file in self.files.list(&folder)? {
            let number = file
                .strip_suffix(".seg")
                .and_then(|digits| digits.parse::<u32>().ok());
            if number.is_some_and(|number| number > position.header.number) {
                let name = format!("{folder}/{file}");
                if self.holds_no_frame(&name)? {
                    let sentence = format!("{name}: removed, it holds no frame");
                    self.repairs.announce(self.files, sentence)?;
                    self.files.remove(&name)?;
                    self.files.sync_folder(&folder)?;
                    continue;
                }
                let kept = self.set_aside(&name, 0)?;
                let sentence =
                    format!("{name}: follows the last frame of the stream, set aside in {kept}");
                self.repairs.announce(self.files, sentence)?;
                self.files.remove(&name)?;
                self.files.sync_folder(&folder)?;
            }
        }
        Ok(())
    }

    /// Whether the segment `name` is no longer than its header: what a crash leaves of a rotation.
    fn holds_no_frame(&self, name: &str) -> Result<bool, LogError> {
        let Some(file) = self.files.open_read(name)? else {
            return Ok(true);
        };
        let length = self.files.attempt("measure", name, |_| file.length())?;
        Ok(length <= u64::try_from(SEGMENT_HEADER_BYTES).unwrap_or_default())
    }

    fn segment(&self, position: &Position) -> String {
        let file = segment_file_name(position.header.number);
        format!("streams/{}/{file}", self.name)
    }
}
