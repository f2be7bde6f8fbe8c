//! Statements, and rows of files.

use probity_vault::{End, Import, Observer, Reached, RowsFormat, VaultError, run_script};

use crate::{Pocket, pocket, rows, said};

const TABLE: &str = "CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor TEXT(8), day INTEGER)";

fn visits() -> Pocket {
    let mut store = pocket();
    let done = run_script(&mut store, TABLE).unwrap();
    assert_eq!((done.statements, done.tables_created), (1, 1));
    store
}

/// Imports `text`; returns the end, and the number of rows that were committed.
fn import(
    store: &mut Pocket,
    format: RowsFormat,
    text: &str,
    observer: &mut dyn Observer,
) -> (Result<End, VaultError>, u64) {
    let mut import = Import::new(store, "visits", 2).unwrap();
    let end = import.read(format, text.as_bytes(), observer);
    (end, import.committed())
}

/// Counts rows, and stops before the row after `most`.
struct Most {
    taken: u64,
    most: u64,
}

impl Observer for Most {
    fn took(&mut self, number: u64) {
        assert_eq!(number, self.taken + 1);
        self.taken = number;
    }

    fn is_stopped(&self) -> bool {
        self.taken >= self.most
    }
}

#[test]
fn rows_of_both_formats_are_the_same_rows() {
    let csv = "Day,doctor\n1,Ada\n2,\"Bea, MD\"\n";
    let json = r#"{"doctor":"Ada","day":1} [{"day":2,"doctor":"Bea, MD"}]"#;
    let both = [(RowsFormat::Csv, csv), (RowsFormat::Json, json)].map(|(format, text)| {
        let mut store = visits();
        let (end, committed) = import(&mut store, format, text, &mut ());
        assert_eq!((end.unwrap(), committed), (End::Input, 2));
        rows(&mut store, "SELECT doctor, day FROM visits ORDER BY day")
    });
    assert_eq!(both[0], ["Ada|1", "Bea, MD|2"]);
    assert_eq!(both[0], both[1]);
}

#[test]
fn an_observer_sees_each_row_and_a_stop_keeps_those_before_it() {
    for (format, text) in [
        (RowsFormat::Csv, "day,doctor\n1,a\n2,b\n3,c\n4,d\n"),
        (
            RowsFormat::Json,
            r#"[{"day":1,"doctor":"a"},{"day":2,"doctor":"b"},{"day":3,"doctor":"c"},{"day":4,"doctor":"d"}]"#,
        ),
    ] {
        let mut store = visits();
        let mut most = Most { taken: 0, most: 3 };
        let (end, committed) = import(&mut store, format, text, &mut most);
        assert_eq!((end.unwrap(), committed), (End::Stopped, 3));
        assert_eq!(rows(&mut store, "SELECT COUNT(*) FROM visits"), ["3"]);
    }
}

