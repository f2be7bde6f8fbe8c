//! The conditions in a statement that creates a table: `SQLite` tells of them nowhere else.

/// The lexical state of the reader of a statement.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    /// A text or a name, up to this sign.
    Quoted(char),
    /// A comment to the end of the line, or to its own.
    Line,
    Block,
}

/// Returns the name, if any, and the condition of each CHECK in `statement`.
pub(super) fn of(statement: &str) -> Vec<(String, String)> {
    let words = words(statement);
    let mut found = Vec::new();
    for (at, (start, word)) in words.iter().enumerate() {
        if !word.eq_ignore_ascii_case("CHECK") {
            continue;
        }
        let rest = statement
            .get(start.saturating_add(word.len())..)
            .unwrap_or_default();
        let Some(condition) = in_brackets(rest) else {
            continue;
        };
        let before = |back: usize| at.checked_sub(back).and_then(|at| words.get(at));
        let is_named = before(2).is_some_and(|(_, it)| it.eq_ignore_ascii_case("CONSTRAINT"));
        let name = before(1).filter(|_| is_named).map(|(_, name)| name.clone());
        found.push((name.unwrap_or_default(), condition.to_owned()));
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

fn has_word(statement: &str, word: &str) -> bool {
    let words = words(statement);
    words.iter().any(|(_, it)| it.eq_ignore_ascii_case(word))
}

/// Returns the text in the brackets at the start of `text`, without them.
fn in_brackets(text: &str) -> Option<&str> {
    let open = text.find(|letter: char| !letter.is_whitespace())?;
    let inner = text.get(open..)?.strip_prefix('(')?;
    let mut depth: usize = 1;
    for (place, letter, part) in read(inner) {
        match (part, letter) {
            (Part::Code, '(') => depth = depth.saturating_add(1),
            (Part::Code, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return inner.get(..place);
        }
    }
    None
}

/// Returns the words outside of texts and comments with their places, and names without their
/// quotes.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut words: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (place, letter, part) in read(text) {
        let is_name = matches!(part, Part::Quoted('"' | '`' | ']'));
        let is_word = part == Part::Code && (letter.is_alphanumeric() || letter == '_');
        let is_kept = is_word || (is_name && !matches!(letter, '"' | '`' | '[' | ']'));
        match words.last_mut() {
            Some((_, word)) if is_kept && is_open => word.push(letter),
            _ if is_kept => words.push((place, letter.to_string())),
            _ => {}
        }
        is_open = is_kept;
    }
    words
}

/// Returns each letter with its place and its lexical state.
fn read(text: &str) -> impl Iterator<Item = (usize, char, Part)> {
    let mut part = Part::Code;
    let mut last = ' ';
    text.char_indices().map(move |(place, letter)| {
        let of = match (part, letter) {
            (Part::Code, '\'' | '"' | '`') => Part::Quoted(letter),
            (Part::Code, '[') => Part::Quoted(']'),
            (Part::Code, '-') if last == '-' => Part::Line,
            (Part::Code, '*') if last == '/' => Part::Block,
            (part, _) => part,
        };
        part = match (part, letter) {
            (Part::Quoted(end), letter) if letter == end => Part::Code,
            (Part::Line, '\n') => Part::Code,
            (Part::Block, '/') if last == '*' => Part::Code,
            _ => of,
        };
        last = letter;
        (place, letter, of)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_is_found_with_its_name_and_nothing_else_is() {
        let statement = r#"CREATE TABLE "check" (id INTEGER PRIMARY KEY, -- CHECK (no)
            a TEXT CHECK (a IN ('x)', "y") AND (length(a) > 0)) DEFAULT 'CHECK (x)',
            /* CHECK (neither) */ b INT, CONSTRAINT "age of b" CHECK(b > 17), CONSTRAINT c check
            (c), [check] TEXT)"#;
        let found = of(statement);
        let expected = [
            ("", "a IN ('x)', \"y\") AND (length(a) > 0)"),
            ("age of b", "b > 17"),
            ("c", "c"),
        ];
        let expected = expected.map(|(name, it)| (name.to_owned(), it.to_owned()));
        assert_eq!(found, expected);
    }
}
