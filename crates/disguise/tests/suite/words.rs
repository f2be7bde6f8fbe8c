//! Texts of database errors.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Value};

const SECRET: &str = "bea@example.com";

/// Returns statements that make each database quote a value: a trigger, and then queries with one
/// parameter.
fn talkative(dialect: Dialect) -> (&'static [&'static str], &'static [&'static str]) {
    match dialect {
        Dialect::Sqlite => (
            &[
                "CREATE TRIGGER talks BEFORE INSERT ON notes BEGIN SELECT RAISE(ABORT, NEW.what); END",
            ],
            &[
                "SELECT json_extract('{}', ?)",
                "SELECT id FROM notes WHERE json_extract('{}', ?) = 1",
            ],
        ),
        Dialect::Postgres => (
            &[
                "CREATE FUNCTION talk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', NEW.what; END'",
                "CREATE TRIGGER talks BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION talk()",
            ],
            &[
                "SELECT id FROM notes WHERE code = ?",
                "SELECT CAST(? AS uuid)",
                "SELECT CAST(CAST(? AS text) AS date)",
                "SELECT CAST(CAST(? AS text) AS bigint)",
            ],
        ),
        _ => (
            &[
                "CREATE TRIGGER talks BEFORE INSERT ON notes FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = NEW.what",
            ],
            &[
                "SELECT EXTRACTVALUE('<a/>', ?)",
                "SELECT id FROM notes WHERE EXTRACTVALUE('<a/>', ?) = 1",
            ],
        ),
    }
}

/// The message of an error of the server quoted the id that was looked for, and it was written to the standard error of a command
/// and of the server over HTTP. Of such errors the code is told, and what the statement was about.
pub(crate) fn no_error_of_the_database_quotes_a_value() {
    let mut database = crate::connect();
    let dialect = database.dialect();
    let (trigger, queries) = talkative(dialect);
    let code = if dialect == Dialect::Postgres {
        "UUID"
    } else {
        "VARCHAR(90)"
    };
    let table =
        format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, what VARCHAR(90), code {code})");
    database.execute(&table, &[]).unwrap();
    database
        .execute("INSERT INTO notes VALUES (1, 'x', NULL)", &[])
        .unwrap();
    for sql in trigger {
        database.execute(sql, &[]).unwrap();
    }
    let secret = || Value::from(SECRET);
    let insert = "INSERT INTO notes (id, what) VALUES (?, ?)";
    let row = [Value::Int(2), secret()];
    let mut said = vec![
        database.execute(insert, &row).unwrap_err(),
        database.execute_each(insert, &[row.to_vec()]).unwrap_err(),
    ];
    for sql in queries {
        said.push(database.query(sql, &[secret()]).unwrap_err());
    }
    database.begin().unwrap();
    said.push(database.attempt(insert, &row).unwrap_err());
    database.rollback().unwrap();
    if dialect == Dialect::Postgres {
        let explained = "SELECT id FROM notes WHERE code = ?";
        said.push(database.explain(explained, &[secret()]).unwrap_err());
    }
    for error in said {
        let words = format!("{error} {error:?}");
        assert!(
            !words.contains("bea") && !words.contains("example"),
            "{words}"
        );
        assert!(
            words.contains("SQLSTATE ") || words.contains("error "),
            "{words}"
        );
    }
}
