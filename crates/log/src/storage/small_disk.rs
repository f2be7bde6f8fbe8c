//! A private file system of a few kilobytes for one test, to be filled up or made read-only.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Mounts a disk, then changes its options line by line; reports after each whether it worked.
const SCRIPT: &str = r#"
told() { if "$@"; then echo ready; else echo failed; fi; }
told mount -t tmpfs -o "$0,mode=0777" none "$1"
while read -r options; do told mount -o "remount,$options" none "$1"; done"#;
/// The mount point, for the child alone.
const PLACE: &str = "/tmp";
/// Commands for a private mount: for any user, where the system permits it, and for the superuser.
const WAYS: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A file system in memory, mounted in the namespace of one child process: no other process sees
/// it, and it is gone with the child.
#[derive(Debug)]
pub struct SmallDisk {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of `bytes`. Where none can be mounted, `claim` is [`not_shown`].
    ///
    /// # Panics
    /// As [`not_shown`] does.
    pub fn mounted(claim: &str, bytes: u64) -> Option<Self> {
        let mut reasons = Vec::new();
        for way in WAYS {
            match Self::mount(way, bytes) {
                Ok(disk) => return Some(disk),
                Err(reason) => reasons.push(reason.to_string()),
            }
        }
        let reasons = reasons.join("; ");
        not_shown(
            claim,
            &format!("no file system can be mounted here: {reasons}"),
        );
        None
    }

    fn mount(way: &[&str], bytes: u64) -> io::Result<Self> {
        let mut child = Command::new("unshare")
            .args(way)
            .args(["sh", "-c", SCRIPT, &format!("size={bytes}"), PLACE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let answers = BufReader::new(child.stdout.take().ok_or_else(gone)?);
        let mut disk = Self {
            commands: child.stdin.take(),
            answers,
            path: PathBuf::from(format!("/proc/{}/root{PLACE}", child.id())),
            child,
        };
        disk.answer()?;
        fs::read_dir(&disk.path)?;
        Ok(disk)
    }

    /// The disk's root, for this process.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts it again with `options`: `ro`, `rw`, `size=BYTES`.
    ///
    /// # Errors
    /// When that is refused: `ro` while a file is open for writing.
    pub fn remount(&mut self, options: &str) -> io::Result<()> {
        if let Some(commands) = &mut self.commands {
            writeln!(commands, "{options}")?;
        }
        self.answer()
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        match line.trim() {
            "ready" => Ok(()),
            said => Err(io::Error::other(format!("unshare or mount said {said:?}"))),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The child ends when its input does, and the mount with it.
        self.commands.take();
        drop(self.child.wait());
    }
}

/// The variable that says of this machine, with the value `allowed`, that it cannot show everything
/// that the tests claim.
const NOT_SHOWN: &str = "PROBITY_NOT_SHOWN";

/// Fails the test of `claim`, which cannot be shown here for `reason`. On a machine of which
/// `PROBITY_NOT_SHOWN` says so, reports it instead, directly to the standard error: normal output is
/// captured while a test passes. `./test` counts the reports.
///
/// # Panics
/// Unless the variable allows it.
#[expect(
    clippy::disallowed_methods,
    reason = "tests of several crates ask, and none has a configuration"
)]
pub fn not_shown(claim: &str, reason: &str) {
    let said = std::env::var(NOT_SHOWN).ok();
    assert!(
        is_allowed(said.as_deref()),
        "{claim} cannot be shown here: {reason}; {NOT_SHOWN}=allowed lets such tests pass"
    );
    let line = format!("NOT SHOWN: {claim}: {reason}\n");
    // A closed output needs no message.
    drop(io::stderr().write_all(line.as_bytes()));
}

fn is_allowed(said: Option<&str>) -> bool {
    said == Some("allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests of full and read-only disks passed where no file system could be mounted, and nobody
    /// counted them. They fail there now, unless the machine is said to be unable.
    #[test]
    fn a_claim_that_cannot_be_shown_fails_unless_the_machine_is_excused() {
        assert!(is_allowed(Some("allowed")));
        for said in [None, Some(""), Some("0"), Some("1"), Some("no")] {
            assert!(!is_allowed(said), "{said:?}");
        }
    }
}
