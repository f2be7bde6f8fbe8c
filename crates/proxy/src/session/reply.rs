//! The server's side of a session: which reply belongs to which command, and what it says.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use probity_format::Outcome;

use super::pending::{Effect, Pending, Place};
use super::{ReplyMode, Session, name_of};
use crate::audit::{Deed, EntryBatch, Key};
use crate::command::{Access, Rule};
use crate::resp::{Kind, RespError};

/// Bytes of one reply after which its entries are made from its beginning, and the rest streams.
const HOLD_BYTES: u64 = 256 << 10;

/// Why a reply is not there to tell the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Reply,
    Silent,
    Lost,
    Aborted,
}

impl Session {
    /// Understands replies in `input`, which follows what was given before; adds their entries.
    ///
    /// # Errors
    /// When the server does not speak the protocol; the session must then end.
    pub fn take_replies(
        &mut self,
        input: &[u8],
        entries: &mut EntryBatch,
    ) -> Result<(), RespError> {
        let mut at = 0;
        while at < input.len() {
            if self.replies.is_between_values() {
                self.settle_silent(entries);
                let exec = self.exec_left == 0
                    && self
                        .pending
                        .front()
                        .is_some_and(|head| head.effect == Effect::Exec);
                self.replies.flatten_next(exec);
                self.capture
                    .begin(self.current().map_or(0, Pending::elements_wanted));
            }
            let capture = &mut self.capture;
            let rest = input.get(at..).unwrap_or_default();
            let scan = self.replies.scan(rest, &mut |event| capture.visit(event))?;
            at += scan.consumed;
            self.received += scan.consumed as u64;
            if scan.complete {
                self.value_ends(entries);
                self.settled = self.received;
            } else if self.early {
                self.settled = self.received;
            } else if self.received - self.settled > HOLD_BYTES && self.capture.has_head() {
                self.settle_early(entries);
                self.settled = self.received;
            }
        }
        Ok(())
    }

    /// Records what is still without a reply when none can come any more.
    pub fn server_lost(&mut self, entries: &mut EntryBatch) {
        let queued = std::mem::take(&mut self.queued);
        let pending = std::mem::take(&mut self.pending);
        let is_exec = |pending: &Pending| pending.effect == Effect::Exec;
        // What was queued and never asked to be executed was not.
        let executed = self.exec_left > 0 || pending.iter().any(is_exec);
        let known = if executed {
            Known::Lost
        } else {
            Known::Aborted
        };
        let queued = queued.iter().map(|queued| (queued, known));
        let pending = pending.iter().map(|pending| (pending, Known::Lost));
        for (pending, known) in queued.chain(pending) {
            // The beginning of its reply was enough.
            if !std::mem::take(&mut self.early) {
                self.record(pending, known, entries);
            }
            // Nobody knows whether the database was chosen; most likely it was.
            if let (Effect::Select { db }, Known::Lost) = (&pending.effect, known) {
                self.db = *db;
            }
        }
        self.exec_left = 0;
    }

    pub(super) fn settle_silent(&mut self, entries: &mut EntryBatch) {
        while self.exec_left == 0 && self.pending.front().is_some_and(|head| !head.answered) {
            let Some(pending) = self.pending.pop_front() else {
                return;
            };
            if pending.effect == Effect::Exec {
                for queued in std::mem::take(&mut self.queued) {
                    self.record(&queued, Known::Silent, entries);
                    self.apply(&queued.effect);
                }
                self.in_multi = false;
            } else if self.in_multi && !matches!(pending.effect, Effect::Discard | Effect::Reset) {
                self.queued.push_back(pending);
            } else {
                self.record(&pending, Known::Silent, entries);
                self.apply(&pending.effect);
            }
        }
    }

    /// The command that the next reply belongs to.
    fn current(&self) -> Option<&Pending> {
        if self.exec_left > 0 {
            self.queued.front()
        } else {
            self.pending.front()
        }
    }

