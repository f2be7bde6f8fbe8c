//! References by columns that the database works out, which no record has.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Error, SpecFile};

use super::society::{Society, description};

const OWNED: &str = "[tables.topics]\nowners = [\"who\"]\n[tables.posts]\nowners = [\"who\"]\n\
    [tables.notes]\nowners = [\"who\"]\n";

fn removed(tables: &[&str]) -> String {
    let removed = tables
        .iter()
        .map(|it| format!("[[remove]]\ntable = \"{it}\"\n"));
    removed.collect()
}

fn late() -> &'static str {
    match crate::connect().dialect() {
        Dialect::Mysql => "",
        _ => "DEFERRABLE INITIALLY DEFERRED",
    }
}

/// One has a post on the topic of two, by a column that the database works out, and a note.
fn posts() -> Society {
    let late = late();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE topics (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        format!(
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, meta BIGINT, \
             topic BIGINT GENERATED ALWAYS AS (meta + 1) STORED, \
             FOREIGN KEY (topic) REFERENCES topics(id) {late})"
        ),
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO topics VALUES (7, 2)".to_owned(),
        "INSERT INTO posts (id, who, meta) VALUES (1, 1, 6)".to_owned(),
        "INSERT INTO notes VALUES (1, 1)".to_owned(),
    ];
    let described = format!("{OWNED}{}", removed(&["posts", "topics", "notes"]));
    Society::of(&statements, &description(&described), &[1, 2])
}

/// The database refused the whole reveal at the commit, for good where the other one never came
/// back.
pub(crate) fn a_row_waits_for_one_to_which_a_column_worked_out_leads() {
    let mut society = posts();
    let gone = [1, 2].map(|user| (user, society.leave(user)));
    let [(one, of_one), (two, of_two)] = gone;
    society.reveal(one, of_one);
    assert_eq!(society.numbers("SELECT id FROM people"), [1]);
    assert_eq!(society.numbers("SELECT id FROM notes"), [1]);
    assert_eq!(society.numbers("SELECT COUNT(*) FROM posts"), [0]);
    society.reveal(two, of_two);
    society.reveal(one, of_one);
    society.assert_as_before("posts");
}

/// A row went in without its parent, which waited for a row to which a column leads that the database
/// works out: the commit was refused, and the whole reveal.
pub(crate) fn a_row_whose_parent_leads_nowhere_waits_with_it() {
    let late = late();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE topics (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        format!(
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, meta BIGINT, parent BIGINT, \
             topic BIGINT GENERATED ALWAYS AS (meta + 1) STORED, \
             FOREIGN KEY (topic) REFERENCES topics(id) {late}, \
             FOREIGN KEY (parent) REFERENCES posts(id) {late})"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO topics VALUES (7, 2)".to_owned(),
        "INSERT INTO posts (id, who, meta, parent) VALUES (1, 1, 6, NULL), (2, 1, NULL, 1), (3, 1, NULL, 2), (4, 1, NULL, NULL)".to_owned(),
    ];
    let owned = "[tables.topics]\nowners = [\"who\"]\n[tables.posts]\nowners = [\"who\"]\n";
    let described = format!("{owned}{}", removed(&["posts", "topics"]));
    let mut society = Society::of(&statements, &description(&described), &[1, 2]);
    let gone = [1, 2].map(|user| (user, society.leave(user)));
    let [(one, of_one), (two, of_two)] = gone;
    society.reveal(one, of_one);
    assert_eq!(society.numbers("SELECT id FROM people"), [1]);
    assert_eq!(society.numbers("SELECT id FROM posts"), [4]);
    society.reveal(two, of_two);
    society.reveal(one, of_one);
    society.assert_as_before("posts");
}

