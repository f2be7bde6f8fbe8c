//! Parsing of conditions: AND, OR and NOT, tests of columns, and the joins of tables.

use crate::error::{Error, Result};
use crate::limits::DEPTH_MAX;
use crate::pager::bytes::short;
use crate::query::condition::{Comparison, Condition, Node, Test};
use crate::query::sql::parser::{Bound, Parser};
use crate::query::sql::token::Token;
use crate::tables::catalogue::{ID, Kind};
use crate::tables::id::{ColumnId, TableId};
use crate::tables::value::{Value, ValueType};

/// The permission to join tables in a part of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Joins {
    #[default]
    Allowed,
    Refused,
}

/// The context of a part of a condition.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// `true` if the part is negated.
    negated: bool,
    joins: Joins,
}

impl Place {
    /// Returns the context after a `NOT`.
    fn negation(self) -> Self {
        Self {
            negated: !self.negated,
            joins: Joins::Refused,
        }
    }
}

/// The parsing of a condition, to which it adds tests and nodes.
pub(super) struct Conditions<'p, 'a, 'c> {
    parser: &'p mut Parser<'a, 'c>,
    condition: &'p mut Condition<'a>,
    /// Number of parentheses and negations around the current part.
    depth: u32,
}

impl<'p, 'a, 'c> Conditions<'p, 'a, 'c> {
    /// Begins to parse a condition, which is added to `condition`.
    pub(super) fn new(parser: &'p mut Parser<'a, 'c>, condition: &'p mut Condition<'a>) -> Self {
        Self {
            parser,
            condition,
            depth: 0,
        }
    }

    /// Parses the condition, and requires it besides what the condition says already.
    pub(super) fn parse(mut self) -> Result<()> {
        // Conjuncts of the topmost level may join tables; nested ones may not.
        let node = self.disjunction(Place::default())?;
        self.condition.require(node)
    }

    fn disjunction(&mut self, mut place: Place) -> Result<u16> {
        if self.has_or_ahead()? {
            place.joins = Joins::Refused;
        }
        let mut node = self.conjunction(place)?;
        while self.parser.pass("OR")? {
            let next = self.conjunction(place)?;
            node = self.condition.add(if place.negated {
                Node::And(node, next)
            } else {
                Node::Or(node, next)
            })?;
        }
        Ok(node)
    }

    /// Returns whether an OR follows on this level of parentheses.
    fn has_or_ahead(&self) -> Result<bool> {
        let mut ahead = self.parser.tokens;
        let mut depth = 0u32;
        loop {
            match ahead.advance()? {
                Token::End => return Ok(false),
                Token::Symbol("(") => depth += 1,
                Token::Symbol(")") if depth == 0 => return Ok(false),
                Token::Symbol(")") => depth -= 1,
                Token::Word(word) if depth == 0 => {
                    if word.eq_ignore_ascii_case("OR") {
                        return Ok(true);
                    }
                    let ends = ["GROUP", "ORDER", "LIMIT", "JOIN", "INNER", "WHERE"];
                    if ends.iter().any(|end| word.eq_ignore_ascii_case(end)) {
                        return Ok(false);
                    }
                }
                _ => {}
            }
        }
    }

    fn conjunction(&mut self, place: Place) -> Result<u16> {
        let mut node = self.factor(place)?;
        while self.parser.pass("AND")? {
            let next = self.factor(place)?;
            node = self.condition.add(if place.negated {
                Node::Or(node, next)
            } else {
                Node::And(node, next)
            })?;
        }
        Ok(node)
    }

