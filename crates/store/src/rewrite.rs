//! All tables of one file copied into another, and nothing else: what was removed stays behind.

use redb::{
    Database, Key, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    ReadableTableMetadata as _, StorageError, TableDefinition, TableError, Value, WriteTransaction,
};

use crate::rows;

/// Copies what is in the tables of `from` to `to`, durably. A table that is not known, or that did not arrive whole, is an
/// error: nothing may be lost.
pub(crate) fn copy(from: &Database, to: &Database) -> Result<(), redb::Error> {
    let (read, write) = (from.begin_read()?, to.begin_write()?);
    let mut copied = 0;
    for definition in rows::definitions() {
        copied += copy_table(&read, &write, definition)?;
    }
    copied += copy_table(&read, &write, rows::FACTS)?;
    let there = read.list_tables()?.count() + read.list_multimap_tables()?.count();
    if there != copied {
        let text = format!("{there} tables, of which {copied} are known");
        return Err(StorageError::Corrupted(text).into());
    }
    write.commit()?;
    Ok(())
}

/// Copies a table; how many there were of this name.
fn copy_table<K: Key + 'static, V: Value + 'static>(
    read: &ReadTransaction,
    write: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<usize, redb::Error> {
    let source = match read.open_table(definition) {
        Ok(source) => source,
        Err(TableError::TableDoesNotExist(_)) => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    let mut target = write.open_table(definition)?;
    for row in source.iter()? {
        let (key, value) = row?;
        target.insert(key.value(), value.value())?;
    }
    if source.len()? != target.len()? {
        return Err(StorageError::Corrupted("rows were lost".to_owned()).into());
    }
    Ok(1)
}
