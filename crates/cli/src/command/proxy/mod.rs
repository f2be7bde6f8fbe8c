//! `probity proxy`: records the operations of Redis clients on their way to the server.

mod serving;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probity_log::{Durability, Log, Options, StreamConfig};
use probity_policy::Policy;
use probity_proxy::{
    Backend, Keeper, Keeping, Listen, LogSource, MissedFile, OnLogFailure, Password, ProxyConfig,
    Release, Reopen, Upstream,
};
use probity_store::limits::WAITING_BYTES_MAX;
use probity_store::{Options as StoreOptions, Store, SubjectOf, Sync};
use zeroize::Zeroizing;

pub(super) use self::serving::close_store;
use self::serving::{both, ended, serve};
use super::init::{VerifierFile, check_place, check_vacant};
use super::stop_time::StopTime;
use super::store::not_opened;
use super::{open_log_with, open_more_files, tell_of_repairs};
use crate::args::Proxy as ProxyArgs;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::one_line::first_line;
use crate::output::note;
use crate::output_guard::resolved;

/// The longest policy or password file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &ProxyArgs, environment: &Environment) -> Result<Status, Failure> {
    check_apart(args)?;
    let place = Place::choose(args, environment)?;
    let config = configure(args)?;
    open_more_files();
    // A path that is no folder holds no log; creating one there reports the remedy.
    if args.init && !(args.log.is_dir() && Log::exists(&args.log)?) {
        create_log(args, environment)?;
    }
    let options = Options {
        durability: args.durability.into(),
        ..args.key_interval.applied(environment.log_options())
    };
    let again = reopening(args, environment, options.clone());
    let log = open_log_with(&args.log, args.key.as_deref(), environment, options)?;
    let keeping = keeping(args, &log, again)?;
    let source = Arc::new(LogSource::new(log, args.stream.clone())?);
    let keeper = Keeper::start(&source, keeping)
        .map_err(|error| Failure::new("cannot start a thread").because(error))?;
    let stop = StopTime::default();
    let served = place.open(args).and_then(|backend| {
        let told = serve(args, config(backend.clone()), &backend, (&source, &stop));
        stop.close_store(backend, store_sync(args)).and(told)
    });
    // Closing makes everything durable that the workers appended.
    both(ended(args, keeper.finish(stop.left())), served)?;
    note("stopped; everything recorded is durable");
    Ok(Status::Done)
}

/// Refuses one folder for the log and the store, before either is made there.
fn check_apart(args: &ProxyArgs) -> Result<(), Failure> {
    let Some(store) = &args.store else {
        return Ok(());
    };
    let (log, store) = (resolved(&args.log), resolved(store));
    if log.starts_with(&store) || store.starts_with(&log) {
        return Err(Failure::usage(format!(
            "the log and the store need a folder each, and neither lies in the other: {} and {}",
            log.display(),
            store.display()
        ))
        .remedy("name two folders, like --log audit --store data"));
    }
    Ok(())
}

/// Returns a function that opens the log again within this process.
fn reopening(args: &ProxyArgs, environment: &Environment, options: Options) -> Reopen {
    let dir = args.log.clone();
    let key = environment.key_path(args.key.as_deref(), &dir);
    Box::new(move || {
        let root = key_file::read_root(&key).map_err(|failure| failure.to_string())?;
        let log = Log::open(&dir, &root, options.clone())?;
        tell_of_repairs(&log);
        Ok(log)
    })
}

/// Returns how a failing log is treated.
fn keeping(args: &ProxyArgs, log: &Log, again: Reopen) -> Result<Keeping, Failure> {
    let strict = Durability::from(args.durability) == Durability::Strict;
    let forward = args.forward_on_log_failure;
    let file = MissedFile::prepare(log, &args.log)
        .map_err(|error| Failure::file("write", &args.log.join("missed"), error))?;
    Ok(Keeping {
        reopen: forward.then_some(again),
        file,
        // Only strict durability delays a reply until its entries are durable.
        handed_in: if forward || !strict {
            OnLogFailure::Forward
        } else {
            OnLogFailure::Refuse
        },
        tell: Box::new(note),
    })
}

