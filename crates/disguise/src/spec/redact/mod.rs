//! Redaction: what is found inside a text is replaced by a mark, and the rest of the text stays.

mod email;
mod names;
mod phone;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

pub(crate) use self::names::Names;

/// The default replacement for a found part.
const MARK: &str = "[redacted]";
/// The longest mark.
const MARK_BYTES_MAX: usize = 200;

/// Finds by code what is to be hidden inside a text.
pub trait Redactor {
    /// Its name in specifications.
    fn name(&self) -> &str;
    /// The parts of `text` to hide, as ranges of bytes in any order; one that ends inside a character is taken to the
    /// end of it. Must take a time proportional to the length of the text.
    fn find(&self, text: &str) -> Vec<Range<usize>>;
}

/// Redactors by code, by name.
pub(crate) type Redactors = BTreeMap<String, Box<dyn Redactor>>;

/// The search of a redaction, as a specification describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redact {
    /// Addresses of electronic mail.
    #[serde(default)]
    emails: bool,
    /// Telephone numbers.
    #[serde(default)]
    phones: bool,
    /// Names; one that begins with a colon is a parameter with a list of names, separated by commas.
    #[serde(default)]
    names: Vec<String>,
    /// Columns of the users table with the names of whoever owns the row.
    #[serde(default)]
    pub(crate) own_names: Vec<String>,
    /// Redactors by code.
    #[serde(default)]
    pub(crate) code: Vec<String>,
    /// The replacement for a found part.
    #[serde(default = "mark")]
    mark: String,
}

fn mark() -> String {
    MARK.to_owned()
}

impl Redact {
    /// Returns the fault in it, if any.
    pub(crate) fn fault(&self) -> Option<String> {
        let by_list = self.names.is_empty() && self.own_names.is_empty() && self.code.is_empty();
        if by_list && !self.emails && !self.phones {
            return Some("says nothing that is to be redacted".to_owned());
        }
        if self.mark.len() > MARK_BYTES_MAX {
            let what = format!("the mark has more than {MARK_BYTES_MAX} bytes");
            return Some(what);
        }
        None
    }

    /// The parameters among the names.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.names.iter().filter_map(|name| name.strip_prefix(':'))
    }

    /// The names that were said, those of parameters among them.
    pub(crate) fn said<'a>(
        &'a self,
        parameter: impl Fn(&str) -> Option<String> + 'a,
    ) -> Result<Names, String> {
        let mut names = Names::default();
        for said in &self.names {
            match said.strip_prefix(':') {
                None => names.add(said)?,
                Some(name) => {
                    let list = parameter(name);
                    let list = list.ok_or_else(|| format!("parameter {name} is not given"))?;
                    for one in list.split(',').filter(|one| !one.trim().is_empty()) {
                        names.add(one)?;
                    }
                }
            }
        }
        Ok(names)
    }

    /// `text` with a mark in the place of everything that was found, or nothing when there was nothing to find.
    pub(crate) fn redacted(
        &self,
        text: &str,
        names: &[&Names],
        redactors: &Redactors,
    ) -> Option<String> {
        let mut found = Vec::new();
        if self.emails {
            email::find(text, &mut found);
        }
        if self.phones {
            phone::find(text, &mut found);
        }
        for names in names {
            names.find(text, &mut found);
        }
        for code in self.code.iter().filter_map(|name| redactors.get(name)) {
            found.extend(code.find(text).into_iter().map(|it| whole(text, &it)));
        }
        found.retain(|it| !it.is_empty());
        (!found.is_empty()).then(|| marked(text, found, &self.mark))
    }
}

/// The range, within the text and of whole characters.
fn whole(text: &str, range: &Range<usize>) -> Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start = start.saturating_sub(1);
    }
    let mut end = range.end.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_add(1);
    }
    start..end.max(start)
}

