//! Changed bits, and files whose content does not match their names.

use probity_format::Version;
use probity_format::frame::{FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, Frame, TAG_BYTES};
use probity_format::record::{RECORD_BYTES, Record};
use probity_format::segment::{SEGMENT_HEADER_BYTES, segment_file_name};
use probity_format::stream::Cipher;
use probity_log::verify::FaultClass;

use super::{Kind, Place, any_segments, any_stream, flip};
use crate::random::Random;
use crate::world::{LONG, Scene, config};

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "a bit of a section's ciphertext",
            "1, 14",
            FaultClass::Frame,
            |s, r| {
                in_frame(s, r, |frame, random| {
                    let section = *random.of(&frame.clear.sections);
                    section.start..section.start + section.length - TAG_BYTES
                })
            },
        ),
        Kind::new(
            "a bit of a section's tag",
            "2",
            FaultClass::Frame,
            |s, r| {
                in_frame(s, r, |frame, random| {
                    let section = *random.of(&frame.clear.sections);
                    let end = section.start + section.length;
                    end - TAG_BYTES..end
                })
            },
        ),
        Kind::new(
            "a bit of a frame's header",
            "3, 13",
            FaultClass::Frame,
            |s, r| in_frame(s, r, |_, _| 0..FRAME_HEADER_BYTES),
        ),
        Kind::new(
            "a bit of a frame's directory",
            "3",
            FaultClass::Frame,
            |s, r| {
                in_frame(s, r, |frame, _| {
                    FRAME_HEADER_BYTES..frame.clear.bytes().len()
                })
            },
        ),
        Kind::new(
            "a bit of the root that ends a frame",
            "14",
            FaultClass::Frame,
            |s, r| {
                in_frame(s, r, |frame, _| {
                    let end = frame.content().len();
                    end..end + FRAME_TRAILER_BYTES
                })
            },
        ),
        Kind::new(
            "a bit of a frame of the journal",
            "1, 13",
            FaultClass::Frame,
            |s, r| in_frame_of("journal", s, r, |frame, _| 0..frame.content().len()),
        ),
        Kind::new(
            "a bit of a frame of the heads",
            "1, 13",
            FaultClass::Frame,
            |s, r| in_frame_of("heads", s, r, |frame, _| 0..frame.content().len()),
        ),
        Kind::new(
            "a bit of a segment's header",
            "3",
            FaultClass::Segment,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                in_segment(stream, record.segment, s, |bytes| {
                    flip(bytes, 0..SEGMENT_HEADER_BYTES, r);
                })
            },
        ),
        Kind::new(
            "bytes behind a closed segment",
            "8",
            FaultClass::Segment,
            |s, r| {
                let (stream, segment, _) = any_segments(s, r);
                in_segment(stream, segment, s, |bytes| bytes.push(r.bit()))
            },
        ),
        Kind::new("a bit of a record", "13, 14", FaultClass::Record, |s, r| {
            let (stream, bundle) = any_bundle(s, r);
            s.change(&in_log(stream, &bundle), |bytes| {
                // The length of a record is another kind: the records behind it are then not found
                // at all.
                let at = r.below(bytes.len() / (RECORD_BYTES + 2)) * (RECORD_BYTES + 2) + 2;
                flip(bytes, at..at + RECORD_BYTES, r);
            });
            Place::file(stream, &format!("{bundle}, record "))
        }),
        Kind::new(
            "another time in a record, well formed",
            "13",
            FaultClass::Record,
            |s, r| {
                let (stream, bundle) = any_bundle(s, r);
                s.change(&in_log(stream, &bundle), |bytes| {
                    let at = r.below(bytes.len() / (RECORD_BYTES + 2)) * (RECORD_BYTES + 2) + 2;
                    let mut record =
                        Record::decode(Version::NEWEST, &bytes[at..at + RECORD_BYTES]).unwrap();
                    record.time_max += 1 + r.below(1_000_000) as i64;
                    bytes[at..at + RECORD_BYTES].copy_from_slice(&record.encode());
                });
                Place::file(stream, &format!("{bundle}, record "))
            },
        ),
        Kind::new("a length in a bundle", "40", FaultClass::Record, |s, r| {
            let (stream, bundle) = any_bundle(s, r);
            s.change(&in_log(stream, &bundle), |bytes| {
                let at = r.below(bytes.len() / (RECORD_BYTES + 2)) * (RECORD_BYTES + 2);
                let length = (r.next() as u16 % 0xFF00) | 0x100;
                bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
            });
            Place::file(stream, &bundle)
        }),
        Kind::new(
            "bytes behind a bundle",
            "8, 39",
            FaultClass::Record,
            |s, r| {
                let (stream, bundle) = any_bundle(s, r);
                s.change(&in_log(stream, &bundle), |bytes| {
                    let again = bytes[..RECORD_BYTES + 2].to_vec();
                    bytes.extend_from_slice(&again[..=r.below(again.len())]);
                });
                Place::file(stream, &bundle)
            },
        ),
        Kind::new("a bit of a tile", "15", FaultClass::Tile, |s, r| {
            let (stream, tile) = any_tile(s, r);
            s.change(&in_log(stream, &tile), |bytes| {
                let end = bytes.len();
                flip(bytes, 0..end, r);
            });
            Place::file(stream, &tile)
        }),
        Kind::new(
            "a tile cut or longer than its width",
            "39",
            FaultClass::Tile,
            |s, r| {
                let (stream, tile) = any_tile(s, r);
                s.change(&in_log(stream, &tile), |bytes| {
                    if r.below(2) == 0 {
                        bytes.truncate(r.below(bytes.len()));
                    } else {
                        bytes.extend_from_slice(&[7; 32][..=r.below(32)]);
                    }
                });
                Place::file(stream, &tile)
            },
        ),
        Kind::new(
            "a partial tile or bundle under another width",
            "39",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                let current = current_partials(s, stream);
                let name = r.of(&current).clone();
                let (folder, width) = name.rsplit_once('/').unwrap();
                let width: u16 = width.parse().unwrap();
                let content = s.read(&in_log(stream, &name));
                s.remove(&in_log(stream, &name));
                let other = if width > 1 && r.below(2) == 0 {
                    width - 1
                } else {
                    width % 255 + 1
                };
                s.write(&in_log(stream, &format!("{folder}/{other}")), &content);
                Place::file(stream, &name)
            },
        )
        .also(&[FaultClass::Tile]),
        Kind::new(
            "a partial tile under the name of the full one",
            "39",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                let mut tiles = current_partials(s, stream);
                tiles.retain(|name| !name.contains("entries"));
                let partial = r.of(&tiles);
                pass_for_full(s, stream, partial);
                Place::file(stream, partial)
            },
        ),
        Kind::new(
            "a partial bundle under the name of the full one",
            "39",
            FaultClass::Record,
            |s, r| {
                let stream = any_stream(r);
                let mut bundles = current_partials(s, stream);
                bundles.retain(|name| name.contains("entries"));
                Place::file(stream, &pass_for_full(s, stream, &bundles[0]))
            },
        ),
        Kind::new(
            "a bit of an older partial tile or bundle",
            "15",
            FaultClass::Tile,
            |s, r| {
                let stream = any_stream(r);
                let current = current_partials(s, stream);
                let mut older = s.files(&in_log(stream, "tile"));
                older.retain(|name| {
                    name.contains(".p/") && !current.iter().any(|now| name.ends_with(now))
                });
                let name = r.of(&older).clone();
                s.change(&name, |bytes| {
                    let end = bytes.len();
                    flip(bytes, 0..end, r);
                });
                Place::new(stream, name.strip_prefix("log/").unwrap())
            },
        ),
        Kind::new(
            "a file among tiles that is none",
            "8",
            FaultClass::Unknown,
            |s, r| {
                let stream = any_stream(r);
                let name = *r.of(&[
                    "tile/0/0000",
                    "tile/entries/000.p/256",
                    "tile/7/001.part",
                    "tile/notes",
                ]);
                s.write(&in_log(stream, name), b"mine");
                Place::file(stream, name)
            },
        ),
        Kind::new(
            "a bit of a checkpoint",
            "42",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                s.change(&in_log(stream, "checkpoint"), |bytes| {
                    let end = bytes.len();
                    flip(bytes, 0..end, r);
                });
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "another form of a checkpoint",
            "42",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                s.change(&in_log(stream, "checkpoint"), |bytes| {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    let size = text.lines().nth(1).unwrap().to_owned();
                    let line = format!("\n{size}\n");
                    let other = match r.below(7) {
                        0 => text.replacen(&line, &format!("\n0{size}\n"), 1),
                        1 => text.replacen(&line, &format!("\n+{size}\n"), 1),
                        2 => text.replacen(&line, &format!("\n{size} \n"), 1),
                        3 => text.replace('\n', "\r\n"),
                        4 => text.trim_end().to_owned(),
                        5 => text.replacen("=\n", "\n", 1),
                        _ => format!("{text}\n"),
                    };
                    *bytes = other.into_bytes();
                });
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "another origin in a checkpoint",
            "44",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                s.change(&in_log(stream, "checkpoint"), |bytes| {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    let (_, rest) = text.split_once('\n').unwrap();
                    let origin = *r.of(&["example.com/log", "example.com/log/streams/other", "x"]);
                    *bytes = format!("{origin}\n{rest}").into_bytes();
                });
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "a bit of the second copy of a head",
            "27",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                s.change(&format!("log.heads/{stream}"), |bytes| {
                    let end = bytes.len();
                    flip(bytes, 0..end, r);
                });
                Place::new(stream, "the second copy of the head")
            },
        ),
        Kind::new(
            "a folder or link in the place of a segment",
            "20",
            FaultClass::Missing,
            |s, r| {
                let stream = any_stream(r);
                let record = *r.of(&s.world.records[stream]);
                let file = segment_file_name(record.segment);
                strange(s, r, &in_log(stream, &file));
                Place::file(stream, &file)
            },
        ),
        Kind::new(
            "a folder or link in the place of a bundle",
            "15",
            FaultClass::Record,
            |s, r| {
                let (stream, bundle) = any_bundle(s, r);
                strange(s, r, &in_log(stream, &bundle));
                Place::file(stream, &bundle)
            },
        ),
        Kind::new(
            "a folder or link in the place of a tile",
            "15",
            FaultClass::Tile,
            |s, r| {
                let (stream, tile) = any_tile(s, r);
                strange(s, r, &in_log(stream, &tile));
                Place::file(stream, &tile)
            },
        ),
        Kind::new(
            "a folder or link in the place of a checkpoint",
            "30",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                strange(s, r, &in_log(stream, "checkpoint"));
                Place::file(stream, "checkpoint")
            },
        ),
    ]
}

