//! Overwriting values: drawn anew for each row, or the same text with marks in it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Work, at, encoded, moved, picked};
use crate::database::{Column, Dialect};
use crate::error::Error;
use crate::plan::Step;
use crate::record::{Change, Modified};
use crate::redact::{Names, Redact};
use crate::schema::Known;
use crate::spec::Replacement;
use crate::table::{Write, select, select_keys, update_keys};
use crate::value::Value;

/// A value that was overwritten, and whose bag its record goes to.
struct Overwritten {
    keeper: Vec<u8>,
    record: Modified,
}

impl Work<'_> {
    pub(super) fn modify(
        &mut self,
        number: u32,
        table: &Known,
        step: &Step,
        column: &str,
        replacement: &Replacement,
    ) -> Result<(), Error> {
        let mut columns = table.identity.clone();
        let first = table.path.as_ref().and_then(|path| path.steps.first());
        let through = first.into_iter().flat_map(|step| &step.columns);
        let people = table.people().chain(through).map(String::as_str);
        for extra in people.chain([column]) {
            if !columns.iter().any(|known| known == extra) {
                columns.push(extra.to_owned());
            }
        }
        let rows = select(self.database, &table.name, &columns, &step.chosen)?;
        let rows = self.without_returned(table, &columns, rows)?;
        let mut changes = Vec::with_capacity(rows.len());
        let keepers = self.keepers(table, &columns, &rows)?;
        let own_names = match replacement {
            Replacement::Redacted(redact) => self.own_names(redact, table, &columns, &rows)?,
            Replacement::Drawn(_) => BTreeMap::new(),
        };
        for (row, keeper) in rows.iter().zip(keepers) {
            let before = at(&columns, row, column).cloned().unwrap_or(Value::Null);
            let after = match replacement {
                Replacement::Drawn(generator) => generator.draw(&before, self.now)?,
                Replacement::Redacted(redact) => {
                    let names = [Some(&step.names), own_names.get(&keeper)];
                    let names: Vec<&Names> = names.into_iter().flatten().collect();
                    let Value::Text(text) = &before else { continue };
                    let Some(text) = redact.redacted(text, &names, self.redactors) else {
                        continue;
                    };
                    Value::Text(self.fitting(table, column, text))
                }
            };
            let identity = picked(&columns, row, &table.identity);
            changes.push(Overwritten {
                keeper,
                record: Modified {
                    identity,
                    before,
                    after,
                },
            });
        }
        self.count(table, changes.len());
        let writes: Vec<Write<'_>> = changes
            .iter()
            .map(|it| Write {
                identity: &it.record.identity,
                value: &it.record.after,
            })
            .collect();
        update_keys(self.database, table, column, &writes)?;
        self.note_modified(number, table, column, changes)
    }

    fn note_modified(
        &mut self,
        number: u32,
        table: &Known,
        column: &str,
        mut changes: Vec<Overwritten>,
    ) -> Result<(), Error> {
        for it in &mut changes {
            it.record.identity = moved(table, &it.record.identity, column, &it.record.after);
        }
        // What is stored may differ from what was drawn (a text column given a number): read it back.
        let keys: Vec<Vec<Value>> = changes
            .iter()
            .map(|it| it.record.identity.clone())
            .collect();
        let mut columns = table.identity.clone();
        columns.push(column.to_owned());
        let now = select_keys(self.database, &table.name, &columns, &table.identity, &keys)?;
        let mut stored: BTreeMap<Vec<u8>, Value> = BTreeMap::new();
        for mut row in now {
            if let Some(value) = row.pop() {
                stored.insert(encoded(&row), value);
            }
        }
        if table.identity.iter().any(|key| key == column) {
            self.note_moved(stored.keys());
        }
        let mut kept: BTreeMap<Vec<u8>, Vec<Modified>> = BTreeMap::new();
        for mut it in changes {
            if let Some(value) = stored.get(&encoded(&it.record.identity)) {
                it.record.after = value.clone();
            }
            kept.entry(it.keeper).or_default().push(it.record);
        }
        for (keeper, rows) in kept {
            let change = Change::Modified {
                identity: table.identity.clone(),
                column: column.to_owned(),
                rows,
            };
            self.note_for(keeper, number, table, change)?;
        }
        Ok(())
    }

    /// What the users table calls each person to whom rows belong: the user alone, or all owners and readers.
    fn own_names(
        &mut self,
        redact: &Redact,
        table: &Known,
        columns: &[String],
        rows: &[Vec<Value>],
    ) -> Result<BTreeMap<Vec<u8>, Names>, Error> {
        let mut own = BTreeMap::new();
        if redact.own_names.is_empty() {
            return Ok(own);
        }
        let people = match self.user {
            Some(user) => vec![user.clone()],
            None => self.people(table, columns, rows)?.concat(),
        };
        let mut seen = BTreeSet::new();
        let people = people.into_iter();
        let people = people.filter(|it| !it.is_nobody() && seen.insert(it.principal()));
        let keys: Vec<Vec<Value>> = people.map(|it| vec![it]).collect();
        let pseudo = &self.live.pseudo;
        let mut wanted = vec![pseudo.id.clone()];
        wanted.extend(redact.own_names.iter().cloned());
        let by = std::slice::from_ref(&pseudo.id);
        for row in select_keys(self.database, &pseudo.table, &wanted, by, &keys)? {
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

    /// As much of `text` as the column takes; a mark may be longer than what it stands for.
    fn fitting(&self, table: &Known, column: &str, text: String) -> String {
        let limit = match self.database.dialect() {
            // What is declared there holds nothing back.
            Dialect::Sqlite => None,
            _ => table.catalog.column(column).and_then(Column::length_max),
        };
        match limit {
            Some(most) if text.chars().count() > most => text.chars().take(most).collect(),
            _ => text,
        }
    }
}
