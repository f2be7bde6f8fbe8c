//! Errors of the crate.

use std::error::Error as StdError;
use std::fmt;

use probity_disguise::{DatabaseError, Exported};
use probity_log::LogError;
use probity_pocketdb::Error as PocketError;

use crate::evidence::EvidenceFault;
use crate::import::RowsFormat;

/// The reason why data did not get into a pocket database, or evidence out of it.
///
/// Everything committed before stays. The variants are grouped by who must act: the author of the
/// rows and statements, whoever chooses what is taken over, the keeper of the other database, those
/// of a person's sources, whoever signs and checks evidence, and the holder of the pocket database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    // The author of the rows and statements.
    /// The pocket database has no such table.
    #[error("there is no table {table}")]
    NoTable {
        /// The name of the table.
        table: String,
    },
    /// The table has no such column.
    #[error("the table {table} has no column {column}")]
    NoColumn {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
    /// A file of rows is malformed.
    #[error("the {format} file is malformed")]
    Malformed {
        /// The form that it should have.
        format: RowsFormat,
        /// The reader's error, with the place in the file.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A CSV file has no first line.
    #[error("the CSV file is empty")]
    NoHeading,
    /// A row has more values than the heading names columns.
    #[error("the row has too many values")]
    TooManyValues,
    /// A text stands in a column of numbers.
    #[error("the value of {column} is no number")]
    NoNumber {
        /// The name of the column.
        column: String,
    },
    /// A value of JSON is true, false, a list, an object or a number that no column takes.
    #[error("the value of {column} is no text and no number")]
    NoScalar {
        /// The name of the column.
        column: String,
    },
    /// The engine refuses a row.
    #[error("the pocket database refuses: {what}{}", in_the_column(.column.as_deref()))]
    Row {
        /// The reason, in the engine's words.
        what: String,
        /// The column of the refused value, if it is known.
        column: Option<String>,
    },
    /// A statement of a script shows rows.
    #[error("it shows rows and changes nothing")]
    Shows,
    /// A script ends inside a transaction.
    #[error("the statements end inside a transaction, which was rolled back")]
    Unended,
    /// A work failed in the middle.
    #[error("{at}")]
    Reached {
        /// The last place that was reached.
        at: Reached,
        /// The reason why it was the last.
        #[source]
        cause: Box<Self>,
    },

    // Whoever chooses what is taken over.
    /// A table that was named is not in the other database.
    #[error("the other database has no table {table}")]
    NoSourceTable {
        /// The name of the table.
        table: String,
    },
    /// Nothing is there to take over.
    #[error("the other database has no tables")]
    NoTables,
    /// A table that was named as plain is not taken over.
    #[error("no table {table} is taken over")]
    NoPlainTable {
        /// The name of the table.
        table: String,
    },
    /// A column that was to be indexed is in no table taken over.
    #[error("no table taken over has a column {column}")]
    NoIndexedColumn {
        /// The column, as `TABLE.COLUMN`.
        column: String,
    },
    /// A column that was to be unlinked refers to nothing.
    #[error("no table taken over has a foreign key of the column {column}")]
    NoForeignKey {
        /// The column, as `TABLE.COLUMN`.
        column: String,
    },
    /// More tables were chosen than a pocket database has.
    #[error("the other database has {found} tables, and a pocket database has {most} at most")]
    TooManyTables {
        /// The number of tables chosen.
        found: usize,
        /// The greatest number.
        most: usize,
    },
    /// A table has more columns than one here.
    #[error("the table {table} has {found} columns, and a table here has {most} at most")]
    TooManyColumns {
        /// The name of the table.
        table: String,
        /// The number of its columns.
        found: usize,
        /// The greatest number.
        most: usize,
    },
    /// The longest values of a table's columns are together longer than a row here.
    #[error(
        "a row of {table} has room for the longest value of each column, and {what} cannot be kept: the longest text is of {column}, with {longest} bytes in row {row}"
    )]
    WideRow {
        /// The name of the table.
        table: String,
        /// The bytes of such a row and the greatest number of them, in words.
        what: String,
        /// The column with the longest text.
        column: String,
        /// Bytes of that text.
        longest: usize,
        /// Number of its row from 1, in the order of the table's key.
        row: u64,
    },
    /// A name has letters that no statement of a pocket database can write, or too many.
    #[error(
        "the name {name:?} of the table {table:?} cannot be kept: a name has letters, digits and _, {} at most",
        probity_pocketdb::limits::NAME_BYTES_MAX
    )]
    Name {
        /// The name, of the table or of a column of it.
        name: String,
        /// The name of the table.
        table: String,
    },
    /// Parts of a table cannot be kept.
    #[error("of the table {table} cannot be kept: {}", listed(.losses))]
    Lost {
        /// The name of the table.
        table: String,
        /// The parts, at least one.
        losses: Vec<Loss>,
    },
    /// The account of the other database may not see all of a table's columns and keys.
    #[error("the account may not see all columns and keys of the table {table}")]
    HiddenColumns {
        /// The name of the table.
        table: String,
    },
    /// A foreign key has several columns.
    #[error("{columns} is a foreign key of several columns")]
    CompoundKey {
        /// The columns, as `TABLE.COLUMN+COLUMN`.
        columns: String,
    },
    /// A foreign key refers to a column that refers to a table itself.
    #[error(
        "{column} refers to {target}, which refers to {last} itself, and here nothing can refer to such a column"
    )]
    KeyOfKey {
        /// The referring column, as `TABLE.COLUMN`.
        column: String,
        /// The column that it refers to, as `TABLE.COLUMN`.
        target: String,
        /// The table that this one refers to.
        last: String,
    },
    /// A column refers to two others.
    #[error("{column} refers to {} and to {}, and here a column refers to one", .targets[0], .targets[1])]
    TwoTargets {
        /// The referring column, as `TABLE.COLUMN`.
        column: String,
        /// The columns that it refers to, as `TABLE.COLUMN`.
        targets: [String; 2],
    },
    /// A table leads to another along two paths of foreign keys.
    #[error(
        "the table {table} reaches {target} by two paths of foreign keys, and only one is supported: {}; and {}",
        .paths[0],
        .paths[1]
    )]
    TwoPaths {
        /// The name of the table.
        table: String,
        /// The table at the end of both paths.
        target: String,
        /// The columns of each path, as `TABLE.COLUMN`, with commas between them.
        paths: [String; 2],
    },
    /// Tables reference each other in a circle, or themselves.
    #[error("the tables {} reference each other in a circle or themselves", .tables.join(", "))]
    Circle {
        /// The names of the tables, and of those that refer to them.
        tables: Vec<String>,
    },
    /// A foreign key leads to no row here, where texts compare by their bytes.
    #[error("{} leads to no row: {what}", .columns.join(" or "))]
    NotReferred {
        /// The referring columns that it may be, as `TABLE.COLUMN`, at least one.
        columns: Vec<String>,
        /// The reason, in the engine's words.
        what: String,
    },
    /// A value is NULL, which no pocket database stores.
    #[error("{column} is NULL in a row{}", and_refers(.refers_to.as_deref()))]
    Null {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
        /// The table that the column refers to.
        refers_to: Option<String>,
        /// True if the column is a unique key, in which one row at most may be empty.
        is_unique: bool,
    },

    // The keeper of the other database.
    /// The other database cannot be read.
    #[error("cannot read the other database")]
    Source(#[source] Box<DatabaseError>),
    /// The other database refuses a query.
    #[error("the other database refuses a query")]
    Query(#[source] Box<DatabaseError>),
    /// A text of the other database is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A value has another type than its column.
    #[error("{column} has a value of another type")]
    OtherType {
        /// The name of the column.
        column: String,
    },
    /// A number is infinite, or no number.
    #[error("{column} has a value that is no finite number, and none can be stored")]
    NotFinite {
        /// The name of the column.
        column: String,
    },
    /// A number is not 0, and so near to it that 0 would be stored.
    #[error("{column} has a value that is nearer to 0 than any number that can be stored")]
    TooSmall {
        /// The name of the column.
        column: String,
    },
    /// A table changed while it was read.
    #[error(
        "of the table {table} {} and {} rows were read, and the other database counts {}",
        .read[0],
        .read[1],
        number(*.counted)
    )]
    Changed {
        /// The name of the table.
        table: String,
        /// The rows of the two passes.
        read: [u64; 2],
        /// The rows that the database counts, if its answer is a number.
        counted: Option<u64>,
    },

    // The keepers of a person's sources.
    /// The log is damaged, or cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log has more names, or combinations of them, than are kept in memory.
    #[error("the log has too many different names")]
    TooManyNames,
    /// The store did not answer, or refused a command.
    #[error("the store gave no answer: {what}")]
    StoreSilent {
        /// The reason.
        what: String,
    },
    /// The store answered in a form that the command does not have.
    #[error("the store gave an answer of another form")]
    StoreForm,
    /// A key of the store expired, or was changed, while its value was read.
    #[error("a key of the store went while it was read")]
    StoreChanged,
    /// The store has a value of a kind that this version does not know.
    #[error("the store has a value of the unknown kind {kind}")]
    StoreKind {
        /// The kind, in the store's words.
        kind: String,
    },
    /// A text is no export of the rows that a disguise hid.
    #[error("this is no export of a disguise: {0}")]
    NoExport(ExportFault),
    /// An export names another person than the one of the database.
    #[error("the export is of another person")]
    OtherPerson,
    /// A hidden row has a part that is longer than its column here.
    #[error("row {number} has {part} of {bytes} bytes, and {most} fit")]
    HiddenTooLong {
        /// Number of the row in its file, from 1.
        number: u64,
        /// The part, with an article.
        part: &'static str,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        most: usize,
    },

    // Whoever signs and checks evidence.
    /// A statement of several lines, which no note can name.
    #[error("a signed statement is one line")]
    ManyLines,
    /// A statement that shows no rows.
    #[error("an extract begins with SELECT")]
    NoSelect,
    /// Two columns have one name, which an object has once.
    #[error("two columns are called {column}")]
    RepeatedColumn {
        /// The name.
        column: String,
    },
    /// A row has a number that JSON has not.
    #[error("a row has no form in JSON")]
    NoJson(#[source] Box<dyn StdError + Send + Sync>),
    /// No part of the database is reorganised.
    #[error("there is no reorganised part to sign")]
    NoPart,
    /// The database's secret gives no key.
    #[error("cannot make the signing key")]
    SigningKey(#[source] Box<dyn StdError + Send + Sync>),
    /// A note cannot have the statement.
    #[error("the statement cannot be signed")]
    Unsigned(#[source] Box<dyn StdError + Send + Sync>),
    /// Evidence is malformed, not signed, or of something else.
    #[error(transparent)]
    NotEvidence(EvidenceFault),

    // The holder of the pocket database.
    /// The pocket database refuses, is full, or is not what was written.
    #[error(transparent)]
    Pocket(#[from] PocketError),
}

impl VaultError {
    /// Notes the place at which this error ended a work.
    pub(crate) fn at(self, at: Reached) -> Self {
        Self::Reached {
            at,
            cause: Box::new(self),
        }
    }
}

/// The last place that a work reached, such as `line 3` as text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reached {
    /// A statement of a script.
    Statement {
        /// Its number, from 1.
        number: u64,
        /// Offset of its first byte.
        at: usize,
    },
    /// A line of a CSV file, by its number from 1.
    Line(u64),
    /// An object of a JSON file, by its number from 1.
    Object(u64),
    /// The definition of a table taken over, by its name.
    Table(String),
    /// The rows of a table taken over, by its name.
    Rows(String),
    /// A row of a table taken over.
    Row {
        /// Its number from 1, in the order of the table's key.
        number: u64,
        /// The name of the table.
        table: String,
    },
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statement { number, at } => {
                write!(f, "statement {number}, at byte {at}")
            }
            Self::Line(number) => write!(f, "line {number}"),
            Self::Object(number) => write!(f, "object {number}"),
            Self::Table(table) => write!(f, "table {table}"),
            Self::Rows(table) => write!(f, "rows of {table}"),
            Self::Row { number, table } => write!(f, "row {number} of {table}"),
        }
    }
}

