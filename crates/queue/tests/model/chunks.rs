//! Chunks of a pool beside vectors of bytes.

use probity_queue::{AppendRefused, Chunk, ChunkWriter, Pool, SealedChunk};
use proptest::prelude::*;

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
    fn chunks_behave_like_vectors_of_bytes_from_a_fixed_stock(steps in chunk_steps()) {
        check_chunks(&steps);
    }
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
