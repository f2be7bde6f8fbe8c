//! The check that the folders of a crate depend only on folders below them.

use crate::rust_text::code_of;
use crate::{File, Finding, Repository};

/// Crates whose sources are in layers, and the layers of each from the lowest to the highest.
pub const LAYERS: [(&str, &[&str]); 2] = [
    (
        "crates/disguise/src/",
        &[
            "database",
            "error",
            "crypto",
            "schema",
            "statements",
            "spec",
            "records",
            "plan",
            "execute",
            "transaction",
            "operations",
        ],
    ),
    (
        "crates/pocketdb/src/",
        &["limits", "pager", "error", "tables", "query"],
    ),
];

/// Checks that every file of these crates is in a layer and names no layer above its own.
pub fn order(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (sources, layers) in LAYERS {
        for file in repository.with_extension("rs") {
            let Some(place) = file.path.strip_prefix(sources) else {
                continue;
            };
            if place == "lib.rs" {
                continue;
            }
            let layer = place.split(['/', '.']).next().unwrap_or_default();
            match layers.iter().position(|it| *it == layer) {
                Some(rank) => findings.extend(upward(file, layers, rank)),
                None => findings.push(Finding::new(
                    &file.path,
                    0,
                    "the file is in no layer",
                    "move it to one, or give its folder a place in crates/tidy/src/layers.rs",
                )),
            }
        }
    }
    findings
}

/// Finds the paths in a file that lead to a layer above `rank`, or past the layers.
fn upward(file: &File, layers: &[&str], rank: usize) -> Vec<Finding> {
    let code = code_of(file.text().unwrap_or_default());
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        for (at, start) in text.match_indices("crate::") {
            let rest = text.get(at + start.len()..).unwrap_or_default();
            let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_');
            let named = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            let (problem, remedy) = match layers.iter().position(|it| *it == named) {
                Some(other) if other <= rank => continue,
                Some(_) => (
                    format!("{named} is above the layer of this file"),
                    "move what both need to the lower layer",
                ),
                None => (
                    format!("crate::{named} is no path through a layer"),
                    "name the layer that holds it, each in a use of its own",
                ),
            };
            findings.push(Finding::new(&file.path, line, problem, remedy));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(place: &str, text: &str) -> Vec<(usize, String)> {
        let path = format!("crates/disguise/src/{place}");
        let repository = Repository::of(&[(path.as_str(), text)]);
        let findings = order(&repository).into_iter();
        findings.map(|it| (it.line, it.problem)).collect()
    }

    #[test]
    fn a_path_to_the_same_room_or_a_lower_one_passes() {
        let text = "//! [`crate::operations`]\n\nuse crate::database::Value;\n\npub(crate) fn f(it: crate::plan::Step) {}\n";
        assert_eq!(found("plan/step.rs", text), []);
        assert_eq!(found("lib.rs", "use plan::step;\n"), []);
    }

    #[test]
    fn a_path_to_a_higher_layer_or_past_the_layers_is_found() {
        let text = "use crate::plan::Step;\n\nfn f() -> crate::Error {}\n";
        let lines: Vec<usize> = found("schema/path.rs", text)
            .iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(lines, [1, 3]);
        assert_eq!(
            found("schema/path.rs", "use crate::{error, plan};\n").len(),
            1
        );
    }

    #[test]
    fn a_file_outside_of_the_layers_is_found() {
        assert_eq!(found("stray.rs", "").len(), 1);
        assert_eq!(found("stray/mod.rs", "").len(), 1);
    }
}
