//! `probity check-proof`: reports what a proof proves, or where it breaks.

use std::error::Error as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_format::content::Closed;
use probity_format::limits::ENTRY_PROOF_BYTES_MAX;
use probity_format::proof::{EntryProof, EntryProofError, Proved, Signers};
use probity_format::stream::StreamName;
use probity_format::{DecodeError, Entry, Timestamp};
use serde::Serialize;

use super::prove::CheckpointForm;
use super::trust::Given;
use crate::args::CheckProof;
use crate::entry_json::{EntryForm, Hidden, format_time, hex, needs_base64};
use crate::failure::{Failure, Status};
use crate::output::{Output, counted};

#[derive(Serialize)]
struct Document<'a> {
    file: String,
    verdict: &'static str,
    status: u8,
    #[serde(flatten)]
    holds: Option<Holds<'a>>,
    fault: Option<&'a Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'static str>,
}

#[derive(Serialize)]
struct Holds<'a> {
    log: &'a str,
    stream: &'a str,
    index: u64,
    entry: EntryForm<'a, 'a>,
    frame: FrameForm,
    entries_whole: u32,
    entries_partly: u32,
    /// Subjects of the entry that the proof does not show, erased or left out.
    subjects_hidden: usize,
    checkpoint: CheckpointForm<'a>,
    signed_by: String,
    /// The frame of the journal that certifies that key; `None` in a log of version 2.
    certified: Option<CertifiedIn>,
    /// The key of `--key`, from which certificates lead to the one that signed.
    key_given: String,
    /// The journal's head that shows the key's certificate; `None` in a log of version 2.
    journal: Option<CheckpointForm<'a>>,
    /// Size of the kept journal head, which is that one or an earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_journal_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cosigned: Option<Cosigned>,
    /// The key with which the chain of keys ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_end: Option<String>,
}

/// The frame of the journal that certifies a key, and its time according to the log.
#[derive(Serialize)]
struct CertifiedIn {
    frame: u64,
    time: String,
}

impl CertifiedIn {
    /// The certificate of the key that signed the checkpoint of `proof`.
    fn of(proof: &EntryProof) -> Option<Self> {
        let Signers::Certified(certified) = &proof.signers else {
            return None;
        };
        let record = &certified.certificate.record;
        Some(Self {
            frame: record.frame,
            time: time(record.time_max),
        })
    }
}

/// The witness that vouches for the journal, and the time of its cosignature.
#[derive(Serialize)]
struct Cosigned {
    witness: String,
    time: String,
}

