//! Bytes that recovery found and did not trust: copied away, durably, before their place is used
//! again.
//!
//! The copies are no evidence, and nothing reads them.

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
/// A copy that an earlier opening made, and could not report because of a crash, is reused.
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
            // Something that is no file only blocks this one name, unless the folder itself is
            // none.
            Err(error) if is_strange(&error) => {
                check_folder(files)?;
                continue;
            }
            there => there?,
        };
        match there {
            Some(there) if source.equals(&kept, &*there)? => {
                // A crash may have come before the copy was durable.
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
    Err(full())
}

/// Moves `name`, which is no file, to a name of its own; durable once the folder of `name` is
/// synced.
///
/// # Errors
/// Errors of the storage.
pub(crate) fn take(files: &Files, name: &str) -> Result<(), LogError> {
    check_folder(files)?;
    let there = files.list(SET_ASIDE)?;
    let short = name.replace('/', "-");
    let mut names = (0..COPIES_MAX).map(|number| format!("{short}-{number}"));
    let Some(free) = names.find(|it| !there.contains(it)) else {
        return Err(full());
    };
    files.carry(name, &format!("{SET_ASIDE}/{free}"))?;
    files.sync_folder(SET_ASIDE)
}

fn full() -> LogError {
    LogError::Broken {
        place: SET_ASIDE.into(),
        reason: format!("holds {COPIES_MAX} copies of one place; move them away"),
    }
}

fn check_folder(files: &Files) -> Result<(), LogError> {
    match files.list(SET_ASIDE) {
        Err(error) if is_strange(&error) => Err(LogError::Broken {
            place: SET_ASIDE.into(),
            reason: "is no folder, so that nothing can be set aside in it; move it away".into(),
        }),
        listed => listed.map(drop),
    }
}

/// Takes a piece at its place in the copy; false ends the reading.
type Take<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<bool, LogError>;

/// The range of a file that is copied.
struct Source<'a> {
    files: &'a Files,
    name: &'a str,
    file: &'a dyn File,
    range: Range<u64>,
}

impl Source<'_> {
    /// Calls `take` for one piece after the other, with its place in the copy. Holes are skipped: a
    /// file may be longer than any disk.
    fn pieces(&self, take: Take<'_>) -> Result<bool, LogError> {
        let mut buffer = Vec::new();
        let mut from = self.range.start;
        loop {
            let data = self
                .files
                .attempt("read", self.name, |_| self.file.next_data(from))?;
            let Some(place) = data.filter(|place| *place < self.range.end) else {
                return Ok(true);
            };
            let bytes = self.range.end.saturating_sub(place).min(COPY_BYTES);
            buffer.resize(usize::try_from(bytes).unwrap_or_default(), 0);
            read(self.files, self.name, self.file, &mut buffer, place)?;
            if !take(place.saturating_sub(self.range.start), &buffer)? {
                return Ok(false);
            }
            from = place.saturating_add(bytes);
        }
    }

    /// Number of bytes of the copy.
    const fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Returns whether the file `kept` holds the same bytes and no others.
    fn equals(&self, kept: &str, there: &dyn File) -> Result<bool, LogError> {
        let length = self.files.attempt("measure", kept, |_| there.length())?;
        if length != self.bytes() {
            return Ok(false);
        }
        let copy = Source {
            files: self.files,
            name: kept,
            file: there,
            range: 0..length,
        };
        // A hole in one may be zeros in the other.
        Ok(self.is_in(&copy)? && copy.is_in(self)?)
    }

    /// Returns whether `other` holds the bytes of this one, except for holes.
    fn is_in(&self, other: &Source<'_>) -> Result<bool, LogError> {
        let mut there = Vec::new();
        self.pieces(&mut |place, piece| {
            there.resize(piece.len(), 0);
            let place = other.range.start.saturating_add(place);
            read(other.files, other.name, other.file, &mut there, place)?;
            Ok(there == piece)
        })
    }

    fn write(&self, kept: &str) -> Result<(), LogError> {
        let written = self.write_pieces(kept);
        if written.is_err() {
            // A partial copy takes disk space, and could not be told from a whole one.
            drop(self.files.remove(kept));
        }
        written
    }

    fn write_pieces(&self, kept: &str) -> Result<(), LogError> {
        let file = self.files.segment(kept, true)?;
        self.files
            .attempt("extend", kept, |_| file.set_length(self.bytes()))?;
        self.pieces(&mut |place, piece| {
            self.files.write_at(kept, piece, place)?;
            Ok(true)
        })?;
        self.files.sync(kept)?;
        self.files.sync_folder(SET_ASIDE)
    }
}
