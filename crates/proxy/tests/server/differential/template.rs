//! Commands made from templates: which words may stand where, drawn at random.
//!
//! A template's words are separated by spaces. `?` before a word makes it optional, `*` behind it
//! repeats it, `|` separates alternatives, `+` joins words that go together, and a name in braces
//! stands for a drawn value.

/// A generator whose course is its seed.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub const fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub const fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// Now, for absolute times; fixed so that a seed means the same commands.
pub const NOW: i64 = 1_900_000_000;

/// A command drawn from a template.
pub fn command(template: &str, random: &mut Random) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    for part in template.split(' ') {
        let (part, optional) = part
            .strip_prefix('?')
            .map_or((part, false), |part| (part, true));
        if optional && random.one_in(2) {
            continue;
        }
        let (part, repeated) = part
            .strip_suffix('*')
            .map_or((part, false), |part| (part, true));
        let count = if repeated { 1 + random.below(4) } else { 1 };
        for _ in 0..count {
            let alternatives: Vec<&str> = part.split('|').collect();
            for word in random.pick(&alternatives).split('+') {
                words.push(value(word, random));
            }
        }
    }
    // Redis says nothing about ranges by text where scores differ: these keep to one score.
    let one_score = template.starts_with("ZADD {x}");
    if random.one_in(40) && !one_score {
        spoil(&mut words, random);
    }
    if random.one_in(10) {
        words[0].make_ascii_lowercase();
    }
    words
}

/// Makes a command wrong, most likely: a word less, a word more, or another word.
fn spoil(words: &mut Vec<Vec<u8>>, random: &mut Random) {
    let place = random.below(words.len());
    match random.below(4) {
        0 => {
            words.pop();
            if words.is_empty() {
                words.push(b"PING".to_vec());
            }
        }
        1 => words.push(value("{v}", random)),
        2 if place > 0 => {
            let junk = [
                "",
                "x",
                "-1",
                "1.5",
                "nan",
                "9223372036854775808",
                "(",
                "NX",
                "LIMIT",
            ];
            words[place] = random.pick(&junk).as_bytes().to_vec();
        }
        _ if place > 0 => words[place] = value("{i}", random),
        _ => {}
    }
}

const INTEGERS: [&str; 24] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "-3",
    "5",
    "10",
    "100",
    "-100",
    "7",
    "9",
    "12",
    "64",
    "1000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775800",
    "abc",
    "01",
    "1.5",
    "",
    "+1",
];
const FLOATS: [&str; 26] = [
    "0",
    "1",
    "-1",
    "0.5",
    "1.5",
    "-2.25",
    "3",
    "1e3",
    "1e300",
    "-1e300",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "0.1",
    "3.14159",
    "-0",
    "1e-7",
    "123456789.125",
    "1e17",
    "x",
    "",
    "5.",
    ".5",
    "0x10",
    "1e400",
];
/// Scores that sum the same in any order.
const WEIGHTS: [&str; 10] = ["0", "1", "2", "-1", "0.5", "3", "-0.25", "10", "inf", "x"];
const SCORE_BOUNDS: [&str; 14] = [
    "0", "1", "(1", "2", "(2", "-1", "-inf", "+inf", "inf", "3.5", "(3", "10", "(", "x",
];
const LEX_BOUNDS: [&str; 12] = [
    "-", "+", "[a", "(a", "[b", "[c", "(d", "[e", "[", "(zz", "a", "",
];
const PATTERNS: [&str; 12] = [
    "*", "s*", "?0", "*1", "[sh]*", "[^s]*", "h[0-1]", "\\*", "nothing", "m*", "f[1-3]", "**",
];
const MEMBERS: [&str; 14] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "1",
    "2",
    "3",
    "10",
    "",
    "m1",
    "m2",
    "member-that-is-longer-than-most",
];

fn value(word: &str, random: &mut Random) -> Vec<u8> {
    let Some(name) = word
        .strip_prefix('{')
        .and_then(|word| word.strip_suffix('}'))
    else {
        return word.as_bytes().to_vec();
    };
    let text = |text: &str| text.as_bytes().to_vec();
    match name {
        // Keys: mostly of the kind that the command wants.
        "s" | "h" | "e" | "z" | "l" | "x" => {
            let kind = if name != "x" && random.one_in(12) {
                random.pick(&["s", "h", "e", "z", "l", "n"])
            } else {
                name
            };
            text(&format!("{kind}{}", random.below(3)))
        }
        "k" => {
            let kind = random.pick(&["s", "h", "e", "z", "l", "n"]);
            text(&format!("{kind}{}", random.below(3)))
        }
        "i" => text(random.pick(&INTEGERS)),
        "n" => text(&random.below(6).to_string()),
        "f" => text(random.pick(&FLOATS)),
        "w" => text(random.pick(&WEIGHTS)),
        "score" => text(random.pick(&SCORE_BOUNDS)),
        "lex" => text(random.pick(&LEX_BOUNDS)),
        "pattern" => text(random.pick(&PATTERNS)),
        "field" => text(&format!("f{}", random.below(6))),
        "m" => member(random),
        "letter" => text(random.pick(&["a", "b", "c", "d", "e", "f", "g", "aa", "ab", "B"])),
        "bit" => text(&random.below(70).to_string()),
        "db" => text(random.pick(&["0", "0", "1", "1", "15", "16", "-1", "x"])),
        "seconds" => text(&(1000 + random.below(1_000_000_000)).to_string()),
        "milliseconds" => text(&(1_000_000 + random.below(1_000_000_000)).to_string()),
        "at" => text(&(NOW + random.below(1_000_000) as i64).to_string()),
        "atms" => text(&(NOW * 1000 + random.below(1_000_000_000) as i64).to_string()),
        "past" => text(random.pick(&["0", "-1", "-100000", "-9223372036854775808"])),
        "wrongtime" => text(random.pick(&["0", "-5", "9223372036854775807", "x", "1.5"])),
        "v" => content(random),
        _ => panic!("{name} stands for nothing"),
    }
}

fn member(random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => vec![b'q'; 70],
        1 => vec![0, 255, b'\r', b'\n'],
        2 => random.below(1000).to_string().into_bytes(),
        _ => random.pick(&MEMBERS).as_bytes().to_vec(),
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    match random.below(40) {
        0 => vec![b'v'; 3000],
        1 => (0..70_000_u32).map(|place| (place % 251) as u8).collect(),
        2 => Vec::new(),
        3 => vec![0, 255, b'\r', b'\n', b'*'],
        4 => vec![b'x'; 45],
        5..=12 => random.pick(&INTEGERS).as_bytes().to_vec(),
        13..=17 => random.pick(&FLOATS).as_bytes().to_vec(),
        _ => format!("value-{}", random.below(100)).into_bytes(),
    }
}
