//! Rules of another database that are given up without a refusal, and are told.

use std::fmt;

use probity_disguise::database::{Catalog, CatalogTable, Rule};
use probity_disguise::{Database, Dialect};

use super::losses::{Keys, ask, is_key_of, is_named, literal, whole_table, with_partitions};
use super::unique::UniqueKey;
use crate::error::VaultError;

/// A rule of a table that is not kept as the other database has it. As text it is a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weakened {
    /// Conditions, which nothing here checks.
    Checks {
        /// The name of the table.
        table: String,
        /// The conditions, in the words of the other database. One of a partition or of a domain
        /// begins with its name or the column's.
        conditions: Vec<String>,
    },
    /// A unique column of which the other database may take values for equal that are different
    /// here: texts that it compares otherwise than byte by byte, and numbers and times that are
    /// texts here.
    Comparison {
        /// The column, as `TABLE.COLUMN`.
        column: String,
    },
    /// A foreign key along which the other database deletes no rows. Here every key does.
    Deletes {
        /// The table with the key.
        table: String,
        /// Its column, as `TABLE.COLUMN`.
        column: String,
        /// The table that it refers to.
        target: String,
        /// True if the other database refuses the deletion; otherwise it keeps the rows, with other
        /// values in their columns.
        is_refused: bool,
    },
}

impl fmt::Display for Weakened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checks { table, conditions } => write!(
                f,
                "nothing here checks the conditions of {table}: {}",
                conditions.join("; ")
            ),
            Self::Comparison { column } => write!(
                f,
                "{column} is unique here by its bytes: values that the other database takes for equal may be different ones"
            ),
            Self::Deletes {
                table,
                column,
                target,
                is_refused,
            } => write!(
                f,
                "here deleting a row of {target} also deletes the rows of {table} that refer to it by {column}: the other database would {}",
                if *is_refused {
                    "refuse it"
                } else {
                    "keep them"
                }
            ),
        }
    }
}

/// Returns the rules of tables that are given up without a refusal; those of tables `plain` were
/// given up by name.
pub(super) fn weakened(
    database: &mut dyn Database,
    (catalog, keys): (&Catalog, &Keys),
    plain: &[String],
) -> Result<Vec<Weakened>, VaultError> {
    let mut found = Vec::new();
    for (name, table) in catalog {
        let conditions = conditions(database, (name, table))?;
        if !conditions.is_empty() {
            let table = name.clone();
            found.push(Weakened::Checks { table, conditions });
        }
        found.extend(deletes(database, (name, table))?);
        if plain.contains(name) {
            continue;
        }
        let keys = keys.get(name).map(Vec::as_slice).unwrap_or_default();
        found.extend(comparisons(database.dialect(), (name, table), keys));
    }
    Ok(found)
}

fn comparisons(
    dialect: Dialect,
    (name, table): (&str, &CatalogTable),
    keys: &[UniqueKey],
) -> Vec<Weakened> {
    let mut found = Vec::new();
    for key in keys {
        let Some(column) = key.compared_otherwise(dialect, table) else {
            continue;
        };
        let column = format!("{name}.{column}");
        let told = Weakened::Comparison { column };
        if !found.contains(&told) {
            found.push(told);
        }
    }
    found
}

