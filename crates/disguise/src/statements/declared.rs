//! Columns of which nothing is there but a declaration: the database says what it understands.

use crate::database::value::Value;
use crate::database::{
    Column, Database, DatabaseError, DatabaseErrorKind, Dialect, Said, Structure, Times,
    declaration,
};
use crate::statements::own_row::OwnRow;

const POINT: &str = "SAVEPOINT probity_declared";
const BACK: &str = "ROLLBACK TO SAVEPOINT probity_declared";
const RELEASE: &str = "RELEASE SAVEPOINT probity_declared";
/// The name of the column.
const NAME: &str = "declared";

/// The only column of a table of `PostgreSQL`: its type, that under a domain, its collation, whether
/// it has parts, and the words of an enumeration.
const OF_POSTGRES: &str = "
    WITH RECURSIVE own AS (SELECT * FROM pg_attribute WHERE attrelid = ?::text::regclass AND attnum = 1),
         under(kind, modifier, depth) AS
         (SELECT atttypid, atttypmod, 0 FROM own
          UNION ALL SELECT d.typbasetype, d.typtypmod, u.depth + 1
            FROM under u JOIN pg_type d ON d.oid = u.kind AND d.typtype = 'd'),
         base AS (SELECT * FROM under ORDER BY depth DESC LIMIT 1)
    SELECT format_type(a.atttypid, a.atttypmod)::text,
           CASE WHEN b.depth > 0 THEN format_type(b.kind, b.modifier)::text END,
           (SELECT (quote_ident(n.nspname) || '.' || quote_ident(l.collname))::text
              FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = a.attcollation),
           (y.typtype = 'c')::text,
           (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder)::text FROM pg_enum e WHERE e.enumtypid = b.kind)
      FROM own a CROSS JOIN base b JOIN pg_type y ON y.oid = b.kind";

/// Returns the column that the database makes of a declaration, or the words with which it refuses it.
pub(crate) fn column(
    database: &mut dyn Database,
    declaration: &str,
) -> Result<Result<Column, String>, DatabaseError> {
    if database.dialect() == Dialect::Sqlite {
        return Ok(Ok(of_sqlite(declaration)));
    }
    database.execute(POINT, &[])?;
    let column = asked(database, declaration);
    if column.is_err() {
        database.execute(BACK, &[])?;
    }
    database.execute(RELEASE, &[])?;
    Ok(column.map_err(|error| {
        let words = error.said.without_values().map(str::to_owned);
        words.unwrap_or(error.message)
    }))
}

/// Returns the column of a temporary table.
fn asked(database: &mut dyn Database, declaration: &str) -> Result<Column, DatabaseError> {
    let cells = [(NAME.to_owned(), declaration.to_owned())];
    let row = OwnRow::with(database, &cells, &[Value::Null])?;
    row.clear(database)?;
    let (sql, parameters) = match database.dialect() {
        Dialect::Postgres => {
            let place = format!("pg_temp.{}", row.place);
            (OF_POSTGRES.to_owned(), vec![Value::Text(place)])
        }
        _ => (format!("SHOW FULL COLUMNS FROM {}", row.place), Vec::new()),
    };
    let found = database.query(&sql, &parameters)?;
    let text = |place: usize| {
        let value = found.first().and_then(|it| it.get(place));
        value.filter(|it| !it.is_null()).map(ToString::to_string)
    };
    let is_of = |place, word: &str| text(place).as_deref() == Some(word);
    let unread = || DatabaseError {
        kind: DatabaseErrorKind::Other,
        message: "the catalog says nothing of a temporary table".to_owned(),
        said: Said::default(),
    };
    if database.dialect() == Dialect::Postgres {
        let members = text(4).map_or_else(|| Ok(Vec::new()), |it| serde_json::from_str(&it));
        return Ok(Column {
            declared: text(0).ok_or_else(unread)?,
            base: text(1),
            collation: text(2),
            structure: if is_of(3, "true") {
                Structure::Composed
            } else {
                Structure::Single
            },
            members: members.map_err(|_form| unread())?,
            ..Column::default()
        });
    }
    let declared = text(1).ok_or_else(unread)?;
    Ok(Column {
        members: declaration::members(&declared),
        collation: text(2),
        times: Times::of_mariadb(&declared),
        declared,
        ..Column::default()
    })
}

/// Returns a column of `SQLite`, which takes any words for a type.
fn of_sqlite(declaration: &str) -> Column {
    let lower = declaration.to_ascii_lowercase();
    let place = lower.rfind("collate");
    let parts = place.and_then(|at| Some((declaration.get(..at)?, declaration.get(at..)?)));
    let (declared, collation) = match parts {
        Some((declared, rest)) => {
            let name = rest.get("collate".len()..).unwrap_or_default();
            let name = name.trim().trim_matches(['"', '`', '[', ']', '\'']);
            (declared.trim(), Some(name.to_ascii_uppercase()))
        }
        None => (declaration, None),
    };
    Column {
        declared: declared.to_owned(),
        collation: collation.filter(|it| it != "BINARY"),
        ..Column::default()
    }
}
