//! The ages of entries when they are sealed, counted in a histogram of constant size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use probity_format::width::to_u64;

/// Buckets for each power of two of microseconds: a reported age is off by an eighth at most.
const STEPS: u64 = 8;
/// Bits of a microsecond count that [`STEPS`] tell apart.
const STEP_BITS: u32 = STEPS.ilog2();
/// Ages of 2^40 microseconds, twelve days, and more are counted together.
const BUCKETS: usize = 304;

/// A histogram that is still being counted.
#[derive(Debug)]
pub(crate) struct AgeCounts {
    counts: [AtomicU64; BUCKETS],
    max_microseconds: AtomicU64,
}

impl Default for AgeCounts {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            max_microseconds: AtomicU64::new(0),
        }
    }
}

impl AgeCounts {
    /// Counts one frame whose oldest entry was `age` old.
    pub(crate) fn record(&self, age: Duration) {
        let microseconds = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get(bucket(microseconds)) {
            // Relaxed: figures for people order nothing.
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.max_microseconds
            .fetch_max(microseconds, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> LatencyHistogram {
        LatencyHistogram {
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            max: Duration::from_micros(self.max_microseconds.load(Ordering::Relaxed)),
        }
    }
}

/// A histogram of the age of each frame's oldest entry when the frame was sealed. Until then the
/// entry lay in memory, unprotected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    max: Duration,
}

impl LatencyHistogram {
    /// Frames counted.
    pub fn frames(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The age that `share` of the frames, 0.0 to 1.0, did not exceed; at most an eighth too high.
    pub fn percentile(&self, share: f64) -> Duration {
        let mut left = rank(self.frames(), share);
        for (place, count) in self.counts.iter().enumerate() {
            if *count >= left {
                return Duration::from_micros(upper(place)).min(self.max);
            }
            left = left.saturating_sub(*count);
        }
        self.max
    }

    /// The highest age.
    pub fn max(&self) -> Duration {
        self.max
    }
}

/// The number, from 1, of the last of `frames` that is within `share`.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place within the frames; 2^53 of them are counted exactly"
)]
fn rank(frames: u64, share: f64) -> u64 {
    ((frames as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1)
}

/// The bucket that counts an age.
fn bucket(microseconds: u64) -> usize {
    let exponent = microseconds.max(1).ilog2();
    let place = if exponent < STEP_BITS {
        microseconds
    } else {
        let shift = exponent.saturating_sub(STEP_BITS);
        let step = (microseconds >> shift).saturating_sub(STEPS);
        u64::from(shift)
            .saturating_add(1)
            .saturating_mul(STEPS)
            .saturating_add(step)
    };
    usize::try_from(place)
        .unwrap_or(usize::MAX)
        .min(BUCKETS.saturating_sub(1))
}

/// The highest age counted at `place`, in microseconds.
fn upper(place: usize) -> u64 {
    let place = to_u64(place);
    let Some(shift) = (place / STEPS).checked_sub(1) else {
        return place;
    };
    let shift = u32::try_from(shift).unwrap_or(u32::MAX);
    let above = STEPS.saturating_add(place % STEPS).saturating_add(1);
    above
        .checked_shl(shift)
        .unwrap_or(u64::MAX)
        .saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_age_is_counted_where_its_bounds_are() {
        let mut ages: Vec<u64> = (0..5000).collect();
        ages.extend((12..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for age in ages {
            let place = bucket(age);
            assert!(age <= upper(place), "{age}");
            assert!(place == 0 || age > upper(place - 1), "{age}");
            assert!(upper(place) - age <= age / STEPS, "{age}");
        }
        assert_eq!(bucket((1 << 40) - 1), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_ages_recorded() {
        let counts = AgeCounts::default();
        assert_eq!(counts.report().percentile(0.5), Duration::ZERO);
        for milliseconds in 1..=1000 {
            counts.record(Duration::from_millis(milliseconds));
        }
        let ages = counts.report();
        assert_eq!(ages.frames(), 1000);
        assert_eq!(ages.max(), Duration::from_secs(1));
        for (share, milliseconds) in [(0.001, 1), (0.5, 500), (0.99, 990), (1.0, 1000)] {
            let exact = Duration::from_millis(milliseconds);
            let reported = ages.percentile(share);
            assert!(
                reported >= exact && reported <= exact + exact / 8,
                "{share}: {reported:?}"
            );
        }
    }
}
