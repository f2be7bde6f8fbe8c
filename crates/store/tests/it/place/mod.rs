//! A store with a small bound, and one client of it.

use std::path::Path;
use std::sync::mpsc::channel;

use probity_store::{Client, Command, Commands, Options, Store, SubjectOf};

/// The bound of a reply.
pub(crate) const BOUND: usize = 8 << 20;
/// The length of one value.
pub(crate) const VALUE: usize = 1 << 20;
/// A store, one of its clients, and what the client gets.
pub(crate) struct Place {
    store: Store,
    client: Option<Client>,
}

impl Place {
    pub(crate) fn open(folder: &Path, subject_of: SubjectOf) -> Self {
        let options = Options {
            subject_of,
            reply_bytes_max: BOUND,
            cache_bytes: 4 << 20,
            ..Options::default()
        };
        let store = Store::open(folder, options).unwrap();
        let client = Some(store.client());
        Self { store, client }
    }

    /// The replies to commands of words.
    pub(crate) fn ask(&mut self, all: &[&[&[u8]]]) -> Vec<u8> {
        let mut commands = Commands::default();
        for words in all {
            let mut command = Command::default();
            words.iter().for_each(|word| command.push(word));
            commands.push(command);
        }
        let mut bytes = Vec::new();
        loop {
            let (sender, receiver) = channel();
            let client = self.client.take().unwrap();
            self.store.ask(client, commands, move |answer| {
                drop(sender.send(answer));
            });
            let answer = receiver.recv().unwrap().unwrap();
            self.client = Some(answer.client);
            bytes.extend_from_slice(&answer.bytes);
            if answer.rest.is_empty() {
                return bytes;
            }
            commands = answer.rest;
        }
    }

    pub(crate) fn says(&mut self, words: &str) -> Vec<u8> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.ask(&[&words])
    }
}
