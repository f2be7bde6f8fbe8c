//! Compares the ring, the channel and the chunks with crossbeam's queues, in nanoseconds per
//! operation.
//!
//! Run with `cargo run --release -p probity-queue --example compare`. One argument, a number,
//! divides the work. Every row is the median of five rounds in which the candidates alternate.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a measuring program"
)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use crossbeam_utils::Backoff;
use probity_queue::{ChunkWriter, Pool, Receiver, Ring, SealedChunk, Sender, channel};

const ROUNDS: usize = 5;
const CAPACITY: usize = 1024;
const BATCH: usize = 32;
const THREADS: [(usize, usize); 6] = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 4)];
const RECORD_BYTES: [usize; 3] = [82, 338, 4178];
const CHUNK_BYTES: usize = 256 * 1024;

fn main() {
    let divisor = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
        .max(1);
    println!("one thread, push then pop, nanoseconds a pair");
    let pairs = 20_000_000 / divisor;
    report(
        "  ",
        &[
            ("ring", &|| one_thread_ring(pairs)),
            ("ArrayQueue", &|| one_thread_array_queue(pairs)),
            ("channel", &|| one_thread_channel(pairs)),
            ("crossbeam channel", &|| one_thread_crossbeam(pairs)),
        ],
    );
    let values = 4_000_000 / divisor;
    for (producers, consumers) in THREADS {
        println!("{producers} producers, {consumers} consumers, nanoseconds a value");
        report(
            "  ",
            &[
                ("ring", &|| through_ring(values, producers, consumers)),
                ("ArrayQueue", &|| {
                    through_array_queue(values, producers, consumers)
                }),
                ("ring, batches of 32", &|| {
                    through_ring_in_batches(values, producers, consumers)
                }),
                ("channel", &|| through_channel(values, producers, consumers)),
                ("crossbeam channel", &|| {
                    through_crossbeam(values, producers, consumers)
                }),
            ],
        );
    }
    for bytes in RECORD_BYTES {
        let records = 400_000_000 / (bytes + 100) / divisor;
        println!("records of {bytes} bytes, one thread, only appending, nanoseconds a record");
        report(
            "  ",
            &[
                ("chunk", &|| append_only(records, bytes)),
                ("vector (plain copy)", &|| copy_only(records, bytes)),
            ],
        );
        for (producers, consumers) in THREADS {
            println!(
                "records of {bytes} bytes, {producers} producers, {consumers} consumers, nanoseconds a record"
            );
            report(
                "  ",
                &[
                    ("chunks", &|| {
                        through_chunks(records, bytes, producers, consumers)
                    }),
                    ("boxes through ArrayQueue", &|| {
                        through_boxes(records, bytes, producers, consumers)
                    }),
                ],
            );
        }
    }
}

/// A measured run: its duration and its number of operations.
type Run<'a> = &'a dyn Fn() -> (Duration, usize);

