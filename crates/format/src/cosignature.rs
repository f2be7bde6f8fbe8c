//! Cosignatures (C2SP tlog-cosignature, `cosignature/v1`): a witness states at which time it saw a
//! checkpoint, consistent with all that it had seen before.

use alloc::format;
use alloc::string::String;

use crate::error::DecodeError;
use crate::note::{KeyText, PUBLIC_KEY_BYTES, Signature, SignedNote, VerifierKey, key_id};

/// Signature type of an Ed25519 cosignature with a time.
const TYPE_COSIGNATURE: u8 = 0x04;
/// Length of the timestamp in a cosignature, in bytes: seconds since 1970, big-endian as the
/// specification says.
const TIME_BYTES: usize = 8;
/// Largest time that a cosignature may state, in seconds since 1970.
const TIME_MAX: u64 = (1 << 63) - 1;

/// A witness's public key with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessKey {
    id: u32,
    /// The name and public key, as of a signer of notes.
    key: VerifierKey,
}

impl WitnessKey {
    /// Creates the key of the witness `name` from the Ed25519 key `key`.
    ///
    /// # Errors
    /// When `name` is no key name.
    pub fn new(name: &str, key: [u8; PUBLIC_KEY_BYTES]) -> Result<Self, DecodeError> {
        Ok(Self {
            id: key_id(name, TYPE_COSIGNATURE, &key),
            key: VerifierKey::new(name, key)?,
        })
    }

    /// Reads the key's text form: name, `+`, id as 8 hexadecimal digits, `+`, base64 of type and
    /// key.
    ///
    /// # Errors
    /// When `text` has another form or type than Ed25519 cosignatures, or its id is not that of the
    /// key.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let wrong_type = "is no key of a witness, which begins with the type 4";
        let text = KeyText::parse("witness key", text, TYPE_COSIGNATURE, wrong_type)?;
        let parsed = Self::new(text.name, text.key)?;
        text.check_id(parsed.id)?;
        Ok(parsed)
    }

    /// Returns the text form of the key.
    pub fn encode(&self) -> String {
        KeyText::encode(self.key.name(), self.id, TYPE_COSIGNATURE, self.key.key())
    }

    /// Returns the key id. It differs from the id of the same key as a signer of notes.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the witness's name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Returns the last time at which this witness cosigned the checkpoint in `note`, in seconds
    /// since 1970; `None` if no signature line is this witness's. The order of the lines does not
    /// matter: a witness may cosign one checkpoint again, and its answers are appended.
    ///
    /// # Errors
    /// When the signature or the time of any line with this witness's name and id is invalid.
    pub fn cosigned(&self, note: &SignedNote) -> Result<Option<u64>, DecodeError> {
        let mut newest = None;
        for line in note.signatures() {
            if line.id() == self.id && line.name() == self.name() {
                newest = newest.max(Some(self.time_of(line, note.text())?));
            }
        }
        Ok(newest)
    }

    /// Returns the time in the signature line `line` of this witness on `text`.
    fn time_of(&self, line: &Signature, text: &str) -> Result<u64, DecodeError> {
        let error = |reason| DecodeError::new("cosignature", 0, reason);
        let (time, signature) = line
            .bytes()
            .split_first_chunk::<TIME_BYTES>()
            .ok_or_else(|| error("is wrong"))?;
        let time = u64::from_be_bytes(*time);
        if time > TIME_MAX {
            return Err(error("has a time above 2^63 - 1 seconds"));
        }
        let message = format!("cosignature/v1\ntime {time}\n{text}");
        if self.key.verifies(message.as_bytes(), signature) {
            Ok(time)
        } else {
            Err(error("is wrong"))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::note::{Signer as _, SigningKey};

    const NAME: &str = "witness.example/w";

    fn witness() -> (SigningKey, WitnessKey) {
        let key = SigningKey::from_seed(NAME, &[5; 32]).unwrap();
        let witness = WitnessKey::new(NAME, *key.verifier_key().key());
        (key, witness.unwrap())
    }

    /// Returns the witness's line on `signed` at `time`.
    fn line(signed: &str, time: u64) -> String {
        let (key, witness) = witness();
        let message = format!("cosignature/v1\ntime {time}\n{signed}");
        let signature = key.sign(message.as_bytes()).unwrap();
        let blob: Vec<u8> = witness.id.to_be_bytes().into_iter().collect();
        let blob = [blob, time.to_be_bytes().to_vec(), signature].concat();
        format!("\u{2014} {NAME} {}\n", STANDARD.encode(blob))
    }

    fn note(text: &str, lines: &[String]) -> SignedNote {
        let note = format!("{text}\n{}", lines.concat());
        SignedNote::parse(note.as_bytes()).unwrap()
    }

    fn cosigned(text: &str, signed: &str, time: u64) -> SignedNote {
        note(text, &[line(signed, time)])
    }

    /// The first of several lines of a witness counted, so that an appended newer answer did not.
    #[test]
    fn of_several_cosignatures_of_one_witness_the_newest_counts() {
        let (_, witness) = witness();
        let text = "log\n1\nroot\n";
        for times in [[7, 77], [77, 7], [77, 77]] {
            let lines = times.map(|time| line(text, time));
            assert_eq!(
                witness.cosigned(&note(text, &lines)),
                Ok(Some(77)),
                "{times:?}"
            );
        }
        for signed in [["log\n2\nroot\n", text], [text, "log\n2\nroot\n"]] {
            let lines = signed.map(|signed| line(signed, 7));
            assert!(witness.cosigned(&note(text, &lines)).is_err(), "{signed:?}");
        }
        let last = (1 << 63) - 1;
        assert_eq!(
            witness.cosigned(&cosigned(text, text, last)),
            Ok(Some(last))
        );
        assert!(witness.cosigned(&cosigned(text, text, last + 1)).is_err());
    }

    #[test]
    fn a_cosignature_says_when_a_witness_saw_a_checkpoint_and_holds_for_no_other() {
        let (key, witness) = witness();
        let text = "log\n1\nroot\n";
        assert_eq!(witness.cosigned(&cosigned(text, text, 77)), Ok(Some(77)));
        assert!(
            witness
                .cosigned(&cosigned(text, "log\n2\nroot\n", 77))
                .is_err()
        );
        let mut plain = SignedNote::new(text.into()).unwrap();
        plain.sign(&key).unwrap();
        assert_eq!(witness.cosigned(&plain), Ok(None), "of another type");
    }

    #[test]
    fn a_witness_key_has_one_form_and_is_none_that_signs_notes() {
        let (key, witness) = witness();
        let text = witness.encode();
        assert_eq!(WitnessKey::parse(&text), Ok(witness));
        assert!(WitnessKey::parse(&key.verifier_key().encode()).is_err());
        assert!(VerifierKey::parse(&text).is_err());
        assert!(WitnessKey::parse(&text.replace(NAME, "witness.example/x")).is_err());
    }
}
