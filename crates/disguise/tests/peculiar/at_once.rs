//! Operations over several connections at the same time.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use probity_disguise::database::{Mysql, Postgres};
use probity_disguise::{
    Credential, Database, Engine, KeyCost, SecretKey, SpecFile, SubjectKey, Value,
};
use probity_format::Entry;

use crate::suite::forum::time;
use crate::suite::member::{Member, NOTES};
use crate::{MADE, OF_POSTGRES, PLACE, connect, kinds, mariadb, postgres};

/// Operation and predecessors of each entry.
type Told = Rc<RefCell<Vec<(String, Vec<String>)>>>;

/// Another connection to the database that the claim at hand made last.
fn another() -> Box<dyn Database> {
    let name = MADE.with_borrow(|made| made.last().unwrap().clone());
    let socket = PLACE.with_borrow(|place| place.as_ref().unwrap().socket.clone());
    let is_postgres = kinds() == OF_POSTGRES;
    let (mut database, sql): (Box<dyn Database>, String) = if is_postgres {
        let database = Postgres::connect(&postgres::url(&socket)).unwrap();
        (Box::new(database), format!("SET search_path = {name}"))
    } else {
        let database = Mysql::connect(&mariadb::url(&socket, "mysql")).unwrap();
        (Box::new(database), format!("USE {name}"))
    };
    database.execute(&sql, &[]).unwrap();
    database
}

fn note(told: &Told, entry: &Entry<'_>) {
    let payload: serde_json::Value = serde_json::from_slice(entry.payload).unwrap();
    let text = |it: &serde_json::Value| it.as_str().unwrap().to_owned();
    assert!(
        payload["after"].is_array(),
        "{} {payload} {:?}",
        entry.action,
        told.borrow()
    );
    let after = payload["after"].as_array().unwrap();
    let after = after.iter().map(text).collect();
    told.borrow_mut().push((text(&payload["operation"]), after));
}

fn export(engine: &mut Engine<Box<dyn Database>>, key: &SecretKey) {
    let credential = Credential::Key(key);
    let exported = engine.export(&Value::Int(1), &credential, None, time());
    exported.unwrap();
}

/// Two operations ran at the same time, neither of which came after the other. The next one names both, so that neither
/// passes for one that was cut off; and neither had to be tried again.
pub(crate) fn operations_at_once_are_both_named() {
    let mut database = connect();
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "INSERT INTO members VALUES (1), (2)",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, NOTES);
    let file = SpecFile::parse(NOTES).unwrap();
    let mut other = Engine::new(another(), file.schema, file.pseudo.unwrap());
    other.options().key_cost = KeyCost::DANGER_LEAST;
    let log = Arc::new(SubjectKey::of_log(b"a secret").in_log(b"a log"));
    member.engine.set_subject_key(Arc::clone(&log));
    other.set_subject_key(log);
    let told = Told::default();
    let told_by_other = Rc::clone(&told);
    other.set_sink(Box::new(move |entry: &Entry<'_>| {
        note(&told_by_other, entry);
        Ok(())
    }));
    let (outer, key) = (
        Rc::clone(&told),
        SecretKey::from_bytes(*member.key.expose()),
    );
    let between = Rc::new(Cell::new(None));
    let inner = Rc::clone(&between);
    member.engine.set_sink(Box::new(move |entry: &Entry<'_>| {
        if let Some(mut other) = inner.take() {
            export(&mut other, &key);
        }
        note(&outer, entry);
        Ok(())
    }));
    let key = SecretKey::from_bytes(*member.key.expose());
    // The first one notes the log.
    export(&mut member.engine, &key);
    between.set(Some(other));
    for _ in 0..3 {
        export(&mut member.engine, &key);
    }
    let told = told.borrow();
    assert_eq!(told.len(), 5, "{told:?}");
    let first = vec![told[0].0.clone()];
    assert_eq!((&told[1].1, &told[2].1), (&first, &first));
    let mut both = [told[1].0.clone(), told[2].0.clone()];
    both.sort_unstable();
    let mut named = told[3].1.clone();
    named.sort_unstable();
    assert_eq!(named, both, "{told:?}");
    assert_eq!(told[4].1, [told[3].0.clone()]);
}
