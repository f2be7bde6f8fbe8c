//! `probity demo`: the main job end to end, then a report of what was shown.

mod next;
mod tampering;
mod traffic;

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use probity_log::clock::{Clock as _, SystemClock};
use probity_log::verify::{Report, VerifyOptions, verify};
use probity_log::{Log, Options, StreamConfig, StreamName};
use probity_policy::Policy;
use probity_proxy::{Backend, Listen, LogSource, Proxy, ProxyConfig};
use probity_store::{Options as StoreOptions, Sync};

use self::tampering::tamper;
use self::traffic::Day;
use super::init::VerifierFile;
use super::proxy::{close_store, open_store, read_policy, subject_of};
use super::{export, open_reader};
use crate::args::{Demo, Export, ExportFormat, FilterChoice};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::Output;
use crate::output_file::OutputFile;

/// The moment at which changes of the day are on the disk.
const STORE_SYNC: Sync = Sync::EverySecond;
const ORIGIN: &str = "shop.example/audit";
/// The person whose history is shown.
const PERSON: &str = "7";

pub(crate) fn run(args: &Demo, environment: &Environment) -> Result<Status, Failure> {
    // The demo's log keeps its second copies beside it, whatever the environment names.
    let environment = &Environment {
        heads: None,
        ..environment.clone()
    };
    let places = LogLocation::make(args.dir.as_deref())?;
    let mut output = Output::new();
    output.line(&format!("made in    {}", places.folder.display()))?;
    record(&places, &mut output)?;
    let report = check(&places, &mut output)?;
    show_tampering(&places, &mut output)?;
    show_exports(&places, environment, &report, &mut output)?;
    show_person(&places, environment, &mut output)?;
    next::show(&places, environment, &mut output)?;
    output.flush()?;
    Ok(Status::Done)
}

/// The paths of the demo's files.
struct LogLocation {
    folder: PathBuf,
    log: PathBuf,
    key: PathBuf,
    store: PathBuf,
    policy: PathBuf,
    tampered: PathBuf,
}

impl LogLocation {
    fn make(said: Option<&Path>) -> Result<Self, Failure> {
        let folder = match said {
            Some(folder) => {
                check_empty(folder)?;
                folder.to_owned()
            }
            None => tempfile::Builder::new()
                .prefix("probity-demo-")
                .tempdir()
                .map_err(|error| Failure::new("cannot make a temporary folder").because(error))?
                .keep(),
        };
        Ok(Self {
            log: folder.join("audit"),
            key: folder.join("audit.key"),
            store: folder.join("store"),
            policy: folder.join("policy.toml"),
            tampered: folder.join("tampered"),
            folder,
        })
    }

    fn export(&self, format: ExportFormat, filter: FilterChoice) -> Export {
        Export {
            dir: self.log.clone(),
            format,
            output: None,
            overwrite: false,
            filter,
            spreadsheet_safe: false,
            damaged_too: false,
            with_place: false,
            key: Some(self.key.clone()),
        }
    }
}

fn check_empty(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| Failure::file("read", folder, error))?;
    if entries.next().is_some() {
        return Err(
            Failure::new(format!("{} holds files already", folder.display()))
                .remedy("choose a folder that does not exist yet, or leave --dir out"),
        );
    }
    Ok(())
}

/// Creates the log and sends the day's traffic through the proxy into it.
fn record(places: &LogLocation, output: &mut Output) -> Result<(), Failure> {
    let verifier = VerifierFile::begin(&places.log)?;
    let root = key_file::create_root(&places.key)?;
    let log = Log::create(
        &places.log,
        ORIGIN,
        &root,
        StreamConfig::default(),
        Options::default(),
    )?;
    verifier.finish(&places.log)?;
    write_new(&places.policy, traffic::POLICY)?;
    let policy = Arc::new(read_policy(Some(&places.policy))?);
    let options = StoreOptions {
        sync: STORE_SYNC,
        subject_of: subject_of(policy),
        ..StoreOptions::default()
    };
    let backend = open_store(&places.store, options)?;
    let clock = SystemClock::new();
    let began = clock.elapsed();
    let played = play(&log, backend.clone());
    let took = clock.elapsed().saturating_sub(began);
    let stored = close_store(backend, STORE_SYNC);
    log.close()?;
    let day = played?;
    stored?;
    output.line(&format!(
        "recorded   {} commands of {} clients through the proxy in {}, {} of them answered with an error",
        day.commands,
        day.clients,
        seconds(took),
        day.refused
    ))
}

