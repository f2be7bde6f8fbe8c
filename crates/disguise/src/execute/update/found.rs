//! The types that the columns of a table had when a migration found them, which an update says where
//! nothing else shows them: a column may get another type between a disguise and a migration.

use std::sync::Arc;

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use super::question::{Now, Question};
use super::session::Session;
use super::typed::{Kind, Typed};
use super::{Mapping, Recorded};
use crate::database::shape::Shape;
use crate::database::tenant::TenantConnection;
use crate::database::{Column, Database, Dialect};
use crate::error::{Doing as _, Error, SpecError, UpdateError};
use crate::statements::declared;

/// The collation of a column of `PostgreSQL` that declares none.
const DEFAULT: &str = "pg_catalog.\"default\"";

/// Words of a declaration that are of no type.
const OF_NO_TYPE: [&str; 17] = [
    "as",
    "auto_increment",
    "check",
    "comment",
    "constraint",
    "default",
    "generated",
    "invisible",
    "key",
    "not",
    "null",
    "on",
    "primary",
    "references",
    "storage",
    "unique",
    "using",
];

impl Column {
    /// Returns the type with its collation, as `was` of an update says it.
    pub(super) fn described(&self, dialect: Dialect) -> String {
        let collation = self.collation.as_ref();
        match collation.filter(|it| *it != DEFAULT && !it.is_empty()) {
            Some(it) if dialect == Dialect::Sqlite => {
                format!("{} COLLATE {}", self.declared, dialect.quote(it))
            }
            Some(it) => format!("{} COLLATE {it}", self.declared),
            None => self.declared.clone(),
        }
    }

    /// Returns whether values of this column are as they are in `other`, so that nothing converts them.
    fn is_of_one_type(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.declared.clone(), it.base.clone(), it.collation.clone());
        of(self) == of(other) && self.members == other.members
    }
}

impl Mapping {
    /// Refuses types that are none.
    pub(super) fn check_found(&self) -> Result<(), String> {
        let mut all = self.was.iter();
        match all.find(|(_, declared)| !is_type(declared)) {
            None => Ok(()),
            Some((column, declared)) => Err(format!(
                "says that column {column} was {declared}, which is no type: say it as a column declares it, with its collation, without a key, a default or NOT NULL"
            )),
        }
    }

    /// Returns the columns of which it says the types that the migration found. A type that rows
    /// have which may be hidden is theirs, also where the database does not have it any more.
    pub(super) fn found(
        &self,
        database: &mut dyn TenantConnection,
        rows: &[Typed],
    ) -> Result<Option<Arc<Shape>>, Error> {
        let dialect = database.dialect();
        let mut columns = Vec::new();
        for (name, declared) in &self.was {
            let mut known = rows.iter().filter_map(|it| it.recorded_as(name));
            let is_nowhere = rows.iter().all(|it| it.row.value(name).is_none());
            if is_nowhere && !rows.is_empty() {
                return Err(self.refusal(format!(
                    "says the type of column {name}, which no row of {} that is hidden has",
                    self.table
                )));
            }
            let column = match known.find(|it| it.described(dialect) == declared.trim()) {
                Some(known) => known.clone(),
                None => self.declared(database, (name, declared))?,
            };
            columns.push(Column {
                name: name.clone(),
                ..column
            });
        }
        let shape = || Arc::new(Shape::new(&self.table, columns.into_iter()));
        Ok((!self.was.is_empty()).then(shape))
    }

    /// Returns a column as the database understands its declaration.
    fn declared(
        &self,
        database: &mut dyn TenantConnection,
        (name, declared): (&str, &str),
    ) -> Result<Column, Error> {
        let column = declared::column(database, declared.trim());
        let column = column.doing("looking at a type that an update says")?;
        column.map_err(|words| {
            let what = format!(
                "says that column {name} was {declared}, of which the database makes no column: {words}"
            );
            SpecError::new(format!("update {}", self.name), what).into()
        })
    }

    /// Returns a row as the migration found it: with the types that the update says. What a value
    /// became with another type than it was hidden with, the database works out.
    pub(super) fn as_found(
        &self,
        database: &mut dyn Database,
        now: Now<'_>,
        row: &Typed,
    ) -> Result<Typed, UpdateError> {
        let shape = now.later.first().and_then(|it| it.was.get(&self.table));
        let changed = |(name, found): &(&String, &Column)| {
            let then = row.recorded_as(name);
            then.is_some_and(|it| !it.is_of_one_type(found))
        };
        let columns = shape.into_iter().flat_map(|it| &it.columns);
        let columns: Vec<(&String, &Column)> = columns.filter(changed).collect();
        let (Some(shape), false) = (shape, columns.is_empty()) else {
            return Ok(row.clone());
        };
        let change = [Recorded::of_change(&self.name, shape)];
        let now = Now {
            catalog: now.catalog,
            later: &change,
        };
        let dialect = database.dialect();
        let mut question = Question::new(dialect, (now, Session::of(self)), row);
        for (name, _) in &columns {
            question.ask(Some((&self.table, name)), &dialect.quote(name))?;
        }
        question.refuse_uncertain()?;
        question.refuse_unsaid()?;
        let mut found = row.clone();
        for (name, value) in question.run(database)?.values {
            let mut cells = found.row.columns.iter_mut();
            if let Some((_, cell)) = cells.find(|(column, _)| *column == name) {
                *cell = value;
            }
        }
        for (name, column) in columns {
            found
                .kinds
                .insert(name.clone(), Kind::Recorded(column.clone()));
        }
        Ok(found)
    }
}

/// Returns whether a text is a type as a column declares it, and nothing behind it.
fn is_type(declared: &str) -> bool {
    let tokens = Tokenizer::new(&GenericDialect {}, declared).tokenize();
    let Ok(tokens) = tokens else {
        return false;
    };
    let mut depth: usize = 0;
    let fits = |token: &Token| match token {
        Token::LParen => {
            depth = depth.saturating_add(1);
            true
        }
        Token::RParen => match depth.checked_sub(1) {
            Some(outer) => {
                depth = outer;
                true
            }
            None => false,
        },
        Token::Comma => depth > 0,
        Token::SingleQuotedString(text) => depth > 0 && !text.contains('\\'),
        Token::Word(word) => {
            let is_plain = word.quote_style.is_none();
            let of_no_type = |it: &&str| word.value.eq_ignore_ascii_case(it);
            !(is_plain && OF_NO_TYPE.iter().any(of_no_type))
        }
        Token::Whitespace(space) => !matches!(
            space,
            sqlparser::tokenizer::Whitespace::SingleLineComment { .. }
                | sqlparser::tokenizer::Whitespace::MultiLineComment(_)
        ),
        Token::Number(..) | Token::Period | Token::LBracket | Token::RBracket => true,
        _ => false,
    };
    tokens.iter().all(fits) && depth == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_types_are_told_from_others() {
        let types = [
            "int(6) unsigned zerofill",
            "text COLLATE pg_catalog.\"C\"",
            "timestamp(3) with time zone",
            "integer[]",
            "enum('a','it''s') COLLATE utf8mb4_bin",
            "",
        ];
        for it in types {
            assert!(is_type(it), "{it}");
        }
        let others = [
            "int, x int",
            "int) as (select 1",
            "int default 3",
            "int; drop table t",
            "int -- x",
            "int /* x */",
            "int not null",
            "enum('a\\')",
            "int check (1)",
        ];
        for it in others {
            assert!(!is_type(it), "{it}");
        }
    }
}
