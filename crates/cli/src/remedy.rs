//! The remedies for errors of a log and of files.

use std::io;
use std::path::Path;

use probity_format::Version;
use probity_log::{Log, LogError, StreamName, advice};
use rustix::io::Errno;

use crate::failure::{HEADS_SAID, KEY_GIVEN, LOG_NAMED, ROOT_KEY_OPTION, ROOT_KEY_USED};
use crate::shell::quoted;

/// The file whose loss shows a writer that its log was moved.
const LOCK: &str = "lock";
/// The remedy where the folder of a log, or its lock, is not where its writer found it.
const MOVED: &str = "stop every writer of this log; where its folder was moved, go on with the new path, and move the folder of second copies (DIR.heads) \
     too, or name it with PROBITY_HEADS; entries with receipts are in the folder that was moved";
/// The remedy where there is no log.
pub(crate) const NAME_A_LOG: &str = "name the folder of a log";

/// Quotes a path for a shell.
fn shell(path: &str) -> String {
    quoted(Path::new(path))
}

/// Returns the command that creates a log at `path`, with a name where the folder's cannot be it.
fn init_command(path: &str) -> String {
    let named = Path::new(path).file_name().and_then(|name| name.to_str());
    let origin = if named.is_none_or(can_name_log) {
        ""
    } else {
        " --origin NAME"
    };
    format!("probity init {}{origin}", shell(path))
}

/// Returns whether the name of a folder can be that of the log in it.
pub(crate) fn can_name_log(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    name.bytes().all(allowed)
}

/// Returns whether the log at `path` is of a version that is never written.
fn is_older(path: &str) -> bool {
    Log::geometry(Path::new(path)).is_ok_and(|geometry| geometry.version() < Version::NEWEST)
}

/// Returns the remedy where a folder is no log, or is one already.
fn remedy_of_place(error: &LogError) -> Option<String> {
    let remedy = match error {
        LogError::NotALog { path } if Path::new(path).join("keys").is_dir() => format!(
            "{}/keys is there: see that the disk with the log's other files is mounted, or put them back from a backup and leave keys/ as it is; only where nothing was ever recorded in it, \
             create a log with: {}",
            path,
            init_command(path)
        ),
        LogError::NotALog { path } if Path::new(path).is_file() => NAME_A_LOG.to_owned(),
        LogError::NotALog { path } => {
            format!("{NAME_A_LOG}, or create one with: {}", init_command(path))
        }
        LogError::Unfinished { path } => {
            format!(
                "if anything was ever recorded in it, the log was emptied: keep this folder under another name and put a copy back; only if nothing ever was, create \
                 it again with: {}",
                init_command(path)
            )
        }
        // Nobody can append to what does not say what it is.
        LogError::Exists { path } if Log::geometry(Path::new(path)).is_err() => format!(
            "write nothing to the folder and choose another; see what is wrong with the log that is there with: probity verify {}; {}",
            shell(path),
            advice::GEOMETRY
        ),
        LogError::Exists { path } if is_older(path) => format!(
            "it is of an older version: continue it as a new log with: probity upgrade {} NEW, or choose another folder",
            shell(path)
        ),
        LogError::Exists { path } => {
            format!(
                "append to it with: probity append {}, or choose another folder",
                shell(path)
            )
        }
        _ => return None,
    };
    Some(remedy)
}

