//! A filled database with all users registered, and the operations on it.

use std::collections::BTreeMap;
use std::time::Instant;

use probity_disguise::{
    Applied, ApplyRequest, Credential, Database, Dialect, DisguiseId, Engine, Protection,
    References, RevealRequest, Rows, SecretKey, Spec, SpecFile, Suite, Value,
};
use probity_format::Timestamp;

use super::application::{Application, Size, Users};
use super::place::{Filler, Place, made_by};
use crate::command::BenchError;
use crate::workload::Random;

/// First timestamp of disguises; it is fixed, so that runs are comparable.
const FIRST_TIME: i64 = 1_767_225_600_000_000_000;

/// A filled database, and the keys of the measured users.
pub(crate) struct Ready {
    pub(crate) engine: Engine<Box<dyn Database>>,
    pub(crate) users: Users,
    pub(crate) keys: BTreeMap<String, SecretKey>,
    pub(crate) registered_ms: Vec<f64>,
    time: i64,
}

impl Ready {
    /// Creates the database, fills it and registers all users.
    pub(crate) fn new(
        application: &Application,
        place: &Place,
        size: Size,
        suite: Suite,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let mut database = place.empty(application.tables)?;
        for sql in application.tables {
            database.execute(sql, &[])?;
        }
        database.begin()?;
        let mut filler = Filler::new(database.as_mut(), Random::new(seed));
        let users = (application.fill)(&mut filler, size)?;
        filler.flush()?;
        database.commit()?;
        count_rows(database.as_mut(), application.tables)?;
        let file = SpecFile::parse(application.description)?;
        let pseudo = file
            .pseudo
            .ok_or_else(|| BenchError::Failed("an application without users".into()))?;
        let mut engine = Engine::new(database, file.schema, pseudo);
        engine.options().suite = Some(suite);
        engine.install()?;
        let mut ready = Self {
            engine,
            users,
            keys: BTreeMap::new(),
            registered_ms: Vec::new(),
            time: FIRST_TIME,
        };
        for user in ready.users.all.clone() {
            let time = ready.now()?;
            let (made, ms) = timed(|| {
                let register = ready
                    .engine
                    .people()
                    .register(&user, Protection::KeyAlone, time);
                Ok(register?)
            })?;
            ready.keys.insert(user.to_string(), made.key);
            ready.registered_ms.push(ms);
        }
        Ok(ready)
    }

    /// Opens another connection to a filled database for one user's disguises.
    pub(crate) fn beside(place: &Place, user: &Value, key: SecretKey) -> Result<Self, BenchError> {
        Ok(Self {
            engine: Engine::stored(place.connect()?)?,
            users: Users {
                all: vec![user.clone()],
                measured: vec![user.clone()],
                share: 1,
            },
            keys: BTreeMap::from([(user.to_string(), key)]),
            registered_ms: Vec::new(),
            time: FIRST_TIME,
        })
    }

    /// Returns `count` of the users to be measured, evenly spread.
    pub(crate) fn measured(&self, count: usize) -> Vec<Value> {
        let step = (self.users.measured.len() / count.max(1)).max(1);
        let spread = self.users.measured.iter().step_by(step);
        spread.take(count).cloned().collect()
    }

    pub(crate) fn key(&self, user: &Value) -> Result<SecretKey, BenchError> {
        let key = self.keys.get(&user.to_string());
        let key = key.ok_or_else(|| BenchError::Failed("a user without a key".into()))?;
        Ok(SecretKey::of(key.suite(), *key.expose()))
    }

    pub(crate) fn now(&mut self) -> Result<Timestamp, BenchError> {
        self.time += 1;
        Timestamp::from_nanoseconds(self.time)
            .map_err(|_range| BenchError::Failed("the time of the run is out of range".into()))
    }

    pub(crate) fn apply(
        &mut self,
        spec: &Spec,
        user: Option<&Value>,
        over: Option<&SecretKey>,
    ) -> Result<Applied, BenchError> {
        let time = self.now()?;
        Ok(self.engine.apply(&ApplyRequest {
            spec,
            user: user.cloned(),
            over: over.map(Credential::Key),
            parameters: BTreeMap::new(),
            expires: None,
            time,
        })?)
    }

    /// Reveals a disguise completely, or returns an error.
    pub(crate) fn reveal(&mut self, user: &Value, id: DisguiseId) -> Result<(), BenchError> {
        let (time, key) = (self.now()?, self.key(user)?);
        let revealed = self.engine.reveal(&RevealRequest {
            user: user.clone(),
            credential: Credential::Key(&key),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time,
        })?;
        match revealed.kept.first() {
            None => Ok(()),
            Some(kept) => Err(BenchError::Failed(format!(
                "a row of {} stayed disguised: {}",
                kept.table,
                kept.reason.as_str()
            ))),
        }
    }
}

/// Updates the database's statistics, as a running application's database would have done, because
/// query plans depend on them.
fn count_rows(database: &mut dyn Database, statements: &[&str]) -> Result<(), BenchError> {
    let made = statements.iter().filter_map(|sql| made_by(sql));
    let tables: Vec<String> = made.map(|table| database.dialect().quote(table)).collect();
    for table in tables {
        let sql = match database.dialect() {
            Dialect::Mysql => format!("ANALYZE TABLE {table}"),
            _ => format!("ANALYZE {table}"),
        };
        database.query(&sql, &[])?;
    }
    Ok(())
}

/// Returns the result of `work` and its duration in milliseconds.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the system's clock"
)]
pub(crate) fn timed<T>(
    work: impl FnOnce() -> Result<T, BenchError>,
) -> Result<(T, f64), BenchError> {
    let started = Instant::now();
    let done = work()?;
    Ok((done, started.elapsed().as_secs_f64() * 1_000.0))
}
