//! The server's side of a session: which reply belongs to which command, and who may see it.

use super::effect::{Effect, ReplyMode};
use super::pending::{Pending, Words};
use super::record::{Known, Work};
use super::text::Digests;
use super::{STREAM_BYTES, Session};
use crate::audit::EntryBatch;
use crate::resp::{Event, Kind, RespError};

/// Bytes of one reply after which its entries are made from its beginning, and the rest streams. The
/// confirmation of any channel that a command can name is shorter.
const HOLD_BYTES: usize = STREAM_BYTES + 1024;
/// Most bytes of commands that a transaction may hold back.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Why a session ends with what the server said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// The server does not speak the protocol.
    #[error("the server does not speak the protocol: {0}")]
    Protocol(#[from] RespError),
    /// The reply fits nothing that the server was asked.
    #[error("the server's replies do not fit the commands ({0}); the connection ends")]
    Mismatch(&'static str),
    /// The server sends the client to another server.
    #[error("the server redirects to another one, where nothing would be recorded; {REMEDY}")]
    Redirect,
    /// The user may not ask who is logged in.
    #[error(
        "a HELLO that failed may have logged in, and the server does not let its user ask who is logged in \
         now; give the user the right +acl|whoami"
    )]
    Identity,
    /// The server cannot say who is logged in.
    #[error(
        "a HELLO that failed may have logged in, and the server does not say who is logged in now; let the \
         server have the command ACL under this name"
    )]
    NoIdentity,
    /// The user may not choose the database that the proxy was told to choose.
    #[error(
        "the server does not let the user choose the database of --upstream; give the user the right +select"
    )]
    NoSelect,
    /// The server cannot choose the database that the proxy was told to choose.
    #[error("the server does not choose the database of --upstream; name one that it has")]
    NoDatabase,
    /// The server answers the proxy's questions with an error of the moment.
    #[error("the server does not say now who the client is; connect again")]
    NotNow,
    /// A transaction holds more than can be remembered.
    #[error("a transaction may hold commands of {} MiB; send it in parts", QUEUED_BYTES_MAX >> 20)]
    TooMuch,
    /// The server's last word, before it closes the connection.
    #[error("the server ends the connection")]
    LastWord,
}

const REMEDY: &str = "put the proxy before a primary without cluster mode";
/// Beginnings of errors that name another server: of a node of a cluster, and of a replica to a
/// client that can be redirected.
const REDIRECTS: [&[u8]; 3] = [b"MOVED ", b"ASK ", b"REDIRECT "];
/// Messages of Redis Enterprise that name another server.
const MOVES: [&[u8]; 2] = [b"MOVING", b"SMIGRATED"];

/// The class of a value from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
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

/// A member of the payload of a mismatch within EXEC.
const IN_DOUBT: &str =
    ",\"before\":\"entries of this transaction may tell results of other commands\"";

