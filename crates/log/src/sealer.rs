//! The threads that turn batches into sealed frames and write them in order.

use std::sync::Mutex;

use probity_format::compress::Compression;
use probity_format::seal::FrameSealer;
use probity_format::stream::StreamConfig;

use crate::ages::AgeCounts;
use crate::batcher::{Batch, Batcher};
use crate::error::LogError;
use crate::log_state::LogState;

/// The part of the log's state that the sealers share.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    pub(crate) batcher: Mutex<Batcher>,
    /// The age of each frame's oldest entry when the frame was sealed.
    pub(crate) ages: AgeCounts,
}

/// The state of one sealer: a frame sealer for each configuration it met, and the memory of the
/// last frame.
#[derive(Default)]
struct SealerState {
    sealers: Vec<(StreamConfig, FrameSealer)>,
    frame: Vec<u8>,
}

/// Runs until the log is closed and everything is sealed, or the log is poisoned.
pub(crate) fn run(core: &LogState) {
    let mut bench = SealerState::default();
    loop {
        match core.next_batch() {
            Ok(Some(mut batch)) => {
                let numbers = std::mem::take(&mut batch.numbers);
                if let Err(error) = bench.seal(core, batch) {
                    core.set_poison(error);
                    return;
                }
                core.queue.in_flight.arrive(&numbers);
                core.committer.wake();
            }
            Ok(None) => return,
            Err(error) => {
                core.set_poison(error);
                return;
            }
        }
    }
}

impl SealerState {
    fn seal(&mut self, core: &LogState, batch: Batch) -> Result<(), LogError> {
        let Batch {
            stream,
            chunks,
            runs,
            place,
            epoch,
            since,
            ..
        } = batch;
        let sealer = sealer_for(&mut self.sealers, stream.config, core.options.compression)?;
        let rows: Vec<&[u8]> = chunks
            .iter()
            .map(probity_queue::SealedChunk::bytes)
            .collect();
        let mut subjects = core.subjects.for_stream(core, stream.id);
        let record = sealer
            .seal(&place, &epoch, &rows, &mut subjects, &mut self.frame)
            .map_err(|error| sealing_failed(&stream.name, &error))?;
        let age = core.clock.elapsed().saturating_sub(since);
        core.sealing.ages.record(age);
        // Durable keys before anything sealed under them.
        subjects.finish()?;
        // The rows are no longer needed; their memory goes back to the producers before the write.
        drop(rows);
        drop(chunks);
        let frame = frame_of(&self.frame, record.length)?;
        let stop = || core.poison().is_some();
        stream.write(
            &core.files,
            record,
            frame,
            runs,
            core.options.segment_bytes_max,
            &stop,
            &|| core.progress.write_one(),
        )
    }
}

/// The sealed frame in its buffer, with the length in its record.
pub(crate) fn frame_of(buffer: &[u8], length: u32) -> Result<&[u8], LogError> {
    let frame = usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length));
    frame
        .filter(|frame| !frame.is_empty())
        .ok_or(LogError::Defect {
            what: "a frame is not as long as its record says",
        })
}

fn sealer_for(
    sealers: &mut Vec<(StreamConfig, FrameSealer)>,
    config: StreamConfig,
    compression: Compression,
) -> Result<&mut FrameSealer, LogError> {
    let place = if let Some(place) = sealers.iter().position(|(known, _)| *known == config) {
        place
    } else {
        let sealer = FrameSealer::new(config, compression).map_err(|error| LogError::Broken {
            place: "compressor".into(),
            reason: error.to_string(),
        })?;
        sealers.push((config, sealer));
        sealers.len().saturating_sub(1)
    };
    sealers
        .get_mut(place)
        .map(|(_, sealer)| sealer)
        .ok_or_else(|| LogError::Broken {
            place: "sealer".into(),
            reason: "is missing".into(),
        })
}

pub(crate) fn sealing_failed(
    stream: &probity_format::stream::StreamName,
    error: &probity_format::DecodeError,
) -> LogError {
    LogError::Broken {
        place: format!("sealing a frame of stream {stream}"),
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame shorter than its record was written as no bytes at all, and the log signed for it.
    #[test]
    fn a_frame_that_is_shorter_than_its_record_stops_the_log() {
        assert_eq!(frame_of(&[1, 2, 3, 4], 3).unwrap(), [1, 2, 3]);
        for length in [0, 5, u32::MAX] {
            let refused = frame_of(&[1, 2, 3, 4], length);
            assert!(matches!(refused, Err(LogError::Defect { .. })), "{length}");
        }
    }
}
