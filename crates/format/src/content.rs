//! The content of an opened frame: columns of all entries, joined with those of their subjects.
//!
//! `docs/format.md`, "Sealing". A frame of an erasable stream keeps the columns of each set of subjects in a section of
//! its own; a section that is not open (erased, or not shown) leaves the other columns readable.

use alloc::vec;
use alloc::vec::Vec;

use crate::column::{Columns, IDEMPOTENCY, KEY, SUBJECTS};
use crate::entry::{Entry, Subjects};
use crate::error::DecodeError;
use crate::frame::Clear;

/// Bytes of one pseudonym.
pub const PSEUDONYM_BYTES: usize = 16;

/// The opened sections of one frame.
#[non_exhaustive]
pub struct Content<'a> {
    shared: Columns<'a>,
    /// By section number minus one, `None` where not open; empty where the shared section holds every column.
    subjects: Vec<Option<Columns<'a>>>,
}

/// One entry of a frame and where its columns come from.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Placed<'a> {
    /// Place in the frame, from 0.
    pub place: usize,
    /// Number of the section that holds its key, subjects, payload and idempotency.
    pub section: u32,
    /// The entry; key, subjects, payload and idempotency are empty where that section is not open.
    pub entry: Entry<'a>,
    /// Whether that section is open.
    pub open: bool,
}

impl<'a> Content<'a> {
    /// The content of a frame whose one section holds every column.
    pub const fn together(shared: Columns<'a>) -> Self {
        Self {
            shared,
            subjects: Vec::new(),
        }
    }

    /// The content of a frame with a section for each set of subjects, in the order of their numbers.
    ///
    /// # Errors
    /// When there is another number of them than the shared section speaks of, or one that is open
    /// holds another number of entries.
    pub fn by_subject(
        shared: Columns<'a>,
        subjects: Vec<Option<Columns<'a>>>,
    ) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("frame", 0, reason);
        if subjects.is_empty() || pseudonyms(&shared).count() != subjects.len() {
            return Err(error("has another number of sections than subjects"));
        }
        let content = Self { shared, subjects };
        let mut counts = vec![0_usize; content.subjects.len()];
        for place in 0..content.len() {
            let count = counts
                .get_mut(content.group(place))
                .ok_or_else(|| error("has an entry without a section of its subjects"))?;
            *count = count.saturating_add(1);
        }
        let fits = |(columns, count): (&Option<Columns<'_>>, &usize)| {
            columns
                .as_ref()
                .is_none_or(|columns| columns.len() == *count)
        };
        if content.subjects.iter().zip(&counts).all(fits) {
            Ok(content)
        } else {
            Err(error(
                "has a section with another number of entries than the shared one says",
            ))
        }
    }

    /// Number of entries.
    pub const fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for each entry in order.
    ///
    /// # Errors
    /// When an entry holds what none may, or with the error of `visit`.
    pub fn for_each<E: From<DecodeError>>(
        &self,
        visit: &mut dyn FnMut(&Placed<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut read = vec![0_usize; self.subjects.len()];
        for place in 0..self.len() {
            let group = self.group(place);
            let within = read.get(group).copied().unwrap_or_default();
            if let Some(count) = read.get_mut(group) {
                *count = within.saturating_add(1);
            }
            visit(&self.placed(place, group, within)?)?;
        }
        Ok(())
    }

    fn group(&self, place: usize) -> usize {
        group(&self.shared, place)
    }

    /// The entry at `place`, which is the one at `within` in section `group` + 1.
    fn placed(&self, place: usize, group: usize, within: usize) -> Result<Placed<'a>, DecodeError> {
        if self.subjects.is_empty() {
            let entry = self.shared.entry(place)?;
            return Ok(Placed {
                place,
                section: 0,
                entry,
                open: true,
            });
        }
        let mut texts = self.shared.texts(place);
        let columns = self.subjects.get(group).and_then(Option::as_ref);
        let own = columns.map(|columns| columns.texts(within));
        for column in [KEY, SUBJECTS, IDEMPOTENCY] {
            let word = own.as_ref().and_then(|own| own.get(column));
            if let Some(text) = texts.get_mut(column) {
                *text = word.copied().unwrap_or_default();
            }
        }
        let payload = columns.map_or(&[][..], |columns| columns.payload(within));
        let mut entry = self.shared.entry_with(place, texts, payload)?;
        if columns.is_none() {
            entry.subjects = Subjects::NONE;
        }
        Ok(Placed {
            place,
            section: subject_section(&self.shared, place),
            entry,
            open: columns.is_some(),
        })
    }
}

/// The pseudonyms of each set of subjects, by section number minus one; empty for entries about nobody.
pub fn pseudonyms<'a>(shared: &Columns<'a>) -> impl Iterator<Item = &'a [u8]> {
    shared
        .text(SUBJECTS)
        .into_iter()
        .flat_map(|text| text.words().to_vec())
}

/// Checks that a frame has the sections that its shared one calls for, each about as many entries as its directory entry says.
///
/// # Errors
/// When another number of sections or of entries follows from the shared section, or its pseudonyms are not whole.
pub fn check_directory(
    clear: &Clear<'_>,
    shared: &Columns<'_>,
    erasable: bool,
) -> Result<(), DecodeError> {
    let error = |reason| Err(DecodeError::new("frame directory", 0, reason));
    let mut counts = vec![shared.len()];
    if erasable {
        for tokens in pseudonyms(shared) {
            if !tokens.len().is_multiple_of(PSEUDONYM_BYTES) {
                return error("has a shared section with a part of a pseudonym");
            }
            counts.push(0);
        }
        for place in 0..shared.len() {
            let section = usize::try_from(subject_section(shared, place)).unwrap_or(usize::MAX);
            let Some(count) = counts.get_mut(section) else {
                return error("has an entry without a section of its subjects");
            };
            *count = count.saturating_add(1);
        }
    }
    if usize::try_from(clear.header.entries) != Ok(shared.len()) {
        return error("belongs to a header with another number of entries than the shared section");
    }
    if counts.len() != clear.sections.len() {
        return error("has another number of sections than follow from the shared one");
    }
    let mut pairs = clear.sections.iter().zip(&counts);
    if pairs.all(|(section, count)| usize::try_from(section.entries) == Ok(*count)) {
        Ok(())
    } else {
        error("has a section with another number of entries than follow from the shared one")
    }
}

/// The number of the section that holds the subject columns of the entry at `place`, where that is not the shared one.
pub fn subject_section(shared: &Columns<'_>, place: usize) -> u32 {
    u32::try_from(group(shared, place))
        .unwrap_or(u32::MAX)
        .saturating_add(1)
}

fn group(shared: &Columns<'_>, place: usize) -> usize {
    shared.text(SUBJECTS).map_or(0, |text| text.number(place))
}
