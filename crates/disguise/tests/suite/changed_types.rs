//! Types and collations that changed before or behind a migration, though no update says so.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, Mapping, Revealed, UpdateError};

use super::forum::time;
use super::update_types::{Migration, Twins};

/// A change of a type within its family, and a migration that reads the column.
struct Change {
    columns: &'static str,
    rows: &'static [&'static str],
    /// The change, and what the migration does.
    sql: Vec<&'static str>,
    mapping: &'static str,
    what: &'static str,
}

const HERE: &str = "[[update.into]]\ntable = \"posts\"\nrest = true\n";
const COPIED: &str = "sql = { copy = \"v\" }\n";
const FIRST: &str = "where = \"v < 'c'\"\n";

const NUMBERS: &[&str] = &["3.50", "7", "-0.25"];
const WORDS: &[&str] = &["'z'", "'b'", "'c'"];
const TEXTS: &[&str] = &["'Zz'", "'b'", "'c'"];
const ADD: &str = "ALTER TABLE posts ADD COLUMN copy VARCHAR(40)";
const FILL: &str = "UPDATE posts SET copy = v";
const DELETE: &str = "DELETE FROM posts WHERE NOT v < 'c'";

impl Change {
    fn of(
        (columns, rows): (&'static str, &'static [&'static str]),
        sql: &[&'static str],
        (mapping, what): (&'static str, &'static str),
    ) -> Self {
        Self {
            columns,
            rows,
            sql: sql.to_vec(),
            mapping,
            what,
        }
    }
}

fn of_postgres() -> Vec<Change> {
    let measured = "sql = { copy = \"octet_length(v)\" }\n";
    vec![
        Change::of(
            ("v NUMERIC(8,2)", NUMBERS),
            &["ALTER TABLE posts ALTER v TYPE numeric(8,4)", ADD, FILL],
            (COPIED, "copy"),
        ),
        Change::of(
            ("v mood", WORDS),
            &["ALTER TABLE posts ALTER v TYPE text", DELETE],
            (FIRST, "v"),
        ),
        Change::of(
            ("v TEXT COLLATE \"C\"", TEXTS),
            &[
                "ALTER TABLE posts ALTER v TYPE text COLLATE \"und-x-icu\"",
                DELETE,
            ],
            (FIRST, "v"),
        ),
        Change::of(
            ("v CHAR(5)", TEXTS),
            &[
                "ALTER TABLE posts ALTER v TYPE text",
                "ALTER TABLE posts ADD copy INT",
                "UPDATE posts SET copy = octet_length(v)",
            ],
            (measured, "copy"),
        ),
    ]
}

fn of_mariadb() -> Vec<Change> {
    vec![
        Change::of(
            ("v DECIMAL(8,2)", NUMBERS),
            &["ALTER TABLE posts MODIFY v DECIMAL(8,4)", ADD, FILL],
            (COPIED, "copy"),
        ),
        Change::of(
            ("v ENUM('z','b','c')", WORDS),
            &[
                "ALTER TABLE posts MODIFY v VARCHAR(9)",
                "DELETE FROM posts WHERE NOT v < 'x'",
            ],
            ("where = \"v < 'x'\"\n", "v"),
        ),
        Change::of(
            ("v VARCHAR(9) COLLATE utf8mb4_bin", TEXTS),
            &[
                "ALTER TABLE posts MODIFY v VARCHAR(9) COLLATE utf8mb4_general_ci",
                DELETE,
            ],
            (FIRST, "v"),
        ),
    ]
}

fn of_sqlite() -> Vec<Change> {
    let anew = |create: &'static str, more: &[&'static str]| {
        let mut all = vec![
            create,
            "INSERT INTO anew SELECT * FROM posts",
            "DROP TABLE posts",
            "ALTER TABLE anew RENAME TO posts",
        ];
        all.extend(more);
        all
    };
    let real = anew(
        "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v REAL)",
        &[ADD, FILL],
    );
    let caseless = anew(
        "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v TEXT COLLATE NOCASE)",
        &[DELETE],
    );
    vec![
        Change::of(("v INTEGER", &["3", "7", "-1"]), &real, (COPIED, "copy")),
        Change::of(("v TEXT", TEXTS), &caseless, (FIRST, "v")),
    ]
}

fn changes(dialect: Dialect) -> Vec<Change> {
    match dialect {
        Dialect::Postgres => of_postgres(),
        Dialect::Mysql => of_mariadb(),
        _ => of_sqlite(),
    }
}

/// A column got another type of its family, or another collation, which is passed on without an update. The expressions of
/// the next update saw the former type: other texts and other rows, with success. They are refused, and with an update of
/// the change before, or behind where it came later, the rows are those of everybody else.
pub(crate) fn a_change_of_type_that_no_update_tells_is_refused_where_it_is_read() {
    let dialect = crate::connect().dialect();
    for change in changes(dialect) {
        let migration = Migration {
            columns: change.columns,
            rows: change.rows,
            sql: &change.sql,
            mapping: "",
        };
        let told = "[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { v = \"v\" }\n";
        let mapping = format!("{HERE}{}", change.mapping);
        let mut twins = Twins::of(&migration, None);
        let alone = format!("[[update]]\nname = \"some\"\ntable = \"posts\"\n{mapping}");
        let mappings = Mapping::parse(&alone).unwrap();
        let refused = twins.society.engine.updates().record(&mappings, time());
        let by_name = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains("reads column v"));
        assert!(
            refused.as_ref().is_err_and(by_name),
            "{} {refused:?}",
            change.columns
        );
        twins.record(&format!(
            "{told}[[update]]\nname = \"next\"\ntable = \"posts\"\n{mapping}"
        ));
        let revealed = twins.reveal();
        assert!(
            revealed.as_ref().is_ok_and(Revealed::is_complete),
            "{} {revealed:?}",
            change.columns
        );
        twins.assert_alike("posts", &format!("id % 1000, {}", change.what));
    }
}
