//! Operations whose commit is refused, or during whose commit the database is lost: the log says
//! it, and a replay believes the last entry.

#![cfg(all(feature = "mysql", feature = "postgres"))]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};

use probity_disguise::database::{Sqlite, connect};
use probity_disguise::{
    Applied, ApplyRequest, Credential, CredentialLine, Database, Engine, Error, Halted,
    LoggedOperation, MissingOperation, Protection, Registration, ReplayRequest, Replayability,
    SecretKey, SpecFile, Value,
};
use probity_format::{Entry, Outcome, Timestamp};
use probity_testing::{mariadb, postgres};

use crate::wire::{Cut, Wire};

#[path = "server/wire.rs"]
mod wire;

const TABLES: [&str; 4] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL)",
    "CREATE TABLE notes (id BIGINT PRIMARY KEY, owner BIGINT REFERENCES people(id), text VARCHAR(80))",
    "INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')",
    "INSERT INTO notes VALUES (10, 1, 'of Ann'), (20, 2, 'of Bob')",
];

const BLANK: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, name = { RandStr = { len = 20 } } }
[tables.notes]
owners = ["owner"]
[[modify]]
table = "notes"
column = "text"
value = { ConstStr = "-" }
"#;

type AnyEngine = Engine<Box<dyn Database>>;

/// The entries that a log received.
#[derive(Clone, Default)]
struct Book {
    told: Rc<RefCell<Vec<LoggedOperation>>>,
    lines: Rc<RefCell<Vec<(String, Outcome, String)>>>,
}

impl Book {
    /// Takes the entries of `engine`; what is done between an entry and its commit is `meanwhile`.
    fn open(&self, engine: &mut AnyEngine, mut meanwhile: impl FnMut() + 'static) {
        let book = self.clone();
        engine.set_sink(Box::new(move |entry: &Entry<'_>| {
            book.told.borrow_mut().extend(LoggedOperation::of(entry));
            let payload = String::from_utf8(entry.payload.to_vec())?;
            let line = (entry.action.to_owned(), entry.outcome, payload);
            book.lines.borrow_mut().push(line);
            meanwhile();
            Ok(())
        }));
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.lines.borrow().iter().map(|(_, it, _)| *it).collect()
    }

    fn missed(&self, url: &str) -> Vec<MissingOperation> {
        let file = SpecFile::parse(BLANK).unwrap();
        let told = self.told.borrow();
        let request = ReplayRequest {
            told: &told,
            specs: &[file.spec],
            parameters: BTreeMap::new(),
            time: time(),
        };
        engine(url).missed().list(&request).unwrap()
    }
}

fn time() -> Timestamp {
    static CLOCK: AtomicI64 = AtomicI64::new(1_800_000_000_000_000_000);
    Timestamp::from_nanoseconds(CLOCK.fetch_add(1, Ordering::Relaxed)).unwrap()
}

fn engine(url: &str) -> AnyEngine {
    let file = SpecFile::parse(BLANK).unwrap();
    Engine::new(connect(url).unwrap(), file.schema, file.pseudo.unwrap())
}

/// Two people, who are registered.
fn peopled(url: &str) {
    let mut database = connect(url).unwrap();
    for sql in TABLES {
        database.execute(sql, &[]).unwrap();
    }
    let mut engine = engine(url);
    engine.install().unwrap();
    for user in [1, 2] {
        let user = Value::Int(user);
        engine
            .people()
            .register(&user, Protection::KeyAlone, time())
            .unwrap();
    }
}

fn apply(engine: &mut AnyEngine, user: i64) -> Result<Applied, Error> {
    let file = SpecFile::parse(BLANK).unwrap();
    engine.apply(&ApplyRequest {
        spec: &file.spec,
        user: Some(Value::Int(user)),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    })
}

fn texts(url: &str) -> Vec<String> {
    let sql = "SELECT text FROM notes ORDER BY id";
    let rows = connect(url).unwrap().query(sql, &[]).unwrap();
    rows.iter().flatten().map(ToString::to_string).collect()
}

