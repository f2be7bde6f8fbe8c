//! The subjects of the frames whose keys were given up. Only their keys are taken back.

use std::collections::BTreeSet;

use crate::error::LogError;
use crate::files::is_strange;
use crate::records::Records;
use crate::scan::{Position, scan_believed};
use crate::settling::FoundStream;
use crate::slots::Pseudonym;

/// The subjects of frames whose keys were given up.
#[derive(Default)]
pub(crate) struct GivenUpSubjects {
    pub(crate) named: BTreeSet<Pseudonym>,
    /// The place of the first of these frames that cannot be read, which may name others.
    pub(crate) unread: Option<String>,
}

impl FoundStream<'_> {
    /// Adds the pseudonyms in the frames of this stream that accepted losses of keys name, as far as
    /// the frames are whole and of this log.
    ///
    /// # Errors
    /// Errors of the storage; [`LogError::Broken`] if a frame that the log sealed does not name its
    /// subjects. Keys that were put back for it would be taken for nobody's.
    pub(crate) fn given_up(&mut self, subjects: &mut GivenUpSubjects) -> Result<(), LogError> {
        let name = self.recovery.name;
        let losses = self.recovery.history.losses.iter();
        let closed: Vec<_> = losses.filter_map(|it| it.closed_of(name)).collect();
        if self.recovery.opening.is_none() {
            return Ok(());
        }
        for frames in closed {
            self.add_subjects((frames.start, frames.end), subjects)?;
        }
        Ok(())
    }

    /// Adds the pseudonyms in the frames from number `from` up to `to`. Behind a damaged frame its
    /// record leads on.
    fn add_subjects(
        &mut self,
        (from, to): (u64, u64),
        subjects: &mut GivenUpSubjects,
    ) -> Result<(), LogError> {
        let start = Position::start(self.recovery.identity);
        let mut unread = from;
        // Records that are damaged lead nowhere.
        for position in self.position_before(from)?.into_iter().chain([start]) {
            unread = unread.max(self.scan_subjects(position, (from, to), subjects)?);
            if unread >= to {
                return Ok(());
            }
        }
        while unread < to {
            let place = || format!("stream {}, frame {unread}", self.recovery.name);
            subjects.unread.get_or_insert_with(place);
            let behind = self.position_before(unread.saturating_add(1))?;
            let Some(position) = behind.filter(|it| it.next_frame > unread) else {
                break;
            };
            unread = self.scan_subjects(position, (from, to), subjects)?;
        }
        Ok(())
    }

    /// Adds the pseudonyms in the frames from number `from` up to `to` that can be read one after
    /// the other from `position` on. Returns the first that cannot.
    fn scan_subjects(
        &mut self,
        mut position: Position,
        (from, to): (u64, u64),
        subjects: &mut GivenUpSubjects,
    ) -> Result<u64, LogError> {
        let recovery = &mut self.recovery;
        let name = recovery.name;
        let (epochs, opening) = (&mut recovery.epochs, &mut recovery.opening);
        let Some(opening) = opening else {
            return Ok(to);
        };
        let _end = scan_believed(
            recovery.files,
            recovery.name,
            &mut position,
            // The key of its opening shows that the log sealed it, signed for or not.
            &mut |record, frame| record.frame < to && epochs.authenticate(frame),
            &mut |record, frame| {
                if record.frame >= from {
                    let named = opening.subjects_of(frame);
                    let named = named.map_err(|error| LogError::Broken {
                        place: format!("stream {name}, frame {}", record.frame),
                        reason: error.to_string(),
                    });
                    subjects.named.append(&mut named?);
                }
                Ok::<(), LogError>(())
            },
        )?;
        Ok(position.next_frame)
    }

    /// The nearest position before frame `frame` that the records show; nothing where they are
    /// damaged.
    fn position_before(&self, frame: u64) -> Result<Option<Position>, LogError> {
        let recovery = &self.recovery;
        let (files, name) = (recovery.files, recovery.name);
        let mut records = Records::new(files, name, recovery.identity, self.signed_size);
        let Some(before) = frame.min(self.signed_size).checked_sub(1) else {
            return Ok(None);
        };
        let record = records.of_frame(before);
        let position = record.and_then(|record| match record {
            Some(record) => records.behind(&record),
            None => Ok(None),
        });
        match position {
            Err(error) if is_strange(&error) => Ok(None),
            position => position,
        }
    }
}
