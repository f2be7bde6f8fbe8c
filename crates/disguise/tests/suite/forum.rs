//! The forum of Edna's conformance tests: its tables, its users and its disguises.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]
#![expect(clippy::indexing_slicing, reason = "tests stop at the first surprise")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};

use probity_disguise::database::{Catalog, Said};
use probity_disguise::{
    Applied, ApplyRequest, Credential, Database, DatabaseError, DatabaseErrorKind, Dialect,
    DisguiseId, Engine, Error, KeyCost, Protection, Pseudo, References, RevealRequest, Revealed,
    Rows, Schema, SecretKey, Spec, SpecFile, Value,
};
use probity_format::Timestamp;

pub(crate) const USERS: i64 = 4;
pub(crate) const PSEUDO: &str = r#"{"table": "users", "id_col": "id", "cols": ["id", "username", "karma"],
  "val_generation": [{"RandNum": {"lb": 1000000, "ub": 9000000000000}}, {"RandStr": {"len": 30}}, {"ConstNum": 0}]}"#;
pub(crate) const SCHEMA: &str = r#"{
 "users": {"table": "users", "id_cols": ["id"], "owner_fks": [], "other_fks": []},
 "stories": {"table": "stories", "id_cols": ["id"],
   "owner_fks": [{"to_table": "users", "to_col": "id", "from_table": "stories", "from_col": "user_id"}], "other_fks": []},
 "moderations": {"table": "moderations", "id_cols": ["id"],
   "owner_fks": [{"to_table": "users", "to_col": "id", "from_table": "moderations", "from_col": "moderator_user_id"},
                 {"to_table": "users", "to_col": "id", "from_table": "moderations", "from_col": "user_id"}],
   "other_fks": [{"to_table": "stories", "to_col": "id", "from_table": "moderations", "from_col": "story_id"}]}}"#;
pub(crate) const GDPR: &str = r#"{"users": [{"Remove": {"pred": "True", "from": ""}}],
  "stories": [{"Remove": {"pred": "True", "from": ""}}],
  "moderations": [{"Decor": {"pred": "True", "from": "", "group_by_cols": [], "user_fk_cols": ["moderator_user_id", "user_id"]}}]}"#;
pub(crate) const GDPR_REMOVE: &str = r#"{"users": [{"Remove": {"pred": "True", "from": ""}}],
  "stories": [{"Remove": {"pred": "True", "from": ""}}],
  "moderations": [{"Remove": {"pred": "True", "from": ""}}]}"#;
pub(crate) const ANON: &str = r#"{
  "stories": [{"Decor": {"pred": "True", "from": "", "group_by_cols": [], "user_fk_cols": ["user_id"]}}],
  "moderations": [{"Decor": {"pred": "True", "from": "", "group_by_cols": [], "user_fk_cols": ["moderator_user_id", "user_id"]}}]}"#;
pub(crate) const GROUPED: &str = r#"{"stories": [{"Decor": {"pred": "True", "from": "", "group_by_cols": ["url"], "user_fk_cols": ["user_id"]}}]}"#;
pub(crate) const HOBBY: &str = r#"{"stories": [{"Decor": {"pred": "tags.tag = 'star wars'",
  "from": "stories JOIN taggings ON taggings.story_id = stories.id JOIN tags ON tags.id = taggings.tag_id",
  "group_by_cols": [], "user_fk_cols": ["user_id"]}}]}"#;
pub(crate) const REMOVE_ALL: &str =
    r#"{"moderations": [{"Remove": {"pred": "True", "from": ""}}]}"#;
pub(crate) const BLANK: &str = r#"{"stories": [{"Modify": {"pred": "True", "from": "", "col": "url", "gen_value": {"RandStr": {"len": 12}}}}]}"#;

/// A forum of four users with three stories each; everybody moderates the next user's stories.
pub(crate) struct Forum {
    pub(crate) engine: Engine<Box<dyn Database>>,
    pub(crate) keys: BTreeMap<i64, SecretKey>,
    pub(crate) before: Vec<BTreeSet<String>>,
    pub(crate) left: Rc<Cell<u64>>,
    pub(crate) database: Faulty,
    /// The tenant of the forum, if several are in one database.
    pub(crate) tenant: Option<i64>,
}

