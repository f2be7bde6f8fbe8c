//! Columns that are overwritten together, and come back together or one by one.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeSet;

use probity_disguise::KeptReason;

use super::forum::*;
use super::statements::{statements, work_without_a_log};

/// Both columns of all labels.
const BOTH: &str = r#"{"labels": [
  {"Modify": {"pred": "True", "from": "", "col": "name", "gen_value": {"RandStr": {"len": 12}}}},
  {"Modify": {"pred": "True", "from": "", "col": "colour", "gen_value": {"ConstStr": "grey"}}}]}"#;

/// A forum whose users have labels, three of them the first one's.
fn labelled() -> Forum {
    let mut forum = forum();
    forum.sql("CREATE TABLE labels (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users(id), name VARCHAR(40) UNIQUE, colour VARCHAR(40))");
    forum.sql("INSERT INTO labels VALUES (1, 1, 'one', 'red'), (2, 1, 'two', NULL), (3, 1, 'three', 'blue'), (4, 2, 'four', 'red')");
    forum
}

fn labels(forum: &mut Forum) -> BTreeSet<String> {
    let rows = forum.engine.preview().rows("labels").unwrap();
    rows.iter().map(|row| format!("{row:?}")).collect()
}

pub(crate) fn columns_of_the_same_rows_leave_and_return_by_one_statement() {
    let mut forum = labelled();
    let before = labels(&mut forum);
    work_without_a_log(&mut forum);
    let (applied, taken) = statements(&mut forum, |it| it.apply(BOTH, Some(1), false));
    let applied = applied.unwrap();
    assert_eq!(applied.rows["labels"], 6);
    // What it stands on; the rows before, written, and read back; the shape of their table, which came later; the records and
    // their locator; which log is noted, and the operation.
    assert_eq!(taken, 1 + 3 + 1 + 2 + 2);
    let hidden = "SELECT id FROM labels WHERE colour = 'grey' AND length(name) = 12 ORDER BY id";
    assert_eq!(forum.numbers(hidden), [1, 2, 3]);
    let (revealed, taken) = statements(&mut forum, |it| it.reveal(1, applied.id));
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(revealed.values["labels"], 6);
    // What it stands on; the locators and the records; the rows as they are, and written; that the records are none any more,
    // and their two tables; which log is noted, and the operation.
    assert_eq!(taken, 1 + 2 + 2 + 3 + 2);
    assert_eq!(labels(&mut forum), before);
}

pub(crate) fn what_cannot_return_keeps_neither_the_rest_of_its_row_nor_other_rows() {
    let mut forum = labelled();
    let before = labels(&mut forum);
    let applied = forum.apply(BOTH, Some(1), false).unwrap();
    // The application wins in one column of one row, and gives the name of another to somebody else.
    forum.sql("UPDATE labels SET colour = 'green' WHERE id = 1");
    forum.sql("UPDATE labels SET name = 'two' WHERE id = 4");
    let revealed = forum.reveal(1, applied.id);
    assert_eq!(revealed.values["labels"], 4);
    let kept = revealed.kept.iter();
    let kept: BTreeSet<(&str, &str, KeptReason)> = kept
        .map(|it| (&*it.identity, it.column.as_deref().unwrap(), it.reason))
        .collect();
    let expected = [
        ("1", "colour", KeptReason::Changed),
        ("2", "name", KeptReason::Refused),
    ];
    assert_eq!(kept, BTreeSet::from(expected));
    let names = "SELECT COUNT(*) FROM labels WHERE (id = 1 AND name = 'one') OR (id = 2 AND colour IS NULL) OR (id = 3 AND name = 'three' AND colour = 'blue')";
    assert_eq!(forum.numbers(names), [3]);
    forum.sql("UPDATE labels SET colour = 'grey' WHERE id = 1");
    forum.sql("UPDATE labels SET name = 'four' WHERE id = 4");
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(labels(&mut forum), before);
}

pub(crate) fn a_step_whose_rows_an_earlier_one_changes_is_taken_after_it() {
    let mut forum = labelled();
    let before = labels(&mut forum);
    let spec = BOTH.replace("True", "colour = 'red'");
    // The name goes first, and then the colour by which both are chosen.
    let applied = forum.apply(&spec, Some(1), false).unwrap();
    assert_eq!(applied.rows["labels"], 2);
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(labels(&mut forum), before);
    let (first, second) = (r#""name""#, r#""colour""#);
    let turned = spec.replace(first, "turned").replace(second, first);
    let turned = turned.replace("turned", second);
    let turned = turned.replace(r#"{"RandStr": {"len": 12}}"#, r#"{"ConstStr": "black"}"#);
    // The colour goes first, and then there is no red label to take the name from.
    let applied = forum.apply(&turned, Some(1), false).unwrap();
    assert_eq!(applied.rows["labels"], 1);
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(labels(&mut forum), before);
}

pub(crate) fn rows_made_for_one_of_many_placeholders_move_and_those_of_its_neighbour_stay() {
    let mut forum = forum();
    let applied = forum.apply(ANON, Some(1), false).unwrap();
    assert_eq!(applied.pseudoprincipals, 9);
    let made = forum.numbers("SELECT id FROM users WHERE id >= 1000000 ORDER BY id");
    // Beside the rows of before, one made meanwhile for one of them in the middle, and one of the nearest neighbour.
    forum.sql(&format!(
        "INSERT INTO stories VALUES (99, {}, 'new', 0)",
        made[4]
    ));
    let other = made[4] + 1;
    forum.sql(&format!("INSERT INTO users VALUES ({other}, 'near', 0)"));
    forum.sql(&format!(
        "INSERT INTO stories VALUES (98, {other}, 'near', 0)"
    ));
    assert!(forum.reveal(1, applied.id).is_complete());
    let owners = "SELECT user_id FROM stories WHERE id IN (98, 99) ORDER BY id";
    assert_eq!(forum.numbers(owners), [other, 1]);
    forum.sql("DELETE FROM stories WHERE id IN (98, 99)");
    forum.sql("DELETE FROM users WHERE username = 'near'");
    forum.assert_as_before();
}
