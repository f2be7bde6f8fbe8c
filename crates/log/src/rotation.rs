//! Moves the signing key on: when a log is opened, and by time while it is.
//!
//! Whoever steals the present key signs for what came after its certificate. What came before was signed by keys that are
//! destroyed, and anchored under them.

use std::time::Duration;

use probity_format::certificate::Bound;
use probity_format::note::Signer as _;

use crate::config::Options;
use crate::error::LogError;
use crate::journal::JournalEntry;
use crate::journal_writer::JournalWriter;
use crate::keystore::signing_key;
use crate::log_state::LogState;
use crate::stream::lock;

/// What the present key signed besides its own certificate's journal.
#[derive(Debug, Default)]
pub(crate) struct Signed {
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) when it first did.
    since: Option<Duration>,
    publications: u64,
}

impl Signed {
    /// The key signed heads of streams at `now`.
    pub(crate) fn add(&mut self, now: Duration) {
        self.since.get_or_insert(now);
        self.publications = self.publications.saturating_add(1);
    }

    /// Whether the next key is due.
    pub(crate) fn is_enough(&self, options: &Options, now: Duration) -> bool {
        let is_old = |since| now.saturating_sub(since) >= options.key_interval;
        let publications_max = options.key_publications_max;
        self.since.is_some_and(is_old)
            || (publications_max > 0 && self.publications >= publications_max)
    }
}

impl LogState {
    /// Replaces the signing key of a log that is open, and publishes the journal that certifies the new one, and its head.
    pub(crate) fn move_key_on(&self) -> Result<(), LogError> {
        let mut journal = lock(&self.journal);
        self.certify_successor(&mut journal, Vec::new(), Vec::new())?;
        drop(journal);
        self.anchor_heads()
    }

    /// Certifies a new signing key behind the entries `before`, in the same frame, publishes the journal with it, and destroys the present one. The journal
    /// and the heads stay locked meanwhile, so that nothing is published between. The entries `after` follow, in as many frames as they take.
    ///
    /// The first certificate begins the epoch of this opening. Until it is signed for, nothing that hangs on it is written but its frame: neither a note
    /// of what is durable, nor the new key in the place of the old one. A crash before leaves a frame that the next opening sets aside, and a
    /// successor that nobody knows; after it, the next opening finds the successor certified and takes it.
    pub(crate) fn certify_successor(
        &self,
        journal: &mut JournalWriter,
        before: Vec<JournalEntry>,
        after: Vec<JournalEntry>,
    ) -> Result<(), LogError> {
        let origin = self.geometry.origin();
        let mut heads = lock(&self.anchors);
        heads.name_all_next();
        let bounds = [journal.stream(), heads.stream()].map(|stream| {
            let (size, root) = stream.head();
            Bound { size, root }
        });
        let [journal_bound, heads_bound] = bounds;
        let mut keys = lock(&self.keys);
        let successor = keys.prepare_successor(&self.files)?;
        let successor_key = signing_key(origin, &successor)?.verifier_key().clone();
        let signer = keys.signer(origin)?;
        let certificate =
            JournalEntry::certificate(&signer, &successor_key, journal_bound, heads_bound);
        let begun = keys.begin_epoch(journal_bound.size, successor_key.key())?;
        drop(keys);
        if begun.is_some() {
            journal.stream().withhold_notes();
        }
        let certificate = certificate.map_err(|error| LogError::Broken {
            place: "key certificate".into(),
            reason: error.to_string(),
        })?;
        let entries = before.into_iter().chain([certificate]).chain(after);
        journal.append(self, entries.collect())?;
        if let Some(epoch) = begun
            && journal.newest() != Some(u64::from(epoch.number))
        {
            return Err(LogError::Broken {
                place: "the journal".into(),
                reason: "has the certificate of an opening in another frame than its first".into(),
            });
        }
        lock(&self.keys).sign_with(successor);
        // Before any other stream is signed with the new key: the certificate must stand behind a signed head by then, because nobody without the root
        // key believes what stands behind it.
        self.publish_stream(journal.stream())?;
        if let Some(epoch) = begun {
            journal.stream().enter(epoch, &self.files)?;
        }
        lock(&self.keys).settle(&self.files)
    }
}
