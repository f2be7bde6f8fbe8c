//! Keys of an embedded store that a policy assigns to a person.

use std::ops::Range;
use std::sync::mpsc::channel;

use probity_pocketdb::flash::Nand;
use probity_pocketdb::{SecureStore, Value};
use probity_policy::Policy;
use probity_proxy::audit::put_name;
use probity_proxy::resp::{Frame, FrameReader, Limits};
use probity_store::limits::DATABASES;
use probity_store::{Client, Command, Commands, Store};

use super::{Person, SOMEBODY};
use crate::error::VaultError;

/// The tables, referenced ones first.
const SCHEMA: [&str; 2] = [
    "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT(120) INDEXED, kind TEXT(8), \
     purpose TEXT(64) INDEXED, others INTEGER, expires INTEGER, db INTEGER)",
    "CREATE TABLE item_values (id INTEGER PRIMARY KEY, item INTEGER REFERENCES items(id), \
     part TEXT(8), number INTEGER, encoding TEXT(8), piece INTEGER, text TEXT(120))",
];
/// Bytes of a key that are kept as its name.
const NAME_BYTES: usize = 120;
/// Bytes of a purpose that are kept.
const PURPOSE_BYTES: usize = 64;
/// The COUNT of each SCAN of the store.
const KEYS_PER_STEP: &[u8] = b"500";
/// Elements of a collection that are read at once, and fewer where they are too long together.
const ELEMENTS_PER_STEP: u64 = 512;
/// The kind of a key that is not there.
const GONE: &str = "none";
/// The end of the store's words for a reply, or members, that would be too long together.
const TOO_LONG: &str = "ask for less at once";

/// Imports the person's keys.
pub(super) fn fill<F: Nand, S: SecureStore>(
    person: &mut Person<'_, F, S>,
    store: &Store,
    policy: &Policy,
    name: &str,
) -> Result<(), VaultError> {
    person.create(&SCHEMA)?;
    person.about("store", name)?;
    let mut items = Items {
        person,
        store,
        policy,
        client: store.client(),
        db: 0,
    };
    for db in 0..DATABASES {
        items.db = db;
        items.walk()?;
    }
    // What belongs to a subject whose key is damaged is passed over, and may be this person's.
    let unreadable = items.unreadable()?;
    items.person.filled.unreadable = Some(unreadable);
    match unreadable {
        0 => Ok(()),
        keys => items.person.about("unreadable", &keys.to_string()),
    }
}

struct Items<'p, 'a, F: Nand, S: SecureStore> {
    person: &'p mut Person<'a, F, S>,
    store: &'p Store,
    policy: &'p Policy,
    client: Client,
    /// The number of the database whose keys are visited.
    db: usize,
}

/// The people that a key names, and its purpose.
struct Naming {
    /// The key with `*` for other people.
    shown: Vec<u8>,
    others: i64,
    purpose: String,
}

impl<F: Nand, S: SecureStore> Items<'_, '_, F, S> {
    /// Visits every key of the database.
    fn walk(&mut self) -> Result<(), VaultError> {
        self.ask(&[b"SELECT", self.db.to_string().as_bytes()])?;
        let mut cursor = b"0".to_vec();
        loop {
            let found = self.ask(&[b"SCAN", &cursor, b"COUNT", KEYS_PER_STEP])?;
            let Some([next, keys]) = found.elements() else {
                return Err(VaultError::StoreForm);
            };
            for key in keys.elements().ok_or(VaultError::StoreForm)? {
                self.key(key.text().ok_or(VaultError::StoreForm)?)?;
            }
            cursor = next.text().ok_or(VaultError::StoreForm)?.to_vec();
            if cursor == b"0" {
                return Ok(());
            }
        }
    }

    /// Returns how many keys of the store do not open, of whomever they are.
    fn unreadable(&mut self) -> Result<u64, VaultError> {
        let info = self.ask(&[b"INFO", b"stats"])?;
        let info = text_of(&info);
        let mut lines = info.lines();
        let count = lines.find_map(|line| line.strip_prefix("unreadable_keys:"));
        let count = count.and_then(|count| count.trim().parse().ok());
        count.ok_or(VaultError::StoreForm)
    }

    /// Returns the naming of a key, or `None` if it is not the subject's.
    fn naming(&self, key: &[u8]) -> Result<Option<Naming>, VaultError> {
        let part = |range: Range<usize>| key.get(range).ok_or(VaultError::StoreForm);
        let mut ranges = Vec::new();
        let class = self.policy.classify(key, &mut ranges);
        let purpose = class.purpose.to_owned();
        let mut naming = Naming {
            shown: Vec::new(),
            others: 0,
            purpose,
        };
        let (mut theirs, mut at) = (false, 0);
        for range in ranges {
            let mut name = String::new();
            put_name(&mut name, part(range.clone())?);
            naming.shown.extend_from_slice(part(at..range.start)?);
            at = range.end;
            if name == self.person.subject {
                theirs = true;
                naming.shown.extend_from_slice(part(range)?);
            } else {
                naming.others += 1;
                naming.shown.extend_from_slice(SOMEBODY.as_bytes());
            }
        }
        naming.shown.extend_from_slice(part(at..key.len())?);
        Ok(theirs.then_some(naming))
    }

