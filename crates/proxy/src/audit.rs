//! The way from a session's commands and replies to entries of the log: location, subjects, roles,
//! outcome, facts.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use probity_format::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, SUBJECTS_MAX};
use probity_format::{Claimed, Entry, Outcome, Subjects, Timestamp};
pub use probity_policy::put_name;
use probity_policy::{Policy, Roles, put_bounded_name};

/// Mark at the end of a key that is too long for an entry; behind it stands the key's digest in
/// hexadecimal.
const DIGEST_MARK: &str = "#sha256:";

/// The rule of a key that is recorded because its end is not known.
const SHORTENED: &str = "shortened";

/// A key as a command named it.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// All of it, or a prefix.
    pub kept: &'a [u8],
    /// The SHA-256 of all of it, where only a prefix was kept.
    pub digest: Option<[u8; 32]>,
}

impl Key<'_> {
    /// No key at all.
    pub const NONE: Self = Self {
        kept: b"",
        digest: None,
    };
}

/// An operation and its outcome.
#[derive(Debug, Clone, Copy)]
pub struct Deed<'a> {
    /// The action word.
    pub action: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The command's name, in lower case.
    pub command: &'a str,
    /// More facts for the payload, each a JSON member with a leading comma.
    pub facts: &'a str,
    /// One more of them, about this key alone.
    pub note: &'static str,
}

/// The actor of an operation.
#[derive(Debug, Clone, Default)]
pub struct Actor {
    /// The authenticated principal, else the name the client gave itself, else `default`.
    pub name: String,
    /// The user that the server accepted; empty where none logged in or nobody can say who has.
    pub submitter: String,
    /// Marks of claims: of the name, which may be the client's word alone, and of the roles that
    /// follow from such a name. An entry has one mark for purpose, controller, processor and basis,
    /// that of the purpose.
    pub claimed: Claimed,
    /// The roles that the policy gives.
    pub roles: Roles,
}

/// Bytes of entries that are made at once.
const BATCH_BYTES: usize = 512 << 10;
/// The most bytes that are compared with patterns at once: some milliseconds.
const WORK_MAX: usize = 4 << 20;

/// Entries not handed to the log yet, in order, in two reusable buffers.
#[derive(Debug)]
pub struct EntryBatch {
    policy: Arc<Policy>,
    time: Timestamp,
    texts: String,
    bytes: Vec<u8>,
    drafts: Vec<Draft>,
    subjects: Vec<Range<usize>>,
    /// The last rule, and the name that it has in entries.
    rule: (String, String),
    /// The work of the turn under way.
    work: usize,
}

#[derive(Debug, Clone)]
struct Draft {
    time: Timestamp,
    action: &'static str,
    outcome: Outcome,
    key: Range<usize>,
    payload: Range<usize>,
    claimed: Claimed,
    /// Subjects, controller, processor, actor, purpose, basis, submitter, rule.
    texts: [Range<usize>; 8],
}

impl EntryBatch {
    /// An empty batch.
    pub const fn new(policy: Arc<Policy>, time: Timestamp) -> Self {
        Self {
            policy,
            time,
            texts: String::new(),
            bytes: Vec::new(),
            drafts: Vec::new(),
            subjects: Vec::new(),
            rule: (String::new(), String::new()),
            work: 0,
        }
    }

    /// Sets the time of the entries that follow.
    pub const fn set_time(&mut self, time: Timestamp) {
        self.time = time;
    }

    /// The time of the entries that follow.
    pub const fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the number of waiting entries.
    pub const fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Bytes that the entries occupy here.
    pub const fn bytes(&self) -> usize {
        self.texts.len() + self.bytes.len() + self.drafts.len() * size_of::<Draft>()
    }

    /// Begins a turn, in which entries are made until [`Self::is_full`].
    pub(crate) const fn begin_turn(&mut self) {
        self.work = 0;
    }

