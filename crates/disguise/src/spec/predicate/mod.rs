//! Conditions that select rows: parsed, checked and written anew with every literal bound.
//!
//! The text of a specification never reaches the database: what the parser understood is written out again from a
//! short list of allowed forms, always in brackets, so that neither a second statement nor a stray OR can escape.

mod brackets;
mod likeness;
mod literals;
mod names;
mod texts;
mod truth;

use std::collections::BTreeMap;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint,
    JoinOperator, TableFactor, TableWithJoins, UnaryOperator,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

use self::brackets::refuse_open;
pub(crate) use self::likeness::Like;
pub(crate) use self::names::column_written;
pub(crate) use self::texts::check_expression;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantScope;
use crate::database::value::Value;
use crate::database::{Catalog, Dialect};

const TEXT_BYTES_MAX: usize = 16_384;
/// The deepest nesting of brackets in a condition.
const DEPTH_MAX: usize = 40;
/// The nesting limit in levels of the parser, which also counts its attempts inside a bracket.
const LEVELS_MAX: usize = 4 * DEPTH_MAX;
/// Levels that are parsed on the stack of the caller. An unoptimised parser takes up to 96 KiB for each, and threads of
/// tests and of runtimes have 2 MiB.
const LEVELS_AT_ONCE: usize = 8;
/// The stack for what is nested deeper; of it only what is used is ever taken.
const STACK_BYTES: usize = 32 << 20;
/// The most operators and names that a condition may have: a chain of operators is a tree as deep as it is long.
const WORDS_MAX: usize = 1_024;
/// The functions that are called as such; `trim` and `substr` are read otherwise.
const FUNCTIONS: [&str; 8] = [
    "lower",
    "upper",
    "length",
    "char_length",
    "octet_length",
    "coalesce",
    "abs",
    "round",
];

