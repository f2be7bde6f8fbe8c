//! A set of blocks of the file: one bit for each.

/// Numbers of blocks.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockSet {
    words: Vec<u64>,
}

impl BlockSet {
    /// The blocks before `end`.
    pub(crate) fn up_to(end: u64) -> Self {
        let mut words = vec![u64::MAX; place(end).0];
        let left = end % u64::from(u64::BITS);
        if left > 0 {
            words.push((1 << left) - 1);
        }
        Self { words }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a block; returns whether it is new in the set.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    pub(crate) fn remove(&mut self, number: u64) {
        let (word, bit) = place(number);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }
}

/// The word and the bit of a block.
fn place(number: u64) -> (usize, u64) {
    let bits = u64::from(u64::BITS);
    let word = usize::try_from(number / bits).unwrap_or(usize::MAX);
    (word, 1 << (number % bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it() {
        let mut set = BlockSet::up_to(70);
        assert!(set.contains(0) && set.contains(69) && !set.contains(70));
        assert!(set.insert(200) && !set.insert(200) && !set.insert(3));
        set.remove(3);
        set.remove(9999);
        assert!(!set.contains(3) && set.contains(200) && !set.contains(9999));
        set.clear();
        assert!(!set.contains(200) && !set.contains(0));
        assert!(!BlockSet::up_to(0).contains(0) && !BlockSet::up_to(64).contains(64));
    }
}
