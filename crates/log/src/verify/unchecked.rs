//! Names what stands in a log's folder and is checked by nothing: whoever reads the report shall not take silence for a check.

use std::io::ErrorKind;

use probity_format::segment::segment_first_frame;
use probity_format::{Version, v2};

use super::report::{FAULTS_LISTED_MAX, Unchecked, UncheckedReason};
use super::stored::names;
use crate::durable::DURABLE;
use crate::error::LogError;
use crate::files::Files;
use crate::history::GEOMETRY;
use crate::set_aside::SET_ASIDE;

/// What a log's folder holds, and what is in the folders among it that hold files alone.
const ROOT: [(&str, &[&str]); 8] = [
    (GEOMETRY, &[]),
    (DURABLE, &[]),
    ("lock", &[]),
    ("repairs", &[]),
    (
        "keys",
        &["master.key", "signing.key", "signing.next", "witness.key"],
    ),
    ("subjects", &["slots"]),
    (SET_ASIDE, &[]),
    ("streams", &[]),
];
/// What a stream's folder holds.
const STREAM: [&str; 4] = ["checkpoint", "log.vkey", "segments", "tile"];

/// Names of what was not checked, as far as there is room for them.
#[derive(Debug, Default)]
pub(super) struct Names {
    listed: Vec<Unchecked>,
    unlisted: u64,
}

impl Names {
    /// Looks through the log's folder, without its streams. With `is_keyed` the keys were opened.
    pub(super) fn of_log(&mut self, files: &Files, is_keyed: bool) -> Result<(), LogError> {
        for name in self.list(files, "")? {
            let Some((_, inside)) = ROOT.iter().find(|(known, _)| *known == name) else {
                self.push(name, UncheckedReason::Foreign);
                continue;
            };
            if name == "streams" {
                continue;
            }
            let found = self.list(files, &name)?;
            if found.is_empty() && name != GEOMETRY {
                self.push(name.clone(), UncheckedReason::NoEvidence);
            }
            for file in found {
                let path = format!("{name}/{file}");
                if name != SET_ASIDE && !inside.contains(&file.as_str()) {
                    self.push(path, UncheckedReason::Foreign);
                } else if !(is_keyed
                    && matches!(file.as_str(), "master.key" | "slots" | "witness.key"))
                {
                    self.push(path, UncheckedReason::NoEvidence);
                }
            }
        }
        Ok(())
    }

    /// Looks through the folder of a stream, and gives what is in its folder of segments.
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

    /// Takes up what stands at `path` in the folder of segments of a stream that ends in segment `last`.
    pub(super) fn segment(&mut self, version: Version, path: &str, last: u64) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let number = match version {
            Version::V2 => v2::segment_number(name),
            _ => segment_first_frame(name),
        };
        match number {
            Some(number) if number <= last => {}
            Some(_) => self.push(path.to_owned(), UncheckedReason::LaterSegment),
            None => self.push(path.to_owned(), UncheckedReason::Foreign),
        }
    }

    /// All names sorted, and the number of those that are not listed.
    pub(super) fn sorted(mut self) -> (Vec<Unchecked>, u64) {
        self.listed.sort();
        self.listed.dedup();
        (self.listed, self.unlisted)
    }

    /// What is in `folder`; nothing where something else stands there.
    fn list(&mut self, files: &Files, folder: &str) -> Result<Vec<String>, LogError> {
        match names(files, folder) {
            Ok(found) => Ok(found.unwrap_or_default()),
            Err(LogError::Storage { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                self.push(folder.to_owned(), UncheckedReason::Unreadable);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn push(&mut self, path: String, why: UncheckedReason) {
        if self.listed.len() < FAULTS_LISTED_MAX {
            self.listed.push(Unchecked { path, why });
        } else {
            self.unlisted = self.unlisted.saturating_add(1);
        }
    }
}
