//! The location of a log: its own storage, and the one for the second copies of its heads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use probity_format::geometry::Geometry;
use probity_format::stream::StreamName;

use crate::checked_certificates::CheckedCertificates;
use crate::config::Options;
use crate::error::LogError;
use crate::files::{Files, is_strange, unless_strange};
use crate::head_origin::log_of;
use crate::heads::Heads;
use crate::history::{GEOMETRY, claimed_size};
use crate::storage::{Directory, Storage};

/// The storage of a log, and the second place that keeps its signed heads.
#[derive(Debug, Clone)]
pub struct LogLocation {
    pub(crate) log: Arc<dyn Storage>,
    pub(crate) heads: Arc<dyn Storage>,
    /// The name of the place in messages.
    pub(crate) path: String,
    /// The name of the heads' place in messages.
    pub(crate) heads_path: String,
    /// The folders of both, where they are in folders.
    folders: Option<[PathBuf; 2]>,
    /// Those of the log that readers and writers at this place have checked.
    pub(crate) checked_certificates: Arc<CheckedCertificates>,
}

/// Folders of every log, beside its geometry.
const LOG_FOLDERS: [&str; 2] = ["keys", "streams"];

/// The second copies that each log has.
const COPIES: [&str; 2] = ["heads", "journal"];
/// Most links that are followed to a folder that does not exist yet.
const LINKS_MAX: u32 = 40;

impl LogLocation {
    /// The folder `path`, and for the heads the folder `heads`. By default that is the log's path
    /// with `.heads` appended.
    pub fn new(path: &Path, heads: Option<&PathBuf>) -> Self {
        let heads = heads.cloned().unwrap_or_else(|| heads_beside(path));
        Self {
            log: Arc::new(Directory::new(path)),
            heads: Arc::new(Directory::new(&heads)),
            path: path.display().to_string(),
            heads_path: heads.display().to_string(),
            folders: Some([path.to_owned(), heads]),
            checked_certificates: Arc::default(),
        }
    }

    /// Refuses second copies in the folder of the log itself or below it, whatever links lead there:
    /// what puts an older copy of the log back puts them back too. Refuses the folder of another log
    /// too, among whose files they would belong to nothing.
    ///
    /// # Errors
    /// [`LogError::HeadsInLog`], [`LogError::HeadsAreLog`].
    pub fn check_apart(&self) -> Result<(), LogError> {
        let Some(folders) = &self.folders else {
            return Ok(());
        };
        let [log, heads] = folders.each_ref().map(|it| resolved(it, LINKS_MAX));
        if heads.starts_with(&log) {
            return Err(LogError::HeadsInLog {
                heads: self.heads_path.clone(),
                path: self.path.clone(),
            });
        }
        // A server's configuration may have the name of the geometry.
        let has_geometry = |at: &Path| at.join(GEOMETRY).symlink_metadata().is_ok();
        let has_folder = |at: &Path, name: &&str| at.join(name).is_dir();
        let is_there = |name: &str| {
            let there = heads.join(name).symlink_metadata();
            there.is_ok_and(|it| !it.is_dir())
        };
        // Copies are compared whatever was put beside them.
        let has_copies = COPIES.iter().any(|name| is_there(name));
        let is_log = has_geometry(&heads) && LOG_FOLDERS.iter().any(|it| has_folder(&heads, it));
        let is_within =
            |at: &Path| has_geometry(at) && LOG_FOLDERS.iter().all(|name| has_folder(at, name));
        if is_log && !has_copies || heads.ancestors().skip(1).any(is_within) {
            return Err(LogError::HeadsAreLog {
                heads: self.heads_path.clone(),
            });
        }
        Ok(())
    }

    /// The name of the heads' place in messages.
    pub fn heads_path(&self) -> &str {
        &self.heads_path
    }