/// The reason why a condition was not written.
enum Fault {
    /// The condition is nested too deeply.
    Deep,
    /// The condition is wrong, or contains something that is not allowed.
    Wrong(String),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl From<ParserError> for Fault {
    fn from(error: ParserError) -> Self {
        match error {
            ParserError::RecursionLimitExceeded => Self::Deep,
            other => Self::Wrong(other.to_string()),
        }
    }
}

/// The names and values that a condition may use.
#[derive(Clone)]
pub(crate) struct Scope<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) catalog: &'a Catalog,
    /// Values of the named parameters `:name`.
    pub(crate) named: &'a BTreeMap<String, Value>,
    tenancy: &'a TenantScope,
    /// True if it is of a file of Edna.
    of_edna: bool,
    like: Like,
    /// Names in use and the tables they stand for; the target first.
    tables: Vec<(String, String)>,
    parameters: Vec<Value>,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(
        dialect: Dialect,
        catalog: &'a Catalog,
        (named, tenancy): (&'a BTreeMap<String, Value>, &'a TenantScope),
        table: &str,
    ) -> Self {
        let tables = vec![(table.to_owned(), table.to_owned())];
        Self {
            dialect,
            catalog,
            named,
            tenancy,
            of_edna: false,
            like: Like::Plain,
            tables,
            parameters: Vec::new(),
        }
    }

    /// Sets whether the condition is from an Edna file.
    pub(crate) fn of_edna(self, of_edna: bool) -> Self {
        Self { of_edna, ..self }
    }

    /// Writes `condition` anew, or says what is wrong with it.
    pub(crate) fn condition(self, condition: &str) -> Result<Fragment, String> {
        with_stack(|levels| {
            let mut scope = self.clone();
            let sql = scope.truth(&parsed(condition, levels)?)?;
            Ok(Fragment {
                sql,
                parameters: scope.parameters,
            })
        })
    }

    /// Writes `expression` anew, which stands for a value, or says what is wrong with it.
    pub(crate) fn value(self, expression: &str) -> Result<Fragment, String> {
        with_stack(|levels| {
            let mut scope = self.clone();
            let expression = parsed(expression, levels)?;
            let sql = scope.expression(&expression)?;
            Ok(Fragment {
                sql,
                parameters: scope.parameters,
            })
        })
    }

    /// Writes the join `from` and the condition anew, as the two parts of a query.
    pub(crate) fn joined(
        self,
        from: &str,
        condition: Option<&str>,
    ) -> Result<(String, Fragment), String> {
        with_stack(|levels| self.clone().join(from, condition, levels))
    }

    fn join(
        mut self,
        from: &str,
        condition: Option<&str>,
        levels: usize,
    ) -> Result<(String, Fragment), Fault> {
        let mut parser = parser(from, levels)?;
        let tables = parser.parse_table_and_joins()?;
        ended(&parser)?;
        let target = self
            .tables
            .first()
            .map(|(_, table)| table.clone())
            .unwrap_or_default();
        self.tables.clear();
        let source = self.tables_and_joins(&tables)?;
        if self
            .tables
            .first()
            .is_none_or(|(alias, table)| *alias != target || *table != target)
        {
            return Err(format!("the join does not begin with {target}").into());
        }
        let sql = match condition {
            Some(condition) => self.truth(&parsed(condition, levels)?)?,
            None => "1=1".to_owned(),
        };
        Ok((
            source,
            Fragment {
                sql,
                parameters: self.parameters,
            },
        ))
    }

    fn tables_and_joins(&mut self, tables: &TableWithJoins) -> Result<String, String> {
        let mut sql = self.factor(&tables.relation)?;
        for join in &tables.joins {
            let (word, constraint) = match &join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
                    ("JOIN", constraint)
                }
                JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                    ("LEFT JOIN", constraint)
                }
                _ => return Err("only inner and left joins are allowed".to_owned()),
            };
            let table = self.factor(&join.relation)?;
            let JoinConstraint::On(on) = constraint else {
                return Err("a join needs ON".to_owned());
            };
            let on = self.truth(on)?;
            let own = self.own();
            sql = format!("{sql} {word} {table} ON {on}{own}");
        }
        Ok(sql)
    }

    /// The condition that the table joined last gives rows of the tenant alone.
    fn own(&mut self) -> String {
        let Some((alias, table)) = self.tables.last() else {
            return String::new();
        };
        let mut own = self.tenancy.and(self.dialect, table, alias);
        self.parameters.append(&mut own.parameters);
        own.sql
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<String, String> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return Err("only plain tables can be joined".to_owned());
        };
        let Some(table) = self.table(name).map(str::to_owned) else {
            return Err(format!("table {name} is not in the database"));
        };
        if self.tenancy.lacks(&table) {
            return Err(format!(
                "table {table} has no tenant column; name it under tenant, or say shared = true"
            ));
        }
        let alias = alias
            .as_ref()
            .map_or_else(|| table.clone(), |alias| alias.name.value.clone());
        let quoted = format!(
            "{} AS {}",
            self.dialect.quote(&table),
            self.dialect.quote(&alias)
        );
        self.tables.push((alias, table));
        Ok(quoted)
    }

    fn expression(&mut self, expression: &Expr) -> Result<String, String> {
        Ok(match expression {
            Expr::Identifier(name) => self.column(name)?,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.qualified(table, column)?,
                _ => return Err(format!("{expression} is not a column")),
            },
            Expr::Value(literal) => self.literal(&literal.value)?,
            Expr::Nested(inner) => self.expression(inner)?,
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => format!("(NOT {})", self.truth(expr)?),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => {
                refuse_open(&[expr])?;
                format!("(- {})", self.expression(expr)?)
            }
            Expr::BinaryOp { .. } => self.chain(expression)?,
            Expr::IsNull(inner) => {
                refuse_open(&[inner])?;
                format!("({} IS NULL)", self.expression(inner)?)
            }
            Expr::IsNotNull(inner) => {
                refuse_open(&[inner])?;
                format!("({} IS NOT NULL)", self.expression(inner)?)
            }
            Expr::InList {
                expr,
                list,
                negated,
            } => {
                refuse_open(&[expr])?;
                let left = self.expression(expr)?;
                let list: Result<Vec<String>, String> =
                    list.iter().map(|it| self.expression(it)).collect();
                format!("({left} {}IN ({}))", not(*negated), list?.join(","))
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                refuse_open(&[expr, low, high])?;
                let (value, low) = (self.expression(expr)?, self.expression(low)?);
                let high = self.expression(high)?;
                format!("({value} {}BETWEEN {low} AND {high})", not(*negated))
            }
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => {
                refuse_open(&[expr, pattern])?;
                let (value, pattern) = (self.expression(expr)?, self.expression(pattern)?);
                self.likeness(&value, &pattern, not(*negated))
            }
            Expr::Function(function) => self.function(function)?,
            other => self
                .text_function(other)?
                .ok_or_else(|| format!("{other} is not allowed in a condition"))?,
        })
    }

    fn function(&mut self, function: &sqlparser::ast::Function) -> Result<String, String> {
        let name = function.name.to_string().to_ascii_lowercase();
        let FunctionArguments::List(list) = &function.args else {
            return Err(format!("function {name} is not allowed in a condition"));
        };
        let plain = function.over.is_none() && function.filter.is_none() && list.clauses.is_empty();
        if !plain || !FUNCTIONS.contains(&name.as_str()) {
            return Err(format!("function {name} is not allowed in a condition"));
        }
        let mut arguments = Vec::new();
        for argument in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else {
                return Err(format!("argument {argument} is not allowed"));
            };
            arguments.push(self.expression(argument)?);
        }
        let name = self.dialect.function(&name);
        Ok(format!("{name}({})", arguments.join(",")))
    }
}

