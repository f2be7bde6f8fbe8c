//! The names of other people in an entry, which a person's copy leaves out.

use std::borrow::Cow;
use std::ops::Range;

use probity_format::{Action, Claimed, Digest, Entry, Outcome, Timestamp};
use probity_log::StreamName;
use probity_log::reader::Found;
use serde_json::value::RawValue;

use super::SOMEBODY;
use super::exact_json::Exact;

/// The member of a payload of the proxy that names a second key.
const DESTINATION: &str = "to";
/// A subject whose spelling in the key is not known contains this.
const DIGEST: &str = "sha256:";
/// The most characters of a name that is not looked for within longer words: nearly every word has
/// a name as short as these in it.
const SHORT_NAME_CHARS_MAX: usize = 3;
/// The actions that the log itself has words for.
const ACTIONS: [&str; 4] = [Action::CREATE, Action::READ, Action::UPDATE, Action::DELETE];

/// The fields of an entry as the person may see them, without the names of its other subjects.
pub(super) struct Shown<'e> {
    pub time: Timestamp,
    pub taken: Option<Timestamp>,
    pub outcome: Outcome,
    pub action: Cow<'e, str>,
    pub controller: Cow<'e, str>,
    pub processor: Cow<'e, str>,
    pub actor: Cow<'e, str>,
    pub purpose: Cow<'e, str>,
    pub basis: Cow<'e, str>,
    pub submitter: Cow<'e, str>,
    pub claimed: Claimed,
    pub policy: Option<&'e Digest>,
    pub rule: Cow<'e, str>,
    pub stream: Cow<'e, str>,
    /// The digest of the caller's own name for the entry, empty without one. `None` if the entry is about
    /// others as well: who guesses the name finds it by its digest.
    pub idempotency: Option<&'e [u8]>,
    /// `None` if the key may name others in another way.
    pub key: Option<Cow<'e, [u8]>>,
    /// `None` if the payload is about others as well.
    pub payload: Option<Cow<'e, [u8]>>,
}

/// The origin of a text.
#[derive(Clone, Copy)]
enum Origin {
    /// A policy, or the log, which erases with a subject the name of the actor that it is.
    Known,
    /// The caller, who may have written any name.
    Caller,
}

/// The people whom an entry concerns besides the person.
pub(super) struct Others<'a> {
    own: &'a str,
    named: Vec<&'a str>,
    /// True if there are some whose names the entry does not show.
    has_unnamed: bool,
}

impl<'a> Others<'a> {
    pub(super) fn of(found: &'a Found<'_>, own: &'a str) -> Self {
        let named = found.entry.subjects.iter().filter(|name| *name != own);
        Self {
            own,
            named: named.collect(),
            has_unnamed: found.closed.subjects + found.missing.subjects > 0,
        }
    }

    fn is_none(&self) -> bool {
        self.named.is_empty() && !self.has_unnamed
    }

    /// Returns what the person may see of the entry in `stream`. Every field is named here, so that
    /// no new one is shown unseen.
    pub(super) fn shown<'e>(&self, entry: &Entry<'e>, stream: &'e StreamName) -> Shown<'e> {
        let Entry {
            time,
            action,
            key,
            // Their number alone is shown.
            subjects: _,
            controller,
            processor,
            actor,
            purpose,
            basis,
            outcome,
            payload: _,
            taken,
            submitter,
            claimed,
            idempotency,
            policy,
            rule,
        } = *entry;
        let origin = policy.map_or(Origin::Caller, |_| Origin::Known);
        let said = |text| self.shown_text(text, origin);
        Shown {
            time,
            taken,
            outcome,
            action: if ACTIONS.contains(&action) {
                self.shown_text(action, Origin::Known)
            } else {
                said(action)
            },
            controller: said(controller),
            processor: said(processor),
            actor: self.shown_text(actor, Origin::Known),
            purpose: said(purpose),
            basis: said(basis),
            submitter: self.shown_text(submitter, Origin::Known),
            claimed,
            policy,
            rule: said(rule),
            // No policy names streams: whoever keeps the log does.
            stream: if *stream == StreamName::default() {
                self.shown_text(stream.as_str(), Origin::Known)
            } else {
                self.shown_text(stream.as_str(), Origin::Caller)
            },
            idempotency: match idempotency {
                None => Some(&[]),
                Some(digest) => self.is_none().then_some(digest.as_slice()),
            },
            key: self.shown_key(key),
            payload: self.shown_payload(entry),
        }
    }

