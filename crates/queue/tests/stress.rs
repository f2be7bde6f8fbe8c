//! Stress tests with many threads: nothing lost, duplicated or reordered, and memory bounded.
#![cfg(not(loom))]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "the checks themselves live outside test functions too"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use probity_queue::{
    Chunk, ChunkWriter, Pool, Receiver, Ring, SealedChunk, SendError, Sender, channel,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// A small pseudorandom number generator, deterministic for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Checks that consumers received each producer's values once and in order.
fn check_seen(producers: u64, each: u64, seen: Vec<Vec<u64>>) {
    let mut all = Vec::new();
    for consumer in seen {
        let mut last = vec![None; usize::try_from(producers).unwrap()];
        for value in &consumer {
            let (producer, number) = (usize::try_from(value >> 32).unwrap(), value & 0xFFFF_FFFF);
            assert!(
                last[producer] < Some(number),
                "a producer's values overtook each other"
            );
            last[producer] = Some(number);
        }
        all.extend(consumer);
    }
    all.sort_unstable();
    let expected =
        (0..producers).flat_map(|producer| (0..each).map(move |number| producer << 32 | number));
    assert!(all.into_iter().eq(expected), "a value was lost or doubled");
}

/// Pushes `each` values, alternately one by one and in batches.
fn push_all(ring: &Ring<u64>, producer: u64, each: u64) {
    let mut waiting = VecDeque::new();
    for number in 0..each {
        waiting.push_back(producer << 32 | number);
        while !waiting.is_empty() && (number % 7 < 3 || number + 1 == each) {
            if ring.push_batch(&mut waiting) == 0 {
                thread::yield_now();
            }
        }
    }
}

/// Pops until the ring is empty after `done`, one by one or in batches.
fn pop_all(ring: &Ring<u64>, done: &AtomicBool, singly: bool) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        let finished = done.load(Ordering::Acquire);
        let before = seen.len();
        if singly {
            seen.extend(ring.try_pop());
        } else {
            ring.pop_batch(&mut seen, 5);
        }
        if seen.len() == before {
            if finished {
                return seen;
            }
            thread::yield_now();
        }
    }
}

fn ring_keeps_every_value(capacity: usize, producers: u64, consumers: u64, each: u64) {
    let ring = &Ring::new(capacity);
    let done = &AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let senders: Vec<_> = (0..producers)
            .map(|producer| scope.spawn(move || push_all(ring, producer, each)))
            .collect();
        let receivers: Vec<_> = (0..consumers)
            .map(|consumer| scope.spawn(move || pop_all(ring, done, consumer % 2 == 1)))
            .collect();
        for sender in senders {
            sender.join().unwrap();
        }
        done.store(true, Ordering::Release);
        receivers
            .into_iter()
            .map(|receiver| receiver.join().unwrap())
            .collect()
    });
    check_seen(producers, each, seen);
    assert!(ring.is_empty());
}

fn channel_keeps_every_value(capacity: usize, producers: u64, consumers: u64, each: u64) {
    let (sender, receiver) = channel(capacity);
    let seen = thread::scope(|scope| {
        for producer in 0..producers {
            let sender = sender.clone();
            scope.spawn(move || {
                let mut batch = VecDeque::new();
                for number in 0..each {
                    let value = producer << 32 | number;
                    if number % 16 < 8 {
                        sender.send_batch(&mut batch, PATIENCE).unwrap();
                        sender.send_timeout(value, PATIENCE).unwrap();
                    } else {
                        batch.push_back(value);
                    }
                }
                sender.send_batch(&mut batch, PATIENCE).unwrap();
            });
        }
        drop(sender);
        let receivers: Vec<_> = (0..consumers)
            .map(|consumer| {
                let receiver = receiver.clone();
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    // Every other consumer has a short timeout, so that timeouts and wake-ups
                    // coincide.
                    let patience =
                        [PATIENCE, Duration::from_micros(20)][usize::from(consumer % 2 == 1)];
                    while receiver.recv_batch(&mut seen, 3, patience)
                        != Err(probity_queue::RecvError::Closed)
                    {}
                    seen
                })
            })
            .collect();
        receivers
            .into_iter()
            .map(|receiver| receiver.join().unwrap())
            .collect()
    });
    check_seen(producers, each, seen);
}

/// A producer's chunk, as the timer threads see it.
type Slot = Mutex<Option<Chunk>>;

/// Closes the chunk of `slot`, and sends it under the slot's lock if this call closed it.
fn hand_over(slot: &Slot, sealers: &Sender<SealedChunk>) {
    let mut chunk = slot.lock().unwrap();
    if let Some(sealed) = chunk.take().and_then(|chunk| chunk.close()) {
        sealers.send_timeout(sealed, PATIENCE).unwrap();
    }
}

