//! Lines in, entries out, and back; every rule of the form broken once.

use probity_format::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SUBJECTS_MAX};
use probity_format::{Claimed, Entry, Outcome, Subjects, Timestamp};
use proptest::prelude::*;

use super::*;

fn refused(line: &str) -> String {
    parse_line(line.as_bytes())
        .err()
        .map_or_else(|| panic!("accepted"), |error| error.to_string())
}

#[test]
fn every_field_is_read() {
    let line = br#"{"time":"2026-01-31T13:00:00.5+01:00","action":"read","key":"user:7",
        "subject":["alice","bob"],"controller":"acme","processor":"host","actor":"svc",
        "purpose":"billing","basis":"contract","outcome":"denied","payload_base64":"AP8="}"#;
    let parsed = parse_line(line).ok().unwrap();
    let entry = parsed.entry(Timestamp::from_nanoseconds(1).unwrap());
    assert_eq!(format_time(entry.time), "2026-01-31T12:00:00.5Z");
    assert_eq!((entry.action, entry.key), ("read", &b"user:7"[..]));
    assert_eq!(entry.subjects.as_joined(), "alice\nbob");
    assert_eq!(
        (entry.controller, entry.processor, entry.actor),
        ("acme", "host", "svc")
    );
    assert_eq!((entry.purpose, entry.basis), ("billing", "contract"));
    assert_eq!(
        (entry.outcome, entry.payload),
        (Outcome::Denied, &[0, 255][..])
    );
}

