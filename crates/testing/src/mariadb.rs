//! A `MariaDB` server of Debian.

use std::path::{Path, PathBuf};

use crate::server::{Server, folder, found, program, start};

/// Settings of the server and of what makes its data. No test is about what a disk keeps.
const SETTINGS: [&str; 9] = [
    "--debug-no-sync",
    "--skip-sync-frm",
    "--skip-innodb-doublewrite",
    "--innodb-flush-method=nosync",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    // A test makes and removes thousands of tables.
    "--innodb-file-per-table=0",
    "--innodb-stats-persistent=0",
];

/// A `MariaDB` server, and its socket; `answers` tries to connect to a URL.
pub fn running(answers: impl Fn(&str) -> bool) -> (Server, String) {
    let folder = folder();
    let data = format!("--datadir={}", folder.path().join("data").display());
    // A server that starts removes every temporary table that it finds, of other servers too.
    let temporary = format!("--tmpdir={}", folder.path().display());
    let made = program(&installed("mariadb-install-db"), "mysql")
        .args(["--no-defaults", "--auth-root-authentication-method=normal"])
        .args(["--skip-test-db", &data, &temporary])
        .args(SETTINGS)
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let socket = folder.path().join("s").to_str().unwrap().to_owned();
    let mut command = program(&installed("mariadbd"), "mysql");
    command
        .args(["--no-defaults", "--skip-networking", &data, &temporary])
        .arg(format!("--socket={socket}"))
        .args(SETTINGS);
    let url = url(&socket, "mysql");
    let server = start(command, folder, "TERM", || answers(&url));
    (server, socket)
}

/// The URL of a database of the server with this socket.
pub fn url(socket: &str, database: &str) -> String {
    let socket = socket.replace('/', "%2F");
    format!("mysql://root@localhost/{database}?socket={socket}")
}

fn installed(name: &str) -> PathBuf {
    found(&["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(name)))
}
