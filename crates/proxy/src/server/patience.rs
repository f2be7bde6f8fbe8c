//! The waits of a connection that have a bound.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::{BUFFER_BYTES_MAX, Connection};
use crate::sink::EntrySink;

/// The interval at which a client that is not read is asked for a sign of life.
const HANG_UP_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a blocking command of a client that has gone may go on before its connection
/// is ended.
const BLOCKED_TIMEOUT: Duration = Duration::from_millis(100);
/// Longest time that the server may take to notice the end of a connection.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

const REFUSE_CROWDED: &str =
    "ERR probity: too many commands wait behind one that blocks; send them when it is answered";
const REFUSE_UNREAD: &str =
    "ERR probity: replies are not read while others wait behind them; read them as they come";

/// The time for which a client has not taken replies behind which others wait: until they are taken, nobody
/// knows what became of the commands behind, which the server may have carried out.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Since when it has not taken them now.
    since: Option<Instant>,
    before: Duration,
    /// The number of the last command that waited when this began.
    last: Option<u64>,
    /// True once it has lasted too long: what still comes goes to nobody.
    is_over: bool,
}

impl Unread {
    /// Takes whether the server is not read for the client's sake, and how many commands were sent and answered.
    fn watch(&mut self, is_held_up: bool, sent: u64, answered: u64) {
        if self.last.is_some_and(|last| answered >= last) {
            (self.since, self.before, self.last) = (None, Duration::ZERO, None);
        }
        let is_held_up = is_held_up && answered < sent && !self.is_over;
        match self.since {
            None if is_held_up => {
                self.since = Some(Instant::now());
                self.last.get_or_insert(sent);
            }
            Some(since) if !is_held_up => {
                self.before += since.elapsed();
                self.since = None;
            }
            _ => {}
        }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// When it has lasted for so long in all.
    fn ends_at(&self, timeout: Duration) -> Option<Instant> {
        Some(self.since? + timeout.saturating_sub(self.before))
    }
}

impl<K: EntrySink> Connection<K> {
    /// Returns whether as many replies wait for the client or the log as are kept.
    pub(super) fn is_full(&self) -> bool {
        self.outbox.len() >= BUFFER_BYTES_MAX || self.full_since.is_some()
    }

    /// Notes whether it is the client that keeps the server from being read.
    pub(super) fn watch_reading(&mut self) {
        let is_held_up = self.is_held_up();
        let (sent, answered) = self.session.counts();
        self.unread.watch(is_held_up, sent, answered);
    }

    /// Returns whether it is the client that keeps the server from being read. A slow log is none of its doing.
    pub(super) fn is_held_up(&self) -> bool {
        self.is_full() && !self.outbox.ready().is_empty() && !self.unread.is_over()
    }

    /// Reads the server for the record alone: what it still answers goes to nobody.
    pub(super) fn let_go(&mut self) {
        self.unread.is_over = true;
        self.client_ended = true;
        self.server.as_mut().forsake();
        // The server answers from now on.
        self.gone_since = Some(Instant::now());
    }

    /// Returns whether nothing more of the client is wanted.
    const fn is_gone(&self) -> bool {
        self.client_ended || self.hung_up || self.refusal.is_some()
    }

    /// Notes since when nothing more of the client is wanted.
    pub(super) fn watch_client(&mut self) {
        if self.is_gone() {
            self.gone_since.get_or_insert_with(Instant::now);
        } else {
            self.gone_since = None;
        }
    }

    /// When a client is let go that does not take its replies.
    fn unread_at(&self) -> Option<Instant> {
        let open = !self.client_ended && !self.server_ended;
        let at = self.unread.ends_at(self.shared.config.reading_timeout);
        at.filter(|_| open)
    }

    /// When a client is refused that says more than is kept behind a command that blocks. Whether it has gone cannot be
    /// seen then: its end may lie behind bytes for which the socket has no room.
    fn crowded_out_at(&self) -> Option<Instant> {
        let stuck = self.listens() && self.is_crowded() && self.session.is_blocked();
        stuck.then(|| self.moved_at + self.shared.config.answer_timeout)
    }

    /// When the server is to be told that nothing more comes: after the client has gone or was refused, once
    /// everything is answered or is not answered in time.
    pub(super) fn farewell_at(&self) -> Option<Instant> {
        let open = self.server_closed.is_none() && !self.server_ended;
        let gone = self.is_gone() && self.answer.is_none();
        if !open || !gone {
            return None;
        }
        // A server that is told ends what blocks and may drop replies; one that is not told may
        // give an element of a list to nobody.
        let more = self.refusal.is_none() && !self.inbox.rest().is_empty();
        let sent = self.inbox.ready().is_empty() && !more;
        let over = !self.session.is_owed() && sent && !self.waits;
        let patience = if over {
            Duration::ZERO
        } else if self.session.is_blocked() {
            BLOCKED_TIMEOUT
        } else {
            self.shared.config.answer_timeout
        };
        // The server is not to blame for a silence before.
        let begun = self.gone_since.unwrap_or_else(Instant::now);
        Some(self.moved_at.max(begun) + patience)
    }

    /// Ready when something that was waited for has not come in time: then look again.
    pub(super) fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let config = &self.shared.config;
        let full = self.full_since.map(|since| since + config.log_timeout);
        let idle = config.idle_timeout.map(|timeout| self.moved_at + timeout);
        let closed = self.server_closed.map(|since| since.max(self.moved_at));
        let farewell = if self.server_ended {
            // Only the client is waited for now, which may read slowly but not stand still.
            Some(self.moved_at + config.answer_timeout)
        } else {
            closed.map(|since| since + FAREWELL_TIMEOUT)
        };
        let end = [idle, farewell].into_iter().flatten().min();
        // Replies that wait for the log alone wait as long as the log may take.
        let recorded = self.batch.is_empty() && self.outbox.ticket().is_none();
        let end = end.filter(|_| !self.server_ended || recorded);
        let unread = !self.reads() && !self.client_ended && !self.hung_up;
        let look = unread.then(|| self.looked_at + HANG_UP_INTERVAL);
        let (crowded_out, unread_end) = (self.crowded_out_at(), self.unread_at());
        let times = [full, self.farewell_at(), end, look, crowded_out, unread_end];
        let Some(next) = times.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        self.sleep.as_mut().reset(next);
        ready!(self.sleep.as_mut().poll(context));
        if end.is_some_and(|end| end <= Instant::now()) {
            if self.is_held_up() && !self.client_ended {
                self.refusal = Some(REFUSE_UNREAD.into());
                self.let_go();
                self.moved_at = Instant::now();
            } else {
                self.abandon();
            }
        }
        if crowded_out.is_some_and(|at| at <= Instant::now()) {
            self.refusal = Some(REFUSE_CROWDED.into());
        }
        if unread_end.is_some_and(|at| at <= Instant::now()) {
            self.refusal = Some(REFUSE_UNREAD.into());
            self.let_go();
        }
        if unread {
            self.looked_at = Instant::now();
            self.hung_up = self.client.has_hung_up();
        }
        Poll::Ready(())
    }
}
