//! The mark: a file with the format of the store, the generation of its data, and the data's key,
//! wrapped for just these.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use probity_format::keys::{RootKey, SECRET_BYTES, Secret};
use probity_format::wrap::{WrappedKind, WrappingKey};

use crate::generation::{create_anew, open_own, overwrite};
use crate::key_file::{random, random_nonce};
use crate::limits::FORMAT_VERSION;
use crate::open_error::OpenError;

/// The name of the mark.
pub(crate) const MARK_FILE: &str = "probity-store.toml";
/// The name under which it is written before it takes the other's place.
pub(crate) const NEW_MARK_FILE: &str = "probity-store.toml.new";
/// Longest mark that is read, in bytes.
const MARK_BYTES_MAX: u64 = 4096;
const KEY_LABEL: &[u8] = b"probity/store/file";
/// The format in which nothing was sealed.
const UNSEALED_VERSION: u32 = 1;
/// The format in which subjects had no keys of their own.
const UNOWNED_VERSION: u32 = 2;
/// The format in which the key of the file was sealed for no version and no generation.
const UNBOUND_VERSION: u32 = 3;
/// The format whose data did not say which keys of subjects had been given out.
const UNCOUNTED_VERSION: u32 = 4;
/// Fields that a mark may have.
const FIELDS: [&str; 4] = ["version", "generation", "id", "key"];

/// The content of a directory, as its mark describes it. Nothing of that is proven before the
/// file's key opens.
#[derive(Debug)]
pub(crate) enum Found {
    /// A store in which nothing is sealed.
    Unsealed,
    /// A store that an older program had begun and that never held anything.
    Begun,
    /// A store in which everything is sealed under one key.
    Unowned(Mark),
    /// A store of version 3, whose mark is bound to nothing.
    Unbound(Mark),
    /// A store of version 4, whose data does not say which keys of subjects were given out.
    Uncounted(Mark),
    /// A store.
    Sealed(Mark),
}

impl Found {
    /// The generation of the data that it names; 0 where none is sealed.
    pub(crate) const fn generation(&self) -> u64 {
        match self {
            Self::Unsealed | Self::Begun => 0,
            Self::Unowned(mark)
            | Self::Unbound(mark)
            | Self::Uncounted(mark)
            | Self::Sealed(mark) => mark.generation,
        }
    }
}

/// The generation of the data, and the file's key.
#[derive(Debug)]
pub(crate) struct Mark {
    version: u32,
    /// Counts the files that held the data, from 1 on.
    pub(crate) generation: u64,
    /// Random bytes that no other file has.
    id: [u8; SECRET_BYTES],
    /// The file's key, sealed under the key of the key file for this version and generation.
    wrapped: Vec<u8>,
}

impl Mark {
    /// A mark for another file, with its key.
    pub(crate) fn fresh(generation: u64, root: &RootKey) -> io::Result<(Self, Secret)> {
        let (id, secret) = (*random()?, Secret::copy_of(&*random()?));
        let wrapped = root.wrapping_key(&id).wrap(
            WrappedKind::Master,
            &label(FORMAT_VERSION, generation),
            &secret,
            random_nonce()?,
        );
        let mark = Self {
            version: FORMAT_VERSION,
            generation,
            id,
            wrapped: wrapped.map_err(io::Error::other)?,
        };
        Ok((mark, secret))
    }

    /// Returns the path of the keys of subjects.
    pub(crate) fn slots_path(&self, directory: &Path) -> PathBuf {
        slots_path(directory, self.generation)
    }

    /// Returns the path of the data.
    pub(crate) fn data_path(&self, directory: &Path) -> PathBuf {
        data_path(directory, self.generation)
    }

    /// Returns the key under which the keys of subjects are sealed.
    pub(crate) fn slots_key(&self, root: &RootKey) -> WrappingKey {
        root.wrapping_key(&self.id)
    }

    /// Returns the file's key; none if `root` is another store's, or the mark was changed.
    pub(crate) fn file_key(&self, root: &RootKey) -> Option<Secret> {
        let key = root.wrapping_key(&self.id);
        let label = label(self.version, self.generation);
        key.unwrap(WrappedKind::Master, &label, &self.wrapped).ok()
    }

