//! State from earlier chunks: people who came back or forgot meanwhile, and placeholders they made.

use std::collections::BTreeSet;

use super::principals::Principals;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::chunk_note::{ChunkNote, FoundNote};
use crate::records::registry::named;
use crate::statements::table::existing;

impl Principals<'_> {
    /// Looks up the marks of `ids`, if everybody is meant. A user's rows are known by their owners
    /// alone.
    pub(super) fn recall(
        &mut self,
        database: &mut dyn TenantConnection,
        ids: &[&Value],
    ) -> Result<(), Error> {
        let spelled: Vec<Value> = ids.iter().map(|id| self.spelled(id).clone()).collect();
        let (Some(earlier), None) = (&mut self.earlier, self.user) else {
            return Ok(());
        };
        let unasked: Vec<Value> = spelled
            .into_iter()
            .filter(|id| earlier.asked.insert(id.principal()))
            .collect();
        let names: Vec<Vec<u8>> = unasked.iter().map(Value::principal).collect();
        let stored = names.iter();
        let stored = stored.map(|name| named(database.tenancy(), name).principal());
        let stored: Vec<Vec<u8>> = stored.collect();
        let which = [ChunkNote::Returned, ChunkNote::Forgotten, ChunkNote::Made];
        let found = self.notes.found(database, &which, &stored)?;
        let newcomers = self.newcomers(database, &found, &unasked)?;
        for it in found {
            let (Some(name), Some(stored)) = (names.get(it.place), stored.get(it.place)) else {
                continue;
            };
            let is_theirs = match self.known.get(name) {
                Some((_, standing)) if it.note == ChunkNote::Made => !standing.is_person(),
                Some((public, _)) => it.is_of(self.notes, stored, public),
                None => !newcomers.contains(name),
            };
            if is_theirs {
                self.remember(it.note, name.clone());
            }
        }
        Ok(())
    }

    fn remember(&mut self, note: ChunkNote, name: Vec<u8>) {
        let Some(earlier) = &mut self.earlier else {
            return;
        };
        match note {
            ChunkNote::Returned => earlier.returned.insert(name),
            ChunkNote::Forgotten => earlier.forgotten.insert(name),
            ChunkNote::Made => earlier.marked.insert(name.clone()) | self.made.insert(name),
            ChunkNote::Moved => false,
        };
    }

    /// Returns those of the marked `ids` that are in the users table and not registered. Nothing
    /// tells whether they are the people whom the marks are about: they count as others, for whom
    /// records have to be made.
    fn newcomers(
        &self,
        database: &mut dyn TenantConnection,
        found: &[FoundNote],
        ids: &[Value],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let marked = found.iter().filter_map(|it| ids.get(it.place));
        let unknown = marked.filter(|id| !self.known.contains_key(&id.principal()));
        let unknown: Vec<Value> = unknown.cloned().collect();
        let pseudo = &self.live.pseudo;
        existing(database, &pseudo.table, &pseudo.id, &unknown)
    }

    /// Returns whether anybody has revealed what earlier chunks hid of theirs, met or not.
    pub(super) fn has_anybody_returned(
        &self,
        database: &mut dyn TenantConnection,
    ) -> Result<bool, Error> {
        if self.earlier.is_none() || self.user.is_some() {
            return Ok(false);
        }
        self.notes.has_any(database, ChunkNote::Returned)
    }

    /// Returns whether somebody who was met has revealed what earlier chunks hid of theirs.
    pub(super) fn has_somebody_returned(&self) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|it| !it.whoever && !it.returned.is_empty())
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

    /// Returns whether the person behind a principal had the records of this disguise destroyed
    /// while it was going on.
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
        Ok(found.into_iter().map(|it| it.place).collect())
    }
}

/// An identity as the marks of a step name it.
fn of_step(step: u32, identity: &[u8]) -> Vec<u8> {
    [&step.to_le_bytes()[..], identity].concat()
}
