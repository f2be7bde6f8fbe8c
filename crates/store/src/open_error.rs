//! Reasons why a store was not opened, and the remedies.

use std::io;
use std::path::{Path, PathBuf};

use crate::fail::Fail;
use crate::limits::FORMAT_VERSION;

/// Reason why a store was not opened.
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
    /// The mark is gone, damaged, or says something else than when the store was written.
    #[error("{} {problem}; put the mark back from a backup of this store; nothing was changed", .path.display())]
    Mark {
        /// The mark.
        path: PathBuf,
        /// The problem of the mark.
        problem: &'static str,
    },
    /// A file is newer than the mark says that the store is.
    #[error("{} is newer than its store's mark, {}, says; put back the mark that was made with it, or, where an older program was killed while it rewrote the store, move the file elsewhere and keep it; nothing was changed", .file.display(), .mark.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// The mark.
        mark: PathBuf,
    },
    /// A file has the name of a half-made one, and may belong to a store without its mark.
    #[error("{} may hold a store whose mark, {}, is gone; take `.new` off the names of the store's files, or put the mark back from a backup of this store, or, where this store had never been started to its end, move the file elsewhere; nothing was changed", .file.display(), .mark.display())]
    Unnamed {
        /// The file.
        file: PathBuf,
        /// The mark.
        mark: PathBuf,
    },
    /// There is a key and no store that it belongs to.
    #[error("{} is the key of a store, and there is none in {}; put the store's files back from a backup, or, for a new store, move the key elsewhere and keep it; nothing was changed", .key.display(), .directory.display())]
    NoStore {
        /// The key file.
        key: PathBuf,
        /// The directory.
        directory: PathBuf,
    },
    /// A store in which nothing is sealed may have been put in the place of a sealed one.
    #[error("the store in {} is one of version 1, in clear, and yet has a key, {}; where a sealed store was, put its files back from a backup; to convert this one all the same, call `probity store rewrite` with --from-clear; nothing was changed", .directory.display(), .key.display())]
    Clear {
        /// The directory.
        directory: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// Another process uses it.
    #[error("the store in {} is in use by another process; stop that one or choose another directory", .0.display())]
    InUse(PathBuf),
    /// The key of a store that is there cannot be read.
    #[error("the key of the store cannot be read from {}; put its key file there, without which nobody can read the store", .path.display())]
    NoKey {
        /// The key file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The key file is another's, or damaged.
    #[error("the key in {} does not open the store; put the key file there that was made with it, or, where it is that one, put the store's mark back from a backup; nothing was changed", .0.display())]
    WrongKey(PathBuf),
    /// The keys of the subjects are missing or damaged.
    #[error("the keys of subjects in {} cannot be read; put the file there that belongs to the store's other files", .path.display())]
    Subjects {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        #[source]
        source: io::Error,
    },
    /// A file could not be read or written. The stored data is as it was.
    #[error("cannot use {}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The data is damaged.
    #[error("the data in {} cannot be opened; put the files of the store back from a backup, all of one time", .path.display())]
    Data {
        /// The file.
        path: PathBuf,
        /// The defect of the data.
        #[source]
        source: redb::Error,
    },
    /// Its thread could not be started.
    #[error("cannot start the store's thread")]
    Thread(#[source] io::Error),
}

impl OpenError {
    /// Returns whether the disk is full. The stored data is whole, and opens once there is room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }

    /// Returns whether what is stored, or the keys of subjects, are damaged or gone.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Data { .. } | Self::Subjects { .. })
    }

    /// Returns whether a file of the store is not what was written: one that is damaged, or its mark.
    pub const fn is_not_what_was_written(&self) -> bool {
        self.is_damage() || matches!(self, Self::Mark { .. })
    }

    /// Classifies an error while the data at `from` was copied to `to`. The copy is new: damage is in
    /// what was read.
    pub(crate) fn of_copy(from: Option<&Path>, to: &Path, fail: Fail) -> Self {
        let from = from.unwrap_or(to);
        let corrupted = |what| Self::of_file(from)(redb::Error::Corrupted(what));
        match fail {
            Fail::Damaged(what) => Self::Subjects {
                path: from.with_extension("subjects"),
                source: io::Error::new(io::ErrorKind::InvalidData, what),
            },
            Fail::Said(text) => corrupted(String::from_utf8_lossy(&text).into_owned()),
            Fail::Store(error) => match Self::of_file(to)(error) {
                Self::Data { source, .. } => Self::of_file(from)(source),
                error => error,
            },
        }
    }

    /// Classifies an error in the data at `path`: a disk that refuses is no damage.
    pub(crate) fn of_file(path: &Path) -> impl Fn(redb::Error) -> Self {
        let path = path.to_owned();
        move |source| match source {
            redb::Error::Io(source) if !is_damage(source.kind()) => Self::Io {
                path: path.clone(),
                source,
            },
            source => Self::Data {
                path: path.clone(),
                source,
            },
        }
    }
}

/// Returns whether an error in the use of the mark's file means that the file was changed. A block
/// that does not open is such an error, and so is the early end of a file that was cut.
pub(crate) const fn is_damage(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::NotFound
            | io::ErrorKind::IsADirectory
    )
}
