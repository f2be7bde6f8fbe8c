//! `pocket sign`, `extract` and `check`: evidence that others check without the database's key, in
//! files.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use probity_format::note::VerifierKey;
use probity_log::clock::{Clock as _, SystemClock};
use probity_vault::{
    Draft, Evidence, EvidenceKind, Moment, VaultError, check_statement, draft_digest,
    draft_extract, steady,
};
use serde::Serialize;

use super::Place;
use super::vault_failure::{broken, failure_of, not_evidence};
use crate::args::{PocketCheck, PocketExtract, PocketSign, PocketVerify};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::input_file::InputFile;
use crate::key_file;
use crate::output::{Output, counted};
use crate::output_file::{Existing, OutputFile, check_output};

/// The size limit of files that are read back, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize)]
struct Signed {
    file: PathBuf,
    key: String,
    reorganizations: u32,
    state: u64,
    time: String,
    count: u64,
    root: String,
}

pub(super) fn sign(args: &PocketSign, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let out = args.output.clone();
    let out = out.unwrap_or_else(|| place.beside("digest"));
    let existing = match &args.output {
        // The default digest, of the newest part, replaces an older digest.
        None if is_digest(&out) => Existing::Replace,
        _ => Existing::of(args.overwrite),
    };
    let key_file = args.key_out.clone().unwrap_or_else(|| place.beside("vkey"));
    // A mistake of the caller is told before the chip is read from one end to the other.
    check_places((&out, existing), &key_file)?;
    let mut vault = place.open_on(steady(place.chip(true)?))?;
    let draft = draft_digest(&mut vault, SystemClock::new().now());
    let reorganizations = vault.instance();
    place.close(vault)?;
    let draft = draft.map_err(|error| place.vault_refused(error))?;
    write(&draft, (&out, existing), &key_file)?;
    report(args.json, out, &draft, reorganizations, "page")
}

pub(super) fn extract(args: &PocketExtract, environment: &Environment) -> Result<Status, Failure> {
    check_statement(&args.sql).map_err(|error| Failure::usage(error.to_string()))?;
    let place = Place::of(&args.pocket, environment);
    let existing = Existing::of(args.overwrite);
    let key_file = args.key_out.clone().unwrap_or_else(|| place.beside("vkey"));
    check_places((&args.output, existing), &key_file)?;
    let mut vault = place.open(true)?;
    let draft = draft_extract(&mut vault, &args.sql, SystemClock::new().now());
    let reorganizations = vault.instance();
    place.close(vault)?;
    let draft = draft.map_err(|error| place.vault_refused(error))?;
    write(&draft, (&args.output, existing), &key_file)?;
    report(
        args.json,
        args.output.clone(),
        &draft,
        reorganizations,
        "row",
    )
}

#[derive(Serialize)]
struct Checked<'a> {
    file: &'a Path,
    intact: bool,
    statement: &'a str,
    rows: u64,
    /// `None` where an earlier version signed without it.
    state: Option<u64>,
    time: Option<&'a str>,
}

/// Runs `pocket check`, which needs only an extract and a verifier key.
pub(super) fn check(args: &PocketCheck) -> Result<Status, Failure> {
    let evidence = read_signed(&args.file, &args.key, "--key VKEY")?;
    let extract = evidence
        .extract()
        .map_err(|error| refused(&args.file, error))?;
    let (statement, moment) = (extract.statement, extract.moment);
    let mut output = Output::new();
    if args.json {
        output.json(&Checked {
            file: &args.file,
            intact: true,
            statement,
            rows: extract.rows,
            state: moment.as_ref().map(|moment| moment.state),
            time: moment.as_ref().map(|moment| moment.time.as_str()),
        })?;
    } else {
        let rows = counted(extract.rows, "row is", "rows are");
        output.line(&format!("intact: {rows} what was signed for: {statement}"))?;
        output.line(&match &moment {
            Some(Moment { state, time, .. }) => {
                format!("signed {time} of state {state}; what changed since is not in it")
            }
            None => "signed without a time: it may be of any state of the database".to_owned(),
        })?;
    }
    output.flush()?;
    Ok(Status::Done)
}

#[derive(Serialize)]
struct Compared<'a> {
    file: &'a Path,
    intact: bool,
    pages: u64,
    signed: &'a str,
    state: Option<u64>,
    time: Option<&'a str>,
}

