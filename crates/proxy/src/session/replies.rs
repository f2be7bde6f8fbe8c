//! The server's side of a session: values that come in pieces, and the part of them that the client
//! may see.

use super::STREAM_BYTES;
use super::aside::Aside;
use super::effect::Effect;
use super::end::End;
use super::exchange::{Early, Exchange};
use super::pending::Pending;
use super::text::Digests;
use crate::audit::EntryBatch;
use crate::resp::{Event, Limits, ReplyScanner};

/// Bytes of one reply after which its entries are made from its beginning, and the rest streams. The
/// confirmation of any channel that a command can name is shorter.
const HOLD_BYTES: usize = STREAM_BYTES + 1024;
/// Most bytes of messages within a reply for which its end is waited for.
const ASIDE_BYTES_MAX: usize = 4 << 20;

/// A member of the payload of a mismatch within EXEC.
const IN_DOUBT: &str =
    ",\"before\":\"entries of this transaction may tell results of other commands\"";

/// Cuts what the server sends into values.
#[derive(Debug)]
pub(super) struct Replies {
    scanner: ReplyScanner,
    aside: Aside,
    /// True while the rest of the reply under way is kept from the client.
    hiding: bool,
    /// Bytes of the value under way, and of messages in it.
    value_bytes: usize,
    /// Those of messages alone, which are no part of the reply.
    aside_bytes: usize,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            scanner: ReplyScanner::new(Limits::SERVER),
            aside: Aside::new(),
            hiding: false,
            value_bytes: 0,
            aside_bytes: 0,
        }
    }

    /// Understands replies in `input`, which follows what was given before, and puts what the client
    /// may see into `out`. Returns how many bytes were taken.
    ///
    /// # Errors
    /// The reason for which the session ends.
    pub(super) fn take(
        &mut self,
        exchange: &mut Exchange,
        input: &[u8],
        (out, entries): (&mut Vec<u8>, &mut EntryBatch),
    ) -> Result<usize, End> {
        let mut copied = 0;
        let mut at = 0;
        let mut outcome = Ok(());
        while at < input.len() && outcome.is_ok() && !exchange.has_work() {
            self.begin_value(exchange);
            let (capture, aside) = (&mut exchange.capture, &mut self.aside);
            let aside_bytes = &mut self.aside_bytes;
            let may_hide = exchange.early.is_none() || self.hiding;
            let mut visit = |event: Event<'_>| match event {
                Event::Aside(part) => {
                    *aside_bytes += part.len();
                    aside.take(part, may_hide);
                }
                event => capture.visit(event),
            };
            let rest = input.get(at..).unwrap_or_default();
            let scan = match self.scanner.scan(rest, &mut visit) {
                Ok(scan) => scan,
                Err(error) => {
                    outcome = Err(End::Protocol(error));
                    break;
                }
            };
            at += scan.consumed;
            self.value_bytes += scan.consumed;
            exchange.received += scan.consumed as u64;
            let was_hiding = self.hiding;
            outcome = self.aside.outcome();
            if outcome.is_ok() {
                outcome = self.value_goes_on(exchange, scan.complete);
            }
            let messages = self.take_messages(scan.complete || was_hiding);
            if self.hiding || was_hiding {
                let bytes = std::mem::take(&mut self.value_bytes);
                let start = at.saturating_sub(bytes);
                out.extend_from_slice(input.get(copied..start).unwrap_or_default());
                out.truncate(out.len() - bytes.saturating_sub(at).min(out.len()));
                out.extend_from_slice(&messages);
                exchange.received -= bytes as u64;
                exchange.received += messages.len() as u64;
                copied = at;
            }
            if scan.complete {
                self.hiding = false;
                (self.value_bytes, self.aside_bytes) = (0, 0);
            }
            if outcome.is_ok() || outcome == Err(End::LastWord) {
                exchange.work_or_settle(scan.complete, entries);
            }
        }
        out.extend_from_slice(input.get(copied..at).unwrap_or_default());
        if exchange.question.is_some() && !exchange.may_ask() {
            exchange.question = None;
            outcome = Err(End::Mismatch("a question among commands"));
        }
        exchange.record_end(outcome, entries);
        outcome.map(|()| at)
    }

    fn begin_value(&mut self, exchange: &mut Exchange) {
        if self.scanner.is_between_values() {
            let current = exchange.awaited.current();
            let exec = !exchange.awaited.is_in_exec()
                && current.is_some_and(|pending| pending.effect == Effect::Exec);
            let wanted = current.map_or(0, Pending::elements_wanted);
            let digests = current.map_or(Digests::None, Pending::digests);
            self.scanner.flatten_next(exec);
            exchange.capture.begin(wanted, digests);
        }
    }

    /// Takes the messages in a reply that the client does not see: it sees those.
    fn take_messages(&mut self, is_due: bool) -> Vec<u8> {
        if is_due || self.hiding {
            self.aside.take_bytes()
        } else {
            Vec::new()
        }
    }

    /// Returns whether the reply under way is longer than what is waited for. Messages in it leave no
    /// outcome untold, as long as there is room for them.
    const fn is_long(&self) -> bool {
        let reply = self.value_bytes.saturating_sub(self.aside_bytes);
        reply > HOLD_BYTES || self.aside_bytes > ASIDE_BYTES_MAX
    }

    fn value_goes_on(&mut self, exchange: &mut Exchange, complete: bool) -> Result<(), End> {
        if complete {
            exchange.capture.end();
            let hidden = match exchange.early.take() {
                Some(Early::Message) => false,
                Some(Early::Reply { blank_after }) => {
                    exchange.reply_ended(blank_after);
                    false
                }
                None => exchange.value_ends()?,
            };
            self.hiding |= hidden;
        } else if exchange.early.is_none() && self.is_long() {
            let capture = &mut exchange.capture;
            if let (false, Some((kind, text))) = (capture.has_head(), self.scanner.text_under_way())
            {
                capture.visit(Event::Line(kind, text));
            }
            if capture.has_head() {
                let (early, hidden) = exchange.settle_early()?;
                self.hiding = hidden;
                exchange.early = Some(early);
                exchange.capture.ignore_rest();
            }
        }
        Ok(())
    }
}

impl Exchange {
    fn work_or_settle(&mut self, complete: bool, entries: &mut EntryBatch) {
        if self.has_work() {
            self.work(entries);
        } else if complete || self.early.is_some() {
            self.settle();
        }
    }

    /// Records an end that says that replies and commands do not fit.
    fn record_end(&self, outcome: Result<(), End>, entries: &mut EntryBatch) {
        let actor = self.identity.actor();
        match outcome {
            Err(End::Mismatch(found)) => {
                // Elements before it in a transaction may have been another command's.
                let doubt = if self.awaited.is_in_exec() {
                    IN_DOUBT
                } else {
                    ""
                };
                entries.record_mismatch(actor, found, doubt);
            }
            Err(End::LastWord) if self.spoke => {
                entries.record_mismatch(actor, "an error to no command", "");
            }
            _ => {}
        }
    }
}