    /// Returns whether a name of theirs is spelled in an unknown way, or not known at all.
    fn is_any_unknown(&self) -> bool {
        self.has_unnamed || self.named.iter().any(|name| name.contains(DIGEST))
    }

    /// Returns `text` with `*` in the place of their names, and of the words that contain one. All
    /// of a text that the caller wrote is `*` if a name of theirs is not known.
    fn shown_text<'t>(&self, text: &'t str, origin: Origin) -> Cow<'t, str> {
        if self.is_none() || text.is_empty() || text == self.own {
            return Cow::Borrowed(text);
        }
        if matches!(origin, Origin::Caller) && self.is_any_unknown() {
            return Cow::Borrowed(SOMEBODY);
        }
        let masked = self.masked(text.as_bytes());
        let mut hidden: Vec<Range<usize>> = Vec::new();
        for name in self.theirs() {
            for place in masked.left(&name) {
                if let Some(word) = word_around(&masked.text, place, is_short(&name)) {
                    hidden.push(word);
                }
            }
        }
        hidden.sort_by_key(|word| word.start);
        let (mut shown, mut end) = (Vec::new(), 0);
        for word in hidden {
            if end <= word.start {
                shown.extend_from_slice(masked.text.get(end..word.start).unwrap_or_default());
                shown.extend_from_slice(SOMEBODY.as_bytes());
            }
            end = end.max(word.end);
        }
        shown.extend_from_slice(masked.text.get(end..).unwrap_or_default());
        // A name that was spelled in bytes may end within a character.
        String::from_utf8(shown).map_or(Cow::Borrowed(SOMEBODY), Cow::Owned)
    }

    /// Returns every spelling of their names.
    fn theirs(&self) -> Vec<Vec<u8>> {
        self.named.iter().flat_map(|name| spellings(name)).collect()
    }

    /// Returns `text` with `*` in the place of their names that stand by themselves.
    fn masked(&self, text: &[u8]) -> Masked {
        let theirs = self.theirs();
        let own = spellings(self.own);
        let own = own.iter().map(|name| (name.as_slice(), true));
        let mut names: Vec<(&[u8], bool)> = own
            .chain(theirs.iter().map(|name| (name.as_slice(), false)))
            .collect();
        // A name that contains another one is looked for first.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut parts = vec![Part::Text(text)];
        for (name, is_own) in names {
            parts = parts
                .into_iter()
                .flat_map(|part| part.split(name, is_own))
                .collect();
        }
        let (mut shown, mut own) = (Vec::new(), Vec::new());
        for part in parts {
            let begin = shown.len();
            shown.extend_from_slice(match part {
                Part::Text(text) | Part::Own(text) => text,
                Part::Other => SOMEBODY.as_bytes(),
            });
            if matches!(part, Part::Own(_)) {
                own.push(begin..shown.len());
            }
        }
        Masked { text: shown, own }
    }

    /// Returns the entry's key with `*` in the place of their names; `None` if it may name one of
    /// them otherwise.
    fn shown_key<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        if self.is_none() || key.is_empty() {
            return Some(Cow::Borrowed(key));
        }
        if self.is_any_unknown() {
            return None;
        }
        let masked = self.masked(key);
        let mut theirs = self.theirs().into_iter();
        let is_named = theirs.any(|name| masked.left(&name).next().is_some());
        (!is_named).then_some(Cow::Owned(masked.text))
    }

    /// Returns the entry's payload; `None` if it is about others as well. A payload of the proxy
    /// comes without the second key that it names, which may be another person's.
    fn shown_payload<'p>(&self, entry: &Entry<'p>) -> Option<Cow<'p, [u8]>> {
        let payload = entry.payload;
        if payload.is_empty() {
            return Some(Cow::Borrowed(payload));
        }
        if !self.is_none() {
            return None;
        }
        // Only who decides by a policy names it; other payloads are the application's own words.
        let masked = entry.policy.and_then(|_| without_destination(entry));
        Some(masked.map_or(Cow::Borrowed(payload), |text| Cow::Owned(text.into_bytes())))
    }
}

