//! The replies that the client does not want, by `CLIENT REPLY`.

use super::effect::{Effect, ReplyMode};

/// The flags that the server itself would keep.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the server's own"
)]
pub(super) struct Muted {
    off: bool,
    /// The reply to the command that is answered next.
    skip: bool,
    skip_next: bool,
}

impl Muted {
    /// Returns whether the client does not see the reply under way.
    pub(super) const fn is_on(self) -> bool {
        self.off || self.skip
    }

    /// Takes a reply that does what `effect` says, and returns whether the server itself would not
    /// have shown it.
    pub(super) fn hides(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::ReplyMode(ReplyMode::On) => {
                (self.off, self.skip) = (false, false);
                false
            }
            Effect::ReplyMode(ReplyMode::Off) => {
                self.off = true;
                true
            }
            Effect::ReplyMode(ReplyMode::SkipNext) => {
                self.skip_next = !self.off;
                true
            }
            Effect::Reset => self.skip,
            _ => self.is_on(),
        }
    }

    /// Ends a reply; `blank` where a command without words followed its command.
    pub(super) fn reply_ended(&mut self, blank: bool) {
        let next = std::mem::take(&mut self.skip_next);
        self.skip = next && !blank;
    }

    /// Takes a command without words that nothing is awaited before: it ends a skip.
    pub(super) const fn blank(&mut self) {
        self.skip = false;
    }

    /// Takes a `RESET`, whose own reply a skip still hides.
    pub(super) const fn reset(&mut self) {
        (self.off, self.skip_next) = (false, false);
    }
}
