//! Repeated requests: the header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), and
//! the requests that are being worked on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::problem::{Kind, Problem};
use crate::token::Grant;

/// The header, in lower case as it is looked up.
pub(crate) const HEADER: &str = "idempotency-key";
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Names of requests that are being worked on.
type Names = Mutex<BTreeSet<[u8; 32]>>;

/// The identity of a request, which a repetition shares.
pub(crate) struct Repeat {
    /// A value that only bearers of the token can know, and that the database does not hold.
    pub(crate) caller: [u8; 32],
    pub(crate) key: String,
    /// The operation and its body.
    pub(crate) request: Zeroizing<Vec<u8>>,
}

/// The requests of a database that are being worked on.
#[derive(Default)]
pub(crate) struct Running(Arc<Names>);

/// A request that is being worked on, until this ends.
pub(crate) struct Begun {
    name: [u8; 32],
    running: Arc<Names>,
}

impl Repeat {
    pub(crate) fn new(grant: &Grant, key: String, operation: &str, body: &[u8]) -> Self {
        Self {
            caller: grant.digest.bytes(),
            key,
            request: Zeroizing::new([operation.as_bytes(), b"\0", body].concat()),
        }
    }
}

impl Running {
    /// Begins a request, unless the same is being worked on.
    pub(crate) fn begin(&self, repeat: &Repeat) -> Result<Begun, Problem> {
        let mut hash = Sha256::new();
        hash.update(repeat.caller);
        hash.update(&repeat.key);
        let name = hash.finalize().into();
        if !names(&self.0).insert(name) {
            let detail = "a request with this Idempotency-Key has no answer yet";
            return Err(Problem::new(Kind::StillRunning, detail));
        }
        let running = Arc::clone(&self.0);
        Ok(Begun { name, running })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        names(&self.running).remove(&self.name);
    }
}

fn names(running: &Names) -> MutexGuard<'_, BTreeSet<[u8; 32]>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the key of a request, if it has one: a string of RFC 9651 in quotation marks.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut said = headers.get_all(HEADER).iter();
    let Some(first) = said.next() else {
        return Ok(None);
    };
    let text = first.to_str().ok().filter(|_text| said.next().is_none());
    let key = text.and_then(|text| string(text.trim_matches(' ')));
    let fits = |key: &String| (1..=KEY_BYTES_MAX).contains(&key.len());
    key.filter(fits).map(Some).ok_or_else(|| {
        let detail = format!(
            "the header Idempotency-Key is not one string of 1 to {KEY_BYTES_MAX} characters in quotation marks"
        );
        Problem::new(Kind::BadRequest, detail)
    })
}

fn string(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::with_capacity(inner.len());
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        let letter = match letter {
            '\\' => letters.next().filter(|next| matches!(next, '"' | '\\'))?,
            ' '..='~' if letter != '"' => letter,
            _ => return None,
        };
        out.push(letter);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_string_in_quotation_marks_and_nothing_else() {
        assert_eq!(string("\"8e03-978e\"").unwrap(), "8e03-978e");
        assert_eq!(string(r#""a\"b\\c d""#).unwrap(), "a\"b\\c d");
        for bad in [
            "", "a", "\"", "\"a", "a\"", "\"a\"b\"", r#""a\""#, r#""\a""#, "\"\t\"",
        ] {
            assert!(string(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_key_has_1_to_255_characters_and_there_is_one() {
        let with = |keys: &[&str]| {
            let mut headers = HeaderMap::new();
            for key in keys {
                headers.append(HEADER, key.parse().unwrap());
            }
            key(&headers).map_err(|problem| problem.kind)
        };
        assert_eq!(with(&[]), Ok(None));
        assert_eq!(with(&["\"a\""]), Ok(Some("a".to_owned())));
        let long = |count: usize| format!("\"{}\"", "k".repeat(count));
        assert!(with(&[&long(KEY_BYTES_MAX)]).is_ok());
        for bad in [
            &["\"\""][..],
            &[&long(KEY_BYTES_MAX + 1)],
            &["\"a\"", "\"a\""],
        ] {
            assert_eq!(with(bad), Err(Kind::BadRequest), "{bad:?}");
        }
    }
}
