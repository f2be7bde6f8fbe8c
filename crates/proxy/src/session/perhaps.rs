//! The users and databases that may have been in force when replies were lost.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::audit::put_json;

/// Most logins, and most databases, that an entry names so.
const PERHAPS_MAX: usize = 16;

/// The last logins and databases of which nobody knows whether they came to be.
#[derive(Debug, Default)]
pub(super) struct Perhaps {
    actors: Vec<String>,
    dbs: Vec<u64>,
    /// True if there were more before them.
    more: bool,
    /// True if the login may have ended.
    reset: bool,
}

impl Perhaps {
    /// Returns whether a login may have succeeded.
    pub(super) const fn names_actors(&self) -> bool {
        !self.actors.is_empty()
    }

    /// Returns whether an earlier login may have ended.
    pub(super) const fn holds_reset(&self) -> bool {
        self.reset
    }

    pub(super) const fn add_reset(&mut self) {
        self.reset = true;
    }

    pub(super) fn add_actor(&mut self, actor: String) {
        self.more |= add(&mut self.actors, actor);
    }

    pub(super) fn add_db(&mut self, db: u64) {
        self.more |= add(&mut self.dbs, db);
    }

    /// Members of a payload that say so.
    pub(super) fn said(&self) -> Arc<str> {
        let mut text = String::new();
        for (number, actor) in self.actors.iter().enumerate() {
            text.push_str(if number == 0 {
                ",\"perhaps_actors\":["
            } else {
                ","
            });
            put_json(&mut text, actor.as_bytes());
        }
        if !text.is_empty() {
            text.push(']');
        }
        if !self.dbs.is_empty() {
            let dbs: Vec<_> = self.dbs.iter().map(u64::to_string).collect();
            let _infallible = write!(text, ",\"perhaps_dbs\":[{}]", dbs.join(","));
        }
        if self.more {
            text.push_str(",\"perhaps_more\":true");
        }
        text.into()
    }
}

/// Puts `item` at the end of a list that has each once; whether the first had to go.
fn add<T: PartialEq>(list: &mut Vec<T>, item: T) -> bool {
    list.retain(|known| *known != item);
    list.push(item);
    let is_full = list.len() > PERHAPS_MAX;
    if is_full {
        list.remove(0);
    }
    is_full
}
