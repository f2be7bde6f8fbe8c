//! Keys that look alike, keys of zero, and rows that keep no other row away.

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Revealed};

use super::society::{Society, description};

const PEOPLE: [&str; 2] = [
    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
];

fn society(statements: &[&str], tables: &str) -> Society {
    let statements = PEOPLE.iter().chain(statements);
    let statements: Vec<String> = statements.map(|it| (*it).to_owned()).collect();
    Society::of(&statements, &description(tables), &[1, 2])
}

fn has_late_keys() -> bool {
    crate::connect().dialect() != Dialect::Mysql
}

/// The number of rows of a table that came back.
fn back(revealed: &Revealed, table: &str) -> u64 {
    revealed.restored.get(table).copied().unwrap_or(0)
}

/// Two keys counted as one that differ in case, accents, signs or far behind the point. A row whose
/// reference had led nowhere waited for good for a row with the other key.
pub(crate) fn a_reference_that_led_nowhere_waits_for_no_like_key() {
    let pairs = [
        ("c++", "c#"),
        ("a.b@x", "ab@x"),
        ("9007199254740992", "9007199254740993"),
        ("2020-01-02", "2020-01-20"),
    ];
    for (there, nowhere) in pairs {
        let rows = [
            "CREATE TABLE tags (name VARCHAR(40) PRIMARY KEY, who BIGINT)".to_owned(),
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, tag VARCHAR(40))".to_owned(),
            format!("INSERT INTO tags VALUES ('{there}', 1)"),
            format!("INSERT INTO posts VALUES (10, 1, '{nowhere}'), (11, 1, '{there}')"),
        ];
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let mut society = society(
            &rows,
            "[tables.tags]\nowners = [\"who\"]\n[tables.posts]\nowners = [\"who\"]\n\
             references = [{ columns = [\"tag\"], table = \"tags\", to = [\"name\"] }]\n\
             [[remove]]\ntable = \"posts\"\n[[remove]]\ntable = \"tags\"\n",
        );
        let gone = society.leave(1);
        society.reveal(1, gone);
        society.assert_as_before(there);
    }
}

/// A row with the key 0 counted as nobody, as it does among people: the row that referred to it went
/// in alone, and the commit was refused.
pub(crate) fn a_row_with_the_key_zero_is_waited_for() {
    if !has_late_keys() {
        // It looks at keys row by row, and lets nobody of a circle leave.
        return;
    }
    let is_at_once = crate::connect().dialect() == Dialect::Sqlite;
    let late = "DEFERRABLE INITIALLY DEFERRED";
    let (own, later) = if is_at_once {
        (
            format!("REFERENCES s (id) {late}"),
            "UPDATE t SET who = 1".to_owned(),
        )
    } else {
        let later = format!("ALTER TABLE t ADD FOREIGN KEY (other) REFERENCES s (id) {late}");
        (String::new(), later)
    };
    let statements = [
        format!(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, other BIGINT {own}, mate BIGINT REFERENCES t (id) {late})"
        ),
        format!(
            "CREATE TABLE s (id BIGINT PRIMARY KEY, who BIGINT, other BIGINT REFERENCES t (id) {late}, mate BIGINT REFERENCES s (id) {late})"
        ),
        "INSERT INTO t VALUES (0, 1, NULL, NULL), (10, 1, NULL, NULL), (20, 1, NULL, 10)"
            .to_owned(),
        "INSERT INTO s VALUES (0, 2, NULL, NULL), (10, 2, 0, NULL), (20, 2, NULL, 10)".to_owned(),
        "UPDATE t SET other = 0, mate = 20 WHERE id = 10".to_owned(),
        "UPDATE s SET mate = 20 WHERE id = 10".to_owned(),
        later,
    ];
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    for order in [[1, 2], [2, 1]] {
        let mut society = society(
            &statements,
            "[tables.t]\nowners = [\"who\"]\n[tables.s]\nowners = [\"who\"]\n\
             [[remove]]\ntable = \"s\"\n[[remove]]\ntable = \"t\"\n",
        );
        let gone = society.try_to_leave(None, false, None).unwrap().id;
        for user in order {
            society.reveal(user, gone);
        }
        for user in order {
            society.try_again(&BTreeMap::from([(user, gone)]));
        }
        society.assert_as_before(&format!("{order:?}"));
    }
}

/// Every column of a joint key was empty for a while, also the one by which the other row referred
/// back, so that no value could be written again.
pub(crate) fn a_circle_over_a_joint_key_with_a_column_that_may_be_empty_goes_back() {
    for constraint in ["", "NOT NULL"] {
        let table = format!(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, org BIGINT {constraint}, r BIGINT, \
             UNIQUE (org, id), FOREIGN KEY (org, r) REFERENCES t (org, id))"
        );
        let statements = [
            table.as_str(),
            "INSERT INTO t VALUES (1, 1, 50, NULL), (2, 1, 50, NULL)",
            "UPDATE t SET r = 2 WHERE id = 1",
            "UPDATE t SET r = 1 WHERE id = 2",
        ];
        let mut society = society(
            &statements,
            "[tables.t]\nowners = [\"who\"]\n[[remove]]\ntable = \"t\"\n",
        );
        let gone = society.leave(1);
        society.reveal(1, gone);
        society.assert_as_before(constraint);
    }
}

