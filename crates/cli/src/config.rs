//! Settings from the environment; the only file that reads it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use probity_log::{LogLocation, Options};
use zeroize::Zeroizing;

use crate::command::check_is_folder;
use crate::failure::Failure;

/// The settings that may come from the environment, read once.
#[derive(Clone, Default)]
pub struct Environment {
    /// `PROBITY_KEY_FILE`: the root key file, where no argument names one.
    pub key_file: Option<PathBuf>,
    /// `PROBITY_HEADS`: folder of the second copy of the log's heads; without it `DIR.heads` beside the log.
    pub heads: Option<PathBuf>,
    /// `PROBITY_DB`: the application's database; unlike an argument it may hold a password.
    pub database: Option<String>,
    /// `PROBITY_POCKET_ROOT`: the root file of a pocket database, where no argument names one.
    pub pocket_root: Option<PathBuf>,
    /// `PROBITY_UPSTREAM`: the server behind the proxy; unlike an argument it may hold a password.
    pub upstream: Option<Zeroizing<String>>,
    /// The program as it was called, for commands that a person is told to try.
    pub program: Option<PathBuf>,
}

impl Environment {
    /// Reads the settings.
    pub fn read() -> Self {
        let path = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            key_file: path("PROBITY_KEY_FILE"),
            heads: path("PROBITY_HEADS"),
            database: env::var_os("PROBITY_DB").and_then(|value| value.into_string().ok()),
            pocket_root: path("PROBITY_POCKET_ROOT"),
            upstream: env::var_os("PROBITY_UPSTREAM")
                .and_then(|value| value.into_string().ok())
                .map(Zeroizing::new),
            program: env::args_os().next().map(PathBuf::from),
        }
    }

    /// Returns the path of the root key of the log at `log`: the given one, that of the
    /// environment, or the one beside the log.
    pub fn key_path(&self, said: Option<&Path>, log: &Path) -> PathBuf {
        said.map(Path::to_owned)
            .or_else(|| self.key_file.clone())
            .unwrap_or_else(|| key_path_beside(log))
    }

    /// Refuses a folder of second copies in the folder `log` itself, and one whose parent is missing,
    /// as on a disk that is not mounted: it would be made elsewhere, empty.
    ///
    /// # Errors
    /// When it lies in the log, or when the parent is missing or cannot be examined.
    pub fn check_heads(&self, log: &Path) -> Result<(), Failure> {
        let Some(heads) = &self.heads else {
            return Ok(());
        };
        LogLocation::new(log, Some(heads)).check_apart()?;
        check_is_folder(heads)?;
        let above = heads.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or_else(|| Path::new("."));
        match fs::metadata(above) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::new(format!(
                "the second copies of the heads have no place in {}",
                heads.display()
            ))
            .because(error)
            .remedy(format!(
                "mount the disk, or set PROBITY_HEADS to the folder that this log has; only for a new place make {} yourself",
                above.display()
            ))),
        }
    }

    /// Returns the options of a log with the folder of second copies that the environment names.
    pub fn log_options(&self) -> Options {
        Options {
            heads: self.heads.clone(),
            ..Options::default()
        }
    }
}

/// Returns the columns of the terminal that `COLUMNS` names, by which help is laid out where none
/// is attached.
pub fn columns_named() -> Option<usize> {
    env::var_os("COLUMNS")?.to_str()?.parse().ok()
}

/// Returns the path of the root key file that `init` makes: the log's path with `.key` appended.
pub fn key_path_beside(log: &Path) -> PathBuf {
    beside(log, ".key")
}

/// Returns the path of the verifier key file that `init` makes: the log's path with `.vkey`
/// appended.
pub fn verifier_path_beside(log: &Path) -> PathBuf {
    beside(log, ".vkey")
}

fn beside(log: &Path, ending: &str) -> PathBuf {
    // `audit/` and `audit` are the same log and have the same key. The key of `.` lies beside the
    // folder under its own name.
    let whole = log.file_name().is_none().then(|| log.canonicalize().ok());
    let whole = whole.flatten();
    let log = whole.as_deref().unwrap_or(log);
    let mut name = log.components().as_path().as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_looked_for_where_said_then_in_the_environment_then_beside_the_log() {
        let log = Path::new("a/audit/");
        let mut environment = Environment::default();
        assert_eq!(environment.key_path(None, log), Path::new("a/audit.key"));
        environment.key_file = Some("env.key".into());
        assert_eq!(environment.key_path(None, log), Path::new("env.key"));
        assert_eq!(
            environment.key_path(Some(Path::new("arg.key")), log),
            Path::new("arg.key")
        );
    }
}
