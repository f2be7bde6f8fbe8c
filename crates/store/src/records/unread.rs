//! Keys that do not open: removed without their records.

use std::collections::BTreeSet;

use redb::ReadableTable as _;

use super::{Name, Records, of_database, of_database_mut};
use crate::fail::Fail;
use crate::subject::Slot;
use crate::table::ID_BYTES;

impl Records<'_> {
    /// Removes a key that does not open, without its record: of its value, rows elsewhere stay until
    /// the file is rewritten.
    pub(crate) fn remove_unread(&mut self, db: usize, key: &[u8]) -> Result<(), Fail> {
        let found = match self.owned_rows(db, key)? {
            (Some(opened), _) => Some(opened),
            // No other key has the same hash.
            (None, damaged) => damaged.map(|(owner, row, _)| (owner, row)),
        };
        match found {
            Some((owner, row)) => self.remove_rows(db, &[(owner, row)]),
            None => Ok(()),
        }
    }

    /// Removes the keys that do not open, and whose deadlines have come. They are found by their
    /// sealed names.
    pub(crate) fn remove_unread_due(&mut self, db: usize, now: u64) -> Result<(), Fail> {
        let mut names = BTreeSet::new();
        let mut deadlines = Vec::new();
        let end = now.saturating_add(1).to_be_bytes();
        let table = of_database(&self.deadlines, db)?.table()?;
        for row in table.range::<&[u8]>(..end.as_slice())? {
            let (row, _) = row?;
            let name = row.value().get(ID_BYTES..).unwrap_or_default();
            if let Name::Damaged(..) = self.opened_name(name)? {
                names.insert(name.to_vec());
                deadlines.push(row.value().to_vec());
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::new();
        for row in self.keys(db)?.iter()? {
            let (row, _) = row?;
            let name = row.value().get(ID_BYTES..).unwrap_or_default();
            if names.contains(name)
                && let Name::Damaged(owner, _) = self.opened_name(name)?
            {
                rows.push((owner, row.value().to_vec()));
            }
        }
        self.changes += 1;
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        for deadline in deadlines {
            table.remove(deadline.as_slice())?;
        }
        self.remove_rows(db, &rows)
    }

    /// Removes rows of keys, and the deadlines of the same names.
    fn remove_rows(&mut self, db: usize, rows: &[(Slot, Vec<u8>)]) -> Result<(), Fail> {
        let name_of = |row: &[u8]| row.get(ID_BYTES..).unwrap_or_default().to_vec();
        let names: BTreeSet<Vec<u8>> = rows.iter().map(|(_, row)| name_of(row)).collect();
        let mut deadlines = Vec::new();
        for row in of_database(&self.deadlines, db)?.table()?.iter()? {
            let (row, _) = row?;
            if names.contains(&name_of(row.value())) {
                deadlines.push(row.value().to_vec());
            }
        }
        let table = of_database_mut(&mut self.deadlines, db)?.table_mut()?;
        for deadline in deadlines {
            table.remove(deadline.as_slice())?;
        }
        for (owner, row) in rows {
            self.keys_mut(db)?.remove(row.as_slice())?;
            self.owners.count(*owner, -1)?;
        }
        self.is_removing.set(true);
        Ok(())
    }
}
