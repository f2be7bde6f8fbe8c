//! The export of hidden values shows every value exactly, on every database.

use std::fs;

use probity_disguise::database::connect;
use serde_json::value::RawValue;

use crate::place::{APPLY, Place};
use crate::{mariadb, postgres};

/// The type of a column, a value in SQL, and the value as the export shows it.
type Case = (&'static str, &'static str, &'static str);

/// Hides a row with a column for each case, exports it and compares the texts; then a pocket database takes
/// them, with the digits that they have.
fn every_value_is_shown_exactly(place: &Place, cases: &[Case]) {
    let columns: Vec<String> = (0..cases.len()).map(|at| format!("c{at:02}")).collect();
    let declared = columns.iter().zip(cases);
    let declared: Vec<String> = declared
        .map(|(name, (of, ..))| format!("{name} {of}"))
        .collect();
    let values: Vec<&str> = cases.iter().map(|(_, value, _)| *value).collect();
    let mut database = place.database();
    for sql in [
        format!(
            "CREATE TABLE measures (id BIGINT PRIMARY KEY, person BIGINT REFERENCES people(id), {})",
            declared.join(", ")
        ),
        format!(
            "INSERT INTO measures VALUES (9007199254740993, 19, {})",
            values.join(", ")
        ),
    ] {
        database
            .execute(&sql, &[])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    drop(database);
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    let register = [
        "disguise",
        "register",
        "--spec",
        "leave.toml",
        "--user",
        "19",
    ];
    place.run(
        &[&register[..], &["--credential-out", "19.key"]].concat(),
        0,
    );
    place.run(&APPLY, 0);
    let export = [
        "disguise",
        "export",
        "--user",
        "19",
        "--credential",
        "19.key",
    ];
    let (text, _) = place.run(&[&export[..], &["--log", "audit", "--json"]].concat(), 0);
    let row = row_of(&text);
    assert_eq!(raw(&raw(&row, "row"), "id"), "9007199254740993", "{row}");
    let values = raw(&row, "values");
    for (name, (of, value, expected)) in columns.iter().zip(cases) {
        assert_eq!(raw(&values, name), *expected, "{of} {value}");
    }
    // As text they are the same.
    let (lines, _) = place.run(&[&export[..], &["--log", "audit"]].concat(), 0);
    for (name, (of, _, expected)) in columns.iter().zip(cases) {
        assert!(
            lines.contains(&format!("\"{name}\":{expected}")),
            "{of} {lines}"
        );
    }
    fs::write(place.path("19.json"), &text).unwrap();
    let create = ["pocket", "create", "19.pocket", "--subject", "19"];
    place.run(&[&create[..], &["--disguises", "19.json"]].concat(), 0);
    let query = "SELECT name, type, text FROM hidden_values WHERE piece = 1 ORDER BY id";
    let (kept, _) = place.run(&["pocket", "query", "19.pocket", query, "--json"], 0);
    for (name, (.., expected)) in columns.iter().zip(cases) {
        let is_number = expected.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let member = format!("{{\"name\":\"{name}\",\"type\":\"number\",\"text\":\"{expected}\"}}");
        assert_eq!(kept.contains(&member), is_number, "{member}: {kept}");
    }
}

/// The hidden row of the table `measures`, as it is written.
fn row_of(text: &str) -> String {
    let rows = raw(text, "rows");
    let rows: Vec<Box<RawValue>> = serde_json::from_str(&rows).unwrap();
    let found = rows
        .iter()
        .find(|row| raw(row.get(), "table") == "\"measures\"");
    found.unwrap().get().to_owned()
}

/// A member of an object, as it is written.
fn raw(object: &str, name: &str) -> String {
    let members: std::collections::BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(object).unwrap();
    members[name].get().to_owned()
}

#[test]
fn every_hidden_value_is_shown_exactly_on_sqlite() {
    let cases = [
        ("BIGINT", "9007199254740993", "9007199254740993"),
        ("BIGINT", "-9223372036854775808", "-9223372036854775808"),
        ("REAL", "0.1", "0.1"),
        // The database itself keeps no sign of a zero.
        ("REAL", "-0.0", "0.0"),
        ("REAL", "9007199254740993", "9007199254740992.0"),
        ("DOUBLE", "5e-324", "5e-324"),
        (
            "DOUBLE",
            "1.7976931348623157e308",
            "1.7976931348623157e+308",
        ),
        ("DOUBLE", "0.1 + 0.2", "0.30000000000000004"),
        ("DOUBLE", "9e999", "{\"real\":\"inf\"}"),
        ("DOUBLE", "-9e999", "{\"real\":\"-inf\"}"),
        ("TEXT", "'1.50'", "\"1.50\""),
        ("BLOB", "x'00ff'", "{\"base64\":\"AP8=\"}"),
        ("TEXT", "NULL", "null"),
    ];
    every_value_is_shown_exactly(&Place::sqlite(), &cases);
}

#[test]
fn every_hidden_value_is_shown_exactly_on_postgres() {
    let cases = [
        ("BIGINT", "9007199254740993", "9007199254740993"),
        ("BIGINT", "-9223372036854775808", "-9223372036854775808"),
        (
            "NUMERIC(38, 10)",
            "12345678901234567890.1230000000",
            "\"12345678901234567890.1230000000\"",
        ),
        ("NUMERIC", "1.50", "\"1.50\""),
        ("NUMERIC", "'NaN'", "\"NaN\""),
        ("REAL", "0.1", "\"0.1\""),
        ("REAL", "16777217", "\"1.6777216e+07\""),
        ("DOUBLE PRECISION", "0.1", "\"0.1\""),
        ("DOUBLE PRECISION", "'-0'", "\"-0\""),
        ("DOUBLE PRECISION", "5e-324", "\"5e-324\""),
        (
            "DOUBLE PRECISION",
            "0.1::float8 + 0.2::float8",
            "\"0.30000000000000004\"",
        ),
        ("DOUBLE PRECISION", "'-Infinity'", "\"-Infinity\""),
        ("DATE", "'2026-01-02'", "\"2026-01-02\""),
        (
            "TIMESTAMP(3)",
            "'2026-01-02 03:04:05.500'",
            "\"2026-01-02 03:04:05.5\"",
        ),
        ("BYTEA", "'\\x00ff'", "{\"base64\":\"AP8=\"}"),
        ("TEXT", "NULL", "null"),
    ];
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    every_value_is_shown_exactly(&Place::new(|_| postgres::url(&socket)), &cases);
}

#[test]
fn every_hidden_value_is_shown_exactly_on_mariadb() {
    let cases = [
        ("BIGINT", "9007199254740993", "9007199254740993"),
        (
            "BIGINT UNSIGNED",
            "18446744073709551615",
            "18446744073709551615",
        ),
        ("BIGINT", "-9223372036854775808", "-9223372036854775808"),
        (
            "DECIMAL(38, 10)",
            "12345678901234567890.1230000000",
            "\"12345678901234567890.1230000000\"",
        ),
        ("DECIMAL(4, 2)", "1.5", "\"1.50\""),
        ("FLOAT", "0.1", "0.1"),
        ("FLOAT", "16777217", "16777216.0"),
        ("FLOAT", "1e-45", "1e-45"),
        ("FLOAT", "NULL", "null"),
        ("DOUBLE", "0.1", "0.1"),
        ("DOUBLE", "0.1e0 + 0.2e0", "0.30000000000000004"),
        ("DOUBLE", "0.10000000149011612", "0.10000000149011612"),
        (
            "DOUBLE",
            "1.7976931348623157e308",
            "1.7976931348623157e+308",
        ),
        ("DATE", "'2026-01-02'", "\"2026-01-02\""),
        (
            "DATETIME(3)",
            "'2026-01-02 03:04:05.500'",
            "\"2026-01-02 03:04:05.500000\"",
        ),
        (
            "DATETIME(3)",
            "'2026-01-02 03:04:05'",
            "\"2026-01-02 03:04:05\"",
        ),
        (
            "DATETIME",
            "'2026-01-02 03:04:05'",
            "\"2026-01-02 03:04:05\"",
        ),
        ("TIME(6)", "'-03:04:05.5'", "\"-03:04:05.500000\""),
        ("YEAR", "2026", "2026"),
        ("BIT(9)", "b'100000001'", "257"),
        ("VARBINARY(4)", "x'00ff'", "{\"base64\":\"AP8=\"}"),
    ];
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    database.execute("CREATE DATABASE app", &[]).unwrap();
    every_value_is_shown_exactly(&Place::new(|_| mariadb::url(&socket, "app")), &cases);
}
