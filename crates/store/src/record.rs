//! The record of a key: its kind, its deadline, and its value or the place of the value's rows.

use crate::fail::Fail;
use crate::subject::{Id, Slot};

/// A key's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// When it expires, in milliseconds since 1970.
    pub(crate) deadline: Option<u64>,
    pub(crate) value: Value,
}

/// A value, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A string that is kept here.
    Short { bytes: Vec<u8>, form: Form },
    /// Rows elsewhere.
    Rows(Body),
}

/// The form in which Redis would keep a short string, for OBJECT ENCODING.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// By its content: a number, or text.
    #[default]
    Plain,
    /// Text, even if it reads as a number.
    Text,
    /// Text that was changed in place.
    Edited,
}

/// The kind of a value's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Chunks of a string.
    Text,
    List,
    Hash,
    Set,
    SortedSet,
}

/// A value in rows of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) kind: Kind,
    /// The beginning of its rows' keys; never used twice.
    pub(crate) id: Id,
    /// Bytes of a string, elements of a collection.
    pub(crate) count: u64,
    /// Place of a list's first element.
    pub(crate) first: u64,
    /// True once Redis would have left its compact form, to which it never returns.
    pub(crate) large: bool,
}

/// The place of the first element of a new list: there is as much room before as behind.
pub(crate) const LIST_MIDDLE: u64 = 1 << 63;

const SHORT: u8 = 0;
const FLAG: u8 = 0x80;
const TEXT_FLAG: u8 = 0x40;
const HEAD_BYTES: usize = 9;

impl Kind {
    const ALL: [Self; 5] = [
        Self::Text,
        Self::List,
        Self::Hash,
        Self::Set,
        Self::SortedSet,
    ];

    /// The byte that stands for it in the file.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Text => 1,
            Self::List => 2,
            Self::Hash => 3,
            Self::Set => 4,
            Self::SortedSet => 5,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the word of TYPE.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
        }
    }
}

impl Value {
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Short { .. } => Kind::Text,
            Self::Rows(body) => body.kind,
        }
    }
}

impl Record {
    pub(crate) const fn new(value: Value) -> Self {
        Self {
            deadline: None,
            value,
        }
    }

    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Writes the record as it stands in the file, see docs/store.md.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(match &self.value {
            Value::Short { form, .. } => {
                SHORT
                    | match form {
                        Form::Plain => 0,
                        Form::Text => TEXT_FLAG,
                        Form::Edited => FLAG,
                    }
            }
            Value::Rows(body) => body.kind.code() | if body.large { FLAG } else { 0 },
        });
        out.extend_from_slice(&self.deadline.unwrap_or_default().to_be_bytes());
        match &self.value {
            Value::Short { bytes, .. } => out.extend_from_slice(bytes),
            Value::Rows(body) => {
                for number in [body.id.number, body.count, body.first] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
            }
        }
    }

    pub(crate) fn decode(bytes: &[u8], owner: Slot) -> Result<Self, Fail> {
        let broken = || Fail::broken("a record of a key");
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or_else(broken)?;
        let (code, deadline) = head.split_first().ok_or_else(broken)?;
        let deadline = number(deadline).ok_or_else(broken)?;
        let flag = code & FLAG != 0;
        let value = match code & !(FLAG | TEXT_FLAG) {
            SHORT => Value::Short {
                bytes: rest.to_vec(),
                form: match (flag, code & TEXT_FLAG != 0) {
                    (true, _) => Form::Edited,
                    (false, true) => Form::Text,
                    (false, false) => Form::Plain,
                },
            },
            code => {
                let kind = Kind::of_code(code).ok_or_else(broken)?;
                let (numbers, _) = rest.as_chunks::<8>();
                let [id, count, first] = numbers else {
                    return Err(broken());
                };
                let [number, count, first] =
                    [id, count, first].map(|bytes| u64::from_be_bytes(*bytes));
                Value::Rows(Body {
                    kind,
                    id: Id { number, owner },
                    count,
                    first,
                    large: flag,
                })
            }
        };
        let deadline = (deadline > 0).then_some(deadline);
        Ok(Self { deadline, value })
    }
}

/// Eight bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let body = Body {
            kind: Kind::SortedSet,
            id: Id {
                number: 7,
                owner: Slot(3),
            },
            count: 3,
            first: LIST_MIDDLE,
            large: true,
        };
        for (deadline, value) in [
            (None, Value::Rows(body)),
            (
                Some(5),
                Value::Short {
                    bytes: b"abc".to_vec(),
                    form: Form::Edited,
                },
            ),
            (
                None,
                Value::Short {
                    bytes: Vec::new(),
                    form: Form::Text,
                },
            ),
        ] {
            let record = Record { deadline, value };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(Record::decode(&bytes, Slot(3)).unwrap(), record);
        }
        for bad in [
            &b""[..],
            b"\x00",
            b"\x09aaaaaaaabbbb",
            b"\x03aaaaaaaabbbbbbbb",
        ] {
            assert!(Record::decode(bad, Slot(3)).is_err());
        }
    }
}