struct Producer<'a> {
    id: u8,
    writer: Option<ChunkWriter>,
    slot: &'a Slot,
    pool: &'a Pool,
    sealers: Sender<SealedChunk>,
}

const HEADER_BYTES: usize = 13;

/// Returns byte `position` of the body of record `number` of producer `id`.
fn body_byte(id: u8, number: u64, position: usize) -> u8 {
    let number = number.to_le_bytes()[position % 8];
    number
        .wrapping_mul(31)
        .wrapping_add(id)
        .wrapping_add(u8::try_from(position).unwrap())
}

impl Producer<'_> {
    /// Appends records numbered from `number` on with bodies of `bodies` bytes, in bursts of as
    /// many as fit.
    fn append(&mut self, mut number: u64, mut bodies: &[usize]) {
        while !bodies.is_empty() {
            if let Some(writer) = &mut self.writer
                && let Some(taken) = burst(writer, self.id, number, bodies)
            {
                bodies = &bodies[taken..];
                number += taken as u64;
                continue;
            }
            self.writer = None;
            hand_over(self.slot, &self.sealers);
            let writer = self.pool.take(PATIENCE).expect("chunks come back");
            *self.slot.lock().unwrap() = Some(writer.chunk().clone());
            self.writer = Some(writer);
        }
    }
}

/// Appends the records that fit; returns their number, or `None` if there were none.
fn burst(writer: &mut ChunkWriter, id: u8, number: u64, bodies: &[usize]) -> Option<usize> {
    let mut burst = writer.burst().ok()?;
    for (&body, number) in bodies.iter().zip(number..) {
        let pushed = burst.push(HEADER_BYTES + body, |room| {
            let (header, rest) = room.split_at_mut(HEADER_BYTES);
            header[0] = id;
            header[1..9].copy_from_slice(&number.to_le_bytes());
            header[9..].copy_from_slice(&u32::try_from(body).unwrap().to_le_bytes());
            for (position, byte) in rest.iter_mut().enumerate() {
                *byte = body_byte(id, number, position);
            }
        });
        if pushed.is_err() {
            break;
        }
    }
    let taken = burst.records() as usize;
    (taken > 0 && burst.commit().is_ok()).then_some(taken)
}

/// Reads a chunk's records; returns their producer, the first one's number and their count.
fn read(chunk: &SealedChunk) -> Option<(u8, u64, u64)> {
    let mut bytes = chunk.bytes();
    let mut run: Option<(u8, u64, u64)> = None;
    while let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) {
        let number = u64::from_le_bytes(header[1..9].try_into().unwrap());
        let body = u32::from_le_bytes(header[9..].try_into().unwrap()) as usize;
        let (id, first, count) = run.unwrap_or((header[0], number, 0));
        assert_eq!(
            (header[0], number),
            (id, first + count),
            "records follow each other"
        );
        let intact = rest[..body]
            .iter()
            .enumerate()
            .all(|(at, byte)| *byte == body_byte(id, number, at));
        assert!(intact, "record {number} of producer {id} is damaged");
        run = Some((id, first, count + 1));
        bytes = &rest[body..];
    }
    assert!(bytes.is_empty());
    assert_eq!(
        run.map_or(0, |(_, _, count)| count),
        u64::from(chunk.records())
    );
    run
}

/// Seals until the channel closes; returns the runs in the order received.
fn seal(chunks: &Receiver<SealedChunk>) -> Vec<(u8, u64, u64)> {
    let mut runs = Vec::new();
    let mut received = Vec::new();
    while chunks.recv_batch(&mut received, 2, PATIENCE).is_ok() {
        runs.extend(received.drain(..).filter_map(|chunk| read(&chunk)));
    }
    runs
}

fn tick(slots: &[Slot], sealers: &Sender<SealedChunk>, done: &AtomicBool, mut random: Random) {
    while !done.load(Ordering::Relaxed) {
        let slot = usize::try_from(random.below(slots.len() as u64)).unwrap();
        hand_over(&slots[slot], sealers);
        if random.below(4) == 0 {
            thread::park_timeout(Duration::from_micros(random.below(200)));
        } else {
            thread::yield_now();
        }
    }
}

