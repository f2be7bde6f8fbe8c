//! The keys that a person had one after the other, by the log.

use std::collections::BTreeMap;

use super::operation::LoggedOperation;

/// The key from which each later key of a person came.
#[derive(Default)]
pub(crate) struct Lineage<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Lineage<'a> {
    /// Reads `operations`, in the order of the log, each with whether the database has it. A key
    /// that was never registered here is of one lineage with the next that was for its person:
    /// there is nothing else under it.
    pub(super) fn of(operations: impl IntoIterator<Item = (&'a LoggedOperation, bool)>) -> Self {
        let mut all = Self::default();
        let mut unregistered: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (it, is_known) in operations {
            let key = it.facts.public_key.as_deref();
            let (old, subject) = (it.facts.old_key.as_deref(), it.subject.as_deref());
            match (it.action.as_str(), key, old, subject) {
                ("disguise.key", Some(new), Some(old), _) => all.add(new, old),
                ("disguise.register", Some(key), _, Some(subject)) if is_known => {
                    let before = unregistered.remove(subject).unwrap_or_default();
                    for it in before {
                        all.add(it, key);
                    }
                }
                ("disguise.register", Some(key), _, Some(subject)) => {
                    unregistered.entry(subject).or_default().push(key);
                }
                _ => {}
            }
        }
        all
    }

    fn add(&mut self, key: &'a str, from: &'a str) {
        // Whatever entries say, no key comes from itself.
        if !self.0.contains_key(key) && self.root(from) != key {
            self.0.insert(key, from);
        }
    }

    /// Returns the first key of the lineage of `key`.
    pub(super) fn root<'k>(&self, mut key: &'k str) -> &'k str
    where
        'a: 'k,
    {
        while let Some(from) = self.0.get(key) {
            key = from;
        }
        key
    }

    /// Returns the lineage of the person of `it`, where the entry names a key.
    pub(super) fn of_operation(&self, it: &'a LoggedOperation) -> Option<&'a str> {
        it.facts.public_key.as_deref().map(|key| self.root(key))
    }
}
