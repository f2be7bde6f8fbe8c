//! Tables as the database describes them: columns, keys, and the changes it makes by itself.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::Dialect;
use crate::database::value::Value;

/// The digits of a UUID.
const UUID_DIGITS: usize = 32;

/// The greatest number up to which a floating-point number has all digits of a whole one.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The greatest length of a value of the type `name` of `PostgreSQL`.
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// The start of an INSERT into a table without its own conflict clause, as the engine's tables are.
pub(crate) const INSERT_INTO: &str = "INSERT INTO";

/// One column as the catalog describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its declared type in the database's words.
    pub declared: String,
    /// True if it may be NULL.
    pub nullable: bool,
    /// True if the database fills it in when an insertion leaves it out.
    pub has_default: bool,
    /// The type under a domain, in the database's words.
    pub base: Option<String>,
    /// The values of an enumeration.
    pub members: Vec<String>,
    /// The collation by which its texts are compared, in the database's words. On `SQLite` absent
    /// where texts are equal only byte by byte.
    pub collation: Option<String>,
}

impl Column {
    /// Returns whether values are integers.
    pub fn is_integer(&self) -> bool {
        // The members of an enumeration are words of its declaration.
        let kind = self.unbounded_kind().to_ascii_uppercase();
        let others = ["INTERVAL", "POINT", "RANGE", "[]"];
        self.members.is_empty()
            && kind.contains("INT")
            && !others.iter().any(|other| kind.contains(other))
    }

    /// Returns the type of its values, in the database's words; for a domain its base type.
    pub fn kind(&self) -> &str {
        self.base.as_deref().unwrap_or(&self.declared)
    }

    /// Returns the integers that the database can compare with the column; it fails on others.
    pub(crate) fn integers(&self, dialect: Dialect) -> RangeInclusive<i128> {
        match (dialect, self.kind()) {
            (Dialect::Mysql, _) => i64::MIN.into()..=u64::MAX.into(),
            (Dialect::Postgres, "smallint") => i16::MIN.into()..=i16::MAX.into(),
            (Dialect::Postgres, "integer") => i32::MIN.into()..=i32::MAX.into(),
            (Dialect::Postgres, "oid") => u32::MIN.into()..=u32::MAX.into(),
            (Dialect::Sqlite | Dialect::Postgres, _) => i64::MIN.into()..=i64::MAX.into(),
        }
    }

    /// Returns `value` as a statement compares it with the column, or NULL, which equals nothing, where
    /// the column cannot hold it. `PostgreSQL` gives a parameter the type of the column, and ends
    /// the statement or cuts the value off where it does not fit. `SQLite` applies the affinity of
    /// the column.
    pub(crate) fn compared(&self, dialect: Dialect, value: &Value) -> Value {
        match (dialect, value) {
            (_, Value::Null | Value::Bytes(_)) | (Dialect::Mysql, _) => value.clone(),
            (Dialect::Sqlite, _) => self.with_affinity(value),
            (Dialect::Postgres, _) if self.can_hold(value.to_string().trim()) => value.clone(),
            (Dialect::Postgres, _) => Value::Null,
        }
    }

    /// Returns a value as `SQLite` converts it where it is compared with the column, see
    /// <https://www.sqlite.org/datatype3.html#type_conversions_prior_to_comparison>.
    fn with_affinity(&self, value: &Value) -> Value {
        match (Affinity::of(self.kind()), value) {
            (Affinity::Text, Value::Int(_) | Value::UInt(_)) => Value::Text(value.to_string()),
            (Affinity::Text, Value::Real(number)) => Value::Text(format!("{number:?}")),
            (Affinity::Number, Value::Text(text)) => {
                let text = text.trim_ascii();
                let is_number = text.bytes().any(|it| it.is_ascii_digit())
                    && text.bytes().all(|it| b"+-.eE0123456789".contains(&it));
                let whole = text.parse().ok().map(Value::Int);
                let real = || text.parse().ok().map(Value::Real);
                let number = whole.or_else(real).filter(|_| is_number);
                number.unwrap_or_else(|| value.clone())
            }
            _ => value.clone(),
        }
    }

