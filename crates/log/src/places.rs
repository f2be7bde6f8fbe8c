//! Where a log is: its own storage, and the one that keeps its heads a second time.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::{Directory, Storage};

/// The storage of a log, and the second place that keeps its signed heads.
#[derive(Debug, Clone)]
pub struct Places {
    pub(crate) log: Arc<dyn Storage>,
    pub(crate) heads: Arc<dyn Storage>,
    /// What messages call the place.
    pub(crate) path: String,
    /// What messages call the place of the heads.
    pub(crate) heads_path: String,
}

impl Places {
    /// The folder `path`, and for the heads the folder `heads` or else `path` with `.heads` behind.
    pub fn new(path: &Path, heads: Option<&PathBuf>) -> Self {
        let beside = || {
            let mut name = path.as_os_str().to_owned();
            name.push(".heads");
            PathBuf::from(name)
        };
        let heads = heads.cloned().unwrap_or_else(beside);
        Self {
            log: Arc::new(Directory::new(path)),
            heads: Arc::new(Directory::new(&heads)),
            path: path.display().to_string(),
            heads_path: heads.display().to_string(),
        }
    }

    /// Any two storages; `name` is what messages call the log.
    ///
    /// The heads belong where whoever can put back an older copy of the log cannot do the same.
    pub fn on(log: Arc<dyn Storage>, heads: Arc<dyn Storage>, name: &str) -> Self {
        Self {
            log,
            heads,
            path: name.to_owned(),
            heads_path: format!("{name}.heads"),
        }
    }
}