pub(crate) fn remedy_of(error: &LogError) -> Option<String> {
    let remedy = match error {
        LogError::NotALog { .. } | LogError::Unfinished { .. } | LogError::Exists { .. } => {
            return remedy_of_place(error);
        }
        LogError::Version { found, known } if found < known => "use the version of probity that wrote it".into(),
        LogError::OlderVersion { .. } => {
            "it can be verified, exported and proved as it is; continue it as a new log with: probity upgrade OLD NEW".into()
        }
        LogError::Version { .. } => "use the version of probity that wrote it, or a later one".into(),
        LogError::Locked { .. } => {
            "stop the other writer, or, if it is a server, send it the request; one database of disguises needs one log; \
             verify and export need no lock".into()
        }
        LogError::WrongKey => {
            format!(
                "give this log's own root key with {ROOT_KEY_OPTION}; if it is this one, {}",
                advice::FIXED_KEYS
            )
        }
        LogError::WitnessKey => {
            "give a signing key of the log, which `probity keys status DIR` prints as verifier key and newest key; the witness key is for witnesses \
             and for check-proof".into()
        }
        LogError::NoStream { .. } => {
            format!("see the streams with: probity stream list {LOG_NAMED}{KEY_GIVEN}; make one with: probity stream create {LOG_NAMED} NAME{KEY_GIVEN}")
        }
        LogError::Reserved { .. } => {
            format!("choose another name; what the log says of itself is read with: probity export {LOG_NAMED} --stream journal --format jsonl{KEY_GIVEN}")
        }
        LogError::RolledBack { .. } => remedy_of_rollback(error)?,
        LogError::HeadsOfAnother { .. } => format!(
            "{HEADS_SAID}; a log has a folder of second copies of its own: name this log's with PROBITY_HEADS, and leave the copies of the other \
             where they are, for nothing else shows that an older copy of that log was put back"
        ),
        LogError::HeadsInLog { .. } => {
            "name a folder outside the log's with PROBITY_HEADS or --heads, best on another machine's disk; where the copies are in the log already, \
             stop every writer of it, move them there and verify the log"
                .into()
        }
        LogError::HeadsAreLog { .. } => {
            "name the folder that holds second copies of this log alone with PROBITY_HEADS or --heads; each log has one of its own. Only for a new log \
             may it be empty or not exist yet: without its copies nothing shows that an older copy of a log was put back"
                .into()
        }
        LogError::HeadsGone { .. } => {
            format!("mount the disk on which the second copies of the heads are, or put their folder back, then start again; where they are gone for good, \
             compare the log with a checkpoint that you keep: probity verify {LOG_NAMED} --since FILE")
        }
        LogError::Lost { .. } | LogError::KeysLost { .. } | LogError::Losses(_) => return remedy_of_loss(error),
        LogError::Broken { place, reason } => remedy_of_damage(place, reason),
        LogError::Damaged { .. } => format!("see all faults with: probity verify {LOG_NAMED}{ROOT_KEY_USED}"),
        LogError::Storage { source, .. } => storage_remedy(source)?.into(),
        LogError::Poisoned(cause) => return remedy_of(cause),
        LogError::Stream { reason, .. } if reason.contains("another configuration") => format!("see how the streams are configured with: probity stream list {LOG_NAMED}{KEY_GIVEN}; choose another name for another configuration"),
        LogError::Option { name: "origin", .. } => {
            "give the log a name like example.com/audit with --origin NAME".into()
        }
        _ => return None,
    };
    Some(remedy)
}

/// The remedy where the bytes at `place` are not those that the log wrote.
fn remedy_of_damage(place: &str, reason: &str) -> String {
    let look = format!("see all faults with: probity verify {LOG_NAMED}{ROOT_KEY_USED}");
    if place.ends_with("probity.toml") && reason.starts_with("is missing") {
        format!(
            "write nothing to the folder before probity.toml is back, then verify it: probity verify {LOG_NAMED}"
        )
    } else if place == LOCK {
        MOVED.into()
    } else if place.ends_with("probity.toml") {
        format!(
            "write nothing to the folder; compare it with a copy of the log, and verify it with the verifier key that you were handed: \
             probity verify {LOG_NAMED} --key FILE"
        )
    } else if place.starts_with("keys/") {
        // The reason says what to put back, and a verification without the root key needs no such
        // file.
        let files = if reason.contains(advice::NEWER_JOURNAL) {
            "back what is said, and no key"
        } else if place.starts_with("keys/signing") {
            "the signing key back, as said"
        } else {
            &format!("{place} alone back, as said")
        };
        format!(
            "put {files}, then try again; without the root key everything else is verified with: probity verify {LOG_NAMED}"
        )
    } else if reason.contains("symbolic link") {
        format!(
            "remove the link and put what it leads to in its place, if that is of this log: the folder of a log may be a link, what is in it may not; {look}"
        )
    } else if reason.ends_with("were signed for") {
        format!(
            "what was signed for cannot be given up, with --accept-loss neither: {}; where no copy has them, keep this log as evidence and \
             begin a new one; {look}",
            advice::SEGMENT
        )
    } else if reason.contains("is in the place of the ") {
        format!(
            "move that away under another name, and try again: what the log can make anew it makes; {look}"
        )
    } else {
        look
    }
}

