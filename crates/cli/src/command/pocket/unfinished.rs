//! What a creation left that was killed before its last step: the database in its place, and its root file beside
//! its own place under the name of a file under way. Both are complete then.

use std::fs;
use std::path::{Path, PathBuf};

use super::Place;
use crate::failure::Failure;
use crate::output_file::{left_over, part_ending};
use crate::shell::quoted;

/// The root files that creations left beside their place whose chips came to theirs, or were taken away since, the newest last.
pub(super) fn roots_left(place: &Place) -> Vec<PathBuf> {
    // In a folder that may not be listed there may be one all the same: the name can be given with --root.
    let parts = left_over(&place.root).unwrap_or_default();
    let mut left: Vec<PathBuf> = parts
        .into_iter()
        .filter(|part| !chip_of(place, part).exists())
        .collect();
    left.sort_by_key(|part| fs::metadata(part).and_then(|found| found.modified()).ok());
    left
}

/// The chip under way that goes with the root file under way at `part`.
fn chip_of(place: &Place, part: &Path) -> PathBuf {
    let mut chip = place.file.as_os_str().to_owned();
    chip.push(part_ending(part).unwrap_or_default());
    PathBuf::from(chip)
}

/// The creation of the database at `place` was ended before its last step, if its root file still has another name.
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

/// A root file under way was named.
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

/// The command for the step that is left; it replaces nothing.
fn last_step(part: &Path, root: &Path) -> String {
    format!(
        "both files are complete where the database is in its place; the root file gets its name with: mv -n {} {}",
        quoted(part),
        quoted(root)
    )
}