impl Session {
    /// Understands replies in `input`, which follows what was given before, and puts what the client
    /// may see into `out`. Gives how many bytes were taken: not all where [`Session::work`] is left to do.
    ///
    /// # Errors
    /// Why the session must end.
    pub fn take_replies(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        entries: &mut EntryBatch,
    ) -> Result<usize, End> {
        let mut copied = 0;
        let mut at = 0;
        let mut outcome = Ok(());
        while at < input.len() && outcome.is_ok() && !self.has_work() {
            self.begin_value();
            let capture = &mut self.capture;
            let rest = input.get(at..).unwrap_or_default();
            let scan = match self.replies.scan(rest, &mut |event| capture.visit(event)) {
                Ok(scan) => scan,
                Err(error) => {
                    outcome = Err(End::Protocol(error));
                    break;
                }
            };
            at += scan.consumed;
            self.value_bytes += scan.consumed;
            self.received += scan.consumed as u64;
            let was_hiding = self.hiding;
            outcome = self.value_goes_on(scan.complete);
            if self.hiding || was_hiding {
                let bytes = std::mem::take(&mut self.value_bytes);
                let start = at.saturating_sub(bytes);
                out.extend_from_slice(input.get(copied..start).unwrap_or_default());
                out.truncate(out.len() - bytes.saturating_sub(at).min(out.len()));
                self.received -= bytes as u64;
                copied = at;
            }
            if scan.complete {
                self.hiding = false;
                self.value_bytes = 0;
            }
            if outcome.is_ok() || outcome == Err(End::LastWord) {
                self.work_or_settle(scan.complete, entries);
            }
        }
        out.extend_from_slice(input.get(copied..at).unwrap_or_default());
        if self.question.is_some() && !self.may_ask() {
            self.question = None;
            outcome = Err(End::Mismatch("a question among commands"));
        }
        match outcome {
            Err(End::Mismatch(found)) => {
                // Elements before it in a transaction may have been another command's.
                let doubt = if self.exec_left > 0 { IN_DOUBT } else { "" };
                entries.record_mismatch(&self.actor, found, doubt);
            }
            Err(End::LastWord) if self.spoke => {
                entries.record_mismatch(&self.actor, "an error to no command", "");
            }
            _ => {}
        }
        outcome.map(|()| at)
    }

    fn begin_value(&mut self) {
        if self.replies.is_between_values() {
            let current = self.current();
            let exec = self.exec_left == 0
                && current.is_some_and(|pending| pending.effect == Effect::Exec);
            let wanted = current.map_or(0, Pending::elements_wanted);
            let digests = current.map_or(Digests::None, Pending::digests);
            self.replies.flatten_next(exec);
            self.capture.begin(wanted, digests);
        }
    }

    fn work_or_settle(&mut self, complete: bool, entries: &mut EntryBatch) {
        if self.has_work() {
            self.work(entries);
        } else if complete || self.early.is_some() {
            self.settle();
        }
    }

    fn value_goes_on(&mut self, complete: bool) -> Result<(), End> {
        if complete {
            self.capture.end();
            let hidden = match self.early.take() {
                Some(Early::Message) => false,
                Some(Early::Reply { blank_after }) => {
                    self.element_or_reply_done(blank_after);
                    false
                }
                None => self.value_ends()?,
            };
            self.hiding |= hidden;
        } else if self.early.is_none() && self.value_bytes > HOLD_BYTES {
            if let (false, Some((kind, text))) =
                (self.capture.has_head(), self.replies.text_under_way())
            {
                self.capture.visit(Event::Line(kind, text));
            }
            if self.capture.has_head() {
                let (early, hidden) = self.settle_early()?;
                self.hiding = hidden;
                self.early = Some(early);
                self.capture.ignore_rest();
            }
        }
        Ok(())
    }

    /// The command that the next reply belongs to.
    fn current(&self) -> Option<&Pending> {
        if self.exec_left > 0 {
            self.queued.front()
        } else {
            self.pending.front()
        }
    }