/// Rows without their parents were taken out again one by one, which another row's declared key
/// forbade: the whole reveal failed.
pub(crate) fn rows_that_cannot_stay_are_not_taken_out_one_by_one() {
    let late = match crate::connect().dialect() {
        Dialect::Sqlite => " DEFERRABLE INITIALLY DEFERRED",
        _ => "",
    };
    let table = format!(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, o BIGINT, m BIGINT, FOREIGN KEY (m) REFERENCES t (id){late})"
    );
    let statements = [
        table.as_str(),
        "INSERT INTO t VALUES (1, 1, NULL, NULL), (2, 1, 3, NULL), (3, 1, 1, NULL), (9, 1, NULL, NULL)",
        "UPDATE t SET m = 2 WHERE id = 3",
        "UPDATE t SET m = 9 WHERE id = 1",
    ];
    let mut society = society(
        &statements,
        "[tables.t]\nowners = [\"who\"]\n\
         references = [{ columns = [\"o\"], table = \"t\", to = [\"id\"] }]\n[[remove]]\ntable = \"t\"\n",
    );
    let gone = society.leave(1);
    society.reveal(1, gone);
    society.assert_as_before("");
}

/// A row of a stranger's path was left out after the rows that refer to it had been looked at: the
/// commit was refused, and nothing came back.
pub(crate) fn a_row_whose_parent_is_a_strangers_now_waits_with_it() {
    let late = if has_late_keys() {
        " DEFERRABLE INITIALLY DEFERRED"
    } else {
        ""
    };
    let table = format!(
        "CREATE TABLE c (id BIGINT PRIMARY KEY, r BIGINT, p BIGINT, \
         FOREIGN KEY (r) REFERENCES t (id){late}, FOREIGN KEY (p) REFERENCES c (id){late})"
    );
    let statements = [
        "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT)",
        table.as_str(),
        "INSERT INTO t VALUES (10, 1), (11, 1)",
        "INSERT INTO c VALUES (100, 10, NULL), (101, 11, 100)",
    ];
    let mut society = society(
        &statements,
        "[tables.t]\nowners = [\"who\"]\n[tables.c]\nthrough = [\"r\"]\n\
         [[remove]]\ntable = \"c\"\n[[remove]]\ntable = \"t\"\n",
    );
    let gone = society.leave(1);
    society.sql("INSERT INTO t VALUES (10, 2)");
    let revealed = society.reveal(1, gone);
    assert_eq!((back(&revealed, "people"), back(&revealed, "t")), (1, 1));
    assert_eq!(society.numbers("SELECT COUNT(*) FROM c"), [0]);
    society.sql("DELETE FROM t WHERE id = 10");
    society.reveal(1, gone);
    society.assert_as_before("");
}

/// A value that the database refused kept all other circles of the person away.
pub(crate) fn a_circle_that_is_refused_keeps_no_other_away() {
    let statements = [
        "CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, org BIGINT, code VARCHAR(9), r BIGINT, \
         UNIQUE (org, id), UNIQUE (org, code), FOREIGN KEY (org, r) REFERENCES t (org, id))",
        "INSERT INTO t VALUES (1, 1, 50, 'x', NULL), (2, 1, 50, 'y', NULL), (3, 1, 50, 'z', NULL), (4, 1, 50, 'w', NULL)",
        "UPDATE t SET r = 2 WHERE id = 1",
        "UPDATE t SET r = 1 WHERE id = 2",
        "UPDATE t SET r = 4 WHERE id = 3",
        "UPDATE t SET r = 3 WHERE id = 4",
    ];
    let mut society = society(
        &statements,
        "[tables.t]\nowners = [\"who\"]\n[[remove]]\ntable = \"t\"\n",
    );
    let gone = society.leave(1);
    society.sql("INSERT INTO t VALUES (60, 2, 50, 'x', NULL)");
    let revealed = society.reveal(1, gone);
    assert_eq!(back(&revealed, "t"), 2);
    assert_eq!(society.numbers("SELECT id FROM t ORDER BY id"), [3, 4, 60]);
    society.sql("DELETE FROM t WHERE id = 60");
    society.reveal(1, gone);
    society.assert_as_before("");
}

/// A row that named somebody who came back was counted as changed in each round, and a disguise in
/// chunks began round after round, for good.
pub(crate) fn chunks_end_after_everybody_came_back() {
    let statements = ["UPDATE people SET boss = 2 WHERE id = 1"];
    let mut all = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), boss BIGINT, FOREIGN KEY (boss) REFERENCES people (id))",
        "INSERT INTO people VALUES (1, 'one', NULL), (2, 'two', NULL)",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT)",
        "INSERT INTO posts VALUES (10, 1), (20, 2)",
    ];
    all.extend(statements);
    let statements: Vec<String> = all.into_iter().map(str::to_owned).collect();
    let text = description(
        "[tables.people]\non_leave = { boss = \"null\" }\n[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n",
    );
    let mut society = Society::of(&statements, &text, &[1, 2]);
    let gone = society.begin_of_all();
    for _ in 0..2 {
        assert!(!society.go_on(gone, "the posts"));
    }
    for user in [1, 2] {
        society.reveal(user, gone);
    }
    let ended = (0..100).any(|_| society.go_on(gone, "nobody is left"));
    assert!(ended, "it goes on");
    society.assert_as_before("");
}
