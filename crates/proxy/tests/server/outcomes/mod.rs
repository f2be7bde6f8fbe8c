//! The fate of a key in an entry is the server's own: the key was there, is there, and changed.
//!
//! `EXISTS` tells the first two. A transaction that watched the key, and the number of changes that the server
//! counts, tell the third. Every command of the server's own list is tried, and many drawn ones.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail loudly, and takes its seed from the environment"
)]

mod cases;
mod witness;

use std::collections::BTreeSet;

use probity_format::Outcome;
use probity_proxy::command::Table;
use probity_proxy::resp::Frame;

use crate::differential::commands::FAMILIES;
use crate::differential::template::{Random, command as draw};
use crate::support::{Kind, Redis, Seen, config, start};
use witness::{Client, Witness};

/// Drawn commands in the gate; `PROBITY_OUTCOME_COMMANDS` asks for another number.
const COMMANDS: usize = 2_000;

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// A case: a command and, where it says so, its entries in short.
fn cases() -> Vec<(Vec<Vec<u8>>, Option<&'static str>)> {
    let families = [
        cases::STRINGS,
        cases::KEYS,
        cases::HASHES,
        cases::LISTS,
        cases::SETS,
        cases::SORTED_SETS,
        cases::STREAMS,
    ];
    let lines = families.iter().flat_map(|family| family.lines());
    lines
        .map(str::trim_start)
        .filter(|line| !line.is_empty())
        .map(|line| match line.split_once(" => ") {
            Some((command, entries)) => (words(command), Some(entries)),
            None => (words(line), None),
        })
        .collect()
}

/// Entries as the cases write them.
fn brief(entries: &[Seen]) -> String {
    let brief = |seen: &Seen| {
        let note = if says(seen, "perhaps") {
            " perhaps"
        } else if says(seen, "nothing") {
            " same"
        } else {
            ""
        };
        format!(
            "{} {} {}{note}",
            seen.action,
            seen.key,
            seen.outcome.as_str()
        )
    };
    entries.iter().map(brief).collect::<Vec<_>>().join(", ")
}

/// Returns whether the entry has `word` about a change that the reply did not confirm.
fn says(entry: &Seen, word: &str) -> bool {
    let members = ["changed", "erased"];
    members
        .iter()
        .any(|member| entry.payload.contains(&format!("\"{member}\":\"{word}\"")))
}

/// Reads that answer alike whether the key is there or not.
const CANNOT_TELL: [&str; 7] = [
    "getbit",
    "bitpos",
    "bitfield",
    "bitfield_ro",
    "watch",
    "debug",
    "memory",
];

/// Judges each entry by what the server says of its key.
fn judge(entries: &[Seen], name: &str, witness: &Witness, faults: &mut Faults) {
    let modifies = |entry: &Seen| ["create", "update", "delete"].contains(&&*entry.action);
    let keys: Vec<&Seen> = entries
        .iter()
        .filter(|seen| witness.knows(&seen.key))
        .collect();
    for entry in &keys {
        let key = witness.of(&entry.key);
        let done = entry.outcome == Outcome::Ok;
        let partly = entry.payload.contains("\"of\":") || entry.payload.contains("\"ran\":");
        let mut expect = |holds: bool, what: &str| {
            faults.expect(holds, || {
                format!("{what}: {} {key:?}", brief(&[(*entry).clone()]))
            });
        };
        if !modifies(entry) {
            let written = keys
                .iter()
                .any(|other| other.key == entry.key && modifies(other));
            // PFCOUNT keeps in the key what it has counted.
            let may = written || name == "pfcount";
            expect(may || !key.changed, "a read changed it");
            let told = keys.len() > 1 || CANNOT_TELL.contains(&name);
            expect(!done || key.before || told, "read what was not there");
        } else if done && !says(entry, "perhaps") && !says(entry, "nothing") && !partly {
            expect(key.changed || witness.changes > 0, "nothing was done");
            if entry.action == "create" {
                expect(!key.before && key.after, "not created");
            }
            let gone = keys
                .iter()
                .any(|other| other.key == entry.key && other.action == "delete");
            expect(entry.action != "update" || key.after || gone, "it is gone");
        } else if says(entry, "nothing") || !(done || says(entry, "perhaps") || partly) {
            expect(!key.changed, "it was changed");
        }
    }
}

/// All faults of a run, so that one run shows everything.
#[derive(Default)]
struct Faults {
    context: String,
    found: Vec<String>,
}

impl Faults {
    fn expect(&mut self, holds: bool, what: impl Fn() -> String) {
        if !holds {
            self.found.push(format!("{}: {}", self.context, what()));
        }
    }

