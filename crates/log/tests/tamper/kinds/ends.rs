//! Cut ends, missing files, older copies and forks.

use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name};
use probity_log::verify::FaultClass;

use super::bytes::in_log;
use super::{Kind, Place, any_segments, any_stream};
use crate::world::{LONG, Look, Scene, segments};

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "a segment cut between frames",
            "17",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                cut(s, stream, record.segment, record.offset as usize);
                Place::file(stream, &segment_file_name(record.segment))
            },
        ),
        Kind::new(
            "a segment cut within a frame",
            "17",
            FaultClass::Frame,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                let length = record.offset as usize + 1 + r.below(record.length as usize - 1);
                cut(s, stream, record.segment, length);
                frame(stream, record.segment, record.frame)
            },
        )
        .also(&[FaultClass::Segment]),
        Kind::new(
            "a segment cut within its header",
            "17",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                cut(s, stream, record.segment, r.below(SEGMENT_HEADER_BYTES));
                Place::file(stream, &segment_file_name(record.segment))
            },
        )
        .also(&[FaultClass::Frame]),
        Kind::new(
            "the last segment gone",
            "20",
            FaultClass::Segment,
            |s, r| {
                let (stream, _, _) = any_segments(s, r);
                let all = segments(&s.log(), stream);
                s.remove(&in_log(stream, &segment_file_name(all[all.len() - 1])));
                Place::file(stream, &segment_file_name(all[all.len() - 2]))
            },
        ),
        Kind::new(
            "the first segment gone",
            "21",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                gone(s, stream, &segment_file_name(0))
            },
        ),
        Kind::new(
            "a segment behind another gone",
            "10",
            FaultClass::Segment,
            |s, r| {
                let (stream, before, segment) = any_segments(s, r);
                s.remove(&in_log(stream, &segment_file_name(segment)));
                Place::file(stream, &segment_file_name(before))
            },
        ),
        Kind::new(
            "a segment without its frames",
            "17",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let segment = *r.of(&segments(&s.log(), stream));
                cut(s, stream, segment, SEGMENT_HEADER_BYTES);
                Place::file(stream, &segment_file_name(segment))
            },
        ),
        Kind::new(
            "a bundle or tile gone",
            "15",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                let size = s.world.records[stream].len();
                let (full, rest) = (size / 256, size % 256);
                let mut names = vec![
                    format!("tile/0/{full:03}.p/{rest}"),
                    format!("tile/entries/{full:03}.p/{rest}"),
                ];
                if stream == LONG {
                    names.extend(
                        ["tile/0/000", "tile/entries/000", "tile/1/000.p/1"].map(String::from),
                    );
                }
                gone(s, stream, &names[r.below(names.len())])
            },
        ),
        Kind::new("all tiles of a stream gone", "15", FaultClass::Missing, |s, r| {
            let stream = any_stream(r);
            gone(s, stream, "tile")
        })
        // Without records and tiles nothing has the root that was signed.
        .also(&[FaultClass::Tree]),
        Kind::new("a checkpoint gone", "30", FaultClass::Missing, |s, r| {
            let stream = any_stream(r);
            gone(s, stream, "checkpoint")
        }),
        Kind::new("a whole stream gone", "10", FaultClass::Missing, |s, r| {
            let stream = any_stream(r);
            s.remove(&format!("log/streams/{stream}"));
            Place::file(stream, "checkpoint")
        })
        .also(&[FaultClass::Rollback]),
        Kind::new(
            "a stream that the journal never created",
            "8",
            FaultClass::Unknown,
            |s, r| {
                let from = any_stream(r);
                let name = format!("extra-{}", r.below(1_000));
                let folder = s.log().join(format!("streams/{from}"));
                s.replace_folder(&format!("log/streams/{name}"), &folder);
                Place::new("journal", format!("streams/{name}"))
            },
        ),
        Kind::new(
            "two streams swapped",
            "11",
            FaultClass::Checkpoint,
            |s, r| {
                let (one, other) = (LONG, *r.of(&["entry", "second", "erasable", "clear"]));
                let (kept, moved) = (
                    s.world.log.join(format!("streams/{one}")),
                    s.world.log.join(format!("streams/{other}")),
                );
                s.replace_folder(&format!("log/streams/{one}"), &moved);
                s.replace_folder(&format!("log/streams/{other}"), &kept);
                Place::file(one, "checkpoint")
            },
        )
        .also(&[FaultClass::KeyChain, FaultClass::Rollback]),
        Kind::new(
            "a stream cut back to an older checkpoint",
            "17, 23",
            FaultClass::Rollback,
            |s, r| {
                let stream = any_stream(r);
                let older = s.world.older.join(format!("streams/{stream}"));
                s.replace_folder(&format!("log/streams/{stream}"), &older);
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "yesterday's copy of the whole log",
            "23, 26",
            FaultClass::Rollback,
            |s, _| {
                let older = s.world.older.clone();
                s.replace_folder("log", &older);
                Place::new("journal", "the second copy of the head")
            },
        ),
        Kind::new(
            "yesterday's copy, and a verifier who remembers more",
            "23, 26",
            FaultClass::Rollback,
            |s, r| {
                let stream = any_stream(r);
                s.since = Some(s.world.newest[stream].clone());
                yesterday(s);
                Place::file(stream, "checkpoint")
            },
        )
        .also(&[FaultClass::Checkpoint]),
        Kind::new(
            "a fork, and the second copies of the heads",
            "28",
            FaultClass::Fork,
            |s, _| {
                let fork = s.world.fork.clone();
                s.replace_folder("log", &fork);
                Place::new(LONG, "frame ")
            },
        )
        .also(&[FaultClass::Checkpoint, FaultClass::Rollback]),
        Kind::new(
            "a fork, and a verifier who remembers the other branch",
            "28",
            FaultClass::Fork,
            |s, r| {
                let stream = any_stream(r);
                s.since = Some(s.world.newest[stream].clone());
                let fork = s.world.fork.clone();
                let heads = fork.with_file_name("fork.heads");
                s.replace_folder("log", &fork);
                s.replace_folder("log.heads", &heads);
                Place::new(stream, "frame ")
            },
        )
        .also(&[FaultClass::Checkpoint]),
        Kind::new(
            "the checkpoint that the verifier remembers, edited",
            "27",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                let mut since = s.world.remembered[stream].clone();
                let place = r.below(since.len());
                let name = since.iter().position(|byte| *byte == b'\n').unwrap();
                since[place] ^= r.bit();
                s.since = Some(since);
                // With another name in the first line it is of no stream.
                let stream = if place > name { stream } else { "journal" };
                Place::new(stream, "the checkpoint given with --since")
            },
        )
        .also(&[FaultClass::Fork, FaultClass::Rollback]),
        Kind::new(
            "another log of the same name in its place",
            "44",
            FaultClass::KeyChain,
            |s, _| {
                let other = s.world.other.clone();
                let heads = other.with_file_name("other.heads");
                s.replace_folder("log", &other);
                s.replace_folder("log.heads", &heads);
                Place::new("journal", "probity.toml")
            },
        )
        .look(Look::Anchor),
    ]
}

fn yesterday(scene: &mut Scene<'_>) {
    let older = scene.world.older.clone();
    let heads = older.with_file_name("older.heads");
    scene.replace_folder("log", &older);
    scene.replace_folder("log.heads", &heads);
}

fn cut(scene: &mut Scene<'_>, stream: &str, segment: u64, length: usize) {
    let name = in_log(stream, &segment_file_name(segment));
    scene.change(&name, |bytes| bytes.truncate(length));
}

fn frame(stream: &str, segment: u64, frame: u64) -> Place {
    let file = segment_file_name(segment);
    Place::file(stream, &format!("{file}, frame {frame} "))
}

fn gone(scene: &mut Scene<'_>, stream: &str, file: &str) -> Place {
    scene.remove(&in_log(stream, file));
    Place::file(stream, file)
}
