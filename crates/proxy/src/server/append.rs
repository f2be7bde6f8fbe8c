//! From the batch to the log, and from the log's word to what the client may see.

use std::task::Context;

use tokio::time::Instant;

use super::connection::{Connection, Flow, REFUSE_UNACKNOWLEDGED};
use super::outbox::Reach;
use crate::config::{OnLogFailure, Release};
use crate::sink::{EntrySink, SinkError};

impl<K: EntrySink> Connection<K> {
    /// Hands the entries to the log, and lets go what they were made of when it has them.
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
    pub(super) fn log_is_lost(&self) -> bool {
        self.shared.config.on_log_failure == OnLogFailure::Refuse
            && self.shared.sink.borrow().is_failed()
    }

    fn log_failed(&mut self) -> Flow {
        self.full_since = None;
        let forward = self.shared.config.on_log_failure == OnLogFailure::Forward;
        let gap = self.gap.take();
        let mut lost = self.batch.len() as u64 - u64::from(gap.is_some());
        self.batch.clear();
        if !forward {
            self.lose_server();
            while self.session.has_work() {
                self.session.work(&mut self.batch);
                lost += self.batch.len() as u64;
                self.batch.clear();
            }
        }
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
