//! Questions of the proxy's own on the client's connection: who is logged in, under which name, on which database.

use super::effect::Effect;
use super::pending::Pending;
use super::reply::End;
use super::{Session, name_of};
use crate::resp::put_command;

impl Session {
    /// `HELLO` logs in before it looks at its other options, and some servers take its name before that: after an
    /// error only the server knows who is there.
    pub(super) fn question_identity(&mut self, effect: &Effect) {
        let Effect::Hello { user, name } = effect else {
            return;
        };
        // The server refuses everything there, the questions too, and has looked at nothing.
        if !self.resp3 && self.channels.any() {
            return;
        }
        if self.users && user.is_some() {
            self.ask("acl|whoami", Effect::WhoAmI, &[b"ACL", b"WHOAMI"]);
        }
        if self.users && name.is_some() {
            self.ask_name();
        }
    }

    /// Asks what the server answers nobody before a login. `named` says that the login gave a name itself.
    pub(super) fn ask_what_is_owed(&mut self, named: bool) {
        if let Some(db) = self.db_owed.take() {
            let number = db.to_string();
            self.ask(
                "select",
                Effect::Select { db },
                &[b"SELECT", number.as_bytes()],
            );
        }
        if std::mem::take(&mut self.name_owed) && !named {
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
                if self.principal.is_some() || user != "default" {
                    self.principal = Some(user);
                }
                self.refresh_actor();
                Ok(())
            }
            // Nobody is.
            Effect::WhoAmI if self.is_error_of(&[b"NOAUTH"]) => Ok(()),
            Effect::GetName => {
                self.name_owed = self.is_error_of(&[b"NOAUTH"]);
                self.name = self.name_told();
                self.refresh_actor();
                Ok(())
            }
            Effect::Select { .. } if !failed => {
                self.apply(effect);
                Ok(())
            }
            Effect::Select { .. } => Err(End::Mismatch("the database cannot be chosen")),
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
