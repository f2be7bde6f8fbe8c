//! Reads the catalogs of `MariaDB` and `MySQL`: the tables of the current database and the tables
//! that refer to them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use mysql::prelude::Queryable as _;

use super::{Mysql, refused};
use crate::database::declaration;
use crate::database::value::Value;
use crate::database::{
    Catalog, CatalogTable, Column, Database as _, DatabaseError, Dialect, ForeignKey, Matching,
    OnDelete, OnUpdate, Property, Referrer, Rule, Structure, Times, note_constraints,
    note_primary_keys, note_triggers, note_unique_keys, spoken_of,
};

/// Seconds in which a changed table may change again without a new time of change.
const SETTLED_SECONDS: i64 = 2;

const TABLES: &str = "
    SELECT TABLE_NAME, ENGINE, TABLE_TYPE FROM information_schema.TABLES
     WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')";

const COLUMNS: &str = "
    SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA,
           CASE WHEN COLUMN_DEFAULT IS NULL OR COLUMN_DEFAULT = 'NULL' THEN 0 ELSE 1 END,
           CASE WHEN GENERATION_EXPRESSION = 'ROW END' THEN 1 ELSE 0 END, COLLATION_NAME, CHARACTER_SET_NAME
      FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
     ORDER BY TABLE_NAME, ORDINAL_POSITION";

/// The unique keys, the primary ones among them: each reading of this view opens all tables.
const UNIQUE_KEYS: &str = "
    SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME, 'u', '' FROM information_schema.STATISTICS
     WHERE TABLE_SCHEMA = DATABASE() AND NON_UNIQUE = 0 ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX";

/// Conditions of tables; on `MariaDB` with the table of each.
const CHECKS: &str = "
    SELECT TABLE_NAME, CONSTRAINT_NAME, NULL, 'c', CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
     WHERE CONSTRAINT_SCHEMA = DATABASE() ORDER BY TABLE_NAME, CONSTRAINT_NAME";
const CHECKS_OF_MYSQL: &str = "
    SELECT t.TABLE_NAME, c.CONSTRAINT_NAME, NULL, 'c', c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS c
      JOIN information_schema.TABLE_CONSTRAINTS t
        ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME
     WHERE c.CONSTRAINT_SCHEMA = DATABASE() AND t.CONSTRAINT_TYPE = 'CHECK' ORDER BY t.TABLE_NAME, c.CONSTRAINT_NAME";

const REFERENCES: &str = "
    SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, 'f', '' FROM information_schema.KEY_COLUMN_USAGE
     WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL
     ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION";

const TRIGGERS: &str = "
    SELECT EVENT_OBJECT_TABLE, TRIGGER_NAME FROM information_schema.TRIGGERS
     WHERE EVENT_OBJECT_SCHEMA = DATABASE() ORDER BY EVENT_OBJECT_TABLE, TRIGGER_NAME";

const RULES: &str = "
    SELECT TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE
      FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE()";

const FOREIGN_KEYS: &str = "
    SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME
      FROM information_schema.KEY_COLUMN_USAGE
     WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL
       AND REFERENCED_TABLE_SCHEMA = DATABASE()
     ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION";

const REFERRERS: &str = "
    SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME, DELETE_RULE, UPDATE_RULE
      FROM information_schema.REFERENTIAL_CONSTRAINTS
     WHERE UNIQUE_CONSTRAINT_SCHEMA = DATABASE() AND CONSTRAINT_SCHEMA <> DATABASE()
     ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME";

const REFERRING_COLUMNS: &str = "
    SELECT COLUMN_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE
     WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND CONSTRAINT_NAME = ? ORDER BY ORDINAL_POSITION";

/// True if the account reads all databases; rights from a role do not count.
const SEES_ALL: &str = "
    SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES
     WHERE PRIVILEGE_TYPE = 'SELECT' AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')";

/// True if names of tables are compared as files are, letter by letter (0).
const LETTERS: &str = "SELECT @@lower_case_table_names";

