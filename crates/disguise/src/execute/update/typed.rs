//! Rows with the types that their columns had, and what an expression may do with a column of which
//! that is not known.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::Row;
use crate::database::column::Affinity;
use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::records::shape::ShapeOf;

/// Columns by their names, as far as it is known where their values come from.
pub(super) type Kinds = BTreeMap<String, Kind>;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A column that was recorded with this type.
    Recorded(Column),
    /// A value that an update made.
    Made,
}

/// A row and the origin of its values. Of records of programs before, nothing is known.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) row: Row,
    pub(super) kinds: Kinds,
    /// Of a row of which one value was overwritten: the columns with that value, or what came of it.
    hidden: BTreeSet<String>,
    pub(super) lacks: Lacks,
}

/// The parts of updates that could not be asked of a row, because its other columns are not known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lacks {
    /// A condition that names the overwritten value beside others.
    pub(super) condition: bool,
    /// An expression that does.
    pub(super) value: bool,
}

impl Typed {
    /// Returns a row that was recorded with this shape.
    pub(super) fn recorded(row: Row, shape: &ShapeOf) -> Self {
        let kind =
            |name: &String| Some((name.clone(), Kind::Recorded(shape.column(name)?.clone())));
        let kinds = row.columns.iter().filter_map(|(name, _)| kind(name));
        let kinds = kinds.collect();
        Self {
            row,
            kinds,
            hidden: BTreeSet::new(),
            lacks: Lacks::default(),
        }
    }

    /// Returns the row as one of which the value of this column was overwritten.
    pub(super) fn hiding(mut self, column: &str) -> Self {
        self.hidden.insert(column.to_owned());
        self
    }

    /// Returns the column as which a value was recorded, if that is known.
    pub(super) fn recorded_as(&self, column: &str) -> Option<&Column> {
        match self.kinds.get(column)? {
            Kind::Recorded(it) => Some(it),
            Kind::Made => None,
        }
    }

    /// Returns whether the column has the overwritten value, or what came of it.
    pub(super) fn hides(&self, column: &str) -> bool {
        self.hidden.contains(column)
    }

    /// Returns whether an expression may look at the overwritten value, or what came of it.
    pub(super) fn is_hidden_in(&self, used: &Use) -> bool {
        self.hidden.iter().any(|it| used.names(it))
    }

    /// Returns a row that a mapping made of this one, with the columns of it that have the overwritten
    /// value.
    pub(super) fn mapped(&self, row: Row, kinds: Kinds, hidden: BTreeSet<String>) -> Self {
        Self {
            row,
            kinds,
            hidden,
            lacks: self.lacks,
        }
    }

    /// Returns a row that code made of this one.
    pub(super) fn made(&self, row: Row) -> Self {
        let kind = |name: &String, value: &Value| {
            let same = self.row.value(name).is_some_and(|it| it.same(value));
            if same {
                self.kinds.get(name).cloned()
            } else {
                Some(Kind::Made)
            }
        };
        let kinds = row.columns.iter();
        let kinds = kinds.filter_map(|(name, value)| Some((name.clone(), kind(name, value)?)));
        let kinds = kinds.collect();
        let same = |name: &str, value: &Value| {
            !self.hides(name) && self.row.value(name).is_some_and(|it| it.same(value))
        };
        let other = row
            .columns
            .iter()
            .filter(|(name, value)| !same(name, value));
        let hidden = if self.hidden.is_empty() {
            BTreeSet::new()
        } else {
            other.map(|(name, _)| name.clone()).collect()
        };
        self.mapped(row, kinds, hidden)
    }
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "what an expression does, each by itself"
)]
/// An expression, as far as it matters which types its columns have.
#[derive(Debug, Default)]
pub(super) struct Use {
    /// Its words in small letters, the columns among them.
    words: BTreeSet<String>,
    /// Those of them that are not only asked for NULL.
    met: BTreeSet<String>,
    /// True if values are compared.
    compares: bool,
    /// True if they are compared otherwise than for equality, or calculated with.
    orders: bool,
    /// True if a text is in it.
    has_text: bool,
    /// True if one of them is empty.
    has_empty_text: bool,
    /// True if something is in double quotes.
    has_double_quotes: bool,
    /// True if a function is called.
    calls: bool,
    /// True if that is `length`.
    measures: bool,
    /// True if it takes parts of texts.
    cuts: bool,
    /// True if it negates what is no list, pattern or bounds.
    negates: bool,
    /// True if a text has a backslash, or the pattern of LIKE may have one.
    has_backslash: bool,
    /// True if another letter than those that LIKE has for others is behind one.
    has_odd_backslash: bool,
}