/// A part of a table that a pocket database cannot keep.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// A column that the other database computes; the name of the column.
    Generated(String),
    /// A primary key of several columns; their names.
    PrimaryKey(Vec<String>),
    /// A unique key of several columns; their names.
    UniqueKey(Vec<String>),
    /// A unique index over an expression, of some rows, of a partition alone or not valid, or an
    /// exclusion; its name.
    OtherKey(String),
    /// Numbers and texts in one column; the name of the column.
    NumbersAndTexts(String),
    /// A unique column with texts longer than a key here.
    WideKey {
        /// The name of the column.
        column: String,
        /// Bytes of the longest text.
        longest: usize,
        /// Bytes that a key here has at most.
        most: usize,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(column) => write!(f, "the generated column {column}"),
            Self::PrimaryKey(columns) => write!(f, "the primary key ({})", columns.join(", ")),
            Self::UniqueKey(columns) => write!(f, "the unique key ({})", columns.join(", ")),
            Self::OtherKey(name) => write!(
                f,
                "the key {name}, which is over an expression, of some rows or a partition, not valid, or an exclusion"
            ),
            Self::NumbersAndTexts(column) => {
                write!(f, "that values of {column} are numbers and texts")
            }
            Self::WideKey {
                column,
                longest,
                most,
            } => write!(
                f,
                "that {column} is unique, for its texts have up to {longest} bytes and a key here has {most} at most"
            ),
        }
    }
}

