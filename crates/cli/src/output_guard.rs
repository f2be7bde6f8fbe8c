//! Paths that no command writes to: logs and their heads, embedded stores, irreplaceable keys and
//! databases.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::{Geometry, GeometryError};
use probity_format::note::{SignedNote, VerifierKey};
use probity_store::Store;

/// The file that makes a folder a log; the configuration of a server may have the same name.
const GEOMETRY: &str = "probity.toml";
/// Folders of a log.
const LOG_FOLDERS: [&str; 2] = ["keys", "streams"];
/// Bytes that suffice to recognise a file: no key and no checkpoint is longer.
const HEAD_BYTES: u64 = 16 * 1024;
/// The byte order mark that an editor may have put before a key.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The first bytes of files that nobody can make again, and the kind of each.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"probity-", "a key"),
    (b"PROBSEG1", "a segment of a log"),
    (b"PBWK", "a key of a log"),
    (b"PRBFLASH", "a pocket database"),
    (b"PRBPOCKT", "a pocket database's root file"),
    (b"SQLite format 3\0", "a database"),
    (b"redb\x1a\x0a\xa9\x0d\x0a", "an embedded store"),
    (b"# A store of probity", "the mark of an embedded store"),
    (b"PRIVATE+KEY+", "a key that signs notes"),
    // PEM and DER: certificates and their keys.
    (b"-----BEGIN ", "a certificate or a key"),
    (b"\x30\x82", "a certificate or a key"),
];

/// Files and folders that the running command depends on, with every link resolved.
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Keeps this process from writing to the file at `path`, or to the folder and all in it.
pub(crate) fn protect(path: &Path) {
    let path = resolved(path);
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    if !in_use.contains(&path) {
        in_use.push(path);
    }
}

/// The reason why a file may not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The file exists, and nothing allows its replacement.
    Exists,
    /// A file is there, and the command has an option to replace it.
    Replaceable,
    /// The place is within a log.
    InLog(PathBuf),
    /// The place is the key, the verifier key or the folder of heads of a log.
    OfLog(PathBuf),
    /// The place is within an embedded store, whose mark is the only place of its key.
    InStore(PathBuf),
    /// The place is the key file of an embedded store.
    OfStore(PathBuf),
    /// The name stands for standard output elsewhere.
    Dash,
    /// The command itself depends on the file at this place.
    InUse,
    /// The file to replace cannot be made again.
    Precious(&'static str),
    /// The file to replace is no plain file, or has other names.
    NotPlain(&'static str),
}

impl Refusal {
    /// Returns the remedy.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Exists => "name a file that does not exist yet",
            Self::Replaceable => {
                "name a file that does not exist yet; --overwrite replaces what is there"
            }
            Self::NotPlain(_) => {
                "name a plain file; where the command writes to standard output without the option, leave it out for that"
            }
            Self::Dash => {
                "leave the option out where the command writes to standard output without it; a file of that name is written as ./-"
            }
            _ => "name another file; nothing was written",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists | Self::Replaceable => f.write_str("it is there already"),
            Self::InLog(log) => write!(f, "it would lie within the log {}", log.display()),
            Self::OfLog(log) => write!(f, "it belongs to the log {}", log.display()),
            Self::InStore(store) => {
                write!(
                    f,
                    "it would lie within the embedded store {}",
                    store.display()
                )
            }
            Self::OfStore(store) => {
                write!(f, "it belongs to the embedded store {}", store.display())
            }
            Self::Dash => f.write_str("it stands for standard output and names no file"),
            Self::InUse => f.write_str("this command itself uses what lies there"),
            Self::Precious(what) => {
                write!(f, "what is there is {what}, which is never overwritten")
            }
            Self::NotPlain(what) => write!(f, "what is there is {what}"),
        }
    }
}

impl Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Exists | Refusal::Replaceable => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, refusal)
    }
}

/// Returns whether `error` refuses a file its place.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let refusal: Option<&Refusal> = error.get_ref().and_then(|cause| cause.downcast_ref());
    refusal.is_some()
}