#[test]
fn a_refused_row_says_its_place_and_the_rows_before_it_stay() {
    let mut store = visits();
    let text = "day,doctor\n1,a\n2,b\n3,c\nnoon,d\n";
    let (end, committed) = import(&mut store, RowsFormat::Csv, text, &mut ());
    let error = end.unwrap_err();
    assert!(matches!(
        &error,
        VaultError::Reached { at: Reached::Line(5), cause, .. }
            if matches!(&**cause, VaultError::NoNumber { column } if column == "day")
    ));
    assert_eq!(said(&error), "line 5: the value of day is no number");
    assert_eq!(committed, 2);

    let (end, _) = import(&mut store, RowsFormat::Json, r#"{"day":true}"#, &mut ());
    let error = said(&end.unwrap_err());
    assert_eq!(error, "object 1: the value of day is no text and no number");
    let long = r#"{"doctor":"Bartholomew","day":1}"#;
    let (end, _) = import(&mut store, RowsFormat::Json, long, &mut ());
    let error = said(&end.unwrap_err());
    assert!(error.starts_with("object 1: "), "{error}");
}

/// In a file with CRLF, and behind blank lines, the line of a refused row was one that was taken: who
/// cut the file there imported a row twice.
#[test]
fn a_refused_row_is_at_its_line_whatever_ends_the_lines() {
    for (text, line) in [
        ("day,doctor\r\n1,a\r\n2,b\r\nx,c\r\n", 4),
        ("day,doctor\r\nx,a", 2),
        ("day,doctor\n\n\nx,a\n", 4),
        ("day,doctor\r\n\r\n\r\nx,a\r\n", 4),
        ("\r\n\r\nday,doctor\r\nx,a\r\n", 4),
        ("\u{feff}\n\nday,doctor\nx,a\n", 4),
        ("\u{feff}day,doctor\r\n1,a\r\nx,b\r\n", 3),
        ("day,doctor\r\n1,\"a\r\nb\"\r\nx,c\r\n", 4),
        ("day,doctor\r\n1,\"a\nb\"\r\nx,c\r\n", 4),
        ("day,doctor\r\n1,\"a\rb\"\r\nx,c\r\n", 3),
        ("day,doctor\n1,\"a\n\n\"\nx,\"\nc\"\n", 5),
        ("day,doctor\r\n1,a\"b\r\nx,c\r\n", 3),
        ("day,doctor\r\n1,\"a\"\"\r\n\"b\r\nx,c\r\n", 4),
    ] {
        let (end, _) = import(&mut visits(), RowsFormat::Csv, text, &mut ());
        let error = said(&end.unwrap_err());
        let expected = format!("line {line}: the value of day is no number");
        assert_eq!(error, expected, "{text:?}");
    }
    let many = (1..=9000).map(|day| format!("{day},a\r\n\r\n"));
    let text = format!("day,doctor\r\n{}x,a\r\n", many.collect::<String>());
    let (end, _) = import(&mut visits(), RowsFormat::Csv, &text, &mut ());
    assert!(said(&end.unwrap_err()).starts_with("line 18002: "));
    for (row, what) in [
        (&b"1,a,b"[..], "it has 3 values, and the heading 2"),
        (&b"1"[..], "it has 1 values, and the heading 2"),
        (&b"1,\xff"[..], "the value of doctor is not UTF-8"),
    ] {
        let text = [b"day,doctor\r\n1,a\r\n\r\n", row, b"\r\n2,b\r\n"].concat();
        let mut store = visits();
        let mut import = Import::new(&mut store, "visits", 2).unwrap();
        let error = import
            .read(RowsFormat::Csv, text.as_slice(), &mut ())
            .unwrap_err();
        let expected = format!("line 4: the CSV file is malformed: {what}");
        assert_eq!(said(&error), expected);
    }
}

#[test]
fn a_malformed_file_is_refused_with_the_readers_words() {
    for (format, text, words) in [
        (
            RowsFormat::Csv,
            "day,doctor\n1,\"Ada\n",
            "the CSV file is malformed: ",
        ),
        (RowsFormat::Csv, "", "the CSV file is empty"),
        (
            RowsFormat::Csv,
            "day,nurse\n",
            "the table visits has no column nurse",
        ),
        (
            RowsFormat::Json,
            "{\"day\":1",
            "the JSON file is malformed: ",
        ),
        (
            RowsFormat::Json,
            "{\"day\":1,\"day\":2}",
            "the JSON file is malformed: the object has the member day twice",
        ),
    ] {
        let (end, committed) = import(&mut visits(), format, text, &mut ());
        let error = said(&end.unwrap_err());
        assert!(error.starts_with(words), "{error}");
        assert_eq!(committed, 0);
    }
    let mut store = pocket();
    let error = Import::new(&mut store, "visits", 1).err().unwrap();
    assert!(matches!(error, VaultError::NoTable { table } if table == "visits"));
}

#[test]
fn a_script_counts_what_it_did_and_names_the_statement_that_is_refused() {
    let mut store = visits();
    let script = "INSERT INTO visits (doctor, day) VALUES ('a', 1); BEGIN; \
                  INSERT INTO visits (doctor, day) VALUES ('b', 2); ROLLBACK; \
                  UPDATE visits SET day = 3 WHERE id = 1";
    let done = run_script(&mut store, script).unwrap();
    assert_eq!((done.statements, done.rows_changed), (5, 2));
    assert_eq!(done.rows_gone_along, 0);

    let error = run_script(&mut store, "BEGIN; SELECT * FROM visits").unwrap_err();
    assert!(matches!(
        &error,
        VaultError::Reached { at: Reached::Statement { number: 2, at: 7 }, cause, .. }
            if matches!(**cause, VaultError::Shows)
    ));
    let error = run_script(&mut store, "DELETE FROM visits WHERE id = 1").unwrap_err();
    assert!(matches!(error, VaultError::Unended), "{error}");
    assert_eq!(rows(&mut store, "SELECT COUNT(*) FROM visits"), ["1"]);
}

#[test]
fn rows_that_go_along_are_counted_apart() {
    let mut store = pocket();
    let script = "CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT(8)); \
                  CREATE TABLE visits (id INTEGER PRIMARY KEY, doctor INTEGER REFERENCES doctors(id)); \
                  INSERT INTO doctors (name) VALUES ('a'); INSERT INTO doctors (name) VALUES ('b'); \
                  INSERT INTO visits (doctor) VALUES (1); INSERT INTO visits (doctor) VALUES (1); \
                  INSERT INTO visits (doctor) VALUES (2)";
    run_script(&mut store, script).unwrap();
    let done = run_script(&mut store, "DELETE FROM doctors WHERE id = 1").unwrap();
    assert_eq!((done.rows_changed, done.rows_gone_along), (1, 2));
}

/// A value that JSON does not have was refused with a line that was counted from the value's own
/// beginning, and without its name. The file's line and the member are named.
#[test]
fn a_malformed_value_is_named_by_its_line_and_member() {
    let row = "{\"day\":1,\"doctor\":\"a\"}\n";
    for (member, value, words) in [
        ("day", "1e400", "number out of range"),
        ("doctor", "\"\\ud800\"", "unexpected end of hex escape"),
        ("day", "1e-400", "nearer to 0"),
    ] {
        let bad = format!("{{\"{member}\":{value},\"other\":1}}\n");
        let text = format!("{}{bad}{row}", row.repeat(149));
        let (end, committed) = import(&mut visits(), RowsFormat::Json, &text, &mut ());
        let error = said(&end.unwrap_err());
        assert!(error.contains(words) && error.contains(member), "{error}");
        assert!(error.contains(" at line 150 column "), "{error}");
        assert!(!error.contains(" at line 1 "), "{error}");
        assert_eq!(committed, 148);
    }
}

/// A value that refers to a real number was rounded to it, from CSV as from JSON: it referred to the
/// row of another value.
#[test]
fn an_integer_of_a_file_refers_to_a_real_number_of_its_value_alone() {
    let tables = "CREATE TABLE ranks (id INTEGER PRIMARY KEY, n REAL UNIQUE); \
                  CREATE TABLE visits (id INTEGER PRIMARY KEY, rank REAL REFERENCES ranks(n), weight REAL); \
                  INSERT INTO ranks (n) VALUES (9007199254740992), (2)";
    for (format, rows_of) in [
        (RowsFormat::Csv, |rank: &str| {
            format!("rank,weight\n{rank},9007199254740993\n")
        }),
        (RowsFormat::Json, |rank: &str| {
            format!("{{\"rank\":{rank},\"weight\":9007199254740993}}")
        }),
    ] as [(RowsFormat, fn(&str) -> String); 2]
    {
        let mut store = pocket();
        run_script(&mut store, tables).unwrap();
        for rank in ["2", "2.0", "9007199254740992"] {
            import(&mut store, format, &rows_of(rank), &mut ())
                .0
                .unwrap();
        }
        let (end, _) = import(&mut store, format, &rows_of("9007199254740993"), &mut ());
        let error = said(&end.unwrap_err());
        assert!(
            error.ends_with("ranks has no row 9007199254740993"),
            "{error}"
        );
        assert_eq!(
            rows(&mut store, "SELECT rank, weight FROM visits"),
            [
                "2.0|9007199254740992.0",
                "2.0|9007199254740992.0",
                "9007199254740992.0|9007199254740992.0"
            ]
        );
    }
}
