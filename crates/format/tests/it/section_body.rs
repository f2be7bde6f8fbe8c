//! A second reader of section bodies, written from `docs/format.md` alone: it shares no code with
//! the first.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::panic,
    reason = "what this reader cannot read is a failure"
)]

use probity_format::column::{ColumnSet, Columns, Encoder};
use probity_format::row::{Rows, encode_row, row_bytes};
use probity_format::{Claimed, Digest, Entry, Outcome, Subjects, Timestamp, Version};
use proptest::prelude::*;

/// A reader that consumes bytes from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn fixed(&mut self, count: usize) -> u64 {
        let bytes = self.take(count).iter().rev();
        bytes.fold(0, |value, byte| value << 8 | u64::from(*byte))
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = self.fixed(1);
            value |= (byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    /// Values of `width` bits, least significant bit first.
    fn packed(&mut self, count: usize, width: usize) -> Vec<u64> {
        let bytes = self.take((count * width).div_ceil(8));
        let bit = |place: usize| u64::from(bytes[place / 8] >> (place % 8) & 1);
        let value = |start: usize| (0..width).map(|at| bit(start + at) << at).sum();
        (0..count).map(|index| value(index * width)).collect()
    }

    fn blocks(&mut self, count: usize) -> Vec<i64> {
        let mut values = Vec::new();
        while values.len() < count {
            let many = (count - values.len()).min(128);
            let zigzag = self.varint();
            let least = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
            let width = self.fixed(1) as usize;
            let differences = if width > 32 {
                (0..many).map(|_| self.fixed(8)).collect()
            } else {
                self.packed(many, width)
            };
            let add = |difference: u64| least.wrapping_add(difference.cast_signed());
            values.extend(differences.into_iter().map(add));
        }
        values
    }

    fn pairs(&mut self, count: usize) -> Vec<u64> {
        if self.fixed(1) == 0 {
            return vec![self.fixed(1); count];
        }
        self.packed(count, 2)
    }
}

/// One entry as decoded by this reader.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Fields {
    time: i64,
    outcome: u64,
    taken: i64,
    claimed: u64,
    payload: Vec<u8>,
    texts: [Vec<u8>; 12],
}

fn read(packed: &[u8], plain: &[u8]) -> Vec<Fields> {
    let (mut packed, mut plain) = (Bytes(packed), Bytes(plain));
    let set = packed.fixed(2);
    let has = |bit: usize| set >> bit & 1 == 1;
    let mut entries = vec![Fields::default(); packed.varint() as usize];
    let count = entries.len();
    if has(0) {
        let lengths = packed.blocks(count);
        for (entry, length) in entries.iter_mut().zip(lengths) {
            entry.payload = plain.take(length as usize).to_vec();
        }
    }
    if has(1) {
        let mut time = packed.fixed(8).cast_signed();
        let differences = packed.blocks(count.saturating_sub(1));
        let differences = [0].into_iter().chain(differences);
        for (entry, difference) in entries.iter_mut().zip(differences) {
            time = time.wrapping_add(difference);
            entry.time = time;
        }
        let outcomes = packed.pairs(count);
        entries
            .iter_mut()
            .zip(outcomes)
            .for_each(|(entry, outcome)| entry.outcome = outcome);
    }
    if has(2) {
        read_taken(&mut packed, &mut entries);
    }
    if has(3) {
        let claims = packed.pairs(count);
        entries
            .iter_mut()
            .zip(claims)
            .for_each(|(entry, claimed)| entry.claimed = claimed);
    }
    let mut numbers = vec![Vec::new(); 12];
    let mut distinct = [0; 12];
    for column in (0..12).filter(|column| has(4 + column)) {
        distinct[column] = packed.varint() as usize;
        let lengths: Vec<u64> = (0..distinct[column]).map(|_| plain.varint()).collect();
        let words: Vec<&[u8]> = lengths
            .into_iter()
            .map(|length| plain.take(length as usize))
            .collect();
        numbers[column] = read_numbers(&mut packed, &numbers, &distinct, column, count);
        for (entry, number) in entries.iter_mut().zip(&numbers[column]) {
            entry.texts[column] = words[*number as usize].to_vec();
        }
    }
    assert!(packed.0.is_empty() && plain.0.is_empty());
    entries
}

fn read_taken(packed: &mut Bytes<'_>, entries: &mut [Fields]) {
    if packed.fixed(1) == 0 {
        let differences = packed.blocks(entries.len());
        for (entry, difference) in entries.iter_mut().zip(differences) {
            entry.taken = entry.time.wrapping_add(difference);
        }
        return;
    }
    let runs = packed.varint() as usize;
    let mut time = packed.fixed(8).cast_signed();
    let differences = packed.blocks(runs - 1);
    let lengths = packed.blocks(runs);
    let mut rest = entries;
    for (run, length) in lengths.into_iter().enumerate() {
        if run > 0 {
            time = time.wrapping_add(differences[run - 1]);
        }
        let (these, after) = rest.split_at_mut(length as usize + 1);
        for entry in these {
            entry.taken = time;
        }
        rest = after;
    }
    assert!(rest.is_empty());
}

