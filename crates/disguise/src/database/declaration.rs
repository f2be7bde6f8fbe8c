//! Types as statements name them: of a table made for values of a column, and of a cast.

use super::{Column, Dialect};

/// The bounds of texts and bits of `PostgreSQL`: a cast to such a type cuts off what is too long,
/// where a column refuses it.
const BOUNDED: [(&str, &str); 4] = [
    ("character varying(", "character varying"),
    ("character(", "bpchar"),
    ("bit varying(", "bit varying"),
    ("bit(", "bit varying"),
];

impl Column {
    /// Returns the type with its collation, as a table made for its values declares it.
    pub(crate) fn declaration(&self, dialect: Dialect) -> String {
        let collation = match (dialect, &self.collation) {
            (_, None) => String::new(),
            (Dialect::Sqlite, Some(it)) => format!(" COLLATE {}", dialect.quote(it)),
            (Dialect::Postgres, Some(it)) => format!(" COLLATE {it}"),
            (Dialect::Mysql, Some(it)) => format!(" CHARACTER SET {} COLLATE {it}", letters(it)),
        };
        format!("{}{collation}", self.declared)
    }

    /// Returns how many letters a text of a type of `PostgreSQL` has at most.
    pub(crate) fn letters_max(&self) -> Option<usize> {
        let (start, bound) = self.kind().strip_suffix(')')?.split_once('(')?;
        let is_text = matches!(start, "character varying" | "character");
        bound.parse().ok().filter(|_| is_text)
    }

    /// Returns the type of `PostgreSQL` to which a cast gives what an assignment to the column
    /// gives, but for what is too long.
    pub(crate) fn assigned(&self) -> String {
        let kind = self.kind();
        let bounded = BOUNDED.iter().find(|(start, _)| kind.starts_with(start));
        match (bounded, kind.split_once(')')) {
            (Some((_, plain)), Some((_, rest))) => format!("{plain}{rest}"),
            _ if kind == "bit" => "bit varying".to_owned(),
            _ => kind.to_owned(),
        }
    }
}

/// Returns the character set of a collation of `MariaDB`.
pub(crate) fn letters(collation: &str) -> &str {
    collation
        .split_once('_')
        .map_or(collation, |(letters, _)| letters)
}

/// Returns the values of `enum('a','b')` of `MariaDB`.
pub(crate) fn members(declared: &str) -> Vec<String> {
    words(declared, "enum(")
}

/// Returns the words of `set('a','b')` of `MariaDB`.
pub(super) fn words_of_set(declared: &str) -> Vec<String> {
    words(declared, "set(")
}

fn words(declared: &str, start: &str) -> Vec<String> {
    let inner = declared
        .strip_prefix(start)
        .and_then(|it| it.strip_suffix(')'));
    let Some(inner) = inner else {
        return Vec::new();
    };
    let (mut members, mut member, mut is_open) = (Vec::new(), String::new(), false);
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' if is_open && letters.peek() == Some(&'\'') => {
                member.extend(letters.next());
            }
            '\'' if is_open => {
                members.push(std::mem::take(&mut member));
                is_open = false;
            }
            '\'' => is_open = true,
            _ if is_open => member.push(letter),
            _ => {}
        }
    }
    members
}