/// A clock that goes on whenever it is read.
pub(crate) fn time() -> Timestamp {
    static CLOCK: AtomicI64 = AtomicI64::new(1_800_000_000_000_000_000);
    Timestamp::from_nanoseconds(CLOCK.fetch_add(1, Ordering::Relaxed)).unwrap()
}

pub(crate) fn forum() -> Forum {
    forum_of_users(
        "CREATE TABLE users (id BIGINT PRIMARY KEY, username VARCHAR(100) UNIQUE, karma BIGINT)",
    )
}

/// A forum as above over another table of users.
pub(crate) fn forum_of_users(users: &str) -> Forum {
    let left = Rc::new(Cell::new(u64::MAX));
    let inner = Rc::new(RefCell::new(crate::connect()));
    let mut database = Faulty {
        inner,
        left: Rc::clone(&left),
        catalogs: Rc::default(),
        statements: Rc::default(),
        rows: Rc::default(),
        between: Rc::default(),
    };
    for sql in [
        users,
        "CREATE TABLE stories (id BIGINT PRIMARY KEY, user_id BIGINT REFERENCES users(id), url TEXT, is_moderated BIGINT)",
        "CREATE TABLE moderations (id BIGINT PRIMARY KEY, moderator_user_id BIGINT REFERENCES users(id), story_id BIGINT, user_id BIGINT REFERENCES users(id), action TEXT)",
        "CREATE TABLE tags (id BIGINT PRIMARY KEY, tag TEXT)",
        "CREATE TABLE taggings (id BIGINT PRIMARY KEY, story_id BIGINT, tag_id BIGINT)",
        "INSERT INTO tags VALUES (1, 'star wars'), (2, 'cooking')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    for user in 1..=USERS {
        let name = Value::Text(format!("user{user}"));
        database
            .execute(
                "INSERT INTO users VALUES (?, ?, 7)",
                &[Value::Int(user), name],
            )
            .unwrap();
    }
    for user in 1..=USERS {
        for story in 0..3 {
            let id = user * 10 + story;
            let serial = (user - 1) * 3 + story + 1;
            let url = Value::Text(format!("url{}", story / 2));
            database
                .execute(
                    "INSERT INTO stories VALUES (?, ?, ?, 0)",
                    &[Value::Int(id), Value::Int(user), url],
                )
                .unwrap();
            let tag = Value::Int(1 + story % 2);
            database
                .execute(
                    "INSERT INTO taggings VALUES (?, ?, ?)",
                    &[Value::Int(serial), Value::Int(id), tag],
                )
                .unwrap();
            let moderator = Value::Int(user % USERS + 1);
            database
                .execute(
                    "INSERT INTO moderations VALUES (?, ?, ?, ?, 'edit')",
                    &[
                        Value::Int(serial),
                        moderator,
                        Value::Int(id),
                        Value::Int(user),
                    ],
                )
                .unwrap();
        }
    }
    registered(database)
}

/// Returns whether a reveal had nothing to do, or refused the credential.
pub(crate) fn did_nothing(outcome: &Result<Revealed, Error>) -> bool {
    match outcome {
        Ok(revealed) => !revealed.found && *revealed == Revealed::default(),
        Err(error) => matches!(error, Error::WrongCredential),
    }
}

/// A connection that fails at a statement of one's choice.
#[derive(Clone)]
pub(crate) struct Faulty {
    inner: Rc<RefCell<Box<dyn Database>>>,
    left: Rc<Cell<u64>>,
    /// The number of times that the schema was read.
    catalogs: Rc<Cell<u64>>,
    /// Statements so far; how the schema is looked at is each database's own.
    statements: Rc<Cell<u64>>,
    /// The most rows that one of them gave.
    rows: Rc<Cell<usize>>,
    /// Work of others, before the transaction after so many.
    between: Rc<RefCell<Option<(u32, Work)>>>,
}

