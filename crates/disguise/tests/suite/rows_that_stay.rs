//! Rows that stay while some of the people in them leave: nothing of them changes but these people.

use std::collections::BTreeMap;

use super::society::{Society, description};

/// Posts that pin a note, while notes belong to the owner of their post, and lines of a table that
/// refers to itself.
fn pinning() -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, post BIGINT)",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, a BIGINT, r BIGINT, pin BIGINT, FOREIGN KEY (pin) REFERENCES notes (id))",
        "CREATE TABLE lines_of (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, r BIGINT, p BIGINT, FOREIGN KEY (p) REFERENCES lines_of (id))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO notes VALUES (7, 1), (8, 2), (9, 3)",
        "INSERT INTO posts VALUES (1, 1, 2, 7), (2, 1, NULL, 8), (3, 2, 1, 9)",
        "INSERT INTO lines_of VALUES (1, 1, NULL, 2, NULL), (2, 1, NULL, 2, 1), (6, 1, 2, NULL, NULL), (3, 1, 2, NULL, 6), (4, 2, NULL, 1, NULL), (5, 2, NULL, NULL, 4)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.posts]\nowners = [\"a\"]\nreaders = [\"r\"]\n\
         [tables.lines_of]\nowners = [\"a\", \"b\"]\nreaders = [\"r\"]\n\
         [tables.notes]\nthrough = [\"post\"]\n\
         references = [{ columns = [\"post\"], table = \"posts\", to = [\"id\"] }]\n\
         [[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"posts\"\n\
         [[remove]]\ntable = \"lines_of\"\n",
    );
    Society::of(&statements, &described, &[1, 2])
}

/// References that had to be emptied before a removal were emptied in rows that the leaving person
/// only read or owned with others, too: those stayed without them, for good.
pub(crate) fn rows_that_stay_keep_their_references() {
    for chunk in [None, Some(1), Some(3)] {
        for first in [1, 2] {
            let what = format!("{chunk:?} {first}");
            let mut society = pinning();
            let mut gone = BTreeMap::new();
            for user in [first, 3 - first] {
                let kept = society.numbers("SELECT pin FROM posts WHERE a <> 2 ORDER BY id");
                let left = society.try_to_leave(Some(user), false, chunk).unwrap();
                gone.insert(user, left.id);
                if user == 2 && kept.len() == 2 {
                    let pins = society.numbers("SELECT pin FROM posts ORDER BY id");
                    assert_eq!(pins, [7, 8], "{what}");
                    let lines = society.numbers("SELECT p FROM lines_of ORDER BY id");
                    assert_eq!(lines, [-1, 1, 6, -1], "{what}");
                }
            }
            society.try_again(&gone);
            society.try_again(&gone);
            society.assert_as_before(&what);
        }
    }
}

/// A disguise of everybody left a row as it was whose path leads to nobody though it named a
/// reader: the id stood there in clear, for whoever got it next.
pub(crate) fn a_row_without_an_end_of_its_path_goes_to_its_reader() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, a BIGINT)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, post BIGINT, r BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO posts VALUES (1, 1), (2, NULL), (3, 98)",
        "INSERT INTO notes VALUES (1, NULL, 1), (2, 77, 2), (3, 2, 1), (4, 3, 2), (5, 1, 2)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.posts]\nowners = [\"a\"]\n\
         [tables.notes]\nthrough = [\"post\"]\nreaders = [\"r\"]\n\
         references = [{ columns = [\"post\"], table = \"posts\", to = [\"id\"] }]\n\
         [[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"posts\"\n",
    );
    for chunk in [None, Some(1)] {
        for first in [1, 2] {
            let what = format!("{chunk:?} {first}");
            let mut society = Society::of(&statements, &described, &[1, 2]);
            let id = society.try_to_leave(None, false, chunk).unwrap().id;
            // What refers to a row that is not there could not come back.
            assert_eq!(society.numbers("SELECT id FROM notes"), [2], "{what}");
            for user in [first, 3 - first] {
                society.reveal(user, id);
            }
            society.try_again(&[(1, id), (2, id)].into());
            society.assert_as_before(&what);
        }
    }
}

/// Everybody leaves in chunks and somebody comes back meanwhile: the others in their rows leave all
/// the same. Their ids stood there in clear, and a newcomer to one became a reader or an owner.
pub(crate) fn who_leaves_the_rows_of_somebody_back_leaves_no_id() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE logs (id BIGINT PRIMARY KEY, a BIGINT)",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, a BIGINT, b BIGINT, r BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO logs VALUES (1, 1), (2, 1)",
        "INSERT INTO posts VALUES (1, 1, NULL, 2), (2, 1, 2, 3), (3, 2, 1, 3), (4, 3, 2, 1), (5, NULL, NULL, 1)",
    ]
    .map(str::to_owned);
    for whole in ["", "on_leave = { a = \"remove\", b = \"remove\" }\n"] {
        let described = description(&format!(
            "[tables.logs]\nowners = [\"a\"]\n\
             [tables.posts]\nowners = [\"a\", \"b\"]\nreaders = [\"r\"]\n{whole}\
             [[remove]]\ntable = \"logs\"\n[[remove]]\ntable = \"posts\"\n"
        ));
        let mut is_done = false;
        for chunks in (0..).step_by(crate::CUTS) {
            if is_done {
                break;
            }
            let what = format!("{whole} {chunks}");
            let mut society = Society::of(&statements, &described, &[1, 2, 3]);
            let id = society.begin_of_all();
            is_done = (0..chunks).any(|_| society.go_on(id, &what));
            society.reveal(1, id);
            while !is_done && !society.go_on(id, &what) {}
            let clear =
                "SELECT COUNT(*) FROM posts WHERE a IN (2, 3) OR b IN (2, 3) OR r IN (2, 3)";
            assert_eq!(
                society.numbers(clear),
                [0],
                "{what}: {:?}",
                society.everything()
            );
            let all = [(1, id), (2, id), (3, id)].into();
            society.try_again(&all);
            society.try_again(&all);
            society.assert_as_before(&what);
        }
    }
}
