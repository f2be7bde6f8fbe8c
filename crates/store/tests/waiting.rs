//! Waiting commands take no more memory than the bound of all clients allows.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs;
use std::sync::mpsc::channel;

use probity_store::{Client, Command, Commands, Options, Store};

/// The bounds of watched keys and of transactions here; the second test of the two would find memory that the first let go.
const WATCHED_BYTES: usize = 32 << 20;
const QUEUED_BYTES: usize = 128 << 20;
/// Memory that the process takes beside them.
const OTHER_BYTES: usize = 16 << 20;

fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<usize>().unwrap() * 1024
}

fn ask(store: &Store, client: &mut Option<Client>, mut commands: Commands) -> Vec<u8> {
    let mut replies = Vec::new();
    while !commands.is_empty() {
        let (sender, receiver) = channel();
        store.ask(client.take().unwrap(), commands, move |answer| {
            drop(sender.send(answer));
        });
        let answer = receiver.recv().unwrap().unwrap();
        replies.extend_from_slice(&answer.bytes);
        (*client, commands) = (Some(answer.client), answer.rest);
    }
    replies
}

/// Says `of(round)` for a client after the other until one is refused.
fn until_refused(folder: &std::path::Path, bound: usize, of: impl Fn(usize) -> Commands) -> usize {
    let options = Options {
        waiting_bytes_max: bound,
        cache_bytes: 4 << 20,
        ..Options::default()
    };
    let store = Store::open(folder, options).unwrap();
    let mut clients = Vec::new();
    for round in 0..1000 {
        let mut client = Some(store.client());
        let replies = ask(&store, &mut client, of(round));
        clients.push(client);
        if replies.windows(9).any(|it| it == b"take more") {
            return memory();
        }
    }
    panic!("nobody is refused");
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::default();
    for word in words {
        command.push(word.as_bytes());
    }
    command
}

/// Seven transactions of 210,000 `PING` each took 93 MB each where 14 MB were counted, and watched keys took four times what was
/// counted. Each is counted with the places in its queues and all of its pieces of memory.
#[test]
fn what_waits_takes_no_more_memory_than_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let before = memory();
    let watched = until_refused(&folder.path().join("watched"), WATCHED_BYTES, |round| {
        let names: Vec<String> = (0..10_000).map(|it| format!("{round}:{it}")).collect();
        let words: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut commands = Commands::default();
        commands.push(command(&[&["WATCH"], &words[..]].concat()));
        commands
    });
    let taken = watched.saturating_sub(before);
    assert!(taken <= WATCHED_BYTES + OTHER_BYTES, "{taken}");
    let queued = until_refused(&folder.path().join("queued"), QUEUED_BYTES, |_| {
        let mut commands = Commands::default();
        commands.push(command(&["MULTI"]));
        (0..20_000).for_each(|_| commands.push(command(&["PING"])));
        commands
    });
    let taken = queued.saturating_sub(before);
    assert!(taken <= QUEUED_BYTES + OTHER_BYTES, "{taken}");
    assert!(
        taken >= QUEUED_BYTES / 3,
        "far more is counted than taken: {taken}"
    );
}
