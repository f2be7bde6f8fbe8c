//! The hashes by which entries speak of databases, records and parameters.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Bytes of the hashes by which entries speak of databases, records and parameters.
pub(crate) const NAME_BYTES: usize = 8;

/// Returns the hash that names a record of the engine's tables in entries.
pub(crate) fn record(salt: &[u8], id: &[u8]) -> String {
    digits(&record_name(salt, id))
}

/// Returns the hashes of several records.
pub(crate) fn records(salt: &[u8], ids: &[Vec<u8>]) -> Vec<String> {
    ids.iter().map(|id| record(salt, id)).collect()
}

/// Returns the hash of a record as bytes.
pub(crate) fn record_name(salt: &[u8], id: &[u8]) -> [u8; NAME_BYTES] {
    short(b"record", &[salt, id])
}

/// Returns the check of the value of a setting, by which a damaged one is found out.
pub(crate) fn setting_check(salt: &[u8], setting: &[u8], value: &[u8]) -> [u8; NAME_BYTES] {
    short(b"setting", &[salt, setting, value])
}

pub(crate) fn name(label: &[u8], parts: &[&[u8]]) -> String {
    digits(&short(label, parts))
}

fn short(label: &[u8], parts: &[&[u8]]) -> [u8; NAME_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"probity disguise operation\0");
    hash.update(label);
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    let mut out = [0; NAME_BYTES];
    for (to, from) in out.iter_mut().zip(hash.finalize()) {
        *to = from;
    }
    out
}

/// `bytes` in hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String cannot fail.
        write!(out, "{byte:02x}").unwrap_or_default();
        out
    })
}

/// Reads what [`digits`] wrote.
pub(crate) fn undigits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    let mut letters = text.chars();
    for byte in &mut out {
        let (high, low) = (letters.next()?.to_digit(16)?, letters.next()?.to_digit(16)?);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    letters.next().is_none().then_some(out)
}
