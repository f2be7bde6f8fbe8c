//! Files of rows: what their readers would take for whole although it is damaged.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::number::is_lost;

/// The mark of UTF-8, which a file may begin with.
const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

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

/// A CSV file that knows the line of each row. Its end inside of quotes is an error, and so is a
/// carriage return that ends no line.
pub(crate) struct Closing<R> {
    inner: R,
    state: State,
    line: u64,
    /// Line of the quote that was opened last.
    opened: u64,
    /// True behind a carriage return outside of quotes.
    is_returned: bool,
    /// True where the next byte that ends no line begins a row.
    is_between: bool,
    /// Lines of the rows that began in what was read, but for those that were asked for.
    begun: VecDeque<u64>,
}

impl<R> Closing<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self {
            inner,
            state: State::Begins,
            line: 1,
            opened: 0,
            is_returned: false,
            is_between: true,
            begun: VecDeque::new(),
        }
    }

    /// Returns the line of the first byte of the next row, the heading being the first one. The reader's
    /// own line is the one where it began to look for the row.
    pub(crate) fn next_line(&mut self) -> u64 {
        self.begun.pop_front().unwrap_or(self.line)
    }

    fn note_begin(&mut self, byte: u8) {
        let is_mark = self.line == 1 && MARK.contains(&byte);
        let ends_line = matches!(byte, b'\r' | b'\n');
        if ends_line {
            self.is_between |= self.state != State::Quoted;
        } else if self.is_between && !is_mark {
            self.begun.push_back(self.line);
            self.is_between = false;
        }
    }

    fn take(&mut self, byte: u8) {
        self.note_begin(byte);
        self.state = match (self.state, byte) {
            (State::Begins, b'"') => {
                self.opened = self.line;
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, _) | (State::Closed, b'"') => State::Quoted,
            // The reader passes over the mark.
            (State::Begins, byte) if self.line == 1 && MARK.contains(&byte) => State::Begins,
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
            // The reader would end the row there: a text with such a letter would become two rows.
            if self.is_returned && byte != b'\n' {
                let what = format!(
                    "line {} has a carriage return without a line feed, outside of quotes: put the field into quotes, or end each line with a line feed",
                    self.line
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            self.is_returned = byte == b'\r' && self.state != State::Quoted;
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
    while let Some((name, text)) = map.next_entry::<String, Box<RawValue>>()? {
        // The reader of the file adds its own place, which that of a value by itself is not.
        let value: Json = serde_json::from_str(text.get()).map_err(|error| {
            let words = without_place(&error);
            A::Error::custom(format!("the value of {name} is malformed: {words}"))
        })?;
        if matches!(&value, Json::Number(number) if number.as_f64() == Some(0.0) && is_lost(text.get()))
        {
            return Err(A::Error::custom(format!(
                "{name} has a value that is nearer to 0 than any number that can be stored"
            )));
        }
        if fields.iter().any(|(known, _)| *known == name) {
            return Err(A::Error::custom(format!(
                "the object has the member {name} twice"
            )));
        }
        fields.push((name, value));
    }
    Ok(Fields(fields))
}

/// Returns the words of an error without line and column, which are counted from the beginning of what
/// was parsed and not of its file.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    words.strip_suffix(&place).unwrap_or(&words).to_owned()
}
