//! Hand-written disguises: row by row as in Edna's baselines (M1), and with one statement for all
//! rows of a table (M2).
//!
//! They record nothing, so they cannot be reversed.

use probity_disguise::{Database, Dialect, Value};

use super::application::{Application, Step};
use super::figure::Way;
use crate::command::BenchError;
use crate::workload::Random;

/// First id of users created row by row.
const ROWS_FIRST: i64 = 5_000_000_000_000_000;
/// First id of users created for all rows of an owner column; each column has its own range.
pub(crate) const SETS_FIRST: i64 = 6_000_000_000_000_000;
pub(crate) const SETS_RANGE: i64 = 1_000_000_000_000;
/// Number of users per insertion and per `CASE` expression.
const RUN: usize = 200;

/// Hand-written disguises of one application.
pub(crate) struct Manual<'a> {
    pub(crate) application: &'a Application,
    pub(crate) random: Random,
    pub(crate) made: i64,
}

impl Manual<'_> {
    /// Runs all `steps` for `user`, within the caller's transaction.
    pub(crate) fn run(
        &mut self,
        database: &mut dyn Database,
        steps: &[Step],
        user: &Value,
        way: Way,
    ) -> Result<(), BenchError> {
        let mut first = SETS_FIRST;
        for step in steps {
            match step {
                Step::Delete { table, owner } => {
                    let sql = format!("DELETE FROM {table} WHERE {owner} = ?");
                    database.execute(&sql, std::slice::from_ref(user))?;
                }
                Step::Overwrite {
                    table,
                    owner,
                    columns,
                    condition,
                } => {
                    let and = if condition.is_empty() { "" } else { " AND " };
                    let sql = format!(
                        "UPDATE {table} SET {} WHERE {owner} = ?{and}{condition}",
                        assigned(columns)
                    );
                    let mut values: Vec<Value> = columns
                        .iter()
                        .map(|_| Value::Text(self.letters(30)))
                        .collect();
                    values.push(user.clone());
                    database.execute(&sql, &values)?;
                }
                Step::Scatter { table, id, owners } if way == Way::Rows => {
                    self.scatter_rows(database, (table, id, owners), user)?;
                }
                Step::Scatter { table, id, owners } => {
                    for owner in *owners {
                        self.scatter_sets(database, (table, id, owner), user, first)?;
                        first += SETS_RANGE;
                    }
                }
                Step::Group { table, owner, by } => {
                    self.group(database, (table, owner, by), user, way)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the user's rows of a table once, and updates each of them once.
    fn scatter_rows(
        &mut self,
        database: &mut dyn Database,
        (table, id, owners): (&str, &str, &[&str]),
        user: &Value,
    ) -> Result<(), BenchError> {
        let named: Vec<String> = owners.iter().map(|owner| format!("{owner} = ?")).collect();
        let sql = format!(
            "SELECT {}, {id} FROM {table} WHERE {}",
            owners.join(", "),
            named.join(" OR ")
        );
        let mut rows = database.query(&sql, &vec![user.clone(); owners.len()])?;
        let mut users = Vec::new();
        for row in &mut rows {
            for value in row.iter_mut().take(owners.len()) {
                if value == user {
                    *value = self.next_id();
                    users.push(value.clone());
                }
            }
        }
        self.make(database, &users)?;
        let sql = format!("UPDATE {table} SET {} WHERE {id} = ?", assigned(owners));
        for row in rows {
            database.execute(&sql, &row)?;
        }
        Ok(())
    }

    fn scatter_sets(
        &self,
        database: &mut dyn Database,
        (table, id, owner): (&str, &str, &str),
        user: &Value,
        first: i64,
    ) -> Result<(), BenchError> {
        let made = format!("{first} + {id}");
        let insert = self.insert_from(&made);
        let sql = format!("{insert} FROM {table} WHERE {owner} = ?");
        database.execute(&sql, std::slice::from_ref(user))?;
        let sql = format!("UPDATE {table} SET {owner} = {made} WHERE {owner} = ?");
        database.execute(&sql, std::slice::from_ref(user))?;
        Ok(())
    }

    /// Returns the beginning of an `INSERT` that creates a user with the id `made` for each row of
    /// the `SELECT` that follows.
    pub(crate) fn insert_from(&self, made: &str) -> String {
        let (users, key) = self.application.users;
        let (columns, values) = match users {
            "contact_info" => (
                "first_name, last_name, email, roles, disabled",
                "'m', 'm', CONCAT('m', {}), 0, 1",
            ),
            _ => (
                "username, email, karma, created_at",
                "CONCAT('m', {}), CONCAT('m', {}), 0, '2026-01-01 00:00:00'",
            ),
        };
        format!(
            "INSERT INTO {users} ({key}, {columns}) SELECT {made}, {}",
            values.replace("{}", made)
        )
    }

    fn group(
        &mut self,
        database: &mut dyn Database,
        (table, owner, by): (&str, &str, &str),
        user: &Value,
        way: Way,
    ) -> Result<(), BenchError> {
        let sql = format!("SELECT DISTINCT {by} FROM {table} WHERE {owner} = ?");
        let groups = database.query(&sql, std::slice::from_ref(user))?;
        let groups: Vec<Value> = groups.into_iter().flatten().collect();
        let made: Vec<Value> = groups
            .iter()
            .map(|_| Value::Text(format!("m{}@made.invalid", self.letters(24))))
            .collect();
        if way == Way::Rows {
            for one in &made {
                self.make(database, std::slice::from_ref(one))?;
            }
            let sql = format!("UPDATE {table} SET {owner} = ? WHERE {owner} = ? AND {by} = ?");
            for (group, one) in groups.into_iter().zip(made) {
                database.execute(&sql, &[one, user.clone(), group])?;
            }
            return Ok(());
        }
        self.make(database, &made)?;
        for (groups, made) in groups.chunks(RUN).zip(made.chunks(RUN)) {
            let case = " WHEN ? THEN ?".repeat(groups.len());
            let sql = format!(
                "UPDATE {table} SET {owner} = CASE {by}{case} ELSE {owner} END WHERE {owner} = ?"
            );
            let mut values: Vec<Value> = groups
                .iter()
                .zip(made)
                .flat_map(|(group, one)| [group.clone(), one.clone()])
                .collect();
            values.push(user.clone());
            database.execute(&sql, &values)?;
        }
        Ok(())
    }

    /// Returns the id of the next user created row by row.
    pub(crate) const fn next_id(&mut self) -> Value {
        self.made += 1;
        Value::Int(ROWS_FIRST + self.made)
    }

    /// Inserts new users, many per statement.
    pub(crate) fn make(
        &mut self,
        database: &mut dyn Database,
        ids: &[Value],
    ) -> Result<(), BenchError> {
        let table = self.application.users.0;
        for run in ids.chunks(RUN) {
            let mut values = Vec::new();
            let mut width = 0;
            for id in run {
                let row = self.user(id.clone());
                width = row.len();
                values.extend(row);
            }
            let tuple = format!("({})", vec!["?"; width].join(","));
            let tuples = vec![tuple.as_str(); run.len()].join(",");
            database.execute(&format!("INSERT INTO {table} VALUES {tuples}"), &values)?;
        }
        Ok(())
    }

    fn user(&mut self, id: Value) -> Vec<Value> {
        let table = self.application.users.0;
        let mut word = |length| Value::Text(self.letters(length));
        let no = Value::Int(0);
        match table {
            "contact_info" => vec![id, word(12), word(12), word(24), no, Value::Int(1)],
            _ if matches!(id, Value::Text(_)) => vec![id, word(30), no, Value::Int(1)],
            _ => {
                let since = Value::from("2026-01-01 00:00:00");
                vec![id, word(30), word(24), no, since]
            }
        }
    }

    pub(crate) fn letters(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| char::from(b'a' + u8::try_from(self.random.below(26)).unwrap_or_default()))
            .collect()
    }
}

/// Returns the list of assignments to `columns`.
pub(crate) fn assigned(columns: &[&str]) -> String {
    let sets: Vec<String> = columns.iter().map(|it| format!("{it} = ?")).collect();
    sets.join(", ")
}

/// Returns the bytes of the engine's own tables: of the values, and as stored by the database.
pub(crate) fn metadata_bytes(database: &mut dyn Database) -> Result<(f64, f64), BenchError> {
    let dialect = database.dialect();
    let catalog = database.catalog()?;
    let mut content = 0.0;
    for (name, table) in catalog
        .iter()
        .filter(|(name, _)| name.starts_with("probity_"))
    {
        let lengths: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                if column.is_integer() {
                    "1".to_owned()
                } else {
                    format!("LENGTH({})", dialect.quote(&column.name))
                }
            })
            .collect();
        let sql = format!("SELECT SUM({}) FROM {name}", lengths.join("+"));
        content += number(database, &sql)?;
        if dialect == Dialect::Mysql {
            // The server updates its page counts only from time to time, or on request.
            database.query(&format!("ANALYZE TABLE {name}"), &[])?;
        }
    }
    let sql = match dialect {
        Dialect::Sqlite => "SELECT SUM(pgsize) FROM dbstat WHERE name LIKE 'probity%'",
        Dialect::Postgres => {
            "SELECT SUM(pg_total_relation_size(oid)) FROM pg_class
              WHERE relname LIKE 'probity%' AND relkind = 'r' AND relnamespace = current_schema()::regnamespace"
        }
        _ => {
            "SELECT SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES
              WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'probity%'"
        }
    };
    Ok((content, number(database, sql)?))
}

pub(crate) fn number(database: &mut dyn Database, sql: &str) -> Result<f64, BenchError> {
    let value = database.query(sql, &[])?.into_iter().flatten().next();
    Ok(match value {
        Some(Value::Null) | None => 0.0,
        Some(value) => value.to_string().parse().unwrap_or(f64::NAN),
    })
}