impl Use {
    /// Adds another expression over the same row.
    pub(super) fn add(&mut self, expression: &str) {
        let tokens = Tokenizer::new(&GenericDialect {}, expression).tokenize();
        let tokens = tokens.unwrap_or_default().into_iter();
        let tokens: Vec<Token> = tokens
            .filter(|it| !matches!(it, Token::Whitespace(_)))
            .collect();
        for (place, token) in tokens.iter().enumerate() {
            match token {
                Token::Word(word) => {
                    self.has_double_quotes |= word.quote_style == Some('"');
                    let word = word.value.to_ascii_lowercase();
                    match word.as_str() {
                        "in" => self.compares = true,
                        "like" | "between" | "abs" | "round" => self.orders = true,
                        "lower" | "upper" | "length" | "char_length" | "octet_length"
                        | "coalesce" | "trim" | "substr" | "substring" => self.calls = true,
                        _ => {}
                    }
                    let behind = tokens.get(place.saturating_add(1)..).unwrap_or_default();
                    self.measures |= word == "length" && behind.first() == Some(&Token::LParen);
                    self.cuts |= matches!(&*word, "trim" | "substr" | "substring");
                    self.has_backslash |= word == "like"
                        && !matches!(behind.first(), Some(Token::SingleQuotedString(_)));
                    self.negates |= word == "not" && !is_negative_word(behind.first());
                    if !asks_for_null(behind) {
                        self.met.insert(word.clone());
                    }
                    self.words.insert(word);
                }
                Token::Eq | Token::Neq => self.compares = true,
                Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => {
                    self.has_double_quotes |= matches!(token, Token::DoubleQuotedString(_));
                    self.has_text = true;
                    self.has_empty_text |= text.is_empty();
                    self.has_backslash |= text.contains('\\');
                    self.has_odd_backslash |= has_odd_backslash(text);
                }
                Token::LParen
                | Token::RParen
                | Token::Comma
                | Token::Period
                | Token::Number(..)
                | Token::StringConcat => {}
                _ => self.orders = true,
            }
        }
    }

    /// Returns whether it does anything with values but to pass them on, or to ask for NULL.
    pub(super) const fn is_looked_at(&self) -> bool {
        self.compares || self.orders || self.calls
    }

    /// Returns whether it compares otherwise than for equality, or calculates.
    pub(super) const fn orders(&self) -> bool {
        self.orders
    }

    /// Returns whether it writes an empty text.
    pub(super) const fn has_empty_text(&self) -> bool {
        self.has_empty_text
    }

    /// Returns whether something is in double quotes.
    pub(super) const fn has_double_quotes(&self) -> bool {
        self.has_double_quotes
    }

    /// Returns whether it calls a function.
    pub(super) const fn calls(&self) -> bool {
        self.calls
    }

    /// Returns whether it calls `length`.
    pub(super) const fn measures(&self) -> bool {
        self.measures
    }

    /// Returns whether it takes parts of texts.
    pub(super) const fn cuts(&self) -> bool {
        self.cuts
    }

    /// Returns whether NOT is in front of a truth.
    pub(super) const fn negates(&self) -> bool {
        self.negates
    }

    /// Returns whether it writes a text.
    pub(super) const fn has_text(&self) -> bool {
        self.has_text
    }

    /// Returns whether a text has a backslash, or the pattern of LIKE may have one.
    pub(super) const fn has_backslash(&self) -> bool {
        self.has_backslash
    }

