//! Removed rows go back when their keys are free and their owners and parents exist (checks C1, C3, C4).

use std::collections::BTreeSet;

use super::Revealer;
use super::report::KeptReason;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified};
use crate::schema::ResolvedTable;
use crate::statements::lax;
use crate::statements::row::{at, encoded, picked, put};
use crate::statements::table::{Inserted, insertions, select_keys, select_keys_of_all, try_insert};

/// A row as recorded, and as it may go back.
pub(super) type Ready = Vec<(Vec<Value>, Vec<Value>)>;

impl Revealer<'_> {
    /// Inserts removed rows of the bag with number `index`. Returns those that stay.
    pub(super) fn put_back(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: Vec<Vec<Value>>,
    ) -> Result<Vec<Vec<Value>>, Error> {
        let mut kept: Vec<(Vec<Value>, KeptReason)> = Vec::new();
        let mut rows = rows;
        if table.name == self.live.pseudo.table {
            let id = self.live.pseudo.id.clone();
            rows.retain(|row| at(columns, row, &id).is_none_or(|id| !self.people.is_gone(id)));
        }
        rows.retain(|row| {
            let own = self.is_of_tenant(table, columns, row);
            if !own {
                kept.push((row.clone(), KeptReason::OtherTenant));
            }
            own
        });
        self.spell(table, columns, &rows)?;
        rows.retain(|row| {
            let theirs = self.is_theirs((table, index), columns, row);
            if !theirs {
                kept.push((row.clone(), KeptReason::OtherOwner));
            }
            theirs
        });
        let mut ready: Ready = Vec::new();
        let owned = self.owners_back((table, index), columns, &rows, &BTreeSet::new())?;
        for (row, owned) in rows.into_iter().zip(owned) {
            if let Some(owned) = owned {
                ready.push((row, owned));
                continue;
            }
            let people = self
                .live
                .others(table)
                .filter_map(|it| at(columns, &row, it));
            let people = people.filter(|it| !it.is_nobody());
            let reason = people.map(|owner| self.ownerless(index, owner)).max();
            kept.push((row, reason.unwrap_or(KeptReason::OwnerMissing)));
        }
        self.drop_orphans((table, index), columns, &mut ready, &mut kept)?;
        self.drop_strangers((table, index), columns, &mut ready, &mut kept)?;
        let done = self.insert_whole(table, columns, &ready, &mut kept)?;
        if table.name == self.live.pseudo.table {
            let id = &self.live.pseudo.id;
            let refused = kept.iter().filter_map(|(row, _)| at(columns, row, id));
            let refused: BTreeSet<Vec<u8>> = refused.map(Value::principal).collect();
            let back = ready.iter().map(|(_, row)| row.as_slice());
            let back = back.filter(|row| {
                at(columns, row, id).is_some_and(|it| !refused.contains(&it.principal()))
            });
            self.people.accounts_back(columns, back);
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

    /// Returns whether a row belonged to one in the users table that was a placeholder which does
    /// not come back.
    pub(super) fn is_of_gone(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        row: &[Value],
    ) -> bool {
        let mut people = table.people().filter_map(|it| at(columns, row, it));
        people.any(|id| self.people.is_gone(id))
    }

    /// Returns each row with owners that exist, or nothing when an owner is missing (C4). A missing
    /// reader does not keep the row from its owner: the column becomes empty if it may. Those who
    /// are `awaited` are about to come back. Whoever was nobody already when the row went, as the
    /// bag with number `index` says, is named again and not waited for.
    pub(super) fn owners_back(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        rows: &[Vec<Value>],
        awaited: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Option<Vec<Value>>>, Error> {
        let live = self.live;
        let owners: Vec<Value> = rows
            .iter()
            .flat_map(|row| live.others(table).filter_map(|it| at(columns, row, it)))
            .filter(|owner| !owner.is_nobody())
            .cloned()
            .collect();
        if owners.is_empty() {
            return Ok(rows.iter().cloned().map(Some).collect());
        }
        let nearest = self.nearest(index, &owners)?;
        let nobody = self.nobody.get(index);
        let owned = |row: &Vec<Value>| {
            let mut row = row.clone();
            for column in live.others(table) {
                let owner = at(columns, &row, column)
                    .filter(|it| !it.is_nobody())
                    .cloned();
                let Some(owner) = owner else { continue };
                let name = owner.principal();
                let nearest = nearest.get(&name).cloned();
                let was_nobody = live.is_free(table, column)
                    && nobody.is_some_and(|all| all.contains(&name))
                    && !self.people.is_own(&name);
                let value = nearest.or_else(|| was_nobody.then(|| owner.clone()));
                let value = value.or_else(|| may_lack(table, column).then_some(Value::Null));
                let is_awaited = |it: &&Value| {
                    let name = it.principal();
                    awaited.contains(&name) && !self.people.replaced.contains(&name)
                };
                // A placeholder whose own disguise is revealed does not come back: whoever is behind
                // it does.
                let mut chain = std::iter::once(&owner).chain(self.behind(&owner));
                let value = value.or_else(|| chain.find(is_awaited).cloned());
                put(columns, &mut row, column, value?);
            }
            Some(row)
        };
        Ok(rows.iter().map(owned).collect())
    }

    /// Check C1 by the database's own keys: a run that is refused is tried row by row.
    pub(super) fn insert_ready(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        ready: &[(Vec<Value>, Vec<Value>)],
        kept: &mut Vec<(Vec<Value>, KeptReason)>,
    ) -> Result<usize, Error> {
        let rows: Vec<Vec<Value>> = ready.iter().map(|(_, row)| row.clone()).collect();
        let mut originals = ready.iter();
        let mut done: usize = 0;
        let dialect = self.database.dialect();
        for run in insertions(dialect, table, &rows, columns.len()) {
            let run_of: Vec<&(Vec<Value>, Vec<Value>)> =
                originals.by_ref().take(run.len()).collect();
            if try_insert(self.database, table, columns, run)? == Inserted::All {
                done = done.saturating_add(run.len());
                continue;
            }
            for (original, row) in run_of {
                let one = std::slice::from_ref(row);
                let mut put = try_insert(self.database, table, columns, one)?;
                if put == Inserted::Refused {
                    put = lax::insert(self.database, table, columns, row)?;
                }
                if put == Inserted::All {
                    done = done.saturating_add(1);
                    continue;
                }
                let key = picked(columns, row, &table.identity);
                let keys = [key];
                let reason = if !self.identities(table, &keys)?.is_empty() {
                    KeptReason::RowExists
                } else if !self.moved_away(table, &keys)?.is_empty() {
                    KeptReason::OtherTenant
                } else {
                    let identity = picked(columns, original, &table.identity);
                    self.report
                        .note_refusal(self.database.refusal(), &table.name, &identity, None);
                    KeptReason::Refused
                };
                kept.push((original.clone(), reason));
            }
        }
        Ok(done)
    }

    /// Returns whether a removed row still belongs to the tenant: a migration may have given it to
    /// another, or to nobody.
    pub(super) fn is_of_tenant(
        &self,
        table: &ResolvedTable,
        columns: &[String],
        row: &[Value],
    ) -> bool {
        let Some((column, tenant)) = self.database.tenancy().of(&table.name) else {
            return true;
        };
        at(columns, row, column).is_some_and(|it| it.principal() == tenant.principal())
    }

    /// Looks up the people whom rows spell differently than the users table.
    fn spell(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<(), Error> {
        let is_strange = |id: &&Value| {
            id.has_spellings() && !id.is_nobody() && !self.people.is_own(&id.principal())
        };
        let people = rows
            .iter()
            .flat_map(|row| table.people().filter_map(|it| at(columns, row, it)));
        let strange: Vec<Value> = people.filter(is_strange).cloned().collect();
        if !strange.is_empty() {
            self.people.users(self.database, &strange)?;
        }
        Ok(())
    }

    /// Returns whether a removed row belongs to the returning person, or to a placeholder that they
    /// speak for. So does one that named nobody when it went along with theirs, as the bag with
    /// number `index` says. Some rows do not name an owner, but refer to one that does: see
    /// [`Self::drop_strangers`].
    pub(super) fn is_theirs(
        &self,
        (table, index): (&ResolvedTable, usize),
        columns: &[String],
        row: &[Value],
    ) -> bool {
        let is_own = |id: &Value| self.people.means_own(id);
        if table.name == self.live.pseudo.table {
            return at(columns, row, &self.live.pseudo.id).is_some_and(is_own);
        }
        if table.path.is_some() {
            return true;
        }
        let people = table.people().filter_map(|it| at(columns, row, it));
        let nobody = self.nobody.get(index);
        let was_nobody = |it: &Value| nobody.is_some_and(|all| all.contains(&it.principal()));
        let people = people.filter(|it| !it.is_nobody() && (is_own(it) || !was_nobody(it)));
        let mut people = people.peekable();
        people.peek().is_none() || people.any(is_own)
    }

    /// Returns the named rows that exist as those of another tenant, if an identity is one row
    /// whatever the tenant. Rows of this tenant were looked for before.
    pub(super) fn moved_away(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        if self.database.tenancy().of(&table.name).is_none() || table.is_keyed_by_tenant() {
            return Ok(BTreeSet::new());
        }
        let by = &table.identity;
        let rows = select_keys_of_all(self.database, &table.name, by, by, keys)?;
        Ok(rows.iter().map(|row| encoded(row)).collect())
    }

    pub(super) fn identities(
        &mut self,
        table: &ResolvedTable,
        keys: &[Vec<Value>],
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let by = &table.identity;
        let rows = select_keys(self.database, &table.name, by, by, keys)?;
        Ok(rows.iter().map(|row| encoded(row)).collect())
    }
}

/// Returns whether a key of one column names one of those who were nobody when its row went.
pub(super) fn names_one_of(nobody: Option<&BTreeSet<Vec<u8>>>, key: &[Value]) -> bool {
    let ([name], Some(nobody)) = (key, nobody) else {
        return false;
    };
    nobody.contains(&name.principal())
}

/// Returns whether a row may do without the reader whom `column` names.
pub(super) fn may_lack(table: &ResolvedTable, column: &str) -> bool {
    let nullable = table.catalog.column(column).is_some_and(|it| it.nullable);
    let is_among = |names: &[String]| names.iter().any(|it| it == column);
    nullable && is_among(&table.readers) && !is_among(&table.identity)
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
