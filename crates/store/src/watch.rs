//! The keys that clients watch, and the marks that say that one of them was touched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fail::Fail;
use crate::limits::{FREE_BYTES, WATCHED_KEY_BYTES, WATCHED_KEYS_MAX};
use crate::memory::{Memory, Share};

/// The keys that all clients watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watched(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    marks: BTreeMap<Place, Arc<AtomicBool>>,
    /// The number of the last [`Watch`] that came into the list.
    last: u64,
}

/// Database, key, and the number of the one that watches it: each key of each client is found without a look at the others.
type Place = (usize, Arc<[u8]>, u64);

/// The keys that one client watches. However it ends, they leave the list of all of them before their memory is free again.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    touched: Arc<AtomicBool>,
    /// Database and key, each once, of those that had not expired when the watching began.
    keys: Vec<(usize, Arc<[u8]>)>,
    bytes: usize,
    /// The keys' share of the memory of all clients.
    share: Option<Share>,
    /// The list that they stand in, and under which number.
    list: Option<(Watched, u64)>,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of watched keys, counted once for each client.
    pub(crate) fn len(&self) -> usize {
        self.lock().marks.len()
    }

    /// Sets the marks of clients that watch a key. They are told once: a mark stays set until its
    /// client watches anew.
    pub(crate) fn touch(&self, db: usize, key: &[u8]) {
        let mut list = self.lock();
        if list.marks.is_empty() {
            return;
        }
        let key: Arc<[u8]> = key.into();
        let range = (db, Arc::clone(&key), 0)..=(db, key, u64::MAX);
        let told = list.marks.range(range).map(|(place, mark)| {
            mark.store(true, Ordering::Relaxed);
            place.clone()
        });
        for place in told.collect::<Vec<_>>() {
            list.marks.remove(&place);
        }
    }

    /// The watched keys of a database, each once.
    pub(crate) fn keys_of(&self, db: usize) -> Vec<Arc<[u8]>> {
        let none: Arc<[u8]> = Arc::default();
        let list = self.lock();
        let range = (db, Arc::clone(&none), 0)..(db + 1, none, 0);
        let mut keys: Vec<Arc<[u8]>> = Vec::new();
        for (_, key, _) in list.marks.range(range).map(|(place, _)| place) {
            if keys.last() != Some(key) {
                keys.push(Arc::clone(key));
            }
        }
        keys
    }
}

impl Watch {
    /// Returns whether a key was touched since it is watched.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Returns database and name of each watched key.
    pub(crate) fn keys(&self) -> &[(usize, Arc<[u8]>)] {
        &self.keys
    }

