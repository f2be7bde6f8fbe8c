//! Columns that name people and the users' ids: how the database compares one with the other.

use std::collections::BTreeMap;

use super::step::{PlanContext, SCOPE};
use crate::database::column::Affinity;
use crate::database::declaration::letters;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Column, Dialect, NAME_BYTES_MAX};
use crate::schema::{ResolvedSchema, ResolvedTable};

/// Values that stand for the owners meant in columns of another comparison, by table and column.
pub(crate) type Spellings = BTreeMap<(String, String), Vec<Value>>;

/// A column that names people by other rules of comparison than those of the users' ids.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub(crate) table: &'a ResolvedTable,
    pub(crate) column: &'a Column,
    pub(crate) id: &'a Column,
    pub(crate) users: &'a str,
}

/// The values of a column, as far as comparisons treat them in different ways.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    /// A number that is rounded.
    Rounded,
    Text,
    Other,
}

impl Class {
    const fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Rounded)
    }
}

/// Returns `value` with the type and the collation of a column of texts, without a length. On
/// `PostgreSQL` the column may have any type.
fn in_form_of(dialect: Dialect, column: &Column, value: &str) -> String {
    match (dialect, &column.collation) {
        (Dialect::Mysql, Some(it)) => {
            format!("CONVERT({value} USING {}) COLLATE {it}", letters(it))
        }
        (Dialect::Postgres, None) => format!("{value}::{}", unbounded(column)),
        (Dialect::Postgres, Some(it)) => format!("{value}::{} COLLATE {it}", unbounded(column)),
        _ => value.to_owned(),
    }
}

/// Returns the class of a column. On `SQLite` it is the affinity.
fn class(dialect: Dialect, column: &Column) -> Class {
    let kind = column.kind().to_ascii_uppercase();
    let has = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    let begins = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
    match dialect {
        Dialect::Sqlite => match Affinity::of(&kind) {
            Affinity::Number => Class::Number,
            Affinity::Text => Class::Text,
            Affinity::Blob => Class::Other,
        },
        _ if begins(&["ENUM", "SET("]) => Class::Other,
        _ if column.is_number(dialect) || begins(&["DECIMAL", "NUMERIC"]) => Class::Number,
        _ if begins(&["DOUBLE", "FLOAT", "REAL"]) => Class::Rounded,
        _ if has(&["CHAR", "TEXT"]) => Class::Text,
        _ => Class::Other,
    }
}

/// Returns the type without a length, as a cast names it that cuts nothing off.
fn unbounded(column: &Column) -> &str {
    let kind = column.unbounded_kind();
    if kind == "character" { "bpchar" } else { kind }
}

/// Returns whether the database finds the same values equal whichever of the columns has them.
pub(crate) fn alike(dialect: Dialect, one: &Column, other: &Column) -> bool {
    let is_same = one.declared == other.declared && one.collation == other.collation;
    match (class(dialect, one), class(dialect, other)) {
        (Class::Number, Class::Number) => true,
        (Class::Text, Class::Text) => {
            let is_padded = dialect != Dialect::Postgres || unbounded(one) == unbounded(other);
            let plain = ["text", "character varying"];
            let are_plain = [one, other].iter().all(|it| plain.contains(&unbounded(it)));
            one.collation == other.collation && (is_padded || are_plain)
        }
        (Class::Other, Class::Other) if dialect == Dialect::Sqlite => {
            one.collation == other.collation
        }
        _ => is_same,
    }
}

