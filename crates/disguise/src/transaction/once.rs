//! Repeated requests under the same key: the answer is kept for a while, and nothing is done twice.

use probity_format::Timestamp;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::crypto::{KEY_BYTES, derive, open_part, random, seal_part};
use crate::database::DatabaseErrorKind;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::forgotten;
use crate::records::name::record_name;
use crate::records::tables::ANSWERS;
use crate::records::tables::{FORGOTTEN, uninstalled};
use crate::statements::table::select_keys;

/// Bytes of the hashes of a key and of a request.
const HASH_BYTES: usize = 16;
/// The position of a byte for each person whom an answer concerns: after the hash of the request,
/// counted from 1 as SQL does.
const PERSON_AT: usize = HASH_BYTES + 1;
/// The mailbox of names of answers, which no key reads.
const MAILBOX: &[u8] = b"answers";
/// Bytes of the random number by which the same key seals two answers differently.
const NONCE_BYTES: usize = 16;

/// A request that may be asked again.
#[derive(Clone, Copy)]
pub struct Once<'a> {
    /// A secret of the caller that the server keeps outside of the database: it seals the answers.
    pub caller: &'a [u8],
    /// The key of the request, the caller's choice.
    pub key: &'a str,
    /// The request itself.
    pub request: &'a [u8],
    /// The present time.
    pub time: Timestamp,
    /// The time until which the answer is kept.
    pub until: Timestamp,
}

/// The outcome of a request that may be repeated.
pub enum Answered<T> {
    /// The request was executed now.
    Now(T),
    /// The request was executed before, with this answer.
    Before(Zeroizing<Vec<u8>>),
    /// The request was executed before, and the answer was not kept.
    Withheld,
}

/// The names of a request in the database, and the key that seals its answer.
pub(crate) struct Names {
    id: Value,
    request: Vec<u8>,
    secret: Zeroizing<[u8; KEY_BYTES]>,
    /// The salt of what is stored for the tenant at hand.
    salt: Vec<u8>,
    /// The time until which the answer is kept.
    until: i64,
}

/// The stored state of a request.
pub(crate) enum RequestState {
    /// The request is new; it is noted now.
    New,
    Before(Zeroizing<Vec<u8>>),
    Withheld,
}

