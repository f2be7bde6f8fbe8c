//! The commands that the server executed, by its `MONITOR`.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use probity_proxy::resp::{FrameReader, Limits};

/// A command that the server executed.
pub(crate) struct Executed {
    pub(crate) db: u64,
    pub(crate) words: Vec<Vec<u8>>,
}

impl Executed {
    /// Returns whether it is SET or DEL.
    pub(crate) fn is_write(&self) -> bool {
        let name = self.words.first();
        name.is_some_and(|name| name == b"SET" || name == b"DEL")
    }
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.db)?;
        for word in &self.words {
            let shown = word.get(..60).unwrap_or(word);
            write!(f, " {}", String::from_utf8_lossy(shown))?;
        }
        Ok(())
    }
}

/// A connection of its own that listens until it hears the word that it is stopped by.
pub(crate) struct Watcher {
    server: SocketAddr,
    listening: JoinHandle<Vec<Executed>>,
}

const LAST_WORD: &str = "the-watcher-stops-here";

impl Watcher {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        socket.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(socket);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).unwrap();
        assert_eq!(line, b"+OK\r\n");
        let listening = std::thread::spawn(move || listen(lines));
        Self { server, listening }
    }

    pub(crate) fn stop(self) -> Vec<Executed> {
        let mut socket = TcpStream::connect(self.server).unwrap();
        let word = format!("ECHO {LAST_WORD}\r\n");
        socket.write_all(word.as_bytes()).unwrap();
        self.listening.join().unwrap()
    }
}

/// The keys that are there now, by database, which are gone then: what they say needs no `MONITOR`.
pub(crate) fn take_keys(server: SocketAddr) -> Vec<(u64, String)> {
    let mut socket = TcpStream::connect(server).unwrap();
    let mut reader = FrameReader::new(Limits::SERVER);
    let mut ask = |line: String| {
        socket.write_all(line.as_bytes()).unwrap();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = socket.read(&mut buffer).unwrap();
            if let (_, Some(frame)) = reader.read(&buffer[..count]).unwrap() {
                return frame;
            }
        }
    };
    let mut all = Vec::new();
    for db in 0..16 {
        ask(format!("SELECT {db}\r\n"));
        let keys = ask("KEYS user:*\r\n".to_owned());
        for key in keys.elements().unwrap_or_default() {
            let text = String::from_utf8_lossy(key.text().unwrap_or_default());
            all.push((db, text.into_owned()));
        }
    }
    ask("FLUSHALL\r\n".to_owned());
    all
}

/// Returns how often commands that `MONITOR` leaves out were executed since the last call.
pub(crate) fn take_counts(server: SocketAddr) -> Vec<(String, usize)> {
    let mut socket = TcpStream::connect(server).unwrap();
    let mut ask = |line: &str, end: &[u8]| {
        socket.write_all(line.as_bytes()).unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(end) {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            heard.push(byte[0]);
        }
        String::from_utf8_lossy(&heard).into_owned()
    };
    let stats = ask("INFO commandstats\r\nECHO end\r\n", b"\r\nend\r\n");
    ask("CONFIG RESETSTAT\r\n", b"+OK\r\n");
    // Not CONFIG GET: Valkey asks itself for its configuration.
    let names = ["debug", "acl|", "config|set"];
    let lines = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"));
    let lines = lines.filter_map(|line| line.split_once(":calls="));
    let counted = lines.filter(|(name, _)| names.iter().any(|start| name.starts_with(start)));
    let recorded =
        |name: &str| !["acl|whoami", "acl|cat", "acl|genpass", "acl|help"].contains(&name);
    counted
        .filter(|(name, _)| recorded(name))
        .map(|(name, calls)| {
            let calls = calls.split(',').next().unwrap();
            (name.to_owned(), calls.parse().unwrap())
        })
        .collect()
}

fn listen(mut lines: BufReader<TcpStream>) -> Vec<Executed> {
    let mut all = Vec::new();
    loop {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        let executed = parse(text.trim_end());
        if executed
            .words
            .get(1)
            .is_some_and(|word| word == LAST_WORD.as_bytes())
        {
            return all;
        }
        all.push(executed);
    }
}

/// Takes `+TIME [DB CLIENT] "WORD" ...` apart.
fn parse(line: &str) -> Executed {
    let (_, rest) = line.split_once('[').unwrap();
    let (head, words) = rest.split_once("] ").unwrap();
    let db = head.split(' ').next().unwrap().parse().unwrap();
    let mut executed = Executed {
        db,
        words: Vec::new(),
    };
    let mut bytes = words.bytes();
    while bytes.next() == Some(b'"') {
        executed.words.push(word(&mut bytes));
        bytes.next();
    }
    executed
}

fn word(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut word = Vec::new();
    loop {
        match bytes.next().unwrap() {
            b'"' => return word,
            b'\\' => word.push(match bytes.next().unwrap() {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            }),
            other => word.push(other),
        }
    }
}
