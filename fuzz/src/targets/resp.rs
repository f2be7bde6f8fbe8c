//! The Redis protocol in both directions. However bytes are cut on their way, they mean the same.

use probity_proxy::resp::{
    CommandScanner, Event, Frame, FrameReader, Limits, ReplyScanner, RespError, put_command,
};

use crate::Target;

pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "resp_command",
        seeds: command_seeds,
        check: check_command,
    },
    Target {
        name: "resp_reply",
        seeds: reply_seeds,
        check: check_reply,
    },
];

/// Narrow enough that short inputs reach every bound.
const LIMITS: Limits = Limits {
    depth_max: 8,
    elements_max: 1 << 16,
    bulk_bytes_max: 1 << 16,
    line_bytes_max: 64,
    command_bytes_kept_max: 1 << 12,
};

/// Lengths of the pieces of one input: as it is, byte by byte, and in between.
const CUTS: [usize; 3] = [1, 2, 7];

fn command_seeds() -> Vec<Vec<u8>> {
    let mut pipeline = Vec::new();
    put_command(&mut pipeline, &[b"SET", b"user:7", b"value"]);
    put_command(&mut pipeline, &[b"MGET", b"user:7", b"", b"user:8\r\n"]);
    vec![
        pipeline,
        b"GET user:7\r\nset 'a b' \"c\\x00\"\n\r\n*0\r\n*-1\r\n".to_vec(),
    ]
}

/// Commands as lists of arguments, whether one is under way, and what ended the scan.
type Commands = (Vec<Vec<Vec<u8>>>, bool, Option<RespError>);

fn check_command(data: &[u8]) -> bool {
    let whole = commands(data, data.len().max(1));
    for bytes in CUTS {
        assert_eq!(commands(data, bytes), whole);
    }
    let (found, between, error) = whole;
    // What was understood is sent again in the one canonical form, and understood the same.
    let mut again = Vec::new();
    for command in found.iter().filter(|command| !command.is_empty()) {
        let arguments: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        put_command(&mut again, &arguments);
    }
    let expected: Vec<_> = found
        .into_iter()
        .filter(|command| !command.is_empty())
        .collect();
    assert_eq!(commands(&again, again.len().max(1)), (expected, true, None));
    between && error.is_none()
}

fn commands(data: &[u8], cut: usize) -> Commands {
    let mut scanner = CommandScanner::new(LIMITS);
    let mut found = Vec::new();
    for mut part in data.chunks(cut) {
        while !part.is_empty() {
            match scanner.scan(part, &|_| true) {
                Err((consumed, error)) => {
                    assert!(consumed <= part.len());
                    return (found, false, Some(error));
                }
                Ok(scan) => {
                    assert!(scan.complete || scan.consumed == part.len());
                    part = &part[scan.consumed..];
                    if scan.complete {
                        let arguments = scanner.arguments();
                        let command = 0..arguments.len();
                        found.push(command.map(|at| arguments.beginning(at).to_vec()).collect());
                        scanner.forget(true);
                    }
                }
            }
        }
    }
    (found, scanner.is_between_commands(), None)
}

fn reply_seeds() -> Vec<Vec<u8>> {
    let replies: [&[u8]; 5] = [
        b"+OK\r\n-ERR no\r\n:42\r\n$5\r\nvalue\r\n$-1\r\n*-1\r\n",
        b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n#t\r\n",
        b"%2\r\n+a\r\n,1.5\r\n+b\r\n(123456789012345678901234567890\r\n~1\r\n=7\r\ntxt:abc\r\n",
        b"|1\r\n+ttl\r\n:3\r\n>2\r\n+message\r\n!5\r\nERR x\r\n",
        b"$?\r\n;3\r\nabc\r\n;0\r\n*?\r\n:1\r\n.\r\n",
    ];
    replies.map(<[u8]>::to_vec).to_vec()
}

/// The parts of a reply, pieces of one bulk string put together; whether the scan ended between
/// values; whether it was refused. Which of two faults of one line is named depends on the cut.
type Replies = (Vec<String>, bool, bool);

fn check_reply(data: &[u8]) -> bool {
    let whole = events(data, data.len().max(1));
    for cut in CUTS {
        assert_eq!(events(data, cut), whole);
    }
    let frames = frames(data, data.len().max(1));
    for cut in CUTS {
        assert_eq!(self::frames(data, cut), frames);
    }
    whole.1 && !whole.2
}

fn events(data: &[u8], cut: usize) -> Replies {
    let mut scanner = ReplyScanner::new(LIMITS);
    let mut found: Vec<String> = Vec::new();
    let mut bulk: Vec<u8> = Vec::new();
    let mut aside: Vec<u8> = Vec::new();
    for mut part in data.chunks(cut) {
        while !part.is_empty() {
            let scan = scanner.scan(part, &mut |event| match event {
                Event::Aside(bytes) => aside.extend_from_slice(bytes),
                Event::Part(bytes) => bulk.extend_from_slice(bytes),
                Event::BulkEnd => found.push(format!("{:?}", std::mem::take(&mut bulk))),
                other => found.push(format!("{other:?}")),
            });
            match scan {
                Err(_refused) => return (found, false, true),
                Ok(scan) => {
                    assert!(scan.complete || scan.consumed == part.len());
                    part = &part[scan.consumed..];
                }
            }
        }
    }
    found.push(format!("{aside:?}"));
    (found, scanner.is_between_values(), false)
}

fn frames(data: &[u8], cut: usize) -> (Vec<Frame>, bool) {
    let mut reader = FrameReader::new(LIMITS);
    let mut found = Vec::new();
    for mut part in data.chunks(cut) {
        while !part.is_empty() {
            match reader.read(part) {
                Err(_refused) => return (found, true),
                Ok((consumed, frame)) => {
                    part = &part[consumed..];
                    found.extend(frame);
                }
            }
        }
    }
    (found, false)
}
