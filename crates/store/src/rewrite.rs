//! The copy of a file's whole content into another file, without removed data and with new keys of
//! subjects.

use std::collections::HashMap;

use redb::{Database, ReadableDatabase as _, StorageError, TableHandle as _, WriteTransaction};

use crate::facts::{FACTS, Facts, SLOT_FACT};
use crate::fail::Fail;
use crate::limits::DATABASES;
use crate::random::unguessable;
use crate::record::{Body, Kind, Value};
use crate::records::{KeyRow, Records};
use crate::rows::Rows;
use crate::slots::Slots;
use crate::sorted_set::decode;
use crate::subject::{Id, Slot};
use crate::{owners, records, rows};

/// A file and the keys of its subjects; none in a format that knew no subjects.
pub(crate) type Source<'a> = (&'a Database, Option<&'a Slots>);

/// Copies the content of `from` to `to`, durably. Unknown tables and incomplete values are errors,
/// because nothing may be lost.
pub(crate) fn copy(from: Source<'_>, to: (&Database, &Slots)) -> Result<(), redb::Error> {
    copy_all(from, to).map_err(failed)
}

fn failed(fail: Fail) -> redb::Error {
    match fail {
        Fail::Store(error) => error,
        Fail::Said(text) => {
            StorageError::Corrupted(String::from_utf8_lossy(&text).into_owned()).into()
        }
    }
}

fn copy_all(from: Source<'_>, to: (&Database, &Slots)) -> Result<(), Fail> {
    let failed = |error: redb::Error| Fail::Store(error);
    let read = from.0.begin_write().map_err(|error| failed(error.into()))?;
    let write = to.0.begin_write().map_err(|error| failed(error.into()))?;
    check_tables(&read)?;
    copy_facts(&read, &write)?;
    let guess = [unguessable(0), unguessable(1)];
    let (mut source_facts, mut facts) = (Facts::load(&read, guess)?, Facts::load(&write, guess)?);
    let source = source_facts.tables(&read, from.1);
    let mut target = facts.tables(&write, Some(to.1));
    let mut owners = HashMap::new();
    for db in 0..DATABASES {
        for row in source.0.keys_from(db, 0)? {
            let row = row?;
            let owner = owner(&source.0, &mut target.0, db, &row, &mut owners)?;
            let mut record = row.record()?;
            if let Value::Rows(body) = &mut record.value {
                copy_value(&source.1, &mut target.1, body, owner)?;
            }
            target.0.put_owned(db, row.key(), &record, None, owner)?;
            if let Some(deadline) = record.deadline {
                target.0.put_deadline(db, deadline, row.key())?;
            }
        }
    }
    drop((source, target));
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

/// Refuses a file with tables that would not be copied.
fn check_tables(read: &WriteTransaction) -> Result<(), Fail> {
    let keys = records::DEFINITIONS.into_iter().flatten();
    let known: Vec<String> = keys
        .chain(rows::DEFINITIONS)
        .chain(owners::DEFINITIONS)
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

/// Returns the owner of a key in the other file. A key without a subject may have one by now.
fn owner(
    source: &Records<'_>,
    target: &mut Records<'_>,
    db: usize,
    row: &KeyRow,
    owners: &mut HashMap<Slot, Slot>,
) -> Result<Slot, Fail> {
    if row.owner == Slot::NOBODY {
        return target.owner_for(db, row.key());
    }
    if let Some(known) = owners.get(&row.owner) {
        return Ok(*known);
    }
    let slot = target.slot_of(source, row.owner)?;
    owners.insert(row.owner, slot);
    Ok(slot)
}

/// Copies the rows of a value, which are to be `owner`'s in the other file.
fn copy_value(
    source: &Rows<'_>,
    target: &mut Rows<'_>,
    body: &mut Body,
    owner: Slot,
) -> Result<(), Fail> {
    let id = Id {
        number: body.id.number,
        owner,
    };
    let mut count = 0;
    if matches!(body.kind, Kind::Text | Kind::List) {
        for item in source.items(body.id, 0)? {
            let item = item?;
            target.put_item(id, item.place(), item.value())?;
            count += 1;
        }
    } else {
        for element in source.elements(body.id, 0)? {
            let element = element?;
            target.put_element(id, element.name(), element.value())?;
            if body.kind == Kind::SortedSet {
                target.put_score(id, decode(element.value())?, element.name())?;
            }
            count += 1;
        }
    }
    // Chunks of a string that are all zeros may be missing.
    if body.kind != Kind::Text && count != body.count {
        return Err(Fail::broken("the number of a value's rows"));
    }
    body.id = id;
    Ok(())
}