/// Returns when a change is on the disk of the embedded store.
fn store_sync(args: &ProxyArgs) -> Sync {
    match args.store_sync {
        Some(choice) => choice.into(),
        None if Durability::from(args.durability) == Durability::Strict => Sync::Always,
        None => Sync::EverySecond,
    }
}

/// The backend as the arguments name it, before anything is opened.
enum Place {
    Upstream(Upstream),
    Store(PathBuf),
}

impl Place {
    fn choose(args: &ProxyArgs, environment: &Environment) -> Result<Self, Failure> {
        match &args.store {
            Some(folder) => Ok(Self::Store(folder.clone())),
            None => upstream(args, environment).map(Self::Upstream),
        }
    }

    fn open(self, args: &ProxyArgs) -> Result<Backend, Failure> {
        let folder = match self {
            Self::Upstream(upstream) => return Ok(Backend::Upstream(upstream)),
            Self::Store(folder) => folder,
        };
        warn_of_open_addresses(&args.listen);
        let policy = Arc::new(read_policy(args.policy.as_deref())?);
        let waiting = args.store_waiting_bytes_max;
        let options = StoreOptions {
            sync: store_sync(args),
            key_file: args.store_key.clone(),
            subject_of: subject_of(policy),
            waiting_bytes_max: waiting.unwrap_or(WAITING_BYTES_MAX),
            ..StoreOptions::default()
        };
        let key_path = key_path(&folder, &options);
        let has_key = key_path.exists();
        let backend = open_store(&folder, options)?;
        if !has_key {
            note(&format!(
                "the store in {} is sealed under {}; back up that key file, apart from the store",
                folder.display(),
                key_path.display()
            ));
        }
        Ok(backend)
    }
}

/// Warns of addresses that other machines reach, because the embedded store asks nobody for a
/// password.
fn warn_of_open_addresses(places: &[String]) {
    for place in places {
        if let Ok(Listen::Tcp(address)) = parse_listen(place)
            && !address.ip().is_loopback()
        {
            note(&format!(
                "warning: whoever reaches {address} can read and change everything, for the embedded store knows no passwords; \
                 listen on 127.0.0.1 or unix:/PATH, or let a firewall keep others away"
            ));
        }
    }
}

/// The remedy for a store on a full disk.
pub(super) const STORE_FULL: &str =
    "make room on the disk, then run the same command again; nothing stored is lost";

/// Returns the path of the key file of a store.
fn key_path(folder: &Path, options: &StoreOptions) -> PathBuf {
    let named = options.key_file.clone();
    named.unwrap_or_else(|| Store::key_file(folder))
}

/// Opens an embedded store as the backend of a proxy.
pub(super) fn open_store(folder: &Path, options: StoreOptions) -> Result<Backend, Failure> {
    let key_path = key_path(folder, &options);
    let store = Store::open(folder, options)
        .map_err(|error| not_opened(Failure::new("the store was not opened"), folder, error))?;
    warn_of_old_files(&store);
    warn_of_unopened_blocks(&store, folder);
    key_file::warn_if_open(&key_path, "the key of the store,");
    Ok(Backend::Store(Arc::new(store)))
}

/// Warns of old files of a store that keep their content under another name.
pub(super) fn warn_of_old_files(store: &Store) {
    for path in store.kept_elsewhere() {
        note(&format!(
            "warning: {} was removed and not overwritten, for it is a link or has another name: under that name its content stays; remove that name too, unless it is your backup",
            path.display()
        ));
    }
}

/// Warns of a store of an older format in which blocks did not open after a crash.
pub(super) fn warn_of_unopened_blocks(store: &Store, folder: &Path) {
    let blocks = store.unopened_blocks();
    if blocks > 0 {
        note(&format!(
            "warning: {blocks} blocks of the store in {} did not open when it was repaired after a crash: torn by a power cut, or damaged; the last change before the crash may be missing",
            folder.display()
        ));
    }
}

