//! `pocket sign`, `extract` and `check`: evidence that others check without the database's key.
//!
//! Each file is a body of lines followed by a signed note (C2SP signed-note). The note holds the
//! root of a Merkle tree, the time, and the number of the database's state. The leaves of an
//! extract are its lines. A digest of the reorganised part lists the runs of its pages; the leaves
//! are those pages, each after its number.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use probity_format::note::{SignedNote, Signer as _, SigningKey, VerifierKey};
use probity_format::time::{format_time, parse_time};
use probity_format::tree::{Frontier, Hash, leaf_hash, leaf_hash_parts};
use probity_log::clock::{Clock as _, SystemClock};
use probity_pocketdb::flash::{FileFlash, Nand, PAGE_BYTES, Steady};
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Error, Heading, Row, Sink, Store};
use serde::Serialize;

use super::Place;
use super::query::{RowForm, refuse_repeated};
use crate::args::{PocketCheck, PocketExtract, PocketSign, PocketVerify};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::input_file::InputFile;
use crate::key_file;
use crate::output::{Output, counted};
use crate::output_file::{Existing, OutputFile, check_output};

/// The name of every database's key.
const KEY_NAME: &str = "probity-pocket";
/// First lines of the notes.
const DIGEST: &str = "probity pocket digest";
const EXTRACT: &str = "probity pocket extract";
/// The size limit of files that are read back, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The allowed number of pages in a run.
const RUN_PAGES: std::ops::RangeInclusive<u32> = 1..=probity_pocketdb::flash::BLOCK_PAGES;

#[derive(Serialize)]
struct Signed {
    file: PathBuf,
    key: String,
    reorganizations: u32,
    #[serde(flatten)]
    moment: Moment,
    count: u64,
    root: String,
}

/// The time of a signature and the database's state; each commit and each opening has the next
/// number.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Moment {
    state: u64,
    time: String,
}

impl Moment {
    fn now(state: u64) -> Self {
        let time = format_time(SystemClock::new().now());
        Self { state, time }
    }

    /// Returns the lines for a note.
    fn lines(&self) -> String {
        format!("state {}\ntime {}\n", self.state, self.time)
    }

    /// Parses two lines of a note; returns `None` for anything else.
    fn parse(state: &str, time: &str) -> Option<Self> {
        let state = state.strip_prefix("state ")?.parse().ok()?;
        let time = time.strip_prefix("time ")?.to_owned();
        parse_time(&time).is_ok().then_some(Self { state, time })
    }
}

/// A file taken apart into its body and its note.
struct Evidence {
    text: String,
    /// Bytes of the body, including its last line end.
    body_bytes: usize,
    note: SignedNote,
}

pub(super) fn sign(args: &PocketSign, environment: &Environment) -> Result<Status, Failure> {
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open_on(Steady::new(place.chip(true)?, page_hash))?;
    let mut runs = Vec::new();
    let work = vault
        .verify()
        .and_then(|_| vault.part_pages(&mut |first, pages| runs.push((first, pages))));
    let work = work.map_err(|error| place.refused(error));
    // Only what was just authenticated is signed: nothing is read again.
    let tree = tree_of(&runs, |page| {
        let unread = || broken(&place.file, &format!("page {page} belongs to nothing"));
        vault.device().seen(page).ok_or_else(unread)
    });
    let (key, instance) = (signing_key(&place, &mut vault)?, vault.instance());
    let moment = Moment::now(vault.state());
    place.close(vault)?;
    work?;
    if runs.is_empty() {
        return Err(Failure::new("there is no reorganised part to sign")
            .remedy("make one with: probity pocket reorganize FILE"));
    }
    let tree = tree?;
    let body = runs.iter().map(|(first, pages)| format!("{first} {pages}"));
    let said = format!("reorganisation {instance}");
    let out = args.output.clone();
    let out = out.unwrap_or_else(|| place.beside("digest"));
    let existing = match &args.output {
        // The default digest, of the newest part, replaces an older digest.
        None if is_digest(&out) => Existing::Replace,
        _ => Existing::of(args.overwrite),
    };
    let key_file = args.key_out.clone().unwrap_or_else(|| place.beside("vkey"));
    check_outputs((&out, existing), (&key_file, key.verifier_key()))?;
    write(
        (&out, existing),
        body,
        (DIGEST, &said),
        &moment,
        &tree,
        &key,
    )?;
    write_key(&key_file, key.verifier_key())?;
    report(args.json, out, &key, instance, moment, &tree, "page")
}

