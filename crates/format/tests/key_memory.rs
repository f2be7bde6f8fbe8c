//! Searches memory for keys: a move copies none, and the heap holds none after the drop.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test that cannot go on has failed, and looks at memory piece by piece"
)]

use std::collections::HashMap;
use std::fs::{File, read_to_string};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use probity_format::Version;
use probity_format::keys::{EpochSalt, MasterKey, RootKey, Secret, SectionKey, SubjectKey};
use probity_format::slot::{Slot, SlotLabel, SubjectName, seal_slot};
use probity_format::stream::StreamId;
use probity_format::wrap::WrappedKind;

/// Number of bytes of memory read at once.
const PIECE: usize = 1 << 20;
/// Length of the searched half of a key, in bytes.
const HALF: usize = 16;
/// Number of keys in a map, so many that its table is reallocated several times.
const KEYS: u16 = 200;

/// Computes byte `place` of key `number`, so that the test itself holds no copy of a key.
fn byte(number: u16, place: usize) -> u8 {
    // Every byte of every key has its own counter.
    let counter = u64::from(number) * 32 + place as u64 + 1;
    let mixed = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 33) as u8
}

fn secret(number: u16) -> Secret {
    let filled = Secret::filled(|bytes| {
        for (place, out) in bytes.iter_mut().enumerate() {
            *out = byte(number, place);
        }
        Ok::<(), ()>(())
    });
    filled.unwrap()
}

/// Returns whether `bytes` are one half of key `number`. The allocator overwrites the beginning of
/// freed memory, so halves are searched.
fn is_half(bytes: &[u8], number: u16) -> bool {
    let are = |from: usize| {
        let mut found = bytes.iter().zip(from..);
        found.all(|(found, place)| *found == byte(number, place))
    };
    are(0) || are(HALF)
}

/// Returns the writable memory of this process, without the main stack and the stack of `local`.
fn writable(local: &u8) -> Vec<Range<u64>> {
    let here = std::ptr::from_ref(local).addr() as u64;
    let maps = read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        let is_wanted = rest.starts_with("rw") && !rest.ends_with("[stack]");
        (is_wanted && !range.contains(&here)).then_some(range)
    };
    maps.lines().filter_map(parse).collect()
}

/// Counts the halves of key `number` on the heap.
fn copies(number: u16) -> usize {
    let local = 0;
    let memory = File::open("/proc/self/mem").unwrap();
    let mut piece = vec![0; PIECE];
    let mut found = 0;
    for range in writable(&local) {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(PIECE as u64) as usize;
            // The buffer itself is memory of this process too.
            piece.fill(0);
            if memory.read_exact_at(&mut piece[..length], at).is_err() {
                break;
            }
            let windows = piece[..length].windows(HALF);
            found += windows.filter(|window| is_half(window, number)).count();
            // A match across two pieces is found in the second.
            let next = if length == PIECE {
                PIECE - HALF + 1
            } else {
                length
            };
            at += next as u64;
        }
    }
    piece.fill(0);
    found
}

fn place(bytes: &[u8; 32]) -> usize {
    std::ptr::from_ref(bytes).addr()
}

#[test]
fn a_move_leaves_a_key_where_it_is() {
    // Other keys than those of the other test.
    let first = secret(1_000);
    let before = place(first.expose());
    let boxed = Box::new(SubjectKey::new(first));
    let mut keys = vec![*boxed];
    keys.extend((1_001..1_000 + KEYS).map(|number| SubjectKey::new(secret(number))));
    assert_eq!(place(keys[0].secret().expose()), before);
    let places: Vec<usize> = keys
        .iter()
        .map(|key| place(key.secret().expose()))
        .collect();
    let mut map = HashMap::new();
    for (number, key) in keys.into_iter().enumerate() {
        map.insert(number, key);
    }
    for (number, before) in places.into_iter().enumerate() {
        assert_eq!(place(map[&number].secret().expose()), before);
    }
    let section = SectionKey::from_bytes(secret(1_001).expose());
    let (key, salt) = (place(section.expose()), place(section.salt_key()));
    let moved = std::thread::spawn(move || section).join().unwrap();
    assert_eq!(
        (place(moved.expose()), place(moved.salt_key())),
        (key, salt)
    );
}

#[test]
fn nothing_of_a_key_is_left_on_the_heap() {
    let root = RootKey::new(secret(201));
    assert!(copies(201) > 0, "the search finds a key that is there");
    let again = RootKey::from_text(&root.to_text()).unwrap();
    let wrapping = again.wrapping_key(&[2; 32]);
    let label = SlotLabel {
        pseudonym: [5; 16],
        durable: 0,
    };
    let mut known = HashMap::new();
    for number in 0..KEYS {
        let key = SubjectKey::new(secret(number));
        let slot = seal_slot(&wrapping, 3, &label, &key, "anna", [4; 12]).unwrap();
        let opened = Slot::parse(Version::V3, &slot)
            .unwrap()
            .open(&wrapping, 3)
            .unwrap();
        known.insert(SubjectName::new(&number.to_string()), opened.key);
    }
    let wrapped = wrapping
        .wrap(WrappedKind::Master, b"m", &secret(202), [3; 12])
        .unwrap();
    let master = MasterKey::new(
        wrapping
            .unwrap(WrappedKind::Master, b"m", &wrapped)
            .unwrap(),
    );
    let stream = StreamId::from_bytes([6; 32]);
    let epoch = master.epoch_key(&stream, 1, &EpochSalt::V3([1; 16]));
    drop(epoch.section_key(&[0; 32], 1, 1));
    let keys: Vec<&SubjectKey> = known.values().take(3).collect();
    drop(SubjectKey::section_key(
        &keys,
        Version::V3,
        &stream,
        &[0; 32],
        1,
        1,
    ));
    drop((root, again, wrapping, known, master, epoch));
    for number in (0..KEYS).step_by(13).chain(200..=202) {
        assert_eq!(copies(number), 0, "key {number}");
    }
}
