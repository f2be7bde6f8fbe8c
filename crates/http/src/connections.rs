//! Connections counted: those that have shown a token, and apart from them those that have not.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The connections that are open.
pub(crate) struct Connections {
    /// A permit for each connection that has shown a token.
    known: Arc<Semaphore>,
    unauthenticated: Mutex<Unauthenticated>,
}

/// Connections that have not shown a token yet, from the oldest on.
struct Unauthenticated {
    most: usize,
    next: u64,
    open: BTreeMap<u64, Newcomer>,
}

/// One that has not shown a token yet.
struct Newcomer {
    peer: Peer,
    close: Arc<Notify>,
}

/// Where a client comes from: its address, or of IPv6 the network of 64 bits, as one client has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer(IpAddr);

/// One connection; it frees its place when it is dropped.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    number: u64,
    close: Arc<Notify>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    /// Where the client comes from.
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

    /// Takes a connection in. Where there are too many without a token, the oldest one of the peer with the most of them
    /// is closed.
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
            place: Mutex::new(None),
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
    /// Gives the connection a place among those that have shown a token; whether there was one within `patience`.
    pub(crate) async fn admit(&self, patience: Duration) -> bool {
        if locked(&self.place).is_some() {
            return true;
        }
        // Whoever waits has shown a token and is not closed to make room; waiting requests are limited by token.
        locked(&self.connections.unauthenticated)
            .open
            .remove(&self.number);
        let place = Arc::clone(&self.connections.known).acquire_owned();
        let Ok(Ok(place)) = timeout(patience, place).await else {
            return false;
        };
        *locked(&self.place) = Some(place);
        true
    }

    /// Waits until the connection is to make room for others.
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

/// A panic between lock and unlock leaves nothing by half.
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
