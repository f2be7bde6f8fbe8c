//! The tables of `docs/format.md`, read and compared with the encoded bytes.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    reason = "a table that cannot be read is a failure, and offsets come from it"
)]

use std::ops::Range;

use probity_format::certificate::{Bound, Link};
use probity_format::frame::{
    DIRECTORY_ENTRY_BYTES, FRAME_HEADER_BYTES, FRAME_TRAILER_BYTES, FrameHeader,
};
use probity_format::limits::*;
use probity_format::note::Signature;
use probity_format::proof::{
    Certified, EntryProof, Evidence, Grown, Identity, JournalFrame, Newest, Signers, TlogProof,
};
use probity_format::record::{RECORD_BYTES, Record};
use probity_format::row::{ROW_HEADER_BYTES, encode_row, row_bytes};
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES, segment_file_name, segment_header};
use probity_format::stream::{StreamConfig, StreamId};
use probity_format::tree::Hash;
use probity_format::{Claimed, Entry, Outcome, Subjects, Timestamp};

const DOCUMENT: &str = include_str!("../../../../docs/format.md");
const LIMITS: &str = include_str!("../../src/limits.rs");

/// Returns the section of the document under `heading`.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("\n{heading}\n")).unwrap() + heading.len() + 2;
    let rest = &DOCUMENT[start..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

/// Returns range and name of each field in the first table of offsets in a section.
fn fields(heading: &str) -> Vec<(Range<usize>, &'static str)> {
    let rows = section(heading).lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [offset, bytes, name] = cells[..] else {
            return None;
        };
        let (offset, bytes): (usize, usize) = (offset.parse().ok()?, bytes.parse().ok()?);
        Some((offset..offset + bytes, name))
    });
    let fields: Vec<_> = rows.collect();
    for pair in fields.windows(2) {
        assert_eq!(pair[0].0.end, pair[1].0.start, "{}", pair[1].1);
    }
    fields
}

/// Checks that each field of the table holds these bytes, in order, and that the table covers all
/// bytes.
fn compare(heading: &str, written: &[u8], expected: &[&[u8]]) {
    let fields = fields(heading);
    assert_eq!(fields.len(), expected.len(), "{heading}");
    for ((range, name), expected) in fields.into_iter().zip(expected) {
        assert_eq!(written[range], **expected, "{heading}: {name}");
    }
}

/// Checks that `written` is the concatenation of `parts`.
fn joined(written: &[u8], parts: &[&[u8]]) {
    assert_eq!(written, parts.concat());
}

fn header() -> FrameHeader {
    FrameHeader {
        v2: None,
        length: 0x0001_0203,
        sections: 0x0102,
        entries: 0x2122,
        frame: 0x0807_0605_0403_0201,
        first_entry: 0x1817_1615_1413_1211,
        epoch: 0x3433_3231,
        time_min: 0x4847_4645_4443_4241,
        time_max: 0x5857_5655_5453_5251,
        stream: StreamId::from_bytes([0x61; 32]),
        salt: [0x62; 32],
        authenticator: [0x63; 32],
        entry_root: [0x64; 32],
    }
}

#[test]
fn a_frame_header_has_its_fields_where_the_document_says() {
    let header = header();
    let written = header.encode();
    compare(
        "## Frame",
        &written,
        &[
            b"PBF3",
            &header.length.to_le_bytes(),
            &header.sections.to_le_bytes(),
            &header.entries.to_le_bytes(),
            &header.frame.to_le_bytes(),
            &header.first_entry.to_le_bytes(),
            &header.epoch.to_le_bytes(),
            &header.time_min.to_le_bytes(),
            &header.time_max.to_le_bytes(),
            &[0x61; 32],
            &[0x62; 32],
            &[0x63; 32],
            &[0x64; 32],
        ],
    );
    assert_eq!(fields("## Frame").last().unwrap().0.end, FRAME_HEADER_BYTES);
    assert!(section("## Frame").contains(&format!("{DIRECTORY_ENTRY_BYTES} bytes")));
    assert!(section("## Frame").contains(&format!("{FRAME_TRAILER_BYTES}-byte trailer")));
}

const ROW_TIME: i64 = 0x0102_0304_0506_0708;

fn entry() -> Entry<'static> {
    Entry {
        subjects: Subjects::joined("a\nbc"),
        controller: "controller",
        processor: "processor-1",
        actor: "actor-123456",
        purpose: "purpose-12345",
        basis: "basis-12345678",
        outcome: Outcome::Failed,
        payload: b"payload-1234567",
        ..Entry::new(
            Timestamp::from_nanoseconds(ROW_TIME).unwrap(),
            "act",
            b"key-1234567890123",
        )
    }
}

