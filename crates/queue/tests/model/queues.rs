//! Rings and channels beside a bounded deque.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use probity_queue::{Receiver, RecvError, Refusal, Ring, SendError, Sender, channel};
use proptest::prelude::*;

/// A value whose live copies are counted.
#[derive(Debug, Clone)]
struct Counted {
    number: u32,
    _life: Arc<()>,
}

/// Creates values with increasing numbers and counts the live ones.
#[derive(Default)]
struct Source {
    made: u32,
    life: Arc<()>,
}

impl Source {
    fn next(&mut self) -> Counted {
        self.made += 1;
        Counted {
            number: self.made,
            _life: Arc::clone(&self.life),
        }
    }

    fn several(&mut self, count: usize) -> VecDeque<Counted> {
        (0..count).map(|_| self.next()).collect()
    }

    fn living(&self) -> usize {
        Arc::strong_count(&self.life) - 1
    }
}

#[derive(Debug, Clone, Copy)]
enum QueueStep {
    Push,
    Pop,
    PushBatch(usize),
    PopBatch(usize),
    Close,
    Share,
    Unshare,
}

fn queue_steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let step = prop_oneof![
        8 => Just(QueueStep::Push),
        8 => Just(QueueStep::Pop),
        4 => (0..12_usize).prop_map(QueueStep::PushBatch),
        4 => (0..12_usize).prop_map(QueueStep::PopBatch),
        1 => Just(QueueStep::Close),
        1 => Just(QueueStep::Share),
        1 => Just(QueueStep::Unshare),
    ];
    prop::collection::vec(step, 0..200)
}

fn numbers<'a>(values: impl IntoIterator<Item = &'a Counted>) -> Vec<u32> {
    values.into_iter().map(|value| value.number).collect()
}

/// Moves the values that fit from `batch` to the oracle; returns their number.
fn take_what_fits(oracle: &mut VecDeque<u32>, batch: &VecDeque<Counted>, capacity: usize) -> usize {
    let count = batch.len().min(capacity - oracle.len());
    oracle.extend(batch.iter().take(count).map(|value| value.number));
    count
}

fn check_ring(capacity: usize, steps: &[QueueStep]) {
    let mut source = Source::default();
    let ring = Ring::new(capacity);
    let mut oracle = VecDeque::new();
    for &step in steps {
        match step {
            QueueStep::Push => {
                let value = source.next();
                let number = value.number;
                if oracle.len() < capacity {
                    ring.try_push(value).unwrap();
                    oracle.push_back(number);
                } else {
                    assert_eq!(ring.try_push(value).unwrap_err().number, number);
                }
            }
            QueueStep::Pop => {
                assert_eq!(ring.try_pop().map(|value| value.number), oracle.pop_front());
            }
            QueueStep::PushBatch(count) => {
                let mut batch = source.several(count);
                let expected = take_what_fits(&mut oracle, &batch, capacity);
                let left = numbers(batch.iter().skip(expected));
                assert_eq!(ring.push_batch(&mut batch), expected);
                assert_eq!(numbers(&batch), left);
            }
            QueueStep::PopBatch(max) => {
                let mut popped = vec![source.next()];
                let count = max.min(oracle.len());
                let expected: Vec<u32> = oracle.drain(..count).collect();
                assert_eq!(ring.pop_batch(&mut popped, max), count);
                assert_eq!(numbers(&popped[1..]), expected);
            }
            QueueStep::Close | QueueStep::Share | QueueStep::Unshare => {}
        }
        assert_eq!(ring.len(), oracle.len());
        assert_eq!(ring.is_empty(), oracle.is_empty());
        assert_eq!(source.living(), oracle.len());
    }
    drop(ring);
    assert_eq!(source.living(), 0, "what is left is dropped with the ring");
}

/// Sends one value; returns its number if it was accepted.
fn check_send(sender: &Sender<Counted>, value: Counted, closed: bool, full: bool) -> Option<u32> {
    let number = value.number;
    let sent = if number.is_multiple_of(2) {
        sender.try_send(value)
    } else {
        sender.send_timeout(value, Duration::ZERO)
    };
    match sent {
        Ok(()) => assert!(!closed && !full),
        Err(SendError::Full(value)) => assert!(!closed && full && value.number == number),
        Err(SendError::Closed(value)) => assert!(closed && value.number == number),
    }
    (!closed && !full).then_some(number)
}

