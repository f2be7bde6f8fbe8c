//! Opens the frames of one stream for a reader with a filter.

use std::cell::OnceCell;

use probity_format::DecodeError;
use probity_format::content::Closed;
use probity_format::frame::Frame;
use probity_format::record::Record;
use probity_format::stream::{Proofs, StreamConfig, StreamId, StreamName};
use probity_format::tree::{Hash, root_of};
use probity_format::width::to_u64;

use crate::error::LogError;
use crate::lost::{Lost, NEEDS_KEY};
use crate::opened::Visited;
use crate::opening::Opening;
use crate::reader::{Filter, Found, Reader};
use crate::slots::Pseudonym;
use crate::verify::{Unread, UnreadSection};

/// Opens the frames of one stream for a filter.
pub(crate) struct Reading<'a> {
    name: StreamName,
    filter: Filter,
    reader: &'a Reader,
    opening: Opening<'a>,
    damage: Past,
    /// The pseudonym of the subject that is asked for, once it was looked for.
    wanted: OnceCell<Option<Pseudonym>>,
}

/// The damage that a reading goes past.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    Nothing,
    Damage,
}

/// A section without a key, and the places of its entries in the frame.
struct LostEntries {
    section: u32,
    reason: String,
    standing: Standing,
    /// True when the entries are read, without those people.
    is_partly: bool,
    places: Vec<u64>,
    /// The number of its entries that are not read.
    unread: u64,
}

impl LostEntries {
    /// Returns whether entries of an accepted loss were left out.
    fn is_left_out(&self) -> bool {
        self.standing == Standing::Accepted && self.unread > 0
    }
}