/// Compares the header of the row of `entry` with the table; returns the bytes after it.
fn behind_header(entry: &Entry<'_>, parts: u8) -> Vec<u8> {
    let mut row = vec![0; row_bytes(entry)];
    encode_row(entry, &mut row);
    compare(
        "## Row",
        &row,
        &[
            &(row.len() as u32).to_le_bytes(),
            &ROW_TIME.to_le_bytes(),
            &[2],
            &[3, 10, 11, 12, 13, 14],
            &[parts],
            &17_u16.to_le_bytes(),
            &4_u16.to_le_bytes(),
            &15_u32.to_le_bytes(),
        ],
    );
    row.split_off(ROW_HEADER_BYTES)
}

const ROW_TEXTS: [&[u8]; 8] = [
    b"act",
    b"key-1234567890123",
    b"a\nbc",
    b"controller",
    b"processor-1",
    b"actor-123456",
    b"purpose-12345",
    b"basis-12345678",
];

#[test]
fn a_row_has_its_fields_where_the_document_says() {
    let row = behind_header(&entry(), 0);
    joined(&row, &[&ROW_TEXTS[..], &[b"payload-1234567"]].concat());
}

/// Returns the entry above with every optional field.
fn full_entry() -> Entry<'static> {
    Entry {
        taken: Some(Timestamp::from_nanoseconds(ROW_TIME + 1).unwrap()),
        submitter: "submitter",
        policy: Some(&[0xA1; 32]),
        rule: "rule",
        idempotency: Some(&[0xA2; 32]),
        claimed: Claimed {
            actor: true,
            purpose: true,
        },
        ..entry()
    }
}

#[test]
fn what_a_row_has_besides_stands_where_the_document_says() {
    let before = [&(ROW_TIME + 1).to_le_bytes()[..], &[9, 4]];
    let behind: [&[u8]; 5] = [
        b"submitter",
        &[0xA1; 32],
        b"rule",
        &[0xA2; 32],
        b"payload-1234567",
    ];
    joined(
        &behind_header(&full_entry(), 0b11_1111),
        &[&before[..], &ROW_TEXTS, &behind].concat(),
    );
}

#[test]
fn each_bit_of_a_row_stands_for_what_the_document_says() {
    let with = |set: &dyn Fn(&mut Entry<'static>)| {
        let mut entry = entry();
        set(&mut entry);
        entry
    };
    let full = full_entry();
    for (bit, entry) in [
        (0, with(&|entry| entry.taken = full.taken)),
        (1, with(&|entry| entry.rule = full.rule)),
        (1, with(&|entry| entry.submitter = full.submitter)),
        (2, with(&|entry| entry.policy = full.policy)),
        (3, with(&|entry| entry.idempotency = full.idempotency)),
        (4, with(&|entry| entry.claimed.actor = true)),
        (5, with(&|entry| entry.claimed.purpose = true)),
    ] {
        behind_header(&entry, 1 << bit);
    }
}

fn record() -> Record {
    header().record(Hash::new([0x65; 32]), Place::default())
}

#[test]
fn a_record_is_its_fields_in_the_order_of_the_document() {
    let record = record();
    joined(
        &record.encode(),
        &[
            &record.frame.to_le_bytes(),
            &record.first_entry.to_le_bytes(),
            &record.entries.to_le_bytes(),
            &record.length.to_le_bytes(),
            &record.time_min.to_le_bytes(),
            &record.time_max.to_le_bytes(),
            &[0x65; 32],
            &[0x64; 32],
        ],
    );
    let text = section("## Frame record");
    assert!(text.contains(&format!("{RECORD_BYTES} bytes")));
    let order = [
        "frame index (8)",
        "first entry (8)",
        "entries (4)",
        "length (4)",
        "earliest time (8)",
        "latest time (8)",
        "sealed root (32)",
        "entry root (32)",
    ];
    let text = text.replace('\n', " ");
    let mut behind = 0;
    for field in order {
        let place = text[behind..].find(field);
        behind += place.unwrap_or_else(|| panic!("{field} is not in its place")) + field.len();
    }
}

#[test]
fn a_segment_header_is_its_fields_in_the_order_of_the_document() {
    let written = segment_header(&StreamId::from_bytes([0x11; 32]));
    joined(&written, &[b"PROBSEG3", &[0x11; 32]]);
    assert_eq!(written.len(), SEGMENT_HEADER_BYTES);
    let text = section("## Segment");
    assert!(text.contains(&format!("{SEGMENT_HEADER_BYTES} bytes")));
    assert!(text.contains("`PROBSEG3` (8), stream identity (32)"));
    let name = segment_file_name(1234);
    assert!(text.contains(&format!("`{name}`")), "{name}");
}

