//! Checks of third-party packages: licences, sources and bans.
//!
//! The rules are in `deny.toml`, in the format of cargo-deny, so that both read the same rules.
//! This module supports only the part of that format that the file uses: one value or one table per
//! line.

use crate::licence::is_satisfied;
use crate::{File, Finding, Repository};

/// The file that holds the rules.
const RULES: &str = "deny.toml";

/// The only allowed source of third-party packages, as lock files name it.
const SOURCE: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

/// A package that is banned in all versions, or below one.
struct Ban<'a> {
    line: usize,
    name: &'a str,
    below: Option<Version>,
    reason: &'a str,
}

/// A package in a lock file.
struct Package<'a> {
    line: usize,
    name: &'a str,
    version: &'a str,
    source: Option<&'a str>,
}

type Version = (u64, u64, u64);

/// Checks that every package of a lock file comes from the allowed registry.
pub fn sources(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("lock") {
        for package in packages(file) {
            if package.source.is_some_and(|source| source != SOURCE) {
                let problem = format!("{} comes from another source", package.name);
                let remedy = "use a released version of it";
                findings.push(Finding::new(&file.path, package.line, problem, remedy));
            }
        }
    }
    findings
}

/// Checks that no banned package is built. Lock files also name packages that are never built, so
/// `tree` lists the built ones. It has one package per line, as `cargo tree` prints them: name and
/// version, a tab, and the licence.
pub fn bans(repository: &Repository, tree: &str) -> Vec<Finding> {
    let Some(rules) = repository.file(RULES) else {
        return vec![Finding::new(RULES, 0, "is missing", "write it")];
    };
    let bans = bans_in(rules);
    if bans.is_empty() {
        return vec![Finding::new(
            RULES,
            0,
            "names no ban",
            "one { crate = \"...\" } a line",
        )];
    }
    let mut findings = Vec::new();
    for line in tree.lines() {
        let package = line.split('\t').next().unwrap_or_default();
        let (name, version) = package.split_once(" v").unwrap_or((package, ""));
        for ban in bans.iter().filter(|ban| ban.holds(name, version)) {
            let problem = format!("{name} {version} is banned: {}", ban.reason);
            let finding = Finding::new(RULES, ban.line, problem, "do without it, or update it");
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}

/// Checks that the lock file of the fuzz targets has the versions that the product is built with.
pub fn lock_files_agree(repository: &Repository) -> Vec<Finding> {
    let (Some(product), Some(fuzz)) = (
        repository.file("Cargo.lock"),
        repository.file("fuzz/Cargo.lock"),
    ) else {
        return vec![Finding::new(
            "Cargo.lock",
            0,
            "a lock file is missing",
            "commit both",
        )];
    };
    let product = packages(product);
    let mut findings = Vec::new();
    for package in packages(fuzz) {
        let mut versions = product
            .iter()
            .filter(|other| other.name == package.name)
            .map(|other| other.version);
        let first = versions.clone().next();
        if first.is_some() && !versions.any(|version| version == package.version) {
            let problem = format!(
                "{} {} is not what the product uses",
                package.name, package.version
            );
            let remedy = "copy Cargo.lock there and run cargo metadata in fuzz/";
            findings.push(Finding::new(&fuzz.path, package.line, problem, remedy));
        }
    }
    findings
}

/// Checks that every package of `tree` (as for [`bans`]) has an allowed licence.
pub fn licences(repository: &Repository, tree: &str) -> Vec<Finding> {
    let Some(rules) = repository.file(RULES) else {
        return vec![Finding::new(RULES, 0, "is missing", "write it")];
    };
    let allowed = licences_allowed(rules);
    let mut findings = Vec::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
        let licence = licence.trim_end_matches("(*)").trim();
        let name = package.split(' ').next().unwrap_or_default();
        let mut allowed_here = allowed.clone();
        allowed_here.extend(exceptions(rules, name));
        let problem = match is_satisfied(licence, &allowed_here) {
            Ok(true) => continue,
            Ok(false) => format!("{package} is under {licence}"),
            Err(reason) => format!("the licence of {package} cannot be read ({licence}): {reason}"),
        };
        let finding = Finding::new(RULES, 0, problem, "do without it, or decide to allow it");
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

impl Ban<'_> {
    fn holds(&self, name: &str, version_built: &str) -> bool {
        // An unreadable version counts as banned.
        let is_below = |below| version(version_built).is_none_or(|version| version < below);
        self.name == name && self.below.is_none_or(is_below)
    }
}

fn bans_in(rules: &File) -> Vec<Ban<'_>> {
    section(rules, "bans")
        .filter_map(|(line, text)| {
            let spec = quoted_after(text, "crate = ")?;
            let (name, below) = spec.split_once("@<").unwrap_or((spec, ""));
            let reason = quoted_after(text, "reason = ").unwrap_or_default();
            Some(Ban {
                line,
                name,
                below: version(below),
                reason,
            })
        })
        .collect()
}

fn licences_allowed(rules: &File) -> Vec<&str> {
    section(rules, "licenses")
        .filter(|(_, text)| text.trim().starts_with('"'))
        .filter_map(|(_, text)| text.split('"').nth(1))
        .collect()
}

fn exceptions<'a>(rules: &'a File, name: &str) -> Option<&'a str> {
    section(rules, "licenses")
        .find(|(_, text)| quoted_after(text, "crate = ") == Some(name))
        .and_then(|(_, text)| quoted_after(text, "allow = ["))
}