impl Names {
    pub(crate) fn new(
        database: &dyn TenantConnection,
        salt: &[u8],
        once: &Once<'_>,
    ) -> Result<Self, Error> {
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
            salt: salt.to_vec(),
            until: once.until.nanoseconds(),
        })
    }

    /// Notes the request, or returns the earlier answer. The same request on another connection
    /// waits for the end of this transaction.
    pub(crate) fn note(
        &self,
        database: &mut dyn TenantConnection,
        once: &Once<'_>,
    ) -> Result<RequestState, Error> {
        if self.insert(database, once)? {
            return Ok(RequestState::New);
        }
        let columns = ["request", "due", "sealed"].map(str::to_owned);
        let key = [vec![self.id.clone()]];
        let rows = select_keys(database, ANSWERS, &columns, &["id".to_owned()], &key)?;
        match rows.first().map(Vec::as_slice) {
            Some([_, Value::Int(due), _]) if *due < once.time.nanoseconds() => {
                self.remove(database)?;
                if self.insert(database, once)? {
                    return Ok(RequestState::New);
                }
                Err(just_done())
            }
            Some([Value::Bytes(request), _, _]) if !request.starts_with(&self.request) => {
                Err(Error::OtherRequest)
            }
            Some([_, _, Value::Bytes(sealed)]) if sealed.is_empty() => Ok(RequestState::Withheld),
            Some([Value::Bytes(request), Value::Int(due), Value::Bytes(sealed)]) => {
                if is_forgotten(database, &self.salt, sealed)? {
                    return Ok(RequestState::Withheld);
                }
                Ok(RequestState::Before(
                    self.open(sealed, &bound(request, *due))?,
                ))
            }
            None => Err(just_done()),
            Some(_) => Err(Error::Forged),
        }
    }

    fn insert(&self, database: &mut dyn TenantConnection, once: &Once<'_>) -> Result<bool, Error> {
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

    fn remove(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let sql = format!("DELETE FROM {ANSWERS} WHERE id = ?");
        let removed = database.execute(&sql, std::slice::from_ref(&self.id));
        removed.doing(DOING).map(drop)
    }

    /// Stores the answer, which only the caller can open. One byte of the person it concerns is
    /// stored with it, so that it is destroyed when they are forgotten.
    pub(crate) fn keep(
        &self,
        database: &mut dyn TenantConnection,
        cohort: Option<u8>,
        answer: &[u8],
    ) -> Result<(), Error> {
        let nonce = random::<NONCE_BYTES>()?;
        let mut named = self.request.clone();
        named.extend(cohort);
        let mut sealed = answer.to_vec();
        let key = self.sealing(&[&nonce, bound(&named, self.until).as_slice()].concat())?;
        seal_part(&key, 0, &mut sealed)?;
        // The key may be another request's by now, where this one took several transactions.
        let sql = format!(
            "UPDATE {ANSWERS} SET sealed = ?, request = ?, due = ? WHERE id = ? AND (request = ? OR request = ?)"
        );
        let row = [
            Value::Bytes([nonce.as_slice(), &sealed].concat()),
            Value::Bytes(named.clone()),
            Value::Int(self.until),
            self.id.clone(),
            Value::Bytes(self.request.clone()),
            Value::Bytes(named),
        ];
        database.execute(&sql, &row).doing(DOING).map(drop)
    }

    /// Opens an answer sealed for a row with this `bound`, or by an older program, which bound it
    /// to nothing.
    fn open(&self, sealed: &[u8], bound: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or(Error::Forged)?;
        let mut answer = Zeroizing::new(sealed.to_vec());
        let key = self.sealing(&[nonce, bound].concat())?;
        if open_part(&key, 0, &mut answer).is_err() {
            answer = Zeroizing::new(sealed.to_vec());
            open_part(&*self.sealing(nonce)?, 0, &mut answer)?;
        }
        Ok(answer)
    }

    fn sealing(&self, nonce: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
        derive(&self.secret, b"answer", nonce).map(Zeroizing::new)
    }
}

/// The operation named in database errors.
const DOING: &str = "keeping what was answered";

/// Returns the error for a request that was noted by a transaction which this one does not see; the next
/// try does.
fn just_done() -> Error {
    Error::Database {
        doing: DOING,
        source: crate::database::DatabaseError {
            kind: DatabaseErrorKind::Conflict,
            message: "the same request has just been done".to_owned(),
            said: crate::database::Said::default(),
        },
    }
}

/// Returns the context that an answer is bound to beside its key: the request, the people
/// concerned, and the time until which it is kept.
fn bound(request: &[u8], due: i64) -> Vec<u8> {
    [&due.to_le_bytes(), request].concat()
}

/// Returns the name of an answer in the list of forgotten records.
fn named(sealed: &[u8]) -> &[u8] {
    // One that is shorter is damaged, and opens nothing whatever its name is.
    sealed.get(..NONCE_BYTES).unwrap_or(sealed)
}

fn is_forgotten(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    sealed: &[u8],
) -> Result<bool, Error> {
    let name = record_name(salt, named(sealed)).to_vec();
    let (column, by) = (["id".to_owned()], ["id".to_owned()]);
    let key = [vec![Value::Bytes(name)]];
    Ok(!select_keys(database, FORGOTTEN, &column, &by, &key)?.is_empty())
}

