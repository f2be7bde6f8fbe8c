//! Random clients that do their worst, against what the server says that it really executed.
//!
//! Several clients send random sequences of every command: wrong arity, refusals, logins that fail, both
//! protocols, transactions, subscriptions, silence, half commands, long lines. `MONITOR` on the server says
//! what was executed. Keys bear the name of the user that the server takes the client for, and each is used
//! once, so that every executed command on a key must have exactly its entry: this actor, this action.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "a test may fail loudly, and takes its seed from the environment"
)]

mod client;
pub(crate) mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use probity_format::Outcome;
use probity_proxy::command::{Access, Extraction, Table};
use probity_proxy::resp::Arguments;

use crate::support::{Kind, Redis, Seen, config, start};
use client::Adversary;
use watcher::{Executed, Watcher};

/// Commands in the gate; `PROBITY_ADVERSARY_COMMANDS` asks for another number.
const COMMANDS: u64 = 20_000;
/// Commands of the long form.
const COMMANDS_LONG: u64 = 1_000_000;
/// One of so many commands must be executed on a key, and so judged. Of 20,000 some 2,000 to 3,000
/// are; on a machine with much else to do, more connections are gone before their commands run.
/// Then more is sent, at most so many times the number.
const JUDGED_ONE_OF: u64 = 10;
const SENT_TIMES_MAX: u64 = 10;
/// Clients at once.
const CLIENTS: usize = 4;

const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Arguments of a server whose users have the names in `USERS`; two of them may not do everything.
fn arguments(kind: Kind, extra: &[&str]) -> Vec<String> {
    let events = match kind {
        Kind::Redis6 => "KEAm",
        _ => "KEAmn",
    };
    let extra = extra.iter().chain(kind.debug_arguments());
    let events = ["--notify-keyspace-events", events];
    let extra = extra.chain(&events);
    let mut all: Vec<String> = extra.map(ToString::to_string).collect();
    let rights = [
        "+@all",
        // Before 7.0 a right is taken from a whole command only.
        match kind {
            Kind::Redis6 => "+@all -client -debug",
            _ => "+@all -client|reply -debug",
        },
        "+@all -@scripting -multi -acl",
        "+@all -hello -subscribe",
    ];
    for (user, rights) in USERS.iter().zip(rights) {
        let rule = format!("--user {user} on >{user} ~* &* {rights}");
        all.extend(rule.split(' ').map(str::to_owned));
    }
    all
}

/// Numbers that no two commands share.
static NUMBER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn next_number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Random numbers that a seed repeats.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

fn asked(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap())
}

/// The user in a key `user:NAME:NUMBER` or `user:NAME:NUMBER:...`, and its number.
fn place_of(key: &str) -> Option<(&str, u64)> {
    let mut parts = key.strip_prefix("user:")?.split(':');
    let user = parts.next()?;
    Some((user, parts.next()?.parse().ok()?))
}

/// Entries about keys of the adversaries, by database and key.
fn by_key(entries: &[Seen]) -> BTreeMap<(u64, String), Vec<Seen>> {
    let mut found: BTreeMap<(u64, String), Vec<Seen>> = BTreeMap::new();
    for entry in entries {
        let named = entry.key.strip_prefix("db");
        let named = named.and_then(|rest| rest.split_once('/'));
        let (db, key) = if let Some((db, key)) = named {
            (db.parse().unwrap(), key)
        } else {
            // A channel stands in no database, though the command was said in one.
            let db = entry.payload.split_once("\"db\":");
            let db = db.and_then(|(_, rest)| rest.split([',', '}']).next());
            (db.map_or(0, |db| db.parse().unwrap()), entry.key.as_str())
        };
        if place_of(key).is_some() {
            let of_key = found.entry((db, key.to_owned())).or_default();
            of_key.push(entry.clone());
        }
    }
    found
}

/// The entries of a key in a database. Where a reply was lost after the choice of a database that was lost
/// too, the entry says that it may have been there.
fn found_for<'a>(
    entries: &'a BTreeMap<(u64, String), Vec<Seen>>,
    db: u64,
    key: &str,
) -> Vec<&'a Seen> {
    let there = entries.get(&(db, key.to_owned()));
    if let Some(there) = there {
        return there.iter().collect();
    }
    let db = db.to_string();
    let anywhere = (0..16).filter_map(|db| entries.get(&(db, key.to_owned())));
    anywhere
        .flatten()
        .filter(|entry| says(entry, "perhaps_dbs", &db))
        .collect()
}