/// Runs `pocket verify --keyless`: compares the reorganised part with its signed digest.
pub(super) fn verify(
    args: &PocketVerify,
    key: &Path,
    environment: &Environment,
) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let digest = args
        .digest
        .clone()
        .unwrap_or_else(|| place.beside("digest"));
    // A default path must hold a file; a pipe that the caller names is waited for.
    for (path, is_default) in [
        (digest.as_path(), args.digest.is_none()),
        (key, key == place.beside("vkey")),
    ] {
        if is_default && fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(Failure::new(format!("{} is no file", path.display())).remedy(
                "name the digest with --digest FILE and the verifier key with --keyless VKEY, in files that you trust",
            ));
        }
    }
    let evidence = read_signed(&digest, key, "--keyless VKEY")?;
    let runs = evidence.runs().map_err(|error| refused(&digest, error))?;
    let compared = evidence.digest(&runs, &mut place.chip_to_read()?);
    let compared = compared.map_err(|error| refused(&place.file, error))?;
    let (signed, moment) = (compared.part, compared.moment);
    let mut output = Output::new();
    if args.json {
        output.json(&Compared {
            file: &place.file,
            intact: true,
            pages: compared.pages,
            signed,
            state: moment.as_ref().map(|moment| moment.state),
            time: moment.as_ref().map(|moment| moment.time.as_str()),
        })?;
    } else {
        let pages = counted(compared.pages, "page is", "pages are");
        let when = moment.map_or_else(
            || "without a time".to_owned(),
            |moment| format!("{} of state {}", moment.time, moment.state),
        );
        output.line(&format!(
            "intact: {pages} what was signed, {signed}, signed {when}"
        ))?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// Reads a file and checks the signature of its note.
fn read_signed(path: &Path, key: &Path, option: &str) -> Result<Evidence, Failure> {
    let key = key_file::read_verifier(key, option)?;
    let evidence = read_evidence(path)?;
    evidence
        .verify(&key)
        .map_err(|error| refused(path, error))?;
    Ok(evidence)
}

/// Reads a file that ends in a note, whoever signed it.
fn read_evidence(path: &Path) -> Result<Evidence, Failure> {
    let fail = |error| Failure::file("read the signed file", path, error);
    let mut bytes = Vec::new();
    let file = InputFile::open(path).map_err(fail)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(fail)? > usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX) {
        return Err(broken(path, "it is longer than any signed file"));
    }
    Evidence::parse(bytes).map_err(|error| refused(path, error))
}

/// Returns the failure for evidence in the file at `path`, or of that file.
fn refused(path: &Path, error: VaultError) -> Failure {
    match error {
        VaultError::NotEvidence(fault) => not_evidence(path, &fault),
        error => failure_of(&error),
    }
}

/// Writes the signed file, and the key that checks it.
fn write(draft: &Draft, (path, existing): (&Path, Existing), key: &Path) -> Result<(), Failure> {
    check_places((path, existing), key)?;
    check_key(key, draft.verifier_key())?;
    let note = draft.note().map_err(|error| failure_of(&error))?;
    let fail = |error| Failure::file("write the signed file", path, error);
    let mut file = OutputFile::begin(path, existing).map_err(fail)?;
    for line in draft.lines() {
        writeln!(file, "{line}").map_err(fail)?;
    }
    file.write_all(note.as_bytes()).map_err(fail)?;
    file.finish().map_err(fail)?;
    write_key(key, draft.verifier_key())
}

/// Refuses places for the two files that no key makes right.
fn check_places((path, existing): (&Path, Existing), key_path: &Path) -> Result<(), Failure> {
    if path == key_path {
        return Err(Failure::usage(
            "the signed file and the key that checks it are two files",
        ));
    }
    check_output(path, existing)
        .map_err(|error| Failure::file("write the signed file", path, error))?;
    match check_output(key_path, Existing::Keep) {
        Err(error) if !is_key(key_path) => Err(key_failure(key_path, error)),
        _ => Ok(()),
    }
}

/// Refuses another key's file before the first file is written, so that neither exists without the
/// other.
fn check_key(key_path: &Path, key: &VerifierKey) -> Result<(), Failure> {
    match check_output(key_path, Existing::Keep) {
        Err(error) if !holds_key(key_path, key) => Err(key_failure(key_path, error)),
        _ => Ok(()),
    }
}

fn key_failure(path: &Path, error: io::Error) -> Failure {
    Failure::file("write the verifier key", path, error)
        .remedy("name another file with --key-out FILE; nothing was written")
}

/// Returns whether `path` is a regular file with the form of a digest.
fn is_digest(path: &Path) -> bool {
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    read_evidence(path).is_ok_and(|found| found.kind() == Some(EvidenceKind::Digest))
}

/// Returns whether the file at `path` holds a key.
fn is_key(path: &Path) -> bool {
    path.is_file() && key_file::read_verifier(path, "--key-out FILE").is_ok()
}

/// Returns whether the file at `path` holds that key.
fn holds_key(path: &Path, key: &VerifierKey) -> bool {
    // Reading protects a path, even of a missing file, from being written. A pipe holds no key.
    path.is_file()
        && key_file::read_verifier(path, "--key-out FILE")
            .is_ok_and(|known| known.encode() == key.encode())
}

/// Writes the key, unless the file holds it already.
fn write_key(path: &Path, key: &VerifierKey) -> Result<(), Failure> {
    if holds_key(path, key) {
        return Ok(());
    }
    let fail = |error| Failure::file("write the verifier key", path, error);
    let mut file = OutputFile::create(path)
        .and_then(OutputFile::for_everyone)
        .map_err(fail)?;
    writeln!(file, "{}", key.encode()).map_err(fail)?;
    file.finish().map_err(fail)
}

fn report(
    json: bool,
    file: PathBuf,
    draft: &Draft,
    reorganizations: u32,
    what: &str,
) -> Result<Status, Failure> {
    let key = draft.verifier_key().encode();
    let mut output = Output::after(format!("{} was written", file.display()));
    if json {
        output.json(&Signed {
            file,
            key,
            reorganizations,
            state: draft.moment().state,
            time: draft.moment().time.clone(),
            count: draft.leaves(),
            root: draft.root().to_string(),
        })?;
    } else {
        let count = counted(draft.leaves(), what, &format!("{what}s"));
        output.line(&format!("{}: {count}, signed by {key}", file.display()))?;
    }
    output.flush()?;
    Ok(Status::Done)
}
