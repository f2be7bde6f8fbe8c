//! A person of a database that a test makes and describes by itself.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;

use probity_disguise::{
    Applied, ApplyRequest, Credential, Database, DisguiseId, Engine, Error, KeyCost, Protection,
    Pseudo, References, RevealRequest, Revealed, Rows, Schema, SecretKey, Spec, SpecFile, Value,
};
use probity_format::Timestamp;

use super::forum::time;

/// The engine over that database, and one person there.
pub(crate) struct Member {
    pub(crate) engine: Engine<Box<dyn Database>>,
    id: Value,
    spec: Spec,
    pub(crate) key: SecretKey,
}

impl Member {
    /// Registers whoever has the id 1.
    pub(crate) fn of(database: Box<dyn Database>, description: &str) -> Self {
        Self::called(Value::Int(1), database, description)
    }

    /// Registers the person with this id.
    pub(crate) fn called(id: Value, database: Box<dyn Database>, description: &str) -> Self {
        let file = SpecFile::parse(description).unwrap();
        let described = (file.schema, file.pseudo.unwrap());
        Self::registered((id, None), database, described, file.spec)
    }

    /// Registers the person of a tenant with this id.
    pub(crate) fn of_tenant(
        tenant: Value,
        id: Value,
        database: Box<dyn Database>,
        description: &str,
    ) -> Self {
        let file = SpecFile::parse(description).unwrap();
        let described = (file.schema, file.pseudo.unwrap());
        Self::registered((id, Some(tenant)), database, described, file.spec)
    }

    /// Registers whoever has the id 1, where tables and placeholders are described apart.
    pub(crate) fn with(
        database: Box<dyn Database>,
        described: (Schema, Pseudo),
        spec: Spec,
    ) -> Self {
        Self::registered((Value::Int(1), None), database, described, spec)
    }

    fn registered(
        (id, tenant): (Value, Option<Value>),
        database: Box<dyn Database>,
        (schema, pseudo): (Schema, Pseudo),
        spec: Spec,
    ) -> Self {
        let mut engine = Engine::new(database, schema, pseudo);
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        engine.install().unwrap();
        if tenant.is_some() {
            engine.set_tenant(tenant);
        }
        let registered = engine.people().register(&id, Protection::KeyAlone, time());
        Self {
            engine,
            id,
            spec,
            key: registered.unwrap().key,
        }
    }

    /// Returns the person with another specification.
    pub(crate) fn again(mut self, description: &str) -> Self {
        self.spec = SpecFile::parse(description).unwrap().spec;
        self
    }

    /// An engine over the same database with another description; nobody is registered anew.
    pub(crate) fn described(
        &mut self,
        schema: Schema,
        pseudo: Pseudo,
    ) -> Engine<Box<dyn Database>> {
        let database = std::mem::replace(self.engine.database(), crate::connect());
        let mut engine = Engine::new(database, schema, pseudo);
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        engine.install().unwrap();
        engine
    }

    /// Returns the person with another engine.
    pub(crate) fn over(self, engine: Engine<Box<dyn Database>>) -> Self {
        Self { engine, ..self }
    }

    pub(crate) fn rows<const N: usize>(&mut self, tables: [&str; N]) -> [BTreeSet<String>; N] {
        tables.map(|table| {
            let rows = self.engine.preview().rows(table).unwrap();
            rows.iter().map(|row| format!("{row:?}")).collect()
        })
    }

    /// Runs statements of the application.
    pub(crate) fn sql(&mut self, statements: &[&str]) {
        for sql in statements {
            self.engine.database().execute(sql, &[]).unwrap();
        }
    }

    /// Returns the reason why the specification is refused.
    pub(crate) fn refusal(&mut self) -> String {
        let refused = self.engine.preview().check(&self.spec, &BTreeMap::new());
        refused.unwrap_err().source().unwrap().to_string()
    }

    pub(crate) fn cautions(&mut self) -> Vec<String> {
        self.engine.preview().cautions(&self.spec).unwrap()
    }

    /// Returns the number of disguises that hide something of the person.
    pub(crate) fn hidden_by(&mut self) -> usize {
        let credential = Credential::Key(&self.key);
        let listed = self.engine.list(&self.id, &credential, time());
        listed.unwrap().len()
    }

    /// Leaves and comes back twice; everything in `tables` must be as it was, and the second time as good as the first.
    pub(crate) fn leaves_and_returns<const N: usize>(&mut self, tables: [&str; N]) {
        let before = self.rows(tables);
        for _ in 0..2 {
            let applied = self.leave();
            assert_ne!(self.rows(tables), before);
            let revealed = self.return_from(&applied);
            assert!(revealed.is_complete(), "{revealed:?}");
            assert_eq!(self.rows(tables), before);
            assert_eq!(self.hidden_by(), 0);
        }
    }