/// Returns what `work` makes of an expression, as it was read.
///
/// # Errors
/// When the expression cannot be read.
pub(crate) fn with_parsed<T: Send>(
    expression: &str,
    work: impl Fn(&Expr) -> T + Send + Sync,
) -> Result<T, String> {
    with_stack(|levels| Ok(work(&parsed(expression, levels)?)))
}

/// Does `work` with as many levels as the caller's stack surely has room for; where that fails, again
/// on a thread with a stack of its own.
fn with_stack<T: Send>(
    work: impl Fn(usize) -> Result<T, Fault> + Send + Sync,
) -> Result<T, String> {
    // The parser may take what is too deep for something else that is wrong.
    if let Ok(done) = work(LEVELS_AT_ONCE) {
        return Ok(done);
    }
    let outcome = std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(threads, || work(LEVELS_MAX));
        let thread = thread.map_err(|error| format!("there is no thread: {error}"))?;
        let stopped = |_panic| "the parser of conditions stopped".to_owned();
        thread.join().map_err(stopped)?
    });
    outcome.map_err(|fault| match fault {
        Fault::Deep => format!("the condition is nested deeper than {DEPTH_MAX}"),
        Fault::Wrong(what) => what,
    })
}

/// The names of the parameters in a condition or a join; none of a text that is neither.
pub(crate) fn parameters(text: &str) -> Vec<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
    let tokens = tokens.unwrap_or_default();
    let next = tokens.iter().skip(1).map(Some).chain([None]);
    let named = tokens.iter().zip(next);
    let named = named.filter_map(|(token, next)| match (token, next) {
        (Token::Placeholder(name), _) => Some(name.trim_start_matches([':', '$', '@']).to_owned()),
        (Token::Colon | Token::AtSign, Some(Token::Word(word))) => Some(word.value.clone()),
        _ => None,
    });
    named.collect()
}

const fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn operator(operator: &BinaryOperator) -> Result<&'static str, String> {
    Ok(match operator {
        BinaryOperator::Eq => "=",
        BinaryOperator::NotEq => "<>",
        BinaryOperator::Lt => "<",
        BinaryOperator::LtEq => "<=",
        BinaryOperator::Gt => ">",
        BinaryOperator::GtEq => ">=",
        BinaryOperator::And => "AND",
        BinaryOperator::Or => "OR",
        BinaryOperator::Plus => "+",
        BinaryOperator::Minus => "-",
        BinaryOperator::Multiply => "*",
        BinaryOperator::BitwiseAnd => "&",
        other => return Err(format!("operator {other} is not allowed in a condition")),
    })
}

fn parsed(text: &str, levels: usize) -> Result<Expr, Fault> {
    let mut parser = parser(text, levels)?;
    let expression = parser.parse_expr()?;
    ended(&parser)?;
    Ok(expression)
}

fn ended(parser: &Parser<'_>) -> Result<(), String> {
    match parser.peek_token().token {
        Token::EOF => Ok(()),
        other => Err(format!("{other} is left over")),
    }
}

