//! The stream `heads` and the journal confirm each other: a change to one shows in the other,
//! without any key and with the root key.

use probity_format::checkpoint::Checkpoint;
use probity_format::row::{decode_row, encode_row, row_bytes};
use probity_format::tree::leaf_hash;
use probity_log::verify::FaultClass;
use probity_log::{Log, LogError};

use crate::thief::{Stolen, stream_origin};
use crate::world::{LONG, Look, Scene, World, append, options, root};

/// One attack: its name, the class and stream that both verifications must report, and the change.
type Attack = (&'static str, FaultClass, &'static str, fn(&mut Scene<'_>));

const ATTACKS: [Attack; 13] = [
    ("heads deleted", FaultClass::Missing, "heads", |s| {
        s.remove("log/streams/heads");
    }),
    (
        "heads and second copy deleted",
        FaultClass::Rollback,
        "heads",
        |s| {
            s.remove("log/streams/heads");
            s.remove("log.heads/heads");
        },
    ),
    ("heads rolled back", FaultClass::Rollback, "heads", |s| {
        roll_back(s, "heads");
    }),
    (
        "heads rolled back with second copy",
        FaultClass::Rollback,
        "heads",
        |s| {
            roll_back(s, "heads");
            older_copy(s, "heads");
        },
    ),
    (
        "journal rolled back with second copy",
        FaultClass::Rollback,
        "journal",
        |s| {
            roll_back(s, "journal");
            older_copy(s, "journal");
        },
    ),
    (
        "journal rolled back, all second copies gone",
        FaultClass::Rollback,
        "journal",
        |s| {
            roll_back(s, "journal");
            s.remove("log.heads");
        },
    ),
    (
        "heads of one stream made smaller",
        FaultClass::Journal,
        "heads",
        |s| {
            let record = s.world.records[LONG][2];
            let size = record.frame;
            anchor_more(s, &[head(LONG, size)], "");
        },
    ),
    ("a false head of a stream", FaultClass::Fork, LONG, |s| {
        let size = s.world.records[LONG].len() as u64;
        anchor_more(s, &[head(LONG, size)], "");
    }),
    (
        "a head of frames that never were",
        FaultClass::Rollback,
        LONG,
        |s| {
            let size = s.world.records[LONG].len() as u64;
            anchor_more(s, &[head(LONG, size + 1)], "");
        },
    ),
    (
        "a frame that names all and leaves some out",
        FaultClass::Journal,
        "heads",
        |s| {
            let size = s.world.records[LONG].len() as u64;
            anchor_more(s, &[head(LONG, size)], "all");
        },
    ),
    (
        "an index over frames that no head covers",
        FaultClass::Journal,
        "heads",
        |s| {
            let size = s.world.records[LONG].len();
            say(s, "index.root", LONG, &index(0, size));
        },
    ),
    (
        "a frame of heads exchanged",
        FaultClass::Tree,
        "heads",
        |s| {
            let mut stolen = Stolen::new(s, "heads");
            let other = stolen.rows(1);
            stolen.reseal(0, &other);
            stolen.write(s, None);
        },
    ),
    (
        "heads before the last certificate rewritten",
        FaultClass::KeyChain,
        "heads",
        |s| {
            let mut stolen = Stolen::new(s, "heads");
            let other = stolen.rows(1);
            stolen.reseal(0, &other);
            let today = *s.world.seeds.last().unwrap();
            stolen.write(s, Some(&today));
            let note = s.read("log/streams/heads/checkpoint");
            s.write("log.heads/heads", &note);
        },
    ),
];

fn roll_back(scene: &mut Scene<'_>, stream: &str) {
    let older = scene.world.older.join(format!("streams/{stream}"));
    scene.replace_folder(&format!("log/streams/{stream}"), &older);
}

fn older_copy(scene: &mut Scene<'_>, stream: &str) {
    let older = scene.world.older.with_file_name("older.heads");
    let head = std::fs::read(older.join(stream)).unwrap();
    scene.write(&format!("log.heads/{stream}"), &head);
}

/// The payload of an `index.root`.
fn index(first: usize, last: usize) -> String {
    format!("{first} {last} {}\n", "ab".repeat(32))
}

/// A head that was never signed.
fn head(stream: &str, size: u64) -> Checkpoint {
    Checkpoint::new(&stream_origin(stream), size, leaf_hash(b"false")).unwrap()
}

/// Appends a frame of heads, signed for with today's key.
fn anchor_more(scene: &mut Scene<'_>, heads: &[Checkpoint], key: &str) {
    let payload: String = heads.iter().map(Checkpoint::encode).collect();
    say(scene, "heads", key, &payload);
}

/// Appends a frame of one entry to the stream and signs for it with today's key.
fn say(scene: &mut Scene<'_>, action: &str, key: &str, payload: &str) {
    let mut stolen = Stolen::new(scene, "heads");
    let like = stolen.rows(0);
    let row = decode_row(&like[0]).unwrap();
    let entry = probity_format::Entry {
        action,
        key: key.as_bytes(),
        payload: payload.as_bytes(),
        ..row.entry().unwrap()
    };
    let mut row = vec![0; row_bytes(&entry)];
    encode_row(&entry, &mut row);
    stolen.push(&[row]);
    let today = *scene.world.seeds.last().unwrap();
    stolen.write(scene, Some(&today));
    let note = scene.read("log/streams/heads/checkpoint");
    scene.write("log.heads/heads", &note);
}

#[test]
fn what_is_done_to_heads_or_journal_shows_with_and_without_the_root_key() {
    let world = World::new();
    let mut scene = world.scene();
    for (name, class, stream, attack) in ATTACKS {
        attack(&mut scene);
        for look in [Look::Keyless, Look::Keyed] {
            let found = scene.verify(look).unwrap().faults;
            assert!(
                found
                    .iter()
                    .any(|it| it.class == class && it.stream == stream),
                "{name}, {look:?}: {found:?}"
            );
        }
        scene.undo();
    }
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
}

/// The entry of an index's root is reserved: it is checked and otherwise ignored, by verification
/// and by the next opening.
#[test]
fn an_index_over_frames_that_a_head_covers_is_no_fault() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    let size = world.records[LONG].len();
    say(&mut scene, "index.root", LONG, &index(3, size - 1));
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
    // The writer's own note of durable frames does not count the frame.
    let log = Log::open(&scene.log(), &root(), options()).unwrap();
    append(&log, LONG, 540..541);
    log.close().unwrap();
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
    scene.undo();
}

/// A frame that somebody without keys appends is no head: it is not trusted, and the next opening
/// removes it.
#[test]
fn a_forged_frame_behind_the_heads_is_believed_by_nobody() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    let last = world.records["heads"].last().unwrap();
    let segment = probity_format::segment::segment_file_name(last.segment);
    let file = format!("log/streams/heads/{segment}");
    let honest = scene.read(&file);
    // Whole in everything but the authenticator, which takes a key to make.
    let mut stolen = Stolen::new(&scene, "heads");
    let rows = stolen.rows(0);
    stolen.push(&rows);
    let number = stolen.frames.len() - 1;
    stolen.bend(number, |frame| frame[130] ^= 1);
    scene.change(&file, |bytes| bytes.extend(&stolen.frames[number]));
    let keyless = scene.verify(Look::Keyless).unwrap();
    let unpublished: Vec<u64> = keyless
        .streams
        .iter()
        .map(|it| it.unpublished_frames)
        .collect();
    assert_eq!(
        (&keyless.faults[..], unpublished.iter().sum()),
        (&[][..], 1_u64)
    );
    let keyed = scene.verify(Look::Keyed).unwrap();
    let tails: Vec<u64> = keyed.streams.iter().map(|it| it.tail_bytes).collect();
    assert_eq!(keyed.faults, []);
    assert_eq!(
        tails.iter().sum::<u64>(),
        stolen.frames[number].len() as u64
    );
    let log = Log::open(&scene.log(), &root(), options()).unwrap();
    assert!(!log.repairs().is_empty());
    append(&log, LONG, 540..541);
    log.close().unwrap();
    assert!(scene.read(&file).starts_with(&honest));
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
    scene.undo();
}