/// The value of a column kept all else of its record away in the same way.
pub(crate) fn a_value_waits_for_a_row_to_which_a_column_worked_out_leads() {
    let mut society = posts();
    let step = "[[modify]]\ntable = \"posts\"\ncolumn = \"meta\"\nvalue = \"Null\"\n";
    let all = description(&format!("{OWNED}{step}"));
    let (head, _) = all.split_at(all.find("[[remove]]").unwrap());
    let hiding = SpecFile::parse(&format!("{head}{}", removed(&["notes"]))).unwrap();
    let leaving = std::mem::replace(&mut society.spec, hiding.spec);
    let of_one = society.leave(1);
    society.spec = leaving;
    let of_two = society.leave(2);
    society.reveal(1, of_one);
    assert_eq!(society.numbers("SELECT id FROM notes"), [1]);
    assert_eq!(society.numbers("SELECT meta FROM posts"), [-1]);
    society.reveal(2, of_two);
    society.reveal(1, of_one);
    society.assert_as_before("values");
}

/// Rows of others that refer to a column worked out of an overwritten one kept all else of its record
/// away in the same way.
pub(crate) fn a_value_stays_where_rows_refer_to_a_column_worked_out_of_it() {
    let late = late();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE topics (id BIGINT PRIMARY KEY, who BIGINT, base BIGINT, \
         code BIGINT GENERATED ALWAYS AS (base + 1) STORED UNIQUE)"
            .to_owned(),
        format!(
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, code BIGINT, \
             FOREIGN KEY (code) REFERENCES topics(code) {late})"
        ),
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO topics (id, who, base) VALUES (5, 1, 3)".to_owned(),
        "INSERT INTO notes VALUES (1, 1)".to_owned(),
    ];
    let step = "[[modify]]\ntable = \"topics\"\ncolumn = \"base\"\nvalue = { ConstNum = 9 }\n";
    let all = description(&format!("{OWNED}{step}"));
    let (head, _) = all.split_at(all.find("[[remove]]").unwrap());
    let described = format!("{head}{}", removed(&["notes"]));
    let mut society = Society::of(&statements, &described, &[1, 2]);
    let gone = society.leave(1);
    society.sql("INSERT INTO posts VALUES (9, 2, 10)");
    society.reveal(1, gone);
    assert_eq!(society.numbers("SELECT id FROM notes"), [1]);
    assert_eq!(society.numbers("SELECT base FROM topics"), [9]);
    society.sql("DELETE FROM posts");
    society.reveal(1, gone);
    society.assert_as_before("referred to");
}

/// An account and a row that refer to each other, one by such a column, waited for each other.
pub(crate) fn a_circle_over_a_column_worked_out_goes_back() {
    if crate::connect().dialect() == Dialect::Mysql {
        // It lets nobody of a circle leave.
        return;
    }
    let late = late();
    let key = format!("FOREIGN KEY (team) REFERENCES teams(id) {late}");
    let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
    let (own, later) = if is_at_once {
        (format!(", {key}"), "UPDATE teams SET id = id".to_owned())
    } else {
        (String::new(), format!("ALTER TABLE people ADD {key}"))
    };
    let statements = [
        format!(
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), base BIGINT, \
             team BIGINT GENERATED ALWAYS AS (base + 1) STORED{own})"
        ),
        format!(
            "CREATE TABLE teams (id BIGINT PRIMARY KEY, who BIGINT REFERENCES people(id) {late})"
        ),
        "INSERT INTO people (id, name) VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO teams VALUES (7, 1)".to_owned(),
        "UPDATE people SET base = 6 WHERE id = 1".to_owned(),
        later,
    ];
    let described = format!(
        "[tables.teams]\nowners = [\"who\"]\n{}",
        removed(&["teams"])
    );
    let mut society = Society::of(&statements, &description(&described), &[1, 2]);
    let gone = society.leave(1);
    society.reveal(1, gone);
    society.assert_as_before("a circle");
}

