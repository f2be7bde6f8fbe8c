//! Ends of records: a table has the name of each record that ends, so that it can be destroyed
//! without a key.

use std::collections::{BTreeMap, BTreeSet};

use probity_format::Timestamp;

use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::{DisguiseId, Doing as _, Error};
use crate::records::day::{DAY_NANOSECONDS, Day};
use crate::records::hold::{Held, Holding};
use crate::records::registry::named;
use crate::records::stored::{Found, Stored, is_of_person};
use crate::records::tables::{BAGS, DEADLINES, FLEETING, HOLDS, LOCATORS, bytes};
use crate::statements::deletion::delete_keys;
use crate::statements::table::{insert_all, select_keys};

/// The kind of a record that ends. Locators come first in the order of names. Once they are
/// destroyed, nothing leads to the parts, so a sweep may stop anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    Locator,
    Part,
}

impl Record {
    fn name(self, id: &[u8]) -> Value {
        let kind = match self {
            Self::Locator => 0,
            Self::Part => 1,
        };
        let mut name = vec![kind];
        name.extend_from_slice(id);
        Value::Bytes(name)
    }
}

/// Returns the row of a record with an end.
pub(crate) fn row(record: Record, id: &[u8], salt: &[u8], stored: &Stored<'_>) -> Vec<Value> {
    let origin = stored.origin;
    vec![
        record.name(id),
        origin.expires.value(),
        Value::Bytes(Holding::Disguise(DisguiseId(origin.disguise)).name(salt)),
        bytes(&stored.cohorts),
    ]
}

/// The bytes that stand beside records for the people whom these concern, by the locators.
pub(crate) struct Cohorts(BTreeMap<Vec<u8>, Vec<u8>>);

impl Cohorts {
    /// Returns the cohorts of records that end.
    pub(crate) fn of(
        database: &mut dyn TenantConnection,
        records: &[&Found],
    ) -> Result<Self, Error> {
        let mut names = BTreeMap::new();
        let ending = records.iter();
        let ending = ending.filter(|it| it.locator.origin.expires != Day::NEVER);
        for it in ending {
            let name = Record::Locator.name(&it.row).principal();
            let name = database.tenancy().key(&name);
            names.insert(name.principal(), (name, it.row.clone()));
        }
        let keys: Vec<Vec<Value>> = names.values().map(|(name, _)| vec![name.clone()]).collect();
        let (columns, by) = (["id", "cohort"].map(str::to_owned), ["id".to_owned()]);
        let mut cohorts = BTreeMap::new();
        for row in select_keys(database, DEADLINES, &columns, &by, &keys)? {
            if let [Value::Bytes(name), Value::Bytes(cohort)] = row.as_slice()
                && let Some((_, row)) = names.get(name)
            {
                cohorts.insert(row.clone(), cohort.clone());
            }
        }
        Ok(Self(cohorts))
    }

    /// Returns the cohorts of one record; that of its own person if there are no others.
    pub(crate) fn beside(&self, record: &Found) -> Vec<u8> {
        let own = || vec![record.locator.origin.cohort];
        self.0.get(&record.row).cloned().unwrap_or_else(own)
    }
}

pub(crate) fn put(database: &mut dyn TenantConnection, rows: &[Vec<Value>]) -> Result<(), Error> {
    let columns = ["id", "due", "disguise", "cohort"];
    let mut rows = rows.to_vec();
    for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
        *name = database.tenancy().key(&name.principal());
    }
    insert_all(database, DEADLINES, &columns, &rows)
}

/// Takes away the deadlines of records that are destroyed already.
pub(crate) fn remove(
    database: &mut dyn TenantConnection,
    records: &[(Record, Vec<u8>)],
) -> Result<(), Error> {
    let keys: Vec<Vec<Value>> = records
        .iter()
        .map(|(record, id)| vec![database.tenancy().key(&record.name(id).principal())])
        .collect();
    delete_keys(database, DEADLINES, &["id".to_owned()], &keys)?;
    Ok(())
}

