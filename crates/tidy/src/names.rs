//! Checks of files: names, sizes and executable bits.

use crate::{Finding, Repository};

/// Prefixes of names that do not describe their content.
const EMPTY_WORDS: [&str; 8] = [
    "util", "helper", "common", "misc", "manager", "handler", "wrapper", "shared",
];

/// Allowed file extensions.
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

/// Allowed names of files without an extension, and of scripts.
const NAMES: [&str; 9] = [
    "LICENSE",
    ".gitignore",
    ".gitattributes",
    ".ci/run",
    "run",
    "test",
    "check",
    "package",
    "NOTICE",
];

/// Size limit of a file, in bytes; the repository holds sources only.
const FILE_BYTES_MAX: usize = 262_144;

/// Files that may be larger.
const LARGE_FILES: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

/// Checks that no name of a file or folder begins with a word of `EMPTY_WORDS`.
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

/// Checks that every file has an allowed extension or name.
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

/// Checks that no file exceeds the size limit.
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

/// Checks that scripts are executable and other files are not.
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