/// A table that nobody has: an account that may read the whole database is told so, any other that
/// it may not read it. Rights of every origin count, those of a role too.
const NOWHERE: &str = "SELECT 1 FROM probity_nowhere LIMIT 0";
/// The number of the error for a table that is not there.
const ABSENT: u16 = 1146;
/// The numbers of the errors for a table and a column that the account has no right to.
const DENIED: [u16; 2] = [1142, 1143];

/// When tables were changed, and triggers made, which change no table.
const VERSION: &str = r"
    SELECT TABLE_NAME, ENGINE, UNIX_TIMESTAMP(CREATE_TIME), UNIX_TIMESTAMP()
      FROM information_schema.TABLES
     WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'probity\_%'
     UNION ALL
    SELECT EVENT_OBJECT_TABLE, CONCAT('trigger ', TRIGGER_NAME), CAST(UNIX_TIMESTAMP(CREATED) AS SIGNED), UNIX_TIMESTAMP()
      FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = DATABASE()";

/// Foreign keys from one database to another, in the same form: a table does not change when
/// another one begins to refer to it.
const CROSSING_KEYS: &str = "
    SELECT ID, CAST(TYPE AS CHAR), 0, UNIX_TIMESTAMP() FROM information_schema.INNODB_SYS_FOREIGN
     WHERE BINARY SUBSTRING_INDEX(FOR_NAME, '/', 1) <> BINARY SUBSTRING_INDEX(REF_NAME, '/', 1)";

/// An answer of the server that tells of the rights of the account.
#[derive(PartialEq, Eq)]
enum Answer {
    Done,
    Absent,
    Denied,
}

/// Takes the columns of a version out of the primary key.
///
/// The end of a version is the same in all present rows, so the rest of the key stays unique. With
/// the beginning of a version, several present rows may have the rest.
fn cut_versions(table: &mut CatalogTable, end: &String) {
    let key = table.primary_key.clone();
    let columns = &table.columns;
    let is_written = |key: &String| columns.iter().any(|it| it.name == *key);
    table.primary_key.retain(is_written);
    if key.iter().all(|it| it == end || is_written(it)) && key.contains(end) {
        table.unique_keys.push(table.primary_key.clone());
    }
}

impl Mysql {
    /// Returns the tables without their columns.
    fn read_tables(&mut self) -> Result<Catalog, DatabaseError> {
        let mut catalog = Catalog::new();
        let sees_all = self.query(SEES_ALL, &[])?.concat() != [Value::Int(0)];
        let any_letters = self.query(LETTERS, &[])?.concat() != [Value::Int(0)];
        for row in self.query(TABLES, &[])? {
            if let [name, engine, kind] = row.as_slice() {
                let is_versioned = kind.to_string() == "SYSTEM VERSIONED";
                let versions = is_versioned.then_some(Property::KeepsVersions);
                let unseen = (!sees_all).then_some(Property::UnseenReferrers);
                let letters = any_letters.then_some(Property::AnyLetters);
                let properties = versions.into_iter().chain(unseen).chain(letters);
                let table = CatalogTable {
                    is_transactional: engine.to_string().eq_ignore_ascii_case("InnoDB"),
                    properties: properties.collect(),
                    ..CatalogTable::default()
                };
                catalog.insert(name.to_string(), table);
            }
        }
        if !sees_all {
            self.note_hidden(&mut catalog)?;
        }
        Ok(catalog)
    }

