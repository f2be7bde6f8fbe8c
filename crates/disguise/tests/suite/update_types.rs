//! Expressions of updates see hidden rows with the types and collations that the migration saw.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, DisguiseId, Engine, Error, Mapping, Revealed, UpdateError};

use super::society::{Society, description};

/// A table of posts with more columns, of person 1 with the keys from 1 and of person 2 from 1001.
pub(super) struct Twins {
    pub(super) society: Society,
    gone: DisguiseId,
}

/// A migration, as its author writes it.
pub(super) struct Migration<'m> {
    pub(super) columns: &'m str,
    pub(super) rows: &'m [&'m str],
    pub(super) sql: &'m [&'m str],
    pub(super) mapping: &'m str,
}

const TABLES: &str = "[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n";

impl Twins {
    /// Person 1 leaves, and then the migration comes.
    pub(super) fn of(migration: &Migration<'_>, chunk: Option<u32>) -> Self {
        let collation = "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
        let mut statements = if crate::connect().dialect() == Dialect::Postgres {
            let mood = "CREATE TYPE mood AS ENUM ('z', 'b', 'c')";
            vec![collation.to_owned(), mood.to_owned()]
        } else {
            Vec::new()
        };
        statements.extend([
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE posts (id INT PRIMARY KEY, who BIGINT, {})",
                migration.columns
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        ]);
        for (number, row) in (1..).zip(migration.rows) {
            for (who, id) in [(1, number), (2, number + 1000)] {
                statements.push(format!("INSERT INTO posts VALUES ({id}, {who}, {row})"));
            }
        }
        let mut society = Society::of(&statements, &description(TABLES), &[1, 2]);
        let gone = society.try_to_leave(Some(1), false, chunk).unwrap().id;
        for sql in migration.sql {
            society.sql(sql);
        }
        Self { society, gone }
    }

    pub(super) fn record(&mut self, mapping: &str) {
        let mapping = format!("[[update]]\nname = \"some\"\ntable = \"posts\"\n{mapping}");
        let mappings = Mapping::parse(&mapping).unwrap();
        let updates = self.society.update(&mappings);
        assert!(updates.is_ok(), "{mapping} {updates:?}");
    }

    pub(super) fn reveal(&mut self) -> Result<Revealed, Error> {
        self.society.try_to_return(1, self.gone)
    }

    /// Person 1 has in `what` of a table what person 2 has.
    pub(super) fn assert_alike(&mut self, table: &str, what: &str) {
        let mut of = |who: i64| {
            let sql = format!("SELECT {what} FROM {table} WHERE who = {who} ORDER BY id");
            self.society.engine.database().query(&sql, &[]).unwrap()
        };
        assert_eq!(of(1), of(2), "{table} {what}");
    }
}

fn holds(migration: &Migration<'_>, table: &str, what: &str) {
    let mut twins = Twins::of(migration, None);
    twins.record(migration.mapping);
    let revealed = twins.reveal();
    assert!(
        revealed.as_ref().is_ok_and(Revealed::is_complete),
        "{} {revealed:?}",
        migration.mapping
    );
    twins.assert_alike(table, what);
}

fn decimal() -> &'static str {
    match crate::connect().dialect() {
        Dialect::Postgres => "numeric",
        Dialect::Mysql => "DECIMAL(10,2)",
        _ => "NUMERIC",
    }
}

