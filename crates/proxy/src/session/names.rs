//! The names in a reply, looked up by key: a reply may name as many as a command has keys.

use std::collections::HashSet;

use super::capture::Value;
use super::text::{Fit, Identity, Text};
use crate::audit::Key;
use crate::resp::Kind;

/// The names that have come of one reply.
#[derive(Debug, Default)]
pub(super) struct Names {
    whole: HashSet<Identity>,
    /// Those that have not come to their end, or of which nobody knows it: of a server's bulk strings at most the last one.
    under_way: Vec<Text>,
}

impl Names {
    /// The names among `elements` of a reply of this kind: each of an array, and of a map every other one.
    pub(super) fn of(kind: Option<Kind>, elements: &[Value]) -> Self {
        let step = if kind == Some(Kind::Map) { 2 } else { 1 };
        let mut names = Self::default();
        for name in elements.iter().step_by(step) {
            match name.text.identity() {
                Some(identity) => {
                    names.whole.insert(identity);
                }
                None => names.under_way.push(name.text.clone()),
            }
        }
        names.under_way.retain(Text::may_fit);
        names
    }

    /// Returns whether one of the names is `key`.
    pub(super) fn fit(&self, key: &Key<'_>) -> Fit {
        if self.whole.contains(&Identity::of_key(key)) {
            return Fit::Yes;
        }
        let fits = self.under_way.iter().map(|name| name.fits(key));
        fits.max().unwrap_or(Fit::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::text::Digests;

    /// A text of a reply as it comes, of which so much has come.
    fn value(text: &[u8], come: usize) -> Value {
        let mut value = Value::default();
        let mut digest = None;
        value.text.announce(Some(text.len() as u64));
        value.text.take(&text[..come], &mut digest, Digests::All);
        if come == text.len() {
            value.text.end(digest);
        }
        value
    }

    /// A lookup gives the same result for each key as a comparison with every name.
    #[test]
    fn a_key_that_is_looked_up_fits_as_one_that_is_compared() {
        let lengths = [0, 1, 2, 1023, 1024, 1025, 5000];
        let texts: Vec<Vec<u8>> = lengths
            .iter()
            .flat_map(|length| [b'a', b'b'].map(|byte| vec![byte; *length]))
            .collect();
        for taken in 0..1_u32 << texts.len() {
            // Few of all selections are enough.
            if taken % 97 != 0 {
                continue;
            }
            let chosen = (0..texts.len()).filter(|at| taken & (1 << at) != 0);
            let mut values: Vec<Value> = chosen
                .map(|at| value(&texts[at], texts[at].len()))
                .collect();
            let late = &texts[taken as usize % texts.len()];
            values.push(value(late, late.len() / 2));
            values.push(Value::default());
            let names = Names::of(Some(Kind::Array), &values);
            for text in &texts {
                let key = Key {
                    kept: text,
                    digest: None,
                };
                let compared = values.iter().map(|value| value.text.fits(&key)).max();
                assert_eq!(Some(names.fit(&key)), compared);
            }
        }
        let map = [value(b"name", 4), value(b"value", 5)];
        let names = Names::of(Some(Kind::Map), &map);
        let of = |kept| Key { kept, digest: None };
        assert_eq!(names.fit(&of(b"name")), Fit::Yes);
        assert_eq!(names.fit(&of(b"value")), Fit::No);
    }
}