    pub(crate) fn leave(&mut self) -> Applied {
        self.try_to_leave().unwrap()
    }

    /// Everybody leaves.
    pub(crate) fn all_leave(&mut self) -> Applied {
        self.try_all_to_leave().unwrap()
    }

    pub(crate) fn try_all_to_leave(&mut self) -> Result<Applied, Error> {
        self.apply(None)
    }

    pub(crate) fn try_to_leave(&mut self) -> Result<Applied, Error> {
        self.apply(Some(self.id.clone()))
    }

    /// A disguise of this user, or of everybody.
    pub(crate) fn apply(&mut self, user: Option<Value>) -> Result<Applied, Error> {
        let request = ApplyRequest {
            spec: &self.spec,
            user,
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.apply(&request)
    }

    /// A disguise of the person in chunks.
    pub(crate) fn try_in_chunks(&mut self, rows: u32) -> Result<Applied, Error> {
        let request = ApplyRequest {
            spec: &self.spec,
            user: Some(self.id.clone()),
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        let applied = self.engine.chunks().apply(&request, rows, time);
        applied.map_err(|halted| halted.cause)
    }

    /// The refusals that are foretold of a disguise of the person.
    pub(crate) fn foretold(&mut self) -> Vec<String> {
        let told = self
            .engine
            .preview()
            .foretell(&self.spec, Some(&self.id), &BTreeMap::new());
        told.unwrap()
    }

    /// A disguise that ends.
    pub(crate) fn leave_until(&mut self, end: Timestamp) -> Applied {
        let request = ApplyRequest {
            spec: &self.spec,
            user: Some(self.id.clone()),
            over: None,
            expires: Some(end),
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.apply(&request).unwrap()
    }

    /// A disguise that reaches rows behind placeholders.
    pub(crate) fn apply_over(&mut self, description: &str) -> Applied {
        let file = SpecFile::parse(description).unwrap();
        let request = ApplyRequest {
            spec: &file.spec,
            user: Some(self.id.clone()),
            over: Some(Credential::Key(&self.key)),
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.apply(&request).unwrap()
    }

    /// Has the records of a disguise destroyed, or all that the person has.
    pub(crate) fn forget(&mut self, id: Option<DisguiseId>) -> Result<(), Error> {
        let credential = Credential::Key(&self.key);
        let forgotten = match id {
            Some(id) => self.engine.forget(&self.id, &credential, id, time()),
            None => self.engine.forget_everything(&self.id, &credential, time()),
        };
        forgotten.map(drop)
    }

    /// Returns the number of rows and values exported at this time.
    pub(crate) fn exported(&mut self, id: DisguiseId, time: Timestamp) -> Result<usize, Error> {
        let credential = Credential::Key(&self.key);
        let hidden = self.engine.export(&self.id, &credential, Some(id), time);
        hidden.map(|exported| exported.hidden.len())
    }

    /// The placeholders that the person may act as.
    pub(crate) fn speaks_for(&mut self) -> Vec<Value> {
        let credential = Credential::Key(&self.key);
        let acts = self.engine.speaks_for(&self.id, &credential, time());
        acts.unwrap()
    }

    /// Gives the person another key.
    pub(crate) fn rekey(&mut self) {
        let credential = Credential::Key(&self.key);
        let alone = Protection::KeyAlone;
        let made = self
            .engine
            .people()
            .change_key(&self.id, &credential, alone, time());
        self.key = made.unwrap().key;
    }

    pub(crate) fn return_from(&mut self, applied: &Applied) -> Revealed {
        self.return_by(applied, References::Recorrelate)
    }

    /// Reveals a disguise under a policy for rows made meanwhile.
    pub(crate) fn return_by(&mut self, applied: &Applied, references: References) -> Revealed {
        let request = RevealRequest {
            user: self.id.clone(),
            credential: Credential::Key(&self.key),
            id: applied.id,
            references,
            rows: Rows::PerColumn,
            time: time(),
        };
        self.engine.reveal(&request).unwrap()
    }

    /// Reveals a disguise at another time.
    pub(crate) fn return_at(&mut self, id: DisguiseId, time: Timestamp) -> Result<Revealed, Error> {
        let request = RevealRequest {
            user: self.id.clone(),
            credential: Credential::Key(&self.key),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time,
        };
        self.engine.reveal(&request)
    }

    /// The reveal of another person.
    pub(crate) fn returned(&mut self, user: Value, key: &SecretKey, id: DisguiseId) -> Revealed {
        let request = RevealRequest {
            user,
            credential: Credential::Key(key),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        };
        self.engine.reveal(&request).unwrap()
    }
}

/// Members with an id, and their notes; a disguise removes both.
pub(crate) const NOTES: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
[tables.notes]
owners = ["member"]
[[remove]]
table = "notes"
[[remove]]
table = "members"
"#;