fn bound(size: u64, byte: u8) -> Bound {
    let root = Hash::new([byte; 32]);
    Bound { size, root }
}

/// Returns a certificate as in a proof, with every optional part.
fn shown() -> Certified {
    Certified {
        size: 0x0102_0304_0506_0708,
        signatures: vec![Signature::new("w", 0x0B0A_0908, vec![7])],
        witness: [0x96; 32],
        certificate: JournalFrame {
            record: record(),
            path: vec![Hash::new([0x97; 32])],
            clear: Hash::new([0x98; 32]),
            section: b"section".to_vec(),
        },
        last: Some(JournalFrame {
            record: record(),
            path: Vec::new(),
            clear: Hash::new([0x9F; 32]),
            section: b"last".to_vec(),
        }),
        first_key: [0x93; 32],
        links: vec![Link::new(
            [0x99; 32],
            bound(5, 0x9A),
            Some(bound(7, 0x9E)),
            [0x9B; 64],
        )],
        grown: Some(Grown {
            size: 6,
            root: Hash::new([0x9C; 32]),
            path: vec![Hash::new([0x9D; 32])],
            newest: None,
        }),
    }
}

/// Returns a proof with evidence of sections.
fn shown_proof(config: StreamConfig) -> EntryProof {
    EntryProof {
        identity: Some(Identity {
            log_id: [0x91; 16],
            anchor: [0x92; 32],
            config,
        }),
        signers: Signers::Certified(Box::new(shown())),
        record: record(),
        place: 0x0A0B_0C0D,
        evidence: Evidence::Sections {
            clear: b"clear".to_vec(),
            clear_path: Vec::new(),
            shown: Vec::new(),
        },
        path: Vec::new(),
        checkpoint: "checkpoint\n".to_owned(),
    }
}

#[test]
fn an_entry_proof_has_its_fields_where_the_document_says() {
    let config = StreamConfig::default();
    let proof = shown_proof(config);
    let extra = TlogProof::parse(&proof.encode().unwrap()).unwrap().extra;
    let extra = extra.unwrap();
    let record = record().encode();
    compare(
        "## Entry proof",
        &extra,
        &[
            b"PBEP",
            &2_u16.to_le_bytes(),
            &[1],
            &[0],
            &record,
            &0x0A0B_0C0D_u32.to_le_bytes(),
            &0x0102_0304_0506_0708_u64.to_le_bytes(),
        ],
    );
    let config = config.to_string();
    joined(
        &extra[8 + record.len() + 4 + 8..],
        &[
            &[1, 1],
            b"w",
            &[0x0B, 0x0A, 9, 8],
            &1_u32.to_le_bytes(),
            &[7],
            &[0x96; 32],
            &record,
            &[1],
            &[0x97; 32],
            &[0x98; 32],
            &7_u32.to_le_bytes(),
            b"section",
            &[1],
            &record,
            &[0],
            &[0x9F; 32],
            &4_u32.to_le_bytes(),
            b"last",
            &[0x93; 32],
            &[1],
            &[0x99; 32],
            &5_u64.to_le_bytes(),
            &[0x9A; 32],
            &7_u64.to_le_bytes(),
            &[0x9E; 32],
            &[0x9B; 64],
            &6_u64.to_le_bytes(),
            &[0x9C; 32],
            &[1],
            &[0x9D; 32],
            &[0x91; 16],
            &[0x92; 32],
            &[config.len() as u8],
            config.as_bytes(),
            &5_u32.to_le_bytes(),
            b"clear",
            &[0, 0],
        ],
    );
}

