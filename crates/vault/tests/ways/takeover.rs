//! Tables and rows of another database.

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use probity_vault::{
    Loss, Observer, Reached, Takeover, TakeoverOptions, VaultError, Weakened, run_script,
};

use crate::{Pocket, pocket, rows, said};

const PEOPLE: &str = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL); \
                      INSERT INTO people VALUES (1, 'Ada'), (2, 'Bea')";
const CALLS: &str = "CREATE TABLE calls (id INTEGER PRIMARY KEY, \
                      person INTEGER REFERENCES people(id), day INTEGER, weight REAL); \
                      INSERT INTO calls VALUES (1, 2, 5, 1.0), (2, 1, 6, 2.5)";

/// Takes over a database that `scripts` make; `choose` sets the options.
fn take_over(
    scripts: &[&str],
    choose: impl FnOnce(&mut TakeoverOptions),
    observer: &mut dyn Observer,
) -> (Result<(), VaultError>, Pocket) {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Sqlite::open(&folder.path().join("other.db")).unwrap();
    for statement in scripts.iter().flat_map(|script| script.split("; ")) {
        database.execute(statement, &[]).unwrap();
    }
    let mut options = TakeoverOptions::default();
    choose(&mut options);
    let mut store = pocket();
    let run = Takeover::new(Box::new(database), options)
        .and_then(|takeover| takeover.run(&mut store, observer));
    (run, store)
}

/// Returns what a takeover of a database that `script` makes says of weaker unique columns, and
/// whether a row with `values` goes in behind it.
fn weaker(script: &str, values: &str) -> (Vec<String>, bool) {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Sqlite::open(&folder.path().join("other.db")).unwrap();
    for statement in script.split("; ") {
        database.execute(statement, &[]).unwrap();
    }
    let takeover = Takeover::new(Box::new(database), TakeoverOptions::default()).unwrap();
    let told = takeover.weakened().iter().map(|rule| match rule {
        Weakened::Comparison { column } => column.clone(),
        other => other.to_string(),
    });
    let told = told.collect();
    let mut store = pocket();
    takeover.run(&mut store, &mut ()).unwrap();
    let insert = format!("INSERT INTO u (k, n) VALUES ({values})");
    (told, run_script(&mut store, &insert).is_ok())
}

fn refusal(scripts: &[&str], choose: impl FnOnce(&mut TakeoverOptions)) -> VaultError {
    take_over(scripts, choose, &mut ()).0.unwrap_err()
}

#[test]
fn tables_come_with_their_keys_and_rows_and_without_those_of_disguises() {
    struct Seen(Vec<u64>);

    impl Observer for Seen {
        fn took(&mut self, number: u64) {
            self.0.push(number);
        }
    }

    let mut seen = Seen(Vec::new());
    // The first is a table of disguises; the second only looks like one.
    let own = "CREATE TABLE probity_settings (name TEXT PRIMARY KEY, value BLOB)";
    let alike = "CREATE TABLE probity_notes (id INTEGER PRIMARY KEY, note TEXT)";
    let (run, mut store) = take_over(&[PEOPLE, CALLS, own, alike], |_| (), &mut seen);
    run.unwrap();
    assert_eq!(seen.0, [1, 2, 1, 2]);
    let query = "SELECT people.name, calls.day, calls.weight FROM calls JOIN people \
                 ON calls.person = people.id WHERE people.name = 'Ada'";
    assert_eq!(rows(&mut store, query), ["Ada|6|2.5"]);
    let tables: Vec<&str> = store.tables().map(|(_, name)| name).collect();
    assert_eq!(tables, ["people", "calls", "probity_notes"]);
}

#[test]
fn options_that_name_nothing_are_refused() {
    let error = refusal(&[PEOPLE], |options| options.tables.push("staff".into()));
    assert!(matches!(error, VaultError::NoSourceTable { table } if table == "staff"));
    let error = refusal(&[PEOPLE], |options| options.plain.push("staff".into()));
    assert!(matches!(error, VaultError::NoPlainTable { table } if table == "staff"));
    for column in ["people", "people.age", "staff.name"] {
        let error = refusal(&[PEOPLE], |options| options.indexes.push(column.into()));
        assert!(matches!(error, VaultError::NoIndexedColumn { column: named } if named == column));
        let error = refusal(&[PEOPLE], |options| options.unlinked.push(column.into()));
        assert!(matches!(error, VaultError::NoForeignKey { column: named } if named == column));
    }
}

