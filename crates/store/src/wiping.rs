//! Blocks of the file that hold nothing any more, overwritten in the background once something was removed.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use redb::{Database, ReadTransaction, ReadableDatabase as _};

use crate::block_set::BlockSet;
use crate::clock::Stopwatch;
use crate::limits::{WIPE_MILLISECONDS, WIPE_PAUSE_FACTOR, WIPE_RETRY_MILLISECONDS, WIPED_AT_ONCE};
use crate::live::Roots;
use crate::sealed_file::SealedFile;

/// The end of a wiping, and how long it took, measured where it was done: it may be noticed much later.
type Ended = (Stopwatch, Duration, io::Result<()>);

/// The times at which free blocks are wiped: soon after a removal, and at most for a part of the
/// time.
#[derive(Debug)]
pub(crate) struct Wiping {
    /// True if something was removed since the last wiping began.
    due: bool,
    /// True once every block that holds stored data was read since the file was opened.
    has_read_all: bool,
    running: Option<JoinHandle<Ended>>,
    ended: Stopwatch,
    pause: Duration,
}

impl Wiping {
    /// Begins with a file whose free blocks may hold anything.
    pub(crate) fn new() -> Self {
        Self {
            due: true,
            has_read_all: false,
            running: None,
            ended: Stopwatch::start(),
            pause: Duration::ZERO,
        }
    }

    /// Returns a wiping that is under way.
    #[cfg(test)]
    pub(crate) fn under_way(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Self {
        Self {
            running: Some(std::thread::spawn(|| measured(work))),
            ..Self::new()
        }
    }

    /// Notes that something was removed, durably.
    pub(crate) const fn ask(&mut self) {
        self.due = true;
    }

    /// Returns whether [`Self::go_on`] has anything to do.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.running {
            Some(thread) => thread.is_finished(),
            None => self.due && self.ended.elapsed() >= self.pause,
        }
    }

    /// Begins another one where it is time. No transaction may be open, and nothing may have been changed since the last
    /// durable one.
    ///
    /// # Errors
    /// When the file failed, or is not of the form that is known: what was removed may still be in it.
    pub(crate) fn go_on(&mut self, database: &Database, file: &SealedFile) -> io::Result<()> {
        if !self.is_ready() {
            return Ok(());
        }
        self.finish()?;
        if !self.is_ready() {
            return Ok(());
        }
        self.due = false;
        let roots = Roots::of(&file.begin_wiping()?)?;
        // The pages of this commit are not used for others while the transaction lives; its own tables redb does not keep
        // so, and they are few.
        let kept = database.begin_read().map_err(io::Error::other)?;
        let mut live = BlockSet::default();
        roots.mark_system(file, &mut live)?;
        let file = file.clone();
        let thread = std::thread::Builder::new().name("probity-store-wipe".into());
        let work = move || measured(|| wipe(&file, &roots, live, Some(kept)));
        self.running = Some(thread.spawn(work)?);
        Ok(())
    }

    /// Waits for the wiping under way.
    ///
    /// # Errors
    /// As for [`Self::go_on`].
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let Some(thread) = self.running.take() else {
            return Ok(());
        };
        let Ok((ended, took, result)) = thread.join() else {
            return Err(io::Error::other("the thread that wipes ended"));
        };
        self.ended = ended;
        let least = Duration::from_millis(WIPE_MILLISECONDS);
        self.pause = least.max(took.saturating_mul(WIPE_PAUSE_FACTOR));
        self.has_read_all |= result.is_ok();
        result
    }

    /// Returns whether every block that holds stored data was read since the file was opened.
    pub(crate) const fn has_read_all(&self) -> bool {
        self.has_read_all
    }

    /// Notes that a wiping came to nothing, and has the next one wait for a while.
    pub(crate) fn put_off(&mut self) {
        self.due = true;
        self.ended = Stopwatch::start();
        self.pause = Duration::from_millis(WIPE_RETRY_MILLISECONDS);
    }

    /// Wipes the remaining free blocks, once the database is closed.
    ///
    /// # Errors
    /// As for [`Self::go_on`].
    pub(crate) fn end(&mut self, file: &SealedFile) -> io::Result<()> {
        self.finish()?;
        if !self.due {
            return Ok(());
        }
        let roots = Roots::of(&file.begin_wiping()?)?;
        let mut live = BlockSet::default();
        roots.mark_system(file, &mut live)?;
        wipe(file, &roots, live, None)
    }
}