/// One refused row of a table that refers to such a column of its own ended the whole reveal.
pub(crate) fn a_row_whose_key_is_worked_out_keeps_its_children_back_alone() {
    let (late, text) = (late(), "VARCHAR(30)");
    let named = |column: &str| match crate::connect().dialect() {
        Dialect::Mysql => format!("concat('t', {column})"),
        _ => format!("('t' || {column})"),
    };
    for (other, chunk) in [
        (text.to_owned(), None),
        (
            format!("{text} GENERATED ALWAYS AS ({}) STORED", named("r")),
            Some(1),
        ),
    ] {
        let is_given = chunk.is_none();
        let gr = if is_given { ", gr" } else { "" };
        let row = |id: i64, r: &str, u: i64| {
            let name = if r == "NULL" {
                r.to_owned()
            } else {
                format!("'t{r}'")
            };
            let name = if is_given {
                format!(", {name}")
            } else {
                String::new()
            };
            format!("INSERT INTO posts (id, who, r, u{gr}) VALUES ({id}, 1, {r}, {u}{name})")
        };
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE posts (id INT PRIMARY KEY, who BIGINT, r INT, u INT UNIQUE, \
                 g {text} GENERATED ALWAYS AS ({}) STORED UNIQUE, gr {other}, \
                 FOREIGN KEY (gr) REFERENCES posts (g) {late})",
                named("id")
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            row(10, "NULL", 1),
            row(11, "10", 2),
            row(12, "11", 3),
            row(13, "NULL", 4),
        ];
        let described = format!(
            "[tables.posts]\nowners = [\"who\"]\n{}",
            removed(&["posts"])
        );
        let mut society = Society::of(&statements, &description(&described), &[1, 2]);
        let Ok(gone) = society.try_to_leave(Some(1), false, chunk) else {
            society.assert_as_before("refused");
            continue;
        };
        society.sql("INSERT INTO posts (id, who, u) VALUES (50, 2, 1)");
        society.reveal(1, gone.id);
        let back = society.numbers("SELECT id FROM posts ORDER BY id");
        assert_eq!(back, [13, 50], "{other}");
        society.sql("DELETE FROM posts WHERE id = 50");
        society.reveal(1, gone.id);
        society.assert_as_before(&other);
    }
}

/// Rows of two people, of which each refers to the other: x by b to y, and y by k to x. One of the columns
/// is worked out, and neither may be NULL if the circle is `firm`.
fn circle_of_two(way: &str, firm: bool) -> Society {
    let late = late();
    let null = if firm { "NOT NULL" } else { "" };
    let (given, led, worked) = match way {
        "from" => (
            "meta INT, b INT GENERATED ALWAYS AS (meta + 1) STORED".to_owned(),
            "id INT PRIMARY KEY, g INT",
            "id",
        ),
        _ => (
            format!("meta INT, b INT {null}"),
            "id INT PRIMARY KEY, g INT GENERATED ALWAYS AS (id + 1) STORED UNIQUE",
            "g",
        ),
    };
    // A table can refer to one that is not there yet on `SQLite` alone.
    let is_sqlite = crate::connect().dialect() == Dialect::Sqlite;
    let own = format!("FOREIGN KEY (k) REFERENCES x (id) {late}");
    let (inline, later) = if is_sqlite {
        (
            format!(", {own}"),
            "UPDATE people SET name = 'one' WHERE id = 1".to_owned(),
        )
    } else {
        (String::new(), format!("ALTER TABLE y ADD {own}"))
    };
    let (b, g) = match way {
        "from" => ("", ""),
        _ => (", b", ", 21"),
    };
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        format!("CREATE TABLE y ({led}, who BIGINT, k INT {null}{inline})"),
        format!(
            "CREATE TABLE x (id INT PRIMARY KEY, who BIGINT, {given}, \
             FOREIGN KEY (b) REFERENCES y ({worked}) {late})"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        if is_sqlite {
            "PRAGMA foreign_keys = OFF".to_owned()
        } else {
            "UPDATE people SET name = 'two' WHERE id = 2".to_owned()
        },
        "INSERT INTO y (id, who, k) VALUES (20, 2, 10)".to_owned(),
        format!("INSERT INTO x (id, who, meta{b}) VALUES (10, 1, 19{g})"),
        if is_sqlite {
            "PRAGMA foreign_keys = ON".to_owned()
        } else {
            "UPDATE people SET name = 'two' WHERE id = 2".to_owned()
        },
        later,
    ];
    let described = format!(
        "[tables.x]\nowners = [\"who\"]\n[tables.y]\nowners = [\"who\"]\n{}",
        removed(&["x", "y"])
    );
    Society::of(&statements, &description(&described), &[1, 2])
}

