//! A database server of Debian in a folder of its own, reached by socket alone and stopped at the end.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The time that a server may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running server; it and its folder end with the value.
pub(crate) struct Server {
    pub(crate) command: Command,
    pub(crate) child: Child,
    /// The signal at which it ends at once and in order.
    end: &'static str,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn stop(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-s", self.end, &id]).status();
        if asked.is_err() {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }

    pub(crate) fn wait_until(&mut self, answers: impl Fn() -> bool) {
        let pause = Duration::from_millis(50);
        let mut waited = Duration::ZERO;
        while !answers() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{:?} ended with {ended:?}", self.command);
            assert!(waited < PATIENCE, "the server does not answer");
            #[expect(
                clippy::disallowed_methods,
                reason = "a process of another program is waited for"
            )]
            sleep(pause);
            waited += pause;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The first of `candidates` that exists.
#[expect(clippy::panic, reason = "a test without its server cannot run")]
pub(crate) fn found(candidates: &[PathBuf]) -> PathBuf {
    let there = candidates.iter().find(|it| it.exists());
    there
        .unwrap_or_else(|| panic!("none of {candidates:?} is installed; ./test installs them"))
        .clone()
}

/// A program of a server. Servers refuse to run as root, so then they run as the user Debian made for them.
pub(crate) fn program(path: &Path, user: &str) -> Command {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().unwrap()
    };
    let mut command = Command::new(path);
    if id(&["-u"]) == 0 {
        command.uid(id(&["-u", user])).gid(id(&["-g", user]));
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// A folder that the server's own user may write to.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let opened = Command::new("chmod").arg("777").arg(folder.path()).status();
    assert!(opened.unwrap().success());
    folder
}

/// Starts `command` and waits until `answers`.
pub(crate) fn start(
    mut command: Command,
    folder: tempfile::TempDir,
    end: &'static str,
    answers: impl Fn() -> bool,
) -> Server {
    let child = command.current_dir(folder.path()).spawn().unwrap();
    let mut server = Server {
        command,
        child,
        end,
        _folder: folder,
    };
    server.wait_until(answers);
    server
}
