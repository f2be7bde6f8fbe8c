//! Fixes the checkpoint of each stream, and collects its other known heads.

use std::collections::BTreeMap;

use probity_format::checkpoint::Checkpoint;
use probity_format::limits::CHECKPOINT_BYTES_MAX;
use probity_format::note::{NoteError, SignedNote, VerifierKey};
use probity_format::stream::{StreamConfig, StreamId, StreamName};
use probity_format::width::to_u64;

use super::anchors::Anchors;
use super::chain::Chain;
use super::passed::{check_folders, name_passed};
use super::published::Published;
use super::since::SINCE;
use super::slots::SlotsTold;
use super::stored::{Stored, names};
use super::subject::{KnownHead, Subject};
use super::unchecked::Names;
use super::{Fault, FaultClass, Faults, HeadsCompared, Told, UncheckedReason, Verifier};
use crate::epochs::CertifiedEpochs;
use crate::error::{LogError, ahead, frames};
use crate::first_signer::signed_too_late;
use crate::head_origin::{log_of, named_in};
use crate::journal::History;
use crate::unwitnessed::unwitnessed;

/// Times that the journal is read again because somebody opened the log for writing meanwhile.
const JOURNAL_READS_MAX: u32 = 8;

/// The name of a second copy in reports.
const KEPT: &str = "the second copy of the head";

/// The checkpoint of a stream and its second copy, as stored.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pub(super) published: Option<Vec<u8>>,
    kept: Option<Vec<u8>>,
    /// The key beside the checkpoint.
    key: Option<Vec<u8>>,
}

/// Longest file of a verifier key read.
const KEY_BYTES_MAX: u64 = 4096;

/// The file of the key that signed the checkpoint beside it.
const KEY: &str = "log.vkey";

impl Notes {
    /// The key beside the checkpoint, in the one form that the log writes.
    fn verifier_key(&self) -> Option<VerifierKey> {
        let text = std::str::from_utf8(self.key.as_ref()?).ok()?;
        let key = VerifierKey::parse(text.strip_suffix('\n')?).ok()?;
        (format!("{}\n", key.encode()) == text).then_some(key)
    }
}

/// The state that is checked, as it was at one moment.
pub(super) struct Fixed {
    pub(super) chain: Chain,
    pub(super) subjects: Vec<Subject>,
    pub(super) heads: HeadsCompared,
    pub(super) slots: SlotsTold,
    /// The openings and losses in all that was read, second copies included.
    pub(super) epochs: CertifiedEpochs,
    pub(super) published: Published,
    /// True when damaged frames of the journal were skipped.
    pub(super) is_passed: bool,
}