/// Does something the first time that it is called.
fn once(deed: impl FnOnce() + 'static) -> impl FnMut() + 'static {
    let mut deed = Some(deed);
    move || {
        if let Some(deed) = deed.take() {
            deed();
        }
    }
}

fn the_later_of_two_disguises_in_conflict_is_not_missed(url: &str) {
    let (book, of_other) = (Book::default(), Book::default());
    let mut first = engine(url);
    let (address, other) = (url.to_owned(), of_other.clone());
    // Between the entry of the first and its commit the second comes, reads what the first has changed and changes what
    // the first has read.
    book.open(
        &mut first,
        once(move || {
            let mut second = engine(&address);
            other.open(&mut second, || {});
            apply(&mut second, 2).unwrap();
        }),
    );
    // The commit of the first is refused, and it is tried again.
    apply(&mut first, 1).unwrap();
    assert_eq!(book.outcomes(), [Outcome::Ok, Outcome::Failed, Outcome::Ok]);
    assert_eq!(of_other.outcomes(), [Outcome::Ok]);
    assert_eq!(texts(url), ["-", "-"]);
    assert_eq!(book.missed(url), []);
    // A backup of before would miss it once.
    let forget = "DELETE FROM probity_operations";
    connect(url).unwrap().execute(forget, &[]).unwrap();
    let missed = book.missed(url);
    let possible: Vec<&Replayability> = missed.iter().map(|it| &it.outlook).collect();
    assert_eq!(possible, [&Replayability::Possible], "{missed:?}");
}

fn what_is_killed_before_its_commit_is_not_done(url: &str, own_id: &str, kill: &str) {
    let book = Book::default();
    let mut first = engine(url);
    let id = first.database().query(own_id, &[]).unwrap()[0][0].clone();
    let (address, kill) = (url.to_owned(), kill.replace('?', &id.to_string()));
    book.open(
        &mut first,
        once(move || {
            connect(&address).unwrap().query(&kill, &[]).unwrap();
        }),
    );
    let before = texts(url);
    let refused = apply(&mut first, 1);
    assert!(
        matches!(refused, Err(Error::Database { .. })),
        "{refused:?}"
    );
    assert_eq!(texts(url), before);
    assert_eq!(book.outcomes(), [Outcome::Ok, Outcome::Failed]);
    assert_eq!(book.missed(url), []);
}

/// An engine that reaches the database over a wire that is cut at the next commit.
fn over(wire: &Rc<Wire>, url: &str, cut: Cut, book: &Book) -> AnyEngine {
    let mut engine = engine(url);
    let wire = Rc::clone(wire);
    book.open(&mut engine, once(move || wire.cut_at_commit(cut)));
    engine
}

fn what_is_lost_at_its_commit_is_asked_for(url: &str, wire: &Rc<Wire>, over_wire: &str) {
    let book = Book::default();
    // The commit arrives and its answer does not.
    let mut first = over(wire, over_wire, Cut::Answer, &book);
    apply(&mut first, 1).unwrap();
    assert_eq!(texts(url)[0], "-");
    assert_eq!(book.outcomes(), [Outcome::Ok]);
    // The commit does not arrive.
    let before = texts(url);
    let mut second = over(wire, over_wire, Cut::Question, &book);
    let refused = apply(&mut second, 1);
    assert!(
        matches!(refused, Err(Error::Database { .. })),
        "{refused:?}"
    );
    assert_eq!(texts(url), before);
    assert_eq!(book.outcomes()[1..], [Outcome::Ok, Outcome::Failed]);
    assert_eq!(book.missed(url), []);
}

fn what_nobody_can_be_asked_about_is_told_as_not_known(
    url: &str,
    wire: &Rc<Wire>,
    over_wire: &str,
) {
    for (cut, is_done) in [(Cut::Answer, true), (Cut::Question, false)] {
        let book = Book::default();
        let mut engine = over(wire, over_wire, cut, &book);
        wire.close_after_cut(true);
        let unsettled = apply(&mut engine, 2);
        assert!(
            matches!(unsettled, Err(Error::Unsettled(_))),
            "{unsettled:?}"
        );
        wire.close_after_cut(false);
        let lines = book.lines.borrow();
        assert_eq!(book.outcomes(), [Outcome::Ok, Outcome::Failed]);
        assert!(lines[1].2.contains("\"commit\":\"unknown\""), "{lines:?}");
        // The database knows.
        let missed = book.missed(url);
        assert_eq!(missed.is_empty(), is_done, "{missed:?}");
        for it in missed {
            let Replayability::Not(why) = &it.outlook else {
                panic!("{it:?}");
            };
            assert!(why.contains("lost at its commit"), "{why}");
        }
    }
}

fn key_of(made: &Registration) -> SecretKey {
    match CredentialLine::parse(&made.line()) {
        Ok(CredentialLine::Key(key)) => key,
        _ => panic!("no key"),
    }
}

/// Changes the key of person 1 without a log, over a wire that is cut at the commit. Returns the new key, too.
fn change_key(
    wire: &Rc<Wire>,
    over_wire: &str,
    (cut, current): (Cut, &SecretKey),
) -> (Result<Registration, Error>, SecretKey) {
    let mut engine = engine(over_wire);
    let (wire, handed) = (Rc::clone(wire), Rc::new(RefCell::new(None)));
    let taker = Rc::clone(&handed);
    engine.set_hand_over(Box::new(move |made| {
        wire.cut_at_commit(cut);
        *taker.borrow_mut() = Some(key_of(made));
        Ok(())
    }));
    let (user, key) = (Value::Int(1), Protection::KeyAlone);
    let current = Credential::Key(current);
    let changed = engine.people().change_key(&user, &current, key, time());
    let new = handed.borrow_mut().take().unwrap();
    (changed, new)
}

fn fits(url: &str, key: &SecretKey) -> bool {
    let listed = engine(url).list(&Value::Int(1), &Credential::Key(key), time());
    listed.is_ok()
}

/// Without a log a connection was lost at the commit of a new key: the error said that the database
/// had failed, the program took the file of the new key away, and the old key was void.
fn without_a_log_what_is_lost_at_its_commit_is_asked_for(
    url: &str,
    wire: &Rc<Wire>,
    over_wire: &str,
) {
    let mut database = connect(url).unwrap();
    let unregister = "DELETE FROM probity_principals";
    database.execute(unregister, &[]).unwrap();
    let (user, alone) = (Value::Int(1), Protection::KeyAlone);
    let made = engine(url).people().register(&user, alone, time()).unwrap();
    let first = key_of(&made);
    let (changed, second) = change_key(wire, over_wire, (Cut::Answer, &first));
    changed.unwrap();
    assert!(fits(url, &second) && !fits(url, &first));
    let (changed, third) = change_key(wire, over_wire, (Cut::Question, &second));
    assert!(changed.err().unwrap().is_undone());
    assert!(fits(url, &second) && !fits(url, &third));
    wire.close_after_cut(true);
    let (changed, third) = change_key(wire, over_wire, (Cut::Answer, &second));
    wire.close_after_cut(false);
    let error = changed.err().unwrap();
    assert!(matches!(error, Error::Unsettled(_)) && !error.is_undone());
    assert!(fits(url, &third) && !fits(url, &second));
}

/// The beginning of a disguise in chunks was committed and nothing said of which, so that the next
/// `resume` hid the person.
fn a_beginning_that_may_be_committed_says_its_handle(url: &str, wire: &Rc<Wire>, over_wire: &str) {
    let mut first = engine(over_wire);
    first.chunks().unfinished().unwrap();
    let file = SpecFile::parse(BLANK).unwrap();
    wire.close_after_cut(true);
    wire.cut_at_commit(Cut::Answer);
    let halted = first.chunks().apply(
        &ApplyRequest {
            spec: &file.spec,
            user: Some(Value::Int(1)),
            over: None,
            parameters: BTreeMap::new(),
            expires: None,
            time: time(),
        },
        1,
        time,
    );
    wire.close_after_cut(false);
    let Err(Halted { begun, cause, .. }) = halted else {
        panic!("{halted:?}");
    };
    assert!(matches!(cause, Error::Unsettled(_)), "{cause:?}");
    let unfinished = engine(url).chunks().unfinished().unwrap();
    assert_eq!(Vec::from_iter(begun), unfinished);
}

#[test]
fn the_log_says_what_became_of_a_commit_on_postgres() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    peopled(&url);
    the_later_of_two_disguises_in_conflict_is_not_missed(&url);
    what_is_killed_before_its_commit_is_not_done(
        &url,
        "SELECT pg_backend_pid()",
        "SELECT pg_terminate_backend(?, 60000)::text",
    );
    let file = ".s.PGSQL.5432";
    let wire = Rc::new(Wire::to(&Path::new(&socket).join(file), file));
    let over_wire = postgres::url(wire.folder());
    what_is_lost_at_its_commit_is_asked_for(&url, &wire, &over_wire);
    what_nobody_can_be_asked_about_is_told_as_not_known(&url, &wire, &over_wire);
    without_a_log_what_is_lost_at_its_commit_is_asked_for(&url, &wire, &over_wire);
    a_beginning_that_may_be_committed_says_its_handle(&url, &wire, &over_wire);
}

