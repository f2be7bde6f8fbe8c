//! `probity prove`: writes one entry as a self-contained file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use probity_format::certificate::Link;
use probity_format::checkpoint::Checkpoint;
use probity_format::note::{PUBLIC_KEY_BYTES, VerifierKey};
use probity_format::proof::{EntryProof, Proved, Signers};
use probity_log::prove::{Proof, ProveError, Recipient};
use probity_log::reader::Reader;
use probity_log::{StreamName, advice};
use serde::Serialize;

use super::open_reader;
use super::reading::older_copy;
use super::trust::{KeptHead, read_heads};
use crate::args::Prove;
use crate::config::Environment;
use crate::failure::{Failure, KEY_GIVEN, Status};
use crate::key_file;
use crate::output::{Output, counted, note};
use crate::output_file::{Existing, OutputFile};
use crate::shell::quoted;

#[derive(Serialize)]
struct Document<'a> {
    file: String,
    bytes: usize,
    log: &'a str,
    stream: &'a str,
    index: u64,
    frame: u64,
    entries_whole: u32,
    entries_partly: u32,
    subjects_erased: usize,
    certificates: usize,
    checkpoint: CheckpointForm<'a>,
}

/// A checkpoint in JSON.
#[derive(Serialize)]
pub(super) struct CheckpointForm<'a> {
    origin: &'a str,
    size: u64,
    root: String,
}

impl<'a> CheckpointForm<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint) -> Self {
        Self {
            origin: checkpoint.origin(),
            size: checkpoint.size(),
            root: checkpoint.root().to_string(),
        }
    }
}

pub(crate) fn run(args: &Prove, environment: &Environment) -> Result<Status, Failure> {
    let reader = open_reader(&args.dir, args.key.as_deref(), environment)?;
    let made = made(args, &reader)?;
    let others = others(&made.proved);
    if args.alone
        && let Some(others) = others
    {
        return Err(Failure::new(format!("the proof would show {others}"))
            .remedy("leave out --alone, or append to a stream created with --proofs entry"));
    }
    let text = made
        .proof
        .encode()
        .map_err(|error| Failure::new("the proof cannot be written").because(error))?;
    write(args, &text)?;
    let mut output = Output::after("the proof was written");
    if args.json {
        let (proof, proved) = (&made.proof, &made.proved);
        output.json(&Document {
            file: args.output.display().to_string(),
            bytes: text.len(),
            log: &proved.log,
            stream: proved.stream.as_str(),
            index: proved.index,
            frame: proved.record.frame,
            entries_whole: proved.entries_whole,
            entries_partly: proved.entries_partly,
            subjects_erased: made.erased,
            certificates: listed(proof).1.len(),
            checkpoint: CheckpointForm::new(&proved.checkpoint),
        })?;
    } else {
        let (file, key) = (args.output.display(), first_key(&made.proof, &made.proved));
        output.line(&format!(
            "entry {} of stream {} proved in {file}",
            args.index, args.stream
        ))?;
        output.line(&format!(
            "check it with: probity check-proof {} --key FILE, where FILE holds this key of the log, or a later one that was certified before the proof was made",
            quoted(&args.output)
        ))?;
        output.line(&key)?;
        if key != reader.anchor().encode() {
            output.line(&format!(
                "with an older key it takes a chain of keys made now: probity keys chain {} -o FILE; a chain made after the log's next opening leaves this proof undecided",
                quoted(&args.dir)
            ))?;
        }
    }
    output.flush()?;
    if let Some(others) = others {
        note(&format!("the proof also shows {others}"));
    }
    Ok(Status::Done)
}

