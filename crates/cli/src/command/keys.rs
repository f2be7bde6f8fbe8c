//! `probity keys`: shows the keys of a log, and hands out their certificates.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use probity_format::limits::TIME_MAX;
use probity_format::note::VerifierKey;
use probity_log::reader::Reader;
use probity_log::verify::{FaultClass, Report, VerifyOptions, verify};
use probity_log::{LogError, LogLocation, SigningKeyState, key_chain};
use serde::Serialize;

use super::copies::reading_places;
use super::read_geometry;
use crate::args::{KeysChain, KeysStatus};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::{Output, counted};
use crate::output_file::{Existing, OutputFile};

/// The state of a chain without a fault.
const UNBROKEN: &str = "unbroken";
/// The state of a root key of another log.
const FOREIGN: &str = "does not open the log";
/// The state of a file with the right witness key.
const WITNESS_NAMED: &str = "the key that probity.toml names";

#[derive(Serialize)]
struct KeysDocument {
    status: u8,
    origin: String,
    fingerprint: String,
    verifier_key: String,
    /// The key certified last; `None` where the chain is broken or known in part.
    newest_key: Option<String>,
    /// `None` in a log of version 2.
    witness_key: Option<String>,
    signing_keys: u64,
    chain: &'static str,
    /// The state of the key in `keys/` by the journal; `None` where the root key does not open it.
    signing_key: Option<String>,
    /// The state of `keys/witness.key`; `None` where it is there and the root key does not open it,
    /// and in a log of version 2.
    witness_key_file: Option<String>,
    root_key_file: String,
    root_key: &'static str,
    root_key_open_to_others: bool,
}

pub(crate) fn status(args: &KeysStatus, environment: &Environment) -> Result<Status, Failure> {
    let geometry = read_geometry(&args.dir)?;
    reading_places(&args.dir, None, environment)?;
    // The journal holds the chain of keys; no frame of another stream is as late as this.
    let options = VerifyOptions {
        from: Some(TIME_MAX),
        heads: environment.heads.clone(),
        ..VerifyOptions::default()
    };
    let report = verify(&args.dir, &options)?;
    let chain = said_of_chain(&report);
    let path = environment.key_path(args.key.as_deref(), &args.dir);
    let (root_key, found) = root_key(args, &path)?;
    let is_amiss = found.as_ref().is_some_and(KeysFound::is_amiss);
    let (signing_key, witness) = match found {
        Some(KeysFound { signer, witness }) => (Some(signer.said()), witness),
        None => (None, witness_missing(args)?),
    };
    let mut fingerprint = String::new();
    for byte in geometry.fingerprint() {
        write!(fingerprint, "{byte:02x}")
            .map_err(|error| Failure::new("cannot write").because(error))?;
    }
    let status = if chain != UNBROKEN || is_amiss {
        Status::Broken
    } else if args.key.is_some() && root_key == FOREIGN {
        // Who names a key asks whether it is this log's.
        Status::Failed
    } else {
        Status::Done
    };
    let document = KeysDocument {
        status: status.code(),
        origin: geometry.origin().to_owned(),
        fingerprint,
        verifier_key: geometry.anchor().encode(),
        newest_key: (chain == UNBROKEN).then_some(report.newest),
        witness_key: geometry.witness().map(VerifierKey::encode),
        signing_keys: report.keys,
        chain,
        root_key,
        signing_key,
        witness_key_file: witness
            .filter(|_| geometry.witness().is_some())
            .map(Signer::said),
        root_key_open_to_others: key_file::is_open_to_others(&path),
        root_key_file: path.display().to_string(),
    };
    let mut output = Output::new();
    if args.json {
        output.json(&document)?;
    } else {
        print(&document, &mut output)?;
    }
    output.flush()?;
    Ok(status)
}

/// Writes the certificates of the log.
pub(crate) fn chain(args: &KeysChain, environment: &Environment) -> Result<Status, Failure> {
    read_geometry(&args.dir)?;
    let chain = key_chain(&reading_places(&args.dir, None, environment)?)?;
    let fail = |error| Failure::file("write", &args.output, error);
    let mut file = OutputFile::begin(&args.output, Existing::of(args.overwrite))
        .and_then(OutputFile::for_everyone)
        .map_err(fail)?;
    file.write_all(&chain.encode()).map_err(fail)?;
    file.finish().map_err(fail)?;
    let mut output = Output::after("the certificates were written");
    let number = u64::try_from(chain.len()).unwrap_or(u64::MAX);
    output.line(&format!(
        "{} of {} in {}",
        counted(number, "certificate", "certificates"),
        chain.log(),
        args.output.display()
    ))?;
    output.flush()?;
    Ok(Status::Done)
}

