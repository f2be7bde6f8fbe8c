//! Checks of the documents: titles, links, and statements that must agree with the code.

use crate::rust_text::has_word;
use crate::{File, Finding, Repository};

/// The document that describes every byte, and must state every bound of the format.
const FORMAT_DOCUMENT: &str = "docs/format.md";
const LIMITS: &str = "crates/format/src/limits.rs";

/// The document that lists the slow tests.
const CONTRIBUTING: &str = "CONTRIBUTING.md";

/// The document that names files and folders of the repository.
const CODE_MAP: &str = "ARCHITECTURE.md";

/// Checks that each document has exactly one title, on its first line.
pub fn one_title(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("md") {
        let titles: Vec<usize> = prose(file)
            .filter(|(_, line)| line.starts_with("# "))
            .map(|(line, _)| line)
            .collect();
        if titles != [1] {
            let line = titles.iter().copied().find(|line| *line != 1).unwrap_or(1);
            let problem = format!("{} titles", titles.len());
            let remedy = "have one, on the first line, and sections below it";
            findings.push(Finding::new(&file.path, line, problem, remedy));
        }
    }
    findings
}

/// Most columns of a line of prose.
const COLUMNS_MAX: usize = 100;

/// Checks that no line of prose is wider than a page; tables and code may be.
pub fn widths(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("md") {
        for (line, text) in prose(file) {
            let columns = text.chars().count();
            // A long link or name cannot be broken.
            let breaks = text.trim_start().contains(' ');
            if columns > COLUMNS_MAX && breaks && !text.starts_with('|') {
                let problem = format!("{columns} columns, the limit is {COLUMNS_MAX}");
                findings.push(Finding::new(
                    &file.path,
                    line,
                    problem,
                    "wrap the paragraph",
                ));
            }
        }
    }
    findings
}

/// Checks that each relative link leads to a file, and each anchor to a heading.
pub fn links(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("md") {
        for (line, text) in prose(file) {
            for target in link_targets(text) {
                if let Some(problem) = broken_link(repository, file, target) {
                    let remedy = "correct the link or what it points to";
                    findings.push(Finding::new(&file.path, line, problem, remedy));
                }
            }
        }
    }
    findings
}

/// Checks that every path in ARCHITECTURE.md exists.
pub fn code_map(repository: &Repository) -> Vec<Finding> {
    let Some(map) = repository.file(CODE_MAP) else {
        return vec![Finding::new(CODE_MAP, 0, "is missing", "write it")];
    };
    let mut findings = Vec::new();
    for (line, text) in map.lines() {
        let words = text.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
        for word in words.map(|word| word.trim_end_matches('.')) {
            let rooted = ["crates/", "docs/", "fuzz/", "tests/", "examples/", ".ci/"];
            let names_a_place = rooted.iter().any(|folder| word.starts_with(folder))
                || [".rs", ".md", ".toml"]
                    .iter()
                    .any(|end| word.ends_with(end));
            if names_a_place && !repository.has(word) {
                let problem = format!("{word} does not exist");
                findings.push(Finding::new(
                    CODE_MAP,
                    line,
                    problem,
                    "name the place as it is now",
                ));
            }
        }
    }
    findings
}

/// Checks that the format document states every bound of the format by name.
pub fn limits_are_documented(repository: &Repository) -> Vec<Finding> {
    let Some(document) = repository.file(FORMAT_DOCUMENT).and_then(File::text) else {
        return vec![Finding::new(FORMAT_DOCUMENT, 0, "is missing", "write it")];
    };
    let Some(limits) = repository.file(LIMITS) else {
        return vec![Finding::new(
            LIMITS,
            0,
            "is missing",
            "name the new home of the bounds here",
        )];
    };
    let mut findings = Vec::new();
    for (line, text) in limits.lines() {
        let Some(rest) = text.strip_prefix("pub const ") else {
            continue;
        };
        let name = rest.split(':').next().unwrap_or_default();
        if !has_word(document, name) {
            let problem = format!("{name} is not in {FORMAT_DOCUMENT}");
            findings.push(Finding::new(
                LIMITS,
                line,
                problem,
                "state it there by name and value",
            ));
        }
    }
    findings
}