/// The entries of a section without a key that are damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// None: the loss was accepted.
    Accepted,
    /// All.
    Damaged,
    /// Those that name the requested subject; no other may be wanted.
    DamagedByName,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(
        reader: &'a Reader,
        name: &StreamName,
        (id, config): (StreamId, StreamConfig),
        filter: &Filter,
        damage: Past,
    ) -> Self {
        Self {
            name: name.clone(),
            filter: filter.clone(),
            reader,
            opening: Opening::new(&reader.opener, name, id, config),
            damage,
            wanted: OnceCell::new(),
        }
    }

    /// The sections of the last opened frame that are lost and may be about the requested subject.
    /// An entry about it that lacks other people is damaged too, unless their loss was accepted. Adds
    /// to `partly` each section that opens without some of its people, and their number.
    fn lost(&mut self, partly: &mut Vec<(u32, usize)>) -> Result<Vec<LostEntries>, LogError> {
        let mut all = Vec::new();
        for lost in self.opening.take_lost() {
            if lost.is_partly {
                partly.push((lost.section, lost.tokens.len()));
            }
            let is_wanted = self.may_be_wanted(&lost)?;
            let standing = match lost.accepted {
                Some(_) => Standing::Accepted,
                None if is_wanted => Standing::Damaged,
                None => Standing::DamagedByName,
            };
            let is_shared = lost.is_partly && standing == Standing::DamagedByName;
            if is_wanted || is_shared {
                all.push(LostEntries {
                    section: lost.section,
                    reason: lost.to_string(),
                    standing,
                    is_partly: lost.is_partly,
                    places: Vec::new(),
                    unread: 0,
                });
            }
        }
        Ok(all)
    }

    /// Returns whether `lost` may be about the requested subject. Without the subject's key its
    /// name cannot be read. But a name has one pseudonym at a time, as long as no slot was ever
    /// lost.
    fn may_be_wanted(&self, lost: &Lost) -> Result<bool, LogError> {
        let Some(name) = &self.filter.subject else {
            return Ok(true);
        };
        let history = &self.reader.history;
        if history.has_lost_slots || history.frames() == 0 {
            return Ok(true);
        }
        if self.wanted.get().is_none() {
            // The cell was empty, so setting it cannot fail.
            let _first = self.wanted.set(self.reader.opener.pseudonym_of(name)?);
        }
        let wanted = self.wanted.get().copied().flatten();
        Ok(wanted.is_none_or(|wanted| lost.tokens.contains(&wanted)))
    }

    /// The reason why a frame is not read behind its first `entries`.
    fn without_key(&self, entries: u64) -> Unread {
        Unread::Behind {
            entries,
            reason: format!("frame {NEEDS_KEY}; {}", self.reader.opener.remedy()),
        }
    }

    /// Calls `visit` for each entry of a frame that is wanted, as far as the frame opens.
    pub(crate) fn frame<E: From<LogError>>(
        &mut self,
        record: &Record,
        frame: &Frame<'_>,
        visit: &mut dyn FnMut(&Found<'_>) -> Result<(), E>,
    ) -> Result<Result<(), Unread>, E> {
        if !self.filter.reaches(record.time_min, record.time_max) {
            return Ok(Ok(()));
        }
        let unread = |error: DecodeError, entries| Unread::Behind {
            entries,
            reason: error.to_string(),
        };
        let opened = match self.opening.open_what_opens(frame) {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(unread(error, 0))),
        };
        let mut partly = Vec::new();
        let mut lost = self.lost(&mut partly)?;
        let is_damage = |it: &LostEntries| it.standing == Standing::Damaged;
        if self.damage == Past::Nothing && lost.iter().any(is_damage) {
            return Ok(Err(self.without_key(0)));
        }
        let mut content = ContentCheck::default();
        let result = opened.for_each(&mut |visited| {
            content.add(visited, self.opening.proofs())?;
            let is_met = |it: &&mut LostEntries| {
                it.section == visited.section
                    && (it.standing != Standing::DamagedByName
                        || self.filter.names_subject(&visited.entry))
            };
            if let Some(lost) = lost.iter_mut().find(is_met) {
                if self.damage == Past::Nothing && lost.standing != Standing::Accepted {
                    return Err(Stopped::Key);
                }
                lost.places.push(to_u64(visited.index));
                // The one who is asked for may be among the people who cannot be read.
                let is_read = lost.is_partly
                    && (self.filter.subject.is_none() || self.filter.matches(&visited.entry));
                if !is_read {
                    lost.unread = lost.unread.saturating_add(1);
                    return Ok(());
                }
            }
            if !self.filter.matches(&visited.entry) {
                return Ok(());
            }
            let without = partly.iter().find(|(it, _)| *it == visited.section);
            let parted = parted(visited.closed, without.map_or(0, |(_, people)| *people));
            let (closed, missing) = parted.map_err(|error| Stopped::Visit(error.into()))?;
            let offset = to_u64(visited.index);
            let found = Found {
                stream: &self.name,
                index: record.first_entry.saturating_add(offset),
                entry: visited.entry,
                erased: visited.erased,
                closed,
                missing,
            };
            visit(&found).map_err(Stopped::Visit)
        });
        if lost.iter().any(LostEntries::is_left_out) {
            self.reader.meet_loss(&self.name, record.frame);
        }
        match result {
            Ok(()) => Ok(content
                .finish(record, self.opening.proofs())
                .and_then(|()| left_out(record, lost))),
            Err(Stopped::Frame(error)) => Ok(Err(unread(error, content.entries))),
            Err(Stopped::Key) => Ok(Err(self.without_key(content.entries.saturating_sub(1)))),
            Err(Stopped::Visit(error)) => Err(error),
        }
    }
}

/// Parts the people who cannot be read into those who were erased, and the number of those whose
/// keys are `missing`. Where there are both, nothing tells of which kind the actor and the submitter
/// are: they do not count as erased.
///
/// # Errors
/// [`LogError::Defect`] where more keys are missing than people cannot be read.
pub(crate) fn parted(closed: Closed, missing: usize) -> Result<(Closed, Closed), LogError> {
    if missing == 0 {
        return Ok((closed, Closed::NONE));
    }
    let erased = closed.subjects.checked_sub(missing);
    let mut without = closed;
    without.subjects = missing;
    let subjects = erased.ok_or(LogError::Defect {
        what: "more keys of an entry's people are missing than people of it are hidden",
    })?;
    let mut erased = Closed::NONE;
    erased.subjects = subjects;
    Ok((erased, without))
}

