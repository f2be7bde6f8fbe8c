//! One entry: actor, action, subjects, time, purpose, legal basis and outcome of an operation on
//! data.

use sha2::{Digest as _, Sha256};

use crate::error::EntryError;
use crate::limits::{
    ACTION_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SUBJECTS_MAX, TIME_MAX,
    TIME_MIN,
};
use crate::short::has_control;

/// Nanoseconds since 1970-01-01T00:00:00Z, within [`TIME_MIN`]..=[`TIME_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates the time `nanoseconds` after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`EntryError::TimeOutOfRange`] before 1970 or after 2199.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Result<Self, EntryError> {
        if nanoseconds < TIME_MIN || nanoseconds > TIME_MAX {
            return Err(EntryError::TimeOutOfRange);
        }
        Ok(Self(nanoseconds))
    }

    /// Returns the nanoseconds since 1970-01-01T00:00:00Z.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }
}

/// The outcome of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Outcome {
    /// The operation succeeded.
    #[default]
    Ok,
    /// The policy refused it.
    Denied,
    /// The operation was tried and failed.
    Failed,
    /// There was no data under that key.
    Absent,
}

impl Outcome {
    /// Every outcome, in the order of its code on disk.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Denied, Self::Failed, Self::Absent];

    /// Returns the word used in JSON, CSV and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Absent => "absent",
        }
    }

    /// Returns the code of the outcome on disk.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Denied => 1,
            Self::Failed => 2,
            Self::Absent => 3,
        }
    }

    /// Returns the outcome with this `code`, if any.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    /// Returns the outcome named `word`, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == word)
    }
}

/// The words for the four common actions; any other word is allowed too.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Action;

impl Action {
    /// Data was created.
    pub const CREATE: &'static str = "create";
    /// Data was read.
    pub const READ: &'static str = "read";
    /// Data was changed.
    pub const UPDATE: &'static str = "update";
    /// Data was deleted.
    pub const DELETE: &'static str = "delete";
}

/// The data subjects of an entry: none, one or several, separated by line feeds.
///
/// A subject is a non-empty text without control characters of at most [`NAME_BYTES_MAX`] bytes.
/// This type only splits the list; [`Entry::check`] checks the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Subjects<'a>(&'a str);

impl<'a> Subjects<'a> {
    /// No subject.
    pub const NONE: Self = Self("");

    /// Creates the list from `joined`, one subject per line, without a final line feed.
    pub const fn joined(joined: &'a str) -> Self {
        Self(joined)
    }

    /// Returns the list as given to [`Subjects::joined`].
    pub const fn as_joined(self) -> &'a str {
        self.0
    }

    /// Returns whether there is no subject.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the subjects in order.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        self.0.split('\n').filter(|_| !self.0.is_empty())
    }
}

/// A SHA-256 digest in an entry.
pub type Digest = [u8; 32];

/// Bytes of a [`Digest`].
pub const DIGEST_BYTES: usize = 32;

/// Returns the SHA-256 digest of a caller's idempotency key; the key itself is not recorded.
///
/// # Errors
/// When the key is empty or longer than [`NAME_BYTES_MAX`].
pub fn idempotency_digest(key: &str) -> Result<Digest, EntryError> {
    const FIELD: &str = "idempotency_key";
    if key.is_empty() {
        return Err(EntryError::Empty { field: FIELD });
    }
    check_length(FIELD, key.len(), NAME_BYTES_MAX)?;
    Ok(Sha256::digest(key.as_bytes()).into())
}

/// Bytes of the digest over a name that begin the digests of its series.
const SERIES_BYTES: usize = 24;

/// A series of idempotency keys: one for each number, under a name. Unlike
/// [`idempotency_digest`]'s, its digests show their number, and which ones are of one series; not the name.
///
/// `docs/format.md`, "Row".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySeries([u8; SERIES_BYTES]);

impl KeySeries {
    /// The series of the name `name`.
    ///
    /// # Errors
    /// As [`idempotency_digest`].
    pub fn new(name: &str) -> Result<Self, EntryError> {
        // Hashed twice: no key but the digest of a name has a digest that begins like these.
        let once = idempotency_digest(name)?;
        let twice: Digest = Sha256::digest(once).into();
        let mut series = [0; SERIES_BYTES];
        series.copy_from_slice(twice.split_at(SERIES_BYTES).0);
        Ok(Self(series))
    }

    /// The digest of the key with `number`.
    pub fn digest(&self, number: u64) -> Digest {
        let mut digest = [0; DIGEST_BYTES];
        let (series, rest) = digest.split_at_mut(SERIES_BYTES);
        series.copy_from_slice(&self.0);
        rest.copy_from_slice(&number.to_le_bytes());
        digest
    }

