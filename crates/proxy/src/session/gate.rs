//! The gate of commands: when each is let through, and what the server is sent instead of some.

use super::effect::{Effect, ReplyMode};
use super::exchange::Exchange;
use crate::command::CommandFacts;
use crate::resp::{Arguments, CommandScanner, put_command};

/// The decision whether a command may go to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// Not before it is known what the commands before it did.
    Wait,
    Refuse(&'static str),
}

const REPLY_IN_MULTI: &str = "CLIENT REPLY inside MULTI does not pass through the proxy";
const IN_MULTI: &str = "HELLO with a version or a name, MONITOR and subscriptions inside MULTI do not pass through the proxy";
const LOGINS: &str = "HELLO with more than one AUTH does not pass through the proxy";
const REPLICATION: &str = "replication does not pass through the proxy";
const ZERO: &str = "a zero byte in the name of a command does not pass through the proxy";
const ZERO_BEFORE_KEYS: &str =
    "a zero byte in a word that keys follow does not pass through the proxy";
const DEBUGGER: &str = "the debugger of scripts does not pass through the proxy";
const WHILE_MONITORING: &str = "only PING, RESET and QUIT pass through the proxy after MONITOR";

/// Returns whether the command `name` may go now.
pub(super) fn gate(name: &str, arguments: &Arguments, exchange: &Exchange) -> Gate {
    let awaited = &exchange.awaited;
    if exchange.monitoring && !matches!(name, "ping" | "reset" | "quit") {
        return if awaited.holds_reset() {
            Gate::Wait
        } else {
            Gate::Refuse(WHILE_MONITORING)
        };
    }
    // The server tries each of them, and its one reply does not say which it refused.
    if name == "hello" && logins(arguments) > 1 {
        return Gate::Refuse(LOGINS);
    }
    if starts_debugger(name, arguments) {
        return Gate::Refuse(DEBUGGER);
    }
    let Some(reason) = refusal_in_multi(name, arguments, exchange.identity.has_users()) else {
        return Gate::Open;
    };
    if exchange.is_owed() && awaited.may_be_in_multi() {
        return Gate::Wait;
    }
    if awaited.in_multi() {
        return Gate::Refuse(reason);
    }
    Gate::Open
}

/// Returns why the command does not pass inside a transaction.
fn refusal_in_multi(name: &str, arguments: &Arguments, has_users: bool) -> Option<&'static str> {
    match name {
        "client|reply" => {
            let mode = ReplyMode::of(arguments);
            let silent = matches!(mode, Some(ReplyMode::Off | ReplyMode::SkipNext));
            (silent && arguments.len() == 3).then_some(REPLY_IN_MULTI)
        }
        // A client that logs in halfway through EXEC, or changes the form of messages, cannot
        // be followed. Its channels at that time are not known yet. The store has neither users
        // nor channels, but a name, which a HELLO may take that it refuses.
        "hello" => {
            let names = || Effect::of(name, arguments).name().is_some();
            (has_users && arguments.len() > 1 || names()).then_some(IN_MULTI)
        }
        "monitor" | "subscribe" | "psubscribe" | "ssubscribe" | "unsubscribe" | "punsubscribe"
        | "sunsubscribe" => Some(IN_MULTI),
        _ => None,
    }
}

/// Returns the bytes that replace the command as it was written. A line becomes its words, so
/// that the server splits it in no other way. `CLIENT REPLY` and `CLIENT CAPA` become a request
/// that the server answers with the same permission or error, and that changes nothing.
pub(super) fn replacement(name: &str, commands: &CommandScanner) -> Option<Vec<u8>> {
    let arguments = commands.arguments();
    let text = |index: usize| arguments.beginning(index);
    let words: Vec<&[u8]> = if name == "client|reply" {
        match ReplyMode::of(arguments) {
            _ if arguments.len() != 3 => vec![text(0), b"REPLY"],
            Some(_) => vec![text(0), b"REPLY", b"ON"],
            None => vec![text(0), b"REPLY", b"?"],
        }
    } else if is_capa(name, arguments) {
        // A capability that no server has, so that it leads the client nowhere.
        let none: &[&[u8]] = if arguments.len() > 2 { &[b"?"] } else { &[] };
        [&[text(0), b"CAPA"], none].concat()
    } else if commands.is_inline() {
        (0..arguments.len()).map(text).collect()
    } else {
        return None;
    };
    let mut bytes = Vec::new();
    put_command(&mut bytes, &words);
    Some(bytes)
}

/// Returns whether the command is `CLIENT CAPA`, which a server may not describe.
fn is_capa(name: &str, arguments: &Arguments) -> bool {
    name == "client|capa" || name == "client" && arguments.is_word(1, "capa")
}

/// Returns whether the command begins the debugger of scripts, in which the server takes what
/// follows for words of the debugger.
fn starts_debugger(name: &str, arguments: &Arguments) -> bool {
    let is_debug = name == "script|debug" || name == "script" && arguments.is_word(1, "debug");
    is_debug && (arguments.is_word(2, "yes") || arguments.is_word(2, "sync"))
}

/// Returns the number of options AUTH in a HELLO.
pub(super) fn logins(arguments: &Arguments) -> usize {
    let (mut count, mut index) = (0, 2);
    while index < arguments.len() {
        if arguments.is_word(index, "auth") {
            count += 1;
            index += 2;
        } else if arguments.is_word(index, "setname") {
            index += 1;
        }
        index += 1;
    }
    count
}

/// Reason why a command never passes, by its facts.
pub(super) fn refusal(facts: Option<&CommandFacts>, arguments: &Arguments) -> Option<&'static str> {
    let ambiguous = || facts.is_some_and(|facts| facts.is_ambiguous(arguments));
    refusal_of_name(facts, arguments).or_else(|| ambiguous().then_some(ZERO_BEFORE_KEYS))
}

/// Why a command never passes, by its name alone: asked again for each part of a long one. Its other arguments are looked at when
/// all are there, before its end goes, without which the server does nothing.
pub(super) fn refusal_of_name(
    facts: Option<&CommandFacts>,
    arguments: &Arguments,
) -> Option<&'static str> {
    let does = facts.map_or(&b""[..], |facts| facts.name.as_bytes());
    if is_replication(arguments.beginning(0)) || is_replication(does) {
        return Some(REPLICATION);
    }
    // A server compares names up to a zero byte, or whole, as its hash table falls: nobody can tell which it is.
    let is_container = facts.is_some_and(CommandFacts::has_subcommand);
    let zero = arguments.has_zero(0) || is_container && arguments.has_zero(1);
    zero.then_some(ZERO)
}

fn is_replication(name: &[u8]) -> bool {
    [&b"sync"[..], b"psync", b"replconf"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}

/// Returns whether the beginning of a long command may go before its end has come. A command that
/// changes the connection, or may be answered here, may not.
pub(super) fn may_stream(facts: &CommandFacts) -> bool {
    let name = &*facts.name;
    let container = name
        .split_once('|')
        .map_or(name, |(container, _)| container);
    !matches!(
        container,
        "auth"
            | "client"
            | "discard"
            | "exec"
            | "hello"
            | "monitor"
            | "multi"
            | "psubscribe"
            | "punsubscribe"
            | "quit"
            | "reset"
            | "select"
            | "ssubscribe"
            | "subscribe"
            | "sunsubscribe"
            | "unsubscribe"
    )
}
