//! The content of an opened frame: the shared columns of all entries, joined with the columns of
//! their subjects.
//!
//! `docs/format.md`, "Sealing". A frame of an erasable stream has one section for each set of
//! subjects. If such a section is not open (erased, or not shown), the other columns can still be
//! read.

use alloc::vec;
use alloc::vec::Vec;

use crate::column::{ACTOR, Columns, IDEMPOTENCY, KEY, SUBJECTS, SUBMITTER};
use crate::entry::{Entry, Subjects};
use crate::error::DecodeError;
use crate::frame::Clear;
use crate::limits::SUBJECTS_MAX;
use crate::row::TEXT_COLUMNS;
use crate::share::People;
use crate::version::Version;
use crate::width::to_usize;

/// Bytes of one pseudonym.
pub const PSEUDONYM_BYTES: usize = 16;

/// First byte of a reference: a word in the shared columns of actor and submitter that stands for
/// one of the entry's subjects.
///
/// No name holds this byte. The place of the subject among the entry's subjects follows in one
/// byte.
const REFERENCE: u8 = 0;

/// Every reference, indexed by the place of the subject.
static REFERENCES: [[u8; 2]; SUBJECTS_MAX] = references();

const fn references() -> [[u8; 2]; SUBJECTS_MAX] {
    let mut all = [[REFERENCE, 0]; SUBJECTS_MAX];
    let mut rest: &mut [[u8; 2]] = &mut all;
    let mut place = 0;
    while let Some((first, after)) = rest.split_first_mut() {
        first[1] = place;
        place = place.saturating_add(1);
        rest = after;
    }
    all
}

/// Returns the word for `name` in the shared columns: a reference if `name` is one of `subjects`,
/// else `name` itself.
pub(crate) fn referred<'a>(name: &'a [u8], subjects: &[u8]) -> &'a [u8] {
    if name.is_empty() || subjects.is_empty() {
        return name;
    }
    let mut places = subjects.split(|byte| *byte == b'\n').zip(&REFERENCES);
    let found = places.find(|(subject, _)| *subject == name);
    found.map_or(name, |(_, reference)| reference)
}

/// Returns the place of the subject that `word` refers to, less than `count`; `None` if `word` is a
/// name.
fn place_of(word: &[u8], count: usize) -> Result<Option<usize>, DecodeError> {
    match word {
        [REFERENCE, place] if usize::from(*place) < count => Ok(Some(usize::from(*place))),
        [REFERENCE, ..] => Err(DecodeError::new(
            "frame",
            0,
            "has an actor or submitter that refers to no subject of the entry",
        )),
        _ => Ok(None),
    }
}

/// The columns of one set of subjects, opened.
#[expect(
    clippy::exhaustive_structs,
    reason = "those who open sections build it"
)]
pub struct Own<'a> {
    /// The columns.
    pub columns: Columns<'a>,
    /// The people of the section, if it has shares.
    pub people: Option<&'a People>,
}

impl<'a> Own<'a> {
    /// Returns the name of the subject at `place` of entry `within`, if it is known.
    fn name(&self, within: usize, place: usize) -> Option<&'a [u8]> {
        if let Some(people) = self.people {
            return people.name(place).map(str::as_bytes);
        }
        let joined = self.columns.text(SUBJECTS)?.word(within);
        joined.split(|byte| *byte == b'\n').nth(place)
    }

    fn subjects(&self, within: usize) -> &'a [u8] {
        match self.people {
            Some(people) => people.as_joined().as_bytes(),
            None => self
                .columns
                .text(SUBJECTS)
                .map_or(&[], |text| text.word(within)),
        }
    }
}

/// The people of an entry whose names cannot be read, because they were erased or a proof does not
/// show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Closed {
    /// Number of hidden subjects.
    pub subjects: usize,
    /// `true` if one of the hidden subjects is the actor.
    pub actor: bool,
    /// `true` if one of the hidden subjects is the submitter.
    pub submitter: bool,
}

impl Closed {
    /// No hidden people.
    pub const NONE: Self = Self {
        subjects: 0,
        actor: false,
        submitter: false,
    };

    /// Returns whether the whole entry can be read.
    pub const fn is_none(&self) -> bool {
        self.subjects == 0
    }
}

/// The opened sections of one frame.
#[non_exhaustive]
pub struct Content<'a> {
    shared: Columns<'a>,
    /// Columns by section number minus one, `None` if the section is not open; empty if the shared
    /// section holds every column.
    subjects: Vec<Option<Own<'a>>>,
    /// `true` if actors and submitters may refer to subjects.
    refers: bool,
}

/// One entry of a frame, and the section of its columns.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Placed<'a> {
    /// Place in the frame, from 0.
    pub place: usize,
    /// Number of the section that holds its key, subjects, payload and idempotency.
    pub section: u32,
    /// The entry; key, subjects, payload and idempotency are empty if that section is not open.
    pub entry: Entry<'a>,
    /// `true` if that section is open.
    pub open: bool,
    /// The people of the entry whose names cannot be read.
    pub closed: Closed,
}

impl<'a> Content<'a> {
    /// Creates the content of a frame with a single section that holds every column.
    pub const fn together(shared: Columns<'a>) -> Self {
        Self {
            shared,
            subjects: Vec::new(),
            refers: false,
        }
    }

