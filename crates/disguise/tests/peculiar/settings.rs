//! Settings that a server, a database or an account brings to every connection.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::Database as _;
use probity_disguise::database::{Mysql, Postgres};

use crate::suite::member::{Member, NOTES};
use crate::{PLACE, connect, mariadb, postgres};

fn socket() -> String {
    PLACE.with_borrow(|place| place.as_ref().unwrap().socket.clone())
}

/// A member whose rows hold every form that settings change.
fn member_of(columns: &str, rows: &[&str]) -> Member {
    let mut database = connect();
    let notes = format!("CREATE TABLE notes (id INT PRIMARY KEY, member INT, {columns})");
    let members = "CREATE TABLE members (id INT PRIMARY KEY)";
    let people = "INSERT INTO members VALUES (1), (2)";
    for sql in [members, people, &notes] {
        database.execute(sql, &[]).unwrap();
    }
    for row in rows {
        let sql = format!("INSERT INTO notes VALUES ({row})");
        database.execute(&sql, &[]).unwrap();
    }
    Member::of(database, NOTES)
}

/// `NULL` in an array of texts came back as the text `NULL`, and XML without a single root kept its
/// person away.
pub(crate) fn the_form_of_values_is_no_setting_of_postgres() {
    let mut by_hand = Postgres::connect(&postgres::url(&socket())).unwrap();
    for setting in [
        "array_nulls = off",
        "xmloption = 'document'",
        "quote_all_identifiers = on",
        "standard_conforming_strings = off",
        "transform_null_equals = on",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "extra_float_digits = -5",
        "timezone = 'Asia/Kathmandu'",
    ] {
        let sql = format!("ALTER ROLE probity SET {setting}");
        by_hand.execute(&sql, &[]).unwrap();
    }
    let columns = "a TEXT[], b INT[], c XML, d DATE, e INTERVAL, f BYTEA, g DOUBLE PRECISION, h TIMESTAMPTZ, i TEXT";
    let mut member = member_of(
        columns,
        &[
            "6, 1, ARRAY[NULL, 'NULL', 'x'], ARRAY[NULL, 7], xmlparse(content 'a<b/>c'), make_date(2026, 3, 4), make_interval(months => -14, days => 3, hours => -5), decode('00ff5c', 'hex'), 0.1, now(), E'\\\\x'",
            "7, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
        ],
    );
    member.leaves_and_returns(["members", "notes"]);
    // Keys hold, or nothing is done.
    for sql in [
        "ALTER ROLE probity RESET ALL",
        "ALTER ROLE probity SET session_replication_role = replica",
    ] {
        by_hand.execute(sql, &[]).unwrap();
    }
    let refused = Postgres::connect(&postgres::url(&socket())).err().unwrap();
    let said = refused.to_string();
    assert!(said.contains("session_replication_role"), "{said}");
    by_hand
        .execute("ALTER ROLE probity RESET ALL", &[])
        .unwrap();
}

/// A limit for answers let a disguise pass that had not seen all rows.
pub(crate) fn no_setting_of_mariadb_hides_rows_or_lets_them_in() {
    let url = mariadb::url(&socket(), "mysql");
    let mut by_hand = Mysql::connect(&url).unwrap();
    let settings = [
        ("sql_select_limit", "2", "18446744073709551615"),
        ("sql_auto_is_null", "1", "0"),
        ("foreign_key_checks", "0", "1"),
        ("unique_checks", "0", "1"),
        ("check_constraint_checks", "0", "1"),
        ("autocommit", "0", "1"),
        ("completion_type", "2", "0"),
        ("max_sort_length", "64", "1024"),
        ("sql_quote_show_create", "0", "1"),
        ("sql_big_selects", "0", "1"),
        ("max_join_size", "10", "18446744073709551615"),
        // Of tables with versions, statements saw the rows of then.
        ("system_versioning_asof", "'2020-01-01 00:00:00'", "DEFAULT"),
    ];
    for (name, value, _) in settings {
        let sql = format!("SET GLOBAL {name} = {value}");
        by_hand.execute(&sql, &[]).unwrap();
    }
    let rows: Vec<String> = (1..=20)
        .map(|id| format!("{id}, {}, {id}", id % 2 + 1))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let mut member = member_of("what INT UNIQUE CHECK (what > 0)", &rows);
    member.sql(&["ALTER TABLE notes ADD SYSTEM VERSIONING"]);
    assert_eq!(member.rows(["notes"])[0].len(), 20);
    member.leaves_and_returns(["members", "notes"]);
    for refused in ["21, 1, -1", "22, 1, 20"] {
        let sql = format!("INSERT INTO notes VALUES ({refused})");
        let outcome = member.engine.database().execute(&sql, &[]);
        assert!(outcome.is_err(), "{refused}");
    }
    for (name, _, value) in settings {
        let sql = format!("SET GLOBAL {name} = {value}");
        by_hand.execute(&sql, &[]).unwrap();
    }
}
