//! One client's state machine: bytes in, entries and permissions to forward out. No socket, no clock.

mod capture;
mod pending;
mod reply;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use probity_policy::Policy;

use crate::audit::{Actor, EntryBatch, put_name};
use crate::command::{CommandFacts, Extraction, KeyUse, Table};
use crate::resp::{Arguments, CommandScanner, Limits, ReplyScanner};
use capture::Capture;
use pending::{Pending, is_secret};

/// What to do after commands were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Forward, then read on.
    Continue,
    /// Ask the server which arguments of [`Session::arguments`] are keys, then call [`Session::resolve`].
    Ask,
    /// Ask the server what the command is, then call [`Session::learn`].
    Learn,
    /// Forward nothing more; answer with this error after what is under way, then close.
    Refuse(&'static str),
    /// What came is not the protocol: forward up to it, let the server answer, read no more.
    Broken,
}

/// What taking commands did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of the input that were understood.
    pub consumed: usize,
    /// Bytes at the end of what was understood that may not be forwarded yet.
    pub hold: usize,
    /// What to do.
    pub next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyMode {
    On,
    SkipNext,
    Off,
}

/// One client's session.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mode of its own in the protocol"
)]
pub struct Session {
    policy: Arc<Policy>,
    commands: CommandScanner,
    replies: ReplyScanner,
    capture: Capture,
    keys: Vec<KeyUse>,
    /// The command whose keys are asked for.
    waiting: Option<Arc<CommandFacts>>,
    /// Bytes of the command under way that were seen before its name was known.
    held: usize,
    reply_mode: ReplyMode,
    multi_seen: bool,
    pending: VecDeque<Pending>,
    queued: VecDeque<Pending>,
    in_multi: bool,
    /// Elements of an `EXEC` reply still to come.
    exec_left: u64,
    early: bool,
    monitoring: bool,
    channels: [HashSet<u64>; 3],
    received: u64,
    settled: u64,
    db: u64,
    principal: Option<String>,
    name: Option<String>,
    actor: Actor,
    default_principal: Option<String>,
}

const REFUSE_REPLICATION: &str = "replication does not pass through the proxy";
const REFUSE_REPLY_IN_MULTI: &str = "CLIENT REPLY inside MULTI does not pass through the proxy";
const REFUSE_TOO_LARGE: &str = "the keys of this command are too many to record";

impl Session {
    /// A session on a fresh connection to the server, logged in as `principal` and on `db`.
    pub fn new(policy: Arc<Policy>, principal: Option<String>, db: u64) -> Self {
        let mut session = Self {
            policy,
            commands: CommandScanner::new(Limits::CLIENT),
            replies: ReplyScanner::new(Limits::SERVER),
            capture: Capture::default(),
            keys: Vec::new(),
            waiting: None,
            held: 0,
            reply_mode: ReplyMode::On,
            multi_seen: false,
            pending: VecDeque::new(),
            queued: VecDeque::new(),
            in_multi: false,
            exec_left: 0,
            early: false,
            monitoring: false,
            channels: Default::default(),
            received: 0,
            settled: 0,
            db,
            principal: principal.clone(),
            name: None,
            actor: Actor::default(),
            default_principal: principal,
        };
        session.refresh_actor();
        session
    }

