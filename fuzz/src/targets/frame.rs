//! Frames and what is inside them: sections, columns, compressed bytes; and the records of frames.

use probity_format::column::{ColumnSet, Columns, Encoder};
use probity_format::compress::{Compression, Compressor, Decompressor};
use probity_format::frame::{Frame, FrameHeader};
use probity_format::keys::{EpochSalt, MasterKey, Secret, SectionKey};
use probity_format::record::Record;
use probity_format::row::{Rows, TEXT_COLUMNS};
use probity_format::seal::{FramePlace, FrameSealer, SubjectKeys, SubjectSection};
use probity_format::segment::{Place, SEGMENT_HEADER_BYTES, check_segment_header, segment_header};
use probity_format::share::{PersonKey, section_key};
use probity_format::stream::{Cipher, StreamConfig, StreamId};
use probity_format::{DecodeError, Version, v2};

use crate::Target;
use crate::targets::entry::{entries, row};

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "frame",
        seeds: frame_seeds,
        check: check_frame,
    },
    Target {
        name: "record",
        seeds: record_seeds,
        check: check_record,
    },
    Target {
        name: "segment",
        seeds: segment_seeds,
        check: check_segment,
    },
    Target {
        name: "columns",
        seeds: column_seeds,
        check: check_columns,
    },
    Target {
        name: "compressed",
        seeds: compressed_seeds,
        check: check_compressed,
    },
];

/// The most a compressed input may say it holds, so that the time goes into parsing.
const PLAIN_BYTES_MAX: usize = 1 << 16;

const STREAM: StreamId = StreamId::from_bytes([7; 32]);

struct NoSubjects;

impl SubjectKeys for NoSubjects {
    fn section_key(
        &mut self,
        subjects: &str,
        _salt: &[u8; 32],
        _frame: u64,
        _section: u32,
    ) -> Result<SubjectSection, DecodeError> {
        let count = subjects.split('\n').count();
        let people = if count > 1 { people(count) } else { Vec::new() };
        let key = SectionKey::from_bytes(&[2; 32]);
        Ok(SubjectSection {
            pseudonyms: vec![1; 16 * count],
            key: if count > 1 {
                section_key(key.expose(), &people)
            } else {
                key
            },
            people,
        })
    }
}

fn people(count: usize) -> Vec<PersonKey> {
    let places = 0..u8::try_from(count).unwrap_or(u8::MAX);
    places
        .map(|place| PersonKey::from_bytes(&[place; 32]))
        .collect()
}

fn rows() -> Vec<u8> {
    entries().iter().flat_map(row).collect()
}

fn sealed((config, compression): (StreamConfig, Compression)) -> (Vec<u8>, Record) {
    let epoch = MasterKey::new(Secret::new([3; 32]))
        .epoch_key(&STREAM, 4, &EpochSalt::V3([5; 16]))
        .certified_by(&[9; 32]);
    let place = FramePlace {
        stream: STREAM,
        frame: 9,
        first_entry: 27,
        seed: 1,
        fresh: [6; 16],
    };
    let mut bytes = Vec::new();
    let record = FrameSealer::new(config, compression)
        .and_then(|mut sealer| sealer.seal(&place, &epoch, &[&rows()], &mut NoSubjects, &mut bytes))
        .expect("the seed is sealed");
    bytes.truncate(usize::try_from(record.length).unwrap_or(usize::MAX));
    (bytes, record)
}

fn configs() -> Vec<(StreamConfig, Compression)> {
    let mut configs = Vec::new();
    for compression in [Compression::None, Compression::Zstd(1)] {
        for cipher in Cipher::ALL {
            let config = StreamConfig {
                cipher,
                ..StreamConfig::default()
            };
            configs.push((config, compression));
        }
    }
    let erasable = StreamConfig {
        erasable: true,
        ..StreamConfig::JOURNAL
    };
    configs.push((erasable, Compression::None));
    configs
}

fn frame_seeds() -> Vec<Vec<u8>> {
    configs()
        .into_iter()
        .map(|config| sealed(config).0)
        .collect()
}

/// A frame's header has one form, its sections lie inside it, and opening them ends.
fn check_frame(data: &[u8]) -> bool {
    if let Ok(header) = FrameHeader::decode(data) {
        assert!(data.starts_with(&header.encode()));
    }
    let Ok(frame) = Frame::parse(data) else {
        return false;
    };
    let covered: usize = frame
        .clear
        .sections
        .iter()
        .map(|section| frame.sealed(section).len())
        .sum();
    assert!(covered < data.len());
    // A root is a function of the bytes; whether it is the one stored is another question.
    assert_eq!(
        frame.is_whole(),
        frame.trailer() == Some(frame.sealed_root())
    );
    let place = Place::default();
    assert_eq!(frame.record(place).sealed_root, frame.sealed_root());
    let mut decompressor = Decompressor::default();
    let key = SectionKey::from_bytes(&[2; 32]);
    for number in 0..=u32::try_from(frame.clear.sections.len()).unwrap_or(u32::MAX) {
        for key in [None, Some(&key)] {
            if let Ok(body) = frame.open(number, key, &mut decompressor) {
                walk(&body.packed, &body.plain);
            }
        }
        for count in [0, 2, 3, 65] {
            let keys: Vec<Option<PersonKey>> = people(count).into_iter().map(Some).collect();
            if let Ok(opened) = frame.open_shared(number, &keys, &mut decompressor) {
                assert_eq!(opened.people.closed(), 0);
                walk(&opened.body.packed, &opened.body.plain);
            }
        }
    }
    true
}

