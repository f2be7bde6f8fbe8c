//! Ends disguises in chunks, and leaves people out of those that go on.

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::chunk_note::{ChunkNote, ChunkNotes, Marked};
use crate::records::settings;
use crate::transaction::intent::{self, Intent};

/// The owners whose rows a disguise in chunks covers.
pub(super) enum Whose {
    User(Value),
    Everybody,
}

impl Whose {
    pub(super) fn of(intent: &Intent) -> Self {
        match intent.order.user() {
            Some(user) => Self::User(user.clone()),
            None => Self::Everybody,
        }
    }
}

/// Ends the part of a person in a disguise in chunks when their records are revealed or destroyed.
/// A disguise of one user ends; one of everybody goes on and puts `mark` on the person
/// and their placeholders.
pub(super) fn leave_out(
    database: &mut dyn TenantConnection,
    id: DisguiseId,
    whose: Option<&Whose>,
    marked: &[Marked],
    mark: ChunkNote,
) -> Result<(), Error> {
    match whose {
        None => Ok(()),
        Some(Whose::User(_)) => intent::remove(database, id),
        Some(Whose::Everybody) => {
            let salt = settings::salt(database)?;
            let notes = ChunkNotes { id, salt: &salt };
            notes.put_keyed(database, mark, marked)
        }
    }
}
