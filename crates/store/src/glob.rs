//! Patterns of KEYS, SCAN and CONFIG GET, read as Redis reads them.

/// Returns whether `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if pattern == b"*" {
        return true;
    }
    let (mut pattern, mut text) = (pattern, text);
    // The place to go on from if the rest does not match: the last star, and the text that it has
    // not swallowed yet.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        // Redis looks at a pattern only as long as there is text, but for stars after the last byte.
        if text.is_empty() {
            return pattern.is_empty();
        }
        if let [b'*', rest @ ..] = pattern {
            let rest = skip_stars(rest);
            if rest.is_empty() {
                return true;
            }
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        if let Some(rest) = one(pattern, text) {
            text = text.get(1..).unwrap_or_default();
            pattern = if text.is_empty() {
                skip_stars(rest)
            } else {
                rest
            };
            if !text.is_empty() || pattern.is_empty() {
                continue;
            }
        }
        let Some((rest, swallowed)) = retry else {
            return false;
        };
        text = swallowed.get(1..).unwrap_or_default();
        if text.is_empty() {
            return false;
        }
        retry = Some((rest, text));
        pattern = rest;
    }
}

fn skip_stars(mut pattern: &[u8]) -> &[u8] {
    while let [b'*', rest @ ..] = pattern {
        pattern = rest;
    }
    pattern
}

/// Returns the rest of the pattern behind its first part, if that part matches the first byte of
/// `text`.
fn one<'a>(pattern: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    let byte = *text.first()?;
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// A class of bytes; one that is not closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, pattern),
    };
    let mut found = false;
    loop {
        match rest {
            [b'\\', escaped, tail @ ..] => {
                found |= *escaped == byte;
                rest = tail;
            }
            [b']', tail @ ..] => {
                rest = tail;
                break;
            }
            [] => break,
            [start, b'-', end, tail @ ..] => {
                found |= (*start.min(end)..=*start.max(end)).contains(&byte);
                rest = tail;
            }
            [literal, tail @ ..] => {
                found |= *literal == byte;
                rest = tail;
            }
        }
    }
    (found != negated).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("**", "", false),
            ("", "", true),
            ("a*", "a", true),
            ("a?", "a", false),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h*lo", "hellolo", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a[", "a[", false),
            ("[abc", "b", true),
            ("[\\]]", "]", true),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxx", false),
            ("user:*:x", "user:7:x", true),
            ("a\\", "a\\", true),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn many_stars_take_no_more_than_the_product_of_both_lengths() {
        let pattern = b"a*".repeat(1000);
        let text = [b"a".repeat(5000), b"b".to_vec()].concat();
        let pattern = [pattern, b"c".to_vec()].concat();
        assert!(!matches(&pattern, &text));
    }
}
