//! Reads checked streams frame by frame, for a visitor or as an iterator.

use std::collections::VecDeque;
use std::iter::FusedIterator;
use std::sync::Arc;

use probity_format::content::Closed;
use probity_format::stream::StreamName;
use probity_format::{Claimed, Digest, Entry, Outcome, Subjects, Timestamp};

use crate::error::LogError;
use crate::filtering::{Past, Reading};
use crate::reader::{Filter, Found, Reader};
use crate::verify::{Subject, Unread, WholeStream};

/// A stream that was checked, and the means to open its frames.
pub(crate) struct CheckedStream<'a> {
    reader: &'a Reader,
    name: Arc<StreamName>,
    frames: WholeStream<'a>,
    reading: Reading<'a>,
}

impl<'a> CheckedStream<'a> {
    /// Begins before the first frame of `subject`, which [`Reader::checked`] returned.
    pub(crate) fn new(
        reader: &'a Reader,
        subject: &Subject,
        filter: &Filter,
    ) -> Result<Self, LogError> {
        let name = &subject.name;
        let epochs = reader.opener.epochs(name, subject.id);
        let epochs = epochs.above(subject.floor());
        let sealed = (subject.id, subject.config);
        Ok(Self {
            reader,
            name: Arc::new(name.clone()),
            frames: WholeStream::new(&reader.files, subject, epochs)?,
            reading: Reading::new(reader, name, sealed, filter, Past::Nothing),
        })
    }

    /// Calls `visit` for each entry of the next frame that `filter` accepts. Returns whether there
    /// was a frame.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where the frame does not open; errors of the storage and of `visit`.
    pub(crate) fn read_frame<E: From<LogError>>(
        &mut self,
        filter: &Filter,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some((record, frame)) = self.frames.next()? else {
            return Ok(false);
        };
        let Err(unread) = self.reading.frame(&record, &frame, visit)? else {
            return Ok(true);
        };
        let place = format!("stream {}, frame {}", self.name, record.frame);
        let reason = match unread {
            Unread::Behind { reason, .. } => reason,
            Unread::Sections(_) => "sections of the frame do not open".to_owned(),
        };
        Err(self.reader.damaged(filter, place, reason)?.into())
    }
}

/// Iterates over the entries of a log: see [`Reader::iter`].
pub struct Entries<'a> {
    reader: &'a Reader,
    filter: Filter,
    /// The streams that are still to be read; none before they were checked.
    subjects: Option<std::vec::IntoIter<Subject>>,
    stream: Option<CheckedStream<'a>>,
    /// The entries of the last frame that were not taken yet.
    found: VecDeque<OwnedEntry>,
    /// True behind the last entry, and behind an error.
    is_over: bool,
}

impl std::fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries")
            .field("reader", self.reader)
            .finish_non_exhaustive()
    }
}

impl<'a> Entries<'a> {
    pub(crate) fn new(reader: &'a Reader, filter: Filter) -> Self {
        Self {
            reader,
            filter,
            subjects: None,
            stream: None,
            found: VecDeque::new(),
            is_over: false,
        }
    }

    /// The next entry; nothing behind the last one of the last stream.
    fn advance(&mut self) -> Result<Option<OwnedEntry>, LogError> {
        loop {
            if let Some(entry) = self.found.pop_front() {
                return Ok(Some(entry));
            }
            if let Some(stream) = &mut self.stream {
                if !read_frame(stream, &self.filter, &mut self.found)? {
                    self.stream = None;
                }
                continue;
            }
            if self.subjects.is_none() {
                self.subjects = Some(self.reader.checked(&self.filter)?.into_iter());
            }
            let mut subjects = self.subjects.iter_mut().flatten();
            let Some(subject) = subjects.next() else {
                return Ok(None);
            };
            self.stream = Some(CheckedStream::new(self.reader, &subject, &self.filter)?);
        }
    }
}

/// Adds copies of the entries of the next frame to `found`. Returns whether there was a frame.
fn read_frame(
    stream: &mut CheckedStream<'_>,
    filter: &Filter,
    found: &mut VecDeque<OwnedEntry>,
) -> Result<bool, LogError> {
    let name = Arc::clone(&stream.name);
    stream.read_frame(filter, &mut |entry| {
        found.push_back(OwnedEntry::new(Arc::clone(&name), entry));
        Ok(())
    })
}

impl Iterator for Entries<'_> {
    type Item = Result<OwnedEntry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.advance().transpose();
        // Entries of a frame that did not open as a whole are never handed out.
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl FusedIterator for Entries<'_> {}

/// An entry with its place, copied out of its frame. Contents are personal data: the type has no
/// `Debug`.
#[derive(Clone)]
pub struct OwnedEntry {
    stream: Arc<StreamName>,
    index: u64,
    is_erased: bool,
    closed: Closed,
    missing: Closed,
    time: Timestamp,
    taken: Option<Timestamp>,
    outcome: Outcome,
    claimed: Claimed,
    key: Box<[u8]>,
    payload: Box<[u8]>,
    texts: [Box<str>; TEXTS],
    idempotency: Option<Digest>,
    policy: Option<Digest>,
}

/// The number of fields of an entry that are text.
const TEXTS: usize = 9;

impl OwnedEntry {
    fn new(stream: Arc<StreamName>, found: &Found<'_>) -> Self {
        let Found {
            index,
            entry,
            erased,
            closed,
            missing,
            ..
        } = *found;
        let texts = [
            entry.action,
            entry.subjects.as_joined(),
            entry.controller,
            entry.processor,
            entry.actor,
            entry.purpose,
            entry.basis,
            entry.submitter,
            entry.rule,
        ];
        Self {
            stream,
            index,
            is_erased: erased,
            closed,
            missing,
            time: entry.time,
            taken: entry.taken,
            outcome: entry.outcome,
            claimed: entry.claimed,
            key: entry.key.into(),
            payload: entry.payload.into(),
            texts: texts.map(Box::from),
            idempotency: entry.idempotency.copied(),
            policy: entry.policy.copied(),
        }
    }

    /// The stream.
    pub fn stream(&self) -> &StreamName {
        &self.stream
    }

    /// Index in the stream.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// The entry; key, subjects and payload are empty where erased.
    pub fn entry(&self) -> Entry<'_> {
        let [
            action,
            subjects,
            controller,
            processor,
            actor,
            purpose,
            basis,
            submitter,
            rule,
        ] = &self.texts;
        Entry {
            time: self.time,
            action,
            key: &self.key,
            subjects: Subjects::joined(subjects),
            controller,
            processor,
            actor,
            purpose,
            basis,
            outcome: self.outcome,
            payload: &self.payload,
            taken: self.taken,
            submitter,
            claimed: self.claimed,
            idempotency: self.idempotency.as_ref(),
            policy: self.policy.as_ref(),
            rule,
        }
    }

    /// True when only the parts that outlive its subjects can be read: all of them were erased.
    pub const fn is_erased(&self) -> bool {
        self.is_erased
    }

    /// The entry with its place, as a visitor of [`Reader::read`] gets it.
    pub fn found(&self) -> Found<'_> {
        Found {
            stream: &self.stream,
            index: self.index,
            entry: self.entry(),
            erased: self.is_erased,
            closed: self.closed,
            missing: self.missing,
        }
    }
}