fn check_recv(receiver: &Receiver<Counted>, closed: bool, expected: Option<u32>) {
    let nothing = if closed {
        RecvError::Closed
    } else {
        RecvError::Empty
    };
    assert_eq!(
        receiver.try_recv().map(|value| value.number),
        expected.ok_or(nothing)
    );
}

fn check_send_batch(
    sender: &Sender<Counted>,
    mut batch: VecDeque<Counted>,
    closed: bool,
    taken: usize,
) {
    let left = numbers(batch.iter().skip(taken));
    let result = sender.send_batch(&mut batch, Duration::ZERO);
    assert_eq!(numbers(&batch), left);
    match result {
        Ok(()) => assert!(left.is_empty()),
        Err(Refusal::Full) => assert!(!closed && !left.is_empty()),
        Err(Refusal::Closed) => assert!(closed && !left.is_empty()),
    }
}

fn check_recv_batch(receiver: &Receiver<Counted>, max: usize, closed: bool, expected: &[u32]) {
    let mut into = Vec::new();
    let result = receiver.recv_batch(&mut into, max, Duration::ZERO);
    assert_eq!(numbers(&into), expected);
    match result {
        Ok(count) => assert!(count == expected.len() && (count > 0 || max == 0)),
        Err(RecvError::Empty) => assert!(!closed && expected.is_empty() && max > 0),
        Err(RecvError::Closed) => assert!(closed && expected.is_empty() && max > 0),
    }
}

fn check_channel(capacity: usize, steps: &[QueueStep]) {
    let mut source = Source::default();
    let (sender, receiver) = channel(capacity);
    let mut senders = vec![sender];
    let mut receivers = vec![receiver];
    let mut oracle = VecDeque::new();
    let mut closed = false;
    for &step in steps {
        let (Some(sender), Some(receiver)) = (senders.last(), receivers.last()) else {
            break;
        };
        match step {
            QueueStep::Push => {
                let sent = check_send(sender, source.next(), closed, oracle.len() == capacity);
                oracle.extend(sent);
            }
            QueueStep::Pop => check_recv(receiver, closed, oracle.pop_front()),
            QueueStep::PushBatch(count) => {
                let batch = source.several(count);
                let taken = if closed {
                    0
                } else {
                    take_what_fits(&mut oracle, &batch, capacity)
                };
                check_send_batch(sender, batch, closed, taken);
            }
            QueueStep::PopBatch(max) => {
                let expected: Vec<u32> = oracle.drain(..max.min(oracle.len())).collect();
                check_recv_batch(receiver, max, closed, &expected);
            }
            QueueStep::Close => {
                assert_eq!(
                    if source.made.is_multiple_of(2) {
                        sender.close()
                    } else {
                        receiver.close()
                    },
                    !closed
                );
                closed = true;
            }
            QueueStep::Share => {
                let shared = (sender.clone(), receiver.clone());
                senders.push(shared.0);
                receivers.push(shared.1);
            }
            QueueStep::Unshare => {
                senders.pop();
                closed = closed || senders.is_empty();
                assert_eq!(
                    receiver.is_closed(),
                    closed,
                    "the last sender closes, no other"
                );
            }
        }
        assert_eq!(receivers[0].len(), oracle.len());
        assert_eq!(source.living(), oracle.len());
    }
    drop((senders, receivers));
    assert_eq!(
        source.living(),
        0,
        "what is left is dropped with the channel"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_behaves_like_a_bounded_deque(capacity in 1..10_usize, steps in queue_steps()) {
        check_ring(capacity, &steps);
    }

    #[test]
    fn a_channel_behaves_like_a_bounded_deque_that_closes(
        capacity in 1..10_usize,
        steps in queue_steps(),
    ) {
        check_channel(capacity, &steps);
    }
}

#[test]
fn the_last_receiver_gone_closes_and_the_value_comes_back() {
    let (sender, receiver) = channel(2);
    let other = receiver.clone();
    drop(receiver);
    assert_eq!(sender.try_send(1), Ok(()));
    drop(other);
    assert_eq!(sender.try_send(2), Err(SendError::Closed(2)));
    assert_eq!(sender.send(3).unwrap_err().into_value(), 3);
}
