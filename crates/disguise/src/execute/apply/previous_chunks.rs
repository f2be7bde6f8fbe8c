//! What a chunk knows of those before it: who came back or forgot meanwhile, which placeholders they made.

use std::collections::BTreeSet;

use super::Applier;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::chunk_note::{ChunkNote, ChunkNotes};
use crate::records::registry::named;
use crate::schema::ResolvedTable;
use crate::statements::row::at;

/// What the chunks before this one left, as far as it met them.
#[derive(Default)]
pub(crate) struct PreviousChunks {
    /// Principals that were looked up.
    asked: BTreeSet<Vec<u8>>,
    /// Those whose person revealed the disguise since it was begun.
    returned: BTreeSet<Vec<u8>>,
    /// Those whose person had the records of it destroyed.
    forgotten: BTreeSet<Vec<u8>>,
    /// Identities that rows got from the step at hand, not marked yet.
    moved: Vec<Vec<u8>>,
    /// Placeholders made before, which are marked already.
    marked: BTreeSet<Vec<u8>>,
    /// Rows are taken whoever came back, because what they refer to goes.
    whoever: bool,
}

impl Applier<'_> {
    /// Looks up what is marked of `ids`, where everybody is meant. A user's rows are told by their owners alone.
    pub(super) fn recall(&mut self, ids: &[&Value]) -> Result<(), Error> {
        let names: Vec<Vec<u8>> = ids.iter().map(|id| self.name(id)).collect();
        let (Some(earlier), None) = (&mut self.earlier, self.user) else {
            return Ok(());
        };
        let unasked: Vec<Vec<u8>> = names
            .into_iter()
            .filter(|name| earlier.asked.insert(name.clone()))
            .collect();
        let stored = unasked.iter();
        let stored = stored.map(|name| named(self.database.tenancy(), name).principal());
        let stored: Vec<Vec<u8>> = stored.collect();
        let marks = ChunkNotes {
            id: self.applied.id,
            salt: self.salt,
        };
        let which = [ChunkNote::Returned, ChunkNote::Forgotten, ChunkNote::Made];
        for (mark, place) in marks.found(self.database, &which, &stored)? {
            let Some(name) = unasked.get(place).cloned() else {
                continue;
            };
            match mark {
                ChunkNote::Returned => earlier.returned.insert(name),
                ChunkNote::Forgotten => earlier.forgotten.insert(name),
                ChunkNote::Made => earlier.marked.insert(name.clone()) | self.made.insert(name),
                ChunkNote::Moved => false,
            };
        }
        Ok(())
    }

    /// Whether the person behind a principal revealed this disguise while it was going on.
    pub(super) fn has_returned(&self, name: &[u8]) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|it| !it.whoever && it.returned.contains(name))
    }

    /// Works on rows of people who came back as on any others.
    pub(super) fn whoever_came_back(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let whoever = |work: &mut Self, whoever| {
            if let Some(earlier) = &mut work.earlier {
                earlier.whoever = whoever;
            }
        };
        whoever(self, true);
        let done = work(self);
        whoever(self, false);
        done
    }

    /// Whether the person behind a principal had the records of this disguise destroyed while it was going on.
    pub(super) fn has_forgotten(&self, name: &[u8]) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|it| it.forgotten.contains(name))
    }

    /// The rows whose record would not go to somebody who came back.
    pub(super) fn without_returned(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        if self.earlier.is_none() || self.user.is_some() {
            return Ok(rows);
        }
        let people = self.people(table, columns, &rows)?;
        self.meet(&people.iter().flatten().collect::<Vec<_>>())?;
        let mut people = people.iter();
        rows.retain(|_| {
            let keeper = people.next().and_then(|of| self.keeper(of));
            keeper.is_none_or(|keeper| !self.has_returned(&keeper))
        });
        Ok(rows)
    }

    /// The rows that are not those of placeholders made by this disguise, among which the next chunk would find them.
    pub(super) fn without_made(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        mut rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let id = &self.live.pseudo.id;
        if self.earlier.is_none() || self.user.is_some() || table.name != self.live.pseudo.table {
            return Ok(rows);
        }
        let ids: Vec<&Value> = rows.iter().filter_map(|row| at(columns, row, id)).collect();
        self.meet(&ids)?;
        rows.retain(|row| {
            at(columns, row, id).is_none_or(|id| !self.made.contains(&id.principal()))
        });
        Ok(rows)
    }

    /// Drops the bags of those who want no records any more.
    pub(super) fn forget_marked(&mut self) {
        if let Some(earlier) = &self.earlier {
            self.bags
                .retain(|name, _| !earlier.forgotten.contains(name));
        }
    }

    /// Notes the identities that rows got, so that no chunk takes them again.
    pub(super) fn note_moved<'i>(&mut self, identities: impl IntoIterator<Item = &'i Vec<u8>>) {
        if let Some(earlier) = &mut self.earlier {
            earlier.moved.extend(identities.into_iter().cloned());
        }
    }

    /// Marks what the chunks after this one, and its own further pieces, must know.
    pub(super) fn leave_marks(&mut self, step: u32) -> Result<(), Error> {
        let marks = ChunkNotes {
            id: self.applied.id,
            salt: self.salt,
        };
        let Some(earlier) = &mut self.earlier else {
            return Ok(());
        };
        let moved = std::mem::take(&mut earlier.moved);
        let moved: Vec<Vec<u8>> = moved.iter().map(|it| of_step(step, it)).collect();
        marks.put(self.database, ChunkNote::Moved, &moved)?;
        if self.user.is_some() {
            return Ok(());
        }
        let made = self.made.iter();
        let new: Vec<Vec<u8>> = made
            .filter(|name| earlier.marked.insert((*name).clone()))
            .map(|name| named(self.database.tenancy(), name).principal())
            .collect();
        marks.put(self.database, ChunkNote::Made, &new)
    }

    /// Which of `identities` rows got from this step.
    pub(super) fn moved_by(
        &mut self,
        step: u32,
        identities: &[Vec<u8>],
    ) -> Result<BTreeSet<usize>, Error> {
        let names: Vec<Vec<u8>> = identities.iter().map(|it| of_step(step, it)).collect();
        let marks = ChunkNotes {
            id: self.applied.id,
            salt: self.salt,
        };
        let found = marks.found(self.database, &[ChunkNote::Moved], &names)?;
        Ok(found.into_iter().map(|(_, place)| place).collect())
    }
}

/// An identity as the marks of a step name it.
fn of_step(step: u32, identity: &[u8]) -> Vec<u8> {
    [&step.to_le_bytes()[..], identity].concat()
}
