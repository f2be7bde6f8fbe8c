//! The queue of chunks from the appenders to the sealers.

use std::sync::Arc;
use std::time::Duration;

use probity_format::limits::ENTRY_BYTES_MAX;
use probity_queue::{Chunk, Pool, Receiver, SealedChunk, Sender, channel};

use crate::config::Options;
use crate::error::LogError;
use crate::in_flight::InFlight;
use crate::run::Run;
use crate::stream::Stream;

/// The chunks that producers fill, and the channel that hands them over.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) pool: Pool,
    pub(crate) sender: Sender<ClosedChunk>,
    pub(crate) receiver: Receiver<ClosedChunk>,
    /// Chunks handed over and not yet written.
    pub(crate) in_flight: InFlight,
}

/// An appender's chunk that takes entries.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    pub(crate) chunk: Chunk,
    pub(crate) run: Arc<Run>,
    pub(crate) stream: Arc<Stream>,
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when it was opened.
    pub(crate) since: Duration,
}

/// A closed chunk on its way to the sealers.
#[derive(Debug)]
pub(crate) struct ClosedChunk {
    /// Its number in [`Queue::in_flight`].
    pub(crate) number: u64,
    pub(crate) chunk: SealedChunk,
    pub(crate) run: Arc<Run>,
    pub(crate) stream: Arc<Stream>,
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when it was opened: no entry in it is
    /// older.
    pub(crate) since: Duration,
}

impl Queue {
    /// An empty queue with as many chunks as `options` allow.
    pub(crate) fn new(options: &Options) -> Result<Self, LogError> {
        let chunks = options.queue_bytes / ENTRY_BYTES_MAX;
        let pool = Pool::new(chunks, ENTRY_BYTES_MAX).map_err(|error| LogError::Option {
            name: "queue_bytes",
            reason: error.to_string(),
        })?;
        let (sender, receiver) = channel(chunks);
        Ok(Self {
            pool,
            sender,
            receiver,
            in_flight: InFlight::default(),
        })
    }

    /// Closes the chunk in `open` and hands it to the sealers, unless it was closed before.
    ///
    /// Its slot stays locked meanwhile, so chunks of one appender are handed over in order.
    pub(crate) fn hand_over(&self, open: &mut Option<OpenChunk>) {
        let Some(taken) = open.take() else { return };
        if let Some(chunk) = taken.chunk.close()
            && !chunk.is_empty()
        {
            // A flush must see the chunk from before it is sent until it is written.
            let number = self.in_flight.depart();
            let handed = ClosedChunk {
                number,
                chunk,
                run: taken.run,
                stream: taken.stream,
                since: taken.since,
            };
            // The channel holds as many as there are chunks, so it is never full; it is closed
            // only when the log is poisoned or closed, and then everybody learns so.
            if self.sender.try_send(handed).is_err() {
                self.in_flight.arrive(&[number]);
            }
        }
    }
}
