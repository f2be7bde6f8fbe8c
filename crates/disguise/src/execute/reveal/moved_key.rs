//! Records of rows whose key has changed: an owner in it got another placeholder, or came back.

use std::collections::BTreeSet;

use super::people::People;
use crate::database::placeholders;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;
use crate::statements::table::{list, select_keys, with};

/// The most principals behind and before an owner that are looked up.
const PRINCIPALS_MAX: usize = 1_000;

/// The rows of a table whose keys may have changed.
pub(super) struct MovedKeys<'d, 'a> {
    pub(super) database: &'d mut dyn TenantConnection,
    pub(super) people: &'d People<'a>,
}

impl MovedKeys<'_, '_> {
    /// Gives records of missing rows the key that the row has now, as far as the placeholders of
    /// the returning person show it: there must be one such row, and no other record of it.
    pub(super) fn follow(
        &mut self,
        table: &ResolvedTable,
        rows: &mut [Modified],
    ) -> Result<(), Error> {
        let is_person = |column: &&String| table.people().any(|it| it == *column);
        if table.name == self.people.live.pseudo.table
            || !table.identity.iter().any(|it| is_person(&it))
        {
            return Ok(());
        }
        let by = &table.identity;
        let keys: Vec<Vec<Value>> = rows.iter().map(|row| row.identity.clone()).collect();
        let there = select_keys(self.database, &table.name, by, by, &keys)?;
        let there: BTreeSet<Vec<u8>> = there.iter().map(|key| encoded(key)).collect();
        let mut claimed: BTreeSet<Vec<u8>> = keys.iter().map(|key| encoded(key)).collect();
        for row in rows {
            if there.contains(&encoded(&row.identity)) {
                continue;
            }
            if let Some(key) = self.key_now(table, &row.identity)?
                && claimed.insert(encoded(&key))
            {
                row.identity = key;
            }
        }
        Ok(())
    }

    /// Returns the key of the one row that had this one. It is found by a part that names a
    /// placeholder of the person, by other people named in it, and by the parts that name nobody.
    fn key_now(
        &mut self,
        table: &ResolvedTable,
        key: &[Value],
    ) -> Result<Option<Vec<Value>>, Error> {
        let dialect = self.database.dialect();
        let is_person = |column: &String| table.people().any(|it| it == column);
        let people = table.identity.iter().filter(|it| is_person(it)).count();
        for (part, value) in table.identity.iter().zip(key) {
            if !is_person(part) || !self.people.means_own(value) {
                continue;
            }
            let mut all = self.along(value);
            if people > 1 {
                // Many rows name the person beside others; only one names each placeholder.
                all.retain(|it| self.people.reach.behind(it).next().is_some());
                if self.people.reach.behind(value).next().is_none() {
                    continue;
                }
            }
            let mut conditions = vec![format!(
                "{} IN ({})",
                dialect.quote(part),
                placeholders(all.len())
            )];
            let mut parameters = all;
            for (column, value) in table.identity.iter().zip(key) {
                if !is_person(column) {
                    conditions.push(format!("{} = ?", dialect.quote(column)));
                    parameters.push(value.clone());
                }
            }
            if let Some(key) = self.key_of_one(table, &conditions, parameters)? {
                return Ok(Some(key));
            }
        }
        if people > 1 {
            return self.key_back(table, key);
        }
        Ok(None)
    }

    /// Returns the key of the one row that has this one but for placeholders of the person, in the
    /// place of which are those behind them: another reveal put it back.
    fn key_back(
        &mut self,
        table: &ResolvedTable,
        key: &[Value],
    ) -> Result<Option<Vec<Value>>, Error> {
        let dialect = self.database.dialect();
        let (mut conditions, mut parameters) = (Vec::new(), Vec::new());
        for (part, value) in table.identity.iter().zip(key) {
            let is_own = table.people().any(|it| it == part) && self.people.means_own(value);
            let behind = self.people.reach.behind(value).filter(|_| is_own);
            let all = std::iter::once(value).chain(behind);
            let all: Vec<Value> = all.take(PRINCIPALS_MAX).cloned().collect();
            let marks = placeholders(all.len());
            conditions.push(format!("{} IN ({marks})", dialect.quote(part)));
            parameters.extend(all);
        }
        self.key_of_one(table, &conditions, parameters)
    }

    /// Returns the key of the one row of `table` that meets the conditions; nothing where several do.
    fn key_of_one(
        &mut self,
        table: &ResolvedTable,
        conditions: &[String],
        parameters: Vec<Value>,
    ) -> Result<Option<Vec<Value>>, Error> {
        let dialect = self.database.dialect();
        let own = self
            .database
            .tenancy()
            .and(dialect, &table.name, &table.name);
        let sql = format!(
            "SELECT {} FROM {} WHERE {}{} LIMIT 2",
            list(dialect, &table.identity),
            dialect.quote(&table.name),
            conditions.join(" AND "),
            own.sql
        );
        let found = self.database.query(&sql, &with(parameters, &own));
        let mut found = found.doing("looking for the row of a record")?;
        Ok(found.pop().filter(|_| found.is_empty()))
    }

    /// Returns the principal and, for one of the returning person, those before it and behind it.
    fn along(&self, id: &Value) -> Vec<Value> {
        let name = id.principal();
        let leads_here = |new: &Value| {
            self.people
                .reach
                .behind(new)
                .any(|it| it.principal() == name)
        };
        let before = self.people.reach.links.values().map(|link| &link.new);
        let before = before.filter(|new| leads_here(new));
        let all = std::iter::once(id)
            .chain(self.people.reach.behind(id))
            .chain(before);
        all.take(PRINCIPALS_MAX).cloned().collect()
    }
}