    pub(super) fn read_catalog(&mut self) -> Result<Catalog, DatabaseError> {
        let mut catalog = self.read_tables()?;
        let mut ends = BTreeMap::new();
        self.twins.clear();
        for row in self.query(COLUMNS, &[])? {
            let [
                table,
                name,
                declared,
                nullable,
                extra,
                filled,
                is_end,
                collation,
                letters,
            ] = row.as_slice()
            else {
                continue;
            };
            self.twins.note((table, name), letters);
            if *is_end == Value::Int(1) {
                ends.insert(table.to_string(), name.to_string());
            }
            let extra = extra.to_string().to_ascii_uppercase();
            let Some(table) = catalog.get_mut(&table.to_string()) else {
                continue;
            };
            if extra.contains("ON UPDATE") {
                table.stamped.push(name.to_string());
            }
            // A column that the database works out cannot be written.
            if !extra.contains("GENERATED") || extra.contains("DEFAULT_GENERATED") {
                table.columns.push(Column {
                    name: name.to_string(),
                    declared: declared.to_string(),
                    nullable: nullable.to_string() == "YES",
                    has_default: *filled == Value::Int(1) || extra.contains("AUTO_INCREMENT"),
                    base: None,
                    members: declaration::members(&declared.to_string()),
                    collation: (!collation.is_null()).then(|| collation.to_string()),
                    times: Times::of_mariadb(&declared.to_string()),
                    structure: Structure::Single,
                });
            }
        }
        let unique = self.query(UNIQUE_KEYS, &[])?;
        note_primary_keys(&mut catalog, &primary(&unique));
        for (name, end) in ends {
            if let Some(table) = catalog.get_mut(&name) {
                cut_versions(table, &end);
            }
        }
        note_triggers(&mut catalog, &self.query(TRIGGERS, &[])?);
        self.read_constraints(&mut catalog, &unique)?;
        self.read_foreign_keys(&mut catalog)?;
        self.read_referrers(&mut catalog)?;
        Ok(catalog)
    }

