//! One client: its socket, the server's socket, and the session between them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep};

use super::clock::now;
use super::upstream::{BoxSocket, Side, owned};
use crate::audit::{Actor, Deed, EntryBatch};
use crate::command::KeyUse;
use crate::config::{OnLogFailure, ProxyConfig, Release};
use crate::session::{Next, Session};
use crate::sink::{EntrySink, SinkError};

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes held in one direction before its source is read no more.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Commands under way before the client is read no more.
const AWAITED_MAX: usize = 1 << 16;
/// How long a client whose bytes are not the protocol waits for the server's own answer.
const BROKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// What the connections of one worker share.
pub(super) struct Shared<K> {
    pub(super) config: ProxyConfig,
    pub(super) side: Rc<Side>,
    pub(super) sink: RefCell<K>,
    /// Connections that wait for a commit.
    pub(super) waiting: RefCell<Vec<Waker>>,
    /// Entries that went missing while the log failed and replies were let go.
    pub(super) missed: RefCell<u64>,
    pub(super) stopping: std::cell::Cell<bool>,
    pub(super) stop: tokio::sync::Notify,
}

type Answer = Pin<Box<dyn Future<Output = io::Result<Option<Vec<KeyUse>>>>>>;

/// One client's connection; a future that ends with it.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each side ends and closes on its own"
)]
pub(super) struct Connection<K: EntrySink> {
    shared: Rc<Shared<K>>,
    session: Session,
    client: BoxSocket,
    server: BoxSocket,
    /// From the client: what is understood up to `understood`, and may go up to `allowed`.
    inbox: Vec<u8>,
    understood: usize,
    allowed: usize,
    /// From the server: the first byte has place `base` in its stream, and bytes up to `released` may go.
    outbox: Vec<u8>,
    base: u64,
    released: u64,
    marks: VecDeque<(u64, K::Ticket)>,
    batch: EntryBatch,
    answer: Option<Answer>,
    client_ended: bool,
    server_ended: bool,
    server_closed: bool,
    refusal: Option<String>,
    deadline: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
    full_since: Option<Instant>,
    idle_since: Instant,
    scratch: Box<[u8]>,
}

enum Flow {
    Moved,
    Stuck,
    Ended,
}