#[derive(Serialize)]
struct FrameForm {
    index: u64,
    entries: u32,
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Fault {
    part: &'static str,
    detail: String,
}

pub(crate) fn run(args: &CheckProof) -> Result<Status, Failure> {
    let given = Given::read(args)?;
    let bytes = read(&args.file)?;
    let proved = std::str::from_utf8(&bytes)
        .map_err(|error| {
            let offset = error.valid_up_to();
            EntryProofError::Form(DecodeError::new("entry proof", offset, "is not text"))
        })
        .and_then(EntryProof::parse)
        .and_then(|proof| Ok((proof.check_with(&given.trust())?, CertifiedIn::of(&proof))));
    let mut output = Output::new();
    let (proved, certified) = match proved {
        Ok(proved) => proved,
        Err(error) => return tell(args, refusal(&error), output),
    };
    let entry = proved
        .entry()
        .map_err(|error| Failure::new("the entry cannot be read").because(error))?;
    if args.json {
        let holds = Holds::new((&proved, certified), &entry, &given);
        output.json(&document(args, Ok(holds)))?;
    } else {
        print(&proved, &entry, &mut output)?;
        print_keys((&proved, certified), &given, &mut output)?;
        print_vouching(&proved, &given, &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// The reason why a proof was not found to hold.
enum Refused {
    /// The proof proves nothing to anybody.
    Broken(Fault),
    /// The proof may hold, but the given keys and heads cannot show it; with the remedy.
    Undecided(Fault, &'static str),
}

impl Refused {
    const fn fault(&self) -> &Fault {
        match self {
            Self::Broken(fault) | Self::Undecided(fault, _) => fault,
        }
    }
}

fn refusal(error: &EntryProofError) -> Refused {
    let fault = Fault {
        part: error.part(),
        detail: detail(error),
    };
    match lacking(error) {
        Some(remedy) => Refused::Undecided(fault, remedy),
        None => Refused::Broken(fault),
    }
}

/// Reports why the proof was not found to hold.
fn tell(args: &CheckProof, refused: Refused, mut output: Output) -> Result<Status, Failure> {
    if args.json {
        output.json(&document(args, Err(&refused)))?;
    }
    match refused {
        Refused::Broken(fault) => {
            if !args.json {
                output.line(&format!("broken, {}: {}", fault.part, fault.detail))?;
            }
            output.flush()?;
            Ok(Status::Broken)
        }
        Refused::Undecided(fault, remedy) => {
            output.flush()?;
            Err(Failure::new(format!("undecided: {}", fault.detail)).remedy(remedy))
        }
    }
}

/// Returns the remedy where the proof may hold and the given keys and heads cannot show it.
fn lacking(error: &EntryProofError) -> Option<&'static str> {
    Some(match error {
        EntryProofError::UnknownKey => {
            "if the key is an older one of the log than the proof reaches, give a chain made with the proof with --chain FILE; without one ask \
             the operator for a new proof and a chain made at the same time: probity keys chain DIR -o FILE"
        }
        EntryProofError::NotVouched => {
            "give the verifier key of a witness that you trust with --witness FILE, or a head of the journal that you keep with \
             --checkpoint FILE: whoever has the witness key alone could have signed any journal; a signing key is given under the \
             log's own name, as `probity keys status DIR` prints it"
        }
        EntryProofError::NoJournal { .. } => {
            "ask for a proof of version 2, which every log has that this program makes; of a log of version 2, check with a signing key \
             from a person you trust, and --checkpoint FILE with a head of the entry's stream"
        }
        EntryProofError::CosignedEarlier { .. } => {
            "ask for a proof on a head of the journal that this witness has cosigned since, made with: probity prove DIR --stream S --index N \
             --checkpoint FILE, where FILE is that head with the witness's line"
        }
        EntryProofError::OtherHead { .. } => {
            "give a head of the journal of the proof's log, or one of the entry's stream"
        }
        EntryProofError::NotCosigned { .. } => {
            "ask for a proof on a head of the journal that this witness has cosigned, made with: probity prove DIR --stream S --index N \
             --checkpoint FILE, where FILE is that head with the witness's line"
        }
        EntryProofError::NotCompared { .. } => {
            "send the head that you keep to the operator and ask for a proof that leads on from it, made with: probity prove DIR \
             --stream S --index N --checkpoint FILE"
        }
        EntryProofError::OlderKeyNotShown { .. } => {
            "send the head that you keep to the operator and ask for a proof that shows it, made with: probity prove DIR --stream S --index N \
             --checkpoint FILE; or check without it, with the newest key or a witness (--key, --witness)"
        }
        EntryProofError::NotFromKept { .. } => {
            "give a chain made with the proof with --chain FILE, which the operator makes with: probity keys chain DIR -o FILE, or keep a \
             newer head of the journal and ask for a proof that leads on from it, made with: probity prove DIR --stream S --index N --checkpoint FILE"
        }
        EntryProofError::Replaced => {
            "ask for a proof that was made since, with a chain made with it: probity prove DIR --stream S --index N; or give a head of the entry's stream that you keep \
             from then and under which the proof stands (--checkpoint FILE): a head of the journal or a cosignature from then does not \
             show what was signed with the replaced key since"
        }
        EntryProofError::OtherKeys => {
            "get a chain made with the proof from the operator, or a new proof and a chain made at the same time: probity keys chain DIR -o FILE"
        }
        EntryProofError::Chain(_) => {
            "get the chain of keys of this log from the operator again, made with: probity keys chain DIR -o FILE"
        }
        EntryProofError::OtherStream { .. } => "give the checkpoint of the proof's stream",
        EntryProofError::NotUnder {
            is_covered: true, ..
        } => {
            "ask for a proof under the head that you keep, made with: probity prove DIR --stream S --index N --checkpoint FILE"
        }
        EntryProofError::NotUnder { .. } => {
            "the entry is newer than the head that you keep: get a newer one from where you got that, and a proof under it"
        }
        EntryProofError::ChainTooShort => {
            "the chain is older than the proof: get a chain made with the proof from the operator, or a new proof and a chain made at the same \
             time: probity keys chain DIR -o FILE"
        }
        _ => return None,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let fail = |error| Failure::file("read the proof", path, error);
    let max = u64::try_from(ENTRY_PROOF_BYTES_MAX).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() > ENTRY_PROOF_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} is too long for a proof",
            path.display()
        )));
    }
    Ok(bytes)
}

fn document<'a>(args: &CheckProof, result: Result<Holds<'a>, &'a Refused>) -> Document<'a> {
    let (verdict, status) = match &result {
        Ok(_) => ("holds", Status::Done),
        Err(Refused::Broken(_)) => ("broken", Status::Broken),
        Err(Refused::Undecided(..)) => ("undecided", Status::Failed),
    };
    let help = match &result {
        Err(Refused::Undecided(_, remedy)) => Some(*remedy),
        _ => None,
    };
    Document {
        help,
        file: args.file.display().to_string(),
        verdict,
        status: status.code(),
        fault: result.as_ref().err().map(|refused| refused.fault()),
        holds: result.ok(),
    }
}

impl<'a> Holds<'a> {
    fn new(
        (proved, certified): (&'a Proved, Option<CertifiedIn>),
        entry: &'a Entry<'a>,
        given: &Given,
    ) -> Self {
        Self {
            log: &proved.log,
            stream: proved.stream.as_str(),
            index: proved.index,
            entry: EntryForm {
                // Stream and index stand beside the entry.
                place: None,
                entry,
                // The maker of the proof may have left somebody out; see subjects_hidden.
                hidden: Hidden::NONE,
            },
            frame: FrameForm {
                index: proved.record.frame,
                entries: proved.record.entries,
                from: time(proved.record.time_min),
                to: time(proved.record.time_max),
            },
            entries_whole: proved.entries_whole,
            entries_partly: proved.entries_partly,
            subjects_hidden: proved.closed.subjects,
            checkpoint: CheckpointForm::new(&proved.checkpoint),
            signed_by: proved.signer.encode(),
            certified,
            key_given: given.key().encode(),
            journal: proved.journal.as_ref().map(CheckpointForm::new),
            kept_journal_size: proved.kept,
            cosigned: given
                .witness_name()
                .zip(proved.cosigned)
                .map(|(name, time)| Cosigned {
                    witness: name.to_owned(),
                    time: moment(time),
                }),
            chain_end: given.chain_end().map(|key| key.encode()),
        }
    }
}

/// Formats the error and its causes as one clause, with readable times.
fn detail(error: &EntryProofError) -> String {
    match error {
        EntryProofError::CosignedEarlier {
            witness,
            time,
            since,
        } => format!(
            "{witness:?} cosigned the journal's head in the proof at {}, earlier than --witness-age allows: not before {}",
            moment(*time),
            moment(*since)
        ),
        _ => error
            .source()
            .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}

/// Formats a time in seconds since 1970.
fn moment(seconds: u64) -> String {
    let nanoseconds = i64::try_from(seconds).ok();
    let nanoseconds = nanoseconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
    nanoseconds.map_or_else(|| format!("{seconds} s since 1970"), time)
}

/// Prints which key signed, since when it is certified, and from which given key certificates lead to
/// it. Where nothing else was given, a thief of that key could have made the proof.
fn print_keys(
    (proved, certified): (&Proved, Option<CertifiedIn>),
    given: &Given,
    output: &mut Output,
) -> Result<(), Failure> {
    output.line(&format!("signed by  {}", proved.signer.encode()))?;
    if let Some(CertifiedIn { frame, time }) = certified {
        output.line(&format!(
            "certified  in journal frame {frame}, at {time} by the clock of the log"
        ))?;
    }
    let key = given.key();
    let witness = format!("{}/streams/{}", proved.log, StreamName::JOURNAL);
    let relation = if key.key() == proved.signer.key() {
        "the key that signed"
    } else if key.name() == witness {
        "the witness key, which certifies no key"
    } else {
        "certificates lead from it to the key that signed"
    };
    let limit = if given.is_key_alone() {
        "; later key changes are not covered"
    } else {
        ""
    };
    output.line(&format!("key given  {}: {relation}{limit}", key.encode()))?;
    if let Some(head) = &proved.journal {
        let (size, root) = (head.size(), head.root());
        output.line(&format!("journal    size {size}, root {root}"))?;
    }
    Ok(())
}

/// Prints the chain, the cosignature and the kept head that the proof was compared with, and the
/// keys that they do not cover.
fn print_vouching(proved: &Proved, given: &Given, output: &mut Output) -> Result<(), Failure> {
    if let Some(key) = given.chain_end() {
        output.line(&format!(
            "chain      ends with {}: later key changes are not covered",
            key.encode()
        ))?;
    }
    if let Some((name, time)) = given.witness_name().zip(proved.cosigned) {
        output.line(&format!(
            "cosigned   by {name} at {}: later key changes are not covered",
            moment(time)
        ))?;
    }
    if let Some(kept) = given.stands_under(proved) {
        output.line(&format!("kept head  {}: the same", kept.path.display()))?;
    } else if let Some((path, size)) = given.journal().zip(proved.kept) {
        let path = path.display();
        let is_newest = proved
            .journal
            .as_ref()
            .is_some_and(|head| head.size() == size);
        output.line(&if is_newest {
            format!(
                "kept head  {path}: the same as the journal's; later key changes are not covered"
            )
        } else {
            format!(
                "kept head  {path}: the journal grew from its size {size}; later key changes are not covered"
            )
        })?;
    }
    Ok(())
}

fn time(nanoseconds: i64) -> String {
    Timestamp::from_nanoseconds(nanoseconds)
        .map_or_else(|_| format!("{nanoseconds} ns"), format_time)
}

fn print(proved: &Proved, entry: &Entry<'_>, output: &mut Output) -> Result<(), Failure> {
    output.line(&format!(
        "holds: entry {} of stream {} in log {}",
        proved.index, proved.stream, proved.log
    ))?;
    let subjects: Vec<&str> = entry.subjects.iter().collect();
    let record = &proved.record;
    let checkpoint = &proved.checkpoint;
    let entries = counted(u64::from(record.entries), "entry", "entries");
    let rows = [
        ("time", format_time(entry.time)),
        ("action", entry.action.to_owned()),
        ("outcome", entry.outcome.as_str().to_owned()),
        ("actor", entry.actor.to_owned()),
        ("subject", subjects.join(", ")),
        ("hidden", hidden(proved.closed)),
        ("key", quoted(entry.key)),
        ("purpose", entry.purpose.to_owned()),
        ("basis", entry.basis.to_owned()),
        ("controller", entry.controller.to_owned()),
        ("processor", entry.processor.to_owned()),
        ("payload", quoted(entry.payload)),
        ("taken", entry.taken.map(format_time).unwrap_or_default()),
        ("submitter", entry.submitter.to_owned()),
        (
            "claimed",
            entry.claimed.fields().collect::<Vec<_>>().join(", "),
        ),
        ("request", entry.idempotency.map(hex).unwrap_or_default()),
        ("policy", entry.policy.map(hex).unwrap_or_default()),
        ("rule", entry.rule.to_owned()),
        (
            "frame",
            format!(
                "{} with {entries} from {} to {}",
                record.frame,
                time(record.time_min),
                time(record.time_max)
            ),
        ),
        (
            "checkpoint",
            format!(
                "{}, size {}, root {}",
                checkpoint.origin(),
                checkpoint.size(),
                checkpoint.root()
            ),
        ),
    ];
    rows.iter()
        .filter(|(_, value)| !value.is_empty())
        .try_for_each(|(name, value)| output.line(&format!("{name:<10} {value}")))
}

/// Describes how many subjects the proof hides, and whether one of them is the actor or the
/// submitter.
fn hidden(closed: Closed) -> String {
    if closed.is_none() {
        return String::new();
    }
    let roles = [
        (closed.actor, ", the actor"),
        (closed.submitter, ", the submitter"),
    ];
    let roles = roles.into_iter().filter(|(is_so, _)| *is_so);
    let roles: String = roles.map(|(_, role)| role).collect();
    let count = u64::try_from(closed.subjects).unwrap_or(u64::MAX);
    format!(
        "{}, erased or left out{roles}",
        counted(count, "subject", "subjects")
    )
}

/// Formats bytes for a terminal: as a JSON string, or in base64 where they are not text.
fn quoted(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok("") => String::new(),
        Ok(text) if !needs_base64(bytes) => {
            serde_json::to_string(text).unwrap_or_else(|_| STANDARD.encode(bytes))
        }
        _ => format!("base64 {}", STANDARD.encode(bytes)),
    }
}
