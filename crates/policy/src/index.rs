//! An index that finds the patterns that can match a key by their literal prefix.

use crate::pattern::Pattern;

/// A trie over the literal prefixes of patterns.
#[derive(Debug, Clone)]
pub(crate) struct PrefixIndex {
    nodes: Vec<Node>,
    /// The most patterns that a key is compared with.
    candidates_max: usize,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// Child nodes by their byte, sorted.
    children: Vec<(u8, usize)>,
    /// Ranks of the patterns whose prefix ends here.
    ranks: Vec<usize>,
}

impl PrefixIndex {
    /// Indexes `patterns`; the rank of a pattern is its position.
    pub(crate) fn new<'a>(patterns: impl Iterator<Item = &'a Pattern> + Clone) -> Self {
        let mut index = Self {
            nodes: vec![Node::default()],
            candidates_max: 0,
        };
        for (rank, pattern) in patterns.clone().enumerate() {
            let mut at = 0;
            for byte in pattern.prefix() {
                at = index.child_or_new(at, *byte);
            }
            if let Some(node) = index.nodes.get_mut(at) {
                node.ranks.push(rank);
            }
        }
        let mut candidates = Vec::new();
        for pattern in patterns {
            index.candidates(pattern.prefix(), &mut candidates);
            index.candidates_max = index.candidates_max.max(candidates.len());
        }
        index
    }

    /// Returns the most patterns that any key is compared with.
    pub(crate) const fn candidates_max(&self) -> usize {
        self.candidates_max
    }

    /// Puts the ranks of the patterns whose literal prefix is a prefix of `key` into `ranks`,
    /// lowest first.
    pub(crate) fn candidates(&self, key: &[u8], ranks: &mut Vec<usize>) {
        ranks.clear();
        let mut node = self.nodes.first();
        let mut bytes = key.iter();
        while let Some(current) = node {
            ranks.extend_from_slice(&current.ranks);
            node = bytes.next().and_then(|byte| self.child(current, *byte));
        }
        ranks.sort_unstable();
    }

    fn child(&self, node: &Node, byte: u8) -> Option<&Node> {
        let place = node
            .children
            .binary_search_by_key(&byte, |child| child.0)
            .ok()?;
        node.children
            .get(place)
            .and_then(|child| self.nodes.get(child.1))
    }

    fn child_or_new(&mut self, at: usize, byte: u8) -> usize {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return at;
        };
        match node.children.binary_search_by_key(&byte, |child| child.0) {
            Ok(place) => node.children.get(place).map_or(at, |child| child.1),
            Err(place) => {
                node.children.insert(place, (byte, new));
                self.nodes.push(Node::default());
                new
            }
        }
    }
}