fn chunks_keep_every_record(producers: u8, sealers: usize, each: u64, seed: u64) {
    println!("seed {seed}");
    let pool = Pool::new(usize::from(producers) + 4, 2048).unwrap();
    let (sender, chunks) = channel(4);
    let slots: Arc<Vec<Slot>> = Arc::new((0..producers).map(|_| Slot::default()).collect());
    let done = AtomicBool::new(false);
    let runs: Vec<Vec<_>> = thread::scope(|scope| {
        let sealers: Vec<_> = (0..sealers)
            .map(|_| {
                let chunks = chunks.clone();
                scope.spawn(move || seal(&chunks))
            })
            .collect();
        let tickers: Vec<_> = [1, 2]
            .map(|ticker| {
                let (slots, sender, done) = (Arc::clone(&slots), sender.clone(), &done);
                scope.spawn(move || tick(&slots, &sender, done, Random(seed ^ ticker << 40)))
            })
            .into();
        let producers: Vec<_> = (0..producers)
            .map(|id| {
                let (slots, pool, sealers) = (Arc::clone(&slots), &pool, sender.clone());
                scope.spawn(move || {
                    let slot = &slots[usize::from(id)];
                    let mut random = Random(seed ^ u64::from(id) << 50);
                    let mut producer = Producer {
                        id,
                        writer: None,
                        slot,
                        pool,
                        sealers,
                    };
                    let mut number = 0;
                    while number < each {
                        let count = (1 + random.below(6)).min(each - number);
                        let bodies: Vec<usize> = (0..count)
                            .map(|_| usize::try_from(random.below(90)).unwrap())
                            .collect();
                        producer.append(number, &bodies);
                        number += count;
                    }
                    hand_over(slot, &producer.sealers);
                })
            })
            .collect();
        for producer in producers {
            producer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        for ticker in tickers {
            ticker.join().unwrap();
        }
        drop(sender);
        sealers
            .into_iter()
            .map(|sealer| sealer.join().unwrap())
            .collect()
    });
    check_runs(producers, each, runs);
    assert_eq!(pool.available(), pool.count(), "all memory came back");
    assert!(pool.allocated_bytes() <= pool.count() * pool.chunk_bytes());
}

/// Checks that each sealer received a producer's runs in order, and that all of them cover its
/// records once.
fn check_runs(producers: u8, each: u64, runs: Vec<Vec<(u8, u64, u64)>>) {
    for sealer in &runs {
        let mut last = vec![None; usize::from(producers)];
        for (id, first, _) in sealer {
            let last = &mut last[usize::from(*id)];
            assert!(
                *last < Some(*first),
                "chunks of producer {id} overtook each other"
            );
            *last = Some(*first);
        }
    }
    let mut all: Vec<_> = runs.into_iter().flatten().collect();
    all.sort_unstable();
    let mut next = vec![0; usize::from(producers)];
    for (id, first, count) in all {
        let next = &mut next[usize::from(id)];
        assert_eq!(
            first, *next,
            "records of producer {id} were lost or doubled"
        );
        *next += count;
    }
    assert_eq!(next, vec![each; usize::from(producers)]);
}

#[test]
fn a_ring_keeps_every_value_in_order() {
    for (capacity, producers, consumers) in [(1, 2, 2), (3, 4, 4), (64, 4, 1), (7, 1, 4)] {
        ring_keeps_every_value(capacity, producers, consumers, 30_000);
    }
}

#[test]
fn a_channel_keeps_every_value_in_order() {
    for (capacity, producers, consumers) in [(1, 2, 2), (3, 4, 4), (64, 4, 1), (7, 1, 4)] {
        channel_keeps_every_value(capacity, producers, consumers, 15_000);
    }
}

#[test]
fn chunks_closed_at_random_keep_every_record_in_order() {
    chunks_keep_every_record(8, 3, 20_000, 0x9E37_79B9_7F4A_7C15);
    chunks_keep_every_record(8, 1, 10_000, 0x2545_F491_4F6C_DD1D);
}

#[test]
fn waiting_senders_get_their_values_back_when_the_channel_closes() {
    for round in 0..200_u64 {
        let (sender, receiver) = channel(2);
        let (sent, returned) = thread::scope(|scope| {
            let senders: Vec<_> = (0..4)
                .map(|value| {
                    let sender = sender.clone();
                    scope.spawn(move || sender.send(value).map_err(SendError::into_value))
                })
                .collect();
            if round % 2 == 0 {
                thread::park_timeout(Duration::from_micros(round));
            }
            receiver.close();
            let results: Vec<_> = senders
                .into_iter()
                .map(|sender| sender.join().unwrap())
                .collect();
            let returned: Vec<i32> = results.iter().filter_map(|result| result.err()).collect();
            (results.len() - returned.len(), returned)
        });
        let mut received = Vec::new();
        while receiver.recv_batch(&mut received, 8, PATIENCE).is_ok() {}
        assert_eq!(received.len(), sent);
        received.extend(returned);
        received.sort_unstable();
        assert_eq!(received, [0, 1, 2, 3]);
    }
}

#[test]
#[ignore = "takes minutes; run in release with --ignored"]
fn millions_pass_unharmed() {
    ring_keeps_every_value(3, 4, 4, 2_000_000);
    channel_keeps_every_value(3, 4, 4, 1_000_000);
    chunks_keep_every_record(8, 3, 2_000_000, 0xD1B5_4A32_D192_ED03);
    chunks_keep_every_record(8, 1, 1_000_000, 0x94D0_49BB_1331_11EB);
}
