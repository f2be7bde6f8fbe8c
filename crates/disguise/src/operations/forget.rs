//! Destroying records for good.

use std::collections::BTreeSet;

use probity_format::Timestamp;

use super::engine::Engine;
use super::left_out::{Whose, leave_out};
use super::{concern, holders};
use crate::database::Database;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::chunk_note::ChunkNote;
use crate::records::credential::{self, Credential};
use crate::records::deadline::Cohorts;
use crate::records::hold::{Held, cohort};
use crate::records::holder::Holder;
use crate::records::name::digits;
use crate::records::principal::{Reached, needed_by_others, stored_for_others};
use crate::records::receipt::Receipt;
use crate::records::stored::Stored;
use crate::records::{forgotten, name, registry, store};
use crate::transaction::audit::OperationRequest;
use crate::transaction::chunk_ids::ChunkIds;
use crate::transaction::payload::Payload;
use crate::transaction::{intent, once, scheduled};

impl<D: Database> Engine<D> {
    /// Destroys the records of a disguise, so that nobody can ever reveal it; links that others
    /// need stay. A hold on a person whose rows are among them refuses it, too. The person gets the
    /// returned receipt once it is signed.
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
        let asked = OperationRequest::new("disguise.forget", id.to_string(), Some(user), time);
        let options = &self.options;
        self.transactions.operation(&asked, |open| {
            let (salt, holder) = holders::former(open, user, credential, options.key_cost)?;
            let held = refuse_held(&mut open.database, &salt, user)?;
            held.refuse_disguise(&salt, id)?;
            let reach = holder.reach();
            let database = &mut open.database;
            let meant: Vec<_> = reach
                .bags
                .iter()
                .filter(|it| it.found.locator.origin.disguise == id.0)
                .collect();
            let counts = |it: &&Reached| it.found.locator.changes || it.is_damaged;
            if !meant.iter().any(counts) {
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
            let meant_now = meant.iter().copied();
            concern::refuse_concerned(open, options, (&salt, &held), meant_now, &reach.bags)?;
            let database = &mut open.database;
            let gone: Vec<_> = meant.iter().map(|it| &it.found).collect();
            let cohort = cohort(&salt, &user.principal());
            let mut ids = once::forget(database, &salt, cohort)?;
            ids.append(&mut store::record_ids(database, &gone)?);
            let ended = ended_for(&mut open.database, BTreeSet::from([id]), &holder)?;
            let database = &mut open.database;
            let cohorts = Cohorts::of(database, &gone)?;
            let bags = store::beginning(database, &gone)?.len();
            store::remove_bags(database, &salt, &gone)?;
            let stored: Vec<Stored<'_>> = kept
                .iter()
                .map(|(bag, it)| stored_for_others(bag, it, user, cohorts.beside(&it.found)))
                .collect();
            store::put_bags(database, &salt, &stored)?;
            let receipt = Receipt::new(time, Some(id), bags, (open.tenant(), user))?;
            let mut facts = facts(&receipt, &holder, &ended);
            if !kept.is_empty() {
                facts.put("links_kept", true);
            }
            open.done(&asked, facts.destroying(&name::records(&salt, &ids)))?;
            Ok(receipt)
        })
    }

