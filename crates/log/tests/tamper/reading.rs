//! Readers get all signed entries, or an error.

use std::collections::BTreeMap;

use probity_log::reader::{Damage, Filter, Found, Reader};
use probity_log::verify::FaultClass;
use probity_log::{LogError, LogLocation};

use crate::kinds::all;
use crate::random::Random;
use crate::world::{Look, Scene, World, root};

/// Every entry as it is read, by stream and index.
type Entries = BTreeMap<(String, u64), Vec<u8>>;

fn take(entries: &mut Entries, found: &Found<'_>) {
    let entry = &found.entry;
    let text = format!(
        "{:?} {} {:?} {:?} {}",
        entry.time,
        entry.action,
        entry.key,
        entry.payload,
        entry.subjects.as_joined()
    );
    entries.insert((found.stream.to_string(), found.index), text.into_bytes());
}

fn whole(scene: &Scene<'_>) -> Result<Entries, LogError> {
    let places = LogLocation::new(&scene.log(), None);
    let reader = Reader::open_at(&places, &root())?;
    let mut entries = Entries::new();
    let read = reader.read(&Filter::default(), &mut |found| {
        take(&mut entries, found);
        Ok::<(), LogError>(())
    });
    let read = read.map(|()| entries);
    check_iterator(&reader, &read);
    read
}

/// An iterator gives what a visitor gets, and ends with its error and nothing behind that.
fn check_iterator(reader: &Reader, read: &Result<Entries, LogError>) {
    let mut given = Entries::new();
    let mut error = None;
    let mut found = reader.iter(&Filter::default());
    for found in found.by_ref() {
        assert!(error.is_none(), "something came behind {error:?}");
        match found {
            Ok(found) => take(&mut given, &found.found()),
            Err(refused) => error = Some(refused),
        }
    }
    assert!(found.next().is_none(), "it began again behind {error:?}");
    match (read, error) {
        (Ok(entries), None) => assert!(given == *entries, "others than a visitor gets"),
        (Err(read), Some(error)) => assert_eq!(format!("{error:?}"), format!("{read:?}")),
        (read, error) => panic!("a visitor is told {:?}, not {error:?}", read.as_ref().err()),
    }
}

fn damaged(scene: &Scene<'_>) -> Result<(Entries, Damage), LogError> {
    let places = LogLocation::new(&scene.log(), None);
    let mut entries = Entries::new();
    let reader = Reader::open_damaged(&places, &root())?;
    let damage = reader.read_damaged(&Filter::default(), &mut |found| {
        take(&mut entries, found);
        Ok::<(), LogError>(())
    })?;
    Ok((entries, damage))
}

/// Damage to a file that no reader needs: verification reports it, and all entries are read.
const NEEDLESS: &str = "a bit of an older partial tile or bundle";

/// UX 1: the reader ignored why reading had ended. A log damaged in the middle gave half of its
/// entries, or none, as if there were no others. After every kind of attack it must give all of
/// them or refuse, and behind the damage report the missing ones.
#[test]
fn after_every_kind_of_attack_all_entries_are_read_or_damage_is_told() {
    let world = World::new();
    let mut scene = world.scene();
    let intact = whole(&scene).unwrap();
    assert_eq!(
        damaged(&scene).unwrap(),
        (intact.clone(), Damage::default())
    );
    let mut refused = 0;
    for (number, kind) in all().into_iter().enumerate() {
        {
            let run = number % 3;
            let mut random = Random::new((number as u64) << 8 | run as u64);
            (kind.attack)(&mut scene, &mut random);
            let is_foreseen = scene.since.is_some() || kind.look == Look::Anchor;
            scene.since = None;
            let is_alarm = scene.verify(Look::Keyless).is_ok_and(|report| {
                let mut faults = report.faults.iter();
                // Damage to the slots of subjects counts where an entry needs the key: then the
                // reader finds it itself.
                faults.any(|fault| {
                    fault.class != FaultClass::Unknown && !fault.place.starts_with("subjects/")
                })
            });
            let context = format!("{}, run {run}", kind.name);
            match whole(&scene) {
                // A reader who knows nothing of the log cannot detect another log, or an older copy
                // of everything.
                Ok(_) if is_foreseen && !is_alarm => {}
                Ok(entries) => {
                    assert!(
                        !is_alarm || kind.name == NEEDLESS,
                        "{context}: read though verification finds damage"
                    );
                    assert!(entries == intact, "{context}: other entries were read");
                }
                Err(error) => {
                    refused += 1;
                    told(&error, &context);
                    check_rest(&scene, &intact, is_foreseen, &context);
                }
            }
            scene.undo();
        }
    }
    assert!(refused > 80, "{refused} attacks were refused");
}

