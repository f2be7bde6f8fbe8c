//! The list of updates: how rows change while they are disguised.

use probity_format::Timestamp;

use super::options::Options;
use crate::database::Database;
use crate::error::{Error, SpecError};
use crate::execute::update::{self, Mapping, Recorded};
use crate::transaction::application::Application;
use crate::transaction::audit::OperationRequest;
use crate::transaction::payload::Payload;
use crate::transaction::transactions::Transactions;

/// The longest name of an update.
const NAME_BYTES_MAX: usize = 200;

/// The updates that are recorded, from [`Engine::updates`](crate::Engine::updates).
pub struct UpdateList<'e, D: Database> {
    pub(super) transactions: &'e mut Transactions<D>,
    pub(super) options: &'e Options,
}

impl<D: Database> UpdateList<'_, D> {
    /// Records updates, in order, after the migrations that changed the rows that are not disguised: rows that are
    /// disguised now meet them when they are revealed. Best done in one go with the migration; nobody may disguise
    /// anything in between.
    ///
    /// # Errors
    /// [`Error::Spec`] when they do not lead to the schema as it is, or a name is known already;
    /// [`Error::Update`] when an expression can be asked of no rows that are hidden; [`Error::Database`]. Nothing has changed then.
    pub fn record(&mut self, updates: &[Mapping], time: Timestamp) -> Result<(), Error> {
        let names: Vec<&str> = updates.iter().map(|it| it.name.as_str()).collect();
        let key = names.join(", ");
        let asked = OperationRequest::new("disguise.update", key, None, time);
        self.transactions.operation_of_all(&asked, |open| {
            open.refresh()?;
            let known = update::recorded(&mut open.database)?;
            refuse_unknown_between(updates)?;
            let (catalog, _) = open.application.described()?;
            let records = updates.iter().enumerate().map(|(number, mapping)| {
                // There is none behind the last.
                let later = updates.get(number.saturating_add(1)..);
                Recorded::of(mapping, catalog, later.unwrap_or_default())
            });
            let mut records: Vec<Recorded> = records.collect();
            for (number, mapping) in updates.iter().enumerate() {
                let later = updates.get(number.saturating_add(1)..).unwrap_or_default();
                refuse_unfit(&open.application, mapping, later)?;
                let (catalog, _) = open.application.described()?;
                let before = known
                    .iter()
                    .chain(&records)
                    .take(known.len().saturating_add(number));
                let before: Vec<&Recorded> = before.collect();
                let found = mapping.types_found(&mut open.database, catalog, &before)?;
                let mut later = records.get(number..).unwrap_or_default().to_vec();
                if let Some(own) = later.first_mut() {
                    own.note_found(found.clone());
                }
                let sides = (&*before, &*later);
                let nulls = mapping.refuse_unaskable(&mut open.database, catalog, sides)?;
                if let Some(record) = records.get_mut(number) {
                    record.note_found(found);
                    record.note_nulls(nulls);
                }
            }
            append(open, &records, &asked)
        })
    }

    /// Records the update by code that [`Options::set_update`] gave under `name`.
    ///
    /// # Errors
    /// [`Error::Value`] when there is no such code or the name is known already; [`Error::Database`].
    pub fn record_code(&mut self, name: &str, time: Timestamp) -> Result<(), Error> {
        if !self.options.updates.contains_key(name) {
            let what = format!("there is no code for update {name}");
            return Err(Error::Value { what });
        }
        let record = Recorded::of_code(name);
        let asked = OperationRequest::new("disguise.update", name.to_owned(), None, time);
        self.transactions.operation_of_all(&asked, |open| {
            append(open, std::slice::from_ref(&record), &asked)
        })
    }

    /// Puts another mapping in the place of one that was recorded under the same name, for instance because it does
    /// not fit what is hidden. Records that met the old one stay as it made them.
    ///
    /// # Errors
    /// [`Error::Spec`] when it does not lead to the schema as it is, [`Error::Value`] when there is none of this name;
    /// [`Error::Update`] when an expression can be asked of no rows that are hidden; [`Error::Database`].
    pub fn replace(&mut self, mapping: &Mapping, time: Timestamp) -> Result<(), Error> {
        let asked = OperationRequest::new("disguise.update", mapping.name.clone(), None, time);
        self.transactions.operation_of_all(&asked, |open| {
            open.refresh()?;
            refuse_unfit(&open.application, mapping, &[])?;
            let mut all = update::recorded(&mut open.database)?;
            let place = all.iter().position(|it| it.name == mapping.name);
            let later = place.and_then(|place| all.get(place.saturating_add(1)..));
            let Some(later) = later else {
                let what = format!("there is no update {}", mapping.name);
                return Err(Error::Value { what });
            };
            let later = later.iter().filter_map(|it| it.mapping.clone());
            let later: Vec<Mapping> = later.collect();
            let (catalog, _) = open.application.described()?;
            let mut anew = Recorded::of(mapping, catalog, &later);
            let before: Vec<&Recorded> = all.iter().take(place.unwrap_or_default()).collect();
            anew.note_found(mapping.types_found(&mut open.database, catalog, &before)?);
            if let Some(replaced) = place.and_then(|place| all.get(place)) {
                anew.keep_types(replaced);
            }
            for it in all.iter_mut().filter(|it| it.name == mapping.name) {
                it.clone_from(&anew);
            }
            let before: Vec<&Recorded> = all
                .iter()
                .take_while(|it| it.name != mapping.name)
                .collect();
            let later = all.get(before.len()..).unwrap_or_default();
            let sides = (&*before, later);
            let nulls = mapping.refuse_unaskable(&mut open.database, catalog, sides)?;
            for it in all.iter_mut().filter(|it| it.name == mapping.name) {
                it.note_nulls(nulls.clone());
            }
            update::put(&mut open.database, all)?;
            open.done(&asked, Payload::new().with("replaced", true))
        })
    }

    /// The names of all updates, the oldest first.
    ///
    /// # Errors
    /// [`Error::Database`], [`Error::NotInstalled`].
    pub fn names(&mut self) -> Result<Vec<String>, Error> {
        let all = update::recorded(&mut self.transactions.database)?;
        Ok(all.into_iter().map(|it| it.name).collect())
    }
}

