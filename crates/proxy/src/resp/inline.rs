//! Inline commands: words on a line, as `redis-cli` quotes them.

use super::arguments::Arguments;

/// Splits an inline command at white space, with quotes and escapes as in `redis-cli`; false when they do not balance.
pub(super) fn split_inline(text: &[u8], arguments: &mut Arguments) -> bool {
    let mut rest = text;
    let mut word = Vec::new();
    loop {
        while let Some((first, tail)) = rest.split_first() {
            if !is_space(*first) {
                break;
            }
            rest = tail;
        }
        if rest.is_empty() {
            return true;
        }
        word.clear();
        match inline_word(rest, &mut word) {
            Some(tail) => rest = tail,
            None => return false,
        }
        arguments.push(&word);
    }
}

fn inline_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [first, ..] if ends_word(*first) => return Some(rest),
            [quote @ (b'"' | b'\''), tail @ ..] => {
                rest = quoted(tail, *quote, word)?;
                // A closing quote must be followed by white space or the end.
                if rest.first().is_some_and(|next| !is_space(*next)) {
                    return None;
                }
                return Some(rest);
            }
            [first, tail @ ..] => {
                word.push(*first);
                rest = tail;
            }
        }
    }
}

fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return None,
            [first, tail @ ..] if *first == quote => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex_digit(*high) * 16 + hex_digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [b'\\', b'\'', tail @ ..] if quote == b'\'' => {
                word.push(b'\'');
                rest = tail;
            }
            [first, tail @ ..] => {
                word.push(*first);
                rest = tail;
            }
        }
    }
}

/// Returns whether a byte ends a word without quotes. Redis takes fewer for that than it passes over
/// between words.
const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0)
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C)
}

const fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => byte.wrapping_sub(b'A').wrapping_add(10),
    }
}
