//! Rows whose owner the database and the users' ids do not agree on, found before anything changes.

use std::collections::{BTreeMap, BTreeSet};

use super::planner::Planner;
use crate::database::fragment::Fragment;
use crate::database::value::Value;
use crate::database::{Database, Dialect};
use crate::error::{Doing as _, Error};
use crate::plan::likeness::Spellings;
use crate::plan::step::{Step, are_many};
use crate::spec::Kind;
use crate::statements::table::found;

/// A query about a column that compares otherwise than the users' ids, and what its answer means.
struct Question {
    place: (String, String),
    asked: Fragment,
    of_two_people: String,
    of_form: String,
    of_storage: String,
    /// True if a value of another type names somebody although nothing declares it.
    is_converted: bool,
    /// True if the ids have no type, so that a text and a number are two of them.
    is_untyped: bool,
}

impl Question {
    /// Returns the values of an answer that are no ids of the owners, which `own` has with their
    /// storage; refuses one that somebody else is named by.
    fn others(
        &self,
        own: &BTreeMap<Vec<u8>, u8>,
        answer: Vec<Vec<Value>>,
    ) -> Result<BTreeMap<Vec<u8>, Value>, Error> {
        let is_own = |it: &Value| own.contains_key(&it.principal());
        let mut others = BTreeMap::new();
        for row in answer {
            let Ok([_, value, of]) = <[Value; 3]>::try_from(row) else {
                let what = "a row of a question about owners has other columns than were asked for";
                return Err(Error::Defect { what });
            };
            if !of.is_null() && !is_own(&of) {
                let what = self.of_two_people.clone();
                return Err(Error::Value { what });
            }
            let stored = own.get(&value.principal());
            if self.is_untyped && stored.is_some_and(|it| *it != value.storage()) {
                let what = self.of_storage.clone();
                return Err(Error::Value { what });
            }
            if !is_own(&value) {
                others.insert(value.principal(), value);
            }
        }
        Ok(others)
    }
}