    /// Returns whether a type of `PostgreSQL` has a value of this spelling; true for types that are
    /// not known.
    fn can_hold(&self, text: &str) -> bool {
        if !self.members.is_empty() {
            return self.members.iter().any(|it| it == text);
        }
        let kind = self.kind().split('(').next().unwrap_or_default().trim();
        match kind {
            "smallint" | "integer" | "bigint" | "oid" => {
                let number = whole(text).and_then(|it| it.parse().ok());
                number.is_some_and(|it: i128| self.integers(Dialect::Postgres).contains(&it))
            }
            "numeric" => text.parse().is_ok_and(|it: f64| it.is_finite()),
            "double precision" => {
                let number = text.parse().ok();
                number.is_some_and(|it: f64| it.is_finite() && (it != 0.0 || is_zero(text)))
            }
            "real" => {
                let number = text.parse().ok();
                number.is_some_and(|it: f32| it.is_finite() && (it != 0.0 || is_zero(text)))
            }
            "uuid" => is_uuid(text),
            "bytea" => !text.contains('\\'),
            "\"char\"" => text.len() <= 1,
            "name" => text.len() <= NAME_BYTES_MAX,
            _ => true,
        }
    }

    /// Returns the type for which the database compares no id of the users' column `id` with this
    /// one; nothing where ids are.
    pub(crate) fn unfit_for(&self, dialect: Dialect, id: &Self) -> Option<&str> {
        let is_unfit = match dialect {
            Dialect::Sqlite => false,
            Dialect::Mysql => self.is_alien_to(id) || id.is_alien_to(self),
            Dialect::Postgres => self.is_unread_for(id),
        };
        is_unfit.then(|| self.kind())
    }

    /// Returns whether `PostgreSQL`, which gives a parameter the type of the column, ends the
    /// statement because it reads no id of the column `id` as a value of that type.
    fn is_unread_for(&self, id: &Self) -> bool {
        let (kind, of_id) = (self.unbounded_kind(), id.unbounded_kind());
        if kind == of_id {
            return false;
        }
        if of_id == "bytea" {
            return true;
        }
        let is_text = self.collation.is_some() && !kind.ends_with("[]");
        let others = [
            "smallint",
            "integer",
            "bigint",
            "oid",
            "numeric",
            "double precision",
            "real",
            "uuid",
            "bytea",
            "name",
        ];
        self.members.is_empty() && !is_text && !others.contains(&kind)
    }

    /// Returns whether the type is one of those that `MariaDB` compares with their like and with
    /// texts and bytes alone, and `other` is none of these.
    fn is_alien_to(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| it.unbounded_kind().to_ascii_uppercase());
        let is_read = ["ENUM", "SET"].contains(&others.as_str());
        let is_read = is_read || other.is_text() || other.is_binary();
        ["UUID", "INET4", "INET6"].contains(&own.as_str()) && own != others && !is_read
    }

    /// Returns the type without a length.
    pub(crate) fn unbounded_kind(&self) -> &str {
        let kind = self.kind();
        kind.split('(').next().unwrap_or(kind).trim()
    }

    /// Returns whether values are bytes: an id is spelled there as `0x` and its digits.
    pub(crate) fn is_binary(&self) -> bool {
        let kind = self.kind().to_ascii_uppercase();
        ["BLOB", "BINARY", "BYTEA"]
            .iter()
            .any(|word| kind.contains(word))
    }

    /// Returns the number in `VARCHAR(30)`.
    pub(crate) fn length_max(&self) -> Option<usize> {
        let (_, rest) = self.kind().split_once('(')?;
        rest.split([',', ')']).next()?.trim().parse().ok()
    }

    /// Returns whether values are arbitrary texts; a column without a type may hold some.
    pub(crate) fn is_text(&self) -> bool {
        let kind = self.kind().to_ascii_uppercase();
        let words = ["CHAR", "TEXT", "CLOB"];
        kind.is_empty() || words.iter().any(|word| kind.contains(word))
    }
}

/// The way in which `SQLite` converts values for a column, see
/// <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affinity {
    Number,
    Text,
    /// Nothing is converted.
    Blob,
}

impl Affinity {
    /// Returns the affinity of a column with this type.
    pub(crate) fn of(kind: &str) -> Self {
        let kind = kind.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|word| kind.contains(word));
        if has(&["INT"]) {
            Self::Number
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Self::Text
        } else if kind.is_empty() || has(&["BLOB"]) {
            Self::Blob
        } else {
            Self::Number
        }
    }
}

/// Returns the digits of a whole number that another type writes with a point or an exponent; the
/// types of whole numbers of `PostgreSQL` take neither.
pub(super) fn whole(text: &str) -> Option<String> {
    if text.parse::<i128>().is_ok() {
        return Some(text.to_owned());
    }
    if let Some((digits, fraction)) = text.split_once('.')
        && fraction.bytes().all(|it| it == b'0')
    {
        return digits.parse::<i128>().is_ok().then(|| digits.to_owned());
    }
    let (_, _) = text.split_once(['e', 'E'])?;
    let number: f64 = text.parse().ok()?;
    // Beyond, the text has fewer digits than the number.
    (number.fract() == 0.0 && number.abs() <= WHOLE_MAX).then(|| format!("{number:.0}"))
}

