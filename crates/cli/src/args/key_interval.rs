//! The time that one key signs for, in commands that keep a log open.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args as ClapArgs;
use probity_log::Options;

/// The range to choose from, in seconds: a key that signs for longer is worth more to a thief.
const SECONDS: RangeInclusive<u64> = 1..=86_400;

/// The longest time for which one key signs.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct KeyInterval {
    /// Longest time for which one key signs, in seconds, at most a day; it changes with a publication, up to 2 s later [default: 3600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(SECONDS))]
    key_interval: Option<u64>,
}

impl KeyInterval {
    /// Returns the chosen time, in seconds.
    pub const fn seconds(self) -> Option<u64> {
        self.key_interval
    }

    /// Returns `options` with the chosen time.
    pub fn applied(self, options: Options) -> Options {
        let said = self.key_interval.map(Duration::from_secs);
        Options {
            key_interval: said.unwrap_or(options.key_interval),
            ..options
        }
    }
}

const _: () = assert!(
    Options::KEY_INTERVAL.as_secs() == 3600,
    "the help names the default"
);
