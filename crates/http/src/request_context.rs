//! The context of one request: its database, the log that takes its entry, its actor and its time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use probity_disguise::{Answered, Engine, Once, SubjectKey, Value};
use probity_format::note::SigningKey;
use probity_format::{Entry, Timestamp};
use probity_log::Log;
use probity_log::reader::Reader;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::credential::GivenForm;
use crate::database_entry::{DatabaseEntry, LoadedSpec};
use crate::pool::{ConnectionPermit, PooledConnection};
use crate::problem::{Kind, Problem};
use crate::repeat::Repeat;

/// The engine over any database.
pub(crate) type AnyEngine = Engine<PooledConnection>;

/// The context in which an operation runs.
pub(crate) struct RequestContext<'a> {
    pub(crate) database: &'a DatabaseEntry,
    /// The permit for the connection, whose admission lets in each transaction.
    pub(crate) permit: &'a Arc<ConnectionPermit>,
    /// The connection that was opened before the request took its place, or why there is none.
    pub(crate) opened: Cell<Option<Result<PooledConnection, Problem>>>,
    pub(crate) log: &'a Log,
    /// A reader of the log.
    pub(crate) reader: &'a Reader,
    /// The key of the names that people have in the log.
    pub(crate) names: &'a Arc<SubjectKey>,
    pub(crate) signer: Option<&'a SigningKey>,
    /// The name of the token: the actor of every entry.
    pub(crate) actor: &'a str,
    /// The identity of the request, if it may be repeated.
    pub(crate) repeat: Option<&'a Repeat>,
    pub(crate) time: Timestamp,
    /// The time until which the answer is kept.
    pub(crate) kept_until: Timestamp,
    /// Reports to the operator what needs attention although the operation was done.
    pub(crate) complain: fn(&str),
}

/// An engine over a connection of its own, whose operations are logged.
pub(crate) struct Session {
    pub(crate) engine: AnyEngine,
    pub(crate) entries: Entries,
}

/// The log entries of the operations of a session.
pub(crate) struct Entries {
    stream: String,
    last: Rc<Cell<Option<u64>>>,
}

/// The position of an operation's entry in the log.
#[derive(Serialize, Deserialize, ToSchema)]
pub(crate) struct EntryForm {
    /// The stream.
    stream: String,
    /// The index of the entry in it.
    index: u64,
}