/// Returns whether the number in `text` is written as zero, and not as one too small to be held.
fn is_zero(text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    !mantissa.bytes().any(|it| matches!(it, b'1'..=b'9'))
}

/// Returns whether `PostgreSQL` reads a UUID: groups of four digits, with or without a hyphen
/// between them.
fn is_uuid(text: &str) -> bool {
    let mut digits: usize = 0;
    let mut may_part = false;
    for byte in text.bytes() {
        match byte {
            b'-' if may_part => may_part = false,
            it if it.is_ascii_hexdigit() => {
                digits = digits.saturating_add(1);
                may_part = digits.is_multiple_of(4) && digits < UUID_DIGITS;
            }
            _ => return false,
        }
    }
    digits == UUID_DIGITS
}

/// The effect on referring rows when a row is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDelete {
    /// The database refuses the removal.
    Refuse,
    /// The database removes them or empties their columns, unseen by the engine.
    Change,
}

impl OnDelete {
    /// Parses the action of a catalog: words, or a letter of `PostgreSQL`.
    pub(super) fn of(action: &str) -> Self {
        match action {
            "NO ACTION" | "RESTRICT" | "a" | "r" => Self::Refuse,
            _ => Self::Change,
        }
    }
}

/// The effect on referring rows when the key that they refer to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnUpdate {
    /// The database refuses the change.
    Refuse,
    /// The database changes their columns along with the key.
    Follow,
    /// The database empties their columns or sets other values, unseen by the engine.
    Empty,
}

impl OnUpdate {
    /// Parses the action of a catalog: words, or a letter of `PostgreSQL`.
    pub(super) fn of(action: &str) -> Self {
        match action {
            "NO ACTION" | "RESTRICT" | "a" | "r" => Self::Refuse,
            "CASCADE" | "c" => Self::Follow,
            _ => Self::Empty,
        }
    }
}

/// A rule that a constraint enforces on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// No other row has the same values in its columns.
    Unique,
    /// A condition, in the words of the database.
    Check(String),
    /// The row that its columns refer to exists.
    Reference,
}

/// A constraint by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Constraint {
    /// Its name; empty if it has none.
    pub name: String,
    /// The columns that it is about, as far as they are known.
    pub columns: Vec<String>,
    /// The rule it enforces.
    pub rule: Rule,
}

/// A declared foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignKey {
    /// The referring columns.
    pub columns: Vec<String>,
    /// The table referred to.
    pub to_table: String,
    /// The columns referred to.
    pub to_columns: Vec<String>,
    /// The action on removal.
    pub on_delete: OnDelete,
    /// True if a removal that it forbids is refused at the commit alone.
    pub is_deferrable: bool,
    /// True if the database may check at the commit alone that the referred rows exist.
    pub is_checked_late: bool,
    /// The rows that refer to none.
    pub matching: Matching,
    /// The action when the columns referred to change.
    pub on_update: OnUpdate,
}

/// The `MATCH` of a foreign key: which NULLs make a row refer to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Matching {
    /// One NULL is enough.
    #[default]
    Simple,
    /// Either all columns are NULL or none.
    Full,
}

/// A declared foreign key of a table in another schema or database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Referrer {
    /// The referring table, with its schema or database.
    pub table: String,
    /// The referring columns.
    pub columns: Vec<String>,
    /// The columns referred to.
    pub to_columns: Vec<String>,
    /// The action on removal.
    pub on_delete: OnDelete,
    /// True if the database may check at the commit alone that the referred rows exist.
    pub is_checked_late: bool,
    /// The action when the columns referred to change.
    pub on_update: OnUpdate,
}

/// A property of a table that changes the effect of statements on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Property {
    /// A policy hides some of its rows from the account.
    HidesRows,
    /// Former versions of its rows are kept.
    KeepsVersions,
    /// Tables may refer to it that the account does not see.
    UnseenReferrers,
    /// It refers to a table of another schema by a key that the database may check at the commit
    /// alone.
    RefersElsewhereLate,
    /// Its name may be written in any letters, large and small.
    AnyLetters,
    /// The table has a conflict clause (`ON CONFLICT` on `SQLite`) that applies to statements
    /// without their own.
    SettlesConflicts,
}

