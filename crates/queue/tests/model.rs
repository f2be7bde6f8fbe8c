//! Random operations on one thread, compared with plain collections: equal results, no value lost
//! or dropped twice.
#![cfg(not(loom))]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::fn_params_excessive_bools,
    reason = "the checks themselves live outside test functions too"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use probity_queue::{
    AppendRefused, Chunk, ChunkWriter, Pool, Receiver, RecvError, Refusal, Ring, SealedChunk,
    SendError, Sender, channel,
};
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

/// The end of a burst.
#[derive(Debug, Clone, Copy)]
enum BurstEnd {
    Commit,
    /// The burst is dropped without a commit.
    Forget,
    /// Another handle closes the chunk before the commit.
    CloseFirst,
}

#[derive(Debug, Clone, Copy)]
enum ChunkStep {
    Take,
    Append {
        writer: usize,
        len: usize,
        panics: bool,
    },
    Burst {
        writer: usize,
        lens: [usize; 4],
        end: BurstEnd,
    },
    Close {
        chunk: usize,
    },
    Read {
        sealed: usize,
    },
    DropWriter {
        writer: usize,
    },
    DropHandle {
        chunk: usize,
    },
}

fn chunk_steps() -> impl Strategy<Value = Vec<ChunkStep>> {
    let end = prop_oneof![
        6 => Just(BurstEnd::Commit),
        1 => Just(BurstEnd::Forget),
        1 => Just(BurstEnd::CloseFirst),
    ];
    let step = prop_oneof![
        3 => Just(ChunkStep::Take),
        9 => (0..4_usize, 0..24_usize, prop::bool::weighted(0.05))
            .prop_map(|(writer, len, panics)| ChunkStep::Append { writer, len, panics }),
        6 => (0..4_usize, prop::array::uniform4(0..24_usize), end)
            .prop_map(|(writer, lens, end)| ChunkStep::Burst { writer, lens, end }),
        2 => (0..8_usize).prop_map(|chunk| ChunkStep::Close { chunk }),
        2 => (0..4_usize).prop_map(|sealed| ChunkStep::Read { sealed }),
        1 => (0..4_usize).prop_map(|writer| ChunkStep::DropWriter { writer }),
        1 => (0..8_usize).prop_map(|chunk| ChunkStep::DropHandle { chunk }),
    ];
    prop::collection::vec(step, 0..200)
}

/// The expected state of one use of a chunk.
#[derive(Default)]
struct Use {
    bytes: Vec<u8>,
    records: u32,
    closed: bool,
    read: bool,
    owners: usize,
}

impl Use {
    /// Returns whether its memory is in use: neither its reader nor its last owner has returned it.
    const fn holds_memory(&self) -> bool {
        !self.read && self.owners > 0
    }
}

const CHUNKS: usize = 3;
const CHUNK_BYTES: usize = 64;

/// The chunks that the test holds, each with the number of its use.
#[derive(Default)]
struct Hands {
    uses: Vec<Use>,
    writers: Vec<(usize, ChunkWriter)>,
    handles: Vec<(usize, Chunk)>,
    sealed: Vec<(usize, SealedChunk)>,
}

fn pick<T>(items: &[T], wish: usize) -> Option<usize> {
    (!items.is_empty()).then(|| wish % items.len())
}