/// Journal and `heads` that do not fit together are refused for writing as well.
#[test]
fn heads_or_journal_that_were_put_back_are_not_written_on() {
    let world = World::new();
    let mut scene = world.scene();
    for (name, _, stream, attack) in ATTACKS.into_iter().take(6) {
        attack(&mut scene);
        let opened = Log::open(&scene.log(), &root(), options());
        let is_refused = match &opened {
            Err(
                LogError::RolledBack { stream: named, .. } | LogError::Lost { stream: named, .. },
            ) => named == stream,
            Err(error @ LogError::Broken { .. }) => error.to_string().contains(stream),
            _ => false,
        };
        assert!(is_refused, "{name}: {:?}", opened.err());
        scene.undo();
    }
}

/// For the last certificate the number of frames of `heads` was compared and not their root. Heads
/// that somebody with the current keys had rewritten were written on. The frames that a destroyed
/// key bound stay as they were.
#[test]
fn heads_that_were_rewritten_are_not_written_on() {
    let world = World::new();
    let mut scene = world.scene();
    for (name, _, stream, attack) in ATTACKS.into_iter().skip(11) {
        for note_is_kept in [true, false] {
            attack(&mut scene);
            if !note_is_kept {
                scene.remove("log/durable");
            }
            scene.keep_all();
            let opened = Log::open(&scene.log(), &root(), options());
            let is_refused =
                matches!(&opened, Err(LogError::Broken { place, .. }) if place.contains(stream));
            assert!(is_refused, "{name}: {:?}", opened.err());
            scene.undo();
        }
    }
}

/// The file of durable lengths is the writer's own memory: without it, certificates and heads still
/// show the attack.
#[test]
fn without_the_durable_lengths_they_are_refused_as_well() {
    let world = World::new();
    let mut scene = world.scene();
    for (name, _, stream, attack) in ATTACKS.into_iter().take(6) {
        attack(&mut scene);
        scene.remove("log/durable");
        let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
        let said = refused.to_string();
        let is_refused = matches!(
            refused,
            LogError::RolledBack { .. } | LogError::Broken { .. }
        );
        assert!(is_refused && said.contains(stream), "{name}: {said}");
        scene.undo();
    }
}