/// One table as the catalog describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogTable {
    /// True if changes to it can be undone.
    pub is_transactional: bool,
    /// The database's own name for the place of a row, if it identifies one row and no column has
    /// that name.
    pub row_place: Option<String>,
    /// True if other tables inherit from it, so that a row of it may be one of theirs, with more
    /// columns.
    pub has_heirs: bool,
    /// Its other properties.
    pub properties: Vec<Property>,
    /// The names of its triggers, and on `PostgreSQL` of its rules.
    pub triggers: Vec<String>,
    /// The column by which the database numbers its rows and which no update may change.
    pub numbered_by: Option<String>,
    /// The columns that the database sets to the time of each update that does not write them (`ON
    /// UPDATE CURRENT_TIMESTAMP`).
    pub stamped: Vec<String>,
    /// Its columns in order, generated ones left out.
    pub columns: Vec<Column>,
    /// Its constraints, except NOT NULL.
    pub constraints: Vec<Constraint>,
    /// The columns of its primary key.
    pub primary_key: Vec<String>,
    /// The columns of each unique key, the primary key included: no two rows have equal values in
    /// them, as `=` compares.
    pub unique_keys: Vec<Vec<String>>,
    /// Its declared foreign keys to tables of the same schema or database.
    pub foreign_keys: Vec<ForeignKey>,
    /// The declared foreign keys by which tables of other schemas or databases refer to it.
    pub referrers: Vec<Referrer>,
}

impl Default for CatalogTable {
    fn default() -> Self {
        Self {
            is_transactional: true,
            row_place: None,
            has_heirs: false,
            properties: Vec::new(),
            triggers: Vec::new(),
            numbered_by: None,
            stamped: Vec::new(),
            columns: Vec::new(),
            constraints: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            foreign_keys: Vec::new(),
            referrers: Vec::new(),
        }
    }
}

impl CatalogTable {
    /// Returns whether the database does this with it.
    pub fn has(&self, property: Property) -> bool {
        self.properties.contains(&property)
    }

    /// Returns the start of an INSERT into it, so that a conflict is an error whatever the table
    /// says. A table without a conflict clause gets none in the statement either, because it would
    /// override the clauses of statements in triggers.
    pub(crate) fn insert_into(&self) -> &'static str {
        if self.has(Property::SettlesConflicts) {
            "INSERT OR ABORT INTO"
        } else {
            INSERT_INTO
        }
    }

    /// Returns the start of an UPDATE of it, so that a conflict is an error whatever the table
    /// says.
    pub(crate) fn update(&self) -> &'static str {
        if self.has(Property::SettlesConflicts) {
            "UPDATE OR ABORT"
        } else {
            "UPDATE"
        }
    }

    /// Returns `values` as a statement compares them with a column, see [`Column::compared`].
    pub(crate) fn compared(&self, dialect: Dialect, column: &str, values: &[Value]) -> Vec<Value> {
        let column = self.column(column);
        let compared =
            |it: &Value| column.map_or_else(|| it.clone(), |of| of.compared(dialect, it));
        values.iter().map(compared).collect()
    }

    /// Returns the column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// All tables by name.
pub type Catalog = BTreeMap<String, CatalogTable>;

/// Takes up primary keys from rows of a table's name and a column's, in the order of each key.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn note_primary_keys(catalog: &mut Catalog, rows: &[Vec<Value>]) {
    for row in rows {
        if let [table, column] = row.as_slice()
            && let Some(table) = catalog.get_mut(&table.to_string())
        {
            table.primary_key.push(column.to_string());
        }
    }
}

/// Adds unique keys to the tables. Each row has the names of a table, a key and a column, in the
/// order of each key.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn note_unique_keys(catalog: &mut Catalog, rows: &[Vec<Value>]) {
    let mut last = None;
    for row in rows {
        let [table, key, column, ..] = row.as_slice() else {
            continue;
        };
        let Some(known) = catalog.get_mut(&table.to_string()) else {
            continue;
        };
        let here = (table, key);
        if last.replace(here) != Some(here) {
            known.unique_keys.push(Vec::new());
        }
        if let Some(columns) = known.unique_keys.last_mut() {
            columns.push(column.to_string());
        }
    }
}

/// Takes up triggers from rows of a table's name and a trigger's.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn note_triggers(catalog: &mut Catalog, rows: &[Vec<Value>]) {
    for row in rows {
        if let [table, trigger] = row.as_slice()
            && let Some(table) = catalog.get_mut(&table.to_string())
        {
            table.triggers.push(trigger.to_string());
        }
    }
}

