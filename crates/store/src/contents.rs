//! The files of a store's directory, as far as they must fit its mark.

use std::fs;
use std::path::Path;

use crate::directory::at;
use crate::generation::{self, Name};
use crate::mark::{Found, MARK_FILE};
use crate::open_error::OpenError;

/// Refuses a directory whose files do not fit its mark. Sealed files beside a mark that names none,
/// or an older one, do not fit. Without a mark only the leftovers of a crash fit. Without a proven
/// mark a half-made file is a leftover only of the first generation, and only before there is a
/// key.
pub(crate) fn check_files(
    path: &Path,
    found: Option<&Found>,
    is_key_there: bool,
) -> Result<(), OpenError> {
    let generation = found.map_or(0, Found::generation);
    let is_clear = matches!(found, Some(Found::Unsealed));
    let mark = path.join(MARK_FILE);
    for (name, file) in generation::files(path).map_err(at(path))? {
        match name {
            Name::Whole(_) | Name::Unsealed if found.is_none() => {
                let problem = "is gone, and the files of a store are there";
                return Err(OpenError::Mark {
                    path: mark,
                    problem,
                });
            }
            Name::Half(newer) if generation == 0 && (newer > 1 || (is_key_there && !is_clear)) => {
                return Err(OpenError::Unnamed { file, mark });
            }
            Name::Whole(newer) if newer > generation => {
                return Err(OpenError::Newer { file, mark });
            }
            Name::Half(newer) if newer > generation + 1 => {
                return Err(OpenError::Newer { file, mark });
            }
            Name::Unsealed if matches!(found, Some(Found::Begun)) => {
                return Err(OpenError::Newer { file, mark });
            }
            _ => {}
        }
    }
    if found.is_some() {
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(at(path))? {
        if Name::of(&entry.map_err(at(path))?.path()).is_none() {
            return Err(OpenError::NotAStore(path.to_owned()));
        }
    }
    Ok(())
}
