//! The key file of a store: one line, like the root key file of a log, readable by its owner alone.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use probity_format::keys::{RootKey, SECRET_BYTES, Secret};
use zeroize::Zeroizing;

use crate::generation;
use crate::open_error::OpenError;

const FILE_BYTES_MAX: u64 = 4096;
/// Enough for the longest file, so that no copy of a secret is left behind by growing.
const FILE_BYTES_CAPACITY: usize = 8192;
const NONCE_BYTES: usize = 12;

/// The key file that is used when none is named: the directory's path with `.key` behind it.
pub(crate) fn beside(directory: &Path) -> PathBuf {
    // `.` has no name that a suffix could be put behind, and the key must not lie in the store.
    let whole = match directory.file_name() {
        Some(_) => directory.to_owned(),
        None => directory
            .canonicalize()
            .unwrap_or_else(|_none| directory.to_owned()),
    };
    // `data/` and `data` are the same store and have the same key.
    let mut name = whole.components().as_path().as_os_str().to_owned();
    name.push(".key");
    PathBuf::from(name)
}

/// Reads the key at `path`.
pub(crate) fn read(path: &Path) -> Result<RootKey, OpenError> {
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_CAPACITY));
    let read = generation::open_plain(path).and_then(|file| {
        let length = file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok(length)
    });
    read.map_err(|source| OpenError::NoKey {
        path: path.to_owned(),
        source,
    })?;
    if text.starts_with('\u{feff}') {
        let what = "it begins with a byte-order mark, as some editors put in front of a text: save it without one";
        return Err(OpenError::NoKey {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, what),
        });
    }
    // The reason could quote the file, which may be a damaged key.
    RootKey::from_text(&text).map_err(|_reason| OpenError::WrongKey(path.to_owned()))
}

/// Returns the path of the key of an existing store. A crash between the store's mark and the key's
/// name leaves it under its half-made name.
pub(crate) fn place_of(path: &Path) -> io::Result<PathBuf> {
    let half = generation::half(path);
    let is_half = !path.try_exists()? && half.try_exists()?;
    Ok(if is_half { half } else { path.to_owned() })
}

/// A key for a store that has none yet; it lies nowhere before [`write()`].
pub(crate) fn fresh(path: &Path) -> Result<RootKey, OpenError> {
    let bytes = random().map_err(|error| failed(path, error))?;
    Ok(RootKey::new(Secret::copy_of(&bytes)))
}

/// Writes a new key, durably, under the name that it has until the store's mark is in force. Then
/// [`generation::settle`] gives it its own name.
pub(crate) fn write(path: &Path, root: &RootKey) -> io::Result<()> {
    let mut file = generation::create_anew(&generation::half(path))?;
    file.write_all(root.to_text().as_bytes())?;
    file.sync_all()?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// As many random bytes as a key has.
pub(crate) fn random() -> io::Result<Zeroizing<[u8; SECRET_BYTES]>> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    fill(&mut *bytes)?;
    Ok(bytes)
}

/// A random nonce, for a key that wraps.
pub(crate) fn random_nonce() -> io::Result<[u8; NONCE_BYTES]> {
    let mut bytes = [0; NONCE_BYTES];
    fill(&mut bytes)?;
    Ok(bytes)
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let filled = rand::fill(bytes);
    filled.map_err(|_none| io::Error::other("the system gives no random bytes"))
}

fn failed(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that an editor had saved with a byte-order mark was called the wrong one, and the advice was
    /// to look for another.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "prepares a file")]
    fn a_byte_order_mark_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.key");
        let root = fresh(&path).unwrap();
        std::fs::write(&path, format!("\u{feff}{}", root.to_text().as_str())).unwrap();
        let Err(OpenError::NoKey { source, .. }) = read(&path) else {
            panic!("a key with a mark was read");
        };
        assert!(source.to_string().contains("byte-order mark"), "{source}");
    }

    #[test]
    fn the_key_lies_beside_the_directory_and_never_in_it() {
        assert_eq!(beside(Path::new("a/data/")), Path::new("a/data.key"));
        assert_eq!(beside(Path::new("data")), Path::new("data.key"));
        let here = beside(Path::new("."));
        let folder = Path::new(".").canonicalize().unwrap();
        assert_eq!(here.parent(), folder.parent());
        assert_ne!(here.parent(), Some(folder.as_path()));
    }
}