/// A row of one person that refers to itself, or two that refer to each other, by a key that leads to such
/// a column, waited for each other for good.
pub(crate) fn a_circle_of_one_person_to_a_column_worked_out_goes_back() {
    let late = late();
    let null = match crate::connect().dialect() {
        // It empties the references of such a circle, so that they must be free to be NULL.
        Dialect::Mysql => "",
        _ => "NOT NULL",
    };
    for null in [null, ""] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE posts (id INT PRIMARY KEY, who BIGINT, r INT {null}, u INT UNIQUE, \
                 g INT GENERATED ALWAYS AS (id + 1) STORED UNIQUE, \
                 FOREIGN KEY (r) REFERENCES posts (g) {late})"
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            "INSERT INTO posts (id, who, r, u) VALUES (10, 1, 11, 1)".to_owned(),
            "INSERT INTO posts (id, who, r, u) VALUES (20, 1, 11, 2), (21, 1, 21, 3), (22, 1, 22, 4)"
                .to_owned(),
            "UPDATE posts SET r = 23 WHERE id = 20".to_owned(),
            "INSERT INTO posts (id, who, r, u) VALUES (40, 2, 41, 5)".to_owned(),
        ];
        let described = format!(
            "[tables.posts]\nowners = [\"who\"]\n{}",
            removed(&["posts"])
        );
        let mut society = Society::of(&statements, &description(&described), &[1, 2]);
        let gone = society.leave(1);
        // One of the circle is refused, and the row that refers to itself is not kept away.
        society.sql("INSERT INTO posts (id, who, r, u) VALUES (50, 2, 41, 3)");
        society.reveal(1, gone);
        let back = society.numbers("SELECT id FROM posts ORDER BY id");
        assert_eq!(back, [10, 40, 50], "{null}");
        society.sql("DELETE FROM posts WHERE id = 50");
        society.reveal(1, gone);
        society.assert_as_before(null);
    }
}

/// A circle of rows of one person over two tables waited for good in the same way.
pub(crate) fn a_circle_of_one_person_over_two_tables_to_a_column_worked_out_goes_back() {
    for firm in [true, false] {
        let mut society = circle_of_two("to", firm);
        society.sql("UPDATE x SET who = 2");
        society.before = society.everything();
        let left = society.try_to_leave(Some(2), false, None);
        if crate::connect().dialect() == Dialect::Mysql && left.is_err() {
            society.assert_as_before("refused");
            continue;
        }
        society.reveal(2, left.unwrap().id);
        society.assert_as_before(&format!("{firm}"));
    }
}

/// Nothing in a record shows where such a column leads, so that circles over it were not seen: nobody's row
/// came back, though one could begin, or the disguise should have been refused.
pub(crate) fn a_circle_of_several_people_over_a_column_worked_out_is_seen() {
    let cases = ["from", "to"].into_iter();
    for (way, firm) in cases.flat_map(|way| [(way, true), (way, false)]) {
        let mut society = circle_of_two(way, firm);
        let what = format!("{way} {firm}");
        let left = society.try_to_leave(None, false, None);
        if firm || crate::connect().dialect() == Dialect::Mysql && left.is_err() {
            let is_seen = matches!(left, Err(Error::Circle { rows: 2, .. }));
            assert!(
                is_seen || crate::connect().dialect() == Dialect::Mysql,
                "{what} {left:?}"
            );
            society.assert_as_before(&what);
            continue;
        }
        let id = left.unwrap().id;
        for user in [1, 2, 1, 2] {
            society.try_again(&BTreeMap::from([(user, id)]));
        }
        society.assert_as_before(&what);
    }
}
