//! Rows of several tables that wait for each other: they go back together, with references emptied until all are in.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use super::co_owned::counted;
use super::late_keys::{Elsewhere, all_hold, check_elsewhere};
use super::put_back::{WholeRows, lacking, names_one_of};
use super::savepoint::Savepoint;
use super::stored_rows::is_of_tenant;
use super::unawaited::{Keys, Without};
use super::unseen_keys::has_own_unseen;
use super::{Sections, fits};
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::records::co_owned::remove_slots;
use crate::records::section::{Change, Section};
use crate::schema::{Reference, ResolvedTable};
use crate::statements::row::{at, encoded, picked, put, whole_key};
use crate::statements::spelling::alike;
use crate::statements::table::present;

/// The references by which rows may name people who were nobody when the rows went.
pub(super) struct Dangling {
    /// References that the database does not enforce.
    loose: Vec<Reference>,
    nobody: BTreeSet<Vec<u8>>,
}

impl Dangling {
    pub(super) fn allows(&self, reference: &Reference, key: &[Value]) -> bool {
        self.loose.contains(reference) && names_one_of(&self.nobody, key)
    }
}

/// Removed rows of one section, or copies of some, that wait for others.
pub(super) struct Group<'a> {
    section: usize,
    /// The number of its bag.
    bag: usize,
    pub(super) table: &'a ResolvedTable,
    pub(super) columns: Vec<String>,
    /// References of the rows, their owners included.
    pub(super) references: Vec<Reference>,
    pub(super) dangling: Dangling,
    /// True if the database may check a key of the rows at the commit.
    pub(super) is_late: bool,
    pub(super) rows: Vec<Waiting>,
}

pub(super) struct Waiting {
    /// The row as recorded.
    original: Vec<Value>,
    /// The row as it goes back, with owners that exist or are about to.
    pub(super) row: Vec<Value>,
    /// The slot of a shared row, whose copies are void once it is back.
    slot: Option<Vec<u8>>,
    pub(super) is_in: bool,
    /// The columns that are NULL until the rows to which they refer are in as well.
    pub(super) emptied: Vec<String>,
}

impl Waiting {
    /// Notes that the row is in, with all its references.
    pub(super) fn came_whole(&mut self) {
        self.is_in = true;
        self.emptied.clear();
    }
}

/// Whole rows that are gone, each with its slot if it is shared.
type Gone = Vec<(Vec<Value>, Option<Vec<u8>>)>;

/// The keys of waiting rows, by table and column and by how others spell them.
pub(super) type Spelled = BTreeMap<(String, Vec<String>), BTreeMap<Vec<u8>, Vec<u8>>>;

/// Rows that wait only for each other.
pub(super) struct Circles<'w, 'a> {
    pub(super) work: WholeRows<'w, 'a>,
}