type Work = Box<dyn FnOnce()>;

impl Faulty {
    /// Returns the same connection for another engine.
    pub(crate) fn boxed(&self) -> Box<dyn Database> {
        Box::new(self.clone())
    }

    /// Lets `work` happen over another engine between two transactions, once `transactions` more
    /// have begun.
    pub(crate) fn between(&self, transactions: u32, work: impl FnOnce() + 'static) {
        *self.between.borrow_mut() = Some((transactions, Box::new(work)));
    }

    fn let_others_work(&self) {
        let between = self.between.borrow_mut().take();
        match between {
            Some((0, work)) => work(),
            Some((left, work)) => *self.between.borrow_mut() = Some((left - 1, work)),
            None => {}
        }
    }

    pub(crate) fn statements(&self) -> u64 {
        self.statements.get()
    }

    /// The most rows that a statement gave since this was asked.
    pub(crate) fn rows_given(&self) -> usize {
        self.rows.take()
    }

    fn count(&self) -> Result<(), DatabaseError> {
        self.statements.set(self.statements.get() + 1);
        self.pass()
    }

    fn pass(&self) -> Result<(), DatabaseError> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(DatabaseError {
                kind: DatabaseErrorKind::Other,
                message: "the connection was cut".to_owned(),
                said: Said::default(),
            }),
        }
    }
}

impl Database for Faulty {
    fn dialect(&self) -> Dialect {
        self.inner.borrow().dialect()
    }
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.let_others_work();
        self.pass()?;
        self.inner.borrow_mut().begin()
    }

    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.let_others_work();
        self.pass()?;
        self.inner.borrow_mut().begin_reading()
    }
    fn commit(&mut self) -> Result<(), DatabaseError> {
        if let Err(cut) = self.pass() {
            self.inner.borrow_mut().rollback()?;
            return Err(cut);
        }
        self.inner.borrow_mut().commit()
    }
    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.inner.borrow_mut().rollback()
    }
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.count()?;
        self.inner.borrow_mut().execute(sql, parameters)
    }
    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.count()?;
        self.inner.borrow_mut().attempt(sql, parameters)
    }
    fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<u64, DatabaseError> {
        self.count()?;
        self.inner.borrow_mut().execute_each(sql, rows)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        self.count()?;
        let rows = self.inner.borrow_mut().query(sql, parameters)?;
        self.rows.set(self.rows.get().max(rows.len()));
        Ok(rows)
    }
    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        self.pass()?;
        self.catalogs.set(self.catalogs.get() + 1);
        self.inner.borrow_mut().catalog()
    }
    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        self.pass()?;
        self.inner.borrow_mut().catalog_version()
    }
    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        self.inner.borrow_mut().explain(sql, parameters)
    }
    fn returns_deleted(&self) -> bool {
        self.inner.borrow().returns_deleted()
    }
    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        self.pass()?;
        self.inner.borrow_mut().defer_foreign_keys()
    }
}

/// The forum's engine, with everybody registered.
fn registered(database: Faulty) -> Forum {
    let schema = Schema::from_edna_json(SCHEMA).unwrap();
    let mut engine = Engine::new(
        database.boxed(),
        schema,
        Pseudo::from_edna_json(PSEUDO).unwrap(),
    );
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.install().unwrap();
    let mut keys = BTreeMap::new();
    for user in 1..=USERS {
        keys.insert(
            user,
            engine
                .people()
                .register(
                    &Value::Int(user),
                    Protection::Password("secret words"),
                    time(),
                )
                .unwrap()
                .key,
        );
    }
    let mut forum = Forum {
        engine,
        keys,
        before: Vec::new(),
        left: Rc::clone(&database.left),
        database,
        tenant: None,
    };
    forum.before = forum.everything();
    forum
}