/// Puts one mark in the place of ranges that touch each other.
fn marked(text: &str, mut found: Vec<Range<usize>>, mark: &str) -> String {
    found.sort_by_key(|it| it.start);
    let mut out = String::with_capacity(text.len());
    let mut written: usize = 0;
    let mut found = found.into_iter().peekable();
    while let Some(mut range) = found.next() {
        while let Some(next) = found.next_if(|next| next.start <= range.end) {
            range.end = range.end.max(next.end);
        }
        out.push_str(text.get(written..range.start).unwrap_or_default());
        out.push_str(mark);
        written = range.end;
    }
    out.push_str(text.get(written..).unwrap_or_default());
    out
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    struct Wide;

    impl Redactor for Wide {
        fn name(&self) -> &'static str {
            "wide"
        }

        #[expect(clippy::reversed_empty_ranges, reason = "code may give anything")]
        fn find(&self, text: &str) -> Vec<Range<usize>> {
            vec![1..2, 5..3, text.len()..usize::MAX, 9..9]
        }
    }

    fn redact(words: &str) -> Redact {
        toml::from_str(words).unwrap()
    }

    #[test]
    fn ranges_of_code_are_taken_to_whole_characters_and_may_be_anything() {
        let redactors: Redactors = BTreeMap::from([("wide".to_owned(), Box::new(Wide) as _)]);
        let it = redact("code = [\"wide\"]\nmark = \"*\"");
        // The range of one byte lies inside the second character.
        assert_eq!(
            it.redacted("\u{e4}\u{f6}x", &[], &redactors).unwrap(),
            "*\u{f6}x"
        );
        assert_eq!(it.redacted("", &[], &redactors), None);
        assert_eq!(it.redacted("a", &[], &redactors), None);
    }

    #[test]
    fn what_touches_gets_one_mark_and_the_rest_stays() {
        let it = redact("emails = true\nphones = true\nnames = [\"Bea\"]");
        let names = it.said(|_| None).unwrap();
        let text = "Bea <bea@example.org>, +49 170 1234567: hello";
        assert_eq!(
            it.redacted(text, &[&names], &BTreeMap::new()).unwrap(),
            "[redacted] <[redacted]>, [redacted]: hello"
        );
        let twice = "bea@bea.bea";
        assert_eq!(
            it.redacted(twice, &[&names], &BTreeMap::new()).unwrap(),
            "[redacted]"
        );
        assert_eq!(it.redacted("nothing", &[&names], &BTreeMap::new()), None);
    }

    #[test]
    fn a_redaction_of_nothing_and_a_name_that_is_none_are_refused() {
        assert!(redact("").fault().is_some());
        assert!(redact("emails = true").fault().is_none());
        assert!(
            redact(&format!("emails = true\nmark = \"{}\"", "x".repeat(201)))
                .fault()
                .is_some()
        );
        assert!(redact("names = [\":who\"]").said(|_| None).is_err());
        assert!(redact("names = [\"x\"]").said(|_| None).is_err());
    }

    /// The longest text of the hostile kind; with work beyond linear this takes very long.
    const HOSTILE_BYTES: usize = 1 << 17;

    #[test]
    fn hostile_texts_take_linear_time_and_come_out_whole() {
        let it =
            redact("emails = true\nphones = true\nnames = [\"aaaaaaaaaaaaaaaab\", \"a a a a b\"]");
        let names = it.said(|_| None).unwrap();
        for part in [
            "@",
            "a@",
            "a@a",
            "\"@",
            "@[",
            "a.",
            "+",
            "0",
            "0 ",
            "(",
            "1-",
            "0)",
            "a",
            "a ",
            "\u{e4}",
            "\u{1f600}@",
            "\u{301}",
            "2026-11-22 ",
            "1.1.",
            "\u{130}",
        ] {
            let text = part.repeat(HOSTILE_BYTES.div_euclid(part.len()));
            if let Some(out) = it.redacted(&text, &[&names], &BTreeMap::new()) {
                assert!(out.contains("[redacted]"), "{part}");
            }
        }
    }

    /// A small generator, so that the texts are the same everywhere.
    fn step(state: &mut u64) -> usize {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*state >> 33).unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a seed is taken back")]
    fn random_texts_keep_everything_around_what_was_found() {
        let seed = std::env::var("PROBITY_REDACT_SEED").ok();
        let seed: u64 = seed.and_then(|it| it.parse().ok()).unwrap_or(20_261_122);
        println!("PROBITY_REDACT_SEED={seed}");
        let mut state = seed;
        let parts = [
            "a",
            "B",
            "@",
            ".",
            "-",
            " ",
            "+",
            "0",
            "123",
            "(",
            ")",
            "\u{e9}",
            "\u{4eac}",
            "\"",
            "[",
            "]",
            "Bea",
            "\u{1f600}",
            "\n",
            "/",
        ];
        let it = redact("emails = true\nphones = true\nnames = [\"Bea\"]\nmark = \"\u{2588}\"");
        let names = it.said(|_| None).unwrap();
        for _ in 0..20_000 {
            let length = step(&mut state) % 24;
            let text: String = (0..length)
                .map(|_| parts[step(&mut state) % parts.len()])
                .collect();
            let Some(out) = it.redacted(&text, &[&names], &BTreeMap::new()) else {
                continue;
            };
            // What is between the marks is a subsequence of the text, in order.
            let mut from = 0;
            for kept in out.split('\u{2588}') {
                let at = text[from..].find(kept).unwrap();
                from += at + kept.len();
            }
        }
    }
}
