//! One client: its socket, the server's socket, and the session between them.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use super::clock::now;
use super::outbox::{Outbox, Reach};
use super::upstream::{BoxSocket, Side, owned};
use crate::audit::EntryBatch;
use crate::command::KeyUse;
use crate::config::{OnLogFailure, ProxyConfig, Release};
use crate::session::{Next, Session};
use crate::sink::{EntrySink, SinkError};

/// Bytes read at once.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Bytes held in one direction before its source is read no more.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Commands under way before the client is read no more.
const AWAITED_MAX: usize = 1 << 16;
/// How long a client whose bytes are not the protocol waits for the server's own answer.
const BROKEN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a blocking command of a client that has gone may go on before its connection is ended.
const BLOCKED_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the server may take to notice that a connection is ended.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// What the connections of one worker share.
pub(super) struct Shared<K> {
    pub(super) config: ProxyConfig,
    pub(super) side: Rc<Side>,
    pub(super) sink: RefCell<K>,
    /// Connections that wait for a commit.
    pub(super) waiting: RefCell<Vec<Waker>>,
    /// Entries that the log did not take.
    pub(super) missed: Cell<u64>,
    pub(super) stopping: Cell<bool>,
    /// Told when the worker stops, and again when waiting for replies is over.
    pub(super) stop: Notify,
    /// Where every connection reads into.
    pub(super) scratch: RefCell<Box<[u8]>>,
}

type Answer = Pin<Box<dyn Future<Output = io::Result<Option<Vec<KeyUse>>>>>>;

/// One client's connection; a future that ends with it.
pub(super) struct Connection<K: EntrySink> {
    shared: Rc<Shared<K>>,
    session: Session,
    client: BoxSocket,
    server: BoxSocket,
    /// From the client: what is understood up to `understood`, and may go up to `allowed`.
    inbox: Vec<u8>,
    understood: usize,
    allowed: usize,
    outbox: Outbox<K::Ticket>,
    batch: EntryBatch,
    /// How many entries the gap stands for that is the last of the batch.
    gap: Option<u64>,
    answer: Option<Answer>,
    client_ended: bool,
    server_ended: bool,
    /// Since when the server has been told that nothing more comes.
    server_closed: Option<Instant>,
    refusal: Option<String>,
    deadline: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
    full_since: Option<Instant>,
    /// When something last moved.
    moved_at: Instant,
}

const REFUSE_UNRECORDED: &str = "the log does not take entries; nothing is done";
const REFUSE_UNACKNOWLEDGED: &str =
    "the log does not take entries; the operation is not acknowledged";

enum Flow {
    Moved,
    Stuck,
    Ended,
}

impl<K: EntrySink> Connection<K> {
    pub(super) fn new(shared: Rc<Shared<K>>, client: BoxSocket, server: BoxSocket) -> Self {
        let policy = Arc::clone(&shared.config.policy);
        let backend = &shared.config.backend;
        let (principal, db) = (backend.principal(), backend.db());
        Self {
            session: Session::new(Arc::clone(&policy), principal, db),
            shared,
            client,
            server,
            inbox: Vec::new(),
            understood: 0,
            allowed: 0,
            outbox: Outbox::new(),
            batch: EntryBatch::new(policy, now()),
            gap: None,
            answer: None,
            client_ended: false,
            server_ended: false,
            server_closed: None,
            refusal: None,
            deadline: None,
            sleep: Box::pin(tokio::time::sleep(Duration::from_hours(1))),
            full_since: None,
            moved_at: Instant::now(),
        }
    }

    /// Serves the client until either side ends.
    pub(super) async fn run(mut self) {
        let shared = Rc::clone(&self.shared);
        tokio::select! {
            () = poll_fn(|context| self.poll(context)) => return,
            () = shared.stop.notified() => {}
        }
        // Stopping: what is under way may finish until the worker's stop timeout.
        tokio::select! {
            () = poll_fn(|context| self.poll(context)) => return,
            () = shared.stop.notified() => self.abandon(),
        }
        poll_fn(|context| self.poll(context)).await;
    }