/// The remedy where fewer frames of a stream are there than were signed for.
fn remedy_of_rollback(error: &LogError) -> Option<String> {
    let LogError::RolledBack {
        stream,
        found,
        signed,
        is_alone,
    } = error
    else {
        return None;
    };
    let advice = if *is_alone {
        format!(
            "the rest of the log is as new as its heads, so put no other file back: {}, here frame {found} up to {signed} frames, in \
             streams/{stream}/segments",
            advice::SEGMENT
        )
    } else {
        format!(
            "{}, and which has at least {signed} frames of stream {stream}",
            advice::NEWER_LOG
        )
    };
    Some(format!(
        "do not write to this copy; {advice}; where another log of the same name keeps its second copies in the folder, name this log's own \
         with PROBITY_HEADS"
    ))
}

/// The remedy where durable content is lost.
fn remedy_of_loss(error: &LogError) -> Option<String> {
    let accept = |loses: &str| {
        format!(
            "without one, and with the folder of second copies in reach, go on with: probity append {LOG_NAMED} /dev/null --accept-loss{KEY_GIVEN}, which {loses} and records the loss"
        )
    };
    Some(match error {
        LogError::Lost { stream, .. } if stream == StreamName::JOURNAL => format!(
            "the note of durable frames in this folder is newer than the journal, which was damaged or is an older one: do not write to this \
             copy; {}, in streams/{stream}/segments",
            advice::SEGMENT
        ),
        LogError::Lost {
            stream, durable, ..
        } => format!(
            "{}: {durable} frames, in streams/{stream}/segments; {}",
            advice::SEGMENT,
            accept("keeps the damaged bytes")
        ),
        // The error says what to put back.
        LogError::KeysLost { .. } => format!(
            "do so with a copy that has their keys; {}",
            accept("gives these entries up for good")
        ),
        LogError::Losses(_) => format!(
            "of each stream, {}; keys as said; {}",
            advice::SEGMENT,
            accept("gives all of this up for good, keeps the damaged bytes")
        ),
        _ => return None,
    })
}

/// The remedy where `what` is done with a path that leads nowhere, or to a folder.
pub(crate) fn remedy_of_path(what: &str, error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound if what.starts_with("read") => {
            Some("look at the path: nothing is there")
        }
        io::ErrorKind::NotFound => Some("make its folder first, or name another path"),
        io::ErrorKind::IsADirectory => Some("name a file: a folder is there"),
        _ => None,
    }
}

/// The remedy where a file that is no part of a log cannot be read or written.
pub(crate) fn remedy_of_file(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room on the disk"),
        io::ErrorKind::InvalidData => Some("give a text file in UTF-8"),
        io::ErrorKind::PermissionDenied => {
            Some("check who owns the file and its folder, and their permissions")
        }
        _ => storage_remedy(error),
    }
}

fn storage_remedy(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on the disk; a log is repaired when it is opened")
        }
        io::ErrorKind::PermissionDenied => Some("check who owns the folder and its permissions"),
        io::ErrorKind::ReadOnlyFilesystem => Some("mount the file system for writing"),
        // The kind of this error has no name.
        _ if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Some(
            "the disk, or the way to it, failed: see what the system's messages say of it, and run the command again once \
             it is sound; a log is repaired when it is opened",
        ),
        _ => None,
    }
}
