//! A server in a folder of its own, stopped at its end.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::wait;

/// The pause before a server is asked again, and the most pauses: a minute together.
const PAUSE_MILLISECONDS: u64 = 20;
const PAUSES_MAX: u32 = 3_000;

/// The folder that Linux keeps in memory, and the room that must be there: a server of a test takes
/// up to 150 MB.
const MEMORY: &str = "/dev/shm";
const ROOM_MEGABYTES: u64 = 2_000;

/// A running server; it and its folder end with the value.
#[derive(Debug)]
pub struct Server {
    command: Command,
    child: Child,
    /// The signal at which it ends at once and in order.
    end: &'static str,
    /// The process that ends the server after this one, where it is to outlive its value.
    keeper: Option<Child>,
    folder: tempfile::TempDir,
}

/// Waits for the end of the process of the tests, and ends the server and its folder then. The server is known by the
/// folder that it works in, for its number may be another process's by then.
const KEEPER: &str = r#"
    trap '' INT TERM
    read -r _
    case $(readlink "/proc/$1/cwd") in
        "$2"*) kill -s "$3" "$1" ;;
    esac
    while case $(readlink "/proc/$1/cwd") in "$2"*) true ;; *) false ;; esac; do sleep 0.1; done
    rm -rf "$2"
"#;

impl Server {
    /// Lets it end with the process, where its value stands in a static that nothing drops.
    pub(crate) fn end_with_process(&mut self) {
        let (id, folder) = (self.child.id().to_string(), self.folder.path());
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh", &id])
            .arg(folder)
            .arg(self.end)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.keeper = Some(keeper.unwrap());
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-s", self.end, &id]).status();
        if asked.is_err() {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }

    /// Starts it again after [`Server::stop`], and waits until it `answers`.
    pub fn restart(&mut self, answers: impl Fn() -> bool) {
        self.child = self.command.spawn().unwrap();
        self.wait_until(answers);
    }

    fn wait_until(&mut self, answers: impl Fn() -> bool) {
        for _ in 0..PAUSES_MAX {
            if answers() {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{:?} ended with {ended:?}", self.command);
            wait(PAUSE_MILLISECONDS);
        }
        panic!("{:?} does not answer", self.command);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            drop(keeper.wait());
        }
    }
}

/// The first of `candidates` that exists.
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

/// A folder that the server's own user may write to, in memory where there is room: no test is
/// about what a server keeps when the machine fails.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = if has_room(MEMORY) {
        tempfile::tempdir_in(MEMORY).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let opened = Command::new("chmod").arg("777").arg(folder.path()).status();
    assert!(opened.unwrap().success());
    folder
}

/// True if the file system at `folder` can take all servers that tests start at once.
fn has_room(folder: &str) -> bool {
    let mut asked = Command::new("df");
    asked.args(["--output=avail", "--block-size=1M", folder]);
    let Ok(output) = asked.output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let free = text.lines().last().and_then(|it| it.trim().parse().ok());
    free.is_some_and(|free: u64| free >= ROOM_MEGABYTES)
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
        keeper: None,
        folder,
    };
    server.wait_until(answers);
    server
}