pub(super) fn in_log(stream: &str, file: &str) -> String {
    format!("log/streams/{stream}/{file}")
}

fn in_frame(
    scene: &mut Scene<'_>,
    random: &mut Random,
    range: fn(&Frame<'_>, &mut Random) -> std::ops::Range<usize>,
) -> Place {
    // Tags are where there is a cipher.
    let stream = loop {
        let stream = any_stream(random);
        if config(stream).cipher == Cipher::Aes256Gcm {
            break stream;
        }
    };
    in_frame_of(stream, scene, random, range)
}

fn in_frame_of(
    stream: &str,
    scene: &mut Scene<'_>,
    random: &mut Random,
    range: fn(&Frame<'_>, &mut Random) -> std::ops::Range<usize>,
) -> Place {
    let record = *random.of(&scene.world.records[stream]);
    let file = segment_file_name(record.segment);
    scene.change(&in_log(stream, &file), |bytes| {
        let (start, end) = (record.offset as usize, record.end() as usize);
        let range = range(&Frame::parse(&bytes[start..end]).unwrap(), random);
        flip(bytes, start + range.start..start + range.end, random);
    });
    Place::file(stream, &format!("{file}, frame {} ", record.frame))
}

fn in_segment(
    stream: &str,
    segment: u64,
    scene: &mut Scene<'_>,
    change: impl FnOnce(&mut Vec<u8>),
) -> Place {
    let file = segment_file_name(segment);
    scene.change(&in_log(stream, &file), change);
    Place::file(stream, &file)
}

/// Gives a partial file the name of its full form, and returns that name.
fn pass_for_full(scene: &mut Scene<'_>, stream: &str, partial: &str) -> String {
    let (full, _) = partial.split_once(".p/").unwrap();
    let content = scene.read(&in_log(stream, partial));
    scene.remove(&in_log(stream, partial));
    scene.write(&in_log(stream, full), &content);
    full.to_owned()
}

/// Partial tiles and bundles of the present size, below the stream's folder.
fn current_partials(scene: &Scene<'_>, stream: &str) -> Vec<String> {
    let size = scene.world.records[stream].len();
    let mut names = Vec::new();
    for kind in ["0", "entries"] {
        names.push(format!("tile/{kind}/{:03}.p/{}", size / 256, size % 256));
    }
    if size >= 256 {
        names.push(format!("tile/1/000.p/{}", size / 256));
    }
    assert!(
        names.iter().all(|name| scene.exists(&in_log(stream, name))),
        "{names:?}"
    );
    names
}

fn any_tile(scene: &Scene<'_>, random: &mut Random) -> (&'static str, String) {
    let stream = any_stream(random);
    let mut tiles = current_partials(scene, stream);
    tiles.retain(|name| !name.contains("entries"));
    if stream == LONG {
        tiles.push("tile/0/000".into());
    }
    (stream, random.of(&tiles).clone())
}

fn any_bundle(scene: &Scene<'_>, random: &mut Random) -> (&'static str, String) {
    let stream = any_stream(random);
    let mut bundles = current_partials(scene, stream);
    bundles.retain(|name| name.contains("entries"));
    if stream == LONG {
        bundles.push("tile/entries/000".into());
    }
    (stream, random.of(&bundles).clone())
}

fn strange(scene: &mut Scene<'_>, random: &mut Random, name: &str) {
    scene.remove(name);
    if random.below(2) == 0 {
        scene.make_folder(name);
    } else {
        scene.link(name, "log/probity.toml");
    }
}
