//! Proofs of entries as they are appended: one file each in a folder, once a checkpoint covers the
//! entry.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use probity_log::StreamName;
use probity_log::prove::{ProveError, Recipient};
use probity_log::reader::Reader;

use super::super::prove::failure;
use crate::failure::Failure;
use crate::output_file::{Existing, OutputFile};
use crate::output_guard::{check_name, check_new, is_refusal};

const REMEDY_REFUSED: &str =
    "the entries are in the log, and their proofs are written with: probity prove";
/// The most entries that wait for their proofs before a checkpoint is published for them.
const DUE_MAX: usize = 4096;

/// The folder for proofs, and the entries that have none yet.
pub(super) struct ProofFolder {
    path: PathBuf,
    due: VecDeque<u64>,
    /// True once a proof was refused its place in the folder.
    is_refused: bool,
}

impl ProofFolder {
    /// Makes the folder, or takes an empty one.
    pub(super) fn begin(path: &Path) -> Result<Self, Failure> {
        let fail = |error| Failure::file("make the folder of proofs", path, error);
        check_folder(path).map_err(fail)?;
        match fs::create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(fail)?,
        }
        if fs::read_dir(path).map_err(fail)?.next().is_some() {
            return Err(
                Failure::new(format!("{} holds files already", path.display())).remedy(
                    "name a folder that does not exist yet or is empty; nothing was appended",
                ),
            );
        }
        let path = path.to_owned();
        Ok(Self {
            path,
            due: VecDeque::new(),
            is_refused: false,
        })
    }

    /// Returns whether the folder refuses proofs.
    pub(super) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns the first and the last durable entry without its proof.
    pub(super) fn missing(&self) -> Option<(u64, u64)> {
        Some((*self.due.front()?, *self.due.back()?))
    }

    /// Adds the durable entry at `index`.
    pub(super) fn push(&mut self, index: u64) {
        self.due.push_back(index);
    }

    pub(super) fn is_full(&self) -> bool {
        self.due.len() >= DUE_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Writes the proofs of entries that a checkpoint covers.
    pub(super) fn write(
        &mut self,
        reader: &Reader,
        dir: &Path,
        stream: &StreamName,
    ) -> Result<(), Failure> {
        let failed = |error| failure(error, dir);
        let mut prover = reader
            .prover(stream, &Recipient::default())
            .map_err(failed)?;
        while let Some(index) = self.due.front().copied() {
            let made = match prover.prove(index) {
                Err(ProveError::Unpublished { .. }) => break,
                made => made.map_err(failed)?,
            };
            let text = made
                .proof
                .encode()
                .map_err(|error| Failure::new("a proof cannot be written").because(error))?;
            let path = self.path.join(format!("{stream}.{index}.tlog-proof"));
            let fail = |error| Failure::file("write", &path, error);
            let mut file = match OutputFile::begin(&path, Existing::Keep) {
                Err(error) if is_refusal(&error) => {
                    self.is_refused = true;
                    return Err(fail(error).remedy(REMEDY_REFUSED));
                }
                begun => begun.map_err(fail)?,
            };
            file.write_all(text.as_bytes()).map_err(fail)?;
            file.finish().map_err(fail)?;
            self.due.pop_front();
        }
        Ok(())
    }
}

/// Refuses a folder that cannot take proofs, before any entry is appended.
fn check_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return check_new(&path.join("proof"));
    }
    check_name(path)?;
    check_new(path)
}
