//! The state that both directions of a connection share: what is awaited, who the client is, and
//! which modes are in force. All of it follows from replies.

use std::collections::VecDeque;
use std::sync::Arc;

use probity_policy::Policy;

use super::awaited::Awaited;
use super::capture::Capture;
use super::channels::Channels;
use super::effect::Effect;
use super::end::End;
use super::identity::Identity;
use super::muted::Muted;
use super::pending::{Pending, Words};
use super::record::{Known, Time, Work};
use crate::command::CommandFacts;
use crate::resp::Kind;

/// Beginnings of errors that name another server: of a node of a cluster, and of a replica to a
/// client that can be redirected.
const REDIRECTS: [&[u8]; 3] = [b"MOVED ", b"ASK ", b"REDIRECT "];
/// Beginnings of errors in reply to EXEC that say that nothing of the transaction was done: a server
/// that is strict about the end of a line may take EXEC for no command.
const ABORTS: [&[u8]; 2] = [b"EXECABORT", b"ERR Protocol error"];

/// The class of a value from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Reply,
    /// The confirmation of a channel of the subscription under way.
    Confirmation,
    /// A message that the server sends on its own, and whether `CLIENT REPLY` leaves it alone.
    Message {
        always: bool,
    },
}

/// A long value that was understood from its beginning. At its end the commands that wait are others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Early {
    Message,
    /// A reply, and whether a command without words followed its command.
    Reply {
        blank_after: bool,
    },
}

/// The state of a connection between a client and its server.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mode of its own in the protocol"
)]
pub(super) struct Exchange {
    pub(super) identity: Identity,
    pub(super) awaited: Awaited,
    /// The command whose beginning is on its way and whose end has not come; its facts are not
    /// looked up again.
    pub(super) begun: Option<Arc<CommandFacts>>,
    /// The reply under way.
    pub(super) capture: Capture,
    /// The reply under way, if it is recorded already.
    pub(super) early: Option<Early>,
    pub(super) muted: Muted,
    pub(super) channels: Channels,
    pub(super) monitoring: bool,
    /// True if the connection speaks RESP3.
    pub(super) resp3: bool,
    /// True if the server may send the client to another one.
    pub(super) redirects: bool,
    /// True once a command was forwarded that the server answers.
    pub(super) spoke: bool,
    /// Questions of the proxy's own for the server, to be forwarded behind the admitted bytes.
    pub(super) question: Option<Vec<u8>>,
    /// True if the name was asked for before the command under way.
    pub(super) name_asked: bool,
    /// True once a login has succeeded, until what is owed is asked for.
    let_in: bool,
    /// A login of which only the server knows what became of it.
    pub(super) doubt: Option<Pending>,
    pub(super) work: VecDeque<Work>,
    /// The server's time after the latest replies, once it was asked.
    pub(super) time_after: Time,
    /// Bytes of the server that have come, without those that the client does not see.
    pub(super) received: u64,
    pub(super) settled: u64,
}

impl Exchange {
    pub(super) fn new(policy: Arc<Policy>, db: u64) -> Self {
        Self {
            identity: Identity::new(policy, db),
            awaited: Awaited::default(),
            begun: None,
            capture: Capture::default(),
            early: None,
            muted: Muted::default(),
            channels: Channels::default(),
            monitoring: false,
            resp3: false,
            redirects: true,
            spoke: false,
            question: None,
            name_asked: false,
            let_in: false,
            doubt: None,
            work: VecDeque::new(),
            time_after: Time::default(),
            received: 0,
            settled: 0,
        }
    }

    /// Adds a command that goes to the server now.
    pub(super) fn send(&mut self, pending: Pending) {
        self.begun = None;
        self.name_asked = false;
        self.spoke = true;
        self.awaited.push(pending);
    }

    /// Takes a command without words: it has no reply, but ends what `CLIENT REPLY SKIP` began.
    pub(super) fn blank(&mut self) {
        match self.awaited.last_mut() {
            Some(last) => last.blank_after = true,
            None => self.muted.blank(),
        }
    }

    /// Returns whether the server owes a reply.
    pub(super) fn is_owed(&self) -> bool {
        !self.awaited.is_empty() || self.is_midway()
    }

    /// Returns whether a reply goes on behind what is settled.
    pub(super) const fn is_midway(&self) -> bool {
        self.early.is_some() || self.awaited.is_in_exec()
    }

    /// Returns whether the server answers nothing until something happens elsewhere, as with
    /// `BLPOP`.
    pub(super) fn is_blocked(&self) -> bool {
        !self.awaited.in_multi() && self.awaited.first().is_some_and(|first| first.blocks)
    }

