//! Rows that name nobody and refer to rows that go when everybody leaves: they go along.
//!
//! The database would refuse to remove the others without them, and no row may go before all are
//! known. Whoever has the record of a row that goes gets that of what goes along, and brings back both;
//! of a shared row, each of its owners.

use std::collections::{BTreeMap, BTreeSet};

use super::co_owned::Holders;
use super::nobody::NamedInRow;
use super::record_owner::{People, Taken};
use super::row_picker::RowPicker;
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::error::{Doing as _, Error};
use crate::schema::{Reference, ResolvedTable};
use crate::statements::row::{encoded, picked};
use crate::statements::table::{among, list, lists};

/// A row of nobody, by its table and key.
type Name = (String, Vec<u8>);

/// Rows of nobody, and those among them that refer to them.
#[derive(Default)]
struct Search {
    places: BTreeMap<Name, usize>,
    /// The places of the rows that refer to each.
    referring: Vec<Vec<usize>>,
    holders: Vec<Option<Holders>>,
    /// Keys of rows whose references were not followed yet, by their tables.
    open: BTreeMap<String, Vec<Vec<Value>>>,
}

impl Search {
    /// Returns the place of a row, which is followed if it is new.
    fn place(&mut self, table: &ResolvedTable, key: &[Value]) -> usize {
        let next = self.holders.len();
        let name = (table.name.clone(), encoded(key));
        let place = *self.places.entry(name).or_insert(next);
        if place == next {
            self.holders.push(None);
            self.referring.push(Vec::new());
            let open = self.open.entry(table.name.clone());
            open.or_default().push(key.to_vec());
        }
        place
    }

    /// Notes that a row goes with a row of these holders, if it goes with none yet, and with it all
    /// that refer to it.
    fn goes(&mut self, place: usize, holders: &Holders) {
        let mut going = vec![place];
        while let Some(place) = going.pop() {
            if let Some(of) = self.holders.get_mut(place).filter(|of| of.is_none()) {
                *of = Some(holders.clone());
                going.extend(self.referring.get(place).into_iter().flatten());
            }
        }
    }

    /// Notes that one row of nobody refers to another.
    fn refers(&mut self, from: usize, to: usize) {
        if let Some(referring) = self.referring.get_mut(to) {
            referring.push(from);
        }
        if let Some(Some(holders)) = self.holders.get(to).cloned() {
            self.goes(from, &holders);
        }
    }
}

/// The fate of a row that a removal chooses.
enum Fate {
    /// Removal, with a record for these principals.
    Goes(Holders),
    /// Staying, because its person came back, or for another owner.
    Stays,
    /// None of its own: it names nobody.
    OfNobody,
}

/// The rows to which rows of another table refer.
struct Parents<'t> {
    table: &'t ResolvedTable,
    columns: Vec<String>,
    /// Each after the key of the row that refers to it.
    rows: Vec<(Vec<Value>, Vec<Value>)>,
}

