//! Overwriting values: drawn anew for each row, or the same text with marks in it.

use std::collections::{BTreeMap, BTreeSet};

use super::applier::{Applier, Loss, StepOutcome};
use super::nobody::KnownInRow;
use super::record_owner::{People, Taken};
use crate::database::fragment::Fragment;
use crate::database::tenant::TenantConnection;
use crate::database::value::Value;
use crate::database::{Column, Dialect};
use crate::error::Error;
use crate::plan::cascade::{emptied, may_empty};
use crate::plan::step::Step;
use crate::records::section::{Change, Modified};
use crate::schema::{ResolvedSchema, ResolvedTable};
use crate::spec::redact::{Names, Redact};
use crate::spec::{Kind, Replacement};
use crate::statements::overwrite::{Write, lost_rows, update_drawn, update_keys};
use crate::statements::row::{at, encoded, picked};
use crate::statements::stored::{Stored, holds, stored};
use crate::statements::table::select_keys;

/// A column that a step overwrites.
pub(super) struct Overwriting<'a> {
    number: u32,
    column: &'a str,
    replacement: &'a Replacement,
    /// The names that a redaction looks for.
    names: &'a Names,
    of_going: bool,
}

impl<'a> Overwriting<'a> {
    pub(super) fn of(number: u32, step: &'a Step) -> Option<Self> {
        let Kind::Modify {
            column,
            replacement,
        } = &step.kind
        else {
            return None;
        };
        Some(Self {
            number,
            column,
            replacement,
            names: &step.names,
            of_going: step.of_going,
        })
    }
}

/// A row with overwritten values, in the order of the columns, and the principal of its records.
struct Overwritten {
    keeper: Vec<u8>,
    identity: Vec<Value>,
    before: Vec<Value>,
    after: Vec<Value>,
}

/// The overwriting of columns of rows of one table.
pub(super) struct Modification<'w, 'a> {
    pub(super) work: &'w mut Applier<'a>,
    pub(super) table: &'w ResolvedTable,
    pub(super) steps: &'w [Overwriting<'w>],
}

impl Overwritten {
    fn write(&self) -> Write<'_> {
        Write {
            identity: &self.identity,
            values: &self.after,
        }
    }
}

impl Modification<'_, '_> {
    /// Overwrites columns of the rows that `chosen` selects.
    pub(super) fn run(&mut self, chosen: &Fragment) -> Result<StepOutcome, Error> {
        let (table, steps) = (self.table, self.steps);
        let first = table.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        let people = table.people().chain(through).map(String::as_str);
        let mut columns = table.identity.clone();
        for extra in people.chain(steps.iter().map(|it| it.column)) {
            if !columns.iter().any(|known| known == extra) {
                columns.push(extra.to_owned());
            }
        }
        let Some(rows) = self.work.held(table, &columns, chosen)? else {
            return Ok(StepOutcome::Pages);
        };
        let rows = if steps.iter().any(|step| step.of_going) {
            self.work.picker().going(table, &columns, rows)?
        } else {
            rows
        };
        let taken = self
            .work
            .picker()
            .taken(table, &columns, rows, Loss::Values)?;
        self.work
            .stake(table, &columns, &taken.rows, Loss::Values)?;
        let mut overwritten = self.drawn(&columns, &taken)?;
        for _ in steps {
            self.work.applied.count(table, overwritten.len());
            self.work.applied.count_of_nobody(table, taken.of_nobody);
        }
        let writes: Vec<Write<'_>> = overwritten.iter().map(Overwritten::write).collect();
        let names: Vec<&str> = steps.iter().map(|it| it.column).collect();
        refuse_emptying(self.work.database, self.work.live, table, &names, &writes)?;
        update_drawn(self.work.database, table, &names, &writes)?;
        self.read_back(&names, &mut overwritten)?;
        self.note_people(&overwritten)?;
        self.note_modified(overwritten)?;
        Ok(StepOutcome::None)
    }

    /// Returns the new values of rows; a text without anything to redact stays as it is.
    fn drawn(&mut self, columns: &[String], taken: &Taken) -> Result<Vec<Overwritten>, Error> {
        let (table, steps) = (self.table, self.steps);
        let Taken { rows, keepers, .. } = taken;
        let mut own_names = Vec::with_capacity(steps.len());
        for step in steps {
            own_names.push(match step.replacement {
                Replacement::Redacted(redact) => self.own_names(redact, columns, rows)?,
                Replacement::Drawn(_) => BTreeMap::new(),
            });
        }
        let mut all = Vec::with_capacity(rows.len());
        for (row, keeper) in rows.iter().zip(keepers) {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for (step, own_names) in steps.iter().zip(&own_names) {
                let value = at(columns, row, step.column).unwrap_or(&Value::Null);
                after.extend(self.replaced(step, value, own_names.get(keeper))?);
                before.push(value.clone());
            }
            if after.len() == before.len() {
                all.push(Overwritten {
                    keeper: keeper.clone(),
                    identity: picked(columns, row, &table.identity),
                    before,
                    after,
                });
            }
        }
        Ok(all)
    }

