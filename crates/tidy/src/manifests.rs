//! Checks of the crates' manifests: allowed dependencies, and the place of versions and lints.

use crate::{File, Finding, Repository};

/// Each crate with its rank: it may depend only on crates of lower rank.
pub const RANKS: [(&str, u8); 16] = [
    ("probity-format", 0),
    ("probity-queue", 0),
    ("probity-pocketdb", 0),
    (FOR_TESTS, 0),
    ("probity-tidy", 0),
    ("probity-policy", 1),
    ("probity-log", 1),
    ("probity-store", 1),
    ("probity-proxy", 2),
    ("probity-disguise", 2),
    ("probity-http", 3),
    ("probity-vault", 3),
    ("probity-bench", 3),
    ("probity-cli", 4),
    ("probity-examples", 4),
    ("probity-websubmit", 4),
];

/// The crate that nothing but tests may depend on.
const FOR_TESTS: &str = "probity-testing";

/// Libraries that only the named crates may depend on, also for tests.
pub const HOMES: [(&str, &[&str]); 11] = [
    (
        "tokio",
        &[
            "probity-proxy",
            "probity-http",
            "probity-cli",
            "probity-websubmit",
        ],
    ),
    ("zstd-safe", &["probity-format", "probity-bench"]),
    ("lz4_flex", &["probity-format", "probity-bench"]),
    ("redb", &["probity-store"]),
    ("rusqlite", &["probity-disguise", "probity-pocketdb"]),
    ("rustls", &["probity-disguise"]),
    ("mysql", &["probity-disguise"]),
    ("postgres", &["probity-disguise"]),
    (
        "clap",
        &["probity-cli", "probity-bench", "probity-websubmit"],
    ),
    (
        "anyhow",
        &["probity-cli", "probity-bench", "probity-websubmit"],
    ),
    ("axum", &["probity-http", "probity-websubmit"]),
];

/// One line of a dependency table.
struct Dependency<'a> {
    line: usize,
    name: &'a str,
    value: &'a str,
    is_for_tests: bool,
}

/// Checks that every crate depends only on crates of lower rank.
pub fn ranks(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in members(repository) {
        let package = package_name(manifest);
        let Some(rank) = rank_of(package) else {
            let remedy = "give it a place in RANKS in crates/tidy/src/manifests.rs";
            findings.push(Finding::new(
                &manifest.path,
                0,
                format!("the crate {package} has no rank"),
                remedy,
            ));
            continue;
        };
        for dependency in dependencies(manifest) {
            // A crate may depend on itself to enable features for its own tests; Cargo allows that
            // only there.
            let itself = dependency.name == package;
            if !itself && rank_of(dependency.name).is_some_and(|other| other >= rank) {
                findings.push(Finding::new(
                    &manifest.path,
                    dependency.line,
                    format!(
                        "{package} depends on {}, which is not below it",
                        dependency.name
                    ),
                    "move what is shared to a lower crate, or turn the dependency round",
                ));
            }
        }
    }
    findings
}

/// Checks that no other crate depends on a library in [`HOMES`].
pub fn homes(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in members(repository) {
        let package = package_name(manifest);
        for dependency in dependencies(manifest) {
            let home = HOMES
                .iter()
                .find(|(library, _)| *library == dependency.name);
            if home.is_some_and(|(_, crates)| !crates.contains(&package)) {
                findings.push(Finding::new(
                    &manifest.path,
                    dependency.line,
                    format!("{} does not belong in {package}", dependency.name),
                    "go through the crate that owns it, see HOMES in crates/tidy/src/manifests.rs",
                ));
            }
        }
    }
    findings
}

/// Checks that only the tests of a crate depend on the crate for tests.
pub fn only_tests(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in members(repository) {
        let mut named = dependencies(manifest).into_iter();
        let outside = named.find(|it| it.name == FOR_TESTS && !it.is_for_tests);
        if let Some(dependency) = outside {
            findings.push(Finding::new(
                &manifest.path,
                dependency.line,
                format!("{} depends on {FOR_TESTS}", package_name(manifest)),
                "name it under [dev-dependencies]",
            ));
        }
    }
    findings
}

/// Checks that versions and lints are set in the root manifest only.
pub fn inherit_from_root(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in members(repository) {
        let text = manifest.text().unwrap_or_default();
        if !text.contains("[lints]\nworkspace = true") {
            let remedy = "add [lints] with workspace = true";
            findings.push(Finding::new(
                &manifest.path,
                0,
                "the crate has lints of its own",
                remedy,
            ));
        }
        for dependency in dependencies(manifest) {
            if !dependency.value.contains("workspace = true") {
                findings.push(Finding::new(
                    &manifest.path,
                    dependency.line,
                    format!("{} is not taken from the workspace", dependency.name),
                    "say its version in the root Cargo.toml and workspace = true here",
                ));
            }
        }
    }
    findings
}