    /// Returns whether another letter than those that LIKE has for others is behind a backslash.
    pub(super) const fn has_odd_backslash(&self) -> bool {
        self.has_odd_backslash
    }

    /// Returns whether it may name the column for more than to ask whether it is NULL.
    pub(super) fn meets(&self, column: &str) -> bool {
        self.met.contains(&column.to_ascii_lowercase())
    }

    /// Returns whether it may name the column.
    pub(super) fn names(&self, column: &str) -> bool {
        self.words.contains(&column.to_ascii_lowercase())
    }

    /// Returns the type by which an expression finds what it found of the recorded column, whatever
    /// type that had; nothing where it may find something else.
    pub(super) fn certain(
        &self,
        dialect: Dialect,
        live: Option<&Column>,
        value: &Value,
    ) -> Option<Column> {
        let of = |declared: &str| Column {
            declared: declared.to_owned(),
            ..Column::default()
        };
        let plain = match dialect {
            Dialect::Postgres => of("text"),
            Dialect::Mysql => of("longtext"),
            Dialect::Sqlite => of(""),
        };
        let is_looked_at = self.is_looked_at();
        let is_of_integers = live.is_none_or(|it| is_of_numbers(dialect, it));
        match value {
            Value::Null => Some(live.cloned().unwrap_or(plain)),
            Value::Int(_) | Value::UInt(_) if is_of_integers => match (dialect, value) {
                (Dialect::Sqlite, _) if live.is_none() && self.has_text => None,
                (Dialect::Sqlite, _) => Some(of("INTEGER")),
                (Dialect::Mysql, Value::UInt(_)) => Some(of("bigint unsigned")),
                (Dialect::Mysql | Dialect::Postgres, _) => Some(of("bigint")),
            },
            Value::Text(_) if !is_looked_at => Some(plain),
            Value::Text(_) if !self.orders => {
                let live = live.filter(|it| it.is_text() && it.members.is_empty());
                live.filter(|it| is_plain(dialect, it)).cloned()
            }
            Value::Bytes(_) if !self.orders && live.is_none_or(Column::is_binary) => {
                Some(of(dialect.binary()))
            }
            _ => None,
        }
    }
}

/// Returns whether these tokens, behind a column, ask whether it is NULL.
fn asks_for_null(tokens: &[Token]) -> bool {
    let is = |at: usize, word: &str| {
        let token = tokens.get(at);
        matches!(token, Some(Token::Word(it)) if it.value.eq_ignore_ascii_case(word))
    };
    is(0, "is") && (is(1, "null") || is(1, "not") && is(2, "null"))
}

/// Returns whether a word with NOT in front of it is one of a comparison.
fn is_negative_word(token: Option<&Token>) -> bool {
    let words = ["in", "like", "between", "null"];
    matches!(token, Some(Token::Word(it)) if words.iter().any(|word| it.value.eq_ignore_ascii_case(word)))
}

fn has_odd_backslash(text: &str) -> bool {
    let mut parts = text.split('\\').skip(1);
    parts.any(|behind| !behind.starts_with(['%', '_']))
}

/// Returns whether whole numbers are compared with the column as numbers.
fn is_of_numbers(dialect: Dialect, column: &Column) -> bool {
    match dialect {
        Dialect::Sqlite => Affinity::of(column.kind()) == Affinity::Number,
        Dialect::Mysql => column.is_number(dialect) || column.is_decimal(),
        Dialect::Postgres => column.is_number(dialect),
    }
}

/// Returns whether the texts of a column are equal by a binary or a default collation.
fn is_plain(dialect: Dialect, column: &Column) -> bool {
    let collation = column.collation.as_deref().unwrap_or_default();
    match dialect {
        Dialect::Sqlite => collation.is_empty(),
        Dialect::Postgres => collation.starts_with("pg_catalog."),
        Dialect::Mysql => [
            "_bin",
            "_general_ci",
            "_swedish_ci",
            "_uca1400_ai_ci",
            "_0900_ai_ci",
        ]
        .iter()
        .any(|end| collation.ends_with(end)),
    }
}