    fn of(version: u32, fields: &[Option<&str>; FIELDS.len()]) -> Option<Self> {
        let [_, generation, id, key] = *fields;
        Some(Self {
            version,
            generation: generation?.parse().ok().filter(|it| *it > 0)?,
            id: bytes_of(id?)?.try_into().ok()?,
            wrapped: bytes_of(key?)?,
        })
    }

    fn text(&self) -> String {
        format!(
            "# A store of probity; see docs/store.md. Replaced when the store is rewritten.\n\
             version = {}\ngeneration = {}\nid = \"{}\"\nkey = \"{}\"\n",
            self.version,
            self.generation,
            digits(&self.id),
            digits(&self.wrapped)
        )
    }
}

/// Returns the path of a generation's keys of subjects.
pub(crate) fn slots_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("store.{generation}.subjects"))
}

/// Returns the path of a generation's data.
pub(crate) fn data_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("store.{generation}.sealed"))
}

/// Returns the label that binds the key of a file to version and generation.
fn label(version: u32, generation: u64) -> Vec<u8> {
    if version <= UNBOUND_VERSION {
        return KEY_LABEL.to_vec();
    }
    let parts: [&[u8]; 4] = [
        KEY_LABEL,
        b"/",
        &version.to_be_bytes(),
        &generation.to_be_bytes(),
    ];
    parts.concat()
}

/// Reads the mark of a directory; none where there is no mark.
pub(crate) fn read(directory: &Path) -> Result<Option<Found>, OpenError> {
    let path = directory.join(MARK_FILE);
    let io = |source| OpenError::Io {
        path: path.clone(),
        source,
    };
    let found = match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(io)?,
    };
    let damaged = || OpenError::Mark {
        path: path.clone(),
        problem: "is damaged: it does not say what a mark says",
    };
    if !found.is_file() {
        return Err(damaged());
    }
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(io)?;
    let read = file.take(MARK_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(io)? as u64 > MARK_BYTES_MAX {
        return Err(damaged());
    }
    let text = std::str::from_utf8(&bytes).map_err(|_not_text| damaged())?;
    let version = version_of(text).ok_or_else(damaged)?;
    if version > FORMAT_VERSION {
        return Err(OpenError::Version {
            path: directory.to_owned(),
            found: version,
        });
    }
    parsed(version, text).map(Some).ok_or_else(damaged)
}

/// Returns the version in a mark, whatever else stands there.
fn version_of(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("version = "));
    line?.trim().parse().ok()
}

/// Reads the mark of a known version; none if a line is missing, repeated or unknown.
fn parsed(version: u32, text: &str) -> Option<Found> {
    let mut fields = [None; FIELDS.len()];
    for line in text.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(" = ")?;
        let place = FIELDS.iter().position(|known| *known == name)?;
        let field = fields.get_mut(place)?;
        if field.replace(value.trim().trim_matches('"')).is_some() {
            return None;
        }
    }
    let is_bare = matches!(fields, [Some(_), None, None, None]);
    match version {
        UNSEALED_VERSION if is_bare => Some(Found::Unsealed),
        UNOWNED_VERSION | UNBOUND_VERSION if is_bare => Some(Found::Begun),
        UNOWNED_VERSION => Mark::of(version, &fields).map(Found::Unowned),
        UNBOUND_VERSION => Mark::of(version, &fields).map(Found::Unbound),
        UNCOUNTED_VERSION => Mark::of(version, &fields).map(Found::Uncounted),
        FORMAT_VERSION => Mark::of(version, &fields).map(Found::Sealed),
        _ => None,
    }
}

/// Puts a mark in the place of the one before, whole or not at all. The bytes of the one before,
/// which held the key of the file before, are overwritten. Returns whether none of them is left:
/// a mark that is a link or has another name keeps its bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "the store keeps its own directory"
)]
pub(crate) fn replace(directory: &Path, mark: &Mark) -> io::Result<bool> {
    let (path, new) = (directory.join(MARK_FILE), directory.join(NEW_MARK_FILE));
    let mut file = create_anew(&new)?;
    file.write_all(mark.text().as_bytes())?;
    file.sync_all()?;
    let (before, is_left) = match open_own(&path) {
        Ok(Some(before)) => (Some(before), false),
        Ok(None) => (None, true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (None, false),
        Err(error) => return Err(error),
    };
    // The file that it names is there before it is.
    File::open(directory)?.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()?;
    if let Some(before) = before {
        overwrite(&before)?;
    }
    Ok(!is_left)
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
