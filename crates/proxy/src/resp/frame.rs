//! A whole value in memory: for the side connection, where replies are small and wanted complete.

use super::{Event, Kind, Limits, ReplyScanner, RespError};

/// A complete value. Attributes are dropped; verbatim strings keep their prefix.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    missing_docs,
    reason = "the names are those of the protocol's own description"
)]
pub enum Frame {
    Simple(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Null,
    Boolean(bool),
    Double(f64),
    BigNumber(Vec<u8>),
    Bulk(Vec<u8>),
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Set(Vec<Self>),
    Push(Vec<Self>),
}

impl Frame {
    /// The text of a string of any kind.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(text) | Self::Bulk(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) | Self::Set(elements) | Self::Push(elements) => Some(elements),
            _ => None,
        }
    }

    /// The value under `name` in a map, or in an array of names and values.
    pub fn field(&self, name: &[u8]) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs
                .iter()
                .find(|(key, _)| key.text() == Some(name))
                .map(|(_, value)| value),
            Self::Array(elements) => elements
                .as_chunks::<2>()
                .0
                .iter()
                .find_map(|[key, value]| (key.text() == Some(name)).then_some(value)),
            _ => None,
        }
    }
}

/// Builds whole values out of arriving bytes.
#[derive(Debug)]
pub struct FrameReader {
    scanner: ReplyScanner,
    builder: Builder,
}

impl FrameReader {
    /// A reader between two values. They may be nested as deep as [`Limits::DEPTH_MAX`] at most, whatever `limits` say: a whole value is
    /// dropped, compared and shown by recursion.
    pub fn new(limits: Limits) -> Self {
        let depth_max = limits.depth_max.min(Limits::DEPTH_MAX);
        Self {
            scanner: ReplyScanner::new(Limits {
                depth_max,
                ..limits
            }),
            builder: Builder::default(),
        }
    }

    /// Takes bytes of `input` until one value is complete; gives it and how many were taken.
    ///
    /// # Errors
    /// See [`RespError`].
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Frame>), RespError> {
        let builder = &mut self.builder;
        let scan = self
            .scanner
            .scan(input, &mut |event| builder.visit(event))?;
        let frame = if scan.complete {
            builder.done.take()
        } else {
            None
        };
        Ok((scan.consumed, frame))
    }
}

#[derive(Debug, Default)]
struct Builder {
    open: Vec<(Kind, Vec<Frame>)>,
    bulk: Option<(Kind, Vec<u8>)>,
    done: Option<Frame>,
}

impl Builder {
    fn visit(&mut self, event: Event<'_>) {
        match event {
            Event::Line(kind, text) => self.put(line_frame(kind, text)),
            Event::NullOf(_) => self.put(Frame::Null),
            Event::Bulk(kind, _) => self.bulk = Some((kind, Vec::new())),
            Event::Part(part) => {
                if let Some((_, text)) = self.bulk.as_mut() {
                    text.extend_from_slice(part);
                }
            }
            Event::BulkEnd => {
                if let Some((kind, text)) = self.bulk.take() {
                    let error = kind == Kind::BlobError;
                    self.put(if error {
                        Frame::Error(text)
                    } else {
                        Frame::Bulk(text)
                    });
                }
            }
            Event::Open(kind, _) => self.open.push((kind, Vec::new())),
            Event::Close => {
                if let Some((kind, elements)) = self.open.pop()
                    && kind != Kind::Attribute
                {
                    self.put(aggregate_frame(kind, elements));
                }
            }
            Event::Aside(_) => {}
        }
    }

    fn put(&mut self, frame: Frame) {
        match self.open.last_mut() {
            Some((_, elements)) => elements.push(frame),
            None => self.done = Some(frame),
        }
    }
}

fn line_frame(kind: Kind, text: &[u8]) -> Frame {
    // Numbers were read before, to check them.
    match kind {
        Kind::Simple => Frame::Simple(text.to_vec()),
        Kind::Error => Frame::Error(text.to_vec()),
        Kind::Integer => {
            let digits = text.strip_prefix(b"+").unwrap_or(text);
            Frame::Integer(super::parse_integer(digits).unwrap_or_default())
        }
        Kind::Boolean => Frame::Boolean(text == b"t"),
        Kind::Double => {
            let value = std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok());
            Frame::Double(value.unwrap_or(f64::NAN))
        }
        Kind::BigNumber => Frame::BigNumber(text.to_vec()),
        _ => Frame::Null,
    }
}

fn aggregate_frame(kind: Kind, elements: Vec<Frame>) -> Frame {
    match kind {
        Kind::Map => {
            let mut pairs = Vec::with_capacity(elements.len() / 2);
            let mut elements = elements.into_iter();
            while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
                pairs.push((key, value));
            }
            Frame::Map(pairs)
        }
        Kind::Set => Frame::Set(elements),
        Kind::Push => Frame::Push(elements),
        _ => Frame::Array(elements),
    }
}

/// Appends a command as an array of bulk strings.
pub fn put_command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a server's reply 65,536 levels were built as a value that is dropped by recursion, and the stack of a thread is not so deep.
    /// A whole value has 128 levels at most.
    #[test]
    fn a_whole_value_is_no_deeper_than_a_stack() {
        let nested = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
        let read = |depth: usize| FrameReader::new(Limits::SERVER).read(&nested(depth));
        let deepest = read(Limits::DEPTH_MAX).unwrap();
        assert!(matches!(deepest.1, Some(Frame::Array(_))));
        for depth in [Limits::DEPTH_MAX + 1, 65_000] {
            let refused = read(depth).unwrap_err();
            assert_eq!(refused, RespError::TooDeep(Limits::DEPTH_MAX));
        }
    }
}
