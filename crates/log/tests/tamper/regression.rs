//! Faults that verification once missed, or once named wrongly.

use probity_format::note::SignedNote;
use probity_log::verify::{Fault, FaultClass};

use crate::thief::{signer, stream_origin};
use crate::world::{LONG, Look, Scene, World, configs};

fn faults(scene: &Scene<'_>) -> Vec<Fault> {
    scene.verify(Look::Keyless).unwrap().faults
}

fn classes(scene: &Scene<'_>) -> Vec<FaultClass> {
    faults(scene).iter().map(|fault| fault.class).collect()
}

/// Any key of the chain used to do for the journal's checkpoint, so that a thief of an expired one
/// could sign it.
#[test]
fn the_journals_checkpoint_must_be_signed_by_the_key_certified_last() {
    let world = World::new();
    let mut scene = world.scene();
    let name = "log/streams/journal/checkpoint";
    let note = SignedNote::parse(&scene.read(name)).unwrap();
    let head = probity_format::checkpoint::Checkpoint::parse(note.text()).unwrap();
    let (today, expired) = world.seeds.split_last().unwrap();
    // The line of the witness key stays: it does not confirm the key beside it.
    let witness = note.signatures().last().unwrap().clone();
    let sign = |seed| {
        let mut signed = SignedNote::new(head.encode()).unwrap();
        signed
            .sign(&signer(&stream_origin("journal"), seed))
            .unwrap();
        let lines = [signed.signatures(), std::slice::from_ref(&witness)].concat();
        let signed = SignedNote::with_signatures(head.encode(), lines);
        signed.unwrap().encode()
    };
    scene.write(name, sign(today).as_bytes());
    assert_eq!(faults(&scene), []);
    for seed in expired {
        scene.write(name, sign(seed).as_bytes());
        assert_eq!(classes(&scene), [FaultClass::Checkpoint]);
    }
}

/// Readers with an older checkpoint ask for the tiles of its size; those were never looked at.
#[test]
fn partial_tiles_of_earlier_sizes_are_compared() {
    let world = World::new();
    let mut scene = world.scene();
    for kind in ["tile/0", "tile/entries"] {
        // All widths of one tile but the last are of earlier sizes.
        let width = |file: &str| file.rsplit('/').next().unwrap().parse::<u16>().unwrap();
        let streams = configs().into_iter().map(|(stream, _)| stream);
        let older = streams.flat_map(|stream| {
            let mut files = scene.files(&format!("log/streams/{stream}/{kind}"));
            files.retain(|file| file.contains(".p/"));
            files.sort_by_key(|file| width(file));
            files.pop();
            files
        });
        let name = &older.last().expect("an earlier size left its partial form");
        scene.change(name, |bytes| bytes[3] ^= 1);
        let found = faults(&scene);
        assert_eq!(classes(&scene), [FaultClass::Tile], "{found:?}");
        assert_eq!(Some(found[0].place.as_str()), name.strip_prefix("log/"));
        scene.undo();
    }
}

/// A checkpoint with a wrong signature used to be reported as missing as well.
#[test]
fn a_bad_signature_is_one_fault_and_nothing_is_missing() {
    let world = World::new();
    let mut scene = world.scene();
    let name = format!("log/streams/{LONG}/checkpoint");
    scene.change(&name, |bytes| {
        let place = bytes.len() - 20;
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
    });
    assert_eq!(classes(&scene), [FaultClass::Checkpoint]);
}

/// One record that could not be read used to end the comparison of all that stood behind it.
#[test]
fn one_damaged_record_hides_nothing_behind_it() {
    let world = World::new();
    let mut scene = world.scene();
    scene.change(&format!("log/streams/{LONG}/tile/entries/000"), |bytes| {
        bytes[2] ^= 0x40;
    });
    let last = *world.records[LONG].last().unwrap();
    let segment = probity_format::segment::segment_file_name(last.segment);
    scene.change(&format!("log/streams/{LONG}/{segment}"), |bytes| {
        bytes[last.end() as usize - 40] ^= 1;
    });
    let found = faults(&scene);
    assert_eq!(
        classes(&scene),
        [FaultClass::Frame, FaultClass::Record],
        "{found:?}"
    );
    assert!(found[0].place.contains(&format!("frame {}", last.frame)));
    assert!(found[1].place.ends_with("record 0"), "{found:?}");
}

/// One damaged frame of the journal used to make every key and stream behind it unknown.
#[test]
fn a_damaged_frame_of_the_journal_is_named_itself() {
    let world = World::new();
    for record in &world.records["journal"] {
        let mut scene = world.scene();
        let segment = probity_format::segment::segment_file_name(record.segment);
        scene.change(&format!("log/streams/journal/{segment}"), |bytes| {
            bytes[record.end() as usize - 40] ^= 1;
        });
        let found = faults(&scene);
        let named = |fault: &Fault| {
            fault.class == FaultClass::Frame
                && fault.place.contains(&format!(", frame {} ", record.frame))
        };
        assert!(found.iter().any(named), "{found:?}");
    }
}

