//! The commands: found by name, checked, queued in a transaction or carried out.
#![expect(
    clippy::unnecessary_wraps,
    reason = "the table of commands holds functions of one kind"
)]

mod aggregate;
mod bits;
mod connection;
mod describe;
mod draws;
mod expiry;
mod hash;
mod increment;
mod keys;
mod list;
mod range;
mod scan;
mod server;
mod set;
mod sorted_set;
mod string;
mod transaction;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::client::{Answers, Client};
use crate::commands::Command;
use crate::fail::Fail;
use crate::number::{parse_double, parse_integer};
use crate::reply::Reply;
use crate::space::Space;

/// A command: its name, with its container's before it, and how many arguments it takes, the name
/// included; negative means at least.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    arity: i8,
    run: Run,
}

type Run = fn(&mut Call<'_, '_>) -> Result<(), Fail>;

/// One command under way.
pub(crate) struct Call<'a, 'txn> {
    /// The name and what follows.
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) spec: &'static Spec,
    pub(crate) client: &'a mut Client,
    pub(crate) space: &'a mut Space<'txn>,
    pub(crate) reply: &'a mut Reply,
}

/// Every command, by name.
static TABLE: LazyLock<HashMap<&'static [u8], &'static Spec>> = LazyLock::new(|| {
    let all = [
        aggregate::SPECS,
        bits::SPECS,
        connection::SPECS,
        describe::SPECS,
        expiry::SPECS,
        hash::SPECS,
        increment::SPECS,
        keys::SPECS,
        list::SPECS,
        range::SPECS,
        scan::SPECS,
        server::SPECS,
        set::SPECS,
        sorted_set::SPECS,
        string::SPECS,
        transaction::SPECS,
    ];
    let specs = all.into_iter().flatten();
    specs.map(|spec| (spec.name.as_bytes(), spec)).collect()
});

/// Longest name of a command with its subcommand, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Most bytes of a name and of arguments that an error repeats.
const REPEATED_BYTES_MAX: usize = 128;

impl Spec {
    const fn new(name: &'static str, arity: i8, run: Run) -> Self {
        Self { name, arity, run }
    }

    const fn takes(&self, count: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= least
        } else {
            count == least
        }
    }
}

impl<'a> Call<'a, '_> {
    /// The argument at `index`; nothing where there is none.
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).copied().unwrap_or_default()
    }

    /// The arguments from `index` on.
    pub(crate) fn rest(&self, index: usize) -> &'a [&'a [u8]] {
        self.args.get(index..).unwrap_or_default()
    }

    /// The argument at `index` as a word of an option.
    pub(crate) fn is_word(&self, index: usize, word: &str) -> bool {
        c_string(self.arg(index), usize::MAX).eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn integer(&self, index: usize) -> Result<i64, Fail> {
        parse_integer(self.arg(index)).ok_or_else(Fail::not_integer)
    }

    pub(crate) fn double(&self, index: usize) -> Result<f64, Fail> {
        parse_double(self.arg(index)).ok_or_else(Fail::not_float)
    }

    /// The name of the command as errors say it.
    pub(crate) const fn name(&self) -> &'static str {
        self.spec.name
    }
}

/// Carries out one command, or queues it, and answers.
///
/// # Errors
/// Only when the file failed; what the client did wrong is its answer.
pub(crate) fn execute(
    command: Command,
    client: &mut Client,
    space: &mut Space<'_>,
    reply: &mut Reply,
) -> Result<(), Fail> {
    let args = command.arguments();
    if is_http(&args) {
        client.closing = true;
        return Ok(());
    }
    let found = match command.refusal {
        Some(reason) => Err(reason.into()),
        None => find(&args),
    };
    let start = reply.len();
    space.shared.totals.commands += 1;
    space.begun.command = space.changes();
    reply.protocol = client.protocol;
    reply.begin();
    let outcome = match found {
        Ok(spec) => match &mut client.transaction {
            Some(transaction) if !transaction::is_immediate(spec.name) => {
                transaction::queue(transaction, &client.memory, (spec, command), reply)
            }
            _ => run(spec, &args, client, space, reply),
        },
        Err(fail) => Err(transaction::refuse(client, &args, fail)),
    };
    if let Err(fail) = outcome {
        reply.truncate(start);
        match fail {
            Fail::Said(text) => reply.error(&text),
            Fail::Damaged(_) | Fail::Store(_) => return Err(fail),
        }
    }
    if matches!(
        client.answers,
        Answers::Off | Answers::SkipNext | Answers::Skip
    ) {
        reply.truncate(start);
    }
    client.answers = match client.answers {
        Answers::SkipNext => Answers::Skip,
        Answers::Skip => Answers::On,
        same => same,
    };
    Ok(())
}

