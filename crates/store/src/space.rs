//! The keys of a database: found, made, changed, removed, expired, watched.

use crate::client::Present;
use crate::fail::Fail;
use crate::limits::{CHUNK_BYTES, DATABASES, ROWS_AT_ONCE_MAX, SWEEP_ROWS_MAX};
use crate::random::Random;
use crate::record::{Body, Kind, LIST_MIDDLE, Record, Value};
use crate::records::{Found, Records};
use crate::room::Room;
use crate::rows::Rows;
use crate::store::Sync;
use crate::subject::Id;
use crate::watch::Watched;

/// State that outlives a transaction and belongs to no client.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) random: Random,
    pub(crate) watched: Watched,
    pub(crate) totals: Totals,
    pub(crate) sync: Sync,
}

/// The numbers that INFO shows.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) commands: u64,
    pub(crate) connections: u64,
    pub(crate) clients: Present,
    pub(crate) expired: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// When the store was opened, in milliseconds since 1970.
    pub(crate) opened: u64,
}

/// A database within a transaction.
pub(crate) struct Space<'txn> {
    pub(crate) records: Records<'txn>,
    pub(crate) rows: Rows<'txn>,
    pub(crate) shared: &'txn mut Shared,
    pub(crate) db: usize,
    /// Milliseconds since 1970 when the command began.
    pub(crate) now: u64,
    pub(crate) room: Room,
    pub(crate) begun: Begun,
}

/// Numbers of writes before the command under way began, and before the part of a
/// transaction that it carries out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Begun {
    pub(crate) command: u64,
    pub(crate) part: u64,
}

/// A collection under a key, while a command works on it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) key: Vec<u8>,
    pub(crate) deadline: Option<u64>,
    pub(crate) body: Body,
    /// As it stands in the file; none if the key is new.
    stored: Option<Body>,
    touched: bool,
}

impl Held {
    pub(crate) const fn id(&self) -> Id {
        self.body.id
    }

    pub(crate) const fn len(&self) -> u64 {
        self.body.count
    }

    /// One element less: a collection counts every element that it has.
    pub(crate) fn count_removed(&mut self) -> Result<(), Fail> {
        let left = self.body.count.checked_sub(1);
        self.body.count = left.ok_or_else(|| Fail::broken("the count of a value"))?;
        Ok(())
    }

    /// Marks the value as changed, for clients that watch it.
    pub(crate) const fn touch(&mut self) {
        self.touched = true;
    }
}

