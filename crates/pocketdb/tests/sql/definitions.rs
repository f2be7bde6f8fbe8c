//! Definitions of tables that say a thing twice, or nothing.

use probity_pocketdb::Error;

use crate::pair::Pair;

/// The second reference took the place of the first, and the second key made a table without one.
#[test]
fn a_definition_that_says_a_thing_twice_is_refused_with_its_place() {
    let mut pair = Pair::new(65_536, 60);
    for name in ["x", "y"] {
        let text = format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER)");
        pair.own(&text).unwrap();
    }
    let key = "the table has a primary key already";
    let reference = "a refers to x already";
    for (definition, reason) in [
        ("a INTEGER REFERENCES x REFERENCES |y", reference),
        (
            "a INTEGER REFERENCES x(id), n INTEGER, FOREIGN KEY (a) REFERENCES |y",
            reference,
        ),
        (
            "a INTEGER, FOREIGN KEY (a) REFERENCES x, FOREIGN KEY (a) REFERENCES |x",
            reference,
        ),
        ("t TEXT(4) PRIMARY KEY, id INTEGER |PRIMARY KEY", key),
        ("id INTEGER PRIMARY KEY, b INTEGER |PRIMARY KEY", key),
        ("id INTEGER PRIMARY KEY |PRIMARY KEY, b INTEGER", key),
        ("id INTEGER PRIMARY KEY, b TEXT(4), |PRIMARY KEY (b)", key),
        (
            "id INTEGER, b TEXT(4), PRIMARY KEY (id), |PRIMARY KEY (id)",
            key,
        ),
    ] {
        let text = format!("CREATE TABLE t ({definition})");
        let place = text.find('|').unwrap();
        match pair.own(&text.replace('|', "")) {
            Err(Error::Sql { at, what }) => assert_eq!((at, &*what), (place, reason), "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    pair.own("CREATE TABLE t (a INTEGER PRIMARY KEY REFERENCES x(id) ON DELETE CASCADE)")
        .unwrap();
}

/// A table of keys only was refused as too wide.
#[test]
fn a_table_of_a_position_alone_is_refused_with_the_reason() {
    let mut pair = Pair::new(65_536, 60);
    for text in [
        "CREATE TABLE t (id INTEGER PRIMARY KEY)",
        "CREATE TABLE t (id INTEGER, PRIMARY KEY (id)) STORED AS ROWS",
    ] {
        let reason = pair.own(text).unwrap_err().to_string();
        assert_eq!(
            reason,
            "a table with no column beside its INTEGER PRIMARY KEY is not possible"
        );
    }
    let wide = "CREATE TABLE t (a TEXT(1800), b TEXT(1800)) STORED AS ROWS";
    assert_eq!(
        pair.own(wide).unwrap_err(),
        Error::Limit("the width of a row, which is 1997 bytes at most,")
    );
    pair.own("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        .unwrap();
}