/// Runs one day of traffic through the proxy in front of the store.
fn play(log: &Log, backend: Backend) -> Result<Day, Failure> {
    let policy = Policy::parse(traffic::POLICY)
        .map_err(|error| Failure::new("the demo's policy is refused").because(error))?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = ProxyConfig {
        policy: Arc::new(policy),
        ..ProxyConfig::new(Listen::Tcp(any_port), backend)
    };
    let source = Arc::new(LogSource::new(log.clone(), StreamName::default())?);
    let proxy = Proxy::start(&config, &source)
        .map_err(|error| Failure::new("the proxy did not start").because(error))?;
    // The store must be free once the proxy has stopped.
    drop(config);
    let played = proxy.addresses().first().copied().map(traffic::play);
    proxy.stop();
    played
        .ok_or_else(|| Failure::new("the proxy listens nowhere"))?
        .map_err(|error| Failure::new("the proxy did not answer").because(error))
}

fn check(places: &LogLocation, output: &mut Output) -> Result<Report, Failure> {
    let clock = SystemClock::new();
    let began = clock.elapsed();
    let report = verify(&places.log, &VerifyOptions::default())?;
    let took = clock.elapsed().saturating_sub(began);
    if let Some(fault) = report.faults.first() {
        return Err(Failure::new(format!(
            "the log just written is broken: {fault}"
        )));
    }
    let own = [StreamName::JOURNAL, StreamName::HEADS];
    let of = |is_own: bool| -> u64 {
        let streams = report.streams.iter();
        let wanted = streams.filter(|stream| own.contains(&stream.name.as_str()) == is_own);
        wanted.map(|stream| stream.entries).sum()
    };
    let bytes: u64 = report.streams.iter().map(|stream| stream.bytes).sum();
    output.line(&format!(
        "verified   intact, without any secret: {} entries and {} of the log's own in {bytes} bytes in {}",
        of(false),
        of(true),
        seconds(took)
    ))?;
    Ok(report)
}

fn show_tampering(places: &LogLocation, output: &mut Output) -> Result<(), Failure> {
    let tampered = tamper(&places.log, &places.tampered)
        .map_err(|error| Failure::file("make the copy", &places.tampered, error))?;
    let report = verify(&places.tampered, &VerifyOptions::default())?;
    let fault = report
        .faults
        .first()
        .ok_or_else(|| Failure::new("the changed byte was not found"))?;
    output.line(&format!(
        "tampered   one bit of byte {} of {}, in the copy {}",
        tampered.offset,
        tampered.file.display(),
        places.tampered.display()
    ))?;
    output.line(&format!("found      {fault}"))
}

fn show_exports(
    places: &LogLocation,
    environment: &Environment,
    report: &Report,
    output: &mut Output,
) -> Result<(), Failure> {
    let reader = open_reader(&places.log, Some(&places.key), environment)?;
    let default = report
        .streams
        .iter()
        .find(|stream| stream.name == StreamName::DEFAULT);
    for (format, name) in [
        (ExportFormat::Jsonl, "entries.jsonl"),
        (ExportFormat::Csv, "entries.csv"),
    ] {
        let path = places.folder.join(name);
        let args = places.export(format, FilterChoice::default());
        let counts = export::export_to_file(&args, &reader, &path)?;
        if default.is_none_or(|stream| stream.entries != counts.entries) {
            return Err(Failure::new(
                "the export and the verification count different entries",
            ));
        }
        output.line(&format!(
            "exported   {} entries to {}",
            counts.entries,
            path.display()
        ))?;
    }
    Ok(())
}

/// Exports the entries about one person, and shows the last of them.
fn show_person(
    places: &LogLocation,
    environment: &Environment,
    output: &mut Output,
) -> Result<(), Failure> {
    let reader = open_reader(&places.log, Some(&places.key), environment)?;
    let path = places.folder.join(format!("person-{PERSON}.jsonl"));
    let filter = FilterChoice {
        subject: Some(PERSON.to_owned()),
        ..FilterChoice::default()
    };
    let args = places.export(ExportFormat::Jsonl, filter);
    let counts = export::export_to_file(&args, &reader, &path)?;
    let text = fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, error))?;
    let last = text.lines().last();
    let last = last.ok_or_else(|| Failure::new(format!("nothing concerns person {PERSON}")))?;
    output.line(&format!(
        "person {PERSON}   {} entries in {}; the last:",
        counts.entries,
        path.display()
    ))?;
    output.line(&format!("  {last}"))
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let fail = |error| Failure::file("write", path, error);
    let mut file = OutputFile::create(path).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.finish().map_err(fail)
}

fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}