/// Returns the state of the chain of keys, which stands in the journal.
fn said_of_chain(report: &Report) -> &'static str {
    let mut of_journal = report.faults.iter().filter(|fault| {
        fault.is_of_journal()
            && fault.class != FaultClass::Unknown
            && !fault.place.starts_with("subjects/")
    });
    match of_journal.next() {
        _ if of_class(report, FaultClass::KeyChain) => "broken",
        Some(_) => "known in part, because the journal is damaged: see probity verify",
        None => UNBROKEN,
    }
}

fn of_class(report: &Report, class: FaultClass) -> bool {
    report.faults.iter().any(|fault| fault.class == class)
}

/// The keys in `keys/` that the root key opens.
struct KeysFound {
    signer: Signer,
    /// `None` in a log of version 2.
    witness: Option<Signer>,
}

impl KeysFound {
    fn is_amiss(&self) -> bool {
        let keys = [Some(&self.signer), self.witness.as_ref()];
        let mut keys = keys.into_iter().flatten();
        keys.any(|key| matches!(key, Signer::Amiss(_)))
    }
}

/// Returns the state of the root key at `path` for this log, and of the keys that it opens.
fn root_key(args: &KeysStatus, path: &Path) -> Result<(&'static str, Option<KeysFound>), Failure> {
    if args.key.is_none() && !path.exists() {
        return Ok(("not here", None));
    }
    let places = LogLocation::new(&args.dir, None);
    match Reader::open_damaged(&places, &key_file::read_root_shown(path)?) {
        Ok(reader) => {
            let (signer, witness) = (signing_key(&reader)?, Some(witness_key(&reader)?));
            Ok(("opens the log", Some(KeysFound { signer, witness })))
        }
        Err(LogError::WrongKey) => Ok((FOREIGN, None)),
        Err(error) => Err(error.into()),
    }
}

/// The state of a key that signs, in words.
enum Signer {
    Known(&'static str),
    /// A key that does not sign for the log, or none.
    Amiss(String),
}

impl Signer {
    fn said(self) -> String {
        match self {
            Self::Known(said) => said.to_owned(),
            Self::Amiss(said) => said,
        }
    }
}

fn signing_key(reader: &Reader) -> Result<Signer, Failure> {
    let state = match reader.signing_key() {
        Err(LogError::Broken { .. }) => {
            return Ok(Signer::Known("unknown, because the journal is damaged"));
        }
        state => state?,
    };
    Ok(match (state.fault(), state) {
        (Some(fault), _) => Signer::Amiss(fault),
        (None, SigningKeyState::Succeeded) => Signer::Known(
            "the one before: its successor is certified and signs from the next opening on",
        ),
        _ => Signer::Known("the one certified last"),
    })
}

fn witness_key(reader: &Reader) -> Result<Signer, Failure> {
    let fault = reader.witness_fault()?;
    Ok(fault.map_or(Signer::Known(WITNESS_NAMED), Signer::Amiss))
}

/// Returns the fault of a witness key that is missing, which shows without the root key.
fn witness_missing(args: &KeysStatus) -> Result<Option<Signer>, Failure> {
    let missing = Reader::witness_missing(&LogLocation::new(&args.dir, None))?;
    Ok(missing.map(Signer::Amiss))
}

fn print(document: &KeysDocument, output: &mut Output) -> Result<(), Failure> {
    let others = if document.root_key_open_to_others {
        "; others can read it, restrict it with chmod 600"
    } else {
        ""
    };
    let rows = [
        ("log", document.origin.clone()),
        ("fingerprint", document.fingerprint.clone()),
        ("verifier key", document.verifier_key.clone()),
        (
            "newest key",
            document.newest_key.clone().unwrap_or_default(),
        ),
        (
            "witness key",
            document.witness_key.clone().unwrap_or_default(),
        ),
        (
            "signing keys",
            format!("{}, chain {}", document.signing_keys, document.chain),
        ),
        (
            "signs now",
            document
                .signing_key
                .clone()
                .unwrap_or_else(|| "unknown without the root key".to_owned()),
        ),
        ("witness file", witness_file(document)),
        (
            "root key",
            format!("{}: {}{others}", document.root_key_file, document.root_key),
        ),
    ];
    rows.iter()
        .filter(|(_, value)| !value.is_empty())
        .try_for_each(|(name, value)| output.line(&format!("{name:<13} {value}")))
}

/// Returns the state of `keys/witness.key` in words; nothing in a log that has none.
fn witness_file(document: &KeysDocument) -> String {
    match (&document.witness_key, &document.witness_key_file) {
        (None, _) => String::new(),
        (Some(_), None) => "keys/witness.key: unknown without the root key".to_owned(),
        (Some(_), Some(said)) => format!("keys/witness.key: {said}"),
    }
}
