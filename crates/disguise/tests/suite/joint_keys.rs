//! Keys of several columns, by which rows refer to each other in a circle.

#![expect(clippy::panic, reason = "tests stop at the first surprise")]

use probity_disguise::Dialect;

use super::accounts_begin::Declared;
use super::society::{Society, description};

/// Keys of several columns were compared as they were written: rows of one person that refer to each
/// other in another spelling waited for each other for good.
pub(crate) fn rows_in_a_circle_of_joint_keys_in_other_spellings_come_back() {
    let (org, rows) = match crate::connect().dialect() {
        Dialect::Sqlite => (
            "TEXT COLLATE NOCASE",
            [
                "INSERT INTO x VALUES (5, 1, 'Acme', 'acme', 6)",
                "INSERT INTO y VALUES (6, 1, 'Acme', 'ACME', 5)",
            ],
        ),
        Dialect::Postgres => (
            "NUMERIC(12,2)",
            [
                "INSERT INTO x VALUES (5, 1, 50, 50, 6)",
                "INSERT INTO y VALUES (6, 1, 50, 50, 5)",
            ],
        ),
        // It lets nobody of a circle leave.
        Dialect::Mysql => return,
        other => panic!("{other:?}"),
    };
    let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
    let of_reference = if is_at_once { org } else { "INTEGER" };
    let late = "DEFERRABLE INITIALLY DEFERRED";
    let keys = [("x", "yo", "y"), ("y", "xo", "x")];
    let key = |(_, joint, to): (&str, &str, &str)| {
        format!("FOREIGN KEY ({joint}, {to}) REFERENCES {to}(org, id) {late}")
    };
    let mut statements = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
    ];
    for it in keys {
        let (table, joint, to) = it;
        let own = if is_at_once {
            format!(", {}", key(it))
        } else {
            String::new()
        };
        statements.push(format!(
            "CREATE TABLE {table} (id BIGINT PRIMARY KEY, who BIGINT, org {org} NOT NULL, \
             {joint} {of_reference}, {to} BIGINT, UNIQUE (org, id){own})"
        ));
    }
    if is_at_once {
        statements.push("PRAGMA foreign_keys = OFF".to_owned());
        statements.extend(rows.map(str::to_owned));
        statements.push("PRAGMA foreign_keys = ON".to_owned());
    } else {
        statements.extend(rows.map(str::to_owned));
        statements.extend(keys.map(|it| format!("ALTER TABLE {} ADD {}", it.0, key(it))));
    }
    let described = description(
        "[tables.x]\nowners = [\"who\"]\n[tables.y]\nowners = [\"who\"]\n\
         [[remove]]\ntable = \"x\"\n[[remove]]\ntable = \"y\"\n",
    );
    let mut society = Society::of(&statements, &described, &[1, 2]);
    let gone = society.leave(1);
    society.reveal(1, gone);
    society.assert_as_before(org);
}

/// In chunks, the first column of a key to its own table that may be NULL was emptied, though it was
/// part of the key to which others refer: both rows came back without it, for good, or the chunk was
/// refused.
pub(crate) fn a_chunk_empties_no_column_of_the_key_referred_to() {
    let schema = Declared {
        tables: &[
            ("people", "id BIGINT PRIMARY KEY, name VARCHAR(20)"),
            (
                "items",
                "id BIGINT PRIMARY KEY, who BIGINT, org BIGINT, next BIGINT, UNIQUE (org, id)",
            ),
        ],
        keys: &[("items", "FOREIGN KEY (org, next) REFERENCES items(org, id)")],
        rows: &[
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO items VALUES (10, 1, 5, NULL), (11, 2, 5, 10)",
            "UPDATE items SET next = 11 WHERE id = 10",
        ],
    };
    for chunk in [None, Some(1), Some(5)] {
        for order in [[1, 2], [2, 1]] {
            let what = format!("{chunk:?} {order:?}");
            let mut society = schema.society(&[1, 2]);
            let gone = society.try_to_leave(None, false, chunk);
            let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
            for user in order.into_iter().chain(order).chain(order) {
                society.try_again(&[(user, gone)].into());
            }
            society.assert_as_before(&what);
        }
    }
}
