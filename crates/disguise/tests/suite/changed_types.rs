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
            ("v SET('r','w','x')", &["'w'", "'r,x'", "''"]),
            &[
                "ALTER TABLE posts MODIFY v SET('w','x','r')",
                "ALTER TABLE posts ADD n INT",
                "UPDATE posts SET n = v & 1",
            ],
            ("sql = { n = \"v & 1\" }\n", "n"),
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

/// Returns the types that a change led to, as an update says them.
fn found(dialect: Dialect, columns: &str) -> &'static str {
    match (dialect, columns) {
        (Dialect::Postgres, "v NUMERIC(8,2)") => "numeric(8,4)",
        (Dialect::Postgres, "v TEXT COLLATE \"C\"") => "text COLLATE pg_catalog.\"und-x-icu\"",
        (Dialect::Postgres, _) => "text",
        (Dialect::Mysql, "v DECIMAL(8,2)") => "decimal(8,4)",
        (Dialect::Mysql, "v ENUM('z','b','c')") => "varchar(9)",
        (Dialect::Mysql, "v SET('r','w','x')") => "set('w','x','r')",
        (Dialect::Mysql, _) => "varchar(9) collate utf8mb4_general_ci",
        (_, "v INTEGER") => "REAL",
        (_, _) => "TEXT COLLATE NOCASE",
    }
}

fn asks_for(recorded: &Result<(), Error>, column: &str) -> bool {
    let asks = |error: &Error| matches!(error, Error::Update { source: UpdateError::Wrong(what), .. } if what.contains(&format!("found: {column} (was")));
    recorded.as_ref().is_err_and(asks)
}

fn mappings(was: &str, target: &str) -> Vec<Mapping> {
    let text =
        format!("[[update]]\nname = \"some\"\ntable = \"posts\"\n{was}[[update.into]]\n{target}");
    Mapping::parse(&text).unwrap()
}

/// A column got another type of its family, or another collation, which is passed on without an update. The expressions of
/// the next update saw the former type: other texts and other rows, with success. They are refused, and where the update
/// says the type that its migration found the rows are those of everybody else.
pub(crate) fn a_change_of_type_that_no_update_tells_is_refused_where_it_is_read() {
    let dialect = crate::connect().dialect();
    for change in changes(dialect) {
        let migration = Migration {
            columns: change.columns,
            rows: change.rows,
            sql: &change.sql,
            mapping: "",
        };
        let target = format!("table = \"posts\"\nrest = true\n{}", change.mapping);
        let mut twins = Twins::of(&migration, None);
        let mut updates = twins.society.engine.updates();
        let refused = updates.record(&mappings("", &target), time());
        assert!(asks_for(&refused, "v"), "{} {refused:?}", change.columns);
        let was = toml::Value::String(found(dialect, change.columns).to_owned());
        let said = mappings(&format!("was = {{ v = {was} }}\n"), &target);
        updates.record(&said, time()).unwrap();
        let revealed = twins.reveal();
        assert!(
            revealed.as_ref().is_ok_and(Revealed::is_complete),
            "{} {revealed:?}",
            change.columns
        );
        twins.assert_alike("posts", &format!("id % 1000, {}", change.what));
    }
}

/// The type changed behind a migration that read the column. Its update says the type with which rows are hidden.
pub(crate) fn a_change_of_type_behind_a_migration_is_told_by_the_type_before() {
    let dialect = crate::connect().dialect();
    let (first, then, was) = match dialect {
        Dialect::Postgres => ("NUMERIC(8,2)", "numeric(8,4)", "numeric(8,2)"),
        Dialect::Mysql => ("DECIMAL(8,2)", "DECIMAL(8,4)", "decimal(8,2)"),
        _ => return,
    };
    let change = match dialect {
        Dialect::Postgres => format!("ALTER TABLE posts ALTER v TYPE {then}"),
        _ => format!("ALTER TABLE posts MODIFY v {then}"),
    };
    let columns = format!("v {first}");
    let migration = Migration {
        columns: &columns,
        rows: NUMBERS,
        sql: &[ADD, FILL, &change],
        mapping: "",
    };
    let mut twins = Twins::of(&migration, None);
    let target = format!("table = \"posts\"\nrest = true\n{COPIED}");
    let mut updates = twins.society.engine.updates();
    let refused = updates.record(&mappings("", &target), time());
    assert!(asks_for(&refused, "v"), "{refused:?}");
    let said = mappings(&format!("was = {{ v = \"{was}\" }}\n"), &target);
    updates.record(&said, time()).unwrap();
    assert!(twins.reveal().unwrap().is_complete());
    twins.assert_alike("posts", "id % 1000, v, copy");
}