/// The reason why a text is no export of a disguise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportFault {
    /// A text that is no JSON; the reader's words.
    Malformed(String),
    /// A row lacks a member, or the member has another type.
    Row {
        /// Number of the row, from 1.
        number: u64,
        /// The name of the member.
        lacks: &'static str,
    },
    /// An object that is a row and has a member `rows` besides.
    RowWithRows,
    /// An export of a later version; its form.
    Form(String),
    /// An export that does not name its person, as those of its form do.
    NoPerson,
    /// A text without rows.
    Empty,
}

impl fmt::Display for ExportFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => f.write_str(what),
            Self::Row { number, lacks } => write!(f, "row {number} has no {lacks}"),
            Self::RowWithRows => f.write_str("an object is a row and has rows besides"),
            Self::Form(form) => write!(
                f,
                "its form is {form}, and this program reads {} and what has none",
                Exported::FORM
            ),
            Self::NoPerson => f.write_str("it does not name its person"),
            Self::Empty => f.write_str("it has no rows"),
        }
    }
}

fn in_the_column(column: Option<&str>) -> String {
    column.map_or_else(String::new, |column| format!(", in the column {column}"))
}

fn and_refers(table: Option<&str>) -> String {
    table.map_or_else(String::new, |table| {
        format!(", and every row here refers to one of {table}")
    })
}

fn number(counted: Option<u64>) -> String {
    counted.map_or_else(|| "no number".to_owned(), |rows| rows.to_string())
}

fn listed(losses: &[Loss]) -> String {
    let losses: Vec<String> = losses.iter().map(ToString::to_string).collect();
    losses.join(", ")
}