/// A remembered checkpoint whose first line could not be read, or named no stream of the log, was
/// silently ignored.
#[test]
fn a_remembered_checkpoint_of_no_stream_is_not_passed_over() {
    let world = World::new();
    let mut scene = world.scene();
    let known = world.remembered[LONG].clone();
    scene.since = Some(known.clone());
    assert_eq!(faults(&scene), []);
    let text = String::from_utf8(known).unwrap();
    for strange in [
        text.replacen(LONG, "nobody", 1).into_bytes(),
        text.replacen("example.com", "example.org", 1).into_bytes(),
        vec![0xFF; 100],
        Vec::new(),
    ] {
        scene.since = Some(strange);
        let found = faults(&scene);
        assert_eq!(classes(&scene), [FaultClass::Checkpoint], "{found:?}");
        assert_eq!(found[0].place, "the checkpoint given with --since");
    }
}

/// A partial tile was excused by any file under the name of its full form, with any content.
#[test]
fn only_a_full_tile_that_begins_with_it_excuses_a_missing_partial_one() {
    let world = World::new();
    let mut scene = world.scene();
    let folder = format!("log/streams/{LONG}/tile/1");
    let partial = format!("{folder}/000.p/1");
    let content = scene.read(&partial);
    let full = [content.as_slice(), &[7; 255 * 32]].concat();
    let stranger = [&[7; 32][..], &full[32..]].concat();
    for (bytes, expected) in [
        (full.as_slice(), &[][..]),
        (&content, &[FaultClass::Missing]),
        // The full form is wrong itself, too.
        (&stranger, &[FaultClass::Tile, FaultClass::Missing]),
    ] {
        scene.remove(&partial);
        scene.write(&format!("{folder}/000"), bytes);
        let found = faults(&scene);
        assert_eq!(classes(&scene), expected, "{found:?}");
        scene.undo();
    }
}

/// Format 1.1: a bit in the header of the journal's first segment made every stream unknown, with
/// three false faults. A damaged frame in another stream was not reported. The header holds nothing
/// that is not known, and is the only fault.
#[test]
fn a_damaged_header_of_the_journal_is_the_only_fault_and_hides_no_other() {
    let world = World::new();
    let mut scene = world.scene();
    let header = "log/streams/journal/segments/00000000000000000000.seg";
    for place in [0, 7, 8, 20, 39] {
        scene.change(header, |bytes| bytes[place] ^= 1);
        let found = faults(&scene);
        assert_eq!(classes(&scene), [FaultClass::Segment], "{found:?}");
        assert!(found[0].place.contains("journal"), "{found:?}");
        scene.undo();
    }
    let record = world.records[LONG][100];
    let segment = probity_format::segment::segment_file_name(record.segment);
    scene.change(header, |bytes| bytes[20] ^= 1);
    scene.change(&format!("log/streams/{LONG}/{segment}"), |bytes| {
        bytes[record.end() as usize - 40] ^= 1;
    });
    let found = faults(&scene);
    assert_eq!(
        classes(&scene),
        [FaultClass::Frame, FaultClass::Segment],
        "{found:?}"
    );
    assert!(found[0].place.contains(", frame 100 "), "{found:?}");
}

/// Format 1.5: one bit in the key of one subject ended the keyed check, so that a frame that was
/// forged elsewhere was not reported.
#[test]
fn a_damaged_slot_hides_nothing_else() {
    let world = World::new();
    let mut scene = world.scene();
    scene.change("log/subjects/slots", |slots| slots[50] ^= 1);
    let record = world.records[LONG][100];
    let segment = probity_format::segment::segment_file_name(record.segment);
    scene.change(&format!("log/streams/{LONG}/{segment}"), |bytes| {
        bytes[record.end() as usize - 40] ^= 1;
    });
    let report = scene.verify(Look::Keyed).unwrap();
    let (first, others) = report.faults.split_first().unwrap();
    assert_eq!(first.class, FaultClass::Frame, "{:?}", report.faults);
    // The slot itself, and each frame that needs its key.
    let (slot, frames) = others.split_last().unwrap();
    assert_eq!(slot.place, "subjects/slots, slot 0");
    assert!(!frames.is_empty());
    for fault in others {
        assert_eq!(fault.class, FaultClass::Content, "{fault}");
        assert!(fault.to_string().contains("slot 0"), "{fault}");
    }
}
