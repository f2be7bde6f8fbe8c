//! Counts of the connections that have shown a token, and apart from them of those that have not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The open connections.
pub(crate) struct Connections {
    /// A permit for each connection that has shown a token.
    known: Arc<Semaphore>,
    unauthenticated: Mutex<Unauthenticated>,
}

/// Connections that have not shown a token yet, the oldest first.
struct Unauthenticated {
    most: usize,
    next: u64,
    open: BTreeMap<u64, Newcomer>,
}

/// A connection that has not shown a token yet.
struct Newcomer {
    peer: Peer,
    close: Arc<Notify>,
}

/// The origin of a client: its IPv4 address, or its IPv6 network of 64 bits, all of which one
/// client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer(IpAddr);

/// One connection; its permit is released when it is dropped.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    close: Arc<Notify>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// The origin of the client.
    pub(crate) peer: Peer,
}

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        const NETWORK: u128 = u128::MAX << 64;
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & NETWORK).into()),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl Connections {
    pub(crate) fn new(known: usize, unauthenticated: usize) -> Arc<Self> {
        Arc::new(Self {
            known: Arc::new(Semaphore::new(known)),
            unauthenticated: Mutex::new(Unauthenticated {
                most: unauthenticated,
                next: 0,
                open: BTreeMap::new(),
            }),
        })
    }

    /// Adds a connection. If too many have no token, the oldest one of the peer with the most of
    /// them is closed.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Connection {
        let (peer, close) = (Peer::from(address), Arc::new(Notify::new()));
        let mut unauthenticated = locked(&self.unauthenticated);
        if unauthenticated.open.len() >= unauthenticated.most {
            unauthenticated.close_one();
        }
        let number = unauthenticated.next;
        unauthenticated.next = number.wrapping_add(1);
        let newcomer = Newcomer {
            peer,
            close: Arc::clone(&close),
        };
        unauthenticated.open.insert(number, newcomer);
        drop(unauthenticated);
        Connection {
            connections: Arc::clone(self),
            number,
            close,
            permit: Mutex::new(None),
            peer,
        }
    }
}

impl Unauthenticated {
    fn close_one(&mut self) {
        let mut counts = BTreeMap::<Peer, usize>::new();
        for newcomer in self.open.values() {
            *counts.entry(newcomer.peer).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let is_one = |newcomer: &Newcomer| counts.get(&newcomer.peer) == Some(&most);
        let oldest = self.open.iter().find(|(_, newcomer)| is_one(newcomer));
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return;
        };
        if let Some(newcomer) = self.open.remove(&number) {
            newcomer.close.notify_one();
        }
    }
}

impl Connection {
    /// Acquires a permit for a connection that has shown a token; returns whether one was free
    /// within `patience`.
    pub(crate) async fn admit(&self, patience: Duration) -> bool {
        if locked(&self.permit).is_some() {
            return true;
        }
        // A waiting connection has shown a token and is not closed to make room; waiting requests
        // are limited by token.
        locked(&self.connections.unauthenticated)
            .open
            .remove(&self.number);
        let permit = Arc::clone(&self.connections.known).acquire_owned();
        let Ok(Ok(permit)) = timeout(patience, permit).await else {
            return false;
        };
        *locked(&self.permit) = Some(permit);
        true
    }

    /// Waits until the connection must make room for others.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.connections.unauthenticated)
            .open
            .remove(&self.number);
    }
}

/// Locks `mutex` even after a panic, which leaves no value half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unauthenticated(connections: &Connections) -> Vec<u64> {
        locked(&connections.unauthenticated)
            .open
            .keys()
            .copied()
            .collect()
    }

    #[test]
    fn the_peer_with_the_most_makes_room() {
        let connections = Connections::new(1, 4);
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let first = connections.enter(address(1));
        let crowd: Vec<_> = (0..3).map(|_| connections.enter(address(2))).collect();
        let newcomer = connections.enter(address(3));
        assert_eq!(unauthenticated(&connections), [0, 2, 3, 4]);
        drop((crowd, newcomer));
        assert_eq!(unauthenticated(&connections), [0]);
        drop(first);
        assert_eq!(unauthenticated(&connections), [0; 0]);
    }

    #[test]
    fn one_client_has_all_of_its_network() {
        let of = |text: &str| Peer::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
