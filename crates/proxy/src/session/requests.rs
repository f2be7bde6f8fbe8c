//! The client's side of a session: which command goes to the server, when, and in which form.

use std::sync::Arc;

use super::effect::Effect;
use super::exchange::Exchange;
use super::gate::{self, Gate};
use super::pending::{Pending, is_secret};
use super::record::Time;
use super::{Next, STREAM_BYTES, Taken};
use crate::command::{CommandFacts, Deadline, Extraction, KeyUse, Table};
use crate::resp::{Arguments, CommandScanner, Limits, RespError};

const REFUSE_TOO_LARGE: &str = "the keys of this command are too many to record";
const REFUSE_TOO_LONG: &str = "this command is too long to be understood";

/// Cuts what the client sends into commands.
#[derive(Debug)]
pub(super) struct Requests {
    scanner: CommandScanner,
    keys: Vec<KeyUse>,
    /// The command whose keys are asked for.
    asked: Option<Arc<CommandFacts>>,
    /// Bytes of the command under way that are not forwarded.
    held: usize,
    /// The bytes that replace the command as the client wrote it.
    replacement: Option<Vec<u8>>,
    /// True while nothing is forwarded until everything is answered.
    fence: bool,
    /// The server's time before the command under way, once it was asked.
    time_before: Time,
    /// True if the server may keep keys whose time has come.
    keeps_ended: bool,
}

impl Requests {
    pub(super) fn new() -> Self {
        Self {
            scanner: CommandScanner::new(Limits::CLIENT),
            keys: Vec::new(),
            asked: None,
            held: 0,
            replacement: None,
            fence: false,
            time_before: Time::default(),
            keeps_ended: false,
        }
    }

    /// Returns the words of the command under way.
    pub(super) const fn arguments(&self) -> &Arguments {
        self.scanner.arguments()
    }

    pub(super) const fn take_replacement(&mut self) -> Option<Vec<u8>> {
        self.replacement.take()
    }

    pub(super) fn asked(&self) -> Option<&CommandFacts> {
        self.asked.as_deref()
    }

    /// Takes the command whose keys are asked for.
    pub(super) const fn take_asked(&mut self) -> Option<Arc<CommandFacts>> {
        self.asked.take()
    }

    /// Takes the time that the server showed before the command under way.
    pub(super) const fn tell_time(&mut self, time: Option<i64>) {
        self.time_before = Time::Asked(time);
    }

    /// Understands commands in `input`, which continues the earlier input.
    pub(super) fn take(&mut self, exchange: &mut Exchange, table: &Table, input: &[u8]) -> Taken {
        let may_be_key = |arguments: &Arguments| {
            table
                .find(arguments)
                .is_none_or(|facts| facts.may_be_key(arguments))
        };
        let mut at = 0;
        loop {
            if self.scanner.is_between_commands() {
                self.held = 0;
            }
            let rest = input.get(at..).unwrap_or_default();
            let scan = match self.scanner.scan(rest, &may_be_key) {
                Ok(scan) => scan,
                Err((_, error)) => return self.broken(at, error),
            };
            at += scan.consumed;
            let hold = std::mem::take(&mut self.held) + scan.consumed;
            if !scan.complete {
                return self.incomplete(exchange, table, (at, hold));
            }
            let next = if self.scanner.arguments().is_empty() {
                exchange.blank();
                Next::Continue
            } else {
                self.command(exchange, table)
            };
            if next != Next::Continue {
                return Taken {
                    consumed: at,
                    hold,
                    next,
                };
            }
        }
    }

    /// Goes on with a command that was unknown, by a table that may know it now.
    pub(super) fn learn(&mut self, exchange: &mut Exchange, table: &Table) -> Next {
        self.keeps_ended = table.has_import_mode();
        let facts = table.find(self.scanner.arguments()).map(Arc::clone);
        if let Some(reason) = gate::refusal(facts.as_deref(), self.scanner.arguments()) {
            return refuse(reason);
        }
        if !self.scanner.is_between_commands() {
            return self.stream(exchange, facts);
        }
        match facts {
            Some(facts) => self.known(exchange, facts),
            None => self.unknown(exchange),
        }
    }

    /// Goes on with a command that waited until everything before it was answered.
    pub(super) fn resume(&mut self, exchange: &mut Exchange, table: &Table) -> Next {
        if self.scanner.is_between_commands() {
            self.command(exchange, table)
        } else {
            self.begin(exchange, table)
        }
    }

    /// Lets the beginning of a long command go, of which more is to come. A question of the proxy's own
    /// may follow the replies that are awaited behind a fence, and would become a part of it.
    fn stream(&mut self, exchange: &mut Exchange, facts: Option<Arc<CommandFacts>>) -> Next {
        // The server may have learned a command by its end that it does not know now.
        let Some(facts) = facts.filter(|facts| gate::may_stream(facts)) else {
            return refuse(REFUSE_TOO_LONG);
        };
        if self.is_fenced(exchange) || exchange.awaits_name(Some(&*facts)) {
            return Next::Wait;
        }
        exchange.begun = Some(facts);
        Next::Continue
    }

    /// Lets the beginning of a long command go, if the table knows it; where that has changed
    /// meanwhile, it is asked for again.
    fn begin(&mut self, exchange: &mut Exchange, table: &Table) -> Next {
        match self.facts(exchange, table) {
            Some(facts) => self.stream(exchange, Some(facts)),
            None => self.learn_name(),
        }
    }

    /// Asks for a name that the table does not have, if all of it is there to ask for.
    fn learn_name(&self) -> Next {
        match self.scanner.arguments().whole(0) {
            Some(_) => Next::Learn,
            None => refuse(REFUSE_TOO_LONG),
        }
    }