#[test]
fn what_cannot_be_kept_is_named_unless_the_table_is_plain() {
    let table = "CREATE TABLE marks (a INTEGER, b INTEGER, c INTEGER AS (a + b), d BLOB, \
                 PRIMARY KEY (a, b), UNIQUE (b, d)); \
                 INSERT INTO marks (a, b, d) VALUES (1, 2, 3), (2, 3, 'four')";
    let VaultError::Lost {
        table: name,
        losses,
        ..
    } = refusal(&[table], |_| ())
    else {
        unreachable!("a loss is an error of its own");
    };
    assert_eq!(name, "marks");
    for loss in [
        Loss::Generated("c".into()),
        Loss::PrimaryKey(vec!["a".into(), "b".into()]),
        Loss::UniqueKey(vec!["b".into(), "d".into()]),
        Loss::NumbersAndTexts("d".into()),
    ] {
        assert!(losses.contains(&loss), "{loss} is not in {losses:?}");
    }
    let plain = |options: &mut TakeoverOptions| options.plain.push("marks".into());
    let (run, mut store) = take_over(&[table], plain, &mut ());
    run.unwrap();
    assert_eq!(
        rows(&mut store, "SELECT a, d FROM marks"),
        ["1|3", "2|four"]
    );
}

/// A unique index whose collation was not its column's was dropped, or became weaker, without a word:
/// the words of the table were read for it, and not the index.
#[test]
fn each_unique_index_is_held_told_or_refused_whatever_its_collation() {
    let table = |column: &str, index: &str| {
        format!(
            "CREATE TABLE u (id INTEGER PRIMARY KEY, k {column}, n TEXT); \
             CREATE UNIQUE INDEX ux ON u ({index}); INSERT INTO u VALUES (1, 'A', 'a'), (2, 'long', 'long')"
        )
    };
    let told = || vec!["u.k".to_owned()];
    for (column, index, same, other, said) in [
        ("TEXT", "k", "'A', 'b'", "'a', 'b'", Vec::new()),
        (
            "TEXT COLLATE NOCASE",
            "k COLLATE BINARY",
            "'A', 'b'",
            "'a', 'b'",
            Vec::new(),
        ),
        ("TEXT COLLATE NOCASE", "k", "'A', 'b'", "'a', 'b'", told()),
        ("TEXT", "k COLLATE NOCASE", "'A', 'b'", "'a', 'b'", told()),
        ("TEXT", "k COLLATE RTRIM", "'A', 'b'", "'A ', 'b'", told()),
        ("NUMERIC", "k", "'A', 'b'", "'1', 'b'", told()),
    ] {
        let made = table(column, index);
        assert_eq!(weaker(&made, same), (said.clone(), false), "{made}");
        assert_eq!(weaker(&made, other), (said, true), "{made}");
    }
    let both = table("TEXT COLLATE NOCASE", "k COLLATE BINARY, n");
    let VaultError::Lost { losses, .. } = refusal(&[&both], |_| ()) else {
        unreachable!("a loss is an error of its own");
    };
    assert_eq!(losses, [Loss::UniqueKey(vec!["k".into(), "n".into()])]);
}

#[test]
fn foreign_keys_that_nothing_here_can_follow_are_refused() {
    let themselves =
        "CREATE TABLE staff (id INTEGER PRIMARY KEY, boss INTEGER REFERENCES staff(id))";
    let error = refusal(&[themselves], |_| ());
    assert!(matches!(error, VaultError::Circle { tables } if tables == ["staff"]));
    let unlinked = |options: &mut TakeoverOptions| options.unlinked.push("staff.boss".into());
    take_over(&[themselves], unlinked, &mut ()).0.unwrap();

    let twice = "CREATE TABLE pairs (id INTEGER PRIMARY KEY, one INTEGER REFERENCES people(id), \
                 other INTEGER REFERENCES people(id))";
    let error = refusal(&[PEOPLE, twice], |_| ());
    assert!(matches!(
        error,
        VaultError::TwoPaths { table, target, .. } if table == "pairs" && target == "people"
    ));

    let chain = "CREATE TABLE cards (person INTEGER PRIMARY KEY REFERENCES people(id)); \
                 CREATE TABLE uses (id INTEGER PRIMARY KEY, card INTEGER REFERENCES cards(person))";
    let error = refusal(&[PEOPLE, chain], |_| ());
    assert!(matches!(
        error,
        VaultError::KeyOfKey { column, target, last, .. }
            if column == "uses.card" && target == "cards.person" && last == "people"
    ));
}