/// Checks that the list of slow tests names every ignored test, and that every command in the list
/// runs one: of its package and its target.
pub fn slow_tests_are_listed(repository: &Repository) -> Vec<Finding> {
    let Some(list) = repository.file(CONTRIBUTING) else {
        return vec![Finding::new(CONTRIBUTING, 0, "is missing", "write it")];
    };
    let text = list.text().unwrap_or_default();
    let mut findings = Vec::new();
    let mut tests = Vec::new();
    for file in repository.with_extension("rs") {
        for (line, name) in ignored_tests(file) {
            if !has_word(text, name) {
                let problem = format!("{name} is not in {CONTRIBUTING}");
                let remedy = "write the command that runs it into the list of slow tests";
                findings.push(Finding::new(&file.path, line, problem, remedy));
            }
            tests.push((&*file.path, name));
        }
    }
    let commands = list.lines();
    let commands = commands.filter_map(|(line, text)| Some((line, SlowCommand::of(text)?)));
    for (line, command) in commands {
        let name = command.test;
        if !tests
            .iter()
            .any(|(path, test)| *test == name && command.reaches(path))
        {
            let problem = format!("the command runs no ignored test called {name:?}");
            let remedy = "name a test that is there, with its package and its target";
            findings.push(Finding::new(CONTRIBUTING, line, problem, remedy));
        }
    }
    findings
}

/// A command that runs one ignored test.
struct SlowCommand<'t> {
    package: &'t str,
    /// The name of the tests beside the library; none for tests inside it.
    target: Option<&'t str>,
    test: &'t str,
}

impl<'t> SlowCommand<'t> {
    /// Parses a line of the list; none where it is no command.
    fn of(line: &'t str) -> Option<Self> {
        let words = line.strip_prefix("cargo test ")?;
        let words: Vec<&str> = words.strip_suffix(" -- --ignored")?.split(' ').collect();
        let after = |option: &str| {
            let mut pairs = words.windows(2);
            pairs.find_map(|pair| match pair {
                [word, next] if *word == option => Some(*next),
                _ => None,
            })
        };
        Some(Self {
            package: after("-p")
                .unwrap_or_default()
                .trim_start_matches("probity-"),
            target: after("--test"),
            test: words.last().copied().unwrap_or_default(),
        })
    }

    /// Returns whether the command builds the tests in the file `path`.
    fn reaches(&self, path: &str) -> bool {
        let inside = path.strip_prefix("crates/");
        let inside = inside.and_then(|rest| rest.strip_prefix(self.package)?.strip_prefix('/'));
        match (inside, self.target) {
            (Some(inside), None) => inside.starts_with("src/"),
            (Some(inside), Some(target)) => {
                let place = inside.strip_prefix("tests/");
                let rest = place.and_then(|rest| rest.strip_prefix(target));
                rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            }
            (None, _) => false,
        }
    }
}

/// Returns the ignored tests of a file: line of the attribute, and name.
fn ignored_tests(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut ignored = None;
    file.lines().filter_map(move |(line, text)| {
        let text = text.trim_start();
        if text.starts_with("#[ignore") {
            ignored = Some(line);
        }
        let name = text.strip_prefix("fn ")?.split('(').next()?;
        ignored.take().map(|line| (line, name))
    })
}

/// Returns the lines outside fenced code.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// Returns the targets of `[text](target)` and of `[text]: target`.
fn link_targets(line: &str) -> Vec<&str> {
    let mut targets: Vec<&str> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        targets.extend(target.split(' ').next());
    }
    targets
}

fn broken_link(repository: &Repository, from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let place = if path.is_empty() {
        Some(from.path.clone())
    } else {
        resolved(&from.path, path)
    };
    let Some(place) = place.filter(|place| place.is_empty() || repository.has(place)) else {
        return Some(format!("the link to {target} leads nowhere"));
    };
    let headings = repository.file(&place).filter(|_| !anchor.is_empty())?;
    let found = prose(headings).any(|(_, line)| line.starts_with('#') && slug(line) == anchor);
    (!found).then(|| format!("{place} has no heading #{anchor}"))
}