impl Verifier<'_> {
    /// Fixes the checkpoints of all streams.
    ///
    /// The journal and the stream `heads` are read before any checkpoint, because their content was
    /// true before. When a key that the journal did not certify until then signs a checkpoint, the
    /// key moved on meanwhile, and they are read again.
    pub(super) fn fix(
        &self,
        faults: &mut Faults,
        unchecked: &mut Names,
    ) -> Result<Fixed, LogError> {
        // Before the journal: a folder that is created later is not judged by an earlier journal.
        let folders = names(&self.files, "streams")?.unwrap_or_default();
        let (told, mut notes) = self.read_settled()?;
        let Told {
            history,
            mut anchors,
            certificates_read,
            all_named,
            slots,
            faults: journal_faults,
            is_whole,
            passed,
            passed_heads,
        } = told;
        faults.append(journal_faults);
        let published = self.published(&history, &notes);
        let journal = notes.get(&StreamName::journal());
        let ahead = self.certified_ahead(&history, journal.and_then(Notes::verifier_key))?;
        let is_passed = !passed.is_empty();
        name_passed(&passed, &passed_heads, unchecked);
        check_folders(folders, &history, is_passed, faults, unchecked);
        let mut heads = HeadsCompared {
            place: self.heads_path.clone(),
            ..HeadsCompared::default()
        };
        let mut subjects = Vec::new();
        for (name, config) in &history.streams {
            let notes = notes.remove(name).unwrap_or_default();
            let origin = self.geometry.stream_origin(name.as_str());
            let opening = Opening {
                name,
                anchors: anchors_of(name, anchors.remove(&origin), all_named),
                certificates_read,
                witness: self.geometry.witness().filter(|key| key.name() == origin),
                origin,
                history: &history,
                kept: notes.kept.as_deref().and_then(claimed),
                is_passed,
                ahead: ahead.as_ref(),
            };
            // If the end of the chain is unknown, a key cannot be shown to be outside it.
            if (is_whole || is_passed) && notes.published.is_some() {
                opening.check_key(&notes, faults, unchecked);
            }
            let subject = self.subject(opening, *config, &notes, faults, unchecked);
            count_copy(&mut heads, &notes, &subject);
            subjects.push(subject);
        }
        heads.since = self.stream_of_since(&subjects, faults);
        Ok(Fixed {
            chain: self.chain(&history, (is_whole, certificates_read), faults),
            subjects,
            heads,
            slots,
            epochs: CertifiedEpochs::of(&history),
            published,
            is_passed,
        })
    }

    /// Reads the journal, then the notes of all streams, until the journal certifies the keys that
    /// signed them.
    fn read_settled(&self) -> Result<(Told, BTreeMap<StreamName, Notes>), LogError> {
        let mut reads: u32 = 0;
        loop {
            let told = self.read_journal()?;
            let history = &told.history;
            // Notes read before an earlier look at the journal may be older than the journal is
            // now.
            let mut notes = BTreeMap::new();
            for (name, _) in &history.streams {
                notes.insert(name.clone(), self.notes(name)?);
            }
            reads = reads.saturating_add(1);
            let mut read = notes.iter();
            let strange = read.any(|(name, notes)| self.is_strange(name, notes, history));
            if !strange || reads == JOURNAL_READS_MAX || self.certified(history)? {
                return Ok((told, notes));
            }
        }
    }

    /// Returns whether the journal certifies no more keys by now than `history` has.
    fn certified(&self, history: &History) -> Result<bool, LogError> {
        let now = self.follow_journal(&mut |_, _| {})?.history;
        Ok(now.keys.len() == history.keys.len())
    }

    /// Returns whether a note of the stream is signed by no key of the journal.
    fn is_strange(&self, name: &StreamName, notes: &Notes, history: &History) -> bool {
        let origin = self.geometry.stream_origin(name.as_str());
        let is_new = |key: VerifierKey| key.name() == origin && !history.has_key(&key);
        if notes.verifier_key().is_some_and(is_new) {
            return true;
        }
        [&notes.published, &notes.kept]
            .into_iter()
            .flatten()
            .any(|note| {
                matches!(
                    history.open(note, &origin),
                    Err(NoteError::NoKnownSignature)
                )
            })
    }

    /// Collects the known heads of a stream.
    fn subject(
        &self,
        opening: Opening<'_>,
        config: StreamConfig,
        notes: &Notes,
        faults: &mut Faults,
        unchecked: &mut Names,
    ) -> Subject {
        let fingerprint = self.geometry.fingerprint();
        let name = opening.name;
        let place = format!("streams/{name}/checkpoint");
        let mut subject = Subject {
            id: StreamId::new(&fingerprint, name, &config),
            name: name.clone(),
            config,
            version: self.geometry.version(),
            fingerprint,
            head: None,
            known: opening.known(),
            since: 0,
            anchors: Anchors::default(),
            uncovered: Vec::new(),
            lost: None,
        };
        opening.name_undecided(notes, &place, unchecked);
        if let Some(note) = &notes.published {
            // If its key is unknown, for instance because the journal is damaged, its content still
            // shows the place of other damage.
            let head = opening.open(note, &place, None, faults);
            opening.check_witness(note, &place, faults);
            subject.head = head.or_else(|| opening.strange(note));
        }
        let shown = opening.shown_by(notes.published.as_deref());
        if let Some(note) = &notes.kept {
            let size = subject.head.as_ref().map_or(0, Checkpoint::size);
            let kept = opening.open_kept(note, (size, shown), faults);
            if let Some(kept) = kept.as_ref().filter(|kept| kept.size() < size) {
                let detail = ahead(size, kept.size());
                faults.push(Fault::new(FaultClass::Checkpoint, name, &*place, detail));
            }
            subject
                .known
                .extend(kept.map(|head| known(&head, KEPT, FaultClass::Rollback)));
        }
        if let Some(since) = &self.options.since
            && note_origin(since) == Some(&opening.origin)
        {
            // The caller asserts that it was signed for, so its content is compared even where its
            // key is unknown.
            let head = opening.open(since, SINCE, Some(shown), faults);
            let head = head.or_else(|| opening.strange(since));
            subject.since = head.as_ref().map_or(0, Checkpoint::size);
            subject
                .known
                .extend(head.map(|head| known(&head, SINCE, FaultClass::Fork)));
        }
        // The second copy is written before the first checkpoint; a crash or this very moment may
        // be between the two.
        let mut signed = subject
            .known
            .iter()
            .filter(|known| known.source != KEPT && known.size > 0);
        let anchored = opening.anchors.last().filter(|(size, _)| *size > 0);
        let is_due = opening.is_due_always();
        if notes.published.is_none() && (anchored.is_some() || signed.next().is_some() || is_due) {
            let detail = if is_due {
                "is missing though every log has one"
            } else {
                "is missing though the stream has signed frames"
            };
            faults.push(Fault::new(FaultClass::Missing, name, &*place, detail));
        }
        let older = subject
            .head
            .as_ref()
            .and_then(|head| opening.is_older(head.size()));
        if let Some(detail) = older {
            faults.push(Fault::new(FaultClass::Rollback, name, place, detail));
        }
        subject.known.sort_by_key(|known| known.size);
        subject.anchors = opening.anchors;
        subject
    }

    /// The size in the published checkpoint of a stream, by any signer.
    pub(super) fn claimed_size(&self, name: &StreamName) -> Result<Option<u64>, LogError> {
        let head = self.notes(name)?.published.and_then(|note| claimed(&note));
        Ok(head.map(|head| head.size()))
    }

    /// The largest of the sizes in the checkpoint of a stream, in its second copy and in the head
    /// that the verifier remembers, by any signer. Frames behind it are not signed for.
    pub(super) fn claimed_most(&self, name: &StreamName) -> Result<u64, LogError> {
        let notes = self.notes(name)?;
        let heads = [notes.published, notes.kept, self.since_of(name)];
        let heads = heads.into_iter().flatten();
        let sizes = heads.filter_map(|note| Some(claimed(&note)?.size()));
        Ok(sizes.max().unwrap_or_default())
    }

    fn notes(&self, name: &StreamName) -> Result<Notes, LogError> {
        let max = to_u64(CHECKPOINT_BYTES_MAX);
        let copy = || Ok::<_, LogError>(Stored::read(&self.heads, name.as_str(), max)?.content());
        let mut kept = copy()?;
        let path = format!("streams/{name}/checkpoint");
        let published = Stored::read(&self.files, &path, max)?.content();
        let size = |note: &Option<Vec<u8>>| Some(claimed(note.as_ref()?)?.size());
        // The copy is written before the checkpoint: a copy that is behind was read before a writer
        // advanced both.
        if size(&kept) < size(&published) {
            kept = copy()?.or(kept);
        }
        // Written before the checkpoint where it is another one.
        let path = format!("streams/{name}/{KEY}");
        let key = Stored::read(&self.files, &path, KEY_BYTES_MAX)?.content();
        Ok(Notes {
            published,
            kept,
            key,
        })
    }
}

