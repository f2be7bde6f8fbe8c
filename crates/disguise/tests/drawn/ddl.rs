//! The statements that make the drawn tables and fill them.

use probity_disguise::Dialect;

use super::kinds_postgres;
use super::layout::{Form, Layout, Link, Outside, Table, Trigger, Values};
use super::rows::{Row, Rows};

/// The table that triggers write to.
pub(crate) const TRAIL: &str = "trail";

/// Returns the statements that create the schema, in the database or schema `place`.
pub(crate) fn made(layout: &Layout, place: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    let dialect = layout.dialect;
    if dialect == Dialect::Postgres {
        statements.extend(kinds_postgres::MADE.iter().map(|it| (*it).to_owned()));
        if layout.has_second {
            statements.push(format!("CREATE SCHEMA {place}_b"));
            statements.push(format!("SET search_path = {place}, {place}_b"));
        }
    }
    for table in &layout.tables {
        statements.extend(table_made(layout, table, place));
    }
    if dialect != Dialect::Sqlite {
        for table in &layout.tables {
            for link in &table.links {
                statements.push(format!(
                    "ALTER TABLE {} ADD {}",
                    dialect.quote(&table.name),
                    linked(layout, table, link)
                ));
            }
        }
    }
    if layout.outside == Outside::Cascades {
        let users = &layout.tables[0];
        let key: Vec<String> = users
            .key
            .iter()
            .map(|it| dialect.quote(&users.columns[*it].name))
            .collect();
        let of: Vec<String> = users
            .key
            .iter()
            .map(|it| referring(&users.columns[*it].values, &users.columns[*it].sql))
            .collect();
        let columns: Vec<String> = of
            .iter()
            .enumerate()
            .map(|(at, sql)| format!("k{at} {sql}"))
            .collect();
        let names: Vec<String> = (0..of.len()).map(|at| format!("k{at}")).collect();
        statements.push(match dialect {
            Dialect::Mysql => format!("CREATE DATABASE {place}_out CHARACTER SET utf8mb4"),
            _ => format!("CREATE SCHEMA {place}_out"),
        });
        let at = if users.is_second {
            format!("{place}_b")
        } else {
            place.to_owned()
        };
        statements.push(format!(
            "CREATE TABLE {place}_out.seen ({}, FOREIGN KEY ({}) REFERENCES {at}.{} ({}) ON DELETE CASCADE)",
            columns.join(", "),
            names.join(", "),
            dialect.quote(&users.name),
            key.join(", ")
        ));
    }
    statements
}

fn referring(values: &Values, sql: &str) -> String {
    match values {
        Values::Key(key) => key.referring.to_owned(),
        _ => sql.to_owned(),
    }
}

/// Returns the clause after the columns.
fn ending(dialect: Dialect, table: &Table) -> String {
    match table.form {
        Form::Strict => "STRICT".to_owned(),
        Form::WithoutRowid => "WITHOUT ROWID".to_owned(),
        Form::Versioned => "WITH SYSTEM VERSIONING".to_owned(),
        Form::Partitioned => {
            format!("PARTITION BY HASH ({})", listed(dialect, table, &table.key))
        }
        Form::Plain | Form::Inherited => String::new(),
    }
}

fn table_made(layout: &Layout, table: &Table, place: &str) -> Vec<String> {
    let dialect = layout.dialect;
    let mut parts = Vec::new();
    let counts = dialect == Dialect::Sqlite
        && table.key.len() == 1
        && table.columns[table.key[0]].sql == "INTEGER"
        && table.form != Form::WithoutRowid
        && table.columns.len().is_multiple_of(2);
    for (at, column) in table.columns.iter().enumerate() {
        let is_key = table.key.contains(&at);
        let more = if counts && is_key {
            "PRIMARY KEY AUTOINCREMENT".to_owned()
        } else {
            column.more.clone()
        };
        let is_computed = matches!(column.values, Values::Computed);
        let demands = if column.nullable || is_computed {
            ""
        } else {
            "NOT NULL"
        };
        let sql = if column.nullable {
            column.sql.clone()
        } else {
            column.sql.replace(" NULL", "")
        };
        parts.push(format!(
            "{} {sql} {demands} {more}",
            dialect.quote(&column.name)
        ));
    }
    if !counts {
        parts.push(format!(
            "PRIMARY KEY ({})",
            listed(dialect, table, &table.key)
        ));
    }
    for unique in &table.unique {
        parts.push(format!("UNIQUE ({})", listed(dialect, table, &[*unique])));
    }
    if dialect == Dialect::Sqlite {
        parts.extend(table.links.iter().map(|link| linked(layout, table, link)));
    }
    let end = ending(dialect, table);
    let name = dialect.quote(&table.name);
    let at = if table.is_second {
        format!("{place}_b.")
    } else {
        String::new()
    };
    let mut statements = vec![format!(
        "CREATE TABLE {at}{name} ({}) {end}",
        parts.join(", ")
    )];
    match table.form {
        Form::Partitioned => statements.extend((0..3).map(|part| {
            let own = dialect.quote(&format!("{} p{part}", table.name));
            format!("CREATE TABLE {at}{own} PARTITION OF {name} FOR VALUES WITH (MODULUS 3, REMAINDER {part})")
        })),
        Form::Inherited => {
            let heir = dialect.quote(&heir(table));
            statements.push(format!("CREATE TABLE {at}{heir} (extra INT) INHERITS ({name})"));
        }
        _ => {}
    }
    statements
}

