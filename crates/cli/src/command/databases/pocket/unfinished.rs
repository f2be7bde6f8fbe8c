//! Recovery from a creation that was killed before its last step.
//!
//! The database is in its place then, and the complete root file still has its part name.

use std::fs;
use std::path::{Path, PathBuf};

use super::Place;
use crate::failure::Failure;
use crate::output_file::{left_over, part_ending};
use crate::shell::quoted;

/// Returns the complete root files that still have their part names, the newest last. The chip of
/// such a root was renamed, or was removed since.
pub(super) fn roots_left(place: &Place) -> Vec<PathBuf> {
    // A folder that cannot be listed may hold one too; it can be named with --root.
    let parts = left_over(&place.root).unwrap_or_default();
    let mut left: Vec<PathBuf> = parts
        .into_iter()
        .filter(|part| !chip_of(place, part).exists())
        .collect();
    left.sort_by_key(|part| fs::metadata(part).and_then(|found| found.modified()).ok());
    left
}

/// Returns the path of the chip that goes with the root file `part`.
fn chip_of(place: &Place, part: &Path) -> PathBuf {
    let mut chip = place.file.as_os_str().to_owned();
    chip.push(part_ending(part).unwrap_or_default());
    PathBuf::from(chip)
}

/// Reports a creation at `place` that ended before its root file was renamed.
pub(super) fn unfinished(place: &Place) -> Option<Failure> {
    if !place.file.exists() || place.root.exists() {
        return None;
    }
    let part = roots_left(place).pop()?;
    let failure = Failure::new(format!(
        "the creation of {} was ended before its last step: its root file is {}, not {}",
        place.file.display(),
        part.display(),
        place.root.display()
    ));
    Some(failure.remedy(last_step(&part, &place.root)))
}

/// Reports that the named root file is still under way.
pub(super) fn root_under_way(part: &Path) -> Failure {
    let failure = Failure::new(format!(
        "{} has the name of a root file under way",
        part.display()
    ));
    let name = part.as_os_str().to_string_lossy();
    let ending = part_ending(part).unwrap_or_default();
    let whole = name.strip_suffix(ending.as_str()).unwrap_or(&name);
    failure.remedy(last_step(part, Path::new(whole)))
}

/// Returns the shell command for the missing step; it replaces nothing.
fn last_step(part: &Path, root: &Path) -> String {
    format!(
        "both files are complete where the database is in its place; the root file gets its name with: mv -n {} {}",
        quoted(part),
        quoted(root)
    )
}
