//! A `PostgreSQL` server of Debian.

use std::fs::read_dir;
use std::path::PathBuf;

use crate::server::{Server, folder, found, program, start};

/// Settings of the server: it has no address, and no test is about what a disk keeps.
const SETTINGS: [&str; 4] = [
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    // In megabytes: the data lie in memory.
    "max_wal_size=128",
];

/// A `PostgreSQL` server, and the folder of its socket; `answers` tries to connect to a URL.
pub fn running(answers: impl Fn(&str) -> bool) -> (Server, String) {
    let folder = folder();
    let data = folder.path().join("data");
    let made = program(&installed("initdb"), "postgres")
        .args(["-U", "probity", "-A", "trust", "-E", "UTF8"])
        .args(["--locale=C.UTF-8", "--no-sync", "-D"])
        .arg(&data)
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let socket = folder.path().to_str().unwrap().to_owned();
    let mut command = program(&installed("postgres"), "postgres");
    command
        .arg("-D")
        .arg(&data)
        .args(["-k", &socket])
        .args(SETTINGS.iter().flat_map(|it| ["-c", it]));
    let url = url(&socket);
    let server = start(command, folder, "INT", || answers(&url));
    (server, socket)
}

/// The URL of the server with its socket in this folder.
pub fn url(socket: &str) -> String {
    format!("postgres://probity@{}/postgres", socket.replace('/', "%2F"))
}

/// Debian keeps the programs of each release in a folder of its own.
fn installed(name: &str) -> PathBuf {
    let mut releases: Vec<PathBuf> = read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .map(|release| release.unwrap().path().join("bin").join(name))
        .collect();
    releases.sort();
    releases.reverse();
    found(&releases)
}
