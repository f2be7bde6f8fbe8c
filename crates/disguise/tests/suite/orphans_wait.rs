//! A row that cannot come back keeps the rows that refer to it, and nothing else.

use std::collections::BTreeMap;

use super::sample::Sample;
use super::society::{Society, description};

const PEOPLE: &str = "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))";

/// A comment answers one of its author's that quotes one of somebody who does not come back. Only
/// the one that quotes was held back by its reference, so that a database refused the whole reveal
/// at its commit, or the answer came back without what it answers.
pub(crate) fn rows_wait_over_several_references_to_their_own_table() {
    let mut sample = Sample::new();
    let said = "references = [{ columns = [\"answers\"], table = \"comments\", to = [\"id\"] }, \
                { columns = [\"quotes\"], table = \"comments\", to = [\"id\"] }]\n";
    let turned = "references = [{ columns = [\"quotes\"], table = \"comments\", to = [\"id\"] }, \
                  { columns = [\"answers\"], table = \"comments\", to = [\"id\"] }]\n";
    let answers = "FOREIGN KEY (answers) REFERENCES comments (id)";
    let quotes = "FOREIGN KEY (quotes) REFERENCES comments (id)";
    let declared = [
        format!(", {answers}, {quotes}"),
        format!(", {quotes}, {answers}"),
    ];
    let cases = [
        ("", said),
        ("", turned),
        (&declared[0], ""),
        (&declared[1], ""),
    ];
    for (keys, said) in cases {
        for forgets in [true, false] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{keys} {said} {forgets}");
            let statements = [
                PEOPLE.to_owned(),
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
                format!(
                    "CREATE TABLE comments (id BIGINT PRIMARY KEY, who BIGINT, answers BIGINT, quotes BIGINT{keys})"
                ),
                "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
                "INSERT INTO notes VALUES (1, 1)".to_owned(),
                "INSERT INTO comments VALUES (1, 2, NULL, NULL)".to_owned(),
                "INSERT INTO comments VALUES (4, 1, NULL, 1)".to_owned(),
                "INSERT INTO comments VALUES (3, 1, 4, NULL), (5, 1, NULL, NULL)".to_owned(),
            ];
            let described = description(&format!(
                "[tables.comments]\nowners = [\"who\"]\n{said}[tables.notes]\nowners = [\"who\"]\n\
                 [[remove]]\ntable = \"comments\"\n[[remove]]\ntable = \"notes\"\n"
            ));
            let mut society = Society::of(&statements, &described, &[1, 2]);
            let gone: BTreeMap<_, _> = [1, 2].map(|user| (user, society.leave(user))).into();
            if forgets {
                society.forget_everything(2);
            }
            for _ in 0..2 {
                let revealed = society.reveal(1, gone[&1]);
                assert_eq!(revealed.kept.len(), 2, "{what} {revealed:?}");
                let people = society.numbers("SELECT id FROM people WHERE id < 100");
                let notes = society.numbers("SELECT id FROM notes");
                let comments = society.numbers("SELECT id FROM comments");
                assert_eq!(
                    (people, notes, comments),
                    (vec![1], vec![1], vec![5]),
                    "{what}"
                );
            }
            if !forgets {
                society.reveal(2, gone[&2]);
                society.try_again(&gone);
                society.assert_as_before(&what);
            }
        }
    }
}

/// Somebody took what must be unique in a row meanwhile. The rows that answer it were put back all
/// the same where keys are looked at late, so that the whole reveal was refused, for as long as the
/// other row stands.
pub(crate) fn rows_wait_for_a_parent_that_the_database_refuses() {
    for cascades in ["", " ON DELETE CASCADE"] {
        let statements = [
            PEOPLE.to_owned(),
            format!(
                "CREATE TABLE comments (id BIGINT PRIMARY KEY, who BIGINT, answers BIGINT, slug VARCHAR(20) UNIQUE, \
                 FOREIGN KEY (answers) REFERENCES comments (id){cascades})"
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            "INSERT INTO comments VALUES (1, 1, NULL, 'first')".to_owned(),
            "INSERT INTO comments VALUES (2, 1, 1, 'second'), (7, 1, NULL, 'other')".to_owned(),
            "INSERT INTO comments VALUES (3, 1, 2, 'third'), (8, 1, 7, 'more')".to_owned(),
        ];
        let described = description(
            "[tables.comments]\nowners = [\"who\"]\n[[remove]]\ntable = \"comments\"\n",
        );
        let mut society = Society::of(&statements, &described, &[1, 2]);
        let gone = society.leave(1);
        society.sql("INSERT INTO comments VALUES (9, 2, NULL, 'first')");
        for _ in 0..2 {
            let revealed = society.reveal(1, gone);
            assert_eq!(revealed.kept.len(), 3, "{cascades} {revealed:?}");
            let comments = society.numbers("SELECT id FROM comments ORDER BY id");
            assert_eq!(comments, [7, 8, 9], "{cascades}");
            let people = society.numbers("SELECT id FROM people WHERE id < 100 ORDER BY id");
            assert_eq!(people, [1, 2], "{cascades}");
        }
        society.sql("DELETE FROM comments WHERE id = 9");
        let revealed = society.reveal(1, gone);
        assert!(revealed.is_complete(), "{cascades} {revealed:?}");
        society.assert_as_before(cascades);
    }
}
