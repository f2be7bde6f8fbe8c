//! Entries exchanged, swapped, repeated, added and left out, by attackers with the disk, the root
//! key, or a signing key too.

use probity_format::frame::{DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES};
use probity_format::record::RECORD_BYTES;
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name};
use probity_log::verify::FaultClass;

use super::bytes::in_log;
use super::{Kind, Place, any_segments, any_stream};
use crate::random::Random;
use crate::thief::Stolen;
use crate::world::{CLEAR, LONG, Look, Scene, Stored, TOGETHER};

/// The offset of the section in a frame without sections of subjects.
const BODY: usize = FRAME_HEADER_BYTES + DIRECTORY_ENTRY_BYTES;

/// The faults of bytes in other places, when frames behind them are moved.
const MOVED: &[FaultClass] = &[FaultClass::Segment];

pub(super) fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    kinds.extend(edits());
    kinds.extend(frames());
    kinds.extend(lies());
    kinds
}

/// Each way to change the entries of a frame, with the attacker's means: the disk alone; all but a
/// signing key, so that records and tiles match; the current signing key too.
fn edits() -> Vec<Kind> {
    use FaultClass::{Fork, Frame, Tree};
    vec![
        Kind::new("an entry replaced, resealed", "5", Frame, |s, r| {
            bytes(s, r, replace)
        })
        .also(MOVED),
        Kind::new("an entry replaced, tree rebuilt", "5", Tree, |s, r| {
            tree(s, r, replace)
        }),
        Kind::new(
            "an entry replaced, signed with today's key",
            "5",
            Fork,
            |s, r| signed(s, r, replace),
        ),
        Kind::new("two entries swapped, resealed", "6", Frame, |s, r| {
            bytes(s, r, swap)
        })
        .also(MOVED),
        Kind::new("two entries swapped, tree rebuilt", "6", Tree, |s, r| {
            tree(s, r, swap)
        }),
        Kind::new(
            "two entries swapped, signed with today's key",
            "6",
            Fork,
            |s, r| signed(s, r, swap),
        ),
        Kind::new("an entry repeated, resealed", "7", Frame, |s, r| {
            bytes(s, r, repeat)
        })
        .also(MOVED),
        Kind::new("an entry repeated, tree rebuilt", "7", Tree, |s, r| {
            tree(s, r, repeat)
        }),
        Kind::new(
            "an entry repeated, signed with today's key",
            "7",
            Fork,
            |s, r| signed(s, r, repeat),
        ),
        Kind::new("an entry added, resealed", "8", Frame, |s, r| {
            bytes(s, r, add)
        })
        .also(MOVED),
        Kind::new("an entry added, tree rebuilt", "8", Tree, |s, r| {
            tree(s, r, add)
        }),
        Kind::new(
            "an entry added, signed with today's key",
            "8",
            Fork,
            |s, r| signed(s, r, add),
        ),
        Kind::new("an entry left out, resealed", "10", Frame, |s, r| {
            bytes(s, r, leave_out)
        })
        .also(MOVED),
        Kind::new("an entry left out, tree rebuilt", "10", Tree, |s, r| {
            tree(s, r, leave_out)
        }),
        Kind::new(
            "an entry left out, signed with today's key",
            "10",
            Fork,
            |s, r| signed(s, r, leave_out),
        ),
    ]
}

/// A change to the rows of a frame.
type Edit = fn(Vec<Vec<u8>>, &mut Random) -> Vec<Vec<u8>>;

