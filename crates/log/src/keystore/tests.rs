//! The signing key beside a journal that moves on.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use probity_format::keys::Secret;

use super::*;
use crate::config::Options;
use crate::history::{read_geometry, read_history};
use crate::log::Log;
use crate::log_location::LogLocation;
use crate::storage::Memory;

const ORIGIN: &str = "example.com/audit";

fn root() -> RootKey {
    RootKey::new(Secret::new([7; 32]))
}

/// A log that was created and closed, with its keys.
fn place() -> (LogLocation, Files, Geometry, MasterKey, WrappingKey) {
    let places = LogLocation::on(Arc::new(Memory::new()), Arc::new(Memory::new()), "the log");
    let clock = Arc::new(crate::clock::SystemClock::new());
    let config = probity_format::stream::StreamConfig::default();
    let log = Log::create_at(&places, ORIGIN, &root(), config, Options::default(), clock);
    log.unwrap().close().unwrap();
    let files = Files::of_log(&places, &Options::default());
    let geometry = read_geometry(&files, "the log").unwrap();
    let (master, wrapping) = KeyStore::open_for_reading(&files, &root(), &geometry).unwrap();
    (places, files, geometry, master, wrapping)
}

fn open_again(places: &LogLocation) {
    let clock = Arc::new(crate::clock::SystemClock::new());
    let log = Log::open_at(places, &root(), Options::default(), clock);
    log.unwrap().close().unwrap();
}

/// `keys status` beside a writer read the journal, then the key that the writer had put there
/// meanwhile, and called a sound log rolled back.
#[test]
fn a_key_that_moved_on_after_the_journal_was_read_is_read_again() {
    let (places, files, geometry, master, wrapping) = place();
    let read = || read_history(&files, &geometry, Some(&master));
    let before = RefCell::new(Some(read().unwrap()));
    open_again(&places);
    let reads = Cell::new(0);
    let keys = (&files, &wrapping, ORIGIN);
    let (state, _) = SigningKeyState::settled(keys, || {
        reads.set(reads.get() + 1);
        before.borrow_mut().take().map_or_else(read, Ok)
    })
    .unwrap();
    assert_eq!(state, SigningKeyState::Current);
    assert_eq!(reads.get(), 2);
}

/// Either was said to be an older copy, and the advice was to put both back: that overwrote the
/// newer one.
#[test]
fn it_is_said_whether_the_key_or_the_journal_is_older() {
    let (places, files, geometry, master, wrapping) = place();
    let read = || read_history(&files, &geometry, Some(&master));
    let before = read().unwrap();
    let key = files.read(SIGNING, KEY_FILE_BYTES_MAX).unwrap().unwrap();
    open_again(&places);
    let state = |history: &History| SigningKeyState::read(&files, &wrapping, ORIGIN, history);
    let newer = state(&before).unwrap();
    assert_eq!(newer, SigningKeyState::Uncertified);
    assert!(newer.fault().unwrap().contains(advice::NEWER_JOURNAL));
    files.replace(SIGNING, &key).unwrap();
    let older = state(&read().unwrap()).unwrap();
    assert_eq!(older, SigningKeyState::Older);
    assert!(older.fault().unwrap().contains(advice::SIGNING_KEY));
}
