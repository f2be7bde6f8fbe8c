//! `probity upgrade`: continues a log of an older version as a new one, which names its last signed
//! heads.

use std::path::Path;

use probity_format::stream::Proofs;
use probity_log::verify::{Report, VerifyOptions, verify};
use probity_log::{
    Continued, Log, LogError, LogLocation, Older, Options, RootKey, StreamConfig, StreamName,
};
use serde::Serialize;

use super::copies::{reading_places, warn_of_none};
use super::init::{VerifierFile, check_place, check_vacant, not_vacant};
use super::verify::status_of;
use super::{check_is_log, read_geometry};
use crate::args::Upgrade;
use crate::config::{Environment, key_path_beside, verifier_path_beside};
use crate::failure::{Failure, Status};
use crate::key_file::{self, Key};
use crate::output::{Output, counted};
use crate::shell::quoted;

/// The document about an upgrade.
#[derive(Serialize)]
struct Upgraded {
    old: String,
    log: String,
    origin: String,
    heads: usize,
    streams: Vec<String>,
    key_file: String,
    verifier_key: String,
    verifier_key_file: String,
}

pub(crate) fn run(args: &Upgrade, environment: &Environment) -> Result<Status, Failure> {
    check_is_log(&args.old)?;
    // The copies that the environment names are those of the new log.
    let places = reading_places(&args.old, args.heads.as_ref(), &Environment::default())?;
    // Checked before anything is read at length: a log of the newest version needs no upgrade.
    Older::read(&places).map_err(|error| match error {
        LogError::Option { reason, .. } => Failure::new(format!("{} {reason}", args.old.display()))
            .remedy("append to it: only a log of an older format is upgraded"),
        error => error.into(),
    })?;
    let report = verify(&args.old, &verify_options(args)?)
        .map_err(|error| Failure::from(error).root_key_option("--key FILE"))?;
    if let Some(refused) = refusal(args, &report) {
        return Err(refused);
    }
    warn_of_none(&places)?;
    let older = Older::read(&places)?;
    let streams = streams(&older)?;
    let upgraded = upgrade(args, environment, &older.continued, &streams)?;
    let mut output = Output::after("the new log was created");
    if args.json {
        output.json(&upgraded)?;
    } else {
        print(&upgraded, &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn verify_options(args: &Upgrade) -> Result<VerifyOptions, Failure> {
    let mut options = VerifyOptions {
        heads: args.heads.clone(),
        ..VerifyOptions::default()
    };
    match args.key.as_deref().map(key_file::read).transpose()? {
        Some(Key::Root(root)) => options.root = Some(root),
        Some(Key::Verifier(known)) => options.known_key = Some(known),
        None => {}
    }
    Ok(options)
}

/// Returns the reason why the older log cannot be continued as it is.
fn refusal(args: &Upgrade, report: &Report) -> Option<Failure> {
    let old = quoted(&args.old);
    if status_of(report) == Status::Broken {
        let first = report.faults.first().map(ToString::to_string);
        let said = format!("the older log is broken: {}", first.unwrap_or_default());
        let remedy = format!("see what is wrong with: probity verify {old}");
        return Some(Failure::broken(said).remedy(remedy));
    }
    let unsigned = report
        .streams
        .iter()
        .find(|stream| stream.unpublished_frames > 0)?;
    let said = format!(
        "stream {} of the older log has {} that no checkpoint covers",
        unsigned.name,
        counted(unsigned.unpublished_frames, "frame", "frames")
    );
    // The release that wrote it signs whatever stands there, so it must stay closed until the
    // frames' origin is known.
    let segments = format!("streams/{}/segments", unsigned.name);
    let remedy = format!(
        "nobody signed for them, and anybody may have written them: copy the folder of the older log aside, and put {segments} back from a copy that ends with the checkpoint; only where you know that this log's own writer left them, as its crash does, open and close the log once with the release that wrote it, which signs for whatever stands there"
    );
    Some(Failure::new(said).remedy(remedy))
}

/// Returns the streams of the new log. Whole frames can no longer be proved alone, sections can,
/// and no stream names a compressor.
fn streams(older: &Older) -> Result<Vec<(StreamName, StreamConfig)>, Failure> {
    let mut streams = older.streams.clone();
    for (name, config) in &mut streams {
        if name.as_str() == StreamName::HEADS {
            let said = "the older log has a stream named heads, which is the new log's own";
            return Err(Failure::new(said).remedy(
                "begin a new log with probity init, and export the entries of the older one to it",
            ));
        }
        if config.proofs == Proofs::Frame {
            config.proofs = Proofs::Section;
        }
        config.v2 = None;
    }
    Ok(streams)
}

fn upgrade(
    args: &Upgrade,
    environment: &Environment,
    continued: &Continued,
    streams: &[(StreamName, StreamConfig)],
) -> Result<Upgraded, Failure> {
    let new = args.new.as_path();
    let said = args.new_key.as_deref().or(environment.key_file.as_deref());
    let key_path = said.map_or_else(|| key_path_beside(new), Path::to_owned);
    environment.check_heads(new)?;
    let options = environment.log_options();
    check_place(new, &options)?;
    if !Log::exists(new)? {
        check_vacant(new, &options)?;
    }
    let verifier_path = verifier_path_beside(new);
    // A run that a crash ended leaves the log without this file, or without some streams.
    let verifier = (!verifier_path.exists())
        .then(|| VerifierFile::begin(new))
        .transpose()?;
    let root = if key_path.exists() {
        key_file::read_root(&key_path)?
    } else {
        check_unbegun(new)?;
        key_file::create_root(&key_path)?
    };
    if !Log::exists(new)? {
        let origin = args.origin.as_deref().unwrap_or_else(|| continued.origin());
        create(continued, new, origin, &root, streams, options.clone())?;
    }
    check_continues(args, continued, &root)?;
    let log = Log::open(new, &root, options)?;
    for (name, config) in streams {
        log.create_stream(name, *config)?;
    }
    log.close()?;
    if let Some(verifier) = verifier {
        verifier.finish(new)?;
    }
    Ok(Upgraded {
        old: args.old.display().to_string(),
        log: new.display().to_string(),
        origin: log.origin().to_owned(),
        heads: continued.heads().len(),
        streams: streams.iter().map(|(name, _)| name.to_string()).collect(),
        key_file: key_path.display().to_string(),
        verifier_key: read_geometry(new)?.anchor().encode(),
        verifier_key_file: verifier_path.display().to_string(),
    })
}

/// Refuses a new root key for an existing log, which it would not open.
fn check_unbegun(new: &Path) -> Result<(), Failure> {
    if Log::exists(new)? {
        let path = new.display().to_string();
        return Err(LogError::Exists { path }.into());
    }
    Ok(())
}

fn create(
    continued: &Continued,
    new: &Path,
    origin: &str,
    root: &RootKey,
    streams: &[(StreamName, StreamConfig)],
    options: Options,
) -> Result<(), Failure> {
    let default = StreamName::default();
    let config = streams.iter().find(|(name, _)| *name == default);
    let config = config.map_or_else(StreamConfig::default, |(_, config)| *config);
    let created = Log::create_after(continued, new, origin, root, config, options);
    created.and_then(|log| log.close()).map_err(not_vacant)
}

/// Refuses a log that another upgrade, or none, began. An upgrade that ended early is gone on with,
/// also where nothing is signed for yet.
fn check_continues(args: &Upgrade, continued: &Continued, root: &RootKey) -> Result<(), Failure> {
    let named = Continued::named_by_writer(&LogLocation::new(&args.new, None), root)?;
    if named.as_ref() == Some(continued) {
        return Ok(());
    }
    let said = match named {
        None => "is a log that continues no other",
        Some(_) => "continues another log, or another state of this one",
    };
    let said = format!("{} {said}", args.new.display());
    Err(Failure::new(said).remedy("choose a folder that does not exist yet"))
}

fn print(upgraded: &Upgraded, output: &mut Output) -> Result<(), Failure> {
    let Upgraded {
        old,
        log,
        origin,
        heads,
        streams,
        key_file,
        verifier_key,
        verifier_key_file,
    } = upgraded;
    let heads = counted(u64::try_from(*heads).unwrap_or_default(), "head", "heads");
    output.line(&format!("log {log}, named {origin}, continues {old}"))?;
    output.line(&format!(
        "  its journal names {heads} of the older log, which is unchanged: keep both"
    ))?;
    output.line(&format!("streams: {}", streams.join(", ")))?;
    output.line(&format!("root key: {key_file}"))?;
    output.line(&format!("verifier key: {verifier_key_file}"))?;
    output.line(&format!("  {verifier_key}"))?;
    output.line(&format!(
        "both are checked with: probity verify {} --continues {}",
        quoted(Path::new(log)),
        quoted(Path::new(old))
    ))
}
