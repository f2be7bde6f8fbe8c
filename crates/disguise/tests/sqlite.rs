//! All claims, on `SQLite`.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::path::Path;

use probity_disguise::Database;
use probity_disguise::database::Sqlite;

mod suite;

/// Random schedules tried in the gate.
const SCHEDULES: u64 = 150;

/// A table of awkward values; the key has two columns, one of them text.
const KINDS: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code TEXT, part INTEGER, a, b BLOB, c REAL, d TEXT, PRIMARY KEY (code, part))",
    "INSERT INTO kinds VALUES (1, 'NULL', 1, NULL, x'00ff', -0.0, 'a''b\"c')",
    "INSERT INTO kinds VALUES (1, '', 2, 9223372036854775807, NULL, 5e-324, '0012')",
    "INSERT INTO kinds VALUES (1, '?', 3, -9223372036854775808, x'', 9e999, char(0) || 'x')",
    "INSERT INTO kinds VALUES (1, 'x', 4, 1.5, 'text in a blob column', 0.1, NULL)",
];

fn connect() -> Box<dyn Database> {
    let mut database = Sqlite::open(Path::new(":memory:")).unwrap();
    database.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    Box::new(database)
}

#[test]
fn removal_takes_user_and_stories_and_keeps_moderations_under_placeholders() {
    suite::removal_takes_user_and_stories_and_keeps_moderations_under_placeholders();
}

#[test]
fn anonymising_everybody_gives_each_row_and_column_its_own_placeholder() {
    suite::anonymising_everybody_gives_each_row_and_column_its_own_placeholder();
}

#[test]
fn rows_of_one_owner_and_group_share_a_placeholder() {
    suite::rows_of_one_owner_and_group_share_a_placeholder();
}

#[test]
fn a_join_chooses_rows_and_nothing_else() {
    suite::a_join_chooses_rows_and_nothing_else();
}

#[test]
fn removal_over_an_anonymisation_comes_back_anonymous_and_then_in_full() {
    suite::removal_over_an_anonymisation_comes_back_anonymous_and_then_in_full();
}

#[test]
fn the_older_disguise_may_be_revealed_first() {
    suite::the_older_disguise_may_be_revealed_first();
}

#[test]
fn chains_of_any_depth_unwind_in_any_order() {
    suite::chains_of_any_depth_unwind_in_any_order();
}

#[test]
fn values_overwritten_twice_come_back_in_any_order() {
    suite::values_overwritten_twice_come_back_in_any_order();
}

#[test]
fn owners_of_shared_rows_leave_and_return_in_any_order() {
    suite::owners_of_shared_rows_leave_and_return_in_any_order();
}

#[test]
fn shared_rows_removed_for_everybody_come_back_owner_by_owner() {
    suite::shared_rows_removed_for_everybody_come_back_owner_by_owner();
}

#[test]
fn the_application_wins_and_a_retry_finds_what_is_left() {
    suite::the_application_wins_and_a_retry_finds_what_is_left();
}

#[test]
fn a_changed_value_stays_and_the_rest_of_the_row_follows_the_choice() {
    suite::a_changed_value_stays_and_the_rest_of_the_row_follows_the_choice();
}

#[test]
fn rows_made_meanwhile_follow_the_policy() {
    suite::rows_made_meanwhile_follow_the_policy();
}

#[test]
fn only_the_right_credential_opens_anything() {
    suite::only_the_right_credential_opens_anything();
}

#[test]
fn what_is_forgotten_never_comes_back() {
    suite::what_is_forgotten_never_comes_back();
}

#[test]
fn wrong_specifications_change_nothing_and_name_their_place() {
    suite::wrong_specifications_change_nothing_and_name_their_place();
}

#[test]
fn users_without_a_key_are_refused_before_anything_changes() {
    suite::users_without_a_key_are_refused_before_anything_changes();
}

#[test]
fn random_schedules_end_where_they_began() {
    suite::random_schedules_end_where_they_began();
}

#[test]
fn a_cut_at_any_statement_changes_nothing() {
    suite::a_cut_at_any_statement_changes_nothing();
}

#[test]
fn every_kind_of_value_comes_back_bit_by_bit() {
    suite::every_kind_of_value_comes_back_bit_by_bit();
}

#[test]
fn forgetting_one_disguise_leaves_the_way_to_another() {
    suite::forgetting_one_disguise_leaves_the_way_to_another();
}
