//! Parsing of one line of JSON into an entry: every field is checked, every fault located.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_format::entry::idempotency_digest;
use probity_format::limits::SUBJECTS_MAX;
use probity_format::time::parse_time;
use probity_format::{Digest, Entry, EntryError, Outcome, Subjects, Timestamp};
use serde::Deserializer as _;
use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::{LineError, ParsedEntry};

/// The fields that only a log sets, for an entry that it took.
const SET_BY_LOG: [&str; 13] = [
    "stream",
    "index",
    "taken",
    "submitter",
    "claimed",
    "policy",
    "rule",
    "subjects_erased",
    "actor_erased",
    "submitter_erased",
    "subjects_missing",
    "actor_missing",
    "submitter_missing",
];
const REMEDY_SYNTAX: &str = "write one complete JSON object on each line";
const REMEDY_FIELD: &str = "fields are time, action, key or key_base64, subject, controller, \
                            processor, actor, purpose, basis, outcome, payload or payload_base64, \
                            idempotency_key";
/// The remedy for a field that only a line of an export has.
pub(crate) const REMEDY_SET_BY_LOG: &str = "leave the field out; lines of an export go into another log with --exported, \
                                 which leaves out what the first log said of them";
const REMEDY_DIGEST: &str = "give the key itself as idempotency_key; only lines of an export (--exported) have its \
                             SHA-256 digest, 64 hexadecimal digits, as idempotency";
const REMEDY_TIME: &str = "write times like 2026-01-31T12:00:00Z, from 1970 to 2199";
const REMEDY_TEXT: &str = "write the value as a JSON string";
const REMEDY_SUBJECT: &str = "write one subject as a string or several as a list of strings";
const REMEDY_OUTCOME: &str = "use ok, denied, failed or absent";
const REMEDY_BASE64: &str = "use the standard base64 alphabet with padding";
const REMEDY_LONG: &str = "shorten the value, or keep it elsewhere and record where";
const REMEDY_CONTROL: &str = "take tabs, line ends and other control characters out of names";
const REMEDY_EMPTY: &str = "say what was done in action, and leave out subjects that are empty";
const REMEDY_ONCE: &str = "give each field once, and keys and payloads in one form only";
const REMEDY_UTF8: &str = "write text as UTF-8, and bytes in key_base64 and payload_base64";
const FIELD_NAME_CHARS_MAX: usize = 64;

/// Reads one line, without its line end, as an entry.
///
/// # Errors
/// The first fault, with its column, field and remedy.
pub fn parse_line(line: &[u8]) -> Result<ParsedEntry, LineError> {
    parse(line, Draft::default())
}

/// Reads one line of an export, without what its log said of the entry.
///
/// # Errors
/// The errors of [`parse_line`].
pub fn parse_exported_line(line: &[u8]) -> Result<ParsedEntry, LineError> {
    let draft = Draft {
        exported: true,
        ..Draft::default()
    };
    parse(line, draft)
}

