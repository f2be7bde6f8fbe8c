//! Tenants of one database: the one that statements are bound to, and its prefix in the engine's
//! tables.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use crate::database::fragment::Fragment;
use crate::database::shape::Shapes;
use crate::database::value::Value;
use crate::database::{
    Catalog, Column, Database, DatabaseError, DatabaseErrorKind, Dialect, Said, Vocabulary,
};

/// Bytes of the salted hash of a tenant.
pub(crate) const TAG_BYTES: usize = 16;

/// A tenant: the value of the tenant columns, and its salted hash once the salt is known.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) value: Value,
    tag: Option<[u8; TAG_BYTES]>,
}

impl Tenant {
    pub(crate) const fn new(value: Value) -> Self {
        Self { value, tag: None }
    }
}

/// The tenant to which the statements of a connection are bound; empty in a database without
/// tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantScope {
    pub(crate) tenant: Option<Tenant>,
    /// The tenant column of every table that has one.
    pub(crate) columns: BTreeMap<String, String>,
    /// The tables that all tenants share.
    pub(crate) shared: BTreeSet<String>,
}

impl TenantScope {
    pub(crate) const fn none() -> Self {
        Self {
            tenant: None,
            columns: BTreeMap::new(),
            shared: BTreeSet::new(),
        }
    }

    /// Returns whether the tenant of the rows of `table` is not declared.
    pub(crate) fn lacks(&self, table: &str) -> bool {
        let said = self.columns.contains_key(table) || self.shared.contains(table);
        !self.columns.is_empty() && !said
    }

    /// Takes up the salt of the database, after which the tenant has a name in its tables.
    pub(crate) fn salted(&mut self, salt: &[u8]) {
        if let Some(tenant) = &mut self.tenant {
            let hash = hashed(b"name", salt, &tenant.value.principal());
            let mut tag = [0; TAG_BYTES];
            tag.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
            tenant.tag = Some(tag);
        }
    }

    /// Returns the prefix of every key of the tenant in the engine's tables; empty without tenants.
    pub(crate) fn tag(&self) -> &[u8] {
        let tag = self.tenant.as_ref().and_then(|it| it.tag.as_ref());
        tag.map_or(&[], |tag| tag.as_slice())
    }

    /// Returns a key of the engine's tables with the tenant's prefix.
    pub(crate) fn key(&self, key: &[u8]) -> Value {
        Value::Bytes([self.tag(), key].concat())
    }

    /// Returns the key without the tenant's prefix.
    pub(crate) fn own<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key.strip_prefix(self.tag()).unwrap_or(key)
    }

    /// Returns the condition that a key of the engine's tables belongs to the tenant, with `word`
    /// before it; nothing without tenants.
    pub(crate) fn among_keys(&self, word: &str) -> Fragment {
        let tag = self.tag();
        if tag.is_empty() {
            return Fragment::default();
        }
        // A key may have any bytes after the tag, so the end is the next tag.
        let mut end = tag.to_vec();
        while end.pop_if(|last| *last == u8::MAX).is_some() {}
        let mut parameters = vec![Value::Bytes(tag.to_vec())];
        let mut sql = format!(" {word} id >= ?");
        if let Some(last) = end.last_mut() {
            *last = last.saturating_add(1);
            sql.push_str(" AND id < ?");
            parameters.push(Value::Bytes(end));
        }
        Fragment { sql, parameters }
    }

    /// Returns the salt of the tenant's records, from the salt of the database.
    pub(crate) fn salt(&self, salt: Vec<u8>) -> Vec<u8> {
        match self.tag() {
            [] => salt,
            tag => salt_of(&salt, tag),
        }
    }

    /// Returns the tenant column of a table and the tenant, if the table has one and a tenant is
    /// set.
    pub(crate) fn of(&self, table: &str) -> Option<(&str, &Value)> {
        let column = self.columns.get(table)?;
        Some((column, &self.tenant.as_ref()?.value))
    }

    /// Returns ` AND alias.column = ?` and the tenant, for a table with a tenant column.
    pub(crate) fn and(&self, dialect: Dialect, table: &str, alias: &str) -> Fragment {
        let Some((column, tenant)) = self.of(table) else {
            return Fragment::default();
        };
        let (alias, column) = (dialect.quote(alias), dialect.quote(column));
        Fragment {
            sql: format!(" AND {alias}.{column} = ?"),
            parameters: vec![tenant.clone()],
        }
    }

    /// `chosen`, of the tenant's rows of `table` alone.
    pub(crate) fn bound(&self, dialect: Dialect, table: &str, chosen: &Fragment) -> Fragment {
        let mut and = self.and(dialect, table, table);
        if and.sql.is_empty() {
            return chosen.clone();
        }
        let mut parameters = chosen.parameters.clone();
        parameters.append(&mut and.parameters);
        Fragment {
            sql: format!("({}){}", chosen.sql, and.sql),
            parameters,
        }
    }
}