    /// Returns what the value under way is.
    ///
    /// # Errors
    /// [`End::Mismatch`] and [`End::Redirect`].
    fn classify(&self) -> Result<Class, End> {
        let head = &self.capture.head;
        let first = self.capture.elements.first();
        let is_word = |word: &[u8]| first.is_some_and(|element| element.text.is(word));
        let confirms = || {
            !self.awaited.is_in_exec()
                && self.awaited.first().is_some_and(|pending| {
                    let effect = &pending.effect;
                    matches!(
                        effect,
                        Effect::Subscribe { .. } | Effect::Unsubscribe { .. }
                    ) && is_word(pending.name.as_bytes())
                })
        };
        match head.kind {
            Some(Kind::Push) if self.resp3 && confirms() => Ok(Class::Confirmation),
            Some(Kind::Push) => {
                let message = self.capture.check_message();
                message.map(|()| Class::Message { always: true })
            }
            Some(Kind::Simple)
                if self.monitoring
                    && head.text.first().is_some_and(|byte| byte.is_ascii_digit()) =>
            {
                Ok(Class::Message { always: false })
            }
            Some(Kind::Array) if !self.resp3 && confirms() => Ok(Class::Confirmation),
            // A server refuses whatever could answer like this while a RESP2 client is subscribed.
            Some(Kind::Array)
                if !self.resp3
                    && !self.awaited.is_in_exec()
                    && self.channels.any()
                    && [&b"message"[..], b"pmessage", b"smessage"]
                        .into_iter()
                        .any(is_word) =>
            {
                Ok(Class::Message { always: true })
            }
            _ => Ok(Class::Reply),
        }
    }

    /// Takes a whole value; whether the client must not see it.
    ///
    /// # Errors
    /// The reason for which the session ends.
    pub(super) fn value_ends(&mut self) -> Result<bool, End> {
        let muted = self.muted.is_on();
        match self.classify()? {
            Class::Message { always } => return Ok(muted && !always),
            Class::Confirmation => return self.confirmation().map(|()| false),
            Class::Reply => {}
        }
        if self.awaited.is_in_exec() {
            let Some(pending) = self.awaited.pop_queued() else {
                return Err(End::Mismatch("more results than commands in EXEC"));
            };
            let hidden = self.is_hidden(&pending.effect);
            self.finish(pending)?;
            self.reply_ended(false);
            return Ok(hidden);
        }
        let Some(pending) = self.awaited.pop() else {
            return Err(self.unasked());
        };
        let (own, blank) = (pending.own, pending.blank_after);
        let hidden = own || self.is_hidden(&pending.effect);
        self.answer(pending)?;
        if !own {
            self.reply_ended(blank);
        }
        Ok(hidden)
    }

    /// Takes the beginning of a long value, with whether the client must not see it.
    ///
    /// # Errors
    /// The reason for which the session ends.
    pub(super) fn settle_early(&mut self) -> Result<(Early, bool), End> {
        let muted = self.muted.is_on();
        match self.classify()? {
            Class::Message { always } => return Ok((Early::Message, muted && !always)),
            // Names of channels are bounded far below.
            Class::Confirmation => {
                return Err(End::Mismatch("a confirmation longer than any channel"));
            }
            Class::Reply => {}
        }
        let in_exec = self.awaited.is_in_exec();
        let pending = if in_exec {
            self.awaited.pop_queued()
        } else {
            self.awaited.pop()
        };
        let Some(pending) = pending else {
            return Err(self.unasked());
        };
        let plain = pending.effect == Effect::None;
        if !plain || pending.own || self.awaited.in_multi() && !self.capture.is_error() {
            self.awaited.put_back(pending);
            return Err(End::Mismatch("a long reply that its command does not have"));
        }
        let redirected = self.is_redirect(&pending);
        // Within a transaction the last result alone ends a skip.
        let blank_after = !in_exec && pending.blank_after;
        self.record(pending, Known::Reply);
        if redirected {
            return Err(End::Redirect);
        }
        Ok((Early::Reply { blank_after }, muted))
    }

    /// Ends an element of a transaction, or with the last of them, as with any other command, a skip.
    pub(super) fn reply_ended(&mut self, blank: bool) {
        if self.awaited.reply_ended() {
            self.muted.reply_ended(blank);
            // Not within EXEC: a later command of it may choose a database or a name.
            if std::mem::take(&mut self.let_in) {
                self.ask_what_is_owed();
            }
        }
    }

    /// Returns whether the server itself would not have shown this reply.
    fn is_hidden(&mut self, effect: &Effect) -> bool {
        let queued = self.awaited.in_multi() && *effect != Effect::Reset;
        if self.capture.is_error() || queued {
            return self.muted.is_on();
        }
        self.muted.hides(effect)
    }

    /// Takes the reply to a command outside an executed transaction.
    fn answer(&mut self, pending: Pending) -> Result<(), End> {
        let at_once = matches!(
            pending.effect,
            Effect::Exec | Effect::Discard | Effect::Reset | Effect::Quit | Effect::Multi
        );
        if pending.effect == Effect::Exec {
            return self.exec();
        }
        if !self.awaited.in_multi() || at_once || self.capture.is_error() {
            return self.finish(pending);
        }
        let head = &self.capture.head;
        if pending.own || head.kind != Some(Kind::Simple) || !head.text.is(b"QUEUED") {
            self.awaited.put_back(pending);
            return Err(End::Mismatch("a result inside MULTI"));
        }
        self.awaited.queue(pending)
    }

