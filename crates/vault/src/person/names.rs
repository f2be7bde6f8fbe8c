//! The names of other people in an entry, which a person's copy leaves out.

use std::borrow::Cow;
use std::ops::Range;

use probity_format::Entry;
use probity_log::reader::Found;
use serde_json::value::RawValue;

use super::SOMEBODY;
use super::exact_json::Exact;

/// The member of a payload of the proxy that names a second key.
const DESTINATION: &str = "to";
/// A subject whose spelling in the key is not known contains this.
const DIGEST: &str = "sha256:";

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

    /// Returns `name`, of an actor or submitter, unless it is that of one of them.
    pub(super) fn shown_name<'n>(&self, name: &'n str) -> &'n str {
        if self.named.contains(&name) {
            SOMEBODY
        } else {
            name
        }
    }

    /// Returns the entry's key with `*` in the place of their names; `None` if it may name one of
    /// them otherwise.
    pub(super) fn shown_key<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        if self.is_none() || key.is_empty() {
            return Some(Cow::Borrowed(key));
        }
        if self.has_unnamed || self.named.iter().any(|name| name.contains(DIGEST)) {
            return None;
        }
        let theirs: Vec<Vec<u8>> = self.named.iter().flat_map(|name| spellings(name)).collect();
        let own = spellings(self.own);
        let own = own.iter().map(|name| (name.as_slice(), true));
        let mut names: Vec<(&[u8], bool)> = own
            .chain(theirs.iter().map(|name| (name.as_slice(), false)))
            .collect();
        // A name that contains another one is looked for first.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut parts = vec![Part::Text(key)];
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
        // A name within the person's own is the person's.
        let is_left = |name: &Vec<u8>| {
            let mut places = places_of(&shown, name);
            places.any(|place| {
                let mut own = own.iter();
                !own.any(|own| own.start <= place.start && place.end <= own.end)
            })
        };
        (!theirs.iter().any(is_left)).then_some(Cow::Owned(shown))
    }

    /// Returns the entry's payload; `None` if it is about others as well. A payload of the proxy
    /// comes without the second key that it names, which may be another person's.
    pub(super) fn shown_payload<'p>(&self, entry: &Entry<'p>) -> Option<Cow<'p, [u8]>> {
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

/// A part of a key.
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

/// Returns the bytes as which a name of an entry may stand in a key: as it is, and with the bytes
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