    fn classify(&self) -> Result<Class, End> {
        let head = &self.capture.head;
        let first = self.capture.elements.first();
        let is_word = |word: &[u8]| first.is_some_and(|element| element.text.is(word));
        let confirms = || {
            self.exec_left == 0
                && self.pending.front().is_some_and(|pending| {
                    let effect = &pending.effect;
                    matches!(
                        effect,
                        Effect::Subscribe { .. } | Effect::Unsubscribe { .. }
                    ) && is_word(pending.name.as_bytes())
                })
        };
        match head.kind {
            Some(Kind::Push)
                if first.is_some_and(|element| element.text.ends_with(b"subscribe")) =>
            {
                if self.resp3 && confirms() {
                    Ok(Class::Confirmation)
                } else {
                    Err(End::Mismatch("a confirmation of no subscription"))
                }
            }
            Some(Kind::Push) if MOVES.into_iter().any(is_word) => Err(End::Redirect),
            Some(Kind::Push) => Ok(Class::Message { always: true }),
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
                    && self.exec_left == 0
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

    const fn is_muted(&self) -> bool {
        self.muted.off || self.muted.skip
    }

    /// Takes a whole value; whether the client must not see it.
    fn value_ends(&mut self) -> Result<bool, End> {
        let muted = self.is_muted();
        match self.classify()? {
            Class::Message { always } => return Ok(muted && !always),
            Class::Confirmation => return self.confirmation().map(|()| false),
            Class::Reply => {}
        }
        if self.exec_left > 0 {
            let Some(pending) = self.queued.pop_front() else {
                return Err(End::Mismatch("more results than commands in EXEC"));
            };
            self.queued_bytes = self.queued_bytes.saturating_sub(pending.cost);
            let hidden = self.is_hidden(&pending.effect);
            self.finish(pending)?;
            self.element_or_reply_done(false);
            return Ok(hidden);
        }
        let Some(pending) = self.take_pending() else {
            return Err(self.unasked());
        };
        let (own, blank) = (pending.own, pending.blank_after);
        let hidden = own || self.is_hidden(&pending.effect);
        self.answer(pending)?;
        if !own {
            self.element_or_reply_done(blank);
        }
        Ok(hidden)
    }

    fn take_pending(&mut self) -> Option<Pending> {
        let pending = self.pending.pop_front()?;
        self.pending_bytes = self.pending_bytes.saturating_sub(pending.cost);
        self.multis -= usize::from(pending.effect == Effect::Multi).min(self.multis);
        Some(pending)
    }

    /// Ends an element of a transaction, or with the last of them, as with any other command, a skip.
    fn element_or_reply_done(&mut self, blank: bool) {
        self.exec_left = self.exec_left.saturating_sub(1);
        if self.exec_left == 0 {
            let next = std::mem::take(&mut self.muted.skip_next);
            self.muted.skip = next && !blank;
            // Not within EXEC: a later command of it may choose a database or a name.
            if std::mem::take(&mut self.let_in) {
                self.ask_what_is_owed();
            }
        }
    }

    /// Returns whether the server itself would not have shown this reply.
    fn is_hidden(&mut self, effect: &Effect) -> bool {
        let queued = self.in_multi && *effect != Effect::Reset;
        if self.is_error() || queued {
            return self.is_muted();
        }
        match effect {
            Effect::ReplyMode(ReplyMode::On) => {
                (self.muted.off, self.muted.skip) = (false, false);
                false
            }
            Effect::ReplyMode(ReplyMode::Off) => {
                self.muted.off = true;
                true
            }
            Effect::ReplyMode(ReplyMode::SkipNext) => {
                self.muted.skip_next = !self.muted.off;
                true
            }
            Effect::Reset => self.muted.skip,
            _ => self.is_muted(),
        }
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
        if !self.in_multi || at_once || self.is_error() {
            return self.finish(pending);
        }
        let head = &self.capture.head;
        if pending.own || head.kind != Some(Kind::Simple) || !head.text.is(b"QUEUED") {
            self.pending_front(pending);
            return Err(End::Mismatch("a result inside MULTI"));
        }
        self.queued_bytes += pending.cost;
        self.queued.push_back(pending);
        if self.queued_bytes > QUEUED_BYTES_MAX {
            return Err(End::TooMuch);
        }
        Ok(())
    }

    /// Puts a command back whose reply was none of it, so that it is recorded as lost.
    fn pending_front(&mut self, pending: Pending) {
        self.pending_bytes += pending.cost;
        self.pending.push_front(pending);
    }

    fn finish(&mut self, pending: Pending) -> Result<(), End> {
        let failed = self.is_error();
        let counts = matches!(&*pending.name, "publish" | "spublish");
        let is_other = counts && self.capture.head.integer.is_none();
        if !failed && (is_other || !pending.effect.is_confirmed_by(&self.capture)) {
            self.pending_front(pending);
            return Err(End::Mismatch("a reply that its command does not have"));
        }
        let redirected = self.is_redirect(&pending);
        let effect = pending.effect.clone();
        if pending.own {
            return self.own_answer(&effect);
        }
        let actor = self.actor_of(&effect, !failed && self.users);
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
            Effect::Multi => self.in_multi = true,
            Effect::Discard => self.abort_queued(),
            Effect::Monitor => self.monitoring = true,
            Effect::Hello { .. } => self.resp3 = self.capture.head.kind == Some(Kind::Map),
            Effect::Reset => {
                self.abort_queued();
                self.monitoring = false;
                self.resp3 = false;
                self.channels = super::Channels::default();
                (self.muted.off, self.muted.skip_next) = (false, false);
                self.name_owed = false;
            }
            // Nothing is owed to a client that has chosen for itself.
            Effect::Select { .. } => self.db_owed = None,
            _ => {}
        }
        self.let_in |= effect.user().is_some();
        self.name_owed &= effect.name().is_none();
        self.work.push_back(Work::Apply(effect));
    }

    fn abort_queued(&mut self) {
        self.in_multi = false;
        self.queued_bytes = 0;
        for queued in std::mem::take(&mut self.queued) {
            let actor = self.actor_of(&queued.effect, false);
            self.record_as(queued, Known::Aborted, actor, None);
        }
    }

    fn exec(&mut self) -> Result<(), End> {
        let head = &self.capture.head;
        let results = head.kind == Some(Kind::Array) && !head.null;
        let was_open = std::mem::take(&mut self.in_multi);
        if results {
            let count = head.length.unwrap_or_default();
            if !was_open || count != self.queued.len() as u64 {
                return Err(End::Mismatch(
                    "another number of results than commands in EXEC",
                ));
            }
            // The header counts as an element, so that the skip ends with the last result.
            self.exec_left = count + 1;
            return Ok(());
        }
        let redirected = self.is_error_of(&REDIRECTS);
        let aborted = head.null || redirected || self.is_error_of(&[b"EXECABORT"]);
        if was_open && !aborted || !was_open && !self.is_error() {
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
        self.is_error_of(&REDIRECTS) && !own_words
    }

    /// Takes the beginning of a long value, with whether the client must not see it.
    fn settle_early(&mut self) -> Result<(Early, bool), End> {
        let muted = self.is_muted();
        match self.classify()? {
            Class::Message { always } => return Ok((Early::Message, muted && !always)),
            // Names of channels are bounded far below.
            Class::Confirmation => {
                return Err(End::Mismatch("a confirmation longer than any channel"));
            }
            Class::Reply => {}
        }
        let pending = if self.exec_left > 0 {
            self.queued.pop_front()
        } else {
            self.take_pending()
        };
        let Some(pending) = pending else {
            return Err(self.unasked());
        };
        let plain = pending.effect == Effect::None;
        if !plain || pending.own || self.in_multi && !self.is_error() {
            self.pending_front(pending);
            return Err(End::Mismatch("a long reply that its command does not have"));
        }
        let redirected = self.is_redirect(&pending);
        // Within a transaction the last result alone ends a skip.
        let blank_after = self.exec_left == 0 && pending.blank_after;
        self.record(pending, Known::Reply);
        if redirected {
            return Err(End::Redirect);
        }
        Ok((Early::Reply { blank_after }, muted))
    }

    /// Returns the end for a reply without a command.
    fn unasked(&self) -> End {
        // A server that closes the connection says why.
        if self.is_error() {
            End::LastWord
        } else {
            End::Mismatch("a reply to no command")
        }
    }

    fn confirmation(&mut self) -> Result<(), End> {
        let Some(pending) = self.pending.front_mut() else {
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
            && let Some(pending) = self.take_pending()
        {
            let blank = pending.blank_after;
            self.record(pending, Known::Reply);
            self.element_or_reply_done(blank);
        }
        Ok(())
    }
}