    /// Understands commands in `input`, which follows what was given before.
    pub fn take_commands(
        &mut self,
        table: &Table,
        input: &[u8],
        entries: &mut EntryBatch,
    ) -> Taken {
        let may_be_key = |arguments: &Arguments| {
            table
                .find(arguments)
                .is_none_or(|facts| facts.may_be_key(arguments))
        };
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let was_between = self.commands.is_between_commands();
            let scan = match self.commands.scan(rest, &may_be_key) {
                Ok(scan) => scan,
                Err((_, crate::resp::RespError::TooMuchKept(_))) => {
                    return Taken {
                        consumed: at,
                        hold: 0,
                        next: Next::Refuse(REFUSE_TOO_LARGE),
                    };
                }
                Err((taken, _)) => {
                    return Taken {
                        consumed: at + taken,
                        hold: 0,
                        next: Next::Broken,
                    };
                }
            };
            at += scan.consumed;
            if was_between {
                self.held = 0;
            }
            if !scan.complete {
                return self.incomplete(at, scan.consumed);
            }
            let held = self.held + scan.consumed;
            self.held = 0;
            let next = self.command(table, entries);
            if next != Next::Continue {
                return Taken {
                    consumed: at,
                    hold: held,
                    next,
                };
            }
        }
    }

    /// The arguments of the command that is asked about.
    pub const fn arguments(&self) -> &Arguments {
        self.commands.arguments()
    }

    /// Takes the keys of the command that was asked about; its bytes may then be forwarded.
    pub fn resolve(&mut self, keys: &[KeyUse], entries: &mut EntryBatch) {
        if let Some(facts) = self.waiting.take() {
            self.admit(Some(&*facts), keys, entries);
        }
    }

    /// Goes on with a command that was unknown, by a table that may know it now.
    pub fn learn(&mut self, table: &Table, entries: &mut EntryBatch) -> Next {
        if let Some(facts) = table.find(self.commands.arguments()).map(Arc::clone) {
            self.known(facts, entries)
        } else {
            self.admit(None, &[], entries);
            Next::Continue
        }
    }

    /// How many commands are under way, those included that a transaction holds back.
    pub fn awaited(&self) -> usize {
        self.pending.len() + self.queued.len()
    }

    /// Whether the server owes a reply.
    pub fn is_owed(&self) -> bool {
        !self.pending.is_empty() || self.exec_left > 0
    }

    /// Whether the server answers nothing until something happens elsewhere, as with `BLPOP`.
    pub fn is_blocked(&self) -> bool {
        !self.in_multi && self.pending.front().is_some_and(|head| head.blocks)
    }

    /// Whether a reply goes on behind [`Session::settled`].
    pub const fn is_midway(&self) -> bool {
        self.early || self.exec_left > 0
    }

    /// How far into the server's bytes the client may read once the entries made so far are safe.
    pub const fn settled(&self) -> u64 {
        self.settled
    }

    /// Until a command's name is known nothing of it is forwarded.
    fn incomplete(&mut self, at: usize, taken: usize) -> Taken {
        let named = self.commands.name_is_known();
        if named && is_replication(self.commands.arguments().text(0)) {
            let hold = self.held + taken;
            return Taken {
                consumed: at,
                hold,
                next: Next::Refuse(REFUSE_REPLICATION),
            };
        }
        self.held = if named || self.commands.is_between_commands() {
            0
        } else {
            self.held + taken
        };
        Taken {
            consumed: at,
            hold: self.held,
            next: Next::Continue,
        }
    }

    fn command(&mut self, table: &Table, entries: &mut EntryBatch) -> Next {
        if is_replication(self.commands.arguments().text(0)) {
            return Next::Refuse(REFUSE_REPLICATION);
        }
        if let Some(facts) = table.find(self.commands.arguments()).map(Arc::clone) {
            self.known(facts, entries)
        } else {
            Next::Learn
        }
    }

    fn known(&mut self, facts: Arc<CommandFacts>, entries: &mut EntryBatch) -> Next {
        if &*facts.name == "client|reply" && self.multi_seen {
            return Next::Refuse(REFUSE_REPLY_IN_MULTI);
        }
        let mut keys = std::mem::take(&mut self.keys);
        let extraction = facts.extract(self.commands.arguments(), &mut keys);
        if extraction == Extraction::Ask {
            self.waiting = Some(facts);
        } else {
            self.admit(Some(&*facts), &keys, entries);
        }
        self.keys = keys;
        if extraction == Extraction::Ask {
            Next::Ask
        } else {
            Next::Continue
        }
    }

    fn admit(&mut self, facts: Option<&CommandFacts>, keys: &[KeyUse], entries: &mut EntryBatch) {
        let name = facts.map_or("", |facts| &*facts.name);
        match name {
            "multi" => self.multi_seen = true,
            "exec" | "discard" | "reset" => self.multi_seen = false,
            _ => {}
        }
        let answered = self.is_answered(name);
        let pending = Pending::new(facts, self.commands.arguments(), keys, answered);
        self.commands.forget(is_secret(name));
        self.pending.push_back(pending);
        self.settle_silent(entries);
    }

    fn is_answered(&mut self, name: &str) -> bool {
        if name == "client|reply" {
            let mode = self.commands.arguments().text(2).to_ascii_lowercase();
            match mode.as_slice() {
                b"on" => self.reply_mode = ReplyMode::On,
                b"off" => self.reply_mode = ReplyMode::Off,
                b"skip" if self.reply_mode != ReplyMode::Off => {
                    self.reply_mode = ReplyMode::SkipNext;
                }
                _ => {}
            }
            return !matches!(mode.as_slice(), b"off" | b"skip")
                && self.reply_mode == ReplyMode::On;
        }
        if name == "reset" {
            self.reply_mode = ReplyMode::On;
        }
        match self.reply_mode {
            ReplyMode::On => true,
            ReplyMode::Off => false,
            ReplyMode::SkipNext => {
                self.reply_mode = ReplyMode::On;
                false
            }
        }
    }

    fn refresh_actor(&mut self) {
        let chosen = self.principal.as_deref().or(self.name.as_deref());
        let found = self
            .policy
            .actor(self.principal.as_deref(), self.name.as_deref());
        self.actor = Actor {
            name: chosen.unwrap_or("default").to_owned(),
            claimed: self.principal.is_none() && self.name.is_some(),
            roles: found.map(|actor| actor.roles.clone()).unwrap_or_default(),
        };
    }
}

fn name_of(bytes: &[u8]) -> String {
    let mut name = String::new();
    put_name(&mut name, bytes);
    name
}

fn is_replication(name: &[u8]) -> bool {
    [&b"sync"[..], b"psync", b"replconf"]
        .iter()
        .any(|word| name.eq_ignore_ascii_case(word))
}
