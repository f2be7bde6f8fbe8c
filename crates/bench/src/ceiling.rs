//! The ceiling of a benchmark: the throughput of the bare compressor and cipher on the log's data
//! and cores.

use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use probity_format::column::{ColumnSet, Encoder};
use probity_format::compress::Compressor;
use probity_format::row::{Rows, encode_row, row_bytes};
use probity_log::Compression;
use sha2::{Digest as _, Sha256};

use crate::command::BenchError;
use crate::workload::Pool;

/// Duration of a ceiling's measurement.
pub(crate) const DURATION: Duration = Duration::from_millis(1500);

/// The throughput of the bare compressor and cipher.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    /// Entries per second on all threads.
    pub(crate) entries_per_second: f64,
}

/// Measures compressing and encrypting the columns of frames of `rows_bytes`, on `threads` threads
/// for `time`.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
pub(crate) fn seal(
    pool: &Pool,
    rows_bytes: usize,
    entries_max: u32,
    compression: Compression,
    encrypt: bool,
    threads: usize,
    time: Duration,
) -> Result<Ceiling, BenchError> {
    let (packed, plain, entries) = columns(pool, rows_bytes, entries_max)?;
    let work = || -> Result<f64, BenchError> {
        let mut compressor =
            Compressor::new(compression).map_err(|error| BenchError::Failed(error.to_string()))?;
        let key = UnboundKey::new(&AES_256_GCM, &[7; 32])
            .map(LessSafeKey::new)
            .map_err(|_refused| BenchError::Failed("the cipher refuses its key".into()))?;
        let mut out = vec![0; packed.len() + compressor.bound(plain.len())];
        let started = Instant::now();
        let mut frames: u64 = 0;
        while started.elapsed() < time {
            let (head, body) = out.split_at_mut(packed.len());
            head.copy_from_slice(&packed);
            let length = compressor
                .compress(&plain, body)
                .map_err(|error| BenchError::Failed(error.to_string()))?;
            if encrypt {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&frames.to_le_bytes());
                let sealed = out.get_mut(..packed.len() + length).unwrap_or_default();
                let _tag = key
                    .seal_in_place_separate_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::empty(),
                        sealed,
                    )
                    .map_err(|_refused| {
                        BenchError::Failed("the cipher refuses its input".into())
                    })?;
            }
            frames += 1;
        }
        Ok(frames_per_second(frames, started.elapsed()))
    };
    let total = on_threads(threads, work)?;
    Ok(Ceiling {
        entries_per_second: total * f64::from(entries),
    })
}

/// Measures how many bytes per second SHA-256 hashes on `threads` threads.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
pub(crate) fn hash(threads: usize) -> Result<f64, BenchError> {
    let bytes = vec![0x5A_u8; 4 << 20];
    let work = || -> Result<f64, BenchError> {
        let started = Instant::now();
        let mut rounds: u64 = 0;
        while started.elapsed() < DURATION {
            std::hint::black_box(Sha256::digest(std::hint::black_box(&bytes)));
            rounds += 1;
        }
        Ok(frames_per_second(rounds, started.elapsed()))
    };
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Ok(on_threads(threads, work)? * bytes.len() as f64)
}

fn on_threads(
    threads: usize,
    work: impl Fn() -> Result<f64, BenchError> + Sync,
) -> Result<f64, BenchError> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        let mut total = 0.0;
        for thread in running {
            total += thread
                .join()
                .map_err(|_panicked| BenchError::Failed("a thread ended by a defect".into()))??;
        }
        Ok(total)
    })
}

/// Returns the encoded columns of one typical frame.
fn columns(
    pool: &Pool,
    rows_bytes: usize,
    entries_max: u32,
) -> Result<(Vec<u8>, Vec<u8>, u32), BenchError> {
    let mut rows = Vec::new();
    let mut entries: u32 = 0;
    pool.for_each(0, u64::from(entries_max), |entry| {
        if rows.len() < rows_bytes {
            let start = rows.len();
            rows.resize(start + row_bytes(entry), 0);
            encode_row(entry, rows.get_mut(start..).unwrap_or_default());
            entries += 1;
        }
        Ok::<(), BenchError>(())
    })?;
    let mut encoder = Encoder::default();
    encoder.begin(ColumnSet::ALL, 1);
    encoder.extend(&Rows::new(&rows).collect::<Vec<_>>());
    let parts = encoder.finish();
    Ok((parts.packed.to_vec(), parts.plain.to_vec(), entries))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn frames_per_second(frames: u64, elapsed: Duration) -> f64 {
    frames as f64 / elapsed.as_secs_f64()
}
