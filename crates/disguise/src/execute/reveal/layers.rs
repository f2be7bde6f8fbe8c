//! Values overwritten several times: removing one layer must not uncover a value that a newer layer
//! hides.

use std::collections::{BTreeMap, BTreeSet};

use super::stored_rows::current;
use super::{Open, Sections, fits, row_name};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::section::{Change, Modified, Section};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::statements::row::encoded;
use crate::statements::stored::is_same;

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

/// A pile whose records may have been laid in another order than their times say.
struct Doubt {
    /// The index of the pile.
    pile: usize,
    /// Records of the layers in the order of their ages.
    records: Vec<Modified>,
}

/// The most layers of one cell that are put in order by their values.
const LAYERS_MAX: usize = 32;

/// Values that lie over each other.
pub(super) struct Layers<'d> {
    pub(super) database: &'d mut dyn TenantConnection,
    pub(super) live: &'d ResolvedSchema,
}

impl Layers<'_> {
    /// Moves the value that a layer hid to the next newer layer, so that it shows once all newer
    /// layers are gone. Returns the records that a value of the application cut off from the newer
    /// layer.
    pub(super) fn merge(
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
                if self.is_of_another_family(opened, due, (place, *newer), &record.before)
                    || !self.carry_note(opened, due, (section, *newer), &record)
                {
                    continue;
                }
                let of = due.get(section).map(|(_, it)| it);
                let table = of.and_then(|it| self.live.table(&it.table));
                let column = of.and_then(Section::values);
                let column = column.map(|(column, _)| column.to_owned());
                let is = |one: &Value, other: &Value| match (table, &column) {
                    (Some(table), Some(column)) => is_same(table, column, one, other),
                    _ => one.same(other),
                };
                let next = match *newer {
                    Place::Due(section, row) => modified(due, section, row),
                    Place::Held(open, section, row) => opened.get_mut(open).and_then(|it| {
                        it.changed = true;
                        value(it.bag.sections.get_mut(section)?, row)
                    }),
                };
                match next {
                    Some(next) if is(&next.before, &record.after) => next.before = record.before,
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

    /// Returns whether the column had a type of another family when the newer layer hid its value: in
    /// that record the value would count as one of the new type. Each layer keeps its value then.
    fn is_of_another_family(
        &self,
        opened: &[Open<'_>],
        due: &Sections,
        (lower, upper): (Place, Place),
        value: &Value,
    ) -> bool {
        let column = |place| {
            let section = section(opened, due, place)?;
            let (column, _) = section.values()?;
            section.shape.column(column)
        };
        let dialect = self.database.dialect();
        column(upper).is_some_and(|is| is.awaits_update(dialect, column(lower), value))
    }

    /// Notes whom the value of a record names where the record of the next newer layer lies, if it
    /// names somebody. Returns false if that bag knows somebody else by the name: then each layer
    /// keeps its value.
    fn carry_note(
        &self,
        opened: &mut [Open<'_>],
        due: &Sections,
        (lower, upper): (usize, Place),
        record: &Modified,
    ) -> bool {
        let Some((from, section)) = due.get(lower) else {
            return true;
        };
        let table = self.live.table(&section.table);
        let names = |column: &str| {
            let mut people = table.into_iter().flat_map(ResolvedTable::people);
            people.any(|it| it == column)
        };
        if !section.values().is_some_and(|(column, _)| names(column)) {
            return true;
        }
        let to = match upper {
            Place::Due(section, _) => due.get(section).map_or(*from, |(to, _)| *to),
            Place::Held(open, _, _) => open,
        };
        let name = record.before.principal();
        let Some(key) = opened.get(*from).and_then(|it| it.bag.named.get(&name)) else {
            return true;
        };
        let key = *key;
        let there = opened.get_mut(to).map(|it| it.bag.named.entry(name));
        there.is_none_or(|there| *there.or_insert(key) == key)
    }

    /// Returns the layers of every cell that is about to be undone and has several. Times tell the
    /// order, unless the values say otherwise: two disguises may have one time, a clock may be put
    /// back, and a chunk of a disguise that was begun long ago lies on what was hidden meanwhile. A
    /// layer lies on the one whose value it hid, and the newest has put there what the row holds.
    /// The application may have written between two layers, so that the values make no such order:
    /// then times count.
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
                && fits(table, section)
            {
                let of_column = doubts
                    .entry((&table.name, column))
                    .or_insert_with(|| (table, Vec::new()));
                of_column.1.push(doubt);
            }
        }
        for ((_, column), (table, doubts)) in doubts {
            // All records of a pile are about one row.
            let rows: Vec<Modified> = doubts
                .iter()
                .filter_map(|it| it.records.first().cloned())
                .collect();
            let now = current(self.database, table, column, &rows)?;
            for (it, row) in doubts.iter().zip(&rows) {
                if let Some(holds) = now.get(&encoded(&row.identity))
                    && let Some(by_values) = order_by_values(&it.records, holds)
                    && let Some(pile) = piles.get_mut(it.pile)
                {
                    *pile = by_values
                        .into_iter()
                        .filter_map(|layer| pile.get(layer).copied())
                        .collect();
                }
            }
        }
        Ok(piles)
    }
}

/// Returns the names of the rows of `sections`.
pub(super) fn names(live: &ResolvedSchema, sections: &Sections) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for (_, section) in sections {
        if let (Some(table), Some((_, rows))) = (live.table(&section.table), section.values()) {
            names.extend(rows.iter().map(|row| row_name(table, &row.identity)));
        }
    }
    names
}

