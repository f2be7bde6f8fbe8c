//! Tables of a test with several people in them, who leave and return.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{
    Applied, ApplyRequest, Credential, Database, DisguiseId, Engine, Error, KeyCost, Mapping,
    Progress, Protection, References, RevealRequest, Revealed, Rows, SecretKey, Spec, SpecFile,
    UpdateError, Value,
};

use super::forum::time;

/// An engine over tables of a test, and everybody there.
pub(super) struct Society {
    pub(super) engine: Engine<Box<dyn Database>>,
    pub(super) spec: Spec,
    keys: BTreeMap<i64, SecretKey>,
    /// The id of the person with a number.
    called: fn(i64) -> Value,
    tables: Vec<String>,
    pub(super) before: Vec<BTreeSet<String>>,
}

impl Society {
    /// Makes the tables, which are all that are compared, and registers `people`.
    pub(super) fn of(statements: &[String], description: &str, people: &[i64]) -> Self {
        Self::made((None, Value::Int), statements, description, people)
    }

    /// Makes them with texts as ids, `u1` for the person with the number 1.
    pub(super) fn of_texts(statements: &[String], description: &str, people: &[i64]) -> Self {
        let called = |person| Value::from(format!("u{person}").as_str());
        Self::made((None, called), statements, description, people)
    }

    /// Makes them with texts as ids that are written like numbers.
    pub(super) fn of_digits(statements: &[String], description: &str, people: &[i64]) -> Self {
        let called = |person| Value::from(format!("{person}").as_str());
        Self::made((None, called), statements, description, people)
    }

    /// Makes them for the people of a tenant.
    pub(super) fn of_tenant(
        tenant: i64,
        statements: &[String],
        description: &str,
        people: &[i64],
    ) -> Self {
        Self::made((Some(tenant), Value::Int), statements, description, people)
    }

    fn made(
        (tenant, called): (Option<i64>, fn(i64) -> Value),
        statements: &[String],
        description: &str,
        people: &[i64],
    ) -> Self {
        let mut database = crate::connect();
        let mut tables = Vec::new();
        for sql in statements {
            database.execute(sql, &[]).unwrap();
            let made = sql.strip_prefix("CREATE TABLE ");
            tables.extend(made.and_then(|it| it.split(' ').next()).map(str::to_owned));
        }
        let file = SpecFile::parse(description).unwrap();
        let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        engine.set_tenant(tenant.map(Value::Int));
        engine.install().unwrap();
        let mut keys = BTreeMap::new();
        for id in people {
            let made = engine
                .people()
                .register(&called(*id), Protection::KeyAlone, time());
            keys.insert(*id, made.unwrap().key);
        }
        let mut society = Self {
            engine,
            spec: file.spec,
            keys,
            called,
            tables,
            before: Vec::new(),
        };
        society.before = society.everything();
        society
    }

    /// Takes up somebody who registered by themselves.
    pub(super) fn add(&mut self, person: i64, key: SecretKey) {
        self.keys.insert(person, key);
    }

    /// Registers whoever has the id of this person now, who is somebody else. Returns their key.
    pub(super) fn register_newcomer(&mut self, person: i64) -> SecretKey {
        let id = (self.called)(person);
        let made = self
            .engine
            .people()
            .register(&id, Protection::KeyAlone, time());
        made.unwrap().key
    }

    /// Ends the registration of whoever has the id of this person, and has no row any more.
    pub(super) fn unregister(&mut self, person: i64) {
        let id = (self.called)(person);
        self.engine.people().unregister(&id, None, time()).unwrap();
    }

    /// The key of somebody who is registered.
    pub(super) fn key(&self, person: i64) -> &SecretKey {
        &self.keys[&person]
    }

    /// Gives somebody a new key.
    pub(super) fn rekey(&mut self, person: i64) {
        let id = (self.called)(person);
        let current = Credential::Key(&self.keys[&person]);
        let alone = Protection::KeyAlone;
        let made = self
            .engine
            .people()
            .change_key(&id, &current, alone, time());
        self.keys.insert(person, made.unwrap().key);
    }

    pub(super) fn forget_everything(&mut self, person: i64) {
        let id = (self.called)(person);
        let credential = Credential::Key(&self.keys[&person]);
        let forgotten = self.engine.forget_everything(&id, &credential, time());
        assert!(forgotten.is_ok(), "{forgotten:?}");
    }

    pub(super) fn everything(&mut self) -> Vec<BTreeSet<String>> {
        let tables = self.tables.clone();
        let rows = tables.iter().map(|table| {
            let rows = self.engine.preview().rows(table).unwrap();
            rows.iter().map(|row| format!("{row:?}")).collect()
        });
        rows.collect()
    }

    pub(super) fn sql(&mut self, sql: &str) {
        self.engine.database().execute(sql, &[]).unwrap();
    }

    /// The numbers that a query gives; NULL is -1.
    pub(super) fn numbers(&mut self, sql: &str) -> Vec<i64> {
        let rows = self.engine.database().query(sql, &[]).unwrap();
        let number = |value: Value| match value {
            Value::Int(number) => number,
            _ => -1,
        };
        rows.into_iter().flatten().map(number).collect()
    }

    /// Records updates. Where the engine asks for types that their migrations found, they had not
    /// changed since somebody left: the advice of the message is followed to the letter.
    pub(super) fn update(&mut self, updates: &[Mapping]) -> Result<(), Error> {
        self.as_advised(updates, |engine, all| engine.updates().record(all, time()))
    }