fn parse(line: &[u8], mut draft: Draft) -> Result<ParsedEntry, LineError> {
    let text = str::from_utf8(line).map_err(|error| LineError {
        column: error.valid_up_to().saturating_add(1),
        field: None,
        reason: "the text is not valid UTF-8".to_owned(),
        remedy: REMEDY_UTF8,
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json
        .deserialize_map(ObjectVisitor(&mut draft))
        .and_then(|()| json.end());
    match read {
        Ok(()) => draft.finish(text.len()),
        Err(error) => Err(draft.explain(&error)),
    }
}

/// The fields of an entry, by the names they have in JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Time,
    Action,
    Key,
    KeyBase64,
    Subject,
    Controller,
    Processor,
    Actor,
    Purpose,
    Basis,
    Outcome,
    Payload,
    PayloadBase64,
    IdempotencyKey,
    Idempotency,
}

impl Field {
    const ALL: [Self; 15] = [
        Self::Time,
        Self::Action,
        Self::Key,
        Self::KeyBase64,
        Self::Subject,
        Self::Controller,
        Self::Processor,
        Self::Actor,
        Self::Purpose,
        Self::Basis,
        Self::Outcome,
        Self::Payload,
        Self::PayloadBase64,
        Self::IdempotencyKey,
        Self::Idempotency,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Action => "action",
            Self::Key => "key",
            Self::KeyBase64 => "key_base64",
            Self::Subject => "subject",
            Self::Controller => "controller",
            Self::Processor => "processor",
            Self::Actor => "actor",
            Self::Purpose => "purpose",
            Self::Basis => "basis",
            Self::Outcome => "outcome",
            Self::Payload => "payload",
            Self::PayloadBase64 => "payload_base64",
            Self::IdempotencyKey => "idempotency_key",
            Self::Idempotency => "idempotency",
        }
    }

    /// Returns the other form of the same value, if the field has one.
    const fn other_form(self) -> Option<Self> {
        match self {
            Self::Key => Some(Self::KeyBase64),
            Self::KeyBase64 => Some(Self::Key),
            Self::Payload => Some(Self::PayloadBase64),
            Self::PayloadBase64 => Some(Self::Payload),
            Self::IdempotencyKey => Some(Self::Idempotency),
            Self::Idempotency => Some(Self::IdempotencyKey),
            _ => None,
        }
    }

    const fn type_fault(self) -> Fault {
        match self {
            Self::Subject => {
                Fault::new("is neither a string nor a list of strings", REMEDY_SUBJECT)
            }
            _ => Fault::new("is not a string", REMEDY_TEXT),
        }
    }
}

/// The reason why a value is refused.
struct Fault {
    reason: FaultReason,
    remedy: &'static str,
}

enum FaultReason {
    Fixed(&'static str),
    Rule(EntryError),
    Unknown,
    OtherForm(Field),
}

impl Fault {
    const fn new(reason: &'static str, remedy: &'static str) -> Self {
        Self {
            reason: FaultReason::Fixed(reason),
            remedy,
        }
    }

    fn text(&self) -> String {
        match &self.reason {
            FaultReason::Fixed(text) => (*text).to_owned(),
            FaultReason::Rule(error) => rule_text(*error),
            FaultReason::Unknown => "is unknown".to_owned(),
            FaultReason::OtherForm(field) => {
                format!("is given although {} is given too", field.name())
            }
        }
    }
}

impl From<EntryError> for Fault {
    fn from(error: EntryError) -> Self {
        let remedy = match error {
            EntryError::TooLong { .. } | EntryError::TooManySubjects { .. } => REMEDY_LONG,
            EntryError::Empty { .. } => REMEDY_EMPTY,
            EntryError::ControlCharacter { .. } => REMEDY_CONTROL,
            EntryError::TimeOutOfRange => REMEDY_TIME,
            _ => REMEDY_FIELD,
        };
        Self {
            reason: FaultReason::Rule(error),
            remedy,
        }
    }
}

/// Describes the broken rule without the field's name, which precedes it already.
fn rule_text(error: EntryError) -> String {
    match error {
        EntryError::TooLong {
            bytes, bytes_max, ..
        } => {
            format!("has {bytes} bytes, the limit is {bytes_max}")
        }
        EntryError::Empty { .. } => "is empty".to_owned(),
        EntryError::ControlCharacter { .. } => "holds a control character".to_owned(),
        other => other.to_string(),
    }
}

/// The fields that were read so far.
#[derive(Default)]
struct Draft {
    time: Option<Timestamp>,
    action: String,
    key: Vec<u8>,
    subjects: String,
    controller: String,
    processor: String,
    actor: String,
    purpose: String,
    basis: String,
    outcome: Outcome,
    payload: Vec<u8>,
    idempotency: Option<Digest>,
    /// True for a line of an export.
    exported: bool,
    seen: Vec<Field>,
    /// The field being read; a fault concerns it.
    field: Option<String>,
    fault: Option<Fault>,
}

impl Draft {
    /// Returns the field named `name`; `None` where its value is left out.
    fn begin(&mut self, name: &str) -> Result<Option<Field>, Fault> {
        let shown: String = name.chars().take(FIELD_NAME_CHARS_MAX).collect();
        self.field = Some(shown.escape_debug().to_string());
        if SET_BY_LOG.contains(&name) {
            return if self.exported {
                Ok(None)
            } else {
                let reason = "is set by the log, not by the caller";
                Err(Fault::new(reason, REMEDY_SET_BY_LOG))
            };
        }
        let known = Field::ALL.into_iter().find(|field| field.name() == name);
        let field = known.ok_or(Fault {
            reason: FaultReason::Unknown,
            remedy: REMEDY_FIELD,
        })?;
        if self.seen.contains(&field) {
            return Err(Fault::new("is given twice", REMEDY_ONCE));
        }
        if let Some(other) = field.other_form().filter(|other| self.seen.contains(other)) {
            return Err(Fault {
                reason: FaultReason::OtherForm(other),
                remedy: REMEDY_ONCE,
            });
        }
        if field == Field::Idempotency && !self.exported {
            let reason = "is set by the log, not by the caller";
            return Err(Fault::new(reason, REMEDY_DIGEST));
        }
        self.seen.push(field);
        Ok(Some(field))
    }

