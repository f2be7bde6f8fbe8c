//! The answers of a person under placeholders: shown, edited, brought back, or given up, with their password alone.

use jiff::Timestamp;
use probity_disguise::{DisguiseId, Listed, Value};

use crate::account::{Password, Person};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// An answer that lies under a placeholder.
pub(crate) struct HiddenAnswer {
    pub(crate) placeholder: String,
    pub(crate) lecture: i64,
    pub(crate) number: i64,
    pub(crate) answer: String,
}

/// A disguise that can be undone.
pub(crate) struct Disguise {
    pub(crate) id: DisguiseId,
    /// Its day.
    pub(crate) since: String,
    /// Set when a part of it was undone.
    pub(crate) pending: bool,
}

impl Disguise {
    fn new(listed: &Listed) -> Self {
        let time = listed
            .time
            .map_or(0, probity_format::Timestamp::nanoseconds);
        let time = Timestamp::from_nanosecond(time.into()).unwrap_or_default();
        Self {
            id: listed.id,
            since: time.strftime("%Y-%m-%d").to_string(),
            pending: listed.pending,
        }
    }
}

/// Everything hidden of one person.
pub(crate) struct Hidden {
    pub(crate) disguises: Vec<Disguise>,
    pub(crate) answers: Vec<HiddenAnswer>,
}

impl RequestContext {
    /// Lists the disguises of `person` that are still in the database.
    pub(crate) fn hidden(
        &mut self,
        person: &Person,
        password: &Password,
    ) -> Result<Hidden, Problem> {
        let user = person.id();
        let listed = self.engine.list(&user, &password.credential(), self.now)?;
        let mut answers = Vec::new();
        for placeholder in self
            .engine
            .speaks_for(&user, &password.credential(), self.now)?
        {
            let sql = "SELECT lecture, number, answer FROM answers WHERE email = ? ORDER BY lecture, number";
            for row in self.rows(sql, std::slice::from_ref(&placeholder))? {
                let Ok([Value::Int(lecture), Value::Int(number), Value::Text(answer)]) =
                    <[Value; 3]>::try_from(row)
                else {
                    continue;
                };
                answers.push(HiddenAnswer {
                    placeholder: placeholder.to_string(),
                    lecture,
                    number,
                    answer,
                });
            }
        }
        answers.sort_by_key(|it| (it.lecture, it.number));
        Ok(Hidden {
            disguises: listed.iter().map(Disguise::new).collect(),
            answers,
        })
    }

    /// Edits an answer under a placeholder, for the one person who may act as that placeholder.
    pub(crate) fn edit_hidden(
        &mut self,
        person: &Person,
        password: &Password,
        placeholder: &str,
        place: (i64, i64),
        answer: &str,
    ) -> Result<(), Problem> {
        let placeholder = Value::from(placeholder);
        let own = self
            .engine
            .speaks_for(&person.id(), &password.credential(), self.now)?;
        if !own.contains(&placeholder) {
            return Err(Problem::NotYours);
        }
        self.answer(&placeholder, place, answer)
    }

    /// Destroys what would bring a hidden part back: it stays under its placeholders for ever.
    pub(crate) fn give_up(
        &mut self,
        person: &Person,
        password: &Password,
        id: DisguiseId,
    ) -> Result<(), Problem> {
        self.engine
            .forget(&person.id(), &password.credential(), id, self.now)?;
        Ok(())
    }
}
