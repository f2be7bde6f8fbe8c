//! Literals: texts and parameters are bound, numbers stand as they are written.

use sqlparser::ast::Value as Literal;

use super::Scope;
use crate::database::value::Value;

impl Scope<'_> {
    pub(super) fn literal(&mut self, literal: &Literal) -> Result<String, String> {
        let value = match literal {
            // As a parameter it would be rounded, or be of the type of what it stands beside.
            Literal::Number(text, _) if is_number(text) => return Ok(text.clone()),
            Literal::Number(text, _) => return Err(format!("{text} is not a number")),
            Literal::SingleQuotedString(text) | Literal::DoubleQuotedString(text) => {
                Value::Text(text.clone())
            }
            Literal::Boolean(truth) => return Ok(if *truth { "(1=1)" } else { "(1=0)" }.to_owned()),
            Literal::Null => return Ok("NULL".to_owned()),
            Literal::Placeholder(name) => {
                let name = name.trim_start_matches([':', '$', '@']);
                self.named
                    .get(name)
                    .cloned()
                    .ok_or_else(|| format!("parameter {name} is not given"))?
            }
            other => return Err(format!("{other} is not allowed in a condition")),
        };
        self.parameters.push(value);
        Ok("?".to_owned())
    }
}

/// Returns whether a text is a number, and nothing else, for every database.
fn is_number(text: &str) -> bool {
    let known = |it: u8| it.is_ascii_digit() || b".eE+-".contains(&it);
    text.starts_with(|it: char| it.is_ascii_digit() || it == '.')
        && text.bytes().all(known)
        && text.parse::<f64>().is_ok()
}
