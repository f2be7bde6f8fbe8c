//! Creates a log; a crash on the way leaves nothing that blocks a second attempt.

use std::path::Path;
use std::sync::Arc;

use probity_format::checkpoint::Checkpoint;
use probity_format::geometry::{Geometry, is_named_as_stream};
use probity_format::keys::{RootKey, Secret};
use probity_format::note::{SignedNote, Signer as _};
use probity_format::segment::segment_file_name;
use probity_format::stream::{StreamConfig, StreamName};

use crate::clock::{Clock, SystemClock};
use crate::config::Options;
use crate::continuation::Continued;
use crate::durable::{DURABLE, speak_of_frames};
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::history::{GEOMETRY, read_checkpoint, read_geometry};
use crate::keystore::{KEYS, KeyStore, random, random_secret, signing_key};
use crate::log::Log;
use crate::log_location::LogLocation;
use crate::repairs::{PENDING, PENDING_BYTES_MAX};
use crate::scan::{Position, scan};
use crate::segments::Identity;
use crate::set_aside::{self, SET_ASIDE};
use crate::startup::{self, LOCK};

/// The names that a creation may leave before the journal's first frame, without those below them.
const LEFTOVERS: [&str; 7] = [LOCK, KEYS, GEOMETRY, PENDING, DURABLE, SET_ASIDE, "streams"];
const JOURNAL_SEGMENTS: &str = "streams/journal/segments";

impl Log {
    /// Returns whether there is a log at `path`, of any version and state.
    ///
    /// A creation that was cut short before anything could be recorded does not count.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn exists(path: &Path) -> Result<bool, LogError> {
        let places = LogLocation::new(path, None);
        exists(&places, &Files::of_log(&places, &Options::default()))
    }

    /// The geometry of the log at `path`: its fixed properties.
    ///
    /// # Errors
    /// [`LogError::NotALog`]; [`LogError::Version`]; [`LogError::Broken`] where a log has none that
    /// can be read; [`LogError::Storage`].
    pub fn geometry(path: &Path) -> Result<Geometry, LogError> {
        let places = LogLocation::new(path, None);
        read_geometry(&Files::of_log(&places, &Options::default()), &places.path)
    }

    /// Creates a log at `path` with the streams `journal` and `default`, the latter with `config`,
    /// and returns it open for writing.
    ///
    /// `origin` is the log's name in its checkpoints, like `example.com/audit`. A creation that a
    /// crash cut short is begun anew.
    ///
    /// # Errors
    /// [`LogError::Exists`], [`LogError::NotALog`] where something else is, [`LogError::Locked`],
    /// [`LogError::Storage`], [`LogError::Option`].
    pub fn create(
        path: &Path,
        origin: &str,
        root: &RootKey,
        config: StreamConfig,
        options: Options,
    ) -> Result<Self, LogError> {
        let places = LogLocation::new(path, options.heads.as_ref());
        let clock = Arc::new(SystemClock::new());
        Self::create_at(&places, origin, root, config, options, clock)
    }

    /// Creates a log like [`Log::create`]; its journal records that it continues the one of
    /// `continued`.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub fn create_after(
        continued: &Continued,
        path: &Path,
        origin: &str,
        root: &RootKey,
        config: StreamConfig,
        options: Options,
    ) -> Result<Self, LogError> {
        let places = LogLocation::new(path, options.heads.as_ref());
        let clock = Arc::new(SystemClock::new());
        let first = First {
            config,
            continued: Some(continued),
        };
        create(&places, origin, root, &first, options, clock)
    }

    /// Creates a log like [`Log::create`], at any places and with any clock.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub fn create_at(
        places: &LogLocation,
        origin: &str,
        root: &RootKey,
        config: StreamConfig,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LogError> {
        let first = First {
            config,
            continued: None,
        };
        create(places, origin, root, &first, options, clock)
    }
}

