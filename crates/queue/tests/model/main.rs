//! Random operations on one thread, compared with plain collections: equal results, no value lost
//! or dropped twice.
#![cfg(not(loom))]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::fn_params_excessive_bools,
    reason = "the checks themselves live outside test functions too"
)]

mod chunks;
mod queues;

use std::collections::VecDeque;
use std::time::Duration;

use probity_queue::{Pool, RecvError, Refusal, Ring, SendError, channel};

#[test]
fn capacity_zero_counts_as_one() {
    let ring = Ring::new(0);
    assert_eq!(ring.capacity(), 1);
    assert_eq!(ring.try_push(1), Ok(()));
    assert_eq!(ring.try_push(2), Err(2));
    assert_eq!(channel::<u8>(0).0.capacity(), 1);
    assert_eq!(Pool::new(0, 1).unwrap().count(), 1);
}

#[test]
fn waiting_ends_at_the_timeout_and_loses_no_value() {
    let timeout = Duration::from_millis(5);
    let (sender, receiver) = channel(1);
    assert_eq!(receiver.recv_timeout(timeout), Err(RecvError::Empty));
    assert_eq!(
        receiver.recv_batch(&mut Vec::new(), 4, timeout),
        Err(RecvError::Empty)
    );
    sender.send_timeout(1, timeout).unwrap();
    assert_eq!(sender.send_timeout(2, timeout), Err(SendError::Full(2)));
    let mut batch = VecDeque::from([3, 4]);
    assert_eq!(sender.send_batch(&mut batch, timeout), Err(Refusal::Full));
    assert_eq!(batch, [3, 4]);
    assert_eq!(receiver.recv(), Ok(1));

    let pool = Pool::new(1, 8).unwrap();
    let writer = pool.take(timeout);
    assert!(writer.is_some());
    assert!(pool.take(timeout).is_none());
}
