//! The configuration of the server: one TOML file without unknown fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_disguise::Share;
use probity_disguise::database::holds_password;
use probity_format::Timestamp;
use probity_format::limits::{NAME_BYTES_MAX, TIME_MAX};
use probity_log::StreamName;
use serde::Deserialize;
use toml::Spanned;

use crate::gate::request_permits;
use crate::operation;
use crate::secret::Secret;
use crate::socket::Patience;
use crate::token::{Grant, TokenDigest};

/// The default address to listen on, which only this machine reaches.
pub const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8480);
/// The most bytes of a request's body.
pub const BODY_BYTES: usize = 1 << 20;
/// The most seconds for the head, and for the body, of a request to arrive.
pub const READ_SECONDS: u64 = 10;
/// The most seconds that a request waits for a database.
pub const WAIT_SECONDS: u64 = 10;
/// The most seconds in which a client takes nothing of its answer.
pub const WRITE_SECONDS: u64 = 10;
/// The most seconds that a client may take for a whole answer.
pub const ANSWER_SECONDS: u64 = 300;
/// The most connected clients that have shown a token.
pub const CONNECTIONS: usize = 256;
/// The most connected clients that have not shown a token.
pub const UNAUTHENTICATED: usize = 64;
/// The most requests of one token under way at the same time.
pub const TOKEN_REQUESTS: usize = 64;
/// The most wrong tokens that one address may show in a minute.
pub const WRONG_TOKENS: u64 = 60;
/// The most requests that work on databases at the same time.
pub const PARALLEL: usize = 8;
/// The hours for which an answer is kept for a repeated request.
pub const ANSWER_HOURS: u64 = 24;
/// Files reserved for the log and the process, beside those for clients and databases.
pub const DESCRIPTORS_RESERVED: usize = 256;
/// Files that a database may open while it is worked on, beside its connection: the further files
/// of `SQLite`.
const DESCRIPTORS_AT_WORK: usize = 5;
/// The largest number that a limit may have.
const LIMIT_MAX: u64 = 1 << 30;

/// The fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The line, counting from 1, if one is at fault.
    pub line: Option<usize>,
    /// The fault, as one clause.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ConfigError {}

/// The configuration of a server; it has no `Debug`, because addresses of databases may hold
/// passwords.
pub struct Config {
    /// The address that clients connect to.
    pub listen: SocketAddr,
    /// The log that takes an entry of each operation.
    pub log: LogPlace,
    /// The key file that signs receipts of forgetting, if there is one.
    pub receipt_key: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) databases: BTreeMap<String, DatabasePlace>,
    pub(crate) grants: Vec<Grant>,
}

/// The place of the log.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPlace {
    /// Its folder.
    pub folder: PathBuf,
    /// Its root key file, if that is not beside it.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    #[serde(default)]
    stream: Option<Spanned<String>>,
}

/// The limits of a server.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) body_bytes: usize,
    read_seconds: u64,
    wait_seconds: u64,
    write_seconds: u64,
    answer_seconds: u64,
    pub(crate) connections: usize,
    pub(crate) unauthenticated: usize,
    pub(crate) token_requests: usize,
    pub(crate) wrong_tokens: u64,
    pub(crate) parallel: usize,
    answer_hours: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: BODY_BYTES,
            read_seconds: READ_SECONDS,
            wait_seconds: WAIT_SECONDS,
            write_seconds: WRITE_SECONDS,
            answer_seconds: ANSWER_SECONDS,
            connections: CONNECTIONS,
            unauthenticated: UNAUTHENTICATED,
            token_requests: TOKEN_REQUESTS,
            wrong_tokens: WRONG_TOKENS,
            parallel: PARALLEL,
            answer_hours: ANSWER_HOURS,
        }
    }
}

impl Limits {
    pub(crate) const fn read_time(&self) -> Duration {
        Duration::from_secs(self.read_seconds)
    }

    /// Returns the most clients connected without a permit: those without a token, and as many that
    /// wait for a permit or are being closed.
    const fn beside_connections(&self) -> usize {
        self.unauthenticated.saturating_mul(2)
    }

    /// Returns the most connected clients in all.
    pub(crate) const fn all_connections(&self) -> usize {
        self.connections.saturating_add(self.beside_connections())
    }

    pub(crate) const fn wait_time(&self) -> Duration {
        Duration::from_secs(self.wait_seconds)
    }

    /// Returns how long a client may take to read.
    pub(crate) const fn patience(&self) -> Patience {
        Patience {
            stall: Duration::from_secs(self.write_seconds),
            answer: Duration::from_secs(self.answer_seconds),
        }
    }