/// Returns whether the list `member` in an entry's payload holds `item`.
fn says(entry: &Seen, member: &str, item: &str) -> bool {
    let list = entry.payload.split_once(&format!("\"{member}\":["));
    let list = list.and_then(|(_, rest)| rest.split_once(']'));
    list.is_some_and(|(list, _)| list.split(',').any(|there| there == item))
}

/// Checks that what was executed has its entries, and that no entry says `ok` of what was not.
fn judge(executed: &[Executed], entries: &[Seen], seed: u64) -> usize {
    let entries = by_key(entries);
    let table = Table::builtin();
    let mut keys = Vec::new();
    let mut judged = 0;
    for executed in executed {
        let mut arguments = Arguments::default();
        for word in &executed.words {
            arguments.push(word);
        }
        assert!(
            !arguments.has_zero(0),
            "seed {seed}: an ambiguous name: {executed}"
        );
        let Some(facts) = table.find(&arguments) else {
            continue;
        };
        assert_eq!(facts.extract(&arguments, &mut keys), Extraction::Complete);
        for key in &keys {
            let text = String::from_utf8_lossy(arguments.beginning(key.argument)).into_owned();
            let Some((user, _)) = place_of(&text) else {
                continue;
            };
            judged += 1;
            let mut found = found_for(&entries, executed.db, &text);
            // MONITOR does not show DEBUG, which may have looked at the key besides.
            found.retain(|entry| !entry.payload.contains("\"command\":\"debug\""));
            let context = format!("seed {seed}: {executed}\nentries: {found:#?}");
            assert!(!found.is_empty(), "no entry: {context}");
            for entry in &found {
                // By whom: keys bear the name of the user that their client had logged in as.
                let lost = entry.payload.contains("\"reply\":\"lost\"");
                let perhaps = lost && says(entry, "perhaps_actors", &format!("\"{user}\""));
                assert!(entry.actor == user || perhaps, "by whom: {context}");
                let login = if user == "default" { "" } else { user };
                let unsure = lost && entry.payload.contains("perhaps_actors");
                assert!(
                    entry.submitter == login || unsure,
                    "who submitted: {context}"
                );
                assert!(!entry.claimed.actor && entry.policy.is_some(), "{context}");
                assert!(lost || !entry.payload.contains("aborted"), "{context}");
                assert!(lost || entry.outcome.as_str() != "denied", "{context}");
            }
            let writes = key.access.contains(Access::UPDATE);
            let says_so = found
                .iter()
                .any(|entry| !["read", "look"].contains(&entry.action.as_str()));
            // SET with NX and GET keeps what is there, GETEX may only read.
            let keeps = ["set", "getex", "hgetex"]
                .iter()
                .any(|name| executed.words[0].eq_ignore_ascii_case(name.as_bytes()));
            assert!(!writes || says_so || keeps, "{context}");
        }
    }
    judged
}

/// Every key that is there came there by a command with an entry, whatever `MONITOR` leaves out: those of
/// scripts, and those that COPY and MOVE put into another database.
fn judge_keys(there: &[(u64, String)], entries: &[Seen], seed: u64) {
    let entries = by_key(entries);
    for (db, key) in there.iter().filter(|(_, key)| place_of(key).is_some()) {
        // SWAPDB may have given its database another number since.
        let dbs = match db {
            1 | 2 => vec![1, 2],
            db => vec![*db],
        };
        let found = dbs
            .iter()
            .any(|db| !found_for(&entries, *db, key).is_empty());
        assert!(found, "seed {seed}: no entry of {key} in {db}");
    }
}

/// Commands that `MONITOR` leaves out have as many entries as the server has executed of them. Not those of
/// which it does not tell apart what it carried out and what was never sent.
fn judge_counts(counted: &[(String, usize)], entries: &[Seen], seed: u64) -> usize {
    let mut judged = 0;
    for (name, executed) in counted {
        let command = format!("\"command\":\"{name}\"");
        let said = entries.iter().filter(|entry| entry.action == "administer");
        let said: Vec<_> = said
            .filter(|entry| entry.payload.contains(&command))
            .collect();
        let done = said
            .iter()
            .filter(|entry| entry.outcome == Outcome::Ok)
            .count();
        let most = said
            .iter()
            .filter(|entry| entry.outcome != Outcome::Denied)
            .count();
        assert!(
            done <= *executed && *executed <= most,
            "seed {seed}: {name}: {executed} executed, {done} to {most} recorded"
        );
        judged += executed;
    }
    judged
}