    /// Returns whether the turn is to end: the entries are as many as are made at once, or the keys,
    /// of which not every one becomes an entry, were as much work as others wait for.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes() > BATCH_BYTES || self.work > WORK_MAX
    }

    /// Returns whether no entry waits.
    pub const fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.bytes.clear();
        self.drafts.clear();
        if self.bytes.capacity() > 1 << 20 {
            self.bytes.shrink_to(1 << 16);
        }
    }

    /// Forgets the first `count` entries, which the log has taken.
    pub fn drop_first(&mut self, count: usize) {
        if count >= self.drafts.len() {
            self.clear();
        } else {
            self.drafts.drain(..count);
        }
    }

    /// The entries in order.
    pub fn entries(&self) -> Vec<Entry<'_>> {
        self.drafts.iter().map(|draft| self.entry(draft)).collect()
    }

    /// Records a deed on a key, unless the policy says that the key is not personal. A key of which only
    /// a prefix was kept is recorded in any case: the policy cannot be asked about its end.
    pub fn record_key(&mut self, key: Key<'_>, db: u64, actor: &Actor, deed: Deed<'_>) {
        let policy = Arc::clone(&self.policy);
        self.work = self.work.saturating_add(policy.work_of(key.kept.len()));
        let class = policy.classify(key.kept, &mut self.subjects);
        if !class.personal && key.digest.is_none() {
            return;
        }
        let subjects = self.put_subjects(key);
        let roles = [
            (&actor.roles.controller, class.controller),
            (&actor.roles.processor, class.processor),
            (&actor.roles.purpose, class.purpose),
            (&actor.roles.basis, class.basis),
        ];
        let [controller, processor, purpose, basis] =
            roles.map(|(own, default)| self.put_text(if own.is_empty() { default } else { own }));
        let name = self.put_text(&actor.name);
        let submitter = self.put_text(&actor.submitter);
        let rule = self.put_rule(if key.digest.is_some() {
            SHORTENED
        } else {
            class.rule
        });
        let (location, shortened) = self.put_location(key, db);
        let payload = self.put_payload(db, shortened, deed);
        self.drafts.push(Draft {
            time: self.time,
            action: deed.action,
            outcome: deed.outcome,
            key: location,
            payload,
            claimed: actor.claimed,
            texts: [
                subjects, controller, processor, name, purpose, basis, submitter, rule,
            ],
        });
    }

    /// Records a deed that concerns no single key; `place` names its object and may be empty.
    pub fn record_place(&mut self, place: Key<'_>, db: u64, actor: &Actor, deed: Deed<'_>) {
        let roles = &actor.roles;
        let texts = [
            "",
            &roles.controller,
            &roles.processor,
            &actor.name,
            &roles.purpose,
            &roles.basis,
            &actor.submitter,
            // No rule of the policy decides about a deed without a key.
            "",
        ]
        .map(|text| self.put_text(text));
        let (place, shortened) = self.put_location(place, 0);
        let payload = self.put_payload(db, shortened, deed);
        let (action, outcome) = (deed.action, deed.outcome);
        self.drafts.push(Draft {
            time: self.time,
            action,
            outcome,
            key: place,
            payload,
            claimed: actor.claimed,
            texts,
        });
    }

    /// Records that the server said what fits nothing that it was asked, and that the connection ended. `doubt` is a member of the
    /// payload, or nothing.
    pub fn record_mismatch(&mut self, actor: &Actor, found: &'static str, doubt: &'static str) {
        let facts = format!(",\"found\":\"{found}\"{doubt}");
        let deed = Deed {
            action: "mismatch",
            outcome: Outcome::Failed,
            command: "",
            facts: &facts,
            note: "",
        };
        self.record_place(Key::NONE, 0, actor, deed);
    }

    fn entry(&self, draft: &Draft) -> Entry<'_> {
        let text = |range: &Range<usize>| there(self.texts.get(range.clone()));
        let bytes = |range: &Range<usize>| there(self.bytes.get(range.clone()));
        let [
            subjects,
            controller,
            processor,
            actor,
            purpose,
            basis,
            submitter,
            rule,
        ] = &draft.texts;
        Entry {
            subjects: Subjects::joined(text(subjects)),
            controller: text(controller),
            processor: text(processor),
            actor: text(actor),
            purpose: text(purpose),
            basis: text(basis),
            outcome: draft.outcome,
            payload: bytes(&draft.payload),
            submitter: text(submitter),
            claimed: draft.claimed,
            policy: Some(self.policy.digest()),
            rule: text(rule),
            ..Entry::new(draft.time, draft.action, bytes(&draft.key))
        }
    }

    fn put_text(&mut self, text: &str) -> Range<usize> {
        let start = self.texts.len();
        self.texts.push_str(text);
        start..self.texts.len()
    }

    /// Puts the rule that decided. Most keys have that of the key before.
    fn put_rule(&mut self, rule: &str) -> Range<usize> {
        if self.rule.0 != rule {
            self.rule.1.clear();
            put_name(&mut self.rule.1, rule.as_bytes());
            rule.clone_into(&mut self.rule.0);
        }
        let start = self.texts.len();
        self.texts.push_str(&self.rule.1);
        start..self.texts.len()
    }

    /// Puts each subject. One that reaches the end of what was kept of a key is not whole: the key's digest
    /// stands for it, so that no two of them are taken for one.
    fn put_subjects(&mut self, key: Key<'_>) -> Range<usize> {
        let start = self.texts.len();
        for range in self.subjects.iter().take(SUBJECTS_MAX) {
            if self.texts.len() > start {
                self.texts.push('\n');
            }
            match key.digest {
                Some(digest) if range.end >= key.kept.len() => {
                    self.texts.push_str("key#sha256:");
                    self.texts.push_str(&hex(&digest));
                }
                _ => put_name(&mut self.texts, there(key.kept.get(range.clone()))),
            }
        }
        start..self.texts.len()
    }

    /// Puts the key as it is; before it `dbN/` where N is not 0; in place of a long end its digest, and then
    /// says so: a key may have a name that looks the same.
    fn put_location(&mut self, key: Key<'_>, db: u64) -> (Range<usize>, bool) {
        let start = self.bytes.len();
        if db != 0 {
            self.bytes.extend_from_slice(format!("db{db}/").as_bytes());
        }
        let room = KEY_BYTES_MAX - (self.bytes.len() - start);
        let digest = match key.digest {
            None if key.kept.len() <= room => {
                self.bytes.extend_from_slice(key.kept);
                return (start..self.bytes.len(), false);
            }
            None => sha256(key.kept),
            Some(digest) => digest,
        };
        let prefix = key.kept.len().min(LONG_KEY_PREFIX_BYTES);
        self.bytes
            .extend_from_slice(key.kept.get(..prefix).unwrap_or_default());
        self.bytes.extend_from_slice(DIGEST_MARK.as_bytes());
        self.bytes.extend_from_slice(hex(&digest).as_bytes());
        (start..self.bytes.len(), true)
    }

    fn put_payload(&mut self, db: u64, shortened: bool, deed: Deed<'_>) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"{\"command\":\"");
        // Names in the table are plain words; a foreign server's could hold anything.
        self.bytes.extend(
            deed.command
                .bytes()
                .filter(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\')),
        );
        self.bytes.push(b'"');
        if db != 0 {
            self.bytes
                .extend_from_slice(format!(",\"db\":{db}").as_bytes());
        }
        if shortened {
            self.bytes.extend_from_slice(b",\"shortened\":true");
        }
        self.bytes.extend_from_slice(deed.facts.as_bytes());
        self.bytes.extend_from_slice(deed.note.as_bytes());
        self.bytes.push(b'}');
        start..self.bytes.len()
    }
}