    /// Waits for nothing more from either side, and records what was forwarded without an answer.
    fn abandon(&mut self) {
        self.inbox.clear();
        (self.allowed, self.understood, self.client_ended) = (0, 0, true);
        self.answer = None;
        self.outbox.discard();
        self.lose_server();
    }

    /// The server says nothing more.
    fn lose_server(&mut self) {
        self.server_ended = true;
        self.batch.set_time(now());
        self.session.server_lost(&mut self.batch);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut moved = false;
            for step in [
                Self::poll_answer,
                Self::poll_client_read,
                Self::poll_server_write,
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
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Flow {
        let Some(answer) = self.answer.as_mut() else {
            return Flow::Stuck;
        };
        let Poll::Ready(outcome) = answer.as_mut().poll(context) else {
            return Flow::Stuck;
        };
        self.answer = None;
        self.batch.set_time(now());
        match outcome {
            Err(_) => {
                self.refusal = Some("the server does not say which keys a command touches".into());
                return Flow::Moved;
            }
            Ok(Some(keys)) => self.session.resolve(&keys, &mut self.batch),
            Ok(None) => {
                let table = self.shared.side.table();
                let next = self.session.learn(&table, &mut self.batch);
                if !self.go_on(next) {
                    return Flow::Moved;
                }
            }
        }
        self.allowed = self.understood;
        self.understand();
        Flow::Moved
    }

    fn poll_client_read(&mut self, context: &mut Context<'_>) -> Flow {
        let reads = !self.client_ended
            && self.refusal.is_none()
            && self.answer.is_none()
            && !self.shared.stopping.get()
            && self.inbox.len() < BUFFER_BYTES_MAX
            && self.session.awaited() < AWAITED_MAX;
        if !reads {
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
                self.inbox.extend_from_slice(buffer.filled());
                self.batch.set_time(now());
                self.understand();
                Flow::Moved
            }
        }
    }

    fn understand(&mut self) {
        if self.log_is_lost() {
            // Nothing is done that cannot be recorded.
            self.refusal = Some(REFUSE_UNRECORDED.to_owned());
            return;
        }
        let table = self.shared.side.table();
        while self.answer.is_none() && self.refusal.is_none() && self.understood < self.inbox.len()
        {
            let rest = self.inbox.get(self.understood..).unwrap_or_default();
            let taken = self.session.take_commands(&table, rest, &mut self.batch);
            self.understood += taken.consumed;
            self.allowed = self.understood - taken.hold;
            if !self.go_on(taken.next) {
                return;
            }
        }
    }

    /// Does what the session wants; whether more commands may be taken.
    fn go_on(&mut self, next: Next) -> bool {
        match next {
            Next::Continue => return true,
            Next::Refuse(reason) => self.refusal = Some(reason.to_owned()),
            Next::Broken => {
                self.client_ended = true;
                self.inbox.truncate(self.understood);
                self.deadline = Some(Instant::now() + BROKEN_TIMEOUT);
            }
            Next::Ask => {
                let side = Rc::clone(&self.shared.side);
                let arguments = owned(self.session.arguments());
                self.answer = Some(Box::pin(
                    async move { side.keys(arguments).await.map(Some) },
                ));
            }
            Next::Learn => {
                let side = Rc::clone(&self.shared.side);
                let name = self.session.arguments().text(0).to_vec();
                self.answer = Some(Box::pin(
                    async move { side.learn(name).await.map(|()| None) },
                ));
            }
        }
        false
    }

    fn poll_server_write(&mut self, context: &mut Context<'_>) -> Flow {
        if self.farewell_at().is_some_and(|at| at <= Instant::now()) {
            self.inbox.clear();
            (self.allowed, self.understood) = (0, 0);
            let _best_effort = self.server.as_mut().poll_shutdown(context);
            self.server_closed = Some(Instant::now());
            return Flow::Moved;
        }
        let ready = self.inbox.get(..self.allowed).unwrap_or_default();
        if ready.is_empty() {
            return Flow::Stuck;
        }
        match self.server.as_mut().poll_write(context, ready) {
            Poll::Pending => Flow::Stuck,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.inbox.drain(..count);
                self.allowed -= count;
                self.understood -= count;
                Flow::Moved
            }
            Poll::Ready(_) => {
                // What was not sent was not done; what the server still says is read.
                self.inbox.clear();
                (self.allowed, self.understood, self.client_ended) = (0, 0, true);
                Flow::Moved
            }
        }
    }

