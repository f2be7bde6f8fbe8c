//! Messages in the middle of a reply: servers up to Redis 7.0 write those that a command of the client
//! causes into the reply that is half written.

use super::capture::Capture;
use super::end::End;
use super::text::Digests;
use crate::resp::{Limits, ReplyScanner};

/// The messages in the reply under way.
#[derive(Debug)]
pub(super) struct Aside {
    scanner: ReplyScanner,
    capture: Capture,
    /// Their bytes, which the client sees even where it does not see the reply.
    bytes: Vec<u8>,
    outcome: Result<(), End>,
}

impl Aside {
    pub(super) fn new() -> Self {
        Self {
            scanner: ReplyScanner::new(Limits::SERVER),
            capture: Capture::default(),
            bytes: Vec::new(),
            outcome: Ok(()),
        }
    }

    /// Takes bytes of a message, and keeps them where the reply may be one that the client does not see.
    pub(super) fn take(&mut self, mut part: &[u8], keeps: bool) {
        if keeps {
            self.bytes.extend_from_slice(part);
        }
        while !part.is_empty() && self.outcome.is_ok() {
            if self.scanner.is_between_values() {
                self.capture.begin(0, Digests::None);
            }
            let capture = &mut self.capture;
            match self.scanner.scan(part, &mut |event| capture.visit(event)) {
                Ok(scan) => {
                    part = part.get(scan.consumed..).unwrap_or_default();
                    if scan.complete {
                        self.capture.end();
                        self.outcome = self.capture.check_message();
                    }
                }
                Err(error) => self.outcome = Err(End::Protocol(error)),
            }
        }
    }

    /// Returns what the messages so far come to.
    ///
    /// # Errors
    /// One that is none, or that sends the client to another server.
    pub(super) const fn outcome(&self) -> Result<(), End> {
        self.outcome
    }

    /// Takes the bytes that are kept.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}
