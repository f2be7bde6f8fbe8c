//! The commands of the manuals, typed as they stand, and what they must say where something is in the way.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::Place;

const POCKET: &str = include_str!("../../../../docs/pocketdb.md");

/// The blocks of shell commands of a section.
fn blocks(manual: &str, section: &str) -> Vec<String> {
    let text = manual.split(section).nth(1).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks.map(str::to_owned).collect()
}

/// Types a block into a shell that ends at the first command that fails; gives what it says.
fn typed(place: &Place, block: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_probity")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-eu", "-c", block])
        .current_dir(place.folder.path())
        .env("PATH", path)
        .env_remove("PROBITY_POCKET_ROOT")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{block}\n{stdout}{stderr}");
    assert_eq!(stderr, "", "{block}");
    stdout
}

/// refers to. All of them are typed here as they stand.
#[test]
fn the_first_steps_work_as_they_are_printed() {
    let place = Place::new();
    fs::remove_file(place.path("vault.sql")).unwrap();
    let blocks = blocks(POCKET, "## 2. First steps");
    assert_eq!(blocks.len(), 2);
    let said = blocks.iter().map(|block| typed(&place, block));
    let said = said.collect::<Vec<_>>().concat();
    for line in [
        "imported 2 rows into doctors",
        "imported 3 rows into visits",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(place.count("vault.pocket", "visits"), json!(2));
}