/// Returns the payload with `*` in the place of a key that is not the entry's; `None` if it names
/// none.
fn without_destination(entry: &Entry<'_>) -> Option<String> {
    let raw: Box<RawValue> = serde_json::from_slice(entry.payload).ok()?;
    let Exact::Members(mut members) = Exact::of(&raw).ok()? else {
        return None;
    };
    let is_command =
        |(name, value): &(String, Exact)| name == "command" && matches!(value, Exact::Text(_));
    if !members.iter().any(is_command) {
        return None;
    }
    let mut named = members.iter_mut();
    let (_, destination) = named.find(|(name, _)| name == DESTINATION)?;
    if matches!(&*destination, Exact::Text(key) if key.as_bytes() == entry.key) {
        return None;
    }
    *destination = Exact::Text(SOMEBODY.to_owned());
    Some(Exact::Members(members).to_string())
}

/// A text with `*` in the place of names.
struct Masked {
    text: Vec<u8>,
    /// The places of the person's own name.
    own: Vec<Range<usize>>,
}

impl Masked {
    /// Returns the places where `name` is left. A name within the person's own is the person's.
    fn left<'m>(&'m self, name: &'m [u8]) -> impl Iterator<Item = Range<usize>> + 'm {
        places_of(&self.text, name).filter(|place| {
            let mut own = self.own.iter();
            !own.any(|own| own.start <= place.start && place.end <= own.end)
        })
    }
}

/// Returns the place of the word of `text` with the name at `place` in it. `None` for a short name
/// within a longer word.
fn word_around(text: &[u8], place: Range<usize>, is_short: bool) -> Option<Range<usize>> {
    let Range { mut start, mut end } = place;
    let is_joined = |behind: usize| {
        let before = behind.checked_sub(1).and_then(|before| text.get(before));
        let [before, after] = [before, text.get(behind)].map(|byte| WordKind::of(*byte?));
        before.is_some() && before == after
    };
    if is_short && (is_joined(start) || is_joined(end)) {
        return None;
    }
    while is_joined(start) {
        start -= 1;
    }
    while is_joined(end) {
        end += 1;
    }
    Some(start..end)
}

/// The characters that make one word when they stand side by side.
#[derive(PartialEq, Eq)]
enum WordKind {
    Letter,
    Digit,
}

impl WordKind {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            b'0'..=b'9' => Some(Self::Digit),
            _ if byte.is_ascii_alphabetic() || !byte.is_ascii() => Some(Self::Letter),
            _ => None,
        }
    }
}

fn is_short(name: &[u8]) -> bool {
    let chars = str::from_utf8(name).map_or(name.len(), |name| name.chars().count());
    chars <= SHORT_NAME_CHARS_MAX
}

/// A part of a text.
enum Part<'k> {
    Text(&'k [u8]),
    /// The person's own name.
    Own(&'k [u8]),
    /// The name of somebody else.
    Other,
}

impl Part<'_> {
    /// Takes each `name` that stands by itself out of a text.
    fn split(self, name: &[u8], is_own: bool) -> Vec<Self> {
        let Self::Text(text) = self else {
            return vec![self];
        };
        let (mut parts, mut begin, mut from) = (Vec::new(), 0, 0);
        while let Some(at) = find(text.get(from..).unwrap_or_default(), name) {
            let (start, end) = (from + at, from + at + name.len());
            let before = start.checked_sub(1).and_then(|place| text.get(place));
            let is_word = |byte: Option<&u8>| {
                byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii())
            };
            if is_word(before) || is_word(text.get(end)) {
                from = start + 1;
                continue;
            }
            parts.push(Self::Text(text.get(begin..start).unwrap_or_default()));
            parts.push(match text.get(start..end) {
                Some(name) if is_own => Self::Own(name),
                _ => Self::Other,
            });
            (begin, from) = (end, end);
        }
        parts.push(Self::Text(text.get(begin..).unwrap_or_default()));
        parts
    }
}

/// Returns the bytes as which a name of an entry may stand in a text: as it is, and with the bytes
/// that `%XX` stands for.
fn spellings(name: &str) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    let mut spellings = vec![name.as_bytes().to_vec()];
    if bytes != name.as_bytes() {
        spellings.push(bytes);
    }
    spellings
}

fn find(text: &[u8], name: &[u8]) -> Option<usize> {
    places_of(text, name).map(|place| place.start).next()
}

/// Returns every place of `name` in `text`, also where two of them overlap.
fn places_of<'t>(text: &'t [u8], name: &'t [u8]) -> impl Iterator<Item = Range<usize>> + 't {
    let windows = text.windows(name.len().max(1)).enumerate();
    let places = windows.filter(move |(_, window)| *window == name);
    places.map(|(start, window)| start..start + window.len())
}