    fn factor(&mut self, place: Place) -> Result<u16> {
        if self.parser.pass("NOT")? {
            return self.deeper(|conditions| conditions.factor(place.negation()));
        }
        if self.parser.pass("(")? {
            let node = self.deeper(|conditions| conditions.disjunction(place))?;
            self.parser.expect(")")?;
            return Ok(node);
        }
        self.test(place)
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<u16>) -> Result<u16> {
        if self.depth == DEPTH_MAX {
            return Err(self
                .parser
                .tokens
                .error("the condition is nested too deeply"));
        }
        self.depth += 1;
        let node = read(self)?;
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self, place: Place) -> Result<u16> {
        self.parser.refuse(&["EXISTS", "CASE", "SELECT"])?;
        let at = self.parser.tokens.at;
        let (bound, column) = self.parser.column()?;
        let opposite = self.parser.pass("NOT")?;
        let mut comparison = self.comparison()?;
        if comparison == Comparison::Equal
            && !opposite
            && self.parser.is_name()
            && !self.parser.is("NULL")
        {
            return self.join((bound, column), at, place.joins);
        }
        let reach = self.parser.reach(&bound, column)?;
        let first = short(self.condition.values.len());
        match comparison {
            Comparison::Between => {
                let (_, low) = self.parser.compared(reach.kind)?;
                keep_value(self.condition, low)?;
                self.parser.expect("AND")?;
                let (high, _) = self.parser.compared(reach.kind)?;
                keep_value(self.condition, high)?;
            }
            Comparison::Among => {
                self.parser.expect("(")?;
                self.parser.refuse(&["SELECT"])?;
                self.keep_member(reach.kind)?;
                while self.parser.pass(",")? {
                    self.keep_member(reach.kind)?;
                }
                self.parser.expect(")")?;
            }
            _ => comparison = self.keep_limit(reach.kind, comparison)?,
        }
        let count = self.condition.values.len() - usize::from(first);
        let comparison = if place.negated == opposite {
            comparison
        } else {
            comparison.negated()
        };
        self.condition.add_test(Test {
            reach,
            comparison,
            first,
            count: short(count),
        })
    }

    /// Keeps a value that a column may be equal to; none where the column's type has no such value.
    fn keep_member(&mut self, kind: ValueType) -> Result<()> {
        let (below, above) = self.parser.compared(kind)?;
        if below == above {
            keep_value(self.condition, below)?;
        }
        Ok(())
    }

    /// Keeps the value of a comparison with one value. Where the column's type has no such value,
    /// gives the comparison with the next one that says the same.
    fn keep_limit(&mut self, kind: ValueType, comparison: Comparison) -> Result<Comparison> {
        let (below, above) = self.parser.compared(kind)?;
        if below == above {
            keep_value(self.condition, below)?;
            return Ok(comparison);
        }
        Ok(match comparison {
            Comparison::Less | Comparison::LessOrEqual => {
                keep_value(self.condition, below)?;
                Comparison::LessOrEqual
            }
            Comparison::Greater | Comparison::GreaterOrEqual => {
                keep_value(self.condition, above)?;
                Comparison::GreaterOrEqual
            }
            // Among no values, of which no column has one.
            Comparison::NotEqual => Comparison::NotAmong,
            _ => Comparison::Among,
        })
    }

    fn comparison(&mut self) -> Result<Comparison> {
        self.parser.refuse(&[
            "LIKE", "IS", "GLOB", "MATCH", "REGEXP", "COLLATE", "+", "-", "*",
        ])?;
        let found = [
            ("=", Comparison::Equal),
            ("==", Comparison::Equal),
            ("<>", Comparison::NotEqual),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
            ("BETWEEN", Comparison::Between),
            ("IN", Comparison::Among),
        ];
        for (word, comparison) in found {
            if self.parser.pass(word)? {
                return Ok(comparison);
            }
        }
        Err(self.parser.tokens.error("a comparison is expected"))
    }

    /// Parses `a.reference = b.key`, in either order: the condition that joins a table.
    fn join(&mut self, left: (Bound<'a>, ColumnId), at: usize, joins: Joins) -> Result<u16> {
        let right = self.parser.column()?;
        let error = |what: &str| {
            Err(Error::Sql {
                at,
                what: what.into(),
            })
        };
        let Some(target) = self.joined(left, right)?.or(self.joined(right, left)?) else {
            return error("columns can only be compared along a foreign key");
        };
        if joins == Joins::Refused {
            return error("a join inside OR or NOT is not supported");
        }
        for bound in self.parser.tables.iter_mut() {
            bound.joined |= bound.table == target;
        }
        self.condition.add(Node::Always)
    }

    /// Returns the table that `from` refers to, if `to` is its key.
    fn joined(
        &self,
        from: (Bound<'a>, ColumnId),
        to: (Bound<'a>, ColumnId),
    ) -> Result<Option<TableId>> {
        let reference = self.parser.catalogue.column_at(from.0.table, from.1)?;
        let key = self.parser.catalogue.column_at(to.0.table, to.1)?;
        let leads = reference.kind == Kind::Reference
            && reference.target == to.0.table
            && match reference.key {
                ID => key.kind == Kind::Position,
                column => column == to.1,
            };
        Ok(leads.then_some(to.0.table))
    }
}

fn keep_value<'a>(condition: &mut Condition<'a>, value: Value<'a>) -> Result<()> {
    let values = &mut condition.values;
    Ok(values.push(value, "the number of values of a statement")?)
}