/// A key that holds in the other database, where texts without case are equal, was refused with advice
/// about imports. The column to unlink is named.
#[test]
fn a_key_that_leads_nowhere_here_names_its_column() {
    let towns = "CREATE TABLE towns (k TEXT COLLATE NOCASE PRIMARY KEY, n TEXT); \
                 INSERT INTO towns VALUES ('ABC', 'x'); \
                 CREATE TABLE calls (id INTEGER PRIMARY KEY, town TEXT REFERENCES towns(k)); \
                 INSERT INTO calls VALUES (1, 'abc')";
    let VaultError::Reached { cause, .. } = refusal(&[towns], |_| ()) else {
        unreachable!("a row was reached");
    };
    assert!(matches!(
        *cause,
        VaultError::NotReferred { columns, .. } if columns == ["calls.town"]
    ));
    let unlinked = |options: &mut TakeoverOptions| options.unlinked.push("calls.town".into());
    take_over(&[towns], unlinked, &mut ()).0.unwrap();
    let both = "CREATE TABLE pairs (a INTEGER, b INTEGER, n TEXT, UNIQUE (a, b)); \
                CREATE TABLE uses (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, \
                FOREIGN KEY (a, b) REFERENCES pairs(a, b))";
    let plain = |options: &mut TakeoverOptions| options.plain.push("pairs".into());
    assert!(matches!(
        refusal(&[both], plain),
        VaultError::CompoundKey { columns } if columns == "uses.a+b"
    ));
}

#[test]
fn a_null_is_refused_where_nothing_may_be_in_its_place() {
    let table = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); \
                 INSERT INTO notes VALUES (1, NULL)";
    let error = refusal(&[table], |_| ());
    assert_eq!(said(&error), "row 1 of notes: text is NULL in a row");
    let (run, mut store) = take_over(&[table], |options| options.null_as_empty = true, &mut ());
    run.unwrap();
    assert_eq!(rows(&mut store, "SELECT id, text FROM notes"), ["1|"]);

    let nobody = "INSERT INTO calls VALUES (3, NULL, 1, 1.0)";
    let error = refusal(&[PEOPLE, CALLS, nobody], |options| {
        options.null_as_empty = true;
    });
    let VaultError::Reached { at, cause, .. } = error else {
        unreachable!("a row has a place");
    };
    let row = Reached::Row {
        number: 3,
        table: "calls".into(),
    };
    assert_eq!(at, row);
    assert!(matches!(
        *cause,
        VaultError::Null { refers_to: Some(table), is_unique: false, .. } if table == "people"
    ));
}

/// Only columns of real numbers refused an infinity: in any other one it became a text, the same as
/// the text of another row.
#[test]
fn an_infinity_is_refused_in_a_column_of_any_type() {
    for kind in ["NUMERIC", "DECIMAL(10,2)", "DATE", "", "REAL", "INTEGER"] {
        for value in ["9e999", "-9e999"] {
            let table = format!("CREATE TABLE heights (id INTEGER PRIMARY KEY, height {kind})");
            let row = format!("INSERT INTO heights VALUES (1, {value})");
            let error = refusal(&[&table, &row], |_| ());
            let VaultError::Reached { cause, .. } = error else {
                unreachable!("{kind}: a row has a place");
            };
            assert!(
                matches!(*cause, VaultError::NotFinite { column } if column == "height"),
                "{kind}"
            );
        }
    }
    let text = "CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('inf'), ('Infinity')";
    let (run, mut store) = take_over(&[text], |_| (), &mut ());
    run.unwrap();
    assert_eq!(
        rows(&mut store, "SELECT word FROM words"),
        ["Infinity", "inf"]
    );
}

/// The key was left out without a word, and its column taken over as a plain one.
#[test]
fn a_key_to_a_table_that_is_not_taken_over_is_told() {
    let nowhere =
        "CREATE TABLE lost (id INTEGER PRIMARY KEY, place INTEGER REFERENCES nowhere(id))";
    let cut = |tables: &[&str], unlinked: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut database = Sqlite::open(&folder.path().join("other.db")).unwrap();
        for statement in [PEOPLE, CALLS, nowhere].join("; ").split("; ") {
            database.execute(statement, &[]).unwrap();
        }
        let mut options = TakeoverOptions::default();
        options.tables = tables.iter().map(ToString::to_string).collect();
        options.unlinked = unlinked.iter().map(ToString::to_string).collect();
        let takeover = Takeover::new(Box::new(database), options).unwrap();
        let keys = takeover.cut_keys().iter();
        let keys = keys.map(|key| format!("{} to {}", key.column, key.target));
        keys.collect::<Vec<_>>()
    };
    let place = "lost.place to nowhere";
    assert_eq!(cut(&[], &[]), [place]);
    assert!(cut(&[], &["lost.place"]).is_empty());
    assert_eq!(
        cut(&["calls", "lost"], &[]),
        ["calls.person to people", place]
    );
    assert!(cut(&["calls"], &["calls.person"]).is_empty());
}

