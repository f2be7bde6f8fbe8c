//! The entries that producers append, generated before the clock starts as in the original
//! benchmark.

use probity_format::row::row_bytes;
use probity_format::{Action, Entry, Subjects, Timestamp};

/// The distribution of payloads and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    /// Two words at random, uniform keys: the main and scaling benchmarks.
    #[default]
    Words,
    /// Half compressible, keys by Zipf 0.99: the performance and compression benchmarks.
    Mixed,
}

/// The place of one entry's fields in the text of its pool; they are adjacent.
struct Made {
    start: usize,
    key: usize,
    subject: usize,
    controller: usize,
    processor: usize,
    payload: usize,
    action: &'static str,
    /// Nanoseconds since the preceding entry.
    step: i64,
}

/// A pool of entries that a producer appends repeatedly, with advancing times.
///
/// The fields of an entry are adjacent in memory, as in the buffer of a request.
pub(crate) struct Pool {
    text: String,
    made: Vec<Made>,
}

/// First timestamp of entries; it is fixed, so that runs are comparable.
const FIRST_TIME: i64 = 1_767_225_600_000_000_000;
const ATTRIBUTES: [&str; 10] = [
    "profile",
    "settings",
    "history",
    "preferences",
    "contacts",
    "messages",
    "photos",
    "documents",
    "videos",
    "audio",
];
const ACTIONS: [&str; 4] = [Action::CREATE, Action::READ, Action::UPDATE, Action::DELETE];
const COMMON: [&str; 16] = [
    "null", "true", "false", "user", "admin", "value", "name", "email", "address", "status",
    "active", "pending", "json", "error", "success", "table",
];
const USERS: u64 = 1000;
const ZIPF: f64 = 0.99;

impl Pool {
    /// Creates `count` entries with payloads of `payload_bytes`; they are determined by `seed`.
    pub(crate) fn new(count: usize, payload_bytes: usize, shape: Shape, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let zipf = (shape == Shape::Mixed).then(|| zipf_table(10_000));
        let mut text = String::with_capacity(count * (payload_bytes + 80));
        let made = (0..count)
            .map(|_| make(&mut text, &mut random, payload_bytes, zipf.as_deref()))
            .collect();
        Self { text, made }
    }

    /// Calls `visit` for `count` entries; each producer has its own start time.
    pub(crate) fn for_each<E>(
        &self,
        producer: usize,
        count: u64,
        mut visit: impl FnMut(&Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.entries(producer, count)
            .try_for_each(|entry| visit(&entry))
    }

    /// Calls `visit` for batches of up to `batch` of the `count` entries.
    pub(crate) fn for_each_batch<E>(
        &self,
        producer: usize,
        count: u64,
        batch: usize,
        mut visit: impl FnMut(&[Entry<'_>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut entries = self.entries(producer, count);
        let mut together = Vec::with_capacity(batch);
        loop {
            together.clear();
            together.extend(entries.by_ref().take(batch.max(1)));
            if together.is_empty() {
                return Ok(());
            }
            visit(&together)?;
        }
    }

    fn entries(&self, producer: usize, count: u64) -> impl Iterator<Item = Entry<'_>> {
        let mut time = FIRST_TIME.saturating_add(i64::try_from(producer).unwrap_or_default());
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.made.iter().cycle().take(count).map(move |made| {
            time += made.step;
            self.entry(made, time)
        })
    }

    /// Returns the bytes of rows of `count` entries.
    pub(crate) fn input_bytes(&self, count: u64) -> u64 {
        let each: u64 = self
            .made
            .iter()
            .map(|made| row_bytes(&self.entry(made, FIRST_TIME)) as u64)
            .sum();
        let entries = self.made.len() as u64;
        each * (count / entries.max(1))
            + self
                .made
                .iter()
                .take(usize::try_from(count % entries.max(1)).unwrap_or_default())
                .map(|made| row_bytes(&self.entry(made, FIRST_TIME)) as u64)
                .sum::<u64>()
    }
}

impl Pool {
    #[expect(clippy::expect_used, reason = "times of a run stay within this decade")]
    #[inline]
    fn entry<'a>(&'a self, made: &Made, time: i64) -> Entry<'a> {
        let time = Timestamp::from_nanoseconds(time).expect("within the range");
        let field = |start, end| self.text.get(start..end).unwrap_or_default();
        Entry {
            subjects: Subjects::joined(field(made.key, made.subject)),
            controller: field(made.subject, made.controller),
            processor: field(made.controller, made.processor),
            payload: field(made.processor, made.payload).as_bytes(),
            ..Entry::new(time, made.action, field(made.start, made.key).as_bytes())
        }
    }
}

fn make(
    text: &mut String,
    random: &mut Random,
    payload_bytes: usize,
    zipf: Option<&[f64]>,
) -> Made {
    let user = match zipf {
        Some(table) => {
            let point = random.fraction();
            table.partition_point(|sum| *sum < point) as u64
        }
        None => random.below(USERS) + 1,
    };
    let start = text.len();
    let mut field = |value: &str| {
        text.push_str(value);
        text.len()
    };
    let attribute = pick(random, &ATTRIBUTES);
    Made {
        start,
        key: field(&format!("user/user_{user}/{attribute}")),
        subject: field(&format!("user_{user}")),
        controller: field(&format!("controller_{}", random.below(10) + 1)),
        processor: field(&format!("processor_{}", random.below(20) + 1)),
        action: pick(random, &ACTIONS),
        payload: field(&match zipf {
            Some(_) => mixed(random, payload_bytes),
            None => words(random, payload_bytes),
        }),
        step: 300 + i64::try_from(random.below(400)).unwrap_or_default(),
    }
}

/// Returns words joined by spaces and cut to `bytes`: "the" twice as often as "data".
fn words(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(if random.below(3) < 2 { "the" } else { "data" });
    }
    text.truncate(bytes);
    text
}

/// Returns a text: a fifth common words, a quarter numbers, punctuation and blanks, the rest random
/// printable characters.
fn mixed(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        match random.below(100) {
            0..20 => text.push_str(pick(random, &COMMON)),
            20..30 => text.push_str(pick(random, &["0", "1", "100", "404", "200"])),
            30..35 => text.push_str(pick(random, &["{", "}", ":", ",", "\""])),
            35..45 => text.push(' '),
            _ => text.push(char::from(
                32 + u8::try_from(random.below(95)).unwrap_or_default(),
            )),
        }
    }
    text.truncate(bytes);
    text
}

fn pick<T: Copy + Default>(random: &mut Random, from: &[T]) -> T {
    let place = usize::try_from(random.below(from.len() as u64)).unwrap_or_default();
    from.get(place).copied().unwrap_or_default()
}

/// Returns the cumulative probabilities of a Zipf distribution over `count` keys.
fn zipf_table(count: u32) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count)
        .map(|rank| f64::from(rank).powf(-ZIPF))
        .collect();
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    weights
        .into_iter()
        .map(|weight| {
            sum += weight / total;
            sum
        })
        .collect()
}

/// A xorshift generator: fast and platform-independent.
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator, which is determined by `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
