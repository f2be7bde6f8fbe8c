//! Columns and rows: encoding round trips, and malformed input is refused.

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

/// Encodes rows whose fields have the value `field(column, index)`.
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
                assert_eq!(columns.taken(index), row.taken);
                assert_eq!(columns.claimed(index), row.claimed);
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
            // Authentication rejects such bytes earlier; this checks only that nothing panics.
            if let Ok(columns) = Columns::decode(Version::NEWEST, &bad, &plain) {
                for index in 0..columns.len() {
                    let _ = (columns.texts(index), columns.payload(index));
                }
            }
        }
    }
    assert!(Columns::decode(Version::NEWEST, &vec![0xFF; 64], &plain).is_err());
}

/// Returns the rows from which the encoder of version 2 made `version-2.txt`; they use every form
/// of it.
fn captured_rows() -> Vec<u8> {
    rows(96, |column, index| match column {
        0 => ["create", "read", "update", "delete"][index * 7 % 4].into(),
        1 => format!("user:{}", index * 31 % 20),
        2 => format!("{}", index * 31 % 20 / 2),
        3 => "acme".into(),
        4 => format!("p{}", if index % 20 == 0 { index % 7 } else { 0 }),
        5 => format!("unique-{index}"),
        6 => String::new(),
        7 => format!("{}", index * 5 % 13),
        _ => "x".repeat(index % 9),
    })
}

/// Returns the captured bytes named `name`: packed and plain part of a body, or a row.
fn captured(name: &str) -> Vec<Vec<u8>> {
    let mut lines = include_str!("version-2.txt").lines();
    let line = lines.find_map(|line| line.strip_prefix(&format!("{name} ")));
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).unwrap();
        u8::from_str_radix(pair, 16).unwrap()
    };
    let words = line.unwrap().split(' ');
    words
        .map(|word| word.as_bytes().chunks(2).map(byte).collect())
        .collect()
}

/// Logs of version 2 stay readable. The encoder that wrote these bytes was removed.
#[test]
fn bodies_of_version_2_are_read() {
    let rows = captured_rows();
    let first = Rows::new(&rows).next().unwrap();
    assert_eq!(captured("row"), [first.bytes]);
    let shared = |column| column != 1;
    let subject = |column| column == 1 || column == 2;
    let all = |_column| true;
    let sets: [(&str, &dyn Fn(usize) -> bool); 3] =
        [("all", &all), ("shared", &shared), ("subject", &subject)];
    for (name, has) in sets {
        let body = captured(name);
        let columns = Columns::decode(Version::V2, &body[0], &body[1]).unwrap();
        assert_eq!(columns.len(), 96);
        for (index, row) in Rows::new(&rows).enumerate() {
            let mut texts = row.texts;
            for (column, text) in texts.iter_mut().enumerate().filter(|(c, _)| !has(*c)) {
                *text = b"";
                assert!(columns.text(column).unwrap().words().is_empty());
            }
            assert_eq!(columns.texts(index), texts, "{name}");
            let (payload, time, outcome) = match name {
                "shared" => (&[][..], row.time, row.outcome),
                "subject" => (row.payload, 0, 0),
                _ => (row.payload, row.time, row.outcome),
            };
            assert_eq!(columns.payload(index), payload, "{name}");
            assert_eq!(
                (columns.time(index), columns.outcome(index)),
                (time, outcome)
            );
            assert_eq!((columns.taken(index), columns.claimed(index)), (0, 0));
            if name == "all" {
                let expected = row.entry().unwrap();
                assert!(columns.entry(index).unwrap() == expected);
            }
        }
    }
    let none = captured("none");
    let columns = Columns::decode(Version::V2, &none[0], &[0; 0]).unwrap();
    assert!(columns.is_empty());
}

/// No body is valid in both versions, and a damaged body of version 2 is refused or harmless.
#[test]
fn bodies_of_version_2_are_checked_like_others() {
    for name in ["all", "shared", "subject"] {
        let body = captured(name);
        assert!(Columns::decode(Version::V3, &body[0], &body[1]).is_err());
        for cut in 0..body[0].len() {
            assert!(Columns::decode(Version::V2, &body[0][..cut], &body[1]).is_err());
        }
        for place in 0..body[0].len() {
            for bit in 0..8 {
                let mut bad = body[0].clone();
                bad[place] ^= 1 << bit;
                if let Ok(columns) = Columns::decode(Version::V2, &bad, &body[1]) {
                    for index in 0..columns.len() {
                        let _ = (columns.texts(index), columns.payload(index));
                    }
                }
            }
        }
    }
}

/// A column without values takes no bytes, not even a count of words.
#[test]
fn columns_without_values_are_not_there() {
    let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
    let entry = Entry::new(time, "read", b"");
    let mut row = vec![0; row_bytes(&entry)];
    encode_row(&entry, &mut row);
    let rows = row.repeat(5);
    let (packed, plain) = encode(&mut Encoder::default(), &rows, ColumnSet::ALL);
    // Set, count, first time, one block of differences, one outcome, and one action of one word.
    assert_eq!(packed.len(), 2 + 1 + 8 + 2 + 2 + 2);
    assert_eq!(plain, b"\x04read");
    for (set, left) in [(ColumnSet::SUBJECT, 0), (ColumnSet::SHARED, 0x12)] {
        let (packed, plain) = encode(&mut Encoder::default(), &rows, set);
        assert_eq!(packed[..2], [left, 0]);
        let columns = Columns::decode(Version::V3, &packed, &plain).unwrap();
        assert_eq!(columns.len(), 5);
    }
    // The words of the shared column determine the sections of subjects, even if that column is
    // absent.
    let (packed, plain) = encode(&mut Encoder::default(), &rows, ColumnSet::SHARED);
    let columns = Columns::decode(Version::V3, &packed, &plain).unwrap();
    assert_eq!(columns.text(super::SUBJECTS).unwrap().words(), [b""]);
}

/// Another encoding than the encoder's would be a second body for the same entries.
#[test]
fn what_the_encoder_would_not_write_is_refused() {
    let two = rows(2, |column, index| match column {
        0 => ["read", "read2"][index].into(),
        _ => String::new(),
    });
    let (packed, plain) = encode(&mut Encoder::default(), &two, ColumnSet::ALL);
    let decode =
        |packed: &[u8], plain: &[u8]| Columns::decode(Version::V3, packed, plain).map(drop);
    assert_eq!(decode(&packed, &plain), Ok(()));
    let words = packed.len() - 2;
    assert_eq!(packed[words..], [2, 2], "two words, one for each entry");
    let with = |numbers: &[u8]| decode(&[&packed[..words], numbers].concat(), &plain);
    assert_eq!(with(&[2, 1, 0b10]), Ok(()), "the same in another form");
    for bad in [&[2, 0][..], &[2, 1, 0b01], &[2, 1, 0b00], &[2, 1, 0b110]] {
        assert!(with(bad).is_err(), "{bad:?}");
    }
    for bad in [
        &[2, 3, 4, 0b10][..],
        &[2, 3, 5, 0b10],
        &[2, 3, 0, 0b10],
        &[2, 4],
    ] {
        assert!(
            with(bad).is_err(),
            "{bad:?}: it follows from none before it"
        );
    }
    let empty = [&packed[..words], &[1, 0]].concat();
    assert!(decode(&empty, &[0]).is_err(), "a column without values");
    for set in [0x10_u16, 0x14, 0x18] {
        let bad = [&set.to_le_bytes(), &packed[2..]].concat();
        assert!(decode(&bad, &plain).is_err(), "columns without times");
    }
}
