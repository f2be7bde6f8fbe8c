//! Credentials by which a person proves their right: private key, password or recovery token.
//!
//! Password and token each wrap the private key. Only the right password or token gives the name
//! under which the wrapped key lies. So a stolen database shows neither who has one, nor, without
//! one full key derivation, whether a guess was right. The name begins with bytes derived from the
//! password, by which its rows are found. It ends with random bytes, the salt of the wrapping key:
//! the same password never wraps two keys under one.

use std::collections::BTreeSet;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::suite::Suite;
use crate::crypto::{
    KEY_BYTES, SecretKey, derive, derive_salted, open_alone, open_part, random, seal_alone,
};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::tables::{CREDENTIALS, bytes};
use crate::statements::deletion::destroy_keys;
use crate::statements::table::{insert_all, select_keys};

/// Bytes of a private key with its suite before it.
const SUITE_KEY_BYTES: usize = 1 + KEY_BYTES;
/// Bytes that sealing adds.
const TAG_BYTES: usize = 16;
/// Bytes at the beginning of the name of its rows that are derived from a credential.
const FOUND_BYTES: usize = 16;
/// Bytes of the random end of a name.
const SALT_BYTES: usize = 16;
/// The form of a wrapped key. Rows of the older form have names without a random end, and no
/// number.
const FORM: u8 = 2;
/// Bytes of a recovery token.
pub(crate) const TOKEN_BYTES: usize = 20;

/// The cost of a password guess, for the person and for an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl KeyCost {
    /// The cost that OWASP recommends for Argon2id: 19 MiB, two passes.
    pub const DEFAULT: Self = Self {
        memory_kib: 19 * 1024,
        passes: 2,
    };
    /// The lowest cost that Argon2id accepts; for tests only, never for people.
    pub const DANGER_LEAST: Self = Self {
        memory_kib: 8,
        passes: 1,
    };
}

/// 160 random bits that open the same as the private key.
pub struct RecoveryToken(pub(crate) [u8; TOKEN_BYTES]);

impl Drop for RecoveryToken {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl RecoveryToken {
    pub(crate) fn generate() -> Result<Self, Error> {
        Ok(Self(random()?))
    }

    /// Returns the token in the form that its owner keeps.
    pub fn expose(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Parses the token in the form that its owner kept.
    ///
    /// # Errors
    /// [`Error::WrongCredential`] when it has another form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim())
            .map_err(|_form| Error::WrongCredential)?;
        <[u8; TOKEN_BYTES]>::try_from(bytes)
            .map(Self)
            .map_err(|_length| Error::WrongCredential)
    }
}

/// The protection of a key that is stored in the database, in addition to the owner's own copy.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Protection<'a> {
    /// No stored copy: a lost private key is lost with everything it opens.
    KeyAlone,
    /// A recovery token, which may be split into shares.
    Token,
    /// This password, and a recovery token in addition.
    Password(&'a str),
}

/// A credential that a caller presents; it has no `Debug` and is never stored.
#[non_exhaustive]
pub enum Credential<'a> {
    /// The private key itself.
    Key(&'a SecretKey),
    /// The password given at registration.
    Password(&'a str),
    /// The recovery token given out at registration.
    Token(&'a RecoveryToken),
}

impl Credential<'_> {
    /// Returns the same credential for another request.
    pub(crate) const fn again(&self) -> Credential<'_> {
        match self {
            Self::Key(key) => Credential::Key(key),
            Self::Password(password) => Credential::Password(password),
            Self::Token(token) => Credential::Token(token),
        }
    }
}

/// The stretched form of a credential; with it, the rows of that credential are found and opened.
pub(crate) struct Stretched(Zeroizing<[u8; KEY_BYTES]>);

/// A private key that a credential opened, and the row in which it lay.
pub(crate) struct Opened {
    pub(crate) key: SecretKey,
    /// The name of the row in the list of forgotten rows.
    pub(crate) row: Vec<u8>,
    /// The id of the row, if it has the older form.
    pub(crate) older: Option<Value>,
}

impl Stretched {
    /// Stretches a credential of `user`; the same work whether it is right or not.
    pub(crate) fn new(
        salt: &[u8],
        user: &Value,
        credential: &Credential<'_>,
        cost: KeyCost,
    ) -> Result<Self, Error> {
        let mut hash = Sha256::new();
        hash.update(b"probity disguise credential\0");
        hash.update(salt);
        hash.update(user.principal());
        let own_salt = hash.finalize();
        let mut stretched = Zeroizing::new([0; KEY_BYTES]);
        match credential {
            Credential::Key(_) => return Err(Error::WrongCredential),
            Credential::Password(password) => {
                let failed = |_library| Error::Crypto {
                    doing: "deriving a key from a password",
                };
                let params = Params::new(cost.memory_kib, cost.passes, 1, Some(KEY_BYTES))
                    .map_err(failed)?;
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(password.as_bytes(), &own_salt, stretched.as_mut_slice())
                    .map_err(failed)?;
            }
            Credential::Token(token) => {
                let mut hash = Sha256::new();
                hash.update(own_salt);
                hash.update(token.0);
                stretched.copy_from_slice(&hash.finalize());
            }
        }
        Ok(Self(stretched))
    }

    /// Returns the prefix of the names of all rows of this credential.
    fn found(&self) -> Result<[u8; FOUND_BYTES], Error> {
        derive(&self.0, b"credential name", b"")
    }

