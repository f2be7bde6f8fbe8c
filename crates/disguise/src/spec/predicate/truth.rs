//! Numbers where a condition wants a truth: each but 0 is true, and `PostgreSQL` has to be told so.

use sqlparser::ast::{Expr, UnaryOperator, Value as Literal};

use super::brackets::refuse_open;
use super::{Scope, operator};
use crate::database::value::Value;
use crate::database::{Column, Dialect};

impl Scope<'_> {
    /// Writes an expression as a truth value; a number is true when it is not 0.
    pub(super) fn truth(&mut self, expression: &Expr) -> Result<String, String> {
        if let Some(truth) = self.constant(expression) {
            return Ok(if truth { "(1=1)" } else { "(1=0)" }.to_owned());
        }
        let sql = self.expression(expression)?;
        Ok(truth_of(sql, self.is_number(expression)))
    }

    /// A chain like `a OR b OR c` leans to the left, as deep as it is long: it is followed without recursion.
    pub(super) fn chain(&mut self, whole: &Expr) -> Result<String, String> {
        let (mut links, mut first) = (Vec::new(), whole);
        while let Expr::BinaryOp { left, op, right } = first {
            let operator = operator(op)?;
            if !decides(operator) {
                refuse_open(&[left, right])?;
            }
            links.push((operator, right));
            first = left;
        }
        let is_logic = links.last().is_some_and(|(operator, _)| decides(operator));
        let mut sql = if is_logic {
            self.truth(first)?
        } else {
            self.expression(first)?
        };
        let mut is_number = false;
        for (operator, right) in links.into_iter().rev() {
            let right = if decides(operator) {
                sql = truth_of(sql, is_number);
                self.truth(right)?
            } else {
                self.expression(right)?
            };
            sql = format!("({sql} {operator} {right})");
            is_number = self.dialect == Dialect::Postgres && calculates(operator);
        }
        Ok(sql)
    }

    /// Returns whether a number that is written down, or given as a parameter, is true.
    fn constant(&self, expression: &Expr) -> Option<bool> {
        let Expr::Value(literal) = inner(expression) else {
            return None;
        };
        let number = match &literal.value {
            Literal::Number(text, _) => text.parse().ok(),
            Literal::Placeholder(name) => {
                let name = name.trim_start_matches([':', '$', '@']);
                match self.named.get(name) {
                    Some(Value::Int(number)) => return Some(*number != 0),
                    Some(Value::Real(number)) => Some(*number),
                    _ => None,
                }
            }
            _ => None,
        };
        number.map(|number: f64| number != 0.0)
    }

    /// Returns whether the database takes the expression for a number that is neither true nor false.
    fn is_number(&self, expression: &Expr) -> bool {
        self.dialect == Dialect::Postgres
            && match inner(expression) {
                Expr::BinaryOp { op, .. } => operator(op).is_ok_and(calculates),
                Expr::UnaryOp { op, .. } => *op == UnaryOperator::Minus,
                Expr::Function(function) => {
                    let name = function.name.to_string().to_ascii_lowercase();
                    ["abs", "length", "char_length", "octet_length", "round"]
                        .contains(&name.as_str())
                }
                other => self.column_of(other).is_some_and(holds_numbers),
            }
    }

    fn column_of(&self, expression: &Expr) -> Option<&Column> {
        let (alias, name) = match expression {
            Expr::Identifier(name) => (None, name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [alias, name] => (Some(alias), name),
                _ => return None,
            },
            _ => return None,
        };
        let is_meant = |known: &str| alias.is_none_or(|alias| self.is_called(known, alias));
        let mut meant = self.tables.iter().filter(|(known, _)| is_meant(known));
        meant.find_map(|(_, table)| {
            let column = self.called(table, name)?;
            self.catalog.get(table)?.column(column)
        })
    }
}

/// The expression without the brackets around it.
fn inner(mut expression: &Expr) -> &Expr {
    while let Expr::Nested(nested) = expression {
        expression = nested;
    }
    expression
}

fn truth_of(sql: String, is_number: bool) -> String {
    if is_number {
        format!("({sql} <> 0)")
    } else {
        sql
    }
}

fn decides(operator: &str) -> bool {
    matches!(operator, "AND" | "OR")
}

fn calculates(operator: &str) -> bool {
    matches!(operator, "+" | "-" | "*" | "&")
}

fn holds_numbers(column: &Column) -> bool {
    let kind = column.kind();
    let others = ["numeric", "real", "double precision"];
    column.is_integer() || others.iter().any(|other| kind.starts_with(other))
}