impl<'a> RowPicker<'_, 'a> {
    /// Adds to the rows of a removal those of `rows`, which are of nobody, that go along with others.
    /// Returns the number of those that stay.
    pub(super) fn take_of_nobody(
        &mut self,
        (table, columns): (&ResolvedTable, &[String]),
        rows: Vec<Vec<Value>>,
        taken: &mut Taken,
    ) -> Result<usize, Error> {
        if rows.is_empty() {
            return Ok(0);
        }
        let all = self.holders_along(table, columns, &rows)?;
        let mut stay: usize = 0;
        for (row, holders) in rows.into_iter().zip(all) {
            let keeper = holders.as_ref().and_then(|it| it.leaving.first().cloned());
            let (Some(holders), Some(keeper)) = (holders, keeper) else {
                stay = stay.saturating_add(1);
                continue;
            };
            if holders.leaving.len() > 1 || !holders.departed.is_empty() {
                let key = encoded(&picked(columns, &row, &table.identity));
                taken.held.insert(key, holders);
            }
            taken.rows.push(row);
            taken.keepers.push(keeper);
            taken.along = taken.along.saturating_add(1);
        }
        Ok(stay)
    }

    /// Returns whom each of `rows` names. Rows of somebody are as in [`Self::named_in`]; those that go
    /// along, the last, name nobody.
    pub(super) fn named_along(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        (rows, along): (&[Vec<Value>], usize),
    ) -> Result<Vec<NamedInRow>, Error> {
        let (of_somebody, of_nobody) = rows.split_at(rows.len().saturating_sub(along));
        let mut names = self.named_in(table, columns, of_somebody)?;
        if of_nobody.is_empty() {
            return Ok(names);
        }
        let people = self.people(table, columns, of_nobody)?;
        names.extend(people.iter().map(|of| {
            let all = of.all().filter(|it| !it.is_nobody());
            NamedInRow {
                nobody: all.map(Value::principal).collect(),
                ..NamedInRow::default()
            }
        }));
        Ok(names)
    }

    /// Returns for each of `rows`, which name nobody, the holders of a row that goes and to which it
    /// refers, by a declared key or on the way to its owner, perhaps over other rows of nobody.
    fn holders_along(
        &mut self,
        table: &ResolvedTable,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<Vec<Option<Holders>>, Error> {
        let mut search = Search::default();
        let places = rows.iter();
        let places = places.map(|row| search.place(table, &picked(columns, row, &table.identity)));
        let places: Vec<usize> = places.collect();
        while let Some((name, keys)) = search.open.pop_first() {
            let Some(child) = self.principals.live.table(&name) else {
                continue;
            };
            for reference in binding(child) {
                self.follow((child, &keys), &reference, &mut search)?;
            }
        }
        let holders = |place: &usize| search.holders.get(*place).cloned().flatten();
        Ok(places.iter().map(holders).collect())
    }

    /// Follows a reference of the rows of a table with these keys.
    fn follow(
        &mut self,
        (table, keys): (&ResolvedTable, &[Vec<Value>]),
        reference: &Reference,
        search: &mut Search,
    ) -> Result<(), Error> {
        let Some(parent) = self.principals.live.table(&reference.to_table) else {
            return Ok(());
        };
        let removals = self.removals.iter().filter(|(it, _)| *it == parent.name);
        let removals: Vec<Fragment> = removals.map(|(_, chosen)| chosen.clone()).collect();
        for chosen in removals {
            let parents = self.parents((table, keys), reference, (parent, &chosen))?;
            let fates = self.fates(&parents)?;
            for ((key, row), fate) in parents.rows.iter().zip(fates) {
                let from = search.place(table, key);
                match fate {
                    Fate::Goes(holders) => search.goes(from, &holders),
                    Fate::Stays => {}
                    Fate::OfNobody => {
                        let key = picked(&parents.columns, row, &parent.identity);
                        let to = search.place(parent, &key);
                        search.refers(from, to);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what becomes of rows that a removal chooses.
    fn fates(&mut self, parents: &Parents<'_>) -> Result<Vec<Fate>, Error> {
        let (table, columns) = (parents.table, &parents.columns);
        let rows: Vec<Vec<Value>> = parents.rows.iter().map(|(_, row)| row.clone()).collect();
        let people = self.people(table, columns, &rows)?;
        self.principals.meet(
            self.database,
            &people.iter().flat_map(People::all).collect::<Vec<_>>(),
        )?;
        let is_users = table.name == self.principals.live.pseudo.table;
        let is_shared = |row: &&Vec<Value>| self.principals.is_shared(table, columns, row);
        let shared: Vec<Vec<Value>> = rows.iter().filter(is_shared).cloned().collect();
        let held = self.held((table, columns), shared)?;
        let mut held = held.into_iter();
        let fates = rows.iter().zip(&people).map(|(row, of)| {
            if self.principals.is_shared(table, columns, row) {
                return held.next().flatten().map_or(Fate::Stays, Fate::Goes);
            }
            let Some(keeper) = self.principals.keeper(of) else {
                return Fate::OfNobody;
            };
            let stays = self.principals.has_returned(&keeper);
            if stays || (is_users && !self.principals.may_go(columns, row)) {
                Fate::Stays
            } else {
                Fate::Goes(Holders {
                    leaving: BTreeSet::from([keeper]),
                    departed: BTreeSet::new(),
                })
            }
        });
        Ok(fates.collect())
    }

    /// Returns the rows of `parent` that `chosen` selects and to which rows of `table` with these
    /// keys refer.
    fn parents(
        &mut self,
        (table, keys): (&ResolvedTable, &[Vec<Value>]),
        reference: &Reference,
        (parent, chosen): (&'a ResolvedTable, &Fragment),
    ) -> Result<Parents<'a>, Error> {
        let dialect = self.database.dialect();
        let mut columns = parent.identity.clone();
        let first = parent.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        for column in parent.people().chain(through).chain(&reference.to_columns) {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        let tenancy = self.database.tenancy();
        let own = tenancy.and(dialect, &table.name, &table.name);
        let chosen = tenancy.bound(dialect, &parent.name, chosen);
        // Columns of the derived table have names that no table has, so that the others need none.
        let named = |at: usize| format!("probity_gone.probity_{at}");
        let derived = columns.iter().enumerate();
        let derived = derived.map(|(at, it)| format!("{} AS probity_{at}", dialect.quote(it)));
        let wanted = (0..columns.len()).map(named);
        let child = dialect.quote(&table.name);
        let pairs = reference.to_columns.iter().zip(&reference.columns);
        // `SQLite` compares by the column on the left, and so do foreign keys.
        let same = pairs.filter_map(|(to, from)| {
            let at = columns.iter().position(|it| it == to)?;
            Some(format!("{} = {child}.{}", named(at), dialect.quote(from)))
        });
        let select = format!(
            "SELECT {}, {} FROM (SELECT {} FROM {} WHERE {}) AS probity_gone JOIN {child} ON {}",
            list(dialect, &table.identity),
            wanted.collect::<Vec<_>>().join(","),
            derived.collect::<Vec<_>>().join(","),
            dialect.quote(&parent.name),
            chosen.sql,
            same.collect::<Vec<_>>().join(" AND ")
        );
        let mut rows = Vec::new();
        for some in lists(keys, table.identity.len()) {
            let sql = format!(
                "{select} WHERE {}{}",
                among(dialect, &table.identity, some.len()),
                own.sql
            );
            let mut parameters = chosen.parameters.clone();
            parameters.extend(some.into_iter().flatten());
            parameters.extend_from_slice(&own.parameters);
            let found = self.database.query(&sql, &parameters);
            for mut name in found.doing("looking with what rows of nobody go along")? {
                let row = name.split_off(table.identity.len().min(name.len()));
                rows.push((name, row));
            }
        }
        Ok(Parents {
            table: parent,
            columns,
            rows,
        })
    }
}

/// Returns the references of rows of a table to rows without which they cannot be: declared keys,
/// and the first step of the way to their owner.
fn binding(table: &ResolvedTable) -> Vec<Reference> {
    let keys = table.catalog.foreign_keys.iter();
    let keys = keys.filter(|key| key.columns.len() == key.to_columns.len());
    let mut all: Vec<Reference> = keys
        .map(|key| Reference {
            columns: key.columns.clone(),
            to_table: key.to_table.clone(),
            to_columns: key.to_columns.clone(),
        })
        .collect();
    let first = table.path.as_ref().and_then(|path| path.steps.first());
    if let Some(first) = first.filter(|it| !all.contains(it)) {
        all.push(first.clone());
    }
    all
}