fn read_numbers(
    packed: &mut Bytes<'_>,
    numbers: &[Vec<u64>],
    distinct: &[usize],
    column: usize,
    count: usize,
) -> Vec<u64> {
    let width = usize::BITS - (distinct[column] - 1).leading_zeros();
    match packed.fixed(1) {
        0 => vec![0; count],
        1 => packed.packed(count, width as usize),
        2 => (0..count as u64).collect(),
        3 => {
            let other = packed.fixed(1) as usize - 4;
            let table = packed.packed(distinct[other], width as usize);
            let follow = numbers[other].iter().map(|number| table[*number as usize]);
            follow.collect()
        }
        form => panic!("form {form}"),
    }
}

/// Returns words that depend on another field, are one of few, are empty, or are always new.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(String::new()), 3 => "[a-c]", 1 => "[a-z ]{1,40}"]
}

fn digest() -> impl Strategy<Value = Option<Digest>> {
    prop_oneof![
        2 => Just(None),
        2 => (0..3_u8).prop_map(|byte| Some([byte; 32])),
        1 => any::<Digest>().prop_map(Some),
    ]
}

/// An entry with owned fields.
#[derive(Debug, Clone)]
struct Owned {
    time: i64,
    taken: Option<i64>,
    codes: (u8, u8),
    texts: [String; 8],
    key: Vec<u8>,
    payload: Vec<u8>,
    policy: Option<Digest>,
    idempotency: Option<Digest>,
}

impl Owned {
    fn entry(&self) -> Entry<'_> {
        let time = |nanoseconds| Timestamp::from_nanoseconds(nanoseconds).unwrap();
        let [
            subjects,
            controller,
            processor,
            actor,
            purpose,
            basis,
            submitter,
            rule,
        ] = &self.texts;
        Entry {
            subjects: Subjects::joined(subjects),
            controller,
            processor,
            actor,
            purpose,
            basis,
            outcome: Outcome::from_code(self.codes.0).unwrap(),
            payload: &self.payload,
            taken: self.taken.map(time),
            submitter,
            claimed: Claimed::from_code(self.codes.1).unwrap(),
            idempotency: self.idempotency.as_ref(),
            policy: self.policy.as_ref(),
            rule,
            ..Entry::new(
                time(self.time),
                ["read", "update"][self.key.len() % 2],
                &self.key,
            )
        }
    }
}

fn owned() -> impl Strategy<Value = Owned> {
    let base = 1_700_000_000_000_000_000_i64;
    let time = prop_oneof![base..base + 5000, 0..i64::from(u32::MAX)];
    let taken = prop_oneof![
        Just(None),
        Just(Some(base)),
        (1..base).prop_map(Some),
        (base..base + 900).prop_map(Some)
    ];
    let bytes = prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..6)];
    (
        (time, taken, (0..4_u8, 0..4_u8)),
        prop::array::uniform8(word()),
        (bytes.clone(), bytes, digest(), digest()),
    )
        .prop_map(
            |((time, taken, codes), texts, (key, payload, policy, idempotency))| Owned {
                time,
                taken,
                codes,
                texts,
                key,
                payload,
                policy,
                idempotency,
            },
        )
}

/// Returns entries in which some columns are empty and some depend on others.
fn entries() -> impl Strategy<Value = Vec<Owned>> {
    (
        prop::collection::vec(owned(), 1..300),
        any::<u16>(),
        any::<[bool; 4]>(),
    )
        .prop_map(|(mut entries, there, [batch, follow, no_policy, no_key])| {
            let first = entries[0].clone();
            for entry in &mut entries {
                for (bit, text) in entry.texts.iter_mut().enumerate() {
                    if there >> bit & 1 == 0 {
                        text.clear();
                    }
                }
                if batch {
                    (entry.taken, entry.codes) = (first.taken, first.codes);
                }
                if follow {
                    let purpose = entry.texts[4].clone();
                    entry.texts[5] = purpose;
                    entry.texts[0] = format!("{:?}", entry.key.first());
                }
                if no_policy {
                    (entry.policy, entry.idempotency) = (None, None);
                }
                if no_key {
                    entry.key.clear();
                    entry.payload.clear();
                }
            }
            entries
        })
}

fn rows(entries: &[Owned]) -> Vec<u8> {
    let mut rows = Vec::new();
    for entry in entries {
        let entry = entry.entry();
        entry.check().unwrap();
        let start = rows.len();
        rows.resize(start + row_bytes(&entry), 0);
        encode_row(&entry, &mut rows[start..]);
    }
    rows
}

fn encoded(rows: &[u8], set: ColumnSet) -> (Vec<u8>, Vec<u8>) {
    let mut encoder = Encoder::default();
    encoder.begin(set, 7);
    let rows: Vec<_> = Rows::new(rows).collect();
    rows.chunks(64).for_each(|rows| encoder.extend(rows));
    let parts = encoder.finish();
    (parts.packed.to_vec(), parts.plain.to_vec())
}