    /// Takes memory for those of `keys` that are not watched yet, and gives them, each once.
    ///
    /// # Errors
    /// When they are too many or there is no memory; then nothing has changed.
    pub(crate) fn reserve<'a>(
        &mut self,
        (list, db): (&Watched, usize),
        keys: &[&'a [u8]],
        memory: &Memory,
    ) -> Result<BTreeSet<&'a [u8]>, Fail> {
        let mut fresh: BTreeSet<&[u8]> = keys.iter().copied().collect();
        if let Some((_, number)) = self.list {
            let list = list.lock();
            fresh.retain(|key| !list.marks.contains_key(&(db, Arc::from(*key), number)));
        }
        if self.keys.len() + fresh.len() > WATCHED_KEYS_MAX {
            return Err(Fail::said("ERR too many keys are watched"));
        }
        let cost = |key: &&[u8]| key.len() + WATCHED_KEY_BYTES;
        let bytes = self.bytes + fresh.iter().map(cost).sum::<usize>();
        if bytes > FREE_BYTES {
            let share = self.share.get_or_insert_with(|| memory.share());
            share.hold(bytes)?;
        }
        self.bytes = bytes;
        Ok(fresh)
    }

    /// Has keys watched that memory was taken for.
    pub(crate) fn add(&mut self, (list, db): (&Watched, usize), keys: BTreeSet<&[u8]>) {
        let mut locked = list.lock();
        let (_, number) = self.list.get_or_insert_with(|| {
            locked.last += 1;
            (list.clone(), locked.last)
        });
        for key in keys {
            let key: Arc<[u8]> = key.into();
            let place = (db, Arc::clone(&key), *number);
            locked.marks.insert(place, Arc::clone(&self.touched));
            self.keys.push((db, key));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((list, number)) = &self.list {
            let mut list = list.lock();
            for (db, key) in self.keys.drain(..) {
                list.marks.remove(&(db, key, *number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::client::Client;
    use crate::commands::{Command, Commands};
    use crate::store::{Options, Store};

    /// A client and the store that it asks.
    struct Asking<'a>(&'a Store, Option<Client>);

    impl Asking<'_> {
        fn say(&mut self, lines: &[&str]) -> String {
            let mut commands = Commands::default();
            for line in lines {
                let mut command = Command::default();
                line.split(' ')
                    .for_each(|word| command.push(word.as_bytes()));
                commands.push(command);
            }
            let mut replies = Vec::new();
            while !commands.is_empty() {
                let (sender, receiver) = channel();
                self.0.ask(self.1.take().unwrap(), commands, move |answer| {
                    drop(sender.send(answer));
                });
                let answer = receiver.recv().unwrap().unwrap();
                replies.extend(answer.bytes);
                (self.1, commands) = (Some(answer.client), answer.rest);
            }
            String::from_utf8(replies).unwrap()
        }

        fn list(&self) -> Watched {
            self.1
                .as_ref()
                .unwrap()
                .watch
                .list
                .as_ref()
                .unwrap()
                .0
                .clone()
        }
    }

    /// Keys stayed in the list of all watched keys until it was next looked through, while their
    /// share of the bound was given back at once. Keys leave the list with their client, and only
    /// then the bound.
    #[test]
    fn a_million_keys_that_were_watched_leave_nothing_behind() {
        let (list, memory) = (Watched::default(), Memory::new(64 << 20));
        for round in 0..1000_u32 {
            let names: Vec<[u8; 8]> = (0..1000_u32)
                .map(|it| (u64::from(round) << 32 | u64::from(it)).to_be_bytes())
                .collect();
            let keys: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
            let mut watch = Watch::default();
            let fresh = watch.reserve((&list, 3), &keys, &memory).unwrap();
            watch.add((&list, 3), fresh);
            assert_eq!(list.len(), 1000);
            assert!(memory.free() < 64 << 20);
        }
        assert_eq!((list.len(), memory.free()), (0, 64 << 20));
    }

    /// No way in which a client can end its watching took its keys out of the list. Each of them
    /// does.
    #[test]
    fn however_a_client_ends_its_watching_its_keys_leave_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("data"), Options::default()).unwrap();
        let mut observer = Asking(&store, Some(store.client()));
        observer.say(&["WATCH observed"]);
        let (list, whole) = (observer.list(), store.memory().free());
        let names: Vec<String> = (0..2000).map(|it| format!("key:{it}")).collect();
        let watch = format!("WATCH {}", names.join(" "));
        for end in [
            "UNWATCH",
            "RESET",
            "MULTI\nEXEC",
            "MULTI\nDISCARD",
            "SET key:7 x\nMULTI\nEXEC",
        ] {
            let mut client = Asking(&store, Some(store.client()));
            client.say(&[&watch]);
            assert_eq!(list.len(), 2001, "{end}");
            assert!(store.memory().free() < whole, "{end}");
            client.say(&end.split('\n').collect::<Vec<_>>());
            assert_eq!((list.len(), store.memory().free()), (1, whole), "{end}");
        }
        let mut client = Asking(&store, Some(store.client()));
        client.say(&[&watch]);
        drop(client);
        assert_eq!((list.len(), store.memory().free()), (1, whole), "it leaves");
    }

    /// `WATCH k k k` was compared with all watchers of `k` each time and counted three times
    /// against the bound. A key counts once for a client, and each client that watches it is told.
    #[test]
    fn a_key_that_is_named_again_counts_once_and_each_client_is_told() {
        let (list, memory) = (Watched::default(), Memory::new(1 << 30));
        let again = vec![&b"k"[..]; WATCHED_KEYS_MAX];
        let mut clients: Vec<Watch> = Vec::new();
        for _ in 0..100 {
            let mut watch = Watch::default();
            for _ in 0..3 {
                let fresh = watch.reserve((&list, 0), &again, &memory).unwrap();
                watch.add((&list, 0), fresh);
            }
            assert_eq!((watch.keys.len(), watch.bytes), (1, 1 + WATCHED_KEY_BYTES));
            clients.push(watch);
        }
        assert_eq!((list.len(), list.keys_of(0).len()), (100, 1));
        assert_eq!(list.keys_of(1).len(), 0);
        list.touch(1, b"k");
        assert!(!clients.iter().any(Watch::is_touched));
        list.touch(0, b"k");
        assert!(clients.iter().all(Watch::is_touched));
        assert_eq!(list.len(), 0);
    }
    /// FLUSHALL looked in the file for each watched key, so that clients who watched many absent
    /// keys made it slow for all. It looks up the fewer of both, and touches the existing keys
    /// alone.
    #[test]
    fn clearing_touches_what_is_there_however_many_watch_and_however_much_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("data"), Options::default()).unwrap();
        let mut other = Asking(&store, Some(store.client()));
        let names = |begin: &str, count: usize, end: &str| -> String {
            let names: Vec<String> = (0..count).map(|it| format!(" {begin}{it}{end}")).collect();
            names.concat()
        };
        for (watched, stored) in [(300, 2), (2, 300)] {
            other.say(&[&format!("MSET here x{}", names("stored", stored, " x"))]);
            let mut watchers = ["here", "gone"].map(|key| {
                let mut client = Asking(&store, Some(store.client()));
                client.say(&[&format!("WATCH {key}{}", names("none", watched, ""))]);
                client
            });
            assert_eq!(other.say(&["FLUSHALL", "DBSIZE"]), "+OK\r\n:0\r\n");
            let [told, left] = &mut watchers;
            let begun = "+OK\r\n+QUEUED\r\n";
            let ended = |client: &mut Asking<'_>| client.say(&["MULTI", "PING", "EXEC"]);
            assert_eq!(ended(told), format!("{begun}*-1\r\n"));
            assert_eq!(ended(left), format!("{begun}*1\r\n+PONG\r\n"));
        }
    }
}