/// Numbers of columns and tables that were not there any more were compared as texts, so that 10 was less than 5: rows
/// vanished with success, or went to the wrong table, and an expression over them could not be asked.
pub(crate) fn updates_take_the_numbers_of_dropped_columns_for_numbers() {
    let rows = &["10", "4", "100", "9"];
    let here = "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"score\"]\n";
    holds(
        &Migration {
            columns: "score INT",
            rows,
            sql: &[
                "DELETE FROM posts WHERE score < 5",
                "ALTER TABLE posts ADD COLUMN double_score INT",
                "UPDATE posts SET double_score = score * 2",
                "ALTER TABLE posts DROP COLUMN score",
            ],
            mapping: &format!(
                "{here}sql = {{ double_score = \"score * 2\" }}\nwhere = \"score >= 5\"\n"
            ),
        },
        "posts",
        "id % 1000, double_score",
    );
    let price = format!("price {}", decimal());
    holds(
        &Migration {
            columns: &price,
            rows: &["12.34", "7", "100.5", "9.5"],
            sql: &[
                "ALTER TABLE posts ADD COLUMN cents INT",
                "UPDATE posts SET cents = price * 100",
                "DELETE FROM posts WHERE price < 9.75",
                "ALTER TABLE posts DROP COLUMN price",
            ],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"price\"]\nsql = { cents = \"price * 100\" }\nwhere = \"price >= 9.75\"\n",
        },
        "posts",
        "id % 1000, cents",
    );
    let both = format!("paid {0}, owed {0}", decimal());
    holds(
        &Migration {
            columns: &both,
            rows: &["9.50, 12.00", "12.00, 9.50", "100.5, 99.5"],
            sql: &["DELETE FROM posts WHERE NOT paid < owed"],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"paid < owed\"\n",
        },
        "posts",
        "id % 1000",
    );
    holds(
        &Migration {
            columns: "score INT",
            rows,
            sql: &[
                "CREATE TABLE high (id INT PRIMARY KEY, who BIGINT, score INT)",
                "INSERT INTO high SELECT * FROM posts WHERE score > 9",
                "DELETE FROM posts WHERE score > 9",
            ],
            mapping: "[[update.into]]\ntable = \"high\"\nrest = true\nwhere = \"score > 9\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"NOT score > 9\"\n",
        },
        "high",
        "id % 1000, score",
    );
}