impl<D: Database> Planner<'_, D> {
    /// Refuses rows that name somebody, beside whom is meant, by a value that the database finds as
    /// no id: the column alone takes it for one, or it is stored as another type. The row would go
    /// as one of nobody's, and a hold on that person would not bind it.
    pub(super) fn refuse_strange_values(
        &mut self,
        steps: &[Step],
        of_one: bool,
    ) -> Result<(), Error> {
        for (asked, refusals) in self.doubts(steps, of_one)? {
            let answer = self.open.database.query(&asked.sql, &asked.parameters);
            let answer = answer.doing("looking whose the rows are")?;
            let [of_storage, of_form, of_two_people] = refusals;
            let what = match answer.into_iter().flatten().next() {
                None => continue,
                Some(Value::Int(0)) => of_storage,
                Some(Value::Int(1)) => of_form,
                Some(_) => of_two_people,
            };
            return Err(Error::Value { what });
        }
        Ok(())
    }

    /// Returns the queries for such values in the rows of `steps`, each with what to say of an
    /// answer. In a row of one person that names nobody else there are none, and a row that stays
    /// is lost to nobody.
    fn doubts(&self, steps: &[Step], of_one: bool) -> Result<Vec<(Fragment, [String; 3])>, Error> {
        let (_, live) = self.open.application.described()?;
        let (dialect, tenancy) = (self.open.database.dialect(), &self.open.database.tenancy);
        let mut doubts = Vec::new();
        for step in steps {
            let Some(table) = live.table(&step.table) else {
                continue;
            };
            let goes = matches!(step.kind, Kind::Remove | Kind::Modify { .. });
            let is_shared = goes && table.people().count() > 1;
            if table.name == live.pseudo.table || (of_one && !is_shared) {
                continue;
            }
            let own = live.others(table).map(|it| (table, it.as_str()));
            let end = live.path_end(table).filter(|_| !of_one);
            for (of, column) in own.chain(end) {
                let Some(naming) = live.naming(of, column) else {
                    continue;
                };
                let chosen = std::ptr::eq(of, table).then_some(&step.chosen);
                let refusals = [
                    naming.of_storage(),
                    naming.of_form(dialect),
                    naming.of_two_people(),
                ];
                if of_one && naming.is_unlike(dialect) {
                    let asked = naming.doubtful((dialect, tenancy), chosen);
                    doubts.push((asked, refusals.clone()));
                }
                if dialect == Dialect::Sqlite {
                    let asked = naming.stored_otherwise(tenancy, chosen);
                    doubts.extend(asked.map(|asked| (asked, refusals)));
                }
            }
        }
        Ok(doubts)
    }

    /// Returns the values that stand for `owners` beside their ids, and refuses rows of doubtful
    /// owners. Costs a query for each column that compares otherwise than the ids, and none where
    /// all have their type and collation.
    pub(super) fn spellings(
        &mut self,
        steps: &[Step],
        owners: Option<&[Value]>,
    ) -> Result<Spellings, Error> {
        let mut spellings = Spellings::new();
        for question in self.questions(steps, owners)? {
            let Fragment { sql, parameters } = &question.asked;
            let answer = self.open.database.query(sql, parameters);
            let answer = answer.doing("looking whose the rows are")?;
            let Some(owners) = owners else {
                let what = match answer.into_iter().flatten().next() {
                    None => continue,
                    Some(Value::Int(0)) => question.of_storage,
                    Some(Value::Int(1)) => question.of_form,
                    Some(_) => question.of_two_people,
                };
                return Err(Error::Value { what });
            };
            let others = self.others_of(&question, owners, answer)?;
            if !others.is_empty() {
                spellings.insert(question.place, others);
            }
        }
        Ok(spellings)
    }

    /// Returns the values of an answer that name one of `owners` in another form than the id.
    fn others_of(
        &mut self,
        question: &Question,
        owners: &[Value],
        answer: Vec<Vec<Value>>,
    ) -> Result<Vec<Value>, Error> {
        let own = owners.iter().map(|it| (it.principal(), it.storage()));
        let own: BTreeMap<Vec<u8>, u8> = own.collect();
        let is_own = |it: &Value| own.contains_key(&it.principal());
        let mut others = question.others(&own, answer)?;
        if !others.is_empty() {
            // The column may take further values for those that only the ids' comparison found, and
            // other people, too.
            let values: Vec<Value> = others.values().cloned().collect();
            let Fragment { sql, parameters } = self.also_chosen(question, &values)?;
            let answer = self.open.database.query(&sql, &parameters);
            let answer = answer.doing("looking whose the rows are")?;
            others.extend(question.others(&own, answer)?);
        }
        let others: Vec<Value> = others.into_values().collect();
        // The users' table has the last word: a reveal asks it in the same way.
        let pseudo = self.open.application.pseudo();
        let held = found(&mut self.open.database, &pseudo.table, &pseudo.id, &others)?;
        let holders = others.iter().map(|it| held.get(&it.principal()));
        let doubt = holders
            .filter(|it| question.is_converted || !it.is_some_and(is_own))
            .max_by_key(Option::is_some);
        let what = match doubt {
            None => return Ok(others),
            Some(Some(_)) if !question.is_converted => question.of_two_people.clone(),
            Some(_) => question.of_form.clone(),
        };
        Err(Error::Value { what })
    }

    /// Returns the query for what the column of a question takes for one of `values`.
    fn also_chosen(&self, question: &Question, values: &[Value]) -> Result<Fragment, Error> {
        let (dialect, tenancy) = (self.open.database.dialect(), &self.open.database.tenancy);
        let (_, live) = self.open.application.described()?;
        let (table, column) = &question.place;
        let table = live.table(table);
        let naming = table.and_then(|table| live.unlike(dialect, table, column));
        let naming = naming.ok_or(Error::NotInstalled)?;
        Ok(naming.chosen((dialect, tenancy), values, None))
    }

    fn questions(&self, steps: &[Step], owners: Option<&[Value]>) -> Result<Vec<Question>, Error> {
        let (_, live) = self.open.application.described()?;
        let (dialect, tenancy) = (self.open.database.dialect(), &self.open.database.tenancy);
        let mut seen = BTreeSet::new();
        let mut questions = Vec::new();
        let tables = steps.iter().filter_map(|step| live.table(&step.table));
        for it in tables.flat_map(|table| live.all_unlike(dialect, table)) {
            let place = (it.table.name.clone(), it.column.name.clone());
            if !seen.insert(place.clone()) {
                continue;
            }
            let asked = match owners {
                Some(owners) => it.meant((dialect, tenancy), owners, are_many(owners)),
                None => it.doubtful((dialect, tenancy), None),
            };
            questions.push(Question {
                place,
                asked,
                of_two_people: it.of_two_people(),
                of_form: it.of_form(dialect),
                of_storage: it.of_storage(),
                is_converted: it.is_converted(dialect),
                is_untyped: it.is_untyped(dialect),
            });
        }
        Ok(questions)
    }
}
