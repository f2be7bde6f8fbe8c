//! State from earlier chunks: people who came back or forgot meanwhile, and placeholders they made.

use std::collections::BTreeSet;

use super::principals::Principals;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::chunk_note::{ChunkNote, keyed};
use crate::records::registry::named;

impl Principals<'_> {
    /// Looks up the marks of `ids`, if everybody is meant. A user's rows are known by their owners
    /// alone.
    pub(super) fn recall(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<(), Error> {
        let names: Vec<Vec<u8>> = ids.iter().map(|id| self.name(id)).collect();
        let (Some(earlier), None) = (&mut self.earlier, self.user) else {
            return Ok(());
        };
        let unasked: Vec<Vec<u8>> = names
            .into_iter()
            .filter(|name| earlier.asked.insert(name.clone()))
            .collect();
        let stored = unasked.iter();
        let stored = stored.map(|name| named(database.tenancy(), name).principal());
        let stored: Vec<Vec<u8>> = stored.collect();
        let which = [ChunkNote::Returned, ChunkNote::Forgotten, ChunkNote::Made];
        let found = self.notes.found(database, &which, &stored)?;
        let away = |mark: &ChunkNote| matches!(mark, ChunkNote::Returned | ChunkNote::Forgotten);
        let marked: BTreeSet<usize> = found
            .iter()
            .filter_map(|(mark, place)| away(mark).then_some(*place))
            .collect();
        let others = self.others(database, &marked, (&unasked, &stored))?;
        let Some(earlier) = &mut self.earlier else {
            return Ok(());
        };
        for (mark, place) in found {
            let Some(name) = unasked.get(place).cloned() else {
                continue;
            };
            if away(&mark) && others.contains(&place) {
                continue;
            }
            match mark {
                ChunkNote::Returned => earlier.returned.insert(name),
                ChunkNote::Forgotten => earlier.forgotten.insert(name),
                ChunkNote::Made => earlier.marked.insert(name.clone()) | self.made.insert(name),
                ChunkNote::Moved | ChunkNote::Keyed => false,
            };
        }
        Ok(())
    }

    /// Returns those of the `marked` names, by their places, that belong to somebody else by now: registered, and not with the key
    /// of the person who returned or forgot.
    fn others(
        &self,
        database: &mut dyn TenantConnection,
        marked: &BTreeSet<usize>,
        (names, stored): (&[Vec<u8>], &[Vec<u8>]),
    ) -> Result<BTreeSet<usize>, Error> {
        let mut places = Vec::new();
        let mut marks = Vec::new();
        for place in marked {
            let (Some(name), Some(stored)) = (names.get(*place), stored.get(*place)) else {
                continue;
            };
            if let Some((public, it)) = self.known.get(name)
                && it.is_person()
            {
                places.push(*place);
                marks.push(keyed(stored, public));
            }
        }
        if marks.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut others: BTreeSet<usize> = places.iter().copied().collect();
        for (_, at) in self.notes.found(database, &[ChunkNote::Keyed], &marks)? {
            if let Some(place) = places.get(at) {
                others.remove(place);
            }
        }
        Ok(others)
    }

    /// Returns whether the person behind a principal revealed this disguise while it was going on.
    pub(super) fn has_returned(&self, name: &[u8]) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|it| !it.whoever && it.returned.contains(name))
    }

    /// Sets whether rows of people who came back are taken like any others.
    pub(super) const fn set_whoever(&mut self, whoever: bool) {
        if let Some(earlier) = &mut self.earlier {
            earlier.whoever = whoever;
        }
    }

    /// Returns whether the person behind a principal had the records of this disguise destroyed while it was going on.
    pub(super) fn has_forgotten(&self, name: &[u8]) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|it| it.forgotten.contains(name))
    }

    /// Notes the identities that rows got, so that no chunk takes them again.
    pub(super) fn note_moved<'i>(&mut self, identities: impl IntoIterator<Item = &'i Vec<u8>>) {
        if let Some(earlier) = &mut self.earlier {
            earlier.moved.extend(identities.into_iter().cloned());
        }
    }

    /// Leaves marks for later chunks, and for the later pieces of this one.
    pub(super) fn leave_marks(
        &mut self,
        database: &mut dyn TenantConnection,
        step: u32,
    ) -> Result<(), Error> {
        let notes = self.notes;
        let Some(earlier) = &mut self.earlier else {
            return Ok(());
        };
        let moved = std::mem::take(&mut earlier.moved);
        let moved: Vec<Vec<u8>> = moved.iter().map(|it| of_step(step, it)).collect();
        notes.put(database, ChunkNote::Moved, &moved)?;
        if self.user.is_some() {
            return Ok(());
        }
        let made = self.made.iter();
        let new: Vec<Vec<u8>> = made
            .filter(|name| earlier.marked.insert((*name).clone()))
            .map(|name| named(database.tenancy(), name).principal())
            .collect();
        notes.put(database, ChunkNote::Made, &new)
    }

    /// Returns the indices of those of `identities` that rows got from this step.
    pub(super) fn moved_by(
        &self,
        database: &mut dyn TenantConnection,
        step: u32,
        identities: &[Vec<u8>],
    ) -> Result<BTreeSet<usize>, Error> {
        let names: Vec<Vec<u8>> = identities.iter().map(|it| of_step(step, it)).collect();
        let found = self.notes.found(database, &[ChunkNote::Moved], &names)?;
        Ok(found.into_iter().map(|(_, place)| place).collect())
    }
}

/// An identity as the marks of a step name it.
fn of_step(step: u32, identity: &[u8]) -> Vec<u8> {
    [&step.to_le_bytes()[..], identity].concat()
}