impl<K: EntrySink> Connection<K> {
    pub(super) fn new(shared: Rc<Shared<K>>, client: BoxSocket, server: BoxSocket) -> Self {
        let policy = std::sync::Arc::clone(&shared.config.policy);
        let backend = &shared.config.backend;
        let (principal, db) = (backend.principal(), backend.db());
        Self {
            session: Session::new(std::sync::Arc::clone(&policy), principal, db),
            shared,
            client,
            server,
            inbox: Vec::new(),
            understood: 0,
            allowed: 0,
            outbox: Vec::new(),
            base: 0,
            released: 0,
            marks: VecDeque::new(),
            batch: EntryBatch::new(policy, now()),
            answer: None,
            client_ended: false,
            server_ended: false,
            server_closed: false,
            refusal: None,
            deadline: None,
            sleep: Box::pin(tokio::time::sleep(Duration::from_hours(1))),
            full_since: None,
            idle_since: Instant::now(),
            scratch: vec![0; READ_BYTES].into(),
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
        poll_fn(|context| self.poll(context)).await;
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
                self.idle_since = Instant::now();
            } else {
                return self.poll_timer(context);
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
        let mut buffer = ReadBuf::new(&mut self.scratch);
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
        let ready = self.inbox.get(..self.allowed).unwrap_or_default();
        if ready.is_empty() {
            let ends = self.client_ended && self.answer.is_none() && self.deadline.is_none();
            if ends && !self.server_closed && self.server.as_mut().poll_shutdown(context).is_ready()
            {
                self.server_closed = true;
                return Flow::Moved;
            }
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

    fn poll_server_read(&mut self, context: &mut Context<'_>) -> Flow {
        let full = self.outbox.len() >= BUFFER_BYTES_MAX || self.full_since.is_some();
        if self.server_ended || full || !self.batch.is_empty() {
            return Flow::Stuck;
        }
        let mut buffer = ReadBuf::new(&mut self.scratch);
        let outcome = match self.server.as_mut().poll_read(context, &mut buffer) {
            Poll::Pending => return Flow::Stuck,
            Poll::Ready(outcome) => outcome,
        };
        self.batch.set_time(now());
        let arrived = buffer.filled();
        if outcome.is_err() || arrived.is_empty() {
            self.server_ended = true;
            self.session.server_lost(&mut self.batch);
        } else {
            self.outbox.extend_from_slice(arrived);
            if self.session.take_replies(arrived, &mut self.batch).is_err() {
                self.server_ended = true;
                self.session.server_lost(&mut self.batch);
                self.refusal = Some("the server does not speak the protocol".to_owned());
            }
        }
        Flow::Moved
    }

    /// Hands the entries to the log, and lets go what they were made of when it has them.
    fn poll_append(&mut self, context: &mut Context<'_>) -> Flow {
        if self.batch.is_empty() {
            let place = self.session.settled();
            if place > self.released && self.marks.is_empty() {
                self.released = place;
                return Flow::Moved;
            }
            if let Some(last) = self.marks.back_mut() {
                last.0 = last.0.max(place);
            }
            return Flow::Stuck;
        }
        self.record_gap();
        let outcome = self.shared.sink.borrow_mut().append(&self.batch.entries());
        match outcome {
            Ok(ticket) => {
                self.batch.clear();
                self.full_since = None;
                let place = self.session.settled();
                match (self.shared.config.release, ticket) {
                    (Release::Durable, Some(ticket)) => {
                        self.marks.push_back((place, ticket));
                        self.shared.sink.borrow_mut().push();
                    }
                    _ => self.released = place,
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

    fn record_gap(&mut self) {
        let missed = self.shared.missed.replace(0);
        if missed > 0 {
            let facts = format!(",\"missed\":{missed}");
            let outcome = probity_format::Outcome::Failed;
            let deed = Deed {
                action: "gap",
                outcome,
                command: "",
                facts: &facts,
            };
            self.batch.record_place(b"", 0, &Actor::default(), deed);
        }
    }

    fn log_failed(&mut self) -> Flow {
        self.full_since = None;
        let lost = self.batch.len() as u64;
        self.batch.clear();
        if self.shared.config.on_log_failure == OnLogFailure::Forward {
            *self.shared.missed.borrow_mut() += lost;
            self.released = self.session.settled();
            return Flow::Moved;
        }
        // Nothing that is not in the log may be seen.
        let keep = usize::try_from(self.released.saturating_sub(self.base)).unwrap_or_default();
        self.outbox.truncate(keep);
        self.marks.clear();
        self.server_ended = true;
        self.refusal =
            Some("the log does not take entries; the operation is not acknowledged".into());
        Flow::Moved
    }

    fn poll_durable(&mut self, context: &mut Context<'_>) -> Flow {
        let mut moved = false;
        while let Some((place, ticket)) = self.marks.front().copied() {
            let durable = self.shared.sink.borrow_mut().is_durable(ticket);
            match durable {
                Ok(true) => {
                    self.marks.pop_front();
                    self.released = self.released.max(place);
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
        let count = usize::try_from(self.released.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let ready = self
            .outbox
            .get(..count.min(self.outbox.len()))
            .unwrap_or_default();
        if ready.is_empty() {
            return Flow::Stuck;
        }
        match self.client.as_mut().poll_write(context, ready) {
            Poll::Pending => Flow::Stuck,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.outbox.drain(..count);
                self.base += count as u64;
                Flow::Moved
            }
            Poll::Ready(_) => {
                // The client is gone; what the server still answers is recorded all the same.
                self.client_ended = true;
                self.base += self.outbox.len() as u64;
                self.outbox.clear();
                Flow::Moved
            }
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Flow {
        let quiet = self.batch.is_empty() && self.marks.is_empty() && self.released <= self.base;
        if let (Some(reason), true) = (self.refusal.as_ref(), quiet)
            && (self.session.awaited() == 0 || self.server_ended)
        {
            let text = format!("-ERR probity: {reason}\r\n");
            // One attempt: the buffer of a socket that is being closed has room or nobody reads.
            let _best_effort = self.client.as_mut().poll_write(context, text.as_bytes());
            let _best_effort = self.client.as_mut().poll_shutdown(context);
            return Flow::Ended;
        }
        let stopped =
            self.shared.stopping.get() && self.session.awaited() == 0 && self.inbox.is_empty();
        if quiet && (self.server_ended || stopped) {
            let _best_effort = self.client.as_mut().poll_shutdown(context);
            return Flow::Ended;
        }
        Flow::Stuck
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let config = &self.shared.config;
        let full = self.full_since.map(|since| since + config.log_timeout);
        let idle = config.idle_timeout.map(|timeout| self.idle_since + timeout);
        let Some(next) = [full, idle, self.deadline].into_iter().flatten().min() else {
            return Poll::Pending;
        };
        self.sleep.as_mut().reset(next);
        ready!(self.sleep.as_mut().poll(context));
        if full.is_some_and(|full| full <= Instant::now()) {
            context.waker().wake_by_ref();
            return Poll::Pending;
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