fn record_seeds() -> Vec<Vec<u8>> {
    configs()
        .into_iter()
        .map(|config| sealed(config).1.encode())
        .collect()
}

/// A record has one form, and is of one version.
fn check_record(data: &[u8]) -> bool {
    let decode = |version| Record::decode(version, data).ok();
    let records: Vec<Record> = Version::ALL.into_iter().filter_map(decode).collect();
    for record in &records {
        assert_eq!(record.encode(), data);
        assert!(record.next_entry() >= record.first_entry);
    }
    assert!(records.len() <= 1);
    records.len() == 1
}

const OLDER_SEGMENT: v2::SegmentHeader = v2::SegmentHeader {
    number: 3,
    stream: STREAM,
    fingerprint: [8; 32],
    first_frame: 9,
    first_entry: 27,
};

fn segment_seeds() -> Vec<Vec<u8>> {
    vec![
        segment_header(&STREAM).to_vec(),
        OLDER_SEGMENT.encode().to_vec(),
    ]
}

/// A header is accepted in its one form only, and a difference is placed inside it.
fn check_segment(data: &[u8]) -> bool {
    if let Ok(bytes) = <&[u8; SEGMENT_HEADER_BYTES]>::try_from(data) {
        match check_segment_header(&STREAM, bytes) {
            Ok(()) => assert_eq!(*bytes, segment_header(&STREAM)),
            Err(error) => assert!(error.offset < SEGMENT_HEADER_BYTES),
        }
        return true;
    }
    let Ok(bytes) = <&[u8; v2::SEGMENT_HEADER_BYTES]>::try_from(data) else {
        return false;
    };
    if let Ok(header) = v2::SegmentHeader::decode(bytes) {
        assert_eq!(*bytes, header.encode());
    }
    match OLDER_SEGMENT.check(bytes) {
        Ok(()) => assert_eq!(*bytes, OLDER_SEGMENT.encode()),
        Err(error) => assert!(error.offset < v2::SEGMENT_HEADER_BYTES),
    }
    true
}

/// The input of the columns: how many bytes are packed, in two bytes, then both parts.
fn column_seeds() -> Vec<Vec<u8>> {
    let rows = rows();
    let mut seeds = Vec::new();
    for set in [ColumnSet::ALL, ColumnSet::SHARED, ColumnSet::SUBJECT] {
        let mut encoder = Encoder::default();
        encoder.begin(set, 1);
        encoder.extend(&Rows::new(&rows).collect::<Vec<_>>());
        let parts = encoder.finish();
        let length = u16::try_from(parts.packed.len()).expect("a seed is short");
        seeds.push([&length.to_le_bytes(), parts.packed, parts.plain].concat());
    }
    seeds
}

fn check_columns(data: &[u8]) -> bool {
    let Some((length, rest)) = data.split_first_chunk::<2>() else {
        return false;
    };
    let length = usize::from(u16::from_le_bytes(*length));
    rest.split_at_checked(length)
        .is_some_and(|(packed, plain)| walk(packed, plain))
}

/// Every value of decoded columns can be asked for, and one past the end too.
fn walk(packed: &[u8], plain: &[u8]) -> bool {
    let Ok(columns) = Columns::decode(Version::NEWEST, packed, plain) else {
        return false;
    };
    for index in 0..=columns.len() {
        let _ = (
            columns.time(index),
            columns.outcome(index),
            columns.taken(index),
            columns.claimed(index),
            columns.payload(index),
        );
        assert!(
            columns
                .texts(index)
                .iter()
                .all(|text| text.len() <= plain.len())
        );
    }
    for column in 0..=TEXT_COLUMNS {
        if let Some(text) = columns.text(column) {
            assert!((0..columns.len()).all(|index| {
                text.number(index) < text.words().len() || text.word(index).is_empty()
            }));
        }
    }
    true
}

/// The compressor's code, the length it opens to in three bytes, and the compressed bytes.
fn compressed_seeds() -> Vec<Vec<u8>> {
    let plain = rows().repeat(4);
    let length = u32::try_from(plain.len())
        .expect("a seed is short")
        .to_le_bytes();
    let mut seeds = Vec::new();
    for compression in [Compression::None, Compression::Zstd(3)] {
        let mut compressor = Compressor::new(compression).expect("the level is known");
        let mut bytes = vec![0; compressor.bound(plain.len())];
        let used = compressor
            .compress(&plain, &mut bytes)
            .expect("the seed is compressed");
        bytes.truncate(used);
        seeds.push([&[compressor.code()], &length[..3], &bytes].concat());
    }
    seeds
}

/// Checks that a section which opens has exactly the length it says.
fn check_compressed(data: &[u8]) -> bool {
    let Some(([code, length @ ..], bytes)) = data.split_first_chunk::<4>() else {
        return false;
    };
    let [low, middle, high] = *length;
    let length = usize::try_from(u32::from_le_bytes([low, middle, high, 0])).unwrap_or(usize::MAX);
    if length > PLAIN_BYTES_MAX {
        return false;
    }
    let opened = Decompressor::default().decompress(Version::V2, *code, bytes, length);
    assert!(opened.as_ref().is_ok_and(|plain| plain.len() == length) || opened.is_err());
    opened.is_ok()
}
