//! What is remembered of one reply: its kind, its number, its first elements; never its contents.

use crate::resp::{Event, Kind, parse_integer};

/// What is kept of one text in a reply, in bytes.
const TEXT_BYTES_KEPT: usize = 1024;
/// Most elements of one reply that are remembered.
const ELEMENTS_MAX: usize = 1 << 20;

/// The first value, or one of its elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Value {
    pub(super) kind: Option<Kind>,
    pub(super) null: bool,
    pub(super) integer: Option<i64>,
    /// Announced elements of an aggregate, or bytes of a bulk string.
    pub(super) length: Option<u64>,
    pub(super) text: Vec<u8>,
}

/// Follows the events of one value.
#[derive(Debug, Default)]
pub(super) struct Capture {
    pub(super) head: Value,
    pub(super) elements: Vec<Value>,
    wanted: usize,
    depth: usize,
    attributes: usize,
    /// Whether the element under way has its text already.
    named: bool,
    in_head_text: bool,
}

impl Capture {
    /// Begins a value of which the first `wanted` elements matter.
    pub(super) fn begin(&mut self, wanted: usize) {
        self.head.text.clear();
        let text = std::mem::take(&mut self.head.text);
        self.head = Value {
            text,
            ..Value::default()
        };
        self.elements.clear();
        // Three, for what publish/subscribe sends.
        self.wanted = wanted.clamp(3, ELEMENTS_MAX);
        self.depth = 0;
        self.attributes = 0;
    }

    /// Whether the kind of the value is known.
    pub(super) const fn has_head(&self) -> bool {
        self.head.kind.is_some()
    }

    /// Takes one event.
    pub(super) fn visit(&mut self, event: Event<'_>) {
        if self.skips_attribute(event) {
            return;
        }
        match event {
            Event::Line(kind, text) => self.value(Value {
                kind: Some(kind),
                null: kind == Kind::Null,
                integer: if kind == Kind::Integer {
                    parse_integer(text)
                } else {
                    None
                },
                length: None,
                text: text
                    .get(..text.len().min(TEXT_BYTES_KEPT))
                    .unwrap_or_default()
                    .to_vec(),
            }),
            Event::NullOf(kind) => {
                self.value(Value {
                    kind: Some(kind),
                    null: true,
                    ..Value::default()
                });
            }
            Event::Bulk(kind, length) => {
                self.value(Value {
                    kind: Some(kind),
                    length,
                    ..Value::default()
                });
            }
            Event::Part(part) => self.part(part),
            Event::BulkEnd => self.named = true,
            Event::Open(kind, length) => {
                self.value(Value {
                    kind: Some(kind),
                    length,
                    ..Value::default()
                });
                self.depth += 1;
            }
            Event::Close => self.depth = self.depth.saturating_sub(1),
        }
    }

    fn skips_attribute(&mut self, event: Event<'_>) -> bool {
        match event {
            Event::Open(Kind::Attribute, _) => {
                self.attributes += 1;
                true
            }
            Event::Open(..) if self.attributes > 0 => {
                self.attributes += 1;
                true
            }
            Event::Close if self.attributes > 0 => {
                self.attributes -= 1;
                true
            }
            _ => self.attributes > 0,
        }
    }

    fn value(&mut self, value: Value) {
        match self.depth {
            0 => {
                self.in_head_text = true;
                self.head = value;
            }
            1 => {
                self.in_head_text = false;
                self.named = false;
                if self.elements.len() < self.wanted {
                    self.elements.push(value);
                } else {
                    self.named = true;
                }
            }
            // The first text inside an element is its name, as in XREAD's list of streams.
            _ if !self.named => {
                if let Some(element) = self.elements.last_mut()
                    && element.text.is_empty()
                    && !value.text.is_empty()
                {
                    element.text = value.text;
                    self.named = true;
                }
            }
            _ => {}
        }
    }

    fn part(&mut self, part: &[u8]) {
        let text = if self.depth == 0 && self.in_head_text {
            &mut self.head.text
        } else {
            match self.elements.last_mut() {
                Some(element) if !self.named => &mut element.text,
                _ => return,
            }
        };
        let room = TEXT_BYTES_KEPT.saturating_sub(text.len()).min(part.len());
        text.extend_from_slice(part.get(..room).unwrap_or_default());
    }
}
