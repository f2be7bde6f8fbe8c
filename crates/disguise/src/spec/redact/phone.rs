//! Telephone numbers inside a text.

use std::ops::Range;

/// The range of digits in a number (E.164): fewer are an extension or an amount, more are no number.
const DIGITS_MIN: usize = 7;
const DIGITS_MAX: usize = 15;
/// The most characters between two groups of digits, as in `) - `.
const SEPARATORS_MAX: usize = 4;
/// The most groups of a single digit: a country and an area may have one.
const SINGLES_MAX: usize = 2;

/// A group of digits.
#[derive(Clone, Copy)]
struct Group<'t> {
    start: usize,
    digits: &'t str,
    count: usize,
    /// A plus or a bracket stands before it.
    opens: usize,
    has_plus: bool,
    /// The text between the previous group and this one; absent when they do not belong together.
    between: Option<&'t str>,
    /// A letter touches it.
    is_glued: bool,
}

impl Group<'_> {
    const fn end(&self) -> usize {
        self.start.saturating_add(self.digits.len())
    }

    fn number(&self) -> Option<u32> {
        self.digits.parse().ok()
    }
}

/// Notes the ranges of numbers; each group of digits is looked at a few times, so the time is linear.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    let groups = groups(text);
    let mut at = groups.as_slice();
    while let Some(first) = at.first() {
        if let Some(skipped) = no_number(at) {
            at = at.get(skipped..).unwrap_or_default();
            continue;
        }
        let length = length(at);
        let (number, rest) = at.split_at(length.clamp(1, at.len()));
        if is_number(number)
            && let Some(last) = number.last()
        {
            found.push(first.start.saturating_sub(first.opens)..last.end());
        }
        at = rest;
    }
}

/// Returns the number of groups, from the first, that belong to one number.
fn length(groups: &[Group<'_>]) -> usize {
    let mut digits: usize = 0;
    let mut length: usize = 0;
    for (index, group) in groups.iter().enumerate() {
        let rest = groups.get(index..).unwrap_or_default();
        let begins = index > 0 && (group.has_plus || group.between.is_none());
        if begins || (index > 0 && no_number(rest).is_some()) {
            break;
        }
        digits = digits.saturating_add(group.count);
        if digits > DIGITS_MAX && index > 0 && tail(rest) >= DIGITS_MIN {
            break;
        }
        length = length.saturating_add(1);
    }
    length
}

/// The digits of the groups that hang together with the first, as far as it matters.
fn tail(groups: &[Group<'_>]) -> usize {
    let mut digits: usize = 0;
    for (index, group) in groups.iter().enumerate() {
        if index > 0 && (group.has_plus || group.between.is_none()) || digits >= DIGITS_MIN {
            break;
        }
        digits = digits.saturating_add(group.count);
    }
    digits
}

fn is_number(groups: &[Group<'_>]) -> bool {
    let digits: usize = groups.iter().map(|it| it.count).sum();
    let singles = groups.iter().filter(|it| it.count == 1).count();
    let glued = groups.iter().any(|it| it.is_glued);
    let alone = groups.len() == 1 && digits > DIGITS_MAX;
    let decimal = matches!(groups, [first, last]
        if last.between == Some(".") && last.count < 3 && !first.has_plus);
    digits >= DIGITS_MIN && singles <= SINGLES_MAX && !glued && !alone && !decimal
}

/// Returns the number of groups that are no telephone number, whatever follows: a date or an
/// internet address.
fn no_number(groups: &[Group<'_>]) -> Option<usize> {
    if let Some(four @ [_, _, _, _]) = groups.get(..4) {
        let byte = |it: &Group<'_>| it.number().is_some_and(|it| it < 256) && it.count <= 3;
        if between(four) == Some(".") && four.iter().all(byte) {
            return Some(4);
        }
    }
    let Some(three @ [first, second, third]) = groups.get(..3) else {
        return None;
    };
    let (Some(a), Some(b), Some(c)) = (first.number(), second.number(), third.number()) else {
        return None;
    };
    let year = |it: &Group<'_>, year| it.count == 4 && (1_900..2_200).contains(&year);
    let day = |it: &Group<'_>, day| it.count <= 2 && (1..=31).contains(&day);
    let forwards = day(first, a) && day(second, b) && year(third, c);
    let backwards = year(first, a) && day(second, b) && day(third, c);
    (between(three).is_some() && !first.has_plus && (forwards || backwards)).then_some(3)
}

/// Returns the separator of these groups, if it is the same everywhere.
fn between<'t>(groups: &[Group<'t>]) -> Option<&'t str> {
    let mut between = groups.iter().skip(1).map(|it| it.between);
    let first = between.next().flatten();
    first.filter(|it| matches!(*it, "-" | "." | "/") && between.all(|it| it == first))
}

fn groups(text: &str) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut characters = text.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((start, it)) = characters.next() {
        if !is_digit(it) {
            before = Some(it);
            continue;
        }
        let mut count: usize = 1;
        while characters.next_if(|(_, it)| is_digit(*it)).is_some() {
            count = count.saturating_add(1);
        }
        let (end, after) = match characters.peek() {
            Some((end, after)) => (*end, Some(*after)),
            None => (text.len(), None),
        };
        let is_letter =
            |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphabetic() || it == '_');
        let last_end = groups.last().map(Group::end);
        let between = last_end
            .and_then(|from| text.get(from..start))
            .filter(|it| is_between(it));
        let glued = is_letter(before) || is_letter(after);
        let glue_before = groups.last().is_some_and(|last| last.is_glued)
            && between.is_some_and(|it| !it.contains(char::is_whitespace));
        let from = last_end.unwrap_or(0);
        let lead = text.get(from..start).unwrap_or_default();
        let open = lead.trim_end_matches(['+', '(']);
        groups.push(Group {
            start,
            digits: text.get(start..end).unwrap_or_default(),
            count,
            opens: lead.len().saturating_sub(open.len()),
            has_plus: lead.ends_with('+') || lead.ends_with("+("),
            between,
            is_glued: glued || glue_before,
        });
        before = None;
    }
    // A letter at the end of a word of digits spoils the whole word.
    for index in (1..groups.len()).rev() {
        let next = groups.get(index).copied();
        let spoils = next.is_some_and(|it| {
            it.is_glued
                && it
                    .between
                    .is_some_and(|it| !it.contains(char::is_whitespace))
        });
        if let (true, Some(group)) = (spoils, groups.get_mut(index.saturating_sub(1))) {
            group.is_glued = true;
        }
    }
    groups
}

