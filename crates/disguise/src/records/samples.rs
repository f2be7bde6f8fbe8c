//! Examples of sealed records, for tests and the fuzz targets.

use std::collections::{BTreeMap, BTreeSet};

use crate::crypto::record_key::RecordKey;
use crate::crypto::suite::PublicKey;
use crate::database::value::Value;
use crate::records::bag::Bag;
use crate::records::day::Day;
use crate::records::locator::{Locator, OWNER_BYTES};
use crate::records::section::{
    Change, Copied, Modified, Origin, PrincipalKind, Section, SpeaksFor,
};
use crate::records::shape::ShapeOf;

/// A bag with a section of each kind.
pub(super) fn full_bag() -> Bag {
    let row = Modified {
        identity: vec![Value::Int(7)],
        before: Value::Null,
        after: Value::from("gone"),
    };
    let section = |step, change| Section {
        step,
        table: "posts".to_owned(),
        change,
        shape: ShapeOf::None,
        held: None,
    };
    let columns = vec!["id".to_owned(), "text".to_owned()];
    let identity = vec!["id".to_owned()];
    Bag {
        seed: RecordKey::new([7; 32]),
        principals: vec![(
            Value::Int(19),
            PublicKey::X25519([1; 32]),
            PrincipalKind::Departed,
        )],
        speaks_for: vec![SpeaksFor {
            old: Value::Int(19),
            new: Value::Int(1 << 40),
            index: 3,
            gone: true,
            left: true,
            retained: false,
        }],
        sections: vec![
            section(
                0,
                Change::Removed {
                    columns: columns.clone(),
                    rows: vec![vec![Value::Int(1), Value::Null]],
                },
            ),
            section(
                0,
                Change::Copied {
                    departed: true,
                    columns,
                    rows: vec![Copied {
                        version: u64::MAX,
                        row: vec![Value::Int(2), Value::Null],
                    }],
                },
            ),
            section(
                1,
                Change::Modified {
                    identity: identity.clone(),
                    column: "text".to_owned(),
                    rows: vec![row.clone()],
                },
            ),
            section(
                2,
                Change::Decorrelated {
                    identity,
                    column: "who".to_owned(),
                    rows: vec![row],
                },
            ),
        ],
        nobody: BTreeSet::new(),
        named: BTreeMap::new(),
        unawaited: Vec::new(),
    }
}

/// A locator with every flag that it may have at once.
pub(super) fn full_locator(owner: Option<[u8; OWNER_BYTES]>) -> Locator {
    Locator {
        origin: Origin {
            disguise: u64::MAX,
            time: -1,
            updates: 2,
            expires: Day::from_number(7),
            cohort: 8,
        },
        key: RecordKey::new([9; 32]),
        parts: 4,
        speaks_for: true,
        changes: false,
        copies: true,
        values: false,
        pending: true,
        owner,
    }
}
