//! A copy of the log with one changed byte, as by somebody with access to the disk.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The place of the change.
pub(super) struct Tampering {
    /// The file, relative to the log's folder.
    pub(super) file: PathBuf,
    /// The offset of the changed byte.
    pub(super) offset: u64,
}

/// Copies the log at `log` to `copy` and flips one bit in the middle of a segment.
pub(super) fn tamper(log: &Path, copy: &Path) -> io::Result<Tampering> {
    copy_folder(log, copy)?;
    let segments = Path::new("streams/default/segments");
    let mut names = Vec::new();
    for entry in fs::read_dir(copy.join(segments))? {
        names.push(entry?.file_name());
    }
    let name = names.into_iter().min().ok_or(io::ErrorKind::NotFound)?;
    let file = segments.join(name);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(copy.join(&file))?;
    let offset = opened.metadata()?.len() / 2;
    let mut byte = [0];
    opened.read_exact_at(&mut byte, offset)?;
    opened.write_all_at(&byte.map(|byte| byte ^ 1), offset)?;
    Ok(Tampering { file, offset })
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
