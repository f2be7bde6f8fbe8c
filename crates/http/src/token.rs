//! Bearer tokens and their rights; a token is known by its SHA-256 alone.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;

/// The least characters of a token, because a shorter one can be guessed from its digest.
pub(crate) const TOKEN_CHARACTERS_MIN: usize = 32;
/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenDigest([u8; DIGEST_BYTES]);

impl TokenDigest {
    pub(crate) fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    pub(crate) const fn bytes(self) -> [u8; DIGEST_BYTES] {
        self.0
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        digest(&text).ok_or_else(|| D::Error::custom("is no SHA-256 in 64 hexadecimal digits"))
    }
}

fn digest(text: &str) -> Option<TokenDigest> {
    let mut bytes = [0; DIGEST_BYTES];
    if text.len() != DIGEST_BYTES * 2 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        let digits = text.get(index * 2..index * 2 + 2)?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(TokenDigest(bytes))
}

/// The rights of a token's bearer.
pub(crate) struct Grant {
    /// The name of the token, which is the actor of its entries.
    pub(crate) name: String,
    pub(crate) digest: TokenDigest,
    pub(crate) databases: BTreeSet<String>,
    pub(crate) operations: BTreeSet<String>,
    /// A permit for each request of the token under way at the same time.
    pub(crate) permits: Arc<Semaphore>,
}

impl Grant {
    pub(crate) fn allows(&self, database: &str, operation: &str) -> bool {
        self.databases.contains(database) && self.operations.contains(operation)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns the grant of `token` and its index, if the token is known. Every grant is compared, to
/// the last byte, so that the time tells nothing.
pub(crate) fn granted<'a>(grants: &'a [Grant], token: &str) -> Option<(usize, &'a Grant)> {
    let presented = TokenDigest::of(token);
    let mut found = None;
    for (index, grant) in grants.iter().enumerate() {
        if bool::from(grant.digest.0.ct_eq(&presented.0)) {
            found = Some((index, grant));
        }
    }
    found.filter(|_grant| token.len() >= TOKEN_CHARACTERS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn grant(name: &str, token: &str) -> Grant {
        Grant {
            name: name.to_owned(),
            digest: TokenDigest::of(token),
            databases: BTreeSet::from(["app".to_owned()]),
            operations: BTreeSet::from(["apply".to_owned()]),
            permits: Arc::new(Semaphore::new(1)),
        }
    }

    #[test]
    fn a_token_is_known_by_its_digest_and_by_nothing_less() {
        let other = TOKEN.replace('f', "0");
        let grants = [
            grant("one", TOKEN),
            grant("two", &other),
            grant("short", "x"),
        ];
        assert_eq!(granted(&grants, TOKEN).unwrap().1.name, "one");
        assert_eq!(granted(&grants, &other).unwrap().1.name, "two");
        assert!(granted(&grants, "x").is_none());
        assert!(granted(&grants, "").is_none());
        assert!(granted(&grants, TOKEN.trim_end_matches('f')).is_none());
    }

    #[test]
    fn a_grant_is_for_its_databases_and_operations_alone() {
        let grant = grant("one", TOKEN);
        assert!(grant.allows("app", "apply"));
        assert!(!grant.allows("other", "apply"));
        assert!(!grant.allows("app", "reveal"));
    }

    #[test]
    fn a_digest_has_64_hexadecimal_digits() {
        let good = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";
        assert!(digest(good) == Some(TokenDigest::of("")));
        for bad in [
            good.trim_end_matches('5'),
            &good.replace('E', "G"),
            &good.replace("E3", "+3"),
            "",
        ] {
            assert!(digest(bad).is_none(), "{bad}");
        }
    }
}