const REBUILT_AS_REAL: [&str; 4] = [
    "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v REAL)",
    "INSERT INTO anew SELECT * FROM posts",
    "DROP TABLE posts",
    "ALTER TABLE anew RENAME TO posts",
];
const REBUILT_AS_TEXT: [&str; 4] = [
    "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v TEXT)",
    "INSERT INTO anew SELECT * FROM posts",
    "DROP TABLE posts",
    "ALTER TABLE anew RENAME TO posts",
];
const COPIED_AND_DROPPED: [&str; 3] = [
    "ALTER TABLE posts ADD COLUMN w VARCHAR(40)",
    "UPDATE posts SET w = v",
    "ALTER TABLE posts DROP COLUMN v",
];

/// The column that a migration read is gone, or has been made anew, so that nothing showed that it had got another type
/// before: the former one counted, with success. An update must say the type that was found.
pub(crate) fn the_type_of_a_column_that_is_gone_is_said() {
    let dialect = crate::connect().dialect();
    let (kind, between, last): (_, &[&str], &[&str]) = match dialect {
        Dialect::Postgres => (
            "NUMERIC(8,2)",
            &["ALTER TABLE posts ALTER v TYPE int"],
            &["ALTER TABLE posts ALTER v TYPE text"],
        ),
        Dialect::Mysql => (
            "DECIMAL(8,2)",
            &["ALTER TABLE posts MODIFY v INT"],
            &["ALTER TABLE posts MODIFY v VARCHAR(40)"],
        ),
        _ => ("INTEGER", &REBUILT_AS_REAL, &REBUILT_AS_TEXT),
    };
    let was = match dialect {
        Dialect::Postgres => "integer",
        Dialect::Mysql => "INT",
        _ => "REAL",
    };
    let columns = format!("v {kind}");
    for is_dropped in [false, true] {
        let rest = if is_dropped {
            &COPIED_AND_DROPPED
        } else {
            last
        };
        let sql: Vec<&str> = between.iter().chain(rest).copied().collect();
        let migration = Migration {
            columns: &columns,
            rows: &["7", "12", "NULL"],
            sql: &sql,
            mapping: "",
        };
        let target = if is_dropped {
            "table = \"posts\"\nrest = true\ndrop = [\"v\"]\nsql = { w = \"v\" }\n"
        } else {
            "table = \"posts\"\nrest = true\nsql = { v = \"v\" }\n"
        };
        let mut twins = Twins::of(&migration, None);
        let mut updates = twins.society.engine.updates();
        let refused = updates.record(&mappings("", target), time());
        assert!(asks_for(&refused, "v"), "{refused:?}");
        let unknown = mappings("was = { v = \"no_such_type\" }\n", target);
        let refused = (dialect != Dialect::Sqlite).then(|| updates.record(&unknown, time()));
        assert!(!matches!(refused, Some(Ok(()) | Err(Error::Update { .. }))));
        let absent = mappings("was = { x = \"int\" }\n", target);
        let refused = updates.record(&absent, time());
        assert!(matches!(refused, Err(Error::Update { .. })), "{refused:?}");
        let said = mappings(&format!("was = {{ v = \"{was}\" }}\n"), target);
        updates.record(&said, time()).unwrap();
        assert!(twins.reveal().unwrap().is_complete());
        let what = if is_dropped { "w" } else { "v" };
        twins.assert_alike("posts", &format!("id % 1000, {what}"));
    }
}

/// A number became too big for the type with which it was hidden, and every reveal was refused without a way on. Another
/// mapping says the type between.
pub(crate) fn a_wider_type_that_a_migration_found_is_said_afterwards() {
    let (wider, times) = match crate::connect().dialect() {
        Dialect::Postgres => ("ALTER TABLE posts ALTER v TYPE bigint", "v * 10"),
        _ => return,
    };
    let migration = Migration {
        columns: "v INT",
        rows: &["2000000000", "1"],
        sql: &[wider, "UPDATE posts SET v = v * 10"],
        mapping: "",
    };
    let target = format!("table = \"posts\"\nrest = true\nsql = {{ v = \"{times}\" }}\n");
    let mut twins = Twins::of(&migration, None);
    let mut updates = twins.society.engine.updates();
    updates.record(&mappings("", &target), time()).unwrap();
    let refused = twins.reveal();
    assert!(
        matches!(&refused, Err(error @ Error::Update { .. }) if format!("{error:?}").contains("Database")),
        "{refused:?}"
    );
    let said = mappings("was = { v = \"bigint\" }\n", &target);
    let mut updates = twins.society.engine.updates();
    updates.replace(&said[0], time()).unwrap();
    assert!(twins.reveal().unwrap().is_complete());
    twins.assert_alike("posts", "id % 1000, v");
}
