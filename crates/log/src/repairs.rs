//! What recovery did, remembered from before it does it until the journal says so.

use std::collections::BTreeSet;

use crate::error::LogError;
use crate::files::Files;

/// The file of sentences that are not in the journal yet, one a line.
pub(crate) const PENDING: &str = "repairs";
/// Longest such file read: far more than one recovery says.
pub(crate) const PENDING_BYTES_MAX: u64 = 64 << 20;

/// The sentences of one opening, and of earlier ones that a crash ended before the journal had them.
#[derive(Debug)]
pub(crate) struct Repairs {
    said: Vec<String>,
    /// Whether [`PENDING`] exists.
    stored: bool,
}

impl Repairs {
    /// Takes up what an earlier opening did and could not report.
    pub(crate) fn resume(files: &Files) -> Result<Self, LogError> {
        let pending = files.read(PENDING, PENDING_BYTES_MAX)?;
        let stored = pending.is_some();
        let text = String::from_utf8_lossy(&pending.unwrap_or_default()).into_owned();
        Ok(Self {
            said: text.lines().map(str::to_owned).collect(),
            stored,
        })
    }

    /// Notes what was found or will be done without changing evidence.
    pub(crate) fn note(&mut self, sentence: String) {
        self.said.push(sentence);
    }

    /// Notes, durably, what is about to be changed: a crash between the change and the journal must not hide it.
    pub(crate) fn announce(&mut self, files: &Files, sentence: String) -> Result<(), LogError> {
        self.said.push(sentence);
        let text = self.said.join("\n") + "\n";
        files.replace(PENDING, text.as_bytes())?;
        self.stored = true;
        Ok(())
    }

    /// Each sentence once, in the order in which they were noted.
    pub(crate) fn sentences(&self) -> Vec<String> {
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
