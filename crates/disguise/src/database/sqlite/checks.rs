//! The conditions in a statement that creates a table: `SQLite` tells of them nowhere else.

use sqlparser::dialect::SQLiteDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::database::value::Value;
use crate::database::{Catalog, Property};

/// Returns the name, if any, and the condition of each CHECK in `statement`. One that cannot be read
/// is a condition as a whole.
pub(super) fn of(statement: &str) -> Vec<(String, String)> {
    let Some(tokens) = tokens(statement) else {
        return vec![(String::new(), statement.to_owned())];
    };
    let mut found = Vec::new();
    // The two words before, and whether the word CHECK is the last.
    let (mut before, mut name) = ([None, None], None);
    let mut left = tokens.iter();
    while let Some(token) = left.next() {
        match token {
            Token::Whitespace(_) => continue,
            Token::LParen if name.is_some() => {
                let condition = in_brackets(&mut left);
                found.push((name.take().unwrap_or_default(), condition));
            }
            Token::Word(word) if is_word(token, "CHECK") && word.quote_style.is_none() => {
                let is_named = before[0].is_some_and(|it| is_word(it, "CONSTRAINT"));
                let named = before[1].filter(|_| is_named).map(text_of);
                name = Some(named.unwrap_or_default());
            }
            _ => name = None,
        }
        before = [before[1], Some(token)];
    }
    found
}

/// Returns whether `statement` has a conflict clause; an identifier that contains the word counts,
/// too.
pub(super) fn settles_conflicts(statement: &str) -> bool {
    has_word(statement, "CONFLICT")
}

/// Returns whether `statement` names a collation; an identifier that contains the word counts, too.
pub(super) fn names_collations(statement: &str) -> bool {
    has_word(statement, "COLLATE")
}

/// Returns whether a trigger refuses a row without taking back what its statement did before; an
/// identifier that contains the word counts, too.
pub(super) fn leaves_halves(statement: &str) -> bool {
    has_word(statement, "FAIL")
}

/// Returns whether `statement` has a word, or cannot be read.
fn has_word(statement: &str, word: &str) -> bool {
    let tokens = tokens(statement);
    tokens.is_none_or(|tokens| tokens.iter().any(|token| is_word(token, word)))
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(it) if it.value.eq_ignore_ascii_case(word))
}

/// Returns a name without its quotes.
fn text_of(token: &Token) -> String {
    match token {
        Token::Word(word) => word.value.clone(),
        Token::SingleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the text up to the bracket that closes the one before, without it.
fn in_brackets<'t>(tokens: &mut impl Iterator<Item = &'t Token>) -> String {
    let mut depth: usize = 1;
    let inner = tokens.take_while(|token| {
        match token {
            Token::LParen => depth = depth.saturating_add(1),
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > 0
    });
    inner.map(ToString::to_string).collect()
}

/// Returns the words, texts, signs and comments of a statement, as they are written.
fn tokens(statement: &str) -> Option<Vec<Token>> {
    let tokenizer = Tokenizer::new(&SQLiteDialect {}, statement);
    tokenizer.with_unescape(false).tokenize().ok()
}

/// Notes the tables whose rows a virtual table finds by their place, as a full-text index does
/// (`content=`), where no column holds the place.
pub(super) fn note_places(catalog: &mut Catalog, made: &[Vec<Value>]) {
    let made = made.iter().flatten().map(Value::to_string);
    let made: Vec<String> = made.map(|sql| sql.to_ascii_lowercase()).collect();
    for (name, table) in catalog.iter_mut() {
        let is_place = |key: &String| {
            let column = table.column(key);
            column.is_some_and(|it| it.declared.eq_ignore_ascii_case("INTEGER"))
        };
        let has_place = matches!(table.primary_key.as_slice(), [key] if is_place(key));
        let name = name.to_ascii_lowercase();
        let finds = |sql: &String| {
            let content = sql.split_once("content").map_or("", |(_, rest)| rest);
            content
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == name)
        };
        if !has_place && made.iter().any(finds) {
            table.properties.push(Property::FoundByPlace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_found_with_its_name_and_nothing_else_is() {
        let statement = r#"CREATE TABLE "check" (id INTEGER PRIMARY KEY, -- CHECK (no)
            a TEXT CHECK (a IN ('x)', "y") AND (length(a) > 0)) DEFAULT 'CHECK (x)',
            /* CHECK (neither) */ b INT, CONSTRAINT "age of b" CHECK(b > 17), CONSTRAINT c check
            (c), [check] TEXT, d INT CHECK/* of d */(d/*/*/*2 > 0), e INT CHECK -- of e
            (e <> 'it''s )'))"#;
        let found = of(statement);
        let expected = [
            ("", "a IN ('x)', \"y\") AND (length(a) > 0)"),
            ("age of b", "b > 17"),
            ("c", "c"),
            ("", "d/*/*/*2 > 0"),
            ("", "e <> 'it''s )'"),
        ];
        let expected = expected.map(|(name, it)| (name.to_owned(), it.to_owned()));
        assert_eq!(found, expected);
    }
}
