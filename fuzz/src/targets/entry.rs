//! Entries: their limits, and the rows they become.

use probity_format::row::{decode_row, encode_row, row_bytes};
use probity_format::{Claimed, Entry, Outcome, Subjects, Timestamp};

use crate::Target;
use crate::targets::text;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "entry",
        seeds: entry_seeds,
        check: check_entry,
    },
    Target {
        name: "row",
        seeds: row_seeds,
        check: check_row,
    },
];

/// A few entries that differ in every field.
pub(super) fn entries() -> Vec<Entry<'static>> {
    let time = |nanoseconds| Timestamp::from_nanoseconds(nanoseconds).expect("in range");
    vec![
        Entry::new(time(0), "read", b""),
        Entry {
            subjects: Subjects::joined("alice\nbob"),
            controller: "acme",
            processor: "cloud",
            actor: "svc-orders",
            purpose: "billing",
            basis: "6(1)(b)",
            outcome: Outcome::Denied,
            payload: b"\x00\xFFpayload",
            ..Entry::new(time(1_700_000_000_000_000_001), "update", b"user:7\x00")
        },
        Entry {
            subjects: Subjects::joined("alice"),
            outcome: Outcome::Absent,
            ..Entry::new(time(1_700_000_000_000_000_500), "delete", b"user:8")
        },
    ]
}

pub(super) fn row(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = vec![0; row_bytes(entry)];
    encode_row(entry, &mut bytes);
    bytes
}

fn entry_seeds() -> Vec<Vec<u8>> {
    vec![b"1700000000\x01read\x01user:7\x01alice\nbob\x01acme\x01svc\x01billing".to_vec()]
}

/// Checks that an entry which passes keeps every limit and comes back from its row unchanged.
fn check_entry(data: &[u8]) -> bool {
    let fields: Vec<&str> = data.split(|byte| *byte == 1).filter_map(text).collect();
    let [time, action, key, subjects, controller, actor, purpose] = fields[..] else {
        return false;
    };
    let Ok(time) = Timestamp::from_nanoseconds(time.parse().unwrap_or(-1)) else {
        return false;
    };
    let entry = Entry {
        subjects: Subjects::joined(subjects),
        controller,
        actor,
        purpose,
        payload: data,
        ..Entry::new(time, action, key.as_bytes())
    };
    if entry.check().is_err() {
        return false;
    }
    assert!(!entry.action.is_empty());
    assert!(entry.subjects.iter().all(|subject| !subject.is_empty()));
    let row = row(&entry);
    let decoded = decode_row(&row).and_then(|row| row.entry());
    assert!(decoded.is_ok_and(|decoded| decoded == entry));
    true
}

fn row_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = entries().iter().map(row).collect();
    let full = entries().into_iter().map(|entry| Entry {
        taken: Some(entry.time).filter(|time| time.nanoseconds() > 0),
        submitter: "gateway",
        claimed: Claimed {
            actor: true,
            purpose: !entry.purpose.is_empty(),
        },
        idempotency: Some(&[7; 32]),
        policy: Some(&[9; 32]),
        rule: "orders",
        ..entry
    });
    seeds.extend(full.map(|entry| row(&entry)));
    seeds
}

/// A row that makes an entry holds nothing else than that entry's fields.
fn check_row(data: &[u8]) -> bool {
    let Ok(entry) = decode_row(data).and_then(|row| row.entry()) else {
        return false;
    };
    if entry.check().is_err() {
        return false;
    }
    let again = row(&entry);
    assert_eq!(again.len(), data.len());
    assert!(
        decode_row(&again)
            .and_then(|row| row.entry())
            .is_ok_and(|same| same == entry)
    );
    true
}
