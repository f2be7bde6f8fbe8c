//! Measures one application on one database: disguises of single users and by hand, the disguise of
//! all users, and disguises on top of that.

use std::collections::BTreeMap;

use probity_disguise::{Credential, Database, Dialect, Protection, SpecFile, Suite, Value};

use super::application::{Application, Disguise, Size};
use super::figure::{Figure, Way};
use super::manual::{Manual, metadata_bytes};
use super::place::{Place, called, insert};
use super::ready::{Ready, timed};
use crate::command::BenchError;
use crate::workload::Random;

/// Number of measurements of passwords, whose hash is slow by design.
const PASSWORDS: usize = 5;

/// The parameters of a measurement, and its figures so far.
pub(crate) struct Measurement<'a> {
    pub(crate) application: &'a Application,
    pub(crate) place: &'a Place,
    pub(crate) size: Size,
    pub(crate) users: usize,
    /// Number of measurements of the disguise of all users.
    pub(crate) rounds: usize,
    pub(crate) suite: Suite,
    pub(crate) seed: u64,
    pub(crate) figures: &'a mut Vec<Figure>,
}

/// The original rows of one user, by table.
type Kept = Vec<(String, Vec<Vec<Value>>)>;

impl Measurement<'_> {
    pub(crate) fn run(&mut self) -> Result<(), BenchError> {
        let mut ready = self.ready()?;
        self.accounts(&mut ready)?;
        let application = self.application;
        for disguise in application.personal {
            self.personal(&mut ready, disguise)?;
        }
        self.storage(&mut ready)?;
        drop(ready);
        if let Some(global) = &application.global {
            self.everybody(global)?;
        }
        self.place.empty(self.application.tables).map(drop)
    }

    fn ready(&self) -> Result<Ready, BenchError> {
        Ready::new(
            self.application,
            self.place,
            self.size,
            self.suite,
            self.seed,
        )
    }

    fn tell(&mut self, ready: &mut Ready, operation: &str, way: Way, samples: Vec<f64>) {
        self.tell_in(ready, operation, way, samples, "ms");
    }

    fn tell_in(
        &mut self,
        ready: &mut Ready,
        operation: &str,
        way: Way,
        mut samples: Vec<f64>,
        unit: &'static str,
    ) {
        samples.sort_by(f64::total_cmp);
        self.figures.push(Figure {
            database: called(ready.engine.database().dialect()),
            application: self.application.name,
            operation: operation.to_owned(),
            way,
            unit,
            samples,
        });
    }

    /// Measures the additional cost of an account: of a key, and of a password.
    fn accounts(&mut self, ready: &mut Ready) -> Result<(), BenchError> {
        let samples = std::mem::take(&mut ready.registered_ms);
        self.tell(ready, "register", Way::Disguise, samples);
        let mut samples = Vec::new();
        for user in ready.measured(PASSWORDS) {
            let key = ready.key(&user)?;
            let time = ready.now()?;
            let (_, ms) = timed(|| {
                let current = Credential::Key(&key);
                let new = Protection::Password("a long password");
                Ok(ready
                    .engine
                    .people()
                    .change_password(&user, &current, new, time)?)
            })?;
            samples.push(ms);
        }
        self.tell(ready, "set a password", Way::Disguise, samples);
        Ok(())
    }

    /// Measures one user after the other: by hand and undone, and disguised and revealed. The order
    /// of the ways rotates, so that each finds its rows cached equally often.
    fn personal(&mut self, ready: &mut Ready, disguise: &Disguise) -> Result<(), BenchError> {
        let spec = SpecFile::parse(disguise.spec)?.spec;
        let mut manual = self.manual();
        let mut samples: BTreeMap<Way, Vec<f64>> = BTreeMap::new();
        let mut back = Vec::new();
        for (turn, user) in ready.measured(self.users).into_iter().enumerate() {
            let before = ready.rows_of(self.application, &user)?;
            for way in Way::from_turn(turn) {
                if way == Way::Disguise {
                    let (applied, ms) = timed(|| ready.apply(&spec, Some(&user), None))?;
                    samples.entry(way).or_default().push(ms);
                    // A disguise that hid no rows has nothing to reveal.
                    if applied.rows.values().any(|rows| *rows > 0) {
                        let ((), ms) = timed(|| ready.reveal(&user, applied.id))?;
                        back.push(ms);
                    }
                    ready.expect_rows(self.application, &user, &before, disguise.name)?;
                } else if !disguise.by_hand.is_empty() {
                    let database = ready.engine.database().as_mut();
                    begin_by_hand(database)?;
                    let ((), ms) = timed(|| {
                        manual.run(database, disguise.by_hand, &user, way)?;
                        Ok(database.commit()?)
                    })?;
                    samples.entry(way).or_default().push(ms);
                    ready.put_back(self.application, &user, &before)?;
                }
            }
        }
        for (way, samples) in samples {
            self.tell(ready, disguise.name, way, samples);
        }
        self.tell(ready, disguise.back, Way::Disguise, back);
        Ok(())
    }

    /// Disguises every tenth user for good, and measures the bytes that later reveals need.
    #[expect(clippy::cast_precision_loss, reason = "counts of placeholders")]
    fn storage(&mut self, ready: &mut Ready) -> Result<(), BenchError> {
        let Some(disguise) = self.application.personal.last() else {
            return Ok(());
        };
        let spec = SpecFile::parse(disguise.spec)?.spec;
        let before = metadata_bytes(ready.engine.database().as_mut())?;
        let mut made = 0.0;
        for user in ready.measured(ready.users.measured.len() / 10) {
            made += ready.apply(&spec, Some(&user), None)?.pseudoprincipals as f64;
        }
        let after = metadata_bytes(ready.engine.database().as_mut())?;
        self.tell_bytes(
            ready,
            disguise.name,
            (after.0 - before.0, after.1 - before.1),
            made,
        );
        Ok(())
    }

    fn tell_bytes(&mut self, ready: &mut Ready, name: &str, bytes: (f64, f64), made: f64) {
        if made > 0.0 {
            for (what, bytes) in [("content", bytes.0), ("stored", bytes.1)] {
                let operation = format!("{name}: {what} a placeholder");
                let each = vec![bytes / made];
                self.tell_in(ready, &operation, Way::Disguise, each, "bytes");
            }
        }
    }

    fn manual(&self) -> Manual<'_> {
        Manual {
            application: self.application,
            random: Random::new(self.seed ^ 0x5EED),
            made: 0,
        }
    }

    /// Measures the disguise of all users and the same by hand, each on its own database, several
    /// times in rotation. Then it measures single users on top of the last disguise.
    fn everybody(&mut self, disguise: &Disguise) -> Result<(), BenchError> {
        let mut samples: BTreeMap<Way, Vec<f64>> = BTreeMap::new();
        for turn in 0..self.rounds {
            for way in Way::from_turn(turn) {
                let ms = if way == Way::Disguise {
                    self.disguise_everybody(disguise)?
                } else {
                    self.everybody_by_hand(disguise, way)?
                };
                samples.entry(way).or_default().push(ms);
            }
        }
        let mut ready = self.ready()?;
        for (way, samples) in samples {
            self.tell(&mut ready, disguise.name, way, samples);
        }
        self.over(&mut ready, disguise)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of users")]
    fn everybody_by_hand(&self, disguise: &Disguise, way: Way) -> Result<f64, BenchError> {
        let mut ready = self.ready()?;
        let share = ready.users.share as f64;
        let mut manual = self.manual();
        let database = ready.engine.database().as_mut();
        begin_by_hand(database)?;
        let ((), ms) = timed(|| {
            manual.everybody(database, disguise.by_hand, &ready.users.all, way)?;
            Ok(database.commit()?)
        })?;
        self.application
            .expect_nobody(database, disguise.by_hand, disguise.name)?;
        Ok(ms / share)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of users")]
    fn disguise_everybody(&self, disguise: &Disguise) -> Result<f64, BenchError> {
        let mut ready = self.ready()?;
        let spec = SpecFile::parse(disguise.spec)?.spec;
        let (_, ms) = timed(|| ready.apply(&spec, None, None))?;
        Ok(ms / ready.users.share as f64)
    }

    /// Disguises all users, then single users on top of that.
    #[expect(clippy::cast_precision_loss, reason = "counts of placeholders")]
    fn over(&mut self, ready: &mut Ready, disguise: &Disguise) -> Result<(), BenchError> {
        let spec = SpecFile::parse(disguise.spec)?.spec;
        let before = metadata_bytes(ready.engine.database().as_mut())?;
        let applied = ready.apply(&spec, None, None)?;
        let after = metadata_bytes(ready.engine.database().as_mut())?;
        let bytes = (after.0 - before.0, after.1 - before.1);
        self.tell_bytes(ready, disguise.name, bytes, applied.pseudoprincipals as f64);
        let Some(personal) = self.application.personal.first() else {
            return Ok(());
        };
        let spec = SpecFile::parse(personal.spec)?.spec;
        let (mut there, mut back, mut each) = (Vec::new(), Vec::new(), Vec::new());
        let direct = |figures: &[Figure], operation: &str| {
            figures
                .iter()
                .rev()
                .find(|it| it.operation == operation && it.way == Way::Disguise)
                .map_or(0.0, |it| it.at(0.5))
        };
        let alone = direct(self.figures, personal.name);
        for user in ready.measured(self.users) {
            let rows = ready.rows_of(self.application, &user)?;
            let key = ready.key(&user)?;
            let credential = Credential::Key(&key);
            let time = ready.now()?;
            let spoken = ready.engine.speaks_for(&user, &credential, time)?;
            let placeholders = spoken.len();
            let (applied, ms) = timed(|| ready.apply(&spec, Some(&user), Some(&key)))?;
            there.push(ms);
            if placeholders > 0 {
                each.push((ms - alone) / placeholders as f64);
            }
            let ((), ms) = timed(|| ready.reveal(&user, applied.id))?;
            back.push(ms);
            ready.expect_rows(self.application, &user, &rows, disguise.name)?;
        }
        let over = |name: &str| format!("{name} over {}", disguise.name);
        self.tell(ready, &over(personal.name), Way::Disguise, there);
        self.tell(ready, &over(personal.back), Way::Disguise, back);
        let operation = format!("{}, more a placeholder", over(personal.name));
        self.tell(ready, &operation, Way::Disguise, each);
        Ok(())
    }
}

/// Begins a transaction for a hand-written disguise at the server's default isolation level; a
/// disguise runs serialisable. A baseline's time is measured from after this call.
fn begin_by_hand(database: &mut dyn Database) -> Result<(), BenchError> {
    match database.dialect() {
        Dialect::Mysql => {
            database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", &[])?;
            database.begin()?;
        }
        Dialect::Postgres => {
            database.begin()?;
            database.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", &[])?;
        }
        _ => database.begin()?,
    }
    Ok(())
}

impl Ready {
    /// Returns all rows that the description assigns to `user`, in order.
    fn rows_of(&mut self, application: &Application, user: &Value) -> Result<Kept, BenchError> {
        let database = self.engine.database();
        let dialect = database.dialect();
        let mut kept = Vec::new();
        for (table, identity, owners) in application.owned {
            let is_user: Vec<String> = owners
                .iter()
                .map(|owner| format!("{} = ?", dialect.quote(owner)))
                .collect();
            let order: Vec<String> = identity.iter().map(|it| dialect.quote(it)).collect();
            let sql = format!(
                "SELECT * FROM {} WHERE {} ORDER BY {}",
                dialect.quote(table),
                is_user.join(" OR "),
                order.join(",")
            );
            let rows = database.query(&sql, &vec![user.clone(); owners.len()])?;
            kept.push(((*table).to_owned(), rows));
        }
        Ok(kept)
    }

    /// Returns an error if the rows of `user` differ from `before`.
    fn expect_rows(
        &mut self,
        application: &Application,
        user: &Value,
        before: &Kept,
        name: &str,
    ) -> Result<(), BenchError> {
        if self.rows_of(application, user)? == *before {
            return Ok(());
        }
        Err(BenchError::Failed(format!(
            "{name}: what came back is not what was hidden"
        )))
    }

    /// Restores the rows that the hand-written statements changed.
    fn put_back(
        &mut self,
        application: &Application,
        user: &Value,
        before: &Kept,
    ) -> Result<(), BenchError> {
        let database = self.engine.database();
        let dialect = database.dialect();
        let catalog = database.catalog()?;
        database.begin()?;
        for ((table, rows), (_, identity, _)) in before.iter().zip(application.owned) {
            let columns = catalog.get(table).map(|it| &it.columns);
            let places: Vec<usize> = identity
                .iter()
                .filter_map(|key| columns?.iter().position(|column| column.name == **key))
                .collect();
            let equal: Vec<String> = identity
                .iter()
                .map(|key| format!("{} = ?", dialect.quote(key)))
                .collect();
            let sql = format!(
                "DELETE FROM {} WHERE {}",
                dialect.quote(table),
                equal.join(" AND ")
            );
            for row in rows {
                let key: Vec<Value> = places
                    .iter()
                    .filter_map(|place| row.get(*place).cloned())
                    .collect();
                database.execute(&sql, &key)?;
            }
            let width = rows.first().map_or(0, Vec::len);
            insert(database.as_mut(), table, width, &rows.concat())?;
        }
        let (users, _) = application.users;
        database.execute(
            &format!("DELETE FROM {users} WHERE {}", application.made_by_hand),
            &[],
        )?;
        database.commit()?;
        if self.rows_of(application, user)? != *before {
            return Err(BenchError::Failed(
                "what was done by hand could not be undone".into(),
            ));
        }
        Ok(())
    }
}
