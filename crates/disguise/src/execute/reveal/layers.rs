//! Values overwritten several times: removing one layer must not uncover a value that a newer layer
//! hides.

use std::collections::{BTreeMap, BTreeSet};

use super::{Due, Open, Revealer, Sections, fits, row_name};
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified, Section};
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;

/// The location of the record of one layer of a cell.
#[derive(Clone, Copy)]
enum Place {
    /// Section and row among those being undone.
    Due(usize, usize),
    /// Open bag, section and row.
    Held(usize, usize, usize),
}

/// Time and number of the disguise, and step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LayerAge {
    time: i64,
    disguise: u64,
    step: u32,
}

/// Layers of one cell from the oldest to the newest. Mostly there is one, and there may be millions of cells.
type Pile = Vec<(LayerAge, Place)>;

/// A pile whose order by values differs from its order by times.
struct Doubt {
    /// The index of the pile.
    pile: usize,
    by_values: Pile,
    /// The record of the layer that is the newest in this order.
    newest: Modified,
}

/// The most layers of one cell that are put in order by their values.
const LAYERS_MAX: usize = 32;

impl<'a> Revealer<'a> {
    /// Opens the other bags with values when values are about to be undone, including waiting ones.
    pub(super) fn open_values(
        &mut self,
        opened: &mut Vec<Open<'a>>,
        some_wait: bool,
    ) -> Result<(), Error> {
        let values = |it: &Open<'_>| it.bag.sections.iter().any(|it| it.values().is_some());
        if !some_wait && !opened.iter().any(values) {
            return Ok(());
        }
        for reached in self.reach.bags.iter().filter(|it| it.found.locator.values) {
            let row = &reached.found.row;
            if !opened.iter().any(|it| it.reached.found.row == *row) {
                opened.push(self.open(reached, Due::Nothing)?);
            }
        }
        Ok(())
    }

