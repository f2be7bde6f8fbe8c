//! The names by which entries speak of people.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::crypto::{KEY_BYTES, derive};
use crate::database::value::put_bytes;
use crate::error::Error;
use crate::records::name::digits;

/// Bytes of a name.
const NAME_BYTES: usize = 16;
/// Bytes of the name of a log.
pub(crate) const LOG_NAME_BYTES: usize = 16;

/// The name of a log in a database.
pub(crate) type LogName = [u8; LOG_NAME_BYTES];

/// The key of the names of people in the entries of a log. It is derived from the key of the log.
/// The names reveal nothing to a reader of the database with its salt, and nothing to a reader of
/// the log alone.
pub struct SubjectKey {
    key: Zeroizing<[u8; KEY_BYTES]>,
    /// The identity of the log among those of the same key.
    log: Vec<u8>,
}

impl SubjectKey {
    /// Derives the key for a log whose own key, which nobody can guess, is `secret`.
    pub fn of_log(secret: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise subject key\0");
        hash.update(secret);
        Self {
            key: Zeroizing::new(hash.finalize().into()),
            log: Vec::new(),
        }
    }

    /// Says which log it is of those that have the same key, by an identity that no other has.
    #[must_use]
    pub fn in_log(mut self, identity: &[u8]) -> Self {
        self.log = identity.to_vec();
        self
    }
}

/// The names of a log in a database.
pub(crate) struct LogNames {
    pub(crate) present: LogName,
    /// The name of every log of the same key, by which programs before noted it.
    pub(crate) of_key: LogName,
}

/// The names of people in the current log.
#[derive(Clone, Default)]
pub(crate) struct Naming(pub(crate) Option<Arc<SubjectKey>>);

impl Naming {
    /// Returns the name of a principal of the database, or of the tenant, that has this salt.
    pub(crate) fn of(&self, salt: &[u8], principal: &[u8]) -> Result<String, Error> {
        let Some(key) = &self.0 else {
            return Ok(unkeyed(salt, principal));
        };
        let mut person = Vec::new();
        put_bytes(&mut person, salt);
        put_bytes(&mut person, principal);
        let name: [u8; NAME_BYTES] = derive(&key.key, b"subject", &person)?;
        Ok(digits(&name))
    }

    /// Returns the name of the log, if it has a key of its own, and the one that it had before names
    /// told logs of one key apart.
    pub(crate) fn log(&self) -> Result<Option<LogNames>, Error> {
        let Some(key) = &self.0 else {
            return Ok(None);
        };
        Ok(Some(LogNames {
            present: derive(&key.key, b"log", &key.log)?,
            of_key: derive(&key.key, b"log", b"")?,
        }))
    }

    /// Returns all names that the log may have for a principal: the present one, and the one in
    /// entries older than the key.
    pub(crate) fn all(&self, salt: &[u8], principal: &[u8]) -> Result<Vec<String>, Error> {
        let mut names = vec![self.of(salt, principal)?];
        if self.0.is_some() {
            names.push(unkeyed(salt, principal));
        }
        Ok(names)
    }
}

/// Returns the name without a key, which anybody with the salt can compute.
fn unkeyed(salt: &[u8], principal: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise subject\0");
    hash.update(salt);
    hash.update(principal);
    digits(hash.finalize().get(..NAME_BYTES).unwrap_or_default())
}