    /// Sets a field that is written as one string.
    fn take(&mut self, field: Field, text: String) -> Result<(), Fault> {
        match field {
            Field::Time => {
                let time = parse_time(&text).map_err(|reason| Fault::new(reason, REMEDY_TIME))?;
                self.time = Some(time);
            }
            Field::Outcome => {
                let fault = Fault::new("is no outcome", REMEDY_OUTCOME);
                self.outcome = Outcome::from_word(&text).ok_or(fault)?;
            }
            Field::Subject => self.subjects = text,
            Field::Action => self.action = text,
            Field::Controller => self.controller = text,
            Field::Processor => self.processor = text,
            Field::Actor => self.actor = text,
            Field::Purpose => self.purpose = text,
            Field::Basis => self.basis = text,
            Field::Key => self.key = text.into_bytes(),
            Field::Payload => self.payload = text.into_bytes(),
            Field::KeyBase64 => self.key = decode(&text)?,
            Field::PayloadBase64 => self.payload = decode(&text)?,
            Field::IdempotencyKey => self.idempotency = Some(idempotency_digest(&text)?),
            Field::Idempotency => self.idempotency = Some(digest(&text)?),
        }
        self.check_limits(field)
    }

    /// Checks the rules at once, so that a fault is located at its field.
    fn check_limits(&self, field: Field) -> Result<(), Fault> {
        let epoch = Timestamp::from_nanoseconds(0)?;
        let entry = self.entry(epoch);
        let only = match field {
            Field::Action => Entry {
                action: entry.action,
                ..Entry::new(epoch, "", &[])
            },
            _ => Entry {
                action: "x",
                ..entry
            },
        };
        Ok(only.check()?)
    }

    fn entry(&self, time: Timestamp) -> Entry<'_> {
        Entry {
            subjects: Subjects::joined(&self.subjects),
            controller: &self.controller,
            processor: &self.processor,
            actor: &self.actor,
            purpose: &self.purpose,
            basis: &self.basis,
            outcome: self.outcome,
            payload: &self.payload,
            ..Entry::new(time, &self.action, &self.key)
        }
    }

    fn finish(self, column: usize) -> Result<ParsedEntry, LineError> {
        if !self.seen.contains(&Field::Action) {
            return Err(LineError {
                column,
                field: Some(Field::Action.name().to_owned()),
                reason: "is missing".to_owned(),
                remedy: REMEDY_EMPTY,
            });
        }
        Ok(ParsedEntry {
            time: self.time,
            action: self.action,
            key: self.key,
            subjects: self.subjects,
            controller: self.controller,
            processor: self.processor,
            actor: self.actor,
            purpose: self.purpose,
            basis: self.basis,
            outcome: self.outcome,
            payload: self.payload,
            idempotency: self.idempotency,
        })
    }