    /// Opens the rows of this credential, none if it is wrong. There are several if rows were put
    /// back, or if a person has the id and the password of one who is away.
    pub(crate) fn open(&self, database: &mut dyn TenantConnection) -> Result<Vec<Opened>, Error> {
        let first = self.found()?;
        let last = [first.as_slice(), &[u8::MAX; SALT_BYTES]].concat();
        let sql = format!("SELECT id, holder, wrapped FROM {CREDENTIALS} WHERE id BETWEEN ? AND ?");
        let rows = database
            .query(&sql, &[bytes(&first), Value::Bytes(last)])
            .doing("looking for a credential")?;
        let mut opened = Vec::with_capacity(rows.len());
        for row in rows {
            if let Ok([Value::Bytes(id), Value::Bytes(held), Value::Bytes(wrapped)]) =
                <[Value; 3]>::try_from(row)
                && let Some(it) = self.open_row(id, &held, wrapped)?
            {
                opened.push(it);
            }
        }
        Ok(opened)
    }

    /// Returns the contents of a row; nothing if it is not as it was written.
    fn open_row(
        &self,
        id: Vec<u8>,
        held: &[u8],
        wrapped: Vec<u8>,
    ) -> Result<Option<Opened>, Error> {
        let mut content = Zeroizing::new(wrapped);
        let is_older = id.len() == FOUND_BYTES;
        let is_open = if is_older {
            let wrapping = Zeroizing::new(derive(&self.0, b"credential key", b"")?);
            open_part(&wrapping, 0, &mut content).is_ok()
        } else {
            let form = content.first().copied();
            form == Some(FORM)
                && content.drain(..1).count() == 1
                && open_alone(&*self.wrapping(&id)?, &bound(&id, held), &mut content).is_ok()
        };
        if !is_open {
            return Ok(None);
        }
        // The suite is sealed with the key, so that nobody changes it in the database.
        let (suite, key) = match content.split_first() {
            Some((code, key)) if content.len() == SUITE_KEY_BYTES => {
                (Suite::from_code(*code)?, key)
            }
            _ => (Suite::X25519, content.as_slice()),
        };
        let Ok(key) = <[u8; KEY_BYTES]>::try_from(key) else {
            return Ok(None);
        };
        let key = SecretKey::of(suite, key);
        Ok(Some(Opened {
            row: named(&id, &holder(&key)?),
            key,
            older: is_older.then_some(Value::Bytes(id)),
        }))
    }

    /// Stores the private key of a user wrapped under this credential.
    pub(crate) fn put(
        &self,
        database: &mut dyn TenantConnection,
        key: &SecretKey,
    ) -> Result<(), Error> {
        let id = [self.found()?.as_slice(), &random::<SALT_BYTES>()?].concat();
        let held = holder(key)?;
        let mut sealed = Vec::with_capacity(SUITE_KEY_BYTES.saturating_add(TAG_BYTES));
        sealed.push(key.suite().code());
        sealed.extend_from_slice(key.expose());
        seal_alone(&*self.wrapping(&id)?, &bound(&id, &held), &mut sealed)?;
        sealed.insert(0, FORM);
        let row = vec![Value::Bytes(id), bytes(&held), Value::Bytes(sealed)];
        insert_all(database, CREDENTIALS, &["id", "holder", "wrapped"], &[row])
    }

    /// Returns the key that wraps in the row of this name, and nowhere else: no name is drawn
    /// twice.
    fn wrapping(&self, id: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, Error> {
        derive_salted(id, &self.0, b"credential key 2")
    }
}

/// Returns the context that a wrapped key is bound to: the form, the name of its row, and its
/// holder.
fn bound(id: &[u8], holder: &[u8]) -> Vec<u8> {
    [&[FORM], id, holder].concat()
}

/// Returns the name of a row in the list of forgotten rows. A row of the older form has the name of
/// another once the same password wraps another key, so the holder is part of the name.
pub(crate) fn named(id: &[u8], holder: &[u8]) -> Vec<u8> {
    [id, holder].concat()
}

/// Removes a row.
pub(crate) fn remove(database: &mut dyn TenantConnection, id: Value) -> Result<(), Error> {
    destroy_keys(database, CREDENTIALS, &["id".to_owned()], &[vec![id]])
}

/// Removes all passwords and tokens that wrap `key`.
pub(crate) fn remove_all(
    database: &mut dyn TenantConnection,
    key: &SecretKey,
) -> Result<(), Error> {
    let holder = vec![vec![bytes(&holder(key)?)]];
    destroy_keys(database, CREDENTIALS, &["holder".to_owned()], &holder)
}

/// Returns the names, in the list of forgotten rows, of all passwords and tokens that wrap `key`,
/// and of the rows of the older form that they may have replaced.
pub(crate) fn names(
    database: &mut dyn TenantConnection,
    key: &SecretKey,
) -> Result<Vec<Vec<u8>>, Error> {
    let (column, by) = (["id".to_owned()], ["holder".to_owned()]);
    let holder = holder(key)?;
    let rows = select_keys(database, CREDENTIALS, &column, &by, &[vec![bytes(&holder)]])?;
    let ids = rows.iter().flatten().map(Value::principal);
    let before = |id: &[u8]| id.get(..FOUND_BYTES).map(<[u8]>::to_vec);
    let all: BTreeSet<Vec<u8>> = ids
        .flat_map(|id| before(&id).into_iter().chain([id]))
        .collect();
    Ok(all.iter().map(|id| named(id, &holder)).collect())
}

/// Returns the name of the credentials of one key; only the holder of the key can compute it.
pub(crate) fn holder(key: &SecretKey) -> Result<[u8; 16], Error> {
    derive(key.expose(), b"credential holder", b"")
}