/// Returns the conditions of a table, on `PostgreSQL` also those of its partitions and of the domains
/// in its columns.
fn conditions(
    database: &mut dyn Database,
    (name, table): (&str, &CatalogTable),
) -> Result<Vec<String>, VaultError> {
    if database.dialect() != Dialect::Postgres {
        let conditions = table.constraints.iter().filter_map(|it| match &it.rule {
            Rule::Check(condition) => Some(condition.clone()),
            _ => None,
        });
        return Ok(conditions.collect());
    }
    let name = literal(Dialect::Postgres, name);
    let is_root = is_named("c", &name);
    // A partition repeats the conditions of its table.
    let of_tables = format!(
        "SELECT CASE WHEN {is_root} THEN '' ELSE c.oid::regclass || ': ' END || pg_get_expr(k.conbin, c.oid) \
         FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
         WHERE k.contype = 'c' AND c.oid IN {} AND ({is_root} OR k.coninhcount = 0) \
         ORDER BY c.oid, k.conname",
        with_partitions(&name)
    );
    // A domain may be under another one, and the type of elements, parts and bounds.
    let of_domains = format!(
        "WITH RECURSIVE d(n, name, kind, is_part) AS \
         (SELECT a.attnum, a.attname::text, a.atttypid, false FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
          WHERE {is_root} AND a.attnum > 0 AND NOT a.attisdropped \
          UNION SELECT d.n, d.name, u.kind, d.is_part OR u.is_part FROM d JOIN pg_type y ON y.oid = d.kind, LATERAL \
          (SELECT y.typbasetype, false UNION ALL SELECT y.typelem, true \
           UNION ALL SELECT a.atttypid, true FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0 \
           UNION ALL SELECT r.rngsubtype, true FROM pg_range r WHERE r.rngtypid = y.oid) u(kind, is_part) \
          WHERE u.kind <> 0) \
         SELECT CASE WHEN d.is_part THEN 'parts of ' ELSE '' END || d.name || ': ' || pg_get_expr(k.conbin, 0) \
         FROM d JOIN pg_constraint k ON k.contypid = d.kind AND k.contype = 'c' ORDER BY d.n, k.oid"
    );
    let mut found = ask(database, &of_tables)?;
    found.extend(ask(database, &of_domains)?);
    Ok(found.iter().flatten().map(ToString::to_string).collect())
}

/// Returns the foreign keys of a table that do not delete rows in the other database.
fn deletes(
    database: &mut dyn Database,
    (name, table): (&str, &CatalogTable),
) -> Result<Vec<Weakened>, VaultError> {
    if table.foreign_keys.is_empty() {
        return Ok(Vec::new());
    }
    let of = literal(database.dialect(), name);
    let sql = match database.dialect() {
        Dialect::Sqlite => format!(
            "SELECT group_concat(\"from\", '+'), \"table\", on_delete FROM \
             (SELECT * FROM pragma_foreign_key_list('{of}') ORDER BY id, seq) \
             WHERE on_delete <> 'CASCADE' GROUP BY id"
        ),
        Dialect::Mysql => format!(
            "SELECT GROUP_CONCAT(k.column_name ORDER BY k.ordinal_position SEPARATOR '+'), \
             r.referenced_table_name, r.delete_rule FROM information_schema.referential_constraints r \
             JOIN information_schema.key_column_usage k ON BINARY k.constraint_schema = BINARY r.constraint_schema \
             AND BINARY k.table_name = BINARY r.table_name AND BINARY k.constraint_name = BINARY r.constraint_name \
             WHERE r.constraint_schema = DATABASE() AND k.table_schema = DATABASE() \
             AND BINARY r.table_name = '{of}' AND r.delete_rule <> 'CASCADE' \
             GROUP BY r.constraint_name, r.referenced_table_name, r.delete_rule"
        ),
        _ => format!(
            "SELECT string_agg(a.attname::text, '+' ORDER BY u.n), t.relname::text, k.confdeltype::text \
             FROM pg_constraint k JOIN pg_class t ON t.oid = {} \
             JOIN unnest(k.conkey) WITH ORDINALITY u(own, n) ON true \
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.own \
             WHERE k.contype = 'f' AND k.confdeltype <> 'c' AND {} \
             GROUP BY k.oid, t.relname, k.confdeltype",
            whole_table("k.confrelid"),
            is_key_of(&of)
        ),
    };
    let rules = ask(database, &sql)?;
    let rules: Vec<Vec<String>> = rules
        .iter()
        .map(|row| row.iter().map(ToString::to_string).collect())
        .collect();
    let told = table.foreign_keys.iter().filter_map(|key| {
        let columns = key.columns.join("+");
        let own = rules.iter().filter_map(|rule| match rule.as_slice() {
            [of, target, there]
                if of.eq_ignore_ascii_case(&columns)
                    && target.eq_ignore_ascii_case(&key.to_table) =>
            {
                Some(!["SET NULL", "SET DEFAULT", "n", "d"].contains(&there.as_str()))
            }
            _ => None,
        });
        // Of two keys that are one here, a refusal comes first.
        let is_refused = own.max()?;
        Some(Weakened::Deletes {
            table: name.to_owned(),
            column: format!("{name}.{columns}"),
            target: key.to_table.clone(),
            is_refused,
        })
    });
    Ok(told.collect())
}
