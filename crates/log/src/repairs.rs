//! What recovery did, remembered from before it does it until the journal says so.
//!
//! The journal signs these sentences, so only a holder of the log's keys may have written them.

use std::collections::BTreeSet;

use probity_format::keys::NoteKey;
use probity_format::stream::StreamName;

use crate::error::{LogError, frames};
use crate::files::{Files, unless_strange};

/// The file of sentences that are not in the journal yet, one a line.
pub(crate) const PENDING: &str = "repairs";
/// Longest such file read: far more than one recovery says.
pub(crate) const PENDING_BYTES_MAX: u64 = 64 << 20;
/// What is authenticated before the sentences, so that a tag of something else never fits.
const DOMAIN: &[u8] = b"probity/repairs/v3\n";
/// What the line of a loss begins with.
const LOST: &str = "lost ";
/// Bytes of the tag that the file begins with.
const TAG_BYTES: usize = 32;

/// The sentences of one opening, and of earlier ones that a crash ended before the journal had them.
#[derive(Debug)]
pub(crate) struct Repairs {
    key: NoteKey,
    said: Vec<String>,
    /// Whether [`PENDING`] exists.
    stored: bool,
}

impl Repairs {
    /// Takes up what an earlier opening did and could not report.
    ///
    /// What this log's keys did not write is no sentence of an opening; it is passed over, and that is noted.
    pub(crate) fn resume(files: &Files, key: NoteKey) -> Result<Self, LogError> {
        let pending = unless_strange(files.read(PENDING, PENDING_BYTES_MAX))?;
        let mut said = Vec::new();
        let stored = pending.is_some();
        if let Some(content) = pending {
            match authentic(&key, &content) {
                Some(text) => said.extend(text.lines().map(str::to_owned)),
                None => said.push(format!(
                    "{PENDING}: {} bytes that this log's keys did not write, passed over",
                    content.len()
                )),
            }
        }
        Ok(Self { key, said, stored })
    }

    /// Notes what was found or will be done without changing evidence.
    pub(crate) fn note(&mut self, sentence: String) {
        self.said.push(sentence);
    }

    /// Notes, durably, what is about to be changed: a crash between the change and the journal must not hide it.
    pub(crate) fn announce(&mut self, files: &Files, sentence: String) -> Result<(), LogError> {
        self.said.push(sentence);
        let text = self.said.join("\n") + "\n";
        let mut content = self.key.tag(&tagged(text.as_bytes())).to_vec();
        content.extend_from_slice(text.as_bytes());
        files.replace(PENDING, &content)?;
        self.stored = true;
        Ok(())
    }

    /// Each line once, in the order in which they were noted, as the journal has them.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let fresh = self.said.iter().filter(|said| seen.insert(said.as_str()));
        fresh.cloned().collect()
    }

    /// The journal has them, durably.
    pub(crate) fn reported(&mut self, files: &Files) -> Result<(), LogError> {
        if self.stored {
            files.remove(PENDING)?;
            files.sync_folder("")?;
            self.stored = false;
        }
        Ok(())
    }
}

/// Frames that were durable and that somebody went on without, as the journal says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Loss {
    /// The stream.
    pub stream: String,
    /// The first frame that was lost.
    pub from: u64,
    /// The frame behind the last that was known to have been durable.
    pub to: u64,
}

impl Loss {
    /// The loss that `line` of a repair says, if it says one.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(LOST)?.split(' ');
        let loss = Self {
            stream: StreamName::new(words.next()?).ok()?.to_string(),
            from: words.next()?.parse().ok()?,
            to: words.next()?.parse().ok()?,
        };
        let is_canonical = loss.line() == line && loss.from < loss.to;
        is_canonical.then_some(loss)
    }

    fn line(&self) -> String {
        format!("{LOST}{} {} {}", self.stream, self.from, self.to)
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let frames = frames(self.to.saturating_sub(self.from));
        let (stream, from) = (&self.stream, self.from);
        write!(
            f,
            "{frames} of stream {stream} that had been durable lost, from frame {from} on, and the loss accepted"
        )
    }
}

/// The line of a loss of the frames of `stream` from `from` up to `to`, that one not included.
pub(crate) fn loss_line(stream: &StreamName, from: u64, to: u64) -> String {
    let stream = stream.to_string();
    Loss { stream, from, to }.line()
}

/// `line` in words for a person.
pub(crate) fn sentence(line: String) -> String {
    Loss::parse(&line).map_or(line, |loss| loss.to_string())
}

/// The sentences in the content of the file, if a holder of the log's keys wrote them.
fn authentic<'a>(key: &NoteKey, content: &'a [u8]) -> Option<&'a str> {
    let (tag, text) = content.split_first_chunk::<TAG_BYTES>()?;
    let text = std::str::from_utf8(text).ok()?;
    key.matches(&tagged(text.as_bytes()), tag).then_some(text)
}

fn tagged(text: &[u8]) -> Vec<u8> {
    [DOMAIN, text].concat()
}