/// Refuses an update that does not lead to the schema as it is, or to rows that could not be told apart.
fn refuse_unfit(
    application: &Application,
    mapping: &Mapping,
    later: &[Mapping],
) -> Result<(), Error> {
    let (catalog, live) = application.described()?;
    mapping.check(catalog, later)?;
    for target in &mapping.into {
        let known = live.table(&target.table);
        if known.is_some_and(|table| table.identity.is_empty()) {
            let what = format!(
                "table {} has no identifying columns; give it a primary key first",
                target.table
            );
            let place = format!("update {}", mapping.name);
            return Err(SpecError::new(place, what).into());
        }
    }
    Ok(())
}

/// Refuses updates of which two make one column by expressions: nothing says which type it had between
/// them.
fn refuse_unknown_between(updates: &[Mapping]) -> Result<(), Error> {
    for (number, mapping) in updates.iter().enumerate() {
        let later = updates.get(number.saturating_add(1)..).unwrap_or_default();
        for (table, columns) in mapping.makes() {
            for column in columns {
                let makes_it = |it: &&Mapping| {
                    let mut makes = it.makes().filter(|(to, _)| *to == table);
                    it.table == table && makes.any(|(_, mut all)| all.any(|it| it == column))
                };
                if let Some(again) = later.iter().find(makes_it) {
                    let what = format!(
                        "makes column {column} of {table}, which update {} makes again, so that nothing says its type between the two: record each after its own migration, before the next",
                        again.name
                    );
                    let place = format!("update {}", mapping.name);
                    return Err(SpecError::new(place, what).into());
                }
            }
        }
    }
    Ok(())
}

fn append<D: Database>(
    open: &mut Transactions<D>,
    records: &[Recorded],
    asked: &OperationRequest<'_>,
) -> Result<(), Error> {
    let mut all = update::recorded(&mut open.database)?;
    for record in records {
        if record.name.len() > NAME_BYTES_MAX {
            let what = format!("the name of an update has more than {NAME_BYTES_MAX} bytes");
            return Err(Error::Value { what });
        }
        if all.iter().any(|it| it.name == record.name) {
            let what = format!("update {} is recorded already", record.name);
            return Err(Error::Value { what });
        }
        all.push(record.clone());
    }
    update::put(&mut open.database, all)?;
    open.done(asked, Payload::new())
}