    /// Returns the replacement of `value`, if it does not stay.
    fn replaced(
        &self,
        step: &Overwriting<'_>,
        value: &Value,
        own_names: Option<&Names>,
    ) -> Result<Option<Value>, Error> {
        let redact = match step.replacement {
            Replacement::Drawn(generator) => {
                let of = (
                    self.work.database.dialect(),
                    self.table.catalog.column(step.column),
                );
                return generator.draw_into(of, value, self.work.now).map(Some);
            }
            Replacement::Redacted(redact) => redact,
        };
        let names: Vec<&Names> = std::iter::once(step.names).chain(own_names).collect();
        let Value::Text(text) = value else {
            return Ok(None);
        };
        let text = redact.redacted(text, &names, self.work.redactors);
        Ok(text.map(|text| Value::Text(self.fitting(step.column, text))))
    }

    /// Reads values back: the stored ones may differ from the drawn ones (a text column given a
    /// number), and a row may have another identity.
    fn read_back(&mut self, names: &[&str], overwritten: &mut [Overwritten]) -> Result<(), Error> {
        let table = self.table;
        let writes: Vec<Write<'_>> = overwritten.iter().map(Overwritten::write).collect();
        let now = stored(self.work.database, table, names, &writes)?;
        let changes_key = table.identity.iter().any(|key| names.contains(&&**key));
        if changes_key {
            let keys = now.iter().flatten();
            let keys: Vec<Vec<u8>> = keys.map(|it| encoded(&it.identity)).collect();
            self.work.principals.note_moved(&keys);
        }
        let (mut back, mut lost): (usize, usize) = (0, 0);
        for (it, now) in overwritten.iter_mut().zip(now) {
            let Some(now) = now else {
                // Without the key as it is stored, no record would find the row again.
                if changes_key {
                    back = back.saturating_add(1);
                } else {
                    lost = lost.saturating_add(1);
                }
                continue;
            };
            if !table.catalog.triggers.is_empty() && self.is_put_back(names, it, &now)? {
                back = back.saturating_add(1);
            }
            it.identity = now.identity;
            it.after = now.values;
        }
        if lost > 0 {
            return Err(lost_rows(table, lost));
        }
        if back == 0 {
            return Ok(());
        }
        Err(Error::Database {
            doing: "updating rows",
            source: self.work.database.passed_over(&table.name, back),
        })
    }

