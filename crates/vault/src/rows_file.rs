//! Files of rows: what their readers would take for whole although it is damaged.

use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

/// The state of a CSV file between two bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the beginning of a field, where a quote opens one.
    Begins,
    Plain,
    Quoted,
    /// Behind a quote inside a quoted field: another one is doubled, anything else is behind it.
    Closed,
}

/// A CSV file whose end inside of quotes is an error.
pub(crate) struct Closing<R> {
    inner: R,
    state: State,
    line: u64,
    /// Line of the quote that was opened last.
    opened: u64,
}

impl<R> Closing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            state: State::Begins,
            line: 1,
            opened: 0,
        }
    }

    fn take(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Begins, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, _) | (State::Closed, b'"') => State::Quoted,
            // The reader passes over the mark of UTF-8, which only a file begins with.
            (State::Begins, 0xEF | 0xBB | 0xBF) if self.line == 1 => State::Begins,
            (_, b',' | b'\n' | b'\r') => State::Begins,
            _ => State::Plain,
        };
        self.line += u64::from(byte == b'\n');
    }
}

impl<R: Read> Read for Closing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.state == State::Quoted {
            let what = format!("the quote that line {} opens is never closed", self.opened);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        for &byte in buffer.iter().take(count) {
            self.take(byte);
        }
        Ok(count)
    }
}

/// The rows of one JSON document: an object, or an array of them.
pub(crate) struct Document(pub(crate) Vec<Fields>);

/// The members of an object, each name once.
pub(crate) struct Fields(pub(crate) Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of columns and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                members(&mut map)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;

        impl<'de> Visitor<'de> for Rows {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of columns and values, or an array of such objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
                Ok(Document(vec![members(&mut map)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Document, A::Error> {
                let mut rows = Vec::new();
                while let Some(row) = array.next_element()? {
                    rows.push(row);
                }
                Ok(Document(rows))
            }
        }

        deserializer.deserialize_any(Rows)
    }
}

fn members<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Fields, A::Error> {
    let mut fields: Vec<(String, Json)> = Vec::new();
    while let Some((name, value)) = map.next_entry::<String, Json>()? {
        if fields.iter().any(|(known, _)| *known == name) {
            return Err(A::Error::custom(format!(
                "the object has the member {name} twice"
            )));
        }
        fields.push((name, value));
    }
    Ok(Fields(fields))
}
