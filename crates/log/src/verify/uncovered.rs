//! Statements of frames that the log's keys sealed and that no head covers yet, in `heads` and in
//! the journal.
//!
//! An opening believes them, and refuses a log that contradicts them. So does whoever has the root
//! key.

use probity_format::Version;
use probity_format::frame::Frame;
use probity_format::record::Record;
use probity_format::stream::StreamName;

use super::slots::SlotsTold;
use super::stored::is_strange;
use super::{Fault, FaultClass, Faults, Subject, Verifier, as_far_as_there, unless_damaged};
use crate::anchored::{bound_heads, read_anchored};
use crate::epochs::CertifiedEpochs;
use crate::error::{LogError, frames};
use crate::found_slots::FoundSlots;
use crate::given_up::GivenUpSubjects;
use crate::heads::Heads;
use crate::history::read_history_to_write;
use crate::journal::History;
use crate::opener::Opener;
use crate::records::Records;
use crate::repairs::{BEYOND, PENDING, RecoveryReport, announced};
use crate::scan::{End, scan_believed};
use crate::segments::Identity;
use crate::uncovered::{Covering, Uncovered};

/// Times that slots are read again because a writer may be at work.
const SLOTS_READS_MAX: u32 = 8;

impl Verifier<'_> {
    /// Adds what such frames name to `subjects`, and compares the slots of subjects with what they
    /// say of them. Read before the streams, so that it was true of them before.
    ///
    /// Nothing is added where the journal or `heads` is not sound: their faults are reported.
    pub(super) fn add_uncovered(
        &self,
        subjects: &mut [Subject],
        slots: &SlotsTold,
        opener: &Opener,
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let is_announced = announced(&self.files, &opener.master.note_key())?.is_some();
        let is_more = is_announced || opener.slots().durable > slots.count();
        if self.geometry.version() == Version::V2 || !is_more && !self.has_more()? {
            return Ok(());
        }
        let Some(history) = self.history_to_write(slots, opener)? else {
            return Ok(());
        };
        if history.short_of.is_some() {
            let journal = StreamName::journal();
            let fault = Fault::new(FaultClass::Rollback, &journal, PENDING, BEYOND);
            faults.push(fault.of_older_journal());
        }
        self.add_heads(subjects, (&history, opener), faults)?;
        for subject in subjects {
            let unsigned = history.unsigned_loss(&subject.name);
            let unsigned = unsigned.map(|lost| (lost.clone(), lost.refused()));
            let begun = history.begun_loss(&subject.name);
            subject.lost = unsigned.or_else(|| begun.map(|lost| (lost.clone(), lost.returned())));
        }
        if let Some(refused) = self.refused_slots(history, slots, opener)? {
            faults.push(refused);
        }
        Ok(())
    }

    /// Returns whether the journal or `heads` may have frames behind its checkpoint. Where a log rests,
    /// nothing more is read.
    fn has_more(&self) -> Result<bool, LogError> {
        for name in [StreamName::journal(), StreamName::heads()] {
            let Some(size) = self.claimed_size(&name)?.filter(|size| *size > 0) else {
                return Ok(true);
            };
            let identity = Identity::built_in(&self.geometry, &name);
            let mut records = Records::new(&self.files, &name, identity, size);
            let last = unless_damaged(records.last())?;
            let behind = last.map(|last| unless_damaged(records.behind(&last)));
            let Some(mut position) = behind.transpose()?.flatten() else {
                return Ok(true);
            };
            let mut believe = |_: &Record, _: &Frame<'_>| false;
            let mut take = |_: &Record, _: &Frame<'_>| Ok::<(), LogError>(());
            let files = &self.files;
            let scanned = scan_believed(files, &name, &mut position, &mut believe, &mut take);
            if !matches!(as_far_as_there(scanned)?, Some(End::Clean)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The journal as a writer reads it; nothing where it is damaged.
    fn history_to_write(
        &self,
        slots: &SlotsTold,
        opener: &Opener,
    ) -> Result<Option<History>, LogError> {
        let heads = Heads::new(self.heads.for_reading());
        let keys = (&opener.master, opener.wrapping());
        match read_history_to_write(&self.files, &heads, &self.geometry, keys) {
            Err(error) if is_strange(&error) => Ok(None),
            read => Ok(Some(read?).filter(|history| slots.is_within(history))),
        }
    }

    /// Adds the heads that no head covers, and the one of `heads` that the last certificate binds.
    /// Each was named after its checkpoint was durable.
    fn add_heads(
        &self,
        subjects: &mut [Subject],
        (history, opener): (&History, &Opener),
        faults: &mut Faults,
    ) -> Result<(), LogError> {
        let heads = Heads::new(self.heads.for_reading());
        let certified = CertifiedEpochs::of(history);
        let mut repairs = RecoveryReport::new(opener.master.note_key(), history);
        let keys = (&opener.master, &certified as _);
        let (files, geometry) = (&self.files, &self.geometry);
        let named = match read_anchored(files, &heads, geometry, history, keys, &mut repairs) {
            Err(error) if is_strange(&error) => return Ok(()),
            named => named?,
        };
        let mut uncovered = named.uncovered;
        if let (Some(head), Some((_, frame))) =
            (bound_heads(geometry, history)?, history.certificates.last())
        {
            let said_in = format!("the key certificate in journal frame {frame}");
            let covering = Covering::of(files, &heads, geometry, history)?;
            let bound = Uncovered {
                head,
                said_in,
                covering,
            };
            uncovered.insert(geometry.stream_origin(StreamName::HEADS), vec![bound]);
        }
        for subject in subjects {
            let origin = geometry.stream_origin(subject.name.as_str());
            subject.uncovered = uncovered.remove(&origin).unwrap_or_default();
            // What the signed part says too is compared there.
            let known = &subject.known;
            let is_new = |named: &Uncovered| {
                let mut known = known.iter();
                known.all(|it| it.size != named.head.size() || it.root != *named.head.root())
            };
            subject.uncovered.retain(is_new);
            if let Some(older) = self.older_than_named(subject)? {
                faults.push(older);
            }
        }
        Ok(())
    }

    /// The fault of a checkpoint that covers fewer frames than a head which the log's keys named.
    fn older_than_named(&self, subject: &Subject) -> Result<Option<Fault>, LogError> {
        let Some(named) = subject.uncovered.iter().max_by_key(|it| it.head.size()) else {
            return Ok(None);
        };
        // Read once more: the head may have been named since.
        let size = self.claimed_size(&subject.name)?.unwrap_or_default();
        let most = named.head.size();
        Ok((size < most).then(|| {
            let detail = format!(
                "covers {}, but {} names {most}: an older checkpoint was put back",
                frames(size),
                named.said_in
            );
            let place = format!("streams/{}/checkpoint", subject.name);
            Fault::new(FaultClass::Rollback, &subject.name, place, detail)
        }))
    }

    /// The reason for which an opening refuses the slots of subjects, where the signed part of the
    /// journal does not show it. Faults of the signed slots are reported where those are checked.
    fn refused_slots(
        &self,
        mut history: History,
        told: &SlotsTold,
        opener: &Opener,
    ) -> Result<Option<Fault>, LogError> {
        let durable = opener.slots().durable;
        if told.is_all_of(&history, durable) || !self.has_sound_slots(&history, told, opener)? {
            return Ok(None);
        }
        let mut refused = None;
        for _ in 0..SLOTS_READS_MAX {
            let found = FoundSlots::read(&self.files, opener.wrapping(), &history)?;
            let Err(error) = found.check(&history, false) else {
                return Ok(None);
            };
            // An opening takes keys back that an accepted loss left out.
            let none = (GivenUpSubjects::default(), false);
            if FoundSlots::put_back(&self.files, opener.wrapping(), &history, none)?.is_some() {
                return Ok(None);
            }
            refused = Some(error);
            match self.history_to_write(told, opener)? {
                Some(now) => history = now,
                None => return Ok(None),
            }
        }
        match refused {
            Some(LogError::Broken { place, reason }) => {
                let journal = StreamName::journal();
                let class = FaultClass::Content;
                Ok(Some(Fault::new(class, &journal, place, reason)))
            }
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    /// Returns whether the slots are those of the signed part of the journal.
    fn has_sound_slots(
        &self,
        history: &History,
        told: &SlotsTold,
        opener: &Opener,
    ) -> Result<bool, LogError> {
        let mut signed = history.clone();
        signed.slots = told.slots;
        signed.erasures.clone_from(&told.erasures);
        let found = FoundSlots::read(&self.files, opener.wrapping(), &signed)?;
        Ok(found.check(&signed, true).is_ok())
    }
}