/// Refuses a name that no log can have, before a key is made for one.
///
/// # Errors
/// [`LogError::Option`]; [`LogError::Storage`] where the system has no random bytes.
pub fn check_origin(origin: &str) -> Result<(), LogError> {
    geometry(origin, &random_secret()?, &random_secret()?).map(drop)
}

impl LogLocation {
    /// Refuses a place in which no log can be created, before anything is made for one. It is
    /// checked again when the log is created.
    ///
    /// # Errors
    /// [`LogError::Exists`], [`LogError::NotALog`] where something else is,
    /// [`LogError::HeadsOfAnother`], [`LogError::HeadsInLog`], [`LogError::HeadsAreLog`],
    /// [`LogError::Storage`].
    pub fn check_vacant(&self) -> Result<(), LogError> {
        check_vacant(self, &Files::of_log(self, &Options::default()))
    }
}

/// The initial content of a log.
pub(crate) struct First<'a> {
    /// The configuration of the stream `default`.
    pub(crate) config: StreamConfig,
    pub(crate) continued: Option<&'a Continued>,
}

pub(crate) fn create(
    places: &LogLocation,
    origin: &str,
    root: &RootKey,
    first: &First<'_>,
    options: Options,
    clock: Arc<dyn Clock>,
) -> Result<Log, LogError> {
    startup::check_options(&options)?;
    let (seed, witness) = (random_secret()?, random_secret()?);
    let geometry = geometry(origin, &seed, &witness)?;
    let files = Files::of_log(places, &options);
    // Before the lock, which would be a file of ours in somebody else's folder.
    check_vacant(places, &files)?;
    let lock = startup::lock(places, &files)?;
    check_vacant(places, &files)?;
    files.sweep()?;
    for segment in files.list(JOURNAL_SEGMENTS)? {
        files.remove(&format!("{JOURNAL_SEGMENTS}/{segment}"))?;
    }
    if files.read(PENDING, PENDING_BYTES_MAX)?.is_some() {
        files.remove(PENDING)?;
        files.sync_folder("")?;
    }
    keep_keys(&files)?;
    KeyStore::create(&files, root, &geometry.fingerprint(), &seed, &witness)?;
    files.replace(GEOMETRY, geometry.encode().as_bytes())?;
    startup::open_locked(places, lock, root, options, clock, Some(first))
}

/// Keeps copies of existing keys and geometry. A creation that was cut short left them, or they
/// belong to a log whose other files are out of reach; nothing here tells which.
fn keep_keys(files: &Files) -> Result<(), LogError> {
    for key in files.list(KEYS)? {
        keep(files, &format!("{KEYS}/{key}"))?;
    }
    if files.list("")?.iter().any(|name| name == GEOMETRY) {
        keep(files, GEOMETRY)?;
    }
    Ok(())
}

fn keep(files: &Files, name: &str) -> Result<(), LogError> {
    match files.open_read(name) {
        Ok(Some(file)) => {
            let length = files.attempt("measure", name, |_| file.length())?;
            set_aside::copy(files, name, 0..length)
        }
        Ok(None) => Ok(()),
        // Something that is no file can be moved, not copied.
        Err(error) if is_strange(&error) => set_aside::take(files, name),
        Err(error) => Err(error),
    }
}

fn geometry(origin: &str, seed: &Secret, witness: &Secret) -> Result<Geometry, LogError> {
    let refused = |reason: String| LogError::Option {
        name: "origin",
        reason,
    };
    if is_named_as_stream(origin) {
        let reason = "must not contain \"/streams/\", which stands between the name of a log and that of its stream";
        return Err(refused(reason.into()));
    }
    let is_no_name = "must be 1 to 255 ASCII letters, digits, '-', '.', '_', '/' and ':'";
    let key = |seed| signing_key(origin, seed).map_err(|_error| refused(is_no_name.into()));
    let (signer, witness) = (key(seed)?, key(witness)?);
    let witness = *witness.verifier_key().key();
    Geometry::new(origin, random()?, signer.verifier_key().clone(), witness)
        .map_err(|error| refused(error.reason.to_owned()))
}