    /// The facts about the command under way, as they were when its beginning went.
    fn facts(&self, exchange: &Exchange, table: &Table) -> Option<Arc<CommandFacts>> {
        match &exchange.begun {
            Some(facts) => Some(Arc::clone(facts)),
            None => table.find(self.scanner.arguments()).map(Arc::clone),
        }
    }

    /// Returns whether replies are awaited before the next command may go.
    fn is_fenced(&mut self, exchange: &Exchange) -> bool {
        self.fence &= exchange.is_owed();
        self.fence
    }

    /// Refuses what Redis refuses too, in its words; none of it is forwarded.
    fn broken(&self, at: usize, error: RespError) -> Taken {
        let next = match error {
            RespError::TooMuchKept(_) => refuse(REFUSE_TOO_LARGE),
            _ => Next::Refuse(self.scanner.complaint(error)),
        };
        Taken {
            consumed: at,
            hold: self.held,
            next,
        }
    }

    /// Holds a command until it is understood; a long value streams, but for its end.
    fn incomplete(
        &mut self,
        exchange: &mut Exchange,
        table: &Table,
        (at, hold): (usize, usize),
    ) -> Taken {
        let taken = |hold, next| Taken {
            consumed: at,
            hold,
            next,
        };
        if self.scanner.is_between_commands() {
            return taken(0, Next::Continue);
        }
        let named = self.scanner.name_is_known();
        let facts = self.facts(exchange, table).filter(|_| named);
        let refusal = gate::refusal_of_name(facts.as_deref(), self.scanner.arguments());
        if let (true, Some(reason)) = (named, refusal) {
            return taken(hold, refuse(reason));
        }
        if hold > STREAM_BYTES && !self.scanner.is_inline() {
            let next = if named {
                self.begin(exchange, table)
            } else {
                refuse(REFUSE_TOO_LONG)
            };
            let hold = if next == Next::Continue { 0 } else { hold };
            return taken(hold, next);
        }
        self.held = hold;
        taken(hold, Next::Continue)
    }

    /// Takes the command under way, which is whole.
    pub(super) fn command(&mut self, exchange: &mut Exchange, table: &Table) -> Next {
        self.keeps_ended = table.has_import_mode();
        let facts = self.facts(exchange, table);
        if let Some(reason) = gate::refusal(facts.as_deref(), self.scanner.arguments()) {
            return refuse(reason);
        }
        if self.is_fenced(exchange) || exchange.awaits_name(facts.as_deref()) {
            return Next::Wait;
        }
        match facts {
            Some(facts) => self.known(exchange, facts),
            None => self.learn_name(),
        }
    }

    /// Lets a command go that the server says it does not have.
    fn unknown(&mut self, exchange: &mut Exchange) -> Next {
        match gate::gate("", self.scanner.arguments(), exchange) {
            Gate::Refuse(reason) => refuse(reason),
            Gate::Wait => Next::Wait,
            Gate::Open => self.admit(exchange, None, &[]),
        }
    }

    fn known(&mut self, exchange: &mut Exchange, facts: Arc<CommandFacts>) -> Next {
        match gate::gate(&facts.name, self.scanner.arguments(), exchange) {
            Gate::Open => {}
            Gate::Wait => return Next::Wait,
            Gate::Refuse(reason) => return refuse(reason),
        }
        let deadline = Deadline::of(&facts.name, self.scanner.arguments());
        if let (Deadline::At(at), Time::NotAsked) = (self.deadline(deadline), self.time_before) {
            return Next::Time(at);
        }
        let mut keys = std::mem::take(&mut self.keys);
        let next = if facts.extract(self.scanner.arguments(), &mut keys) == Extraction::Ask {
            self.asked = Some(facts);
            Next::Ask
        } else {
            self.admit(exchange, Some(&*facts), &keys)
        };
        if keys.capacity() > 1 << 14 {
            keys = Vec::new();
        }
        self.keys = keys;
        next
    }

    const fn deadline(&self, said: Deadline) -> Deadline {
        if self.keeps_ended {
            said.where_kept()
        } else {
            said
        }
    }

    /// Lets a command go to the server with its keys.
    pub(super) fn admit(
        &mut self,
        exchange: &mut Exchange,
        facts: Option<&CommandFacts>,
        keys: &[KeyUse],
    ) -> Next {
        let name = facts.map_or("", |facts| &*facts.name);
        let replacement = gate::replacement(name, &self.scanner);
        if exchange.begun.is_some() && replacement.is_some() {
            // Its beginning has gone: the rest would be taken for a part of it.
            return refuse(REFUSE_TOO_LONG);
        }
        let mut pending = Pending::new(facts, self.scanner.arguments(), keys);
        pending.deadline = self.deadline(pending.deadline);
        pending.time_before = std::mem::take(&mut self.time_before).shown();
        self.scanner.forget(is_secret(name));
        let identity = &exchange.identity;
        self.fence = match &pending.effect {
            Effect::Monitor
            | Effect::Hello { user: Some(_), .. }
            | Effect::Hello { name: Some(_), .. } => true,
            Effect::Auth { .. } => identity.owes(),
            Effect::Exec => identity.owes() && exchange.awaited.logs_in(),
            _ => false,
        };
        exchange.send(pending);
        self.replacement = replacement;
        if self.replacement.is_some() {
            Next::Replace
        } else {
            Next::Continue
        }
    }
}

fn refuse(reason: &str) -> Next {
    Next::Refuse(format!("ERR probity: {reason}").into_bytes())
}
