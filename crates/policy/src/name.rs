//! Names of people, clients and subjects as entries have them.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The longest name of an entry, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The beginning of a digest in the place of a name.
const DIGEST: &str = "sha256:";

/// Adds bytes as a name of an entry: control characters, `%` and what is no UTF-8 become `%XX`, and so does
/// the colon of what looks like a digest; what is too long becomes its digest.
pub fn put_name(out: &mut String, bytes: &[u8]) {
    put_bounded_name(out, bytes, NAME_BYTES_MAX);
}

/// Adds bytes likewise, with another bound in bytes as they are spelled.
pub fn put_bounded_name(out: &mut String, bytes: &[u8], bytes_max: usize) {
    let start = out.len();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character < ' ' || matches!(character, '\u{7F}' | '%') {
                put_escaped(out, u32::from(character));
            } else {
                out.push(character);
            }
        }
        for byte in chunk.invalid() {
            put_escaped(out, u32::from(*byte));
        }
    }
    if let Some(colon) = colon_of_digest(out.get(start..).unwrap_or_default()) {
        out.replace_range(start + colon..=start + colon, "%3A");
    }
    if out.len().saturating_sub(start) > bytes_max {
        out.truncate(start);
        out.push_str(DIGEST);
        for byte in Sha256::digest(bytes) {
            // Writing to a string cannot fail.
            let _infallible = write!(out, "{byte:02x}");
        }
    }
}

/// Returns the place of the colon in a name that looks like a digest in the place of one.
fn colon_of_digest(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("key#").unwrap_or(name);
    let is_alike = rest.starts_with(DIGEST);
    is_alike.then(|| name.len() - rest.len() + DIGEST.len() - 1)
}

fn put_escaped(out: &mut String, code: u32) {
    // Writing to a string cannot fail.
    let _infallible = write!(out, "%{code:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(bytes: &[u8], bytes_max: usize) -> String {
        let mut out = "before".to_owned();
        put_bounded_name(&mut out, bytes, bytes_max);
        out.split_off("before".len())
    }

    /// A user could take the digest of a long name as its own name, and both stood in entries as one.
    #[test]
    fn no_name_looks_like_the_digest_of_another() {
        let long = spelled(&[b'a'; 300], 255);
        assert!(long.starts_with("sha256:") && long.len() == 71);
        let short = spelled(long.as_bytes(), 255);
        assert_eq!(short, long.replace(':', "%3A"));
        assert_eq!(spelled(b"sha256%3Aab", 255), "sha256%253Aab");
        assert_eq!(spelled(b"key#sha256:ab", 255), "key#sha256%3Aab");
        for plain in [
            "sha256",
            "sha25:",
            "a sha256:b",
            "key#key#sha256:",
            "SHA256:",
        ] {
            assert_eq!(spelled(plain.as_bytes(), 255), plain);
        }
        assert_eq!(spelled(long.as_bytes(), 72).len(), 71);
    }
}