/// Waits for the wiping under way. It would go on in a file that another process may have opened
/// since. Its error is told by [`Wiping::finish`]: a wiping is dropped under way only where the
/// store has failed and tells of that.
impl Drop for Wiping {
    fn drop(&mut self) {
        let _ended = self.finish();
    }
}

/// Carries out a wiping.
fn measured(work: impl FnOnce() -> io::Result<()>) -> Ended {
    let began = Stopwatch::start();
    let result = work();
    (Stopwatch::start(), began.elapsed(), result)
}

/// Overwrites the blocks that neither `live` nor a table of the commit holds.
fn wipe(
    file: &SealedFile,
    roots: &Roots,
    mut live: BlockSet,
    kept: Option<ReadTransaction>,
) -> io::Result<()> {
    let wiped = roots.mark_user(file, &mut live).and_then(|()| {
        drop(kept);
        let mut start = 0;
        while start < file.blocks()? {
            file.wipe(start..start + WIPED_AT_ONCE, &live)?;
            start += WIPED_AT_ONCE;
        }
        Ok(())
    });
    let ended = file.end_wiping();
    let result = wiped.and(ended);
    if result.is_err() {
        // Zeros that were not synced may never reach the disk.
        file.forget_wiping()?;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::directory::tests::{ask, is_there};
    use crate::store::{Options, Store, Sync};

    /// The pause came from the moment at which the end was noticed, which was up to a commit later: with a commit a second,
    /// removed data stayed for 20 seconds.
    #[test]
    fn a_wiping_whose_end_is_noticed_late_has_no_longer_pause() {
        let mut wiping = Wiping::under_way(|| Ok(()));
        let began = Stopwatch::start();
        while began.elapsed() < Duration::from_millis(2 * WIPE_MILLISECONDS) {
            std::thread::yield_now();
        }
        assert!(wiping.is_ready());
        wiping.finish().unwrap();
        assert_eq!(wiping.pause, Duration::from_millis(WIPE_MILLISECONDS));
        assert!(wiping.is_ready(), "the pause is over");
    }

    /// A wiping that came to nothing is done later.
    #[test]
    fn a_wiping_that_was_put_off_stays_due() {
        let mut wiping = Wiping::under_way(|| Err(io::ErrorKind::StorageFull.into()));
        wiping.due = false;
        wiping.finish().unwrap_err();
        wiping.put_off();
        assert!(wiping.due && !wiping.is_ready());
        wiping.pause = Duration::ZERO;
        assert!(wiping.is_ready());
    }

    /// Waits until no page of the store's files holds `words`.
    fn gone(path: &Path, words: &[u8]) {
        let began = Stopwatch::start();
        while is_there(path, words) {
            assert!(began.elapsed() < Duration::from_mins(1), "it stays");
            std::thread::yield_now();
        }
    }

    /// Expects that no wiping failed: the file is still the first.
    fn not_rewritten(path: &Path) {
        assert!(path.join("store.1.sealed").exists());
    }

    /// Freed pages kept removed data until an operator rewrote the store. A removal has them
    /// overwritten.
    #[test]
    fn what_was_removed_is_soon_in_no_page_of_any_file() {
        for sync in [Sync::Always, Sync::EverySecond] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("data");
            let options = Options {
                sync,
                ..Options::default()
            };
            let store = Store::open(&path, options.clone()).unwrap();
            let long = b"long-marker".repeat(20_000);
            ask(&store, &[b"SET", b"kept", b"kept-marker"]);
            ask(&store, &[b"SET", b"name-marker", b"short-marker"]);
            ask(&store, &[b"SET", b"text", &long]);
            ask(
                &store,
                &[
                    b"HSET",
                    b"h",
                    b"field-marker",
                    b"value-marker",
                    b"other",
                    b"stays",
                ],
            );
            ask(&store, &[b"RPUSH", b"l", b"item-marker", b"stays"]);
            ask(&store, &[b"ZADD", b"z", b"1", b"scored-marker"]);
            ask(&store, &[b"SET", b"brief", b"expired-marker", b"PX", b"1"]);
            ask(&store, &[b"GET", b"kept"]);
            ask(&store, &[b"DEL", b"name-marker", b"text", b"z"]);
            ask(&store, &[b"HDEL", b"h", b"field-marker"]);
            ask(&store, &[b"LPOP", b"l"]);
            for words in [
                &b"name-marker"[..],
                b"short-marker",
                b"long-marker",
                b"field-marker",
                b"value-marker",
                b"item-marker",
                b"scored-marker",
                b"expired-marker",
            ] {
                gone(&path, words);
            }
            // A store that is stopped at once is wiped too.
            ask(&store, &[b"SET", b"last", b"last-marker"]);
            ask(&store, &[b"DEL", b"last"]);
            store.close().unwrap();
            assert!(!is_there(&path, b"last-marker"));
            let store = Store::open(&path, options).unwrap();
            assert_eq!(ask(&store, &[b"GET", b"kept"]), b"$11\r\nkept-marker\r\n");
            assert_eq!(ask(&store, &[b"HGET", b"h", b"other"]), b"$5\r\nstays\r\n");
            assert_eq!(ask(&store, &[b"DBSIZE"]), b":3\r\n");
            not_rewritten(&path);
        }
    }

    /// A store that was killed before its free blocks were wiped is wiped when it is opened.
    #[test]
    fn what_a_kill_left_is_wiped_at_the_next_opening() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("data"), folder.path().join("copy"));
        let store = Store::open(&path, Options::default()).unwrap();
        ask(&store, &[b"SET", b"a", b"removed-marker"]);
        ask(&store, &[b"SET", b"a", b"kept"]);
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let key = |name| folder.path().join(name);
        std::fs::copy(key("data.key"), key("copy.key")).unwrap();
        assert!(is_there(&copy, b"removed-marker"));
        let store = Store::open(&copy, Options::default()).unwrap();
        gone(&copy, b"removed-marker");
        assert_eq!(ask(&store, &[b"GET", b"a"]), b"$4\r\nkept\r\n");
    }

    /// Blocks are wiped beside commands. No wiping takes stored data, after a copy as a crash
    /// leaves it and after a closing.
    #[test]
    fn a_wiping_beside_commands_takes_nothing_that_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        for (round, sync) in [Sync::Always, Sync::EverySecond].into_iter().enumerate() {
            let path = folder.path().join(format!("data{round}"));
            let options = Options {
                sync,
                cache_bytes: 1 << 20,
                ..Options::default()
            };
            let mut model = std::collections::BTreeMap::new();
            let mut seed = 42_u64;
            for opening in 0..4 {
                let store = Store::open(&path, options.clone()).unwrap();
                for _ in 0..600 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let number = seed >> 40;
                    let key = format!("key{}", number % 64).into_bytes();
                    if number.is_multiple_of(3) {
                        ask(&store, &[b"DEL", &key]);
                        model.remove(&key);
                    } else {
                        let length = usize::try_from(number % 70_000).unwrap();
                        let value = vec![b'a' + u8::try_from(number % 26).unwrap(); length];
                        ask(&store, &[b"SET", &key, &value]);
                        model.insert(key, value);
                    }
                }
                if opening % 2 == 0 {
                    store.close().unwrap();
                } else {
                    drop(store);
                }
                let store = Store::open(&path, options.clone()).unwrap();
                for number in 0..64 {
                    let key = format!("key{number}").into_bytes();
                    let reply = ask(&store, &[b"GET", &key]);
                    match model.get(&key) {
                        Some(value) => assert!(reply.ends_with(&[value, &b"\r\n"[..]].concat())),
                        None => assert_eq!(reply, b"$-1\r\n"),
                    }
                }
                not_rewritten(&path);
            }
        }
    }
}
