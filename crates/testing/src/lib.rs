//! Servers for tests, each in a folder of its own and stopped at its end, the program under test,
//! and waits. Only tests
//! depend on this crate.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    reason = "a test without its server cannot go on"
)]

mod listener;
pub mod mariadb;
pub mod pool;
pub mod postgres;
pub mod program;
pub mod redis;
pub mod server;

use std::net::TcpListener;
use std::time::Duration;

/// A port of this machine that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits for so many milliseconds, for something of another process that nothing announces.
pub fn wait(milliseconds: u64) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a process of another program is waited for"
    )]
    std::thread::sleep(Duration::from_millis(milliseconds));
}