/// A key that forbids to delete a row that others refer to, or that empties their columns, became one
/// that deletes them, without a word.
#[test]
fn a_key_that_does_not_cascade_is_told() {
    let key = |rule: &str| {
        let own = format!("person INTEGER REFERENCES people(id) {rule}");
        let table = format!("CREATE TABLE u (k INTEGER PRIMARY KEY, {own}, n TEXT)");
        let row = "INSERT INTO u VALUES (1, 2, 'a')";
        let (told, _) = weaker(&[PEOPLE, &table, row].join("; "), "2, 'b'");
        told.join("; ")
    };
    let refused = "here deleting a row of people also deletes the rows of u that refer to it by u.person: \
                   the other database would refuse it";
    let kept = "here deleting a row of people also deletes the rows of u that refer to it by u.person: \
                the other database would keep them";
    for (rule, said) in [
        ("", refused),
        ("ON DELETE RESTRICT", refused),
        ("ON DELETE NO ACTION DEFERRABLE INITIALLY DEFERRED", refused),
        ("ON DELETE SET NULL", kept),
        ("ON DELETE SET DEFAULT", kept),
        ("ON DELETE CASCADE", ""),
    ] {
        assert_eq!(key(rule), said, "{rule}");
    }
}

/// The advice for a column with two keys to one table took both away, also where they were the same.
#[test]
fn two_keys_of_one_column_are_one_or_refused_as_two() {
    let calls = |other: &str| {
        format!(
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT UNIQUE, nick TEXT UNIQUE); \
             CREATE TABLE calls (id INTEGER PRIMARY KEY, who TEXT REFERENCES people(name), \
             FOREIGN KEY (who) REFERENCES {other}); \
             INSERT INTO people VALUES (1, 'a', 'a'); INSERT INTO calls VALUES (1, 'a')"
        )
    };
    let (run, mut store) = take_over(&[&calls("People(NAME)")], |_| (), &mut ());
    run.unwrap();
    let query = "SELECT people.id, calls.id FROM calls JOIN people ON calls.who = people.name";
    assert_eq!(rows(&mut store, query), ["1|1"]);
    let error = refusal(&[&calls("people(nick)")], |_| ());
    assert!(matches!(
        &error,
        VaultError::TwoTargets { column, .. } if column == "calls.who"
    ));
    let told = said(&error);
    assert!(
        told.contains(" people.name") && told.contains(" people.nick"),
        "{told}"
    );
    let unlinked = |options: &mut TakeoverOptions| options.unlinked.push("calls.who".into());
    take_over(&[&calls("people(nick)")], unlinked, &mut ())
        .0
        .unwrap();
}

/// Takes over two tables with a key between columns of the types `target` and `own`, and a value of each;
/// returns the value here, or what is said.
fn key_between(target: &str, own: &str, there: &str, value: &str) -> Result<String, String> {
    let script = format!(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, u {target} UNIQUE); \
         CREATE TABLE b (id INTEGER PRIMARY KEY, u {own} REFERENCES a(u)); \
         INSERT INTO a VALUES (1, {there}); PRAGMA foreign_keys = OFF; INSERT INTO b VALUES (1, {value})"
    );
    let (run, mut store) = take_over(&[&script], |_| (), &mut ());
    match run {
        Ok(()) => Ok(rows(&mut store, "SELECT b.u FROM b JOIN a ON b.u = a.u").concat()),
        Err(error) => Err(said(&error)),
    }
}

/// A key between columns of two types was refused where a value is exactly one of the other type,
/// though it holds.
#[test]
fn a_key_between_two_types_takes_exact_values() {
    let (exact, least) = ("9007199254740992", "-9223372036854775808");
    for (target, own, there, value, shown) in [
        ("REAL", "INTEGER", "2", "2", "2.0"),
        (
            "REAL",
            "INTEGER",
            "9007199254740992.0",
            exact,
            "9007199254740992.0",
        ),
        ("REAL", "NUMERIC", "0.5", "0.5", "0.5"),
        ("INTEGER", "REAL", "2", "2.0", "2"),
        ("INTEGER", "REAL", least, least, least),
        ("INTEGER", "", "2", "2", "2"),
        ("INTEGER", "TEXT", "2", "'2'", "2"),
        ("TEXT", "INTEGER", "'2'", "2", "2"),
        ("NUMERIC", "INTEGER", "2", "2", "2"),
        ("", "INTEGER", "2", "2", "2"),
        ("", "", "'x'", "'x'", "x"),
    ] {
        let found = key_between(target, own, there, value);
        assert_eq!(found.as_deref(), Ok(shown), "{target}, {own}: {value}");
    }
}