    /// Puts an update in the place of the one of its name, with such types as well.
    pub(super) fn replace(&mut self, update: &[Mapping]) -> Result<(), Error> {
        self.as_advised(update, |engine, all| {
            engine.updates().replace(&all[0], time())
        })
    }

    fn as_advised(
        &mut self,
        updates: &[Mapping],
        act: impl Fn(&mut Engine<Box<dyn Database>>, &[Mapping]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut said = serde_json::json!({ "update": updates });
        loop {
            let mappings = Mapping::parse(&said.to_string()).unwrap();
            let refused = match act(&mut self.engine, &mappings) {
                Err(Error::Update {
                    name,
                    source: UpdateError::Wrong(what),
                }) => (name, what),
                other => return other,
            };
            let (name, what) = refused;
            let advice = what.split_once("as was = ");
            let advice = advice.and_then(|(_, it)| it.split_once(" if they had not changed"));
            let Some((was, _)) = advice else {
                let source = UpdateError::Wrong(what);
                return Err(Error::Update { name, source });
            };
            let was: toml::Table = toml::from_str(&format!("was = {was}")).unwrap();
            let all = said["update"].as_array_mut().unwrap();
            let own = all.iter_mut().find(|it| it["name"] == *name).unwrap();
            assert!(own.get("was").is_none(), "{name} {what}");
            own["was"] = serde_json::to_value(&was["was"]).unwrap();
        }
    }

    pub(super) fn try_to_leave(
        &mut self,
        user: Option<i64>,
        over: bool,
        chunk: Option<u32>,
    ) -> Result<Applied, Error> {
        let key = |society: &Self| {
            let key = user
                .filter(|_| over)
                .map(|user| society.keys[&user].expose());
            key.map(|bytes| SecretKey::from_bytes(*bytes))
        };
        let key = key(self);
        let request = ApplyRequest {
            spec: &self.spec,
            user: user.map(self.called),
            over: key.as_ref().map(Credential::Key),
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        match chunk {
            None => self.engine.apply(&request),
            Some(rows) => {
                let id = self.engine.chunks().begin(&request)?;
                let over = key.as_ref().map(Credential::Key);
                self.engine
                    .chunks()
                    .finish_over(id, over.as_ref(), rows, time)
            }
        }
    }

    /// Begins a disguise of everybody in chunks.
    pub(super) fn begin_of_all(&mut self) -> DisguiseId {
        let request = ApplyRequest {
            spec: &self.spec,
            user: None,
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.chunks().begin(&request).unwrap()
    }

    /// Does the next chunk of a row; whether it was the last.
    pub(super) fn go_on(&mut self, id: DisguiseId, what: &str) -> bool {
        let progress = self.engine.chunks().proceed(id, 1, time());
        let progress = progress.unwrap_or_else(|error| panic!("{what} {error:?}"));
        matches!(progress, Progress::Done(_))
    }

    /// Has somebody leave later.
    pub(super) fn schedule(&mut self, user: i64) -> Result<DisguiseId, Error> {
        let request = ApplyRequest {
            spec: &self.spec,
            user: Some((self.called)(user)),
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        self.engine.schedule().add(&request, time())
    }

    pub(super) fn leave(&mut self, user: i64) -> DisguiseId {
        self.try_to_leave(Some(user), false, None).unwrap().id
    }

    pub(super) fn reveal(&mut self, user: i64, id: DisguiseId) -> Revealed {
        self.try_to_return(user, id).unwrap()
    }

    pub(super) fn try_to_return(&mut self, user: i64, id: DisguiseId) -> Result<Revealed, Error> {
        self.reveal_by(user, id, References::Recorrelate)
    }

    /// A reveal under a policy for rows made meanwhile.
    pub(super) fn reveal_by(
        &mut self,
        user: i64,
        id: DisguiseId,
        references: References,
    ) -> Result<Revealed, Error> {
        self.engine.reveal(&RevealRequest {
            user: (self.called)(user),
            credential: Credential::Key(&self.keys[&user]),
            id,
            references,
            rows: Rows::PerColumn,
            time: time(),
        })
    }

    /// Whoever returned before the others reveals once more, as long as something of theirs is hidden.
    pub(super) fn try_again(&mut self, gone: &BTreeMap<i64, DisguiseId>) {
        for (user, id) in gone {
            match self.try_to_return(*user, *id) {
                Ok(_) | Err(Error::NoSuchDisguise) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Everything is there as it was, everybody is registered, and nothing is kept.
    pub(super) fn assert_as_before(&mut self, what: &str) {
        assert_eq!(self.everything(), self.before, "{what}");
        for table in ["probity_bags", "probity_locators", "probity_shared"] {
            let count = self.numbers(&format!("SELECT COUNT(*) FROM {table}"));
            assert_eq!(count, [0], "{table}, {what}");
        }
        let people = i64::try_from(self.keys.len()).unwrap();
        let registered = self.numbers("SELECT COUNT(*) FROM probity_principals");
        assert_eq!(registered, [people], "{what}");
    }
}

/// People whom people invited, with what a disguise does beside removing them.
pub(super) fn description(tables: &str) -> String {
    format!(
        r#"
[users]
table = "people"
id = "id"
placeholder = {{ id = {{ RandNum = {{ lb = 1000000, ub = 2000000000 }} }}, name = {{ RandStr = {{ len = 12 }} }} }}
{tables}
[[remove]]
table = "people"
"#
    )
}