    /// Returns the time until which an answer of `now` is kept, at most the last that there is.
    pub(crate) fn kept_until(&self, now: Timestamp) -> Timestamp {
        let kept = Duration::from_secs(self.answer_hours.saturating_mul(3_600));
        let kept = i64::try_from(kept.as_nanos()).unwrap_or(i64::MAX);
        let until = now.nanoseconds().saturating_add(kept).min(TIME_MAX);
        // `now` is within the range, and what lies between it and the end is too.
        Timestamp::from_nanoseconds(until).unwrap_or(now)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let count = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        for (name, value) in [
            ("body_bytes", count(self.body_bytes)),
            ("read_seconds", self.read_seconds),
            ("wait_seconds", self.wait_seconds),
            ("write_seconds", self.write_seconds),
            ("answer_seconds", self.answer_seconds),
            ("connections", count(self.connections)),
            ("unauthenticated", count(self.unauthenticated)),
            ("token_requests", count(self.token_requests)),
            ("wrong_tokens", self.wrong_tokens),
            ("parallel", count(self.parallel)),
            ("answer_hours", self.answer_hours),
        ] {
            if value == 0 || value > LIMIT_MAX {
                return Err(refused(format!(
                    "the limit {name} is {value}, and may be 1 to {LIMIT_MAX}"
                )));
            }
        }
        Ok(())
    }
}

/// A database and the settings of its use.
pub(crate) struct DatabasePlace {
    pub(crate) url: UrlPlace,
    /// The tenant whose rows are meant, as in the tenant columns.
    pub(crate) tenant: Option<String>,
    pub(crate) stream: StreamName,
    /// The most connections to it at the same time.
    pub(crate) connections: usize,
    /// The share of the time in which each connection is worked over.
    pub(crate) share: Share,
    pub(crate) specs: BTreeMap<String, SpecPlace>,
}

/// The source of a database's address.
pub(crate) enum UrlPlace {
    Here(Secret),
    File(PathBuf),
}

/// The files of a specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpecPlace {
    pub(crate) file: PathBuf,
    #[serde(default)]
    pub(crate) schema: Option<PathBuf>,
    #[serde(default)]
    pub(crate) pseudo: Option<PathBuf>,
}

/// The file as TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    listen: Option<Spanned<SocketAddr>>,
    #[serde(default)]
    allow_plaintext: bool,
    log: LogPlace,
    #[serde(default)]
    receipt_key: Option<PathBuf>,
    #[serde(default)]
    limits: Limits,
    database: BTreeMap<String, Spanned<DatabaseTable>>,
    token: Vec<Spanned<TokenTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DatabaseTable {
    #[serde(default)]
    url: Option<Secret>,
    #[serde(default)]
    url_file: Option<PathBuf>,
    #[serde(default)]
    tenant: Option<String>,
    #[serde(default)]
    stream: Option<Spanned<String>>,
    #[serde(default)]
    connections: Option<usize>,
    #[serde(default)]
    share: Option<Spanned<f64>>,
    #[serde(default)]
    spec: BTreeMap<String, SpecPlace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: String,
    sha256: TokenDigest,
    databases: Vec<Spanned<String>>,
    operations: Vec<Spanned<String>>,
    #[serde(default)]
    requests: Option<usize>,
}

/// Explains a configuration of the wrong form. Fields are named; values are not quoted, because they
/// may be secrets.
fn unread(message: &str) -> String {
    let named = ["unknown field", "missing field", "duplicate field"];
    let quotes_none = !message.contains("invalid ") && !message.contains('"');
    if named.iter().any(|it| message.starts_with(it)) || quotes_none {
        message.to_owned()
    } else {
        "a value is not of the form that docs/http.md says".to_owned()
    }
}

impl Config {
    /// Returns the files that hold a password of a database: those that are named, and whether the
    /// configuration itself is one.
    pub fn password_files(&self) -> (Vec<&Path>, bool) {
        let places = || self.databases.values().map(|it| &it.url);
        let files = places().filter_map(|place| match place {
            UrlPlace::File(path) => Some(path.as_path()),
            UrlPlace::Here(_) => None,
        });
        let here = places().any(|place| match place {
            UrlPlace::File(_) => false,
            UrlPlace::Here(url) => holds_password(url),
        });
        (files.collect(), here)
    }

