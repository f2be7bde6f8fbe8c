//! The parsers of sealed records, for the fuzz targets alone.

use crate::crypto::suite::PublicKey;
use crate::database::value::Value;
use crate::records::bag::{Bag, Locator, OWNER_BYTES};
use crate::records::day::Day;
use crate::records::section::{
    Change, Copied, Modified, Origin, PrincipalKind, Section, SpeaksFor,
};

/// Reads a bag and encodes it again; nothing where it is refused.
pub fn bag(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Bag::decode(bytes).ok()?.encode())
}

/// Reads a locator and encodes it again; nothing where it is refused.
pub fn locator(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Locator::decode(bytes).ok()?.encode())
}

/// Returns bags with a section of each kind.
pub fn bags() -> Vec<Vec<u8>> {
    let columns = vec!["id".to_owned(), "text".to_owned()];
    let identity = vec!["id".to_owned()];
    let modified = Modified {
        identity: vec![Value::Int(7)],
        before: Value::Null,
        after: Value::from("gone"),
    };
    let copied = Copied {
        version: 3,
        row: vec![Value::Int(2), Value::Real(0.5)],
    };
    let changes = [
        Change::Removed {
            columns: columns.clone(),
            rows: vec![vec![Value::Int(1), Value::Bytes(vec![0, 255])]],
        },
        Change::Copied {
            departed: true,
            columns,
            rows: vec![copied],
        },
        Change::Modified {
            identity: identity.clone(),
            column: "text".to_owned(),
            rows: vec![modified.clone()],
        },
        Change::Decorrelated {
            identity,
            column: "who".to_owned(),
            rows: vec![modified],
        },
    ];
    let sections = changes.into_iter().zip(0..).map(|(change, step)| Section {
        step,
        table: "posts".to_owned(),
        change,
    });
    let public = PublicKey::X25519([1; 32]);
    let bag = Bag {
        principals: vec![(Value::Int(19), public, PrincipalKind::Departed)],
        speaks_for: vec![SpeaksFor {
            old: Value::Int(19),
            new: Value::Int(1 << 40),
            index: 3,
            gone: true,
            left: true,
            retained: false,
        }],
        sections: sections.collect(),
        ..Bag::empty([7; 32])
    };
    vec![bag.encode(), Bag::empty([8; 32]).encode()]
}

/// Returns a locator of each version.
pub fn locators() -> Vec<Vec<u8>> {
    let locator = |owner| Locator {
        origin: Origin {
            disguise: 5,
            time: -1,
            updates: 2,
            expires: Day::from_number(7),
            cohort: 8,
        },
        key: [9; 32],
        parts: 4,
        speaks_for: true,
        changes: false,
        copies: true,
        values: false,
        pending: true,
        owner,
    };
    [None, Some([6; OWNER_BYTES])]
        .map(|owner| locator(owner).encode())
        .into()
}
