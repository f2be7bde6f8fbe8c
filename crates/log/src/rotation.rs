//! Moves the signing key on: when a log is opened, and by time while it is.
//!
//! A thief of the present key can sign only for what follows its certificate. Earlier content was
//! signed by keys that are destroyed, and anchored under them.

use std::time::Duration;

use probity_format::certificate::Bound;
use probity_format::note::Signer as _;

use crate::config::Options;
use crate::error::LogError;
use crate::heads_writer::HeadsWriter;
use crate::journal_entry::JournalEntry;
use crate::journal_writer::JournalWriter;
use crate::keystore::signing_key;
use crate::log_state::LogState;
use crate::stream::{Stream, lock};

/// The signatures of the present key, except on the journal with its own certificate.
#[derive(Debug, Default)]
pub(crate) struct Signed {
    /// [`Clock::elapsed`](crate::clock::Clock::elapsed) at the first signature.
    since: Option<Duration>,
    publications: u64,
}

impl Signed {
    /// Counts a publication that the key signed at `now`.
    pub(crate) fn add(&mut self, now: Duration) {
        self.since.get_or_insert(now);
        self.publications = self.publications.saturating_add(1);
    }

    /// Returns whether the next key is due.
    pub(crate) fn is_enough(&self, options: &Options, now: Duration) -> bool {
        let is_old = |since| now.saturating_sub(since) >= options.key_interval;
        let publications_max = options.key_publications_max;
        self.since.is_some_and(is_old)
            || (publications_max > 0 && self.publications >= publications_max)
    }
}

impl LogState {
    /// Replaces the signing key of an open log. Publishes the journal that certifies the new key,
    /// and anchors its head.
    pub(crate) fn move_key_on(&self) -> Result<(), LogError> {
        let mut journal = self.streams.journal();
        let entries = (Vec::new(), Vec::new());
        self.certify_successor(&mut journal, entries, &mut |_journal| Ok(()))?;
        drop(journal);
        self.anchor_heads()
    }

    /// Certifies a new signing key behind the entries `before`, in the same frame, publishes the
    /// journal with it, and destroys the present one. The journal and the heads stay locked
    /// meanwhile, so that nothing is published between. The entries `after` follow, in as many
    /// frames as they take. `before_signing` gets the journal that is signed next.
    ///
    /// The first certificate begins the epoch of this opening. Until it is signed for, only its
    /// frame is written: no note of durable frames, and not the new key in the place of the old
    /// one. A crash before that leaves a frame that the next opening sets aside, and an unknown
    /// successor. After a later crash the next opening finds the successor certified and takes it.
    ///
    /// Returns whether the certificate says that `heads` names all heads of other streams.
    pub(crate) fn certify_successor(
        &self,
        journal: &mut JournalWriter,
        (before, after): (Vec<JournalEntry>, Vec<JournalEntry>),
        before_signing: &mut dyn FnMut(Bound) -> Result<(), LogError>,
    ) -> Result<bool, LogError> {
        let origin = self.geometry.origin();
        let mut heads = self.streams.heads();
        heads.name_all_next();
        self.publish_bound([journal.stream(), heads.stream()])?;
        let [journal_bound, heads_bound] = [journal.stream(), heads.stream()].map(|it| bound(it));
        let is_all_named = self.names_all(&heads);
        let mut keys = lock(&self.keys);
        let successor = keys.prepare_successor(&self.files)?;
        let successor_key = signing_key(origin, &successor)?.verifier_key().clone();
        let signer = keys.signer(origin)?;
        let heads_bound = (heads_bound, is_all_named);
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
        before_signing(bound(journal.stream()))?;
        // Published before the new key signs any other stream: the certificate must be covered by a
        // signed head by then. Readers without the root key trust nothing behind a signed head.
        self.publish_stream(journal.stream())?;
        if let Some(epoch) = begun {
            journal.stream().enter(epoch, &self.files)?;
        }
        lock(&self.keys).settle(&self.files)?;
        Ok(is_all_named)
    }

    /// Returns whether `heads` names every head of another stream that the present key or an earlier
    /// one may have signed. Of a stream that this opening did not publish, those are all frames:
    /// somebody may have a second copy of a head that is not here.
    fn names_all(&self, heads: &HeadsWriter) -> bool {
        let streams = self.streams.content();
        streams.iter().all(|stream| {
            let published = stream.published_head();
            let size = published.map_or_else(|| stream.head().0, |head| head.size());
            size <= heads.named(&stream.origin)
        })
    }

    /// Publishes frames that a crash left behind a checkpoint: a certificate binds none but those that
    /// one covers, so that an older checkpoint shows by it. The journal comes first, which may have
    /// the certificate of the present key there.
    fn publish_bound(&self, streams: [&Stream; 2]) -> Result<(), LogError> {
        for stream in streams {
            // Notes are of the epoch that the certificate begins.
            stream.withhold_notes();
            self.publish_stream(stream)?;
            stream.release_notes();
        }
        Ok(())
    }
}

/// The size and root of `stream`.
fn bound(stream: &Stream) -> Bound {
    let (size, root) = stream.head();
    Bound { size, root }
}