fn replace(mut rows: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<u8>> {
    let at = random.below(rows.len());
    // The time of a row follows its length.
    rows[at][4 + random.below(3)] ^= random.bit();
    rows
}

fn swap(mut rows: Vec<Vec<u8>>, _: &mut Random) -> Vec<Vec<u8>> {
    rows.swap(0, 1);
    rows
}

fn repeat(mut rows: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<u8>> {
    let at = random.below(rows.len());
    rows.insert(at, rows[at].clone());
    rows
}

fn add(mut rows: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<u8>> {
    let mut row = rows[random.below(rows.len())].clone();
    row[4] ^= random.bit();
    rows.insert(random.below(rows.len() + 1), row);
    rows
}

fn leave_out(mut rows: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<u8>> {
    rows.remove(random.below(rows.len()));
    rows
}

/// A frame of two entries or more with other ones.
fn edited(scene: &Scene<'_>, random: &mut Random, edit: Edit) -> (Stolen, usize) {
    let stream = *random.of(&TOGETHER);
    let mut stolen = Stolen::new(scene, stream);
    loop {
        let number = random.below(stolen.frames.len());
        let rows = stolen.rows(number);
        if rows.len() >= 2 {
            stolen.reseal(number, &edit(rows, random));
            return (stolen, number);
        }
    }
}

fn bytes(scene: &mut Scene<'_>, random: &mut Random, edit: Edit) -> Place {
    let (stolen, number) = edited(scene, random, edit);
    let record = scene.world.records[&stolen.stream][number];
    let file = segment_file_name(record.segment);
    scene.change(&in_log(&stolen.stream, &file), |bytes| {
        let range = record.offset as usize..record.end() as usize;
        bytes.splice(range, stolen.frames[number].iter().copied());
    });
    Place::file(&stolen.stream, &format!("{file}, frame {number} "))
}

fn tree(scene: &mut Scene<'_>, random: &mut Random, edit: Edit) -> Place {
    let (stolen, _) = edited(scene, random, edit);
    stolen.write(scene, None);
    Place::file(&stolen.stream, "checkpoint")
}

fn signed(scene: &mut Scene<'_>, random: &mut Random, edit: Edit) -> Place {
    let (stolen, number) = edited(scene, random, edit);
    let today = *scene.world.seeds.last().unwrap();
    stolen.write(scene, Some(&today));
    // The first head that the journal anchored behind the frame, or the second copy.
    assert!(number < stolen.frames.len());
    Place::file(&stolen.stream, "").into_frame()
}

impl Place {
    fn into_frame(self) -> Self {
        let place = self.place.trim_end_matches('/').to_owned() + ", frame ";
        Self { place, ..self }
    }
}

fn frames() -> Vec<Kind> {
    vec![
        Kind::new("a frame left out", "10", FaultClass::Frame, |s, r| {
            // Without its last frame a segment is cut between frames, which is another kind.
            with_frames(s, r, |frames, at, _| {
                drop(frames.remove(at.min(frames.len() - 2)));
            })
            .into_any_frame()
        })
        .also(MOVED),
        Kind::new("two frames swapped", "11", FaultClass::Frame, |s, r| {
            with_frames(s, r, |frames, at, random| {
                let other = (at + 1 + random.below(frames.len() - 1)) % frames.len();
                frames.swap(at, other);
            })
        })
        .also(MOVED),
        Kind::new("a frame repeated", "7", FaultClass::Frame, |s, r| {
            with_frames(s, r, |frames, at, _| {
                // In the place of a neighbour, so that the change has an effect everywhere.
                let again = frames[at].clone();
                let neighbour = if at + 1 < frames.len() {
                    at + 1
                } else {
                    at - 1
                };
                frames[neighbour] = again;
            })
            .into_any_frame()
        })
        .also(MOVED),
        Kind::new(
            "a frame of another log in its place",
            "5",
            FaultClass::Frame,
            |s, r| {
                let stream = any_stream(r);
                let number = r.below(s.world.records[stream].len().min(20));
                let record = s.world.records[stream][number];
                let other = crate::world::records(&s.world.other, stream)[number];
                let path = s.world.other.join(format!(
                    "streams/{stream}/{}",
                    segment_file_name(other.segment)
                ));
                let bytes = std::fs::read(path).unwrap();
                let frame = bytes[other.offset as usize..other.end() as usize].to_vec();
                let file = segment_file_name(record.segment);
                s.change(&in_log(stream, &file), |bytes| {
                    bytes.splice(record.offset as usize..record.end() as usize, frame);
                });
                Place::file(stream, &format!("{file}, frame {number} "))
            },
        )
        .also(MOVED),
        Kind::new("two segments swapped", "11", FaultClass::Frame, |s, r| {
            let (stream, one, other) = any_segments(s, r);
            let (one, other) = (segment_file_name(one), segment_file_name(other));
            let kept = s.read(&in_log(stream, &one));
            let moved = s.read(&in_log(stream, &other));
            s.write(&in_log(stream, &one), &moved);
            s.write(&in_log(stream, &other), &kept);
            Place::file(stream, &one)
        })
        .also(MOVED),
        Kind::new("a segment renamed", "11", FaultClass::Segment, |s, r| {
            let (stream, before, segment) = any_segments(s, r);
            let old = in_log(stream, &segment_file_name(segment));
            let other = if segment > before + 1 && r.below(2) == 0 {
                before + 1 + r.below((segment - before - 1) as usize) as u64
            } else {
                segment + 1
            };
            if s.exists(&in_log(stream, &segment_file_name(other))) {
                return cut_in(s, stream, segment);
            }
            let bytes = s.read(&old);
            s.remove(&old);
            s.write(&in_log(stream, &segment_file_name(other)), &bytes);
            Place::file(stream, "segments/")
        })
        .also(&[FaultClass::Frame, FaultClass::Missing]),
        Kind::new(
            "frames in two segments",
            "8, 11",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                if record.segment == record.frame {
                    return cut_in(s, stream, record.segment);
                }
                cut_in(s, stream, record.frame)
            },
        )
        .also(&[FaultClass::Frame]),
        Kind::new(
            "a segment of another stream in its place",
            "5, 11",
            FaultClass::Segment,
            |s, r| {
                let stream = *r.of(&["entry", "second", "erasable"]);
                let moved = s.read(&in_log(LONG, &segment_file_name(0)));
                s.write(&in_log(stream, &segment_file_name(0)), &moved);
                Place::file(stream, &segment_file_name(0))
            },
        )
        .also(&[FaultClass::Frame]),
        Kind::new(
            "two records swapped",
            "6, 11",
            FaultClass::Record,
            |s, r| {
                const BYTES: usize = RECORD_BYTES + 2;
                s.change(&in_log(LONG, "tile/entries/000"), |bytes| {
                    let one = r.below(255);
                    let other = one + 1 + r.below(255 - one);
                    let kept = bytes[one * BYTES..(one + 1) * BYTES].to_vec();
                    bytes.copy_within(other * BYTES..(other + 1) * BYTES, one * BYTES);
                    bytes[other * BYTES..(other + 1) * BYTES].copy_from_slice(&kept);
                });
                Place::file(LONG, "tile/entries/000, record ")
            },
        ),
        Kind::new(
            "a bundle of another stream or log in its place",
            "5, 11",
            FaultClass::Record,
            |s, r| {
                let stream = *r.of(&["entry", "second", "erasable"]);
                let size = s.world.records[stream].len();
                let bundle = format!("tile/entries/000.p/{size}");
                let other =
                    s.read(&in_log(LONG, "tile/entries/000"))[..(RECORD_BYTES + 2) * size].to_vec();
                s.write(&in_log(stream, &bundle), &other);
                Place::file(stream, &format!("{bundle}, record "))
            },
        ),
        Kind::new(
            "a tile of another stream in its place",
            "15",
            FaultClass::Tile,
            |s, r| {
                let stream = *r.of(&["entry", "second", "erasable"]);
                let size = s.world.records[stream].len();
                let tile = format!("tile/0/000.p/{size}");
                let other = s.read(&in_log(LONG, "tile/0/000"))[..32 * size].to_vec();
                s.write(&in_log(stream, &tile), &other);
                Place::file(stream, &tile)
            },
        ),
    ]
}

/// Adds a segment that begins with frame `first`, which another segment holds. If a segment begins
/// with it already, lets the segment before go on with it.
fn cut_in(scene: &mut Scene<'_>, stream: &str, first: u64) -> Place {
    let record = scene.world.records[stream][first as usize];
    let whole = scene.read(&in_log(stream, &segment_file_name(record.segment)));
    let name = in_log(stream, &segment_file_name(first));
    if record.segment == first {
        let again = whole[SEGMENT_HEADER_BYTES..record.end() as usize].to_vec();
        let last = scene.world.records[stream].last().unwrap().segment;
        if last == first {
            // Behind the last frame only bytes that are no frame of the stream may follow: that is
            // another kind.
            scene.change(&name, |bytes| bytes[0] ^= 1);
        } else {
            scene.change(&name, |bytes| bytes.extend(again));
        }
    } else {
        let mut bytes = whole[..SEGMENT_HEADER_BYTES].to_vec();
        bytes.extend_from_slice(&whole[record.offset as usize..]);
        scene.write(&name, &bytes);
    }
    Place::file(stream, &segment_file_name(record.segment))
}

/// Changes the order of the frames of one segment.
fn with_frames(
    scene: &mut Scene<'_>,
    random: &mut Random,
    change: fn(&mut Vec<Vec<u8>>, usize, &mut Random),
) -> Place {
    let (stream, records) = loop {
        let stream = any_stream(random);
        let all = &scene.world.records[stream];
        let segment = random.of(all).segment;
        let records: Vec<_> = all
            .iter()
            .filter(|record| record.segment == segment)
            .collect();
        if records.len() >= 2 {
            break (stream, records);
        }
    };
    let at = random.below(records.len());
    let (first, last) = (records[0], records[records.len() - 1]);
    let file = segment_file_name(first.segment);
    let frame = records[at].frame;
    scene.change(&in_log(stream, &file), |bytes| {
        let cut = |record: &&Stored| bytes[record.offset as usize..record.end() as usize].to_vec();
        let mut frames: Vec<Vec<u8>> = records.iter().map(cut).collect();
        change(&mut frames, at, random);
        bytes.splice(first.offset as usize..last.end() as usize, frames.concat());
    });
    Place::file(stream, &format!("{file}, frame {frame} "))
}

impl Place {
    /// Any frame of the same segment.
    fn into_any_frame(self) -> Self {
        let (segment, _) = self.place.split_once(", frame").unwrap();
        Self {
            place: format!("{segment}, frame "),
            ..self
        }
    }
}

/// Changes that a writer with every key can make unseen by readers without keys: frames whose
/// contents contradict their headers. They are signed for, and behind the last anchored head, as
/// after a crash.
fn lies() -> Vec<Kind> {
    vec![
        Kind::new(
            "a frame of an earlier epoch behind a later one",
            "",
            FaultClass::Frame,
            |s, r| {
                let mut stolen = Stolen::new(s, CLEAR);
                let rows = stolen.rows(r.below(stolen.frames.len()));
                stolen.push_in_epoch_of(0, &rows);
                sign_last(s, &stolen)
            },
        ),
        Kind::new(
            "a frame that lies about its times",
            "13",
            FaultClass::Content,
            |s, r| {
                lie(s, r, |frame, random| {
                    frame[36 + random.below(4)] ^= random.bit();
                })
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a frame that lies about its entries' root",
            "5",
            FaultClass::Content,
            |s, r| {
                lie(s, r, |frame, random| {
                    frame[148 + random.below(32)] ^= random.bit();
                })
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a frame that lies about its count of entries",
            "8, 10",
            FaultClass::Content,
            |s, r| {
                lie(s, r, |frame, random| {
                    frame[12] += 1 + random.below(100) as u8;
                })
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a section that says it opens to gigabytes",
            "45",
            FaultClass::Content,
            |s, r| {
                lie(s, r, |frame, random| {
                    // Header, one directory entry, the compressor's code, the length of the packed
                    // part.
                    let plain = BODY + 1 + 4;
                    frame[plain + 3] = 1 + random.below(255) as u8;
                })
            },
        )
        .look(Look::Keyed),
        Kind::new(
            "a section whose packed part is longer than the section",
            "40",
            FaultClass::Content,
            |s, r| {
                lie(s, r, |frame, random| {
                    frame[BODY + 1 + 2] = 1 + random.below(255) as u8;
                })
            },
        )
        .look(Look::Keyed),
    ]
}

fn lie(scene: &mut Scene<'_>, random: &mut Random, change: fn(&mut [u8], &mut Random)) -> Place {
    let mut stolen = Stolen::new(scene, CLEAR);
    let rows = stolen.rows(random.below(stolen.frames.len()));
    stolen.push(&rows);
    let number = stolen.frames.len() - 1;
    stolen.bend(number, |frame| change(frame, random));
    sign_last(scene, &stolen)
}

/// Signs for the stolen stream with the current key, and returns the place of the last frame.
fn sign_last(scene: &mut Scene<'_>, stolen: &Stolen) -> Place {
    let number = stolen.frames.len() - 1;
    let today = *scene.world.seeds.last().unwrap();
    stolen.write(scene, Some(&today));
    // A checkpoint beyond its second copy would be reported as well.
    let note = scene.read(&in_log(CLEAR, "checkpoint"));
    scene.write(&format!("log.heads/{CLEAR}"), &note);
    Place::file(CLEAR, "segments/").into_content(number)
}

impl Place {
    fn into_content(self, number: usize) -> Self {
        // The segment's number depends on the lengths of frames; only the frame matters.
        Self {
            place: format!(", frame {number} "),
            ..self
        }
    }
}
