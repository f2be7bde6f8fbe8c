//! Rows of several people in circles that lead over their accounts, and rows in no circle at all.

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Error};

use super::society::Society;

/// The declaration of a key that the last statement of a transaction may complete.
fn late() -> &'static str {
    match crate::connect().dialect() {
        Dialect::Mysql => "",
        _ => "DEFERRABLE INITIALLY DEFERRED",
    }
}

/// The declaration of a key, in the table where the database can add none later.
fn key(column: &str, to: &str) -> String {
    format!(", FOREIGN KEY ({column}) REFERENCES {to} (id) {}", late())
}

/// People who cannot be without a row of `column`, of whom nobody leaves but 1 and 2.
fn society(column: &str, statements: &[String], tables: &str) -> Society {
    let description = format!(
        "[users]\ntable = \"people\"\nid = \"id\"\n[users.placeholder]\n\
         id = {{ RandNum = {{ lb = 1000000, ub = 2000000000 }} }}\n{column} = {{ ConstNum = 12 }}\n\
         {tables}[[remove]]\ntable = \"people\"\nwhere = \"id < 3\"\n"
    );
    Society::of(statements, &description, &[1, 2, 3])
}

/// Everybody who leaves is refused, or somebody who would not come back alone.
fn is_refused(society: &mut Society, keys: &[&str]) {
    let noted = society.engine.preview().cautions(&society.spec).unwrap();
    let is_noted = |it: &String| keys.iter().all(|key| it.contains(key));
    assert!(noted.iter().any(is_noted), "{noted:?}");
    let refused = society.try_to_leave(None, false, None).unwrap_err();
    if crate::connect().dialect() != Dialect::Mysql {
        let Error::Circle { keys: told, .. } = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(told, keys);
    }
    society.assert_as_before("refused");
}

/// The account of each waited for a row of the other, for good.
pub(crate) fn a_circle_over_accounts_is_refused() {
    let liked = key("fav", "liked");
    let mut statements = vec![
        "CREATE TABLE liked (id BIGINT PRIMARY KEY, who BIGINT NOT NULL)".to_owned(),
        format!("CREATE TABLE people (id BIGINT PRIMARY KEY, fav BIGINT NOT NULL{liked})"),
    ];
    let rows = [
        "INSERT INTO liked VALUES (10, 1), (11, 2), (12, 3)",
        "INSERT INTO people VALUES (1, 11), (2, 10), (3, 12)",
    ];
    statements.extend(rows.map(str::to_owned));
    let tables = "[tables.liked]\nowners = [\"who\"]\n[[remove]]\ntable = \"liked\"\n\
                  where = \"who < 3\"\n";
    is_refused(
        &mut society("fav", &statements, tables),
        &["liked.who", "people.fav"],
    );
    // In a circle of their own rows each comes back.
    statements.truncate(2);
    let rows = [
        "INSERT INTO liked VALUES (10, 1), (11, 2), (12, 3)",
        "INSERT INTO people VALUES (1, 10), (2, 11), (3, 12)",
    ];
    statements.extend(rows.map(str::to_owned));
    let mut of_one = society("fav", &statements, tables);
    if crate::connect().dialect() == Dialect::Mysql {
        return;
    }
    let id = of_one.try_to_leave(None, false, None).unwrap().id;
    of_one.reveal(1, id);
    of_one.reveal(2, id);
    of_one.assert_as_before("of one person");
}

/// Accounts of two people who name each other waited for each other, for good.
pub(crate) fn accounts_that_need_each_other_are_refused() {
    let boss = key("boss", "people");
    let statements = [
        format!("CREATE TABLE people (id BIGINT PRIMARY KEY, boss BIGINT NOT NULL{boss})"),
        "INSERT INTO people VALUES (12, 12)".to_owned(),
        "INSERT INTO people VALUES (3, 3)".to_owned(),
        "INSERT INTO people VALUES (1, 3), (2, 1)".to_owned(),
        "UPDATE people SET boss = 2 WHERE id = 1".to_owned(),
    ];
    let tables = "[tables.people]\non_leave = { boss = \"placeholder\" }\n";
    is_refused(&mut society("boss", &statements, tables), &["people.boss"]);
}

