//! Cuts batches: which chunks become one frame, in which order, at which place.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use probity_format::keys::EpochKey;
use probity_format::limits::FRAME_BYTES_MAX;
use probity_format::seal::{FramePlace, sealed_bytes_max};
use probity_queue::{RecvError, SealedChunk};

use crate::error::LogError;
use crate::log_state::LogState;
use crate::queue::ClosedChunk;
use crate::run::PlacedRun;
use crate::stream::Stream;

/// Below this many bytes of rows a batch waits for the commit in flight to end.
const SMALL_BATCH_BYTES: usize = 64 << 10;
/// Longest that a small batch waits for a commit to end.
const COMPANY_WAIT: Duration = Duration::from_millis(2);
/// The longest sleep of an idle sealer between looks whether the log is closing.
const IDLE_WAIT: Duration = Duration::from_millis(200);

/// Chunks that arrived and are in no batch yet, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Batcher {
    pending: VecDeque<Pending>,
    bytes: usize,
}

#[derive(Debug)]
struct Pending {
    handed: ClosedChunk,
    /// Most bytes of it in a frame, where people's shares may make them many more than its rows.
    sealed_bytes: usize,
}

/// Most sealed bytes that chunks are joined to; leaves room for header, trailer and the shared
/// section's own.
const SEALED_BYTES: usize = FRAME_BYTES_MAX - (1 << 20);

/// Chunks of one stream that become one frame.
pub(crate) struct Batch {
    pub(crate) stream: Arc<Stream>,
    pub(crate) chunks: Vec<SealedChunk>,
    /// Their numbers in [`Queue::in_flight`](crate::queue::Queue::in_flight).
    pub(crate) numbers: Vec<u64>,
    pub(crate) runs: Vec<PlacedRun>,
    pub(crate) place: FramePlace,
    pub(crate) epoch: Arc<EpochKey>,
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when its oldest chunk was opened.
    pub(crate) since: Duration,
}

impl Batcher {
    fn add(&mut self, handed: ClosedChunk) {
        let rows = handed.chunk.bytes();
        self.bytes = self.bytes.saturating_add(rows.len());
        let sealed_bytes = if handed.stream.config.erasable {
            sealed_bytes_max(rows)
        } else {
            0
        };
        self.pending.push_back(Pending {
            handed,
            sealed_bytes,
        });
    }

    /// Takes the chunks of the oldest one's stream, up to the limits of a frame.
    ///
    /// A pure step: chunks of one stream keep their order, and the rest stays.
    fn take(&mut self, entries_max: u32, bytes_max: usize) -> Vec<ClosedChunk> {
        let Some(stream) = self
            .pending
            .front()
            .map(|pending| Arc::clone(&pending.handed.stream))
        else {
            return Vec::new();
        };
        let mut taken: Vec<ClosedChunk> = Vec::new();
        let mut kept = VecDeque::with_capacity(self.pending.len());
        let (mut entries, mut bytes, mut sealed, mut full) = (0_u32, 0_usize, 0_usize, false);
        for pending in self.pending.drain(..) {
            let handed = &pending.handed;
            if full || !Arc::ptr_eq(&handed.stream, &stream) {
                kept.push_back(pending);
                continue;
            }
            let more_entries = entries.saturating_add(handed.chunk.records());
            let more_bytes = bytes.saturating_add(handed.chunk.bytes().len());
            let more_sealed = sealed.saturating_add(pending.sealed_bytes);
            let is_over = more_entries > entries_max || more_bytes > bytes_max;
            if !taken.is_empty() && (is_over || more_sealed > SEALED_BYTES) {
                full = true;
                kept.push_back(pending);
                continue;
            }
            (entries, bytes, sealed) = (more_entries, more_bytes, more_sealed);
            taken.push(pending.handed);
        }
        self.pending = kept;
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }
}

impl LogState {
    /// The next batch, its place reserved; `None` when the log is closed and nothing is left.
    ///
    /// One sealer at a time is in here, so that places follow the order of arrival.
    pub(crate) fn next_batch(&self) -> Result<Option<Batch>, LogError> {
        let mut batcher = self
            .sealing
            .batcher
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.poison().is_some() {
                return Ok(None);
            }
            let mut ended = false;
            while batcher.bytes < self.options.frame_rows_bytes {
                match self.queue.receiver.try_recv() {
                    Ok(handed) => batcher.add(handed),
                    Err(RecvError::Closed) => {
                        ended = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            if batcher.pending.is_empty() {
                if ended {
                    return Ok(None);
                }
                match self.queue.receiver.recv_timeout(IDLE_WAIT) {
                    Ok(handed) => batcher.add(handed),
                    Err(RecvError::Closed) => return Ok(None),
                    Err(_) => {}
                }
                continue;
            }
            let generation = self.progress.changed().generation();
            if !ended && batcher.bytes < SMALL_BATCH_BYTES && self.committer.is_running() {
                self.progress.changed().wait_after(generation, COMPANY_WAIT);
                while let Ok(handed) = self.queue.receiver.try_recv() {
                    batcher.add(handed);
                }
            }
            let taken = batcher.take(
                self.options.frame_entries_max,
                self.options.frame_rows_bytes,
            );
            return self.place(taken);
        }
    }

    /// Reserves the place of a batch and the index of each of its chunks.
    fn place(&self, taken: Vec<ClosedChunk>) -> Result<Option<Batch>, LogError> {
        let Some(stream) = taken.first().map(|handed| Arc::clone(&handed.stream)) else {
            return Ok(None);
        };
        let entries = taken.iter().fold(0_u32, |sum, handed| {
            sum.saturating_add(handed.chunk.records())
        });
        let (place, epoch) = {
            let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            stream.reserve(entries, &keys.master, keys.epoch()?)?
        };
        let mut first = place.first_entry;
        let mut batch = Batch {
            stream,
            chunks: Vec::new(),
            numbers: Vec::new(),
            runs: Vec::new(),
            place,
            epoch,
            since: Duration::MAX,
        };
        for handed in taken {
            let records = u64::from(handed.chunk.records());
            batch.runs.push((handed.run, first));
            batch.chunks.push(handed.chunk);
            batch.numbers.push(handed.number);
            batch.since = batch.since.min(handed.since);
            first = first.saturating_add(records);
        }
        Ok(Some(batch))
    }
}
