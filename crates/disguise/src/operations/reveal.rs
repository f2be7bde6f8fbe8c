//! Operations for the holder of a credential: reveal, act as placeholders, list what is hidden.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use super::engine::Engine;
use super::left_out::{Whose, leave_out};
use super::options::Options;
use super::{accounts, concern, decay, holders};
use crate::database::Database;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::execute::reveal::{Inputs, RevealRequest, Revealed, Revealer};
use crate::execute::update::Updates;
use crate::records::chunk_note::{ChunkNote, Marked};
use crate::records::credential::Credential;
use crate::records::day::Day;
use crate::records::hold::Held;
use crate::records::holder::{Claim, Holder};
use crate::records::name::{self, digits};
use crate::records::principal::{Reach, Reached};
use crate::transaction::audit::OperationRequest;
use crate::transaction::context::RevealContext;
use crate::transaction::intent::{self, Intent};
use crate::transaction::payload::Payload;
use crate::transaction::scheduled;
use crate::transaction::transactions::Transactions;

/// A disguise that hides something of a person.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one disguise"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its handle.
    pub id: DisguiseId,
    /// When it was applied, as its caller said.
    pub time: Option<Timestamp>,
    /// A reveal was asked for and left something disguised.
    pub pending: bool,
    /// Some of the chunks in which it is done are left to do.
    pub unfinished: bool,
    /// When it can no longer be revealed.
    pub expires: Option<Timestamp>,
    /// A record with its placeholders cannot be read, because a part of it is missing or damaged.
    pub unreadable: bool,
}

impl<D: Database> Engine<D> {
    /// Reveals a disguise as far as that is safe; what stays disguised can be tried again. One that hides nothing of this person,
    /// any more or at all, is revealed: [`Revealed::found`] says so.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`]; nothing has changed then.
    pub fn reveal(&mut self, request: &RevealRequest<'_>) -> Result<Revealed, Error> {
        let asked = |user| {
            let id = request.id.to_string();
            OperationRequest::new("disguise.reveal", id, user, request.time)
        };
        let found;
        let user = if request.user.is_null() {
            found = self.transactions.operation(&asked(None), |open| {
                open.refresh()?;
                holders::owner(open, &request.credential)
            })?;
            &found
        } else {
            &request.user
        };
        let asked = asked(Some(user));
        let options = &self.options;
        self.transactions.operation(&asked, |open| {
            Reveal { open, options }.revealed(request, user, &asked)
        })
    }

    /// The pseudoprincipals that the holder of `credential` may act as, along chains of any length. A refusal is told of.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`], [`Error::Audit`].
    pub fn speaks_for(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        time: Timestamp,
    ) -> Result<Vec<Value>, Error> {
        let asked = OperationRequest::new("disguise.speaks-for", String::new(), Some(user), time);
        let cost = self.options.key_cost;
        self.transactions.operation(&asked, |open| {
            let (_, holder) = holders::former(open, user, credential, cost)?;
            holders::acts_as(open, &holder, holder.reach().present())
        })
    }

    /// The disguises that hide something of the holder of `credential`, the oldest first. A refusal is told of.
    ///
    /// # Errors
    /// [`Error::WrongCredential`], [`Error::Database`], [`Error::Audit`].
    pub fn list(
        &mut self,
        user: &Value,
        credential: &Credential<'_>,
        time: Timestamp,
    ) -> Result<Vec<Listed>, Error> {
        let asked = OperationRequest::new("disguise.list", String::new(), Some(user), time);
        let cost = self.options.key_cost;
        self.transactions.operation(&asked, |open| {
            let (_, holder) = holders::former(open, user, credential, cost)?;
            let begun = intent::list(&mut open.database)?;
            Ok(listed(holder.reach(), &begun))
        })
    }
}

/// A reveal in an open transaction.
struct Reveal<'w, D: Database> {
    open: &'w mut Transactions<D>,
    options: &'w Options,
}