    /// Reads a configuration; its relative paths begin in `folder`.
    ///
    /// # Errors
    /// The first fault, with its line.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: ConfigFile = toml::from_str(text).map_err(|error| ConfigError {
            line: error.span().map(|span| line_of(text, span.start)),
            what: unread(error.message()),
        })?;
        let listen = listen(text, &file)?;
        file.limits.check()?;
        let stream = stream(text, file.log.stream.as_ref())?.unwrap_or_default();
        let mut databases = BTreeMap::new();
        for (name, table) in file.database {
            let place = table.span().start;
            let common = (&stream, file.limits.parallel);
            let database = database(text, folder, common, table.into_inner());
            let database = database.map_err(|error| error.at(text, place))?;
            check_name("database", &name).map_err(|error| error.at(text, place))?;
            databases.insert(name, database);
        }
        if databases.is_empty() {
            return Err(refused("there is no database"));
        }
        let grants = grants(text, file.token, (&databases, file.limits.token_requests))?;
        Ok(Self {
            listen,
            log: LogPlace {
                folder: folder.join(file.log.folder),
                key_file: file.log.key_file.map(|path| folder.join(path)),
                stream: None,
            },
            receipt_key: file.receipt_key.map(|path| folder.join(path)),
            limits: file.limits,
            databases,
            grants,
        })
    }

    /// Lowers `limits.connections` so that a process with at most `files` open files keeps enough
    /// for the log and the databases. Returns the new limit if it is lower than the configured one.
    ///
    /// # Errors
    /// When no connection would be left.
    pub fn fit(&mut self, files: usize) -> Result<Option<usize>, ConfigError> {
        let open = self.databases.values().map(|it| it.connections);
        let open = open.fold(0, usize::saturating_add);
        let worked_on = open.min(self.limits.parallel);
        let others = open
            .saturating_add(worked_on.saturating_mul(DESCRIPTORS_AT_WORK))
            .saturating_add(self.limits.beside_connections())
            .saturating_add(DESCRIPTORS_RESERVED);
        let left = files.saturating_sub(others);
        if left == 0 {
            return Err(refused(format!(
                "this process may have {files} files open, and {others} are needed beside the clients that have shown a token; raise the limit (LimitNOFILE, ulimit -n), or lower limits.unauthenticated or limits.parallel"
            )));
        }
        let is_lower = left < self.limits.connections;
        self.limits.connections = self.limits.connections.min(left);
        Ok(is_lower.then_some(left))
    }

    /// Returns the streams of the log that take entries.
    pub fn streams(&self) -> BTreeSet<&StreamName> {
        self.databases.values().map(|it| &it.stream).collect()
    }
}

impl ConfigError {
    fn at(self, text: &str, offset: usize) -> Self {
        Self {
            line: self.line.or_else(|| Some(line_of(text, offset))),
            ..self
        }
    }
}

