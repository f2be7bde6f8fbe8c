//! Receipts for forgotten records: signed notes (C2SP signed-note 1.0.0) that anybody can check.

use probity_format::Timestamp;
use probity_format::note::{NoteError, SignedNote, Signer, VerifierKey};
use sha2::{Digest as _, Sha256};

use crate::crypto::random;
use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::commitment::{HASH_BYTES, NONCE_BYTES, hashed};
use crate::records::name::{digits, undigits};

/// The first line of a receipt, so that no other note passes for one.
const TITLE: &str = "probity erasure receipt v1";
/// The label of the person of a receipt.
const LABEL: &[u8] = b"probity erasure receipt\0";

/// A receipt that records and their keys were destroyed, of one disguise or of all that a person
/// had. It names the person by a hash with a nonce of its own, which says nothing without the
/// person's id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// When.
    pub time: Timestamp,
    /// The disguise; everything of the person when absent.
    pub disguise: Option<DisguiseId>,
    /// The number of sealed bags of records that were destroyed.
    pub bags: u64,
    nonce: [u8; NONCE_BYTES],
    person: [u8; HASH_BYTES],
}

/// The reason why a receipt proves nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// Its form is not the one of a signed note, or none of the keys has signed it, or wrongly.
    #[error("the receipt is not validly signed")]
    Note(#[source] NoteError),
    /// The note is about something else, or does not have the form of a receipt.
    #[error("the note is no receipt: its line {line} {what}")]
    Content {
        /// The line, counting from 1.
        line: usize,
        /// The fault, in one clause.
        what: &'static str,
    },
}

impl Receipt {
    pub(crate) fn new(
        time: Timestamp,
        disguise: Option<DisguiseId>,
        bags: usize,
        (tenant, user): (Option<&Value>, &Value),
    ) -> Result<Self, Error> {
        let nonce = random()?;
        Ok(Self {
            time,
            disguise,
            bags: u64::try_from(bags).unwrap_or(u64::MAX),
            nonce,
            person: hashed(LABEL, &nonce, tenant, user),
        })
    }

    /// Returns whether it concerns the person with this id, of `tenant` if the database has
    /// tenants.
    pub fn is_about(&self, tenant: Option<&Value>, user: &Value) -> bool {
        hashed(LABEL, &self.nonce, tenant, user) == self.person
    }

    /// Returns the text that is signed.
    pub fn text(&self) -> String {
        let what = self
            .disguise
            .map_or_else(|| "everything".to_owned(), |id| id.to_string());
        format!(
            "{TITLE}\ntime {}\nforgotten {what}\nbags {}\nnonce {}\nperson {}\n",
            self.time.nanoseconds(),
            self.bags,
            digits(&self.nonce),
            digits(&self.person),
        )
    }

    /// Returns the digest that the log has of the text: SHA-256 in hexadecimal digits.
    pub fn digest(&self) -> String {
        digits(&Sha256::digest(self.text()))
    }

    /// Returns the receipt as a signed note.
    ///
    /// # Errors
    /// Those of [`SignedNote::sign`].
    pub fn signed(&self, signer: &dyn Signer) -> Result<String, NoteError> {
        let mut note = SignedNote::new(self.text())?;
        note.sign(signer)?;
        Ok(note.encode())
    }

    /// Returns the receipt in `bytes`, if one of `keys` has signed it.
    ///
    /// # Errors
    /// [`ReceiptError`].
    pub fn verified(bytes: &[u8], keys: &[VerifierKey]) -> Result<Self, ReceiptError> {
        let note = SignedNote::parse(bytes).map_err(|error| ReceiptError::Note(error.into()))?;
        note.verify(keys).map_err(ReceiptError::Note)?;
        Self::parse(note.text())
    }

