//! Types of columns that the schemas are made of, each with values of its own, most of them hostile.

use probity_disguise::Dialect;

use super::dice::Dice;
use super::{kinds_mariadb, kinds_postgres, kinds_sqlite};

/// The display of a value, so that two that differ in a bit differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As a text.
    Plain,
    /// The bytes.
    Bytes,
    /// A number of single precision.
    Single,
    /// The bytes and the number of an enumeration or a set.
    Member,
}

/// The values that a specification may write over a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    Text,
    Number,
}

/// A type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) sql: &'static str,
    pub(crate) shown: Shown,
    pub(crate) change: Change,
    /// A condition, with `{}` in the place of the column.
    pub(crate) check: Option<&'static str>,
    /// A literal; the number is another one in each row of a table.
    pub(crate) value: fn(&mut Dice, u64) -> String,
}

pub(crate) const fn kind(sql: &'static str, value: fn(&mut Dice, u64) -> String) -> Kind {
    Kind {
        sql,
        shown: Shown::Plain,
        change: Change::Nothing,
        check: None,
        value,
    }
}

impl Kind {
    pub(crate) const fn shown(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    pub(crate) const fn change(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    pub(crate) const fn check(mut self, check: &'static str) -> Self {
        self.check = Some(check);
        self
    }
}

/// A type of keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The type in the table whose key it is, alone in it.
    pub(crate) sql: &'static str,
    /// The type in referring tables, and as a part of a key.
    pub(crate) referring: &'static str,
    pub(crate) shown: Shown,
    /// The literal of a number from 1 on.
    pub(crate) value: fn(u64) -> String,
    /// Returns a key in another spelling that the database treats as equal.
    pub(crate) respelled: fn(&str) -> String,
}

pub(crate) const fn key(
    sql: &'static str,
    referring: &'static str,
    value: fn(u64) -> String,
) -> Key {
    Key {
        sql,
        referring,
        shown: Shown::Plain,
        value,
        respelled: as_it_is,
    }
}

impl Key {
    pub(crate) const fn shown(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    pub(crate) const fn respelled(mut self, respelled: fn(&str) -> String) -> Self {
        self.respelled = respelled;
        self
    }
}

pub(crate) fn as_it_is(literal: &str) -> String {
    literal.to_owned()
}

pub(crate) fn in_capitals(literal: &str) -> String {
    literal.to_uppercase()
}

pub(crate) fn with_a_space(literal: &str) -> String {
    format!("{} '", literal.trim_end_matches('\''))
}

pub(crate) fn number(n: u64) -> String {
    n.to_string()
}

/// Beyond what 32 bits hold.
pub(crate) fn wide(n: u64) -> String {
    (n * 1_000_000_007 + 5_000_000_000).to_string()
}

/// Names of letters, quotes and marks, no two of which any collation takes for the same.
pub(crate) fn name(n: u64) -> String {
    let names = [
        "ada",
        "ber''ta",
        "\u{e7}elik",
        "d\"or",
        "e%l_i",
        "\u{fc}nal",
        "g\\h",
        "$1",
        "h?i",
        "j;k",
    ];
    let at = usize::try_from(n).unwrap();
    let suffix = if at < names.len() {
        String::new()
    } else {
        format!(" {n}")
    };
    format!("'{}{suffix}'", names[at % names.len()])
}

/// Returns a name without letters that have several forms in Unicode.
pub(crate) fn plain_name(n: u64) -> String {
    format!("'n{n}x'")
}

pub(crate) fn uuid(n: u64) -> String {
    format!("'0000abcd-0000-4000-8000-{n:012x}'")
}

pub(crate) fn kinds(dialect: Dialect) -> &'static [Kind] {
    match dialect {
        Dialect::Sqlite => kinds_sqlite::KINDS,
        Dialect::Mysql => kinds_mariadb::KINDS,
        _ => kinds_postgres::KINDS,
    }
}

/// Types of the ids of users.
pub(crate) fn ids(dialect: Dialect) -> &'static [Key] {
    match dialect {
        Dialect::Sqlite => kinds_sqlite::IDS,
        Dialect::Mysql => kinds_mariadb::IDS,
        _ => kinds_postgres::IDS,
    }
}