    fn check(self) {
        let shown = self.found.iter().take(40).cloned().collect::<Vec<_>>();
        assert!(
            self.found.is_empty(),
            "{} faults:\n{}",
            self.found.len(),
            shown.join("\n")
        );
    }
}

/// Carries out every case and judges its entries.
fn try_all(kind: Kind) {
    let redis = Redis::start_of(kind, kind.debug_arguments());
    let (proxy, address, recorder) = start(&config(&redis));
    let mut client = Client::connect(address);
    let mut witness = Witness::new(redis.address());
    let mut tried = BTreeSet::new();
    let mut faults = Faults::default();
    for (command, expected) in cases() {
        let shown = String::from_utf8_lossy(&command.join(&b' ')).into_owned();
        for line in cases::SETUP.lines() {
            witness.ask(&words(line.trim_start()));
        }
        witness.begin(&command);
        recorder.seen.lock().unwrap().clear();
        let reply = client.ask(&command);
        witness.end();
        if kind == Kind::Redis6 && shown.starts_with("BITFIELD n OVERFLOW") {
            // The server counts a change that it does not make.
            continue;
        }
        let name = shown.to_lowercase();
        let mut parts = name.split(' ');
        let first = parts.next().unwrap_or_default().to_owned();
        let whole = format!("{first}|{}", parts.next().unwrap_or_default());
        let entries = recorder.entries();
        faults.context = format!("{kind:?}: {shown}: {reply:?}");
        judge(&entries, &first, &witness, &mut faults);
        // Another server may refuse what it does not know, or keep its keys in other ways.
        let refused = matches!(&reply, Frame::Error(_)) && kind != Kind::Redis7;
        if let (Some(expected), false) = (expected, refused) {
            let told = brief(&entries);
            faults.expect(told == expected, || format!("{told}, not {expected}"));
        }
        tried.extend([first, whole]);
        if client.is_over() {
            client = Client::connect(address);
        }
    }
    proxy.stop();
    let mut socket = Client::connect(redis.address());
    let served = Table::from_reply(&socket.ask(&words("COMMAND"))).unwrap();
    let missing: Vec<_> = served
        .iter()
        .filter(|facts| facts.names_keys() && !tried.contains(&*facts.name))
        .map(|facts| facts.name.to_string())
        .collect();
    faults.expect(missing.is_empty(), || {
        format!("{kind:?} has commands without a case: {missing:?}")
    });
    faults.check();
}

/// `MOVE :0`, `ZADD XX`, an empty `*STORE`, a negative `EXPIRE` and dozens more said `ok` of what was not
/// done, or the reverse. Every command of the server has a case, and the server is asked what it did.
#[test]
fn every_command_says_what_it_did() {
    try_all(Kind::Redis7);
}

#[test]
fn every_command_says_what_it_did_on_valkey() {
    try_all(Kind::Valkey);
}

#[test]
fn every_command_says_what_it_did_on_redis_6() {
    try_all(Kind::Redis6);
}

/// Drawn commands, in whatever state earlier ones have left, record their effect.
#[test]
fn drawn_commands_say_what_they_did() {
    let asked = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = asked("PROBITY_SEED").unwrap_or(42);
    let count = asked("PROBITY_OUTCOME_COMMANDS")
        .map_or(COMMANDS, |count: u64| usize::try_from(count).unwrap());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let templates: Vec<&str> = FAMILIES
        .iter()
        .flat_map(|(_, family)| family.iter())
        .map(|(_, _, template)| *template)
        .filter(|template| !template.starts_with("FLUSH") && !template.starts_with("SELECT"))
        .collect();
    let redis = Redis::start(&[]);
    let (proxy, address, recorder) = start(&config(&redis));
    let mut client = Client::connect(address);
    let mut witness = Witness::new(redis.address());
    let mut faults = Faults::default();
    for number in 0..count {
        let mut command = draw(templates[random.below(templates.len())], &mut random);
        // A deadline of one millisecond may pass before the witness looks.
        let short = command.iter().position(|word| word == b"PX");
        if let Some(time) = short.and_then(|place| command.get_mut(place + 1))
            && time == b"1"
        {
            *time = b"60000".to_vec();
        }
        witness.begin(&command);
        recorder.seen.lock().unwrap().clear();
        let reply = client.ask(&command);
        witness.end();
        let shown = String::from_utf8_lossy(&command.join(&b' ')).into_owned();
        let shown: String = shown.chars().take(200).collect();
        let name = shown.split(' ').next().unwrap_or_default().to_lowercase();
        let reply: String = format!("{reply:?}").chars().take(200).collect();
        faults.context = format!("seed {seed}, command {number}: {shown}: {reply}");
        judge(&recorder.entries(), &name, &witness, &mut faults);
        if client.is_over() {
            client = Client::connect(address);
        }
    }
    proxy.stop();
    faults.check();
}