    /// Destroys all records and credentials of a person, and the registration. Nothing that was
    /// ever hidden comes back, and no key, password or token of the person opens anything any more.
    /// Schedules and disguises in chunks of the person end.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Held`], [`Error::Database`], [`Error::Audit`].
    pub fn forget_everything(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        time: Timestamp,
    ) -> Result<Receipt, Error> {
        let asked = OperationRequest::new("disguise.forget", String::new(), Some(user), time);
        let options = &self.options;
        self.transactions.operation(&asked, |open| {
            let (salt, holder) = holders::former(open, user, credential, options.key_cost)?;
            let held = refuse_held(&mut open.database, &salt, user)?;
            let (key, reach) = (holder.key(), holder.reach());
            for it in &reach.bags {
                held.refuse_disguise(&salt, it.disguise())?;
            }
            concern::refuse_concerned(
                open,
                options,
                (&salt, &held),
                reach.bags.iter(),
                &reach.bags,
            )?;
            let gone: Vec<_> = reach.bags.iter().map(|it| &it.found).collect();
            // All passwords and tokens of a key are named by its holder. It comes first, so that a
            // cut list still names it.
            let mut ids = vec![credential::holder(key)?.to_vec()];
            let database = &mut open.database;
            let cohort = cohort(&salt, &user.principal());
            ids.append(&mut once::forget(database, &salt, cohort)?);
            ids.append(&mut store::record_ids(database, &gone)?);
            let bags = store::beginning(database, &gone)?.len();
            store::remove_bags(database, &salt, &gone)?;
            forgotten::put(database, &[forgotten::key(&salt, key)?])?;
            credential::remove_all(database, key)?;
            let disguises = reach.bags.iter();
            let disguises = disguises.map(Reached::disguise);
            let disguises: BTreeSet<DisguiseId> = disguises.collect();
            let mut chunks = disguises.clone();
            let own = intent::of_person(&mut open.database, holder.public())?;
            chunks.extend(own.into_iter().map(|(id, _)| id));
            let ended = ended_for(&mut open.database, chunks, &holder)?;
            let database = &mut open.database;
            let registered = holder.is_registered().then_some(user);
            let scheduled = scheduled::end(database, holder.public(), registered)?;
            if holder.is_registered() {
                registry::unregister(database, &[user.principal()])?;
            }
            let receipt = Receipt::new(time, None, bags, (open.tenant(), user))?;
            let mut facts = facts(&receipt, &holder, &ended);
            let disguises: Vec<String> = disguises.iter().map(ToString::to_string).collect();
            facts.put("disguises", disguises);
            let scheduled: Vec<String> = scheduled.iter().map(ToString::to_string).collect();
            facts.put("scheduled", scheduled);
            open.done(&asked, facts.destroying(&name::records(&salt, &ids)))?;
            Ok(receipt)
        })
    }
}

/// Ends those of `ids` that are in progress in chunks. A disguise of everybody instead goes on
/// without the person whose records were destroyed.
fn ended_for(
    database: &mut dyn TenantConnection,
    ids: BTreeSet<DisguiseId>,
    holder: &Holder,
) -> Result<Ended, Error> {
    let mut ended = Ended {
        chunks: Vec::new(),
        chunk_ids: Vec::new(),
        hidden: None,
        placeholders: holder.reach().links.len(),
    };
    for id in ids {
        let Some(intent) = intent::find(database, id)? else {
            continue;
        };
        let marked = holder.marked(database)?;
        let whose = Whose::of(&intent);
        leave_out(database, id, Some(&whose), &marked, ChunkNote::Forgotten)?;
        ended.chunks.push(id.to_string());
        ended.chunk_ids.push((id, intent.chunk_ids.clone()));
        if matches!(whose, Whose::User(_)) {
            let hidden = ended.hidden.unwrap_or_default();
            ended.hidden = Some(hidden.saturating_add(intent.hidden()));
        }
    }
    Ok(ended)
}

/// Returns all holds; refuses if the person is held.
fn refuse_held(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    user: &Value,
) -> Result<Held, Error> {
    let held = Held::all(database)?;
    held.refuse_person(salt, user)?;
    Ok(held)
}

/// The disguises in chunks that ended with the records.
struct Ended {
    chunks: Vec<String>,
    chunk_ids: Vec<(DisguiseId, ChunkIds)>,
    hidden: Option<u64>,
    placeholders: usize,
}

/// Returns the fields of the entry. The digest of the receipt is one of them, so the log vouches
/// for the receipt.
fn facts(receipt: &Receipt, holder: &Holder, ended: &Ended) -> Payload {
    let mut facts = Payload::new()
        .with("bags", receipt.bags)
        .with("receipt", receipt.digest())
        .with("public_key", digits(&holder.public().encode()))
        .with("chunks", ended.chunks.clone())
        .chunked(ended.chunk_ids.iter().map(|(id, ids)| (*id, ids)));
    if !ended.chunks.is_empty() {
        facts.put("placeholders", ended.placeholders);
    }
    if let Some(hidden) = ended.hidden {
        facts.put("hidden", hidden);
    }
    facts
}
