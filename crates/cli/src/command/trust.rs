//! Trust in which a proof is checked besides the verifier key: a chain of keys, a witness, kept
//! heads.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use probity_format::checkpoint::Checkpoint;
use probity_format::cosignature::WitnessKey;
use probity_format::limits::{CHAIN_BYTES_MAX, CHECKPOINT_BYTES_MAX};
use probity_format::note::{SignedNote, VerifierKey};
use probity_format::proof::{KeyChain, Proved, Trust, Witness};
use probity_log::StreamName;
use probity_log::clock::{Clock as _, SystemClock};

use crate::args::CheckProof;
use crate::failure::Failure;
use crate::key_file;
use crate::one_line::converted;

/// A signed head that somebody keeps.
pub(super) struct KeptHead {
    pub(super) path: PathBuf,
    /// The signed note as read from the file.
    pub(super) note: String,
    pub(super) head: Checkpoint,
}

impl KeptHead {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let note = read_note(path)?;
        let head = SignedNote::parse(note.as_bytes())
            .and_then(|note| Checkpoint::parse(note.text()))
            .map_err(|error| {
                let failure = Failure::usage(format!("{} is no checkpoint", path.display()));
                match converted(note.as_bytes()) {
                    Some(reason) => failure.because(reason),
                    None => failure.because(error),
                }
                .remedy("give a copy of a stream's file `checkpoint`, as it was seen once")
            })?;
        let path = path.to_owned();
        Ok(Self { path, note, head })
    }

    /// Returns whether this is a head of a log's journal.
    pub(super) fn is_journal(&self) -> bool {
        let stream = self.head.origin().rsplit_once("/streams/");
        stream.is_some_and(|(_, stream)| stream == StreamName::JOURNAL)
    }
}

/// Reads the heads in `paths`, that of the journal and that of the entry's stream; at most one of
/// each.
pub(super) fn read_heads(
    paths: &[PathBuf],
    stream: Option<&StreamName>,
) -> Result<(Option<KeptHead>, Option<KeptHead>), Failure> {
    let (mut journal, mut own) = (None, None);
    let is_about_journal = stream.is_some_and(|stream| stream.as_str() == StreamName::JOURNAL);
    for path in paths {
        let kept = KeptHead::read(path)?;
        let place = if kept.is_journal() && !is_about_journal {
            &mut journal
        } else {
            &mut own
        };
        if place.replace(kept).is_some() {
            return Err(Failure::new("two heads of one stream were given")
                .remedy("give one head of the journal and one of the entry's stream at most"));
        }
    }
    Ok((journal, own))
}

/// The keys and heads that the command line names for the check.
pub(super) struct Given {
    key: VerifierKey,
    chain: Option<KeyChain>,
    witness: Option<WitnessKey>,
    /// Earliest time of that witness's cosignature, in seconds since 1970.
    since: Option<u64>,
    journal: Option<KeptHead>,
    /// The head of the entry's stream under which the proof must stand.
    stream: Option<KeptHead>,
}

impl Given {
    pub(super) fn read(args: &CheckProof) -> Result<Self, Failure> {
        let (journal, stream) = read_heads(&args.checkpoint, None)?;
        let chain = args.chain.as_deref().map(read_chain).transpose()?;
        let witness = args.witness.as_deref().map(key_file::read_witness);
        Ok(Self {
            key: key_file::read_verifier(&args.key, "--key FILE")?,
            chain,
            witness: witness.transpose()?,
            since: args.witness_age.map(earliest),
            journal,
            stream,
        })
    }

    pub(super) fn trust(&self) -> Trust<'_> {
        Trust {
            key: &self.key,
            chain: self.chain.as_ref(),
            witness: self.witness.as_ref().map(|key| Witness {
                key,
                since: self.since,
            }),
            journal: self.journal.as_ref().map(|kept| &kept.head),
            stream: self.stream.as_ref().map(|kept| &kept.head),
        }
    }

    /// Returns the key that was given with `--key`.
    pub(super) const fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// Returns whether nothing but the key was given: then nothing shows whether it was replaced.
    pub(super) const fn is_key_alone(&self) -> bool {
        self.chain.is_none()
            && self.witness.is_none()
            && self.journal.is_none()
            && self.stream.is_none()
    }

    /// Returns the kept head under which the proof stands. For the journal's own entries a head of
    /// the journal serves too.
    pub(super) fn stands_under(&self, proved: &Proved) -> Option<&KeptHead> {
        let is_own = |kept: &&KeptHead| kept.head.origin() == proved.checkpoint.origin();
        self.stream
            .as_ref()
            .or_else(|| self.journal.as_ref().filter(is_own))
    }

    /// Returns the key with which the chain of keys ends.
    pub(super) fn chain_end(&self) -> Option<VerifierKey> {
        let chain = self.chain.as_ref()?;
        // The name is that of a log, of which the chain file was read.
        VerifierKey::new(chain.log(), *chain.newest()).ok()
    }

    /// Returns the name of the witness that must have cosigned.
    pub(super) fn witness_name(&self) -> Option<&str> {
        self.witness.as_ref().map(WitnessKey::name)
    }

    /// Returns the path of the kept head of the journal that the proof was compared with.
    pub(super) fn journal(&self) -> Option<&Path> {
        self.journal.as_ref().map(|kept| kept.path.as_path())
    }
}

/// Returns the time `age` seconds ago, in seconds since 1970.
fn earliest(age: u64) -> u64 {
    let now = SystemClock::new().now().nanoseconds() / 1_000_000_000;
    u64::try_from(now).unwrap_or(0).saturating_sub(age)
}

/// Reads the text of a signed head that somebody keeps.
fn read_note(path: &Path) -> Result<String, Failure> {
    let fail = |error| Failure::file("read the checkpoint", path, error);
    let file = File::open(path).map_err(fail)?;
    let most = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    let mut text = String::new();
    let length = file.take(most.saturating_add(1)).read_to_string(&mut text);
    if length.map_err(fail)? > CHECKPOINT_BYTES_MAX {
        return Err(Failure::new(format!(
            "{} is too long for a checkpoint",
            path.display()
        )));
    }
    Ok(text)
}

fn read_chain(path: &Path) -> Result<KeyChain, Failure> {
    let fail = |error| Failure::file("read the chain of keys", path, error);
    let file = File::open(path).map_err(fail)?;
    let most = u64::try_from(CHAIN_BYTES_MAX).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    KeyChain::parse(&bytes).map_err(|error| {
        Failure::new(format!("{} is no chain of keys", path.display()))
            .because(error)
            .remedy("get it from the operator, who makes it with: probity keys chain DIR -o FILE")
    })
}
