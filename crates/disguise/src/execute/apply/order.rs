//! Removals in one go from a table that refers to itself: unreferred rows go first, if the database
//! requires it.

use std::collections::BTreeSet;

use super::modify::overwrite;
use super::self_reference::{leaves, own_keys};
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::deletion::{Deleted, delete_keys, try_delete_keys};
use crate::statements::overwrite::{Write, several_rows};
use crate::statements::row::encoded;
use crate::statements::table::{among, lists, select, select_keys};

/// Keys of rows.
type Keys = Vec<Vec<Value>>;

/// The removal of rows of one table by their keys.
pub(super) struct Deletion<'d> {
    pub(super) database: &'d mut dyn TenantConnection,
    pub(super) live: &'d ResolvedSchema,
    pub(super) table: &'d ResolvedTable,
}

impl Deletion<'_> {
    /// Deletes the rows with these keys, whatever their references to each other. They are noted
    /// already, so no record contains a reference that is set to NULL here.
    pub(super) fn in_order(&mut self, keys: &[Vec<Value>]) -> Result<(), Error> {
        let table = self.table;
        if !table.refers_to_itself() {
            let gone = delete_keys(self.database, &table.name, &table.identity, keys)?;
            return self.refuse_left(keys, gone);
        }
        let (mut left, mut gone) = self.delete_what_goes(keys.to_vec())?;
        if !left.is_empty() {
            left = self.delete_leaves(left, &mut gone)?;
            self.open_circles(&left)?;
            left = self.delete_leaves(left, &mut gone)?;
            // The error of the database names the rows that still refer to these.
            let last = delete_keys(self.database, &table.name, &table.identity, &left)?;
            gone = gone.saturating_add(last);
        }
        self.refuse_left(keys, gone)
    }

    /// Refuses when rows with these keys still exist although the database reported `gone` of them
    /// as deleted, or skipped them.
    pub(super) fn refuse_left(&mut self, keys: &[Vec<Value>], gone: u64) -> Result<(), Error> {
        let table = self.table;
        if usize::try_from(gone).is_ok_and(|gone| gone > keys.len()) {
            return Err(several_rows(table, "deleting rows", "deleted"));
        }
        let is_all = usize::try_from(gone).is_ok_and(|gone| gone >= keys.len());
        if is_all && table.catalog.triggers.is_empty() {
            return Ok(());
        }
        let (unnamed, named): (Vec<_>, Vec<_>) = keys
            .iter()
            .cloned()
            .partition(|key| key.iter().any(Value::is_null));
        let by = &table.identity;
        let left = select_keys(self.database, &table.name, by, by, &named)?.len();
        // No statement finds a row by a key with NULL in it.
        let left = left.saturating_add(if is_all { 0 } else { unnamed.len() });
        // Some may have gone with others, by the rules of their keys.
        if left == 0 {
            return Ok(());
        }
        let source = self.database.passed_over(&table.name, left);
        Err(Error::Database {
            doing: "deleting rows",
            source,
        })
    }

    /// Deletes rows that the database lets go, many in each statement. Younger rows mostly refer
    /// to older ones, so the last ones come first. Returns the others, and the number of those that
    /// are gone.
    fn delete_what_goes(&mut self, mut keys: Keys) -> Result<(Keys, u64), Error> {
        let table = self.table;
        keys.reverse();
        let (mut left, mut gone) = (Keys::new(), 0_u64);
        for some in lists(&keys, table.identity.len()) {
            match try_delete_keys(self.database, table, &some)? {
                Deleted::All(count) => gone = gone.saturating_add(count),
                Deleted::Refused => left.extend(some),
            }
        }
        Ok((left, gone))
    }

    /// Deletes unreferred rows in rounds until a round finds none. Returns the rest.
    fn delete_leaves(&mut self, keys: Keys, count: &mut u64) -> Result<Keys, Error> {
        let table = self.table;
        let dialect = self.database.dialect();
        let mut left = keys;
        while !left.is_empty() {
            let mut gone: BTreeSet<Vec<u8>> = BTreeSet::new();
            for some in lists(&left, table.identity.len()) {
                let chosen = Fragment {
                    sql: among(dialect, &table.identity, some.len()),
                    parameters: some.concat(),
                };
                let leaves = leaves(dialect, table, &chosen);
                let found = select(self.database, &table.name, &table.identity, &leaves, None)?;
                let deleted = delete_keys(self.database, &table.name, &table.identity, &found)?;
                *count = count.saturating_add(deleted);
                gone.extend(found.iter().map(|key| encoded(key)));
            }
            if gone.is_empty() {
                break;
            }
            left.retain(|key| !gone.contains(&encoded(key)));
        }
        Ok(left)
    }

    /// Sets the references of rows to rows of their own table to NULL. If NULL is not allowed, a
    /// row that refers to itself gets a reference to a row that stays. The database could not
    /// restore larger circles row by row.
    fn open_circles(&mut self, keys: &[Vec<Value>]) -> Result<(), Error> {
        let table = self.table;
        let is_tenant = |column: &String| table.tenant.as_ref() == Some(column);
        let nullable = |column: &&String| {
            let nullable = table.catalog.column(column).is_some_and(|it| it.nullable);
            let is_free = !table.identity.contains(column) && !is_tenant(column);
            nullable && is_free && !table.is_matched_full(column)
        };
        for key in own_keys(table).filter(|_| !keys.is_empty()) {
            if let Some(column) = self.live.least_shared(table, &key.columns, nullable) {
                self.write_all(&[column], (keys, &[Value::Null]))?;
                continue;
            }
            let pairs = key.columns.iter().zip(&key.to_columns);
            let pairs: Vec<(&String, &String)> = pairs.filter(|(it, _)| !is_tenant(it)).collect();
            if pairs.iter().any(|(it, _)| table.identity.contains(it)) {
                continue;
            }
            let to: Vec<String> = pairs.iter().map(|(_, to)| (*to).clone()).collect();
            let columns: Vec<&str> = pairs.iter().map(|(it, _)| it.as_str()).collect();
            let themselves = self.referring_to_themselves(&pairs, keys)?;
            if let Some(values) = self.staying(&to, keys)? {
                self.write_all(&columns, (&themselves, &values))?;
            }
        }
        Ok(())
    }

    /// Writes the same values into the rows with these keys.
    fn write_all(
        &mut self,
        columns: &[&str],
        (keys, values): (&[Vec<Value>], &[Value]),
    ) -> Result<(), Error> {
        let write = |identity| Write { identity, values };
        let writes: Vec<Write<'_>> = keys.iter().map(|key| write(key)).collect();
        overwrite(self.database, self.live, self.table, columns, &writes)
    }

    /// Returns the keys of those rows that refer to themselves.
    fn referring_to_themselves(
        &mut self,
        pairs: &[(&String, &String)],
        keys: &[Vec<Value>],
    ) -> Result<Keys, Error> {
        let table = self.table;
        let dialect = self.database.dialect();
        let same = pairs.iter();
        let same =
            same.map(|(from, to)| format!("{} = {}", dialect.quote(from), dialect.quote(to)));
        let same = same.collect::<Vec<_>>().join(" AND ");
        let mut found = Keys::new();
        for some in lists(keys, table.identity.len()) {
            let chosen = Fragment {
                sql: format!("{} AND {same}", among(dialect, &table.identity, some.len())),
                parameters: some.concat(),
            };
            found.append(&mut select(
                self.database,
                &table.name,
                &table.identity,
                &chosen,
                None,
            )?);
        }
        Ok(found)
    }

    /// Returns the values of `columns` in a row that has none of these keys.
    fn staying(
        &mut self,
        columns: &[String],
        keys: &[Vec<Value>],
    ) -> Result<Option<Vec<Value>>, Error> {
        let table = self.table;
        let mut wanted = table.identity.clone();
        wanted.extend_from_slice(columns);
        let any = Fragment {
            sql: "1=1".to_owned(),
            parameters: Vec::new(),
        };
        let most = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let most = Some(most.saturating_add(1));
        let rows = select(self.database, &table.name, &wanted, &any, most)?;
        let going: BTreeSet<Vec<u8>> = keys.iter().map(|key| encoded(key)).collect();
        let mut rows = rows.into_iter().filter_map(|mut row| {
            let values = row.split_off(table.identity.len().min(row.len()));
            (!going.contains(&encoded(&row))).then_some(values)
        });
        Ok(rows.next())
    }
}
