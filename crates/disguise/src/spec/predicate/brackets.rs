//! Comparisons within others: each database reads them by a grammar of its own, so that they need
//! brackets.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

const OPEN: &str = "a comparison stands in another one, or in a calculation, without brackets, where databases read it in different ways: put it in brackets, as in (a = b) = c";

/// Refuses a comparison without brackets in the place of a value: of `a = b < c` or `a = b IN (1, 2)`,
/// databases make different things.
pub(super) fn refuse_open(parts: &[&Expr]) -> Result<(), String> {
    if parts.iter().any(|it| decides(it)) {
        // A long chain is deep, too deep to be told on any stack.
        return Err(OPEN.to_owned());
    }
    Ok(())
}

/// Returns whether an expression without brackets gives a truth.
fn decides(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryOp { op, .. } => !is_calculation(op),
        Expr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::InList { .. }
        | Expr::Between { .. }
        | Expr::Like { .. } => true,
        _ => false,
    }
}

/// Returns whether an operator gives a number.
const fn is_calculation(operator: &BinaryOperator) -> bool {
    matches!(
        operator,
        BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::BitwiseAnd
    )
}
