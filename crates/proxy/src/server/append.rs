//! From the batch to the log, and from the log's word to what the client may see.

use std::task::Context;

use tokio::time::Instant;

use super::connection::{Connection, Flow, REFUSE_UNACKNOWLEDGED};
use super::outbox::Reach;
use crate::config::{OnLogFailure, Release};
use crate::sink::{EntrySink, SinkError};

impl<K: EntrySink> Connection<K> {
    /// Hands the entries to the log, and releases the bytes that they were made of once it has
    /// them.
    pub(super) fn poll_append(&mut self, context: &mut Context<'_>) -> Flow {
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
        let outcome = self.shared.sink.borrow_mut().append(&self.batch.entries());
        match outcome {
            Ok(ticket) => {
                self.batch.clear();
                self.full_since = None;
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

    /// Returns whether nothing may be done any more, because nothing can be recorded.
    pub(super) fn log_is_lost(&self) -> bool {
        self.shared.config.on_log_failure == OnLogFailure::Refuse
            && self.shared.sink.borrow().is_failed()
    }

    fn log_failed(&mut self) -> Flow {
        self.full_since = None;
        let replies = self.shared.config.on_log_failure;
        let forward = replies == OnLogFailure::Forward;
        let mut lost = self.batch.len() as u64;
        self.batch.clear();
        if !forward {
            lost += self.give_up();
        }
        if lost > 0 {
            self.shared.sink.borrow_mut().miss(lost, replies);
        }
        if forward {
            self.outbox.let_go();
            self.outbox.release(Reach {
                place: self.session.settled(),
                midway: self.session.is_midway(),
            });
            return Flow::Moved;
        }
        // Nothing that is not in the log may be seen.
        self.outbox.withhold();
        self.refusal = Some(REFUSE_UNACKNOWLEDGED.into());
        Flow::Moved
    }

    /// Gives up all that is under way; gives how many entries it would have had.
    fn give_up(&mut self) -> u64 {
        self.lose_server();
        // Nobody waits for the server's clock any more.
        self.session.tell_time(None);
        let mut lost = self.batch.len() as u64;
        self.batch.clear();
        while self.session.has_work() {
            self.session.work(&mut self.batch);
            lost += self.batch.len() as u64;
            self.batch.clear();
        }
        lost
    }

    pub(super) fn poll_durable(&mut self, context: &mut Context<'_>) -> Flow {
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
                // Waiting entries may still be taken: the log may be open again.
                Err(_) if self.shared.config.on_log_failure == OnLogFailure::Forward => {
                    self.outbox.let_go();
                    moved = true;
                }
                Err(_) => return self.log_failed(),
            }
        }
        if moved { Flow::Moved } else { Flow::Stuck }
    }

    fn wait_for_commit(&self, context: &Context<'_>) {
        let mut waiting = self.shared.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }
}

impl<K: EntrySink> Drop for Connection<K> {
    /// A connection that ends in order has recorded everything. What is left of one that the worker drops, because the log took
    /// nothing until the proxy had to end, is counted, and its replies were not shown.
    fn drop(&mut self) {
        let lost = self.give_up();
        if let (true, Ok(mut sink)) = (lost > 0, self.shared.sink.try_borrow_mut()) {
            sink.miss(lost, OnLogFailure::Refuse);
        }
    }
}
