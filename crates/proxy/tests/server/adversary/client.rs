//! One adversary: random commands, and a belief of its own about who the server takes it for.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use probity_proxy::command::Table;

use super::{Random, USERS, next_number};
use crate::support::{Kind, command};

/// Words that commands are filled up with.
const WORDS: [&str; 26] = [
    "0", "1", "2", "-1", "3", "x", "(1", "+", "-", "*", "LEFT", "RIGHT", "NX", "XX", "GET", "EX",
    "COUNT", "STORE", "DB", "LIMIT", "BY", "STREAMS", "ON", "OFF", "SKIP", "message",
];

/// Commands that end the server, stop it for long, or let nobody in any more; and those of which
/// [`Adversary::administer`] says some.
const UNUSABLE: [&str; 18] = [
    "shutdown",
    "debug",
    "failover",
    "replicaof",
    "slaveof",
    "acl",
    "config",
    "client|pause",
    "client|kill",
    "monitor",
    "module",
    "migrate",
    "sync",
    "psync",
    "replconf",
    "save",
    "bgsave",
    "cluster|reset",
];

/// A key that bears the user's name, and that nobody has used.
fn key(user: &str) -> String {
    format!("user:{user}:{}", next_number())
}

pub(crate) struct Adversary {
    kind: Kind,
    address: SocketAddr,
    /// The port of a server that keys may be sent to.
    other: u16,
    random: Random,
    names: Vec<(String, i64)>,
}

impl Adversary {
    pub(crate) fn new(kind: Kind, address: SocketAddr, other: u16, seed: u64) -> Self {
        let usable = |name: &str| {
            let container = name.split('|').next().unwrap_or(name);
            !UNUSABLE.contains(&name) && !UNUSABLE.contains(&container)
        };
        let mut names: Vec<(String, i64)> = Table::builtin()
            .iter()
            .filter(|facts| usable(&facts.name))
            .map(|facts| (facts.name.to_string(), facts.arity))
            .collect();
        names.sort();
        Self {
            kind,
            address,
            other,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            names,
        }
    }

    /// Sends about `count` commands over many connections; gives how many were sent.
    pub(crate) fn attack(mut self, count: u64) -> u64 {
        let mut sent = 0;
        while sent < count {
            sent += self.connection();
        }
        sent
    }

