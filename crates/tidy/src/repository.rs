//! The files of the repository, as the checks read them.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that never hold sources; skipped if git is not available.
const FOLDERS_SKIPPED: [&str; 5] = [".git", "target", "artifacts", "node_modules", ".venv"];

/// One file with its content.
#[derive(Debug, Clone)]
pub struct File {
    /// Path from the root, with forward slashes.
    pub path: String,
    /// The content.
    pub bytes: Vec<u8>,
    /// `true` if the owner may execute the file.
    pub executable: bool,
}

impl File {
    /// Creates a file that is not executable.
    pub fn new(path: &str, content: &str) -> Self {
        Self {
            path: path.into(),
            bytes: content.into(),
            executable: false,
        }
    }

    /// Returns the content as text; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        str::from_utf8(&self.bytes).ok()
    }

    /// Returns each line with its number, counted from 1; nothing if the content is not UTF-8.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text().unwrap_or_default().lines())
    }

    /// Returns the last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the extension after the last dot of the name; `None` if there is no dot or the only
    /// dot comes first.
    pub fn extension(&self) -> Option<&str> {
        self.name()
            .rsplit_once('.')
            .filter(|(stem, _)| !stem.is_empty())
            .map(|(_, end)| end)
    }

    /// Returns whether the file begins with `#!/`.
    pub fn is_script(&self) -> bool {
        self.bytes.starts_with(b"#!/")
    }

    /// Returns whether a folder on its path has this name.
    pub fn is_under(&self, folder: &str) -> bool {
        self.path.rsplit('/').skip(1).any(|part| part == folder)
    }

    /// Returns whether the file is input of a test, which may have any content.
    pub fn is_test_input(&self) -> bool {
        self.is_under("testdata") || self.is_under("corpus")
    }
}

/// All files that are under version control, or could be added to it.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The files, by path.
    pub files: Vec<File>,
}

impl Repository {
    /// Reads the repository with the root folder `root`: the files that git tracks or would add.
    /// Without git it reads every file below `root`.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn open(root: &Path) -> io::Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = Vec::new();
        for path in paths {
            let place = root.join(&path);
            // Git still lists files that were deleted but not committed yet.
            let Ok(metadata) = place.symlink_metadata() else {
                continue;
            };
            if !metadata.is_file() {
                continue;
            }
            let executable = metadata.permissions().mode() & 0o100 != 0;
            files.push(File {
                path,
                bytes: std::fs::read(&place)?,
                executable,
            });
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { files })
    }

    /// Creates a repository with these paths and contents.
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self {
            files: files
                .iter()
                .map(|(path, content)| File::new(path, content))
                .collect(),
        }
    }

    /// Returns the file at `path`, if there is one.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns whether `path` is a file, or a folder that holds one.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Returns the files with the extension `extension`, without test inputs.
    pub fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.extension() == Some(extension) && !file.is_test_input())
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(String::from)
        .collect();
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let place = entry.path();
            if !entry.file_type()?.is_dir() {
                let path = place.strip_prefix(root).map_err(io::Error::other)?;
                paths.push(path.to_string_lossy().into_owned());
            } else if !FOLDERS_SKIPPED
                .iter()
                .any(|skipped| entry.file_name() == *skipped)
            {
                folders.push(place);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn walking_finds_what_git_lists() {
        let walked = walked(&root()).unwrap();
        for path in ["Cargo.toml", "crates/tidy/src/repository.rs"] {
            assert!(
                walked.iter().any(|found| found == path),
                "{path} is not found by walking"
            );
            assert!(
                Repository::open(&root()).unwrap().file(path).is_some(),
                "{path} is not read"
            );
        }
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
    }

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let repository = Repository::of(&[("crates/log/src/lib.rs", "")]);
        assert!(repository.has("crates/log/"));
        assert!(repository.has("crates/log/src/lib.rs"));
        assert!(!repository.has("crates/lo"));
    }

    #[test]
    fn names_are_taken_apart() {
        let file = File::new("crates/log/testdata/torn.bin", "");
        assert_eq!((file.name(), file.extension()), ("torn.bin", Some("bin")));
        assert!(file.is_test_input());
        assert_eq!(File::new(".gitignore", "").extension(), None);
    }
}