    /// Takes the reply to a command that has done what it does.
    fn finish(&mut self, pending: Pending) -> Result<(), End> {
        let failed = self.capture.is_error();
        let counts = matches!(&*pending.name, "publish" | "spublish");
        let is_other = counts && self.capture.head.integer.is_none();
        if !failed && (is_other || !pending.effect.is_confirmed_by(&self.capture)) {
            self.awaited.put_back(pending);
            return Err(End::Mismatch("a reply that its command does not have"));
        }
        let redirected = self.is_redirect(&pending);
        let effect = pending.effect.clone();
        if pending.own {
            return self.own_answer(&effect);
        }
        let is_proven = !failed && self.identity.has_users();
        let actor = self.identity.actor_of(&effect, is_proven);
        if failed && !redirected && self.asks_identity(&effect) {
            self.question_identity(pending);
            return Ok(());
        }
        self.record_as(pending, Known::Reply, actor, None);
        if redirected {
            return Err(End::Redirect);
        }
        if !failed {
            self.take_effect(effect);
        }
        Ok(())
    }

    fn take_effect(&mut self, effect: Effect) {
        match &effect {
            Effect::None => return,
            Effect::Multi => self.awaited.begin_multi(),
            Effect::Discard => self.abort_queued(),
            Effect::Monitor => self.monitoring = true,
            Effect::Hello { .. } => self.resp3 = self.capture.head.kind == Some(Kind::Map),
            Effect::Reset => {
                self.abort_queued();
                self.monitoring = false;
                self.resp3 = false;
                self.channels = Channels::default();
                self.muted.reset();
            }
            _ => {}
        }
        self.let_in |= effect.user().is_some();
        self.identity.chosen(&effect);
        self.work.push_back(Work::Apply(effect));
    }

    fn abort_queued(&mut self) {
        for queued in self.awaited.abort_multi() {
            let actor = self.identity.actor_of(&queued.effect, false);
            self.record_as(queued, Known::Aborted, actor, None);
        }
    }

    fn exec(&mut self) -> Result<(), End> {
        let head = &self.capture.head;
        let results = head.kind == Some(Kind::Array) && !head.null;
        let was_open = self.awaited.close_multi();
        if results {
            let Some(count) = head.length else {
                return Err(End::Mismatch("a result of EXEC without a length"));
            };
            if !was_open || !self.awaited.begin_exec(count) {
                return Err(End::Mismatch(
                    "another number of results than commands in EXEC",
                ));
            }
            return Ok(());
        }
        let redirected = self.capture.is_error_of(&REDIRECTS);
        let aborted = head.null || redirected || self.capture.is_error_of(&ABORTS);
        if was_open && !aborted || !was_open && !self.capture.is_error() {
            return Err(End::Mismatch("a reply that EXEC does not have"));
        }
        self.abort_queued();
        if redirected {
            return Err(End::Redirect);
        }
        Ok(())
    }

    /// Returns whether the reply to `pending` sends the client to another server.
    fn is_redirect(&self, pending: &Pending) -> bool {
        // A script may answer with any error it likes, and a server that is alone redirects nobody.
        let own_words = pending.words != Words::Servers && !self.redirects;
        self.capture.is_error_of(&REDIRECTS) && !own_words
    }

    /// Returns the end for a reply without a command.
    fn unasked(&self) -> End {
        // A server that closes the connection says why.
        if self.capture.is_error() {
            End::LastWord
        } else {
            End::Mismatch("a reply to no command")
        }
    }

    fn confirmation(&mut self) -> Result<(), End> {
        let Some(pending) = self.awaited.first_mut() else {
            return Err(End::Mismatch("a confirmation of no subscription"));
        };
        let left = pending.confirmations.unwrap_or_else(|| {
            match pending.effect {
                Effect::Subscribe { channels } => channels,
                // Without names all of them end, and where there are none that is said once.
                Effect::Unsubscribe { channels: 0 } => {
                    usize::try_from(self.channels.of(&pending.name).max(1)).unwrap_or(usize::MAX)
                }
                Effect::Unsubscribe { channels } => channels,
                _ => 1,
            }
        });
        pending.confirmations = Some(left.saturating_sub(1));
        if !self.channels.confirm(&pending.name, &self.capture) {
            return Err(End::Mismatch("another number of channels than subscribed"));
        }
        if left <= 1
            && let Some(pending) = self.awaited.pop()
        {
            let blank = pending.blank_after;
            self.record(pending, Known::Reply);
            self.reply_ended(blank);
        }
        Ok(())
    }
}