    /// When the server is to be told that nothing more comes: after the client has gone, once
    /// everything is answered or is not answered in time.
    fn farewell_at(&self) -> Option<Instant> {
        let open = self.server_closed.is_none() && !self.server_ended;
        let gone = self.client_ended && self.answer.is_none() && self.deadline.is_none();
        if !open || !gone {
            return None;
        }
        // A server that is told ends what blocks and may drop replies; one that is not told may
        // give an element of a list to nobody.
        let patience = if !self.session.is_owed() && self.allowed == 0 {
            Duration::ZERO
        } else if self.session.is_blocked() {
            BLOCKED_TIMEOUT
        } else {
            self.shared.config.answer_timeout
        };
        Some(self.moved_at + patience)
    }

    fn poll_server_read(&mut self, context: &mut Context<'_>) -> Flow {
        let full = self.outbox.len() >= BUFFER_BYTES_MAX || self.full_since.is_some();
        if self.server_ended || full || !self.batch.is_empty() {
            return Flow::Stuck;
        }
        let shared = Rc::clone(&self.shared);
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let outcome = match self.server.as_mut().poll_read(context, &mut buffer) {
            Poll::Pending => return Flow::Stuck,
            Poll::Ready(outcome) => outcome,
        };
        self.batch.set_time(now());
        let arrived = buffer.filled();
        if outcome.is_err() || arrived.is_empty() {
            self.lose_server();
        } else {
            self.outbox.extend(arrived);
            if self.session.take_replies(arrived, &mut self.batch).is_err() {
                self.lose_server();
                self.refusal = Some("the server does not speak the protocol".to_owned());
            }
        }
        Flow::Moved
    }

    /// Hands the entries to the log, and lets go what they were made of when it has them.
    fn poll_append(&mut self, context: &mut Context<'_>) -> Flow {
        let reach = Reach {
            place: self.session.settled(),
            midway: self.session.is_midway(),
        };
        if self.batch.is_empty() {
            if self.outbox.is_released(reach) {
                return Flow::Stuck;
            }
            if self.log_is_lost() {
                return self.log_failed();
            }
            return if self.outbox.release(reach) {
                Flow::Moved
            } else {
                Flow::Stuck
            };
        }
        self.record_gap();
        let outcome = self.shared.sink.borrow_mut().append(&self.batch.entries());
        match outcome {
            Ok(ticket) => {
                self.batch.clear();
                (self.gap, self.full_since) = (None, None);
                match (self.shared.config.release, ticket) {
                    (Release::Durable, Some(ticket)) => {
                        self.outbox.hold(reach, ticket);
                        self.shared.sink.borrow_mut().push();
                    }
                    _ => {
                        self.outbox.release(reach);
                    }
                }
                Flow::Moved
            }
            Err((taken, SinkError::Full)) => {
                self.batch.drop_first(taken);
                let since = *self.full_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= self.shared.config.log_timeout {
                    return self.log_failed();
                }
                self.wait_for_commit(context);
                Flow::Stuck
            }
            Err((taken, SinkError::Failed(_))) => {
                self.batch.drop_first(taken);
                self.log_failed()
            }
        }
    }