fn told(error: &LogError, context: &str) {
    let is_told = matches!(
        error,
        LogError::Damaged { .. }
            | LogError::Broken { .. }
            | LogError::RolledBack { .. }
            // Without its geometry a folder is none, or another log, or one of another version.
            | LogError::NotALog { .. }
            | LogError::Version { .. }
            | LogError::WrongKey
    );
    assert!(is_told, "{context}: {error:?}");
}

/// Reading past the damage must report it, and count the missing entries.
fn check_rest(scene: &Scene<'_>, intact: &Entries, is_foreseen: bool, context: &str) {
    let Ok((entries, damage)) = damaged(scene) else {
        return;
    };
    assert!(!damage.is_none(), "{context}: damage was passed over");
    if is_foreseen {
        return;
    }
    let missing = damage.missing();
    let left_out = intact.keys().filter(|key| !entries.contains_key(*key));
    let left_out = u64::try_from(left_out.count()).unwrap();
    assert!(
        missing.is_least || missing.entries >= left_out,
        "{context}: {left_out} entries are gone, {missing}"
    );
}

/// UX 1 by its own example: one bit in the middle of a stream silently cost half of its entries.
/// Now it costs the entries of its frame, and they are counted.
#[test]
fn a_damaged_frame_costs_its_own_entries_and_they_are_counted() {
    let world = World::new();
    let mut scene = world.scene();
    let intact = whole(&scene).unwrap();
    for stream in ["default", "erasable"] {
        let records = world.records[stream].clone();
        for place in [0, records.len() / 2, records.len() - 1] {
            let record = records[place];
            let segment = probity_format::segment::segment_file_name(record.segment);
            scene.change(&format!("log/streams/{stream}/{segment}"), |bytes| {
                bytes[record.end() as usize - 40] ^= 1;
            });
            let Err(LogError::Damaged { missing, place, .. }) = whole(&scene) else {
                panic!("frame {} of {stream} was read", record.frame);
            };
            assert_eq!(missing.entries, u64::from(record.entries), "{place}");
            assert!(!missing.is_least);
            let frame = format!("frame {} ", record.frame);
            assert!(place.contains(&frame), "{place}");
            let (entries, damage) = damaged(&scene).unwrap();
            assert_eq!(entries.len() + record.entries as usize, intact.len());
            assert_eq!(damage.gaps.len(), 1);
            let gap = &damage.gaps[0];
            assert_eq!((gap.first_frame, gap.frames), (record.frame, 1));
            assert_eq!(gap.first_entry, record.first_entry);
            assert_eq!(gap.missing.entries, u64::from(record.entries));
            scene.undo();
        }
    }
}

/// UX 1: a segment that was removed, or whose header was damaged, gave no entry at all and no
/// error.
#[test]
fn a_segment_gone_costs_its_entries_and_a_damaged_header_costs_none() {
    let world = World::new();
    let mut scene = world.scene();
    let intact = whole(&scene).unwrap();
    let name = "log/streams/default/segments/00000000000000000000.seg";
    let records = world.records["default"].iter();
    let lost = records.filter(|record| record.segment == 0);
    let lost: u64 = lost.map(|record| u64::from(record.entries)).sum();
    let attacks: [fn(&mut Scene<'_>, &str); 3] = [
        |scene, name| scene.remove(name),
        |scene, name| scene.write(name, b""),
        |scene, name| scene.change(name, |bytes| bytes.truncate(30)),
    ];
    for attack in attacks {
        attack(&mut scene, name);
        assert!(
            matches!(whole(&scene), Err(LogError::Damaged { missing, .. }) if missing.entries == lost)
        );
        let (entries, damage) = damaged(&scene).unwrap();
        assert_eq!(entries.len() as u64 + lost, intact.len() as u64);
        assert_eq!(damage.missing().entries, lost);
        scene.undo();
    }
    scene.change(name, |bytes| bytes[20] ^= 1);
    assert!(
        matches!(whole(&scene), Err(LogError::Damaged { missing, .. }) if missing.entries == 0)
    );
    let (entries, damage) = damaged(&scene).unwrap();
    assert_eq!(entries, intact);
    assert!(!damage.is_none());
}