/// A parser of `text` that neither recurses deep nor works long, whatever the text.
fn parser(text: &str, levels: usize) -> Result<Parser<'static>, String> {
    if text.len() > TEXT_BYTES_MAX {
        let length = text.len();
        return Err(format!(
            "the condition has {length} bytes, the limit is {TEXT_BYTES_MAX}"
        ));
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| error.to_string())?;
    let (mut depth, mut words): (usize, usize) = (0, 0);
    for it in &tokens {
        match &it.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth = depth.saturating_add(1),
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            Token::Whitespace(_)
            | Token::Comma
            | Token::Number(..)
            | Token::SingleQuotedString(_) => {}
            _ => words = words.saturating_add(1),
        }
        if depth > DEPTH_MAX {
            return Err(format!("the condition is nested deeper than {DEPTH_MAX}"));
        }
    }
    if words > WORDS_MAX {
        return Err(format!(
            "the condition has {words} names and operators, the limit is {WORDS_MAX}; write a list as IN (...)"
        ));
    }
    Ok(Parser::new(&GenericDialect {})
        .with_recursion_limit(levels)
        .with_tokens_with_locations(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Database as _, Sqlite};

    fn written(condition: &str) -> Result<Fragment, String> {
        let mut database = Sqlite::open(std::path::Path::new(":memory:")).unwrap();
        database
            .execute(
                "CREATE TABLE posts (id INTEGER PRIMARY KEY, topic TEXT)",
                &[],
            )
            .unwrap();
        let catalog = database.catalog().unwrap();
        let named = BTreeMap::from([("who".to_owned(), Value::from("x' OR '1'='1"))]);
        let said = (&named, &TenantScope::none());
        Scope::new(Dialect::Sqlite, &catalog, said, "posts").condition(condition)
    }

    #[test]
    fn texts_and_parameters_are_bound_and_every_or_is_in_brackets() {
        let fragment = written("posts.topic = 'a''b' OR id IN (1, 2) OR topic = :who").unwrap();
        assert_eq!(
            fragment.sql,
            "(((\"posts\".\"topic\" = ?) OR (\"posts\".\"id\" IN (1,2))) OR (\"posts\".\"topic\" = ?))"
        );
        assert_eq!(fragment.parameters.len(), 2);
        assert_eq!(fragment.parameters[1], Value::from("x' OR '1'='1"));
    }

    /// Threads of tests and of asynchronous runtimes have so much stack.
    const THREAD_BYTES: usize = 2 << 20;

    #[test]
    fn the_deepest_and_the_longest_condition_fit_on_the_stack_of_a_thread() {
        let nested = |open: &str, depth: usize, close: &str| {
            format!("{}id = 1{}", open.repeat(depth), close.repeat(depth))
        };
        let ways = [
            ("(", ")"),
            ("NOT ", ""),
            ("NOT (", ")"),
            ("(1 = 1 OR ", ")"),
            ("abs(", ")"),
            ("coalesce(1, ", ")"),
            ("(id IN (1, (", ")))"),
            ("(1 BETWEEN 0 AND (", "))"),
        ];
        let test = move || {
            for (open, close) in ways {
                let level = open.matches('(').count().max(1);
                let deepest = DEPTH_MAX / level;
                written(&nested(open, deepest, close)).unwrap();
                written(&nested(open, LEVELS_MAX + 1, close)).unwrap_err();
                // A function, so that the parser itself stops before anything is written.
                let function = format!("unknown({})", nested(open, deepest - 1, close));
                written(&function).unwrap_err();
            }
            let chain = |terms: usize| format!("id = 1{}", " OR id = 1".repeat(terms));
            let longest = (WORDS_MAX - 2) / 3;
            written(&chain(longest)).unwrap();
            written(&chain(longest + 1)).unwrap_err();
            written(&format!("id{}", " + 1".repeat(WORDS_MAX - 1))).unwrap();
            // Refused at the end, when the whole chain is there to be told.
            written(&format!("{} || 1", chain(longest - 1))).unwrap_err();
            let list = vec!["1"; 4_000].join(",");
            written(&format!("id IN ({list})")).unwrap();
        };
        let thread = std::thread::Builder::new().stack_size(THREAD_BYTES);
        thread.spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn anything_but_one_plain_condition_is_refused() {
        let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
        let nots = "NOT ".repeat(4_000) + "1=1";
        for bad in [
            "1=1; DROP TABLE posts",
            "1=1) OR (1=1",
            "topic = 'a",
            "id IN (SELECT id FROM posts)",
            "EXISTS (SELECT 1)",
            "load_extension('x')",
            "nothing = 1",
            "other.id = 1",
            "id = :missing",
            "id = 1 -- ) \n OR",
            "topic || topic = 'x' UNION SELECT 1",
            "",
            "id = ?",
            deep.as_str(),
            nots.as_str(),
        ] {
            let outcome = written(bad);
            // A comment is dropped by the parser; what follows it must still be a whole condition.
            assert!(
                outcome.is_err(),
                "{} was written as {outcome:?}",
                bad.chars().take(60).collect::<String>()
            );
        }
    }
}