    /// The number of the key with `digest`; nothing for one of no key of this series.
    pub fn number(&self, digest: &Digest) -> Option<u64> {
        let number = digest.strip_prefix(&self.0)?;
        number.try_into().ok().map(u64::from_le_bytes)
    }
}

/// The fields that the log cannot confirm: it records what the caller states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers build it field by field; another flag is another version of the format"
)]
pub struct Claimed {
    /// `true` if the actor was not authenticated.
    pub actor: bool,
    /// `true` if the purpose was not decided by a policy.
    pub purpose: bool,
}

impl Claimed {
    /// No field is marked as only claimed. In version 2 this is not recorded.
    pub const NONE: Self = Self {
        actor: false,
        purpose: false,
    };

    /// Returns the code on disk: bit 1 actor, bit 2 purpose.
    pub const fn code(self) -> u8 {
        (if self.actor { 1 } else { 0 }) | (if self.purpose { 2 } else { 0 })
    }

    /// Returns the fields that `code` marks; `None` if it has unknown bits.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code > 3 {
            return None;
        }
        Some(Self {
            actor: code & 1 != 0,
            purpose: code & 2 != 0,
        })
    }

    /// Returns the names of the fields that are claimed.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let actor = self.actor.then_some("actor");
        actor.into_iter().chain(self.purpose.then_some("purpose"))
    }
}

/// One recorded event. Contents are personal data: the type has no `Debug`.
///
/// `key` is the location of the data in its store. `action` is one of [`Action`]'s words or
/// another. Empty names mean "not stated". The log overwrites `taken`, `submitter` and `claimed`
/// when it takes the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "callers build entries field by field"
)]
pub struct Entry<'a> {
    /// Time of the event, as the caller claims.
    pub time: Timestamp,
    /// The action; never empty.
    pub action: &'a str,
    /// Location of the data in its store; may be empty and may be binary.
    pub key: &'a [u8],
    /// The data subjects. An actor or submitter who is listed here is a data subject as well. In an
    /// erasable stream their name is erased with the subject; otherwise it stays.
    pub subjects: Subjects<'a>,
    /// The controller of the data (Art. 4(7) GDPR).
    pub controller: &'a str,
    /// The processor that acts for the controller (Art. 4(8) GDPR).
    pub processor: &'a str,
    /// The person or program that acted; [`Claimed::actor`] is set if only the caller states it.
    pub actor: &'a str,
    /// The purpose (Art. 5(1)(b) GDPR).
    pub purpose: &'a str,
    /// The legal basis (Art. 6 GDPR).
    pub basis: &'a str,
    /// The outcome of the operation.
    pub outcome: Outcome,
    /// Further data, text or binary.
    pub payload: &'a [u8],
    /// Time at which the log took the entry; the first nanosecond of 1970 counts as not stated.
    pub taken: Option<Timestamp>,
    /// The submitter that handed the entry to the log, as authenticated there.
    pub submitter: &'a str,
    /// The fields that only the caller states.
    pub claimed: Claimed,
    /// Digest of the caller's idempotency key, see [`idempotency_digest`].
    pub idempotency: Option<&'a Digest>,
    /// SHA-256 digest of the policy that decided.
    pub policy: Option<&'a Digest>,
    /// The deciding rule of that policy.
    pub rule: &'a str,
}

impl<'a> Entry<'a> {
    /// Creates an entry about `action` on `key` at `time`, with outcome ok and all other fields
    /// empty.
    pub const fn new(time: Timestamp, action: &'a str, key: &'a [u8]) -> Self {
        Self {
            time,
            action,
            key,
            subjects: Subjects::NONE,
            controller: "",
            processor: "",
            actor: "",
            purpose: "",
            basis: "",
            outcome: Outcome::Ok,
            payload: &[],
            taken: None,
            submitter: "",
            claimed: Claimed::NONE,
            idempotency: None,
            policy: None,
            rule: "",
        }
    }

    /// Checks every field against its limit.
    ///
    /// # Errors
    /// The first invalid field, in the order of the struct.
    #[inline]
    pub fn check(&self) -> Result<(), EntryError> {
        if self.action.is_empty() {
            return Err(EntryError::Empty { field: "action" });
        }
        check_name("action", self.action, ACTION_BYTES_MAX)?;
        check_length("key", self.key.len(), KEY_BYTES_MAX)?;
        self.check_subjects()?;
        check_name("controller", self.controller, NAME_BYTES_MAX)?;
        check_name("processor", self.processor, NAME_BYTES_MAX)?;
        check_name("actor", self.actor, NAME_BYTES_MAX)?;
        check_name("purpose", self.purpose, NAME_BYTES_MAX)?;
        check_name("basis", self.basis, NAME_BYTES_MAX)?;
        check_length("payload", self.payload.len(), PAYLOAD_BYTES_MAX)?;
        check_name("submitter", self.submitter, NAME_BYTES_MAX)?;
        check_name("rule", self.rule, NAME_BYTES_MAX)
    }

