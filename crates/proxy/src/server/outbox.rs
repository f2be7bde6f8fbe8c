//! The bytes of the server, and how far the client may see them.

use std::collections::VecDeque;

/// A place in the server's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reach {
    /// Bytes before it.
    pub(super) place: u64,
    /// True if a reply is under way there, so that nothing of the proxy's own may follow.
    pub(super) midway: bool,
}

/// Bytes of the server in order: those that may go to the client, then those whose entries are not safe.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    bytes: Vec<u8>,
    /// The place of the first byte.
    base: u64,
    released: Reach,
    marks: VecDeque<(Reach, T)>,
    /// Nothing more is let go.
    withheld: bool,
}

impl<T: Copy> Outbox<T> {
    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            base: 0,
            released: Reach {
                place: 0,
                midway: false,
            },
            marks: VecDeque::new(),
            withheld: false,
        }
    }

    /// Returns the buffer for the server's bytes; bytes that are not released there may be taken
    /// back.
    pub(super) const fn arriving(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Lets the client read up to `reach` once `ticket` is durable.
    pub(super) fn hold(&mut self, reach: Reach, ticket: T) {
        if !self.withheld {
            self.marks.push_back((reach, ticket));
        }
    }

    /// Lets the client read up to `reach`, or as soon as what is held before it may go; whether it may now.
    pub(super) fn release(&mut self, reach: Reach) -> bool {
        if self.withheld {
            return false;
        }
        if let Some((last, _)) = self.marks.back_mut() {
            *last = reach;
            return false;
        }
        let more = reach.place > self.released.place;
        self.released = reach;
        more
    }

    /// Returns whether there is nothing more to release up to `reach`.
    pub(super) fn is_released(&self, reach: Reach) -> bool {
        let last = self.marks.back().map_or(self.released, |(last, _)| *last);
        last == reach || self.withheld
    }

    /// The ticket that is waited for first.
    pub(super) fn ticket(&self) -> Option<T> {
        self.marks.front().map(|(_, ticket)| *ticket)
    }

    /// The first ticket is durable.
    pub(super) fn pass(&mut self) {
        if let Some((reach, _)) = self.marks.pop_front() {
            self.released = reach;
        }
    }

    /// Lets the client read held bytes, even though their entries never become durable.
    pub(super) fn let_go(&mut self) {
        if let Some((reach, _)) = self.marks.pop_back() {
            self.released = reach;
            self.marks.clear();
        }
    }

    /// Returns the bytes that may go to the client now.
    pub(super) fn ready(&self) -> &[u8] {
        let count = usize::try_from(self.released.place.saturating_sub(self.base));
        let count = count.unwrap_or(usize::MAX).min(self.bytes.len());
        self.bytes.get(..count).unwrap_or_default()
    }

    /// Removes `count` bytes that have gone.
    pub(super) fn sent(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
        self.base += count as u64;
    }

    /// Nobody reads any more: everything counts as sent.
    pub(super) fn discard(&mut self) {
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
    }

    /// Drops the bytes that are not released; they never will be.
    pub(super) fn withhold(&mut self) {
        let ready = self.ready().len();
        self.bytes.truncate(ready);
        self.marks.clear();
        self.withheld = true;
    }

    pub(super) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether no byte waits, neither for a commit nor for the client.
    pub(super) fn is_quiet(&self) -> bool {
        self.marks.is_empty() && self.released.place <= self.base
    }

    /// Returns whether the client has seen, or will see, the beginning of a reply and not its end.
    pub(super) const fn is_midway(&self) -> bool {
        self.released.midway
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(place: u64) -> Reach {
        Reach {
            place,
            midway: false,
        }
    }

    #[test]
    fn nothing_goes_before_what_is_held_before_it() {
        let mut outbox = Outbox::new();
        outbox
            .arriving()
            .extend_from_slice(b"+OK\r\n:1\r\n+PONG\r\n");
        outbox.hold(at(5), 'a');
        outbox.hold(at(9), 'b');
        assert!(!outbox.release(at(16)));
        assert_eq!(outbox.ready(), b"");
        outbox.pass();
        assert_eq!(
            (outbox.ready(), outbox.ticket()),
            (&b"+OK\r\n"[..], Some('b'))
        );
        outbox.sent(5);
        outbox.pass();
        assert_eq!(outbox.ready(), b":1\r\n+PONG\r\n");
        assert!(!outbox.is_quiet());
        outbox.sent(11);
        assert!(outbox.is_quiet());
    }

    #[test]
    fn what_is_withheld_is_gone_and_the_place_of_the_cut_is_known() {
        let mut outbox = Outbox::new();
        outbox.arriving().extend_from_slice(b"$9\r\nabcdefghi\r\n");
        assert!(outbox.release(Reach {
            place: 6,
            midway: true
        }));
        outbox.hold(at(15), 'a');
        outbox.withhold();
        assert_eq!(outbox.ready(), b"$9\r\nab");
        assert!(!outbox.release(at(15)) && outbox.is_released(at(15)));
        assert_eq!(outbox.ready(), b"$9\r\nab");
        assert!(outbox.is_midway());
        outbox.discard();
        assert!(outbox.is_quiet());
    }
}
