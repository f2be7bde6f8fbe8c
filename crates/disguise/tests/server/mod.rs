//! A database server of Debian in a folder of its own, reached by socket alone and stopped at the end.

use std::fs::read_dir;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running server; it and its folder end with the value.
pub(crate) struct Server {
    child: Child,
    /// The signal at which it ends at once and in order.
    end: &'static str,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-s", self.end, &id]).status();
        if asked.is_err() {
            drop(self.child.kill());
        }
        drop(self.child.wait());
    }
}

/// A `PostgreSQL` server, and the folder of its socket.
pub(crate) fn postgres(answers: impl Fn(&str) -> bool) -> (Server, String) {
    let folder = folder();
    let data = folder.path().join("data");
    let made = program(&postgres_program("initdb"), "postgres")
        .args(["-U", "probity", "-A", "trust", "-E", "UTF8"])
        .args(["--locale=C.UTF-8", "-D"])
        .arg(&data)
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let socket = folder.path().to_str().unwrap().to_owned();
    let mut command = program(&postgres_program("postgres"), "postgres");
    let settings = ["-c", "listen_addresses=", "-c", "fsync=off"];
    command
        .arg("-D")
        .arg(&data)
        .args(["-k", &socket])
        .args(settings);
    let url = postgres_url(&socket);
    let server = start(command, folder, "INT", || answers(&url));
    (server, socket)
}

/// The URL of the server with its socket in this folder.
pub(crate) fn postgres_url(socket: &str) -> String {
    format!("postgres://probity@{}/postgres", socket.replace('/', "%2F"))
}

/// Debian keeps the programs of each release in a folder of its own.
fn postgres_program(name: &str) -> PathBuf {
    let mut releases: Vec<PathBuf> = read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .map(|release| release.unwrap().path().join("bin").join(name))
        .collect();
    releases.sort();
    releases.reverse();
    found(&releases)
}

#[expect(clippy::panic, reason = "a test without its server cannot run")]
/// The first of `candidates` that exists.
fn found(candidates: &[PathBuf]) -> PathBuf {
    let there = candidates.iter().find(|it| it.exists());
    there
        .unwrap_or_else(|| panic!("none of {candidates:?} is installed; ./test installs them"))
        .clone()
}

/// A program of a server. Servers refuse to run as root, so then they run as the user Debian made for them.
fn program(path: &Path, user: &str) -> Command {
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
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let opened = Command::new("chmod").arg("777").arg(folder.path()).status();
    assert!(opened.unwrap().success());
    folder
}

/// Starts `command` and waits until `answers`.
fn start(
    mut command: Command,
    folder: tempfile::TempDir,
    end: &'static str,
    answers: impl Fn() -> bool,
) -> Server {
    let child = command.current_dir(folder.path()).spawn().unwrap();
    let mut server = Server {
        child,
        end,
        _folder: folder,
    };
    let pause = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    while !answers() {
        let ended = server.child.try_wait().unwrap();
        assert!(ended.is_none(), "the server ended with {ended:?}");
        assert!(waited < PATIENCE, "the server does not answer");
        #[expect(
            clippy::disallowed_methods,
            reason = "a process of another program is waited for"
        )]
        sleep(pause);
        waited += pause;
    }
    server
}