impl ResolvedSchema {
    /// Returns how `column` of `table` names people, if it compares otherwise than their ids.
    pub(crate) fn unlike<'a>(
        &'a self,
        dialect: Dialect,
        table: &'a ResolvedTable,
        column: &str,
    ) -> Option<Naming<'a>> {
        let naming = self.naming(table, column)?;
        naming.is_unlike(dialect).then_some(naming)
    }

    /// Returns how `column` of `table` names people.
    pub(crate) fn naming<'a>(
        &'a self,
        table: &'a ResolvedTable,
        column: &str,
    ) -> Option<Naming<'a>> {
        Some(Naming {
            table,
            column: table.catalog.column(column)?,
            id: self.id_column()?,
            users: &self.pseudo.table,
        })
    }

    /// Returns the column at the end of the path of `table`, with its table.
    pub(crate) fn path_end<'a>(
        &'a self,
        table: &'a ResolvedTable,
    ) -> Option<(&'a ResolvedTable, &'a str)> {
        let path = table.path.as_ref()?;
        let end = self.table(&path.steps.last()?.to_table)?;
        Some((end, &path.owner))
    }

    /// Returns the columns by which rows of `table` name people and that compare otherwise than
    /// their ids, the one at the end of its path among them.
    pub(crate) fn all_unlike<'a>(
        &'a self,
        dialect: Dialect,
        table: &'a ResolvedTable,
    ) -> Vec<Naming<'a>> {
        let mut unlike: Vec<Naming<'a>> = self
            .others(table)
            .filter_map(|column| self.unlike(dialect, table, column))
            .collect();
        let end = self.path_end(table);
        unlike.extend(end.and_then(|(end, owner)| self.unlike(dialect, end, owner)));
        unlike
    }

    /// Returns whether the column of the users' ids turns texts of digits into whole numbers, so that
    /// no id is there as both.
    pub(crate) fn has_whole_ids(&self) -> bool {
        let id = self.id_column();
        id.is_some_and(|id| id.declared.to_ascii_uppercase().contains("INT"))
    }

    fn id_column(&self) -> Option<&Column> {
        let users = self.table(&self.pseudo.table)?;
        users.catalog.column(&self.pseudo.id)
    }

    /// Returns a caution if the column of the users' ids takes values of any type as they are.
    pub(crate) fn untyped_ids(&self, dialect: Dialect) -> Option<String> {
        let id = self.id_column()?;
        let is_untyped = dialect == Dialect::Sqlite && class(dialect, id) == Class::Other;
        is_untyped.then(|| {
            format!(
                "column {} of {} has no type, so that it may hold one id as the number 7 and as the text 7: nobody with such an id is registered, hidden or brought back; give the column a type",
                id.name, self.pseudo.table
            )
        })
    }

    /// Returns the first step of a path, as a sentence, whose columns compare in two ways. A foreign
    /// key may follow the one and the statement of a step the other, so that a declared key is no
    /// exception unless the database itself compares in one way.
    pub(crate) fn loose_step(&self, dialect: Dialect, table: &ResolvedTable) -> Option<String> {
        let mut from = table;
        for step in table.path.iter().flat_map(|path| &path.steps) {
            let to = self.table(&step.to_table)?;
            let mut keys = from.catalog.foreign_keys.iter();
            let is_declared = keys.any(|key| {
                key.columns == step.columns
                    && key.to_table == step.to_table
                    && key.to_columns == step.to_columns
            });
            let pairs = step.columns.iter().zip(&step.to_columns);
            for (own, other) in pairs {
                let columns = (from.catalog.column(own), to.catalog.column(other));
                if let (Some(one), Some(two)) = columns
                    && !alike(dialect, one, two)
                    && !(is_declared && is_one_comparison(dialect, one, two))
                {
                    return Some(format!(
                        "column {own} of {} compares otherwise than {other} of {}, so that a row may belong to two people; give both the same type and collation",
                        from.name, to.name
                    ));
                }
            }
            from = to;
        }
        None
    }
}

/// Returns whether a foreign key over two unlike columns and a statement compare them in the same
/// way. `MariaDB` takes no key over texts of two collations, nor over two types; `PostgreSQL` has
/// one operator for two types of numbers.
fn is_one_comparison(dialect: Dialect, one: &Column, other: &Column) -> bool {
    match dialect {
        Dialect::Mysql => true,
        Dialect::Postgres => [one, other]
            .into_iter()
            .all(|it| class(dialect, it).is_numeric()),
        Dialect::Sqlite => false,
    }
}

impl PlanContext<'_> {
    /// Returns the condition that `column` of a table names one of `owners`.
    pub(crate) fn among_owners(
        &self,
        (table, column): (&ResolvedTable, &str),
        quoted: &str,
        owners: &[Value],
    ) -> Fragment {
        let scope = self.needs_scope_table().then(|| {
            let naming = self.live.unlike(self.dialect, table, column);
            naming.map_or_else(|| "id".to_owned(), |it| it.scoped(self.dialect))
        });
        let owners = table.catalog.compared(self.dialect, column, owners);
        let of = (self.dialect, table.catalog.column(column));
        let mut among = listed(quoted, of, &owners, scope.as_deref());
        let key = (table.name.clone(), column.to_owned());
        if let Some(others) = self.spellings.get(&key).filter(|it| !it.is_empty()) {
            let more = listed(quoted, of, others, None);
            among.sql = format!("({} OR {})", among.sql, more.sql);
            among.parameters.extend(more.parameters);
        }
        among
    }
}