/// Resolves the path `relative` in the file `from`, from the root of the repository.
fn resolved(from: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the anchor that code forges give to a heading.
fn slug(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| {
            if c == ' ' {
                '-'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
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
    fn a_document_without_one_title_is_found() {
        let repository = Repository::of(&[
            ("a.md", "# A\n\n```\n# comment\n```\n## B\n"),
            ("b.md", "text\n"),
            ("c.md", "# A\n# B\n"),
        ]);
        assert_eq!(places(&one_title(&repository)), [("b.md", 1), ("c.md", 2)]);
    }

    #[test]
    fn prose_that_is_wider_than_a_page_is_found() {
        let wide = "word ".repeat(21);
        let text = format!(
            "# A\n{wide}\n| {wide} |\n```\n{wide}\n```\n{}\n",
            "w".repeat(200)
        );
        let repository = Repository::of(&[("a.md", text.as_str())]);
        assert_eq!(places(&widths(&repository)), [("a.md", 2)]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let repository = Repository::of(&[
            (
                "docs/a.md",
                "# A\n[x](../b.md) [y](b.md)\n[z](#two-words) [w](#gone)\n",
            ),
            (
                "docs/c.md",
                "# C\n## Two words\n[x](../../b.md)\n[y]: ./a.md\n[z](https://a.b/c)\n",
            ),
            (
                "b.md",
                "# B\n[x](docs/c.md#two-words) [y](docs/c.md#none) [z](docs/)\n```\n[v](w)\n```\n",
            ),
        ]);
        let expected = [
            ("docs/a.md", 2),
            ("docs/a.md", 3),
            ("docs/a.md", 3),
            ("docs/c.md", 3),
            ("b.md", 2),
        ];
        assert_eq!(places(&links(&repository)), expected);
    }

    #[test]
    fn a_place_that_is_gone_is_found() {
        let map = "# A\n`crates/log/src/lib.rs` and crates/gone/.\nREADME.md, docs/x.md\n";
        let repository = Repository::of(&[
            (CODE_MAP, map),
            ("crates/log/src/lib.rs", ""),
            ("README.md", ""),
        ]);
        assert_eq!(
            places(&code_map(&repository)),
            [(CODE_MAP, 2), (CODE_MAP, 3)]
        );
        assert_eq!(places(&code_map(&Repository::of(&[]))), [(CODE_MAP, 0)]);
    }

    #[test]
    fn a_bound_that_is_not_documented_is_found() {
        let limits = "//! L.\npub const KEY_BYTES_MAX: u8 = 1;\npub const KEY: u8 = 1;\n";
        let repository =
            Repository::of(&[(FORMAT_DOCUMENT, "# F\nKEY_BYTES_MAX\n"), (LIMITS, limits)]);
        assert_eq!(places(&limits_are_documented(&repository)), [(LIMITS, 3)]);
        assert_eq!(limits_are_documented(&Repository::of(&[])).len(), 1);
    }

    #[test]
    fn slow_tests_without_a_command_and_commands_without_a_test_are_found() {
        let command = |place, name| format!("cargo test -p probity-x {place} {name} -- --ignored");
        let list = [
            command("--test y", "listed"),
            command("--test y", "gone"),
            command("--test z", "listed"),
            command("--lib", "inner"),
            command("--lib", "listed"),
            "cargo test -p probity-w --test y listed -- --ignored".to_owned(),
        ];
        let list = list.join("\n");
        let tests = "#[test]\nfn quick() {}\n#[test]\n#[ignore = \"slow\"]\nfn listed() {}\n    #[test]\n    \
                     #[ignore]\n    fn left_out() {}\n";
        let inner = "#[ignore = \"slow\"]\nfn inner() {}\n";
        let repository = Repository::of(&[
            (CONTRIBUTING, list.as_str()),
            ("crates/x/src/lib.rs", inner),
            ("crates/x/tests/y/main.rs", tests),
        ]);
        let wrong = [2, 3, 5, 6].map(|line| (CONTRIBUTING, line));
        let left_out = [("crates/x/tests/y/main.rs", 7)];
        assert_eq!(
            places(&slow_tests_are_listed(&repository)),
            [&left_out[..], &wrong].concat()
        );
    }
}