/// Counts the second copy of a stream, or names it where there is none of signed frames.
fn count_copy(heads: &mut HeadsCompared, notes: &Notes, subject: &Subject) {
    if notes.kept.is_some() {
        heads.streams = heads.streams.saturating_add(1);
    } else if subject.head.as_ref().is_some_and(|head| head.size() > 0) {
        heads.missing.push(subject.name.to_string());
    }
}

fn known(head: &Checkpoint, source: &str, class: FaultClass) -> KnownHead {
    KnownHead {
        size: head.size(),
        root: *head.root(),
        source: source.to_owned(),
        class,
    }
}

/// The head in a note, by any signer.
fn claimed(note: &[u8]) -> Option<Checkpoint> {
    let note = SignedNote::parse(note).ok()?;
    Checkpoint::parse(note.text()).ok()
}

/// The first line of a note, with any other lines.
pub(super) fn note_origin(note: &[u8]) -> Option<&str> {
    let line = note.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()
}

/// Opens the notes of one stream.
pub(super) struct Opening<'a> {
    pub(super) name: &'a StreamName,
    pub(super) origin: String,
    pub(super) history: &'a History,
    /// The head in the second copy, by any signer.
    kept: Option<Checkpoint>,
    pub(super) anchors: Anchors,
    /// Certificates before the newest frame of `heads` that was read, which was before any note
    /// was.
    pub(super) certificates_read: usize,
    /// The key that signs this stream's checkpoints beside the current one.
    witness: Option<&'a VerifierKey>,
    /// True when damaged frames of the journal were skipped, which may have certified keys.
    pub(super) is_passed: bool,
    /// The key beside the journal's checkpoint, where its certificate is behind the signed part.
    ahead: Option<&'a VerifierKey>,
}

