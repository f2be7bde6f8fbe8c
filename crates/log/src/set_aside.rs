//! Bytes that recovery found and did not believe: copied away, durably, before their place is used again.
//!
//! What is kept here is no evidence, and nothing reads it.

use std::ops::Range;

use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::scan::read;
use crate::storage::File;

/// The folder of copies.
pub(crate) const SET_ASIDE: &str = "set-aside";
/// Most copies kept of one place.
const COPIES_MAX: u32 = 10_000;
/// Bytes copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// Copies `range` of the file `name` to a file of its own, durably.
///
/// A copy that an earlier opening made and a crash kept from being reported is taken for this one.
pub(crate) fn copy(files: &Files, name: &str, range: Range<u64>) -> Result<(), LogError> {
    let file = files.open_read(name)?.ok_or_else(|| LogError::Broken {
        place: name.to_owned(),
        reason: "went away while it was repaired".into(),
    })?;
    let source = Source {
        files,
        name,
        file: &*file,
        range,
    };
    for number in 0..COPIES_MAX {
        let short = name.replace('/', "-");
        let kept = format!("{SET_ASIDE}/{short}-{}-{number}", source.range.start);
        let there = match files.open_read(&kept) {
            // What is no file there keeps nobody from another name.
            Err(error) if is_strange(&error) => continue,
            there => there?,
        };
        match there {
            Some(there) if source.equals(&kept, &*there)? => {
                // A crash may have come before it was durable.
                files.segment(&kept, false)?;
                files.sync(&kept)?;
                files.sync_folder(SET_ASIDE)?;
                return Ok(());
            }
            Some(_) => {}
            None => {
                return source.write(&kept);
            }
        }
    }
    Err(LogError::Broken {
        place: SET_ASIDE.into(),
        reason: format!("holds {COPIES_MAX} copies of one place; move them away"),
    })
}

/// Takes a piece at its place in the copy; false ends the reading.
type Take<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<bool, LogError>;

/// What is copied.
struct Source<'a> {
    files: &'a Files,
    name: &'a str,
    file: &'a dyn File,
    range: Range<u64>,
}

impl Source<'_> {
    /// Calls `take` for one piece after the other, with its place in the copy.
    fn pieces(&self, take: Take<'_>) -> Result<bool, LogError> {
        let mut buffer = Vec::new();
        let mut from = self.range.start;
        while from < self.range.end {
            let bytes = self.range.end.saturating_sub(from).min(COPY_BYTES);
            buffer.resize(usize::try_from(bytes).unwrap_or_default(), 0);
            read(self.files, self.name, self.file, &mut buffer, from)?;
            if !take(from.saturating_sub(self.range.start), &buffer)? {
                return Ok(false);
            }
            from = from.saturating_add(bytes);
        }
        Ok(true)
    }

    /// Whether the file `kept` holds the same bytes and no others.
    fn equals(&self, kept: &str, there: &dyn File) -> Result<bool, LogError> {
        let length = self.files.attempt("measure", kept, |_| there.length())?;
        if length != self.range.end.saturating_sub(self.range.start) {
            return Ok(false);
        }
        let mut other = Vec::new();
        self.pieces(&mut |place, piece| {
            other.resize(piece.len(), 0);
            read(self.files, kept, there, &mut other, place)?;
            Ok(other == piece)
        })
    }

    fn write(&self, kept: &str) -> Result<(), LogError> {
        self.files.segment(kept, true)?;
        self.pieces(&mut |place, piece| {
            self.files.write_at(kept, piece, place)?;
            Ok(true)
        })?;
        self.files.sync(kept)?;
        self.files.sync_folder(SET_ASIDE)
    }
}
