//! A database that the server works in, with its address and its named specifications.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use probity_disguise::{Pseudo, Schema, Spec, SpecError, SpecFile};
use probity_format::Timestamp;
use probity_log::StreamName;
use zeroize::Zeroizing;

use crate::config::{DatabasePlace, SpecPlace, UrlPlace, absolute};
use crate::pool::{ConnectionPermit, Pool, PooledConnection};
use crate::problem::{Kind, Problem};
use crate::repeat::Running;
use crate::request_context::AnyEngine;
use crate::secret::Secret;

/// The longest file with an address, in bytes.
const URL_BYTES_MAX: u64 = 4_096;
/// The longest file of a specification, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The reason why a database of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file of a specification is not what it should be.
    #[error("{path} is refused")]
    Spec {
        /// The file.
        path: PathBuf,
        /// The fault, and its place in the file.
        #[source]
        source: SpecError,
    },
    /// A file holds no address of a database.
    #[error("{path} does not hold the address of a database on its first line")]
    Url {
        /// The file.
        path: PathBuf,
    },
}

/// A specification and the descriptions that are given beside it.
pub(crate) struct LoadedSpec {
    name: String,
    pub(crate) file: SpecFile,
    pub(crate) schema: Option<Schema>,
    pub(crate) pseudo: Option<Pseudo>,
}

/// A database with its pool, its running requests and its specifications.
pub(crate) struct DatabaseEntry {
    pub(crate) pool: Pool,
    pub(crate) running: Running,
    /// The tenant whose rows are meant, as in the tenant columns.
    pub(crate) tenant: Option<String>,
    pub(crate) stream: StreamName,
    specs: BTreeMap<String, LoadedSpec>,
    /// The specification whose description this server stored last. The lock is held while another
    /// one is stored, because requests that all store theirs would conflict.
    installed: Mutex<Option<String>>,
}

impl DatabaseEntry {
    /// Reads the files that a database's configuration names.
    pub(crate) fn open(place: &DatabasePlace) -> Result<Self, PlaceError> {
        let mut specs = BTreeMap::new();
        for (name, spec) in &place.specs {
            specs.insert(name.clone(), load_spec(name, spec)?);
        }
        let url = match &place.url {
            UrlPlace::Here(url) => Secret::from(Zeroizing::new(String::from(&**url))),
            UrlPlace::File(path) => url_in(path)?,
        };
        Ok(Self {
            pool: Pool::new(url, place.connections, place.share),
            running: Running::default(),
            tenant: place.tenant.clone(),
            stream: place.stream.clone(),
            specs,
            installed: Mutex::new(None),
        })
    }

    /// Returns a connection for the permit of the pool.
    pub(crate) fn connect(
        &self,
        permit: &Arc<ConnectionPermit>,
        now: Timestamp,
    ) -> Result<PooledConnection, Problem> {
        let connection = self.pool.connection(permit, now);
        connection.map_err(|error| unreachable().because(&error))
    }

    /// Returns the problem of a request that found no place while the database gives no answer.
    pub(crate) fn silence(&self) -> Option<Problem> {
        let cause = "every connection that is allowed waits for an answer of the server";
        self.pool.is_silent().then(|| unreachable().because(&cause))
    }

    /// Prepares the database unless this server has done so, and stores the description of the
    /// specification if another one was stored last.
    pub(crate) fn install(
        &self,
        engine: &mut AnyEngine,
        spec: Option<&LoadedSpec>,
    ) -> Result<(), Problem> {
        let mut installed = self.installed();
        let name = spec.map(|spec| spec.name.as_str());
        let is_there = installed
            .as_deref()
            .is_some_and(|last| name.is_none_or(|name| name == last));
        if !is_there {
            engine.install()?;
            *installed = Some(name.unwrap_or_default().to_owned());
        }
        Ok(())
    }

    /// Makes the next request prepare the database again.
    pub(crate) fn uninstalled(&self) {
        *self.installed() = None;
    }

    fn installed(&self) -> MutexGuard<'_, Option<String>> {
        let installed = self.installed.lock();
        installed.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all specifications.
    pub(crate) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.specs.values().map(|loaded| &loaded.file.spec)
    }

    /// Returns the specification called `name`.
    pub(crate) fn spec(&self, name: &str) -> Result<&LoadedSpec, Problem> {
        self.specs.get(name).ok_or_else(|| {
            let detail = format!("the server knows no specification {name:?} for this database");
            Problem::new(Kind::Unfit, detail)
        })
    }
}

fn unreachable() -> Problem {
    Problem::new(Kind::DatabaseFailed, "the database cannot be reached")
}

fn load_spec(name: &str, place: &SpecPlace) -> Result<LoadedSpec, PlaceError> {
    let aside = |path: &Option<PathBuf>| path.clone();
    Ok(LoadedSpec {
        name: name.to_owned(),
        file: parsed(&place.file, SpecFile::parse)?,
        schema: aside(&place.schema)
            .map(|path| parsed(&path, Schema::from_edna_json))
            .transpose()?,
        pseudo: aside(&place.pseudo)
            .map(|path| parsed(&path, Pseudo::from_edna_json))
            .transpose()?,
    })
}

fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, SpecError>,
) -> Result<T, PlaceError> {
    let text = bounded(path, FILE_BYTES_MAX)?;
    parse(&text).map_err(|source| PlaceError::Spec {
        path: path.to_owned(),
        source,
    })
}

fn url_in(path: &Path) -> Result<Secret, PlaceError> {
    let text = bounded(path, URL_BYTES_MAX)?;
    // Some editors put a byte order mark before a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let line = text.lines().next().unwrap_or_default().trim();
    let scheme = line.split_once(':').map(|(scheme, _)| scheme);
    if !scheme.is_some_and(|it| it.chars().all(|c| c.is_ascii_lowercase())) {
        return Err(PlaceError::Url {
            path: path.to_owned(),
        });
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    Ok(absolute(Secret::from(line.to_owned()), folder))
}

fn bounded(path: &Path, bytes_max: u64) -> Result<Zeroizing<String>, PlaceError> {
    let failed = |source| PlaceError::File {
        path: path.to_owned(),
        source,
    };
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > bytes_max {
        let what = format!("it is longer than {bytes_max} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
    }
    let capacity = usize::try_from(length).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(capacity));
    let file = File::open(path).map_err(failed)?;
    file.take(bytes_max)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}
