//! B+-trees whose nodes are pages, read through a small cache and written at each commit.

use std::collections::BTreeSet;

use super::ftl::Ftl;

/// Number of keys per node: 2,032 bytes hold 145 keys of 14 bytes, a label and an id each.
const NODE_KEYS: usize = 145;

/// A tree of keys.
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: usize,
    /// The page of its first node; later nodes have the pages after it.
    pub(super) first_page: u32,
}

struct Node {
    keys: Vec<u64>,
    /// Child nodes, one per key, which is the child's first key; empty in a leaf.
    children: Vec<usize>,
}

/// The cached pages, and those of them that must be written.
pub(super) struct Cache {
    /// Cached pages; the most recently used is last.
    pages: Vec<u32>,
    dirty: BTreeSet<u32>,
    room: usize,
}

impl Cache {
    /// Creates a cache of `room` pages.
    pub(super) fn new(room: usize) -> Self {
        Self {
            pages: Vec::with_capacity(room),
            dirty: BTreeSet::new(),
            room,
        }
    }

    /// Loads a page into the cache; writes the evicted page first if it is dirty.
    pub(super) fn touch(&mut self, page: u32, is_new: bool, flash: &mut Ftl) {
        if let Some(at) = self.pages.iter().position(|&known| known == page) {
            self.pages.remove(at);
        } else {
            if !is_new {
                flash.read();
            }
            if self.pages.len() == self.room {
                let oldest = self.pages.remove(0);
                if self.dirty.remove(&oldest) {
                    flash.write(oldest);
                }
            }
        }
        self.pages.push(page);
    }

    /// Loads a page into the cache and marks it dirty.
    pub(super) fn change(&mut self, page: u32, is_new: bool, flash: &mut Ftl) {
        self.touch(page, is_new, flash);
        self.dirty.insert(page);
    }

    /// Writes every dirty page.
    pub(super) fn commit(&mut self, flash: &mut Ftl) {
        for page in std::mem::take(&mut self.dirty) {
            flash.write(page);
        }
    }
}

impl Tree {
    /// Creates an empty tree.
    pub(super) fn new() -> Self {
        Self {
            nodes: vec![Node {
                keys: Vec::new(),
                children: Vec::new(),
            }],
            root: 0,
            first_page: 0,
        }
    }

    /// Returns the number of nodes.
    pub(super) fn pages(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    /// Adds a key. Calls `used` for each node on the way, then for each changed node and whether it
    /// is new.
    pub(super) fn insert(&mut self, key: u64, used: &mut impl FnMut(u32, Option<bool>)) {
        let mut path = Vec::new();
        let mut node = self.root;
        loop {
            used(self.page_of(node), None);
            let Some(found) = self.nodes.get(node) else {
                return;
            };
            let at = found.keys.partition_point(|&other| other <= key);
            path.push((node, at));
            match found.children.get(at.saturating_sub(1)) {
                Some(&child) => node = child,
                None => break,
            }
        }
        let mut added = Some((key, None));
        while let Some((key, child)) = added.take() {
            let Some((node, at)) = path.pop() else {
                self.grow(key, child, used);
                return;
            };
            added = self.add(node, at, key, child);
            used(self.page_of(node), Some(false));
            if let Some((_, Some(new))) = added {
                used(self.page_of(new), Some(true));
            }
        }
    }

    fn page_of(&self, node: usize) -> u32 {
        self.first_page + u32::try_from(node).unwrap_or(0)
    }

    /// Adds a key to a node; if the node is split, returns the first key of the new node after it.
    fn add(
        &mut self,
        node: usize,
        at: usize,
        key: u64,
        child: Option<usize>,
    ) -> Option<(u64, Option<usize>)> {
        let new = self.nodes.len();
        let found = self.nodes.get_mut(node)?;
        found.keys.insert(at, key);
        if let Some(child) = child {
            found.children.insert(at, child);
        }
        if found.keys.len() <= NODE_KEYS {
            return None;
        }
        let half = found.keys.len() / 2;
        let keys = found.keys.split_off(half);
        let children = if found.children.is_empty() {
            Vec::new()
        } else {
            found.children.split_off(half)
        };
        let first = *keys.first()?;
        self.nodes.push(Node { keys, children });
        Some((first, Some(new)))
    }

    /// Adds a new root above the old one and the node that was split from it.
    fn grow(&mut self, key: u64, child: Option<usize>, used: &mut impl FnMut(u32, Option<bool>)) {
        let Some(child) = child else {
            return;
        };
        self.nodes.push(Node {
            keys: vec![0, key],
            children: vec![self.root, child],
        });
        self.root = self.nodes.len() - 1;
        used(self.page_of(self.root), Some(true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pocketdb::data::mixed;

    /// Collects all keys, from the leftmost leaf on.
    fn keys(tree: &Tree, node: usize, out: &mut Vec<u64>) -> usize {
        let found = &tree.nodes[node];
        assert!(found.keys.len() <= NODE_KEYS);
        if found.children.is_empty() {
            out.extend(&found.keys);
            return 1;
        }
        let depths = found.children.iter().map(|&child| keys(tree, child, out));
        let depths: Vec<usize> = depths.collect();
        assert!(depths.windows(2).all(|pair| pair[0] == pair[1]));
        depths[0] + 1
    }

    #[test]
    fn a_tree_holds_every_key_in_order_and_leaves_are_equally_deep() {
        let mut tree = Tree::new();
        let mut wanted: Vec<u64> = (0..50_000)
            .map(|number| mixed(number) % 9_000_000)
            .collect();
        for &key in &wanted {
            tree.insert(key, &mut |_, _| {});
        }
        let mut found = Vec::new();
        assert_eq!(keys(&tree, tree.root, &mut found), 3);
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        // About two thirds full, as expected of B+-trees with random insertions.
        assert!((400..750).contains(&tree.pages()), "{}", tree.pages());
    }

    #[test]
    fn a_page_is_read_when_it_is_not_in_memory_and_written_once_a_commit() {
        let mut flash = Ftl::used(200, 1);
        let mut cache = Cache::new(2);
        cache.change(1, false, &mut flash);
        cache.change(1, false, &mut flash);
        cache.touch(2, false, &mut flash);
        assert_eq!(flash.counters.page_reads, 2);
        let before = flash.counters.programs;
        cache.touch(3, true, &mut flash);
        // Page 1 was evicted, and written.
        assert!(flash.counters.programs > before);
        let before = flash.counters.programs;
        cache.commit(&mut flash);
        assert_eq!(flash.counters.programs, before);
    }
}
