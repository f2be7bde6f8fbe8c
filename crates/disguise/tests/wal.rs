//! Removals from a `SQLite` file that an application keeps open with a write-ahead log.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use probity_disguise::database::{Catalog, Sqlite};
use probity_disguise::{
    ApplyRequest, Credential, Database, DatabaseError, DatabaseErrorKind, Dialect, Engine, KeyCost,
    Protection, Registration, SpecFile, Value,
};
use probity_format::{Entry, Timestamp};
use rusqlite::Connection;

/// The words of a row that is removed, found nowhere else.
const MARK: &[u8] = b"unmistakable words";

const TABLES: &str = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE likes (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people, why TEXT);
    INSERT INTO people VALUES (19, 'Bea'), (20, 'Al');
    INSERT INTO likes VALUES (1, 19, 'unmistakable words'), (2, 20, 'others')";

const LEAVE: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000, ub = 9000000 } } }
[tables.likes]
owners = ["person"]
[[remove]]
table = "likes"
"#;

fn now() -> Timestamp {
    Timestamp::from_nanoseconds(1_800_000_000_000_000_000).unwrap()
}

/// An application with its connection open, and an engine beside it.
struct Beside {
    folder: tempfile::TempDir,
    application: Connection,
    engine: Engine<Sqlite>,
    file: SpecFile,
    person: Registration,
    notices: Rc<RefCell<Vec<String>>>,
}

fn beside() -> Beside {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let application = Connection::open(&path).unwrap();
    application
        .pragma_update(None, "journal_mode", "wal")
        .unwrap();
    application.execute_batch(TABLES).unwrap();
    // As an application has it that has been running for a while.
    application
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_row| Ok(()))
        .unwrap();
    let file = SpecFile::parse(LEAVE).unwrap();
    let (schema, pseudo) = (file.schema.clone(), file.pseudo.clone().unwrap());
    let mut engine = Engine::new(Sqlite::existing(&path).unwrap(), schema, pseudo);
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.install().unwrap();
    let notices: Rc<RefCell<Vec<String>>> = Rc::default();
    let told = Rc::clone(&notices);
    engine.set_notice(Box::new(move |left| {
        told.borrow_mut().push(left.to_owned());
    }));
    let person = engine
        .people()
        .register(&Value::Int(19), Protection::KeyAlone, now())
        .unwrap();
    Beside {
        folder,
        application,
        engine,
        file,
        person,
        notices,
    }
}