    /// Puts an entry behind the others that says how many are missing.
    fn record_gap(&mut self) {
        let missed = self.shared.missed.replace(0);
        if missed > 0 {
            // One that the log has not taken yet stands for more now.
            let before = self.gap.take();
            if before.is_some() {
                self.batch.drop_last();
            }
            let missed = missed + before.unwrap_or_default();
            self.batch
                .record_gap(missed, self.shared.config.on_log_failure);
            self.gap = Some(missed);
        }
    }

    /// Whether nothing may be done any more, because nothing can be recorded.
    fn log_is_lost(&self) -> bool {
        self.shared.config.on_log_failure == OnLogFailure::Refuse
            && self.shared.sink.borrow().is_failed()
    }

    fn log_failed(&mut self) -> Flow {
        self.full_since = None;
        let forward = self.shared.config.on_log_failure == OnLogFailure::Forward;
        if !forward {
            self.lose_server();
        }
        let gap = self.gap.take();
        let lost = self.batch.len() as u64 - u64::from(gap.is_some());
        self.batch.clear();
        let missed = self.shared.missed.get() + lost + gap.unwrap_or_default();
        self.shared.missed.set(missed);
        if forward {
            self.outbox.release(Reach {
                place: self.session.settled(),
                midway: self.session.is_midway(),
            });
            return Flow::Moved;
        }
        // Nothing that is not in the log may be seen.
        self.outbox.withhold();
        self.refusal = Some(REFUSE_UNACKNOWLEDGED.to_owned());
        Flow::Moved
    }

    fn poll_durable(&mut self, context: &mut Context<'_>) -> Flow {
        let mut moved = false;
        while let Some(ticket) = self.outbox.ticket() {
            let durable = self.shared.sink.borrow_mut().is_durable(ticket);
            match durable {
                Ok(true) => {
                    self.outbox.pass();
                    moved = true;
                }
                Ok(false) => {
                    self.wait_for_commit(context);
                    // The commit may have come between the question and the registration.
                    let again = self.shared.sink.borrow_mut().is_durable(ticket);
                    if matches!(again, Ok(false)) {
                        break;
                    }
                }
                Err(_) => return self.log_failed(),
            }
        }
        if moved { Flow::Moved } else { Flow::Stuck }
    }

    fn poll_client_write(&mut self, context: &mut Context<'_>) -> Flow {
        let ready = self.outbox.ready();
        if ready.is_empty() {
            return Flow::Stuck;
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
                Flow::Moved
            }
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Flow {
        let stops = self.shared.stopping.get() && self.inbox.is_empty();
        let ends = !self.session.is_owed() && (stops || self.refusal.is_some());
        let quiet = self.batch.is_empty() && self.outbox.is_quiet();
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
            let text = format!("-ERR probity: {reason}\r\n");
            // One attempt: the buffer of a socket that is being closed has room or nobody reads.
            let _best_effort = self.client.as_mut().poll_write(context, text.as_bytes());
        }
        let _best_effort = self.client.as_mut().poll_shutdown(context);
        Flow::Ended
    }

    /// Ready when something that was waited for has not come in time: then look again.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let config = &self.shared.config;
        let full = self.full_since.map(|since| since + config.log_timeout);
        let idle = config.idle_timeout.map(|timeout| self.moved_at + timeout);
        let closed = self.server_closed.map(|since| since.max(self.moved_at));
        let farewell = closed.map(|since| since + FAREWELL_TIMEOUT);
        let end = [idle, self.deadline, farewell].into_iter().flatten().min();
        // What only waits for the log waits as long as the log may take.
        let recorded = self.batch.is_empty() && self.outbox.ticket().is_none();
        let end = end.filter(|_| !self.server_ended || recorded);
        let times = [full, self.farewell_at(), end];
        let Some(next) = times.into_iter().flatten().min() else {
            return Poll::Pending;
        };
        self.sleep.as_mut().reset(next);
        ready!(self.sleep.as_mut().poll(context));
        if end.is_some_and(|end| end <= Instant::now()) {
            self.abandon();
        }
        Poll::Ready(())
    }

    fn wait_for_commit(&self, context: &Context<'_>) {
        let mut waiting = self.shared.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }
}