    /// Returns whether the place of the heads holds second copies of the log's streams. Without them an
    /// older copy of the log cannot be told from the newest. Other files are no copies: one of any
    /// name would pass for a comparison. So would that of a stream without new entries, where the
    /// copies of the journal and of `heads` are gone, which each log has.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn hold_heads(&self) -> Result<bool, LogError> {
        let heads = Heads::new(Files::of_heads(self, &Options::default())?);
        let mut copied = self.copied()?;
        match Files::of_log(self, &Options::default()).list("streams") {
            // Readers name what is in the place of the folder.
            Err(error) if is_strange(&error) => {}
            streams => {
                let streams = streams?;
                copied.retain(|name| streams.iter().any(|it| it == name.as_str()));
            }
        }
        let is_there = |name: &StreamName| {
            let note = unless_strange(heads.load(name))?;
            Ok::<_, LogError>(note.is_some_and(|note| !note.is_empty()))
        };
        let log = Files::of_log(self, &Options::default());
        for name in [StreamName::journal(), StreamName::heads()] {
            if claimed_size(&log, &name)? > 0 && !is_there(&name)? {
                return Ok(false);
            }
        }
        for name in copied {
            if is_there(&name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names of streams in the place of the heads.
    fn copied(&self) -> Result<Vec<StreamName>, LogError> {
        let files = Files::of_heads(self, &Options::default())?;
        let names = match files.list("") {
            // Something else than a folder holds no copies.
            Err(error) if is_strange(&error) => return Ok(Vec::new()),
            names => names?,
        };
        let names = names.iter().filter_map(|name| StreamName::new(name).ok());
        Ok(names.collect())
    }

    /// The name of the log whose second copies the place of the heads holds, as they say it;
    /// nothing where it holds none.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn heads_owner(&self) -> Result<Option<String>, LogError> {
        let heads = Heads::new(Files::of_heads(self, &Options::default())?);
        let mut owner = None;
        for name in self.copied()? {
            let note = unless_strange(heads.load(&name))?.unwrap_or_default();
            if let Some(of) = log_of(&note) {
                return Ok(Some(of));
            }
            // A damaged copy remembers a log too.
            if name.as_str() == StreamName::JOURNAL {
                owner = Some("whose name they do not say".to_owned());
            }
        }
        Ok(owner)
    }

    /// Refuses second copies of another log than `geometry`'s, whose name the journal's copy says.
    ///
    /// # Errors
    /// [`LogError::HeadsOfAnother`], [`LogError::Storage`].
    pub fn check_heads(&self, geometry: &Geometry) -> Result<(), LogError> {
        let heads = Heads::new(Files::of_heads(self, &Options::default())?);
        let origin = geometry.stream_origin(StreamName::JOURNAL);
        heads.check_own(&StreamName::journal(), &origin)
    }

    /// Any two storages; `name` is the log's name in messages.
    ///
    /// Keep the heads out of reach of anybody who can restore an older copy of the log.
    pub fn on(log: Arc<dyn Storage>, heads: Arc<dyn Storage>, name: &str) -> Self {
        Self {
            log,
            heads,
            path: name.to_owned(),
            heads_path: format!("{name}.heads"),
            folders: None,
            checked_certificates: Arc::default(),
        }
    }
}

/// The folder of heads beside the log at `path`, the same for every spelling of the path. A
/// different folder for another spelling would make an untouched log look broken.
fn heads_beside(path: &Path) -> PathBuf {
    // With the slash it would be what the link leads to.
    let is_link = path.components().as_path().is_symlink();
    let is_named = path.file_name().is_some() && !is_link;
    let whole = (!is_named).then(|| path.canonicalize().ok()).flatten();
    // Without a slash at the end, which would put it into the log.
    let named = whole.as_deref().unwrap_or(path).components().as_path();
    let mut name = named.as_os_str().to_owned();
    name.push(".heads");
    PathBuf::from(name)
}

/// The place that `path` names once at most `links` links are followed, also where the end of it is
/// not there yet.
fn resolved(path: &Path, links: u32) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let Some(above) = path.parent() else {
        return path.to_owned();
    };
    let is_here = above.as_os_str().is_empty();
    let above = resolved(if is_here { Path::new(".") } else { above }, links);
    let Some(name) = path.file_name() else {
        // The end is `..`, behind a folder that is not there.
        return above.parent().unwrap_or(&above).to_owned();
    };
    let place = above.join(name);
    match place.read_link() {
        Ok(target) if links > 0 => resolved(&above.join(target), links.saturating_sub(1)),
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// With a slash behind its name, as a shell completes it, a log had its second copies in
    /// itself; the next command without the slash had others, and verification with the first
    /// called the log broken.
    #[test]
    fn a_log_has_one_folder_of_heads_however_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().canonicalize().unwrap().join("audit");
        fs::create_dir_all(log.join("inner")).unwrap();
        symlink(&log, folder.path().join("link")).unwrap();
        let wanted = log.with_file_name("audit.heads");
        let at = |path: PathBuf| heads_beside(&path);
        assert_eq!(at(log.clone()), wanted);
        assert_eq!(at(log.join("")), wanted);
        assert_eq!(at(log.join(".")), wanted);
        assert_eq!(at(log.join("inner/..")), wanted);
        for spelling in ["link", "link/", "link/.", "./link//"] {
            assert_eq!(at(folder.path().join(spelling)), wanted);
        }
        assert_eq!(heads_beside(Path::new("new/")), Path::new("new.heads"));
    }
    /// The second copies could lie in the log itself, where an older copy of the whole folder brought
    /// older ones back with it. No name of such a place passes, and no other place is refused.
    #[test]
    fn second_copies_in_the_log_itself_are_refused_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("audit/streams")).unwrap();
        fs::create_dir_all(at("elsewhere")).unwrap();
        for (link, target) in [
            ("link", at("audit")),
            ("elsewhere/into", PathBuf::from("../audit/kept")),
            ("elsewhere/round", PathBuf::from("round")),
            ("audit/out", at("elsewhere")),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let is_refused = |log: &str, heads: &str| {
            let places = LogLocation::new(&at(log), Some(&at(heads)));
            let refused = places.check_apart();
            let is_refused = matches!(refused, Err(LogError::HeadsInLog { .. }));
            assert!(is_refused || refused.is_ok(), "{refused:?}");
            is_refused
        };
        for inside in [
            "audit",
            "audit/",
            "audit/streams",
            "audit/kept/deep",
            "audit/gone/../kept",
            "elsewhere/../audit/kept",
            "elsewhere/into",
            "elsewhere/into/deep",
            "link/kept",
        ] {
            assert!(is_refused("audit", inside), "{inside}");
            assert!(is_refused("link", inside), "{inside}");
        }
        for outside in [
            "audit.heads",
            "auditor",
            "elsewhere",
            "elsewhere/round",
            "audit/out/kept",
            "audit/gone/../../kept",
            "new/kept",
        ] {
            assert!(!is_refused("audit", outside), "{outside}");
            assert!(!is_refused("link", outside), "{outside}");
        }
        assert!(is_refused("new", "new/kept"));
        assert!(!is_refused("new", "new.heads"));
        symlink(at("audit/kept"), at("audit.heads")).unwrap();
        let beside = LogLocation::new(&at("audit"), None);
        let refused = beside.check_apart().unwrap_err();
        assert!(refused.to_string().contains("audit.heads"), "{refused}");
    }

    /// The folder of another log was taken for second copies, and got files that belong to nothing in
    /// it. It is refused under each of its names, with all that is below it; a folder with a file of that name
    /// alone is no log, and neither is one that holds copies.
    #[test]
    fn the_folder_of_another_log_holds_no_second_copies() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [
            "audit",
            "other/streams",
            "other/keys",
            "served",
            "kept/keys",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        symlink(at("served/probity.toml"), at("kept/journal")).unwrap();
        for name in ["other", "served", "kept"] {
            symlink("anything", at(name).join("probity.toml")).unwrap();
        }
        symlink(at("other"), at("link")).unwrap();
        for (heads, is_log) in [
            ("other", true),
            ("link/", true),
            ("other/streams/..", true),
            ("other/streams", true),
            ("other/new/deep", true),
            ("link/keys", true),
            ("served/keys", false),
            ("kept", false),
            ("served", false),
            ("audit.heads", false),
        ] {
            let places = LogLocation::new(&at("audit"), Some(&at(heads)));
            let checked = places.check_apart();
            let is_refused = matches!(checked, Err(LogError::HeadsAreLog { .. }));
            assert_eq!(is_refused, is_log, "{heads}: {checked:?}");
        }
    }
}