    /// Returns whether a row holds the old value instead of the drawn one in some column, as the
    /// database compares them: a trigger has put it back.
    fn is_put_back(
        &mut self,
        names: &[&str],
        it: &Overwritten,
        now: &Stored,
    ) -> Result<bool, Error> {
        let table = self.table;
        let values = it.before.iter().zip(&it.after).zip(&now.values);
        for (name, ((before, drawn), stored)) in names.iter().zip(values) {
            if !stored.same(before) || stored.same(drawn) {
                continue;
            }
            // A value may have several spellings.
            let drawn = (std::slice::from_ref(name), std::slice::from_ref(drawn));
            if !holds(self.work.database, table, drawn, now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes whom the old values name, where a column that names people is overwritten.
    fn note_people(&mut self, overwritten: &[Overwritten]) -> Result<(), Error> {
        for (index, step) in self.steps.iter().enumerate() {
            if !self.table.people().any(|it| it == step.column) {
                continue;
            }
            let before = |it: &Overwritten| {
                let value = it.before.get(index).filter(|it| !it.is_nobody());
                value.cloned().map(|value| (it.keeper.clone(), value))
            };
            let people: Vec<(Vec<u8>, Value)> = overwritten.iter().filter_map(before).collect();
            let ids: Vec<&Value> = people.iter().map(|(_, id)| id).collect();
            self.work.principals.meet(self.work.database, &ids)?;
            let known = self.work.principals.fingerprints(ids.into_iter());
            for (keeper, id) in &people {
                let named = known.get_key_value(&id.principal());
                let named = named.map(|(name, key)| (name.clone(), *key));
                let named = KnownInRow::from_iter(named);
                self.work.note_known(keeper, named)?;
            }
        }
        Ok(())
    }

    fn note_modified(&mut self, overwritten: Vec<Overwritten>) -> Result<(), Error> {
        let (table, steps) = (self.table, self.steps);
        let mut kept: BTreeMap<(usize, Vec<u8>), Vec<Modified>> = BTreeMap::new();
        for it in overwritten {
            let values = it.before.into_iter().zip(it.after);
            for (index, (before, after)) in values.enumerate() {
                let rows = kept.entry((index, it.keeper.clone())).or_default();
                rows.push(Modified {
                    identity: it.identity.clone(),
                    before,
                    after,
                });
            }
        }
        for ((index, keeper), rows) in kept {
            let Some(step) = steps.get(index) else {
                continue;
            };
            let change = Change::Modified {
                identity: table.identity.clone(),
                column: step.column.to_owned(),
                rows,
            };
            self.work.notes.add(keeper, step.number, table, change)?;
        }
        Ok(())
    }

    /// Returns the names in the users table of each person to whom rows belong: the user alone, or
    /// all owners and readers.
    fn own_names(
        &mut self,
        redact: &Redact,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<BTreeMap<Vec<u8>, Names>, Error> {
        let mut own = BTreeMap::new();
        if redact.own_names.is_empty() {
            return Ok(own);
        }
        let people = if let Some(user) = self.work.user {
            vec![user.clone()]
        } else {
            let people = self.work.picker().people(self.table, columns, rows)?;
            people.iter().flat_map(People::all).cloned().collect()
        };
        let mut seen = BTreeSet::new();
        let people = people.into_iter();
        let people = people.filter(|it| !it.is_nobody() && seen.insert(it.principal()));
        let keys: Vec<Vec<Value>> = people.map(|it| vec![it]).collect();
        let pseudo = &self.work.live.pseudo;
        let mut wanted = vec![pseudo.id.clone()];
        wanted.extend(redact.own_names.iter().cloned());
        let by = std::slice::from_ref(&pseudo.id);
        for row in select_keys(self.work.database, &pseudo.table, &wanted, by, &keys)? {
            let mut values = row.into_iter();
            let Some(id) = values.next() else { continue };
            let names: &mut Names = own.entry(id.principal()).or_default();
            for value in values {
                if let Value::Text(called) = value {
                    names.add_person(&called);
                }
            }
        }
        Ok(own)
    }

    /// Cuts `text` to the length of the column; a mark may be longer than the text it replaces.
    fn fitting(&self, column: &str, text: String) -> String {
        let limit = match self.work.database.dialect() {
            // `SQLite` does not enforce declared lengths.
            Dialect::Sqlite => None,
            _ => self
                .table
                .catalog
                .column(column)
                .and_then(Column::length_max),
        };
        match limit {
            Some(most) if text.chars().count() > most => text.chars().take(most).collect(),
            _ => text,
        }
    }
}

/// Returns the number of leading `steps` that overwrite columns of the same rows and can be written
/// at once. None of these columns may decide which rows are meant or who owns them.
pub(super) fn alike(dialect: Dialect, live: &ResolvedSchema, steps: &[Step]) -> usize {
    let Some((first, rest)) = steps.split_first() else {
        return 0;
    };
    let Some(table) = live.table(&first.table) else {
        return 1;
    };
    let drawn = |step: &Step| match &step.kind {
        Kind::Modify {
            column,
            replacement: Replacement::Drawn(_),
        } => Some(column.clone()),
        _ => None,
    };
    let says = |column: &String| {
        let through = table.path.iter().filter_map(|path| path.steps.first());
        let mut through = through.flat_map(|step| &step.columns);
        table.identity.contains(column)
            || table.people().any(|it| it == column)
            || through.any(|it| it == column)
            || first.chosen.sql.contains(&dialect.quote(column))
    };
    let free = |step: &Step| drawn(step).filter(|column| !says(column));
    let mut columns: BTreeSet<String> = free(first).into_iter().collect();
    if columns.is_empty() {
        return 1;
    }
    let alike = rest.iter().take_while(|step| {
        let same = step.table == first.table && step.chosen == first.chosen;
        let same = same && step.of_going == first.of_going;
        same && free(step).is_some_and(|column| columns.insert(column))
    });
    alike.count().saturating_add(1)
}

/// Overwrites values of rows as they are given.
pub(super) fn overwrite(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    refuse_emptying(database, live, table, columns, writes)?;
    update_keys(database, table, columns, writes)
}

/// Refuses if the database would empty references to a key that changes.
fn refuse_emptying(
    database: &mut dyn TenantConnection,
    live: &ResolvedSchema,
    table: &ResolvedTable,
    columns: &[&str],
    writes: &[Write<'_>],
) -> Result<(), Error> {
    if may_empty(live, table, columns) {
        let keys: Vec<Vec<Value>> = writes.iter().map(|it| it.identity.to_vec()).collect();
        let rows = (table.identity.as_slice(), keys.as_slice());
        if let Some(referring) = emptied(database, live, (table, columns), rows)? {
            return Err(referring.refusal(&table.name));
        }
    }
    Ok(())
}