/// Returns the condition that a column holds one of `ids`, or of those in the temporary table, in the
/// form that `scope` gives them.
pub(crate) fn listed(
    quoted: &str,
    (dialect, column): (Dialect, Option<&Column>),
    ids: &[Value],
    scope: Option<&str>,
) -> Fragment {
    if let Some(id) = scope {
        return Fragment {
            sql: format!("{quoted} IN (SELECT {id} FROM {SCOPE})"),
            parameters: Vec::new(),
        };
    }
    Fragment {
        sql: format!("{quoted} IN ({})", marks(dialect, column, ids)),
        parameters: ids.to_vec(),
    }
}

fn marks(dialect: Dialect, column: Option<&Column>, ids: &[Value]) -> String {
    let mark = |id: &Value| column.map_or("?", |column| column.mark(dialect, id));
    ids.iter().map(mark).collect::<Vec<_>>().join(",")
}

/// Returns the number that a text of `PostgreSQL` spells, and NULL for any other text.
fn numeric_in(value: &str) -> String {
    format!(
        "CASE WHEN ({value}::text COLLATE \"C\") ~ '^[[:space:]]*[-+]?[0-9]+([.][0-9]*)?[[:space:]]*$' THEN {value}::text::numeric END"
    )
}

/// Returns the condition that the text `id` is one that a column of `PostgreSQL` holds whole, for
/// types that do not hold all texts.
fn held(column: &Column) -> Option<String> {
    if !column.members.is_empty() {
        let members = column.members.iter().map(|it| it.replace('\'', "''"));
        let members: Vec<String> = members.map(|it| format!("'{it}'")).collect();
        return Some(format!("id::text IN ({})", members.join(",")));
    }
    match unbounded(column) {
        "uuid" => Some("id::text ~ '^[0-9A-Fa-f]{4}(-?[0-9A-Fa-f]{4}){7}$'".to_owned()),
        "name" => Some(format!("octet_length(id::text) <= {NAME_BYTES_MAX}")),
        "\"char\"" => Some("octet_length(id::text) <= 1".to_owned()),
        "bytea" => Some("strpos(id::text, E'\\\\') = 0".to_owned()),
        _ => None,
    }
}

/// Returns a value as it is written, which no two values share that a collation takes for one.
fn exact(dialect: Dialect, value: &str) -> String {
    match dialect {
        Dialect::Sqlite => format!("CAST({value} AS BLOB)"),
        Dialect::Postgres => format!("({value}::text COLLATE \"C\")"),
        Dialect::Mysql => format!("CAST({value} AS BINARY)"),
    }
}

/// Returns 1 for a text of `SQLite`, 2 for bytes and 0 for a number, as [`Value::storage`] does.
fn storage(value: &str) -> String {
    format!("CASE typeof({value}) WHEN 'text' THEN 1 WHEN 'blob' THEN 2 ELSE 0 END")
}

