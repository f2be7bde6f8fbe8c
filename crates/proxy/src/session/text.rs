//! One text of a reply: its beginning, and all of it by its digest.

use sha2::{Digest as _, Sha256};

use super::name_of;
use crate::audit::{Key, hex};

/// Bytes that are kept of one text in a reply.
const TEXT_BYTES_KEPT: usize = 1024;

/// A text of which only the beginning may be kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Text {
    kept: Vec<u8>,
    /// Bytes that have come so far.
    length: u64,
    /// Bytes that there will be, where that was announced.
    announced: Option<u64>,
    /// The SHA-256 of all of it, where it has ended, is longer than what is kept, and counts.
    digest: Option<Box<[u8; 32]>>,
    ended: bool,
}

/// The result of comparing a text with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    No,
    /// As far as the text has come.
    Perhaps,
    Yes,
}

/// All of a text, in the one form that it has in a set: a long one is its SHA-256.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Short(Box<[u8]>),
    Long([u8; 32]),
}

impl Identity {
    pub(super) fn of_key(key: &Key<'_>) -> Self {
        match key.digest {
            Some(digest) => Self::Long(digest),
            None if key.kept.len() > TEXT_BYTES_KEPT => Self::Long(Sha256::digest(key.kept).into()),
            None => Self::Short(key.kept.into()),
        }
    }
}

impl Text {
    /// A line. Of a long one nobody knows whether this is all.
    pub(super) fn of_line(text: &[u8]) -> Self {
        let mut line = Self::default();
        line.take(text, &mut None, Digests::None);
        line.ended = line.is_kept_whole();
        line
    }

    pub(super) fn announce(&mut self, length: Option<u64>) {
        self.announced = length;
    }

    /// Takes another part.
    pub(super) fn take(&mut self, part: &[u8], digest: &mut Option<Sha256>, digests: Digests) {
        let room = TEXT_BYTES_KEPT.saturating_sub(self.kept.len());
        if part.len() > room && digests == Digests::All {
            let kept = &self.kept;
            digest
                .get_or_insert_with(|| Sha256::new_with_prefix(kept))
                .update(part);
        }
        let kept = part.get(..room.min(part.len())).unwrap_or_default();
        self.kept.extend_from_slice(kept);
        self.length = self.length.saturating_add(part.len() as u64);
    }

    /// Says that all parts have come.
    pub(super) fn end(&mut self, digest: Option<Sha256>) {
        self.digest = digest.map(|digest| Box::new(digest.finalize().into()));
        self.ended = true;
    }

    /// Returns whether nothing of the text has come.
    pub(super) const fn is_unsaid(&self) -> bool {
        self.length == 0 && !self.ended
    }

    const fn is_kept_whole(&self) -> bool {
        self.kept.len() as u64 == self.length
    }

    /// Returns whether the text is `word`.
    pub(super) fn is(&self, word: &[u8]) -> bool {
        self.ended && self.is_kept_whole() && self.kept == word
    }

    /// Returns whether the text begins with `word`, which is short.
    pub(super) fn begins_with(&self, word: &[u8]) -> bool {
        self.kept.starts_with(word)
    }

    /// Returns whether the text ends with `word`, as far as that is known.
    pub(super) fn ends_with(&self, word: &[u8]) -> bool {
        self.ended && self.is_kept_whole() && self.kept.ends_with(word)
    }

    /// Its first byte.
    pub(super) fn first(&self) -> Option<u8> {
        self.kept.first().copied()
    }

    /// All of it as a name, as entries have it. None where nobody knows all of it.
    pub(super) fn name(&self) -> Option<String> {
        match &self.digest {
            Some(digest) => Some(format!("sha256:{}", hex(&**digest))),
            None => (self.ended && self.is_kept_whole()).then(|| name_of(&self.kept)),
        }
    }

    /// All of it, where it has ended and is known.
    pub(super) fn identity(&self) -> Option<Identity> {
        match &self.digest {
            Some(digest) => Some(Identity::Long(**digest)),
            None if self.ended && self.is_kept_whole() => {
                Some(Identity::Short((*self.kept).into()))
            }
            None => None,
        }
    }

    /// Compares the text with `key`.
    pub(super) fn fits(&self, key: &Key<'_>) -> Fit {
        if !self.ended {
            return self.may_become(key);
        }
        match self.identity() {
            Some(identity) if identity == Identity::of_key(key) => Fit::Yes,
            _ => Fit::No,
        }
    }

    /// Returns whether the bytes so far may still be those of a key.
    pub(super) const fn may_fit(&self) -> bool {
        !self.ended && (self.length > 0 || self.announced.is_some())
    }

    fn may_become(&self, key: &Key<'_>) -> Fit {
        let is_long = key.digest.is_some();
        let fits = |length: u64| is_long || length == key.kept.len() as u64;
        let both = self.kept.len().min(key.kept.len());
        let alike = self.kept.get(..both) == key.kept.get(..both)
            && (is_long || self.length <= key.kept.len() as u64);
        if self.may_fit() && alike && self.announced.is_none_or(fits) {
            Fit::Perhaps
        } else {
            Fit::No
        }
    }
}

/// The texts of a reply that are told from all others, whatever their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Digests {
    /// None: words alone matter.
    #[default]
    None,
    /// All that are remembered.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(parts: &[&[u8]], announced: u64, ended: bool) -> Text {
        let mut text = Text::default();
        text.announce(Some(announced));
        let mut digest = None;
        for part in parts {
            text.take(part, &mut digest, Digests::All);
        }
        if ended {
            text.end(digest);
        }
        text
    }

    /// Whatever the pieces, a text is its own key and no other, and one under way may be those of its length that begin like it.
    #[test]
    fn a_text_fits_its_own_key_in_any_pieces() {
        for length in [0, 1, 1023, 1024, 1025, 5000] {
            let own = vec![b'x'; length];
            let other = [&own[..length.saturating_sub(1)], b"y"].concat();
            let key = |kept: &'static [u8]| Key { kept, digest: None };
            let (own, other) = (&*own.leak(), &*other.leak());
            for piece in [1, 700, 1024, 9000] {
                let parts: Vec<&[u8]> = own.chunks(piece).collect();
                let whole = text(&parts, length as u64, true);
                assert_eq!(whole.fits(&key(own)), Fit::Yes, "{length} {piece}");
                assert_eq!(whole.fits(&key(other)), Fit::No, "{length} {piece}");
            }
        }
        let half = text(&[b"ab"], 3, false);
        let key = |kept: &'static [u8]| Key { kept, digest: None };
        assert_eq!(half.fits(&key(b"abc")), Fit::Perhaps);
        for other in [&b"abcd"[..], b"ab", b"axc", b""] {
            assert_eq!(half.fits(&key(other)), Fit::No);
        }
        assert_eq!(Text::default().fits(&key(b"")), Fit::No);
    }

    /// A key above 64 KiB is known by its digest alone.
    #[test]
    fn a_long_key_fits_by_its_digest() {
        let long = vec![b'k'; 70_000];
        let digest = Sha256::digest(&long).into();
        let key = |digest| Key {
            kept: long.get(..1024).unwrap_or_default(),
            digest: Some(digest),
        };
        let told = text(&[&long], 70_000, true);
        assert_eq!(told.fits(&key(digest)), Fit::Yes);
        assert_eq!(told.fits(&key([0; 32])), Fit::No);
        assert_eq!(text(&[b"k"], 1, true).fits(&key(digest)), Fit::No);
    }
}