fn refused(what: impl Into<String>) -> ConfigError {
    ConfigError {
        line: None,
        what: what.into(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before
        .filter(|byte| **byte == b'\n')
        .count()
        .saturating_add(1)
}

/// Returns the address to listen on; one that other machines reach must be allowed explicitly.
fn listen(text: &str, file: &ConfigFile) -> Result<SocketAddr, ConfigError> {
    let Some(said) = &file.listen else {
        return Ok(LISTEN);
    };
    let address = *said.get_ref();
    if !address.ip().is_loopback() && !file.allow_plaintext {
        let what = format!(
            "{address} can be reached by others, and tokens would go to it unencrypted; listen on a loopback address behind a proxy that ends TLS, or say allow_plaintext = true"
        );
        return Err(refused(what).at(text, said.span().start));
    }
    Ok(address)
}

fn stream(text: &str, said: Option<&Spanned<String>>) -> Result<Option<StreamName>, ConfigError> {
    let Some(said) = said else {
        return Ok(None);
    };
    let name = StreamName::new(said.get_ref());
    let name = name.map_err(|error| refused(error.to_string()).at(text, said.span().start))?;
    Ok(Some(name))
}

fn database(
    text: &str,
    folder: &Path,
    (common, parallel): (&StreamName, usize),
    table: DatabaseTable,
) -> Result<DatabasePlace, ConfigError> {
    let url = match (table.url, table.url_file) {
        (Some(url), None) => UrlPlace::Here(absolute(url, folder)),
        (None, Some(path)) => UrlPlace::File(folder.join(path)),
        _ => return Err(refused("a database has either url or url_file")),
    };
    let stream = stream(text, table.stream.as_ref())?.unwrap_or_else(|| common.clone());
    let connections = table.connections.unwrap_or(parallel);
    if connections == 0 {
        return Err(refused("a database with 0 connections cannot be used"));
    }
    let share = share(text, table.share.as_ref())?;
    let mut specs = BTreeMap::new();
    for (name, spec) in table.spec {
        check_name("specification", &name)?;
        let spec = SpecPlace {
            file: folder.join(spec.file),
            schema: spec.schema.map(|path| folder.join(path)),
            pseudo: spec.pseudo.map(|path| folder.join(path)),
        };
        specs.insert(name, spec);
    }
    Ok(DatabasePlace {
        url,
        tenant: table.tenant,
        stream,
        connections: connections.min(parallel),
        share,
        specs,
    })
}

fn share(text: &str, said: Option<&Spanned<f64>>) -> Result<Share, ConfigError> {
    let Some(said) = said else {
        return Ok(Share::WHOLE);
    };
    let share = Share::new(*said.get_ref());
    share.map_err(|error| refused(error.to_string()).at(text, said.span().start))
}

/// Resolves the file of a `SQLite` address against `folder`, as all other paths are.
pub(crate) fn absolute(url: Secret, folder: &Path) -> Secret {
    let Some(file) = url.strip_prefix("sqlite:") else {
        return url;
    };
    let file = folder.join(file.strip_prefix("//").unwrap_or(file));
    Secret::from(format!("sqlite:{}", file.display()))
}

/// Checks a name, which appears in paths of requests and in entries.
fn check_name(what: &str, name: &str) -> Result<(), ConfigError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(fits) {
        return Err(refused(format!(
            "the name of a {what} has 1 to {NAME_BYTES_MAX} letters, digits, and - _ ."
        )));
    }
    Ok(())
}

fn grants(
    text: &str,
    tables: Vec<Spanned<TokenTable>>,
    (databases, requests): (&BTreeMap<String, DatabasePlace>, usize),
) -> Result<Vec<Grant>, ConfigError> {
    let (mut names, mut digests) = (BTreeSet::new(), BTreeSet::new());
    let mut grants = Vec::with_capacity(tables.len());
    for table in tables {
        let place = table.span().start;
        let table = table.into_inner();
        check_name("token", &table.name).map_err(|error| error.at(text, place))?;
        if !names.insert(table.name.clone()) || !digests.insert(table.sha256) {
            let what = format!(
                "the name or the digest of token {} is there twice",
                table.name
            );
            return Err(refused(what).at(text, place));
        }
        let requests = table.requests.unwrap_or(requests);
        if requests == 0 {
            let what = format!("the token {} with 0 requests cannot be used", table.name);
            return Err(refused(what).at(text, place));
        }
        let known = |name: &str| databases.contains_key(name);
        let on = all_known(text, "database", table.databases, known)?;
        let known = |name: &str| operation::find(name).is_some();
        let operations = all_known(text, "operation", table.operations, known)?;
        grants.push(Grant {
            name: table.name,
            digest: table.sha256,
            databases: on,
            operations,
            permits: request_permits(requests),
        });
    }
    Ok(grants)
}

fn all_known(
    text: &str,
    what: &str,
    names: Vec<Spanned<String>>,
    is_known: impl Fn(&str) -> bool,
) -> Result<BTreeSet<String>, ConfigError> {
    let mut all = BTreeSet::new();
    for name in names {
        if !is_known(name.get_ref()) {
            let what = format!("there is no {what} {:?}", name.get_ref());
            return Err(refused(what).at(text, name.span().start));
        }
        all.insert(name.into_inner());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With an `answer_hours` that reached beyond the last time no answer was kept, and a request that was sent again was done again. It is
    /// kept until the last time.
    #[test]
    fn an_answer_is_kept_however_long_it_is_to_be_kept() {
        let now = Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap();
        for (answer_hours, until) in [
            (24, now.nanoseconds() + 24 * 3_600_000_000_000),
            (2_000_000, TIME_MAX),
            (LIMIT_MAX, TIME_MAX),
        ] {
            let limits = Limits {
                answer_hours,
                ..Limits::default()
            };
            assert_eq!(limits.kept_until(now).nanoseconds(), until);
        }
    }

    /// The address of a database stood in an error, and in the journal of the system with it.
    #[test]
    fn no_value_of_a_configuration_stands_in_an_error() {
        for text in [
            "[database]\napp = \"mysql://u:hunter2@h/d\"",
            "[database.app]\nconnections = \"hunter2\"",
            "[database.app]\nurl = 7\n\"hunter2",
        ] {
            let refused = Config::parse(text, Path::new("")).err().unwrap();
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }
}