/// Returns whether a layer hid the value that another one had put there.
fn lies_on(upper: &Modified, lower: &Modified) -> bool {
    upper.before.same(&lower.after)
}

/// Returns whether each layer lies on the one before it.
fn is_stack<'r>(records: impl Iterator<Item = &'r Modified> + Clone) -> bool {
    let mut pairs = records.clone().zip(records.skip(1));
    pairs.all(|(lower, upper)| lies_on(upper, lower))
}

/// Returns the order in which each layer lies on the one before it and the newest has put `now`
/// there, as indices into `records`. Several orders may do: undoing the layers in any of them leads
/// to the value that the oldest one hid.
///
/// A value is a node and a layer an edge from the value that it hid to the one that it put there.
/// The order is a trail over all edges that ends at `now` (Hierholzer's algorithm, backwards).
fn order_by_values(records: &[Modified], now: &Value) -> Option<Vec<usize>> {
    let mut left: Vec<(usize, &Modified)> = records.iter().enumerate().collect();
    let mut order = Vec::with_capacity(records.len());
    let mut walk: Vec<(&Value, Option<usize>)> = vec![(now, None)];
    while let Some((value, layer)) = walk.last().copied() {
        if let Some(last) = left.iter().rposition(|(_, it)| it.after.same(value)) {
            let (next, record) = left.remove(last);
            walk.push((&record.before, Some(next)));
        } else {
            walk.pop();
            order.extend(layer);
        }
    }
    let mut ordered = order.iter().filter_map(|layer| records.get(*layer));
    let is_whole = left.is_empty() && is_stack(ordered.clone());
    let ends_now = ordered.next_back().is_some_and(|it| it.after.same(now));
    (is_whole && ends_now).then_some(order)
}

/// Returns a pile whose order by times may be wrong, and the section of one of its layers. Times
/// are believed where each layer lies on the one before, unless the values go in a circle: then each
/// layer may be the newest.
fn doubt<'r>(
    opened: &'r [Open<'_>],
    due: &'r Sections,
    (number, by_age): (usize, &Pile),
) -> Option<(&'r Section, Doubt)> {
    if by_age.len() > LAYERS_MAX {
        return None;
    }
    let records: Option<Vec<&Modified>> = by_age
        .iter()
        .map(|(_, at)| record(opened, due, *at))
        .collect();
    let records = records?;
    let (oldest, newest) = (*records.first()?, *records.last()?);
    if is_stack(records.iter().copied()) && !lies_on(oldest, newest) {
        return None;
    }
    let (_, place) = by_age.first()?;
    let section = section(opened, due, *place)?;
    let doubt = Doubt {
        pile: number,
        records: records.into_iter().cloned().collect(),
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
        shape: section.shape.clone(),
        held: section.held,
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