    #[inline]
    fn check_subjects(&self) -> Result<(), EntryError> {
        // Fast path: there is nearly always at most one name. A list holds line feeds, which are
        // control characters.
        let joined = self.subjects.as_joined();
        if joined.len() <= NAME_BYTES_MAX && !has_control(joined.as_bytes()) {
            return Ok(());
        }
        self.check_each_subject()
    }

    #[cold]
    fn check_each_subject(&self) -> Result<(), EntryError> {
        let mut count: usize = 0;
        for subject in self.subjects.iter() {
            if subject.is_empty() {
                return Err(EntryError::Empty { field: "subject" });
            }
            check_name("subject", subject, NAME_BYTES_MAX)?;
            count = count.saturating_add(1);
        }
        if count > SUBJECTS_MAX {
            return Err(EntryError::TooManySubjects { count });
        }
        Ok(())
    }
}

const fn check_length(
    field: &'static str,
    bytes: usize,
    bytes_max: usize,
) -> Result<(), EntryError> {
    if bytes > bytes_max {
        return Err(EntryError::TooLong {
            field,
            bytes,
            bytes_max,
        });
    }
    Ok(())
}

#[inline]
fn check_name(field: &'static str, name: &str, bytes_max: usize) -> Result<(), EntryError> {
    check_length(field, name.len(), bytes_max)?;
    if has_control(name.as_bytes()) {
        return Err(EntryError::ControlCharacter { field });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry<'static> {
        Entry::new(
            Timestamp::from_nanoseconds(1).unwrap(),
            Action::READ,
            b"user:7",
        )
    }

    #[test]
    fn one_name_is_a_list_of_one() {
        let mut names = Subjects::joined("alice").iter();
        assert_eq!(names.next(), Some("alice"));
        assert_eq!(names.next(), None);
        assert_eq!(Subjects::NONE.iter().count(), 0);
        assert_eq!(Subjects::joined("a\nb").iter().count(), 2);
    }

    #[test]
    fn each_rule_names_its_field() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let subjects = "s\n".repeat(SUBJECTS_MAX) + "s";
        let cases: [(Entry<'_>, &str); 8] = [
            (
                Entry {
                    action: "",
                    ..entry()
                },
                "field action is empty",
            ),
            (
                Entry {
                    actor: &long,
                    ..entry()
                },
                "field actor has 256 bytes, the limit is 255",
            ),
            (
                Entry {
                    purpose: "a\tb",
                    ..entry()
                },
                "field purpose holds a control character",
            ),
            (
                Entry {
                    subjects: Subjects::joined("a\n\nb"),
                    ..entry()
                },
                "field subject is empty",
            ),
            (
                Entry {
                    subjects: Subjects::joined(&subjects),
                    ..entry()
                },
                "65 subjects given, the limit is 64",
            ),
            (
                Entry {
                    subjects: Subjects::joined("a\u{7f}"),
                    ..entry()
                },
                "field subject holds a control character",
            ),
            (
                Entry {
                    submitter: &long,
                    ..entry()
                },
                "field submitter has 256 bytes, the limit is 255",
            ),
            (
                Entry {
                    rule: "a\u{1}",
                    ..entry()
                },
                "field rule holds a control character",
            ),
        ];
        for (entry, message) in cases {
            assert_eq!(std::format!("{}", entry.check().unwrap_err()), message);
        }
        assert_eq!(entry().check(), Ok(()));
    }

    #[test]
    fn an_idempotency_key_becomes_its_digest_within_its_bounds() {
        let series = KeySeries::new("abc").unwrap();
        assert_eq!(series.number(&series.digest(258)), Some(258));
        let other = KeySeries::new("ab").unwrap();
        assert_eq!(other.number(&series.digest(258)), None);
        let digest = idempotency_digest("abc").unwrap();
        assert_eq!(series.number(&digest), None);
        assert_eq!(digest[..4], [0xBA, 0x78, 0x16, 0xBF]);
        assert!(idempotency_digest("").is_err());
        assert!(idempotency_digest(&"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(idempotency_digest(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn claims_have_one_code_each() {
        for code in 0..4 {
            let claimed = Claimed::from_code(code).unwrap();
            assert_eq!(claimed.code(), code);
            assert_eq!(claimed.fields().count(), code.count_ones() as usize);
        }
        assert_eq!(Claimed::from_code(4), None);
    }

    #[test]
    fn times_outside_the_range_are_refused() {
        assert!(Timestamp::from_nanoseconds(-1).is_err());
        assert!(Timestamp::from_nanoseconds(TIME_MAX + 1).is_err());
        assert_eq!(
            Timestamp::from_nanoseconds(TIME_MAX).unwrap().nanoseconds(),
            TIME_MAX
        );
    }
}
