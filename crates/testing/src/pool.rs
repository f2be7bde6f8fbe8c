//! Servers that the tests of a program take in turn: each has one to itself while it runs.

use std::sync::{Mutex, PoisonError};

use crate::server::Server;

/// Servers of one kind, as many as tests run at a time. They end with the process.
#[derive(Debug)]
pub struct Pool {
    start: fn() -> (Server, String),
    idle: Mutex<Vec<(Server, String)>>,
}

impl Pool {
    /// Creates a pool of servers that `start` starts, each with its socket.
    pub const fn new(start: fn() -> (Server, String)) -> Self {
        Self {
            start,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Lets a test use the socket of a server that no other test has meanwhile. The server of a test that
    /// panics is stopped, for nobody knows what it left there.
    pub fn lend(&self, test: impl FnOnce(&str)) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let (server, socket) = taken.unwrap_or_else(|| {
            let (mut server, socket) = (self.start)();
            server.end_with_process();
            (server, socket)
        });
        test(&socket);
        idle().push((server, socket));
    }
}
