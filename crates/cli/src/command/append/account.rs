//! The account of an `append` that stopped: how much is in the log, and how to go on.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use probity_log::Log;

use super::super::open_reader;
use super::proofs::ProofFolder;
use super::{Run, advice};
use crate::args::Append;
use crate::config::Environment;
use crate::failure::Failure;
use crate::output::counted;

impl Run<'_> {
    /// Adds to `failure` how much is in the log and how to resume.
    pub(super) fn account(&self, failure: Failure, environment: &Environment) -> Failure {
        let Append { dir, stream, .. } = self.args;
        if self.is_unsure && self.taken.count() == 0 {
            return failure
                .so("nothing was appended")
                .also(&self.look(environment, (dir, "")));
        }
        // Counts what is there, not what was promised: an entry may be whole on disk without ever
        // having been acknowledged.
        let found = self.is_there().then(|| {
            open_reader(dir, self.args.key.as_deref(), environment)
                .and_then(|reader| Ok(reader.entries(stream)?))
        });
        let Some(Ok(next)) = found else {
            let taken = counted(self.taken.count(), "entry appended", "entries appended");
            let failure = failure.after(&format!("{taken} at most"));
            return failure.also(&self.look_first(environment));
        };
        let kept = self.taken.kept(next);
        let (line, index) = self.taken.after(kept);
        let failure = match kept {
            0 => failure.so("nothing was appended"),
            _ => failure.after(&self.appended(kept)),
        };
        let failure = match self.without_receipt(kept) {
            0 => failure,
            missing => failure.also(&self.how_to_prove(environment, index, missing)),
        };
        let failure = match self.proofs.as_ref().and_then(ProofFolder::missing) {
            None => failure,
            Some(missing) => failure.also(&self.how_to_write(environment, missing)),
        };
        let go_on = |line| self.go_on(environment, line, index);
        // If entries before it are missing, the conflicting line is not reached yet.
        let reached = self.conflict.filter(|_| kept == self.taken.count());
        failure.also(&match reached {
            Some(conflict) if self.series.is_some() => {
                let go_on = go_on(conflict.saturating_add(1));
                format!("to leave it out here, go on with: {go_on}")
            }
            Some(conflict) => format!(
                "then begin with it: --from-line {conflict} --at-index {index}; to leave it out, go on with: {}",
                go_on(conflict.saturating_add(1))
            ),
            None if self.is_unsure => self.look(environment, (dir, "")),
            None if self.is_stopped_by_line() && kept == self.taken.count() => {
                format!("correct that line, then go on with: {}", go_on(line))
            }
            None => format!("go on with: {}", go_on(line)),
        })
    }

    /// Returns whether the folder that was opened is at its path still. Another one there may be an
    /// older copy of the log, which has none of the entries.
    fn is_there(&self) -> bool {
        let opened = self.folder.as_ref().map(fs::File::metadata);
        let now = fs::metadata(&self.args.dir);
        let (Some(Ok(opened)), Ok(now)) = (opened, now) else {
            return false;
        };
        (opened.dev(), opened.ino()) == (now.dev(), now.ino())
    }

    /// Returns the way to go on where the log cannot be read to count its entries. A log that was moved
    /// is named by a placeholder: nobody here knows its new path.
    fn look_first(&self, environment: &Environment) -> String {
        let is_moved = !self.is_there() || Log::geometry(&self.args.dir).is_err();
        let (dir, words) = if is_moved {
            (Path::new("NEW"), ", with the new path for NEW")
        } else {
            (self.args.dir.as_path(), "")
        };
        if self.may_repeat() {
            return format!(
                "then repeat the command{words}: its lines have idempotency keys, and none is recorded twice"
            );
        }
        self.look(environment, (dir, words))
    }

    /// Returns the way to see which lines are in the log at `dir`, and to go on behind them.
    fn look(&self, environment: &Environment, (dir, words): (&Path, &str)) -> String {
        let look = advice::look(self.args, environment, dir);
        let proofs = self.args.proofs.as_deref();
        let place = ("LINE", "INDEX");
        let exported = self.args.exported || self.is_export;
        let go_on = advice::command(self.args, environment, (dir, proofs, exported), place);
        format!(
            "see which lines of the input are there{words}: {look}; go on behind the last of them with: {go_on}"
        )
    }

    /// Returns whether a line that has to be corrected ended the command. One of an export needs
    /// none, as the advised command has its option.
    const fn is_stopped_by_line(&self) -> bool {
        self.refused > 0 && !self.args.skip_invalid && !self.is_export
    }

    /// Returns the command that resumes at `line`, whose entry gets `index`. A folder that takes no
    /// proofs is left out.
    fn go_on(&self, environment: &Environment, line: u64, index: u64) -> String {
        let is_refused = self.proofs.as_ref().is_some_and(ProofFolder::is_refused);
        let proofs = self.args.proofs.as_deref().filter(|_| !is_refused);
        let place = (line.to_string(), index.to_string());
        let dir = self.args.dir.as_path();
        let exported = self.args.exported || self.is_export;
        let with = (dir, proofs, exported);
        advice::command(self.args, environment, with, (&place.0, &place.1))
    }

    /// Describes the first `kept` entries as appended, and how many of them have no printed
    /// receipt.
    fn appended(&self, kept: u64) -> String {
        let appended = counted(kept, "entry appended", "entries appended");
        match self.without_receipt(kept) {
            0 => appended,
            missing => format!("{appended}, the last {missing} of them without a receipt"),
        }
    }

    /// Returns how many of the first `kept` entries lack the receipt that was asked for.
    fn without_receipt(&self, kept: u64) -> u64 {
        if self.args.receipts {
            kept.saturating_sub(self.receipts.left(&self.output))
        } else {
            0
        }
    }

    /// Returns the way to evidence of the `missing` entries before index `next`, which have no receipt.
    fn how_to_prove(&self, environment: &Environment, next: u64, missing: u64) -> String {
        let first = next.saturating_sub(missing);
        let last = next.saturating_sub(1);
        format!(
            "entries {first} to {last} are recorded without a receipt: their lines are not to be appended again, and a proof shows each: {}",
            advice::proof(self.args, environment, first)
        )
    }

    /// Returns the way to the proofs of the entries from `first` to `last`, which could not be written.
    fn how_to_write(&self, environment: &Environment, (first, last): (u64, u64)) -> String {
        let which = if first == last {
            format!("entry {first} has no proof yet; make it with")
        } else {
            format!("entries {first} to {last} have no proofs yet; make each with")
        };
        format!("{which}: {}", advice::proof(self.args, environment, first))
    }

    /// Returns whether the whole command can be repeated: with a name for its lines it stops where one may be
    /// recorded already. Keys of lines are remembered for a number of bytes on the disk, which is not known here.
    const fn may_repeat(&self) -> bool {
        self.series.is_some()
    }
}
