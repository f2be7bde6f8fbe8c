//! One client: its socket, the server's socket, and the session between them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use super::clock::now;
use super::inbox::Inbox;
use super::outbox::Outbox;
use super::patience::Unread;
use super::side::{Answer, Asked, Side};
use super::upstream::{BoxSocket, Connected};
use crate::audit::EntryBatch;
use crate::config::ProxyConfig;
use crate::session::{End, Next, Session};
use crate::sink::EntrySink;

/// Bytes read at once.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Bytes held in one direction before its source is read no more.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Bytes of commands under way before the client is read no more.
const AWAITED_BYTES_MAX: usize = 4 << 20;
/// Rounds through all steps after which the other clients of the worker have a turn.
const ROUNDS_MAX: usize = 4;
/// The state that the connections of one worker share.
pub(super) struct Shared<K> {
    pub(super) config: ProxyConfig,
    pub(super) side: Rc<Side>,
    pub(super) sink: RefCell<K>,
    /// Connections that wait for a commit.
    pub(super) waiting: RefCell<Vec<Waker>>,
    pub(super) stopping: Cell<bool>,
    /// Told when the worker stops, and again when waiting for replies is over.
    pub(super) stop: Notify,
    /// The buffer that every connection reads into.
    pub(super) scratch: RefCell<Box<[u8]>>,
}

impl<K> Shared<K> {
    /// Ends when the worker stops.
    pub(super) async fn stops(&self) {
        let told = self.stop.notified();
        if !self.stopping.get() {
            told.await;
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = io::Result<Answer>>>>;

/// One client's connection; a future that ends with it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that has happened, in any order"
)]
pub(super) struct Connection<K: EntrySink> {
    pub(super) shared: Rc<Shared<K>>,
    pub(super) session: Session,
    pub(super) client: BoxSocket,
    pub(super) server: BoxSocket,
    pub(super) inbox: Inbox,
    /// Bytes of the server that wait until the entries of those before are made.
    leftover: Vec<u8>,
    pub(super) outbox: Outbox<K::Ticket>,
    pub(super) batch: EntryBatch,
    pub(super) answer: Option<Asking>,
    /// The question for the server's time, which an entry needs.
    clock: Option<Asking>,
    /// True while a command waits until everything before it is answered.
    pub(super) waits: bool,
    pub(super) client_ended: bool,
    /// True once the client has closed its end, behind bytes that are not read yet.
    pub(super) hung_up: bool,
    pub(super) server_ended: bool,
    /// Since when nothing more of the client is wanted.
    pub(super) gone_since: Option<Instant>,
    /// Since when the server has been told that nothing more comes.
    pub(super) server_closed: Option<Instant>,
    /// The error that the client is sent last.
    pub(super) refusal: Option<Vec<u8>>,
    pub(super) sleep: Pin<Box<Sleep>>,
    pub(super) full_since: Option<Instant>,
    /// When something last moved.
    pub(super) moved_at: Instant,
    /// When a client that is not read was last asked for a sign of life.
    pub(super) looked_at: Instant,
    /// For how long the client has not taken replies behind which others wait.
    pub(super) unread: Unread,
}

const REFUSE_UNRECORDED: &str = "ERR probity: the log does not take entries; nothing is done";
pub(super) const REFUSE_UNACKNOWLEDGED: &str =
    "ERR probity: the log does not take entries; the operation is not acknowledged";
const REFUSE_UNKNOWN_KEYS: &str =
    "ERR probity: the server does not say which keys a command touches";
const REFUSE_UNKNOWN_COMMAND: &str =
    "ERR probity: the server does not say now what this command is; nothing is done, try again";

pub(super) enum Flow {
    Moved,
    Stuck,
    Ended,
}

impl<K: EntrySink> Connection<K> {
    pub(super) fn new(shared: Rc<Shared<K>>, client: BoxSocket, server: Connected) -> Self {
        let policy = Arc::clone(&shared.config.policy);
        let mut session = Session::new(Arc::clone(&policy), server.db);
        if let Some(db) = server.db_owed {
            session.owe_db(db);
        }
        if shared.side.is_alone() {
            session.without_redirects();
        }
        if server.locked {
            session.locked();
        }
        if !server.users {
            session.without_users();
        }
        Self {
            session,
            shared,
            client,
            server: server.socket,
            inbox: Inbox::default(),
            leftover: Vec::new(),
            outbox: Outbox::new(),
            batch: EntryBatch::new(policy, now()),
            answer: None,
            clock: None,
            waits: false,
            client_ended: false,
            hung_up: false,
            server_ended: false,
            gone_since: None,
            server_closed: None,
            refusal: None,
            sleep: Box::pin(tokio::time::sleep(Duration::from_hours(1))),
            full_since: None,
            moved_at: Instant::now(),
            looked_at: Instant::now(),
            unread: Unread::default(),
        }
    }

