//! Key patterns: literal bytes, `{subject}`, `{any}` and `*`, matched without backtracking.

use std::ops::Range;

use memchr::memmem;

use crate::limits::{PATTERN_BYTES_MAX, STARS_MAX, SUBJECTS_MAX};

/// The byte between the segments of a key.
const SEPARATOR: u8 = b':';

/// A compiled key pattern.
///
/// `{subject}` and `{any}` match one or more bytes. They end before the first `:`, or before the
/// byte that follows the placeholder in the pattern. `*` matches any bytes, possibly none, and as
/// few as possible. A backslash makes the next byte literal. A pattern matches the whole key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Runs of steps between the stars; the first is anchored at the beginning, the last at the
    /// end.
    runs: Vec<Vec<Step>>,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Literal(Vec<u8>),
    Segment { subject: bool, until: Option<u8> },
}

/// The error of a text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct PatternError {
    /// The reason, one clause.
    pub reason: String,
    /// The remedy, one clause.
    pub remedy: &'static str,
}

impl Pattern {
    /// Compiles `text`.
    ///
    /// # Errors
    /// When it is empty, too long, or uses a brace or backslash wrongly.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(error(
                "the pattern is empty".into(),
                "write `*` for every key",
            ));
        }
        if text.len() > PATTERN_BYTES_MAX {
            let reason = format!("the pattern has {} bytes", text.len());
            return Err(error(reason, "keep patterns within 512 bytes"));
        }
        let mut runs = vec![Vec::new()];
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            rest = parse_step(first, rest, &mut runs)?;
        }
        let mut pattern = Self {
            runs,
            text: text.to_owned(),
        };
        pattern.bind_segments();
        pattern.check()?;
        Ok(pattern)
    }

    /// Returns the pattern's source text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the literal prefix of every matching key.
    pub fn prefix(&self) -> &[u8] {
        match self.runs.first().and_then(|run| run.first()) {
            Some(Step::Literal(literal)) => literal,
            _ => &[],
        }
    }

    /// Returns the specificity: more literal bytes first, then fewer stars, then more placeholders.
    pub fn specificity(&self) -> (usize, usize, usize) {
        let steps = self.runs.iter().flatten();
        let literals = steps.map(|step| match step {
            Step::Literal(literal) => literal.len(),
            Step::Segment { .. } => 0,
        });
        let segments = self
            .runs
            .iter()
            .flatten()
            .filter(|step| !matches!(step, Step::Literal(_)));
        (
            literals.sum(),
            STARS_MAX.saturating_sub(self.runs.len()),
            segments.count(),
        )
    }

    /// Returns whether it says whom a key is about.
    pub(crate) fn names_people(&self) -> bool {
        let mut steps = self.runs.iter().flatten();
        steps.any(|step| matches!(step, Step::Segment { subject: true, .. }))
    }

    /// Returns whether `key` matches; puts the ranges of its subjects into `subjects`.
    ///
    /// The cost is at most the product of the lengths of key and pattern.
    pub fn matches(&self, key: &[u8], subjects: &mut Vec<Range<usize>>) -> bool {
        subjects.clear();
        let mut runs = self.runs.iter();
        let Some(first) = runs.next() else {
            return false;
        };
        let Some(mut at) = match_run(first, key, 0, subjects, &mut []) else {
            return false;
        };
        let Some((last, middle)) = runs.as_slice().split_last() else {
            return at == key.len();
        };
        for run in middle {
            match search(run, key, at, subjects, false) {
                Some(end) => at = end,
                None => return false,
            }
        }
        if last.is_empty() {
            return true;
        }
        search(last, key, at, subjects, true).is_some()
    }

    /// Sets the byte that ends each placeholder.
    fn bind_segments(&mut self) {
        for run in &mut self.runs {
            let mut next = None;
            for step in run.iter_mut().rev() {
                match step {
                    Step::Literal(literal) => next = literal.first().copied(),
                    Step::Segment { until, .. } => *until = next.take(),
                }
            }
        }
    }

    fn check(&self) -> Result<(), PatternError> {
        if self.runs.len() > STARS_MAX + 1 {
            return Err(error(
                "the pattern has too many stars".into(),
                "use at most 4",
            ));
        }
        let steps = || self.runs.iter().flat_map(|run| run.windows(2));
        if steps().any(|pair| pair.iter().all(|step| matches!(step, Step::Segment { .. }))) {
            let reason = "two placeholders stand side by side".into();
            return Err(error(reason, "put a literal byte like `:` between them"));
        }
        let subject = |step: &&Step| matches!(step, Step::Segment { subject: true, .. });
        if self.runs.iter().flatten().filter(subject).count() > SUBJECTS_MAX {
            return Err(error(
                "the pattern has too many subjects".into(),
                "use at most 8",
            ));
        }
        Ok(())
    }
}

