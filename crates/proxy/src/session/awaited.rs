//! The commands that the server has not answered, and the transaction that holds some of them back.

use std::collections::VecDeque;

use super::effect::Effect;
use super::end::End;
use super::pending::Pending;

/// Most bytes of commands that a transaction may hold back.
pub(super) const QUEUED_BYTES_MAX: usize = 64 << 20;

/// The commands without a reply, in the order of their replies.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// Commands that were ever added.
    sent: u64,
    /// Commands `MULTI` without a reply yet.
    multis: usize,
    /// The commands that the open transaction holds back, or whose results `EXEC` brings.
    queued: VecDeque<Pending>,
    queued_bytes: usize,
    in_multi: bool,
    /// Elements of an `EXEC` reply still to come.
    exec_left: u64,
}

impl Awaited {
    /// Adds a command that goes to the server.
    pub(super) fn push(&mut self, pending: Pending) {
        self.pending_bytes += pending.cost;
        self.sent += 1;
        self.multis += usize::from(pending.effect == Effect::Multi);
        self.pending.push_back(pending);
    }

    /// Returns how many commands were sent, and how many of them are answered; EXEC with its last result.
    pub(super) fn counts(&self) -> (u64, u64) {
        let waiting = self.pending.len() as u64 + u64::from(self.is_in_exec());
        (self.sent, self.sent.saturating_sub(waiting))
    }

    /// Takes the command that the next reply outside `EXEC` belongs to.
    pub(super) fn pop(&mut self) -> Option<Pending> {
        let pending = self.pending.pop_front()?;
        self.pending_bytes = self.pending_bytes.saturating_sub(pending.cost);
        self.multis -= usize::from(pending.effect == Effect::Multi).min(self.multis);
        Some(pending)
    }

    /// Puts a command back whose reply was none of it, so that it is recorded as lost.
    pub(super) fn put_back(&mut self, pending: Pending) {
        self.pending_bytes += pending.cost;
        self.pending.push_front(pending);
    }

    /// Returns the command that the next reply belongs to.
    pub(super) fn current(&self) -> Option<&Pending> {
        if self.is_in_exec() {
            self.queued.front()
        } else {
            self.pending.front()
        }
    }

    /// Returns the command that the next reply outside `EXEC` belongs to.
    pub(super) fn first(&self) -> Option<&Pending> {
        self.pending.front()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut Pending> {
        self.pending.front_mut()
    }

    /// Returns the command that was added last.
    pub(super) fn last_mut(&mut self) -> Option<&mut Pending> {
        self.pending.back_mut()
    }

    /// Returns whether nothing is awaited but answers to the proxy's own questions.
    pub(super) fn has_no_command(&self) -> bool {
        self.pending.iter().all(|pending| pending.own)
    }

    /// Returns whether a `RESET` has no reply yet.
    pub(super) fn holds_reset(&self) -> bool {
        let is_reset = |pending: &Pending| pending.effect == Effect::Reset;
        self.pending.iter().any(is_reset)
    }

    /// Returns whether the transaction that `EXEC` would end holds a login.
    pub(super) fn logs_in(&self) -> bool {
        let mut all = self.queued.iter().chain(&self.pending);
        all.any(|pending| pending.effect.user().is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the bytes of the commands, without those that a transaction holds back.
    pub(super) const fn bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(super) const fn in_multi(&self) -> bool {
        self.in_multi
    }

    /// Returns whether a transaction is open, or will be where a `MULTI` succeeds.
    pub(super) const fn may_be_in_multi(&self) -> bool {
        self.in_multi || self.multis > 0
    }

    /// Opens a transaction.
    pub(super) const fn begin_multi(&mut self) {
        self.in_multi = true;
    }

    /// Adds a command that the transaction holds back.
    ///
    /// # Errors
    /// [`End::TooMuch`].
    pub(super) fn queue(&mut self, pending: Pending) -> Result<(), End> {
        self.queued_bytes += pending.cost;
        self.queued.push_back(pending);
        if self.queued_bytes > QUEUED_BYTES_MAX {
            return Err(End::TooMuch);
        }
        Ok(())
    }

    /// Takes the command that the next result of `EXEC` belongs to.
    pub(super) fn pop_queued(&mut self) -> Option<Pending> {
        let pending = self.queued.pop_front()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(pending.cost);
        Some(pending)
    }

    /// Closes the transaction, whose commands are not executed, and returns them.
    pub(super) fn abort_multi(&mut self) -> VecDeque<Pending> {
        self.in_multi = false;
        self.queued_bytes = 0;
        std::mem::take(&mut self.queued)
    }

    /// Closes the transaction, of which results follow; whether it was open.
    pub(super) const fn close_multi(&mut self) -> bool {
        std::mem::replace(&mut self.in_multi, false)
    }

    /// Begins a reply to `EXEC` with `count` results; false if there are not as many commands.
    pub(super) fn begin_exec(&mut self, count: u64) -> bool {
        let fits = count == self.queued.len() as u64;
        if fits {
            // The header counts as an element, so that a skip ends with the last result.
            self.exec_left = count + 1;
        }
        fits
    }

    /// Returns whether results of `EXEC` are still to come.
    pub(super) const fn is_in_exec(&self) -> bool {
        self.exec_left > 0
    }

    /// Ends a result or a reply; whether the next one belongs to another command.
    pub(super) const fn reply_ended(&mut self) -> bool {
        self.exec_left = self.exec_left.saturating_sub(1);
        self.exec_left == 0
    }

    /// Takes everything when no reply can come any more: the commands that a transaction held back,
    /// whether they may have been executed, and the others.
    pub(super) fn take_lost(&mut self) -> (VecDeque<Pending>, bool, VecDeque<Pending>) {
        let is_exec = |pending: &Pending| pending.effect == Effect::Exec;
        // A queued command without an EXEC was not executed.
        let executed = self.is_in_exec() || self.pending.iter().any(is_exec);
        let in_multi = self.in_multi;
        let lost = std::mem::take(self);
        self.in_multi = in_multi;
        (lost.queued, executed, lost.pending)
    }
}
