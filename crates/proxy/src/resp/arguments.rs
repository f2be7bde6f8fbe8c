//! The arguments of one command: those that matter whole, of the others a beginning.

/// One argument of the last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument<'a> {
    /// The kept bytes of the argument: all of them, or a prefix.
    pub kept: &'a [u8],
    /// Its whole length, in bytes.
    pub length: u64,
    /// The SHA-256 of all of it, where only a prefix was kept of something that may be a key.
    pub digest: Option<[u8; 32]>,
}

impl Argument<'_> {
    /// Returns whether all of the argument was kept.
    pub fn is_whole(&self) -> bool {
        self.kept.len() as u64 == self.length
    }
}

/// The arguments of one command, name first.
#[derive(Debug, Default)]
pub struct Arguments {
    kept: Vec<u8>,
    spans: Vec<Span>,
    /// The digests of those that are not kept whole, by their index.
    digests: Vec<(usize, [u8; 32])>,
}

/// Small, because a command may have millions of arguments.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    length: u64,
}

impl Arguments {
    /// Returns the number of arguments.
    pub const fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns whether there are no arguments.
    pub const fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`.
    pub fn at(&self, index: usize) -> Option<Argument<'_>> {
        let span = self.spans.get(index)?;
        let kept = self.kept.get(span.start as usize..span.end as usize)?;
        let digest = self.digests.binary_search_by_key(&index, |(at, _)| *at);
        let digest = digest.ok().and_then(|at| self.digests.get(at));
        Some(Argument {
            kept,
            length: span.length,
            digest: digest.map(|(_, digest)| *digest),
        })
    }

    /// All of the argument at `index`; none where only its beginning was kept.
    pub fn whole(&self, index: usize) -> Option<&[u8]> {
        let argument = self.at(index).filter(Argument::is_whole)?;
        Some(argument.kept)
    }

    /// Returns the kept bytes of the argument at `index`, which may be its beginning alone; empty
    /// if there is none.
    pub fn beginning(&self, index: usize) -> &[u8] {
        self.at(index).map_or(&[], |argument| argument.kept)
    }

    /// Returns whether there is an argument at `index` without any bytes.
    pub fn is_empty_at(&self, index: usize) -> bool {
        self.at(index).is_some_and(|argument| argument.length == 0)
    }

    /// The argument at `index` as a server compares it with words of its own: up to the first zero byte, in lower case. No such
    /// word is as long as what is kept of any argument.
    pub fn word(&self, index: usize) -> Vec<u8> {
        self.before_zero(index).to_ascii_lowercase()
    }

    /// Returns whether a server takes the argument at `index` for `word`.
    pub fn is_word(&self, index: usize, word: &str) -> bool {
        self.before_zero(index)
            .eq_ignore_ascii_case(word.as_bytes())
    }

    /// Returns whether the kept bytes of the argument at `index` have a zero byte.
    pub fn has_zero(&self, index: usize) -> bool {
        memchr::memchr(0, self.beginning(index)).is_some()
    }

    fn before_zero(&self, index: usize) -> &[u8] {
        let text = self.beginning(index);
        let end = memchr::memchr(0, text).unwrap_or(text.len());
        text.get(..end).unwrap_or_default()
    }

    /// Adds a whole argument.
    pub fn push(&mut self, text: &[u8]) {
        self.begin(text.len() as u64);
        self.keep(text);
        self.end(None);
    }

    /// Begins an argument of `length` bytes, of which nothing is kept yet.
    pub(super) fn begin(&mut self, length: u64) {
        let start = self.place();
        self.spans.push(Span {
            start,
            end: start,
            length,
        });
    }

    /// Keeps another part of the argument begun last.
    pub(super) fn keep(&mut self, part: &[u8]) {
        self.kept.extend_from_slice(part);
    }

    /// Ends the argument begun last.
    pub(super) fn end(&mut self, digest: Option<[u8; 32]>) {
        let end = self.place();
        if let Some(span) = self.spans.last_mut() {
            span.end = end;
        }
        if let (Some(digest), Some(last)) = (digest, self.spans.len().checked_sub(1)) {
            self.digests.push((last, digest));
        }
    }

    /// Returns the place of the next kept byte. The kept bytes of one command are bounded far below
    /// 4 GiB.
    fn place(&self) -> u32 {
        u32::try_from(self.kept.len()).unwrap_or(u32::MAX)
    }

    /// Bytes that the arguments occupy.
    pub(crate) const fn bytes_kept(&self) -> usize {
        self.kept.len()
            + self.spans.len() * size_of::<Span>()
            + self.digests.len() * size_of::<(usize, [u8; 32])>()
    }

    /// Forgets all arguments, and overwrites kept bytes that may be a secret.
    pub fn clear(&mut self, secret: bool) {
        if secret {
            self.kept.fill(0);
        }
        self.kept.clear();
        self.spans.clear();
        self.digests.clear();
        if self.kept.capacity() > 1 << 20 {
            self.kept.shrink_to(1 << 16);
        }
        if self.spans.capacity() > 1 << 14 {
            self.spans.shrink_to(1 << 10);
        }
        if self.digests.capacity() > 1 << 10 {
            self.digests.shrink_to(1 << 6);
        }
    }
}
