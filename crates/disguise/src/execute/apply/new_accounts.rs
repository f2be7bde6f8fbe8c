//! Accounts that a disguise makes in the users table, for placeholders.

use std::collections::BTreeSet;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::registry::Registered;
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::overwrite::Write;
use crate::statements::stored::{keeps_form, stored};
use crate::statements::table::{Inserted, existing, insert, select_keys_of_all};

/// The number of times that ids are drawn anew when they are in use already.
const TRIES_MAX: u32 = 16;

/// The number of ids drawn in a try beside twice those wanted.
const DRAWS_MORE: usize = 16;

/// The users table, as far as accounts are made in it.
pub(super) struct NewAccounts<'w> {
    pub(super) database: &'w mut dyn TenantConnection,
    pub(super) live: &'w ResolvedSchema,
    pub(super) now: &'w str,
    /// The principals met so far, whose ids are in use.
    pub(super) known: &'w Registered,
}

impl NewAccounts<'_> {
    /// Makes accounts with new ids. Returns the ids as the users table stores them.
    pub(super) fn make(&mut self, count: usize) -> Result<Vec<Value>, Error> {
        let ids = self.free_ids(count)?;
        self.insert(&ids)
    }

    /// Draws ids that no user has.
    fn free_ids(&mut self, count: usize) -> Result<Vec<Value>, Error> {
        let pseudo = &self.live.pseudo;
        let generator = pseudo
            .columns
            .iter()
            .find(|(column, _)| *column == pseudo.id);
        let Some((_, generator)) = generator else {
            return Err(Error::Forged);
        };
        let users = self.live.users()?;
        let of = (self.database.dialect(), users.column(&pseudo.id));
        let mut ids: Vec<Value> = Vec::with_capacity(count);
        let mut drawn: BTreeSet<Vec<u8>> = BTreeSet::new();
        for _ in 0..TRIES_MAX {
            let mut fresh = Vec::new();
            let wanted = count.saturating_sub(ids.len());
            // A small range has no more ids, however often one is drawn.
            for _ in 0..wanted.saturating_mul(2).saturating_add(DRAWS_MORE) {
                if fresh.len() >= wanted {
                    break;
                }
                let id = generator.draw_into(of, &Value::Null, self.now)?;
                if drawn.insert(id.principal()) {
                    fresh.push(id);
                }
            }
            let taken = taken(self.database, self.live, &fresh)?;
            ids.extend(fresh.into_iter().filter(|id| {
                !taken.contains(&id.principal()) && !self.known.contains_key(&id.principal())
            }));
            if ids.len() >= count {
                return Ok(ids);
            }
        }
        Err(Error::NoFreeId {
            table: pseudo.table.clone(),
            column: pseudo.id.clone(),
            tries: TRIES_MAX,
        })
    }

    /// Inserts placeholders with these ids into the users table. Returns the ids as the table
    /// stores them, which name them from then on.
    fn insert(&mut self, ids: &[Value]) -> Result<Vec<Value>, Error> {
        let pseudo = &self.live.pseudo;
        let mut columns: Vec<String> = pseudo
            .columns
            .iter()
            .map(|(column, _)| column.clone())
            .collect();
        let tenant = self.database.tenancy().of(&pseudo.table);
        let tenant = tenant.map(|(column, tenant)| (column.to_owned(), tenant.clone()));
        columns.extend(tenant.iter().map(|(column, _)| column.clone()));
        let users = (self.database.dialect(), self.live.users()?);
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let mut row = pseudo.row(users, id, self.now)?;
            row.extend(tenant.iter().map(|(_, tenant)| tenant.clone()));
            rows.push(row);
        }
        let into = (self.live.users()?.insert_into(), pseudo.table.as_str());
        let done = insert(self.database, into, &columns, &rows)?;
        if done == Inserted::Refused {
            let said = self.database.refusal().unwrap_or_default().to_owned();
            return Err(Error::Placeholder {
                table: pseudo.table.clone(),
                said,
            });
        }
        self.stored_ids(ids)
    }

    /// Returns the ids of placeholders as the users table stores them.
    fn stored_ids(&mut self, ids: &[Value]) -> Result<Vec<Value>, Error> {
        let pseudo = &self.live.pseudo;
        let Some(users) = self.live.table(&pseudo.table) else {
            return Err(Error::NotInstalled);
        };
        if ids.iter().all(|id| keeps_form(users, &pseudo.id, id)) {
            return Ok(ids.to_vec());
        }
        let by_id = ResolvedTable {
            identity: vec![pseudo.id.clone()],
            ..users.clone()
        };
        let keys = ids.iter().map(std::slice::from_ref);
        let keys: Vec<Write<'_>> = keys.map(Write::of_nothing).collect();
        let found = stored(self.database, &by_id, &[], &keys)?;
        let found = found.into_iter();
        let found: Vec<Value> = found.flatten().flat_map(|it| it.identity).collect();
        if found.len() == ids.len() {
            return Ok(found);
        }
        let left = ids.len().saturating_sub(found.len());
        let said = self.database.passed_over(&pseudo.table, left).to_string();
        Err(Error::Placeholder {
            table: pseudo.table.clone(),
            said,
        })
    }
}

/// Returns those of `ids` that some user has: of this tenant, or of any tenant if ids are unique
/// over all of them.
fn taken(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    ids: &[Value],
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let pseudo = &live.pseudo;
    let users = live.table(&pseudo.table);
    if users.is_some_and(ResolvedTable::is_keyed_by_tenant) {
        return existing(database, &pseudo.table, &pseudo.id, ids);
    }
    let column = [pseudo.id.clone()];
    let keys: Vec<Vec<Value>> = ids.iter().map(|id| vec![id.clone()]).collect();
    let rows = select_keys_of_all(database, &pseudo.table, &column, &column, &keys)?;
    Ok(rows.iter().flatten().map(Value::principal).collect())
}