#[test]
fn the_log_says_what_became_of_a_commit_on_mariadb() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    database.execute("CREATE DATABASE app", &[]).unwrap();
    let url = mariadb::url(&socket, "app");
    peopled(&url);
    what_is_killed_before_its_commit_is_not_done(&url, "SELECT CONNECTION_ID()", "KILL ?");
    let wire = Rc::new(Wire::to(Path::new(&socket), "s"));
    let over_wire = mariadb::url(&format!("{}/s", wire.folder()), "app");
    what_is_lost_at_its_commit_is_asked_for(&url, &wire, &over_wire);
    what_nobody_can_be_asked_about_is_told_as_not_known(&url, &wire, &over_wire);
    without_a_log_what_is_lost_at_its_commit_is_asked_for(&url, &wire, &over_wire);
    a_beginning_that_may_be_committed_says_its_handle(&url, &wire, &over_wire);
}

#[test]
fn a_commit_that_a_reader_keeps_from_a_file_is_told_of_and_done_when_it_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.db");
    drop(Sqlite::open(&file).unwrap());
    let url = format!("sqlite:{}", file.display());
    peopled(&url);
    let book = Book::default();
    let mut engine = engine(&url);
    let database = engine.database();
    database.query("PRAGMA busy_timeout = 50", &[]).unwrap();
    let reader = Rc::new(RefCell::new(connect(&url).unwrap()));
    let (reading, is_open) = (Rc::clone(&reader), Rc::new(Cell::new(false)));
    let opened = Rc::clone(&is_open);
    book.open(
        &mut engine,
        once(move || {
            let mut reader = reading.borrow_mut();
            reader.execute("BEGIN", &[]).unwrap();
            reader.query("SELECT * FROM notes", &[]).unwrap();
            opened.set(true);
        }),
    );
    let refused = apply(&mut engine, 1);
    assert!(is_open.get());
    assert!(
        matches!(refused, Err(Error::Database { .. })),
        "{refused:?}"
    );
    assert_eq!(book.outcomes(), [Outcome::Ok, Outcome::Failed]);
    reader.borrow_mut().commit().unwrap();
    assert_eq!(book.missed(&url), []);
    assert_eq!(texts(&url), ["of Ann", "of Bob"]);
    apply(&mut engine, 1).unwrap();
    assert_eq!(texts(&url), ["-", "of Bob"]);
    assert_eq!(book.missed(&url), []);
}