    fn value_ends(&mut self, entries: &mut EntryBatch) {
        let early = std::mem::take(&mut self.early);
        if self.is_confirmation() {
            self.confirmation(entries);
            return;
        }
        if self.is_message() {
            return;
        }
        if self.exec_left > 0 {
            self.exec_left -= 1;
            if let Some(pending) = self.queued.pop_front() {
                self.finish(&pending, early, entries);
            }
            if self.exec_left == 0 {
                self.queued.clear();
            }
            return;
        }
        // Without a command under way this is the server's own word, like a refusal to connect.
        let Some(pending) = self.pending.pop_front() else {
            return;
        };
        if pending.effect == Effect::Exec {
            self.exec(&pending, entries);
        } else if self.in_multi && self.capture.head.text == b"QUEUED" {
            self.queued.push_back(pending);
        } else {
            self.finish(&pending, early, entries);
        }
    }

    fn finish(&mut self, pending: &Pending, early: bool, entries: &mut EntryBatch) {
        if !early {
            // A login is recorded under the name it is for, whatever comes of it.
            let own = self.actor.clone();
            if let Effect::Auth { user }
            | Effect::Hello {
                user: Some(user), ..
            } = &pending.effect
            {
                self.actor.name = name_of(user);
                self.actor.claimed = self.is_error();
            }
            self.record(pending, Known::Reply, entries);
            self.actor = own;
        }
        if !self.is_error() {
            self.apply(&pending.effect);
        }
    }

    fn exec(&mut self, pending: &Pending, entries: &mut EntryBatch) {
        self.in_multi = false;
        let done = self.capture.head.kind == Some(Kind::Array) && !self.capture.head.null;
        if done {
            self.exec_left = self.capture.head.length.unwrap_or_default();
            return;
        }
        debug_assert_eq!(pending.effect, Effect::Exec, "only EXEC ends a transaction");
        for queued in std::mem::take(&mut self.queued) {
            self.record(&queued, Known::Aborted, entries);
        }
    }

    fn settle_early(&mut self, entries: &mut EntryBatch) {
        self.early = true;
        if self.is_confirmation() || self.is_message() {
            return;
        }
        let pending = if self.exec_left > 0 {
            self.queued.pop_front()
        } else {
            self.pending.pop_front()
        };
        if let Some(pending) = pending {
            self.record(&pending, Known::Reply, entries);
            if self.exec_left > 0 {
                self.queued.push_front(pending);
            } else {
                self.pending.push_front(pending);
            }
        }
    }

    fn is_error(&self) -> bool {
        matches!(self.capture.head.kind, Some(Kind::Error | Kind::BlobError))
    }

    /// Whether this is what the server sends on its own: messages, pushes, MONITOR's lines.
    fn is_message(&self) -> bool {
        let head = &self.capture.head;
        if head.kind == Some(Kind::Push) {
            return true;
        }
        if self.monitoring && head.kind == Some(Kind::Simple) {
            return head.text.first().is_some_and(u8::is_ascii_digit);
        }
        let subscribed = self.channels.iter().any(|channels| !channels.is_empty());
        let word = self
            .capture
            .elements
            .first()
            .map(|element| element.text.as_slice());
        subscribed
            && head.kind == Some(Kind::Array)
            && matches!(word, Some(b"message" | b"pmessage" | b"smessage"))
    }

    /// Whether this confirms a channel of the subscription under way.
    fn is_confirmation(&self) -> bool {
        let Some(pending) = self.current() else {
            return false;
        };
        let expected = matches!(
            pending.effect,
            Effect::Subscribe { .. } | Effect::Unsubscribe { .. }
        );
        let kind = self.capture.head.kind;
        expected
            && matches!(kind, Some(Kind::Array | Kind::Push))
            && self
                .capture
                .elements
                .first()
                .is_some_and(|word| word.text == pending.name.as_bytes())
    }