fn parse_step<'a>(
    first: char,
    rest: &'a str,
    runs: &mut Vec<Vec<Step>>,
) -> Result<&'a str, PatternError> {
    let tail = rest.get(first.len_utf8()..).unwrap_or_default();
    match first {
        '*' => {
            // Two adjacent stars match the same keys as one.
            if runs.len() == 1 || runs.last().is_some_and(|run| !run.is_empty()) {
                runs.push(Vec::new());
            }
            Ok(tail)
        }
        '{' => {
            let (name, after) = tail.split_once('}').ok_or_else(|| {
                error(
                    "a `{` is not closed".into(),
                    "write `}` behind the name; for the byte itself write `\\{`, as '\\{' or \"\\\\{\" in TOML",
                )
            })?;
            let subject = match name {
                "subject" => true,
                "any" => false,
                _ => {
                    let reason = format!("there is no placeholder {{{name}}}");
                    return Err(error(
                        reason,
                        "use {subject} or {any}; for the byte itself write `\\{`, as '\\{' or \"\\\\{\" in TOML",
                    ));
                }
            };
            push(
                runs,
                Step::Segment {
                    subject,
                    until: None,
                },
            );
            Ok(after)
        }
        '}' => Err(error(
            "a `}` closes nothing".into(),
            "write `{` before the name; for the byte itself write `\\}`, as '\\}' or \"\\\\}\" in TOML",
        )),
        '\\' => {
            let Some(escaped) = tail.chars().next() else {
                return Err(error(
                    "a backslash ends the pattern".into(),
                    "for the byte itself write `\\\\`, as '\\\\' or \"\\\\\\\\\" in TOML",
                ));
            };
            push_literal(runs, escaped);
            Ok(tail.get(escaped.len_utf8()..).unwrap_or_default())
        }
        literal => {
            push_literal(runs, literal);
            Ok(tail)
        }
    }
}

fn push(runs: &mut [Vec<Step>], step: Step) {
    if let Some(run) = runs.last_mut() {
        run.push(step);
    }
}

fn push_literal(runs: &mut [Vec<Step>], literal: char) {
    let mut bytes = [0; 4];
    let bytes = literal.encode_utf8(&mut bytes).as_bytes();
    if let Some(Step::Literal(run)) = runs.last_mut().and_then(|run| run.last_mut()) {
        run.extend_from_slice(bytes);
    } else {
        push(runs, Step::Literal(bytes.to_vec()));
    }
}

/// Matches `run` at exactly `at`; returns the end of the match.
///
/// `ends` holds the last end found for each placeholder of the run, in the order of its steps, if calls
/// come with rising `at`. A placeholder then scans each byte of the key once for all calls.
fn match_run(
    run: &[Step],
    key: &[u8],
    mut at: usize,
    subjects: &mut Vec<Range<usize>>,
    ends: &mut [Option<usize>],
) -> Option<usize> {
    for (place, step) in run.iter().enumerate() {
        match step {
            Step::Literal(literal) => {
                if !key.get(at..)?.starts_with(literal) {
                    return None;
                }
                at += literal.len();
            }
            Step::Segment { subject, until } => {
                let end = match ends.get_mut(place) {
                    Some(known) => match *known {
                        Some(end) if end >= at => end,
                        _ => *known.insert(segment_end(key, at, *until)?),
                    },
                    None => segment_end(key, at, *until)?,
                };
                if end == at {
                    return None;
                }
                if *subject {
                    subjects.push(at..end);
                }
                at = end;
            }
        }
    }
    Some(at)
}

/// Returns the end of a placeholder that begins at `at`.
fn segment_end(key: &[u8], at: usize, until: Option<u8>) -> Option<usize> {
    let rest = key.get(at..)?;
    let ends = |byte: &u8| *byte == SEPARATOR || Some(*byte) == until;
    let length = rest.iter().position(ends).unwrap_or(rest.len());
    Some(at + length)
}

/// Finds the first match of `run` at or after `from`, which must end the key if `last`; returns the
/// end of the match.
fn search(
    run: &[Step],
    key: &[u8],
    from: usize,
    subjects: &mut Vec<Range<usize>>,
    last: bool,
) -> Option<usize> {
    let rest = key.get(from..)?;
    if let ([Step::Literal(literal)], true) = (run, last) {
        return rest.ends_with(literal).then_some(key.len());
    }
    // A client chooses its keys, and each is compared with every pattern that begins with a star.
    let finder = match run.first() {
        Some(Step::Literal(literal)) => Some(memmem::Finder::new(literal)),
        _ => None,
    };
    let kept = subjects.len();
    let mut ends = vec![None; run.len()];
    let mut at = from;
    loop {
        let rest = key.get(at..)?;
        at += finder.as_ref().map_or(Some(0), |it| it.find(rest))?;
        subjects.truncate(kept);
        if let Some(end) = match_run(run, key, at, subjects, &mut ends)
            && (!last || end == key.len())
        {
            return Some(end);
        }
        at += 1;
    }
}