    fn key(&mut self, key: &[u8]) -> Result<(), VaultError> {
        let Some(naming) = self.naming(key)? else {
            return Ok(());
        };
        let kind = self.ask(&[b"TYPE", key])?;
        let kind = text_of(&kind);
        // It expired behind the listing.
        if kind == GONE {
            return Ok(());
        }
        let expires = self.ask(&[b"PEXPIRETIME", key])?;
        // Negative where there is none.
        let expires = expires.integer().ok_or(VaultError::StoreForm)?.max(0);
        let shown = String::from_utf8_lossy(&naming.shown).replace('\0', "");
        let values = [
            Value::Text(cut(&shown, NAME_BYTES)),
            Value::Text(&kind),
            Value::Text(cut(&naming.purpose, PURPOSE_BYTES)),
            Value::Integer(naming.others),
            Value::Integer(expires),
            Value::Integer(i64::try_from(self.db).unwrap_or(i64::MAX)),
        ];
        self.person.insert(
            "INSERT INTO items (name, kind, purpose, others, expires, db) VALUES (?, ?, ?, ?, ?, ?)",
            &values,
        )?;
        let item = self.person.last("items");
        self.value(item, "key", 0, &naming.shown)?;
        // A value that belongs to several people is not given to one of them.
        if naming.others > 0 {
            return Ok(());
        }
        self.values(item, &kind, key)?;
        // What was read of a value that has gone may be a part of it.
        if text_of(&self.ask(&[b"TYPE", key])?) != kind {
            return Err(VaultError::StoreChanged);
        }
        Ok(())
    }

    fn values(&mut self, item: i64, kind: &str, key: &[u8]) -> Result<(), VaultError> {
        let (command, parts): (&str, &[&str]) = match kind {
            "string" => {
                let found = self.ask(&[b"GET", key])?;
                let text = found.text().ok_or(VaultError::StoreChanged)?;
                return self.value(item, "value", 1, text);
            }
            "list" => ("LRANGE", &["element"]),
            "set" => ("SSCAN", &["member"]),
            "hash" => ("HSCAN", &["field", "value"]),
            "zset" => ("ZSCAN", &["member", "score"]),
            GONE => return Err(VaultError::StoreChanged),
            other => {
                return Err(VaultError::StoreKind {
                    kind: other.to_owned(),
                });
            }
        };
        self.elements(item, key, (command, parts))
    }

    /// Reads the elements of a collection, some at a time: a reply has a greatest length.
    fn elements(
        &mut self,
        item: i64,
        key: &[u8],
        (command, parts): (&str, &[&str]),
    ) -> Result<(), VaultError> {
        let (mut at, mut most, mut number) = (0_u64, ELEMENTS_PER_STEP, 1);
        loop {
            let found = match self.some(command, key, (at, most)) {
                Err(VaultError::StoreSilent { what }) if most > 1 && what.contains(TOO_LONG) => {
                    most /= 2;
                    continue;
                }
                found => found?,
            };
            let frames = found.elements().ok_or(VaultError::StoreForm)?;
            let (next, frames) = match (command, frames) {
                ("LRANGE", []) => (0, frames),
                ("LRANGE", _) => (at.saturating_add(most), frames),
                (_, [next, frames]) => {
                    let next = text_of(next).parse().ok();
                    let frames = frames.elements().ok_or(VaultError::StoreForm)?;
                    (next.ok_or(VaultError::StoreForm)?, frames)
                }
                _ => return Err(VaultError::StoreForm),
            };
            for group in frames.chunks(parts.len()) {
                for (part, element) in parts.iter().zip(group) {
                    let text = element.text().ok_or(VaultError::StoreForm)?;
                    self.value(item, part, number, text)?;
                }
                number += 1;
            }
            at = next;
            if at == 0 {
                return Ok(());
            }
        }
    }

    /// Asks for elements of a collection, from a place or a cursor on.
    fn some(
        &mut self,
        command: &str,
        key: &[u8],
        (at, most): (u64, u64),
    ) -> Result<Frame, VaultError> {
        let last = at.saturating_add(most).saturating_sub(1).to_string();
        let (at, most) = (at.to_string(), most.to_string());
        let (at, most, last) = (at.as_bytes(), most.as_bytes(), last.as_bytes());
        match command {
            "LRANGE" => self.ask(&[b"LRANGE", key, at, last]),
            _ => self.ask(&[command.as_bytes(), key, at, b"COUNT", most]),
        }
    }

    fn value(
        &mut self,
        item: i64,
        part: &str,
        number: i64,
        bytes: &[u8],
    ) -> Result<(), VaultError> {
        let owner = [
            Value::Integer(item),
            Value::Text(part),
            Value::Integer(number),
        ];
        let statement = "INSERT INTO item_values (item, part, number, encoding, piece, text) \
                         VALUES (?, ?, ?, ?, ?, ?)";
        self.person.value(statement, &owner, bytes)
    }

    /// Runs one command.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Frame, VaultError> {
        let mut command = Command::default();
        for word in words {
            command.push(word);
        }
        let mut commands = Commands::default();
        commands.push(command);
        let (sender, receiver) = channel();
        self.store
            .ask(std::mem::take(&mut self.client), commands, move |answer| {
                let _gone = sender.send(answer);
            });
        let failed = |what: String| VaultError::StoreSilent { what };
        let answer = receiver.recv().map_err(|error| failed(error.to_string()))?;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        // It has the database that was selected.
        self.client = answer.client;
        let mut reader = FrameReader::new(Limits::SERVER);
        match reader.read(&answer.bytes) {
            Ok((_, Some(Frame::Error(words)))) => {
                Err(failed(String::from_utf8_lossy(&words).into_owned()))
            }
            Ok((_, Some(frame))) => Ok(frame),
            _ => Err(VaultError::StoreForm),
        }
    }
}

fn text_of(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.text().unwrap_or_default()).into_owned()
}

/// Returns the longest prefix of `text` with at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    text.split_at(text.floor_char_boundary(bytes)).0
}
