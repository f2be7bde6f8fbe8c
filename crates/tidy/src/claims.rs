//! Checks of the tests: each that a document names is there, and those of libraries need no server.

use std::collections::BTreeSet;

use crate::{File, Finding, Repository};

/// The document whose tables name the test of each claim.
const CLAIMS: &str = "docs/trust.md";

/// The least number of underscores in the name of a test, in that document and in others, which
/// name settings and columns too.
const UNDERSCORES_OF_CLAIMS: usize = 2;
const UNDERSCORES: usize = 4;

/// The crate that starts the servers of tests, and the one whose library may name it: there it
/// stands behind the features of the drivers, without which `./test quick` builds that library.
const SERVERS: &str = concat!("probity", "_testing");
const BEHIND_FEATURES: &str = "crates/disguise/src/";

/// Checks that each test that a document names exists. Names that begin with `test_` are of other
/// people's tests: ours are claims.
pub fn named_tests_exist(repository: &Repository) -> Vec<Finding> {
    let tests: BTreeSet<&str> = repository.files.iter().flat_map(tests).collect();
    let mut findings = Vec::new();
    for file in repository.with_extension("md") {
        let least = if file.path == CLAIMS {
            UNDERSCORES_OF_CLAIMS
        } else {
            UNDERSCORES
        };
        for (line, text) in file.lines() {
            for name in quoted(text).filter_map(|quoted| test_name(quoted, least)) {
                if !tests.contains(name) {
                    let problem = format!("there is no test {name}");
                    let remedy = "name the test that shows the claim";
                    findings.push(Finding::new(&file.path, line, problem, remedy));
                }
            }
        }
    }
    findings
}

/// Checks that no test of a library starts a server, except behind the features of its driver: the
/// edit loop runs them where none is installed.
pub fn tests_of_libraries_need_no_server(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("rs") {
        let is_library = file.path.starts_with("crates/") && file.is_under("src");
        if !is_library || file.path.starts_with(BEHIND_FEATURES) {
            continue;
        }
        for (line, _) in file.lines().filter(|(_, text)| text.contains(SERVERS)) {
            let problem = "a test of a library may start a server";
            let remedy = "move it into the folder tests";
            findings.push(Finding::new(&file.path, line, problem, remedy));
        }
    }
    findings
}

/// Returns the parts of a line between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the name of a test in `quoted`, the last part of a path; none where it is something else.
fn test_name(quoted: &str, underscores: usize) -> Option<&str> {
    let (path, name) = quoted.rsplit_once("::").unwrap_or(("", quoted));
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    // A method or a field of a type is none.
    let of_type = path.starts_with(|c: char| c.is_ascii_uppercase());
    let is_one = !of_type
        && name.chars().all(is_name)
        && name.matches('_').count() >= underscores
        && !name.starts_with("test_")
        // The end of several names.
        && !name.starts_with('_');
    is_one.then_some(name)
}

/// Returns the functions of a file that tests are: all of a folder of tests, and those elsewhere
/// with the attribute.
fn tests(file: &File) -> impl Iterator<Item = &str> {
    let is_source = matches!(file.extension(), Some("rs" | "go"));
    let all = file.is_under("tests");
    let mut is_marked = false;
    file.lines().filter_map(move |(_, text)| {
        let text = text.trim_start();
        is_marked |= text == "#[test]";
        let rest = text.trim_start_matches("pub(crate) ");
        let rest = rest.trim_start_matches("pub(super) ");
        let rest = rest
            .strip_prefix("fn ")
            .or_else(|| rest.strip_prefix("func "))?;
        let name = rest.split(['(', '<']).next()?;
        let is_test = is_source && (all || is_marked);
        is_marked = false;
        is_test.then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(findings: &[Finding]) -> Vec<(&str, usize)> {
        let places = findings.iter();
        places.map(|it| (it.path.as_str(), it.line)).collect()
    }

    #[test]
    fn a_test_that_is_named_and_gone_is_found() {
        let source = "fn no_test_at_all() {}\n    #[test]\n    fn a_claim_that_holds() {}\n";
        let repository = Repository::of(&[
            (
                CLAIMS,
                "`a_claim_that_holds`, `inner::a_claim_that_holds`, `Options::a_field_of_it`\n\
                 `one_word`, `short_and_shown`\n`short_and_gone`\n`no_test_at_all`\n",
            ),
            (
                "docs/x.md",
                "`name_of_a_column`, `test_of_other_peoples_program`\n`a_claim_that_is_long_gone`\n",
            ),
            ("crates/x/src/lib.rs", source),
            (
                "crates/x/tests/y/z.rs",
                "pub(crate) fn short_and_shown() {}\n",
            ),
        ]);
        let wrong = [(CLAIMS, 3), (CLAIMS, 4), ("docs/x.md", 2)];
        assert_eq!(places(&named_tests_exist(&repository)), wrong);
    }

    #[test]
    fn a_library_that_starts_a_server_is_found() {
        let text = format!("//! X.\nuse {SERVERS}::redis;\n");
        let repository = Repository::of(&[
            ("crates/x/src/inner/tests.rs", text.as_str()),
            ("crates/x/tests/it.rs", text.as_str()),
            ("crates/disguise/src/tests.rs", text.as_str()),
        ]);
        let found = tests_of_libraries_need_no_server(&repository);
        assert_eq!(places(&found), [("crates/x/src/inner/tests.rs", 2)]);
    }
}