/// Makes the proof for a recipient with the given key and heads.
fn made(args: &Prove, reader: &Reader) -> Result<Proof, Failure> {
    let key = args.recipient_key.as_deref();
    let key = key.map(|path| key_file::read_verifier(path, "--recipient-key FILE"));
    let key = key.transpose()?;
    let (journal, stream) = read_heads(&args.checkpoint, Some(&args.stream))?;
    let file = |kept: &Option<KeptHead>| kept.as_ref().map(|kept| kept.path.clone());
    let files = [file(&journal), file(&stream)];
    let recipient = Recipient {
        key,
        stream: stream.map(|kept| kept.note),
        journal: journal.map(|kept| kept.note),
    };
    let made = reader
        .prover(&args.stream, &recipient)
        .and_then(|mut prover| prover.prove(args.index));
    made.map_err(|error| {
        let of_head = of_head(&error, &args.dir, &args.stream, &files);
        let failure = older_copy(failure(error, &args.dir));
        match of_head {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    })
}

/// Describes what the proof shows of other entries.
fn others(proved: &Proved) -> Option<String> {
    let whole = u64::from(proved.entries_whole.saturating_sub(1));
    let partly = u64::from(proved.entries_partly);
    let whole = (whole > 0).then(|| {
        counted(
            whole,
            "other entry of its frame",
            "other entries of its frame",
        )
    });
    let partly = (partly > 0).then(|| {
        let counted = counted(partly, "entry", "entries");
        format!("{counted} without key, subjects and payload")
    });
    match (whole, partly) {
        (Some(whole), Some(partly)) => Some(format!("{whole} and {partly}")),
        (whole, partly) => whole.or(partly),
    }
}

/// Returns the key with which the proof's list of certificates begins, and the list.
fn listed(proof: &EntryProof) -> (&[u8; PUBLIC_KEY_BYTES], &[Link]) {
    match &proof.signers {
        Signers::Listed { first_key, links } => (first_key, links),
        Signers::Certified(shown) => (&shown.first_key, &shown.links),
    }
}

/// Returns the key with which the proof begins, as a line of a key file.
fn first_key(proof: &EntryProof, proved: &Proved) -> String {
    VerifierKey::new(&proved.log, *listed(proof).0)
        .map_or_else(|_| String::new(), |key| key.encode())
}

fn write(args: &Prove, text: &str) -> Result<(), Failure> {
    let path = args.output.as_path();
    let fail = |error| Failure::file("write", path, error);
    let mut file = OutputFile::begin(path, Existing::of(args.overwrite)).map_err(fail)?;
    file.write_all(text.as_bytes()).map_err(fail)?;
    file.finish().map_err(fail)
}

/// Returns the remedy where a head that was given is at fault. Of `files` the first has a head of
/// the journal, the second one of `stream`. The advice names the file and only reads the log.
fn of_head(
    error: &ProveError,
    dir: &Path,
    stream: &StreamName,
    [journal, own]: &[Option<PathBuf>; 2],
) -> Option<String> {
    let (ProveError::Head { stream: of, .. } | ProveError::NotGrown { stream: of, .. }) = error
    else {
        return None;
    };
    let file = if of == stream.as_str() { own } else { journal };
    let (file, dir) = (quoted(file.as_ref()?), quoted(dir));
    let compare = format!("probity verify {dir} --since {file}");
    Some(match error {
        ProveError::NotGrown { .. } => format!(
            "the head is in {file}; write nothing to this log; {}, and compare that with: {compare}",
            advice::NEWER_LOG
        ),
        _ => format!(
            "the head is in {file}; compare it with this log: {compare}; if it is no head of this log's stream {of}, ask the recipient for their copy of streams/{of}/checkpoint"
        ),
    })
}

pub(super) fn failure(error: ProveError, dir: &Path) -> Failure {
    let dir = quoted(dir);
    let remedy = match &error {
        ProveError::NoEntry { stream, .. } => {
            format!(
                "indices count from 0; see them with: probity export {dir} --stream {stream} --format csv{KEY_GIVEN}"
            )
        }
        ProveError::Unpublished { .. } => format!(
            "wait a second while the log is being written to; if nobody writes, its writer was killed: verify it with the root \
             key (probity verify {dir} --key FILE) before the next opening publishes what that found intact"
        ),
        ProveError::BehindHead { .. } => {
            "leave out --checkpoint, or give a newer head that the recipient keeps".into()
        }
        ProveError::Unsigned { .. } => {
            format!("see what stands behind the checkpoint with: probity verify {dir}")
        }
        ProveError::Erased { .. } => {
            "nothing brings it back; proofs that were made before still hold".into()
        }
        ProveError::GivenUp { .. } => format!(
            "nothing is damaged, and proofs that were made before still hold; see every accepted loss with: probity verify {dir}"
        ),
        ProveError::Gone { .. } => {
            format!("see whether it was pruned with proof with: probity verify {dir}")
        }
        ProveError::Key { .. } => format!(
            "leave out --recipient-key, and hand the recipient of an older key a chain made at the same time: probity keys chain {dir} -o FILE"
        ),
        ProveError::Log(_) => String::new(),
        ProveError::NotGrown { .. } => return Failure::broken(error.to_string()),
        _ => return Failure::new(error.to_string()),
    };
    match error {
        ProveError::Log(error) => error.into(),
        error => Failure::new(error.to_string()).remedy(remedy),
    }
}