    fn parse(text: &str) -> Result<Self, ReceiptError> {
        let mut lines = text.lines().enumerate();
        let mut next = |name: &'static str| {
            let (index, line) = lines.next().unwrap_or_default();
            let value = match name {
                "" => Some(line),
                _ => line
                    .strip_prefix(name)
                    .and_then(|line| line.strip_prefix(' ')),
            };
            let line = index.saturating_add(1);
            let wrong = move |what| ReceiptError::Content { line, what };
            value
                .map(|value| (value, wrong))
                .ok_or_else(|| wrong("is not the one expected there"))
        };
        let (title, wrong) = next("")?;
        if title != TITLE {
            return Err(wrong("is not the title of receipts"));
        }
        let (time, wrong) = next("time")?;
        let time = time.parse().ok().map(Timestamp::from_nanoseconds);
        let time = time
            .and_then(Result::ok)
            .ok_or_else(|| wrong("has no time"))?;
        let (what, wrong) = next("forgotten")?;
        let disguise = match what {
            "everything" => None,
            id => Some(
                id.parse()
                    .map_err(|_form: Error| wrong("names no disguise"))?,
            ),
        };
        let (bags, wrong) = next("bags")?;
        let bags = bags
            .parse()
            .map_err(|_form: std::num::ParseIntError| wrong("has no number"))?;
        let (nonce, wrong) = next("nonce")?;
        let nonce = undigits(nonce).ok_or_else(|| wrong("has not 16 bytes"))?;
        let (person, wrong) = next("person")?;
        let person = undigits(person).ok_or_else(|| wrong("has not 32 bytes"))?;
        let read = Self {
            time,
            disguise,
            bags,
            nonce,
            person,
        };
        // There is one way to write a receipt.
        if read.text() != text {
            return Err(wrong("is followed or written otherwise"));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use probity_format::note::SigningKey;

    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed("example.com/receipts", &[seed; 32]).unwrap()
    }

    fn receipt(disguise: Option<DisguiseId>) -> Receipt {
        let time = Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap();
        Receipt::new(time, disguise, 3, (None, &Value::Int(19))).unwrap()
    }

    #[test]
    fn a_receipt_comes_back_and_is_about_one_person() {
        for disguise in [None, Some(DisguiseId(7))] {
            let made = receipt(disguise);
            let note = made.signed(&key(1)).unwrap();
            let keys = [key(1).verifier_key().clone()];
            let read = Receipt::verified(note.as_bytes(), &keys).unwrap();
            assert_eq!(read, made);
            assert!(read.is_about(None, &Value::from("19")));
            assert!(!read.is_about(None, &Value::Int(20)));
            // Random digits may end like it.
            assert!(!note.contains(" 19\n"), "{note}");
        }
    }

    #[test]
    fn whoever_changes_a_byte_or_signs_with_another_key_proves_nothing() {
        let note = receipt(None).signed(&key(1)).unwrap();
        let keys = [key(1).verifier_key().clone()];
        for at in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(Receipt::verified(&bytes, &keys).is_err(), "{at}");
        }
        let other = receipt(None).signed(&key(2)).unwrap();
        assert!(Receipt::verified(other.as_bytes(), &keys).is_err());
    }

    #[test]
    fn another_note_of_the_same_key_is_no_receipt() {
        let keys = [key(1).verifier_key().clone()];
        let good = receipt(None).text();
        for text in [
            "something else\n".to_owned(),
            good.replace("v1", "v2"),
            good.replace("bags 3", "bags 03"),
            good.replace("time ", "time x"),
            good.replace("everything", "nothing"),
            format!("{good}more\n"),
            good.split_once("nonce").unwrap().0.to_owned(),
        ] {
            let mut note = SignedNote::new(text.clone()).unwrap();
            note.sign(&key(1)).unwrap();
            let outcome = Receipt::verified(note.encode().as_bytes(), &keys);
            assert!(
                matches!(outcome, Err(ReceiptError::Content { .. })),
                "{text}: {outcome:?}"
            );
        }
    }
}