impl Beside {
    fn leave(&mut self) {
        let request = ApplyRequest {
            spec: &self.file.spec,
            user: Some(Value::Int(19)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: now(),
        };
        self.engine.apply(&request).unwrap();
    }

    fn forget(&mut self) {
        let credential = Credential::Key(&self.person.key);
        let user = Value::Int(19);
        self.engine
            .forget_everything(&user, &credential, now())
            .unwrap();
    }

    /// The files in which the mark can be read.
    fn marked(&self) -> Vec<String> {
        let holds = |path: &PathBuf| {
            let bytes = fs::read(path).unwrap();
            bytes.windows(MARK.len()).any(|it| it == MARK)
        };
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let files = fs::read_dir(self.folder.path()).unwrap();
        let files: Vec<PathBuf> = files.map(|it| it.unwrap().path()).collect();
        files
            .iter()
            .filter(|it| holds(it))
            .map(|it| name(it))
            .collect()
    }
}

/// Deleted rows stayed in the file, even after everything was forgotten, while the application kept
/// its connection: the overwritten pages lay in the write-ahead log. They are written to the file
/// with the operation.
#[test]
fn a_removal_leaves_nothing_in_a_file_that_an_application_has_open() {
    let mut beside = beside();
    assert_eq!(beside.marked(), ["app.db"]);
    beside.leave();
    assert_eq!(beside.marked(), [""; 0]);
    beside.forget();
    assert_eq!(beside.marked(), [""; 0]);
    assert_eq!(*beside.notices.borrow(), [""; 0]);
    let left = beside
        .application
        .query_row("SELECT COUNT(*) FROM likes", [], |row| row.get(0));
    assert_eq!(left, Ok(1));
}

/// As above while somebody reads an older state, which no operation may take from them. The error
/// names the place of the remains, and the next removal takes them away.
#[test]
fn what_a_reader_keeps_in_a_file_is_said_and_goes_with_the_next_removal() {
    let mut beside = beside();
    let reads = "BEGIN; SELECT COUNT(*) FROM likes";
    beside.application.execute_batch(reads).unwrap();
    beside.leave();
    assert_eq!(beside.marked(), ["app.db"]);
    let told = beside.notices.borrow().clone();
    assert_eq!(told.len(), 1);
    let text = told.concat();
    assert!(
        text.contains("app.db-wal, because another connection"),
        "{text}"
    );
    assert!(text.contains("wal_checkpoint(TRUNCATE)"), "{text}");
    beside.application.execute_batch("COMMIT").unwrap();
    beside.forget();
    assert_eq!(beside.marked(), [""; 0]);
    assert_eq!(beside.notices.borrow().len(), 1);
}

/// A database whose answer to a commit is lost on the way, once.
struct Lost {
    inner: Sqlite,
    is_done: bool,
    refused: Rc<Cell<bool>>,
}

impl Database for Lost {
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }
    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.inner.begin()
    }
    fn begin_reading(&mut self) -> Result<(), DatabaseError> {
        self.inner.begin_reading()
    }
    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.inner.commit()?;
        if !self.refused.replace(false) {
            return Ok(());
        }
        self.is_done = true;
        Err(DatabaseError {
            kind: DatabaseErrorKind::Other,
            message: "the answer is lost".to_owned(),
            said: probity_disguise::Said::default(),
        })
    }
    fn rollback(&mut self) -> Result<(), DatabaseError> {
        if std::mem::take(&mut self.is_done) {
            return Ok(());
        }
        self.inner.rollback()
    }
    fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.inner.execute(sql, parameters)
    }
    fn attempt(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, DatabaseError> {
        self.inner.attempt(sql, parameters)
    }
    fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>, DatabaseError> {
        self.inner.query(sql, parameters)
    }
    fn catalog(&mut self) -> Result<Catalog, DatabaseError> {
        self.inner.catalog()
    }
    fn catalog_version(&mut self) -> Result<i64, DatabaseError> {
        self.inner.catalog_version()
    }
    fn explain(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<String>, DatabaseError> {
        self.inner.explain(sql, parameters)
    }
    fn returns_deleted(&self) -> bool {
        self.inner.returns_deleted()
    }
    fn defer_foreign_keys(&mut self) -> Result<(), DatabaseError> {
        self.inner.defer_foreign_keys()
    }
    fn clear_away(&mut self) -> Result<Option<String>, DatabaseError> {
        self.inner.clear_away()
    }
}

/// V17: where the answer to a commit was lost and the database said that it was done, what was removed stayed in the files, and
/// nothing was said. It is cleared away as after any other commit.
#[test]
fn a_removal_whose_answer_was_lost_leaves_nothing_in_a_file() {
    let beside = beside();
    let path = beside.folder.path().join("app.db");
    let refused = Rc::new(Cell::new(false));
    let database = Lost {
        inner: Sqlite::existing(&path).unwrap(),
        is_done: false,
        refused: Rc::clone(&refused),
    };
    let (schema, pseudo) = (beside.file.schema.clone(), beside.file.pseudo.clone());
    let mut engine = Engine::new(database, schema, pseudo.unwrap());
    engine.install().unwrap();
    engine.set_sink(Box::new(move |_: &Entry<'_>| {
        refused.set(true);
        Ok(())
    }));
    let request = ApplyRequest {
        spec: &beside.file.spec,
        user: Some(Value::Int(19)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: now(),
    };
    engine.apply(&request).unwrap();
    assert_eq!(beside.marked(), [""; 0]);
}
