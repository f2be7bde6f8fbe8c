//! People who have an account and no key: nobody could bring back what a disguise of everybody hides
//! of them, so it is refused.

use std::collections::BTreeSet;

use super::preview::Preview;
use crate::database::Database;
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::plan::step::Step;
use crate::records::{registry, settings};
use crate::schema::Pseudo;
use crate::statements::table::{among, counted, lists, select};

/// The most registrations that are looked up at once.
const PAGE: usize = 1_024;

impl<D: Database> Preview<'_, D> {
    /// Returns for each table that rows of such people are among those that the steps choose, one
    /// sentence each. Rows that are owned through other rows are not counted.
    pub(super) fn keyless_rows(&mut self, steps: &[Step]) -> Result<Vec<String>, Error> {
        let keyless: Vec<Vec<Value>> = self.keyless()?.into_iter().map(|id| vec![id]).collect();
        // One question for each table tells that there are some.
        let Some(some) = lists(&keyless, 1).next() else {
            return Ok(Vec::new());
        };
        let (pseudo, mut told, mut asked) = (
            self.transactions.application.pseudo().clone(),
            Vec::new(),
            BTreeSet::new(),
        );
        for step in steps.iter().filter(|it| asked.insert(it.table.as_str())) {
            let (_, live) = self.transactions.application.described()?;
            let owners = match live.table(&step.table) {
                Some(table) if table.name != pseudo.table => table.owners.clone(),
                _ => vec![pseudo.id.clone()],
            };
            if owners.is_empty() {
                continue;
            }
            let database = &mut self.transactions.database;
            let dialect = database.database.dialect();
            let chosen = database.tenancy.bound(dialect, &step.table, &step.chosen);
            let of = |owner: &String| among(dialect, std::slice::from_ref(owner), some.len());
            let owned: Vec<String> = owners.iter().map(of).collect();
            let sql = format!(
                "SELECT COUNT(*) FROM {} WHERE ({}) AND ({})",
                dialect.quote(&step.table),
                chosen.sql,
                owned.join(" OR ")
            );
            let mut parameters = chosen.parameters;
            parameters.extend(owners.iter().flat_map(|_| some.concat()));
            let rows = counted(database, &sql, &parameters)?;
            if rows > 0 {
                let table = step.table.clone();
                let refused = Error::Unregistered { table, rows };
                told.push(if keyless.len() > some.len() {
                    format!("{refused}, and perhaps more")
                } else {
                    refused.to_string()
                });
            }
        }
        Ok(told)
    }

    /// Returns the ids in the users table under which nobody is registered.
    fn keyless(&mut self) -> Result<Vec<Value>, Error> {
        match settings::own_salt(&mut self.transactions.database) {
            Ok(_) => self.transactions.transaction(|open| {
                let users = open.application.pseudo().clone();
                let ids = ids_of(&mut open.database, &users)?;
                let mut keyless = Vec::new();
                for page in ids.chunks(PAGE) {
                    let names: Vec<Vec<u8>> = page.iter().map(Value::principal).collect();
                    let known = registry::principals(&mut open.database, &names)?;
                    let without = page.iter();
                    let without = without.filter(|it| !known.contains_key(&it.principal()));
                    keyless.extend(without.cloned());
                }
                Ok(keyless)
            }),
            // Nobody is registered yet, and a tenant has no salt.
            Err(Error::NotInstalled) => {
                let users = self.transactions.application.pseudo().clone();
                ids_of(&mut self.transactions.database, &users)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the ids of the users table, without those that name nobody.
fn ids_of(database: &mut dyn TenantConnection, users: &Pseudo) -> Result<Vec<Value>, Error> {
    let any = Fragment {
        sql: "1=1".to_owned(),
        parameters: Vec::new(),
    };
    let id = std::slice::from_ref(&users.id);
    let mut ids = select(database, &users.table, id, &any, None)?.concat();
    ids.retain(|it| !it.is_nobody());
    Ok(ids)
}
