//! The check that imports are in three blocks: the standard library, other crates, this crate.

use crate::rust_text::{code_of, has_word};
use crate::{Finding, Repository};

/// The block an import belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Standard,
    External,
    Own,
}

/// One `use` with the lines it spans.
struct Import {
    first_line: usize,
    last_line: usize,
    origin: Origin,
}

/// Checks that each run of imports has its blocks in order, with one empty line between blocks.
pub fn three_blocks(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.with_extension("rs") {
        let code = code_of(file.text().unwrap_or_default());
        let lines: Vec<&str> = code.lines().collect();
        let imports = imports(&lines);
        for (before, after) in imports.iter().zip(imports.iter().skip(1)) {
            if let Some(problem) = problem_between(&lines, before, after) {
                let remedy = "std, then other crates, then crate and super: three blocks";
                findings.push(Finding::new(&file.path, after.first_line, problem, remedy));
            }
        }
    }
    findings
}

fn problem_between(lines: &[&str], before: &Import, after: &Import) -> Option<&'static str> {
    let between = lines
        .get(before.last_line..after.first_line - 1)
        .unwrap_or_default();
    let trimmed = between.iter().map(|line| line.trim());
    // Attributes belong to the import below them; any other line ends the run.
    if trimmed
        .clone()
        .any(|line| !line.is_empty() && !line.starts_with("#["))
    {
        return None;
    }
    let empty_lines = trimmed.filter(|line| line.is_empty()).count();
    match (before.origin.cmp(&after.origin), empty_lines) {
        (std::cmp::Ordering::Greater, _) => Some("an import below the block it belongs to"),
        (std::cmp::Ordering::Less, 0) => Some("two blocks of imports without a line between"),
        (std::cmp::Ordering::Equal, 1..) => Some("a block of imports in two parts"),
        _ => None,
    }
}

fn imports(lines: &[&str]) -> Vec<Import> {
    let modules: Vec<&str> = lines
        .iter()
        .filter_map(|line| module_declared(line))
        .collect();
    let mut found = Vec::new();
    let mut numbered = (1..).zip(lines.iter());
    while let Some((first_line, line)) = numbered.next() {
        let Some(path) = line.trim_start().strip_prefix("use ") else {
            continue;
        };
        let mut last_line = first_line;
        if !line.contains(';') {
            last_line = numbered
                .find(|(_, line)| line.contains(';'))
                .map_or(first_line, |end| end.0);
        }
        found.push(Import {
            first_line,
            last_line,
            origin: origin(path, &modules),
        });
    }
    found
}

fn origin(path: &str, modules: &[&str]) -> Origin {
    let root = path
        .trim_start_matches(':')
        .split([':', ';', ' ', ','])
        .next()
        .unwrap_or_default();
    match root {
        "std" | "core" | "alloc" => Origin::Standard,
        "crate" | "super" | "self" => Origin::Own,
        name if modules.contains(&name) => Origin::Own,
        _ => Origin::External,
    }
}

fn module_declared(line: &str) -> Option<&str> {
    let declaration = line.trim().strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once(' ')?;
    has_word(before, "mod").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(text: &str) -> Vec<usize> {
        let repository = Repository::of(&[("a.rs", text)]);
        three_blocks(&repository)
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn three_blocks_in_order_pass() {
        let good = "//! A.\n\nuse core::fmt;\nuse std::{\n    io,\n};\n\nuse libc::{a, b};\n#[cfg(x)]\n\
                    use tokio::net;\n\nuse crate::x;\n\nmod own;\n\nuse own::y;\n\nfn f() {\n    use std::io;\n}\n";
        assert_eq!(lines_found(good), [] as [usize; 0]);
    }

    #[test]
    fn wrong_order_and_wrong_gaps_are_found() {
        assert_eq!(lines_found("use crate::a;\n\nuse std::io;\n"), [3]);
        assert_eq!(lines_found("use std::io;\nuse tokio::net;\n"), [2]);
        assert_eq!(
            lines_found("use std::{\n    io,\n};\n\nuse std::fmt;\n"),
            [5]
        );
        assert_eq!(
            lines_found("mod t {\n    use super::a;\n    use std::io;\n}\n"),
            [3]
        );
    }
}
