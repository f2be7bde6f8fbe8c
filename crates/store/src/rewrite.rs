//! The copy of a file's whole content into another file, without removed data and with new keys of
//! subjects.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use redb::{Database, ReadableDatabase as _, StorageError, TableHandle as _, WriteTransaction};

use crate::facts::{FACTS, Facts, SLOT_FACT, pass};
use crate::fail::Fail;
use crate::limits::{CHUNK_BYTES, DATABASES};
use crate::loss::Loss;
use crate::random::unguessable;
use crate::record::{Body, Kind, Value};
use crate::records::{Found, KeyRow, Records, Unread};
use crate::rows::Rows;
use crate::slots::Slots;
use crate::sorted_set::decode;
use crate::subject::{Id, Slot};
use crate::table::{Definition, Row};
use crate::{owners, records, rows};

/// A file that is copied.
pub(crate) struct Source<'a> {
    database: &'a Database,
    /// The keys of its subjects; none in a format that knew no subjects.
    pub(crate) slots: Option<&'a Slots>,
    /// The path of the file, for errors.
    pub(crate) path: PathBuf,
    /// Receiver of what does not open. Without one, that is an error.
    losses: Option<Losses<'a>>,
}

/// The losses of a file that is damaged.
pub(crate) struct Losses<'a> {
    pub(crate) tell: &'a mut dyn FnMut(Loss),
    /// True if subjects are not found by their names any more.
    pub(crate) is_unnamed: bool,
    /// True if parts of long strings are lost, so that a missing part need not be zeros.
    pub(crate) is_text_lost: bool,
}

impl<'a> Source<'a> {
    pub(crate) const fn new(
        database: &'a Database,
        slots: Option<&'a Slots>,
        path: PathBuf,
    ) -> Self {
        Self {
            database,
            slots,
            path,
            losses: None,
        }
    }

    /// A file of which rows are missing or do not open.
    pub(crate) const fn damaged(
        database: &'a Database,
        slots: &'a Slots,
        path: PathBuf,
        losses: Losses<'a>,
    ) -> Self {
        Self {
            database,
            slots: Some(slots),
            path,
            losses: Some(losses),
        }
    }
}

pub(crate) fn failed(fail: Fail) -> redb::Error {
    match fail {
        Fail::Store(error) => error,
        Fail::Said(text) => {
            StorageError::Corrupted(String::from_utf8_lossy(&text).into_owned()).into()
        }
        Fail::Damaged(what) => StorageError::Corrupted(what).into(),
    }
}

/// Copies the content of `from` to `to`, durably. Unknown tables are errors, and so are, of a file
/// that is not damaged, incomplete values: nothing may be lost unsaid.
pub(crate) fn copy(mut from: Source<'_>, to: (&Database, &Slots)) -> Result<(), Fail> {
    let failed = |error: redb::Error| Fail::Store(error);
    let read = from
        .database
        .begin_write()
        .map_err(|error| failed(error.into()))?;
    let write = to.0.begin_write().map_err(|error| failed(error.into()))?;
    check_tables(&read)?;
    copy_facts(&read, &write)?;
    let guess = [unguessable(0), unguessable(1)];
    let (mut source_facts, mut facts) = (Facts::load(&read, guess)?, Facts::load(&write, guess)?);
    let source = source_facts.tables(&read, from.slots);
    let mut copying = Copying {
        target: facts.tables(&write, Some(to.1)),
        losses: from.losses.take(),
        owners: HashMap::new(),
        damaged: BTreeSet::new(),
        last_id: 0,
    };
    for db in 0..DATABASES {
        copying.database(&source, db)?;
    }
    let last_id = copying.last_id;
    drop((source, copying));
    pass(&write, last_id)?;
    write.commit().map_err(|error| failed(error.into()))?;
    read.abort().map_err(|error| failed(error.into()))
}

/// Writes the content that every file of a store has, durably.
pub(crate) fn begin(database: &Database) -> Result<(), redb::Error> {
    let write = database.begin_write()?;
    Facts::load(&write, [unguessable(0), unguessable(1)]).map_err(failed)?;
    Ok(write.commit()?)
}

/// Returns whether a file has the content of every file of a store. The header, which is in clear,
/// could have been changed to name no table.
pub(crate) fn is_begun(database: &Database) -> Result<bool, redb::Error> {
    let read = database.begin_write()?;
    let mut tables = read.list_tables()?;
    let found = tables.any(|it| it.name() == FACTS.name());
    drop(tables);
    read.abort()?;
    Ok(found)
}