/// Refuses a path that no new file may have, whatever exists there.
pub(crate) fn check_new(path: &Path) -> io::Result<()> {
    if path.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it names a folder",
        ));
    }
    let folder = fs::canonicalize(folder_of(path))?;
    for above in folder.ancestors() {
        if is_log(above) {
            return Err(Refusal::InLog(above.to_owned()).into());
        }
        if Store::is_there(above) {
            return Err(Refusal::InStore(above.to_owned()).into());
        }
        if let Some(log) = log_beside(above, &["heads"]) {
            return Err(Refusal::OfLog(log).into());
        }
        if is_in_use(above) {
            return Err(Refusal::InUse.into());
        }
    }
    let place = resolved(path);
    if is_in_use(&place) || is_in_use(path) {
        return Err(Refusal::InUse.into());
    }
    Ok(())
}

/// Refuses the name of a log's key, verifier key or folder of heads, and of a store's key, and the
/// name that stands for standard output.
pub(crate) fn check_name(path: &Path) -> io::Result<()> {
    if path == Path::new("-") {
        return Err(Refusal::Dash.into());
    }
    let place = resolved(path);
    let store = place.with_extension("");
    if place.extension().is_some_and(|it| it == "key") && Store::is_there(&store) {
        return Err(Refusal::OfStore(store).into());
    }
    match log_beside(&place, &["key", "vkey", "heads"]) {
        Some(log) => Err(Refusal::OfLog(log).into()),
        None => Ok(()),
    }
}

/// Refuses to replace the file at `path`, unless it is a plain file of which another can be made.
pub(crate) fn check_replaced(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.file_type().is_symlink() {
        return Err(Refusal::NotPlain("a symbolic link").into());
    }
    if !found.is_file() {
        return Err(Refusal::NotPlain("no plain file").into());
    }
    if found.nlink() > 1 {
        return Err(Refusal::NotPlain("a file with several names (hard links)").into());
    }
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    precious(&head).map_or(Ok(()), |what| Err(Refusal::Precious(what).into()))
}

/// Returns the kind of a file that begins with `head`, if none like it can be made again.
fn precious(head: &[u8]) -> Option<&'static str> {
    let head = head.strip_prefix(MARK).unwrap_or(head);
    let known = BEGINNINGS.iter().find(|(begin, _)| head.starts_with(begin));
    if let Some((_, what)) = known {
        return Some(what);
    }
    let text = str::from_utf8(head).ok()?;
    if VerifierKey::parse(text.trim_end()).is_ok() {
        return Some("a verifier key");
    }
    let note = SignedNote::parse(head).ok()?;
    Checkpoint::parse(note.text())
        .ok()
        .map(|_| "a signed head of a log")
}

/// Returns the kind of a file that begins with `head`, if that is a secret key or a part of one.
pub(crate) fn secret(head: &[u8]) -> Option<&'static str> {
    const KINDS: [&str; 2] = ["a key", "a key that signs notes"];
    precious(head).filter(|what| KINDS.contains(what))
}

/// Returns the folder that holds `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or_else(|| Path::new("."))
}

/// Returns whether `folder` is a log, or the remains of one.
fn is_log(folder: &Path) -> bool {
    let geometry = folder.join(GEOMETRY);
    if geometry.symlink_metadata().is_err() {
        return false;
    }
    if LOG_FOLDERS.iter().any(|name| folder.join(name).is_dir()) {
        return true;
    }
    let mut text = String::new();
    let read =
        File::open(geometry).and_then(|file| file.take(HEAD_BYTES).read_to_string(&mut text));
    // An unreadable file could be a log's.
    read.is_err() || !matches!(Geometry::parse(&text), Err(GeometryError::Malformed(_)))
}

/// Returns the log that the file or folder at `path` lies beside and belongs to.
fn log_beside(path: &Path, endings: &[&str]) -> Option<PathBuf> {
    let ending = path.extension()?;
    let log = path.with_extension("");
    let is_part = endings.iter().any(|known| ending == *known);
    (is_part && is_log(&log)).then_some(log)
}

/// Compares by name, and by device and inode, which other names of a file share.
fn is_in_use(path: &Path) -> bool {
    let place = place_of(path);
    let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    in_use
        .iter()
        .any(|known| known == path || (place.is_some() && place_of(known) == place))
}

/// Resolves every link in `path`, the last name too if it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    if let Ok(whole) = fs::canonicalize(path) {
        return whole;
    }
    match (fs::canonicalize(folder_of(path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Returns whether two paths lead to one file, or would once it exists.
pub(crate) fn is_one_file(one: &Path, other: &Path) -> bool {
    let place = place_of(one);
    resolved(one) == resolved(other) || (place.is_some() && place == place_of(other))
}

/// Returns the device and the inode, which identify a file while it exists.
fn place_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
