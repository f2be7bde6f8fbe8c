//! Entries that were durable and that nobody had signed for yet, damaged or gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use probity_format::frame::FrameHeader;
use probity_format::keys::RootKey;
use probity_format::segment::SEGMENT_HEADER_BYTES;
use probity_format::slot::SLOT_BYTES;
use probity_format::{Entry, Subjects, Timestamp};
use probity_log::{Durability, Log, LogLocation, Options, StoredLeaves, StreamName};

use crate::{Place, copy};

/// Makes a place whose log was killed with entries that have receipts and that no checkpoint
/// covers.
pub(crate) fn killed() -> Place {
    killed_in(Place::new(), "")
}

/// Makes a log in `place` that was killed with entries about `subject`, like [`killed`].
fn killed_in(place: Place, subject: &str) -> Place {
    killed_with(place, &[subject])
}

/// Makes a log in `place` that was killed with entries about each of `subjects`, like [`killed`].
fn killed_with(place: Place, subjects: &[&str]) -> Place {
    let log = place.path("audit");
    let root = RootKey::from_text(&fs::read_to_string(place.path("audit.key")).unwrap()).unwrap();
    let options = Options {
        durability: Durability::Strict,
        checkpoint_interval: Duration::from_hours(1),
        ..Options::default()
    };
    let open = Log::open(&log, &root, options).unwrap();
    let mut appender = open.appender(&StreamName::default()).unwrap();
    for subject in subjects {
        for number in 0..4_u8 {
            let time = Timestamp::from_nanoseconds(1_700_000_000_000_000_000).unwrap();
            let key = [b'k', b'0' + number];
            let mut entry = Entry::new(time, "write", &key);
            entry.subjects = Subjects::joined(subject);
            appender.append_durable(&entry).unwrap();
        }
    }
    for name in ["audit", "audit.heads"] {
        copy(&place.path(name), &place.path(&format!("{name}.killed")));
    }
    drop(appender);
    open.close().unwrap();
    for name in ["audit", "audit.heads"] {
        fs::remove_dir_all(place.path(name)).unwrap();
        fs::rename(place.path(&format!("{name}.killed")), place.path(name)).unwrap();
    }
    place
}

fn segment(log: &Path) -> PathBuf {
    log.join("streams/default/segments/00000000000000000000.seg")
}

/// Returns the offset at which the last `number` frames begin.
fn from_end(content: &[u8], number: usize) -> usize {
    let mut offsets = Vec::new();
    let mut offset = SEGMENT_HEADER_BYTES;
    while offset < content.len() {
        offsets.push(offset);
        offset += usize::try_from(FrameHeader::decode(&content[offset..]).unwrap().length).unwrap();
    }
    offsets[offsets.len() - number]
}

/// M1: keyed `verify` and `export` called it a torn tail, with status 0. M2: once the loss was accepted, nothing said so any more.
#[test]
fn durable_entries_that_are_gone_are_damage_and_an_accepted_loss_is_never_forgotten() {
    let place = killed();
    fs::write(place.path("none"), b"").unwrap();
    let export = ["export", "audit", "--format", "jsonl"];
    let keyed = ["verify", "audit", "--key", "audit.key"];
    let (whole, _) = place.run(&export, 0, "");
    assert_eq!(whole.lines().count(), 124);
    place.run(&keyed, 0, "");
    let damages: [fn(&mut Vec<u8>); 3] = [
        |content| content.truncate(from_end(content, 2)),
        |content| content.truncate(content.len() - 9),
        |content| {
            let place = from_end(content, 3) + 200;
            content[place] ^= 1;
        },
    ];
    for damage in damages {
        place.changed(
            |log| {
                let mut content = fs::read(segment(log)).unwrap();
                damage(&mut content);
                fs::write(segment(log), content).unwrap();
            },
            |place| {
                place.run(&keyed, 3, "");
                place.run(&export, 3, "");
                let (out, _) = place.run(&["verify", "audit"], 0, "");
                assert!(out.contains("not covered by a checkpoint"), "{out}");
                place.run(&["append", "audit", "none"], 3, "");
                place.run(&["append", "audit", "none", "--accept-loss"], 0, "");
                for verify in [&["verify", "audit"][..], &keyed] {
                    let (out, _) = place.run(verify, 4, "");
                    assert!(out.contains("had been durable lost"), "{out}");
                    assert!(out.contains("parts lost"), "{out}");
                }
            },
        );
    }
}