    /// Notes the tables of which the account does not see all columns and keys: `information_schema`
    /// leaves out those that it has no right to, and says nothing.
    fn note_hidden(&mut self, catalog: &mut Catalog) -> Result<(), DatabaseError> {
        if self.answer_to(NOWHERE)? == Answer::Absent {
            return Ok(());
        }
        for (name, table) in catalog.iter_mut() {
            let name = Dialect::Mysql.quote(name);
            // The first takes the right to each column, the INVISIBLE ones too. The second takes a right
            // to the table, without which its foreign keys are not shown.
            for sql in [
                format!("SELECT * FROM {name} LIMIT 0"),
                format!("SHOW CREATE TABLE {name}"),
            ] {
                if self.answer_to(&sql)? == Answer::Denied {
                    table.properties.push(Property::HidesColumns);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Runs a statement whose rows do not matter. It is not prepared: the statements that are kept
    /// are those of operations.
    fn answer_to(&mut self, sql: &str) -> Result<Answer, DatabaseError> {
        match self.connection.query_drop(sql) {
            Ok(()) => Ok(Answer::Done),
            Err(mysql::Error::MySqlError(error)) if error.code == ABSENT => Ok(Answer::Absent),
            Err(mysql::Error::MySqlError(error)) if DENIED.contains(&error.code) => {
                Ok(Answer::Denied)
            }
            Err(error) => Err(refused(error)),
        }
    }

    fn read_constraints(
        &mut self,
        catalog: &mut Catalog,
        unique: &[Vec<Value>],
    ) -> Result<(), DatabaseError> {
        let checks = if self.mariadb {
            CHECKS
        } else {
            CHECKS_OF_MYSQL
        };
        note_unique_keys(catalog, unique);
        note_constraints(catalog, unique);
        for sql in [checks, REFERENCES] {
            note_constraints(catalog, &self.query(sql, &[])?);
        }
        for table in catalog.values_mut() {
            for it in &mut table.constraints {
                if let Rule::Check(condition) = &it.rule {
                    it.columns = spoken_of(&table.columns, condition);
                }
            }
        }
        Ok(())
    }

    fn read_foreign_keys(&mut self, catalog: &mut Catalog) -> Result<(), DatabaseError> {
        let keys = self.query(FOREIGN_KEYS, &[])?;
        if keys.is_empty() {
            return Ok(());
        }
        let rules = self.query(RULES, &[])?;
        let rule = |table: &Value, name: &Value| {
            let found = rules.iter().find_map(|row| match row.as_slice() {
                [of, known, delete, update] if of == table && known == name => {
                    let (delete, update) = (delete.to_string(), update.to_string());
                    Some((OnDelete::of(&delete), OnUpdate::of(&update)))
                }
                _ => None,
            });
            found.unwrap_or((OnDelete::Change, OnUpdate::Empty))
        };
        let mut last = None;
        for row in keys {
            let [table, name, own, target, other] = row.as_slice() else {
                continue;
            };
            let Some(known) = catalog.get_mut(&table.to_string()) else {
                continue;
            };
            let key = (table.clone(), name.clone());
            if last.as_ref() != Some(&key) {
                let (on_delete, on_update) = rule(table, name);
                known.foreign_keys.push(ForeignKey {
                    columns: Vec::new(),
                    to_table: target.to_string(),
                    to_columns: Vec::new(),
                    on_delete,
                    is_deferrable: false,
                    is_checked_late: false,
                    may_lead_nowhere: true,
                    matching: Matching::Simple,
                    on_update,
                });
                last = Some(key);
            }
            if let Some(key) = known.foreign_keys.last_mut() {
                key.columns.push(own.to_string());
                key.to_columns.push(other.to_string());
            }
        }
        Ok(())
    }

    fn read_referrers(&mut self, catalog: &mut Catalog) -> Result<(), DatabaseError> {
        if !self.may_have_crossing_keys() {
            return Ok(());
        }
        for row in self.query(REFERRERS, &[])? {
            let [place, table, name, target, delete, update] = row.as_slice() else {
                continue;
            };
            let of = [place.clone(), table.clone(), name.clone()];
            let columns = self.query(REFERRING_COLUMNS, &of)?;
            let named = |at: usize| {
                let names = columns.iter().filter_map(|row| row.get(at));
                names.map(ToString::to_string).collect()
            };
            if let Some(known) = catalog.get_mut(&target.to_string()) {
                known.referrers.push(Referrer {
                    table: format!("{place}.{table}"),
                    columns: named(0),
                    to_columns: named(1),
                    on_delete: OnDelete::of(&delete.to_string()),
                    is_checked_late: false,
                    on_update: OnUpdate::of(&update.to_string()),
                });
            }
        }
        Ok(())
    }

    /// Returns whether any database of the server may refer to another. [`REFERRERS`] opens every
    /// table of all of them to find those that do.
    fn may_have_crossing_keys(&mut self) -> bool {
        let crossing = self.query(CROSSING_KEYS, &[]);
        // An account without the right has to look.
        !crossing.is_ok_and(|keys| keys.is_empty())
    }

    pub(super) fn read_catalog_version(&mut self) -> Result<i64, DatabaseError> {
        self.version = self.version.wrapping_add(1);
        if !self.mariadb {
            // On `MySQL` these times do not show added columns, so the catalog is read for every
            // operation.
            return Ok(self.version);
        }
        let mut hash = DefaultHasher::new();
        for row in self.version()? {
            if let [name, engine, Value::Int(changed), Value::Int(now)] = row.as_slice() {
                if now.saturating_sub(*changed) < SETTLED_SECONDS {
                    return Ok(self.version);
                }
                (name.to_string(), engine.to_string(), changed).hash(&mut hash);
            }
        }
        // Negative, so that it never equals one of the numbers above.
        Ok(hash.finish().cast_signed() | i64::MIN)
    }

    /// Returns values that change with the tables, and with the keys of other databases if the
    /// account may read them.
    fn version(&mut self) -> Result<Vec<Vec<Value>>, DatabaseError> {
        if self.reads_all_keys != Some(false) {
            let sql = format!("{VERSION} UNION ALL {CROSSING_KEYS} ORDER BY 1, 2");
            let rows = self.query(&sql, &[]);
            if rows.is_ok() || self.reads_all_keys.is_some() {
                self.reads_all_keys = Some(true);
                return rows;
            }
            // The account may lack the right; what else fails here fails below, too.
            self.reads_all_keys = Some(false);
        }
        self.query(&format!("{VERSION} ORDER BY 1, 2"), &[])
    }
}

/// Returns the table and the column of each row of [`UNIQUE_KEYS`] that is of a primary key.
fn primary(unique: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let of_primary = |row: &Vec<Value>| match row.as_slice() {
        [table, Value::Text(key), column, ..] if key == "PRIMARY" => {
            Some(vec![table.clone(), column.clone()])
        }
        _ => None,
    };
    unique.iter().filter_map(of_primary).collect()
}
