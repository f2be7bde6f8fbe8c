//! Rows of one table of `PostgreSQL` in a circle, by keys that are checked at the end of each statement.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeSet;
use std::sync::Barrier;

use probity_disguise::database::Postgres;
use probity_disguise::{
    Applied, Credential, Database as _, DisguiseId, Engine, References, RevealRequest, Rows,
    SecretKey, SpecFile, Value,
};
use probity_testing::postgres;

use crate::of_postgres::place;
use crate::suite::forum::time;
use crate::suite::member::{Member, NOTES};
use crate::{PLACE, connect};

/// Notes of which each refers to the next, and the last to the first.
const IN_A_CIRCLE: [&str; 5] = [
    "CREATE TABLE members (id BIGINT PRIMARY KEY)",
    "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members, \
     next BIGINT NOT NULL REFERENCES notes, code BIGINT UNIQUE)",
    "INSERT INTO members VALUES (1), (2)",
    "INSERT INTO notes VALUES (1, 1, 2, NULL), (2, 1, 3, NULL), (3, 1, 1, NULL), \
     (4, 1, 3, NULL), (5, 1, 5, 50), (6, 1, 5, NULL)",
    "INSERT INTO notes VALUES (7, 1, 8, 70), (8, 1, 7, NULL)",
];

fn in_a_circle(more: &[&str]) -> Member {
    let mut database = connect();
    for sql in IN_A_CIRCLE.iter().chain(more) {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, NOTES)
}

fn kept(member: &mut Member, applied: &Applied) -> Vec<String> {
    let kept = member.return_from(applied).kept.into_iter();
    let mut kept: Vec<String> = kept.map(|it| it.identity).collect();
    kept.sort();
    kept
}

/// A row that the database refused kept every circle of its statement away.
pub(crate) fn a_refused_row_keeps_no_circle_of_other_rows_away() {
    let mut member = in_a_circle(&[]);
    let before = member.rows(["members", "notes"]);
    let applied = member.leave();
    member.sql(&["INSERT INTO notes VALUES (20, 2, 20, 50), (21, 2, 20, 70)"]);
    assert_eq!(kept(&mut member, &applied), ["5", "6", "7", "8"]);
    member.sql(&["DELETE FROM notes WHERE id = 21"]);
    assert_eq!(kept(&mut member, &applied), ["5", "6"]);
    member.sql(&["DELETE FROM notes WHERE id = 20"]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// Rows of a table with a trigger go back one by one, and no row of a circle is the first.
pub(crate) fn a_circle_comes_back_to_a_table_with_a_trigger() {
    let trigger = [
        "CREATE FUNCTION passes() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN IF new.code = 70 AND EXISTS (SELECT FROM members WHERE id = 9) \
         THEN RETURN NULL; END IF; RETURN new; END'",
        "CREATE TRIGGER passes BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION passes()",
    ];
    let mut member = in_a_circle(&trigger);
    let before = member.rows(["members", "notes"]);
    let applied = member.leave();
    member.sql(&["INSERT INTO members VALUES (9)"]);
    assert_eq!(kept(&mut member, &applied), ["7", "8"]);
    member.sql(&["DELETE FROM members WHERE id = 9"]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// Keys of a circle that are spelled in two ways, or lead to a column which the database works out,
/// made its rows wait for each other for good.
pub(crate) fn a_circle_by_keys_that_no_record_shows_comes_back() {
    let made = [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id NUMERIC PRIMARY KEY, member BIGINT REFERENCES members, \
         next NUMERIC NOT NULL REFERENCES notes, code BIGINT UNIQUE)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (1, 1, 2.0, NULL), (2, 1, 3.00, NULL), (3, 1, 1.0, NULL), \
         (4, 1, 3.0, NULL), (5, 1, 6.0, 50), (6, 1, 5.0, NULL)",
    ];
    let worked_out = [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members, \
         next BIGINT NOT NULL, code BIGINT UNIQUE, \
         sign BIGINT GENERATED ALWAYS AS (id + 100) STORED UNIQUE)",
        "ALTER TABLE notes ADD FOREIGN KEY (next) REFERENCES notes (sign)",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (1, 1, 102), (2, 1, 103), (3, 1, 101), (4, 1, 103)",
    ];
    for made in [made.as_slice(), &worked_out] {
        let mut database = connect();
        for sql in made {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, NOTES);
        let before = member.rows(["members", "notes"]);
        let applied = member.leave();
        if before.iter().map(BTreeSet::len).sum::<usize>() > 6 {
            member.sql(&["INSERT INTO notes VALUES (20, 2, 20, 50)"]);
            assert_eq!(kept(&mut member, &applied), ["5", "6"]);
            member.sql(&["DELETE FROM notes WHERE id = 20"]);
        }
        let revealed = member.return_from(&applied);
        assert!(revealed.is_complete(), "{:?}", revealed.kept);
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}

fn request(key: &SecretKey, id: DisguiseId) -> RevealRequest<'_> {
    RevealRequest {
        user: Value::Int(1),
        credential: Credential::Key(key),
        id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time: time(),
    }
}

/// Of two reveals of one disguise at once, one was told that its specification does not fit.
pub(crate) fn of_two_reveals_at_once_one_is_tried_again() {
    let mut member = in_a_circle(&[]);
    let before = member.rows(["members", "notes"]);
    let place = format!("SET search_path = {}", place(member.engine.database()));
    let url = PLACE.with_borrow(|it| postgres::url(&it.as_ref().unwrap().socket));
    for _ in 0..10 {
        let id = member.leave().id;
        let start = Barrier::new(2);
        let Member { engine, key, .. } = &mut member;
        let key = &*key;
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut database = Postgres::connect(&url).unwrap();
                database.execute(&place, &[]).unwrap();
                let file = SpecFile::parse(NOTES).unwrap();
                let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
                start.wait();
                engine.reveal(&request(key, id)).map(drop)
            });
            start.wait();
            let own = engine.reveal(&request(key, id)).map(drop);
            [own, other.join().unwrap()]
        });
        let mut refused = both.iter().filter_map(|it| it.as_ref().err());
        assert!(refused.all(probity_disguise::Error::is_passing), "{both:?}");
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}