    /// One connection: a login that is heard, then bursts under that name, then another login or the end.
    fn connection(&mut self) -> u64 {
        let mut socket = TcpStream::connect(self.address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        socket
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut sent = 0;
        let mut user = "default";
        for _ in 0..=self.random.below(4) {
            if self.random.one_in(3) {
                user = USERS[self.random.below(USERS.len())];
                // The one login of a burst that may succeed comes first, and its user names the keys.
                let login = if self.random.one_in(3) && user != "dave" {
                    self.hello(user)
                } else {
                    command(&["AUTH", user, user])
                };
                // Out of a transaction, a subscription and a silence first: all of them may refuse a login.
                let fresh = command(&["RESET"]);
                if socket.write_all(&[fresh, login].concat()).is_err() {
                    break;
                }
                sent += 2;
            }
            let count = 1 + self.random.below(30);
            let mut burst = Vec::new();
            for _ in 0..count {
                let next = self.step(user);
                burst.extend(next);
            }
            sent += count as u64;
            if !self.say(&mut socket, &burst) {
                return sent;
            }
            if self.random.one_in(2) {
                let mut heard = vec![0; 1 << 16];
                let _nothing_yet = socket.read(&mut heard);
            }
        }
        self.end(socket, user);
        sent
    }

    /// A login by HELLO, at times with an option behind it that is an error: Redis up to 7.0 has logged in all
    /// the same, Valkey has not.
    fn hello(&mut self, user: &str) -> Vec<u8> {
        let version = if self.random.one_in(2) { "2" } else { "3" };
        let errs = user != "carol" && self.kind != Kind::Valkey;
        let rest: &[&str] = match self.random.below(4) {
            0 if errs => &["BADOPT"],
            1 if errs => &["SETNAME", "a b"],
            2 => &["SETNAME", "other"],
            _ => &[],
        };
        let login = ["AUTH", "auth", "AUTH\0", "Auth\0x"][self.random.below(4)];
        command(&[&["HELLO", version, login, user, user], rest].concat())
    }

    /// Sends in pieces; false when the connection has ended.
    fn say(&mut self, socket: &mut TcpStream, burst: &[u8]) -> bool {
        let piece = [usize::MAX, 1, 7, 100][self.random.below(4)].min(burst.len().max(1));
        let piece = if burst.len() > 4000 {
            burst.len()
        } else {
            piece
        };
        burst
            .chunks(piece)
            .all(|part| socket.write_all(part).is_ok())
    }

    /// Ends in one of many ways.
    fn end(&mut self, mut socket: TcpStream, user: &str) {
        match self.random.below(4) {
            0 => {
                let half = self.ordinary(user);
                let cut = self.random.below(half.len());
                let _gone = socket.write_all(half.get(..cut).unwrap_or_default());
            }
            1 => {
                let mut line = format!("GET user:{user}:{} ", next_number()).into_bytes();
                line.resize(line.len() + 70_000, b'y');
                line.extend_from_slice(
                    format!("\r\nGET user:{user}:{}\r\n", next_number()).as_bytes(),
                );
                let _gone = socket.write_all(&line);
            }
            _ => {
                let _gone = socket.write_all(b"QUIT\r\n");
                let patience = Some(Duration::from_secs(1));
                socket.set_read_timeout(patience).unwrap();
            }
        }
        let mut heard = vec![0; 1 << 16];
        while socket.read(&mut heard).is_ok_and(|count| count > 0) {}
    }

    fn step(&mut self, user: &str) -> Vec<u8> {
        match self.random.below(21) {
            20 => self.messages(user),
            0 | 1 => self.silence(),
            2 => self.transaction(user),
            3 => self.subscription(),
            4 => self.failed_login(),
            5 => self.odd(user),
            6 => self.script(user),
            7 => self.administer(user),
            _ => self.ordinary(user),
        }
    }

    /// Any command with any arity near its own, filled up with keys and words.
    fn ordinary(&mut self, user: &str) -> Vec<u8> {
        let (name, arity) = self.names[self.random.below(self.names.len())].clone();
        let skipped = [
            "auth",
            "client|setname",
            "hello",
            "quit",
            "reset",
            "select",
            "swapdb",
        ];
        if skipped.contains(&name.as_str()) {
            return command(&["GET", &key(user)]);
        }
        let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
        let least = arity.unsigned_abs() as usize;
        let more = self.random.below(4);
        let wanted = match self.random.below(8) {
            0 => least.saturating_sub(1).max(1),
            1 => least + 1,
            _ if arity < 0 => least + more,
            _ => least,
        };
        while words.len() < wanted {
            let word = if self.random.one_in(2) {
                key(user)
            } else {
                WORDS[self.random.below(WORDS.len())].to_owned()
            };
            words.push(word);
        }
        // Nothing may block for long, because those behind it would never be answered.
        if name.starts_with('b') || name == "wait" {
            words.push("0.001".to_owned());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.contains(&"BLOCK") || name == "wait" {
            return command(&["GET", &key(user)]);
        }
        let words = self.spelled(&words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let case = self.random.below(3);
        let first = match case {
            0 => words[0].to_uppercase(),
            _ => words[0].to_owned(),
        };
        command(&[&[first.as_str()], &words[1..]].concat())
    }

    /// At times a zero byte behind a word, which a server does not see in most of them.
    fn spelled(&mut self, words: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = words.iter().map(ToString::to_string).collect();
        if !self.random.one_in(8) {
            return words;
        }
        let place = self.random.below(words.len());
        // Names end the connection.
        let is_name = place < 2 && !self.random.one_in(4);
        if !is_name && !words[place].starts_with("user:") {
            words[place].push_str(["\0", "\0x", "\0\u{ff}7\0"][self.random.below(3)]);
        }
        words
    }

    fn silence(&mut self) -> Vec<u8> {
        let modes = [
            "OFF", "SKIP", "ON", "off", "FOO", "OFF x", "SKIP x", "ON x", "", "SKIP\0", "OFF\0x",
            "ON\0",
        ];
        let line = format!("CLIENT REPLY {}", modes[self.random.below(modes.len())]);
        command(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn transaction(&mut self, user: &str) -> Vec<u8> {
        let begins = ["MULTI", "MULTI", "MULTI", "MULTI x"];
        let ends = [
            "EXEC",
            "EXEC",
            "DISCARD",
            "DISCARD x",
            "EXEC x",
            "RESET x",
            "WATCH",
        ];
        let words = |line: &str| command(&line.split(' ').collect::<Vec<_>>());
        let mut all = words(begins[self.random.below(begins.len())]);
        for _ in 0..self.random.below(5) {
            if self.random.one_in(6) {
                let selects = ["SELECT 1", "SELECT 99", "SELECT 0"];
                all.extend(words(selects[self.random.below(3)]));
            }
            all.extend(self.ordinary(user));
        }
        all.extend(words(ends[self.random.below(ends.len())]));
        all
    }

    fn subscription(&mut self) -> Vec<u8> {
        let lines = [
            "SUBSCRIBE a b",
            "SUBSCRIBE",
            "PSUBSCRIBE p*",
            "SSUBSCRIBE s",
            "UNSUBSCRIBE",
            "UNSUBSCRIBE a",
            "PUNSUBSCRIBE",
            "SUNSUBSCRIBE s",
            "PUBLISH a message",
            "SPUBLISH s message",
            "PING",
            "HELLO 3",
            "HELLO 2",
            "HELLO 9",
        ];
        let line = lines[self.random.below(lines.len())];
        let line = if self.random.one_in(2) {
            line
        } else {
            // Most connections get out of it, so that they do something again.
            "PING"
        };
        command(&line.split(' ').collect::<Vec<_>>())
    }

    /// From here on each miss is a message within the replies. In RESP2 a client that listens does nothing more, and
    /// most connections are to go on.
    fn messages(&mut self, user: &str) -> Vec<u8> {
        if user == "dave" || !self.random.one_in(4) {
            return command(&["PING"]);
        }
        let hear = command(&["PSUBSCRIBE", "__keyevent@*__:keymiss"]);
        [command(&["HELLO", "3"]), hear].concat()
    }

    fn failed_login(&mut self) -> Vec<u8> {
        let user = USERS[self.random.below(USERS.len())];
        match self.random.below(3) {
            0 => command(&["AUTH", user, "wrong"]),
            1 => command(&["AUTH", user, user, "more"]),
            _ => command(&["HELLO", "2", "AUTH", user, "wrong"]),
        }
    }

    /// Draws odd input: empty lines, commands in lines, other databases, unknown names.
    fn odd(&mut self, user: &str) -> Vec<u8> {
        let key = key(user);
        match self.random.below(8) {
            0 => b"\r\n".to_vec(),
            1 => b"*0\r\n".to_vec(),
            2 => format!("get '{key}'\r\n").into_bytes(),
            3 => format!("SET {key} \"a\\r\\nb\" \n").into_bytes(),
            4 => command(&["SELECT", ["0", "1", "2", "99", "x"][self.random.below(5)]]),
            5 => command(&["NOSUCH", &key]),
            6 => command(&["SET", &key, &"v".repeat(self.random.below(2000))]),
            _ => command(&["MOVE", &key, "5"]),
        }
    }

    fn script(&mut self, user: &str) -> Vec<u8> {
        let texts = [
            "return {ok='QUEUED'}",
            "return {'message', 'a', 'b'}",
            "return redis.error_reply('ERR no')",
            "return redis.call('set', KEYS[1], 'x')",
            "return {ok='RESET'}",
        ];
        let text = texts[self.random.below(texts.len())];
        command(&["EVAL", text, "1", &key(user)])
    }

    /// Draws commands that change the server, its users and its other clients, as far as the server
    /// goes on.
    fn administer(&mut self, user: &str) -> Vec<u8> {
        let key = key(user);
        let number = self.random.below(1000).to_string();
        let other = self.other.to_string();
        let somebody = USERS[self.random.below(USERS.len())];
        let set = || command(&["SET", &key, "v"]);
        let migrate = |to: &str, more: &[&str]| {
            let words = ["MIGRATE", "127.0.0.1", to, &key, "0", "200"];
            command(&[&words, more].concat())
        };
        match self.random.below(18) {
            0 => command(&["DEBUG", "OBJECT", &key]),
            1 => [set(), command(&["debug", "sdslen", &key])].concat(),
            2 => command(&["DEBUG", "DIGEST-VALUE", &key]),
            3 => command(&["DEBUG", "LISTPACK", &key]),
            4 => command(&["DEBUG", "SLEEP", "0"]),
            5 => command(&["ACL", "SETUSER", "other", "on"]),
            6 => command(&["ACL", "DELUSER", "other"]),
            7 => command(&["ACL", "DRYRUN", somebody, "GET", &key]),
            8 => command(&["CONFIG", "SET", "maxmemory-samples", "5"]),
            9 => command(&["CONFIG", "GET", "maxmemory*"]),
            10 if self.random.one_in(3) => command(&["CLIENT", "KILL", "USER", somebody]),
            11 => command(&["CLIENT", "PAUSE", "2", "WRITE"]),
            12 => command(&["CLIENT", "PAUSE", "2"]),
            13 => command(&["CLIENT", "UNBLOCK", &number, "ERROR"]),
            14 => command(&["SWAPDB", "1", "2"]),
            15 => [set(), migrate(&other, &["REPLACE"])].concat(),
            16 => migrate(&other, &["COPY"]),
            _ => [set(), migrate("1", &[])].concat(),
        }
    }
}