pub(crate) fn heir(table: &Table) -> String {
    format!("{} heir", table.name)
}

fn listed(dialect: Dialect, table: &Table, columns: &[usize]) -> String {
    let names = columns
        .iter()
        .map(|it| dialect.quote(&table.columns[*it].name));
    names.collect::<Vec<_>>().join(", ")
}

fn linked(layout: &Layout, table: &Table, link: &Link) -> String {
    let dialect = layout.dialect;
    let to = &layout.tables[link.to];
    let action = match link.action {
        "" => String::new(),
        action => format!(" ON DELETE {action}"),
    };
    let deferred = if link.is_deferrable {
        " DEFERRABLE INITIALLY DEFERRED"
    } else {
        ""
    };
    format!(
        "FOREIGN KEY ({}) REFERENCES {} ({}){action}{deferred}",
        listed(dialect, table, &link.columns),
        dialect.quote(&to.name),
        listed(dialect, to, &to.key)
    )
}

/// Returns the statements that fill the tables, without checks of foreign keys, and then create the
/// triggers.
pub(crate) fn filled(layout: &Layout, rows: &Rows) -> Vec<String> {
    let dialect = layout.dialect;
    let (lax, strict) = match dialect {
        Dialect::Sqlite => ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"),
        Dialect::Mysql => ("SET foreign_key_checks = 0", "SET foreign_key_checks = 1"),
        _ => (
            "SET session_replication_role = replica",
            "SET session_replication_role = origin",
        ),
    };
    let mut statements = vec![lax.to_owned()];
    for (table, rows) in layout.tables.iter().zip(rows) {
        statements.extend(rows.iter().map(|row| inserted(dialect, table, row)));
    }
    statements.push(strict.to_owned());
    let mut has_trail = false;
    for (at, table) in layout.tables.iter().enumerate() {
        match table.trigger {
            Some(Trigger::Audit) => {
                if !has_trail {
                    statements.push(format!("CREATE TABLE {TRAIL} (what VARCHAR(20))"));
                }
                has_trail = true;
                statements.extend(audited(dialect, table, at));
            }
            Some(Trigger::Stamp) => statements.extend(stamped(dialect, table, at)),
            None => {}
        }
    }
    statements
}

fn inserted(dialect: Dialect, table: &Table, row: &Row) -> String {
    let written = table.columns.iter().zip(&row.cells);
    let written: Vec<_> = written
        .filter(|(column, _)| !matches!(column.values, Values::Computed))
        .collect();
    let names: Vec<String> = written
        .iter()
        .map(|(it, _)| dialect.quote(&it.name))
        .collect();
    let cells: Vec<&str> = written.iter().map(|(_, cell)| cell.as_str()).collect();
    let name = if row.is_heir {
        heir(table)
    } else {
        table.name.clone()
    };
    let own = if dialect == Dialect::Postgres {
        "OVERRIDING SYSTEM VALUE "
    } else {
        ""
    };
    format!(
        "INSERT INTO {} ({}) {own}VALUES ({})",
        dialect.quote(&name),
        names.join(", "),
        cells.join(", ")
    )
}

fn audited(dialect: Dialect, table: &Table, at: usize) -> Vec<String> {
    let name = dialect.quote(&table.name);
    let write = format!("INSERT INTO {TRAIL} VALUES ('row')");
    let events = ["INSERT", "UPDATE", "DELETE"];
    match dialect {
        Dialect::Sqlite => events
            .map(|event| {
                format!(
                    "CREATE TRIGGER audit_{event}_{at} AFTER {event} ON {name} BEGIN {write}; END"
                )
            })
            .into(),
        Dialect::Mysql => events
            .map(|event| {
                format!(
                    "CREATE TRIGGER audit_{event}_{at} AFTER {event} ON {name} FOR EACH ROW {write}"
                )
            })
            .into(),
        _ => vec![
            format!(
                "CREATE FUNCTION audit_{at}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {write}; RETURN NULL; END $$"
            ),
            format!(
                "CREATE TRIGGER audit_{at} AFTER INSERT OR UPDATE OR DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION audit_{at}()"
            ),
        ],
    }
}

fn stamped(dialect: Dialect, table: &Table, at: usize) -> Vec<String> {
    let name = dialect.quote(&table.name);
    if dialect == Dialect::Mysql {
        return vec![format!(
            "CREATE TRIGGER stamp_{at} BEFORE UPDATE ON {name} FOR EACH ROW SET NEW.stamped = OLD.stamped + 1"
        )];
    }
    vec![
        format!(
            "CREATE FUNCTION stamp_{at}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.stamped := OLD.stamped + 1; RETURN NEW; END $$"
        ),
        format!(
            "CREATE TRIGGER stamp_{at} BEFORE UPDATE ON {name} FOR EACH ROW EXECUTE FUNCTION stamp_{at}()"
        ),
    ]
}