    /// Serves the client until either side ends.
    pub(super) async fn run(mut self) {
        let shared = Rc::clone(&self.shared);
        tokio::select! {
            () = poll_fn(|context| self.poll(context)) => return,
            () = shared.stops() => {}
        }
        // Stopping: commands under way may finish until the worker's stop timeout.
        tokio::select! {
            () = poll_fn(|context| self.poll(context)) => return,
            () = shared.stop.notified() => self.abandon(),
        }
        poll_fn(|context| self.poll(context)).await;
    }

    /// Waits for nothing more from either side, and records forwarded commands without an answer.
    pub(super) fn abandon(&mut self) {
        self.client_ended = true;
        self.outbox.discard();
        self.lose_server();
    }

    /// The server says nothing more, and is sent nothing more.
    pub(super) fn lose_server(&mut self) {
        self.server_ended = true;
        self.inbox = Inbox::default();
        self.leftover.clear();
        (self.answer, self.waits) = (None, false);
        self.batch.set_time(now());
        self.session.server_lost();
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            for step in [
                Self::poll_answer,
                Self::poll_resume,
                Self::poll_understand,
                Self::poll_client_read,
                Self::poll_server_write,
                Self::poll_clock,
                Self::poll_work,
                Self::poll_server_read,
                Self::poll_append,
                Self::poll_durable,
                Self::poll_client_write,
                Self::poll_end,
            ] {
                match step(self, context) {
                    Flow::Moved => moved = true,
                    Flow::Stuck => {}
                    Flow::Ended => return Poll::Ready(()),
                }
            }
            if moved {
                self.moved_at = Instant::now();
            } else if self.poll_timer(context).is_pending() {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Flow {
        let Some(answer) = self.answer.as_mut() else {
            return Flow::Stuck;
        };
        let Poll::Ready(outcome) = answer.as_mut().poll(context) else {
            return Flow::Stuck;
        };
        self.answer = None;
        let next = match outcome {
            Err(_) => Next::Refuse(REFUSE_UNKNOWN_KEYS.into()),
            Ok(Answer::Keys(keys)) => self.session.resolve(keys.as_deref()),
            Ok(Answer::BareKeys(keys)) => self.session.resolve_bare(keys.as_deref()),
            Ok(Answer::NotLearned) => Next::Refuse(REFUSE_UNKNOWN_COMMAND.into()),
            Ok(Answer::Learned) => self.session.learn(&self.shared.side.table()),
            Ok(Answer::Time(time)) => self.session.timed(&self.shared.side.table(), time),
        };
        self.go_on_with_held(next);
        Flow::Moved
    }

    /// Goes on with a command that waited for the replies before it.
    fn poll_resume(&mut self, _: &mut Context<'_>) -> Flow {
        if !self.waits || self.session.is_owed() || self.session.has_work() {
            return Flow::Stuck;
        }
        self.waits = false;
        let next = self.session.resume(&self.shared.side.table());
        self.go_on_with_held(next);
        Flow::Moved
    }

    fn go_on_with_held(&mut self, next: Next) {
        if next == Next::Continue {
            self.inbox.let_go();
        }
        if self.go_on(next) {
            self.understand();
        }
    }

    /// Asks for the server's time if it decides the fate of a key.
    fn poll_clock(&mut self, context: &mut Context<'_>) -> Flow {
        if !self.session.wants_time() {
            return Flow::Stuck;
        }
        let side = Rc::clone(&self.shared.side);
        let clock = self
            .clock
            .get_or_insert_with(|| Box::pin(async move { side.time().await }));
        let Poll::Ready(outcome) = clock.as_mut().poll(context) else {
            return Flow::Stuck;
        };
        self.clock = None;
        self.session.tell_time(match outcome {
            Ok(Answer::Time(time)) => time,
            _ => None,
        });
        Flow::Moved
    }

    /// Makes entries that were too many to be made at once, or waited for the server's time.
    fn poll_work(&mut self, _: &mut Context<'_>) -> Flow {
        if self.session.wants_time() || !self.session.has_work() || !self.batch.is_empty() {
            return Flow::Stuck;
        }
        self.session.work(&mut self.batch);
        Flow::Moved
    }

    /// Returns whether more of the client is wanted at all.
    pub(super) fn listens(&self) -> bool {
        !self.client_ended
            && !self.server_ended
            && self.refusal.is_none()
            && !self.shared.stopping.get()
    }

    /// Returns whether as many bytes of the client wait as are kept for it.
    pub(super) fn is_crowded(&self) -> bool {
        self.inbox.len() >= BUFFER_BYTES_MAX || self.session.awaited_bytes() >= AWAITED_BYTES_MAX
    }

    /// Returns whether the client is read. It is read while a command waits, because its end is
    /// seen only behind its bytes.
    pub(super) fn reads(&self) -> bool {
        self.listens() && !self.is_crowded()
    }

    fn poll_client_read(&mut self, context: &mut Context<'_>) -> Flow {
        if !self.reads() {
            return Flow::Stuck;
        }
        let shared = Rc::clone(&self.shared);
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        match self.client.as_mut().poll_read(context, &mut buffer) {
            Poll::Pending => Flow::Stuck,
            Poll::Ready(Err(_)) => {
                self.client_ended = true;
                Flow::Moved
            }
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => {
                self.client_ended = true;
                Flow::Moved
            }
            Poll::Ready(Ok(())) => {
                self.inbox.arrive(buffer.filled());
                self.batch.set_time(now());
                self.understand();
                Flow::Moved
            }
        }
    }

    /// Returns whether bytes of the client wait that may be understood now.
    fn has_more(&self) -> bool {
        !self.inbox.rest().is_empty() && self.session.awaited_bytes() < AWAITED_BYTES_MAX
    }

    /// Goes on with bytes that came while as many commands as may be were under way.
    fn poll_understand(&mut self, _: &mut Context<'_>) -> Flow {
        let held_up = self.answer.is_some() || self.waits || self.refusal.is_some();
        if held_up || !self.has_more() {
            return Flow::Stuck;
        }
        self.understand();
        Flow::Moved
    }

    fn understand(&mut self) {
        if self.answer.is_some() || self.waits {
            return;
        }
        if self.log_is_lost() {
            // Nothing is done that cannot be recorded.
            self.refusal = Some(REFUSE_UNRECORDED.into());
            return;
        }
        let table = self.shared.side.table();
        while self.has_more() {
            let taken = self.session.take_commands(&table, self.inbox.rest());
            self.inbox.understand(taken.consumed, taken.hold);
            if !self.go_on(taken.next) {
                return;
            }
        }
    }

    /// Does what the session wants; whether more commands may be taken.
    fn go_on(&mut self, next: Next) -> bool {
        let side = Rc::clone(&self.shared.side);
        match next {
            Next::Continue => return true,
            Next::Replace => {
                let Some(bytes) = self.session.take_replacement() else {
                    return self.go_on(Next::Refuse(REFUSE_UNKNOWN_COMMAND.into()));
                };
                self.inbox.replace_held(&bytes);
                return true;
            }
            Next::Wait => {
                self.waits = true;
                self.put_question();
            }
            Next::Refuse(reason) => {
                self.inbox.forget_rest();
                self.refusal = Some(reason);
            }
            Next::Time(at) if side.may_be_over(at) => {
                self.answer = Some(Box::pin(async move { side.ending_time(at).await }));
            }
            Next::Time(_) => {
                let next = self.session.timed(&side.table(), None);
                if next == Next::Continue {
                    self.inbox.let_go();
                }
                return self.go_on(next);
            }
            Next::Ask => {
                let arguments = Asked::of(self.session.arguments());
                self.answer = Some(Box::pin(async move { side.keys(arguments).await }));
            }
            Next::Learn => {
                let name = self.session.arguments().beginning(0).to_vec();
                self.answer = Some(Box::pin(async move { Ok(side.learn(name).await) }));
            }
        }
        false
    }

    /// Puts the session's own questions behind the admitted bytes.
    fn put_question(&mut self) {
        if let Some(bytes) = self.session.take_question() {
            self.inbox.insert(bytes);
        }
    }

    fn poll_server_write(&mut self, context: &mut Context<'_>) -> Flow {
        self.watch_client();
        if self.farewell_at().is_some_and(|at| at <= Instant::now()) {
            if self.is_held_up() {
                self.let_go();
                return Flow::Moved;
            }
            self.inbox = Inbox::default();
            (self.answer, self.waits, self.client_ended) = (None, false, true);
            let _best_effort = self.server.as_mut().poll_shutdown(context);
            self.server_closed = Some(Instant::now());
            return Flow::Moved;
        }
        let ready = self.inbox.ready();
        if ready.is_empty() {
            return Flow::Stuck;
        }
        match self.server.as_mut().poll_write(context, ready) {
            Poll::Pending => Flow::Stuck,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.inbox.sent(count);
                Flow::Moved
            }
            Poll::Ready(_) => {
                // A command that was not sent was not done. The server's remaining replies are
                // read.
                self.inbox = Inbox::default();
                (self.answer, self.waits, self.client_ended) = (None, false, true);
                Flow::Moved
            }
        }
    }

    fn poll_server_read(&mut self, context: &mut Context<'_>) -> Flow {
        let full = self.is_full();
        self.watch_reading();
        if self.server_ended || full || !self.batch.is_empty() || self.session.has_work() {
            return Flow::Stuck;
        }
        if !self.leftover.is_empty() {
            let arrived = std::mem::take(&mut self.leftover);
            self.take_replies(&arrived);
            return Flow::Moved;
        }
        let shared = Rc::clone(&self.shared);
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let outcome = match self.server.as_mut().poll_read(context, &mut buffer) {
            Poll::Pending => return Flow::Stuck,
            Poll::Ready(outcome) => outcome,
        };
        let arrived = buffer.filled();
        if outcome.is_err() || arrived.is_empty() {
            self.lose_server();
        } else {
            self.session.forget_time();
            self.take_replies(arrived);
        }
        Flow::Moved
    }

    fn take_replies(&mut self, arrived: &[u8]) {
        self.batch.set_time(now());
        let out = self.outbox.arriving();
        match self.session.take_replies(arrived, out, &mut self.batch) {
            Ok(taken) => self.leftover = arrived.get(taken..).unwrap_or_default().to_vec(),
            Err(End::LastWord) => self.lose_server(),
            Err(end) => {
                self.lose_server();
                self.refusal = Some(format!("ERR probity: {end}").into_bytes());
            }
        }
        self.put_question();
    }

    fn poll_client_write(&mut self, context: &mut Context<'_>) -> Flow {
        let ready = self.outbox.ready();
        if ready.is_empty() {
            return Flow::Stuck;
        }
        if self.unread.is_over() {
            let count = ready.len();
            self.outbox.sent(count);
            return Flow::Moved;
        }
        match self.client.as_mut().poll_write(context, ready) {
            Poll::Pending => Flow::Stuck,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.outbox.sent(count);
                Flow::Moved
            }
            Poll::Ready(_) => {
                // The client is gone; what the server still answers is recorded all the same.
                self.client_ended = true;
                self.outbox.discard();
                self.server.as_mut().forsake();
                Flow::Moved
            }
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Flow {
        let stops = self.shared.stopping.get() && self.inbox.len() == 0;
        let ends = !self.session.is_owed() && (stops || self.refusal.is_some());
        let recorded = self.batch.is_empty() && !self.session.has_work();
        let quiet = recorded && self.outbox.is_quiet();
        if !quiet || !(ends || self.server_ended) {
            return Flow::Stuck;
        }
        if !self.server_ended {
            // A transaction that was begun ends here, and that is recorded first.
            self.lose_server();
            return Flow::Moved;
        }
        // In the middle of a reply an error would be taken for a part of it.
        if let (Some(reason), false) = (self.refusal.as_ref(), self.outbox.is_midway()) {
            let text = [b"-", &reason[..], b"\r\n"].concat();
            // One attempt: the buffer of a socket that is being closed has room or nobody reads.
            let _best_effort = self.client.as_mut().poll_write(context, &text);
        }
        let _best_effort = self.client.as_mut().poll_shutdown(context);
        Flow::Ended
    }
}
