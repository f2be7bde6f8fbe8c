//! Lectures, their questions, and what was answered.

use probity_disguise::Value;

use crate::account::Person;
use crate::problem::Problem;
use crate::request_context::RequestContext;

const ANSWER_BYTES_MAX: usize = 10_000;

/// A lecture, and how much of it a person has answered.
pub(crate) struct Lecture {
    pub(crate) id: i64,
    pub(crate) label: String,
    pub(crate) questions: i64,
    pub(crate) answered: i64,
}

/// A question, and what a person has answered to it.
pub(crate) struct Question {
    pub(crate) number: i64,
    pub(crate) text: String,
    pub(crate) answer: String,
}

/// An answer as a teacher sees it.
pub(crate) struct Answer {
    /// Absent when it lies under a placeholder.
    pub(crate) email: Option<String>,
    pub(crate) number: i64,
    pub(crate) text: String,
}

impl RequestContext {
    /// All lectures.
    pub(crate) fn lectures(&mut self, person: &Person) -> Result<Vec<Lecture>, Problem> {
        let sql = "SELECT id, label, (SELECT COUNT(*) FROM questions WHERE lecture = id), \
            (SELECT COUNT(*) FROM answers WHERE lecture = id AND email = ?) FROM lectures ORDER BY id";
        let rows = self.rows(sql, &[person.id()])?;
        let lectures = rows
            .into_iter()
            .filter_map(|row| match <[Value; 4]>::try_from(row) {
                Ok(
                    [
                        Value::Int(id),
                        Value::Text(label),
                        Value::Int(questions),
                        Value::Int(answered),
                    ],
                ) => Some(Lecture {
                    id,
                    label,
                    questions,
                    answered,
                }),
                _ => None,
            });
        Ok(lectures.collect())
    }

    /// A lecture's name.
    pub(crate) fn lecture(&mut self, id: i64) -> Result<String, Problem> {
        let rows = self.rows("SELECT label FROM lectures WHERE id = ?", &[Value::Int(id)])?;
        let label = rows.into_iter().flatten().next();
        label.map(|it| it.to_string()).ok_or(Problem::NotFound)
    }

    /// The questions of a lecture with the answers of `person`.
    pub(crate) fn questions(
        &mut self,
        person: &Person,
        lecture: i64,
    ) -> Result<Vec<Question>, Problem> {
        let sql = "SELECT questions.number, question, COALESCE(answer, '') FROM questions \
            LEFT JOIN answers ON answers.lecture = questions.lecture AND answers.number = questions.number \
            AND email = ? WHERE questions.lecture = ? ORDER BY questions.number";
        let rows = self.rows(sql, &[person.id(), Value::Int(lecture)])?;
        let questions = rows
            .into_iter()
            .filter_map(|row| match <[Value; 3]>::try_from(row) {
                Ok([Value::Int(number), Value::Text(text), Value::Text(answer)]) => {
                    Some(Question {
                        number,
                        text,
                        answer,
                    })
                }
                _ => None,
            });
        Ok(questions.collect())
    }

    /// Takes an answer, in place of an earlier one.
    pub(crate) fn answer(
        &mut self,
        owner: &Value,
        (lecture, number): (i64, i64),
        answer: &str,
    ) -> Result<(), Problem> {
        if answer.len() > ANSWER_BYTES_MAX {
            return Err(Problem::Form("An answer has at most 10,000 bytes."));
        }
        let place = [Value::Int(lecture), Value::Int(number)];
        let known = "SELECT 1 FROM questions WHERE lecture = ? AND number = ?";
        if self.rows(known, &place)?.is_empty() {
            return Err(Problem::NotFound);
        }
        let sql = "INSERT INTO answers (lecture, number, email, answer) VALUES (?, ?, ?, ?) \
            ON CONFLICT (email, lecture, number) DO UPDATE SET answer = excluded.answer";
        let mut row = place.to_vec();
        row.extend([owner.clone(), Value::from(answer)]);
        self.change(sql, &row)?;
        Ok(())
    }

    /// Returns everybody's answers to the questions of a lecture.
    pub(crate) fn answers(&mut self, lecture: i64) -> Result<Vec<Answer>, Problem> {
        let sql = "SELECT email, is_placeholder, number, answer FROM answers JOIN users USING (email) \
            WHERE lecture = ? ORDER BY number, email";
        let rows = self.rows(sql, &[Value::Int(lecture)])?;
        let answers = rows
            .into_iter()
            .filter_map(|row| match <[Value; 4]>::try_from(row) {
                Ok(
                    [
                        Value::Text(email),
                        Value::Int(placeholder),
                        Value::Int(number),
                        Value::Text(text),
                    ],
                ) => Some(Answer {
                    email: (placeholder == 0).then_some(email),
                    number,
                    text,
                }),
                _ => None,
            });
        Ok(answers.collect())
    }
}
