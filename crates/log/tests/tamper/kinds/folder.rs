//! A stream rolled back with the files that would betray it, a log emptied, and foreign files
//! beside the evidence.

use probity_format::segment::segment_file_name;
use probity_log::verify::FaultClass;

use super::bytes::in_log;
use super::{JOURNAL_TOO, Kind, Place, any_stream};
use crate::world::{LONG, Look, Scene};

pub(super) fn kinds() -> Vec<Kind> {
    let mut kinds = rolled_back();
    kinds.extend(emptied());
    kinds.extend(verifier_keys());
    kinds.extend(beside());
    kinds
}

fn rolled_back() -> Vec<Kind> {
    vec![
        Kind::new(
            "a stream rolled back with its head",
            "23, 26",
            FaultClass::Rollback,
            |s, r| {
                let stream = any_stream(r);
                roll_back(s, stream);
                let older = s.world.older.with_file_name("older.heads");
                let head = std::fs::read(older.join(stream)).unwrap();
                s.write(&format!("log.heads/{stream}"), &head);
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "a stream rolled back and its head removed",
            "23, 26",
            FaultClass::Rollback,
            |s, r| {
                let stream = any_stream(r);
                roll_back(s, stream);
                s.remove(&format!("log.heads/{stream}"));
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "a whole stream and its head gone",
            "10, 26",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                s.remove(&format!("log/streams/{stream}"));
                s.remove(&format!("log.heads/{stream}"));
                Place::file(stream, "checkpoint")
            },
        )
        .also(&[FaultClass::Rollback]),
        Kind::new(
            "an older checkpoint put back",
            "27",
            FaultClass::Rollback,
            |s, r| {
                let stream = any_stream(r);
                let older = s.world.remembered[stream].clone();
                s.write(&in_log(stream, "checkpoint"), &older);
                Place::file(stream, "checkpoint")
            },
        ),
    ]
}

fn emptied() -> Vec<Kind> {
    vec![
        Kind::new(
            "everything but the geometry deleted",
            "20",
            FaultClass::Missing,
            |s, _| {
                empty(s);
                Place::new("journal", "streams/journal")
            },
        )
        .also(&[FaultClass::Rollback]),
        Kind::new(
            "everything but the geometry deleted, and the second copies of the heads",
            "20",
            FaultClass::Missing,
            |s, _| {
                empty(s);
                s.remove("log.heads");
                Place::new("journal", "streams/journal")
            },
        ),
        Kind::new("the journal deleted", "20", FaultClass::Missing, |s, _| {
            s.remove("log/streams/journal");
            Place::new("journal", "streams/journal")
        })
        .also(JOURNAL_TOO),
        Kind::new("the heads deleted", "20", FaultClass::Missing, |s, r| {
            s.remove("log/streams/heads");
            if r.below(2) == 0 {
                s.remove("log.heads/heads");
            }
            Place::file("heads", "checkpoint")
        })
        .also(&[FaultClass::Rollback]),
        Kind::new(
            "the geometry deleted, cut or longer",
            "20",
            FaultClass::Missing,
            |s, r| {
                let name = "log/probity.toml";
                match r.below(3) {
                    0 => s.remove(name),
                    1 => {
                        let length = r.below(s.read(name).len());
                        s.change(name, |bytes| bytes.truncate(length));
                    }
                    _ => s.change(name, |bytes| bytes.extend([b'\n'; 5_000])),
                }
                Place::new("", "")
            },
        )
        .look(Look::Anchor)
        .refused("probity.toml"),
    ]
}

fn verifier_keys() -> Vec<Kind> {
    vec![
        Kind::new(
            "another key beside a checkpoint",
            "31",
            FaultClass::KeyChain,
            |s, r| {
                let stream = any_stream(r);
                let other = s.world.other.join(format!("streams/{stream}/log.vkey"));
                let key = std::fs::read(other).unwrap();
                s.write(&in_log(stream, "log.vkey"), &key);
                Place::file(stream, "log.vkey")
            },
        ),
        Kind::new(
            "the key beside a checkpoint cut",
            "31",
            FaultClass::KeyChain,
            |s, r| {
                let name = in_log(any_stream(r), "log.vkey");
                let length = r.below(s.read(&name).len());
                s.change(&name, |bytes| bytes.truncate(length));
                let stream = name.split('/').nth(2).unwrap().to_owned();
                Place::file(&stream, "log.vkey")
            },
        ),
        Kind::new(
            "the key beside a checkpoint gone",
            "30",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                s.remove(&in_log(stream, "log.vkey"));
                Place::file(stream, "log.vkey")
            },
        ),
    ]
}

/// Foreign files and bytes.
fn beside() -> Vec<Kind> {
    vec![
        Kind::new(
            "bytes behind the last frame that are none",
            "8",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let last = s.world.records[stream].last().unwrap().segment;
                let name = in_log(stream, &segment_file_name(last));
                let noise: Vec<u8> = (0..=r.below(3_000)).map(|_| r.bit()).collect();
                s.change(&name, |bytes| bytes.extend(noise));
                Place::file(stream, &segment_file_name(last))
            },
        )
        .listed(),
        Kind::new(
            "a segment behind the last one",
            "8",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let frames = s.world.records[stream].len() as u64;
                let later = segment_file_name(frames + r.below(7) as u64);
                let copied = s.read(&in_log(LONG, &segment_file_name(0)));
                s.write(&in_log(stream, &later), &copied);
                Place::file(stream, &later)
            },
        )
        .listed(),
        Kind::new(
            "a file that belongs to nothing",
            "8",
            FaultClass::Unknown,
            |s, r| {
                let stream = any_stream(r);
                let name = [
                    "notes.txt".to_owned(),
                    "keys/second.key".to_owned(),
                    "subjects/more".to_owned(),
                    format!("streams/{stream}/checkpoint.old"),
                    format!("streams/{stream}/segments/foo"),
                    format!("streams/{stream}/segments/0.seg"),
                    format!("streams/{stream}/segments/00000000.seg"),
                ];
                let name = &name[r.below(name.len())];
                match r.below(2) {
                    0 => s.write(&format!("log/{name}"), b"anything"),
                    _ => s.make_folder(&format!("log/{name}")),
                }
                Place::new("", name)
            },
        )
        .listed(),
    ]
}

/// Puts an older copy of a stream in its place.
fn roll_back(scene: &mut Scene<'_>, stream: &str) {
    let older = scene.world.older.join(format!("streams/{stream}"));
    scene.replace_folder(&format!("log/streams/{stream}"), &older);
}

fn empty(scene: &mut Scene<'_>) {
    for name in ["keys", "subjects", "streams", "lock"] {
        scene.remove(&format!("log/{name}"));
    }
}
