//! The summary of one reply: its kind, its number and its first elements, and never its contents.

use std::cell::OnceCell;

use sha2::Sha256;

use super::end::End;
use super::names::Names;
use super::text::{Digests, Text};
use crate::resp::{Event, Kind, parse_integer};

/// Messages of Redis Enterprise that name another server.
const MOVES: [&[u8]; 2] = [b"MOVING", b"SMIGRATED"];

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
    pub(super) text: Text,
}

/// The known part of the elements that matter in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Extent {
    #[default]
    UnderWay,
    /// Elements were left out though they matter.
    Cut,
    Whole,
}

/// Follows the events of one value.
#[derive(Debug, Default)]
pub(super) struct Capture {
    pub(super) head: Value,
    pub(super) elements: Vec<Value>,
    /// The names among the elements, once they were asked for.
    names: OnceCell<Names>,
    wanted: usize,
    extent: Extent,
    digests: Digests,
    /// Of the text under way, where it is long.
    digest: Option<Sha256>,
    depth: usize,
    attributes: usize,
    /// True if the element under way has its text already.
    named: bool,
    in_head_text: bool,
}

impl Capture {
    /// Begins a value of which the first `wanted` elements matter, and the texts as `digests` says.
    pub(super) fn begin(&mut self, wanted: usize, digests: Digests) {
        self.head = Value::default();
        self.elements.clear();
        self.names.take();
        (self.digests, self.digest) = (digests, None);
        self.extent = Extent::UnderWay;
        // Three, for what publish/subscribe sends.
        self.wanted = wanted.clamp(3, ELEMENTS_MAX);
        self.depth = 0;
        self.attributes = 0;
    }

    /// Says that the value has ended.
    pub(super) fn end(&mut self) {
        if self.extent == Extent::UnderWay {
            self.extent = Extent::Whole;
        }
    }

    /// Says that what came tells all that will be asked: of the rest nothing is remembered.
    pub(super) const fn ignore_rest(&mut self) {
        self.wanted = 0;
    }

    /// Returns whether everything that matters is known, which is only at the end of the value.
    pub(super) fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// The names among the elements, as far as they have come when this is asked first.
    pub(super) fn names(&self) -> &Names {
        let names = || Names::of(self.head.kind, &self.elements);
        self.names.get_or_init(names)
    }

    /// Returns whether the value is an error.
    pub(super) const fn is_error(&self) -> bool {
        matches!(self.head.kind, Some(Kind::Error | Kind::BlobError))
    }

    /// Returns whether the value is an error that begins with one of `words`.
    pub(super) fn is_error_of(&self, words: &[&[u8]]) -> bool {
        let text = &self.head.text;
        self.is_error() && words.iter().any(|word| text.begins_with(word))
    }

    /// Returns whether the value is an error that says that the server did nothing, for lack of a
    /// right or a login.
    pub(super) fn is_denial(&self) -> bool {
        self.is_error_of(&[b"NOPERM", b"NOAUTH", b"WRONGPASS"])
    }

    /// Checks that the value, a push, is a message that says nothing of the connection.
    ///
    /// # Errors
    /// A confirmation, or a message that sends the client to another server.
    pub(super) fn check_message(&self) -> Result<(), End> {
        let first = self.elements.first().map(|element| &element.text);
        if first.is_some_and(|text| text.ends_with(b"subscribe")) {
            return Err(End::Mismatch("a confirmation of no subscription"));
        }
        if first.is_some_and(|text| MOVES.iter().any(|word| text.is(word))) {
            return Err(End::Redirect);
        }
        Ok(())
    }

    /// Returns whether the kind of the value is known.
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
                text: Text::of_line(text),
            }),
            Event::NullOf(kind) => {
                self.value(Value {
                    kind: Some(kind),
                    null: true,
                    ..Value::default()
                });
            }
            Event::Bulk(kind, length) => {
                self.digest = None;
                let mut text = Text::default();
                text.announce(length);
                self.value(Value {
                    kind: Some(kind),
                    length,
                    text,
                    ..Value::default()
                });
            }
            Event::Part(part) => self.part(part),
            Event::BulkEnd => {
                let digest = self.digest.take();
                if let Some((text, _)) = self.text_under_way() {
                    text.end(digest);
                }
                self.named = true;
            }
            Event::Open(kind, length) => {
                self.value(Value {
                    kind: Some(kind),
                    length,
                    ..Value::default()
                });
                self.depth += 1;
            }
            Event::Close => self.depth = self.depth.saturating_sub(1),
            Event::Aside(_) => {}
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
                    if self.wanted == ELEMENTS_MAX {
                        self.extent = Extent::Cut;
                    }
                    self.named = true;
                }
            }
            // The first text inside an element is its name, as in XREAD's list of streams.
            _ if !self.named => {
                if let Some(element) = self.elements.last_mut()
                    && element.text.is_unsaid()
                    && matches!(value.kind, Some(Kind::Bulk | Kind::Simple))
                    && !value.null
                {
                    // Parts of a bulk string are still to come.
                    self.named = value.kind == Some(Kind::Simple);
                    element.text = value.text;
                }
            }
            _ => {}
        }
    }

    /// The text that parts belong to, where they matter.
    fn text_under_way(&mut self) -> Option<(&mut Text, &mut Option<Sha256>)> {
        let text = if self.depth == 0 && self.in_head_text {
            Some(&mut self.head.text)
        } else {
            let named = self.named;
            let element = self.elements.last_mut().filter(|_| !named);
            element.map(|element| &mut element.text)
        };
        text.map(|text| (text, &mut self.digest))
    }

    fn part(&mut self, part: &[u8]) {
        let digests = self.digests;
        if let Some((text, digest)) = self.text_under_way() {
            text.take(part, digest, digests);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each element of `MGET` up to 1,024 bytes were remembered after its entries were made, a gigabyte for a million keys.
    /// Nothing is remembered then.
    #[test]
    fn of_the_rest_of_a_long_reply_nothing_is_remembered() {
        let mut capture = Capture::default();
        capture.begin(usize::MAX, Digests::None);
        capture.visit(Event::Open(Kind::Array, Some(9)));
        let element = |capture: &mut Capture| {
            capture.visit(Event::Bulk(Kind::Bulk, Some(3)));
            capture.visit(Event::Part(b"abc"));
            capture.visit(Event::BulkEnd);
        };
        (0..4).for_each(|_| element(&mut capture));
        assert_eq!(capture.elements.len(), 4);
        capture.ignore_rest();
        (0..5).for_each(|_| element(&mut capture));
        assert_eq!(capture.elements.len(), 4);
        assert!(!capture.is_whole());
    }
}