/// The forum as one of several tenants.
pub(crate) const OF_TENANTS: &str = r#"
tenant = "tenant_id"
[users]
table = "users"
id = "id"
[users.placeholder]
id = { RandNum = { lb = 1000000, ub = 9000000000000 } }
username = { RandStr = { len = 30 } }
karma = { ConstNum = 0 }
[tables.moderations]
references = [{ columns = ["story_id"], table = "stories", to = ["id"] }]
[tables.tags]
shared = true
"#;

/// Tables in which an id is one of a tenant; the tenant comes last, so that the other columns are where they always are.
const TABLES_OF_TENANTS: [&str; 6] = [
    "CREATE TABLE users (id BIGINT NOT NULL, username VARCHAR(100), karma BIGINT, tenant_id BIGINT NOT NULL, PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, username))",
    "CREATE TABLE stories (id BIGINT NOT NULL, user_id BIGINT, url TEXT, is_moderated BIGINT, tenant_id BIGINT NOT NULL, PRIMARY KEY (tenant_id, id), FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id))",
    "CREATE TABLE moderations (id BIGINT NOT NULL, moderator_user_id BIGINT, story_id BIGINT, user_id BIGINT, action TEXT, tenant_id BIGINT NOT NULL, PRIMARY KEY (tenant_id, id), FOREIGN KEY (tenant_id, moderator_user_id) REFERENCES users (tenant_id, id), FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id))",
    "CREATE TABLE tags (id BIGINT PRIMARY KEY, tag TEXT)",
    "CREATE TABLE taggings (id BIGINT NOT NULL, story_id BIGINT, tag_id BIGINT, tenant_id BIGINT NOT NULL, PRIMARY KEY (tenant_id, id))",
    "INSERT INTO tags VALUES (1, 'star wars'), (2, 'cooking')",
];

/// An engine for one of the tenants.
pub(crate) fn engine_of(database: &Faulty, tenant: Value) -> Engine<Box<dyn Database>> {
    let file = SpecFile::parse(OF_TENANTS).unwrap();
    let mut engine = Engine::new(database.boxed(), file.schema, file.pseudo.unwrap());
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.set_tenant(Some(tenant));
    engine
}

/// Creates two equal forums in one database, with the same ids, for the tenants 1 and 2.
pub(crate) fn forums() -> [Forum; 2] {
    let left = Rc::new(Cell::new(u64::MAX));
    let inner = Rc::new(RefCell::new(crate::connect()));
    let mut database = Faulty {
        inner,
        left,
        catalogs: Rc::default(),
        statements: Rc::default(),
        rows: Rc::default(),
        between: Rc::default(),
    };
    for sql in TABLES_OF_TENANTS {
        database.execute(sql, &[]).unwrap();
    }
    [1, 2].map(|tenant| forum_of(&mut database, tenant))
}

fn forum_of(database: &mut Faulty, tenant: i64) -> Forum {
    for user in 1..=USERS {
        let sql = format!("INSERT INTO users VALUES ({user}, 'user{user}', 7, {tenant})");
        database.execute(&sql, &[]).unwrap();
    }
    for user in 1..=USERS {
        for story in 0..3 {
            let (id, serial) = (user * 10 + story, (user - 1) * 3 + story + 1);
            let (tag, moderator) = (1 + story % 2, user % USERS + 1);
            let url = story / 2;
            for sql in [
                format!("INSERT INTO stories VALUES ({id}, {user}, 'url{url}', 0, {tenant})"),
                format!("INSERT INTO taggings VALUES ({serial}, {id}, {tag}, {tenant})"),
                format!(
                    "INSERT INTO moderations VALUES ({serial}, {moderator}, {id}, {user}, 'edit', {tenant})"
                ),
            ] {
                database.execute(&sql, &[]).unwrap();
            }
        }
    }
    let mut engine = engine_of(database, Value::Int(tenant));
    engine.install().unwrap();
    let mut keys = BTreeMap::new();
    let password = format!("secret words of {tenant}");
    for user in 1..=USERS {
        let protection = Protection::Password(&password);
        let made = engine
            .people()
            .register(&Value::Int(user), protection, time());
        keys.insert(user, made.unwrap().key);
    }
    let mut forum = Forum {
        engine,
        keys,
        before: Vec::new(),
        left: Rc::clone(&database.left),
        database: database.clone(),
        tenant: Some(tenant),
    };
    forum.before = forum.everything();
    forum
}