impl Hands {
    fn step(&mut self, pool: &Pool, step: ChunkStep, fill: u8) {
        match step {
            ChunkStep::Take => {
                let used = self.uses.iter().filter(|u| u.holds_memory()).count();
                let writer = pool.try_take();
                assert_eq!(writer.is_some(), used < CHUNKS);
                let Some(writer) = writer else { return };
                assert!(writer.chunk().is_empty() && !writer.chunk().is_closed());
                self.handles.push((self.uses.len(), writer.chunk().clone()));
                self.writers.push((self.uses.len(), writer));
                self.uses.push(Use {
                    owners: 2,
                    ..Use::default()
                });
            }
            ChunkStep::Append {
                writer,
                len,
                panics,
            } => self.write(writer, |used, writer| {
                append(used, writer, len, fill, panics);
                None
            }),
            ChunkStep::Burst { writer, lens, end } => {
                self.write(writer, |used, writer| burst(used, writer, &lens, fill, end));
            }
            ChunkStep::Close { chunk } => {
                let Some(chunk) = pick(&self.handles, chunk) else {
                    return;
                };
                let (number, chunk) = &self.handles[chunk];
                let used = &mut self.uses[*number];
                let sealed = chunk.close();
                assert_eq!(sealed.is_some(), !used.closed);
                used.closed = true;
                if let Some(sealed) = sealed {
                    used.owners += 1;
                    self.sealed.push((*number, sealed));
                }
            }
            ChunkStep::Read { sealed } => {
                let Some(sealed) = pick(&self.sealed, sealed) else {
                    return;
                };
                let (number, sealed) = self.sealed.swap_remove(sealed);
                let used = &mut self.uses[number];
                assert_eq!(sealed.bytes(), used.bytes);
                assert_eq!(sealed.records(), used.records);
                assert_eq!(sealed.len() as usize, used.bytes.len());
                used.read = true;
                used.owners -= 1;
            }
            ChunkStep::DropWriter { writer } => {
                let Some(writer) = pick(&self.writers, writer) else {
                    return;
                };
                let (number, _writer) = self.writers.swap_remove(writer);
                self.uses[number].owners -= 1;
            }
            ChunkStep::DropHandle { chunk } => {
                let Some(chunk) = pick(&self.handles, chunk) else {
                    return;
                };
                let (number, _chunk) = self.handles.swap_remove(chunk);
                self.uses[number].owners -= 1;
            }
        }
    }
}

impl Hands {
    fn write(
        &mut self,
        writer: usize,
        how: impl FnOnce(&mut Use, &mut ChunkWriter) -> Option<SealedChunk>,
    ) {
        let Some(writer) = pick(&self.writers, writer) else {
            return;
        };
        let (number, writer) = &mut self.writers[writer];
        let sealed = how(&mut self.uses[*number], writer);
        self.sealed.extend(sealed.map(|sealed| (*number, sealed)));
    }
}

struct Deliberate;

fn append(used: &mut Use, writer: &mut ChunkWriter, len: usize, fill: u8, panics: bool) {
    let fits = used.bytes.len() + len <= CHUNK_BYTES;
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        writer.append(len, |room| {
            assert_eq!(room.len(), len);
            room.fill(fill);
            if panics {
                // Panics without the hook's message on the terminal.
                std::panic::resume_unwind(Box::new(Deliberate));
            }
        })
    }));
    match result {
        Ok(Ok(number)) => {
            assert!(fits && !used.closed && !panics);
            assert_eq!(number, used.records);
            used.records += 1;
            used.bytes.resize(used.bytes.len() + len, fill);
        }
        Ok(Err(AppendRefused::Closed)) => assert!(used.closed),
        Ok(Err(AppendRefused::NoRoom)) => assert!(!used.closed && !fits),
        Err(payload) => {
            assert!(payload.is::<Deliberate>() && panics && fits && !used.closed);
        }
    }
    assert_eq!(writer.chunk().records(), used.records);
    assert_eq!(writer.chunk().len() as usize, used.bytes.len());
}

