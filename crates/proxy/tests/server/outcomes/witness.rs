//! The server's own word about keys while another client works.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::resp::{Frame, FrameReader, Limits, put_command};

/// A client that waits for each reply.
pub(super) struct Client {
    socket: TcpStream,
    reader: FrameReader,
    over: bool,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let patience = Some(Duration::from_secs(10));
        socket.set_read_timeout(patience).unwrap();
        Self {
            socket,
            reader: FrameReader::new(Limits::SERVER),
            over: false,
        }
    }

    pub(super) fn ask(&mut self, words: &[Vec<u8>]) -> Frame {
        let mut bytes = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        put_command(&mut bytes, &words);
        self.socket.write_all(&bytes).unwrap();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match self.socket.read(&mut buffer) {
                // A machine that is halted for a moment interrupts a read that has a time limit.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                count => count.unwrap(),
            };
            if count == 0 {
                self.over = true;
                return Frame::Error(b"closed".to_vec());
            }
            if let (_, Some(frame)) = self.reader.read(&buffer[..count]).unwrap() {
                return frame;
            }
        }
    }

    pub(super) fn say(&mut self, line: &str) -> Frame {
        self.ask(&super::words(line))
    }

    pub(super) const fn is_over(&self) -> bool {
        self.over
    }
}

/// The fate of one key.
#[derive(Debug, Clone, Copy, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an answer of its own"
)]
pub(super) struct Key {
    pub(super) before: bool,
    pub(super) after: bool,
    pub(super) changed: bool,
}

/// Watches the keys of one command at a time, those that have a short name.
pub(super) struct Witness {
    address: SocketAddr,
    client: Client,
    watchers: Vec<Client>,
    keys: BTreeMap<String, Key>,
    /// Changes that the server has counted meanwhile.
    pub(super) changes: i64,
}

impl Witness {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            client: Client::connect(address),
            watchers: Vec::new(),
            keys: BTreeMap::new(),
            changes: 0,
        }
    }

    pub(super) fn ask(&mut self, words: &[Vec<u8>]) {
        self.client.ask(words);
    }

    /// Looks at every word of `command` that may be a key, before it is carried out.
    pub(super) fn begin(&mut self, command: &[Vec<u8>]) {
        self.keys.clear();
        let words = command.iter().skip(1).filter(|word| word.len() <= 8);
        for word in words {
            let text = String::from_utf8_lossy(word);
            if text.chars().all(char::is_alphanumeric) && !text.is_empty() {
                self.keys.insert(text.into_owned(), Key::default());
            }
        }
        while self.watchers.len() < self.keys.len() {
            self.watchers.push(Client::connect(self.address));
        }
        let mut watchers = self.watchers.iter_mut();
        for (name, key) in &mut self.keys {
            key.before = is_there(&mut self.client, name);
            watchers.next().unwrap().say(&format!("WATCH {name}"));
        }
        self.changes = -counted(&mut self.client);
    }

    /// Looks again.
    pub(super) fn end(&mut self) {
        self.changes += counted(&mut self.client);
        let mut watchers = self.watchers.iter_mut();
        for (name, key) in &mut self.keys {
            let watcher = watchers.next().unwrap();
            watcher.say("MULTI");
            key.changed = watcher.say("EXEC") == Frame::Null;
            key.after = is_there(&mut self.client, name);
        }
    }

    pub(super) fn knows(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    pub(super) fn of(&self, key: &str) -> Key {
        self.keys[key]
    }
}

fn is_there(client: &mut Client, key: &str) -> bool {
    client.say(&format!("EXISTS {key}")).integer() == Some(1)
}

fn counted(client: &mut Client) -> i64 {
    let info = client.say("INFO persistence");
    let text = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
    let (_, rest) = text.split_once("rdb_changes_since_last_save:").unwrap();
    rest.split('\r').next().unwrap().parse().unwrap()
}
