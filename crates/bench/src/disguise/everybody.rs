//! Hand-written disguise of all users. As in Edna's, each table is read once and each row updated
//! once (M1). Alternatively, statements cover whole tables (M2).

use probity_disguise::{Database, Dialect, Value};

use super::application::{Application, Step};
use super::figure::Way;
use super::manual::{Manual, SETS_FIRST, SETS_RANGE, assigned, number};
use crate::command::BenchError;

impl Application {
    /// Returns an error if an owner column of `steps` still refers to an original user. A baseline
    /// must do as much as the disguise.
    pub(crate) fn expect_nobody(
        &self,
        database: &mut dyn Database,
        steps: &[Step],
        name: &str,
    ) -> Result<(), BenchError> {
        let (users, key) = self.users;
        for step in steps {
            let (table, owners) = match step {
                Step::Scatter { table, owners, .. } => (table, *owners),
                Step::Group { table, owner, .. } => (table, std::slice::from_ref(owner)),
                Step::Delete { .. } | Step::Overwrite { .. } => continue,
            };
            for owner in owners {
                let sql = format!(
                    "SELECT COUNT(*) FROM {table} WHERE {owner} IN (SELECT {key} FROM {users} WHERE NOT ({}))",
                    self.made_by_hand
                );
                if number(database, &sql)? > 0.0 {
                    return Err(BenchError::Failed(format!(
                        "{name}: {table}.{owner} names somebody still"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Manual<'_> {
    /// Runs all `steps` for all users, within the caller's transaction.
    pub(crate) fn everybody(
        &mut self,
        database: &mut dyn Database,
        steps: &[Step],
        users: &[Value],
        way: Way,
    ) -> Result<(), BenchError> {
        let mut first = SETS_FIRST;
        for step in steps {
            match step {
                // A disguise of all users deletes no rows.
                Step::Delete { table, .. } => {
                    return Err(BenchError::Failed(format!("{table}: rows of everybody")));
                }
                Step::Overwrite {
                    table,
                    owner,
                    columns,
                    condition,
                } => self.overwrite_all(database, (table, owner, columns, condition), way)?,
                Step::Scatter { table, id, owners } if way == Way::Rows => {
                    self.scatter_all_rows(database, (table, id, owners))?;
                }
                Step::Scatter { table, id, owners } => {
                    self.scatter_all_sets(database, (table, id, owners), first)?;
                    first += SETS_RANGE * i64::try_from(owners.len()).unwrap_or_default();
                }
                // Edna's own loop: the rows of one user at a time.
                Step::Group { .. } if way == Way::Rows => {
                    for user in users {
                        self.run(database, std::slice::from_ref(step), user, way)?;
                    }
                }
                Step::Group { table, owner, by } => group_all(database, table, owner, by)?,
            }
        }
        Ok(())
    }

    fn overwrite_all(
        &mut self,
        database: &mut dyn Database,
        (table, owner, columns, condition): (&str, &str, &[&str], &str),
        way: Way,
    ) -> Result<(), BenchError> {
        if way == Way::Sets {
            let made = format!("CONCAT('m', {owner}, '@made.invalid')");
            let sets: Vec<String> = columns.iter().map(|it| format!("{it} = {made}")).collect();
            let sql = format!("UPDATE {table} SET {} WHERE {condition}", sets.join(", "));
            database.execute(&sql, &[])?;
            return Ok(());
        }
        let sql = format!("SELECT {owner} FROM {table} WHERE {condition}");
        let rows = database.query(&sql, &[])?;
        let sql = format!("UPDATE {table} SET {} WHERE {owner} = ?", assigned(columns));
        for id in rows.into_iter().flatten() {
            let made = columns.iter().map(|_| Value::Text(self.letters(30)));
            let values: Vec<Value> = made.chain([id]).collect();
            database.execute(&sql, &values)?;
        }
        Ok(())
    }

    /// Reads the table once, creates the new users, and updates each row once.
    fn scatter_all_rows(
        &mut self,
        database: &mut dyn Database,
        (table, id, owners): (&str, &str, &[&str]),
    ) -> Result<(), BenchError> {
        let rows = database.query(
            &format!("SELECT {}, {id} FROM {table}", owners.join(", ")),
            &[],
        )?;
        let mut made = Vec::new();
        let mut changed = Vec::with_capacity(rows.len());
        for mut row in rows {
            let (values, _) = row.split_at_mut(owners.len());
            for value in values {
                // Papers without a shepherd have no user in this column.
                if *value != Value::Int(0) && *value != Value::Null {
                    *value = self.next_id();
                    made.push(value.clone());
                }
            }
            changed.push(row);
        }
        self.make(database, &made)?;
        let sql = format!("UPDATE {table} SET {} WHERE {id} = ?", assigned(owners));
        for row in changed {
            database.execute(&sql, &row)?;
        }
        Ok(())
    }

    /// Scatters a table with two kinds of whole-table statements: one insertion per column, one
    /// update.
    fn scatter_all_sets(
        &self,
        database: &mut dyn Database,
        (table, id, owners): (&str, &str, &[&str]),
        first: i64,
    ) -> Result<(), BenchError> {
        let mut sets = Vec::new();
        for (first, owner) in (0..).map(|it| first + it * SETS_RANGE).zip(owners) {
            let made = format!("{first} + {id}");
            let insert = self.insert_from(&made);
            database.execute(&format!("{insert} FROM {table} WHERE {owner} <> 0"), &[])?;
            sets.push(format!(
                "{owner} = CASE WHEN {owner} <> 0 THEN {made} ELSE {owner} END"
            ));
        }
        database.execute(&format!("UPDATE {table} SET {}", sets.join(", ")), &[])?;
        Ok(())
    }
}

/// Assigns each group of each owner to a new user, by whole-table statements over a table of
/// groups.
fn group_all(
    database: &mut dyn Database,
    table: &str,
    owner: &str,
    by: &str,
) -> Result<(), BenchError> {
    let random = match database.dialect() {
        Dialect::Sqlite => "LOWER(HEX(RANDOMBLOB(16)))",
        Dialect::Postgres => "CAST(GEN_RANDOM_UUID() AS VARCHAR)",
        _ => "UUID()",
    };
    for sql in [
        "CREATE TEMPORARY TABLE made_groups (owner VARCHAR(190) NOT NULL, part BIGINT NOT NULL, made VARCHAR(60) NOT NULL, PRIMARY KEY (owner, part))"
            .to_owned(),
        format!(
            "INSERT INTO made_groups SELECT {owner}, {by}, {random} FROM (SELECT DISTINCT {owner}, {by} FROM {table}) AS parts"
        ),
        "INSERT INTO users SELECT CONCAT('m', made, '@made.invalid'), made, 0, 1 FROM made_groups"
            .to_owned(),
        format!(
            "UPDATE {table} SET {owner} = (SELECT CONCAT('m', made, '@made.invalid') FROM made_groups WHERE made_groups.owner = {table}.{owner} AND part = {table}.{by})"
        ),
    ] {
        database.execute(&sql, &[])?;
    }
    Ok(())
}
