//! The store's directory: whose it is, which format, and that no other process has it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError};

use crate::limits::FORMAT_VERSION;
use crate::store::Options;

/// The file that says what the directory is.
const MARK_FILE: &str = "probity-store.toml";
/// The file that holds everything else.
const DATA_FILE: &str = "store.redb";
/// Longest mark that is read, in bytes.
const MARK_BYTES_MAX: u64 = 4096;
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory holds something else.
    #[error("{} is no store, and not empty; choose an empty or a new directory", .0.display())]
    NotAStore(PathBuf),
    /// A newer version wrote it.
    #[error("the store in {} has format version {found}, this program knows {FORMAT_VERSION}; use the newer program", .path.display())]
    Version {
        /// The directory.
        path: PathBuf,
        /// The version found.
        found: u32,
    },
    /// Another process uses it.
    #[error("the store in {} is in use by another process; stop that one or choose another directory", .0.display())]
    InUse(PathBuf),
    /// A file could not be read or written.
    #[error("cannot use {}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The data is damaged.
    #[error("the data in {} cannot be opened", .path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: redb::Error,
    },
    /// Its thread could not be started.
    #[error("cannot start the store's thread")]
    Thread(#[source] io::Error),
}

/// Opens the data in `directory`.
pub(crate) fn open(directory: &Path, options: &Options) -> Result<Database, OpenError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| OpenError::Io { path, source }
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    builder.create(directory).map_err(at(directory))?;
    let mark = directory.join(MARK_FILE);
    if mark.try_exists().map_err(at(&mark))? {
        check_mark(directory, &mark)?;
    } else {
        check_empty(directory)?;
        write_mark(directory, &mark).map_err(at(&mark))?;
    }
    let path = directory.join(DATA_FILE);
    let mut opening = OpenOptions::new();
    // Made here so that nobody but the owner can read it; redb would leave that to the umask.
    opening.create(true).append(true).mode(FILE_MODE);
    opening.open(&path).map_err(at(&path))?;
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_bytes);
    builder.create(&path).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(directory.to_owned()),
        error => OpenError::Data {
            path,
            source: error.into(),
        },
    })
}

/// Whether the directory is one that this program knows.
fn check_mark(directory: &Path, mark: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io {
        path: mark.to_owned(),
        source,
    };
    let foreign = || OpenError::NotAStore(directory.to_owned());
    if fs::metadata(mark).map_err(io)?.len() > MARK_BYTES_MAX {
        return Err(foreign());
    }
    let bytes = fs::read(mark).map_err(io)?;
    let text = String::from_utf8(bytes).map_err(|_not_text| foreign())?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("version = "));
    let found: u32 = version
        .and_then(|version| version.trim().parse().ok())
        .ok_or_else(foreign)?;
    if found == FORMAT_VERSION {
        return Ok(());
    }
    let path = directory.to_owned();
    Err(OpenError::Version { path, found })
}

fn check_empty(directory: &Path) -> Result<(), OpenError> {
    let io = |source| OpenError::Io {
        path: directory.to_owned(),
        source,
    };
    let mut entries = fs::read_dir(directory).map_err(io)?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(OpenError::NotAStore(directory.to_owned())),
    }
}

/// Writes the mark so that it is there whole or not at all, before any data is.
fn write_mark(directory: &Path, mark: &Path) -> io::Result<()> {
    let text = format!(
        "# A store of probity; see docs/store.md. Written once, when it was created.\n\
         version = {FORMAT_VERSION}\n"
    );
    let mut opening = OpenOptions::new();
    opening.write(true).create_new(true).mode(FILE_MODE);
    let mut file = opening.open(mark)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::File::open(directory)?.sync_all()
}