/// An integer that refers to a column of real numbers became the nearest one of these, and its row was
/// found where the other database finds none; a text that an integer is read from, as '05', became the
/// integer, and its own letters were gone. The key is named for both.
#[test]
fn a_key_between_two_types_refuses_values_that_are_not_exact() {
    let next = "9007199254740993";
    let none = "a.u has no such value";
    for (target, own, there, value, what) in [
        (
            "REAL",
            "INTEGER",
            "9007199254740992.0",
            next,
            "a has no row 9007199254740993",
        ),
        (
            "REAL",
            "",
            "9007199254740992.0",
            next,
            "a has no row 9007199254740993",
        ),
        ("REAL", "TEXT", "0.5", "'1/2'", none),
        (
            "INTEGER",
            "REAL",
            next,
            "9007199254740992.0",
            "a has no row 9007199254740992",
        ),
        ("INTEGER", "REAL", "2", "2.5", none),
        ("INTEGER", "REAL", "5", "9223372036854775808.0", none),
        ("INTEGER", "TEXT", "2", "'x'", none),
        ("INTEGER", "TEXT", "5", "'05'", none),
        ("INTEGER", "TEXT", "5", "'+5'", none),
        ("INTEGER", "TEXT", "0", "'-0'", none),
        ("REAL", "TEXT", "5.0", "'05'", none),
        ("TEXT", "INTEGER", "'2'", "3", "a has no row 3"),
        ("TEXT", "REAL", "'2.0'", "2", none),
        // Such columns convert nothing: the number 2 is not the text '2'.
        ("", "", "'2'", "2", none),
        ("", "TEXT", "2", "'2'", none),
        ("BLOB", "INTEGER", "'2'", "2", none),
    ] {
        let expected = format!("row 1 of b: b.u leads to no row: {what}");
        let found = key_between(target, own, there, value);
        assert_eq!(found, Err(expected), "{target}, {own}: {value}");
    }
}

/// A table that is too wide was refused with a byte of a statement that nobody had written, and without
/// its name. Table, column, row and limit are named.
#[test]
fn a_table_that_is_too_wide_is_refused_with_its_longest_text() {
    let wide = |body: usize, note: usize| {
        let script = format!(
            "{PEOPLE}; CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER REFERENCES people(id), \
             n INTEGER, body TEXT, note TEXT); \
             INSERT INTO posts VALUES (1, 1, 5, 'x', 'y'), (2, 2, 6, printf('%.*c', {body}, 'b'), printf('%.*c', {note}, 'n'))"
        );
        take_over(&[&script], |_| (), &mut ()).0
    };
    wide(1_700, 85).unwrap();
    let longest = |body: usize| {
        format!("cannot be kept: the longest text is of body, with {body} bytes in row 2")
    };
    // The number takes 8 bytes, and the row of the author 4.
    for (body, note, bytes) in [(1_900, 86, 1_998), (3_000, 9, 3_021), (70_000, 1, 70_013)] {
        let error = said(&wide(body, note).unwrap_err());
        let room = format!(
            "a row of posts has room for the longest value of each column, and rows that take {bytes} bytes, of 1997 at most, "
        );
        assert_eq!(error, room + &longest(body));
    }
    // The rows fit, and a statement that shows them all has no room.
    let error = said(&wide(1_900, 85).unwrap_err());
    assert!(
        error.starts_with("table posts: ") && error.ends_with(&longest(1_900)),
        "{error}"
    );
    assert!(
        error.contains("of the memory of a statement, which has"),
        "{error}"
    );
    let columns: Vec<String> = (0..33).map(|number| format!("c{number} INTEGER")).collect();
    let table = format!("CREATE TABLE many ({})", columns.join(", "));
    let error = said(&refusal(&[&table], |_| ()));
    assert_eq!(
        error,
        "the table many has 33 columns, and a table here has 32 at most"
    );
    let name = "n".repeat(49);
    let table = format!("CREATE TABLE t ({name} INTEGER, a INTEGER)");
    let error = said(&refusal(&[&table], |_| ()));
    assert!(
        error.ends_with("a name has letters, digits and _, 48 at most"),
        "{error}"
    );
}