#[test]
fn a_proof_that_shows_the_newest_key_under_an_older_head_is_of_version_3() {
    let frame = |byte: u8, section: &[u8]| JournalFrame {
        record: record(),
        path: vec![Hash::new([byte; 32])],
        clear: Hash::new([byte; 32]),
        section: section.to_vec(),
    };
    let extra = |proof: &EntryProof| {
        let parsed = TlogProof::parse(&proof.encode().unwrap()).unwrap();
        parsed.extra.unwrap()
    };
    let mut proof = shown_proof(StreamConfig::default());
    let older = extra(&proof);
    let Signers::Certified(shown) = &mut proof.signers else {
        panic!("the proof shows a certificate");
    };
    shown.grown.as_mut().unwrap().newest = Some(Newest {
        certificate: frame(0xA0, b"older"),
        last: Some(frame(0xA1, b"older last")),
    });
    let newer = extra(&proof);
    assert_eq!(older[4..6], 2_u16.to_le_bytes());
    assert_eq!(newer[4..6], 3_u16.to_le_bytes());
    let path = [0x9D; 32];
    let at = older
        .windows(32)
        .rposition(|window| window == path)
        .unwrap()
        + 32;
    assert_eq!(older[6..at], newer[6..at]);
    let added = newer.len() - older.len();
    joined(
        &newer[at..at + added],
        &[
            &record().encode(),
            &[1],
            &[0xA0; 32],
            &[0xA0; 32],
            &5_u32.to_le_bytes(),
            b"older",
            &[1],
            &record().encode(),
            &[1],
            &[0xA1; 32],
            &[0xA1; 32],
            &10_u32.to_le_bytes(),
            b"older last",
        ],
    );
    assert_eq!(older[at..], newer[at + added..]);
    let parsed = EntryProof::parse(&proof.encode().unwrap()).unwrap();
    assert_eq!(extra(&parsed), newer);
    // The version says what is there: neither is read as the other.
    for (bytes, version) in [(&older, 3_u16), (&newer, 2)] {
        let mut text = TlogProof::parse(&proof.encode().unwrap()).unwrap();
        let mut bytes = bytes.clone();
        bytes[4..6].copy_from_slice(&version.to_le_bytes());
        text.extra = Some(bytes);
        assert!(EntryProof::parse(&text.encode()).is_err(), "{version}");
    }
}

/// Formats a number with commas between thousands.
fn grouped(number: i128) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut groups = vec![&digits[..first]];
    groups.extend(
        (first..digits.len())
            .step_by(3)
            .map(|at| &digits[at..at + 3]),
    );
    groups.retain(|group| !group.is_empty());
    groups.join(",")
}

#[test]
fn every_bound_is_in_the_document_with_its_value() {
    let bounds = [
        ("FORMAT_VERSION", i128::from(FORMAT_VERSION)),
        ("ACTION_BYTES_MAX", ACTION_BYTES_MAX as i128),
        ("KEY_BYTES_MAX", KEY_BYTES_MAX as i128),
        ("NAME_BYTES_MAX", NAME_BYTES_MAX as i128),
        ("SUBJECTS_MAX", SUBJECTS_MAX as i128),
        ("PAYLOAD_BYTES_MAX", PAYLOAD_BYTES_MAX as i128),
        ("ENTRY_BYTES_MAX", ENTRY_BYTES_MAX as i128),
        ("FRAME_ENTRIES_MAX", i128::from(FRAME_ENTRIES_MAX)),
        ("FRAME_ROWS_BYTES_MAX", FRAME_ROWS_BYTES_MAX as i128),
        ("FRAME_BYTES_MAX", FRAME_BYTES_MAX as i128),
        ("FRAME_SECTIONS_MAX", FRAME_SECTIONS_MAX as i128),
        ("STREAM_NAME_BYTES_MAX", STREAM_NAME_BYTES_MAX as i128),
        ("CHECKPOINT_BYTES_MAX", CHECKPOINT_BYTES_MAX as i128),
        ("NOTE_SIGNATURES_MAX", NOTE_SIGNATURES_MAX as i128),
        ("LEAF_BYTES_MAX", LEAF_BYTES_MAX as i128),
        ("PROOF_EXTRA_BYTES_MAX", PROOF_EXTRA_BYTES_MAX as i128),
        ("PROOF_LINKS_MAX", PROOF_LINKS_MAX as i128),
        ("PROOF_LINKS_DEFAULT", PROOF_LINKS_DEFAULT as i128),
        ("PROOF_V1_LINKS_MAX", PROOF_V1_LINKS_MAX as i128),
        ("CHAIN_LINKS_MAX", CHAIN_LINKS_MAX as i128),
        ("CHAIN_BYTES_MAX", CHAIN_BYTES_MAX as i128),
        ("ENTRY_PROOF_BYTES_MAX", ENTRY_PROOF_BYTES_MAX as i128),
        ("TILE_WIDTH", i128::from(TILE_WIDTH)),
    ];
    for (name, value) in bounds {
        let row = format!("| `{name}` | {} |", grouped(value));
        assert!(section("## Bounds").contains(&row), "{row}");
    }
    // The document has both times in one row, as dates.
    let times = ["TIME_MIN", "TIME_MAX"];
    let known: Vec<&str> = bounds.iter().map(|(name, _)| *name).chain(times).collect();
    for line in LIMITS.lines().filter(|line| line.starts_with("pub const ")) {
        let name = line["pub const ".len()..].split(':').next().unwrap();
        assert!(known.contains(&name), "{name} is not in docs/format.md");
    }
}
