//! Columns against rows: whatever goes in comes out, and nothing malformed gets through.

#![expect(
    clippy::cast_possible_wrap,
    reason = "small numbers chosen by the tests"
)]

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::{ColumnSet, Columns, Encoder};
use crate::entry::{Entry, Outcome, Subjects, Timestamp};
use crate::row::{Rows, encode_row, row_bytes};
use crate::version::Version;

/// Rows of entries whose fields vary as `field(column, index)` says.
fn rows(count: usize, field: impl Fn(usize, usize) -> String) -> Vec<u8> {
    let mut out = Vec::new();
    for index in 0..count {
        let texts: Vec<String> = (0..9).map(|column| field(column, index)).collect();
        let entry = Entry {
            subjects: Subjects::joined(&texts[2]),
            controller: &texts[3],
            processor: &texts[4],
            actor: &texts[5],
            purpose: &texts[6],
            basis: &texts[7],
            outcome: Outcome::ALL[index % 7 % 4],
            payload: texts[8].as_bytes(),
            ..Entry::new(
                Timestamp::from_nanoseconds(
                    1_700_000_000_000_000_000 + (index as i64 * 977) % 5000,
                )
                .unwrap(),
                &texts[0],
                texts[1].as_bytes(),
            )
        };
        let start = out.len();
        out.resize(start + row_bytes(&entry), 0);
        encode_row(&entry, &mut out[start..]);
    }
    out
}

fn encode(encoder: &mut Encoder, rows: &[u8], set: ColumnSet) -> (Vec<u8>, Vec<u8>) {
    encoder.begin(set, 42);
    encoder.extend(&Rows::new(rows).collect::<Vec<_>>());
    let parts = encoder.finish();
    (parts.packed.to_vec(), parts.plain.to_vec())
}

fn assert_round_trip(rows: &[u8]) {
    let mut encoder = Encoder::default();
    for set in [ColumnSet::ALL, ColumnSet::SHARED, ColumnSet::SUBJECT] {
        let (packed, plain) = encode(&mut encoder, rows, set);
        let columns = Columns::decode(Version::NEWEST, &packed, &plain).unwrap();
        assert_eq!(columns.len(), Rows::new(rows).count());
        for (index, row) in Rows::new(rows).enumerate() {
            for (column, text) in row.texts.iter().enumerate() {
                let expected = if set.has_text(column) { *text } else { b"" };
                assert_eq!(columns.texts(index)[column], expected, "column {column}");
            }
            if set != ColumnSet::SHARED {
                assert_eq!(columns.payload(index), row.payload);
            }
            if set != ColumnSet::SUBJECT {
                assert_eq!(columns.time(index), row.time);
                assert_eq!(columns.outcome(index), row.outcome);
            }
        }
    }
}

#[test]
fn every_form_round_trips() {
    // Constant, packed, identity, skewed bytes, derived from the key, empty, and mixtures.
    assert_round_trip(&rows(1000, |column, index| match column {
        0 => ["create", "read", "update", "delete"][index * 7 % 4].into(),
        1 => format!("user:{}:profile", index * 31 % 200),
        2 => format!("{}", index * 31 % 200),
        3 => "acme".into(),
        4 => format!("p{}", if index % 50 == 0 { index % 7 } else { 0 }),
        5 => format!("unique-{index}"),
        8 => "x".repeat(index % 300),
        _ => String::new(),
    }));
    assert_round_trip(&rows(1, |column, _| format!("only{column}")));
    assert_round_trip(&rows(0, |_, _| String::new()));
    assert_round_trip(&rows(300, |column, index| {
        format!("{}", index * (column + 3) % 257)
    }));
}

#[test]
fn a_column_that_follows_from_the_key_costs_little() {
    let size = |follows: bool| {
        let rows = rows(4000, |column, index| match column {
            0 => "read".into(),
            1 => format!("user:{}", index * 7919 % 64),
            2 if follows => format!("{}", index * 7919 % 64 / 2),
            2 => format!("{}", index * 104_729 % 61 / 2),
            _ => String::new(),
        });
        encode(&mut Encoder::default(), &rows, ColumnSet::ALL)
            .0
            .len()
    };
    assert!(
        size(true) + 2000 < size(false),
        "{} and {}",
        size(true),
        size(false)
    );
}

#[test]
fn damaged_columns_are_refused_or_at_least_harmless() {
    let rows = rows(200, |column, index| format!("{}", index * (column + 1) % 9));
    let (packed, plain) = encode(&mut Encoder::default(), &rows, ColumnSet::ALL);
    for cut in 0..packed.len() {
        assert!(Columns::decode(Version::NEWEST, &packed[..cut], &plain).is_err());
    }
    for cut in 0..plain.len() {
        assert!(Columns::decode(Version::NEWEST, &packed, &plain[..cut]).is_err());
    }
    for place in 0..packed.len() {
        for bit in 0..8 {
            let mut bad = packed.clone();
            bad[place] ^= 1 << bit;
            // Authentication rejects such bytes before; here nothing may panic.
            if let Ok(columns) = Columns::decode(Version::NEWEST, &bad, &plain) {
                for index in 0..columns.len() {
                    let _ = (columns.texts(index), columns.payload(index));
                }
            }
        }
    }
    assert!(Columns::decode(Version::NEWEST, &vec![0xFF; 64], &plain).is_err());
}