    /// Returns the fault behind `error`, which itself may quote contents and is therefore not
    /// shown.
    fn explain(self, error: &serde_json::Error) -> LineError {
        let column = error.column().max(1);
        if let Some(fault) = self.fault {
            let (reason, remedy) = (fault.text(), fault.remedy);
            return LineError {
                column,
                field: self.field,
                reason,
                remedy,
            };
        }
        if error.classify() == Category::Data {
            let fault = match self.seen.last() {
                Some(field) => field.type_fault(),
                None => Fault::new("the line is not a JSON object", REMEDY_SYNTAX),
            };
            let (reason, remedy) = (fault.text(), fault.remedy);
            return LineError {
                column,
                field: self.field,
                reason,
                remedy,
            };
        }
        let message = error.to_string();
        let reason = match message.split(" at line ").next().unwrap_or_default() {
            // The parser's word for true, false and null, which none of the fields takes.
            "expected ident" => "expected value",
            reason => reason,
        };
        LineError {
            column,
            field: None,
            reason: format!("not JSON: {}", reason.to_ascii_lowercase()),
            remedy: REMEDY_SYNTAX,
        }
    }

    /// Keeps `fault`, and returns the error that makes the deserializer stop.
    fn stop<E: de::Error>(&mut self, fault: Fault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }
}

fn decode(text: &str) -> Result<Vec<u8>, Fault> {
    STANDARD
        .decode(text)
        .map_err(|_where| Fault::new("is not base64", REMEDY_BASE64))
}

/// Parses a digest of 64 lower-case hexadecimal digits.
fn digest(text: &str) -> Result<Digest, Fault> {
    let mut digest = Digest::default();
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let is_lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if pairs.len() != digest.len() || !rest.is_empty() || !text.bytes().all(|b| is_lower(&b)) {
        return Err(Fault::new("is no digest", REMEDY_DIGEST));
    }
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        let pair = str::from_utf8(pair).unwrap_or_default();
        *byte = u8::from_str_radix(pair, 16).unwrap_or_default();
    }
    Ok(digest)
}

struct ObjectVisitor<'d>(&'d mut Draft);

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let draft = self.0;
        while let Some(name) = map.next_key::<String>()? {
            let field = draft.begin(&name).map_err(|fault| draft.stop(fault))?;
            let Some(field) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if field == Field::Subject {
                map.next_value_seed(SubjectSeed(draft))?;
            } else {
                let text = map.next_value::<String>()?;
                draft.take(field, text).map_err(|fault| draft.stop(fault))?;
            }
        }
        Ok(())
    }
}

/// Reads `subject`: a string, or a list of them.
struct SubjectSeed<'d>(&'d mut Draft);

impl<'de> de::DeserializeSeed<'de> for SubjectSeed<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SubjectSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let draft = self.0;
        if text.is_empty() {
            let fault = EntryError::Empty { field: "subject" };
            return Err(draft.stop(fault.into()));
        }
        // A line feed would split one subject into two.
        if text.contains('\n') {
            let fault = EntryError::ControlCharacter { field: "subject" };
            return Err(draft.stop(fault.into()));
        }
        draft
            .take(Field::Subject, text.to_owned())
            .map_err(|fault| draft.stop(fault))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let draft = self.0;
        let mut joined = String::new();
        let mut count: usize = 0;
        while let Some(subject) = list.next_element::<String>()? {
            count = count.saturating_add(1);
            let rule = if subject.is_empty() {
                Some(EntryError::Empty { field: "subject" })
            } else if subject.contains('\n') {
                Some(EntryError::ControlCharacter { field: "subject" })
            } else if count > SUBJECTS_MAX {
                Some(EntryError::TooManySubjects { count })
            } else {
                None
            };
            if let Some(rule) = rule {
                return Err(draft.stop(rule.into()));
            }
            if count > 1 {
                joined.push('\n');
            }
            joined.push_str(&subject);
        }
        draft
            .take(Field::Subject, joined)
            .map_err(|fault| draft.stop(fault))
    }
}