fn section<'a>(rules: &'a File, name: &str) -> impl Iterator<Item = (usize, &'a str)> {
    let header = format!("[{name}]");
    rules
        .lines()
        .skip_while(move |(_, text)| *text != header)
        .skip(1)
        .take_while(|(_, text)| !text.starts_with('['))
        .filter(|(_, text)| !text.trim_start().starts_with('#'))
}

fn quoted_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_once(key)?.1.split('"').nth(1)
}

fn packages(lock: &File) -> Vec<Package<'_>> {
    let mut packages: Vec<Package<'_>> = Vec::new();
    for (line, text) in lock.lines() {
        let value = text.split('"').nth(1).unwrap_or_default();
        if text.starts_with("name = ") {
            packages.push(Package {
                line,
                name: value,
                version: "",
                source: None,
            });
        } else if let Some(package) = packages.last_mut() {
            if text.starts_with("version = ") {
                package.version = value;
            } else if text.starts_with("source = ") {
                package.source = Some(value);
            }
        }
    }
    packages
}

/// Parses the three numbers of a version; ignores a suffix after a hyphen or plus sign.
fn version(text: &str) -> Option<Version> {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n    \"MIT\",\n]\nexceptions = [\n\
        { allow = [\"NCSA\"], crate = \"fuzzer\" },\n]\n[bans]\ndeny = [\n\
        { crate = \"ring\", reason = \"why\" },\n    { crate = \"rustls@<0.23.45\", reason = \"old\" },\n]\n";

    fn lock(packages: &[(&str, &str, &str)]) -> String {
        let package = |(name, version, source): &(&str, &str, &str)| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"{source}\"\n"
            )
        };
        packages.iter().map(package).collect()
    }

    #[test]
    fn packages_from_elsewhere_are_found() {
        let lock = lock(&[
            ("a", "1.0.0", SOURCE),
            ("b", "1.0.0", "git+https://example.com/b"),
        ]);
        let found = sources(&Repository::of(&[("fuzz/Cargo.lock", &lock)]));
        assert_eq!(
            found.iter().map(|finding| finding.line).collect::<Vec<_>>(),
            [6]
        );
    }

    #[test]
    fn banned_and_old_packages_are_found_once() {
        let tree =
            "ring v0.17.0\tISC\nring v0.17.0\tISC (*)\nrustls v0.23.44\tMIT\nstring v1.0.0\tMIT\n";
        let repository = Repository::of(&[(RULES, DENY)]);
        let found: Vec<usize> = bans(&repository, tree).iter().map(|f| f.line).collect();
        assert_eq!(found, [10, 11]);
        assert!(
            bans(
                &repository,
                "rustls v0.23.45\tMIT\nrustls v1.0.0-rc.1\tMIT\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn missing_rules_are_found() {
        assert_eq!(bans(&Repository::of(&[]), "").len(), 1);
        assert_eq!(bans(&Repository::of(&[(RULES, "[bans]\n")]), "").len(), 1);
        assert_eq!(licences(&Repository::of(&[]), "").len(), 1);
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found_once() {
        let tree = "a v1.0.0\tMIT\nb v1.0.0\tGPL-3.0\nb v1.0.0\tGPL-3.0 (*)\nc v1.0.0\t\n\
                    fuzzer v1.0.0\tMIT AND NCSA\nd v1.0.0\tNCSA\n";
        let found = licences(&Repository::of(&[(RULES, DENY)]), tree);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].problem.contains("b v1.0.0 is under GPL-3.0"));
        assert!(found[1].problem.contains("c v1.0.0"));
        assert!(found[2].problem.contains("d v1.0.0"));
    }

    #[test]
    fn lock_files_with_two_versions_are_found() {
        let product = lock(&[
            ("a", "1.0.0", SOURCE),
            ("a", "2.0.0", SOURCE),
            ("b", "1.0.0", SOURCE),
        ]);
        let fuzz = lock(&[
            ("a", "2.0.0", SOURCE),
            ("b", "1.0.1", SOURCE),
            ("c", "1.0.0", SOURCE),
        ]);
        let repository = Repository::of(&[("Cargo.lock", &product), ("fuzz/Cargo.lock", &fuzz)]);
        let found: Vec<usize> = lock_files_agree(&repository)
            .iter()
            .map(|f| f.line)
            .collect();
        assert_eq!(found, [6]);
    }
}
