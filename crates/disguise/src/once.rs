//! Requests that are asked again under the same key: what was done for one is kept for a while, and nothing is done twice.

use probity_format::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::crypto::{KEY_BYTES, derive, open_part, random, seal_part};
use crate::database::DatabaseErrorKind;
use crate::error::{Doing as _, Error};
use crate::store::uninstalled;
use crate::table::select_keys;
use crate::tenant::Session;
use crate::value::Value;

/// The table of what was answered.
pub(crate) const ANSWERS: &str = "probity_answers";
/// Bytes of the hashes of a key and of a request.
const HASH_BYTES: usize = 16;
/// Where a byte for each person whom an answer is about stands behind the hash of the request, counted from 1 as SQL does.
const PERSON_AT: usize = HASH_BYTES + 1;
/// Bytes of the random number by which the same key seals two answers differently.
const NONCE_BYTES: usize = 16;

/// A request that may be asked again.
#[derive(Clone, Copy)]
pub struct Once<'a> {
    /// What only the caller has, and the server keeps outside of the database: answers are sealed with it.
    pub caller: &'a [u8],
    /// The key of the request, the caller's choice.
    pub key: &'a str,
    /// What is asked for.
    pub request: &'a [u8],
    /// Now.
    pub time: Timestamp,
    /// Until when the answer is kept.
    pub until: Timestamp,
}

/// What became of a request that may be asked again.
pub enum Answered<T> {
    /// It was done now.
    Now(T),
    /// It was done before, and this was the answer.
    Before(Zeroizing<Vec<u8>>),
    /// It was done before, and the answer was not kept.
    Withheld,
}

/// The names of a request in the database, and the key that seals its answer.
pub(crate) struct Names {
    id: Value,
    request: Vec<u8>,
    secret: Zeroizing<[u8; KEY_BYTES]>,
}

/// What the database knows of a request.
pub(crate) enum Known {
    /// Nothing; it is noted now.
    New,
    Before(Zeroizing<Vec<u8>>),
    Withheld,
}

impl Names {
    pub(crate) fn new(database: &dyn Session, salt: &[u8], once: &Once<'_>) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise once\0");
        for part in [salt, once.caller, once.key.as_bytes()] {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
        let secret = Zeroizing::new(hash.finalize().into());
        let id = derive::<HASH_BYTES>(&secret, b"key", b"")?;
        let request = derive::<HASH_BYTES>(&secret, b"request", &Sha256::digest(once.request))?;
        Ok(Self {
            id: database.tenancy().key(&id),
            request: request.to_vec(),
            secret,
        })
    }

    /// Notes the request, or says what was answered before. Whoever else asks the same waits for the end of this
    /// transaction.
    pub(crate) fn note(&self, database: &mut dyn Session, once: &Once<'_>) -> Result<Known, Error> {
        if self.insert(database, once)? {
            return Ok(Known::New);
        }
        let columns = ["request", "due", "sealed"].map(str::to_owned);
        let key = [vec![self.id.clone()]];
        let rows = select_keys(database, ANSWERS, &columns, &["id".to_owned()], &key)?;
        match rows.first().map(Vec::as_slice) {
            Some([_, Value::Int(due), _]) if *due < once.time.nanoseconds() => {
                self.remove(database)?;
                self.insert(database, once)?;
                Ok(Known::New)
            }
            Some([Value::Bytes(request), _, _]) if !request.starts_with(&self.request) => {
                Err(Error::OtherRequest)
            }
            Some([_, _, Value::Bytes(sealed)]) if sealed.is_empty() => Ok(Known::Withheld),
            Some([_, _, Value::Bytes(sealed)]) => Ok(Known::Before(self.open(sealed)?)),
            // It was noted by a transaction that this one does not see; the next try does.
            _ => Err(Error::Database {
                doing: DOING,
                source: crate::database::DatabaseError {
                    kind: DatabaseErrorKind::Conflict,
                    message: "the same request has just been done".to_owned(),
                    said: crate::database::Said::default(),
                },
            }),
        }
    }

    fn insert(&self, database: &mut dyn Session, once: &Once<'_>) -> Result<bool, Error> {
        let sql = format!("INSERT INTO {ANSWERS} (id, request, due, sealed) VALUES (?, ?, ?, ?)");
        let row = [
            self.id.clone(),
            Value::Bytes(self.request.clone()),
            Value::Int(once.until.nanoseconds()),
            Value::Bytes(Vec::new()),
        ];
        match database.attempt(&sql, &row) {
            Ok(_) => Ok(true),
            Err(error) if error.kind == DatabaseErrorKind::Unique => Ok(false),
            Err(error) => Err(uninstalled(error)),
        }
    }

    fn remove(&self, database: &mut dyn Session) -> Result<(), Error> {
        let sql = format!("DELETE FROM {ANSWERS} WHERE id = ?");
        let removed = database.execute(&sql, std::slice::from_ref(&self.id));
        removed.doing(DOING).map(drop)
    }

    /// Keeps the answer, which nobody but the caller can open. Of the person whom it is about one byte stands beside it, so that it
    /// goes when they are forgotten.
    pub(crate) fn keep(
        &self,
        database: &mut dyn Session,
        cohort: Option<u8>,
        answer: &[u8],
    ) -> Result<(), Error> {
        let nonce = random::<NONCE_BYTES>()?;
        let mut sealed = answer.to_vec();
        seal_part(&*self.sealing(&nonce)?, 0, &mut sealed)?;
        // The key may be another request's by now, where this one took several transactions.
        let sql = format!(
            "UPDATE {ANSWERS} SET sealed = ?, request = ? WHERE id = ? AND (request = ? OR request = ?)"
        );
        let mut named = self.request.clone();
        named.extend(cohort);
        let row = [
            Value::Bytes([nonce.as_slice(), &sealed].concat()),
            Value::Bytes(named.clone()),
            self.id.clone(),
            Value::Bytes(self.request.clone()),
            Value::Bytes(named),
        ];
        database.execute(&sql, &row).doing(DOING).map(drop)
    }

    fn open(&self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or(Error::Forged)?;
        let mut answer = Zeroizing::new(sealed.to_vec());
        open_part(&*self.sealing(nonce)?, 0, &mut answer)?;
        Ok(answer)
    }

    fn sealing(&self, nonce: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
        derive(&self.secret, b"answer", nonce).map(Zeroizing::new)
    }
}

/// What is done when the database refuses.
const DOING: &str = "keeping what was answered";

/// Forgets what was answered about a person, and about whoever shares the byte with them: that it was done stays known.
pub(crate) fn forget(database: &mut dyn Session, cohort: u8) -> Result<(), Error> {
    let mut own = database.tenancy().among_keys("AND");
    let sql = format!(
        "UPDATE {ANSWERS} SET sealed = ? WHERE substr(request, {PERSON_AT}, 1) = ?{}",
        own.sql
    );
    let mut parameters = vec![Value::Bytes(Vec::new()), Value::Bytes(vec![cohort])];
    parameters.append(&mut own.parameters);
    let forgotten = database.execute(&sql, &parameters);
    forgotten.map_err(uninstalled).map(drop)
}

/// Forgets answers whose time is over, of all tenants.
pub(crate) fn remove_over(database: &mut dyn Session, time: Timestamp) -> Result<(), Error> {
    let sql = format!("DELETE FROM {ANSWERS} WHERE due < ?");
    let removed = database.execute(&sql, &[Value::Int(time.nanoseconds())]);
    removed.map_err(uninstalled).map(drop)
}
