//! Addresses of electronic mail inside a text.

use std::ops::Range;

/// The longest local part in quotes, and the longest domain in brackets (RFC 5321, section 4.5.3.1), in characters.
const QUOTED_CHARACTERS_MAX: usize = 66;

/// Notes the ranges of addresses. Every run between two signs is looked at twice, so the time is linear.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices('@') {
        let (before, after) = (text.get(..at), text.get(at.saturating_add(1)..));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let (local, domain) = (local_bytes(before), domain_bytes(after));
        if local > 0 && domain > 0 {
            found.push(at.saturating_sub(local)..at.saturating_add(1).saturating_add(domain));
        }
    }
}

/// The length of the local part that ends `before`.
fn local_bytes(before: &str) -> usize {
    if let Some(quoted) = before.strip_suffix('"') {
        let mut backwards = quoted.char_indices().rev().take(QUOTED_CHARACTERS_MAX);
        let open = backwards.find(|(_, it)| *it == '"');
        return open.map_or(0, |(start, _)| before.len().saturating_sub(start));
    }
    let mut local = before.len();
    for (start, it) in before.char_indices().rev() {
        if !it.is_alphanumeric() && !"!#$%&'*+/=?^_`{|}~-.".contains(it) {
            break;
        }
        local = start;
    }
    let run = before.get(local..).unwrap_or_default();
    // Quotes and slashes before an address are the text's, not the address's.
    run.trim_start_matches(|it: char| !it.is_alphanumeric() && it != '_' && it != '+')
        .len()
}

/// The length of the domain that begins `after`.
fn domain_bytes(after: &str) -> usize {
    if after.starts_with('[') {
        let mut inside = after.char_indices().take(QUOTED_CHARACTERS_MAX);
        let close = inside.find(|(_, it)| *it == ']');
        return close.map_or(0, |(end, _)| end.saturating_add(1));
    }
    let end = after.find(|it: char| !it.is_alphanumeric() && it != '-' && it != '.');
    let run = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
    // A full stop at the end is the sentence's.
    run.trim_end_matches(['.', '-']).len()
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_and_what_is_around_them_is_not() {
        for (text, expected) in [
            ("write to bea@example.org.", vec!["bea@example.org"]),
            (
                "<bea.m+x@mail.example.co.uk>,",
                vec!["bea.m+x@mail.example.co.uk"],
            ),
            ("mailto:a_b@x-y.org?subject=c", vec!["a_b@x-y.org"]),
            ("'o'neil@example.org'", vec!["o'neil@example.org"]),
            (
                "J\u{f6}rg@b\u{fc}ro.example \u{2013} yes",
                vec!["J\u{f6}rg@b\u{fc}ro.example"],
            ),
            ("\u{4eac}@\u{4f8b}.jp", vec!["\u{4eac}@\u{4f8b}.jp"]),
            ("\"Bea M\"@example.org", vec!["\"Bea M\"@example.org"]),
            ("root@[192.0.2.1]!", vec!["root@[192.0.2.1]"]),
            ("me@localhost", vec!["me@localhost"]),
            ("a@b@c", vec!["a@b", "b@c"]),
            ("@mention and 5 @ 3, x@ y, @, \"@x", vec![]),
            ("", vec![]),
        ] {
            let mut found = Vec::new();
            find(text, &mut found);
            let found: Vec<&str> = found.into_iter().map(|it| &text[it]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