/// Runs the candidates alternately and prints the median of each.
fn report(indent: &str, candidates: &[(&str, Run<'_>)]) {
    let mut measured = vec![Vec::with_capacity(ROUNDS); candidates.len()];
    for _ in 0..ROUNDS {
        for ((_, run), measured) in candidates.iter().zip(&mut measured) {
            let (elapsed, operations) = run();
            measured.push(elapsed.as_nanos() as f64 / operations.max(1) as f64);
        }
    }
    for ((name, _), mut measured) in candidates.iter().zip(measured) {
        measured.sort_by(f64::total_cmp);
        let median = measured.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        println!("{indent}{name:<26}{median:>9.1}");
    }
}

fn timed(operations: usize, work: impl FnOnce()) -> (Duration, usize) {
    let start = Instant::now();
    work();
    (start.elapsed(), operations)
}

fn one_thread_ring(pairs: usize) -> (Duration, usize) {
    let ring = Ring::new(CAPACITY);
    timed(pairs, || {
        for value in 0..pairs {
            ring.try_push(value).expect("there is room");
            std::hint::black_box(ring.try_pop());
        }
    })
}

fn one_thread_array_queue(pairs: usize) -> (Duration, usize) {
    let queue = ArrayQueue::new(CAPACITY);
    timed(pairs, || {
        for value in 0..pairs {
            queue.push(value).expect("there is room");
            std::hint::black_box(queue.pop());
        }
    })
}

fn one_thread_channel(pairs: usize) -> (Duration, usize) {
    let (sender, receiver) = channel(CAPACITY);
    timed(pairs, || {
        for value in 0..pairs {
            sender.try_send(value).expect("there is room");
            std::hint::black_box(receiver.try_recv().expect("there is a value"));
        }
    })
}

fn one_thread_crossbeam(pairs: usize) -> (Duration, usize) {
    let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
    timed(pairs, || {
        for value in 0..pairs {
            sender.try_send(value).expect("there is room");
            std::hint::black_box(receiver.try_recv().expect("there is a value"));
        }
    })
}

/// Spins until `attempt` returns `true`.
fn until(mut attempt: impl FnMut() -> bool) {
    let backoff = Backoff::new();
    while !attempt() {
        backoff.snooze();
    }
}

/// Passes about `values` values from producers to consumers. Producers call `push` until it
/// accepts, and consumers call `pop`.
fn pass(
    values: usize,
    producers: usize,
    consumers: usize,
    push: impl Fn(usize) -> bool + Sync,
    pop: impl Fn() -> bool + Sync,
) -> (Duration, usize) {
    let each = values / producers;
    let left = AtomicUsize::new(each * producers);
    timed(each * producers, || {
        thread::scope(|scope| {
            for _ in 0..producers {
                scope.spawn(|| (0..each).for_each(|value| until(|| push(value))));
            }
            for _ in 0..consumers {
                scope.spawn(|| {
                    while claim(&left, 1) > 0 {
                        until(&pop);
                    }
                });
            }
        });
    })
}

/// Subtracts up to `count` from `left`; returns the number subtracted.
fn claim(left: &AtomicUsize, count: usize) -> usize {
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        Some(left.saturating_sub(count))
    });
    before.map_or(0, |before| before.min(count))
}

fn through_ring(values: usize, producers: usize, consumers: usize) -> (Duration, usize) {
    let ring = Ring::new(CAPACITY);
    pass(
        values,
        producers,
        consumers,
        |value| ring.try_push(value).is_ok(),
        || ring.try_pop().is_some(),
    )
}

fn through_array_queue(values: usize, producers: usize, consumers: usize) -> (Duration, usize) {
    let queue = ArrayQueue::new(CAPACITY);
    pass(
        values,
        producers,
        consumers,
        |value| queue.push(value).is_ok(),
        || queue.pop().is_some(),
    )
}

fn through_ring_in_batches(values: usize, producers: usize, consumers: usize) -> (Duration, usize) {
    let ring = &Ring::new(CAPACITY);
    let each = values / producers;
    let left = &AtomicUsize::new(each * producers);
    timed(each * producers, || {
        thread::scope(|scope| {
            for _ in 0..producers {
                scope.spawn(move || push_in_batches(ring, each));
            }
            for _ in 0..consumers {
                scope.spawn(move || pop_in_batches(ring, left));
            }
        });
    })
}

fn push_in_batches(ring: &Ring<usize>, values: usize) {
    let mut batch = VecDeque::with_capacity(BATCH);
    for value in 0..values {
        batch.push_back(value);
        if batch.len() == BATCH || value + 1 == values {
            until(|| {
                ring.push_batch(&mut batch);
                batch.is_empty()
            });
        }
    }
}

fn pop_in_batches(ring: &Ring<usize>, left: &AtomicUsize) {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let mut wanted = claim(left, BATCH);
        if wanted == 0 {
            return;
        }
        until(|| {
            wanted -= ring.pop_batch(&mut batch, wanted);
            batch.clear();
            wanted == 0
        });
    }
}

