//! The content of an opened frame: columns of all entries, joined with those of their subjects.
//!
//! `docs/format.md`, "Sealing". A frame of an erasable stream keeps the columns of each set of subjects in a section of
//! its own; a section that is not open (erased, or not shown) leaves the other columns readable.

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

/// Bytes of one pseudonym.
pub const PSEUDONYM_BYTES: usize = 16;

/// First byte of a word in the shared columns of actor and submitter that refers to one of the entry's subjects.
///
/// No name holds it. The place of the subject follows, in one byte.
const REFERENCE: u8 = 0;

/// Every reference, by the place of the subject.
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

/// The word for `name` in the shared columns: a reference where it is the name of one of `subjects`.
pub(crate) fn referred<'a>(name: &'a [u8], subjects: &[u8]) -> &'a [u8] {
    if name.is_empty() || subjects.is_empty() {
        return name;
    }
    let mut places = subjects.split(|byte| *byte == b'\n').zip(&REFERENCES);
    let found = places.find(|(subject, _)| *subject == name);
    found.map_or(name, |(_, reference)| reference)
}

/// The place of the subject that `word` refers to, of `count` there are; none where it is a name.
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
    /// The people, where the section has shares.
    pub people: Option<&'a People>,
}

impl<'a> Own<'a> {
    /// The name of the subject at `place` of entry `within`, where it is known.
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

/// What of the people of an entry cannot be read, because they were erased or a proof does not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Closed {
    /// How many of its subjects.
    pub subjects: usize,
    /// Whether one of those is the actor.
    pub actor: bool,
    /// Whether one of those is the submitter.
    pub submitter: bool,
}

impl Closed {
    /// Nothing is closed.
    pub const NONE: Self = Self {
        subjects: 0,
        actor: false,
        submitter: false,
    };

    /// Whether the whole entry can be read.
    pub const fn is_none(&self) -> bool {
        self.subjects == 0
    }
}

/// The opened sections of one frame.
#[non_exhaustive]
pub struct Content<'a> {
    shared: Columns<'a>,
    /// By section number minus one, `None` where not open; empty where the shared section holds every column.
    subjects: Vec<Option<Own<'a>>>,
    /// Whether actors and submitters may refer to subjects.
    refers: bool,
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
    /// What of its people cannot be read.
    pub closed: Closed,
}

impl<'a> Content<'a> {
    /// The content of a frame whose one section holds every column.
    pub const fn together(shared: Columns<'a>) -> Self {
        Self {
            shared,
            subjects: Vec::new(),
            refers: false,
        }
    }

    /// The content of a frame with a section for each set of subjects, in the order of their numbers.
    ///
    /// # Errors
    /// When there is another number of them than the shared section speaks of, or one that is open
    /// holds another number of entries.
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

    /// Puts the names of the `count` subjects into `texts`, and those of actor and submitter that refer to one; says what is closed.
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
