//! Commands whose replies do not come, and what may have been in force when they were lost.

use std::sync::Arc;

use super::effect::Effect;
use super::exchange::Exchange;
use super::pending::Pending;
use super::perhaps::Perhaps;
use super::record::Known;

/// The possible users and databases, and the same as members of a payload.
type Lost = (Perhaps, Option<Arc<str>>);

impl Exchange {
    /// Records commands that are still without a reply when none can come any more.
    pub(super) fn server_lost(&mut self) {
        let (queued, executed, pending) = self.awaited.take_lost();
        let known = if executed {
            Known::Lost
        } else {
            Known::Aborted
        };
        let mut perhaps = (Perhaps::default(), None);
        if let Some(pending) = self.doubt.take() {
            self.lose(pending, Known::Lost, &mut perhaps);
        }
        for pending in queued {
            self.lose(pending, known, &mut perhaps);
        }
        for pending in pending {
            self.lose(pending, Known::Lost, &mut perhaps);
        }
        self.early = None;
        // Of a reply that has no end the client sees no more.
        self.received = self.settled;
    }

    /// Nobody knows whether a lost login or a lost choice of a database succeeded: what follows names both.
    fn lose(&mut self, pending: Pending, known: Known, perhaps: &mut Lost) {
        let (user, db) = match &pending.effect {
            Effect::Select { db } => (None, Some(*db)),
            Effect::Reset => (Some("default"), Some(0)),
            effect => (effect.user().filter(|_| !effect.is_slip()), None),
        };
        let user = user.map(str::to_owned);
        let is_reset = pending.effect == Effect::Reset;
        // The name decides who is named where nobody has logged in, or perhaps nobody is any more.
        let names = self.identity.is_nobody() || perhaps.0.holds_reset();
        let name = pending.effect.name().filter(|_| names);
        let name = name.map(|name| if name.is_empty() { "default" } else { name }.to_owned());
        let mut actor = self.identity.actor_of(&pending.effect, false);
        // Nobody was accepted for certain once a login may have succeeded.
        if perhaps.0.names_actors() {
            let actor = actor.get_or_insert_with(|| Box::new(self.identity.actor().clone()));
            actor.submitter.clear();
        }
        self.record_as(pending, known, actor, perhaps.1.clone());
        if known == Known::Lost && (user.is_some() || name.is_some() || db.is_some()) {
            let (names, said) = perhaps;
            for actor in user.into_iter().chain(name) {
                names.add_actor(actor);
            }
            if let Some(db) = db {
                names.add_db(db);
            }
            if is_reset {
                names.add_reset();
            }
            *said = Some(names.said());
        }
    }
}
