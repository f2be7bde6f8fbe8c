//! Declared references that lead nowhere: the database did not enforce them when the rows came in.

use probity_disguise::{Dialect, Error};

use super::society::{Society, description};

/// One has a post on a topic that is not there, and another on one that is.
fn posts() -> Society {
    let key = "FOREIGN KEY (topic) REFERENCES topics(id)";
    let (inline, [off, on]) = match crate::connect().dialect() {
        Dialect::Sqlite => (
            format!(", {key}"),
            ["PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"].map(str::to_owned),
        ),
        Dialect::Mysql => (
            format!(", {key}"),
            ["SET foreign_key_checks = 0", "SET foreign_key_checks = 1"].map(str::to_owned),
        ),
        _ => (
            String::new(),
            [
                "UPDATE topics SET id = id".to_owned(),
                format!("ALTER TABLE posts ADD {key} NOT VALID"),
            ],
        ),
    };
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE topics (id BIGINT PRIMARY KEY)".to_owned(),
        format!(
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, topic BIGINT, \
             parent BIGINT{inline})"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO topics VALUES (7)".to_owned(),
        off,
        "INSERT INTO posts VALUES (10, 1, 7, NULL), (11, 1, 77, 10), (12, 2, 78, 11)".to_owned(),
        on,
    ];
    let described = "[tables.posts]\nowners = [\"who\"]\n\
        references = [{ columns = [\"parent\"], table = \"posts\", to = [\"id\"] }]\n\
        [[remove]]\ntable = \"posts\"\n";
    Society::of(&statements, &description(described), &[1, 2])
}

/// A row that had come in while its key was not enforced waited for good for the row that it names.
pub(crate) fn a_row_that_referred_to_nothing_comes_back_without_the_reference() {
    let mut society = posts();
    let gone = [1, 2].map(|user| (user, society.leave(user)));
    for (user, id) in gone {
        society.try_again(&[(user, id)].into());
    }
    let topics = "SELECT topic FROM posts ORDER BY id";
    assert_eq!(society.numbers(topics), [7, -1, -1]);
    society.sql("INSERT INTO topics VALUES (77), (78)");
    for (user, id) in gone {
        society.reveal(user, id);
    }
    assert_eq!(society.numbers(topics), [7, 77, 78]);
    assert_eq!(society.numbers("SELECT id FROM people ORDER BY id"), [1, 2]);
    society.before = society.everything();
    society.assert_as_before("topics are back");
}

/// The removal of a row that had referred to nothing paid, in the counter that `SQLite` looks at, for
/// another person's row that refers to nothing since.
pub(crate) fn a_row_that_referred_to_nothing_pays_for_no_row_of_others() {
    if crate::connect().dialect() != Dialect::Sqlite {
        return;
    }
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), boss BIGINT REFERENCES people(id))",
        "CREATE TABLE albums (id BIGINT PRIMARY KEY, who BIGINT)",
        "CREATE TABLE photos (id BIGINT PRIMARY KEY, who BIGINT, album BIGINT REFERENCES albums(id))",
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO people VALUES (1, 'one', 99), (2, 'two', NULL)",
        "PRAGMA foreign_keys = ON",
        "INSERT INTO albums VALUES (10, 1)",
        "INSERT INTO photos VALUES (20, 2, 10)",
    ]
    .map(str::to_owned);
    let described = "[tables.albums]\nowners = [\"who\"]\n[tables.photos]\nowners = [\"who\"]\n\
        [[remove]]\ntable = \"photos\"\n[[remove]]\ntable = \"albums\"\n";
    let mut society = Society::of(&statements, &description(described), &[1, 2]);
    let refused = society.try_to_leave(Some(1), false, None);
    assert!(
        matches!(refused, Err(Error::WouldOrphan { .. })),
        "{refused:?}"
    );
    society.assert_as_before("refused");
}