impl<'a> Circles<'_, 'a> {
    /// Puts back removed rows that wait only for each other. Returns whether there were any.
    pub(super) fn put_back(&mut self, due: &mut Sections) -> Result<bool, Error> {
        let mut groups = self.groups(due)?;
        let mut there = Vec::new();
        for group in &groups {
            there.push(self.there(group)?);
        }
        let spelled = self.spelled_otherwise(&groups, &there)?;
        // The database would refuse the commit where a row refers to nothing by a key out of sight.
        let tables = groups.iter().filter(|it| !it.rows.is_empty());
        let tables = tables.map(|it| it.table);
        let elsewhere = check_elsewhere(self.work.owners.database, tables)?;
        if elsewhere == Elsewhere::Violated {
            return Ok(false);
        }
        let is_back = if elsewhere == Elsewhere::Together {
            let doing = "putting back rows that refer to other schemas";
            let point = Savepoint::set(self.work.owners.database, "probity_elsewhere", doing)?;
            let all = self.insert_all(&mut groups, &there, &spelled)?;
            let is_back = all && all_hold(self.work.owners.database)?;
            point.end(self.work.owners.database, is_back)?;
            is_back
        } else {
            self.insert_all(&mut groups, &there, &spelled)?
        };
        if elsewhere == Elsewhere::AtOnce {
            let late = self.work.owners.database.defer_foreign_keys();
            late.doing("deferring foreign keys")?;
        }
        if !is_back {
            return Ok(false);
        }
        for group in &groups {
            self.came_back(group, due)?;
        }
        due.retain(|(_, section)| section.change.rows() > 0);
        Ok(true)
    }

    /// Inserts the rows of circles that the database takes, and keeps no others in `groups`. Returns
    /// whether there are any.
    fn insert_all(
        &mut self,
        groups: &mut [Group<'a>],
        there: &[Keys],
        spelled: &Spelled,
    ) -> Result<bool, Error> {
        loop {
            self.narrow(groups, there, spelled);
            if groups.iter().all(|group| group.rows.is_empty()) {
                return Ok(false);
            }
            let doing = "putting back rows that refer to each other";
            let point = Savepoint::set(self.work.owners.database, "probity_circle", doing)?;
            let mut all = self.insert_groups(groups, there, spelled)?;
            all = all && self.refill(groups)?;
            all = all && self.all_lead_on(groups)?;
            point.end(self.work.owners.database, all)?;
            if all {
                return Ok(true);
            }
            // A refused row takes along the rows that were to refer to it.
            for group in &mut *groups {
                group.rows.retain(|it| it.is_in);
                group.rows.iter_mut().for_each(|it| it.is_in = false);
            }
        }
    }

    /// Takes rows that are back out of their section, voids the copies of them, and notes what they
    /// still lack.
    fn came_back(&mut self, group: &Group<'_>, due: &mut Sections) -> Result<(), Error> {
        self.work.report.count(&group.table.name, group.rows.len());
        if group.table.name == self.work.owners.people.live.pseudo.table {
            let rows = group.rows.iter().map(|it| it.row.as_slice());
            self.work.owners.people.accounts_back(&group.columns, rows);
        }
        let slots = group.rows.iter().filter_map(|it| it.slot.clone());
        let slots: Vec<Vec<u8>> = slots.collect();
        remove_slots(self.work.owners.database, &slots)?;
        let Some((index, section)) = due.get_mut(group.section) else {
            return Ok(());
        };
        let back: BTreeSet<Vec<u8>> = group.rows.iter().map(|it| encoded(&it.original)).collect();
        match &mut section.change {
            Change::Removed { rows, .. } => rows.retain(|row| !back.contains(&encoded(row))),
            Change::Copied { rows, .. } => rows.retain(|it| !back.contains(&encoded(&it.row))),
            Change::Modified { .. } | Change::Decorrelated { .. } => {}
        }
        let (index, step) = (*index, section.step);
        for it in &group.rows {
            let missing = lacking(group.table, &group.columns, &it.original, &it.row);
            for change in missing {
                let owners = &mut self.work.owners;
                let home = owners.others.home(owners.database, index, &change)?;
                due.push((home, Section::new(step, group.table, change)));
            }
        }
        Ok(())
    }

    /// Returns which of `references` of rows in the bag with number `index` may name nobody.
    fn dangling(
        &self,
        table: &ResolvedTable,
        index: usize,
        references: &[Reference],
    ) -> Result<Dangling, Error> {
        let nobody = self.work.owners.others.nobody(index)?;
        let mut loose = references.to_vec();
        loose.retain(|it| self.work.owners.people.live.may_dangle(table, it));
        Ok(Dangling {
            loose,
            nobody: nobody.clone(),
        })
    }

    /// Returns removed rows, and copies of such that count, that refer to missing rows.
    fn groups(&mut self, due: &Sections) -> Result<Vec<Group<'a>>, Error> {
        let live = self.work.owners.people.live;
        let awaited = self.awaited(due);
        let (mut groups, mut met) = (Vec::new(), BTreeSet::new());
        for (number, (index, section)) in due.iter().enumerate() {
            let Some(table) = live.table(&section.table) else {
                continue;
            };
            if !fits(table, section) {
                continue;
            }
            let Some((columns, gone)) = self.gone(table, &section.change, &mut met)? else {
                continue;
            };
            let (rows, slots): (Vec<Vec<Value>>, Vec<Option<Vec<u8>>>) = gone.into_iter().unzip();
            let owned = self
                .work
                .owners
                .owners_back((table, *index), columns, &rows, &awaited)?;
            let may_return = self.may_return((table, *index), section, (columns, &rows))?;
            let rows = rows.into_iter().zip(owned).zip(slots).zip(may_return);
            let rows = rows.filter_map(|(((original, owned), slot), may_return)| {
                Some(Waiting {
                    original,
                    row: owned.filter(|_| may_return)?,
                    slot,
                    is_in: false,
                    emptied: Vec::new(),
                })
            });
            let mut references = table.references.clone();
            references.extend(live.others(table).map(|person| live.to_person(person)));
            let dangling = self.dangling(table, *index, &references)?;
            let mut keys = table.catalog.foreign_keys.iter();
            groups.push(Group {
                section: number,
                bag: *index,
                table,
                columns: columns.to_vec(),
                references,
                dangling,
                is_late: keys.any(|key| key.is_checked_late),
                rows: rows.collect(),
            });
        }
        for group in &mut groups {
            let there = self.there(group)?;
            let (columns, references) = (&group.columns, &group.references);
            let dangling = &group.dangling;
            group.rows.retain(|it| {
                let missing = |reference: &Reference| {
                    key((group.table, columns), reference, &it.row).is_some_and(|key| {
                        !dangling.allows(reference, &key) && !holds(&there, reference, &key)
                    })
                };
                // Nothing tells where a reference leads that the database works out.
                references.iter().any(missing) || has_own_unseen(group.table)
            });
        }
        Ok(groups)
    }

    /// Returns the whole rows of a change that are gone, each with its slot if it is shared. Several
    /// bags may have a copy of one row, of which the first `met` counts.
    fn gone<'s>(
        &mut self,
        table: &ResolvedTable,
        change: &'s Change,
        met: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<(&'s [String], Gone)>, Error> {
        match change {
            Change::Removed { columns, rows } => {
                let rows = rows.iter().map(|row| (row.clone(), None));
                Ok(Some((columns, rows.collect())))
            }
            Change::Copied { columns, rows, .. } => {
                let owners = &mut self.work.owners;
                let counted =
                    counted((owners.database, owners.salt), table, columns, rows.clone())?;
                let good = counted.good.into_iter();
                let good = good.filter(|(slot, _)| met.insert(slot.clone()));
                let rows = good.map(|(slot, copy)| (copy.row, Some(slot)));
                Ok(Some((columns, rows.collect())))
            }
            Change::Modified { .. } | Change::Decorrelated { .. } => Ok(None),
        }
    }

    /// Returns for each of the `rows` of a section whether it may go back at all.
    fn may_return(
        &mut self,
        (table, index): (&ResolvedTable, usize),
        section: &Section,
        (columns, rows): (&[String], &[Vec<Value>]),
    ) -> Result<Vec<bool>, Error> {
        let may_wait = self.work.owners.may_wait((table, index), columns, rows)?;
        let pseudo = &self.work.owners.people.live.pseudo;
        let is_of_user = section.is_of_user();
        let is_gone = |row: &[Value]| {
            let id = at(columns, row, &pseudo.id).filter(|_| table.name == pseudo.table);
            id.is_some_and(|id| self.work.owners.people.is_gone(id))
                || (is_of_user && self.work.owners.people.is_of_gone(table, columns, row))
        };
        let may_return = |(row, may_wait): (&Vec<Value>, bool)| {
            Ok(may_wait
                && !is_gone(row)
                && is_of_tenant(self.work.owners.database, table, columns, row)
                && self.work.owners.is_theirs((table, index), columns, row)?)
        };
        rows.iter().zip(may_wait).map(may_return).collect()
    }

    /// Returns the accounts that wait to go back themselves.
    fn awaited(&self, due: &Sections) -> BTreeSet<Vec<u8>> {
        let pseudo = &self.work.owners.people.live.pseudo;
        let mut awaited = BTreeSet::new();
        for (_, section) in due.iter().filter(|(_, it)| it.table == pseudo.table) {
            if let Change::Removed { columns, rows } = &section.change {
                let ids = rows.iter().filter_map(|row| at(columns, row, &pseudo.id));
                let ids = ids
                    .filter(|id| !self.work.owners.people.is_gone(id))
                    .map(Value::principal);
                awaited.extend(ids.filter(|name| self.work.owners.people.is_own(name)));
            }
        }
        awaited
    }

    /// Returns the keys of referred rows that exist.
    fn there(&mut self, group: &Group<'_>) -> Result<Keys, Error> {
        let mut there = Keys::new();
        for reference in &group.references {
            let mut seen = BTreeSet::new();
            let keys = group.rows.iter();
            let keys: Vec<Vec<Value>> = keys
                .filter_map(|it| key((group.table, &group.columns), reference, &it.row))
                .filter(|key| seen.insert(encoded(key)))
                .collect();
            let by = &reference.to_columns;
            let found = present(self.work.owners.database, &reference.to_table, by, &keys)?;
            let all = there.entry((reference.to_table.clone(), by.clone()));
            all.or_default().extend(found);
        }
        Ok(there)
    }

    /// Returns the keys of waiting rows, by the spelling of other waiting rows, if the database
    /// treats the two as equal.
    fn spelled_otherwise(
        &mut self,
        groups: &[Group<'_>],
        there: &[Keys],
    ) -> Result<Spelled, Error> {
        let mut spelled = Spelled::new();
        for (group, there) in groups.iter().zip(there) {
            for reference in &group.references {
                let keys = waiting_keys(groups, reference, |_| true);
                let may_differ = keys.iter().flatten().any(Value::has_spellings);
                let known: BTreeSet<Vec<u8>> = keys.iter().map(|key| encoded(key)).collect();
                let names = group.rows.iter();
                let names =
                    names.filter_map(|it| key((group.table, &group.columns), reference, &it.row));
                let names = names.filter(|name| {
                    let is_met = known.contains(&encoded(name)) || holds(there, reference, name);
                    !is_met && (may_differ || name.iter().any(Value::has_spellings))
                });
                let names: Vec<Vec<Value>> = names.collect();
                let Some(to) = self.work.owners.people.live.table(&reference.to_table) else {
                    continue;
                };
                let of = (to, reference.to_columns.as_slice());
                let found = alike(self.work.owners.database, of, &names, &keys)?;
                let all = (reference.to_table.clone(), reference.to_columns.clone());
                spelled.entry(all).or_default().extend(found);
            }
        }
        Ok(spelled)
    }

    /// Keeps only rows all of whose parents exist or are among the remaining rows, or which do not
    /// wait for them.
    fn narrow(&self, groups: &mut [Group<'_>], there: &[Keys], spelled: &Spelled) {
        loop {
            let among = among(groups, |_| true);
            let hidden = hidden(groups);
            // A row whose column is emptied may be the parent of others by that column.
            let changed = Cell::new(false);
            for (group, there) in groups.iter_mut().zip(there) {
                let before = group.rows.len();
                let of = (group.table, group.bag);
                let (columns, dangling) = (&group.columns, &group.dangling);
                let parent = |reference: &Reference, row: &mut Vec<Value>| {
                    let Some(key) = key((group.table, columns), reference, row) else {
                        return true;
                    };
                    let is_there =
                        dangling.allows(reference, &key) || holds(there, reference, &key);
                    if is_there || is_among(&among, spelled, reference, &key) {
                        return true;
                    }
                    let without =
                        self.work
                            .waits
                            .without(self.work.owners.people.live, of, reference, &key);
                    match without {
                        Without::Dangles => true,
                        Without::Empty(column) => {
                            put(columns, row, column, Value::Null);
                            changed.set(true);
                            true
                        }
                        Without::Waits => hidden.contains(reference),
                    }
                };
                let references = &group.references;
                group.rows.retain_mut(|it| {
                    let mut all = references.iter();
                    all.all(|reference| parent(reference, &mut it.row))
                });
                if group.rows.len() < before {
                    changed.set(true);
                }
            }
            if !changed.get() {
                return;
            }
        }
    }
}

/// Returns the key by which `row` refers to another, if it does. Only a column that names people may
/// name nobody: of other tables, a row may have any key.
pub(super) fn key(
    (table, columns): (&ResolvedTable, &[String]),
    reference: &Reference,
    row: &[Value],
) -> Option<Vec<Value>> {
    let key = picked(columns, row, &reference.columns);
    let names_people = table
        .people()
        .any(|it| reference.columns == std::slice::from_ref(it));
    let nobody = |it: &Value| it.is_null() || (names_people && it.is_nobody());
    (key.len() == reference.columns.len() && !key.iter().any(nobody)).then_some(key)
}

/// Returns the references to columns of waiting rows that the database works out. Nothing tells
/// before the rows are in whether one of them is meant.
pub(super) fn hidden(groups: &[Group<'_>]) -> Vec<Reference> {
    let all = groups.iter().flat_map(|group| &group.references);
    let is_hidden = |reference: &&Reference| {
        let mut to = groups.iter();
        to.any(|group| {
            let is_to = group.table.name == reference.to_table;
            is_to && !group.rows.is_empty() && group.table.works_out(&reference.to_columns)
        })
    };
    all.filter(is_hidden).cloned().collect()
}

pub(super) fn holds(keys: &Keys, reference: &Reference, key: &[Value]) -> bool {
    keys.get(&(reference.to_table.clone(), reference.to_columns.clone()))
        .is_some_and(|known| known.contains(&encoded(key)))
}

/// Returns whether one of the waiting rows has this key, in any spelling.
pub(super) fn is_among(
    among: &Keys,
    spelled: &Spelled,
    reference: &Reference,
    key: &[Value],
) -> bool {
    let of = (reference.to_table.clone(), reference.to_columns.clone());
    let named = spelled.get(&of).and_then(|all| all.get(&encoded(key)));
    let is_waiting = named.zip(among.get(&of));
    let is_waiting = is_waiting.is_some_and(|(named, known)| known.contains(named));
    is_waiting || holds(among, reference, key)
}

/// Returns the keys of those of the waiting rows that `counts`, to which `reference` may lead.
fn waiting_keys(
    groups: &[Group<'_>],
    reference: &Reference,
    counts: impl Fn(&Waiting) -> bool + Copy,
) -> Vec<Vec<Value>> {
    let of = groups
        .iter()
        .filter(|group| group.table.name == reference.to_table);
    let keys = of.flat_map(|group| {
        let rows = group.rows.iter().filter(move |it| counts(it));
        rows.filter_map(|it| whole_key(&group.columns, &it.row, &reference.to_columns))
    });
    keys.collect()
}

/// Returns the keys of those of the rows that `counts`, by which others may refer to them.
pub(super) fn among(groups: &[Group<'_>], counts: impl Fn(&Waiting) -> bool + Copy) -> Keys {
    let mut keys = Keys::new();
    for reference in groups.iter().flat_map(|group| &group.references) {
        let name = (reference.to_table.clone(), reference.to_columns.clone());
        if keys.contains_key(&name) {
            continue;
        }
        let all = waiting_keys(groups, reference, counts);
        keys.insert(name, all.iter().map(|key| encoded(key)).collect());
    }
    keys
}