impl RequestContext<'_> {
    /// Returns a connection to the database.
    pub(crate) fn connection(&self) -> Result<PooledConnection, Problem> {
        match self.opened.take() {
            Some(opened) => opened,
            None => self.database.connect(self.permit, self.time),
        }
    }

    /// Returns a session with the description that the database holds.
    pub(crate) fn stored(&self) -> Result<Session, Problem> {
        self.session(Engine::stored(self.connection()?)?)
    }

    /// Refuses operations on a whole database where the configuration selects one of its tenants.
    pub(crate) fn of_all_tenants(&self) -> Result<(), Problem> {
        if self.database.tenant.is_none() {
            return Ok(());
        }
        let detail = "this is about the whole database, and the configuration has one of its tenants under this name";
        Err(Problem::new(Kind::Unfit, detail))
    }

    /// Returns a session for a specification.
    pub(crate) fn described(&self, spec: &LoadedSpec) -> Result<Session, Problem> {
        let beside = (spec.schema.clone(), spec.pseudo.clone());
        let engine = Engine::described_by(self.connection()?, Some(&spec.file), beside)?;
        let engine = engine
            .ok_or_else(|| Problem::new(Kind::NotInstalled, "nothing says who the users are"))?;
        self.session(engine)
    }

    fn session(&self, mut engine: AnyEngine) -> Result<Session, Problem> {
        if let Some(tenant) = &self.database.tenant {
            engine.set_written_tenant(tenant)?;
        }
        engine.set_admission(Arc::clone(self.permit.pace()));
        engine.set_subject_key(Arc::clone(self.names));
        engine.set_notice(Box::new(self.complain));
        let mut appender = self.log.appender(&self.database.stream).map_err(|error| {
            Problem::new(Kind::NotRecorded, "the log takes no entries").because(&error)
        })?;
        let last = Rc::new(Cell::new(None));
        let (seen, actor) = (Rc::clone(&last), self.actor.to_owned());
        engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            let mut entry = *entry;
            if entry.actor.is_empty() {
                entry.actor = &actor;
            }
            let receipt = appender.append_durable(&entry)?;
            seen.set(Some(receipt.index));
            Ok(())
        }));
        let entries = Entries {
            stream: self.database.stream.to_string(),
            last,
        };
        Ok(Session { engine, entries })
    }

    /// Runs an operation, unless it was done before under the same key: then the stored answer is
    /// returned.
    pub(crate) fn once<A: Serialize + DeserializeOwned>(
        &self,
        session: &mut Session,
        work: impl FnMut(&mut AnyEngine, &Entries) -> Result<A, Problem>,
    ) -> Result<A, Problem> {
        let kept = |answer: &A| serde_json::to_vec(answer).map(Some);
        match self.attempt(session, work, kept)? {
            Answered::Now(answer) => Ok(answer),
            Answered::Before(answer) => serde_json::from_slice(&answer).map_err(|error| {
                let detail = "the answer that was kept is of another form";
                Problem::new(Kind::Defect, detail).because(&error)
            }),
            Answered::Withheld => Err(withheld()),
        }
    }

    /// Runs an operation once; its answer holds a credential and is stored nowhere. Where it is not
    /// known whether it was committed, the problem holds the credential, as shares if `in_shares`.
    pub(crate) fn once_in_secret<A>(
        &self,
        session: &mut Session,
        in_shares: bool,
        work: impl FnMut(&mut AnyEngine, &Entries) -> Result<A, Problem>,
    ) -> Result<A, Problem> {
        let given = Rc::new(Cell::new(None));
        let taker = Rc::clone(&given);
        session.engine.set_hand_over(Box::new(move |made| {
            let form = GivenForm::new(made, in_shares);
            taker.set(Some(form.map_err(|problem| problem.detail().to_owned())?));
            Ok(())
        }));
        match self.attempt(session, work, |_secret| Ok(None)) {
            Ok(Answered::Now(answer)) => Ok(answer),
            Ok(Answered::Before(_) | Answered::Withheld) => Err(withheld()),
            Err(problem) => Err(problem.or_given(given.take())),
        }
    }

    /// Returns the request in the form of the engine, if it may be repeated.
    pub(crate) fn asked_once(&self) -> Option<Once<'_>> {
        self.repeat.map(|repeat| self.named(repeat))
    }

    fn named<'r>(&self, repeat: &'r Repeat) -> Once<'r> {
        Once {
            caller: &repeat.caller,
            key: &repeat.key,
            request: &repeat.request,
            time: self.time,
            until: self.kept_until,
        }
    }

    fn attempt<A>(
        &self,
        session: &mut Session,
        mut work: impl FnMut(&mut AnyEngine, &Entries) -> Result<A, Problem>,
        kept: impl Fn(&A) -> serde_json::Result<Option<Vec<u8>>>,
    ) -> Result<Answered<A>, Problem> {
        let Session { engine, entries } = session;
        let Some(repeat) = self.repeat else {
            return work(engine, entries).map(Answered::Now);
        };
        // The table may be missing if an older program has prepared the database.
        self.database.install(engine, None)?;
        engine.once(&self.named(repeat), |engine| {
            let answer = work(engine, entries)?;
            let kept = kept(&answer).map_err(|error| {
                Problem::new(Kind::Defect, "the answer was not written").because(&error)
            })?;
            Ok((answer, kept))
        })
    }
}

impl Session {
    /// Returns the user of a request, as the users table has it.
    pub(crate) fn user(&mut self, text: &str) -> Result<Value, Problem> {
        let user = self.engine.user(text)?;
        // A person has one name, in answers as in the log.
        if user.written() != text {
            let detail = "the id of a user is written as the users table has it, a number without a plus or zeros before it, bytes as 0x and small hexadecimal digits";
            return Err(Problem::new(Kind::Unfit, detail));
        }
        Ok(user)
    }

    /// Returns the position of the last entry, if there is one.
    pub(crate) fn entry(&self) -> Option<EntryForm> {
        self.entries.entry()
    }
}

fn withheld() -> Problem {
    let detail = "it was done when it was asked for with this Idempotency-Key for the first time";
    Problem::new(Kind::AnswerWithheld, detail)
}

impl Entries {
    /// Returns the position of the last entry, if there is one.
    pub(crate) fn entry(&self) -> Option<EntryForm> {
        self.last.get().map(|index| EntryForm {
            stream: self.stream.clone(),
            index,
        })
    }
}