impl Naming<'_> {
    /// Returns whether the column compares otherwise than the ids.
    pub(crate) fn is_unlike(&self, dialect: Dialect) -> bool {
        !alike(dialect, self.column, self.id)
    }

    /// Returns whether a foreign key of the database says that the column holds an id.
    fn is_declared(&self) -> bool {
        let mut keys = self.table.catalog.foreign_keys.iter();
        keys.any(|key| {
            let mut pairs = key.columns.iter().zip(&key.to_columns);
            let is_this =
                |(own, to): (&String, &String)| *own == self.column.name && *to == self.id.name;
            key.to_table == self.users && pairs.any(is_this)
        })
    }

    /// Returns whether one of the columns holds texts and the other none, or the like: a value then
    /// names somebody by a conversion alone.
    fn is_mixed(&self, dialect: Dialect) -> bool {
        let group = |column| match class(dialect, column) {
            Class::Rounded => Class::Number,
            other => other,
        };
        group(self.column) != group(self.id)
    }

    /// Returns whether a value of the column names somebody by a conversion that nothing declares.
    pub(crate) fn is_converted(&self, dialect: Dialect) -> bool {
        self.is_mixed(dialect) && !self.is_declared()
    }

    /// Returns whether the ids have no type, so that a text and a number are two of them. A statement
    /// may convert an id to the type of the column, and the users table is asked without that.
    pub(crate) fn is_untyped(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Sqlite && class(dialect, self.id) == Class::Other
    }

    /// Returns the query for the values that the column has for `owners`, each with a user of that
    /// id: first by the comparison of the column, with everybody whom it takes for the same, then by
    /// the comparison of the id.
    pub(crate) fn meant(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        owners: &[Value],
        are_many: bool,
    ) -> Fragment {
        let [table, column, users, id] = self.quoted(dialect);
        let scope = are_many.then(|| self.scoped(dialect));
        let mut meant = self.chosen((dialect, tenancy), owners, scope.as_deref());
        let by_id = self.same(dialect, &format!("u.{id}"), &format!("p.{column}"), self.id);
        let of = (dialect, Some(self.id));
        let own = listed(&format!("u.{id}"), of, owners, are_many.then_some("id"));
        let others = tenancy.and(dialect, self.users, "u");
        let rows = tenancy.and(dialect, &self.table.name, "p");
        meant.sql = format!(
            "{}
             UNION ALL SELECT DISTINCT 1, p.{column}, u.{id} FROM {users} u JOIN {table} p ON {by_id} WHERE {}{}{}",
            meant.sql, own.sql, others.sql, rows.sql
        );
        let parameters = [own.parameters, others.parameters, rows.parameters];
        meant.parameters.extend(parameters.concat());
        meant
    }

    /// Returns the query for the values that the column takes for one of `values`, letter by letter,
    /// each with everybody whom it takes for the same.
    pub(crate) fn chosen(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        values: &[Value],
        scope: Option<&str>,
    ) -> Fragment {
        let [table, column, users, id] = self.quoted(dialect);
        let values: Vec<Value> = values
            .iter()
            .map(|it| self.column.compared(dialect, it))
            .collect();
        let of = (dialect, Some(self.column));
        let chosen = listed(&format!("{table}.{column}"), of, &values, scope);
        let mut chosen = tenancy.bound(dialect, &self.table.name, &chosen);
        let exact = exact(dialect, &format!("{table}.{column}"));
        let by_column = self.same(dialect, "q.k", &format!("u.{id}"), self.column);
        let others = tenancy.and(dialect, self.users, "u");
        chosen.sql = format!(
            "SELECT 0, q.k, u.{id} FROM (SELECT DISTINCT {table}.{column} AS k, {exact} AS e FROM {table} WHERE {}) q LEFT JOIN {users} u ON {by_column}{}",
            chosen.sql, others.sql
        );
        chosen.parameters.extend(others.parameters);
        chosen
    }

    /// Returns the query for one number of people if, among all rows or those that `chosen` selects,
    /// a value is the id of so many: of two, by the column's comparison and the id's together, or of
    /// one whom only a conversion that nothing declares finds, or the column alone.
    pub(crate) fn doubtful(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        chosen: Option<&Fragment>,
    ) -> Fragment {
        let [table, column, users, id] = self.quoted(dialect);
        let some = self.some((dialect, tenancy), chosen);
        let own = exact(dialect, &format!("{table}.{column}"));
        let values = format!(
            "(SELECT DISTINCT {table}.{column} AS k, {own} AS e FROM {table} WHERE {}) q",
            some.sql
        );
        let (named, of) = ("q.k", format!("u.{id}"));
        let by_column = self.same(dialect, named, &of, self.column);
        let by_id = self.same(dialect, &of, named, self.id);
        let others = tenancy.and(dialect, self.users, "u");
        let exact_of = exact(dialect, &of);
        let is_converted = if self.is_converted(dialect) {
            format!("CASE WHEN q.e <> {exact_of} THEN 1 ELSE 0 END")
        } else {
            "0".to_owned()
        };
        let is_stored = if self.is_untyped(dialect) {
            format!("{} <> {}", storage(named), storage(&of))
        } else {
            "0".to_owned()
        };
        let found = |is_id: u8, same: &str| {
            format!(
                "SELECT q.e AS e, {exact_of} AS i, {is_id} AS d, {is_converted} AS c, {is_stored} AS s FROM {values} JOIN {users} u ON {same}{}",
                others.sql
            )
        };
        let mut all = vec![found(0, &by_column), found(1, &by_id)];
        if self.is_untyped(dialect) {
            // A record names a person by what is written, in whatever type.
            all.push(found(1, &format!("q.e = {exact_of}")));
        }
        let sql = format!(
            "SELECT CASE WHEN MAX(f.s) = 1 THEN 0 ELSE COUNT(DISTINCT f.i) END FROM ({}) f GROUP BY f.e HAVING COUNT(DISTINCT f.i) > 1 OR MAX(f.d) = 0 OR MAX(f.c) = 1 OR MAX(f.s) = 1 ORDER BY 1 DESC LIMIT 1",
            all.join(" UNION ALL ")
        );
        let once = [some.parameters, others.parameters].concat();
        Fragment {
            sql,
            parameters: vec![once; all.len()].concat(),
        }
    }

    /// Returns the query for a row if among all rows of `SQLite`, or those that `chosen` selects, a
    /// value is written like an id and stored as another type. The database takes the two for
    /// different, and a record has one name for both. Columns of whole numbers are trusted to hold
    /// nothing else.
    pub(crate) fn stored_otherwise(
        &self,
        tenancy: &TenantScope,
        chosen: Option<&Fragment>,
    ) -> Option<Fragment> {
        let dialect = Dialect::Sqlite;
        let is_whole = |column: &Column| column.declared.to_ascii_uppercase().contains("INT");
        if is_whole(self.column) && is_whole(self.id) {
            return None;
        }
        let [table, column, users, id] = self.quoted(dialect);
        let some = self.some((dialect, tenancy), chosen);
        let others = tenancy.and(dialect, self.users, "u");
        let (own, of) = (format!("{table}.{column}"), format!("u.{id}"));
        // Between texts and numbers a column converts, and a foreign key may declare it.
        let stored = |value: &str| {
            if self.is_untyped(dialect) {
                storage(value)
            } else {
                format!("typeof({value}) = 'blob'")
            }
        };
        Some(Fragment {
            sql: format!(
                "SELECT 0 FROM (SELECT DISTINCT {own} AS k, CAST({own} AS BLOB) AS e FROM {table} WHERE {}) q JOIN {users} u ON {of} IN (CAST(q.k AS TEXT), CAST(q.k AS BLOB), CAST(q.k AS NUMERIC)){} WHERE q.e = CAST({of} AS BLOB) AND ({}) <> ({}) LIMIT 1",
                some.sql,
                others.sql,
                stored("q.k"),
                stored(&of)
            ),
            parameters: [some.parameters, others.parameters].concat(),
        })
    }

    /// Returns the condition for rows that name somebody, all or those that `chosen` selects.
    fn some(
        &self,
        (dialect, tenancy): (Dialect, &TenantScope),
        chosen: Option<&Fragment>,
    ) -> Fragment {
        let [table, column, ..] = self.quoted(dialect);
        let mut some = Fragment {
            sql: format!("{table}.{column} IS NOT NULL"),
            parameters: Vec::new(),
        };
        if let Some(chosen) = chosen {
            some.sql = format!("{} AND ({})", some.sql, chosen.sql);
            some.parameters.clone_from(&chosen.parameters);
        }
        tenancy.bound(dialect, &self.table.name, &some)
    }

    /// Returns an id of the temporary table in the type and collation of the column, because a
    /// statement would not say by which of two to compare.
    fn scoped(&self, dialect: Dialect) -> String {
        let classes = [self.column, self.id].map(|it| class(dialect, it));
        match dialect {
            Dialect::Postgres
                if matches!(classes, [Class::Number | Class::Rounded, Class::Text]) =>
            {
                numeric_in("id")
            }
            Dialect::Postgres => {
                let form = in_form_of(dialect, self.column, "id::text");
                match held(self.column) {
                    None => form,
                    Some(is_held) => format!("CASE WHEN {is_held} THEN {form} END"),
                }
            }
            Dialect::Mysql if classes == [Class::Text; 2] => in_form_of(dialect, self.column, "id"),
            _ => "id".to_owned(),
        }
    }

    /// Returns the names of the table, the column, the users table and its id, as statements have
    /// them.
    fn quoted(&self, dialect: Dialect) -> [String; 4] {
        let names = [
            &self.table.name,
            &self.column.name,
            self.users,
            &self.id.name,
        ];
        names.map(|name| dialect.quote(name))
    }

    /// Returns the condition that two values are equal by the comparison of the column `by`, to
    /// which the value on the left belongs.
    fn same(&self, dialect: Dialect, left: &str, right: &str, by: &Column) -> String {
        let other = if std::ptr::eq(by, self.column) {
            self.id
        } else {
            self.column
        };
        let classes = (class(dialect, by), class(dialect, other));
        match (dialect, classes) {
            (Dialect::Mysql | Dialect::Postgres, (Class::Text, Class::Text)) => {
                format!("{left} = ({})", in_form_of(dialect, by, right))
            }
            // As numbers that are rounded, whichever index there is.
            (Dialect::Mysql, (one, other))
                if one != other && [one, other].into_iter().any(Class::is_numeric) =>
            {
                format!("{left} + 0e0 = {right} + 0e0")
            }
            (Dialect::Sqlite | Dialect::Mysql, _) => format!("{left} = {right}"),
            (
                Dialect::Postgres,
                (Class::Number | Class::Rounded, Class::Number | Class::Rounded),
            ) => format!("{left} = {right}"),
            (Dialect::Postgres, (Class::Number | Class::Rounded, Class::Text)) => {
                format!("{left} = {}", numeric_in(right))
            }
            (Dialect::Postgres, _) => {
                format!("lower({left}::text COLLATE \"C\") = lower({right}::text COLLATE \"C\")")
            }
        }
    }
}
