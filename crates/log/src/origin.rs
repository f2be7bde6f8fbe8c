//! The origin of entries: the fields that the log itself sets in each one it takes.

use probity_format::limits::NAME_BYTES_MAX;
use probity_format::{Claimed, Entry, EntryError, Timestamp};

/// The submitter of an appender, and the fields that are only claimed.
#[derive(Debug)]
pub(crate) struct Origin {
    submitter: String,
    claimed: Claimed,
}

impl Default for Origin {
    /// The origin without an authenticated submitter: actor and purpose are only claimed.
    fn default() -> Self {
        Self {
            submitter: String::new(),
            claimed: Claimed {
                actor: true,
                purpose: true,
            },
        }
    }
}

impl Origin {
    pub(crate) fn set_submitter(&mut self, submitter: &str) -> Result<(), EntryError> {
        let field = "submitter";
        if submitter.len() > NAME_BYTES_MAX {
            return Err(EntryError::TooLong {
                field,
                bytes: submitter.len(),
                bytes_max: NAME_BYTES_MAX,
            });
        }
        if submitter.chars().any(char::is_control) {
            return Err(EntryError::ControlCharacter { field });
        }
        submitter.clone_into(&mut self.submitter);
        Ok(())
    }

    pub(crate) const fn set_claimed(&mut self, claimed: Claimed) {
        self.claimed = claimed;
    }

    /// Returns `entry` with `time` as the log records it: fields that callers may not set are
    /// replaced.
    ///
    /// An empty field claims nothing. An actor who is the authenticated submitter is more than
    /// claimed.
    #[inline]
    pub(crate) fn stamp<'a>(
        &'a self,
        entry: &Entry<'a>,
        time: Timestamp,
        taken: Timestamp,
    ) -> Entry<'a> {
        let actor = self.claimed.actor
            && !entry.actor.is_empty()
            && (self.submitter.is_empty() || entry.actor != self.submitter);
        Entry {
            time,
            taken: Some(taken),
            submitter: &self.submitter,
            claimed: Claimed {
                actor,
                purpose: self.claimed.purpose && !entry.purpose.is_empty(),
            },
            ..*entry
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(nanoseconds: i64) -> Timestamp {
        Timestamp::from_nanoseconds(nanoseconds).unwrap()
    }

    /// The caller sets neither time taken nor submitter nor the claimed flags.
    #[test]
    fn what_the_log_says_replaces_what_a_caller_says() {
        let mut origin = Origin::default();
        origin.set_submitter("gateway").unwrap();
        let forged = Entry {
            actor: "alice",
            purpose: "billing",
            taken: Some(time(1)),
            submitter: "root",
            claimed: Claimed::NONE,
            rule: "kept",
            ..Entry::new(time(5), "read", b"k")
        };
        let stamped = origin.stamp(&forged, forged.time, time(9));
        assert!(stamped.taken == Some(time(9)) && stamped.time == time(5));
        assert_eq!((stamped.submitter, stamped.rule), ("gateway", "kept"));
        assert!(stamped.claimed.actor && stamped.claimed.purpose);
    }

    #[test]
    fn an_actor_who_is_the_submitter_or_is_answered_for_is_not_claimed() {
        let mut origin = Origin::default();
        let entry = Entry {
            actor: "alice",
            ..Entry::new(time(5), "read", b"k")
        };
        let claimed = |origin: &Origin, entry: &Entry<'_>| {
            let stamped = origin.stamp(entry, entry.time, time(9));
            stamped.claimed.fields().collect::<Vec<_>>()
        };
        assert_eq!(claimed(&origin, &entry), ["actor"]);
        let nobody = Entry::new(time(5), "read", b"k");
        assert_eq!(claimed(&origin, &nobody), [""; 0]);
        origin.set_submitter("alice").unwrap();
        assert_eq!(claimed(&origin, &entry), [""; 0]);
        origin.set_submitter("bob").unwrap();
        assert_eq!(claimed(&origin, &entry), ["actor"]);
        origin.set_claimed(Claimed::NONE);
        assert_eq!(claimed(&origin, &entry), [""; 0]);
    }

    #[test]
    fn a_submitter_keeps_the_limits_of_a_name() {
        let mut origin = Origin::default();
        assert!(origin.set_submitter("a\nb").is_err());
        assert!(
            origin
                .set_submitter(&"x".repeat(NAME_BYTES_MAX + 1))
                .is_err()
        );
        assert_eq!(
            origin
                .stamp(&Entry::new(time(5), "read", b""), time(5), time(9))
                .submitter,
            ""
        );
    }
}
