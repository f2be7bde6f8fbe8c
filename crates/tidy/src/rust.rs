//! Checks of each Rust file: first line, length, macros and unsafe code.

use crate::rust_text::{code_of, has_word};
use crate::{File, Finding, Repository};

/// Greatest number of lines of a source file without inline tests.
const SOURCE_LINES_MAX: usize = 600;

/// Greatest number of lines of a file with only tests or benchmarks.
const TEST_LINES_MAX: usize = 1_200;

/// Greatest number of lines of tests at the end of a source file.
const INLINE_TEST_LINES_MAX: usize = 200;

/// Source files that may be longer, each with its own limit.
const LONG_FILES: [(&str, usize); 0] = [];

/// Folders whose sources may hold unsafe code.
const UNSAFE_FOLDERS: [&str; 1] = ["crates/queue/src/"];

/// Words that leave a reader to guess what a documented item is or does.
const RIDDLES: [&str; 10] = [
    "What", "Whose", "Whether", "Which", "Where", "Who", "How", "So", "The same", "It",
];

/// Macros that mark unfinished code, or print values for debugging.
const UNFINISHED_MACROS: [&str; 3] = [
    concat!("db", "g"),
    concat!("to", "do"),
    concat!("unimpl", "emented"),
];

/// Checks that the first line of each file is a module comment; `tests.rs` needs none, and the README
/// of a crate may stand in its place.
pub fn first_lines(repository: &Repository) -> Vec<Finding> {
    let says_what = |file: &&File| {
        file.bytes.starts_with(b"//! ")
            || file
                .bytes
                .starts_with(b"#![doc = include_str!(\"../README.md\")]")
    };
    repository
        .with_extension("rs")
        .filter(|file| file.name() != "tests.rs")
        .filter(|file| !says_what(file))
        .map(|file| {
            let remedy = "begin with //! and one sentence about the file";
            Finding::new(&file.path, 1, "the file does not say what it holds", remedy)
        })
        .collect()
}

/// Checks that each documentation comment opens with a verb or a noun phrase.
pub fn openings(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("rs") {
        let mut continues = false;
        for (line, text) in file.lines() {
            let comment = documentation(text);
            let opening = comment.filter(|_| !continues);
            continues = comment.is_some();
            let opens_with = |word: &&&str| {
                let rest = opening.and_then(|it| it.trim_start().strip_prefix(**word));
                rest.is_some_and(|it| it.starts_with([' ', ',']))
            };
            if let Some(word) = RIDDLES.iter().find(opens_with) {
                let problem = format!("a comment opens with \"{word}\"");
                let remedy = "open with a third-person verb or a noun phrase";
                findings.push(Finding::new(&file.path, line, problem, remedy));
            }
        }
    }
    findings
}

/// The text of a line of documentation; `None` for other lines.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
}

/// Checks that no file exceeds its limit of lines.
pub fn lengths(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("rs") {
        let total = file.lines().count();
        let only_tests =
            file.name() == "tests.rs" || file.is_under("tests") || file.is_under("benches");
        let tests_from = inline_tests_from(file).unwrap_or(total);
        let (lines, lines_max) = if only_tests {
            (total, TEST_LINES_MAX)
        } else {
            (tests_from, source_lines_max(file))
        };
        if lines > lines_max {
            let problem = format!("{lines} lines, the limit is {lines_max}");
            findings.push(Finding::new(
                &file.path,
                lines_max,
                problem,
                "split it by subject",
            ));
        }
        if !only_tests && total - tests_from > INLINE_TEST_LINES_MAX {
            let problem = format!(
                "{} lines of tests, the limit is {INLINE_TEST_LINES_MAX}",
                total - tests_from
            );
            let remedy = "move them to tests.rs in the same folder or to tests/";
            findings.push(Finding::new(&file.path, tests_from + 1, problem, remedy));
        }
    }
    findings
}

/// Checks that each exception for a long file is needed and as low as possible.
pub fn long_files_shrink(repository: &Repository) -> Vec<Finding> {
    stale_exceptions(repository, &LONG_FILES)
}

/// Checks that no macro marks unfinished code.
pub fn no_unfinished_macros(repository: &Repository) -> Vec<Finding> {
    in_code(repository, |_, line| {
        let name = UNFINISHED_MACROS
            .iter()
            .find(|name| has_word(line, name) && line.contains(&format!("{name}!")))?;
        Some((format!("{name}! is left"), "write the code"))
    })
}

/// Checks that only the allowed folders have unsafe code.
pub fn unsafe_code_is_at_home(repository: &Repository) -> Vec<Finding> {
    in_code(repository, |path, line| {
        let at_home = UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder));
        (!at_home && has_word(line, "unsafe")).then(|| {
            (
                String::from("unsafe code away from home"),
                "use a safe library",
            )
        })
    })
}

fn in_code(
    repository: &Repository,
    problem: impl Fn(&str, &str) -> Option<(String, &'static str)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("rs") {
        let code = code_of(file.text().unwrap_or_default());
        for (number, line) in (1..).zip(code.lines()) {
            if let Some((problem, remedy)) = problem(&file.path, line) {
                findings.push(Finding::new(&file.path, number, problem, remedy));
            }
        }
    }
    findings
}