const fn error(reason: String, remedy: &'static str) -> PatternError {
    PatternError { reason, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(pattern: &str, key: &str) -> Option<Vec<String>> {
        let mut ranges = Vec::new();
        let matched = Pattern::parse(pattern)
            .unwrap()
            .matches(key.as_bytes(), &mut ranges);
        matched.then(|| {
            ranges
                .into_iter()
                .map(|range| key.get(range).unwrap().to_owned())
                .collect()
        })
    }

    #[test]
    fn subjects_are_taken_from_their_place() {
        for (pattern, key, expected) in [
            ("user:{subject}:*", "user:7:cart", Some(vec!["7"])),
            ("user:{subject}:*", "user:7:", Some(vec!["7"])),
            ("user:{subject}:*", "user::cart", None),
            ("user:{subject}:*", "user:7", None),
            ("user:{subject}", "user:7", Some(vec!["7"])),
            ("user:{subject}", "user:7:x", None),
            (
                "chat:{subject}:{subject}",
                "chat:ann:bob",
                Some(vec!["ann", "bob"]),
            ),
            ("{any}:{subject}:*", "app:ann:x", Some(vec!["ann"])),
            ("user:\\{{subject}\\}:*", "user:{7}:x", Some(vec!["7"])),
            ("*:u{subject}", "a:b:u9", Some(vec!["9"])),
            ("*.{subject}.json", "a.b.c.json", Some(vec!["c"])),
            ("*", "", Some(vec![])),
            ("a*b*c", "axxbyyc", Some(vec![])),
            ("a*b*c", "axxc", None),
            ("a\\*", "a*", Some(vec![])),
            ("a\\*", "ab", None),
        ] {
            let expected = expected.map(|list| list.into_iter().map(str::to_owned).collect());
            assert_eq!(subjects(pattern, key), expected, "{pattern} on {key}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let long = "x".repeat(PATTERN_BYTES_MAX + 1);
        for bad in [
            "",
            "a{",
            "a{}",
            "{name}",
            "a}",
            "a\\",
            "{subject}{any}",
            "a*b*c*d*e*f",
            &long,
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    /// A placeholder behind a star scanned to the end of the key from each of its bytes: 2 * 10^9 steps
    /// for one key, on the worker of many clients. With as many steps as here the test would take hours.
    #[test]
    fn a_hostile_key_costs_at_most_the_product_of_the_lengths() {
        for text in ["*a{any}a*a{any}b*c", "*a{any}b", "*{any}b{any}c"] {
            let pattern = Pattern::parse(text).unwrap();
            assert!(
                !pattern.matches(&vec![b'a'; 1 << 20], &mut Vec::new()),
                "{text}"
            );
        }
    }

    /// As [`search`] without a finder.
    fn search_each(
        run: &[Step],
        key: &[u8],
        subjects: &mut Vec<Range<usize>>,
        last: bool,
    ) -> Option<usize> {
        (0..=key.len()).find_map(|start| {
            subjects.clear();
            let end = match_run(run, key, start, subjects, &mut []);
            end.filter(|end| !last || *end == key.len())
        })
    }

    #[test]
    fn a_run_is_found_where_a_look_at_each_place_finds_it() {
        let runs = [
            "ab",
            "a",
            "a{subject}b",
            "{subject}b",
            "aa{any}",
            "b{subject}",
        ];
        let runs = runs.map(|text| Pattern::parse(text).unwrap().runs.remove(0));
        for number in 0..3_u32.pow(7) {
            let key: Vec<u8> = (0..7)
                .map(|at| b"ab:"[(number / 3_u32.pow(at) % 3) as usize])
                .collect();
            for run in &runs {
                for last in [false, true] {
                    let (mut found, mut expected) = (Vec::new(), Vec::new());
                    let end = search(run, &key, 0, &mut found, last);
                    assert_eq!(
                        end,
                        search_each(run, &key, &mut expected, last),
                        "{key:?} {run:?}"
                    );
                    if end.is_some() {
                        assert_eq!(found, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_placeholder_behind_a_star_ends_where_one_alone_does() {
        for (pattern, key, expected) in [
            ("*x{subject}y", "xy:xaxby", Some(vec!["axb"])),
            ("*x{subject}", "xa:xb", Some(vec!["b"])),
            ("*:{subject}-{any}", "a:b:c-d", Some(vec!["c"])),
            ("*:{subject}-{any}", "a:b-:c-d", Some(vec!["c"])),
            (
                "*a{subject}b*c{subject}d",
                "aab-ccd-cxd",
                Some(vec!["a", "x"]),
            ),
        ] {
            let expected = expected.map(|list| list.into_iter().map(str::to_owned).collect());
            assert_eq!(subjects(pattern, key), expected, "{pattern} on {key}");
        }
    }
}
