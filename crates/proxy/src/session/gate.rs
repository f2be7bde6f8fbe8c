//! Which commands are let through when, and what the server is sent in place of some.

use super::Session;
use super::effect::ReplyMode;
use crate::resp::{Arguments, put_command};

/// Whether a command may go to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// Not before it is known what the commands before it did.
    Wait,
    Refuse(&'static str),
}

const REPLY_IN_MULTI: &str = "CLIENT REPLY inside MULTI does not pass through the proxy";
const IN_MULTI: &str =
    "HELLO with a version, MONITOR and subscriptions inside MULTI do not pass through the proxy";
const LOGINS: &str = "HELLO with more than one AUTH does not pass through the proxy";
const WHILE_MONITORING: &str = "only PING, RESET and QUIT pass through the proxy after MONITOR";

impl Session {
    /// Whether the command called `name` may go now.
    pub(super) fn gate(&self, name: &str) -> Gate {
        if self.monitoring && !matches!(name, "ping" | "reset" | "quit") {
            return Gate::Refuse(WHILE_MONITORING);
        }
        let arguments = self.commands.arguments();
        // The server tries each of them, and its one reply does not say which it refused.
        if name == "hello" && logins(arguments) > 1 {
            return Gate::Refuse(LOGINS);
        }
        let refusal = match name {
            "client|reply" => {
                let mode = ReplyMode::of(arguments.text(2));
                let silent = matches!(mode, Some(ReplyMode::Off | ReplyMode::SkipNext));
                (silent && arguments.len() == 3).then_some(REPLY_IN_MULTI)
            }
            // Whoever logs in halfway through EXEC, or changes what a message looks like, cannot be followed. Which
            // channels there will be then is not known yet. The store has neither users nor channels.
            "hello" => (self.users && arguments.len() > 1).then_some(IN_MULTI),
            "monitor" | "subscribe" | "psubscribe" | "ssubscribe" | "unsubscribe"
            | "punsubscribe" | "sunsubscribe" => Some(IN_MULTI),
            _ => None,
        };
        let Some(reason) = refusal else {
            return Gate::Open;
        };
        if self.is_owed() && (self.in_multi || self.multis > 0) {
            return Gate::Wait;
        }
        if self.in_multi {
            return Gate::Refuse(reason);
        }
        Gate::Open
    }

    /// What goes to the server in place of the command as it was written: of a line its words, so that
    /// nobody takes it apart differently, and of `CLIENT REPLY` a request that the server answers with
    /// the same permission or the same error, and that changes nothing.
    pub(super) fn replace(&self, name: &str) -> Option<Vec<u8>> {
        let arguments = self.commands.arguments();
        let text = |index: usize| arguments.text(index);
        let words: Vec<&[u8]> = if name == "client|reply" {
            match ReplyMode::of(text(2)) {
                _ if arguments.len() != 3 => vec![text(0), b"REPLY"],
                Some(_) => vec![text(0), b"REPLY", b"ON"],
                None => vec![text(0), b"REPLY", b"?"],
            }
        } else if self.commands.is_inline() {
            (0..arguments.len()).map(text).collect()
        } else {
            return None;
        };
        let mut bytes = Vec::new();
        put_command(&mut bytes, &words);
        Some(bytes)
    }
}

/// How many options AUTH a HELLO has.
fn logins(arguments: &Arguments) -> usize {
    let (mut count, mut index) = (0, 2);
    while index < arguments.len() {
        let option = arguments.text(index);
        if option.eq_ignore_ascii_case(b"auth") {
            count += 1;
            index += 2;
        } else if option.eq_ignore_ascii_case(b"setname") {
            index += 1;
        }
        index += 1;
    }
    count
}

pub(super) fn is_replication(name: &[u8]) -> bool {
    [&b"sync"[..], b"psync", b"replconf"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}

/// Whether the beginning of a long command may go before its end is there: not where the command
/// changes the connection, or may be answered here.
pub(super) fn may_stream(arguments: &Arguments) -> bool {
    let name = arguments.text(0).to_ascii_lowercase();
    !matches!(
        name.as_slice(),
        b"auth"
            | b"client"
            | b"discard"
            | b"exec"
            | b"hello"
            | b"monitor"
            | b"multi"
            | b"psubscribe"
            | b"punsubscribe"
            | b"quit"
            | b"reset"
            | b"select"
            | b"ssubscribe"
            | b"subscribe"
            | b"sunsubscribe"
            | b"unsubscribe"
    )
}