fn source_lines_max(file: &File) -> usize {
    LONG_FILES
        .iter()
        .find(|(path, _)| *path == file.path)
        .map_or(SOURCE_LINES_MAX, |(_, lines_max)| *lines_max)
}

fn stale_exceptions(repository: &Repository, exceptions: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, lines_max) in exceptions {
        let Some(file) = repository.file(path) else {
            findings.push(Finding::new(
                path,
                0,
                "has an exception and is gone",
                "remove it",
            ));
            continue;
        };
        let lines = inline_tests_from(file).unwrap_or_else(|| file.lines().count());
        if lines < *lines_max {
            let problem = format!("its exception allows {lines_max} lines and it has {lines}");
            findings.push(Finding::new(
                path,
                0,
                problem,
                "lower or remove the exception",
            ));
        }
    }
    findings
}

/// Returns the number of lines before the `mod tests { ... }` that ends the file, if there is one.
fn inline_tests_from(file: &File) -> Option<usize> {
    let code = code_of(file.text().unwrap_or_default());
    let lines: Vec<&str> = code.lines().collect();
    let module = lines
        .iter()
        .rposition(|line| line.trim_end() == "mod tests {")?;
    let attributes = lines
        .iter()
        .take(module)
        .rev()
        .take_while(|line| line.starts_with("#["))
        .count();
    // Code after the module would not be counted.
    let closes = lines
        .iter()
        .skip(module)
        .position(|line| line.trim_end() == "}")?;
    let rest_is_empty = lines
        .iter()
        .skip(module + closes + 1)
        .all(|line| line.trim().is_empty());
    rest_is_empty.then_some(module - attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(findings: &[Finding]) -> Vec<(&str, usize)> {
        findings
            .iter()
            .map(|finding| (finding.path.as_str(), finding.line))
            .collect()
    }

    #[test]
    fn a_file_without_a_sentence_is_found() {
        let repository = Repository::of(&[
            ("a.rs", "use std::fmt;\n"),
            ("b.rs", "//! What b is.\n"),
            ("x/tests.rs", "use super::*;\n"),
            ("c.rs", "#![no_std]\n//! What c is.\n"),
        ]);
        assert_eq!(
            places(&first_lines(&repository)),
            [("a.rs", 1), ("c.rs", 1)]
        );
    }

    #[test]
    fn comments_that_open_with_a_riddle_are_found() {
        let text = "//! A file.\n\n/// Whether it is.\n/// Which goes on.\nfn f() {}\n/// Whole.\n\
                    ///\n/// Where it\n/// lies.\n";
        let repository = Repository::of(&[("a.rs", text)]);
        assert_eq!(places(&openings(&repository)), [("a.rs", 3)]);
    }

    #[test]
    fn long_files_and_long_tests_are_found() {
        let long = "x;\n".repeat(SOURCE_LINES_MAX + 1);
        let tests = |count| {
            format!(
                "#[cfg(test)]\nmod tests {{\n{}}}\n",
                "    x;\n".repeat(count)
            )
        };
        let hidden = format!("{}{long}", tests(1));
        let repository = Repository::of(&[
            ("a.rs", &long),
            ("b.rs", &("x;\n".repeat(SOURCE_LINES_MAX) + &tests(100))),
            ("c.rs", &tests(INLINE_TEST_LINES_MAX)),
            ("tests/d.rs", &long),
            ("x/tests.rs", &"x;\n".repeat(TEST_LINES_MAX + 1)),
            ("e.rs", &hidden),
        ]);
        let expected = [
            ("a.rs", 600),
            ("c.rs", 1),
            ("x/tests.rs", TEST_LINES_MAX),
            ("e.rs", 600),
        ];
        assert_eq!(places(&lengths(&repository)), expected);
    }

    #[test]
    fn an_exception_that_is_not_needed_is_found() {
        let repository = Repository::of(&[("a.rs", "x;\n"), ("b.rs", "x;\n")]);
        let exceptions = [("a.rs", 1), ("b.rs", 700), ("gone.rs", 700)];
        let found = stale_exceptions(&repository, &exceptions);
        assert_eq!(places(&found), [("b.rs", 0), ("gone.rs", 0)]);
    }

    #[test]
    fn unfinished_macros_are_found_in_code_only() {
        let name = UNFINISHED_MACROS[1];
        let text = format!("//! {name}!()\nfn f() {{\n    {name}!()\n}}\nlet a_{name} = 1;\n");
        assert_eq!(
            places(&no_unfinished_macros(&Repository::of(&[("a.rs", &text)]))),
            [("a.rs", 3)]
        );
    }

    #[test]
    fn unsafe_code_is_found_outside_its_folders() {
        let text = "// unsafe\n#![deny(unsafe_code)]\nlet a = unsafe { b() };\n";
        let repository = Repository::of(&[
            ("crates/queue/src/ring.rs", text),
            ("crates/log/src/a.rs", text),
        ]);
        assert_eq!(
            places(&unsafe_code_is_at_home(&repository)),
            [("crates/log/src/a.rs", 3)]
        );
    }
}