    /// Moves the value that a layer hid to the next newer layer, so that it shows once all newer
    /// layers are gone. Returns the records that a value of the application cut off from the newer
    /// layer.
    pub(super) fn merge_values(
        &mut self,
        opened: &mut [Open<'_>],
        due: &mut Sections,
    ) -> Result<Sections, Error> {
        let mut covered = Sections::new();
        let mut done: Vec<(usize, usize)> = Vec::new();
        for pile in self.piles(opened, due)? {
            let mut layers = pile.into_iter().peekable();
            while let Some((age, place)) = layers.next() {
                let (Place::Due(section, row), Some((later, newer))) = (place, layers.peek())
                else {
                    continue;
                };
                let Some(record) = modified(due, section, row).cloned() else {
                    continue;
                };
                let next = match *newer {
                    Place::Due(section, row) => modified(due, section, row),
                    Place::Held(open, section, row) => opened.get_mut(open).and_then(|it| {
                        it.changed = true;
                        value(it.bag.sections.get_mut(section)?, row)
                    }),
                };
                match next {
                    Some(next) if next.before.same(&record.after) => next.before = record.before,
                    // Equal times give no order: the values decide.
                    _ if age.time == later.time => continue,
                    _ => covered.extend(alone(due, section, record)),
                }
                done.push((section, row));
            }
        }
        drop_rows(due, &done);
        Ok(covered)
    }

    /// The layers of every cell that is about to be undone and has several. Times tell the order, unless the values say
    /// otherwise: a clock may be put back, and a chunk of a disguise that was begun long ago lies on what was hidden meanwhile. A
    /// layer lies on the one whose value it hid. But the application may have written between two layers, and the later
    /// one may have put there by chance what the earlier one had hidden: the values are believed only where the row
    /// still holds what the newest layer by them has put there.
    fn piles(&mut self, opened: &[Open<'_>], due: &Sections) -> Result<Vec<Pile>, Error> {
        let mut piles: Vec<Pile> = layers_of(opened, due)
            .into_values()
            .filter(|layers| layers.len() > 1)
            .collect();
        let mut doubts: BTreeMap<(&str, &str), (&ResolvedTable, Vec<Doubt>)> = BTreeMap::new();
        for (number, by_age) in piles.iter().enumerate() {
            if let Some((section, doubt)) = doubt(opened, due, (number, by_age))
                && let Some((column, _)) = section.values()
                && let Some(table) = self.live.table(&section.table)
                && fits(table, &section.change)
            {
                let of_column = doubts
                    .entry((&table.name, column))
                    .or_insert_with(|| (table, Vec::new()));
                of_column.1.push(doubt);
            }
        }
        for ((_, column), (table, doubts)) in doubts {
            let rows: Vec<Modified> = doubts.iter().map(|it| it.newest.clone()).collect();
            let now = self.current(table, column, &rows)?;
            for it in doubts {
                let holds = now.get(&encoded(&it.newest.identity));
                let is_held = holds.is_some_and(|now| now.same(&it.newest.after));
                if let (true, Some(pile)) = (is_held, piles.get_mut(it.pile)) {
                    *pile = it.by_values;
                }
            }
        }
        Ok(piles)
    }

    /// Returns the names of the rows of `sections`.
    pub(super) fn names(&self, sections: &Sections) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        for (_, section) in sections {
            if let (Some(table), Some((_, rows))) =
                (self.live.table(&section.table), section.values())
            {
                names.extend(rows.iter().map(|row| row_name(table, &row.identity)));
            }
        }
        names
    }
}

/// Returns the order of layers by the values that their records hid, if the times say otherwise, as
/// indices into the order by age.
fn chain(records: &[&Modified]) -> Option<Vec<usize>> {
    let lies_on = |upper: &Modified, lower: &Modified| upper.before.same(&lower.after);
    let times_tell = records
        .iter()
        .zip(records.iter().skip(1))
        .all(|(lower, upper)| lies_on(upper, lower));
    if times_tell || records.len() > LAYERS_MAX {
        return None;
    }
    let mut left: Vec<usize> = (0..records.len()).collect();
    let mut chain: Vec<usize> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        // The lowest lies on none of the others, each further one on the one before.
        let mut next = left.iter().copied().filter(|it| {
            let Some(it_is) = records.get(*it) else {
                return false;
            };
            match chain.last().and_then(|last| records.get(*last)) {
                Some(last) => lies_on(it_is, last),
                None => !left
                    .iter()
                    .filter(|other| *other != it)
                    .filter_map(|other| records.get(*other))
                    .any(|other| lies_on(it_is, other)),
            }
        });
        let (Some(only), None) = (next.next(), next.next()) else {
            return None;
        };
        chain.push(only);
        left.retain(|it| *it != only);
    }
    Some(chain)
}

/// Returns the order of a pile by the values, if it differs, and the section of the layer that is
/// then the newest.
fn doubt<'r>(
    opened: &'r [Open<'_>],
    due: &'r Sections,
    (number, by_age): (usize, &Pile),
) -> Option<(&'r Section, Doubt)> {
    let records: Option<Vec<&Modified>> = by_age
        .iter()
        .map(|(_, at)| record(opened, due, *at))
        .collect();
    let records = records?;
    let chain = chain(&records)?;
    let newest = *chain.last()?;
    let (_, place) = by_age.get(newest)?;
    let section = section(opened, due, *place)?;
    let at = |index: usize| by_age.get(index).copied();
    let doubt = Doubt {
        pile: number,
        by_values: chain.into_iter().filter_map(at).collect(),
        newest: (*records.get(newest)?).clone(),
    };
    Some((section, doubt))
}

/// Returns the record of a layer.
fn record<'r>(opened: &'r [Open<'_>], due: &'r Sections, place: Place) -> Option<&'r Modified> {
    let (Place::Due(_, row) | Place::Held(_, _, row)) = place;
    let (_, rows) = section(opened, due, place)?.values()?;
    rows.get(row)
}

