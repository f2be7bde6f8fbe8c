//! Lists the files in a log's folder that no check covers, so that a reader of the report does not
//! take silence for a check.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use probity_format::segment::segment_first_frame;
use probity_format::stream::StreamName;
use probity_format::{Version, v2};

use super::report::{FAULTS_LISTED_MAX, Unchecked, UncheckedReason};
use super::stored::{is_strange, is_there, names};
use super::{Fault, FaultClass, Faults};
use crate::durable::DURABLE;
use crate::error::LogError;
use crate::files::{Files, shown};
use crate::history::GEOMETRY;
use crate::keystore::{SIGNING, WITNESS};
use crate::set_aside::SET_ASIDE;

/// Files in a log's folder.
const FILES: [&str; 5] = [GEOMETRY, DURABLE, "lock", "repairs", "missed"];
/// The folders beside them, with the names in those that hold only files.
const FOLDERS: [(&str, &[&str]); 4] = [
    (
        "keys",
        &["master.key", "signing.key", "signing.next", "witness.key"],
    ),
    ("subjects", &["slots"]),
    (SET_ASIDE, &[]),
    (STREAMS, &[]),
];
const STREAMS: &str = "streams";
/// The files that are checked only with the root key.
const KEYED: [&str; 5] = [
    "keys/master.key",
    SIGNING,
    WITNESS,
    "subjects/slots",
    DURABLE,
];
/// The names in a stream's folder.
const STREAM: [&str; 4] = ["checkpoint", "log.vkey", "segments", "tile"];

/// The names of unchecked files, up to a bound.
#[derive(Debug, Default)]
pub(super) struct Names {
    listed: Vec<Unchecked>,
    unlisted: u64,
}

impl Names {
    /// Lists the log's folder, without its streams. With `is_keyed` the keys were opened.
    pub(super) fn of_log(
        &mut self,
        files: &Files,
        is_keyed: bool,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        for path in files.leftovers()? {
            self.push(path, UncheckedReason::Leftover);
        }
        if !is_keyed && !is_there(files, SIGNING)? {
            self.push(SIGNING, UncheckedReason::Gone);
        }
        for name in self.list(files, "")? {
            if FILES.contains(&name.as_str()) {
                self.file(files, name, is_keyed, faults)?;
            } else if let Some((_, inside)) = FOLDERS.iter().find(|(known, _)| *known == name) {
                self.folder(files, &name, inside, is_keyed, faults)?;
            } else {
                self.push(name, UncheckedReason::Foreign);
            }
        }
        Ok(())
    }

    fn folder(
        &mut self,
        files: &Files,
        folder: &str,
        inside: &[&str],
        is_keyed: bool,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        // The other error tells why it cannot be listed.
        if names(files, folder).is_ok_and(|names| names.is_none()) {
            let detail = "something else is in the place of the folder";
            strange(folder.to_owned(), detail, faults);
            return Ok(());
        }
        if folder == STREAMS {
            return Ok(());
        }
        for file in self.list(files, folder)? {
            let path = format!("{folder}/{file}");
            if inside.contains(&file.as_str()) {
                self.file(files, path, is_keyed, faults)?;
            } else if folder == SET_ASIDE {
                self.push(path, UncheckedReason::NoEvidence);
            } else {
                self.push(path, UncheckedReason::Foreign);
            }
        }
        Ok(())
    }

    /// Checks a file that the log needs: it must be a file, with any content.
    fn file(
        &mut self,
        files: &Files,
        path: String,
        is_keyed: bool,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        match files.open_read(&path) {
            Err(error) if is_strange(&error) => {
                strange(path, "something else is in the place of the file", faults);
                return Ok(());
            }
            // The file is listed all the same.
            Err(LogError::Storage { source, .. })
                if source.kind() == ErrorKind::PermissionDenied => {}
            opened => drop(opened?),
        }
        let is_checked = path == GEOMETRY || is_keyed && KEYED.contains(&path.as_str());
        if !is_checked {
            self.push(path, UncheckedReason::NoEvidence);
        }
        Ok(())
    }

    /// Lists the folder of a stream, and returns the names in its folder of segments.
    pub(super) fn of_stream(
        &mut self,
        files: &Files,
        stream: &str,
    ) -> Result<Vec<String>, LogError> {
        let folder = format!("streams/{stream}");
        for name in self.list(files, &folder)? {
            if !STREAM.contains(&name.as_str()) {
                self.push(format!("{folder}/{name}"), UncheckedReason::Foreign);
            }
        }
        let segments = format!("{folder}/segments");
        let found = self.list(files, &segments)?;
        let path = |name| format!("{segments}/{name}");
        Ok(found.into_iter().map(path).collect())
    }

    /// Adds the file at `path` in the folder of segments of a stream that ends in segment `last`.
    /// Returns whether it has the name of a segment and holds no frame.
    pub(super) fn segment(
        &mut self,
        version: Version,
        path: &str,
        last: u64,
        strange: &BTreeSet<u64>,
    ) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = match version {
            Version::V2 => v2::segment_number(name),
            _ => segment_first_frame(name),
        };
        let is_strange = number.is_some_and(|number| strange.contains(&number));
        let is_later = !is_strange && number.is_some_and(|number| number > last);
        if is_later {
            self.push(path, UncheckedReason::LaterSegment);
        } else if is_strange || number.is_none() {
            self.push(path, UncheckedReason::Foreign);
        }
        is_strange || is_later
    }

    /// All names sorted, and the number of those that are not listed.
    pub(super) fn sorted(mut self) -> (Vec<Unchecked>, u64) {
        self.listed.sort();
        self.listed.dedup();
        (self.listed, self.unlisted)
    }

    /// The names in `folder`; nothing where it is no folder.
    fn list(&mut self, files: &Files, folder: &str) -> Result<Vec<String>, LogError> {
        match names(files, folder) {
            Ok(found) => Ok(found.unwrap_or_default()),
            Err(LogError::Storage { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                self.push(folder, UncheckedReason::Unreadable);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Adds `path`, unless there are too many.
    pub(super) fn push(&mut self, path: impl AsRef<str>, why: UncheckedReason) {
        if self.listed.len() < FAULTS_LISTED_MAX {
            let path = shown(path.as_ref());
            self.listed.push(Unchecked { path, why });
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }
}

fn strange(path: String, detail: &str, faults: &mut Faults) {
    let journal = StreamName::journal();
    faults.push(Fault::new(FaultClass::Unknown, &journal, path, detail));
}
