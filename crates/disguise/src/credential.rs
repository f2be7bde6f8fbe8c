//! What a person proves their right with: the private key, a password or a recovery token.
//!
//! Password and token each wrap the private key. The wrapped key lies under a name that only the right password
//! or token gives, so that a stolen database tells neither who has one nor whether a guess was right short of
//! one full key derivation a guess.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::crypto::{KEY_BYTES, SecretKey, derive, random, seal_part};
use crate::error::Error;
use crate::store::{CREDENTIALS, bytes};
use crate::suite::Suite;
use crate::table::{delete_keys, insert_all, select_keys};
use crate::tenant::Session;
use crate::value::Value;

/// Bytes of a private key with its suite before it.
pub(crate) const SUITE_KEY_BYTES: usize = 1 + KEY_BYTES;
/// Bytes that sealing adds.
const TAG_BYTES: usize = 16;
/// Bytes of a recovery token.
pub(crate) const TOKEN_BYTES: usize = 20;

/// How much work a password costs, for the person and for whoever guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
}

impl KeyCost {
    /// What OWASP recommends for Argon2id: 19 MiB, two passes.
    pub const DEFAULT: Self = Self {
        memory_kib: 19 * 1024,
        passes: 2,
    };
    /// The least that Argon2id accepts; for tests only, never for people.
    pub const DANGER_LEAST: Self = Self {
        memory_kib: 8,
        passes: 1,
    };
}

/// 160 random bits that open what the private key opens.
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

    /// The token as its owner keeps it.
    pub fn expose(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The token from what its owner kept.
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

/// What a key is wrapped under in the database, beside being in its owner's hands.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum Protection<'a> {
    /// Nothing: who loses the private key loses what it opens.
    KeyAlone,
    /// A recovery token, which may be split into shares.
    Token,
    /// This password, and a recovery token beside it.
    Password(&'a str),
}

/// What a caller presents; it has no `Debug` and is never stored.
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
    /// The same, for another request.
    pub(crate) const fn again(&self) -> Credential<'_> {
        match self {
            Self::Key(key) => Credential::Key(key),
            Self::Password(password) => Credential::Password(password),
            Self::Token(token) => Credential::Token(token),
        }
    }
}

/// The name and the wrapping key of a credential of `user`; the same work whether it is right or not.
pub(crate) fn stretched(
    salt: &[u8],
    user: &Value,
    credential: &Credential<'_>,
    cost: KeyCost,
) -> Result<([u8; 16], Zeroizing<[u8; KEY_BYTES]>), Error> {
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
            let params =
                Params::new(cost.memory_kib, cost.passes, 1, Some(KEY_BYTES)).map_err(failed)?;
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
    let name = derive(&stretched, b"credential name", b"")?;
    let key = Zeroizing::new(derive(&stretched, b"credential key", b"")?);
    Ok((name, key))
}

/// Stores the private key of `user` wrapped under a password or a token.
pub(crate) fn put(
    database: &mut dyn Session,
    salt: &[u8],
    user: &Value,
    key: &SecretKey,
    credential: &Credential<'_>,
    cost: KeyCost,
) -> Result<(), Error> {
    let (name, wrapping) = stretched(salt, user, credential, cost)?;
    let mut wrapped = Vec::with_capacity(SUITE_KEY_BYTES.saturating_add(TAG_BYTES));
    if key.suite() != Suite::X25519 {
        wrapped.push(key.suite().code());
    }
    wrapped.extend_from_slice(key.expose());
    seal_part(&wrapping, 0, &mut wrapped)?;
    insert_all(
        database,
        CREDENTIALS,
        &["id", "holder", "wrapped"],
        &[vec![
            bytes(&name),
            bytes(&holder(key)?),
            Value::Bytes(wrapped),
        ]],
    )
}

/// Removes all passwords and tokens that wrap `key`.
pub(crate) fn remove_all(database: &mut dyn Session, key: &SecretKey) -> Result<(), Error> {
    let holder = vec![vec![bytes(&holder(key)?)]];
    delete_keys(database, CREDENTIALS, &["holder".to_owned()], &holder)?;
    Ok(())
}

/// The ids of all passwords and tokens that wrap `key`.
pub(crate) fn ids(database: &mut dyn Session, key: &SecretKey) -> Result<Vec<Vec<u8>>, Error> {
    let (column, by) = (["id".to_owned()], ["holder".to_owned()]);
    let holder = vec![vec![bytes(&holder(key)?)]];
    let rows = select_keys(database, CREDENTIALS, &column, &by, &holder)?;
    Ok(rows.iter().flatten().map(Value::principal).collect())
}

/// Names the credentials of one key; only its holder can tell whose they are.
pub(crate) fn holder(key: &SecretKey) -> Result<[u8; 16], Error> {
    derive(key.expose(), b"credential holder", b"")
}