/// A proof of an entry that was given up ended with 3, and advised to put earlier keys back.
#[test]
fn a_proof_after_an_accepted_loss_names_it_and_is_no_damage() {
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
    };
    place.run(&["init", "audit", "--erasable"], 0, "");
    let place = killed_in(place, "anna");
    let slots = place.path("audit/subjects/slots");
    let content = fs::read(&slots).unwrap();
    fs::write(&slots, &content[..content.len() - SLOT_BYTES]).unwrap();
    fs::write(place.path("none"), b"").unwrap();
    place.run(&["append", "audit", "none"], 3, "");
    place.run(&["append", "audit", "none", "--accept-loss"], 0, "");
    place.run(&["verify", "audit", "--key", "audit.key"], 4, "");
    let prove = ["prove", "audit", "--index", "0", "-o", "proof"];
    let (_, said) = place.run(&prove, 1, "");
    assert!(said.contains("was given up"), "{said}");
    assert!(said.contains("accepted at 20"), "{said}");
    assert!(!said.contains("backup"), "{said}");
    // A person's copy said nothing of what was given up, though that may be theirs.
    let export = [
        "subject", "export", "audit", "anna", "--pocket", "hers", "--json",
    ];
    let (out, _) = place.run(&export, 0, "");
    assert!(out.contains("\"lost\":[{\"stream\":\"default\""), "{out}");
    assert!(out.contains("\"accepted\":\"20"), "{out}");
    let marks = "SELECT value FROM about WHERE name = 'lost'";
    let (out, _) = place.run(
        &["pocket", "query", "hers", marks, "--format", "csv"],
        0,
        "",
    );
    assert!(
        out.contains("default: ") && out.contains("accepted at 20"),
        "{out}"
    );
    // The keys that were given up are found again: an opening takes them, whatever was advised.
    fs::write(&slots, &content).unwrap();
    let keyed = ["verify", "audit", "--key", "audit.key"];
    let (out, _) = place.run(&keyed, 3, "");
    assert!(out.contains("an opening for writing takes"), "{out}");
    place.run(&["append", "audit", "none"], 0, "");
    place.run(&keyed, 4, "");
    place.run(&prove, 0, "");
}

/// After an accepted loss of keys, a second one gave the advice to put an earlier copy of them back.
#[test]
fn a_second_loss_of_keys_gives_no_advice_that_costs_later_ones() {
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
    };
    place.run(&["init", "audit", "--erasable"], 0, "");
    fs::write(place.path("none"), b"").unwrap();
    let (mut place, mut told) = (place, Vec::new());
    for subject in ["anna", "bert"] {
        place = killed_in(place, subject);
        let slots = place.path("audit/subjects/slots");
        let content = fs::read(&slots).unwrap();
        fs::write(&slots, &content[..content.len() - SLOT_BYTES]).unwrap();
        let (_, append) = place.run(&["append", "audit", "none"], 3, "");
        let (_, export) = place.run(&["export", "audit", "--format", "jsonl"], 3, "");
        told.push(append + &export);
        place.run(&["append", "audit", "none", "--accept-loss"], 0, "");
    }
    let [first, second] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert!(
        first.contains("subjects/slots back from a backup"),
        "{first}"
    );
    assert!(!second.contains("backup"), "{second}");
    assert!(second.contains("copy the present folder aside"), "{second}");
    assert!(second.contains("after the loss was accepted"), "{second}");
    let (out, _) = place.run(&["verify", "audit", "--key", "audit.key"], 4, "");
    assert_eq!(
        out.matches("did not open for want of keys").count(),
        2,
        "{out}"
    );
}

/// The receipts of the four entries with which a log was killed, as `append --receipts` prints them.
fn write_receipts(place: &Place, first: u64) {
    let leaves = StoredLeaves::open(&LogLocation::new(&place.path("audit"), None)).unwrap();
    let receipts = (first..first + 4).map(|index| {
        let leaf = leaves.of_entry(&StreamName::default(), index).unwrap();
        let leaf = *leaf.unwrap().leaf();
        let (log, record) = (leaves.origin(), leaf.hash.to_string());
        format!(
            "{{\"line\":1,\"stream\":\"default\",\"index\":{index},\"log\":\"{log}\",\"frame\":{},\"record\":\"{record}\"}}\n",
            leaf.frame
        )
    });
    fs::write(place.path("receipts"), receipts.collect::<String>()).unwrap();
}