impl Opening<'_> {
    /// The heads of this stream that certificates bind.
    fn known(&self) -> Vec<KnownHead> {
        let certificates = self.history.certificates.iter();
        certificates
            .filter_map(|(link, frame)| match self.name.as_str() {
                StreamName::JOURNAL => Some((link.journal, frame)),
                StreamName::HEADS => link.heads.map(|heads| (heads, frame)),
                _ => None,
            })
            .map(|(bound, frame)| KnownHead {
                size: bound.size,
                root: bound.root,
                source: format!("the key certificate in journal frame {frame}"),
                class: FaultClass::KeyChain,
            })
            .collect()
    }

    /// Checks that the key beside the checkpoint is one of the chain, under the stream's own name:
    /// foreign verifiers use it.
    ///
    /// The key is written before the checkpoint and read after it, and so never older than the
    /// checkpoint's signer. For the journal it is newer where a writer ended between the two. Its
    /// certificate is behind the checkpoint then, and only the second copy would cover it.
    fn check_key(&self, notes: &Notes, faults: &mut Faults, unchecked: &mut Names) {
        let place = format!("streams/{}/{KEY}", self.name);
        let own = notes.verifier_key().filter(|key| key.name() == self.origin);
        let mut keys = self.history.keys.iter();
        let number = own
            .as_ref()
            .and_then(|own| keys.rposition(|(key, _)| key.key() == own.key()));
        let signed = notes.published.as_ref();
        let signed = signed.and_then(|note| self.history.open(note, &self.origin).ok());
        let (class, detail) = match (number, signed) {
            _ if notes.key.is_none() => (FaultClass::Missing, "is missing beside the checkpoint"),
            (None, _) if own.is_some() && self.is_passed => {
                unchecked.push(place, UncheckedReason::Undecided);
                return;
            }
            (None, _) if own.is_some() && own.as_ref() == self.ahead => {
                unchecked.push(place, UncheckedReason::Ahead);
                return;
            }
            (None, _) => {
                let detail = "is no key that the log certified for this stream";
                (FaultClass::KeyChain, detail)
            }
            (Some(number), Some((signer, _))) if number < signer && self.history.v2.is_none() => {
                let detail = "is an older key than the one that signed the checkpoint";
                (FaultClass::Checkpoint, detail)
            }
            _ => return,
        };
        faults.push(Fault::new(class, self.name, place, detail));
    }

    /// Lists the notes whose signing key cannot be determined.
    fn name_undecided(&self, notes: &Notes, place: &str, unchecked: &mut Names) {
        let kept = format!("{KEPT} of stream {}", self.name);
        for (note, place) in [(&notes.published, place), (&notes.kept, &kept)] {
            if note.as_ref().is_some_and(|note| self.is_undecided(note)) {
                unchecked.push(place, UncheckedReason::Undecided);
            }
        }
    }

    /// Returns whether a damaged frame of the journal may have certified the key that signed
    /// `note`.
    fn is_undecided(&self, note: &[u8]) -> bool {
        self.is_passed && self.strange(note).is_some()
    }

    /// Checks the witness key's line. Witnesses know the log by this key alone: without its line
    /// they refuse the next head.
    fn check_witness(&self, note: &[u8], place: &str, faults: &mut Faults) {
        if let Some(detail) = unwitnessed(note, self.witness) {
            let detail = format!("{detail}: the next opening for writing signs it anew");
            faults.push(Fault::new(FaultClass::Checkpoint, self.name, place, detail));
        }
    }

    pub(super) fn is_journal(&self) -> bool {
        self.name.as_str() == StreamName::JOURNAL
    }

    /// Returns whether the stream has a checkpoint in every log: the journal has, and once that was
    /// begun, the heads.
    fn is_due_always(&self) -> bool {
        self.is_journal() || self.is_heads() && self.history.frames() > 0
    }

    /// Returns whether this is the stream in which the log anchors heads.
    pub(super) fn is_heads(&self) -> bool {
        self.name.as_str() == StreamName::HEADS && self.history.v2.is_none()
    }

    /// The checkpoint in `note`, which the key of its time must have signed. A head that is `given`
    /// beside the stream's checkpoint is compared with that, which shows the root of so many frames;
    /// up to there any key of the log will do.
    fn open(
        &self,
        note: &[u8],
        place: &str,
        given: Option<u64>,
        faults: &mut Faults,
    ) -> Option<Checkpoint> {
        if self.is_undecided(note) {
            return None;
        }
        let (signer, head) = match self.history.open(note, &self.origin) {
            Ok(opened) => opened,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let detail = if note.is_empty() {
                    "is empty, too long, or something else is in the place of the file".to_owned()
                } else {
                    cause.unwrap_or_else(|| error.to_string())
                };
                let fault = Fault::new(FaultClass::Checkpoint, self.name, place, detail);
                faults.push(if self.is_later(note) {
                    fault.of_older_journal()
                } else {
                    fault
                });
                return None;
            }
        };
        let mut fault = |detail: String| {
            faults.push(Fault::new(FaultClass::Checkpoint, self.name, place, detail));
        };
        if head.origin() != self.origin {
            let origin = head.origin();
            fault(format!("has the origin {origin:?} of another stream"));
            return None;
        }
        if let Some(detail) = wrong_form(note) {
            fault(detail.to_owned());
        }
        if let Some(due) = self.missed(signer, head.size(), given) {
            fault(signed_too_late(signer, due));
        }
        Some(head)
    }

    /// The second copy of the head. A copy by a key that this journal does not have, for more
    /// frames than the checkpoint covers, is of a later time: the log is an older copy of itself.
    fn open_kept(
        &self,
        note: &[u8],
        (size, shown): (u64, u64),
        faults: &mut Faults,
    ) -> Option<Checkpoint> {
        if let Some(origin) = note_origin(note).filter(|origin| *origin != self.origin)
            && claimed(note).is_some()
        {
            let detail = if log_of(note).as_deref() == named_in(&self.origin) {
                format!("is of {origin}, another stream")
            } else {
                format!(
                    "is of {origin}, another log: a log has a folder of second copies of its own; name this log's (--heads, PROBITY_HEADS), \
                     and leave these copies where they are"
                )
            };
            faults.push(Fault::new(FaultClass::Checkpoint, self.name, KEPT, detail));
            return None;
        }
        let strange = self.strange(note);
        let later = strange.clone().filter(|head| head.size() > size);
        let Some(later) = later.filter(|_| !self.is_passed) else {
            return self.open(note, KEPT, Some(shown), faults).or(strange);
        };
        let detail = format!(
            "is for {} and signed by a key that this journal does not certify: an older copy of the log was put back, or another log of its name keeps its copies there",
            frames(later.size())
        );
        let fault = Fault::new(FaultClass::Rollback, self.name, KEPT, detail);
        faults.push(fault.of_older_journal());
        None
    }

    /// Returns whether `note` is of an unknown key and covers more frames than any other head: the
    /// journal is an older one, or the key is foreign.
    fn is_later(&self, note: &[u8]) -> bool {
        let kept = self.kept.as_ref().map_or(0, Checkpoint::size);
        let strange = self.strange(note);
        strange.is_some_and(|head| head.size() > kept.max(self.named()))
    }

    /// The head in a note of this stream that no key of the journal has signed.
    fn strange(&self, note: &[u8]) -> Option<Checkpoint> {
        let opened = self.history.open(note, &self.origin);
        let head = claimed(note)?;
        let strange = matches!(opened, Err(NoteError::NoKnownSignature));
        (strange && head.origin() == self.origin).then_some(head)
    }
}

/// The fault in a checkpoint's form: more than the log writes.
fn wrong_form(note: &[u8]) -> Option<&'static str> {
    let note = SignedNote::parse(note).ok()?;
    let mut keys: Vec<_> = note
        .signatures()
        .iter()
        .map(|it| (it.name(), it.id()))
        .collect();
    let signatures = keys.len();
    keys.sort_unstable();
    keys.dedup();
    (keys.len() < signatures).then_some("has two signatures of one key")
}

/// The anchored heads of stream `name`; `all` is the epoch of the last frame that names all
/// streams. No frame names the stream `heads`.
fn anchors_of(name: &StreamName, found: Option<Anchors>, all: Option<u32>) -> Anchors {
    let all = all.filter(|_| name.as_str() != StreamName::HEADS);
    found.unwrap_or_else(|| Anchors::unnamed(all))
}