/// Joins names so that no other names give the same bytes. They stand one per line, as stores have known them; names with
/// which that would not be unique stand behind a line feed, each with its length before it.
fn joined(names: &[&[u8]]) -> Vec<u8> {
    let is_joint = names.len() > 1 && names.iter().any(|name| name.is_empty());
    if !is_joint && !names.iter().any(|name| name.contains(&b'\n')) {
        return names.join(&b'\n');
    }
    let mut bytes = vec![b'\n'];
    for name in names {
        bytes.extend_from_slice(&(name.len() as u64).to_be_bytes());
        bytes.extend_from_slice(name);
    }
    bytes
}

/// Returns a function that gives the subjects of a store's key under the policy.
pub(super) fn subject_of(policy: Arc<Policy>) -> SubjectOf {
    SubjectOf::new(move |key| {
        let mut ranges = Vec::new();
        policy.classify(key, &mut ranges);
        let names = ranges.into_iter().filter_map(|range| key.get(range));
        let names: Vec<&[u8]> = names.collect();
        (!names.is_empty()).then(|| joined(&names))
    })
}

fn create_log(args: &ProxyArgs, environment: &Environment) -> Result<(), Failure> {
    let path = environment.key_path(args.key.as_deref(), &args.log);
    environment.check_heads(&args.log)?;
    let options = environment.log_options();
    check_place(&args.log, &options)?;
    check_vacant(&args.log, &options)?;
    let verifier = VerifierFile::begin(&args.log)?;
    let root = if path.exists() {
        key_file::read_root(&path)?
    } else {
        key_file::create_root(&path)?
    };
    let name = args
        .log
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("probity");
    Log::create(&args.log, name, &root, StreamConfig::default(), options)?.close()?;
    let (_, verifier) = verifier.finish(&args.log)?;
    note(&format!(
        "log created in {}; back up its root key {}, and hand out its verifier key {}",
        args.log.display(),
        path.display(),
        verifier.display()
    ));
    Ok(())
}

/// Returns a function that completes the configuration with the backend, which is opened last.
fn configure(args: &ProxyArgs) -> Result<impl FnOnce(Backend) -> ProxyConfig, Failure> {
    let listen: Vec<Listen> = args
        .listen
        .iter()
        .map(|place| parse_listen(place))
        .collect::<Result<_, _>>()?;
    let first = listen
        .first()
        .cloned()
        .ok_or_else(|| Failure::usage("no place to listen on"))?;
    let strict = Durability::from(args.durability) == Durability::Strict;
    let forward = args.forward_on_log_failure;
    let (connect_timeout, idle_timeout) = (args.connect_timeout, args.idle_timeout);
    let clients_max = args.clients_max;
    let policy = Arc::new(read_policy(args.policy.as_deref())?);
    if !policy.names_people() {
        note(
            "warning: no pattern of the policy has a {subject}, so no entry says whom a key is about; a policy file replaces the built-in patterns user:{subject} and user:{subject}:*",
        );
    }
    Ok(move |backend| ProxyConfig {
        listen,
        policy,
        release: if strict {
            Release::Durable
        } else {
            Release::Appended
        },
        on_log_failure: if forward {
            OnLogFailure::Forward
        } else {
            OnLogFailure::Refuse
        },
        clients_max,
        connect_timeout,
        idle_timeout,
        ..ProxyConfig::new(first, backend)
    })
}

fn parse_listen(place: &str) -> Result<Listen, Failure> {
    if let Some(path) = place.strip_prefix("unix:") {
        // Known before a log and its keys are made.
        let found = Path::new(path).symlink_metadata();
        if found.is_ok_and(|found| !found.file_type().is_socket()) {
            return Err(Failure::new(format!(
                "cannot listen on {place}: what is there is no socket"
            ))
            .remedy("name another path, or move away what is there"));
        }
        return Ok(Listen::Unix(path.into()));
    }
    place.parse().map(Listen::Tcp).map_err(|_reason| {
        Failure::usage(format!("{place:?} is no place to listen on"))
            .remedy("write --listen 127.0.0.1:6380 or --listen unix:/PATH")
    })
}