/// Returns the section that contains a layer.
fn section<'r>(opened: &'r [Open<'_>], due: &'r Sections, place: Place) -> Option<&'r Section> {
    match place {
        Place::Due(section, _) => due.get(section).map(|(_, section)| section),
        Place::Held(open, section, _) => opened.get(open)?.bag.sections.get(section),
    }
}

/// Returns the layers of every cell that is about to be undone.
fn layers_of(opened: &[Open<'_>], due: &Sections) -> BTreeMap<Vec<u8>, Pile> {
    let origin = |open: usize| opened.get(open).map(|it| it.reached.found.locator.origin);
    let mut cells: BTreeMap<Vec<u8>, Pile> = BTreeMap::new();
    for (index, (open, section)) in due.iter().enumerate() {
        let (Some((column, rows)), Some(origin)) = (section.values(), origin(*open)) else {
            continue;
        };
        for (at, row) in rows.iter().enumerate() {
            let age = LayerAge {
                time: origin.time,
                disguise: origin.disguise,
                step: section.step,
            };
            let cell = cells.entry(cell(section, column, row));
            let pile = cell.or_insert_with(|| Pile::with_capacity(1));
            lay(pile, age, Place::Due(index, at));
        }
    }
    if cells.is_empty() {
        return cells;
    }
    for (open, it) in opened.iter().enumerate() {
        let origin = it.reached.found.locator.origin;
        for (index, section) in it.bag.sections.iter().enumerate() {
            let Some((column, rows)) = section.values() else {
                continue;
            };
            for (at, row) in rows.iter().enumerate() {
                if let Some(pile) = cells.get_mut(&cell(section, column, row)) {
                    let age = LayerAge {
                        time: origin.time,
                        disguise: origin.disguise,
                        step: section.step,
                    };
                    lay(pile, age, Place::Held(open, index, at));
                }
            }
        }
    }
    cells
}

/// Inserts a layer by its age; of two of one age the last counts.
fn lay(pile: &mut Pile, age: LayerAge, place: Place) {
    match pile.binary_search_by_key(&age, |(age, _)| *age) {
        Ok(same) => {
            if let Some((_, known)) = pile.get_mut(same) {
                *known = place;
            }
        }
        Err(above) => pile.insert(above, (age, place)),
    }
}

fn cell(section: &Section, column: &str, row: &Modified) -> Vec<u8> {
    let mut name = encoded(&[Value::from(section.table.as_str()), Value::from(column)]);
    name.append(&mut encoded(&row.identity));
    name
}

fn value(section: &mut Section, row: usize) -> Option<&mut Modified> {
    match &mut section.change {
        Change::Modified { rows, .. } => rows.get_mut(row),
        _ => None,
    }
}

fn modified(due: &mut Sections, section: usize, row: usize) -> Option<&mut Modified> {
    value(&mut due.get_mut(section)?.1, row)
}

/// Returns a section with only one record of another.
fn alone(due: &Sections, section: usize, record: Modified) -> Option<(usize, Section)> {
    let (open, section) = due.get(section)?;
    let Change::Modified {
        identity, column, ..
    } = &section.change
    else {
        return None;
    };
    let change = Change::Modified {
        identity: identity.clone(),
        column: column.clone(),
        rows: vec![record],
    };
    let alone = Section {
        step: section.step,
        table: section.table.clone(),
        change,
    };
    Some((*open, alone))
}

/// Removes the rows at the places `done`, and sections that become empty.
fn drop_rows(due: &mut Sections, done: &[(usize, usize)]) {
    let gone: BTreeSet<(usize, usize)> = done.iter().copied().collect();
    for (index, (_, section)) in due.iter_mut().enumerate() {
        if let Change::Modified { rows, .. } = &mut section.change {
            let mut place = 0..rows.len();
            rows.retain(|_| place.next().is_none_or(|row| !gone.contains(&(index, row))));
        }
    }
    due.retain(|(_, section)| section.change.rows() > 0);
}
