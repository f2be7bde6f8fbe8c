//! The presets: parameters of the original benchmarks, and the table of the log's own figures.

use std::time::Duration;

use probity_log::{Compression, Proofs};

use crate::command::{IngestArguments, Preset};
use crate::ingest::Setting;
use crate::workload::Shape;

/// Input of one configuration of the performance and compression benchmarks, in bytes.
const MATRIX_BYTES: u64 = 10 << 30;

/// Limits for tests: entries per producer, and settings per preset.
const SMALL_ENTRIES: u64 = 500;
const SMALL_SETTINGS: usize = 7;

/// Returns the settings of `arguments`, without its single flags.
pub(crate) fn settings(arguments: &IngestArguments) -> Vec<Setting> {
    let mut settings = match arguments.preset {
        None => vec![Setting::default()],
        Some(Preset::Main) => vec![main()],
        Some(Preset::Scaling) => scaling(),
        Some(Preset::Performance) => performance(),
        Some(Preset::Compression) => compression(),
        Some(Preset::Table) => table(),
    };
    for setting in &mut settings {
        setting.entries_per_producer =
            (setting.entries_per_producer / arguments.scale.max(1)).max(1000);
        if arguments.small {
            setting.entries_per_producer = SMALL_ENTRIES;
            setting.repeats = 1;
            setting.ceiling_time = Duration::from_millis(20);
        }
    }
    if arguments.small {
        // Takes evenly spread settings, because the first ones differ only in one parameter.
        let step = settings.len().div_ceil(SMALL_SETTINGS).max(1);
        settings = settings.into_iter().step_by(step).collect();
    }
    settings
}

fn main() -> Setting {
    Setting {
        producers: 16,
        entries_per_producer: 2_000_000,
        writers: 16,
        writer_batch: 2048,
        ..Setting::default()
    }
}

fn scaling() -> Vec<Setting> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut threads = 1;
    let mut settings = Vec::new();
    while threads <= cores.saturating_mul(2) {
        settings.push(Setting {
            name: format!("{threads} + {threads}"),
            producers: threads,
            writers: threads,
            entries_per_producer: 2_000_000,
            writer_batch: 2048,
            compression: Compression::Zstd(4),
            ..Setting::default()
        });
        threads *= 2;
    }
    settings
}

fn matrix(size: usize, level: u8, encrypt: bool, producers: usize) -> Setting {
    let compression = if level == 0 {
        Compression::None
    } else {
        Compression::Zstd(level)
    };
    Setting {
        name: format!(
            "{size} B level {level} {}",
            if encrypt { "encrypted" } else { "plain" }
        ),
        producers,
        entries_per_producer: MATRIX_BYTES / producers as u64 / size as u64,
        payload_bytes: size.saturating_sub(55),
        compression,
        encrypt,
        shape: Shape::Mixed,
        segment_bytes: 100 << 20,
        ..Setting::default()
    }
}

fn performance() -> Vec<Setting> {
    let mut settings = Vec::new();
    for writers in [4, 8] {
        for writer_batch in [512, 2048, 8192] {
            for size in [256, 1024, 4096] {
                for encrypt in [false, true] {
                    for level in [0, 3, 6] {
                        let setting = matrix(size, level, encrypt, 16);
                        settings.push(Setting {
                            name: format!(
                                "{} {writers} writers batch {writer_batch}",
                                setting.name
                            ),
                            writers,
                            writer_batch,
                            repeats: 3,
                            ..setting
                        });
                    }
                }
            }
        }
    }
    settings
}

fn compression() -> Vec<Setting> {
    let mut settings = Vec::new();
    for size in [1024, 4096] {
        for level in [0, 3, 6, 9] {
            for encrypt in [false, true] {
                settings.push(Setting {
                    writers: 4,
                    writer_batch: 8192,
                    ..matrix(size, level, encrypt, 32)
                });
            }
        }
    }
    settings
}

/// The rows of the table of targets: name, payload, entries per producer.
const TABLE: [(&str, usize, u64); 4] = [
    ("4 KiB", 4096, 300_000),
    ("256 B", 256, 3_000_000),
    ("32 B", 32, 8_000_000),
    ("none", 0, 10_000_000),
];

fn table() -> Vec<Setting> {
    let mut settings = Vec::new();
    for (name, payload_bytes, entries_per_producer) in TABLE {
        for proofs in [Proofs::Section, Proofs::Entry] {
            settings.push(Setting {
                name: format!("{name}, {} proofs", proofs.as_str()),
                payload_bytes,
                entries_per_producer,
                proofs,
                repeats: 5,
                ..Setting::default()
            });
        }
    }
    settings
}