/// Returns whether there is a log. The journal's first frame makes one: before it nothing can have
/// been recorded. Where that frame is damaged or gone, any other file that only a log has counts
/// too.
fn exists(places: &LogLocation, files: &Files) -> Result<bool, LogError> {
    match read_geometry(files, &places.path) {
        Ok(geometry) => Ok(has_frames(files, &geometry)? || holds_more(files)?),
        // Whatever else is there, frames that were durable were those of a log.
        Err(LogError::NotALog { .. }) => speak_of_frames(files),
        Err(LogError::Version { .. } | LogError::Broken { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Refuses a place with anything but the leftovers of a creation.
fn check_vacant(places: &LogLocation, files: &Files) -> Result<(), LogError> {
    let path = || places.path.clone();
    if exists(places, files)? {
        return Err(LogError::Exists { path: path() });
    }
    places.check_apart()?;
    let only = |folder: &str, allowed: &[&str]| {
        let names = files.list(folder)?;
        let foreign = names.iter().any(|name| !allowed.contains(&name.as_str()));
        if foreign {
            return Err(LogError::NotALog { path: path() });
        }
        Ok(())
    };
    only("", &LEFTOVERS)?;
    let first = segment_file_name(0);
    for (folder, allowed) in before_first_frame(&first) {
        only(folder, &allowed)?;
    }
    match places.heads_owner()? {
        Some(of) => Err(LogError::HeadsOfAnother {
            heads: places.heads_path.clone(),
            of,
        }),
        None => Ok(()),
    }
}

/// The files that a creation leaves in each folder before the journal's first frame; `first` is the
/// first segment.
fn before_first_frame(first: &str) -> [(&'static str, Vec<&str>); 6] {
    let of_stream = || vec!["segments", "checkpoint", "log.vkey"];
    let first = first.trim_start_matches("segments/");
    [
        ("streams", vec![StreamName::JOURNAL, StreamName::HEADS]),
        ("streams/heads", of_stream()),
        ("streams/heads/segments", Vec::new()),
        ("streams/journal", of_stream()),
        (JOURNAL_SEGMENTS, vec![first]),
        ("subjects", Vec::new()),
    ]
}

/// Returns whether there is a file that no creation leaves before the journal's first frame:
/// another stream, a tile, a segment, a slot, a checkpoint over frames, or a note of durable
/// frames.
fn holds_more(files: &Files) -> Result<bool, LogError> {
    let first = segment_file_name(0);
    for (folder, allowed) in before_first_frame(&first) {
        let names = match files.list(folder) {
            Err(error) if is_strange(&error) => return Ok(true),
            names => names?,
        };
        if names.iter().any(|name| !allowed.contains(&name.as_str())) {
            return Ok(true);
        }
    }
    for name in [StreamName::journal(), StreamName::heads()] {
        let note = match read_checkpoint(files, &name) {
            Err(error) if is_strange(&error) => return Ok(true),
            note => note?,
        };
        // Its replacement is atomic: no crash leaves one that is none.
        let is_empty = |note: String| {
            let note = SignedNote::parse(note.as_bytes()).ok();
            let head = note.and_then(|note| Checkpoint::parse(note.text()).ok());
            head.is_some_and(|head| head.size() == 0)
        };
        if !note.is_none_or(is_empty) {
            return Ok(true);
        }
    }
    speak_of_frames(files)
}

fn has_frames(files: &Files, geometry: &Geometry) -> Result<bool, LogError> {
    let name = StreamName::journal();
    let mut position = Position::start(Identity::journal(geometry));
    let _end = scan(files, &name, &mut position, &mut |_, _| Ok(()))?;
    Ok(position.next_frame > 0)
}
