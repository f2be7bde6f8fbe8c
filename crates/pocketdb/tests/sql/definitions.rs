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

/// Nothing showed the columns of a table, so that nobody could write a query of a database that another
/// program had made. The statement that is shown makes the same table.
#[test]
fn the_statement_of_a_table_makes_the_same_table() {
    let definitions = [
        "a (id INTEGER PRIMARY KEY, n INT INDEXED, x DOUBLE PRECISION UNIQUE, t VARCHAR(9)) STORED AS COLUMNS",
        "\"order\" (\"group\" TEXT(5) PRIMARY KEY, \"check\" REAL, \"constraint\" INTEGER, \"if\" INTEGER INDEXED, \
         \"primary\" INTEGER UNIQUE, \"index\" INTEGER, \"key\" INTEGER, \"foreign\" INTEGER, \"stored\" INTEGER)",
        "\"if\" (a INTEGER PRIMARY KEY REFERENCES a ON DELETE CASCADE) STORED AS ROWS",
        "c (x INTEGER REFERENCES a(x), g INTEGER UNIQUE REFERENCES \"order\"(\"group\"))",
        "d (c INTEGER REFERENCES c INDEXED, n INTEGER)",
    ];
    let mut pair = Pair::new(65_536, 60);
    let mut other = Pair::new(65_536, 60);
    for definition in definitions {
        pair.own(&format!("CREATE TABLE {definition}")).unwrap();
    }
    let creations = |pair: &mut Pair| {
        let store = pair.store();
        let tables: Vec<_> = store.tables().map(|(table, _)| table).collect();
        let creations = tables.into_iter().map(|table| store.creation(table));
        creations.collect::<Vec<String>>()
    };
    let shown = creations(&mut pair);
    assert_eq!(
        shown[0],
        "CREATE TABLE a (\n  id INTEGER PRIMARY KEY,\n  n INTEGER INDEXED,\n  x REAL UNIQUE,\n  t TEXT(9)\n) STORED AS COLUMNS;"
    );
    assert_eq!(
        shown[3],
        "CREATE TABLE c (\n  x REAL REFERENCES a(x),\n  g TEXT(5) UNIQUE REFERENCES \"order\"(\"group\")\n);"
    );
    assert!(
        shown[4].contains("c INTEGER INDEXED REFERENCES c,"),
        "{}",
        shown[4]
    );
    for statement in &shown {
        other.own(statement).unwrap();
    }
    assert_eq!(creations(&mut other), shown);
}
