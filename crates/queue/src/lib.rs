//! How many producers hand over without a lock.
//!
//! Three parts, each usable alone:
//!
//! - [`Ring`]: a bounded queue of values for many producers and many consumers; never blocks.
//! - [`channel()`]: the same with waiting, timeouts, batches and closing.
//! - [`Pool`], [`ChunkWriter`], [`Chunk`], [`SealedChunk`]: memory in which one producer lays down records of
//!   any length with one copy each, that anyone may close, and that whoever closed it reads and gives back.
//!
//! This is the one crate with unsafe code; every file that needs it says so at its head.
//!
//! # How the log uses it
//!
//! A producer fills a chunk. Either the producer (no room) or a ticking thread (too old) closes it; the
//! one that really closed it gets the right to read and passes it to the sealers. Both do so under the
//! slot's lock, which the producer takes only when it changes chunks, so chunks of one producer arrive in order.
//!
//! ```
//! use std::sync::Mutex;
//! use std::time::Duration;
//!
//! use probity_queue::{AppendRefused, Chunk, ChunkWriter, Pool, SealedChunk, Sender, channel};
//!
//! const WAIT: Duration = Duration::from_secs(5);
//!
//! /// What the ticking thread sees of a producer.
//! type Slot = Mutex<Option<Chunk>>;
//!
//! struct Producer<'a> {
//!     writer: Option<ChunkWriter>,
//!     slot: &'a Slot,
//!     pool: Pool,
//!     sealers: Sender<SealedChunk>,
//! }
//!
//! /// Closes the chunk of `slot`; whoever really closed it hands it over, under the slot's lock.
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
//!     // What the ticking thread does when a chunk grows old.
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
