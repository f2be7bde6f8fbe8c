//! Files that a command makes: they appear whole, or not at all.

#![expect(
    clippy::disallowed_methods,
    reason = "what a command hands out is no part of the log"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 256 * 1024;
/// Contents of a log are personal data: for the owner alone.
const FILE_MODE: u32 = 0o600;

/// A file under way, beside its place. Dropping it leaves nothing behind.
pub(crate) struct OutputFile {
    out: Option<BufWriter<File>>,
    part: PathBuf,
    path: PathBuf,
}

impl OutputFile {
    /// Begins the file at `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".part-{}", std::process::id()));
        let part = PathBuf::from(part);
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).mode(FILE_MODE);
        let file = options.open(&part)?;
        Ok(Self {
            out: Some(BufWriter::with_capacity(BUFFER_BYTES, file)),
            part,
            path: path.to_owned(),
        })
    }

    /// Puts the complete file in its place, replacing what was there.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(out) = self.out.take() {
            out.into_inner()
                .map_err(io::IntoInnerError::into_error)?
                .sync_all()?;
        }
        fs::rename(&self.part, &self.path)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or(Ok(0), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        // Gone when it was put in its place; otherwise the error that ended the writing is the one to report.
        drop(fs::remove_file(&self.part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made");
        fs::write(&path, "before").unwrap();
        let mut given_up = OutputFile::create(&path).unwrap();
        given_up.write_all(b"half").unwrap();
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        let mut made = OutputFile::create(&path).unwrap();
        made.write_all(b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        made.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