impl Forum {
    /// Returns the number of statements of `run`, without those that read the schema again.
    /// `MariaDB` does so for every operation when tables changed a moment ago.
    pub(crate) fn work(&mut self, run: impl FnOnce(&mut Engine<Box<dyn Database>>)) -> u64 {
        let (all, catalogs) = (u64::MAX / 2, self.database.catalogs.get());
        self.left.set(all);
        run(&mut self.engine);
        let work = all - self.left.replace(u64::MAX);
        work - (self.database.catalogs.get() - catalogs)
    }

    pub(crate) fn everything(&mut self) -> Vec<BTreeSet<String>> {
        ["users", "stories", "moderations", "tags", "taggings"]
            .map(|table| {
                self.engine
                    .preview()
                    .rows(table)
                    .unwrap()
                    .iter()
                    .map(|row| format!("{row:?}"))
                    .collect()
            })
            .to_vec()
    }

    pub(crate) fn apply(
        &mut self,
        spec: &str,
        user: Option<i64>,
        over: bool,
    ) -> Result<Applied, Error> {
        let spec = Spec::from_edna_json(spec).unwrap();
        let over = user
            .filter(|_| over)
            .map(|user| Credential::Key(&self.keys[&user]));
        let request = ApplyRequest {
            spec: &spec,
            user: user.map(Value::Int),
            over,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        };
        self.engine.apply(&request)
    }

    /// Applies a disguise in chunks of `rows` rows, each by a program that starts anew.
    pub(crate) fn apply_in_chunks(
        &mut self,
        spec: &str,
        (user, over): (Option<i64>, bool),
        rows: u32,
    ) -> Result<Applied, Error> {
        let spec = Spec::from_edna_json(spec).unwrap();
        let over = || {
            let user = user.filter(|_| over)?;
            Some(Credential::Key(&self.keys[&user]))
        };
        let id = self.engine.chunks().begin(&ApplyRequest {
            spec: &spec,
            user: user.map(Value::Int),
            over: over(),
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        })?;
        self.engine
            .chunks()
            .finish_over(id, over().as_ref(), rows, time)
    }

    pub(crate) fn reveal_as(
        &mut self,
        user: i64,
        id: DisguiseId,
        references: References,
    ) -> Result<Revealed, Error> {
        self.engine.reveal(&RevealRequest {
            user: Value::Int(user),
            credential: Credential::Key(&self.keys[&user]),
            id,
            references,
            rows: Rows::PerColumn,
            time: time(),
        })
    }

    pub(crate) fn reveal(&mut self, user: i64, id: DisguiseId) -> Revealed {
        self.reveal_as(user, id, References::Recorrelate).unwrap()
    }

    pub(crate) fn sql(&mut self, sql: &str) {
        self.engine.database().execute(sql, &[]).unwrap();
    }

    pub(crate) fn numbers(&mut self, sql: &str) -> Vec<i64> {
        let rows = self.engine.database().query(sql, &[]).unwrap();
        rows.into_iter()
            .flatten()
            .map(|value| match value {
                Value::Int(number) => number,
                other => panic!("{other:?} is not a number"),
            })
            .collect()
    }

    /// Every owner has a row, and everything engine-made is gone when nothing is disguised.
    pub(crate) fn assert_as_before(&mut self) {
        assert_eq!(self.everything(), self.before);
        for table in ["probity_bags", "probity_locators", "probity_shared"] {
            assert_eq!(
                self.numbers(&format!("SELECT COUNT(*) FROM {table}")),
                [0],
                "{table}"
            );
        }
        assert_eq!(
            self.numbers("SELECT COUNT(*) FROM probity_principals"),
            [USERS]
        );
    }
}
