//! Types and collations that changed before or behind a migration, though no update says so.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, Mapping, UpdateError};

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

fn changes(dialect: Dialect) -> Vec<Change> {
    let of = |columns, rows, sql: &[&'static str], mapping, what| Change {
        columns,
        rows,
        sql: sql.to_vec(),
        mapping,
        what,
    };
    let add = "ALTER TABLE posts ADD COLUMN copy VARCHAR(40)";
    let (fill, delete) = (
        "UPDATE posts SET copy = v",
        "DELETE FROM posts WHERE NOT v < 'c'",
    );
    let numbers: &[&str] = &["3.50", "7", "-0.25"];
    let words: &[&str] = &["'z'", "'b'", "'c'"];
    let texts: &[&str] = &["'Zz'", "'b'", "'c'"];
    match dialect {
        Dialect::Postgres => vec![
            of(
                "v NUMERIC(8,2)",
                numbers,
                &["ALTER TABLE posts ALTER v TYPE numeric(8,4)", add, fill],
                COPIED,
                "copy",
            ),
            of(
                "v mood",
                words,
                &["ALTER TABLE posts ALTER v TYPE text", delete],
                FIRST,
                "v",
            ),
            of(
                "v TEXT COLLATE \"C\"",
                texts,
                &[
                    "ALTER TABLE posts ALTER v TYPE text COLLATE \"und-x-icu\"",
                    delete,
                ],
                FIRST,
                "v",
            ),
            of(
                "v CHAR(5)",
                texts,
                &[
                    "ALTER TABLE posts ALTER v TYPE text",
                    "ALTER TABLE posts ADD copy INT",
                    "UPDATE posts SET copy = octet_length(v)",
                ],
                "sql = { copy = \"octet_length(v)\" }\n",
                "copy",
            ),
        ],
        Dialect::Mysql => vec![
            of(
                "v DECIMAL(8,2)",
                numbers,
                &["ALTER TABLE posts MODIFY v DECIMAL(8,4)", add, fill],
                COPIED,
                "copy",
            ),
            of(
                "v ENUM('z','b','c')",
                words,
                &[
                    "ALTER TABLE posts MODIFY v VARCHAR(9)",
                    "DELETE FROM posts WHERE NOT v < 'x'",
                ],
                "where = \"v < 'x'\"\n",
                "v",
            ),
            of(
                "v VARCHAR(9) COLLATE utf8mb4_bin",
                texts,
                &[
                    "ALTER TABLE posts MODIFY v VARCHAR(9) COLLATE utf8mb4_general_ci",
                    delete,
                ],
                FIRST,
                "v",
            ),
        ],
        _ => {
            let anew = |columns: &'static str| {
                vec![
                    columns,
                    "INSERT INTO anew SELECT * FROM posts",
                    "DROP TABLE posts",
                    "ALTER TABLE anew RENAME TO posts",
                ]
            };
            let rest = |create, more: &[&'static str]| {
                let mut all = anew(create);
                all.extend(more);
                all
            };
            vec![
                of(
                    "v INTEGER",
                    &["3", "7", "-1"],
                    &rest(
                        "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v REAL)",
                        &[add, fill],
                    ),
                    COPIED,
                    "copy",
                ),
                of(
                    "v TEXT",
                    texts,
                    &rest(
                        "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, v TEXT COLLATE NOCASE)",
                        &[delete],
                    ),
                    FIRST,
                    "v",
                ),
            ]
        }
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
            revealed.as_ref().is_ok_and(|it| it.is_complete()),
            "{} {revealed:?}",
            change.columns
        );
        twins.assert_alike("posts", &format!("id % 1000, {}", change.what));
    }
}
