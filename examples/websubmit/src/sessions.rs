//! Sessions: random names in cookies, kept in memory alone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use probity_log::clock::{Clock as _, SystemClock};

use crate::account::Person;
use crate::problem::Problem;

const SESSIONS_MAX: usize = 10_000;
const LIFE: Duration = Duration::from_hours(12);
const NAME_BYTES: usize = 16;

struct Session {
    person: Person,
    end: Duration,
}

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    clock: SystemClock,
    open: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    /// Begins a session; gives its name.
    pub(crate) fn begin(&self, person: Person) -> Result<String, Problem> {
        let mut name = [0; NAME_BYTES];
        rand::fill(&mut name).map_err(|_library| Problem::Broken("no randomness"))?;
        let name = URL_SAFE_NO_PAD.encode(name);
        let now = self.clock.elapsed();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, it| it.end > now);
        if open.len() >= SESSIONS_MAX {
            return Err(Problem::Busy);
        }
        let end = now.saturating_add(LIFE);
        open.insert(name.clone(), Session { person, end });
        Ok(name)
    }

    /// Returns the person of a session.
    pub(crate) fn find(&self, name: &str) -> Option<Person> {
        let now = self.clock.elapsed();
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(name)
            .filter(|it| it.end > now)
            .map(|it| it.person.clone())
    }

    /// Ends every session of the person at this address.
    pub(crate) fn end_all(&self, email: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, it| it.person.email != email);
    }

    /// Ends a session.
    pub(crate) fn end(&self, name: &str) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }
}