/// Rows whose keys only look alike are in no circle, and their people may leave.
pub(crate) fn a_chain_of_like_keys_is_no_circle() {
    let dialect = crate::connect().dialect();
    let text = match dialect {
        Dialect::Mysql => "VARCHAR(40) COLLATE utf8mb4_bin",
        _ => "VARCHAR(40)",
    };
    for (kind, [one, other, between]) in [
        (text, ["'c#'", "'c++'", "'x'"]),
        (text, ["'abc'", "'ABC'", "'x'"]),
        (
            "BIGINT",
            ["1234567890123456789", "1234567890123456780", "5"],
        ),
    ] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE t (id {kind} PRIMARY KEY, who BIGINT, r {kind} NOT NULL{})",
                key("r", "t")
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            format!("INSERT INTO t VALUES ({one}, 2, {one})"),
            format!("INSERT INTO t VALUES ({between}, 2, {one})"),
            format!("INSERT INTO t VALUES ({other}, 1, {between})"),
        ];
        let tables = "[tables.t]\nowners = [\"who\"]\n[[remove]]\ntable = \"t\"\n";
        let description = super::society::description(tables);
        let mut society = Society::of(&statements, &description, &[1, 2]);
        let left = society.try_to_leave(None, false, None);
        if dialect == Dialect::Mysql && left.is_err() {
            // Its rows refer to each other one by one.
            society.assert_as_before(kind);
            continue;
        }
        let id = left.unwrap().id;
        for user in [1, 2] {
            society.reveal(user, id);
        }
        society.try_again(&BTreeMap::from([(1, id)]));
        society.assert_as_before(one);
    }
}

/// A row may come back before the one that says whose it is, where only the description says so.
pub(crate) fn a_circle_over_a_way_to_an_owner_that_is_said_comes_back() {
    let noted = key("o", "c");
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE c (id BIGINT PRIMARY KEY, tid BIGINT NOT NULL)".to_owned(),
        format!("CREATE TABLE t (id BIGINT PRIMARY KEY, who BIGINT, o BIGINT NOT NULL{noted})"),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')".to_owned(),
        "INSERT INTO c VALUES (21, 11), (22, 12)".to_owned(),
        "INSERT INTO t VALUES (11, 1, 22), (12, 2, 21)".to_owned(),
    ];
    let tables = "[tables.t]\nowners = [\"who\"]\n[tables.c]\nthrough = [\"tid\"]\n\
                  references = [{ columns = [\"tid\"], table = \"t\", to = [\"id\"] }]\n\
                  [[remove]]\ntable = \"c\"\n[[remove]]\ntable = \"t\"\n";
    let description = super::society::description(tables);
    let mut society = Society::of(&statements, &description, &[1, 2, 3]);
    if crate::connect().dialect() == Dialect::Mysql {
        // It looks at keys row by row, and lets nobody of a circle leave.
        return;
    }
    let id = society.try_to_leave(None, false, None).unwrap().id;
    for user in [1, 2, 3] {
        society.reveal(user, id);
    }
    society.try_again(&BTreeMap::from([(1, id)]));
    society.assert_as_before("a circle over a said way");
}

/// A shared row comes back with either owner, but never without a reader whom its column needs.
pub(crate) fn a_circle_over_a_reader_of_a_shared_row_is_refused() {
    let pin = key("pin", "shared");
    let tables = "[tables.shared]\nowners = [\"one\", \"other\"]\nreaders = [\"seen_by\"]\n\
                  [[remove]]\ntable = \"shared\"\nwhere = \"id < 12\"\n";
    for (row, is_taken) in [("10, 1, 2, 3", false), ("10, 1, 2, 4", true)] {
        let statements = [
            "CREATE TABLE shared (id BIGINT PRIMARY KEY, one BIGINT, other BIGINT, \
             seen_by BIGINT NOT NULL)"
                .to_owned(),
            format!("CREATE TABLE people (id BIGINT PRIMARY KEY, pin BIGINT NOT NULL{pin})"),
            format!("INSERT INTO shared VALUES ({row}), (12, 4, 4, 4)"),
            "INSERT INTO people VALUES (1, 10), (2, 10), (3, 10), (4, 12)".to_owned(),
        ];
        let description = format!(
            "[users]\ntable = \"people\"\nid = \"id\"\n[users.placeholder]\n\
             id = {{ RandNum = {{ lb = 1000000, ub = 2000000000 }} }}\npin = {{ ConstNum = 12 }}\n\
             {tables}[[remove]]\ntable = \"people\"\nwhere = \"id < 4\"\n"
        );
        let mut society = Society::of(&statements, &description, &[1, 2, 3, 4]);
        if !is_taken {
            is_refused(&mut society, &["people.pin", "shared.seen_by"]);
        } else if let Ok(left) = society.try_to_leave(None, false, None) {
            for user in [1, 2, 3] {
                society.reveal(user, left.id);
            }
            society.try_again(&BTreeMap::from([(1, left.id), (2, left.id), (3, left.id)]));
            society.assert_as_before(row);
        }
    }
}
