//! A thief of the root key and of `keys/` appends frames that the log's keys seal, behind the
//! signed head. An opening signs for none that contradict what is known, and destroys no key that
//! they name.

use std::fmt::Write as _;

use probity_format::checkpoint::Checkpoint;
use probity_format::row::{decode_row, encode_row, row_bytes};
use probity_format::segment::segment_file_name;
use probity_format::slot::{SLOT_BYTES, SLOT_LABEL_BYTES, Slot};
use probity_format::tree::leaf_hash;
use probity_format::{Entry, Version};
use probity_log::verify::FaultClass;
use probity_log::{Log, LogError, RepairKind};

use crate::thief::{Stolen, stream_origin};
use crate::world::{LONG, Look, Scene, World, append, options, root};

const SLOTS: &str = "log/subjects/slots";

/// An entry of the log's own: its action, key and payload.
type Said = (&'static str, String, String);

/// Appends a frame of `entries` to the segments of a stream, and returns its bytes.
fn put(scene: &mut Scene<'_>, stolen: &mut Stolen, entries: &[Said]) -> Vec<u8> {
    let like = stolen.rows(0);
    let row = decode_row(&like[0]).unwrap();
    let like = row.entry().unwrap();
    let rows = entries.iter().map(|(action, key, payload)| {
        let entry = Entry {
            action,
            key: key.as_bytes(),
            payload: payload.as_bytes(),
            ..like
        };
        let mut row = vec![0; row_bytes(&entry)];
        encode_row(&entry, &mut row);
        row
    });
    let rows: Vec<Vec<u8>> = rows.collect();
    stolen.push(&rows);
    let frame = stolen.frames.last().unwrap().clone();
    let last = scene.world.records[&stolen.stream].last().unwrap();
    let segment = segment_file_name(last.segment);
    let file = format!("log/streams/{}/{segment}", stolen.stream);
    scene.change(&file, |bytes| bytes.extend(&frame));
    frame
}

fn head(stream: &str, size: u64) -> Checkpoint {
    Checkpoint::new(&stream_origin(stream), size, leaf_hash(b"false")).unwrap()
}

/// Frames that no log writes behind the others.
fn contradictions(world: &World) -> Vec<(&'static str, Said)> {
    let size = world.records[LONG].len() as u64;
    let true_head = String::from_utf8(world.newest[LONG].clone()).unwrap();
    let lines: Vec<&str> = true_head.split_inclusive('\n').take(3).collect();
    let true_head = lines.concat();
    let heads = |key: &str, payload: &str| ("heads", key.to_owned(), payload.to_owned());
    let index = format!("0 {size} {}\n", "ab".repeat(32));
    vec![
        ("names all and leaves some out", heads("all", &true_head)),
        (
            "a head of its own stream",
            heads("", &true_head.replace(LONG, "heads")),
        ),
        (
            "a head of a stream that there is not",
            heads("", &true_head.replace(LONG, "nowhere")),
        ),
        ("a smaller head", heads("", &head(LONG, size - 1).encode())),
        (
            "another root over as many frames",
            heads("", &head(LONG, size).encode()),
        ),
        ("no head", heads("", "junk")),
        ("an unknown key", heads("some", &true_head)),
        ("an unknown action", ("other", String::new(), String::new())),
        (
            "an index over frames that no head covers",
            ("index.root", LONG.to_owned(), index),
        ),
    ]
}

/// Such frames were signed for by the next opening, and the log was broken for good; others were
/// refused for good. They are set aside, and the log goes on.
#[test]
fn heads_that_contradict_what_is_known_are_signed_for_by_no_opening() {
    let world = World::new();
    let mut scene = world.scene();
    for (name, said) in contradictions(&world) {
        scene.keep_all();
        let mut stolen = Stolen::new(&scene, "heads");
        let frame = put(&mut scene, &mut stolen, &[said]);
        let log = Log::open(&scene.log(), &root(), options());
        let log = log.unwrap_or_else(|refused| panic!("{name}: {refused}"));
        let repairs = log.repairs().to_vec();
        append(&log, LONG, 540..541);
        log.close().unwrap();
        let mut of_heads = repairs.iter().filter(|it| it.stream.as_str() == "heads");
        assert!(
            of_heads.any(|it| it.kind == RepairKind::Foreign),
            "{name}: {repairs:?}"
        );
        for look in [Look::Keyless, Look::Keyed] {
            assert_eq!(scene.verify(look).unwrap().faults, [], "{name}");
        }
        let mut kept = scene.files("log/set-aside").into_iter();
        assert!(
            kept.any(|file| scene.read(&file) == frame),
            "{name}: the frame is gone"
        );
        scene.undo();
    }
}

/// Honest frames that a crash leaves behind the signed head are signed for as before.
#[test]
fn heads_that_follow_are_signed_for() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    let note = String::from_utf8(world.newest[LONG].clone()).unwrap();
    let lines: Vec<&str> = note.split_inclusive('\n').take(3).collect();
    let mut stolen = Stolen::new(&scene, "heads");
    let said = ("heads", String::new(), lines.concat());
    put(&mut scene, &mut stolen, &[said]);
    let log = Log::open(&scene.log(), &root(), options()).unwrap();
    let kinds: Vec<RepairKind> = log.repairs().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [RepairKind::Unsigned]);
    log.close().unwrap();
    assert_eq!(scene.verify(Look::Keyed).unwrap().faults, []);
}

/// An erasure with the number of one slot and the pseudonym of another was believed: the next
/// opening destroyed the key of somebody whom nobody had erased, and readers reported damage.
#[test]
fn an_erasure_under_another_pseudonym_than_the_slots_destroys_no_key() {
    let world = World::new();
    let mut scene = world.scene();
    scene.keep_all();
    let slots = scene.read(SLOTS);
    let whole = slots.chunks_exact(SLOT_BYTES).zip(0_u64..);
    let whole = whole.filter(|(slot, _)| slot[SLOT_LABEL_BYTES..].iter().any(|byte| *byte != 0));
    let whole: Vec<_> = whole.collect();
    let [(_, first), (other, _), ..] = whole[..] else {
        panic!("{} slots", whole.len());
    };
    let pseudonym = Slot::parse(Version::NEWEST, other)
        .unwrap()
        .label()
        .pseudonym;
    let pseudonym = pseudonym.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let mut stolen = Stolen::new(&scene, "journal");
    let said = [
        ("key.newest", stolen.newest().to_string(), String::new()),
        ("subject.erase", first.to_string(), pseudonym),
    ];
    put(&mut scene, &mut stolen, &said);
    let frame = stolen.frames.len() - 1;
    let refused = Log::open(&scene.log(), &root(), options()).unwrap_err();
    assert!(
        matches!(&refused, LogError::Broken { place, reason }
            if *place == format!("stream journal, frame {frame}") && reason.contains("put ")),
        "{refused}"
    );
    assert!(scene.read(SLOTS) == slots, "a key is gone");
    // Where somebody signed for it, verification names it instead of an opening that would destroy
    // the key.
    let today = *world.seeds.last().unwrap();
    stolen.write(&mut scene, Some(&today));
    let faults = scene.verify(Look::Keyless).unwrap().faults;
    let is_it = |place: &str| place == format!("frame {frame}");
    assert!(
        faults
            .iter()
            .any(|it| it.class == FaultClass::Journal && is_it(&it.place)),
        "{faults:?}"
    );
    assert!(
        !faults.iter().any(|it| it.detail.contains("destroys it")),
        "{faults:?}"
    );
    scene.undo();
    Log::open(&scene.log(), &root(), options())
        .unwrap()
        .close()
        .unwrap();
}