/// Digits of any writing.
fn is_digit(it: char) -> bool {
    it.is_ascii_digit() || (it.is_numeric() && !it.is_ascii() && !it.is_alphabetic())
}

/// Returns whether two groups of digits with this between them may be of one number.
fn is_between(text: &str) -> bool {
    let dash = |it: char| ('\u{2010}'..='\u{2015}').contains(&it);
    let space = |it: char| it.is_whitespace() && it != '\n' && it != '\r';
    let all = |it: char| "-./()+".contains(it) || dash(it) || space(it);
    text.chars().take(SEPARATORS_MAX.saturating_add(1)).count() <= SEPARATORS_MAX
        && text.chars().all(all)
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_dates_amounts_and_codes_are_not() {
        for (text, expected) in [
            (
                "call +49 (0)170 123-4567, please",
                vec!["+49 (0)170 123-4567"],
            ),
            ("(415) 555-0123.", vec!["(415) 555-0123"]),
            ("01 23 45 67 89", vec!["01 23 45 67 89"]),
            ("030/1234567", vec!["030/1234567"]),
            ("0170.1234567", vec!["0170.1234567"]),
            ("5550123", vec!["5550123"]),
            (
                "+1 415 555 0123 +44 20 7946 0958",
                vec!["+1 415 555 0123", "+44 20 7946 0958"],
            ),
            (
                "\u{96fb}\u{8a71}09012345678\u{3067}\u{3059}",
                vec!["09012345678"],
            ),
            (
                "\u{ff10}\u{ff19}\u{ff10}\u{ff11}\u{ff12}\u{ff13}\u{ff14}\u{ff15}",
                vec!["\u{ff10}\u{ff19}\u{ff10}\u{ff11}\u{ff12}\u{ff13}\u{ff14}\u{ff15}"],
            ),
            ("0170\u{2011}1234567", vec!["0170\u{2011}1234567"]),
            ("2026-11-22 05:18, 22.11.2026, 11/22/2026", vec![]),
            ("2026-11-22 0170 1234567", vec!["0170 1234567"]),
            ("192.168.100.200 and 1234567.89", vec![]),
            ("550e8400-e29b-41d4-a716-446655440000", vec![]),
            ("order_1234567 x1234567 1234567x", vec![]),
            ("123456, 12 34 56", vec![]),
            ("1 2 3 4 5 6 7 8 9", vec![]),
            ("1234567\n7654321", vec!["1234567", "7654321"]),
            ("12345678901234567890", vec![]),
            ("4111 1111 1111 1111", vec!["4111 1111 1111 1111"]),
            ("", vec![]),
        ] {
            let mut found = Vec::new();
            find(text, &mut found);
            let found: Vec<&str> = found.into_iter().map(|it| &text[it]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
