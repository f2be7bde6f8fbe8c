//! The mark: the file that says what the directory is, which file holds the data, and that file's key, sealed.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, SECRET_BYTES, Secret};
use probity_format::wrap::{WrappedKind, WrappingKey};

use crate::directory::OpenError;
use crate::key_file::random;
use crate::limits::FORMAT_VERSION;

/// The name of the mark.
pub(crate) const MARK_FILE: &str = "probity-store.toml";
/// The name under which it is written before it takes the other's place.
pub(crate) const NEW_MARK_FILE: &str = "probity-store.toml.new";
/// Longest mark that is read, in bytes.
const MARK_BYTES_MAX: u64 = 4096;
const FILE_MODE: u32 = 0o600;
const NONCE_BYTES: usize = 12;
const KEY_LABEL: &[u8] = b"probity/store/file";
/// The format in which nothing was sealed.
const UNSEALED_VERSION: u32 = 1;
/// The format in which subjects had no keys of their own.
const UNOWNED_VERSION: u32 = 2;

/// What a directory is.
#[derive(Debug)]
pub(crate) enum Found {
    /// A store in which nothing is sealed.
    Unsealed,
    /// A store that was begun and never held anything.
    Begun,
    /// A store in which everything is sealed under one key.
    Unowned(Mark),
    /// A store.
    Sealed(Mark),
}

/// Which file holds the data, and its key.
#[derive(Debug)]
pub(crate) struct Mark {
    /// Counts the files that held the data, from 1 on.
    pub(crate) generation: u64,
    /// Random bytes that no other file has.
    id: [u8; SECRET_BYTES],
    /// The file's key, sealed under the key of the key file.
    wrapped: Vec<u8>,
}

impl Mark {
    /// A mark for another file, with its key.
    pub(crate) fn fresh(generation: u64, root: &RootKey) -> io::Result<(Self, Secret)> {
        let (id, secret, nonce) = (*random()?, Secret::copy_of(&*random()?), random()?);
        let nonce = nonce.first_chunk::<NONCE_BYTES>().copied();
        let wrapped = root.wrapping_key(&id).wrap(
            WrappedKind::Master,
            KEY_LABEL,
            &secret,
            nonce.unwrap_or_default(),
        );
        let wrapped = wrapped.map_err(io::Error::other)?;
        let mark = Self {
            generation,
            id,
            wrapped,
        };
        Ok((mark, secret))
    }

    /// The name of the file that holds the data.
    pub(crate) fn file_name(&self) -> String {
        format!("store.{}.sealed", self.generation)
    }

    /// Where the keys of subjects lie.
    pub(crate) fn slots_name(&self) -> String {
        format!("store.{}.subjects", self.generation)
    }

    /// Under which the keys of subjects are sealed.
    pub(crate) fn slots_key(&self, root: &RootKey) -> WrappingKey {
        root.wrapping_key(&self.id)
    }

    /// The file's key; none where `root` is another's.
    pub(crate) fn file_key(&self, root: &RootKey) -> Option<Secret> {
        let key = root.wrapping_key(&self.id);
        key.unwrap(WrappedKind::Master, KEY_LABEL, &self.wrapped)
            .ok()
    }

    fn text(&self) -> String {
        format!(
            "generation = {}\nid = \"{}\"\nkey = \"{}\"\n",
            self.generation,
            digits(&self.id),
            digits(&self.wrapped)
        )
    }
}

/// Reads the mark of a directory; none where there is no mark.
pub(crate) fn read(directory: &Path) -> Result<Option<Found>, OpenError> {
    let path = directory.join(MARK_FILE);
    let io = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let foreign = || OpenError::NotAStore(directory.to_owned());
    if !path.try_exists().map_err(io)? {
        return Ok(None);
    }
    if fs::metadata(&path).map_err(io)?.len() > MARK_BYTES_MAX {
        return Err(foreign());
    }
    let bytes = fs::read(&path).map_err(io)?;
    let text = String::from_utf8(bytes).map_err(|_not_text| foreign())?;
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.strip_prefix(" = ")?.trim().trim_matches('"'))
    };
    let version: u32 = field("version")
        .and_then(|version| version.parse().ok())
        .ok_or_else(foreign)?;
    match version {
        UNSEALED_VERSION => return Ok(Some(Found::Unsealed)),
        UNOWNED_VERSION | FORMAT_VERSION => {}
        found => {
            let path = directory.to_owned();
            return Err(OpenError::Version { path, found });
        }
    }
    let Some(generation) = field("generation") else {
        return Ok(Some(Found::Begun));
    };
    let mark = || {
        Some(Mark {
            generation: generation.parse().ok()?,
            id: bytes_of(field("id")?)?.try_into().ok()?,
            wrapped: bytes_of(field("key")?)?,
        })
    };
    let mark = mark().ok_or_else(foreign)?;
    Ok(Some(match version {
        UNOWNED_VERSION => Found::Unowned(mark),
        _ => Found::Sealed(mark),
    }))
}

/// Puts a mark in the place of the one before, whole or not at all; none marks a store that is to be begun. The bytes of
/// the one before, which held the key of the file before, are overwritten.
#[expect(
    clippy::disallowed_methods,
    reason = "the store keeps its own directory"
)]
pub(crate) fn replace(directory: &Path, mark: Option<&Mark>) -> io::Result<()> {
    let text = format!(
        "# A store of probity; see docs/store.md. Replaced when the store is rewritten.\n\
         version = {FORMAT_VERSION}\n{}",
        mark.map(Mark::text).unwrap_or_default()
    );
    let (path, new) = (directory.join(MARK_FILE), directory.join(NEW_MARK_FILE));
    let mut opening = OpenOptions::new();
    opening.write(true).create(true).truncate(true);
    let mut file = opening.mode(FILE_MODE).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let before = match OpenOptions::new().write(true).open(&path) {
        Ok(before) => Some(before),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // The file that it names is there before it is.
    File::open(directory)?.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()?;
    before.map_or(Ok(()), |before| overwrite(&before))
}

/// Overwrites a file with zeros, durably.
pub(crate) fn overwrite(mut file: &File) -> io::Result<()> {
    const ZEROS: [u8; 8192] = [0; 8192];
    let mut left = file.metadata()?.len();
    while left > 0 {
        let count = left.min(ZEROS.len() as u64);
        let zeros = usize::try_from(count).ok().and_then(|it| ZEROS.get(..it));
        file.write_all(zeros.unwrap_or_default())?;
        left -= count;
    }
    file.sync_all()
}

/// Where the data of a generation lies.
pub(crate) fn data_path(directory: &Path, mark: &Mark) -> PathBuf {
    directory.join(mark.file_name())
}

fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.iter().map(byte).collect()
}
