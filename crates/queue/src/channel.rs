//! A bounded channel over the ring: waiting, timeouts, batches and closing.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{RecvError, Refusal, SendError};
use crate::parking::Parking;
use crate::ring::Ring;
use crate::sync::{Arc, AtomicUsize, Ordering};

/// A channel that holds up to `capacity` values (0 counts as 1), for any number of threads at both ends.
///
/// It closes when [`Sender::close`] or [`Receiver::close`] is called, and when the last sender or the last
/// receiver is dropped. From then on it takes nothing more; what it took before can still be received.
/// As long as nobody has to wait, sending and receiving take no lock and make no system call.
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

/// The end of a [`channel()`] that values go in at. Clones share it.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end of a [`channel()`] that values come out at. Clones share it; each value goes to one of them.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    ring: Ring<T>,
    /// Senders that wait for room.
    room: Parking,
    /// Receivers that wait for values.
    values: Parking,
    /// Living [`Sender`]s.
    senders: AtomicUsize,
    /// Living [`Receiver`]s.
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

    /// Sends `value`, waiting for room without end.
    ///
    /// # Errors
    /// [`SendError::Closed`] with the value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_timeout(value, Duration::MAX)
    }

    /// Sends `value`, waiting for room up to `timeout`.
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

    /// Sends all of `values` in order, waiting for room up to `timeout` altogether.
    ///
    /// What fits at once is sent at once and stays together.
    ///
    /// # Errors
    /// Why not all were sent; those that were not are still in `values`.
    pub fn send_batch(&self, values: &mut VecDeque<T>, timeout: Duration) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let mut deadline = None;
        while !values.is_empty() {
            let pushed = match shared.ring.push_some(values) {
                Err(Refusal::Full) => {
                    // What was sent before was announced before, so receivers make room meanwhile.
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

    /// Closes the channel; true for the one call that did it.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Whether the channel takes no more values.
    pub fn is_closed(&self) -> bool {
        self.shared.ring.is_closed()
    }

    /// The number of values waiting to be received, as of some moment during the call.
    pub fn len(&self) -> usize {
        self.shared.ring.len()
    }

    /// Whether no value waits to be received, as of some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }

    /// The most values the channel holds.
    pub fn capacity(&self) -> usize {
        self.shared.ring.capacity()
    }
}

impl<T> Receiver<T> {
    /// Receives the next value if there is one now.
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

    /// Receives the next value, waiting for it without end.
    ///
    /// # Errors
    /// [`RecvError::Closed`].
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_timeout(Duration::MAX)
    }

    /// Receives the next value, waiting for it up to `timeout`.
    ///
    /// # Errors
    /// See [`RecvError`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvError> {
        self.wait_for_values(timeout, || {
            self.shared.ring.try_pop().map(|value| (value, 1))
        })
    }

    /// Receives up to `max` values to the end of `into`, waiting for the first up to `timeout`; gives their number.
    ///
    /// # Errors
    /// See [`RecvError`]; `into` is then as it was.
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

    /// Closes the channel; true for the one call that did it. What it took before can still be received.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Whether the channel takes no more values; it may still hold some.
    pub fn is_closed(&self) -> bool {
        self.shared.ring.is_closed()
    }

    /// The number of values waiting to be received, as of some moment during the call.
    pub fn len(&self) -> usize {
        self.shared.ring.len()
    }

    /// Whether no value waits to be received, as of some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.shared.ring.is_empty()
    }

    /// The most values the channel holds.
    pub fn capacity(&self) -> usize {
        self.shared.ring.capacity()
    }

    /// Waits until `pop` gives something, with the number of slots it emptied, or the channel is drained.
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

    /// Why nothing was received.
    fn nothing(&self) -> RecvError {
        // Not merely closed and nothing there: a sender that claimed its slot before may still be filling it.
        if self.ring.is_drained() {
            RecvError::Closed
        } else {
            RecvError::Empty
        }
    }

    /// Wakes the next receiver when values are left after one that slept.
    ///
    /// Slots are filled out of turn: a receiver called for the second value while the first was not
    /// complete went back to sleep, and the call for the first woke only one.
    fn pass_values_on(&self) {
        if !self.ring.is_empty() || self.ring.is_closed() {
            self.values.notify(1);
        }
    }

    /// Wakes the next sender when room is left after one that slept; see [`Shared::pass_values_on`].
    fn pass_room_on(&self) {
        if self.ring.len() < self.ring.capacity() || self.ring.is_closed() {
            self.room.notify(1);
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        // Relaxed: whoever clones holds one, so the count cannot reach zero meanwhile.
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
        // AcqRel: every other sender's last push happened before the close that the last one does.
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
