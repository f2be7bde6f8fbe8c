//! Parsing that all statements share: expected words, names, values and columns.

use crate::error::{Error, Result};
use crate::limits::{NAME_BYTES_MAX, TABLES_MAX};
use crate::pager::bytes::short;
use crate::pager::series::Series;
use crate::query::condition::{Condition, Reach};
use crate::query::sql::conditions::Conditions;
use crate::query::sql::token::{TOO_LONG, Token, Tokens};
use crate::tables::catalogue::{Catalogue, ID, Kind, OWN};
use crate::tables::id::{ColumnId, TableId};
use crate::tables::value::{NUMBER_BYTES, Value, ValueType, reals_around};

/// Reserved words, which end a name or an alias.
const RESERVED: [&str; 30] = [
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "LIMIT", "OFFSET", "AS", "JOIN", "INNER",
    "ON", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "HAVING", "UNION", "LEFT",
    "RIGHT", "OUTER", "CROSS", "NATURAL", "SET", "VALUES", "DISTINCT",
];

/// A table of a statement and its slot in the root's join row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub(crate) table: TableId,
    pub(crate) slot: u8,
    pub(crate) name: &'a str,
    /// Byte offset of its name in the statement.
    pub(crate) at: usize,
    /// `true` if a condition joins it to the table that references it.
    pub(crate) joined: bool,
}

/// A parser of one statement.
#[derive(Debug)]
pub(crate) struct Parser<'a, 'c> {
    pub(crate) tokens: Tokens<'a>,
    pub(crate) catalogue: &'c Catalogue,
    parameters: &'a [Value<'a>],
    used: usize,
    pub(crate) tables: Series<Bound<'a>, TABLES_MAX>,
}

