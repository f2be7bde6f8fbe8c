//! Overwritten values meet updates: what the row of one became as it was, and as it is.

use super::anew::{Anew, ColumnOfStep, Move, Named};
use super::records::{Updates, Way};
use super::typed::Typed;
use super::{Recorded, Row};
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::error::Error;
use crate::records::co_owned::slot;
use crate::records::section::Modified;
use crate::schema::ResolvedTable;
use crate::statements::row::encoded;
use crate::statements::stored::is_same;
use crate::statements::table::select_keys;

/// A row that one side became, with the way that led to it.
type Made = (Way, Typed);

/// The rows that an overwritten value became, as its row was and as it is.
#[derive(Default)]
struct Compared<'m> {
    /// Rows that both sides became.
    both: Vec<(&'m Made, &'m Made)>,
    /// Rows that are missing, because the row is as it is.
    missing: Vec<&'m Made>,
    /// Rows that are there for that reason alone.
    surplus: Vec<&'m Made>,
}

impl Updates<'_> {
    /// Adds what is to be put back of an overwritten value after the updates. A record from which that
    /// cannot be told is held as it is: a row is never made of it whose other columns are not known.
    pub(super) fn cell(
        &self,
        database: &mut dyn TenantConnection,
        since: &[Recorded],
        of: ColumnOfStep<'_>,
        record: &Modified,
        anew: &mut Anew,
    ) -> Result<(), Error> {
        let before = self.made(database, since, side(of, record, &record.before))?;
        let after = self.made(database, since, side(of, record, &record.after))?;
        let is_hidden = !record.before.same(&record.after);
        let mut compared = self.compared(&before, &after, record);
        let mut all = before.iter().chain(&after);
        let is_sure = self.choose(database, &mut compared)?
            && all.all(|it| !it.1.lacks.condition)
            && !is_lost(&compared, &before, &after);
        if is_hidden && !(is_sure && self.is_told(&compared)) {
            if is_sure && self.is_settled(database, &before, &after)? {
                return Ok(());
            }
            anew.value(of.held(), record.clone());
            // Values of both forms of a row go back, once: the application may change them then.
            if !is_sure || of.is_again {
                return Ok(());
            }
            compared.missing.clear();
        }
        for missing in compared.missing {
            self.removed(of.step, vec![missing.1.clone()], anew);
        }
        let mut tables = compared.both.iter().map(|it| it.1.1.row.table.as_str());
        let mut home = tables.find(|it| *it == of.table);
        for ((_, before), (_, after)) in compared.both {
            let (columns, values): (Vec<String>, Vec<Value>) =
                after.row.columns.iter().cloned().unzip();
            let Some(names) = self.identity(&after.row.table, &columns, &values) else {
                // Under its former key, the value is told of and stays.
                anew.value(of, record.clone());
                continue;
            };
            // Of a shared row that became several, its copies tell the others.
            if home.is_none_or(|it| it == after.row.table) {
                home = Some("");
                anew.moves.push(Move {
                    from: Named::Slot(slot(self.salt, of.table, &record.identity)),
                    to: slot(self.salt, &after.row.table, &names),
                    version: None,
                });
            }
            self.differences(of, (before, after), &names, anew);
        }
        Ok(())
    }

    /// Compares the rows of both sides. The same way leads to the same row; another one, as that of
    /// the opposite condition, does if it leads to the same key of the same table.
    fn compared<'m>(
        &self,
        before: &'m [Made],
        after: &'m [Made],
        record: &Modified,
    ) -> Compared<'m> {
        let mut compared = Compared {
            surplus: after.iter().collect(),
            ..Compared::default()
        };
        let mut others = Vec::new();
        for row in before {
            let same = |it: &Made| it.0 == row.0 && it.1.row.table == row.1.row.table;
            match taken(&mut compared.surplus, same) {
                Some(same) => compared.both.push((row, same)),
                None => others.push(row),
            }
        }
        for row in others {
            let same = |it: &Made| self.is_one_row(&row.1.row, &it.1.row, record);
            match taken(&mut compared.surplus, same) {
                Some(same) => compared.both.push((row, same)),
                None => compared.missing.push(row),
            }
        }
        compared
    }

    /// Returns whether two forms of a row have one key, but for the overwritten value.
    fn is_one_row(&self, before: &Row, after: &Row, record: &Modified) -> bool {
        let Some(table) = self.live.table(&before.table) else {
            return false;
        };
        let mut key = table.identity.iter();
        let is_one = |column: &String| match (before.value(column), after.value(column)) {
            (Some(was), Some(is)) => {
                was.same(is) || was.same(&record.before) && is.same(&record.after)
            }
            _ => false,
        };
        before.table == after.table && !table.identity.is_empty() && key.all(is_one)
    }

    /// Keeps that of several forms of one row which the row has now, if conditions that the record
    /// cannot answer led to them. Returns false where that tells none or several.
    fn choose(
        &self,
        database: &mut dyn TenantConnection,
        compared: &mut Compared<'_>,
    ) -> Result<bool, Error> {
        let key = |(_, made): &Made| self.key(made).map(|it| (made.row.table.clone(), it));
        let mut both: Vec<(&Made, &Made)> = Vec::new();
        for pair in std::mem::take(&mut compared.both) {
            let is_alike = |(before, after): &(&Made, &Made)| {
                alike(&before.1, &pair.0.1) && alike(&after.1, &pair.1.1)
            };
            if !both.iter().any(is_alike) {
                both.push(pair);
            }
        }
        let is_doubled = |pair: &(&Made, &Made)| {
            let same = both.iter().filter(|it| key(it.1) == key(pair.1));
            key(pair.1).is_some() && same.count() > 1
        };
        let (doubled, sure): (Vec<_>, Vec<_>) = both.iter().copied().partition(is_doubled);
        compared.both = sure;
        let mut keys: Vec<_> = doubled.iter().map(|it| key(it.1)).collect();
        keys.sort_by_key(|it| {
            it.as_ref()
                .map(|(table, key)| (table.clone(), encoded(key)))
        });
        keys.dedup();
        for one in keys {
            let mut found = Vec::new();
            for pair in doubled.iter().filter(|it| key(it.1) == one) {
                if self.is_there(database, &pair.1.1)? {
                    found.push(*pair);
                }
            }
            match found.as_slice() {
                [alone] => compared.both.push(*alone),
                _ => return Ok(false),
            }
        }
        let mut keys: Vec<_> = compared.missing.iter().map(|it| key(it)).collect();
        let rows = keys.len();
        keys.sort_by_key(|it| {
            it.as_ref()
                .map(|(table, key)| (table.clone(), encoded(key)))
        });
        keys.dedup();
        Ok(keys.len() == rows)
    }

    /// Returns whether the record tells everything that is to be put back: no row is to go, what is
    /// missing has all its columns, and no form of a row has columns that the other one lacks.
    fn is_told(&self, compared: &Compared<'_>) -> bool {
        compared.surplus.is_empty()
            && compared.missing.iter().all(|it| self.is_complete(&it.1))
            && compared.both.iter().all(has_both)
    }

    /// Returns whether each column of the table has a value in the row.
    fn is_complete(&self, made: &Typed) -> bool {
        let table = self.live.table(&made.row.table);
        table.is_some_and(|table| {
            let mut columns = table.catalog.columns.iter();
            columns.all(|it| made.row.value(&it.name).is_some())
        })
    }

    /// Returns whether somebody made everything what it should be: the rows that are missing are there,
    /// with all that is known of them, and those that should have gone are not.
    fn is_settled(
        &self,
        database: &mut dyn TenantConnection,
        before: &[Made],
        after: &[Made],
    ) -> Result<bool, Error> {
        let key = |(_, made): &Made| self.key(made).map(|it| (made.row.table.clone(), it));
        // A column that the row has as it is, and of which nothing is known as it was, cannot be compared.
        let is_unknown = |made: &Made| {
            let forms = after.iter().filter(|it| key(it) == key(made));
            let mut columns = forms.flat_map(|it| &it.1.row.columns);
            columns.any(|(name, _)| made.1.row.value(name).is_none())
        };
        if before.iter().any(is_unknown) {
            return Ok(false);
        }
        for made in before {
            let mut is_there = false;
            // Of several forms of one row, it can have one alone.
            for form in before.iter().filter(|it| key(it) == key(made)) {
                is_there |= self.is_there(database, &form.1)?;
            }
            if !is_there {
                return Ok(false);
            }
        }
        for made in after {
            let is_meant = before.iter().any(|it| key(it) == key(made));
            if !is_meant && self.found(database, &made.1)?.is_some() {
                return Ok(false);
            }
        }
        Ok(after.iter().chain(before).all(|it| key(it).is_some()))
    }

    /// Returns whether a row is in its table, with all values of it that are known.
    fn is_there(&self, database: &mut dyn TenantConnection, made: &Typed) -> Result<bool, Error> {
        let Some((table, found)) = self.found(database, made)? else {
            return Ok(false);
        };
        let known = made.row.columns.iter().zip(found);
        let mut same = known.map(|((name, value), found)| is_same(table, name, value, &found));
        Ok(same.all(|it| it))
    }

    /// Returns the values that the row with this key has in the columns of `made`.
    fn found(
        &self,
        database: &mut dyn TenantConnection,
        made: &Typed,
    ) -> Result<Option<(&ResolvedTable, Vec<Value>)>, Error> {
        let (Some(table), Some(key)) = (self.live.table(&made.row.table), self.key(made)) else {
            return Ok(None);
        };
        let columns: Vec<String> = made.row.columns.iter().map(|(it, _)| it.clone()).collect();
        // A key of another family of types would be an error of the database.
        let waits = |(name, value): &(String, Value)| match table.catalog.column(name) {
            None => true,
            Some(now) => {
                let was = made.recorded_as(name);
                table.identity.contains(name)
                    && was.is_some_and(|was| now.awaits_update(table.dialect, Some(was), value))
            }
        };
        if made.row.columns.iter().any(waits) {
            return Ok(None);
        }
        let rows = select_keys(database, &table.name, &columns, &table.identity, &[key])?;
        Ok(rows.into_iter().next().map(|row| (table, row)))
    }

    /// Returns the key of a row, if its table is there and all of it is known.
    fn key(&self, made: &Typed) -> Option<Vec<Value>> {
        let (columns, values): (Vec<String>, Vec<Value>) = made.row.columns.iter().cloned().unzip();
        let key = self.identity(&made.row.table, &columns, &values)?;
        (!key.is_empty()).then_some(key)
    }

    /// Adds the values in which two forms of a row differ.
    fn differences(
        &self,
        of: ColumnOfStep<'_>,
        (before, after): (&Typed, &Typed),
        names: &[Value],
        anew: &mut Anew,
    ) {
        let table = after.row.table.clone();
        let Some(known) = self.live.table(&table) else {
            return;
        };
        let shape = self.shape(before);
        for (column, after) in &after.row.columns {
            let Some(before) = before.row.value(column).filter(|it| !it.same(after)) else {
                continue;
            };
            let row = Modified {
                identity: names.to_vec(),
                before: before.clone(),
                after: after.clone(),
            };
            let of = ColumnOfStep {
                step: of.step,
                owner: of.owner && known.people().any(|it| it == column),
                table: &table,
                identity: &known.identity,
                column,
                shape: &shape,
                known: of.known,
                is_held: false,
                is_again: false,
            };
            anew.value(of, row);
        }
    }
}