fn expected(rows: &[u8]) -> Vec<Fields> {
    Rows::new(rows)
        .map(|row| Fields {
            time: row.time,
            outcome: row.outcome.into(),
            taken: row.taken,
            claimed: row.claimed.into(),
            payload: row.payload.to_vec(),
            texts: row.texts.map(<[u8]>::to_vec),
        })
        .collect()
}

/// Encodes the rows of the entries in a body, if each of them is a valid entry.
fn rows_of(columns: &Columns<'_>) -> Option<Vec<u8>> {
    let mut rows = Vec::new();
    for index in 0..columns.len() {
        let entry = columns
            .entry(index)
            .ok()
            .filter(|entry| entry.check().is_ok())?;
        let start = rows.len();
        rows.resize(start + row_bytes(&entry), 0);
        encode_row(&entry, &mut rows[start..]);
    }
    Some(rows)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn both_readers_find_the_entries_that_were_written(entries in entries()) {
        let rows = rows(&entries);
        for (row, owned) in Rows::new(&rows).zip(&entries) {
            prop_assert!(row.entry().unwrap() == owned.entry());
        }
        let (packed, plain) = encoded(&rows, ColumnSet::ALL);
        prop_assert!(read(&packed, &plain) == expected(&rows));
        let columns = Columns::decode(Version::V3, &packed, &plain).unwrap();
        prop_assert_eq!(columns.len(), entries.len());
        for (index, owned) in entries.iter().enumerate() {
            prop_assert!(columns.entry(index).unwrap() == owned.entry());
        }
    }

    /// Shared and subject sections together hold every column, and only the subjects are in both.
    #[test]
    fn sections_of_subjects_and_shared_ones_hold_the_rest_of_each_other(entries in entries()) {
        let rows = rows(&entries);
        let (packed, plain) = encoded(&rows, ColumnSet::SHARED);
        let shared = read(&packed, &plain);
        prop_assert!(Columns::decode(Version::V3, &packed, &plain).is_ok());
        let (packed, plain) = encoded(&rows, ColumnSet::SUBJECT);
        let subject = read(&packed, &plain);
        prop_assert!(Columns::decode(Version::V3, &packed, &plain).is_ok());
        for ((mut shared, mut subject), whole) in shared.into_iter().zip(subject).zip(expected(&rows)) {
            prop_assert!(subject.time == 0 && subject.taken == 0 && subject.outcome == 0);
            for column in [1, 11] {
                prop_assert!(shared.texts[column].is_empty());
                shared.texts[column] = std::mem::take(&mut subject.texts[column]);
            }
            prop_assert!(shared.payload.is_empty());
            shared.payload = subject.payload;
            prop_assert!(subject.texts[2] == whole.texts[2]);
            prop_assert!(shared == whole);
        }
    }

    /// Decoded bodies encode to the same values again, and encoded bodies have one form.
    #[test]
    fn what_is_read_is_written_again_alike(
        entries in entries(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..3),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let rows = rows(&entries);
        let (mut packed, plain) = encoded(&rows, ColumnSet::ALL);
        for (place, bit) in &flips {
            let place = place.index(packed.len());
            packed[place] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            packed.truncate(cut.index(packed.len()));
        }
        let Ok(columns) = Columns::decode(Version::V3, &packed, &plain) else {
            prop_assert!(!flips.is_empty() || cut.is_some());
            return Ok(());
        };
        // The second reader has no checks. Since both agree, the first accepts no body with another
        // meaning.
        let fields = read(&packed, &plain);
        for (index, fields) in fields.iter().enumerate() {
            prop_assert_eq!(columns.time(index), fields.time);
            prop_assert_eq!(columns.taken(index), fields.taken);
            prop_assert_eq!(columns.payload(index), &fields.payload);
            prop_assert!(columns.texts(index).map(<[u8]>::to_vec) == fields.texts);
        }
        let Some(again) = rows_of(&columns) else { return Ok(()) };
        let written = encoded(&again, ColumnSet::ALL);
        if flips.is_empty() {
            prop_assert!(written.0 == packed && written.1 == plain);
        }
        let read_again = Columns::decode(Version::V3, &written.0, &written.1).unwrap();
        prop_assert!(rows_of(&read_again) == Some(again));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        packed in prop::collection::vec(any::<u8>(), 0..120),
        plain in prop::collection::vec(any::<u8>(), 0..60),
        set in any::<u16>(),
    ) {
        let packed = [&set.to_le_bytes(), &packed[..]].concat();
        for version in Version::ALL {
            for body in [&packed[..], &packed[2..]] {
                if let Ok(columns) = Columns::decode(version, body, &plain) {
                    for index in 0..=columns.len().min(100) {
                        let _ = (columns.texts(index), columns.payload(index), columns.taken(index));
                    }
                }
            }
        }
    }
}
