//! A bounded channel over the ring, with blocking calls, timeouts, batches and closing.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{RecvError, Refusal, SendError};
use crate::parking::Parking;
use crate::ring::Ring;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// Creates a channel that holds up to `capacity` values (0 counts as 1), for any number of threads
/// at both ends.
///
/// The channel closes when [`Sender::close`] or [`Receiver::close`] is called, and when the last
/// sender or the last receiver is dropped. A closed channel accepts no more values; values sent
/// before can still be received. While no thread has to wait, sending and receiving take no lock
/// and make no system call.
///
/// # Examples
///
/// ```
/// use probity_queue::{RecvError, channel};
///
/// let (sender, receiver) = channel(8);
/// sender.try_send(7)?;
/// drop(sender);
/// assert_eq!(receiver.recv(), Ok(7));
/// assert_eq!(receiver.recv(), Err(RecvError::Closed));
/// # Ok::<(), probity_queue::SendError<i32>>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        ring: Ring::new(capacity),
        room: Parking::new(),
        values: Parking::new(),
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
    });
    (
        Sender {
            shared: Arc::clone(&shared),
        },
        Receiver { shared },
    )
}

/// The sending end of a [`channel()`]. Clones share it.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end of a [`channel()`]. Clones share it; each value goes to one of them.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    ring: Ring<T>,
    /// Senders that wait for room.
    room: Parking,
    /// Receivers that wait for values.
    values: Parking,
    /// Number of live [`Sender`]s.
    senders: AtomicUsize,
    /// Number of live [`Receiver`]s.
    receivers: AtomicUsize,
}

impl<T> Sender<T> {
    /// Sends `value` if there is room now.
    ///
    /// # Errors
    /// [`SendError`] with the value.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        match self.shared.ring.push(value) {
            Ok(()) => {
                self.shared.values.notify(1);
                Ok(())
            }
            Err((refusal, value)) => Err(SendError::new(refusal, value)),
        }
    }

    /// Sends `value`; waits for room without a timeout.
    ///
    /// # Errors
    /// [`SendError::Closed`] with the value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_timeout(value, Duration::MAX)
    }

    /// Sends `value`; waits for room up to `timeout`.
    ///
    /// # Errors
    /// [`SendError`] with the value.
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendError<T>> {
        let mut unsent = match self.try_send(value) {
            Err(SendError::Full(value)) => Some(value),
            settled => return settled,
        };
        let shared = &*self.shared;
        let sent = shared.room.wait_for(Deadline::after(timeout), || {
            match shared.ring.push(unsent.take()?) {
                Ok(()) => Some(Ok(())),
                Err((Refusal::Full, value)) => {
                    unsent = Some(value);
                    None
                }
                Err((Refusal::Closed, value)) => Some(Err(SendError::Closed(value))),
            }
        });
        shared.pass_room_on();
        match (sent, unsent) {
            (Some(Ok(())), _) => {
                shared.values.notify(1);
                Ok(())
            }
            (Some(refused), _) => refused,
            (None, Some(value)) => Err(SendError::Full(value)),
            (None, None) => unreachable!("a value that was not sent is kept"),
        }
    }

    /// Sends all of `values` in order; waits for room up to `timeout` in total.
    ///
    /// Values that fit are sent at once and stay adjacent.
    ///
    /// # Errors
    /// The reason why not all were sent; `values` still holds the others.
    pub fn send_batch(&self, values: &mut VecDeque<T>, timeout: Duration) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let mut deadline = None;
        while !values.is_empty() {
            let pushed = match shared.ring.push_some(values) {
                Err(Refusal::Full) => {
                    // Receivers were already notified of the values sent before, so they make room
                    // in the meantime.
                    let deadline = *deadline.get_or_insert_with(|| Deadline::after(timeout));
                    let pushed = shared.room.wait_for(deadline, || {
                        let pushed = shared.ring.push_some(values);
                        (pushed != Err(Refusal::Full)).then_some(pushed)
                    });
                    shared.pass_room_on();
                    pushed.unwrap_or(Err(Refusal::Full))
                }
                settled => settled,
            };
            shared.values.notify(pushed?);
        }
        Ok(())
    }

    /// Closes the channel; returns `true` for the one call that closed it.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Returns whether the channel is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.ring.is_closed()
    }

    /// Returns the number of values waiting to be received, as of some moment during the call.
    pub fn len(&self) -> usize {
        self.shared.ring.len()
    }

    /// Returns whether no value waits to be received, as of some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }

    /// Returns the greatest number of values that the channel holds.
    pub fn capacity(&self) -> usize {
        self.shared.ring.capacity()
    }
}

