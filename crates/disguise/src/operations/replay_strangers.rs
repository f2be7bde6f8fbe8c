//! Operations in the name of a person with a key of which the log does not say that it was theirs: whoever writes the database may put a
//! key of their own in the place of the person's.

use std::collections::{BTreeMap, BTreeSet};

use crate::transaction::history::Presence;
use crate::transaction::operation::{LoggedOperation, OperationId};

/// The keys that the log has of a person.
#[derive(Default)]
struct ResolvedTable<'a> {
    /// Those that open something.
    live: BTreeSet<&'a str>,
    /// Those that were replaced, or had everything forgotten.
    ended: BTreeSet<&'a str>,
}

impl<'a> ResolvedTable<'a> {
    fn begin(&mut self, key: &'a str) {
        self.ended.remove(key);
        self.live.insert(key);
    }

    /// Ends a key, unless the database lost that it was ended.
    fn end(&mut self, key: &'a str, is_here: bool) {
        if is_here {
            self.live.remove(key);
            self.ended.insert(key);
        } else {
            self.begin(key);
        }
    }

    /// Returns false for people of whom the log has no entries yet. A registration may come after
    /// operations with its key, if several machines set the times.
    fn is_strange(&self, key: &str, registered: Option<&BTreeSet<&str>>) -> bool {
        let is_told_of = !self.live.is_empty() || !self.ended.is_empty();
        let is_registered = registered.is_some_and(|it| it.contains(key));
        is_told_of && !self.live.contains(key) && (self.ended.contains(key) || !is_registered)
    }
}

/// Returns those among `done`.
pub(super) fn strangers(done: &[(&LoggedOperation, Presence)]) -> BTreeSet<OperationId> {
    let mut registered: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (it, _) in done
        .iter()
        .filter(|(it, _)| it.action == "disguise.register")
    {
        if let (Some(subject), Some(key)) = (&it.subject, &it.facts.public_key) {
            registered.entry(subject).or_default().insert(key);
        }
    }
    let mut people: BTreeMap<&str, ResolvedTable<'_>> = BTreeMap::new();
    let mut strange = BTreeSet::new();
    for (it, presence) in done {
        let is_here = *presence != Presence::Missing;
        let (Some(subject), Some(key)) = (&it.subject, it.facts.public_key.as_deref()) else {
            continue;
        };
        let known = people.entry(subject).or_default();
        let used = match it.action.as_str() {
            "disguise.register" => {
                known.begin(key);
                continue;
            }
            "disguise.key" => it.facts.old_key.as_deref(),
            "disguise.password" | "disguise.forget" => Some(key),
            _ => continue,
        };
        if used.is_some_and(|used| known.is_strange(used, registered.get(subject.as_str()))) {
            strange.insert(it.id);
            continue;
        }
        match it.action.as_str() {
            "disguise.key" => {
                if let Some(used) = used {
                    known.end(used, is_here);
                }
                known.begin(key);
            }
            "disguise.forget" if it.key.is_empty() => known.end(key, is_here),
            _ => known.begin(key),
        }
    }
    strange
}