impl<D: Database> Reveal<'_, D> {
    fn revealed(
        &mut self,
        request: &RevealRequest<'_>,
        user: &Value,
        asked: &OperationRequest<'_>,
    ) -> Result<Revealed, Error> {
        self.open.refresh()?;
        accounts::refuse_namesakes(self.open, Some(user))?;
        let RevealContext {
            salt,
            updates: recorded,
            intent,
            registered,
            has_decayed,
            has_scheduled,
        } = RevealContext::read(&mut self.open.database, request.id, user)?;
        let whose = intent.as_ref().map(Whose::of);
        let claim = Claim {
            user,
            credential: &request.credential,
            cost: self.options.key_cost,
            registered,
        };
        let holder = Holder::find(&mut self.open.database, &salt, &claim)?;
        let reach = holder.reach();
        if let Some(intent) = &intent
            && !reach.hides_by(request.id)
        {
            return self.declined(request, asked, (intent, &holder));
        }
        let marked = self.marked(whose.as_ref(), &holder)?;
        let ended = self.ended(&salt, (user, reach), request)?;
        let is_last = !reach.hides_beside(request.id);
        let (catalog, live) = self.open.application.described()?;
        let person = (user.principal(), holder.public().clone());
        let work = Revealer::new(Inputs {
            updates: Updates {
                recorded: &recorded,
                code: &self.options.updates,
                catalog,
                live,
                salt: &salt,
                gone: reach.gone(),
            },
            database: &mut self.open.database,
            live,
            salt: &salt,
            reach,
            person,
            is_registered: holder.is_registered(),
            references: request.references,
            rows: request.rows,
            room: self.options.reveal_bytes,
            ended,
        });
        let (mut revealed, destroyed) = work.run(request.id)?;
        // What is taken back is not gone on with.
        let (whose, mark) = (whose.as_ref(), ChunkNote::Returned);
        leave_out(&mut self.open.database, request.id, whose, &marked, mark)?;
        if has_decayed && is_last && revealed.found && revealed.is_complete() {
            decay::forget_state(self.open, user)?;
        }
        if has_scheduled {
            self.end_due(&mut revealed, &holder, request.time)?;
        }
        let destroyed = name::records(&salt, &destroyed);
        self.open
            .done(asked, payload(&revealed, &holder).destroying(&destroyed))?;
        Ok(revealed)
    }

    /// Reveals a disguise in chunks that has not come to this person's rows: it ends, or leaves them out.
    fn declined(
        &mut self,
        request: &RevealRequest<'_>,
        asked: &OperationRequest<'_>,
        (intent, holder): (&Intent, &Holder),
    ) -> Result<Revealed, Error> {
        let (whose, marked) = (Whose::of(intent), holder.marked(&mut self.open.database)?);
        let meant = match &whose {
            // Somebody else may have the id by now.
            Whose::User(_) => intent.public_key.as_ref() == Some(holder.public()),
            Whose::Everybody => !marked.is_empty(),
        };
        if !meant {
            let nothing = Revealed::default();
            let said = payload(&nothing, holder).destroying(&[]);
            self.open.done(asked, said)?;
            return Ok(nothing);
        }
        leave_out(
            &mut self.open.database,
            request.id,
            Some(&whose),
            &marked,
            ChunkNote::Returned,
        )?;
        let revealed = Revealed {
            found: true,
            ..Revealed::default()
        };
        self.open.done(asked, payload(&revealed, holder))?;
        Ok(revealed)
    }

    /// Returns the names under which a disguise of everybody in chunks is to leave the holder out.
    fn marked(&mut self, whose: Option<&Whose>, holder: &Holder) -> Result<Vec<Marked>, Error> {
        match whose {
            Some(Whose::Everybody) => holder.marked(&mut self.open.database),
            Some(Whose::User(_)) | None => Ok(Vec::new()),
        }
    }

    /// Ends what was due while the account of the person was away: applied now, it would hide somebody who has just come back.
    fn end_due(
        &mut self,
        revealed: &mut Revealed,
        holder: &Holder,
        time: Timestamp,
    ) -> Result<(), Error> {
        let users = &self.open.application.pseudo().table;
        if revealed.restored.get(users).is_some_and(|rows| *rows > 0) {
            let key = holder.public();
            revealed.ended = scheduled::end_due(&mut self.open.database, key, time)?;
        }
        Ok(())
    }

    /// The locators of what has ended and is not held: no sweep was there yet, or old rows were put back. Refuses where that is asked for.
    fn ended(
        &mut self,
        salt: &[u8],
        (user, reach): (&Value, &Reach),
        request: &RevealRequest<'_>,
    ) -> Result<BTreeSet<Vec<u8>>, Error> {
        let is_over = |it: &&Reached| {
            let end = it.found.locator.origin.expires;
            end.is_over(request.time)
        };
        let over: Vec<&Reached> = reach.bags.iter().filter(is_over).collect();
        if over.is_empty() {
            return Ok(BTreeSet::new());
        }
        let held = Held::all(&mut self.open.database)?;
        let mut ended = BTreeSet::new();
        for it in over {
            if concern::is_kept(
                self.open,
                self.options,
                (salt, &held),
                user,
                (it, &reach.bags),
            )? {
                continue;
            }
            if it.found.locator.origin.disguise == request.id.0 {
                return Err(Error::Ended);
            }
            ended.insert(it.found.row.clone());
        }
        Ok(ended)
    }
}

/// Returns the fields of the entry of a reveal. Only one that ended a disguise in chunks before its rows were reached
/// names no records, not even none.
fn payload(revealed: &Revealed, holder: &Holder) -> Payload {
    Payload::new()
        .with("public_key", digits(&holder.public().encode()))
        .counting("rows", &revealed.restored)
        .counting("values", &revealed.values)
        .counting("deleted", &revealed.deleted)
        .counting("retained", &revealed.retained)
        .with("kept", revealed.kept.len())
        .ending(&revealed.ended)
}

/// The disguises that hide something of whoever reaches this, the oldest first.
fn listed(reach: &Reach, begun: &[DisguiseId]) -> Vec<Listed> {
    let mut listed: BTreeMap<(i64, u64), (bool, Day, bool)> = BTreeMap::new();
    for it in &reach.bags {
        let locator = &it.found.locator;
        if locator.changes || it.is_damaged {
            let name = (locator.origin.time, locator.origin.disguise);
            let known = listed.entry(name).or_insert((false, Day::NEVER, false));
            let (pending, end, unreadable) = known;
            *pending |= locator.pending;
            *end = locator.origin.expires.min(*end);
            *unreadable |= it.is_damaged;
        }
    }
    let listed = listed.into_iter();
    listed
        .map(|((time, id), (pending, end, unreadable))| Listed {
            id: DisguiseId(id),
            time: Timestamp::from_nanoseconds(time).ok(),
            pending,
            unfinished: begun.contains(&DisguiseId(id)),
            expires: end.time(),
            unreadable,
        })
        .collect()
}