/// Returns the row of a record with this value in the place of the overwritten one.
fn side(of: ColumnOfStep<'_>, record: &Modified, value: &Value) -> Typed {
    let key = of
        .identity
        .iter()
        .cloned()
        .zip(record.identity.iter().cloned());
    let mut columns: Vec<(String, Value)> = key.filter(|(name, _)| name != of.column).collect();
    columns.push((of.column.to_owned(), value.clone()));
    let row = Row {
        table: of.table.to_owned(),
        columns,
        is_whole: false,
    };
    Typed::recorded(row, of.shape).hiding(of.column)
}

/// Returns whether nothing is left of the overwritten value, though an update makes something of it
/// that could not be asked.
fn is_lost(compared: &Compared<'_>, before: &[Made], after: &[Made]) -> bool {
    let differs = |(before, after): &(&Made, &Made)| !alike(&before.1, &after.1);
    let mut all = before.iter().chain(after);
    all.any(|it| it.1.lacks.value)
        && compared.missing.is_empty()
        && !compared.both.iter().any(differs)
}

/// Returns whether no form of a row has columns that the other one lacks.
fn has_both((before, after): &(&Made, &Made)) -> bool {
    let has = |one: &Made, other: &Made| {
        let mut columns = one.1.row.columns.iter();
        columns.all(|(name, _)| other.1.row.value(name).is_some())
    };
    has(before, after) && has(after, before)
}

/// Returns whether two rows have the same values.
fn alike(one: &Typed, other: &Typed) -> bool {
    let same =
        |(name, value): &(String, Value)| other.row.value(name).is_some_and(|it| it.same(value));
    one.row.table == other.row.table
        && one.row.columns.len() == other.row.columns.len()
        && one.row.columns.iter().all(same)
}

/// Takes the first that is so out of a list.
fn taken<'m>(list: &mut Vec<&'m Made>, is: impl Fn(&Made) -> bool) -> Option<&'m Made> {
    let place = list.iter().position(|it| is(it))?;
    Some(list.remove(place))
}