/// Checks that every dependency of a crate is named in its sources.
pub fn dependencies_are_used(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in members(repository) {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let sources: Vec<&str> = repository
            .with_extension("rs")
            .filter(|file| file.path.starts_with(folder))
            .filter_map(File::text)
            .collect();
        for dependency in dependencies(manifest) {
            let word = dependency.name.replace('-', "_");
            if !sources
                .iter()
                .any(|source| crate::rust_text::has_word(source, &word))
            {
                findings.push(Finding::new(
                    &manifest.path,
                    dependency.line,
                    format!("{} is not used", dependency.name),
                    "remove it",
                ));
            }
        }
    }
    findings
}

/// Returns the manifests of the workspace's members.
fn members(repository: &Repository) -> impl Iterator<Item = &File> {
    repository
        .files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml"))
}

fn rank_of(package: &str) -> Option<u8> {
    RANKS
        .iter()
        .find(|(name, _)| *name == package)
        .map(|(_, rank)| *rank)
}

fn package_name(manifest: &File) -> &str {
    manifest
        .lines()
        .find_map(|(_, line)| line.strip_prefix("name = "))
        .map(|name| name.trim_matches('"'))
        .unwrap_or_default()
}

fn dependencies(manifest: &File) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let (mut inside, mut is_for_tests) = (false, false);
    let mut open_brackets = 0_usize;
    for (line, text) in manifest.lines() {
        if open_brackets == 0
            && let Some(header) = text.trim().strip_prefix('[')
        {
            let header = header.trim_end_matches(']');
            inside = header.ends_with("dependencies");
            is_for_tests = header.contains("dev-dependencies");
            // The long form: a table for one dependency, which may then have a version.
            if let Some((table, name)) = header.rsplit_once('.')
                && table.ends_with("dependencies")
            {
                found.push(Dependency {
                    line,
                    name,
                    value: "",
                    is_for_tests,
                });
            }
            continue;
        }
        let code = text.split('#').next().unwrap_or_default();
        if inside
            && open_brackets == 0
            && let Some((key, value)) = code.split_once('=')
        {
            let name = key.trim().split('.').next().unwrap_or_default();
            let inherits = key.trim().ends_with(".workspace") && value.trim() == "true";
            let value = if inherits { "workspace = true" } else { value };
            found.push(Dependency {
                line,
                name,
                value,
                is_for_tests,
            });
        }
        open_brackets += code.matches(['[', '{']).count();
        open_brackets = open_brackets.saturating_sub(code.matches([']', '}']).count());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(package: &str, rest: &str) -> Repository {
        let manifest = format!("[package]\nname = \"{package}\"\n{rest}");
        Repository::of(&[
            ("crates/x/Cargo.toml", &manifest),
            ("crates/x/src/lib.rs", "use loom;"),
        ])
    }

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_crate_may_look_down_and_at_itself_only() {
        let bad = "[dependencies]\nprobity-log.workspace = true\nprobity-cli = { workspace = true }\n\
                   probity-format = { workspace = true }\n[target.'cfg(loom)'.dev-dependencies]\n\
                   probity-policy = { path = \"x\" }\n[dependencies.probity-http]\n";
        assert_eq!(lines(&ranks(&repository("probity-log", bad))), [5, 8, 9]);
        assert!(
            ranks(&repository(
                "probity-cli",
                "[dependencies]\nprobity-log = {}\n"
            ))
            .is_empty()
        );
    }

    #[test]
    fn a_crate_without_a_rank_is_refused() {
        assert_eq!(lines(&ranks(&repository("probity-common", ""))), [0]);
    }

    #[test]
    fn a_library_stays_at_home() {
        let bad = "[features]\nx = [\n\"a\",\n]\n[dependencies]\ntokio = { workspace = true }\n";
        assert_eq!(lines(&homes(&repository("probity-log", bad))), [8]);
        assert!(homes(&repository("probity-proxy", bad)).is_empty());
    }

    #[test]
    fn a_product_does_not_depend_on_the_crate_for_tests() {
        let bad = "[dependencies]\nprobity-testing = { workspace = true }\n";
        assert_eq!(lines(&only_tests(&repository("probity-log", bad))), [4]);
        let good = "[dev-dependencies]\nprobity-testing = { workspace = true }\n";
        assert!(only_tests(&repository("probity-log", good)).is_empty());
    }

    #[test]
    fn versions_and_lints_outside_the_root_are_refused() {
        let bad = "[dependencies]\nserde = \"1\"\ntoml = { workspace = true }\n";
        assert_eq!(
            lines(&inherit_from_root(&repository("probity-log", bad))),
            [0, 4]
        );
        let good = "[dependencies]\nserde.workspace = true\n\n[lints]\nworkspace = true\n";
        assert!(inherit_from_root(&repository("probity-log", good)).is_empty());
    }

    #[test]
    fn an_unused_dependency_is_found() {
        let bad = "[dependencies]\nloom = { workspace = true, features = [\n\"a\",\n] }\n\
                   loo-m = { workspace = true }\n";
        assert_eq!(
            lines(&dependencies_are_used(&repository("probity-log", bad))),
            [7]
        );
    }
}