pub(super) fn extract(args: &PocketExtract, environment: &Environment) -> Result<Status, Failure> {
    if args.sql.contains(['\n', '\r']) {
        return Err(Failure::usage("a signed statement is one line"));
    }
    let word = args.sql.split_whitespace().next().unwrap_or("");
    if !word.eq_ignore_ascii_case("SELECT") {
        return Err(Failure::usage("an extract begins with SELECT"));
    }
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let mut rows = Lines::default();
    let ran = vault.execute(&args.sql, &[], &mut rows);
    let ran = ran.map_err(|error| place.refused(error));
    let (key, instance) = (signing_key(&place, &mut vault)?, vault.instance());
    let moment = Moment::now(vault.state());
    place.close(vault)?;
    if let Some(failure) = rows.failure {
        return Err(failure);
    }
    ran?;
    let tree = hash_lines(rows.texts.iter().map(String::as_str));
    let said = format!("statement {}", args.sql);
    let existing = Existing::of(args.overwrite);
    let key_file = args.key_out.clone().unwrap_or_else(|| place.beside("vkey"));
    check_outputs((&args.output, existing), (&key_file, key.verifier_key()))?;
    write(
        (&args.output, existing),
        rows.texts.into_iter(),
        (EXTRACT, &said),
        &moment,
        &tree,
        &key,
    )?;
    write_key(&key_file, key.verifier_key())?;
    report(
        args.json,
        args.output.clone(),
        &key,
        instance,
        moment,
        &tree,
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
    let evidence = Evidence::read(&args.file, &args.key, "--key VKEY")?;
    let tree = hash_lines(evidence.body());
    let (said, moment) = evidence.said(&args.file, EXTRACT, &tree)?;
    let statement = said.strip_prefix("statement ").unwrap_or_default();
    let mut output = Output::new();
    if args.json {
        output.json(&Checked {
            file: &args.file,
            intact: true,
            statement,
            rows: tree.size(),
            state: moment.as_ref().map(|moment| moment.state),
            time: moment.as_ref().map(|moment| moment.time.as_str()),
        })?;
    } else {
        let rows = counted(tree.size(), "row is", "rows are");
        output.line(&format!("intact: {rows} what was signed for: {statement}"))?;
        output.line(&match &moment {
            Some(Moment { state, time }) => {
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
    let evidence = Evidence::read(&digest, key, "--keyless VKEY")?;
    let runs = evidence.body().map(run_of);
    let runs: Option<Vec<_>> = runs.collect();
    let runs = runs.ok_or_else(|| broken(&digest, "a line does not name pages"))?;
    let tree = hash_pages(&place, &runs)?;
    let (signed, moment) = evidence.said(&place.file, DIGEST, &tree)?;
    let mut output = Output::new();
    if args.json {
        output.json(&Compared {
            file: &place.file,
            intact: true,
            pages: tree.size(),
            signed,
            state: moment.as_ref().map(|moment| moment.state),
            time: moment.as_ref().map(|moment| moment.time.as_str()),
        })?;
    } else {
        let pages = counted(tree.size(), "page is", "pages are");
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

impl Evidence {
    /// Reads a file and checks the signature of its note.
    fn read(path: &Path, key: &Path, option: &str) -> Result<Self, Failure> {
        let key = key_file::read_verifier(key, option)?;
        let (text, body_bytes) = read_signed(path)?;
        let note = text.get(body_bytes..).unwrap_or_default();
        let note = SignedNote::parse(note.as_bytes())
            .map_err(|error| broken(path, "its note is malformed").because(error))?;
        note.verify(std::slice::from_ref(&key))
            .map_err(|error| broken(path, "it is not signed with this key").because(error))?;
        Ok(Self {
            text,
            body_bytes,
            note,
        })
    }

    /// Returns the lines of the body lazily: as slices they may not fit into memory.
    fn body(&self) -> impl Iterator<Item = &str> {
        let body = self.text.get(..self.body_bytes).unwrap_or_default();
        // Only `\n` ends a line; any other line end belongs to the line and its hash.
        let body = body.strip_suffix('\n').map(|body| body.split('\n'));
        body.into_iter().flatten()
    }

    /// Returns the note's statement and moment, if it is of kind `kind` and covers `tree`.
    fn said(
        &self,
        path: &Path,
        kind: &str,
        tree: &Frontier,
    ) -> Result<(&str, Option<Moment>), Failure> {
        let mut lines = self.note.text().split_terminator('\n');
        if lines.next() != Some(kind) {
            return Err(broken(path, "it is a statement of another kind"));
        }
        let said = lines.next().unwrap_or_default();
        let mut behind = lines.clone();
        let moment = behind
            .next()
            .zip(behind.next())
            .and_then(|(state, time)| Moment::parse(state, time));
        if moment.is_some() {
            lines = behind;
        }
        if !lines.eq(tree_lines(tree).lines()) {
            return Err(broken(path, "what is there is not what was signed"));
        }
        Ok((said, moment))
    }
}

/// Reads a file that ends in a note; returns its text and the note's offset.
fn read_signed(path: &Path) -> Result<(String, usize), Failure> {
    let fail = |error| Failure::file("read the signed file", path, error);
    let mut bytes = Vec::new();
    let file = InputFile::open(path).map_err(fail)?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    if read.map_err(fail)? > usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX) {
        return Err(broken(path, "it is longer than any signed file"));
    }
    let text = String::from_utf8(bytes).map_err(|_error| broken(path, "it is not text"))?;
    let marks = [DIGEST, EXTRACT].map(|mark| format!("{mark}\n"));
    // The note is the last thing in the file.
    let starts = marks.iter().filter_map(|mark| text.rfind(mark.as_str()));
    let at = starts
        .max()
        .filter(|&at| at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n'));
    let at = at.ok_or_else(|| broken(path, "it has no signed note"))?;
    Ok((text, at))
}

fn broken(path: &Path, what: &str) -> Failure {
    Failure::broken(format!("{}: {what}", path.display()))
        .remedy("take an undamaged copy, and the verifier key from whom you trust")
}

fn signing_key<F: Nand>(
    place: &Place,
    vault: &mut Store<F, FileStore>,
) -> Result<SigningKey, Failure> {
    let seed = vault.signing_seed().map_err(|error| place.refused(error))?;
    SigningKey::from_seed(KEY_NAME, &seed)
        .map_err(|error| Failure::new("cannot make the signing key").because(error))
}

fn tree_lines(tree: &Frontier) -> String {
    format!("leaves {}\nroot {}\n", tree.size(), tree.root())
}

/// Parses a first page and a number of pages.
fn run_of(line: &str) -> Option<(u32, u32)> {
    let (first, pages) = line.split_once(' ')?;
    let run = (first.parse().ok()?, pages.parse().ok()?);
    RUN_PAGES.contains(&run.1).then_some(run)
}

fn hash_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Frontier {
    let mut tree = Frontier::new();
    for line in lines {
        tree.push(leaf_hash(line.as_bytes()));
    }
    tree
}

/// Hashes pages as they lie on the chip, which needs no key.
fn hash_pages(place: &Place, runs: &[(u32, u32)]) -> Result<Frontier, Failure> {
    let mut chip: FileFlash = place.chip(false)?;
    let mut bytes = [0u8; PAGE_BYTES];
    tree_of(runs, |page| {
        chip.read(page, 0, &mut bytes).map_err(|error| {
            broken(&place.file, &format!("page {page} cannot be read")).because(error)
        })?;
        Ok(page_hash(page, &bytes))
    })
}

/// Returns the leaf of a digest for one page, which hashes its number and its bytes.
fn page_hash(page: u32, bytes: &[u8]) -> Hash {
    leaf_hash_parts([&page.to_le_bytes()[..], bytes])
}

/// Builds the tree over the pages of `runs`.
fn tree_of(
    runs: &[(u32, u32)],
    mut hash: impl FnMut(u32) -> Result<Hash, Failure>,
) -> Result<Frontier, Failure> {
    let mut tree = Frontier::new();
    for &(first, pages) in runs {
        for page in (0..pages).map(|number| first.saturating_add(number)) {
            tree.push(hash(page)?);
        }
    }
    Ok(tree)
}

fn write(
    (path, existing): (&Path, Existing),
    body: impl Iterator<Item = String>,
    (kind, said): (&str, &str),
    moment: &Moment,
    tree: &Frontier,
    key: &SigningKey,
) -> Result<(), Failure> {
    let unsigned = format!("{kind}\n{said}\n{}{}", moment.lines(), tree_lines(tree));
    let refused = |error: &dyn std::error::Error| {
        Failure::new("the statement cannot be signed").because(error.to_string())
    };
    let mut note = SignedNote::new(unsigned).map_err(|error| refused(&error))?;
    note.sign(key).map_err(|error| refused(&error))?;
    let fail = |error| Failure::file("write the signed file", path, error);
    let mut file = OutputFile::begin(path, existing).map_err(fail)?;
    for line in body {
        writeln!(file, "{line}").map_err(fail)?;
    }
    file.write_all(note.encode().as_bytes()).map_err(fail)?;
    file.finish().map_err(fail)
}

/// Refuses both files before the first is written, so that neither exists without the other.
fn check_outputs(
    (path, existing): (&Path, Existing),
    (key_path, key): (&Path, &VerifierKey),
) -> Result<(), Failure> {
    if path == key_path {
        return Err(Failure::usage(
            "the signed file and the key that checks it are two files",
        ));
    }
    check_output(path, existing)
        .map_err(|error| Failure::file("write the signed file", path, error))?;
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
    read_signed(path).is_ok_and(|(text, at)| {
        let note = text.get(at..).unwrap_or_default();
        let note = SignedNote::parse(note.as_bytes());
        note.is_ok_and(|note| note.text().lines().next() == Some(DIGEST))
    })
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
    key: &SigningKey,
    reorganizations: u32,
    moment: Moment,
    tree: &Frontier,
    what: &str,
) -> Result<Status, Failure> {
    let key = key.verifier_key().encode();
    let mut output = Output::new();
    if json {
        output.json(&Signed {
            file,
            key,
            reorganizations,
            moment,
            count: tree.size(),
            root: tree.root().to_string(),
        })?;
    } else {
        let count = counted(tree.size(), what, &format!("{what}s"));
        output.line(&format!("{}: {count}, signed by {key}", file.display()))?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// A sink that keeps each row as a line of JSON.
#[derive(Default)]
struct Lines {
    names: Vec<String>,
    texts: Vec<String>,
    /// Kept here, because the engine's error cannot carry it.
    failure: Option<Failure>,
}

impl Sink for Lines {
    fn begin(&mut self, columns: &[Heading<'_>]) -> probity_pocketdb::Result<()> {
        let names = columns.iter().map(|column| column.name.to_owned());
        self.names = names.collect();
        refuse_repeated(&self.names).map_err(|failure| self.keep(failure))
    }

    fn row(&mut self, row: &Row<'_>) -> probity_pocketdb::Result<()> {
        let form = RowForm {
            names: &self.names,
            row,
        };
        let line = serde_json::to_string(&form);
        let failed = |error| Failure::new("a row has no form in JSON").because(error);
        let line = line.map_err(|error| self.keep(failed(error)))?;
        self.texts.push(line);
        Ok(())
    }
}

impl Lines {
    fn keep(&mut self, failure: Failure) -> Error {
        self.failure = Some(failure);
        Error::Receiver
    }
}