/// Entries that say that something was done must be of something that the server executed.
fn judge_claims(executed: &[Executed], entries: &[Seen], seed: u64) {
    let mut done: BTreeSet<(u64, Vec<u8>)> = BTreeSet::new();
    for executed in executed {
        for word in &executed.words {
            done.insert((executed.db, word.clone()));
        }
    }
    for ((db, key), found) in by_key(entries) {
        for entry in found {
            // A database that the command names itself is not the one that MONITOR shows.
            let elsewhere = ["copy", "move"]
                .iter()
                .any(|name| entry.payload.contains(&format!("\"command\":\"{name}\"")));
            let ok = ["ok", "absent"].contains(&entry.outcome.as_str());
            let known = done.contains(&(db, key.clone().into_bytes()));
            // MONITOR shows the commands of scripts as Lua's own; these commands it leaves out.
            let unseen = ["eval", "fcall", "debug"]
                .iter()
                .any(|name| entry.payload.contains(&format!("\"command\":\"{name}")));
            assert!(
                !ok || known || elsewhere || unseen,
                "seed {seed}: never executed: {entry:?}"
            );
        }
    }
}

fn run(kind: Kind, commands: u64, extra: &[&str], seed: u64) {
    println!("seed {seed}");
    let arguments = arguments(kind, extra);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let redis = Redis::start_of(kind, &arguments);
    let other = Redis::start_of(kind, &[]);
    let port = other.port();
    let (mut sent, mut judged, mut counted) = (0, 0, 0);
    let mut round = 0;
    let judged_min = commands / JUDGED_ONE_OF;
    assert!(judged_min > 0, "{commands} commands are too few");
    while sent < commands || judged < judged_min {
        assert!(sent < commands * SENT_TIMES_MAX, "{judged} of {sent}");
        let (proxy, address, recorder) = start(&config(&redis));
        let watcher = Watcher::start(redis.address());
        let left = commands.saturating_sub(sent);
        let share = 5_000.min(if left > 0 { left } else { commands }) / CLIENTS as u64 + 1;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let seed = seed
                    .wrapping_mul(1000)
                    .wrapping_add(round * 10 + number as u64 + 1);
                std::thread::spawn(move || Adversary::new(kind, address, port, seed).attack(share))
            })
            .collect();
        sent += clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum::<u64>();
        // Every connection has ended then, and recorded what was lost.
        proxy.stop();
        let executed = watcher.stop();
        let entries = std::mem::take(&mut *recorder.seen.lock().unwrap());
        counted += judge_counts(&watcher::take_counts(redis.address()), &entries, seed);
        judge_keys(&watcher::take_keys(redis.address()), &entries, seed);
        judged += judge(&executed, &entries, seed) as u64;
        judge_claims(&executed, &entries, seed);
        round += 1;
    }
    println!("{sent} commands, {judged} executed on keys and recorded, {counted} on the server");
}

/// Whatever clients send, in whatever order and however it ends: what the server executed on a key has its
/// entry, under the user that the server had logged in (S1, S2, S8, proxy 1 to 6, 14, 15).
#[test]
fn what_random_clients_did_is_recorded_as_theirs() {
    let seed = asked("PROBITY_SEED").unwrap_or(42);
    let commands = asked("PROBITY_ADVERSARY_COMMANDS").unwrap_or(COMMANDS);
    run(Kind::Redis7, commands, &[], seed);
}

/// Random clients before a server without descriptions of its commands: the built-in table knows
/// them. A quarter of the commands are enough for the difference.
#[test]
fn what_random_clients_did_to_a_server_without_command_is_recorded() {
    let seed = asked("PROBITY_SEED").unwrap_or(43);
    run(
        Kind::Redis7,
        COMMANDS / 4,
        &["--rename-command", "COMMAND", ""],
        seed,
    );
}

/// Random clients before Valkey, which has more commands.
#[test]
fn what_random_clients_did_to_valkey_is_recorded_as_theirs() {
    let seed = asked("PROBITY_SEED").unwrap_or(45);
    run(Kind::Valkey, COMMANDS / 4, &[], seed);
}

/// Random clients before the oldest supported server.
#[test]
fn what_random_clients_did_to_redis_6_is_recorded_as_theirs() {
    let seed = asked("PROBITY_SEED").unwrap_or(46);
    run(Kind::Redis6, COMMANDS / 4, &[], seed);
}

/// A million commands, with a seed of their own: run it with
/// `cargo test -p probity-proxy --test server a_million_random_commands -- --ignored --nocapture`;
/// `PROBITY_ADVERSARY_COMMANDS` asks for another number.
#[test]
#[ignore = "a million commands take minutes; the gate sends fewer"]
fn a_million_random_commands_are_recorded_as_theirs() {
    let seed = asked("PROBITY_SEED").unwrap_or(44);
    let commands = asked("PROBITY_ADVERSARY_COMMANDS").unwrap_or(COMMANDS_LONG);
    run(Kind::Redis7, commands, &[], seed);
}
