//! Rows: round trips, truncation, and the single encoding of an entry.

use alloc::vec;
use alloc::vec::Vec;

use super::*;

fn full() -> Entry<'static> {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_001).unwrap();
    Entry {
        subjects: Subjects::joined("alice\nbob"),
        controller: "acme",
        actor: "svc",
        basis: "6(1)(b)",
        outcome: Outcome::Absent,
        payload: b"\x00\xFFpayload",
        taken: Some(time),
        submitter: "gateway",
        claimed: Claimed {
            actor: true,
            purpose: false,
        },
        idempotency: Some(&[7; DIGEST_BYTES]),
        policy: Some(&[9; DIGEST_BYTES]),
        rule: "orders-only",
        ..Entry::new(time, "read", b"user:7\x00")
    }
}

fn row(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = vec![0; row_bytes(entry)];
    encode_row(entry, &mut bytes);
    bytes
}

#[test]
fn rows_round_trip() {
    for entry in each_with_one_field_less() {
        let bytes = row(&entry);
        assert!(decode_row(&bytes).unwrap().entry().unwrap() == entry);
        for cut in 0..bytes.len() {
            assert!(decode_row(&bytes[..cut]).is_err());
        }
    }
}

/// Returns a full entry, entries that each lack one optional field, and one that lacks all.
fn each_with_one_field_less() -> Vec<Entry<'static>> {
    let full = full();
    let Entry { time, key, .. } = full;
    vec![
        full,
        Entry {
            taken: None,
            ..full
        },
        Entry {
            submitter: "",
            ..full
        },
        Entry { rule: "", ..full },
        Entry {
            submitter: "",
            rule: "",
            ..full
        },
        Entry {
            claimed: Claimed::NONE,
            ..full
        },
        Entry {
            idempotency: None,
            ..full
        },
        Entry {
            policy: None,
            ..full
        },
        Entry::new(time, "read", key),
    ]
}

/// A row with an announced but empty part would be a second encoding of the same entry.
#[test]
fn an_entry_has_one_row() {
    let mut bytes = row(&full());
    for bit in [0x40, 0x80] {
        bytes[19] ^= bit;
        assert!(decode_row(&bytes).is_err(), "bit {bit:#x}");
        bytes[19] ^= bit;
    }
    let (taken, names) = (ROW_HEADER_BYTES, ROW_HEADER_BYTES + TAKEN_BYTES);
    bytes[taken..names].fill(0);
    assert!(decode_row(&bytes).is_err(), "a time taken of 0");
    let plain = Entry::new(full().time, "read", b"k");
    let mut bytes = row(&plain);
    bytes[19] = part::NAMES;
    bytes.splice(ROW_HEADER_BYTES..ROW_HEADER_BYTES, [0, 0]);
    bytes[0] += 2;
    assert!(decode_row(&bytes).is_err(), "two empty names");
}
