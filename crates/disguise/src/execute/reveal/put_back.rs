//! Removed rows go back when their keys are free and their owners and parents exist (checks C1, C3, C4).

use std::collections::BTreeSet;

use super::owners::Owners;
use super::report::{KeptReason, Report};
use super::stored_rows::is_of_tenant;
use super::unawaited::Waits;
use super::write_back::WriteBack;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified};
use crate::schema::ResolvedTable;
use crate::statements::row::{at, encoded, picked};

/// A row as recorded, and as it may go back.
pub(super) type Ready = Vec<(Vec<Value>, Vec<Value>)>;

/// Whole rows on their way back.
pub(super) struct WholeRows<'w, 'a> {
    pub(super) owners: Owners<'w, 'a>,
    /// The rows for which removed rows do not wait.
    pub(super) waits: &'w Waits,
    pub(super) report: &'w mut Report,
    /// The changes still missing from rows that were put back.
    pub(super) missing: &'w mut Vec<Change>,
}

impl WholeRows<'_, '_> {
    /// Inserts removed rows of the bag with number `index`. Returns those that stay.
    pub(super) fn put_back(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut kept: Vec<(Vec<Value>, KeptReason)> = Vec::new();
        let mut rows = rows;
        let live = self.owners.people.live;
        let is_account = table.name == live.pseudo.table;
        if is_account {
            let people = &self.owners.people;
            let is_gone = |id: &Value| people.is_gone(id);
            rows.retain(|row| !at(columns, row, &live.pseudo.id).is_some_and(is_gone));
        }
        rows.retain(|row| {
            let own = is_of_tenant(self.owners.database, table, columns, row);
            if !own {
                kept.push((row.clone(), KeptReason::OtherTenant));
            }
            own
        });
        self.owners.spell(table, columns, &rows)?;
        let rows = self.theirs((table, index), columns, rows, &mut kept)?;
        let mut ready: Ready = Vec::new();
        let owned = self
            .owners
            .owners_back((table, index), columns, &rows, &BTreeSet::new())?;
        for (row, owned) in rows.into_iter().zip(owned) {
            if let Some(owned) = owned {
                ready.push((row, owned));
                continue;
            }
            let people = live.others(table);
            let people = people.filter_map(|it| at(columns, &row, it));
            let people = people.filter(|it| !it.is_nobody());
            let reason = people
                .map(|owner| self.owners.ownerless(index, owner))
                .max();
            kept.push((row, reason.unwrap_or(KeptReason::OwnerMissing)));
        }
        loop {
            self.drop_orphans((table, index), columns, &mut ready, &mut kept)?;
            let before = ready.len();
            self.owners
                .drop_strangers((table, index), columns, &mut ready, &mut kept)?;
            // One of them may be the parent of others.
            if ready.len() == before {
                break;
            }
        }
        let done = self
            .write_back()
            .insert_whole(table, columns, &ready, &mut kept)?;
        if is_account {
            self.note_accounts(columns, &ready, &kept);
        }
        self.report.count(&table.name, done);
        if ready.iter().any(|(original, row)| original != row) {
            let still: BTreeSet<Vec<u8>> = kept.iter().map(|(row, _)| encoded(row)).collect();
            ready.retain(|(row, _)| !still.contains(&encoded(row)));
            for (original, row) in &ready {
                let missing = lacking(table, columns, original, row);
                self.missing.extend(missing);
            }
        }
        for (row, reason) in &kept {
            let identity = picked(columns, row, &table.identity);
            self.report.keep(&table.name, &identity, None, *reason);
        }
        Ok(kept.into_iter().map(|(row, _)| row).collect())
    }

    /// Returns the rows that belong to the returning person; the others go to `kept`.
    fn theirs(
        &self,
        of: (&ResolvedTable, usize),
        columns: &[String],
        rows: Vec<Vec<Value>>,
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut theirs = Vec::with_capacity(rows.len());
        for row in rows {
            if self.owners.is_theirs(of, columns, &row)? {
                theirs.push(row);
            } else {
                kept.push((row, KeptReason::OtherOwner));
            }
        }
        Ok(theirs)
    }

    /// Notes the accounts that are back: those of `ready` that were not `kept`.
    fn note_accounts(
        &mut self,
        columns: &[String],
        ready: &Ready,
        kept: &[(Vec<Value>, KeptReason)],
    ) {
        let id = &self.owners.people.live.pseudo.id;
        let refused = kept.iter().filter_map(|(row, _)| at(columns, row, id));
        let refused: BTreeSet<Vec<u8>> = refused.map(Value::principal).collect();
        let back = ready.iter().map(|(_, row)| row.as_slice());
        let back = back.filter(|row| {
            at(columns, row, id).is_some_and(|it| !refused.contains(&it.principal()))
        });
        self.owners.people.accounts_back(columns, back);
    }

    /// Begins to write to the database.
    pub(super) fn write_back(&mut self) -> WriteBack<'_> {
        WriteBack {
            database: &mut *self.owners.database,
            live: self.owners.people.live,
            report: &mut *self.report,
        }
    }
}

/// Returns whether a key of one column names one of those who were nobody when its row went.
pub(super) fn names_one_of(nobody: &BTreeSet<Vec<u8>>, key: &[Value]) -> bool {
    matches!(key, [name] if nobody.contains(&name.principal()))
}

/// Returns the readers and references that a row which went back still lacks; a later reveal puts
/// them back.
pub(super) fn lacking(
    table: &ResolvedTable,
    columns: &[String],
    original: &[Value],
    row: &[Value],
) -> Vec<Change> {
    let identity = || table.identity.clone();
    let rows = |before: &Value| {
        vec![Modified {
            identity: picked(columns, row, &table.identity),
            before: before.clone(),
            after: Value::Null,
        }]
    };
    let lacks = |column: &String| {
        let is_empty = at(columns, row, column).is_some_and(Value::is_null);
        at(columns, original, column).filter(|before| is_empty && !before.is_null())
    };
    let of_reader = |column: &String| {
        let before = lacks(column).filter(|before| !before.is_nobody())?;
        Some(Change::Decorrelated {
            identity: identity(),
            column: column.clone(),
            rows: rows(before),
        })
    };
    let of_reference = |column: &String| {
        Some(Change::Modified {
            identity: identity(),
            column: column.clone(),
            rows: rows(lacks(column)?),
        })
    };
    let columns_of = table.references.iter().flat_map(|it| &it.columns);
    let is_person = |column: &&String| table.people().any(|it| it == *column);
    let referring: BTreeSet<&String> = columns_of.filter(|it| !is_person(it)).collect();
    let readers = table.readers.iter().filter_map(of_reader);
    let references = referring.into_iter().filter_map(of_reference);
    readers.chain(references).collect()
}
