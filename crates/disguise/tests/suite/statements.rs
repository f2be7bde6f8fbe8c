//! Statements of a disguise and its reveal: their number, and savepoints of the application left
//! alone.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Authority, Database, DatabaseErrorKind, Dialect, Engine, Holding, Value};

use super::forum::*;

/// Returns the number of statements of `work`, each at least one round trip to a server.
pub(crate) fn statements<T>(forum: &mut Forum, work: impl FnOnce(&mut Forum) -> T) -> (T, u64) {
    let before = forum.database.statements();
    let done = work(forum);
    (done, forum.database.statements() - before)
}

/// Lets the database note that operations are done without a log, which it does once.
pub(super) fn work_without_a_log(forum: &mut Forum) {
    let authority = Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    };
    let mut holds = forum.engine.holds();
    let hold = holds.place(Holding::Person(&Value::Int(1)), &authority);
    holds.lift(hold.unwrap(), &authority).unwrap();
}

const NO_STORIES: &str = r#"{"stories": [{"Remove": {"pred": "True", "from": ""}}]}"#;

/// Statements that put three rows back.
fn three_rows(forum: &mut Forum) -> u64 {
    match forum.engine.database().dialect() {
        Dialect::Sqlite => 3,
        _ => 1,
    }
}

pub(crate) fn a_removal_asks_once_what_it_stands_on_and_takes_each_table_at_once() {
    let mut forum = forum();
    let three_rows = three_rows(&mut forum);
    work_without_a_log(&mut forum);
    let (applied, taken) = statements(&mut forum, |it| it.apply(NO_STORIES, Some(1), false));
    let applied = applied.unwrap();
    assert_eq!(applied.rows["stories"], 3);
    // What it stands on; the rows; the records and their locator; which log is
    // noted, and the operation.
    assert_eq!(taken, 1 + 1 + 2 + 2);
    let (revealed, taken) = statements(&mut forum, |it| it.reveal(1, applied.id));
    assert!(revealed.is_complete());
    // What it stands on, and who the owner is; the locators and the records; whether the owner is there; the rows; that the
    // records are none any more, and their two tables; which log is noted, and the operation.
    assert_eq!(taken, 1 + 2 + 1 + three_rows + 3 + 2);
    forum.assert_as_before();
    // Another connection asks for the shapes.
    let (applied, taken) = statements(&mut forum, |it| it.apply(NO_STORIES, Some(1), false));
    assert_eq!(taken, 1 + 1 + 2 + 2);
    forum.engine = Engine::stored(forum.database.boxed()).unwrap();
    forum.engine.updates().names().unwrap();
    let id = applied.unwrap().id;
    let (revealed, taken) = statements(&mut forum, |it| it.reveal(1, id));
    assert!(revealed.is_complete());
    // The first time also which operations without a log are old.
    assert_eq!(taken, 1 + 2 + 1 + 1 + three_rows + 3 + 2);
    forum.assert_as_before();
}

pub(crate) fn an_account_is_removed_and_read_at_once_and_not_looked_for_when_it_is_back() {
    let mut forum = forum();
    let three_rows = three_rows(&mut forum);
    work_without_a_log(&mut forum);
    forum.sql("DELETE FROM moderations WHERE moderator_user_id = 1 OR user_id = 1");
    forum.before = forum.everything();
    let (applied, taken) = statements(&mut forum, |it| it.apply(GDPR_REMOVE, Some(1), false));
    let applied = applied.unwrap();
    assert_eq!((applied.rows["users"], applied.rows["stories"]), (1, 3));
    // What it stands on; rows that may be shared, which are read and then deleted; two tables whose rows are not, and the
    // registration; the records and their locator; which log is
    // noted, and the operation.
    assert_eq!(taken, 1 + 2 + 3 + 2 + 2);
    let (revealed, taken) = statements(&mut forum, |it| it.reveal(1, applied.id));
    assert!(revealed.is_complete());
    // What it stands on; the locators and the records; the account and the rows; whether somebody is registered, and the
    // registration; that the records are none any more, and their two tables; which log is noted, and the operation.
    assert_eq!(taken, 1 + 2 + 1 + three_rows + 2 + 3 + 2);
    forum.assert_as_before();
}

pub(crate) fn savepoints_of_the_application_stay_its_own() {
    let forum = forum();
    let mut database = forum.database.boxed();
    let tag = "INSERT INTO tags VALUES (?, 'tried')";
    let attempt = |database: &mut dyn Database, id: i64| {
        database
            .attempt(tag, &[Value::Int(id)])
            .map_err(|it| it.kind)
    };
    database.begin().unwrap();
    attempt(&mut *database, 10).unwrap();
    database.execute("SAVEPOINT first", &[]).unwrap();
    attempt(&mut *database, 11).unwrap();
    database.execute("SAVEPOINT second", &[]).unwrap();
    attempt(&mut *database, 12).unwrap();
    assert_eq!(attempt(&mut *database, 10), Err(DatabaseErrorKind::Unique));
    attempt(&mut *database, 13).unwrap();
    database
        .execute("ROLLBACK TO SAVEPOINT second", &[])
        .unwrap();
    attempt(&mut *database, 14).unwrap();
    database.execute("RELEASE SAVEPOINT second", &[]).unwrap();
    attempt(&mut *database, 15).unwrap();
    database.execute("SAVEPOINT third", &[]).unwrap();
    attempt(&mut *database, 16).unwrap();
    database
        .execute("ROLLBACK TO SAVEPOINT first", &[])
        .unwrap();
    attempt(&mut *database, 17).unwrap();
    database.commit().unwrap();
    database.begin().unwrap();
    attempt(&mut *database, 18).unwrap();
    database.rollback().unwrap();
    database.begin().unwrap();
    attempt(&mut *database, 19).unwrap();
    database.commit().unwrap();
    let sql = "SELECT id FROM tags WHERE id >= 10 ORDER BY id";
    let rows = database.query(sql, &[]).unwrap().concat();
    assert_eq!(rows, [10, 17, 19].map(Value::Int));
}
