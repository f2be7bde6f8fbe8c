//! What files are called, how large they are, and which of them may be executed.

use crate::{Finding, Repository};

/// Beginnings of names that say nothing about what is inside.
const EMPTY_WORDS: [&str; 8] = [
    "util", "helper", "common", "misc", "manager", "handler", "wrapper", "shared",
];

/// Ends of names this repository has a use for.
const EXTENSIONS: [&str; 22] = [
    "c",
    "conf",
    "css",
    "csv",
    "go",
    "h",
    "html",
    "js",
    "json",
    "jsonl",
    "lock",
    "md",
    "mod",
    "proptest-regressions",
    "py",
    "rs",
    "sh",
    "sql",
    "sum",
    "svg",
    "toml",
    "txt",
];

/// Files without an extension, and scripts.
const NAMES: [&str; 8] = [
    "LICENSE",
    ".gitignore",
    ".gitattributes",
    ".ci/run",
    "run",
    "test",
    "check",
    "NOTICE",
];

/// The largest file, in bytes: anything larger belongs outside a repository of sources.
const FILE_BYTES_MAX: usize = 262_144;

/// Files that may be larger.
const LARGE_FILES: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// No file or folder is a room for leftovers.
pub fn no_empty_words(repository: &Repository) -> Vec<Finding> {
    let has_empty_word = |path: &str| {
        path.split('/')
            .any(|part| EMPTY_WORDS.iter().any(|word| part.starts_with(word)))
    };
    repository
        .files
        .iter()
        .filter(|file| has_empty_word(&file.path))
        .map(|file| {
            Finding::new(
                &file.path,
                0,
                "the name says nothing",
                "name it after what it holds",
            )
        })
        .collect()
}

/// Every file is of a kind that is used here.
pub fn known_kinds(repository: &Repository) -> Vec<Finding> {
    repository
        .files
        .iter()
        .filter(|file| !file.is_test_input() && !NAMES.contains(&file.path.as_str()))
        .filter(|file| {
            file.extension()
                .is_none_or(|end| !EXTENSIONS.contains(&end))
        })
        .map(|file| {
            let remedy = "remove it, put it under testdata/, or extend crates/tidy/src/names.rs";
            Finding::new(&file.path, 0, "no file of this kind is used here", remedy)
        })
        .collect()
}

/// No file is larger than a source file has reason to be.
pub fn sizes(repository: &Repository) -> Vec<Finding> {
    repository
        .files
        .iter()
        .filter(|file| file.bytes.len() > FILE_BYTES_MAX)
        .filter(|file| !LARGE_FILES.contains(&file.path.as_str()))
        .map(|file| {
            let problem = format!("{} bytes, the limit is {FILE_BYTES_MAX}", file.bytes.len());
            Finding::new(
                &file.path,
                0,
                problem,
                "make it smaller or generate it where it is used",
            )
        })
        .collect()
}

/// Scripts may be executed and nothing else may.
pub fn executable_bits(repository: &Repository) -> Vec<Finding> {
    repository
        .files
        .iter()
        .filter(|file| file.executable != file.is_script())
        .map(|file| {
            if file.executable {
                Finding::new(&file.path, 1, "executable but no script", "chmod -x it")
            } else {
                Finding::new(
                    &file.path,
                    1,
                    "a script that is not executable",
                    "chmod +x it",
                )
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    fn paths(findings: &[Finding]) -> Vec<&str> {
        findings
            .iter()
            .map(|finding| finding.path.as_str())
            .collect()
    }

    #[test]
    fn rooms_for_leftovers_are_refused() {
        let bad = [
            "src/utils.rs",
            "crates/common/src/lib.rs",
            "tests/helpers/mod.rs",
        ];
        let files: Vec<(&str, &str)> = bad.iter().map(|path| (*path, "")).collect();
        assert_eq!(paths(&no_empty_words(&Repository::of(&files))), bad);
        assert!(no_empty_words(&Repository::of(&[("src/error.rs", "")])).is_empty());
    }

    #[test]
    fn unknown_kinds_are_refused_outside_testdata() {
        let repository = Repository::of(&[
            ("a.exe", ""),
            ("x/testdata/a.exe", ""),
            ("Makefile", ""),
            ("run", ""),
        ]);
        assert_eq!(paths(&known_kinds(&repository)), ["a.exe", "Makefile"]);
    }

    #[test]
    fn a_large_file_is_refused_by_its_size() {
        let large = "x".repeat(FILE_BYTES_MAX + 1);
        let repository = Repository::of(&[("docs/a.svg", &large), ("Cargo.lock", &large)]);
        assert_eq!(paths(&sizes(&repository)), ["docs/a.svg"]);
    }

    #[test]
    fn the_executable_bit_goes_with_the_interpreter_line() {
        let script = File::new("run", "#!/bin/bash\n");
        let source = File {
            executable: true,
            ..File::new("a.rs", "#![forbid(unsafe_code)]\n")
        };
        let good = File {
            executable: true,
            ..File::new("test", "#!/bin/bash\n")
        };
        let repository = Repository {
            files: vec![script, source, good],
        };
        assert_eq!(paths(&executable_bits(&repository)), ["run", "a.rs"]);
    }
}
