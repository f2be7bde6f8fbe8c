//! The client as the server knows it: its user, its name and its database. All of it follows from
//! replies.

use std::sync::Arc;

use probity_format::Claimed;
use probity_policy::{Policy, Roles};

use super::effect::Effect;
use crate::audit::Actor;

/// The client's user, name and database.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a mode of its own in the protocol"
)]
pub(super) struct Identity {
    policy: Arc<Policy>,
    /// True if the backend knows users at all.
    has_users: bool,
    /// True if the server let nobody in without a login when the connection began.
    is_locked: bool,
    principal: Option<String>,
    name: Option<String>,
    db: u64,
    /// The database to choose once the server lets the client in.
    db_owed: Option<u64>,
    /// True if the name is to be asked for once the server lets the client in.
    name_owed: bool,
    actor: Actor,
}

impl Identity {
    /// Nobody has logged in, and the server is on `db`.
    pub(super) fn new(policy: Arc<Policy>, db: u64) -> Self {
        let mut identity = Self {
            policy,
            has_users: true,
            is_locked: false,
            principal: None,
            name: None,
            db,
            db_owed: None,
            name_owed: false,
            actor: Actor::default(),
        };
        identity.refresh();
        identity
    }

    pub(super) const fn without_users(&mut self) {
        self.has_users = false;
    }

    pub(super) const fn lock(&mut self) {
        self.is_locked = true;
    }

    pub(super) const fn owe_db(&mut self, db: u64) {
        self.db_owed = Some(db);
    }

    pub(super) const fn owe_name(&mut self, owed: bool) {
        self.name_owed = owed;
    }

    pub(super) const fn has_users(&self) -> bool {
        self.has_users
    }

    pub(super) const fn db(&self) -> u64 {
        self.db
    }

    pub(super) const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Returns whether nobody is known to have logged in.
    pub(super) const fn is_nobody(&self) -> bool {
        self.principal.is_none()
    }

    /// Returns whether something is to be asked for once a login succeeds.
    pub(super) const fn owes(&self) -> bool {
        self.db_owed.is_some() || self.name_owed
    }

    pub(super) const fn owes_name(&self) -> bool {
        self.name_owed
    }

    pub(super) const fn take_db_owed(&mut self) -> Option<u64> {
        self.db_owed.take()
    }

    pub(super) const fn take_name_owed(&mut self) -> bool {
        std::mem::replace(&mut self.name_owed, false)
    }

    /// Takes that nothing is owed any more of what the client has chosen for itself.
    pub(super) fn chosen(&mut self, effect: &Effect) {
        match effect {
            Effect::Select { .. } => self.db_owed = None,
            Effect::Reset => self.name_owed = false,
            _ => {}
        }
        self.name_owed &= effect.name().is_none();
    }

    /// The actor of a command that is a login: the user that it is for, whatever comes of it.
    pub(super) fn actor_of(&self, effect: &Effect, is_proven: bool) -> Option<Box<Actor>> {
        if effect.is_slip() && !is_proven {
            return None;
        }
        let mut actor = self.actor.clone();
        (actor.name, actor.claimed.actor) = (effect.user()?.to_owned(), !is_proven);
        if is_proven {
            actor.submitter.clone_from(&actor.name);
        }
        Some(Box::new(actor))
    }

    /// Returns whether a login in doubt has succeeded, now that the server says who is logged in:
    /// that is its user, and was nobody or another one before.
    pub(super) fn proves(&self, login: &Effect, told: Option<&str>) -> bool {
        let nobody = if self.is_locked {
            None
        } else {
            Some("default")
        };
        let before = self.principal.as_deref().or(nobody);
        told.is_some() && told == login.user() && before != told
    }

    /// Takes the user whom the server names.
    pub(super) fn take_user(&mut self, user: String) {
        if self.principal.is_some() || user != "default" || self.is_locked {
            self.principal = Some(user);
        }
        self.refresh();
    }

    /// Takes the name that the server says, if any.
    pub(super) fn take_name(&mut self, name: Option<String>) {
        self.name = name;
        self.refresh();
    }

    /// Takes the effect of a command that succeeded.
    pub(super) fn apply(&mut self, effect: &Effect) {
        // Without users a login proves nothing, so that nobody is logged in.
        if let Some(user) = effect.user().filter(|_| self.has_users) {
            self.principal = Some(user.to_owned());
        }
        match effect {
            Effect::Auth { .. } => {}
            Effect::Hello { name, .. } => {
                if let Some(name) = name {
                    self.name = Some(name.clone()).filter(|name| !name.is_empty());
                }
            }
            Effect::SetName { name } => {
                self.name = Some(name.clone()).filter(|name| !name.is_empty());
            }
            Effect::Select { db } => self.db = *db,
            Effect::Reset => (self.principal, self.name, self.db) = (None, None, 0),
            _ => return,
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let (principal, name) = (self.principal.as_deref(), self.name.as_deref());
        let proven = self.policy.actor(principal, None);
        let found = self.policy.actor(principal, name);
        let is_named = proven.is_none() && found.is_some_and(|it| it.roles != Roles::default());
        self.actor = Actor {
            name: principal.or(name).unwrap_or("default").to_owned(),
            submitter: principal.unwrap_or_default().to_owned(),
            claimed: Claimed {
                actor: principal.is_none() && name.is_some(),
                purpose: is_named,
            },
            roles: found.map(|actor| actor.roles.clone()).unwrap_or_default(),
        };
    }
}
