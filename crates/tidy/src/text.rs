//! Checks of the characters and words of every text file.

use crate::rust_text::has_word;
use crate::{File, Finding, Repository};

/// Sources that may hold characters outside ASCII, each with its reason.
const NOT_ASCII: [&str; 0] = [];

/// Markers of unfinished work, built from parts so that this file does not contain them.
const UNFINISHED: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Prefixes of absolute paths that exist on one machine only.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/t", "mp/"),
];

/// Hosts of package registries; the choice belongs to the machine's configuration.
const REGISTRY_HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("deb.debian", ".org"),
];

/// Checks that sources are ASCII, so that the compiler reads what a reviewer sees.
pub fn ascii(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in texts(repository).filter(|file| is_source(file)) {
        let exempt = NOT_ASCII.contains(&file.path.as_str());
        let bad = file.lines().find(|(_, line)| !line.is_ascii());
        if let Some((line, _)) = bad
            && !exempt
        {
            let remedy = "write an escape such as \\u{2014}";
            findings.push(Finding::new(
                &file.path,
                line,
                "a character outside ASCII",
                remedy,
            ));
        } else if bad.is_none() && exempt {
            let remedy = "take it off NOT_ASCII in crates/tidy/src/text.rs";
            findings.push(Finding::new(
                &file.path,
                0,
                "no longer needs its exception",
                remedy,
            ));
        }
    }
    findings
}

/// Checks that no line ends in blanks or holds a tab or control character, and that the last line
/// ends with a line feed.
pub fn blanks(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in texts(repository) {
        if !file.bytes.is_empty() && !file.bytes.ends_with(b"\n") {
            findings.push(Finding::new(
                &file.path,
                0,
                "the last line does not end",
                "add a line feed",
            ));
        }
        if file.bytes.ends_with(b"\n\n") {
            findings.push(Finding::new(
                &file.path,
                0,
                "ends in empty lines",
                "remove them",
            ));
        }
        for (number, line) in file.lines() {
            if line.ends_with([' ', '\t']) {
                let problem = "the line ends in blanks";
                findings.push(Finding::new(&file.path, number, problem, "remove them"));
            }
            // Go's own formatter indents with tabs.
            let tabs_allowed = file.extension() == Some("go") || file.name() == "go.mod";
            if line
                .chars()
                .any(|c| c.is_control() && !(c == '\t' && tabs_allowed))
            {
                let problem = "a tab or control character";
                findings.push(Finding::new(
                    &file.path,
                    number,
                    problem,
                    "use blanks or an escape",
                ));
            }
        }
    }
    findings
}

/// Checks that no marker of unfinished work is left.
pub fn nothing_unfinished(repository: &Repository) -> Vec<Finding> {
    found_in_lines(repository, |line| {
        let word = UNFINISHED.iter().find(|word| has_word(line, word))?;
        Some((
            format!("{word} is left"),
            "do it, or state the limit in the documentation",
        ))
    })
}

/// Checks that no machine-specific path and no package registry is named.
pub fn nothing_of_one_machine(repository: &Repository) -> Vec<Finding> {
    let mut findings = found_in_lines(repository, |line| {
        let path = MACHINE_PATHS
            .iter()
            .find(|path| begins_a_path(line, path))?;
        Some((
            format!("{path} is a folder of one machine"),
            "use a relative path or a parameter",
        ))
    });
    findings.extend(found_in_lines(repository, |line| {
        let host = REGISTRY_HOSTS.iter().find(|host| line.contains(*host))?;
        Some((
            format!("{host} is named"),
            "leave the source of packages to the configuration",
        ))
    }));
    findings
}

fn found_in_lines(
    repository: &Repository,
    problem: impl Fn(&str) -> Option<(String, &'static str)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in texts(repository) {
        for (number, line) in file.lines() {
            if let Some((problem, remedy)) = problem(line) {
                findings.push(Finding::new(&file.path, number, problem, remedy));
            }
        }
    }
    findings
}

/// Returns whether `line` holds an absolute path that begins with `folder`, not one that contains
/// it.
fn begins_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && !"/._-})".contains(c))
    })
}

/// Returns every text file that people write, without lock files and inputs of tests.
fn texts(repository: &Repository) -> impl Iterator<Item = &File> {
    repository.files.iter().filter(|file| {
        !file.is_test_input()
            && file.name() != "LICENSE"
            && !matches!(file.extension(), Some("lock" | "sum"))
            && file.text().is_some()
    })
}

fn is_source(file: &File) -> bool {
    matches!(
        file.extension(),
        Some("rs" | "sh" | "toml" | "c" | "h" | "go" | "py" | "sql")
    ) || file.is_script()
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
    fn characters_outside_ascii_are_found_in_sources_only() {
        let repository = Repository::of(&[
            ("a.rs", "//! a\nfn b() {} // \u{2014}\n"),
            ("run", "#!/bin/bash\n# \u{e9}\n"),
            ("README.md", "\u{2014}\n"),
        ]);
        assert_eq!(places(&ascii(&repository)), [("a.rs", 2), ("run", 2)]);
    }

    #[test]
    fn blanks_tabs_and_ends_are_found() {
        let repository = Repository::of(&[
            ("a.rs", "a \nb\tc\n\u{7f}\n"),
            ("b.md", "x"),
            ("c.md", "x\n\n"),
            ("d.go", "\tx\n"),
            ("e.toml", "x\r\n"),
        ]);
        let found = blanks(&repository);
        assert_eq!(
            places(&found),
            [
                ("a.rs", 1),
                ("a.rs", 2),
                ("a.rs", 3),
                ("b.md", 0),
                ("c.md", 0)
            ]
        );
    }

    #[test]
    fn notes_to_oneself_are_found_as_words() {
        let text = format!("x\n// {}: later\n", UNFINISHED[0]);
        let longer = format!("{}S\n", UNFINISHED[0]);
        let repository = Repository::of(&[("a.sh", &text), ("b.sh", &longer)]);
        assert_eq!(places(&nothing_unfinished(&repository)), [("a.sh", 2)]);
    }

    #[test]
    fn paths_and_hosts_of_one_machine_are_found() {
        let path = format!(
            "cd {}x\n\"{}me\"\n$HOME{}x\n",
            MACHINE_PATHS[3], MACHINE_PATHS[0], MACHINE_PATHS[3]
        );
        let host = format!("see https://{}/x\n", REGISTRY_HOSTS[0]);
        let inner = format!("a{}b\n", MACHINE_PATHS[3]);
        let repository = Repository::of(&[("a", &path), ("b.md", &host), ("c", &inner)]);
        let found = nothing_of_one_machine(&repository);
        assert_eq!(places(&found), [("a", 1), ("a", 2), ("b.md", 1)]);
    }
}