/// Receipts of entries that were given up were held like any other. Those of frames that are gone
/// were broken, without a word of the loss that was accepted.
#[test]
fn receipts_of_accepted_losses_are_named() {
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
    };
    place.run(&["init", "audit", "--erasable"], 0, "");
    fs::write(place.path("none"), b"").unwrap();
    let check = [
        "check-receipts",
        "receipts",
        "--log",
        "audit",
        "--key",
        "audit.vkey",
    ];
    let json = [&check[..], &["--json"]].concat();
    let accept = ["append", "audit", "none", "--accept-loss"];
    let place = killed_in(place, "anna");
    write_receipts(&place, 0);
    let slots = place.path("audit/subjects/slots");
    let content = fs::read(&slots).unwrap();
    fs::write(&slots, &content[..content.len() - SLOT_BYTES]).unwrap();
    place.run(&accept, 0, "");
    let (out, _) = place.run(&check, 0, "");
    assert!(out.contains("held: 4 receipts"), "{out}");
    assert!(
        out.contains("4 are of frames of which sections were given up"),
        "{out}"
    );
    let (out, _) = place.run(&json, 0, "");
    assert!(out.contains("\"held\":4,\"given_up\":4"), "{out}");
    // Frames that are gone.
    let place = killed_in(place, "");
    write_receipts(&place, 4);
    let content = fs::read(segment(&place.path("audit"))).unwrap();
    let rest = &content[..from_end(&content, 2)];
    fs::write(segment(&place.path("audit")), rest).unwrap();
    place.run(&accept, 0, "");
    let (out, _) = place.run(&check, 3, "");
    assert_eq!(out.matches("accepted at 20").count(), 2, "{out}");
    let (out, _) = place.run(&json, 3, "");
    assert!(out.contains("\"held\":2,\"given_up\":0"), "{out}");
}

/// An export named an accepted loss of keys beside the entries that it wrote, and nothing in it said
/// that a person was missing.
#[test]
fn an_export_names_what_it_leaves_out_and_counts_people_whose_keys_are_missing() {
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
    };
    place.run(&["init", "audit", "--erasable"], 0, "");
    fs::write(place.path("none"), b"").unwrap();
    let place = killed_in(place, "anna");
    place.run(&["append", "audit", "none"], 0, "");
    let place = killed_with(place, &["anna\ncarl", "dora"]);
    let slots = place.path("audit/subjects/slots");
    let whole = fs::read(&slots).unwrap();
    fs::write(&slots, &whole[..SLOT_BYTES]).unwrap();
    place.run(&["append", "audit", "none", "--accept-loss"], 0, "");
    let export = ["export", "audit", "--format", "jsonl"];
    let (out, said) = place.run(&export, 0, "");
    let missing = |out: &str| out.matches("\"subjects_missing\":1").count();
    assert_eq!((out.lines().count(), missing(&out)), (8, 4), "{out}");
    assert!(!out.contains("_erased"), "{out}");
    assert!(
        said.contains("4 entries without some people: their keys are missing"),
        "{said}"
    );
    assert!(said.contains("left out: "), "{said}");
    // Nothing of anna's is left out.
    let hers = [&export[..], &["--subject", "anna"]].concat();
    let (out, said) = place.run(&hers, 0, "");
    assert_eq!((out.lines().count(), missing(&out)), (8, 4), "{out}");
    assert!(said.contains("4 entries without some people"), "{said}");
    let (rows, _) = place.run(&["export", "audit", "--format", "csv"], 0, "");
    let mut rows = csv::Reader::from_reader(rows.as_bytes());
    let column = rows
        .headers()
        .unwrap()
        .iter()
        .position(|it| it == "subjects_missing");
    let counts = rows
        .records()
        .map(|row| row.unwrap().get(column.unwrap()).unwrap().to_owned());
    assert_eq!(counts.filter(|count| count == "1").count(), 4);
    // Another log takes the lines without that.
    let lines: Vec<&str> = out.lines().skip(4).collect();
    fs::write(place.path("lines"), lines.join("\n")).unwrap();
    place.run(&["init", "other"], 0, "");
    let (_, refused) = place.run(&["append", "other", "lines"], 1, "");
    assert!(refused.contains("subjects_missing"), "{refused}");
    place.run(&["append", "other", "lines", "--exported"], 0, "");
    // With the keys put back everything is read, and no loss is named.
    fs::write(&slots, &whole).unwrap();
    place.run(&["append", "audit", "none"], 0, "");
    let (out, said) = place.run(&export, 0, "");
    assert_eq!((out.lines().count(), missing(&out)), (12, 0), "{out}");
    assert_eq!(said, "");
}
