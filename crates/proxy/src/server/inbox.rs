//! The bytes of the client, and how far they may go to the server.

/// Bytes of the client in order: those that may go, those that are understood and held, and those that are not understood. What is put
/// in place of some moves none of the others.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Understood bytes: those that may go, then the held ones.
    understood: Vec<u8>,
    held: usize,
    /// Not understood yet, from `at` on.
    arrived: Vec<u8>,
    at: usize,
}

impl Inbox {
    /// Adds what the client said.
    pub(super) fn arrive(&mut self, bytes: &[u8]) {
        if self.at > self.arrived.len() / 2 {
            self.arrived.drain(..self.at);
            self.at = 0;
        }
        self.arrived.extend_from_slice(bytes);
    }

    /// Returns the bytes that are not understood yet.
    pub(super) fn rest(&self) -> &[u8] {
        self.arrived.get(self.at..).unwrap_or_default()
    }

    /// Marks `count` bytes of the rest as understood; the last `held` of all understood bytes are
    /// held back.
    pub(super) fn understand(&mut self, count: usize, held: usize) {
        let end = self.at.saturating_add(count).min(self.arrived.len());
        let taken = self.arrived.get(self.at..end).unwrap_or_default();
        self.understood.extend_from_slice(taken);
        self.at = end;
        self.held = held;
    }

    /// Nothing is held any more.
    pub(super) const fn let_go(&mut self) {
        self.held = 0;
    }

    const fn allowed(&self) -> usize {
        self.understood.len().saturating_sub(self.held)
    }

    /// Returns the bytes that may go to the server.
    pub(super) fn ready(&self) -> &[u8] {
        self.understood.get(..self.allowed()).unwrap_or_default()
    }

    /// Removes `count` bytes that have gone.
    pub(super) fn sent(&mut self, count: usize) {
        self.understood.drain(..count.min(self.allowed()));
    }

    /// Puts `bytes` in place of the held bytes, and lets them go.
    pub(super) fn replace_held(&mut self, bytes: &[u8]) {
        self.understood.truncate(self.allowed());
        self.understood.extend_from_slice(bytes);
        self.held = 0;
    }

    /// Puts `bytes` of the proxy's own behind what may go.
    pub(super) fn insert(&mut self, bytes: Vec<u8>) {
        let allowed = self.allowed();
        self.understood.splice(allowed..allowed, bytes);
    }

    /// Forgets what may not go.
    pub(super) fn forget_rest(&mut self) {
        self.understood.truncate(self.allowed());
        self.held = 0;
        self.arrived.clear();
        self.at = 0;
    }

    pub(super) const fn len(&self) -> usize {
        self.understood.len() + self.arrived.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_replaced_before_what_is_not_understood() {
        let mut inbox = Inbox::default();
        inbox.arrive(b"PING\r\nGET a\r\nSET");
        inbox.understand(6, 0);
        inbox.understand(7, 7);
        assert_eq!(
            (inbox.ready(), inbox.rest()),
            (&b"PING\r\n"[..], &b"SET"[..])
        );
        inbox.insert(b"TIME\r\n".to_vec());
        inbox.replace_held(b"GET b\r\n");
        assert_eq!(inbox.ready(), b"PING\r\nTIME\r\nGET b\r\n");
        inbox.sent(12);
        inbox.arrive(b" c d\r\n");
        assert_eq!(
            (inbox.ready(), inbox.rest()),
            (&b"GET b\r\n"[..], &b"SET c d\r\n"[..])
        );
        assert_eq!(inbox.len(), 16);
        inbox.understand(4, 4);
        inbox.forget_rest();
        assert_eq!((inbox.ready(), inbox.len()), (&b"GET b\r\n"[..], 7));
    }

    /// A command on a line, which goes to the server in another form, moved all that its client had said behind it, so that 1 MB of them
    /// behind one that waited held up every client of the worker for seconds. Nothing behind it is moved.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "looks at the clock")]
    fn what_is_replaced_moves_nothing_behind_it() {
        let count = 170_000;
        let begun = std::time::Instant::now();
        let mut inbox = Inbox::default();
        inbox.arrive(&b"PING\r\n".repeat(count));
        for _ in 0..count {
            inbox.understand(6, 6);
            inbox.replace_held(b"*1\r\n$4\r\nPING\r\n");
        }
        assert_eq!((inbox.rest().len(), inbox.ready().len()), (0, 14 * count));
        assert!(begun.elapsed().as_secs() < 2);
    }
}
