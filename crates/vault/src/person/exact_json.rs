//! JSON as it was written: numbers keep their digits, and a member is there once.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Depth of arrays and objects inside each other, as the reader of JSON bounds it.
const DEPTH_MAX: usize = 128;

/// A JSON value.
pub(super) enum Exact {
    Null,
    Boolean(bool),
    /// The digits of a number.
    Number(String),
    Text(String),
    List(Vec<Self>),
    Members(Vec<(String, Self)>),
}

impl Exact {
    /// Parses a value.
    pub(super) fn of(raw: &RawValue) -> serde_json::Result<Self> {
        Self::parse(raw, DEPTH_MAX)
    }

    fn parse(raw: &RawValue, depth: usize) -> serde_json::Result<Self> {
        let text = raw.get();
        let too_deep = || serde_json::Error::custom("values are nested too deep");
        let below = |raw: &RawValue| {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            Self::parse(raw, depth)
        };
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text)?;
                let members = members.into_iter();
                let members = members.map(|(name, raw)| Ok((name, below(&raw)?)));
                Self::Members(members.collect::<serde_json::Result<_>>()?)
            }
            Some(b'[') => {
                let items: Vec<Box<RawValue>> = serde_json::from_str(text)?;
                let items = items.iter().map(|raw| below(raw));
                Self::List(items.collect::<serde_json::Result<_>>()?)
            }
            Some(b'"') => Self::Text(serde_json::from_str(text)?),
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Boolean(text == "true"),
            _ => Self::Number(text.to_owned()),
        })
    }

    /// Returns a member of an object.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Members(members) = self else {
            return None;
        };
        let mut members = members.iter();
        members
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Returns the value as a text of its own: without quotes where it is one, and empty for null.
    pub(super) fn plain(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Writes the value as JSON without spaces.
impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(items) => {
                f.write_str("[")?;
                for (number, item) in items.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
            Self::Members(members) => {
                f.write_str("{")?;
                for (number, (name, value)) in members.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    write!(f, "{comma}{}:{value}", quoted(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// The members of an object, each name once.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members: Vec<(String, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    if members.iter().any(|(known, _)| *known == name) {
                        let what = format!("the object has the member {name} twice");
                        return Err(A::Error::custom(what));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Read)
    }
}
