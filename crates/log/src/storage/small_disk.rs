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
    /// Mounts a disk of `bytes`. Where none can be mounted, returns `None` and reports that `claim`
    /// is not shown.
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

/// Reports that `claim` is not shown here, and why, directly to the standard error: normal output
/// is captured while a test passes.
pub fn not_shown(claim: &str, reason: &str) {
    let line = format!("NOT SHOWN: {claim}: {reason}\n");
    // A closed output needs no message.
    drop(io::stderr().write_all(line.as_bytes()));
}
