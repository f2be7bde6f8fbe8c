//! Entry JSON, one object a line, as the command line reads it.

// Compiled in from its source: the crate that it belongs to brings database drivers along.
#[path = "../../../crates/cli/src/entry_json/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the command line uses more of it")]
mod entry_json;

use std::io::Cursor;

use probity_format::{Entry, Timestamp};

use self::entry_json::{
    Hidden, LINE_BYTES_MAX, Line, Lines, parse_exported_line, parse_line, write_line,
};
use crate::Target;
use crate::targets::entry::entries;

pub(super) const TARGETS: &[Target] = &[Target {
    name: "json",
    seeds,
    check,
}];

fn line(entry: &Entry<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    write_line(None, entry, Hidden::NONE, &mut line).expect("memory takes it");
    line
}

/// Every entry as it is written, and forms that only people write.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = entries().iter().map(line).collect();
    seeds.push(seeds.concat());
    let foreign = "{\"action\":\"re\\u0061d\",\"time\":\"2026-01-31t13:00:00.5+01:00\",\
                   \"subject\":\"\\ud83d\\ude00\",\"payload_base64\":\"AP8=\",\"outcome\":\"ok\"}\r\n";
    seeds.push(foreign.as_bytes().to_vec());
    seeds.push(b"{\"action\":\"read\",\"idempotency_key\":\"request 7\"}".to_vec());
    seeds
}

/// Checks that an accepted line keeps every limit, and is written in a form that is taken as the same entry; what is refused is
/// refused at a place within the line. Says whether every line was taken.
fn check(data: &[u8]) -> bool {
    let mut lines = Lines::new(Cursor::new(data));
    let mut taken = 0_u64;
    while let Some(line) = lines.next_line().expect("memory can be read") {
        let Line::Text(text) = line else {
            return false;
        };
        assert!(text.len() <= LINE_BYTES_MAX && !text.contains(&b'\n'));
        if !check_line(text) {
            return false;
        }
        taken += 1;
    }
    assert_eq!(lines.number(), taken);
    taken > 0
}

fn check_line(text: &[u8]) -> bool {
    let now = Timestamp::from_nanoseconds(1).expect("in range");
    let parsed = match parse_line(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!((1..=text.len() + 1).contains(&error.column));
            assert!(!error.to_string().contains('\n'));
            return false;
        }
    };
    let entry = parsed.entry(now);
    assert!(entry.check().is_ok());
    let written = line(&entry);
    let again = parse_exported_line(written.trim_ascii_end()).expect("what is written is taken");
    assert!(again.entry(now) == entry);
    assert_eq!(line(&again.entry(now)), written);
    true
}
