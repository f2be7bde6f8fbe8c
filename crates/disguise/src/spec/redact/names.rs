//! Names inside a text: whole words, whatever their case and the spaces between them.

use std::collections::BTreeMap;
use std::ops::Range;

/// The longest name.
const NAME_CHARACTERS_MAX: usize = 100;
/// The most characters read from one position of a text: a name, with several spaces for each of
/// its own.
const LOOK_CHARACTERS_MAX: usize = 2 * NAME_CHARACTERS_MAX;
/// The most names in one list.
const NAMES_MAX: usize = 10_000;
/// The shortest name; a letter alone is no name.
const NAME_CHARACTERS_MIN: usize = 2;
/// The shortest word of a longer name that counts alone.
const WORD_CHARACTERS_MIN: usize = 3;

/// A list of names, as a tree of their letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// The first is the root, when there is any.
    nodes: Vec<Node>,
    count: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    next: BTreeMap<char, usize>,
    is_end: bool,
}

impl Names {
    /// Adds a name, or says what is wrong with it.
    pub(crate) fn add(&mut self, name: &str) -> Result<(), String> {
        let letters: Vec<char> = folded(name.trim()).collect();
        if letters.len() < NAME_CHARACTERS_MIN || letters.len() > NAME_CHARACTERS_MAX {
            return Err(format!(
                "a name has {NAME_CHARACTERS_MIN} to {NAME_CHARACTERS_MAX} characters"
            ));
        }
        if self.count >= NAMES_MAX {
            return Err(format!("the list has more than {NAMES_MAX} names"));
        }
        self.count = self.count.saturating_add(1);
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at: usize = 0;
        for letter in letters {
            let fresh = self.nodes.len();
            let Some(node) = self.nodes.get_mut(at) else {
                break;
            };
            at = *node.next.entry(letter).or_insert(fresh);
            if at == fresh {
                self.nodes.push(Node::default());
            }
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.is_end = true;
        }
        Ok(())
    }

    /// Adds what a person is called, and each longer word of it; what is too short or too long for a name is left out.
    pub(crate) fn add_person(&mut self, called: &str) {
        let words = called.split_whitespace();
        let long = words.filter(|word| word.chars().count() >= WORD_CHARACTERS_MIN);
        for name in long.chain([called]) {
            // Nobody can be told here, and the other names still count.
            self.add(name).unwrap_or_default();
        }
    }

    /// Notes the ranges of names, from each place the longest.
    pub(super) fn find(&self, text: &str, found: &mut Vec<Range<usize>>) {
        if self.nodes.is_empty() {
            return;
        }
        let mut before: Option<char> = None;
        for (start, first) in text.char_indices() {
            let begins = !first.is_whitespace() && before.is_none_or(|it| !joined(it, first));
            if begins && let Some(length) = self.longest(text.get(start..).unwrap_or_default()) {
                found.push(start..start.saturating_add(length));
            }
            before = Some(first);
        }
    }

    /// The length of the longest name that begins `text` and ends with a word.
    fn longest(&self, text: &str) -> Option<usize> {
        let mut node = self.nodes.first()?;
        let mut longest = None;
        let mut characters = text.char_indices().take(LOOK_CHARACTERS_MAX).peekable();
        let mut was_space = false;
        while let Some((_, it)) = characters.next() {
            if it.is_whitespace() && was_space {
                continue;
            }
            was_space = it.is_whitespace();
            let mut next = node;
            for letter in folded_one(it) {
                let Some(found) = next.next.get(&letter).and_then(|at| self.nodes.get(*at)) else {
                    return longest;
                };
                next = found;
            }
            node = next;
            if node.is_end {
                let rest = characters.peek();
                let ends = rest.is_none_or(|(_, following)| !joined(it, *following));
                longest = ends
                    .then(|| rest.map_or(text.len(), |(end, _)| *end))
                    .or(longest);
            }
        }
        longest
    }
}

/// Returns whether two characters beside each other are of one word, in writing that has capitals or digits.
fn joined(left: char, right: char) -> bool {
    let of_word = |it: char| it.is_lowercase() || it.is_uppercase() || it.is_ascii_digit();
    // An accent that is written after its letter belongs to it.
    let accent = ('\u{300}'..='\u{36f}').contains(&right);
    of_word(left) && (of_word(right) || accent)
}

fn folded_one(it: char) -> impl Iterator<Item = char> {
    let space = it.is_whitespace().then_some(' ');
    let letters = (!it.is_whitespace()).then(|| it.to_lowercase());
    space.into_iter().chain(letters.into_iter().flatten())
}

/// Lower case, with one space for several.
fn folded(name: &str) -> impl Iterator<Item = char> {
    let mut was_space = false;
    let single = name.chars().filter(move |it| {
        let again = was_space && it.is_whitespace();
        was_space = it.is_whitespace();
        !again
    });
    single.flat_map(folded_one)
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn found<'t>(names: &[&str], text: &'t str) -> Vec<&'t str> {
        let mut list = Names::default();
        for name in names {
            list.add(name).unwrap();
        }
        let mut found = Vec::new();
        list.find(text, &mut found);
        found.into_iter().map(|it| &text[it]).collect()
    }

    #[test]
    fn names_are_whole_words_of_any_case_and_spacing() {
        let names = [
            "Bea",
            "Bea Miller",
            "J\u{f6}rg",
            "\u{5c71}\u{7530}",
            "O'Neil",
        ];
        for (text, expected) in [
            ("bea, BEA's and Beatrice", vec!["bea", "BEA"]),
            ("Bea  \n Miller-Smith", vec!["Bea  \n Miller"]),
            ("Bea Millers", vec!["Bea"]),
            ("xBea Bea1 1Bea", vec![]),
            ("J\u{d6}RG!", vec!["J\u{d6}RG"]),
            ("\u{5c71}\u{7530}\u{3055}\u{3093}", vec!["\u{5c71}\u{7530}"]),
            ("(o'neil)", vec!["o'neil"]),
            ("Bea\u{301}", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(found(&names, text), expected, "{text}");
        }
    }

    #[test]
    fn a_person_is_found_by_each_longer_word_of_their_name() {
        let mut list = Names::default();
        list.add_person("Bea de la Cruz");
        list.add_person("");
        list.add_person(&"x".repeat(1_000));
        let text = "de la CRUZ, Bea, la";
        let mut found = Vec::new();
        list.find(text, &mut found);
        let found: Vec<&str> = found.into_iter().map(|it| &text[it]).collect();
        assert_eq!(found, ["CRUZ", "Bea"]);
    }

    #[test]
    fn names_that_are_none_and_lists_without_end_are_refused() {
        let mut list = Names::default();
        assert!(list.add(" a ").is_err());
        assert!(list.add(&"a".repeat(101)).is_err());
        for number in 0..NAMES_MAX {
            list.add(&format!("name{number}")).unwrap();
        }
        assert!(list.add("one more").is_err());
    }
}
