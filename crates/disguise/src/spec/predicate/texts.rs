//! Functions of texts with a grammar of their own: TRIM and SUBSTR.

use std::collections::BTreeMap;

use sqlparser::ast::Expr;
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use super::Scope;
use crate::database::tenant::TenantScope;
use crate::database::{Catalog, CatalogTable, Column, Dialect};

impl Scope<'_> {
    /// Writes a call of TRIM or SUBSTR anew; nothing for any other expression.
    pub(super) fn text_function(&mut self, expression: &Expr) -> Result<Option<String>, String> {
        Ok(match expression {
            Expr::Trim {
                trim_where: None,
                trim_what: None,
                expr,
                trim_characters: None,
            } => Some(format!("trim({})", self.expression(expr)?)),
            Expr::Substring {
                expr,
                substring_from: Some(from),
                substring_for,
                ..
            } => {
                let mut arguments = vec![self.expression(expr)?, self.expression(from)?];
                if let Some(length) = substring_for {
                    arguments.push(self.expression(length)?);
                }
                Some(format!("substr({})", arguments.join(",")))
            }
            _ => None,
        })
    }
}

/// Says what is wrong with an expression over one row, whatever columns the row has.
///
/// # Errors
/// When the expression cannot be read, or has what no expression may have.
pub(crate) fn check_expression(expression: &str) -> Result<(), String> {
    let tokens = Tokenizer::new(&GenericDialect {}, expression).tokenize();
    let tokens = tokens.unwrap_or_default();
    let is_comment = |token: &Token| match token {
        Token::Whitespace(it) => matches!(
            it,
            Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)
        ),
        _ => false,
    };
    if tokens.iter().any(is_comment) {
        // On MariaDB, n--1 is none.
        return Err("a comment is not allowed in an expression".to_owned());
    }
    let words = tokens.into_iter();
    let columns = words.filter_map(|token| match token {
        Token::Word(word) => Some(Column {
            name: word.value,
            nullable: true,
            ..Column::default()
        }),
        _ => None,
    });
    let table = CatalogTable {
        columns: columns.collect(),
        ..CatalogTable::default()
    };
    let (named, alone) = (BTreeMap::new(), TenantScope::none());
    let catalog = Catalog::from([("row".to_owned(), table)]);
    let scope = Scope::new(Dialect::Sqlite, &catalog, (&named, &alone), "row");
    scope.value(expression).map(drop)
}