    /// Creates the content of a frame with one section for each set of subjects, in the order of
    /// their numbers.
    ///
    /// # Errors
    /// When the number of sections is not the one that follows from the shared section. When an
    /// open section has another number of entries.
    pub fn by_subject(
        version: Version,
        shared: Columns<'a>,
        subjects: Vec<Option<Own<'a>>>,
    ) -> Result<Self, DecodeError> {
        let error = |reason| DecodeError::new("frame", 0, reason);
        if subjects.is_empty() || pseudonyms(&shared).count() != subjects.len() {
            return Err(error("has another number of sections than subjects"));
        }
        let content = Self {
            shared,
            subjects,
            refers: version != Version::V2,
        };
        let mut counts = vec![0_usize; content.subjects.len()];
        for place in 0..content.len() {
            let count = counts
                .get_mut(content.group(place))
                .ok_or_else(|| error("has an entry without a section of its subjects"))?;
            *count = count.saturating_add(1);
        }
        let is_doubled = |own: &Own<'_>| own.people.is_some() && own.columns.has_text(SUBJECTS);
        if content.subjects.iter().flatten().any(is_doubled) {
            return Err(error("has a section that names its people twice"));
        }
        let fits = |(own, count): (&Option<Own<'_>>, &usize)| {
            own.as_ref().is_none_or(|own| own.columns.len() == *count)
        };
        if content.subjects.iter().zip(&counts).all(fits) {
            Ok(content)
        } else {
            Err(error(
                "has a section with another number of entries than the shared one says",
            ))
        }
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.shared.len()
    }

    /// Returns whether the frame has no entries.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for each entry in order.
    ///
    /// # Errors
    /// When an entry is invalid, or with the error of `visit`.
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

    /// Returns the entry at `place`, which is entry `within` of section `group` + 1.
    fn placed(&self, place: usize, group: usize, within: usize) -> Result<Placed<'a>, DecodeError> {
        if self.subjects.is_empty() {
            let entry = self.shared.entry(place)?;
            return Ok(Placed {
                place,
                section: 0,
                entry,
                open: true,
                closed: Closed::NONE,
            });
        }
        let mut texts = self.shared.texts(place);
        let own = self.subjects.get(group).and_then(Option::as_ref);
        let count = self
            .shared
            .text(SUBJECTS)
            .map_or(0, |text| text.word(place).len() / PSEUDONYM_BYTES);
        let closed = self.name_people(&mut texts, own, within, count)?;
        let words = own.map(|own| own.columns.texts(within));
        for column in [KEY, IDEMPOTENCY] {
            let word = words.as_ref().and_then(|words| words.get(column));
            if let Some(text) = texts.get_mut(column) {
                *text = word.copied().unwrap_or_default();
            }
        }
        let payload = own.map_or(&[][..], |own| own.columns.payload(within));
        let mut entry = self.shared.entry_with(place, texts, payload)?;
        if own.is_none() {
            entry.subjects = Subjects::NONE;
        }
        Ok(Placed {
            place,
            section: subject_section(&self.shared, place),
            entry,
            open: own.is_some(),
            closed,
        })
    }

    /// Puts the names of the `count` subjects into `texts`, and the names of an actor and submitter
    /// that are references. Returns the hidden people.
    fn name_people(
        &self,
        texts: &mut [&'a [u8]; TEXT_COLUMNS],
        own: Option<&Own<'a>>,
        within: usize,
        count: usize,
    ) -> Result<Closed, DecodeError> {
        let mut closed = Closed {
            subjects: own.map_or(count, |own| own.people.map_or(0, People::closed)),
            ..Closed::NONE
        };
        let [_, _, subjects, _, _, actor, _, _, submitter, ..] = texts;
        *subjects = own.map_or(&[], |own| own.subjects(within));
        if !self.refers {
            return Ok(closed);
        }
        for (word, is_closed) in [
            (actor, &mut closed.actor),
            (submitter, &mut closed.submitter),
        ] {
            if let Some(place) = place_of(word, count)? {
                let name = own.and_then(|own| own.name(within, place));
                *is_closed = name.is_none();
                *word = name.unwrap_or_default();
            }
        }
        Ok(closed)
    }
}

const _: () = assert!(
    SUBJECTS == 2 && ACTOR == 5 && SUBMITTER == 8,
    "the columns stand where the names of people are put"
);

/// Returns the pseudonyms of each set of subjects, by section number minus one; empty for entries
/// about nobody.
pub fn pseudonyms<'a>(shared: &Columns<'a>) -> impl Iterator<Item = &'a [u8]> {
    shared
        .text(SUBJECTS)
        .into_iter()
        .flat_map(|text| text.words().to_vec())
}

/// Checks that the frame's directory has the sections that follow from its shared section, each
/// with the right number of entries.
///
/// # Errors
/// When the number of sections differs, or the number of entries in a section. When the length of a
/// list of pseudonyms is no multiple of a pseudonym's.
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
            let section = to_usize(subject_section(shared, place));
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

/// Returns the number of the section with the subject columns of the entry at `place`, in a frame
/// with sections for subjects.
pub fn subject_section(shared: &Columns<'_>, place: usize) -> u32 {
    u32::try_from(group(shared, place))
        .unwrap_or(u32::MAX)
        .saturating_add(1)
}

fn group(shared: &Columns<'_>, place: usize) -> usize {
    shared.text(SUBJECTS).map_or(0, |text| text.number(place))
}
