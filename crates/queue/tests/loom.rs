//! Every interleaving of small scenarios with few preemptions, memory reordering included.
#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    clippy::let_underscore_must_use,
    reason = "the checks themselves live outside test functions too"
)]

use std::collections::VecDeque;
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use probity_queue::{
    AppendRefused, Chunk, Pool, RecvError, Ring, SealedChunk, SendError, Sender, channel,
};

/// Explores `scenario` with loom, with at most `preemptions` preemptions of a thread.
fn explore(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

fn rest<T>(ring: &Ring<T>, mut popped: Vec<T>) -> Vec<T> {
    while let Some(value) = ring.try_pop() {
        popped.push(value);
    }
    popped
}

#[test]
fn two_producers_and_a_consumer_of_a_ring_lose_and_double_nothing() {
    explore(3, || {
        let ring = Arc::new(Ring::new(2));
        let producers: Vec<_> = [10, 20]
            .map(|value| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.try_push(Box::new(value)).unwrap())
            })
            .into();
        let popped: Vec<_> = [ring.try_pop(), ring.try_pop()]
            .into_iter()
            .flatten()
            .collect();
        for producer in producers {
            producer.join().unwrap();
        }
        let mut values: Vec<i32> = rest(&ring, popped)
            .into_iter()
            .map(|value| *value)
            .collect();
        values.sort_unstable();
        assert_eq!(values, [10, 20]);
    });
}

#[test]
fn a_producer_and_two_consumers_of_a_ring_share_the_values_out() {
    explore(3, || {
        let ring = Arc::new(Ring::new(2));
        ring.try_push(Box::new(1)).unwrap();
        let consumers: Vec<_> = [(), ()]
            .map(|()| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || ring.try_pop())
            })
            .into();
        ring.try_push(Box::new(2)).unwrap();
        let popped: Vec<_> = consumers
            .into_iter()
            .filter_map(|consumer| consumer.join().unwrap())
            .collect();
        assert!(
            !popped.is_empty(),
            "one consumer at least finds the first value"
        );
        let mut values: Vec<i32> = rest(&ring, popped)
            .into_iter()
            .map(|value| *value)
            .collect();
        values.sort_unstable();
        assert_eq!(values, [1, 2]);
    });
}

#[test]
fn a_slot_used_again_carries_the_new_value_only() {
    explore(3, || {
        let ring = Arc::new(Ring::new(1));
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut refused = Vec::new();
                for value in [1, 2] {
                    refused.extend(ring.try_push(Box::new(value)).err());
                }
                refused
            })
        };
        let popped: Vec<_> = [ring.try_pop(), ring.try_pop()]
            .into_iter()
            .flatten()
            .collect();
        let refused = producer.join().unwrap();
        let values: Vec<i32> = rest(&ring, popped).iter().map(|value| **value).collect();
        assert!(values.is_sorted());
        assert_eq!(values.len() + refused.len(), 2);
    });
}

#[test]
fn batches_stay_together_between_other_values() {
    explore(2, || {
        let ring = Arc::new(Ring::new(3));
        let batcher = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut batch = VecDeque::from([Box::new(1), Box::new(2)]);
                assert_eq!(ring.push_batch(&mut batch), 2);
            })
        };
        let single = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.try_push(Box::new(9)).unwrap())
        };
        let mut popped = Vec::new();
        ring.pop_batch(&mut popped, 2);
        batcher.join().unwrap();
        single.join().unwrap();
        ring.pop_batch(&mut popped, 3);
        let values: Vec<i32> = popped.into_iter().map(|value| *value).collect();
        assert!(values == [1, 2, 9] || values == [9, 1, 2], "{values:?}");
    });
}

#[test]
fn a_ring_dropped_by_another_thread_drops_what_was_pushed() {
    explore(3, || {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = Arc::clone(&ring);
            // Loom's own `Arc` reports a leaked value.
            thread::spawn(move || ring.try_push(Arc::new(1)).unwrap())
        };
        drop(ring);
        producer.join().unwrap();
    });
}

#[test]
fn sender_and_receiver_wake_each_other() {
    explore(3, || {
        let (sender, receiver) = channel(1);
        let producer = thread::spawn(move || {
            for value in 0..3 {
                sender.send(value).unwrap();
            }
        });
        for value in 0..3 {
            assert_eq!(receiver.recv(), Ok(value));
        }
        assert_eq!(receiver.recv(), Err(RecvError::Closed));
        producer.join().unwrap();
    });
}

