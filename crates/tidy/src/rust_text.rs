//! Blanks out comments and literals of Rust source, so that checks ignore the words in them.

/// Returns the code alone: every character of a comment, string or character literal becomes a
/// space. Line feeds stay, so that line numbers and columns do not change.
pub(crate) fn code_of(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        let rest = characters.get(at..).unwrap_or_default();
        let follows_word = at > 0 && characters.get(at - 1).is_some_and(|c| is_word(*c));
        let blanked = literal_or_comment(rest, follows_word);
        if blanked == 0 {
            code.push(character);
            at += 1;
        } else {
            let skipped = rest.iter().take(blanked);
            code.extend(skipped.map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at += blanked;
        }
    }
    code
}

/// Returns whether `code` has `word` as a whole word.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(start, _)| {
        let before = code.get(..start).and_then(|text| text.chars().next_back());
        let after = code
            .get(start + word.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the length in characters of the comment or literal at the front; 0 if there is none.
fn literal_or_comment(rest: &[char], follows_word: bool) -> usize {
    match rest {
        ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        ['b' | 'c', '"', ..] if !follows_word => 1 + quoted(rest.get(1..).unwrap_or_default(), '"'),
        ['r', '"' | '#', ..] if !follows_word => raw(rest, 1),
        ['b' | 'c', 'r', '"' | '#', ..] if !follows_word => raw(rest, 2),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
        _ => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        match (rest.get(at), rest.get(at + 1)) {
            (Some('/'), Some('*')) => {
                depth += 1;
                at += 2;
            }
            (Some('*'), Some('/')) => {
                depth = depth.saturating_sub(1);
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while let Some(character) = rest.get(at) {
        match character {
            '\\' => at += 2,
            c if *c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a raw string whose number signs start at `start`; 0 for a raw identifier.
fn raw(rest: &[char], start: usize) -> usize {
    let signs = rest.iter().skip(start).take_while(|c| **c == '#').count();
    if rest.get(start + signs) != Some(&'"') {
        return 0;
    }
    let mut at = start + signs + 1;
    while at < rest.len() {
        let closes = rest.get(at) == Some(&'"')
            && rest
                .iter()
                .skip(at + 1)
                .take(signs)
                .filter(|c| **c == '#')
                .count()
                == signs;
        if closes {
            return at + 1 + signs;
        }
        at += 1;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_lines_stay() {
        let source = "a // x\nb /* x /* x */\nx */ c \"x\\\"x\" d 'x' e '\\'' f r#\"x\"x\"# g";
        let code = code_of(source);
        assert!(!code.contains('x'), "{code}");
        assert_eq!(code.split_whitespace().collect::<String>(), "abcdefg");
        assert_eq!(code.lines().count(), 3);
        assert_eq!(code.len(), source.len());
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        let source = "fn f<'a>(r#type: &'a str, attr: b) -> &'static str { br\"x\" }";
        assert_eq!(code_of(source), source.replace("br\"x\"", "     "));
    }

    #[test]
    fn parts_of_words_are_not_words() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("an_unsafe", "unsafe"));
    }
}