/// A dropped truth value, and a column of texts that became numbers where it is.
pub(crate) fn updates_take_columns_of_another_type_now_for_what_they_were() {
    holds(
        &Migration {
            columns: "done BOOLEAN",
            rows: &["true", "false"],
            sql: &[
                "DELETE FROM posts WHERE NOT done",
                "ALTER TABLE posts DROP COLUMN done",
            ],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"done\"]\nwhere = \"done\"\n",
        },
        "posts",
        "id % 1000",
    );
    let sql: &[&str] = match crate::connect().dialect() {
        Dialect::Postgres => &["ALTER TABLE posts ALTER code TYPE integer USING length(code)"],
        Dialect::Mysql => &[
            "UPDATE posts SET code = char_length(code)",
            "ALTER TABLE posts MODIFY code INT",
        ],
        _ => &[
            "CREATE TABLE anew (id INT PRIMARY KEY, who BIGINT, code INTEGER)",
            "INSERT INTO anew SELECT id, who, length(code) FROM posts",
            "DROP TABLE posts",
            "ALTER TABLE anew RENAME TO posts",
        ],
    };
    holds(
        &Migration {
            columns: "code VARCHAR(20)",
            rows: &["'007'", "'1e3'", "'a'"],
            sql,
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { code = \"char_length(code)\" }\n",
        },
        "posts",
        "id % 1000, code",
    );
    let price = format!("price {}", decimal());
    holds(
        &Migration {
            columns: &price,
            rows: &["12.50", "13.50", "-2.5"],
            sql: &["UPDATE posts SET price = round(price)"],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { price = \"round(price)\" }\n",
        },
        "posts",
        "id % 1000, price",
    );
}

fn unlike_collation() -> &'static str {
    match crate::connect().dialect() {
        Dialect::Postgres => "VARCHAR(20) COLLATE caseless",
        Dialect::Mysql => "VARCHAR(20) COLLATE utf8mb4_bin",
        _ => "VARCHAR(20) COLLATE NOCASE",
    }
}

/// Texts of a column that was or is compared by its own rules were compared by those of a parameter: rows vanished with success, or
/// came back that the migration had deleted.
pub(crate) fn updates_compare_by_the_collation_that_a_column_had() {
    for drops in [false, true] {
        let columns = format!("kind {}", unlike_collation());
        let all = [
            "DELETE FROM posts WHERE NOT kind = 'POST'",
            "ALTER TABLE posts DROP COLUMN kind",
        ];
        let (sql, drop) = if drops {
            (&all[..], "drop = [\"kind\"]\n")
        } else {
            (&all[..1], "")
        };
        let mapping = format!(
            "[[update.into]]\ntable = \"posts\"\nrest = true\n{drop}where = \"kind = 'POST'\"\n"
        );
        let migration = Migration {
            columns: &columns,
            rows: &["'Post'", "'POST'", "'note'"],
            sql,
            mapping: &mapping,
        };
        holds(&migration, "posts", "id % 1000");
    }
}

/// A record says by a hash which types its columns had. Where these are not to be had, an expression that may find something else
/// is refused by name, and what cannot differ is asked.
pub(crate) fn an_update_over_columns_of_unknown_types_is_refused_where_it_might_differ() {
    let columns = format!("score INT, price {}", decimal());
    let migration = Migration {
        columns: &columns,
        rows: &["10, 10.25", "4, 4.25"],
        sql: &[
            "DELETE FROM posts WHERE score < 5",
            "ALTER TABLE posts DROP COLUMN score",
            "ALTER TABLE posts DROP COLUMN price",
        ],
        mapping: "",
    };
    let here = "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"score\", \"price\"]\n";
    for damage in [
        "DELETE FROM probity_settings WHERE name > ? AND name < ?",
        "UPDATE probity_settings SET value = name WHERE name > ? AND name < ?",
    ] {
        let mut twins = Twins::of(&migration, None);
        let names = ["shape:", "shape;"].map(|it| it.as_bytes().to_vec());
        let names = names.map(probity_disguise::Value::Bytes);
        let done = twins.society.engine.database().execute(damage, &names);
        assert!(done.unwrap() > 0);
        // Whoever recorded the rows knows their types anyhow.
        let engine = &mut twins.society.engine;
        let database = std::mem::replace(engine.database(), crate::connect());
        *engine = Engine::stored(database).unwrap();
        twins.record(&format!("{here}where = \"price > 5\"\n"));
        let refused = twins.reveal();
        let by_name = |error: &Error| matches!(error, Error::Update { name, source: UpdateError::Wrong(what) } if name == "some" && what.contains("price"));
        assert!(refused.as_ref().is_err_and(by_name), "{refused:?}");
        let mapping = format!(
            "[[update]]\nname = \"some\"\ntable = \"posts\"\n{here}where = \"score > 5\"\n"
        );
        let mapping = Mapping::parse(&mapping).unwrap();
        twins.society.replace(&mapping).unwrap();
        let revealed = twins.reveal().unwrap();
        assert!(revealed.is_complete(), "{revealed:?}");
        twins.assert_alike("posts", "id % 1000");
    }
}

/// A column that one update leaves as it is has its type in the next, and one that it makes has that of the table.
pub(crate) fn types_go_along_through_several_updates() {
    holds(
        &Migration {
            columns: "score INT",
            rows: &["10", "4", "100"],
            sql: &[
                "DELETE FROM posts WHERE score < 5",
                "ALTER TABLE posts DROP COLUMN score",
            ],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"score\"]\ncolumns = { points = \"score\" }\n\
                [[update]]\nname = \"next\"\ntable = \"posts\"\n[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"points\"]\nwhere = \"points >= 5\"\n",
        },
        "posts",
        "id % 1000",
    );
    let price = format!("price {}", decimal());
    holds(
        &Migration {
            columns: &price,
            rows: &["12.34", "7", "100.5"],
            sql: &[
                "ALTER TABLE posts ADD COLUMN cents INT",
                "UPDATE posts SET cents = price * 100",
                "ALTER TABLE posts DROP COLUMN price",
                "DELETE FROM posts WHERE cents < 900",
            ],
            mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"price\"]\nsql = { cents = \"price * 100\" }\n\
                [[update]]\nname = \"next\"\ntable = \"posts\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"cents >= 900\"\n",
        },
        "posts",
        "id % 1000, cents",
    );
}

/// An expression that the database takes of no hidden row was recorded, and refused everybody who returned.
pub(crate) fn an_update_is_tried_when_it_is_recorded() {
    let migration = Migration {
        columns: "score INT, t VARCHAR(9)",
        rows: &["10, 'a'"],
        sql: &["ALTER TABLE posts DROP COLUMN score"],
        mapping: "",
    };
    let here = "[[update]]\nname = \"some\"\ntable = \"posts\"\n[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"score\"]\n";
    let mut twins = Twins::of(&migration, None);
    let dialect = twins.society.engine.database().dialect();
    for (condition, fits) in [
        ("scores > 9", false),
        ("lower(score) = 'x'", dialect == Dialect::Sqlite),
        ("score > 9", true),
    ] {
        let mapping = format!("{here}where = \"{condition}\"\n").replace("some", condition);
        let mapping = Mapping::parse(&mapping).unwrap();
        let recorded = twins.society.update(&mapping);
        let is_refused = matches!(&recorded, Err(Error::Update { name, .. }) if name == condition);
        assert_eq!(is_refused, !fits, "{recorded:?}");
        if fits {
            break;
        }
    }
}

/// A constant with a fraction went through a rounded number: where a migration's literal 2.5 had made 3 of an
/// integer, it made 2, and 1.1 where that had made '1.10'. It is said as an expression, which is as written.
pub(crate) fn a_constant_that_is_no_integer_is_said_as_an_expression() {
    let migration = Migration {
        columns: "score INT, t VARCHAR(9)",
        rows: &["10, 'a'"],
        sql: &["UPDATE posts SET score = 2.5"],
        mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\nsql = { score = \"2.5\" }\n",
    };
    let mut twins = Twins::of(&migration, None);
    let said = |constant: &str| {
        format!(
            "{{\"update\": [{{\"name\": \"constant\", \"table\": \"posts\", \"into\": [{{\"table\": \"posts\", \"rest\": true, \"values\": {{\"score\": {constant}}}}}]}}]}}"
        )
    };
    for constant in ["2.5", "-0.5", "1e3", "2.0", "9223372036854775808"] {
        let mapping = Mapping::parse(&said(constant)).unwrap();
        let recorded = twins.society.update(&mapping);
        let refused = format!("{:?}", recorded.unwrap_err());
        assert!(
            refused.contains("write it as an expression"),
            "{constant}: {refused}"
        );
    }
    twins.record(migration.mapping);
    assert!(twins.reveal().unwrap().is_complete());
    twins.assert_alike("posts", "id % 1000, score");
}

/// Types go along with records of chunks, and with those that a new key seals anew.
pub(crate) fn types_of_columns_follow_chunks_and_new_keys() {
    let migration = Migration {
        columns: "score INT, t VARCHAR(9)",
        rows: &["10, 'a'", "4, 'b'", "100, 'c'"],
        sql: &[
            "DELETE FROM posts WHERE score < 5",
            "ALTER TABLE posts DROP COLUMN score",
        ],
        mapping: "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"score\"]\nwhere = \"score >= 5\"\n",
    };
    for chunk in [None, Some(1)] {
        let mut twins = Twins::of(&migration, chunk);
        let shapes = twins
            .society
            .numbers("SELECT COUNT(*) FROM probity_settings");
        twins.society.rekey(1);
        twins.record(migration.mapping);
        let revealed = twins.reveal().unwrap();
        assert!(revealed.is_complete(), "{chunk:?} {revealed:?}");
        twins.assert_alike("posts", "id % 1000, t");
        // The salt, the hash of the tables, the description, the shapes of both tables, and that no log
        // tells of what was done.
        assert_eq!(shapes, [6], "{chunk:?}");
    }
}