fn through_channel(values: usize, producers: usize, consumers: usize) -> (Duration, usize) {
    let (sender, receiver) = channel(CAPACITY);
    pass(
        values,
        producers,
        consumers,
        |value| sender.send(value).is_ok(),
        || receiver.recv().is_ok(),
    )
}

fn through_crossbeam(values: usize, producers: usize, consumers: usize) -> (Duration, usize) {
    let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
    pass(
        values,
        producers,
        consumers,
        |value| sender.send(value).is_ok(),
        || receiver.recv().is_ok(),
    )
}

fn append_only(records: usize, bytes: usize) -> (Duration, usize) {
    let record = vec![7_u8; bytes];
    let pool = Pool::new(1, CHUNK_BYTES).expect("the size is within bounds");
    let mut writer = pool.try_take().expect("one chunk is free");
    timed(records, || {
        for _ in 0..records {
            while writer
                .append(bytes, |room| room.copy_from_slice(&record))
                .is_err()
            {
                drop(writer.chunk().close());
                writer = pool.try_take().expect("the chunk is back");
            }
        }
    })
}

fn copy_only(records: usize, bytes: usize) -> (Duration, usize) {
    let record = vec![7_u8; bytes];
    let mut vector: Vec<u8> = Vec::with_capacity(CHUNK_BYTES);
    timed(records, || {
        for _ in 0..records {
            if vector.len() + bytes > CHUNK_BYTES {
                std::hint::black_box(&mut vector).clear();
            }
            vector.extend_from_slice(&record);
        }
    })
}

fn through_chunks(
    records: usize,
    bytes: usize,
    producers: usize,
    consumers: usize,
) -> (Duration, usize) {
    let each = records / producers;
    let pool = &Pool::new(producers + consumers + 2, CHUNK_BYTES).expect("within bounds");
    let (sealers, chunks) = channel(16);
    timed(each * producers, || {
        thread::scope(|scope| {
            for _ in 0..producers {
                let sealers = sealers.clone();
                scope.spawn(move || fill_chunks(pool, &sealers, each, bytes));
            }
            drop(sealers);
            for _ in 0..consumers {
                scope.spawn(|| read_chunks(&chunks, bytes));
            }
        });
    })
}

fn read_chunks(chunks: &Receiver<SealedChunk>, bytes: usize) {
    while let Ok(chunk) = chunks.recv() {
        for record in chunk.bytes().chunks(bytes) {
            std::hint::black_box(record.first());
        }
    }
}

fn fill_chunks(pool: &Pool, sealers: &Sender<SealedChunk>, records: usize, bytes: usize) {
    let record = vec![7_u8; bytes];
    let hand_over = |writer: ChunkWriter| {
        if let Some(sealed) = writer.chunk().close() {
            sealers.send(sealed).expect("the consumers stay");
        }
    };
    let mut writer = pool.take(Duration::MAX).expect("chunks come back");
    for _ in 0..records {
        while writer
            .append(bytes, |room| room.copy_from_slice(&record))
            .is_err()
        {
            hand_over(writer);
            writer = pool.take(Duration::MAX).expect("chunks come back");
        }
    }
    hand_over(writer);
}

fn through_boxes(
    records: usize,
    bytes: usize,
    producers: usize,
    consumers: usize,
) -> (Duration, usize) {
    let queue: ArrayQueue<Box<[u8]>> = ArrayQueue::new(CAPACITY);
    let record = vec![7_u8; bytes];
    let push = |_| {
        let mut boxed = Some(Box::from(record.as_slice()));
        until(|| {
            boxed = boxed.take().and_then(|boxed| queue.push(boxed).err());
            boxed.is_none()
        });
        true
    };
    pass(records, producers, consumers, push, || {
        queue.pop().is_some_and(|boxed| {
            std::hint::black_box(boxed.first());
            true
        })
    })
}
