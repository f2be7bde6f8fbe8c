//! Seals stripped, keys misused, and fixed properties of the log changed.

use probity_format::checkpoint::Checkpoint;
use probity_format::frame::FRAME_HEADER_BYTES;
use probity_format::note::SignedNote;
use probity_log::verify::FaultClass;

use super::bytes::in_log;
use super::{JOURNAL_TOO, Kind, Place, any_stream};
use crate::random::Random;
use crate::thief::{Stolen, signer, stream_origin};
use crate::world::{CLEAR, LONG, Look, Scene, TOGETHER};

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        Kind::new(
            "the signature of a checkpoint left out",
            "30",
            FaultClass::Checkpoint,
            |s, r| resigned(s, r, |note, _, _, _| note.text().to_owned() + "\n"),
        ),
        Kind::new(
            "a checkpoint signed by a stranger of the same name",
            "31",
            FaultClass::Checkpoint,
            |s, r| {
                resigned(s, r, |note, _, stream, random| {
                    let seed = [random.bit(); 32];
                    sign(note, &stream_origin(stream), &seed)
                })
            },
        ),
        Kind::new(
            "a checkpoint signed under another stream's name",
            "31",
            FaultClass::Checkpoint,
            |s, r| {
                resigned(s, r, |note, scene, stream, _| {
                    let other = if stream == LONG { CLEAR } else { LONG };
                    sign(
                        note,
                        &stream_origin(other),
                        scene.world.seeds.last().unwrap(),
                    )
                })
            },
        ),
        Kind::new(
            "another stream's checkpoint in its place",
            "31, 44",
            FaultClass::Checkpoint,
            |s, r| {
                let stream = any_stream(r);
                let other = if stream == LONG { CLEAR } else { LONG };
                let note = s.read(&in_log(other, "checkpoint"));
                s.write(&in_log(stream, "checkpoint"), &note);
                Place::file(stream, "checkpoint")
            },
        ),
        Kind::new(
            "the journal's checkpoint signed with an expired key",
            "31",
            FaultClass::Checkpoint,
            |s, r| {
                let note = SignedNote::parse(&s.read(&in_log("journal", "checkpoint"))).unwrap();
                let seeds = &s.world.seeds;
                let expired = seeds[r.below(seeds.len() - 1)];
                let note = sign(&note, &stream_origin("journal"), &expired);
                s.write(&in_log("journal", "checkpoint"), note.as_bytes());
                Place::file("journal", "checkpoint")
            },
        ),
        Kind::new(
            "a stream grown and signed with an expired key",
            "31",
            FaultClass::Checkpoint,
            |s, r| {
                let mut stolen = Stolen::new(s, TOGETHER[r.below(TOGETHER.len())]);
                let rows = stolen.rows(r.below(stolen.frames.len()));
                stolen.push(&rows);
                let seeds = &s.world.seeds;
                let expired = seeds[r.below(seeds.len() - 1)];
                stolen.write(s, Some(&expired));
                Place::file(&stolen.stream, "checkpoint")
            },
        ),
        Kind::new(
            "a key certificate edited, journal rebuilt",
            "31, 35",
            FaultClass::KeyChain,
            |s, r| {
                let mut stolen = Stolen::new(s, "journal");
                edit_journal(&mut stolen, r, "key.certify", |payload, random| {
                    // The text of the note begins with its version line.
                    let at = payload.len() - 60 + random.below(50);
                    payload[at] ^= 1;
                });
                stolen.write(s, None);
                Place::new("journal", "journal frame ")
            },
        )
        .also(JOURNAL_TOO),
        Kind::new(
            "the journal rewritten and signed with today's key",
            "31",
            FaultClass::KeyChain,
            |s, r| {
                let mut stolen = Stolen::new(s, "journal");
                // The frames that certificates of destroyed keys bind: everything before the last
                // of them.
                let number = r.below(stolen.frames.len() / 2);
                let mut rows = stolen.rows(number);
                rows.push(recovered_nothing(&stolen.rows(0)[0]));
                stolen.reseal(number, &rows);
                let today = *s.world.seeds.last().unwrap();
                stolen.write(s, Some(&today));
                let note = s.read(&in_log("journal", "checkpoint"));
                s.write("log.heads/journal", &note);
                Place::new("journal", "frame ")
            },
        )
        .also(JOURNAL_TOO),
        Kind::new(
            "a stream's cipher downgraded in the journal",
            "30, 35",
            FaultClass::Tree,
            |s, r| {
                let mut stolen = Stolen::new(s, "journal");
                edit_journal(&mut stolen, r, "stream.create", |payload, _| {
                    let text = String::from_utf8(payload.clone()).unwrap();
                    *payload = text
                        .replace("cipher=aes-256-gcm", "cipher=danger-none")
                        .into_bytes();
                });
                stolen.write(s, None);
                Place::file("journal", "checkpoint")
            },
        )
        .also(JOURNAL_TOO),
        Kind::new(
            "frames without a cipher in the place of sealed ones",
            "30, 35",
            FaultClass::Tree,
            |s, r| {
                let mut stolen = Stolen::new(s, LONG);
                let at = r.below(stolen.frames.len());
                stolen.bend(at, |frame| {
                    // The commitment to the key of its one section.
                    frame[FRAME_HEADER_BYTES + 8..][..32].fill(0);
                });
                stolen.write(s, None);
                Place::file(LONG, "checkpoint")
            },
        )
        .also(&[FaultClass::Frame]),
        Kind::new(
            "the geometry of a newer format",
            "35",
            FaultClass::KeyChain,
            |s, r| geometry(s, "format = 3", &format!("format = {}", 4 + r.below(1_000))),
        )
        .refused("it was edited"),
        Kind::new(
            "the geometry of an older format",
            "35",
            FaultClass::KeyChain,
            |s, _| {
                geometry(s, "format = 3", "format = 2");
                s.change("log/probity.toml", |bytes| {
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    bytes.truncate(text.rfind("witness").unwrap());
                });
                Place::new("journal", "")
            },
        )
        .refused("it was edited"),
        Kind::new(
            "another suite in the geometry",
            "35",
            FaultClass::KeyChain,
            |s, r| {
                let weaker = *r.of(&["md5", "sha-1", "none"]);
                geometry(s, "sha-256", weaker)
            },
        )
        .refused("probity.toml"),
        Kind::new(
            "another id, name or first key in the geometry",
            "44",
            FaultClass::KeyChain,
            |s, r| match r.below(3) {
                0 => {
                    let stranger = signer(crate::world::ORIGIN, &[r.bit(); 32]);
                    let stranger = probity_format::note::Signer::verifier_key(&stranger).encode();
                    let anchor = s.world.anchor.encode();
                    geometry(s, &anchor, &stranger)
                }
                1 => geometry(s, "id = \"", "id = \"0"),
                _ => geometry(s, "example.com", "example.org"),
            },
        )
        .look(Look::Anchor)
        .refused("probity.toml"),
    ]
}

