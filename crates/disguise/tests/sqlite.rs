//! All claims, on `SQLite`.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::path::Path;

use probity_disguise::Database;
use probity_disguise::database::Sqlite;

#[path = "peculiar/sqlite.rs"]
mod of_sqlite;
#[macro_use]
mod suite;

/// Random schedules tried in the gate.
const SCHEDULES: u64 = 150;
/// One of so many places is tried where a disguise in chunks may be interrupted.
const CUTS: usize = 1;
/// One of so many cases of a claim is tried.
const ONE_OF: usize = 1;

/// A table of awkward values; the key has two columns, one of them text.
const KINDS: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code TEXT, part INTEGER, a, b BLOB, c REAL, d TEXT, PRIMARY KEY (code, part))",
    "INSERT INTO kinds VALUES (1, 'NULL', 1, NULL, x'00ff', -0.0, 'a''b\"c')",
    "INSERT INTO kinds VALUES (1, '', 2, 9223372036854775807, NULL, 5e-324, '0012')",
    "INSERT INTO kinds VALUES (1, '?', 3, -9223372036854775808, x'', 9e999, char(0) || 'x')",
    "INSERT INTO kinds VALUES (1, 'x', 4, 1.5, 'text in a blob column', 0.1, NULL)",
];

fn kinds() -> &'static [&'static str] {
    KINDS
}

fn connect() -> Box<dyn Database> {
    let mut database = Sqlite::open(Path::new(":memory:")).unwrap();
    database.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    Box::new(database)
}

macro_rules! tests {
    ($($claim:ident)*) => {
        $(#[test]
        fn $claim() {
            suite::$claim();
        })*
    };
}

for_every_claim!(tests);

#[test]
fn what_a_table_says_of_conflicts_costs_no_row() {
    of_sqlite::what_a_table_says_of_conflicts_costs_no_row();
}

#[test]
fn what_a_trigger_says_of_conflicts_holds() {
    of_sqlite::what_a_trigger_says_of_conflicts_holds();
}

#[test]
fn a_trigger_that_ends_the_transaction_ends_the_operation() {
    of_sqlite::a_trigger_that_ends_the_transaction_ends_the_operation();
}

#[test]
fn a_row_with_null_in_its_key_is_not_said_to_be_hidden() {
    of_sqlite::a_row_with_null_in_its_key_is_not_said_to_be_hidden();
}

#[test]
fn a_text_that_is_not_utf_8_is_named() {
    of_sqlite::a_text_that_is_not_utf_8_is_named();
}

#[test]
fn a_text_that_is_not_utf_16_is_named() {
    of_sqlite::a_text_that_is_not_utf_16_is_named();
}

#[test]
fn an_owner_column_of_another_type_is_noted() {
    of_sqlite::an_owner_column_of_another_type_is_noted();
}

#[test]
fn a_placeholder_that_a_value_of_another_type_names_stays() {
    of_sqlite::a_placeholder_that_a_value_of_another_type_names_stays();
}

/// D5: a row whose column compares letter by letter refers all the same to what `SQLite` finds by the collation of the key. It
/// went by `ON DELETE CASCADE` unseen; now it leaves and comes back with its owner.
#[test]
fn a_row_that_is_found_by_the_collation_of_the_key_alone_does_not_cascade_away() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id TEXT COLLATE NOCASE PRIMARY KEY)",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, member TEXT REFERENCES members ON DELETE CASCADE)",
        "INSERT INTO members VALUES ('ada')",
        "INSERT INTO notes VALUES (6, 'ada'), (7, 'ADA')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let number = "RandNum = { lb = 1000000, ub = 2000000000 }";
    let description = suite::member::NOTES.replacen(number, "RandStr = { len = 8 }", 1);
    let mut member =
        suite::member::Member::called(probity_disguise::Value::from("ada"), database, &description);
    member.leaves_and_returns(["members", "notes"]);
    member.leave();
    assert_eq!(member.rows(["notes"]).map(|rows| rows.len()), [0]);
}

#[test]
fn an_id_of_two_types_is_refused() {
    of_sqlite::an_id_of_two_types_is_refused();
}

#[test]
fn a_number_that_names_an_id_of_text_is_refused() {
    of_sqlite::a_number_that_names_an_id_of_text_is_refused();
}

#[test]
fn a_value_that_is_an_id_in_another_storage_class_is_refused() {
    of_sqlite::a_value_that_is_an_id_in_another_storage_class_is_refused();
}

#[test]
fn no_row_without_a_key_is_passed_over_in_parts() {
    of_sqlite::no_row_without_a_key_is_passed_over_in_parts();
}

#[test]
fn a_key_that_compares_otherwise_than_its_column_is_none() {
    of_sqlite::a_key_that_compares_otherwise_than_its_column_is_none();
}

#[test]
#[ignore = "takes about two hours"]
fn a_hundred_thousand_schedules_do_what_the_model_says() {
    suite::schedule::many_random_schedules(100_000);
}