impl<T> Receiver<T> {
    /// Receives the next value, if there is one now.
    ///
    /// # Errors
    /// See [`RecvError`].
    #[inline]
    pub fn try_recv(&self) -> Result<T, RecvError> {
        match self.shared.ring.try_pop() {
            Some(value) => {
                self.shared.room.notify(1);
                Ok(value)
            }
            None => Err(self.shared.nothing()),
        }
    }

    /// Receives the next value; waits without a timeout.
    ///
    /// # Errors
    /// [`RecvError::Closed`].
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_timeout(Duration::MAX)
    }

    /// Receives the next value; waits up to `timeout`.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvError> {
        self.wait_for_values(timeout, || {
            self.shared.ring.try_pop().map(|value| (value, 1))
        })
    }

    /// Appends up to `max` values to `into` and returns their number; waits for the first up to
    /// `timeout`.
    ///
    /// # Errors
    /// See [`RecvError`]; `into` is then unchanged.
    pub fn recv_batch(
        &self,
        into: &mut Vec<T>,
        max: usize,
        timeout: Duration,
    ) -> Result<usize, RecvError> {
        if max == 0 {
            return Ok(0);
        }
        self.wait_for_values(timeout, || match self.shared.ring.pop_batch(into, max) {
            0 => None,
            count => Some((count, count)),
        })
    }

    /// Closes the channel; returns `true` for the one call that closed it. Values sent before can
    /// still be received.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Returns whether the channel is closed; it may still hold values.
    pub fn is_closed(&self) -> bool {
        self.shared.ring.is_closed()
    }

    /// Returns the number of values waiting to be received, as of some moment during the call.
    pub fn len(&self) -> usize {
        self.shared.ring.len()
    }

    /// Returns whether no value waits to be received, as of some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }

    /// Returns the greatest number of values that the channel holds.
    pub fn capacity(&self) -> usize {
        self.shared.ring.capacity()
    }

    /// Waits until `pop` returns a result, with the number of slots it emptied, or the channel is
    /// drained.
    fn wait_for_values<R>(
        &self,
        timeout: Duration,
        mut pop: impl FnMut() -> Option<(R, usize)>,
    ) -> Result<R, RecvError> {
        let shared = &*self.shared;
        let mut attempt = || match pop() {
            Some(popped) => Ok(popped),
            None => Err(shared.nothing()),
        };
        let popped = match attempt() {
            Err(RecvError::Empty) => {
                let popped = shared.values.wait_for(Deadline::after(timeout), || {
                    let popped = attempt();
                    (!matches!(popped, Err(RecvError::Empty))).then_some(popped)
                });
                shared.pass_values_on();
                popped.unwrap_or(Err(RecvError::Empty))
            }
            settled => settled,
        };
        let (received, emptied) = popped?;
        shared.room.notify(emptied);
        Ok(received)
    }
}

impl<T> Shared<T> {
    fn close(&self) -> bool {
        let closed = self.ring.close();
        self.values.notify(usize::MAX);
        self.room.notify(usize::MAX);
        closed
    }

    /// Returns the reason why nothing was received.
    fn nothing(&self) -> RecvError {
        // The channel may be closed and look empty while a sender still fills a slot that it
        // claimed before.
        if self.ring.is_drained() {
            RecvError::Closed
        } else {
            RecvError::Empty
        }
    }

    /// Wakes the next receiver if values are left after a receiver that slept.
    ///
    /// Slots are filled out of order. A receiver that was woken for the second value before the
    /// first was complete went back to sleep. The notification of the first value then woke only
    /// one.
    fn pass_values_on(&self) {
        if !self.ring.is_empty() || self.ring.is_closed() {
            self.values.notify(1);
        }
    }

    /// Wakes the next sender if room is left after a sender that slept; see
    /// [`Shared::pass_values_on`].
    fn pass_room_on(&self) {
        if self.ring.len() < self.ring.capacity() || self.ring.is_closed() {
            self.room.notify(1);
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: the cloning thread holds a sender, so the count cannot reach zero meanwhile.
        self.shared.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        // Relaxed: as for senders.
        self.shared.receivers.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // AcqRel: every other sender's last push happened before the close by the last sender.
        if self.shared.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // AcqRel: as for senders, with pops.
        if self.shared.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.close();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("ring", &self.shared.ring)
            .finish()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("ring", &self.shared.ring)
            .finish()
    }
}