/// Returns the first key of a subject that was never given out.
pub(crate) fn next_slot(database: &Database) -> Result<Slot, redb::Error> {
    let table = database.begin_read()?.open_table(FACTS)?;
    let next = table.get(SLOT_FACT)?.map(|value| value.value());
    Ok(next.map_or(Slot::NOBODY, Slot))
}

/// Returns whether a program that knew subjects wrote the file: each makes their tables when it
/// opens a file.
pub(crate) fn knows_subjects(database: &Database) -> Result<bool, redb::Error> {
    let read = database.begin_write()?;
    let mut tables = read.list_tables()?;
    let owned = owners::DEFINITIONS;
    let found = tables.any(|it| owned.iter().any(|known| known.name() == it.name()));
    drop(tables);
    read.abort()?;
    Ok(found)
}

/// Returns the tables of rows that a file may have, beside the facts.
pub(crate) fn tables() -> impl Iterator<Item = Definition> {
    let keys = records::DEFINITIONS.into_iter().flatten();
    keys.chain(rows::DEFINITIONS).chain(owners::DEFINITIONS)
}

/// Refuses a file with tables that would not be copied.
fn check_tables(read: &WriteTransaction) -> Result<(), Fail> {
    let known: Vec<String> = tables()
        .map(|it| it.name().to_owned())
        .chain([FACTS.name().to_owned()])
        .collect();
    let multimaps = read.list_multimap_tables()?.count();
    let unknown = read
        .list_tables()?
        .any(|it| !known.iter().any(|name| name == it.name()));
    if unknown || multimaps > 0 {
        return Err(Fail::broken("a table of the file"));
    }
    Ok(())
}

fn copy_facts(read: &WriteTransaction, write: &WriteTransaction) -> Result<(), Fail> {
    use redb::ReadableTable as _;
    let (source, mut target) = (read.open_table(FACTS)?, write.open_table(FACTS)?);
    for row in source.iter()? {
        let (name, number) = row?;
        // Keys of subjects are given out anew.
        if name.value() == SLOT_FACT {
            continue;
        }
        target.insert(name.value(), number.value())?;
    }
    Ok(())
}

/// The tables of a file that is copied.
type Tables<'txn> = (Records<'txn>, Rows<'txn>);

/// A copying under way.
struct Copying<'a, 'txn> {
    target: Tables<'txn>,
    losses: Option<Losses<'a>>,
    /// The slots that subjects of the source have in the target.
    owners: HashMap<Slot, Slot>,
    /// Subjects whose keys do not open.
    damaged: BTreeSet<Slot>,
    /// The highest number of a value that was copied.
    last_id: u64,
}

/// The part of a value's rows that was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    Whole,
    /// A number of elements are missing.
    Lacks(u64),
    /// Nothing is left that could be used.
    Nothing,
}

impl Copying<'_, '_> {
    /// Copies the keys of a database.
    fn database(&mut self, source: &Tables<'_>, db: usize) -> Result<(), Fail> {
        for row in source.0.found_from(db, 0)? {
            match row? {
                Found::Key(row) => self.key(source, db, &row)?,
                Found::Damaged(unread) => self.unread(db, unread)?,
            }
        }
        Ok(())
    }

    fn key(&mut self, source: &Tables<'_>, db: usize, row: &KeyRow) -> Result<(), Fail> {
        let owner = self.owner(&source.0, db, row)?;
        let mut record = row.record()?;
        if let Value::Rows(body) = &mut record.value {
            let copied = self.value(&source.1, body, owner)?;
            if copied != Copied::Whole {
                self.lose(db, row.key(), copied)?;
            }
            if copied == Copied::Nothing {
                return Ok(());
            }
            self.last_id = self.last_id.max(body.id.number);
        }
        self.target
            .0
            .put_owned(db, row.key(), &record, None, owner)?;
        match record.deadline {
            Some(deadline) => self.target.0.put_deadline(db, deadline, row.key()),
            None => Ok(()),
        }
    }

    /// Passes over a key that does not open.
    fn unread(&mut self, db: usize, unread: Unread) -> Result<(), Fail> {
        let Some(losses) = &mut self.losses else {
            return Err(Fail::Damaged(unread.what));
        };
        if let Some(name) = unread.name {
            (losses.tell)(Loss::Key { db, name });
            return Ok(());
        }
        let subject = unread.owner.0;
        if self.damaged.insert(unread.owner) {
            (losses.tell)(Loss::Subject(subject));
        }
        (losses.tell)(Loss::Unnamed { db, subject });
        Ok(())
    }