fn upstream(args: &ProxyArgs, environment: &Environment) -> Result<Upstream, Failure> {
    let mut upstream = parse_upstream(args.upstream.as_deref(), environment)?;
    if let Some(path) = &args.upstream_password_file {
        key_file::warn_if_open(path, "the password in");
        upstream.password = Some(Arc::new(read_password(path)?));
    }
    if upstream.user.is_some() && upstream.password.is_none() {
        return Err(
            Failure::usage("the upstream names a user and no password").remedy(
                "write redis://USER:PASSWORD@HOST:PORT into PROBITY_UPSTREAM, or give the proxy an --upstream-password-file as well",
            ),
        );
    }
    Ok(upstream)
}

/// Reads the password on the first line of a file.
fn read_password(path: &Path) -> Result<Password, Failure> {
    let text = read_bounded(path)?;
    let line = first_line(text.as_bytes());
    if line.is_empty() {
        return Err(
            Failure::new(format!("{} holds no password", path.display()))
                .remedy("write the password of the server behind on its first line"),
        );
    }
    Ok(Password::new(Zeroizing::new(line.to_vec())))
}

/// Parses the upstream server from the argument, or else from the environment.
fn parse_upstream(said: Option<&str>, environment: &Environment) -> Result<Upstream, Failure> {
    let url = said.or_else(|| environment.upstream.as_deref().map(String::as_str)).ok_or_else(|| {
        Failure::usage("no server is named")
            .remedy("write --store DIR for an embedded store, --upstream redis://HOST:PORT, or set PROBITY_UPSTREAM")
    })?;
    let upstream = Upstream::parse(url).map_err(|error| {
        Failure::usage(format!("the upstream is refused: {}", error.reason)).remedy(error.remedy)
    })?;
    if said.is_some() && upstream.password.is_some() {
        return Err(Failure::usage(
            "the upstream's password stands in the arguments, for all to see",
        )
        .remedy("set PROBITY_UPSTREAM, or give the proxy a --upstream-password-file"));
    }
    Ok(upstream)
}

pub(super) fn read_policy(path: Option<&Path>) -> Result<Policy, Failure> {
    let Some(path) = path else {
        return Ok(Policy::builtin());
    };
    Policy::parse(&read_bounded(path)?).map_err(|error| {
        let remedy = error.remedy.clone();
        Failure::new(format!("{} is refused", path.display()))
            .because(error)
            .remedy(remedy)
    })
}

/// Reads the text of a file, which may be a password.
fn read_bounded(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let failed = |error| Failure::file("read", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} is longer than {FILE_BYTES_MAX} bytes",
            path.display()
        )));
    }
    // The text never moves in memory; one byte more, so that the end is seen without growing.
    let room = usize::try_from(length).unwrap_or_default() + 1;
    let mut text = Zeroizing::new(String::with_capacity(room));
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// One person whose name had a line feed got the key of two others.
    #[test]
    fn no_name_of_one_person_is_that_of_two() {
        let parts: [&[u8]; 7] = [
            b"",
            b"a",
            b"b",
            b"\n",
            b"a\nb",
            b"\n\0\0\0\0\0\0\0\x01a",
            b"\nb",
        ];
        let mut seen = BTreeMap::new();
        let mut groups: Vec<Vec<&[u8]>> = parts.iter().map(|part| vec![*part]).collect();
        for (one, other) in parts
            .iter()
            .flat_map(|one| parts.map(|other| (*one, other)))
        {
            groups.push(vec![one, other]);
            groups.extend(parts.map(|third| vec![one, other, third]));
        }
        for names in groups {
            let before = seen.insert(joined(&names), names.clone());
            assert_eq!(before, None, "{names:?}");
        }
        // Stores know these names.
        assert_eq!(joined(&[b"anna"]), b"anna");
        assert_eq!(joined(&[b"anna", b"bert"]), b"anna\nbert");
    }
}
