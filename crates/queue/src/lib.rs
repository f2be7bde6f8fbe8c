//! Lock-free queues that hand records and values from many producers to other threads.
//!
//! Three parts, each usable alone:
//!
//! - [`Ring`]: a bounded queue of values for many producers and many consumers; it never blocks.
//! - [`channel()`]: a ring with blocking calls, timeouts, batches and closing.
//! - [`Pool`], [`ChunkWriter`], [`Chunk`], [`SealedChunk`]: memory to which one producer appends
//!   records of any length with one copy each. Any thread may close a chunk; the thread that closed
//!   it reads it and returns its memory.
//!
//! This is the only crate with unsafe code; every file that needs it says so at its head.
//!
//! # Use in the log
//!
//! A producer fills a chunk. The producer closes it when it is full, or a timer thread when it is
//! too old. The thread that closed it gets the right to read and passes it to the sealers. Both do
//! so under the slot's lock, so the chunks of one producer arrive in order. The producer takes the
//! lock only when it changes chunks.
//!
//! ```
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! use probity_queue::{AppendRefused, Chunk, ChunkWriter, Pool, SealedChunk, Sender, channel};
//!
//! const WAIT: Duration = Duration::from_secs(5);
//!
//! /// A producer's chunk, as the timer thread sees it.
//! type Slot = Mutex<Option<Chunk>>;
//!
//! struct Producer<'a> {
//!     writer: Option<ChunkWriter>,
//!     slot: &'a Slot,
//!     pool: Pool,
//!     sealers: Sender<SealedChunk>,
//! }
//!
//! /// Closes the chunk of `slot`, and sends it under the slot's lock if this call closed it.
//! fn hand_over(slot: &Slot, sealers: &Sender<SealedChunk>) {
//!     let mut chunk = slot.lock().unwrap();
//!     if let Some(sealed) = chunk.take().and_then(|chunk| chunk.close()) {
//!         sealers.send(sealed).unwrap();
//!     }
//! }
//!
//! impl Producer<'_> {
//!     fn append(&mut self, record: &[u8]) {
//!         loop {
//!             if let Some(writer) = &mut self.writer {
//!                 match writer.append(record.len(), |room| room.copy_from_slice(record)) {
//!                     Ok(_) => return,
//!                     Err(AppendRefused::Closed | AppendRefused::NoRoom) => {}
//!                 }
//!             }
//!             // Give the old chunk back before asking for a new one.
//!             self.writer = None;
//!             hand_over(self.slot, &self.sealers);
//!             let writer = self.pool.take(WAIT).expect("the sealers give chunks back");
//!             *self.slot.lock().unwrap() = Some(writer.chunk().clone());
//!             self.writer = Some(writer);
//!         }
//!     }
//! }
//!
//! let pool = Pool::new(2, 64)?;
//! let (sealers, chunks) = channel::<SealedChunk>(2);
//! let slot = Slot::default();
//!
//! let sealed = std::thread::scope(|scope| {
//!     let sealer = scope.spawn(|| {
//!         let mut sealed = Vec::new();
//!         while let Ok(chunk) = chunks.recv() {
//!             sealed.extend_from_slice(chunk.bytes());
//!             // Dropping the sealed chunk gives its memory back to the pool.
//!         }
//!         sealed
//!     });
//!     let mut producer =
//!         Producer { writer: None, slot: &slot, pool: pool.clone(), sealers: sealers.clone() };
//!     for letter in b'a'..=b'z' {
//!         producer.append(&[letter; 10]);
//!     }
//! // The timer thread does this when a chunk is too old.
//!     hand_over(&slot, &sealers);
//!     drop(producer);
//!     drop(sealers);
//!     sealer.join().unwrap()
//! });
//!
//! assert_eq!(sealed.len(), 26 * 10);
//! assert!(sealed.is_sorted());
//! # Ok::<(), probity_queue::ChunkSizeError>(())
//! ```

mod channel;
mod chunk;
mod deadline;
mod error;
mod memory;
mod parking;
mod pool;
mod ring;
mod state;
mod sync;

pub use channel::{Receiver, Sender, channel};
pub use chunk::{Burst, Chunk, ChunkWriter, SealedChunk};
pub use error::{AppendRefused, ChunkSizeError, RecvError, Refusal, SendError};
pub use pool::{CHUNK_BYTES_MAX, Pool};
pub use ring::Ring;
