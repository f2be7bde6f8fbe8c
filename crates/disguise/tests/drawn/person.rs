//! The people of a drawn schema, who leave and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicI64, Ordering};

use probity_disguise::{
    ApplyRequest, Credential, Database, DisguiseId, Engine, Error, KeyCost, Protection, References,
    RevealRequest, Revealed, Rows, SecretKey, SpecFile, Value,
};
use probity_format::Timestamp;

use super::dice::Dice;
use super::layout::Layout;
use super::mix;

/// A moment, each later than the one before.
pub(crate) fn time() -> Timestamp {
    static CLOCK: AtomicI64 = AtomicI64::new(1_800_000_000_000_000_000);
    Timestamp::from_nanoseconds(CLOCK.fetch_add(1, Ordering::Relaxed)).unwrap()
}

pub(crate) struct Person {
    pub(crate) id: Value,
    pub(crate) key: SecretKey,
}

/// An application with everybody registered.
pub(crate) struct People {
    pub(crate) engine: Engine<Box<dyn Database>>,
    pub(crate) all: Vec<Person>,
    /// Those who left for good.
    pub(crate) gone: BTreeSet<usize>,
    /// The number of principals registered while nobody is away.
    principals: i64,
    has_forgotten: bool,
}

/// An error with its causes.
pub(crate) fn told(error: &Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
}

impl People {
    /// Registers everybody, after the specification was checked; else why it is refused.
    pub(crate) fn of(
        database: Box<dyn Database>,
        layout: &Layout,
        file: &SpecFile,
        dice: &mut Dice,
    ) -> Result<Self, String> {
        let pseudo = file.pseudo.clone().unwrap();
        let mut engine = Engine::new(database, file.schema.clone(), pseudo);
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        if dice.in_a_hundred(mix::FEW_ROWS) {
            let rows = u32::try_from(1 + dice.throw(3)).unwrap();
            engine.options().apply_rows = NonZero::new(rows).unwrap();
            engine.options().reveal_bytes = 0;
        }
        engine
            .preview()
            .check(&file.spec, &BTreeMap::new())
            .map_err(|it| told(&it))?;
        engine.install().map_err(|it| told(&it))?;
        engine
            .preview()
            .try_placeholder(time())
            .map_err(|it| told(&it))?;
        let users = &layout.tables[0];
        let quote = |name: &str| layout.dialect.quote(name);
        let id = quote(&users.columns[users.key[0]].name);
        let table = quote(&users.name);
        let sql = format!("SELECT {id} FROM {table} ORDER BY {table}.{id}");
        let ids = engine.database().query(&sql, &[]).unwrap();
        let mut all = Vec::new();
        for id in ids.into_iter().flatten() {
            let made = engine.people().register(&id, Protection::KeyAlone, time());
            let key = made
                .map_err(|it| format!("FAILED registering {}", told(&it)))?
                .key;
            all.push(Person { id, key });
        }
        let principals = i64::try_from(all.len()).unwrap();
        Ok(Self {
            engine,
            all,
            gone: BTreeSet::new(),
            principals,
            has_forgotten: false,
        })
    }

    /// Those who did not leave for good.
    pub(crate) fn present(&self) -> Vec<usize> {
        let all = 0..self.all.len();
        all.filter(|it| !self.gone.contains(it)).collect()
    }

    fn count(&mut self, table: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let count = self.engine.database().query(&sql, &[]).unwrap().concat();
        match count.first() {
            Some(Value::Int(count)) => *count,
            other => panic!("{other:?}"),
        }
    }

    /// Placeholders that nobody takes away any more stay registered.
    pub(crate) fn note_principals(&mut self) {
        self.principals = self.count("probity_principals");
        self.has_forgotten = true;
    }

    /// Returns the expected refusals for this person, or for everybody.
    pub(crate) fn foretold(&mut self, file: &SpecFile, who: Option<usize>) -> Vec<String> {
        let user = who.map(|it| self.all[it].id.clone());
        let none = BTreeMap::new();
        let told_of = self
            .engine
            .preview()
            .foretell(&file.spec, user.as_ref(), &none);
        told_of.unwrap_or_else(|error| vec![told(&error)])
    }

    pub(crate) fn apply(
        &mut self,
        file: &SpecFile,
        who: Option<usize>,
        is_over: bool,
    ) -> Result<DisguiseId, String> {
        let person = who.map(|it| &self.all[it]);
        let request = ApplyRequest {
            spec: &file.spec,
            user: person.map(|it| it.id.clone()),
            over: person
                .filter(|_| is_over)
                .map(|it| Credential::Key(&it.key)),
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        let applied = self.engine.apply(&request);
        Ok(applied.map_err(|it| told(&it))?.id)
    }

    pub(crate) fn reveal(&mut self, who: usize, id: DisguiseId) -> Result<Revealed, String> {
        let person = &self.all[who];
        let request = RevealRequest {
            user: person.id.clone(),
            credential: Credential::Key(&person.key),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        };
        self.engine.reveal(&request).map_err(|it| told(&it))
    }

    /// Checks the records of the engine that are left once everybody is back.
    pub(crate) fn left_over(&mut self) -> Result<(), String> {
        for who in self.present() {
            let person = &self.all[who];
            let credential = Credential::Key(&person.key);
            let listed = self.engine.list(&person.id, &credential, time());
            let listed = listed.map_err(|it| format!("person {who} cannot list: {}", told(&it)))?;
            if !listed.is_empty() {
                return Err(format!("person {who} still has {listed:?}"));
            }
        }
        // Copies of shared rows for somebody who had everything destroyed are opened by nobody, and found by nobody.
        let all = [
            ("probity_bags", 0),
            ("probity_locators", 0),
            ("probity_shared", 0),
            ("probity_principals", self.principals),
        ];
        let checked = if self.has_forgotten { 0 } else { all.len() };
        for (table, rows) in all.into_iter().take(checked) {
            let count = self.count(table);
            if count != rows {
                return Err(format!("{table} has {count} rows, not {rows}"));
            }
        }
        Ok(())
    }
}