/// Carries out one command.
pub(crate) fn run(
    spec: &'static Spec,
    args: &[&[u8]],
    client: &mut Client,
    space: &mut Space<'_>,
    reply: &mut Reply,
) -> Result<(), Fail> {
    space.db = client.db;
    space.room.begin();
    client.last_command = spec.name;
    let around = space.begun.part;
    space.begun.part = space.changes();
    let done = (spec.run)(&mut Call {
        args,
        spec,
        client,
        space,
        reply: &mut *reply,
    });
    let is_whole = space.changes() == space.begun.part;
    space.begun.part = around;
    match done {
        // Where a part was done, nothing of the transaction may become durable.
        Err(Fail::Damaged(what)) if is_whole => Err(Fail::unread(&what)),
        done => done.and_then(|()| reply.check_whole()),
    }
}

/// The command that the arguments name.
fn find(args: &[&[u8]]) -> Result<&'static Spec, Fail> {
    let name = args.first().copied().unwrap_or_default();
    let Some(spec) = by_name(name) else {
        return Err(unknown(args));
    };
    let spec = match args.get(1) {
        Some(subcommand) if is_container(spec.name) => {
            let whole = [name, b"|", *subcommand].concat();
            let found = by_name(&whole).filter(|_| !subcommand.contains(&b'|'));
            match found {
                Some(found) => found,
                // COMMAND alone is a command too; the others are not.
                None => return Err(unknown_subcommand(name, subcommand)),
            }
        }
        _ => spec,
    };
    if spec.takes(args.len()) {
        Ok(spec)
    } else {
        Err(Fail::arity(spec.name))
    }
}

/// Returns whether a request of HTTP has come in the place of commands. As in Redis, it ends the
/// connection before its body, in which a web page may have hidden commands.
fn is_http(args: &[&[u8]]) -> bool {
    let name = args.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn by_name(name: &[u8]) -> Option<&'static Spec> {
    let mut buffer = [0; NAME_BYTES_MAX];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    TABLE.get(&*lower).copied()
}

fn is_container(name: &str) -> bool {
    matches!(name, "client" | "command" | "config" | "object")
}

/// A container without a subcommand, refused for its number of arguments.
fn container(call: &mut Call<'_, '_>) -> Result<(), Fail> {
    Err(Fail::arity(call.name()))
}

fn unknown(args: &[&[u8]]) -> Fail {
    let name = args.first().copied().unwrap_or_default();
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_string(name, REPEATED_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let mut room = REPEATED_BYTES_MAX;
    for argument in args.iter().skip(1) {
        if room == 0 {
            break;
        }
        let shown = c_string(argument, room);
        text.push(b'\'');
        text.extend_from_slice(shown);
        text.extend_from_slice(b"' ");
        room = room.saturating_sub(shown.len() + 3);
    }
    Fail::Said(text)
}

fn unknown_subcommand(name: &[u8], subcommand: &[u8]) -> Fail {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(c_string(subcommand, REPEATED_BYTES_MAX));
    text.extend_from_slice(b"'. Try ");
    text.extend_from_slice(&name.to_ascii_uppercase());
    text.extend_from_slice(b" HELP.");
    Fail::Said(text)
}

/// An option as Redis compares it: up to the first NUL, in lower case.
pub(crate) fn word(text: &[u8]) -> Vec<u8> {
    c_string(text, usize::MAX).to_ascii_lowercase()
}

/// Returns the beginning of a text that C would read: up to the first NUL, and at most `most`
/// bytes.
pub(crate) fn c_string(text: &[u8], most: usize) -> &[u8] {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    text.get(..most.min(text.len())).unwrap_or_default()
}
