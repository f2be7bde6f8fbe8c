//! The second copies of the signed heads, as every command that reads a log finds them.

use std::path::{Path, PathBuf};

use probity_log::{Log, LogLocation};

use crate::config::Environment;
use crate::failure::{Failure, LOG_NAMED};
use crate::output::note;

/// Returns the places of the log at `dir` for a command that reads it.
///
/// The second copies are in `said`, else where the environment says, else beside the log.
///
/// # Errors
/// When a named folder holds no copy, since an older copy of the log would pass for the log; when
/// it holds those of another log.
pub(super) fn reading_places(
    dir: &Path,
    said: Option<&PathBuf>,
    environment: &Environment,
) -> Result<LogLocation, Failure> {
    let named = said.or(environment.heads.as_ref());
    named.map_or(Ok(()), |named| check_is_folder(named))?;
    let places = LogLocation::new(dir, named);
    let is_meant = named.is_some() || leads_nowhere(Path::new(places.heads_path()));
    if is_meant && !places.hold_heads()? {
        return Err(absent(places.heads_path()));
    }
    places.check_heads(&Log::geometry(dir)?)?;
    Ok(places)
}

/// Refuses a place for second copies that is no folder: a name was chosen badly, and no evidence is
/// broken.
pub(crate) fn check_is_folder(named: &Path) -> Result<(), Failure> {
    if named.is_dir() || !named.exists() {
        return Ok(());
    }
    let what = format!(
        "{} is no folder, and the second copies of the heads are in one",
        named.display()
    );
    Err(Failure::new(what)
        .remedy("name the folder that this log has, which is DIR.heads where none was named"))
}

/// Returns whether `folder` is a dangling link, as to a disk that is not mounted: that does not
/// show that there are no second copies.
pub(super) fn leads_nowhere(folder: &Path) -> bool {
    folder.is_symlink() && !folder.exists()
}

/// Refuses to write beside second copies that cannot be reached.
pub(super) fn check_reached(places: &LogLocation) -> Result<(), Failure> {
    if !leads_nowhere(Path::new(places.heads_path())) {
        return Ok(());
    }
    let message = format!("{} is a link that leads nowhere", places.heads_path());
    Err(Failure::new(message).remedy(
        "mount the disk on which the second copies of the heads are, or put their folder back",
    ))
}

/// Returns the failure for named second copies of which `place` holds none.
pub(super) fn absent(place: &str) -> Failure {
    Failure::new(format!("there is no second copy of a head of this log in {place}")).remedy(format!(
        "name the folder that PROBITY_HEADS named when the log was written, and see that it is mounted; where it was \
         emptied, compare with a checkpoint that you keep: probity verify {LOG_NAMED} --since FILE",
    ))
}

/// Warns where no second copy can be compared: the command may rest on an older copy of the log.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn warn_of_none(places: &LogLocation) -> Result<(), Failure> {
    if !places.hold_heads()? {
        note(&format!(
            "warning: there is no second copy of a head of this log in {}, so that whether the log was rolled back cannot be told; where it keeps \
             them in another folder, name that with PROBITY_HEADS",
            places.heads_path()
        ));
    }
    Ok(())
}
