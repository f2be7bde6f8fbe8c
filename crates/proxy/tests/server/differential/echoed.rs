//! Wrong arguments with control characters, in every place of every command: what an error repeats of them.

use super::commands::{FAMILIES, How};
use super::sides::{Sides, words};
use super::template::{Random, command};
use super::{PIPELINE, asked, drawn_is_comparable, seed};
use crate::embedded::Embedded;
use crate::support::Redis;

/// Texts that a line of the protocol cannot hold as they are, or that C reads in part.
const ODD: [&[u8]; 21] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"x\r\n",
    b"\r\nx",
    b"a\r\nb\n\r\n",
    b"\n a\n ",
    b"\0",
    b"x\0\r\n",
    b"x\r\n\0",
    b"\t",
    b"x\t",
    b"\x0b\x0c\x08",
    b"\x1b[0m",
    b"\x7f",
    b"\xff\xfe",
    b"'",
    b" ",
    b"\n5",
    b" (1",
    b"7\0x",
];
/// Draws of each command, whose optional words differ; `PROBITY_STORE_ROUNDS` asks for another number.
const ROUNDS: usize = 3;
/// Bytes of a name and of arguments after which Redis repeats no more of them, with those before and behind.
const ABOUT_THE_CUT: std::ops::Range<usize> = 124..131;

fn compare(commands: &[(How, Vec<Vec<u8>>)]) {
    let (redis, embedded) = (Redis::start(&[]), Embedded::start());
    let mut sides = Sides::new(redis.address(), embedded.address, 0);
    for batch in commands.chunks(PIPELINE) {
        sides.compare(batch);
    }
}

/// `EXPIRE k 10 "x\r\n"` was answered with two spaces at the end of the error, which Redis trims. Whatever stands in the place
/// of whichever argument, the error is that of Redis.
#[test]
fn control_characters_in_an_argument_are_repeated_as_by_redis() {
    let mut random = Random::new(seed());
    let rounds = asked("PROBITY_STORE_ROUNDS").map_or(ROUNDS, |count| count as usize);
    let templates = FAMILIES.iter().flat_map(|(_, family)| *family);
    let mut commands = Vec::new();
    for (_, how, template) in std::iter::repeat_n(templates, rounds).flatten() {
        let drawn = command(template, &mut random);
        // With a cursor that C reads as zero a scan answers, in an order of its own.
        let scans = drawn[0].to_ascii_lowercase().ends_with(b"scan");
        let how = if scans { How::Loosely } else { *how };
        for place in 0..drawn.len() {
            for odd in ODD {
                let mut odd_one = drawn.clone();
                odd_one[place] = odd.to_vec();
                let is_named = place > 0 || !odd.contains(&0);
                if is_named && drawn_is_comparable(&odd_one) {
                    commands.push((how, odd_one));
                }
            }
        }
        // The transaction that MULTI began, or a database that was chosen, are no part of the next.
        commands.push((How::Exactly, words("SELECT 0")));
    }
    compare(&commands);
}

#[test]
fn of_a_long_wrong_name_as_much_is_repeated_as_by_redis() {
    let mut commands = Vec::new();
    for length in ABOUT_THE_CUT {
        for end in [&b"\r\n"[..], b"\n", b"y"] {
            let long = [&vec![b'x'; length][..], end].concat();
            let some = b"\r\na".to_vec();
            commands.push((How::Exactly, vec![long.clone(), some.clone()]));
            commands.push((How::Exactly, vec![some.clone(), long.clone(), some.clone()]));
            commands.push((How::Exactly, vec![b"OBJECT".to_vec(), long.clone(), some]));
            for expire in ["EXPIRE", "PEXPIREAT"] {
                let mut expire = words(&format!("{expire} k 10"));
                expire.push(long.clone());
                commands.push((How::Exactly, expire));
            }
            let mut hello = words("HELLO 2");
            hello.push(long);
            commands.push((How::Exactly, hello));
        }
    }
    compare(&commands);
}