/// Returns the salt of the records of the tenant with this tag, from the salt of the database.
pub(crate) fn salt_of(salt: &[u8], tag: &[u8]) -> Vec<u8> {
    hashed(b"salt", salt, tag)
}

fn hashed(label: &[u8], salt: &[u8], what: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise tenant\0");
    hash.update(label);
    hash.update([0]);
    hash.update(salt);
    hash.update(what);
    hash.finalize().iter().copied().take(TAG_BYTES).collect()
}

/// A connection whose statements are bound to a tenant, if there are tenants.
///
/// Code that reads or writes rows of the application must ask [`TenantConnection::tenancy`] for the
/// condition.
pub(crate) trait TenantConnection: Database {
    fn tenancy(&self) -> &TenantScope;

    /// Returns a column of the application as the catalog describes it.
    fn column(&self, table: &str, name: &str) -> Option<&Column>;

    /// Returns the shapes that are known on this connection.
    fn shapes(&mut self) -> &mut Shapes;

    /// Returns the database's report, without values, of the last statement that broke a
    /// constraint.
    fn refusal(&self) -> Option<&str>;

    /// Returns the error for rows that the database refuses without saying so, with the reason that
    /// [`Self::refusal`] tells from then on: they count as refused by a constraint.
    fn refuse(&mut self, message: String) -> DatabaseError;

    /// Returns the error for `rows` that the database skipped without an error.
    fn passed_over(&mut self, table: &str, rows: usize) -> DatabaseError {
        let counted = if rows == 1 { "row" } else { "rows" };
        self.refuse(format!(
            "table {table}: the database passed over {rows} {counted} without an error, as a trigger or a rule may let it, or a key with NULL in it"
        ))
    }
}

/// A connection and its tenant.
pub(crate) struct TenantScoped<D> {
    pub(crate) database: D,
    pub(crate) tenancy: TenantScope,
    /// The names that errors may say.
    pub(crate) vocabulary: Vocabulary,
    pub(crate) refusal: Option<String>,
    pub(crate) shapes: Shapes,
}

impl<D> TenantScoped<D> {
    /// Adds the table, columns and constraint to an error of the database, and notes a broken
    /// constraint.
    fn named<T>(
        &mut self,
        statement: &str,
        done: Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        done.map_err(|error| {
            let error = self.vocabulary.named(statement, error);
            if matches!(
                error.kind,
                DatabaseErrorKind::Unique | DatabaseErrorKind::Constraint
            ) {
                self.refusal = Some(error.message.clone());
            }
            error
        })
    }
}

impl<D: Database> TenantConnection for TenantScoped<D> {
    fn tenancy(&self) -> &TenantScope {
        &self.tenancy
    }

    fn column(&self, table: &str, name: &str) -> Option<&Column> {
        self.vocabulary.column(table, name)
    }

    fn shapes(&mut self) -> &mut Shapes {
        &mut self.shapes
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn refuse(&mut self, message: String) -> DatabaseError {
        self.refusal = Some(message.clone());
        DatabaseError {
            kind: DatabaseErrorKind::Constraint,
            message,
            said: Said::default(),
        }
    }
}

impl<D: Database> Database for TenantScoped<D> {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.database.begin()
    }

    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.database.begin_reading()
    }
    fn commit(&mut self) -> Result<(), DatabaseError> {
        let done = self.database.commit();
        self.named("", done)
    }
    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.database.rollback()
    }
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        let done = self.database.execute(sql, parameters);
        self.named(sql, done)
    }
    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        let done = self.database.attempt(sql, parameters);
        self.named(sql, done)
    }
    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        let done = self.database.execute_each(sql, rows);
        self.named(sql, done)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        let done = self.database.query(sql, parameters);
        self.named(sql, done)
    }
    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        self.database.catalog()
    }
    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        self.database.catalog_version()
    }
    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        self.database.explain(sql, parameters)
    }
    fn returns_deleted(&self) -> bool {
        self.database.returns_deleted()
    }
    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        self.database.defer_foreign_keys()
    }
    fn check_deferred(&mut self) -> Result<(), DatabaseError> {
        let done = self.database.check_deferred();
        self.named("", done)
    }
    fn clear_away(&mut self) -> Result<Option<String>, DatabaseError> {
        self.database.clear_away()
    }
    fn another(&self) -> Result<Box<dyn Database>, DatabaseError> {
        self.database.another()
    }
}
