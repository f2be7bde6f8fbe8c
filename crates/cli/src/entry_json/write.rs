//! Writing of an entry as one line of JSON, which another log reads as the same entry.

use std::fmt::Write as _;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use probity_format::content::Closed;
use probity_format::time::format_time;
use probity_format::{Digest, Entry};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The place of an entry in its log.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Name of the stream.
    pub stream: &'a str,
    /// Number of the entry in the stream, from 0.
    pub index: u64,
}

/// Writes `entry` as one line, its line end included, after its place where one is given. `hidden`
/// says which of its people cannot be read. Empty fields are left out.
///
/// # Errors
/// The writer's.
pub fn write_line(
    place: Option<Place<'_>>,
    entry: &Entry<'_>,
    hidden: Hidden,
    out: &mut impl Write,
) -> io::Result<()> {
    let form = EntryForm {
        place,
        entry,
        hidden,
    };
    serde_json::to_writer(&mut *out, &form).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// Returns whether `bytes` are written as base64 because they are not text that people can read.
///
/// Text with control characters counts as unreadable: it would need long escapes.
pub fn needs_base64(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err()
        || bytes
            .iter()
            .any(|byte| *byte < 0x20 && !b"\t\n\r".contains(byte))
}

/// An entry in JSON. Empty fields are left out.
pub struct EntryForm<'a, 'e> {
    /// The place of the entry, if it is to be written.
    pub place: Option<Place<'a>>,
    /// The entry.
    pub entry: &'a Entry<'e>,
    /// The people of the entry who cannot be read.
    pub hidden: Hidden,
}

/// The people of an entry who cannot be read.
#[derive(Debug, Clone, Copy)]
pub struct Hidden {
    /// Those who were erased.
    pub erased: Closed,
    /// Those whose keys are missing though nobody erased them: damage, or a loss that was
    /// accepted.
    pub missing: Closed,
}

impl Hidden {
    /// Nobody.
    pub const NONE: Self = Self {
        erased: Closed::NONE,
        missing: Closed::NONE,
    };
}

impl Serialize for EntryForm<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = self.entry;
        let mut map = serializer.serialize_map(None)?;
        if let Some(place) = self.place {
            map.serialize_entry("stream", place.stream)?;
            map.serialize_entry("index", &place.index)?;
        }
        map.serialize_entry("time", &format_time(entry.time))?;
        map.serialize_entry("action", entry.action)?;
        serialize_bytes(&mut map, ["key", "key_base64"], entry.key)?;
        let subjects: Vec<&str> = entry.subjects.iter().collect();
        match subjects.as_slice() {
            [] => {}
            [one] => map.serialize_entry("subject", one)?,
            several => map.serialize_entry("subject", several)?,
        }
        let names = ["subjects_erased", "actor_erased", "submitter_erased"];
        serialize_hidden(&mut map, names, self.hidden.erased)?;
        let names = ["subjects_missing", "actor_missing", "submitter_missing"];
        serialize_hidden(&mut map, names, self.hidden.missing)?;
        let names = [
            ("controller", entry.controller),
            ("processor", entry.processor),
            ("actor", entry.actor),
            ("purpose", entry.purpose),
            ("basis", entry.basis),
        ];
        for (name, value) in names.into_iter().filter(|(_, value)| !value.is_empty()) {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("outcome", entry.outcome.as_str())?;
        serialize_bytes(&mut map, ["payload", "payload_base64"], entry.payload)?;
        serialize_origin(&mut map, entry)?;
        map.end()
    }
}

/// Writes which of the entry's people are hidden for one reason, under the names of subjects, actor
/// and submitter.
fn serialize_hidden<M: SerializeMap>(
    map: &mut M,
    [subjects, actor, submitter]: [&'static str; 3],
    hidden: Closed,
) -> Result<(), M::Error> {
    if hidden.subjects > 0 {
        map.serialize_entry(subjects, &hidden.subjects)?;
    }
    let flags = [(actor, hidden.actor), (submitter, hidden.submitter)];
    for (name, _) in flags.into_iter().filter(|(_, is_hidden)| *is_hidden) {
        map.serialize_entry(name, &true)?;
    }
    Ok(())
}

/// Writes what the log says of the entry, and the digest of the caller's idempotency key.
fn serialize_origin<M: SerializeMap>(map: &mut M, entry: &Entry<'_>) -> Result<(), M::Error> {
    if let Some(taken) = entry.taken {
        map.serialize_entry("taken", &format_time(taken))?;
    }
    if !entry.submitter.is_empty() {
        map.serialize_entry("submitter", entry.submitter)?;
    }
    let claimed: Vec<&str> = entry.claimed.fields().collect();
    if !claimed.is_empty() {
        map.serialize_entry("claimed", &claimed)?;
    }
    if let Some(digest) = entry.idempotency {
        map.serialize_entry("idempotency", &hex(digest))?;
    }
    if let Some(digest) = entry.policy {
        map.serialize_entry("policy", &hex(digest))?;
    }
    if !entry.rule.is_empty() {
        map.serialize_entry("rule", entry.rule)?;
    }
    Ok(())
}

/// Formats a digest in lower-case hexadecimal digits.
pub fn hex(digest: &Digest) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _written = write!(text, "{byte:02x}");
        text
    })
}

fn serialize_bytes<M: SerializeMap>(
    map: &mut M,
    [text_name, base64_name]: [&'static str; 2],
    bytes: &[u8],
) -> Result<(), M::Error> {
    match str::from_utf8(bytes) {
        Ok("") => Ok(()),
        Ok(text) if !needs_base64(bytes) => map.serialize_entry(text_name, text),
        _ => map.serialize_entry(base64_name, &STANDARD.encode(bytes)),
    }
}