/// Adds constraints to the tables. Each row has the names of a table, a constraint and a column (or
/// nothing), the kind `u`, `c` or `f`, and the condition. Rows of one constraint are consecutive.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn note_constraints(catalog: &mut Catalog, rows: &[Vec<Value>]) {
    let mut last = None;
    for row in rows {
        let [table, name, column, kind, condition] = row.as_slice() else {
            continue;
        };
        let Some(known) = catalog.get_mut(&table.to_string()) else {
            continue;
        };
        // A condition of a domain is one of each column of it.
        let here = (table, name, kind, condition);
        if last.replace(here) != Some(here) {
            known.constraints.push(Constraint {
                name: name.to_string(),
                columns: Vec::new(),
                rule: match kind.to_string().as_str() {
                    "u" => Rule::Unique,
                    "c" => Rule::Check(condition.to_string()),
                    _ => Rule::Reference,
                },
            });
        }
        if let (Some(constraint), false) = (known.constraints.last_mut(), column.is_null()) {
            constraint.columns.push(column.to_string());
        }
    }
}

/// Returns the columns of a table that a condition in the database's words names.
pub(super) fn spoken_of(columns: &[Column], condition: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let words: Vec<&str> = condition.split(|letter| !is_part(letter)).collect();
    let names = columns.iter().map(|column| &column.name);
    let spoken = names.filter(|name| {
        let is_word = name.chars().all(is_part);
        let mut words = words.iter();
        if is_word {
            words.any(|word| word.eq_ignore_ascii_case(name))
        } else {
            let doubled =
                ['"', '`'].map(|quote| name.replace(quote, &String::from(quote).repeat(2)));
            condition.contains(name.as_str()) || doubled.iter().any(|it| condition.contains(it))
        }
    });
    spoken.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(kind: &str, text: &str) -> bool {
        let column = Column {
            declared: kind.to_owned(),
            ..Column::default()
        };
        column.can_hold(text)
    }

    #[test]
    fn a_column_holds_what_is_sent_to_it_and_no_more() {
        for (kind, text) in [
            ("bigint", "7"),
            ("bigint", "7.000"),
            ("bigint", "1e15"),
            ("smallint", "32767"),
            ("oid", "4294967295"),
            ("uuid", "00000000-0000-0000-0000-000000000007"),
            ("uuid", "00000000000000000000000000000007"),
            ("real", "0.00"),
            ("bytea", "ada"),
        ] {
            assert!(held(kind, text), "{kind} {text}");
        }
        for (kind, text) in [
            ("bigint", "1e17"),
            ("bigint", "7.5"),
            ("bigint", "ada"),
            ("bigint", "inf"),
            ("smallint", "32768"),
            ("oid", "-1"),
            ("uuid", "0-0000000-0000-0000-0000-000000000007"),
            ("uuid", "00000000-0000-0000-0000-000000000007-"),
            ("real", "1e-60"),
            ("double precision", "1e-400"),
            ("bytea", "a\\da"),
        ] {
            assert!(!held(kind, text), "{kind} {text}");
        }
    }

    /// Words in the values of an enumeration were taken for its type.
    #[test]
    fn an_enumeration_of_words_like_types_is_no_integer() {
        let column = |declared: &str, members: &[&str]| Column {
            declared: declared.to_owned(),
            members: members.iter().map(|&it| it.to_owned()).collect(),
            ..Column::default()
        };
        assert!(!column("enum('int','007')", &["int", "007"]).is_integer());
        assert!(!column("set('printed')", &[]).is_integer());
        assert!(!column("printing", &["draft"]).is_integer());
        for declared in ["int(11) unsigned", "INTEGER", "UNSIGNED BIG INT"] {
            assert!(column(declared, &[]).is_integer(), "{declared}");
        }
    }

    #[test]
    fn a_value_is_compared_as_the_affinity_of_the_column_makes_it() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (kind, value, compared) in [
            ("INTEGER", text("6"), Value::Int(6)),
            ("NUMERIC", text(" 6.5 "), Value::Real(6.5)),
            ("REAL", text("nan"), text("nan")),
            ("INTEGER", text("six"), text("six")),
            ("TEXT", Value::Int(6), text("6")),
            ("VARCHAR(9)", Value::Real(6.0), text("6.0")),
            ("", Value::Int(6), Value::Int(6)),
            ("BLOB", text("6"), text("6")),
        ] {
            let column = Column {
                declared: kind.to_owned(),
                ..Column::default()
            };
            let found = column.compared(Dialect::Sqlite, &value);
            assert!(found.same(&compared), "{kind} {value:?} {found:?}");
        }
    }

    #[test]
    fn what_is_sent_of_a_whole_number_is_whole() {
        assert_eq!(whole("1e3").as_deref(), Some("1000"));
        assert_eq!(whole("7.00").as_deref(), Some("7"));
        for text in ["1e17", "7.5", "ada", "a.0", ""] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