/// Destroys the answers about a person, and about others with the same byte; the requests still
/// count as done. Returns the names of these answers, which are void when somebody puts them back.
pub(crate) fn forget(
    database: &mut dyn TenantConnection,
    salt: &[u8],
    cohort: u8,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut own = database.tenancy().among_keys("AND");
    let meant = format!(
        "substr(request, {PERSON_AT}, 1) = ? AND LENGTH(sealed) > 0{}",
        own.sql
    );
    let mut parameters = vec![Value::Bytes(vec![cohort])];
    parameters.append(&mut own.parameters);
    let sql = format!("SELECT substr(sealed, 1, {NONCE_BYTES}) FROM {ANSWERS} WHERE {meant}");
    let rows = database.query(&sql, &parameters).map_err(uninstalled)?;
    let gone: Vec<Vec<u8>> = rows.iter().flatten().map(Value::principal).collect();
    if gone.is_empty() {
        return Ok(gone);
    }
    let sql = format!("UPDATE {ANSWERS} SET sealed = ? WHERE {meant}");
    parameters.insert(0, Value::Bytes(Vec::new()));
    database.execute(&sql, &parameters).map_err(uninstalled)?;
    let name = |it: &Vec<u8>| (record_name(salt, it).to_vec(), MAILBOX.to_vec());
    forgotten::put(database, &gone.iter().map(name).collect::<Vec<_>>())?;
    Ok(gone)
}

/// Returns the name of each kept answer, of all tenants, with the id of its row.
pub(crate) fn kept(database: &mut dyn TenantConnection) -> Result<Vec<(Value, Vec<u8>)>, Error> {
    let sql = format!(
        "SELECT id, substr(sealed, 1, {NONCE_BYTES}) FROM {ANSWERS} WHERE LENGTH(sealed) > 0"
    );
    let rows = database.query(&sql, &[]).map_err(uninstalled)?;
    let called = |row: Vec<Value>| {
        // A row that was passed over would stay when it is to be destroyed.
        let row = <[Value; 2]>::try_from(row);
        let [id, name] = row.map_err(|_row| Error::Forged)?;
        Ok((id, name.principal()))
    };
    rows.into_iter().map(called).collect()
}

/// Empties the answers of these rows.
pub(crate) fn empty(database: &mut dyn TenantConnection, ids: Vec<Value>) -> Result<(), Error> {
    for id in ids {
        let sql = format!("UPDATE {ANSWERS} SET sealed = ? WHERE id = ?");
        let emptied = database.execute(&sql, &[Value::Bytes(Vec::new()), id]);
        emptied.doing(DOING)?;
    }
    Ok(())
}

/// Removes answers whose time is over, of all tenants.
pub(crate) fn remove_over(
    database: &mut dyn TenantConnection,
    time: Timestamp,
) -> Result<(), Error> {
    let sql = format!("DELETE FROM {ANSWERS} WHERE due < ?");
    let removed = database.execute(&sql, &[Value::Int(time.nanoseconds())]);
    removed.map_err(uninstalled).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            id: Value::Bytes(vec![1; HASH_BYTES]),
            request: vec![2; HASH_BYTES],
            secret: Zeroizing::new([3; KEY_BYTES]),
            salt: vec![4],
            until: 5,
        }
    }

    #[test]
    fn an_answer_opens_in_its_own_row_and_one_of_the_form_before_in_any() {
        let (names, nonce) = (names(), [6; NONCE_BYTES]);
        let own = bound(&names.request, names.until);
        for is_bound in [true, false] {
            let row: &[u8] = if is_bound { &own } else { &[] };
            let mut sealed = b"an answer".to_vec();
            let key = names.sealing(&[&nonce, row].concat()).unwrap();
            seal_part(&key, 0, &mut sealed).unwrap();
            let sealed = [nonce.as_slice(), &sealed].concat();
            assert_eq!(&**names.open(&sealed, &own).unwrap(), b"an answer");
            let other = bound(&names.request, names.until + 1);
            assert_eq!(names.open(&sealed, &other).is_err(), is_bound);
        }
    }
}
