//! A request for a disguise, and the report of what it did.

use std::collections::BTreeMap;

use probity_format::Timestamp;

use crate::database::value::Value;
use crate::error::{DisguiseId, Error};
use crate::records::credential::Credential;
use crate::records::day::Day;
use crate::schema::ResolvedTable;
use crate::spec::Spec;

/// A request to [`Engine::apply`](crate::Engine::apply).
pub struct ApplyRequest<'a> {
    /// The specification.
    pub spec: &'a Spec,
    /// The person whose rows are meant; everybody when absent.
    pub user: Option<Value>,
    /// The credential to reach the rows of the user's pseudoprincipals, too; needs a user.
    pub over: Option<Credential<'a>>,
    /// Values of the specification's parameters.
    pub parameters: BTreeMap<String, Value>,
    /// The time until which it can be revealed, rounded up to the beginning of a day in UTC; absent
    /// for no end. Rows that other disguises hide behind its placeholders end with it.
    pub expires: Option<Timestamp>,
    /// The time of the entry and of generated timestamps.
    pub time: Timestamp,
}

impl ApplyRequest<'_> {
    /// Returns the day on which its records end.
    pub(crate) fn end(&self) -> Result<Day, Error> {
        self.end_after(self.time)
    }

    /// Returns the day on which its records end, if it begins at `time`.
    pub(crate) fn end_after(&self, time: Timestamp) -> Result<Day, Error> {
        match self.expires {
            None => Ok(Day::NEVER),
            Some(end) if end > time => Ok(Day::not_before(end)),
            Some(_) => Err(Error::Value {
                what: "a disguise cannot end before it begins: let it end later than now, and than its grace period"
                    .to_owned(),
            }),
        }
    }

    /// Refuses to hide more rows at `time` if no reveal would bring them back any more.
    pub(crate) fn refuse_over(&self, time: Timestamp) -> Result<(), Error> {
        if self.expires.is_none_or(|end| end > time) {
            return Ok(());
        }
        Err(Error::Value {
            what: "the disguise has ended by now, and no reveal would bring back what is still to be hidden: cancel it"
                .to_owned(),
        })
    }
}

/// The report of a disguise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its handle, needed to reveal it.
    pub id: DisguiseId,
    /// Rows touched in each table.
    pub rows: BTreeMap<String, u64>,
    /// Placeholder users made.
    pub pseudoprincipals: u64,
    /// Rows and values, of a disguise of everybody, whose records went to placeholders of other
    /// disguises, in each table. Whoever is behind a placeholder alone brings these back; where that
    /// person had everything forgotten, nobody does.
    pub under_placeholders: BTreeMap<String, u64>,
    /// Rows and values, of a disguise of everybody, that stay as they are in each table: nobody whom
    /// they name is registered or has an account, so that nobody could bring them back.
    pub of_nobody: BTreeMap<String, u64>,
    /// Disguises that waited for the same person with the same specification and parameters: they ended with this one, and
    /// are not applied any more. Those that ended when a disguise in chunks began are in its entry alone.
    pub ended: Vec<DisguiseId>,
}

impl Applied {
    pub(crate) const fn none(id: DisguiseId) -> Self {
        Self {
            id,
            rows: BTreeMap::new(),
            pseudoprincipals: 0,
            under_placeholders: BTreeMap::new(),
            of_nobody: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Counts rows of a table that are touched.
    pub(super) fn count(&mut self, table: &ResolvedTable, rows: usize) {
        let count = self.rows.entry(table.name.clone()).or_default();
        *count = count.saturating_add(u64::try_from(rows).unwrap_or(u64::MAX));
    }

    /// Counts rows and values that stay as they are, because they name nobody.
    pub(super) fn count_of_nobody(&mut self, table: &ResolvedTable, rows: usize) {
        if rows > 0 {
            let rows = u64::try_from(rows).unwrap_or(u64::MAX);
            let count = self.of_nobody.entry(table.name.clone());
            let count = count.or_default();
            *count = count.saturating_add(rows);
        }
    }

    /// Returns the number of rows of a table touched so far.
    pub(super) fn touched(&self, table: &ResolvedTable) -> u64 {
        self.rows.get(&table.name).copied().unwrap_or(0)
    }

    /// Adds the counts of another part of the same disguise.
    pub(crate) fn add(&mut self, part: &Self) {
        add(&mut self.rows, &part.rows);
        add(&mut self.under_placeholders, &part.under_placeholders);
        add(&mut self.of_nobody, &part.of_nobody);
        self.pseudoprincipals = self.pseudoprincipals.saturating_add(part.pseudoprincipals);
    }
}

/// Adds counts of rows by table to others.
fn add(all: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (table, count) in more {
        let all = all.entry(table.clone()).or_default();
        *all = all.saturating_add(*count);
    }
}