/// Notes the ends of the links from new placeholders, so that rows hidden behind them later end no
/// later. Notes on earlier placeholders with the same ids are replaced.
pub(crate) fn put_fleeting(
    database: &mut dyn TenantConnection,
    made: &BTreeMap<Vec<u8>, Day>,
) -> Result<(), Error> {
    let name = |id: &[u8]| named(database.tenancy(), id);
    let keys: Vec<Vec<Value>> = made.keys().map(|id| vec![name(id)]).collect();
    let ending = made.iter().filter(|(_, day)| **day != Day::NEVER);
    let rows: Vec<Vec<Value>> = ending
        .map(|(id, day)| vec![name(id), day.value()])
        .collect();
    delete_keys(database, FLEETING, &["id".to_owned()], &keys)?;
    insert_all(database, FLEETING, &["id", "due"], &rows)
}

/// Returns the ends of the links from placeholders, for those that have one.
pub(crate) fn fleeting(
    database: &mut dyn TenantConnection,
    ids: &[&Vec<u8>],
) -> Result<BTreeMap<Vec<u8>, Day>, Error> {
    let keys = ids.iter().map(|id| vec![named(database.tenancy(), id)]);
    let keys: Vec<Vec<Value>> = keys.collect();
    let (columns, by) = (["id", "due"].map(str::to_owned), ["id".to_owned()]);
    let mut days = BTreeMap::new();
    for row in select_keys(database, FLEETING, &columns, &by, &keys)? {
        if let [Value::Bytes(name), Value::Int(day)] = row.as_slice() {
            let day = u32::try_from(*day).map_err(|_range| Error::Forged)?;
            days.insert(name.clone(), Day::from_number(day));
        }
    }
    let end = |id: &&Vec<u8>| match named(database.tenancy(), id) {
        Value::Bytes(name) => days.get(&name).map(|day| ((*id).clone(), *day)),
        _ => None,
    };
    Ok(ids.iter().filter_map(end).collect())
}

/// Records that are over.
pub(crate) struct Over {
    names: Vec<Vec<Value>>,
    locators: Vec<Vec<Value>>,
    parts: Vec<Vec<Value>>,
    pub(crate) disguises: u64,
}

/// The records that holds keep from ending.
pub(crate) struct Kept {
    held: Held,
    /// The day from which on nothing ends.
    since: Option<Day>,
}

impl Kept {
    /// Returns the present holds. Held records behind placeholders are reached only by links of
    /// other disguises, and only the keys of their people show which. A record ends no later than
    /// the links to it, so everything is kept that ends as late as a held record behind
    /// placeholders, or later.
    pub(crate) fn find(
        database: &mut dyn TenantConnection,
        now: Timestamp,
        before: Option<Self>,
    ) -> Result<Self, Error> {
        let held = Held::all(database)?;
        if let Some(before) = before.filter(|it| it.held == held) {
            return Ok(before);
        }
        let mut since = None;
        if held.has_disguises() {
            let mut due: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            let own = database.tenancy().among_keys("AND");
            let sql = format!(
                "SELECT id, due FROM {DEADLINES} WHERE due <= ? AND disguise IN (SELECT held FROM {HOLDS}){}",
                own.sql
            );
            let today = Value::Int(now.nanoseconds().div_euclid(DAY_NANOSECONDS));
            let parameters: Vec<Value> = std::iter::once(today).chain(own.parameters).collect();
            let rows = database.query(&sql, &parameters);
            for row in rows.doing("finding what is held and over")? {
                let [Value::Bytes(name), Value::Int(day)] = row.as_slice() else {
                    return Err(Error::Forged);
                };
                let day = u32::try_from(*day).map_err(|_range| Error::Forged)?;
                if let Some((0, id)) = database.tenancy().own(name).split_first() {
                    due.insert(id.to_vec(), day);
                }
            }
            let keys: Vec<Vec<Value>> = due.keys().map(|id| vec![bytes(id)]).collect();
            let (columns, by) = (["id", "mailbox"].map(str::to_owned), ["id".to_owned()]);
            for row in select_keys(database, LOCATORS, &columns, &by, &keys)? {
                if let [Value::Bytes(id), Value::Bytes(mailbox)] = row.as_slice()
                    && !is_of_person(mailbox)
                    && let Some(day) = due.get(id)
                {
                    since = Some(since.map_or(*day, |it: u32| it.min(*day)));
                }
            }
        }
        Ok(Self {
            held,
            since: since.map(Day::from_number),
        })
    }
}

