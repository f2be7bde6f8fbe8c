//! Losses of keys that were accepted: the entries given up with them, and no others.

use std::fs;

use probity_format::slot::SLOT_BYTES;
use probity_log::prove::ProveError;
use probity_log::reader::Reader;
use probity_log::verify::{VerifyOptions, verify};
use probity_log::{Log, LogError, Repair, StreamName};

use super::{
    SLOTS, accept, append, copy_folder, damage, killed, options, root, subjects, verified,
};

/// A key that was put back after its loss was accepted was destroyed: readers called that the
/// accepted loss, and ended as if all were well.
#[test]
fn a_key_that_goes_after_an_accepted_loss_is_no_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |slots| slots.truncate(2 * SLOT_BYTES));
    accept(&path).close().unwrap();
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert"]);
    fs::write(path.join(SLOTS), good).unwrap();
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl"]);
    let log = Log::open(&path, &root(), options()).unwrap();
    log.close().unwrap();
    assert_eq!(subjects(&path).unwrap(), ["anna", "bert", "carl"]);
    let whole = fs::read(path.join(SLOTS)).unwrap();
    for number in [1, 2] {
        let mut slots = whole.clone();
        let from = number * SLOT_BYTES;
        slots.get_mut(from..from + SLOT_BYTES).unwrap().fill(0);
        fs::write(path.join(SLOTS), slots).unwrap();
        let unread = subjects(&path);
        assert!(matches!(unread, Err(LogError::Damaged { .. })), "{number}");
        assert!(!verified(&path).is_intact(), "{number}");
        let reader = Reader::open(&path, &root()).unwrap();
        let proved = reader.prove(&StreamName::default(), number.try_into().unwrap(), None);
        let refused = proved.map(|proof| proof.proved.index).unwrap_err();
        assert!(!matches!(refused, ProveError::GivenUp { .. }), "{refused}");
    }
}

/// A damaged frame among those whose keys were given up hid whom it and those behind it name: their keys,
/// put back, were set aside as such that do not open.
#[test]
fn no_key_put_back_is_set_aside_for_a_frame_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |slots| slots.truncate(SLOT_BYTES));
    accept(&path).close().unwrap();
    let steps = 40;
    let mut refused = 0;
    for step in 0..steps {
        let copy = folder.path().join(format!("copy{step}"));
        copy_folder(&path, &copy);
        copy_folder(&path.with_extension("heads"), &copy.with_extension("heads"));
        let mut segments = fs::read_dir(copy.join("streams/default/segments")).unwrap();
        let segment = segments.next().unwrap().unwrap().path();
        let whole = fs::read(&segment).unwrap();
        let mut damaged = whole.clone();
        *damaged.get_mut(whole.len() * step / steps).unwrap() ^= 1;
        fs::write(&segment, damaged).unwrap();
        let accepted = fs::read(copy.join(SLOTS)).unwrap();
        let behind = accepted.get(good.len()..).unwrap_or_default();
        let slots = [&good, behind].concat();
        fs::write(copy.join(SLOTS), &slots).unwrap();
        if let Err(error) = Log::open(&copy, &root(), options()) {
            refused += 1;
            assert!(matches!(error, LogError::Broken { .. }), "{error}");
            assert_eq!(fs::read(copy.join(SLOTS)).unwrap(), slots, "{error}");
        }
        fs::write(&segment, &whole).unwrap();
        let log = Log::open(&copy, &root(), options()).unwrap();
        log.close().unwrap();
        assert_eq!(subjects(&copy).unwrap(), ["anna", "bert", "carl"], "{step}");
    }
    assert!(refused > steps / 4, "{refused}");
}

/// A verification listed the slots that an accepted loss had left void beside the damaged one, and
/// advised to open the log for writing, which refuses it.
#[test]
fn a_verification_lists_the_damaged_slot_and_no_void_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    damage(&path, |slots| slots.truncate(2 * SLOT_BYTES));
    accept(&path).close().unwrap();
    let told = || format!("{:?}", verified(&path).faults);
    // Without the root key, only the labels show. Slot 2 is void before a later subject and behind.
    for later in [false, true] {
        if later {
            let log = Log::open(&path, &root(), options()).unwrap();
            append(&log, "dora");
            log.close().unwrap();
        }
        let newest = fs::read(path.join(SLOTS)).unwrap();
        let mut slots = newest.clone();
        slots.get_mut(..SLOT_BYTES).unwrap().fill(0);
        fs::write(path.join(SLOTS), slots).unwrap();
        let options = VerifyOptions::default();
        let keyless = format!("{:?}", verify(&path, &options).unwrap().faults);
        for told in [told(), keyless] {
            assert!(told.contains("subjects/slots, slot 0"), "{told}");
            assert!(!told.contains("slot 2"), "{told}");
            assert!(!told.contains("takes them back"), "{told}");
        }
        assert!(Log::open(&path, &root(), super::options()).is_err());
        fs::write(path.join(SLOTS), newest).unwrap();
        assert_eq!(verified(&path).faults, []);
    }
    // A shorter file that lacks void slots alone is mended by an opening.
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let path = killed(&other);
    damage(&path, |slots| slots.truncate(2 * SLOT_BYTES));
    let short = fs::read(path.join(SLOTS)).unwrap();
    accept(&path).close().unwrap();
    fs::write(path.join(SLOTS), short).unwrap();
    let told = format!("{:?}", verified(&path).faults);
    assert!(told.contains("takes them back"), "{told}");
    Log::open(&path, &root(), options())
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(verified(&path).faults, []);
}

/// Each slot that could not be used was announced by itself, and each announcement wrote all of
/// those before.
#[test]
fn many_slots_without_a_key_are_announced_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = killed(folder.path());
    let good = damage(&path, |stored| {
        stored.truncate(2 * SLOT_BYTES);
        stored.resize(3000 * SLOT_BYTES, 0);
        stored.resize(6000 * SLOT_BYTES, 7);
    });
    let log = accept(&path);
    let said: Vec<String> = log.repairs().iter().map(Repair::line).collect();
    let of = |kind: &str| said.iter().filter(|it| it.starts_with(kind)).count();
    assert_eq!((of("zeros "), of("slots ")), (1, 1), "{said:?}");
    log.close().unwrap();
    let copies = fs::read_dir(path.join("set-aside")).unwrap().count();
    assert_eq!(copies, 1);
    assert_eq!(verified(&path).faults, []);
    // Keys that come back add one slot, and the void ones that stay so are not news.
    let before = fs::read(path.join(SLOTS)).unwrap().len();
    let mut back = fs::read(path.join(SLOTS)).unwrap();
    back.splice(..good.len(), good);
    fs::write(path.join(SLOTS), back).unwrap();
    let log = Log::open(&path, &root(), options()).unwrap();
    let said: Vec<String> = log.repairs().iter().map(Repair::line).collect();
    let has = |kind: &str| said.iter().any(|it| it.starts_with(kind));
    assert!(has("returned ") && !has("zeros "), "{said:?}");
    log.close().unwrap();
    let after = fs::read(path.join(SLOTS)).unwrap().len();
    assert_eq!(after, before + SLOT_BYTES);
}