impl Space<'_> {
    /// Returns how often something was written.
    pub(crate) const fn changes(&self) -> u64 {
        self.records.changes() + self.rows.changes()
    }

    /// Refuses a key that could not be changed because it is damaged, before another one is.
    pub(crate) fn check(&self, key: &[u8]) -> Result<(), Fail> {
        self.records.check(self.db, key)
    }

    /// The record under a key, unless it has expired.
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<Option<Record>, Fail> {
        let Some(record) = self.records.read(self.db, key)? else {
            return Ok(None);
        };
        if record.is_expired(self.now) {
            self.shared.totals.expired += 1;
            let before = self.changes();
            self.remove(key, &record)?;
            // An expired key goes whatever becomes of the command.
            let removed = self.changes() - before;
            self.begun.command += removed;
            self.begun.part += removed;
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// As [`Self::find`], and counts whether it was there, as Redis does for reads.
    pub(crate) fn look_up(&mut self, key: &[u8]) -> Result<Option<Record>, Fail> {
        let found = self.find(key)?;
        let totals = &mut self.shared.totals;
        if found.is_some() {
            totals.hits += 1;
        } else {
            totals.misses += 1;
        }
        Ok(found)
    }

    /// The collection under a key.
    pub(crate) fn held(&mut self, key: &[u8], kind: Kind) -> Result<Option<Held>, Fail> {
        let Some(record) = self.find(key)? else {
            return Ok(None);
        };
        match record.value {
            Value::Rows(body) if body.kind == kind => Ok(Some(Held {
                key: key.to_vec(),
                deadline: record.deadline,
                body,
                stored: Some(body),
                touched: false,
            })),
            _ => Err(Fail::wrong_type()),
        }
    }

    /// As [`Self::held`], and counts whether it was there.
    pub(crate) fn look_up_held(&mut self, key: &[u8], kind: Kind) -> Result<Option<Held>, Fail> {
        let found = self.held(key, kind)?;
        let totals = &mut self.shared.totals;
        if found.is_some() {
            totals.hits += 1;
        } else {
            totals.misses += 1;
        }
        Ok(found)
    }

    /// The collection under a key, empty if there is none.
    pub(crate) fn held_or_new(&mut self, key: &[u8], kind: Kind) -> Result<Held, Fail> {
        match self.held(key, kind)? {
            Some(held) => Ok(held),
            None => self.new_held(key, kind),
        }
    }

    /// An empty collection that will stand under a key that holds nothing.
    pub(crate) fn new_held(&mut self, key: &[u8], kind: Kind) -> Result<Held, Fail> {
        let body = Body {
            kind,
            id: self.new_id(key)?,
            count: 0,
            first: if kind == Kind::List { LIST_MIDDLE } else { 0 },
            large: false,
        };
        Ok(Held {
            key: key.to_vec(),
            deadline: None,
            body,
            stored: None,
            touched: false,
        })
    }

    /// An id for a value that is to stand under `key`.
    pub(crate) fn new_id(&mut self, key: &[u8]) -> Result<Id, Fail> {
        let owner = self.records.owner_for(self.db, key)?;
        self.rows.id_of(owner)
    }

    /// Writes what became of a collection: an empty one is removed.
    pub(crate) fn save(&mut self, held: &Held) -> Result<(), Fail> {
        if held.touched {
            self.shared.watched.touch(self.db, &held.key);
        }
        if held.body.count == 0 {
            if held.stored.is_some() {
                self.forget(&held.key, held.deadline)?;
            }
            return Ok(());
        }
        if held.stored == Some(held.body) {
            return Ok(());
        }
        let record = Record {
            deadline: held.deadline,
            value: Value::Rows(held.body),
        };
        self.records.put(self.db, &held.key, &record)
    }

    /// Puts a value under a key, instead of whatever is there.
    pub(crate) fn put(&mut self, key: &[u8], record: &Record) -> Result<(), Fail> {
        let old = self.records.read(self.db, key)?;
        self.put_over(key, old.as_ref(), record)
    }

    /// Stores as [`Self::put`] does, over a record that is known.
    pub(crate) fn put_over(
        &mut self,
        key: &[u8],
        old: Option<&Record>,
        record: &Record,
    ) -> Result<(), Fail> {
        self.put_untold(key, old, record)?;
        self.touch(key);
        Ok(())
    }

    /// Stores as [`Self::put_over`] does. The value is equal to the one before, so that no client
    /// that watches the key is told.
    pub(crate) fn put_untold(
        &mut self,
        key: &[u8],
        old: Option<&Record>,
        record: &Record,
    ) -> Result<(), Fail> {
        // Both the old and the new deadline stand under the key's subject.
        let changes_owner = match &record.value {
            Value::Rows(body) => body.id.owner != self.records.owner_for(self.db, key)?,
            Value::Short { .. } => false,
        };
        let is_same = |old: &Record| !changes_owner && old.deadline == record.deadline;
        if let Some(old) = old {
            if !is_same(old) {
                self.forget_deadline(key, old.deadline)?;
            }
            self.remove_value(&old.value, &record.value)?;
        }
        self.records.put(self.db, key, record)?;
        if let Some(deadline) = record.deadline
            && !old.is_some_and(is_same)
        {
            self.records.put_deadline(self.db, deadline, key)?;
        }
        Ok(())
    }

    /// Removes a key and its value.
    pub(crate) fn remove(&mut self, key: &[u8], record: &Record) -> Result<(), Fail> {
        self.forget(key, record.deadline)?;
        if let Value::Rows(body) = &record.value {
            self.remove_body(body)?;
        }
        self.touch(key);
        Ok(())
    }

    /// Removes a key that does not open.
    pub(crate) fn remove_unread(&mut self, key: &[u8]) -> Result<(), Fail> {
        self.records.remove_unread(self.db, key)?;
        self.touch(key);
        Ok(())
    }

    /// Removes a key but not its value's rows.
    pub(crate) fn forget(&mut self, key: &[u8], deadline: Option<u64>) -> Result<(), Fail> {
        self.forget_deadline(key, deadline)?;
        self.records.remove(self.db, key)
    }

    /// Removes the rows of a value that no key names any more.
    pub(crate) fn remove_body(&mut self, body: &Body) -> Result<(), Fail> {
        let rows = rows_of(body);
        if rows > ROWS_AT_ONCE_MAX {
            return self.rows.remove_later(body);
        }
        let most = usize::try_from(rows).unwrap_or(usize::MAX);
        self.rows
            .remove_rows(body.id.number, body.kind, most.max(1))?;
        Ok(())
    }

    /// Marks a key as changed, for clients that watch it.
    pub(crate) fn touch(&self, key: &[u8]) {
        self.shared.watched.touch(self.db, key);
    }

    /// Removes every key of the database.
    pub(crate) fn clear(&mut self) -> Result<(), Fail> {
        self.touch_all()?;
        let mut bodies = Vec::new();
        for row in self.records.keys_from(self.db, 0)? {
            if let Value::Rows(body) = row?.record()?.value {
                bodies.push(body);
            }
        }
        for body in bodies {
            self.rows.remove_later(&body)?;
        }
        self.records.clear(self.db)
    }

    /// Removes every key of every database.
    pub(crate) fn clear_all(&mut self) -> Result<(), Fail> {
        for db in 0..DATABASES {
            self.db = db;
            self.touch_all()?;
        }
        self.records.clear_all()?;
        self.rows.clear()
    }

    /// Touches the watched keys of the database that exist. The fewer of keys and watched keys are
    /// looked up among the others. So a client that watches many keys slows no other one, and
    /// repeated clearing costs nothing.
    fn touch_all(&self) -> Result<(), Fail> {
        let watched = &self.shared.watched;
        if self.records.keys_len(self.db)? <= watched.len() as u64 {
            let mut is_whole = true;
            for row in self.records.found_from(self.db, 0)? {
                match row? {
                    Found::Key(row) => watched.touch(self.db, row.key()),
                    Found::Damaged(_) => is_whole = false,
                }
            }
            if is_whole {
                return Ok(());
            }
        }
        for key in watched.keys_of(self.db) {
            match self.records.read(self.db, &key) {
                Ok(None) => {}
                Ok(Some(_)) | Err(Fail::Damaged(_)) => self.touch(&key),
                Err(fail) => return Err(fail),
            }
        }
        Ok(())
    }

    /// Removes keys that have expired and rows of removed values, a bounded number of them; whether there is more to do.
    pub(crate) fn sweep(&mut self) -> Result<bool, Fail> {
        let mut left = SWEEP_ROWS_MAX;
        for db in 0..DATABASES {
            self.db = db;
            let (due, is_damaged) = self.records.due(db, self.now, left)?;
            for key in due {
                self.begun.command = self.changes();
                // Finding an expired key removes it.
                match self.find(&key) {
                    Err(Fail::Damaged(_)) => self.remove_unread(&key)?,
                    found => drop(found?),
                }
                left = left.saturating_sub(1);
            }
            self.begun.command = self.changes();
            if is_damaged {
                self.records.remove_unread_due(db, self.now)?;
            }
        }
        while left > 0 {
            self.begun.command = self.changes();
            let removed = self.rows.sweep_removed(left)?;
            if removed == 0 {
                return Ok(false);
            }
            left = left.saturating_sub(removed);
        }
        Ok(true)
    }

    fn forget_deadline(&mut self, key: &[u8], deadline: Option<u64>) -> Result<(), Fail> {
        match deadline {
            Some(deadline) => self.records.remove_deadline(self.db, deadline, key),
            None => Ok(()),
        }
    }

    /// Removes the rows of an old value unless the new one lives on in them.
    fn remove_value(&mut self, old: &Value, new: &Value) -> Result<(), Fail> {
        let Value::Rows(body) = old else {
            return Ok(());
        };
        if matches!(new, Value::Rows(new) if new.id == body.id) {
            return Ok(());
        }
        self.remove_body(body)
    }
}

/// At most how many rows a value has in one table.
const fn rows_of(body: &Body) -> u64 {
    match body.kind {
        Kind::Text => body.count / CHUNK_BYTES + 1,
        _ => body.count,
    }
}