type Resign = fn(&SignedNote, &Scene<'_>, &str, &mut Random) -> String;

fn resigned(scene: &mut Scene<'_>, random: &mut Random, resign: Resign) -> Place {
    let stream = any_stream(random);
    let note = SignedNote::parse(&scene.read(&in_log(stream, "checkpoint"))).unwrap();
    let changed = resign(&note, scene, stream, random);
    scene.write(&in_log(stream, "checkpoint"), changed.as_bytes());
    Place::file(stream, "checkpoint")
}

fn sign(note: &SignedNote, name: &str, seed: &[u8; 32]) -> String {
    let head = Checkpoint::parse(note.text()).unwrap();
    head.sign(&[&signer(name, seed)]).unwrap()
}

fn geometry(scene: &mut Scene<'_>, old: &str, new: &str) -> Place {
    scene.change("log/probity.toml", |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        *bytes = text.replacen(old, new, 1).into_bytes();
    });
    Place::new("journal", "probity.toml")
}

/// An entry of the journal that may stand in any frame, at the time of `row`.
fn recovered_nothing(row: &[u8]) -> Vec<u8> {
    use probity_format::row::{decode_row, encode_row, row_bytes};
    let mut entry = decode_row(row).unwrap().entry().unwrap();
    entry.action = "recover";
    entry.key = b"";
    let mut row = vec![0; row_bytes(&entry)];
    encode_row(&entry, &mut row);
    row
}

/// Changes the payload of an entry of the journal with this action, and re-frames it.
fn edit_journal(
    stolen: &mut Stolen,
    random: &mut Random,
    action: &str,
    edit: fn(&mut Vec<u8>, &mut Random),
) {
    use probity_format::row::{decode_row, encode_row, row_bytes};
    let holds = |number: &usize| {
        let rows = stolen.rows(*number);
        rows.iter()
            .any(|row| decode_row(row).unwrap().entry().unwrap().action == action)
    };
    let frames: Vec<usize> = (0..stolen.frames.len()).filter(holds).collect();
    loop {
        let number = *random.of(&frames);
        let mut rows = stolen.rows(number);
        for row in &mut rows {
            let before = row.clone();
            let mut entry = decode_row(&before).unwrap().entry().unwrap();
            if entry.action != action {
                continue;
            }
            let mut payload = entry.payload.to_vec();
            edit(&mut payload, random);
            entry.payload = &payload;
            row.resize(row_bytes(&entry), 0);
            encode_row(&entry, row);
        }
        // A stream without a cipher has none to be taken away.
        if rows != stolen.rows(number) {
            stolen.reseal(number, &rows);
            return;
        }
    }
}