#[test]
fn two_senders_never_leave_a_receiver_asleep() {
    explore(2, || {
        let (sender, receiver) = channel(2);
        let producers: Vec<_> = [1, 2]
            .map(|value| {
                let sender = sender.clone();
                thread::spawn(move || sender.send(value).unwrap())
            })
            .into();
        assert_eq!(receiver.recv().unwrap() + receiver.recv().unwrap(), 3);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn two_receivers_are_both_woken() {
    explore(1, || {
        let (sender, receiver) = channel(2);
        let consumers: Vec<_> = [receiver.clone(), receiver]
            .map(|receiver| thread::spawn(move || receiver.recv().unwrap()))
            .into();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        let sum: i32 = consumers
            .into_iter()
            .map(|consumer| consumer.join().unwrap())
            .sum();
        assert_eq!(sum, 3);
        drop(sender);
    });
}

/// One preemption: with two this scenario alone takes many minutes. A receiver woken for the second
/// value goes back to sleep if the first slot is still being filled. The receiver woken for the
/// first value must then wake the next.
#[test]
fn values_completed_out_of_turn_wake_both_receivers() {
    explore(1, || {
        let (sender, receiver) = channel(2);
        let other = sender.clone();
        let producer = thread::spawn(move || other.send(1).unwrap());
        let consumer = {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.recv().unwrap())
        };
        let second = thread::spawn(move || receiver.recv().unwrap());
        sender.send(2).unwrap();
        assert_eq!(consumer.join().unwrap() + second.join().unwrap(), 3);
        producer.join().unwrap();
    });
}

#[test]
fn two_senders_waiting_for_room_are_both_woken() {
    explore(1, || {
        let (sender, receiver) = channel(1);
        sender.try_send(0).unwrap();
        let producers: Vec<_> = [1, 2]
            .map(|value| {
                let sender = sender.clone();
                thread::spawn(move || sender.send(value).unwrap())
            })
            .into();
        drop(sender);
        let sum: i32 = (0..3).map(|_| receiver.recv().unwrap()).sum();
        assert_eq!(sum, 3);
        for producer in producers {
            producer.join().unwrap();
        }
    });
}

#[test]
fn a_batch_longer_than_the_channel_gets_through() {
    explore(2, || {
        let (sender, receiver) = channel(2);
        let producer = thread::spawn(move || {
            sender
                .send_batch(&mut VecDeque::from([1, 2, 3]), Duration::MAX)
                .unwrap();
        });
        let mut received = Vec::new();
        while receiver.recv_batch(&mut received, 2, Duration::MAX).is_ok() {}
        assert_eq!(received, [1, 2, 3]);
        producer.join().unwrap();
    });
}

#[test]
fn a_value_sent_while_closing_is_received_or_comes_back() {
    explore(3, || {
        let (sender, receiver) = channel(2);
        let producer = {
            let sender = sender.clone();
            thread::spawn(move || sender.try_send(7))
        };
        let closer = thread::spawn(move || sender.close());
        let received = receiver.recv();
        assert!(closer.join().unwrap());
        match producer.join().unwrap() {
            Ok(()) => assert_eq!(received, Ok(7)),
            Err(error) => {
                assert_eq!(error, SendError::Closed(7));
                assert_eq!(received, Err(RecvError::Closed));
            }
        }
        assert_eq!(receiver.recv(), Err(RecvError::Closed));
    });
}

#[test]
fn dropping_one_side_wakes_the_other() {
    explore(3, || {
        let (sender, receiver) = channel::<i32>(1);
        let consumer = thread::spawn(move || receiver.recv());
        drop(sender);
        assert_eq!(consumer.join().unwrap(), Err(RecvError::Closed));

        let (sender, receiver) = channel(1);
        sender.try_send(1).unwrap();
        let producer = thread::spawn(move || sender.send(2));
        drop(receiver);
        assert_eq!(producer.join().unwrap(), Err(SendError::Closed(2)));
    });
}

#[test]
fn a_record_appended_while_closing_is_in_the_chunk_or_refused() {
    explore(4, || {
        let pool = Pool::new(1, 4).unwrap();
        let mut writer = pool.try_take().unwrap();
        let chunk = writer.chunk().clone();
        let producer = thread::spawn(move || {
            let mut appended = Vec::new();
            for fill in [1, 2] {
                match writer.append(2, |room| room.fill(fill)) {
                    Ok(_) => appended.extend([fill, fill]),
                    Err(refused) => assert_eq!(refused, AppendRefused::Closed),
                }
            }
            appended
        });
        let sealed = chunk.close().unwrap();
        let (bytes, records) = (sealed.bytes().to_vec(), sealed.records());
        let appended = producer.join().unwrap();
        assert_eq!(bytes, appended);
        assert_eq!(records as usize * 2, bytes.len());
    });
}

#[test]
fn a_burst_is_in_the_chunk_as_a_whole_or_not_at_all() {
    explore(4, || {
        let pool = Pool::new(1, 4).unwrap();
        let mut writer = pool.try_take().unwrap();
        let chunk = writer.chunk().clone();
        let producer = thread::spawn(move || {
            let mut burst = writer.burst().ok()?;
            burst.push(1, |room| room.fill(1)).unwrap();
            burst.push(3, |room| room.fill(2)).unwrap();
            burst.commit().ok()
        });
        let sealed = chunk.close().unwrap();
        let (bytes, records) = (sealed.bytes().to_vec(), sealed.records());
        // The memory may return while the producer still fills it: it must not be reused before
        // that append ended.
        drop(sealed);
        let next = pool.try_take().map(|mut next| {
            next.append(4, |room| room.fill(3)).unwrap();
            next.chunk().close().unwrap()
        });
        let committed = producer.join().unwrap();
        match committed {
            Some(first) => assert_eq!(
                (first, bytes.as_slice(), records),
                (0, &[1, 2, 2, 2][..], 2)
            ),
            None => assert!(bytes.is_empty() && records == 0),
        }
        if let Some(next) = next {
            assert_eq!(next.bytes(), [3; 4]);
        }
        assert_eq!(pool.available(), 1);
    });
}

#[test]
fn one_of_two_closers_gets_the_chunk() {
    explore(3, || {
        let pool = Pool::new(1, 2).unwrap();
        let mut writer = pool.try_take().unwrap();
        let chunk = writer.chunk().clone();
        let ticker = thread::spawn(move || chunk.close().map(|sealed| sealed.records()));
        let appended = u32::from(writer.append(1, |room| room.fill(1)).is_ok());
        let own = writer.chunk().close().map(|sealed| sealed.records());
        let theirs = ticker.join().unwrap();
        assert!(own.is_some() != theirs.is_some());
        assert_eq!(own.or(theirs), Some(appended));
        drop(writer);
        assert_eq!(pool.available(), 1);
    });
}

/// The memory of a chunk that is closed and read during an append must not be reused before that
/// append has ended. Loom checks every byte for conflicting accesses.
#[test]
fn a_stale_writer_never_touches_recycled_memory() {
    explore(4, || {
        let pool = Pool::new(1, 2).unwrap();
        let mut stale = pool.try_take().unwrap();
        let chunk = stale.chunk().clone();
        let producer = thread::spawn(move || {
            let first = stale.append(1, |room| room.fill(1)).is_ok();
            let second = stale.append(1, |room| room.fill(2)).is_ok();
            (stale, first, second)
        });
        let sealed = chunk.close().unwrap();
        let records = sealed.records();
        drop(sealed);
        let next = pool.try_take().map(|mut next| {
            next.append(2, |room| room.fill(3)).unwrap();
            next.chunk().close().unwrap()
        });
        let (stale, first, second) = producer.join().unwrap();
        assert_eq!(records, u32::from(first) + u32::from(second));
        if let Some(next) = next {
            assert_eq!(next.bytes(), [3, 3]);
        }
        // The stale writer still lives and holds no memory.
        assert_eq!(pool.available(), 1);
        drop(stale);
    });
}

#[test]
fn memory_given_back_wakes_a_waiting_producer() {
    explore(3, || {
        let pool = Pool::new(1, 1).unwrap();
        let mut writer = pool.try_take().unwrap();
        let chunk = writer.chunk().clone();
        let waiting = {
            let pool = pool.clone();
            thread::spawn(move || pool.take(Duration::MAX).unwrap())
        };
        let reader = thread::spawn(move || drop(chunk.close()));
        let _refused = writer.append(1, |room| room.fill(1));
        reader.join().unwrap();
        drop(waiting.join().unwrap());
        assert_eq!(pool.available(), 1);
    });
}

/// Closes the chunk of `slot`, and sends it under the slot's lock if this call closed it.
fn hand_over(slot: &Mutex<Option<Chunk>>, sealers: &Sender<SealedChunk>) {
    let mut chunk = slot.lock().unwrap();
    if let Some(sealed) = chunk.take().and_then(|chunk| chunk.close()) {
        sealers.send(sealed).unwrap();
    }
}

#[test]
fn records_reach_the_sealer_in_order_though_a_ticker_closes_chunks() {
    explore(2, || {
        let pool = Pool::new(2, 1).unwrap();
        let (sealers, chunks) = channel(2);
        let slot = Arc::new(Mutex::new(None));
        let ticks = Arc::new(AtomicUsize::new(0));
        let ticker = {
            let (slot, sealers, ticks) = (Arc::clone(&slot), sealers.clone(), Arc::clone(&ticks));
            thread::spawn(move || {
                hand_over(&slot, &sealers);
                ticks.fetch_add(1, Ordering::Relaxed);
            })
        };
        let producer = thread::spawn(move || {
            for fill in [1, 2] {
                loop {
                    let mut writer = pool.take(Duration::MAX).unwrap();
                    *slot.lock().unwrap() = Some(writer.chunk().clone());
                    let appended = writer.append(1, |room| room.fill(fill));
                    drop(writer);
                    hand_over(&slot, &sealers);
                    if appended.is_ok() {
                        break;
                    }
                }
            }
        });
        let mut bytes = Vec::new();
        while let Ok(chunk) = chunks.recv() {
            bytes.extend_from_slice(chunk.bytes());
        }
        assert_eq!(bytes, [1, 2]);
        producer.join().unwrap();
        ticker.join().unwrap();
    });
}
