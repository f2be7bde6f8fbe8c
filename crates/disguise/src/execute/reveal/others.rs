//! People whom records name beside the returning person: an account with such an id counts as theirs
//! only with the key that they had, or one that took its place.

use std::collections::{BTreeMap, BTreeSet};

use super::report::KeptReason;
use super::{Open, Revealer};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::registry;
use crate::records::succession::{self, Fingerprint, fingerprint};

/// Others as far as a reveal has met them.
#[derive(Default)]
pub(crate) struct Others {
    /// Whom each open bag knows by their keys.
    named: Vec<BTreeMap<Vec<u8>, Fingerprint>>,
    /// Judgements of accounts, by the name in the users table and the key: true if that key is theirs.
    judged: BTreeMap<(Vec<u8>, Fingerprint), bool>,
    /// Names in the bag with a number under which somebody else has an account.
    replaced: BTreeSet<(usize, Vec<u8>)>,
}

impl Revealer<'_> {
    /// Takes up whom the open bags name.
    pub(super) fn meet_others(&mut self, opened: &[Open<'_>]) {
        let named = opened.iter().map(|it| it.bag.named.clone()).collect();
        self.others = Others {
            named,
            ..Others::default()
        };
    }

    /// Check C4 for whom rows of the bag with number `index` name: each who is there, as
    /// [`People::nearest`](super::people::People::nearest) says, and is who the bag says.
    pub(super) fn nearest(
        &mut self,
        index: usize,
        people: &[Value],
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let mut nearest = self.people.nearest(self.database, people)?;
        let known = self.others.named.get(index);
        let Some(known) = known.filter(|it| !it.is_empty()) else {
            return Ok(nearest);
        };
        let mut accounts = BTreeMap::new();
        for name in nearest.keys() {
            let meant = self.people.meant(name);
            if let Some(key) = known.get(name).filter(|_| !self.people.is_own(&meant)) {
                accounts.insert(name.clone(), (meant, *key));
            }
        }
        self.judge(accounts.values().cloned().collect())?;
        for (name, account) in accounts {
            if !self.others.judged.get(&account).is_some_and(|it| *it) {
                nearest.remove(&name);
                self.others.replaced.insert((index, name));
            }
        }
        Ok(nearest)
    }

    /// Finds out which accounts are those of whoever had these keys.
    fn judge(&mut self, mut accounts: Vec<(Vec<u8>, Fingerprint)>) -> Result<(), Error> {
        accounts.retain(|it| !self.others.judged.contains_key(it));
        let names: Vec<Vec<u8>> = accounts.iter().map(|(name, _)| name.clone()).collect();
        let registered = registry::principals(self.database, &names)?;
        let (mut changed, mut pairs) = (Vec::new(), Vec::new());
        for (name, key) in accounts {
            let now = registered.get(&name);
            let now = now.map(|(public, _)| fingerprint(self.salt, public));
            match now.filter(|now| *now != key) {
                Some(now) => {
                    changed.push((name, key));
                    pairs.push((key, now));
                }
                None => drop(self.others.judged.insert((name, key), now.is_some())),
            }
        }
        let leads = succession::lead(self.database, &pairs)?;
        self.others.judged.extend(changed.into_iter().zip(leads));
        Ok(())
    }

    /// Returns the reason why a row of the bag with number `index` cannot go back to `owner`.
    pub(super) fn ownerless(&self, index: usize, owner: &Value) -> KeptReason {
        if self.others.replaced.contains(&(index, owner.principal())) {
            return KeptReason::OwnerReplaced;
        }
        self.people.ownerless(owner)
    }

    /// Returns whether the bag with number `index` knows by the key whom `id` names: nobody else
    /// counts as them.
    pub(super) fn is_known(&self, index: usize, id: &Value) -> bool {
        let known = self.others.named.get(index);
        let is_own = || self.people.means_own(id);
        known.is_some_and(|it| it.contains_key(&id.principal())) && !is_own()
    }
}
