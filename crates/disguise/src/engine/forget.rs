//! Destroying records for good.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use super::Engine;
use crate::audit::Asked;
use crate::credential::{self, Credential};
use crate::database::Database;
use crate::error::Error;
use crate::forgotten;
use crate::hold::{Held, cohort};
use crate::mark::Mark;
use crate::once;
use crate::operation;
use crate::principal::{needed_by_others, stored_for_others};
use crate::receipt::{Receipt, digits};
use crate::store::{self, DisguiseId, Stored};
use crate::value::Value;

impl<D: Database> Engine<D> {
    /// Destroys the records of a disguise, so that nobody can ever reveal it; links that others need stay.
    /// What it returns, once signed, is what the person takes away.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::NoSuchDisguise`], [`Error::Held`], [`Error::Database`], [`Error::Audit`].
    pub fn forget(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        id: DisguiseId,
        time: Timestamp,
    ) -> Result<Receipt, Error> {
        let asked = Asked::new("disguise.forget", id.to_string(), Some(user), time);
        self.operation(&asked, |engine| {
            let (salt, holder) = engine.former_holder(user, credential)?;
            let held = engine.refuse_held(&salt, user)?;
            held.refuse_disguise(&salt, id)?;
            let reach = holder.reach();
            let database = &mut engine.database;
            let meant: Vec<_> = reach
                .bags
                .iter()
                .filter(|it| it.found.locator.origin.disguise == id.0)
                .collect();
            if !meant.iter().any(|it| it.found.locator.changes) {
                return Err(Error::NoSuchDisguise);
            }
            let others = reach
                .bags
                .iter()
                .any(|it| it.found.locator.origin.disguise != id.0);
            let kept = if others {
                needed_by_others(database, &meant)?
            } else {
                Vec::new()
            };
            let gone: Vec<_> = meant.iter().map(|it| &it.found).collect();
            let ids = store::record_ids(&gone)?;
            let whose = engine.going_on(id)?;
            let names = match whose {
                Some(_) => holder.names(&mut engine.database)?,
                None => Vec::new(),
            };
            let database = &mut engine.database;
            store::remove_bags(database, &salt, &gone)?;
            let stored: Vec<Stored<'_>> = kept
                .iter()
                .map(|(bag, it)| stored_for_others(bag, it, user))
                .collect();
            store::put_bags(database, &salt, &stored)?;
            engine.leave_out(id, whose.as_ref(), &names, Mark::Forgotten)?;
            once::forget(&mut engine.database, cohort(&salt, &user.principal()))?;
            let receipt = Receipt::new(time, Some(id), gone.len(), (engine.tenant_set(), user))?;
            let kept = (!kept.is_empty()).then(|| ("links_kept", true.into()));
            engine.done(
                &asked,
                &told(&receipt, &operation::records(&salt, &ids), kept),
            )?;
            Ok(receipt)
        })
    }

    /// Destroys all records and credentials of a person, and the registration: nothing that was ever hidden comes
    /// back, and whatever key, password or token the person had opens nothing any more.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Held`], [`Error::Database`], [`Error::Audit`].
    pub fn forget_everything(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        time: Timestamp,
    ) -> Result<Receipt, Error> {
        let asked = Asked::new("disguise.forget", String::new(), Some(user), time);
        self.operation(&asked, |engine| {
            let (salt, holder) = engine.former_holder(user, credential)?;
            let held = engine.refuse_held(&salt, user)?;
            let (key, reach) = (holder.key(), holder.reach());
            for it in &reach.bags {
                held.refuse_disguise(&salt, DisguiseId(it.found.locator.origin.disguise))?;
            }
            let gone: Vec<_> = reach.bags.iter().map(|it| &it.found).collect();
            // All passwords and tokens of a key are called by its holder. It comes first: it is told of however much there is.
            let mut ids = vec![credential::holder(key)?.to_vec()];
            ids.append(&mut store::record_ids(&gone)?);
            let database = &mut engine.database;
            let names = holder.names(database)?;
            store::remove_bags(database, &salt, &gone)?;
            forgotten::put(database, &[forgotten::key(&salt, key)?])?;
            credential::remove_all(database, key)?;
            if holder.is_registered() {
                store::unregister(database, &[user.principal()])?;
            }
            let meant = reach.bags.iter().map(|it| it.found.locator.origin.disguise);
            for id in meant.collect::<BTreeSet<u64>>() {
                let whose = engine.going_on(DisguiseId(id))?;
                engine.leave_out(DisguiseId(id), whose.as_ref(), &names, Mark::Forgotten)?;
            }
            once::forget(&mut engine.database, cohort(&salt, &user.principal()))?;
            let receipt = Receipt::new(time, None, gone.len(), (engine.tenant_set(), user))?;
            let public = digits(&holder.public().encode());
            let whose = Some(("public_key", public.into()));
            engine.done(
                &asked,
                &told(&receipt, &operation::records(&salt, &ids), whose),
            )?;
            Ok(receipt)
        })
    }

    /// What is held; refused when the person is.
    fn refuse_held(&mut self, salt: &[u8], user: &Value) -> Result<Held, Error> {
        let held = Held::all(&mut self.database)?;
        held.refuse_person(salt, user)?;
        Ok(held)
    }
}

/// What the entry says: the log vouches for the receipt, and the receipt can be found in it. `destroyed` are the names of records,
/// those without which others lead nowhere first.
fn told(
    receipt: &Receipt,
    destroyed: &[String],
    more: Option<(&str, serde_json::Value)>,
) -> String {
    let mut payload = serde_json::Map::new();
    payload.insert("bags".to_owned(), receipt.bags.into());
    payload.insert("receipt".to_owned(), receipt.digest().into());
    payload.extend(more.map(|(name, value)| (name.to_owned(), value)));
    operation::destroying(&serde_json::Value::Object(payload).to_string(), destroyed)
}