    /// Tells of a value that was not copied whole.
    fn lose(&mut self, db: usize, name: &[u8], copied: Copied) -> Result<(), Fail> {
        let Some(losses) = &mut self.losses else {
            return Err(Fail::broken("the number of a value's rows"));
        };
        let name = name.to_vec();
        (losses.tell)(match copied {
            Copied::Lacks(count) => Loss::Elements { db, name, count },
            Copied::Whole | Copied::Nothing => Loss::Key { db, name },
        });
        Ok(())
    }

    /// Returns the owner of a key in the other file. A key without a subject may have one by now.
    fn owner(&mut self, source: &Records<'_>, db: usize, row: &KeyRow) -> Result<Slot, Fail> {
        let target = &mut self.target.0;
        let is_unnamed = self.losses.as_ref().is_some_and(|it| it.is_unnamed);
        if row.owner == Slot::NOBODY || is_unnamed {
            let owner = target.owner_for(db, row.key())?;
            if row.owner == Slot::NOBODY || owner != Slot::NOBODY {
                return Ok(owner);
            }
        }
        if let Some(known) = self.owners.get(&row.owner) {
            return Ok(*known);
        }
        let slot = target.slot_of(source, row.owner)?;
        self.owners.insert(row.owner, slot);
        Ok(slot)
    }

    /// Copies the rows of a value, which are to be `owner`'s in the other file.
    fn value(&mut self, source: &Rows<'_>, body: &mut Body, owner: Slot) -> Result<Copied, Fail> {
        let id = Id {
            number: body.id.number,
            owner,
        };
        let is_damaged = self.losses.is_some();
        let count = match body.kind {
            Kind::Text | Kind::List => {
                if body.kind == Kind::Text && self.is_torn(source, body)? {
                    return Ok(Copied::Nothing);
                }
                self.items(source, body, id)?
            }
            Kind::Hash | Kind::Set | Kind::SortedSet => {
                let mut count = 0;
                for element in source.elements(body.id, 0)? {
                    let Some(element) = left(element, is_damaged)? else {
                        continue;
                    };
                    let (name, value) = (element.name(), element.value());
                    self.target.1.put_element(id, name, value)?;
                    if body.kind == Kind::SortedSet {
                        self.target.1.put_score(id, decode(value)?, name)?;
                    }
                    count += 1;
                }
                count
            }
        };
        body.id = id;
        // Chunks of a string that are all zeros may be missing.
        if body.kind == Kind::Text || count == body.count {
            return Ok(Copied::Whole);
        }
        let lacks = body.count.checked_sub(count);
        let lacks = lacks.ok_or_else(|| Fail::broken("the number of a value's rows"))?;
        body.count = count;
        Ok(if count == 0 {
            Copied::Nothing
        } else {
            Copied::Lacks(lacks)
        })
    }

    /// Copies elements of a list, without gaps, or chunks of a string.
    fn items(&mut self, source: &Rows<'_>, body: &Body, id: Id) -> Result<u64, Fail> {
        let is_damaged = self.losses.is_some();
        let mut count = 0;
        for item in source.items(body.id, 0)? {
            let Some(item) = left(item, is_damaged)? else {
                continue;
            };
            let place = match body.kind {
                Kind::List if is_damaged => body.first.wrapping_add(count),
                _ => item.place(),
            };
            self.target.1.put_item(id, place, item.value())?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns whether a chunk of a string does not open, or is missing where some are lost: it
    /// would read as zeros.
    fn is_torn(&self, source: &Rows<'_>, body: &Body) -> Result<bool, Fail> {
        let Some(losses) = &self.losses else {
            return Ok(false);
        };
        let mut chunks = 0;
        for item in source.items(body.id, 0)? {
            if left(item, true)?.is_none() {
                return Ok(true);
            }
            chunks += 1;
        }
        Ok(losses.is_text_lost && chunks < body.count.div_ceil(CHUNK_BYTES))
    }
}

/// Returns a row that opens; none that does not, of a file that is known to be damaged.
fn left(row: Result<Row<'_>, Fail>, is_damaged: bool) -> Result<Option<Row<'_>>, Fail> {
    match row {
        Err(Fail::Damaged(_)) if is_damaged => Ok(None),
        row => row.map(Some),
    }
}
