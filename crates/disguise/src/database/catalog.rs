//! Tables as the database describes them: columns, keys, and the changes it makes by itself.

use std::collections::BTreeMap;

use super::Dialect;
use super::column::Column;
use crate::database::value::Value;
/// The start of an INSERT into a table without its own conflict clause, as the engine's tables are.
pub(crate) const INSERT_INTO: &str = "INSERT INTO";

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
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of the database's own catalog"
)]
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
    /// True if rows may be there that refer to nothing, from before the key or from when it was not
    /// enforced.
    pub may_lead_nowhere: bool,
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
    /// The account may not see all of its columns, or not its keys.
    HidesColumns,
    /// Former versions of its rows are kept.
    KeepsVersions,
    /// Tables may refer to it that the account does not see.
    UnseenReferrers,
    /// Its name may be written in any letters, large and small.
    AnyLetters,
    /// The table has a conflict clause (`ON CONFLICT` on `SQLite`) that applies to statements
    /// without their own.
    SettlesConflicts,
    /// A virtual table of `SQLite` finds its rows by their place, which no column holds.
    FoundByPlace,
}

/// Foreign keys at which nothing but the database looks, and it perhaps at the commit alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LateElsewhere {
    /// There are none.
    #[default]
    None,
    /// Those with these names, as a statement lists them.
    Named(String),
    /// There are such keys, and others of the schema have the name of one of them.
    Ambiguous,
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
    /// Its foreign keys that lead to a table of another schema or to one from which others inherit,
    /// and that the database may check at the commit alone.
    pub late_elsewhere: LateElsewhere,
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
            late_elsewhere: LateElsewhere::None,
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
