//! Rows of `SQLite` that refer to a row of their own table which is not there: no change of them is
//! taken.

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Error, Value};

use super::society::{Society, description};

/// Makes posts of two people, each with an answer to the first.
fn posts(transformation: &str) -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), boss BIGINT REFERENCES people(id))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, body VARCHAR(20), parent BIGINT REFERENCES posts(id))",
        "INSERT INTO people VALUES (1, 'one', 3), (2, 'two', NULL), (3, 'three', NULL)",
        "INSERT INTO posts VALUES (9, 3, 'root', NULL), (10, 1, 'a', NULL), (11, 1, 'b', 9), (12, 2, 'c', NULL)",
    ]
    .map(str::to_owned);
    let tables = "[tables.posts]\nowners = [\"who\"]\n";
    let described = format!("{tables}{transformation}");
    Society::of(&statements, &description(&described), &[1, 2])
}

const ANONYMISED: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n";
const OVERWRITTEN: &str = "[[modify]]\ntable = \"posts\"\ncolumn = \"body\"\nvalue = \"Null\"\n";

/// Takes away the first post, to which one answer goes on to refer.
fn orphan(society: &mut Society) {
    society.sql("PRAGMA foreign_keys = OFF");
    society.sql("DELETE FROM posts WHERE id = 9");
    society.sql("PRAGMA foreign_keys = ON");
}

/// A disguise was refused at the commit, without a word of the row, and nothing had foretold it.
pub(crate) fn a_row_without_its_row_of_the_same_table_is_foretold_and_named() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    for (transformation, chunk) in [
        (ANONYMISED, None),
        (OVERWRITTEN, None),
        (ANONYMISED, Some(1)),
    ] {
        let what = format!("{transformation} {chunk:?}");
        let mut society = posts(transformation);
        orphan(&mut society);
        society.before = society.everything();
        let none = BTreeMap::new();
        let spec = society.spec.clone();
        let foretell = |society: &mut Society, user| {
            let user = Some(Value::Int(user));
            society
                .engine
                .preview()
                .foretell(&spec, user.as_ref(), &none)
                .unwrap()
        };
        let told = foretell(&mut society, 1);
        assert!(
            told.len() == 1 && told[0].contains("(parent)"),
            "{what} {told:?}"
        );
        assert!(foretell(&mut society, 2).is_empty(), "{what}");
        if chunk.is_none() {
            let refused = society.try_to_leave(Some(1), false, chunk);
            assert!(
                matches!(&refused, Err(Error::Database { source, .. }) if source.message.contains("(parent)")),
                "{what} {refused:?}"
            );
            society.assert_as_before(&what);
        }
        let id = society.leave(2);
        assert!(society.reveal(2, id).is_complete(), "{what}");
        society.assert_as_before(&what);
        society.sql("INSERT INTO posts VALUES (9, 3, 'root', NULL)");
        society.before = society.everything();
        assert!(foretell(&mut society, 1).is_empty(), "{what}");
        let id = society.try_to_leave(Some(1), false, chunk).unwrap().id;
        assert!(society.reveal(1, id).is_complete(), "{what}");
        society.assert_as_before(&what);
    }
}

/// A row that came to refer to nothing refused, at the commit, all that its person had.
pub(crate) fn a_row_that_lost_its_row_of_the_same_table_keeps_no_other_away() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    for transformation in [ANONYMISED, OVERWRITTEN] {
        let mut society = posts(transformation);
        let id = society.leave(1);
        orphan(&mut society);
        let revealed = society.reveal(1, id);
        assert_eq!(revealed.kept.len(), 1, "{transformation} {revealed:?}");
        let said: Vec<&String> = revealed
            .kept
            .iter()
            .filter_map(|it| it.said.as_ref())
            .collect();
        assert!(
            said.len() == 1 && said[0].contains("(parent)"),
            "{transformation} {said:?}"
        );
        let back = "SELECT id FROM posts WHERE who = 1 AND body IS NOT NULL";
        assert_eq!(society.numbers(back), [10], "{transformation}");
        society.sql("INSERT INTO posts VALUES (9, 3, 'root', NULL)");
        let revealed = society.reveal(1, id);
        assert!(revealed.is_complete(), "{transformation} {revealed:?}");
        society.assert_as_before(transformation);
    }
}
