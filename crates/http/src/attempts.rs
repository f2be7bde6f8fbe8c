//! Wrong tokens counted by peer, so that nobody tries many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connections::Peer;

/// The window in which wrong tokens are counted together.
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// The most peers that are remembered; beyond them the one with the oldest window is forgotten.
const PEERS_MAX: usize = 4096;

/// The tokens that peers have shown.
pub(crate) struct Attempts {
    /// The most wrong tokens that a peer may show in a window.
    most: u64,
    peers: Mutex<BTreeMap<Peer, Record>>,
}

struct Record {
    since: Instant,
    wrong: u64,
    /// Names of the tokens that the peer showed while it had not tried too many.
    known: BTreeSet<String>,
}

impl Attempts {
    pub(crate) const fn new(most: u64) -> Self {
        Self {
            most,
            peers: Mutex::new(BTreeMap::new()),
        }
    }

    /// Notes the token that a peer has shown, by name or as a wrong one; returns whether to handle
    /// the request.
    ///
    /// After too many wrong tokens from a peer, only tokens that it has used before are accepted
    /// for the rest of the window: other clients may have the same address.
    pub(crate) fn note(&self, peer: Peer, name: Option<&str>, now: Instant) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains_key(&peer) && peers.len() >= PEERS_MAX {
            forget_one(&mut peers);
        }
        let record = peers.entry(peer).or_insert_with(|| Record {
            since: now,
            wrong: 0,
            known: BTreeSet::new(),
        });
        if now.saturating_duration_since(record.since) >= WINDOW {
            (record.since, record.wrong) = (now, 0);
        }
        let is_heard = record.wrong < self.most;
        match name {
            Some(name) if record.known.contains(name) => return true,
            Some(name) if is_heard => drop(record.known.insert(name.to_owned())),
            Some(_) => {}
            None => record.wrong = record.wrong.saturating_add(1),
        }
        is_heard
    }
}

/// Forgets the peer with the oldest window, first among those that have shown no known token.
fn forget_one(peers: &mut BTreeMap<Peer, Record>) {
    let age = |(_, record): &(&Peer, &Record)| (!record.known.is_empty(), record.since);
    if let Some(peer) = peers.iter().min_by_key(age).map(|(peer, _)| *peer) {
        peers.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::from(IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn after_too_many_tries_only_tokens_used_before_are_looked_up() {
        let (attempts, now) = (Attempts::new(3), Instant::now());
        assert!(attempts.note(peer(1), Some("shop"), now));
        for _ in 0..3 {
            assert!(attempts.note(peer(1), None, now));
        }
        assert!(!attempts.note(peer(1), None, now));
        assert!(!attempts.note(peer(1), Some("desk"), now));
        assert!(attempts.note(peer(1), Some("shop"), now));
        assert!(attempts.note(peer(2), Some("desk"), now));
        let later = now + WINDOW;
        assert!(attempts.note(peer(1), Some("desk"), later));
        assert!(attempts.note(peer(1), None, later));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_keeps_those_with_a_token() {
        let (attempts, now) = (Attempts::new(1), Instant::now());
        assert!(attempts.note(peer(0), Some("shop"), now));
        assert!(attempts.note(peer(0), None, now));
        for number in 1..2 * u32::try_from(PEERS_MAX).unwrap() {
            assert!(attempts.note(peer(number), None, now));
        }
        assert_eq!(attempts.peers.lock().unwrap().len(), PEERS_MAX);
        assert!(attempts.note(peer(0), Some("shop"), now));
    }
}
