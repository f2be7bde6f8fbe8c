//! A copy of the log with one changed byte, as by somebody with access to the disk.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use probity_format::frame::{
    DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, FrameHeader,
};
use probity_format::segment::SEGMENT_HEADER_BYTES;

/// The place of the change.
pub(super) struct Tampering {
    /// The file, relative to the log's folder.
    pub(super) file: PathBuf,
    /// The offset of the changed byte.
    pub(super) offset: u64,
}

/// Copies the log at `log` to `copy` and flips one bit of what the middle frame of a segment seals.
pub(super) fn tamper(log: &Path, copy: &Path) -> io::Result<Tampering> {
    copy_folder(log, copy)?;
    let segments = Path::new("streams/default/segments");
    let mut names = Vec::new();
    for entry in fs::read_dir(copy.join(segments))? {
        names.push(entry?.file_name());
    }
    let name = names.into_iter().min().ok_or(io::ErrorKind::NotFound)?;
    let file = segments.join(name);
    let mut bytes = fs::read(copy.join(&file))?;
    let at = sealed_byte(&bytes)?;
    let byte = bytes.get_mut(at).ok_or(io::ErrorKind::InvalidData)?;
    *byte ^= 1;
    let opened = OpenOptions::new().write(true).open(copy.join(&file))?;
    let offset = u64::try_from(at).map_err(io::Error::other)?;
    opened.write_all_at(&[*byte], offset)?;
    Ok(Tampering { file, offset })
}

/// Returns the offset of a sealed byte in the frame that lies across the middle of `segment`: a
/// changed header would be reported in other words.
fn sealed_byte(segment: &[u8]) -> io::Result<usize> {
    let mut start = SEGMENT_HEADER_BYTES;
    loop {
        let rest = segment.get(start..).ok_or(io::ErrorKind::InvalidData)?;
        let header = FrameHeader::decode(rest).map_err(io::Error::other)?;
        let sections = usize::try_from(header.sections).map_err(io::Error::other)?;
        let end = start + usize::try_from(header.length).map_err(io::Error::other)?;
        if end > segment.len() / 2 {
            let sealed = start + FRAME_HEADER_BYTES + sections * DIRECTORY_ENTRY_BYTES;
            return Ok(sealed.midpoint(end - FRAME_TRAILER_BYTES));
        }
        start = end;
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