impl<'a, 'c> Parser<'a, 'c> {
    /// Creates a parser at the first word of `text`.
    pub(crate) fn new(
        text: &'a str,
        parameters: &'a [Value<'a>],
        catalogue: &'c Catalogue,
    ) -> Result<Self> {
        Ok(Self {
            tokens: Tokens::new(text)?,
            catalogue,
            parameters,
            used: 0,
            tables: Series::new(),
        })
    }

    /// Returns whether the current token is `word`.
    pub(crate) fn is(&self, word: &str) -> bool {
        match self.tokens.token {
            Token::Word(found) => found.eq_ignore_ascii_case(word),
            Token::Symbol(found) => found == word,
            _ => false,
        }
    }

    /// Skips `word` if it is the current token; returns whether it was.
    pub(crate) fn pass(&mut self, word: &str) -> Result<bool> {
        let found = self.is(word);
        if found {
            self.tokens.advance()?;
        }
        Ok(found)
    }

    /// Skips `word`, or returns an error.
    pub(crate) fn expect(&mut self, word: &str) -> Result<()> {
        if self.pass(word)? {
            return Ok(());
        }
        Err(self.tokens.error(alloc::format!("{word} is expected")))
    }

    /// Returns an error if the current token is one of the unsupported `words`.
    pub(crate) fn refuse(&self, words: &[&str]) -> Result<()> {
        match words.iter().find(|word| self.is(word)) {
            Some(word) => Err(self.tokens.error(alloc::format!("{word} is not supported"))),
            None => Ok(()),
        }
    }

    /// Returns an error about the statement's first word.
    pub(crate) fn unknown_statement(&self) -> Error {
        match self.tokens.token {
            Token::Word(word) => {
                let word = word.get(..NAME_BYTES_MAX).unwrap_or(word);
                let word = word.to_ascii_uppercase();
                self.tokens.error(alloc::format!("{word} is not supported"))
            }
            _ => self.tokens.error("a statement begins with a word"),
        }
    }

    /// Returns an error if anything but a semicolon follows the statement.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.pass(";")?;
        self.refuse(&[
            "HAVING",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "WINDOW",
            "RETURNING",
        ])?;
        if self.tokens.token != Token::End {
            return Err(self.tokens.error("the statement should end"));
        }
        if self.used != self.parameters.len() {
            let (wanted, given) = (self.used, self.parameters.len());
            let text = alloc::format!("{wanted} parameters are used, {given} given");
            return Err(self.tokens.error(text));
        }
        Ok(())
    }

    /// Returns whether the current token may be a name.
    pub(crate) fn is_name(&self) -> bool {
        match self.tokens.token {
            Token::Word(word) => !is_reserved(word),
            Token::Name(_) => true,
            _ => false,
        }
    }

    /// Parses a name.
    pub(crate) fn name(&mut self) -> Result<&'a str> {
        if !self.is_name() {
            return Err(self.tokens.error("a name is expected"));
        }
        match self.tokens.advance()? {
            Token::Word(word) | Token::Name(word) => Ok(word),
            _ => Ok(""),
        }
    }

    /// Parses the name of a table.
    pub(crate) fn table(&mut self) -> Result<TableId> {
        let at = self.tokens.at;
        let name = self.name()?;
        self.catalogue.table(name).ok_or_else(|| Error::Sql {
            at,
            what: alloc::format!("there is no table {name}"),
        })
    }

    /// Parses a non-negative integer.
    pub(crate) fn number(&mut self) -> Result<u64> {
        let error = self.tokens.error("a whole number is expected");
        match self.value()? {
            Value::Integer(number) => u64::try_from(number).map_err(|_range| error),
            _ => Err(error),
        }
    }

    /// Parses a literal or a parameter.
    pub(crate) fn value(&mut self) -> Result<Value<'a>> {
        let negative = self.pass("-")?;
        if !negative {
            self.pass("+")?;
        }
        let error = self.tokens.error("a value is expected");
        match self.tokens.token {
            Token::Integer(i64::MIN) if !negative => Err(self.tokens.error(TOO_LONG)),
            Token::Integer(number) => {
                self.tokens.advance()?;
                // The lowest number is its own negation.
                let opposite = number.wrapping_neg();
                Ok(Value::Integer(if negative { opposite } else { number }))
            }
            Token::Real(number) => {
                self.tokens.advance()?;
                Ok(Value::Real(if negative { -number } else { number }))
            }
            Token::Text(text) if !negative => {
                self.tokens.advance()?;
                Ok(Value::Text(text))
            }
            Token::Word(word) if !negative && word.eq_ignore_ascii_case("NULL") => {
                self.tokens.advance()?;
                Ok(Value::Null)
            }
            Token::Parameter if !negative => {
                let value = self.parameters.get(self.used).copied();
                let missing = self.tokens.error("a parameter has no value");
                self.tokens.advance()?;
                self.used += 1;
                value.ok_or(missing)
            }
            _ => Err(error),
        }
    }

    /// Parses a value of a column's type.
    pub(crate) fn value_of(&mut self, kind: ValueType) -> Result<Value<'a>> {
        let at = self.tokens.at;
        let value = self.value()?;
        accepted(kind, value, at)
    }

    /// Parses a value that refers to a key of `target`, which is of the type `kind`. The real number
    /// that is nearest to an integer may be another one, and the row that has it is another row.
    pub(super) fn referring(&mut self, target: TableId, kind: ValueType) -> Result<Value<'a>> {
        let at = self.tokens.at;
        match (kind, self.value()?) {
            (ValueType::Real, value @ Value::Integer(number)) => match reals_around(number) {
                (below, above) if below < above => Err(self.catalogue.no_row(target, &value)),
                (exact, _) => Ok(Value::Real(exact)),
            },
            (_, value) => accepted(kind, value, at),
        }
    }

    /// Parses a value to compare with a column's: the greatest value of the column's type that is not
    /// above it, and the smallest that is not below it. They differ for an integer that no real
    /// number holds.
    pub(super) fn compared(&mut self, kind: ValueType) -> Result<(Value<'a>, Value<'a>)> {
        let at = self.tokens.at;
        match (kind, self.value()?) {
            (ValueType::Real, Value::Integer(number)) => {
                let (below, above) = reals_around(number);
                Ok((Value::Real(below), Value::Real(above)))
            }
            (_, value) => accepted(kind, value, at).map(|value| (value, value)),
        }
    }

    /// Parses a column name, with or without its table; returns table and column.
    pub(crate) fn column(&mut self) -> Result<(Bound<'a>, ColumnId)> {
        let at = self.tokens.at;
        let error = |what| Err(Error::Sql { at, what });
        let first = self.name()?;
        if self.is(".") {
            self.tokens.advance()?;
            let name = self.name()?;
            let mut tables = self.tables.iter();
            let Some(bound) = tables.find(|bound| bound.name.eq_ignore_ascii_case(first)) else {
                return error(alloc::format!("{first} is not a table of the statement"));
            };
            return match self.catalogue.column(bound.table, name) {
                Some(column) => Ok((*bound, column)),
                None => error(alloc::format!("the table {first} has no column {name}")),
            };
        }
        let found = |bound: &Bound<'a>| {
            let column = self.catalogue.column(bound.table, first)?;
            Some((*bound, column))
        };
        let mut holders = self.tables.iter().filter_map(found);
        match (holders.next(), holders.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => error(alloc::format!("several tables have a column {first}")),
            (None, _) => error(alloc::format!("there is no column {first}")),
        }
    }

    /// Returns the path from the query's root table to a column.
    pub(crate) fn reach(&self, bound: &Bound<'_>, column: ColumnId) -> Result<Reach> {
        let entry = self.catalogue.column_at(bound.table, column)?;
        let id = |slot, table| Reach {
            slot,
            table,
            column: ID,
            kind: ValueType::Integer,
            width: short(NUMBER_BYTES),
        };
        let table = bound.table;
        match entry.kind {
            Kind::Position => Ok(id(bound.slot, table)),
            Kind::Reference => {
                let root = self.tables.iter().find(|bound| bound.slot == OWN);
                let root = root.ok_or(Error::Defect("a statement has a root table"))?;
                let mut slots = (0u8..).zip(self.catalogue.slots_of(root.table));
                let found = slots.find(|(_, slot)| slot.table == entry.target);
                let slot = found.map_or(OWN, |(number, _)| number);
                if entry.key == ID {
                    return Ok(id(slot, entry.target));
                }
                let key = self.catalogue.column_at(entry.target, entry.key)?;
                Ok(Reach {
                    slot,
                    table: entry.target,
                    column: entry.key,
                    kind: ValueType::of(key.kind),
                    width: key.width,
                })
            }
            kind => Ok(Reach {
                slot: bound.slot,
                table,
                column,
                kind: ValueType::of(kind),
                width: entry.width,
            }),
        }
    }

    /// Parses a condition and adds it to `condition` with AND.
    pub(crate) fn condition(&mut self, condition: &mut Condition<'a>) -> Result<()> {
        Conditions::new(self, condition).parse()
    }
}

/// Returns whether a word is none of a name, unless it is in quotes.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED
        .iter()
        .any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// Returns the value, at the byte `at`, as one of a column's type.
fn accepted(kind: ValueType, value: Value<'_>, at: usize) -> Result<Value<'_>> {
    kind.accept(value).ok_or_else(|| Error::Sql {
        at,
        what: alloc::format!("{} is expected, not {}", kind.name(), value.type_name()),
    })
}