    fn confirmation(&mut self, entries: &mut EntryBatch) {
        let channel = self.capture.elements.get(1).filter(|channel| !channel.null);
        let channel = channel.map(|channel| hash(&channel.text));
        let exec = self.exec_left > 0;
        let Some(mut pending) = (if exec {
            self.queued.pop_front()
        } else {
            self.pending.pop_front()
        }) else {
            return;
        };
        let place = channel_kind(&pending.name);
        if let Effect::Unsubscribe { channels } = &mut pending.effect
            && pending.replies_left == 1
            && *channels != 1
        {
            let all = self
                .channels
                .get(place)
                .map_or(0, std::collections::HashSet::len);
            pending.replies_left = if *channels == 0 {
                all.max(1)
            } else {
                *channels
            };
            *channels = 1;
        }
        if let (Some(set), Some(channel)) = (self.channels.get_mut(place), channel) {
            if matches!(pending.effect, Effect::Subscribe { .. }) {
                set.insert(channel);
            } else {
                set.remove(&channel);
            }
        }
        pending.replies_left = pending.replies_left.saturating_sub(1);
        if pending.replies_left == 0 {
            self.record(&pending, Known::Reply, entries);
            self.exec_left = self.exec_left.saturating_sub(u64::from(exec));
        } else if exec {
            self.queued.push_front(pending);
        } else {
            self.pending.push_front(pending);
        }
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Multi => self.in_multi = true,
            Effect::Discard => {
                self.in_multi = false;
                self.queued.clear();
            }
            Effect::Auth { user } => self.principal = Some(name_of(user)),
            Effect::Hello { user, name } => {
                if let Some(user) = user {
                    self.principal = Some(name_of(user));
                }
                if let Some(name) = name {
                    self.name = Some(name_of(name)).filter(|name| !name.is_empty());
                }
            }
            Effect::SetName { name } => {
                self.name = Some(name_of(name)).filter(|name| !name.is_empty());
            }
            Effect::Select { db } => self.db = *db,
            Effect::Reset => self.reset(),
            Effect::Monitor => self.monitoring = true,
            Effect::None | Effect::Exec | Effect::Subscribe { .. } | Effect::Unsubscribe { .. } => {
                return;
            }
        }
        self.refresh_actor();
    }

    fn reset(&mut self) {
        self.principal.clone_from(&self.default_principal);
        self.name = None;
        self.db = 0;
        self.in_multi = false;
        self.queued.clear();
        self.monitoring = false;
        self.reply_mode = ReplyMode::On;
        for channels in &mut self.channels {
            channels.clear();
        }
    }

    /// Makes the entries of a command, from its reply or from the lack of one.
    fn record(&self, pending: &Pending, known: Known, entries: &mut EntryBatch) {
        let deed = |action, outcome, facts| Deed {
            action,
            outcome,
            command: &pending.name,
            facts,
        };
        match &pending.place {
            Place::None => {}
            Place::One(action, place) => {
                let (outcome, facts) = self.overall(known);
                entries.record_place(place, self.db, &self.actor, deed(action, outcome, facts));
            }
            Place::Channels(action, channels) => {
                let (outcome, facts) = self.overall(known);
                for channel in channels {
                    entries.record_place(
                        channel,
                        self.db,
                        &self.actor,
                        deed(action, outcome, facts),
                    );
                }
            }
        }
        let count = self.found_of_count(pending, known);
        for (index, key) in pending.keys.iter().enumerate() {
            let (overall, mut facts) = self.overall(known);
            let plain = known == Known::Reply && overall == Outcome::Ok;
            let outcome = if plain {
                self.outcome_of(pending, index)
            } else {
                overall
            };
            if let Some(count) = &count {
                facts = count;
            }
            let action = self.action_of(pending, key.access, plain);
            let place = Key {
                kept: &key.kept,
                digest: key.digest,
            };
            entries.record_key(place, self.db, &self.actor, deed(action, outcome, facts));
        }
    }

    fn found_of_count(&self, pending: &Pending, known: Known) -> Option<String> {
        let found = self.capture.head.integer?;
        let partly =
            found > 0 && usize::try_from(found).is_ok_and(|found| found < pending.keys.len());
        (known == Known::Reply && pending.rule == Rule::Count && partly)
            .then(|| format!(",\"found\":{found},\"of\":{}", pending.keys.len()))
    }

    /// The outcome as far as the kind of the reply tells it.
    fn overall(&self, known: Known) -> (Outcome, &'static str) {
        match known {
            Known::Silent => (Outcome::Ok, ",\"reply\":\"off\""),
            Known::Lost => (Outcome::Failed, ",\"reply\":\"lost\""),
            Known::Aborted => (Outcome::Failed, ",\"exec\":\"aborted\""),
            Known::Reply if self.is_error() => {
                let text = &self.capture.head.text;
                let denied = [&b"NOPERM"[..], b"NOAUTH", b"WRONGPASS"];
                let denied = denied.iter().any(|word| text.starts_with(word));
                (
                    if denied {
                        Outcome::Denied
                    } else {
                        Outcome::Failed
                    },
                    "",
                )
            }
            Known::Reply => (Outcome::Ok, ""),
        }
    }

    fn outcome_of(&self, pending: &Pending, index: usize) -> Outcome {
        let head = &self.capture.head;
        let when = |absent: bool, outcome| if absent { outcome } else { Outcome::Ok };
        match pending.rule {
            Rule::ZeroAbsent | Rule::Count => {
                when(head.integer == Some(0) || head.null, Outcome::Absent)
            }
            Rule::CreatesOrFails | Rule::ZeroFailed => {
                when(head.integer == Some(0), Outcome::Failed)
            }
            Rule::NilFailed => when(head.null, Outcome::Failed),
            Rule::MinusTwoAbsent => when(head.integer == Some(-2), Outcome::Absent),
            Rule::NoneAbsent => when(head.text == b"none", Outcome::Absent),
            Rule::EmptyAbsent => when(head.length == Some(0), Outcome::Absent),
            Rule::PreviousTells => Outcome::Ok,
            Rule::PerKey => when(
                self.capture
                    .elements
                    .get(index)
                    .is_some_and(|element| element.null),
                Outcome::Absent,
            ),
            Rule::Named | Rule::NamedEach => when(!self.is_named(pending, index), Outcome::Absent),
            Rule::Plain | Rule::LengthTells(_) => when(head.null, Outcome::Absent),
        }
    }

    fn is_named(&self, pending: &Pending, index: usize) -> bool {
        let Some(key) = pending.keys.get(index) else {
            return false;
        };
        let wanted = if pending.rule == Rule::Named {
            1
        } else {
            usize::MAX
        };
        let mut names = self.capture.elements.iter().take(wanted);
        // Of a long name only a prefix is remembered.
        names.any(|name| match name.length {
            Some(length) if name.text.len() as u64 == length => *key.kept == *name.text,
            _ => key.kept.starts_with(&name.text) && !name.text.is_empty(),
        })
    }

    /// The word for what was done: the strongest of delete, create or update, read, look.
    fn action_of(&self, pending: &Pending, access: Access, plain: bool) -> &'static str {
        let writes = access.contains(Access::UPDATE) || access.contains(Access::INSERT);
        if access.contains(Access::DELETE) {
            "delete"
        } else if writes && plain && self.creates(pending.rule) {
            "create"
        } else if writes {
            "update"
        } else if access.contains(Access::ACCESS) {
            "read"
        } else {
            "look"
        }
    }

    fn creates(&self, rule: Rule) -> bool {
        let head = &self.capture.head;
        match rule {
            Rule::CreatesOrFails => head.integer == Some(1),
            Rule::NilFailed => !head.null,
            Rule::PreviousTells => head.null,
            Rule::LengthTells(length) => {
                head.integer.and_then(|reply| u64::try_from(reply).ok()) == Some(length)
            }
            _ => false,
        }
    }
}

fn channel_kind(command: &str) -> usize {
    match command.as_bytes().first() {
        Some(b'p') => 1,
        // `subscribe` and `ssubscribe` begin alike.
        Some(b's') if command.starts_with("ss") || command.starts_with("sun") => 2,
        _ => 0,
    }
}

fn hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