/// The content of a frame in total, to be compared with its record.
#[derive(Default)]
struct ContentCheck {
    entries: u64,
    times: Option<(i64, i64)>,
    /// The leaf of each entry, where entries have a root of their own and none is erased.
    leaves: Vec<Hash>,
    has_erased: bool,
    row: Vec<u8>,
}

impl ContentCheck {
    fn add(&mut self, visited: &Visited<'_>, proofs: Proofs) -> Result<(), DecodeError> {
        let time = visited.entry.time.nanoseconds();
        let (min, max) = self.times.unwrap_or((time, time));
        self.times = Some((min.min(time), max.max(time)));
        self.has_erased |= !visited.is_whole();
        if proofs == Proofs::Entry && !self.has_erased {
            self.leaves.push(visited.leaf(&mut self.row)?);
        }
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }

    fn finish(self, record: &Record, proofs: Proofs) -> Result<(), Unread> {
        let unread = |reason: &str| Unread::Behind {
            entries: self.entries,
            reason: reason.to_owned(),
        };
        if self.entries != u64::from(record.entries)
            || self.times != Some((record.time_min, record.time_max))
        {
            let reason = "it holds another number of entries or other times than its header says";
            return Err(unread(reason));
        }
        let has_root = proofs == Proofs::Entry && !self.has_erased;
        if has_root && root_of(&self.leaves).as_bytes() != &record.entry_root {
            return Err(unread("its entries do not have the root its header says"));
        }
        Ok(())
    }
}

/// The reason why the reading of a frame stopped.
enum Stopped<E> {
    /// The frame has content that no frame may have.
    Frame(DecodeError),
    /// The entry lacks a key of somebody.
    Key,
    /// The visitor failed or wants no more.
    Visit(E),
}

impl<E> From<DecodeError> for Stopped<E> {
    fn from(error: DecodeError) -> Self {
        Self::Frame(error)
    }
}

/// Ranges of entries that are named one by one.
const RANGES_NAMED_MAX: usize = 16;

/// The sections that were left out, each with its entries. Where their loss was accepted they are
/// none of the damage: [`Reader::losses`] names their frames.
fn left_out(record: &Record, lost: Vec<LostEntries>) -> Result<(), Unread> {
    let mut sections = Vec::new();
    for lost in lost
        .into_iter()
        .filter(|it| it.standing != Standing::Accepted)
    {
        let Some(first) = lost.places.first() else {
            continue;
        };
        sections.push(UnreadSection {
            reason: format!(
                "{}; it holds {}",
                lost.reason,
                entries(record, &lost.places)
            ),
            first: *first,
            entries: lost.unread,
        });
    }
    if sections.is_empty() {
        return Ok(());
    }
    Err(Unread::Sections(sections))
}

/// The entries at `places` of the frame of `record`, in words.
fn entries(record: &Record, places: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for index in places
        .iter()
        .map(|it| record.first_entry.saturating_add(*it))
    {
        match ranges.last_mut() {
            Some((_, last)) if last.saturating_add(1) == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let named = ranges.iter().take(RANGES_NAMED_MAX).map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        }
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let others = if ranges.len() > RANGES_NAMED_MAX {
        " and others"
    } else {
        ""
    };
    let word = if places.len() == 1 {
        "entry"
    } else {
        "entries"
    };
    format!("{word} {named}{others}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that was counted as missing twice made erased people disappear in silence.
    #[test]
    fn more_missing_keys_than_hidden_people_are_a_defect() {
        let mut hidden = Closed::NONE;
        hidden.subjects = 2;
        hidden.actor = true;
        let (erased, missing) = parted(hidden, 1).unwrap();
        assert_eq!((erased.subjects, erased.actor), (1, false));
        assert_eq!((missing.subjects, missing.actor), (1, true));
        assert_eq!(parted(hidden, 0).unwrap(), (hidden, Closed::NONE));
        let refused = parted(hidden, 3);
        assert!(matches!(refused, Err(LogError::Defect { .. })));
    }
}
