//! Questions of the proxy's own on the client's connection: who is logged in, under which name, on which database.

use probity_format::Outcome;

use super::effect::Effect;
use super::pending::Pending;
use super::record::Known;
use super::reply::End;
use super::{Session, name_of};
use crate::audit::Actor;
use crate::command::CommandFacts;
use crate::resp::put_command;

impl Session {
    /// Returns whether only the server knows who the client is, or which name it has, after an
    /// error in reply to this one. `HELLO` logs in before it looks at its other options, and some
    /// servers take its name before that.
    pub(super) fn asks_identity(&self, effect: &Effect) -> bool {
        // The server refuses a subscribed client everything, the questions too, and has looked at
        // nothing.
        let looked = self.resp3 || !self.channels.any();
        let concerns = self.may_have_logged_in(effect) || self.may_have_named(effect);
        self.users && looked && concerns && matches!(effect, Effect::Hello { .. })
    }

    /// A denial says that the login did not succeed; whoever was logged in still is.
    fn may_have_logged_in(&self, effect: &Effect) -> bool {
        effect.user().is_some() && !self.is_denial()
    }

    /// A server looks at the options in their order, or at none of them before it logs in.
    fn may_have_named(&self, effect: &Effect) -> bool {
        let Effect::Hello {
            name, login_first, ..
        } = effect
        else {
            return false;
        };
        name.is_some() && !(*login_first && self.is_error_of(&[b"WRONGPASS"]))
    }

    /// Asks after a refused `HELLO`. Where it may have logged in, its entry waits for the answer.
    pub(super) fn question_identity(&mut self, pending: Pending) {
        let named = self.may_have_named(&pending.effect);
        if self.may_have_logged_in(&pending.effect) {
            self.doubt = Some(pending);
            self.ask("acl|whoami", Effect::WhoAmI, &[b"ACL", b"WHOAMI"]);
        } else {
            let actor = self.actor_of(&pending.effect, false);
            self.record_as(pending, Known::Reply, actor, None);
        }
        if named {
            self.name_owed = false;
            self.ask_name();
        }
    }

    /// Records the login in doubt, now that the server says who is logged in. It succeeded if that
    /// is its user, and was nobody or another one before.
    fn settle_doubt(&mut self, told: Option<&str>) {
        let Some(pending) = self.doubt.take() else {
            return;
        };
        let nobody = if self.locked { None } else { Some("default") };
        let before = self.principal.as_deref().or(nobody);
        let user = pending.effect.user().map(name_of);
        let proven = told.is_some() && told == user.as_deref() && before != told;
        let outcome = if proven { Outcome::Ok } else { Outcome::Failed };
        let actor = self.actor_of(&pending.effect, proven);
        self.record_as(pending, Known::Told(outcome), actor, None);
    }

    /// The actor of a command that is a login: the user that it is for, whatever comes of it.
    pub(super) fn actor_of(&self, effect: &Effect, is_proven: bool) -> Option<Box<Actor>> {
        let mut actor = self.actor.clone();
        (actor.name, actor.claimed.actor) = (name_of(effect.user()?), !is_proven);
        if is_proven {
            actor.submitter.clone_from(&actor.name);
        }
        Some(Box::new(actor))
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

    /// Returns whether a command has to wait for the name that is owed. The server may let everybody
    /// in by now, so that no login tells that it answers.
    pub(super) fn awaits_name(&mut self, facts: Option<&CommandFacts>) -> bool {
        let is_free =
            |facts: &CommandFacts| matches!(&*facts.name, "auth" | "hello" | "quit" | "reset");
        let is_silent = self.in_multi || self.monitoring || !self.resp3 && self.channels.any();
        let is_begun = self.begun.is_some() || self.name_asked;
        if !self.name_owed || is_begun || is_silent || facts.is_some_and(is_free) {
            return false;
        }
        if !self.is_owed() {
            self.name_asked = true;
            self.ask_name();
        }
        true
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
                    return Err(End::Mismatch("a user whose name is not told"));
                };
                let user = name_of(&user);
                self.settle_doubt(Some(&user));
                if self.principal.is_some() || user != "default" || self.locked {
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
            Effect::WhoAmI if self.is_error_of(&[b"NOPERM"]) => Err(End::Identity),
            Effect::WhoAmI if self.is_error_of(&[b"ERR "]) => Err(End::NoIdentity),
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
            Effect::Select { .. } if self.is_error_of(&[b"NOPERM"]) => Err(End::NoSelect),
            Effect::Select { .. } if self.is_error_of(&[b"ERR "]) => Err(End::NoDatabase),
            // An error of the moment is no answer.
            Effect::WhoAmI | Effect::GetName | Effect::Select { .. } => Err(End::NotNow),
            _ => Err(End::Mismatch("an answer to a question that is none")),
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