impl Over {
    /// Returns at most `most` records that are over, without those that are kept.
    pub(crate) fn find(
        database: &mut dyn TenantConnection,
        kept: &Kept,
        now: Timestamp,
        most: u32,
    ) -> Result<Self, Error> {
        let mut today = now.nanoseconds().div_euclid(DAY_NANOSECONDS);
        if let Some(since) = kept.since {
            today = today.min(i64::from(since.number()).saturating_sub(1));
        }
        let cohorts = kept.held.cohorts();
        let others = database.dialect().without("cohort", cohorts.len());
        let cohorts = cohorts.into_iter().map(|cohort| bytes(&[cohort]));
        let own = database.tenancy().among_keys("AND");
        let parameters = std::iter::once(Value::Int(today)).chain(cohorts);
        let parameters: Vec<Value> = parameters.chain(own.parameters).collect();
        let own = own.sql;
        let sql = format!(
            "SELECT id, disguise FROM {DEADLINES} WHERE due <= ? AND disguise NOT IN (SELECT held FROM {HOLDS}){others}{own} ORDER BY id LIMIT {most}"
        );
        let rows = database
            .query(&sql, &parameters)
            .doing("finding what is over")?;
        let mut over = Self {
            names: Vec::new(),
            locators: Vec::new(),
            parts: Vec::new(),
            disguises: 0,
        };
        let mut of = BTreeSet::new();
        for row in rows {
            let [Value::Bytes(name), disguise] = row.as_slice() else {
                return Err(Error::Forged);
            };
            let Some((kind, id)) = database.tenancy().own(name).split_first() else {
                return Err(Error::Forged);
            };
            let records = match kind {
                0 => &mut over.locators,
                _ => &mut over.parts,
            };
            records.push(vec![bytes(id)]);
            of.insert(disguise.principal());
            over.names.push(vec![bytes(name)]);
        }
        over.disguises = u64::try_from(of.len()).unwrap_or(u64::MAX);
        Ok(over)
    }

    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.names.len()).unwrap_or(u64::MAX)
    }

    /// Destroys them.
    pub(crate) fn destroy(&self, database: &mut dyn TenantConnection) -> Result<(), Error> {
        let by = ["id".to_owned()];
        delete_keys(database, LOCATORS, &by, &self.locators)?;
        delete_keys(database, BAGS, &by, &self.parts)?;
        delete_keys(database, DEADLINES, &by, &self.names)?;
        Ok(())
    }
}

/// Returns the number of records that are over, held or not.
pub(crate) fn count_over(
    database: &mut dyn TenantConnection,
    now: Timestamp,
) -> Result<u64, Error> {
    let today = now.nanoseconds().div_euclid(DAY_NANOSECONDS);
    let own = database.tenancy().among_keys("AND");
    let sql = format!("SELECT COUNT(*) FROM {DEADLINES} WHERE due <= ?{}", own.sql);
    let today = std::iter::once(Value::Int(today));
    let parameters: Vec<Value> = today.chain(own.parameters).collect();
    let rows = database
        .query(&sql, &parameters)
        .doing("counting what is over")?;
    match rows.into_iter().flatten().next() {
        Some(Value::Int(count)) => Ok(u64::try_from(count).unwrap_or(0)),
        _ => Err(Error::Forged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_at_the_next_beginning_of_a_day() {
        let at = |nanoseconds| Timestamp::from_nanoseconds(nanoseconds).unwrap();
        let noon = 20_000 * DAY_NANOSECONDS + DAY_NANOSECONDS / 2;
        let end = Day::not_before(at(noon));
        assert_eq!(end.number(), 20_001);
        assert!(!end.is_over(at(20_001 * DAY_NANOSECONDS - 1)));
        assert!(end.is_over(at(20_001 * DAY_NANOSECONDS)));
        assert_eq!(end.time(), Some(at(20_001 * DAY_NANOSECONDS)));
        assert_eq!(Day::not_before(at(20_001 * DAY_NANOSECONDS)), end);
        assert!(!Day::NEVER.is_over(at(noon)));
        assert_eq!(Day::NEVER.time(), None);
    }
}
