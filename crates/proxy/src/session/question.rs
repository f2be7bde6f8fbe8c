//! Questions of the proxy's own on the client's connection: who is logged in, under which name, on which database.

use probity_format::Outcome;

use super::capture::Capture;
use super::effect::Effect;
use super::end::End;
use super::exchange::Exchange;
use super::pending::Pending;
use super::record::Known;
use crate::command::CommandFacts;
use crate::resp::put_command;

impl Exchange {
    /// Returns whether only the server knows who the client is, or which name it has, after an
    /// error in reply to this one. `HELLO` logs in before it looks at its other options, and some
    /// servers take its name before that, as does a store.
    pub(super) fn asks_identity(&self, effect: &Effect) -> bool {
        // The server refuses a subscribed client everything, the questions too, and has looked at
        // nothing.
        let looked = self.resp3 || !self.channels.any();
        let concerns = self.may_have_logged_in(effect) || may_have_named(effect, &self.capture);
        looked && concerns && matches!(effect, Effect::Hello { .. })
    }

    /// Returns whether a login may have succeeded before the error: a denial says that it did not, and
    /// the user before is still the one logged in. Without users nobody logs in.
    fn may_have_logged_in(&self, effect: &Effect) -> bool {
        self.identity.has_users() && effect.user().is_some() && !self.capture.is_denial()
    }

    /// Asks after a refused `HELLO`. Where it may have logged in, its entry waits for the answer.
    pub(super) fn question_identity(&mut self, pending: Pending) {
        let named = may_have_named(&pending.effect, &self.capture);
        if self.may_have_logged_in(&pending.effect) {
            self.doubt = Some(pending);
            self.ask("acl|whoami", Effect::WhoAmI, &[b"ACL", b"WHOAMI"]);
        } else {
            let actor = self.identity.actor_of(&pending.effect, false);
            self.record_as(pending, Known::Reply, actor, None);
        }
        if named {
            self.identity.owe_name(false);
            self.ask_name();
        }
    }

    /// Records the login in doubt, now that the server says who is logged in.
    fn settle_doubt(&mut self, told: Option<&str>) {
        let Some(pending) = self.doubt.take() else {
            return;
        };
        let proven = self.identity.proves(&pending.effect, told);
        let outcome = if proven { Outcome::Ok } else { Outcome::Failed };
        let actor = self.identity.actor_of(&pending.effect, proven);
        self.record_as(pending, Known::Told(outcome), actor, None);
    }

    /// Returns whether a question of the proxy's own may go: nothing of the client is under way,
    /// and no transaction is open.
    pub(super) fn may_ask(&self) -> bool {
        self.awaited.has_no_command() && !self.awaited.in_multi() && self.begun.is_none()
    }

    /// Asks what the server answers nobody before a login.
    pub(super) fn ask_what_is_owed(&mut self) {
        if let Some(db) = self.identity.take_db_owed() {
            let number = db.to_string();
            self.ask(
                "select",
                Effect::Select { db },
                &[b"SELECT", number.as_bytes()],
            );
        }
        if self.identity.take_name_owed() {
            self.ask_name();
        }
    }

    /// Returns whether a command has to wait for the name that is owed. The server may let everybody
    /// in by now, so that no login tells that it answers.
    pub(super) fn awaits_name(&mut self, facts: Option<&CommandFacts>) -> bool {
        let is_free =
            |facts: &CommandFacts| matches!(&*facts.name, "auth" | "hello" | "quit" | "reset");
        let is_silent =
            self.awaited.in_multi() || self.monitoring || !self.resp3 && self.channels.any();
        let is_begun = self.begun.is_some() || self.name_asked;
        if !self.identity.owes_name() || is_begun || is_silent || facts.is_some_and(is_free) {
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
        self.awaited.push(Pending::own(name, effect));
    }

    pub(super) fn own_answer(&mut self, effect: &Effect) -> Result<(), End> {
        let failed = self.capture.is_error();
        match effect {
            Effect::WhoAmI if !failed => {
                let Some(user) = self.capture.head.text.name() else {
                    return Err(End::Mismatch("a user whose name is not told"));
                };
                self.settle_doubt(Some(&user));
                self.identity.take_user(user);
                if !self.identity.is_nobody() {
                    self.ask_what_is_owed();
                }
                Ok(())
            }
            // Nobody is.
            Effect::WhoAmI if self.capture.is_error_of(&[b"NOAUTH"]) => {
                self.settle_doubt(None);
                Ok(())
            }
            Effect::WhoAmI if self.capture.is_error_of(&[b"NOPERM"]) => Err(End::Identity),
            Effect::WhoAmI if self.capture.is_error_of(&[b"ERR "]) => Err(End::NoIdentity),
            Effect::GetName
                if !failed || self.capture.is_error_of(&[b"NOAUTH", b"NOPERM", b"ERR "]) =>
            {
                let owed = self.capture.is_error_of(&[b"NOAUTH"]);
                self.identity.owe_name(owed);
                self.identity.take_name(name_told(&self.capture));
                Ok(())
            }
            Effect::Select { .. } if !failed => {
                self.identity.apply(effect);
                Ok(())
            }
            Effect::Select { .. } if self.capture.is_error_of(&[b"NOPERM"]) => Err(End::NoSelect),
            Effect::Select { .. } if self.capture.is_error_of(&[b"ERR "]) => Err(End::NoDatabase),
            // An error of the moment is no answer.
            Effect::WhoAmI | Effect::GetName | Effect::Select { .. } => Err(End::NotNow),
            _ => Err(End::Mismatch("an answer to a question that is none")),
        }
    }
}

/// Returns whether a name may have been taken before the error. A server looks at the options in
/// their order, or at none of them before it logs in.
fn may_have_named(effect: &Effect, reply: &Capture) -> bool {
    let Effect::Hello {
        name, login_first, ..
    } = effect
    else {
        return false;
    };
    name.is_some() && !(*login_first && reply.is_error_of(&[b"WRONGPASS"]))
}

/// Returns the name in the server's answer. Where it says none, none counts.
fn name_told(answer: &Capture) -> Option<String> {
    let head = &answer.head;
    let said = !answer.is_error() && !head.null;
    head.text.name().filter(|name| said && !name.is_empty())
}
