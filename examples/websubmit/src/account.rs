//! An account: made, entered, left, and taken up again.

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Credential, DisguiseId, Protection, RecoveryToken, References, RevealRequest,
    Revealed, Rows, Value,
};
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::problem::Problem;
use crate::request_context::{RequestContext, specification};

const LEAVE: &str = include_str!("../disguises/leave.toml");
const CLOSE: &str = include_str!("../disguises/close.toml");

const PASSWORD_CHARS_MIN: usize = 12;
const PASSWORD_BYTES_MAX: usize = 1_000;
const EMAIL_BYTES_MAX: usize = 190;

/// A password on its way from a form to the engine: never printed, never stored.
#[derive(Deserialize)]
#[serde(from = "String")]
pub(crate) struct Password(Zeroizing<String>);

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl Password {
    pub(crate) fn credential(&self) -> Credential<'_> {
        Credential::Password(&self.0)
    }
}

/// The person who is signed in.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) is_teacher: bool,
}

impl Person {
    pub(crate) fn id(&self) -> Value {
        Value::from(self.email.as_str())
    }
}

impl RequestContext {
    /// Makes an account. The token opens what the password opens; nobody else has either of them.
    ///
    /// Nothing here tells that somebody with this address is away, so the address could be taken meanwhile: its taker
    /// gets nothing of theirs, but they cannot come back. An application for the world sends a mail to it first.
    pub(crate) fn register(
        &mut self,
        email: &str,
        password: &Password,
    ) -> Result<Option<RecoveryToken>, Problem> {
        let email = checked(email)?;
        if password.0.chars().count() < PASSWORD_CHARS_MIN || password.0.len() > PASSWORD_BYTES_MAX
        {
            return Err(Problem::Form("A password has 12 characters or more."));
        }
        let user = Value::from(email.as_str());
        let row = std::slice::from_ref(&user);
        // The row first: should the program end between the two, the same form makes the account whole.
        let sql = "INSERT INTO users VALUES (?, 0, 0) ON CONFLICT DO NOTHING";
        let is_new = self.change(sql, row)? != 0;
        let protection = Protection::Password(&password.0);
        let registered = self.engine.people().register(&user, protection, self.now);
        if registered.is_err() && is_new {
            self.change("DELETE FROM users WHERE email = ?", row)?;
        }
        Ok(registered?.token)
    }

    /// Finds the person with this address and password. The application keeps no password of its own: the engine knows whether it
    /// opens the person's key.
    pub(crate) fn sign_in(&mut self, email: &str, password: &Password) -> Result<Person, Problem> {
        let user = Value::from(checked(email)?.as_str());
        self.engine.list(&user, &password.credential(), self.now)?;
        self.person(&user)?.ok_or(Problem::Away)
    }

    /// The account at this address.
    pub(crate) fn person(&mut self, user: &Value) -> Result<Option<Person>, Problem> {
        let sql = "SELECT email, is_teacher FROM users WHERE email = ? AND is_placeholder = 0";
        let rows = self.rows(sql, std::slice::from_ref(user))?;
        Ok(rows.first().and_then(|row| match row.as_slice() {
            [Value::Text(email), Value::Int(teacher)] => Some(Person {
                email: email.clone(),
                is_teacher: *teacher != 0,
            }),
            _ => None,
        }))
    }

    /// Makes the account at this address a teacher's.
    pub(crate) fn make_teacher(&mut self, email: &str) -> Result<(), Problem> {
        let user = Value::from(checked(email)?.as_str());
        match self.change("UPDATE users SET is_teacher = 1 WHERE email = ?", &[user])? {
            0 => Err(Problem::Form("There is no account with this address.")),
            _ => Ok(()),
        }
    }

    /// Hides everything of a person: with the password also what already lies under placeholders.
    pub(crate) fn leave(&mut self, person: &Person, password: &Password) -> Result<(), Problem> {
        self.engine.apply(&ApplyRequest {
            spec: &specification(LEAVE)?,
            user: Some(person.id()),
            over: Some(password.credential()),
            parameters: BTreeMap::new(),
            expires: None,
            time: self.now,
        })?;
        Ok(())
    }

    /// Puts every answer of the term under placeholders.
    pub(crate) fn close_term(&mut self) -> Result<u64, Problem> {
        let applied = self.engine.apply(&ApplyRequest {
            spec: &specification(CLOSE)?,
            user: None,
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: self.now,
        })?;
        Ok(applied.rows.values().sum())
    }

    /// Brings back somebody who left. The last thing that was hidden of them is their leaving.
    pub(crate) fn come_back(
        &mut self,
        email: &str,
        password: &Password,
    ) -> Result<(Person, Revealed), Problem> {
        let user = Value::from(checked(email)?.as_str());
        if self.person(&user)?.is_some() {
            return Err(Problem::Form("This account is not away; sign in."));
        }
        let hidden = self.engine.list(&user, &password.credential(), self.now)?;
        let last = hidden.last().ok_or(Problem::WrongPassword)?.id;
        let revealed = self.reveal(&user, password, last)?;
        let person = self.person(&user)?.ok_or(Problem::Away)?;
        Ok((person, revealed))
    }

    /// Brings back what one disguise hid, as far as nothing stands in the way.
    pub(crate) fn reveal(
        &mut self,
        user: &Value,
        password: &Password,
        id: DisguiseId,
    ) -> Result<Revealed, Problem> {
        Ok(self.engine.reveal(&RevealRequest {
            user: user.clone(),
            credential: password.credential(),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: self.now,
        })?)
    }
}

/// An address as it is stored.
fn checked(email: &str) -> Result<String, Problem> {
    let email = email.trim().to_ascii_lowercase();
    let sound = email.len() <= EMAIL_BYTES_MAX
        && email
            .split_once('@')
            .is_some_and(|(name, place)| !name.is_empty() && !place.is_empty())
        && !email.contains(|it: char| it.is_whitespace() || it.is_control());
    if sound {
        Ok(email)
    } else {
        Err(Problem::Form("An e-mail address has the form name@place."))
    }
}