#[test]
fn a_line_without_time_happens_now() {
    let now = Timestamp::from_nanoseconds(5).unwrap();
    let parsed = parse_line(br#"{"action":"read"}"#).ok().unwrap();
    assert!(parsed.entry(now) == Entry::new(now, "read", b""));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_fault_names_its_place_and_rule() {
    let cases = [
        ("", "column 1: not JSON: eof while parsing a value"),
        ("hello", "column 1: not JSON: expected value"),
        ("not json", "column 2: not JSON: expected value"),
        ("[1]", "column 1: the line is not a JSON object"),
        (
            r#"{"action":"read""#,
            "column 16: not JSON: eof while parsing an object",
        ),
        (
            r#"{"action":"read"} x"#,
            "column 19: not JSON: trailing characters",
        ),
        (r#"{"key":"k"}"#, "column 11, field action: is missing"),
        (r#"{"action":""}"#, "column 13, field action: is empty"),
        // An entry about nobody: no later question about a person finds it.
        (
            r#"{"action":"read","subject":""}"#,
            "column 29, field subject: is empty",
        ),
        (
            r#"{"action":7}"#,
            "column 11, field action: is not a string",
        ),
        (
            r#"{"action":null}"#,
            "column 14, field action: is not a string",
        ),
        (
            r#"{"action":"a","action":"b"}"#,
            "column 22, field action: is given twice",
        ),
        (
            r#"{"action":"a","key":"","key_base64":""}"#,
            "column 35, field key_base64: is given although key is given too",
        ),
        (
            r#"{"action":"a","payload_base64":"","payload":""}"#,
            "column 43, field payload: is given although payload_base64 is given too",
        ),
        (
            r#"{"action":"a","payload_base64":"?"}"#,
            "column 35, field payload_base64: is not base64",
        ),
        (
            r#"{"action":"a","outcome":"well"}"#,
            "column 31, field outcome: is no outcome",
        ),
        (
            r#"{"action":"a","time":"yesterday"}"#,
            "column 33, field time: is not a time as of RFC 3339",
        ),
        (
            r#"{"action":"a","time":"1969-12-31T23:59:59Z"}"#,
            "column 44, field time: is before 1970 or after 2199",
        ),
        (
            r#"{"action":"a","time":"2200-01-01T00:00:01Z"}"#,
            "column 44, field time: is before 1970 or after 2199",
        ),
        (
            r#"{"action":"a","subject":{}}"#,
            "column 26, field subject: is neither a string nor a list of strings",
        ),
        (
            r#"{"action":"a","subject":["a",""]}"#,
            "column 32, field subject: is empty",
        ),
        (
            r#"{"action":"a","subject":"a\nb"}"#,
            "column 30, field subject: holds a control character",
        ),
        (
            r#"{"action":"a","actor":"a\tb"}"#,
            "column 29, field actor: holds a control character",
        ),
    ];
    let found = cases.map(|(line, _)| (line, refused(line)));
    assert_eq!(
        found,
        cases.map(|(line, message)| (line, message.to_owned()))
    );
}

#[test]
fn unknown_fields_are_named_but_cut_and_escaped() {
    let message = refused(r#"{"action":"a","colour":"red"}"#);
    assert!(
        message.starts_with("column 22, field colour: is unknown"),
        "{message}"
    );
    let long = format!(r#"{{"\u001b[31m{}":1}}"#, "x".repeat(1000));
    let message = refused(&long);
    assert!(message.contains(r"field \u{1b}[31mxxx"), "{message}");
    assert!(message.len() < 300, "{message}");
}

#[test]
fn faults_never_quote_values() {
    for line in [
        r#"{"action":123456789}"#,
        r#"{"action":"a","time":"123456789"}"#,
        r#"{"action":"a","outcome":"123456789"}"#,
        r#"{"action":"a","subject":123456789}"#,
        r#"{"action":"a","subject":[123456789]}"#,
        r#"{"action":"a","payload":["123456789"]}"#,
        r#""123456789""#,
    ] {
        let error = parse_line(line.as_bytes()).err().unwrap();
        assert!(!format!("{error:?}").contains("123456789"), "{error:?}");
    }
}

#[test]
fn limits_of_the_format_are_kept() {
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let message = refused(&format!(r#"{{"action":"a","purpose":"{long}"}}"#));
    assert!(
        message.ends_with("field purpose: has 256 bytes, the limit is 255"),
        "{message}"
    );
    let many = vec![r#""s""#; SUBJECTS_MAX + 1].join(",");
    let message = refused(&format!(r#"{{"action":"a","subject":[{many}]}}"#));
    assert!(
        message.contains("65 subjects given, the limit is 64"),
        "{message}"
    );
    let long = "x".repeat(PAYLOAD_BYTES_MAX + 1);
    let message = refused(&format!(r#"{{"action":"a","payload":"{long}"}}"#));
    assert!(
        message.contains("has 524289 bytes, the limit is 524288"),
        "{message}"
    );
}

#[test]
fn invalid_utf8_is_placed() {
    let error = parse_line(b"{\"action\":\"\xFF\"}").err().unwrap();
    assert_eq!(error.to_string(), "column 12: the text is not valid UTF-8");
}

#[test]
fn deep_nesting_is_refused_without_recursion() {
    let deep = format!(r#"{{"action":{}"#, "[".repeat(1_000_000));
    assert_eq!(refused(&deep), "column 10, field action: is not a string");
}

#[test]
fn the_largest_entry_is_written_as_a_line_that_is_taken() {
    let name = "\\".repeat(NAME_BYTES_MAX);
    let subjects = vec![name.as_str(); SUBJECTS_MAX].join("\n");
    let key = vec![b'"'; KEY_BYTES_MAX];
    let payload = vec![b'\n'; PAYLOAD_BYTES_MAX];
    let entry = Entry {
        subjects: Subjects::joined(&subjects),
        controller: &name,
        processor: &name,
        actor: &name,
        purpose: &name,
        basis: &name,
        payload: &payload,
        taken: Timestamp::from_nanoseconds(1).ok(),
        submitter: &name,
        claimed: Claimed {
            actor: true,
            purpose: true,
        },
        idempotency: Some(&[0xAB; 32]),
        policy: Some(&[0xCD; 32]),
        rule: &name,
        ..Entry::new(Timestamp::from_nanoseconds(0).unwrap(), "x", &key)
    };
    assert_identity(&entry);
}

fn assert_identity(entry: &Entry<'_>) {
    let mut line = Vec::new();
    write_line(None, entry, Hidden::NONE, &mut line).unwrap();
    let text = line.strip_suffix(b"\n").unwrap();
    assert!(text.len() <= LINE_BYTES_MAX && !text.contains(&b'\n'));
    let now = Timestamp::from_nanoseconds(9).unwrap();
    let parsed = parse_exported_line(text)
        .map_err(|error| error.to_string())
        .ok()
        .unwrap();
    assert!(parsed.entry(now) == without_the_log(entry));
    // An entry without anything set by a log is read unchanged.
    let entry = Entry {
        idempotency: None,
        ..without_the_log(entry)
    };
    let mut line = Vec::new();
    write_line(None, &entry, Hidden::NONE, &mut line).unwrap();
    let parsed = parse_line(line.trim_ascii_end()).ok().unwrap();
    assert!(parsed.entry(now) == entry);
}

/// Returns `entry` with the fields that its caller set.
fn without_the_log<'a>(entry: &Entry<'a>) -> Entry<'a> {
    Entry {
        taken: None,
        submitter: "",
        claimed: Claimed::NONE,
        policy: None,
        rule: "",
        ..*entry
    }
}

/// A caller cannot say what only the log knows; each such field is refused by its name.
#[test]
fn what_the_log_sets_is_refused_from_callers() {
    for (field, value) in [
        ("taken", r#""2026-01-31T12:00:00Z""#),
        ("submitter", r#""root""#),
        ("claimed", "[]"),
        ("policy", r#""00""#),
        ("rule", r#""all""#),
        ("idempotency", r#""00""#),
    ] {
        let line = format!(r#"{{"action":"a","{field}":{value}}}"#);
        let message = refused(&line);
        assert!(
            message.ends_with(&format!(
                "field {field}: is set by the log, not by the caller"
            )),
            "{message}"
        );
        let taken = parse_exported_line(line.as_bytes());
        assert_eq!(taken.is_ok(), field != "idempotency", "{field}");
    }
}

/// The key of a request is hashed at once; what is recorded and written does not show it.
#[test]
fn an_idempotency_key_is_taken_as_its_digest() {
    let parsed = parse_line(br#"{"action":"a","idempotency_key":"abc"}"#);
    let parsed = parsed.ok().unwrap();
    let entry = parsed.entry(Timestamp::from_nanoseconds(0).unwrap());
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(entry.idempotency.map(hex).unwrap(), digest);
    let mut line = Vec::new();
    write_line(None, &entry, Hidden::NONE, &mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    assert!(line.contains(&format!(r#""idempotency":"{digest}""#)) && !line.contains("abc\""));
    assert_eq!(
        refused(r#"{"action":"a","idempotency_key":""}"#),
        "column 35, field idempotency_key: is empty"
    );
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let message = refused(&format!(r#"{{"action":"a","idempotency_key":"{long}"}}"#));
    assert!(
        message.ends_with("has 256 bytes, the limit is 255"),
        "{message}"
    );
    for bad in [
        digest.trim_start_matches('b'),
        &digest.to_uppercase(),
        &digest.replace('b', "x"),
    ] {
        let line = format!(r#"{{"action":"a","idempotency":"{bad}"}}"#);
        assert!(parse_exported_line(line.as_bytes()).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_the_same_entry(
        time in 0..=probity_format::limits::TIME_MAX,
        names in proptest::array::uniform6("[^\\x00-\\x1F\\x7F]{1,20}"),
        subjects in proptest::collection::vec("[^\\x00-\\x1F\\x7F]{1,20}", 0..4),
        key in proptest::collection::vec(any::<u8>(), 0..30),
        payload in "\\PC{0,40}",
        outcome in 0_u8..4,
        taken in 1..=probity_format::limits::TIME_MAX,
        claimed in 0_u8..4,
        digests in proptest::option::of(any::<[[u8; 32]; 2]>()),
    ) {
        let joined = subjects.join("\n");
        let [action, controller, processor, actor, purpose, basis] = &names;
        assert_identity(&Entry {
            subjects: Subjects::joined(&joined),
            controller,
            processor,
            actor,
            purpose,
            basis,
            outcome: Outcome::from_code(outcome).unwrap(),
            payload: payload.as_bytes(),
            taken: Some(Timestamp::from_nanoseconds(taken).unwrap()),
            submitter: purpose,
            claimed: Claimed::from_code(claimed).unwrap(),
            idempotency: digests.as_ref().map(|[digest, _]| digest),
            policy: digests.as_ref().map(|[_, digest]| digest),
            rule: actor,
            ..Entry::new(Timestamp::from_nanoseconds(time).unwrap(), action, &key)
        });
    }

    #[test]
    fn no_bytes_make_the_reader_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(parse_line(&line));
    }

    #[test]
    fn nearly_right_lines_do_not_make_the_reader_panic(
        cut in 0_usize..120,
        flip in any::<u8>(),
    ) {
        let mut line = br#"{"time":"2026-01-31T13:00:00Z","action":"read","key":"k","subject":["a"],"outcome":"ok","payload_base64":"AP8="}"#.to_vec();
        if let Some(byte) = line.get_mut(cut) {
            *byte = flip;
        }
        drop(parse_line(&line));
        line.truncate(cut);
        prop_assert!(parse_line(&line).is_err() || cut >= 112);
    }
}