/// Pushes the records of `lens` that fit in one burst; returns the chunk if it was closed
/// meanwhile.
fn burst(
    used: &mut Use,
    writer: &mut ChunkWriter,
    lens: &[usize],
    fill: u8,
    end: BurstEnd,
) -> Option<SealedChunk> {
    let watcher = writer.chunk().clone();
    let Ok(mut burst) = writer.burst() else {
        assert!(used.closed);
        return None;
    };
    assert!(!used.closed);
    let (mut bytes, mut records) = (used.bytes.clone(), 0);
    for &len in lens {
        let pushed = burst.push(len, |room| {
            assert_eq!(room.len(), len);
            room.fill(fill);
        });
        let fits = bytes.len() + len <= CHUNK_BYTES;
        assert_eq!(
            pushed,
            if fits {
                Ok(())
            } else {
                Err(AppendRefused::NoRoom)
            }
        );
        if fits {
            bytes.resize(bytes.len() + len, fill);
            records += 1;
        }
        assert_eq!(burst.records(), records);
        assert_eq!(
            watcher.records(),
            used.records,
            "nothing shows before the end"
        );
    }
    match end {
        BurstEnd::Commit => {
            assert_eq!(burst.commit(), Ok(used.records));
            used.records += records;
            used.bytes = bytes;
            None
        }
        BurstEnd::Forget => {
            drop(burst);
            None
        }
        BurstEnd::CloseFirst => {
            let sealed = watcher.close().unwrap();
            (used.closed, used.owners) = (true, used.owners + 1);
            assert_eq!(burst.commit(), Err(AppendRefused::Closed));
            Some(sealed)
        }
    }
}

fn check_chunks(steps: &[ChunkStep]) {
    let pool = Pool::new(CHUNKS, CHUNK_BYTES).unwrap();
    let mut hands = Hands::default();
    let mut fill = 0_u8;
    for &step in steps {
        fill = fill.wrapping_add(1);
        hands.step(&pool, step, fill);
        let used = hands.uses.iter().filter(|u| u.holds_memory()).count();
        assert_eq!(pool.available(), CHUNKS - used);
        assert!(pool.allocated_bytes() <= CHUNKS * CHUNK_BYTES);
        // The content of a closed chunk never changes, whatever its writer and the other chunks do.
        for (number, sealed) in &hands.sealed {
            assert_eq!(sealed.bytes(), hands.uses[*number].bytes);
        }
    }
    drop(hands);
    assert_eq!(pool.available(), CHUNKS);
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

    #[test]
    fn chunks_behave_like_vectors_of_bytes_from_a_fixed_stock(steps in chunk_steps()) {
        check_chunks(&steps);
    }
}

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
fn chunk_sizes_out_of_bounds_are_refused() {
    for bytes in [0, probity_queue::CHUNK_BYTES_MAX + 1, usize::MAX] {
        let error = Pool::new(1, bytes).unwrap_err();
        assert_eq!(error.bytes, bytes);
        assert!(
            error
                .to_string()
                .starts_with(&format!("chunks of {bytes} bytes asked for"))
        );
    }
    assert!(Pool::new(1, probity_queue::CHUNK_BYTES_MAX).is_ok());
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

#[test]
fn a_chunk_closed_inside_an_append_refuses_it_and_takes_its_memory_back_only_afterwards() {
    let pool = Pool::new(1, 16).unwrap();
    let mut writer = pool.try_take().unwrap();
    writer.append(4, |room| room.fill(1)).unwrap();
    let chunk = writer.chunk().clone();
    let refused = writer.append(8, |room| {
        room.fill(2);
        let sealed = chunk.close().unwrap();
        assert_eq!(sealed.bytes(), [1; 4]);
        drop(sealed);
        assert!(
            pool.try_take().is_none(),
            "the memory is still being written to"
        );
        room.fill(3);
    });
    assert_eq!(refused, Err(AppendRefused::Closed));
    // The old writer still exists, and can no longer reach the memory.
    let mut next = pool.try_take().unwrap();
    next.append(16, |room| room.fill(4)).unwrap();
    assert_eq!(
        writer.append(1, |room| room.fill(5)),
        Err(AppendRefused::Closed)
    );
    assert_eq!(next.chunk().close().unwrap().bytes(), [4; 16]);
}

#[test]
fn a_panic_in_an_append_to_a_chunk_read_meanwhile_still_gives_the_memory_back() {
    let pool = Pool::new(1, 16).unwrap();
    let mut writer = pool.try_take().unwrap();
    let chunk = writer.chunk().clone();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        writer.append(8, |_| {
            drop(chunk.close());
            std::panic::resume_unwind(Box::new(Deliberate));
        })
    }));
    assert!(result.is_err());
    assert_eq!(pool.available(), 1);
}