/// The part that an entry is made of. Without it the entry would be wrong evidence, and its client ends instead.
fn there<T: Default>(part: Option<T>) -> T {
    assert!(part.is_some(), "a part of an entry is where it was put");
    part.unwrap_or_default()
}

/// Bytes that are kept of a key that is recorded by its digest.
const LONG_KEY_PREFIX_BYTES: usize = 1024;

/// Writes bytes as a JSON string that is no longer than a name; a longer text becomes its digest.
pub(crate) fn put_json(out: &mut String, bytes: &[u8]) {
    put_json_text(out, bytes, NAME_BYTES_MAX);
}

/// Writes bytes likewise with another bound, in bytes as they are spelled.
pub(crate) fn put_json_text(out: &mut String, bytes: &[u8], bytes_max: usize) {
    let mut name = String::new();
    put_bounded_name(&mut name, bytes, bytes_max);
    out.push('"');
    for character in name.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> EntryBatch {
        let time = Timestamp::from_nanoseconds(1).unwrap();
        EntryBatch::new(Arc::new(Policy::builtin()), time)
    }

    fn deed() -> Deed<'static> {
        Deed {
            action: "read",
            outcome: Outcome::Ok,
            command: "get",
            facts: "",
            note: "",
        }
    }

    #[test]
    fn every_entry_the_batch_makes_is_one_the_log_takes() {
        let mut batch = batch();
        let long = vec![b'k'; 70_000];
        let user_long = [b"user:", &long[..300], b":x"].concat();
        for key in [&b""[..], b"user:\xFF\n%:x", &long, &user_long, b"user:7"] {
            for db in [0, 15] {
                batch.record_key(
                    Key {
                        kept: key,
                        digest: None,
                    },
                    db,
                    &Actor::default(),
                    deed(),
                );
            }
        }
        let entries = batch.entries();
        assert_eq!(entries.len(), 10);
        for entry in &entries {
            entry.check().unwrap();
        }
        assert_eq!(entries[2].subjects.as_joined(), "%FF%0A%25");
        assert!(entries[4].key.len() == 1024 + 8 + 64 && entries[5].key.starts_with(b"db15/kkk"));
        assert!(entries[6].subjects.as_joined().starts_with("sha256:"));
        assert_eq!(entries[8].payload, b"{\"command\":\"get\"}");
        assert_eq!(entries[9].payload, b"{\"command\":\"get\",\"db\":15}");
    }

    /// A policy that names the ends of keys did not see the end of a key of 70,000 bytes, which then left
    /// no entry (proxy 23). What cannot be classified is personal.
    #[test]
    fn a_key_too_long_to_be_classified_is_recorded() {
        let policy = "version = 1\n[defaults]\npersonal = false\n[[key]]\npattern = '*:email'";
        let policy = Arc::new(Policy::parse(policy).unwrap());
        let mut batch = EntryBatch::new(policy, Timestamp::from_nanoseconds(1).unwrap());
        let kept = [b'x'; 1024];
        for digest in [None, Some([7; 32])] {
            let key = Key {
                kept: &kept,
                digest,
            };
            batch.record_key(key, 0, &Actor::default(), deed());
            assert_eq!(batch.len(), usize::from(digest.is_some()));
        }
    }

    #[test]
    fn keys_that_are_not_personal_leave_no_entry() {
        let policy =
            Policy::parse("version = 1\n[[key]]\npattern = 'cache:*'\npersonal = false").unwrap();
        let mut batch = EntryBatch::new(Arc::new(policy), Timestamp::from_nanoseconds(1).unwrap());
        batch.record_key(
            Key {
                kept: b"cache:1",
                digest: None,
            },
            0,
            &Actor::default(),
            deed(),
        );
        assert!(batch.is_empty());
        batch.record_key(
            Key {
                kept: b"x",
                digest: None,
            },
            0,
            &Actor::default(),
            deed(),
        );
        assert_eq!(batch.len(), 1);
    }
}
