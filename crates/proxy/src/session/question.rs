//! Questions of the proxy's own on the client's connection: who is logged in, under which name, on which database.

use probity_format::Outcome;

use super::effect::Effect;
use super::pending::Pending;
use super::record::Known;
use super::reply::{End, Lost};
use super::{Session, name_of};
use crate::audit::Actor;
use crate::resp::put_command;

/// A login by a `HELLO` that the server answered with an error.
#[derive(Debug)]
pub(super) struct Doubt {
    pending: Pending,
    /// The outcome if the login did not succeed.
    refused: Outcome,
}

impl Session {
    /// Returns whether only the server knows who the client is after an error in reply to this one.
    /// `HELLO` logs in before it looks at its other options, and some servers take its name before
    /// that.
    pub(super) fn asks_identity(&self, effect: &Effect) -> bool {
        // The server refuses a subscribed client everything, the questions too, and has looked at
        // nothing.
        let looked = self.resp3 || !self.channels.any();
        let concerns = effect.user().is_some() || effect.name().is_some();
        self.users && looked && concerns && matches!(effect, Effect::Hello { .. })
    }

    /// Asks after a refused `HELLO`. Where it was a login, its entry waits for the answer.
    pub(super) fn question_identity(&mut self, pending: Pending) {
        let named = pending.effect.name().is_some();
        if pending.effect.user().is_some() {
            let refused = if self.is_denial() {
                Outcome::Denied
            } else {
                Outcome::Failed
            };
            self.doubt = Some(Doubt { pending, refused });
            self.ask("acl|whoami", Effect::WhoAmI, &[b"ACL", b"WHOAMI"]);
        } else {
            self.record(pending, Known::Reply);
        }
        if named {
            self.name_owed = false;
            self.ask_name();
        }
    }

    /// Records the login in doubt, now that the server says who is logged in. It succeeded if that
    /// is its user, and was nobody or another one before.
    fn settle_doubt(&mut self, told: Option<&str>) {
        let Some(Doubt { pending, refused }) = self.doubt.take() else {
            return;
        };
        let user = pending.effect.user().unwrap_or_default();
        let nobody = if self.locked { None } else { Some("default") };
        let before = self.principal.as_deref().or(nobody);
        let is_told = told == Some(&*name_of(user));
        let proven = refused != Outcome::Denied && is_told && before != told;
        let outcome = if proven { Outcome::Ok } else { refused };
        let actor = self.actor_as(user, proven);
        self.record_as(pending, Known::Told(outcome), Some(actor), None);
    }

    /// Records the login in doubt, of which no answer comes any more.
    pub(super) fn lose_doubt(&mut self, perhaps: &mut Lost) {
        match self.doubt.take() {
            Some(doubt) if doubt.refused == Outcome::Denied => {
                let user = doubt.pending.effect.user().unwrap_or_default();
                let actor = self.actor_as(user, false);
                self.record_as(
                    doubt.pending,
                    Known::Told(Outcome::Denied),
                    Some(actor),
                    None,
                );
            }
            Some(doubt) => self.lose(doubt.pending, Known::Lost, perhaps),
            None => {}
        }
    }

    /// The actor of a login as `user`.
    pub(super) fn actor_as(&self, user: &[u8], is_proven: bool) -> Box<Actor> {
        let mut actor = self.actor.clone();
        (actor.name, actor.claimed.actor) = (name_of(user), !is_proven);
        if is_proven {
            actor.submitter.clone_from(&actor.name);
        }
        Box::new(actor)
    }

    /// Returns whether something is to be asked for once a login succeeds.
    pub(super) const fn owes(&self) -> bool {
        self.db_owed.is_some() || self.name_owed
    }

    /// Returns whether the transaction that `EXEC` would end holds a login.
    pub(super) fn transaction_logs_in(&self) -> bool {
        let mut all = self.queued.iter().chain(&self.pending);
        all.any(|pending| pending.effect.user().is_some())
    }

    /// Returns whether a question of the proxy's own may go: nothing of the client is under way,
    /// and no transaction is open.
    pub(super) fn may_ask(&self) -> bool {
        let others = self.pending.iter().any(|pending| !pending.own);
        !others && !self.in_multi && self.begun.is_none()
    }

    /// Asks what the server answers nobody before a login.
    pub(super) fn ask_what_is_owed(&mut self) {
        if let Some(db) = self.db_owed.take() {
            let number = db.to_string();
            self.ask(
                "select",
                Effect::Select { db },
                &[b"SELECT", number.as_bytes()],
            );
        }
        if std::mem::take(&mut self.name_owed) {
            self.ask_name();
        }
    }

    fn ask_name(&mut self) {
        self.ask("client|getname", Effect::GetName, &[b"CLIENT", b"GETNAME"]);
    }

    /// Sends a question of the proxy's own; nothing of the client is under way then.
    fn ask(&mut self, name: &'static str, effect: Effect, words: &[&[u8]]) {
        let bytes = self.question.get_or_insert_default();
        put_command(bytes, words);
        self.await_reply(Pending::own(name, effect));
    }

    pub(super) fn own_answer(&mut self, effect: &Effect) -> Result<(), End> {
        let failed = self.is_error();
        match effect {
            Effect::WhoAmI if !failed => {
                let Some(user) = self.capture.head.text.name() else {
                    return Err(End::Identity);
                };
                let user = name_of(&user);
                let doubt = self.doubt.as_ref();
                let is_denied = doubt.is_some_and(|it| it.refused == Outcome::Denied);
                self.settle_doubt(Some(&user));
                // A denied login lets nobody in: the server may have stopped asking for one.
                let is_let_in = self.locked && !is_denied;
                if self.principal.is_some() || user != "default" || is_let_in {
                    self.principal = Some(user);
                }
                self.refresh_actor();
                if self.principal.is_some() {
                    self.ask_what_is_owed();
                }
                Ok(())
            }
            // Nobody is.
            Effect::WhoAmI if self.is_error_of(&[b"NOAUTH"]) => {
                self.settle_doubt(None);
                Ok(())
            }
            Effect::WhoAmI if self.is_error_of(&[b"NOPERM", b"ERR "]) => Err(End::Identity),
            Effect::GetName if !failed || self.is_error_of(&[b"NOAUTH", b"NOPERM", b"ERR "]) => {
                self.name_owed = self.is_error_of(&[b"NOAUTH"]);
                self.name = self.name_told();
                self.refresh_actor();
                Ok(())
            }
            Effect::Select { .. } if !failed => {
                self.apply(effect);
                Ok(())
            }
            Effect::Select { .. } if self.is_error_of(&[b"NOPERM", b"ERR "]) => {
                Err(End::Mismatch("the database cannot be chosen"))
            }
            // An error of the moment is no answer.
            Effect::WhoAmI | Effect::GetName | Effect::Select { .. } => Err(End::NotNow),
            _ => Err(End::Identity),
        }
    }

    /// The name in the server's answer. Where it says none, none counts.
    fn name_told(&self) -> Option<String> {
        let head = &self.capture.head;
        let said = !self.is_error() && !head.null;
        let name = head.text.name().filter(|name| said && !name.is_empty())?;
        Some(name_of(&name))
    }
}
