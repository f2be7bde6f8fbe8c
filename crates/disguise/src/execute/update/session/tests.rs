//! The proof that no other setting of a session has a part in what expressions find: a fixed list of
//! them, asked under each switch and choice of a session that there is.

use std::collections::BTreeSet;

use crate::database::value::Value;
use crate::database::{Database, Dialect};

/// A question under each setting.
struct Asking<'d> {
    database: &'d mut dyn Database,
    /// The expressions, as one statement asks them.
    sql: String,
    plain: Vec<Vec<Value>>,
    /// The settings of which they depend.
    found: BTreeSet<String>,
    asked: usize,
}

impl<'d> Asking<'d> {
    fn of(database: &'d mut dyn Database, sql: String) -> Self {
        let plain = database.query(&sql, &[]).unwrap();
        Self {
            database,
            sql,
            plain,
            found: BTreeSet::new(),
            asked: 0,
        }
    }

    fn done(&mut self, sql: &str) -> bool {
        match self.database.dialect() {
            // Some of them answer.
            Dialect::Sqlite => self.database.query(sql, &[]).is_ok(),
            Dialect::Mysql | Dialect::Postgres => self.database.execute(sql, &[]).is_ok(),
        }
    }

    /// Asks under a setting that these statements make and take back; the database may refuse it.
    fn under(&mut self, name: &str, set: &str, back: &str) {
        let is_postgres = self.database.dialect() == Dialect::Postgres;
        if is_postgres {
            self.database.begin().unwrap();
        }
        if self.done(set) {
            self.asked += 1;
            // A statement that was prepared under another setting would be as it was.
            let sql = format!("{} /* {} */", self.sql, self.asked);
            let answer = self.database.query(&sql, &[]);
            if !answer.is_ok_and(|it| it == self.plain) {
                self.found.insert(name.to_owned());
            }
            assert!(is_postgres || self.done(back), "{back}");
        }
        if is_postgres {
            self.database.rollback().unwrap();
        }
    }

    fn assert_found(&self, decided: &[&str], asked: usize) {
        let decided: BTreeSet<String> = decided.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(self.found, decided);
        assert!(self.asked > asked, "{}", self.asked);
    }
}

fn texts(rows: Vec<Vec<Value>>) -> Vec<Vec<String>> {
    let rows = rows.into_iter();
    let rows = rows.map(|row| row.iter().map(ToString::to_string).collect());
    rows.collect()
}

#[cfg(feature = "postgres")]
const OF_POSTGRES: &[&str] = &[
    r"'a\\b' || 'C:\tmp'",
    "NULL = NULL",
    "1 = NULL",
    "0.30000000000000004::float8::text",
    "1.1::real::text",
    "'{NULL,a}'::text[]::text",
    "'a<b/>'::xml::text",
    "'2026-01-05 10:00 IST'::timestamptz::text",
    "'01/02/03'::date::text",
    "'2026-01-05'::date::timestamptz = '2026-01-05 00:00Z'",
    "'-1 10:00:00'::interval::text",
    "decode('00ff', 'hex')::text",
    "'\"Odd\"'::regclass::text",
    "'12.5'::money::text",
    "lower('\u{c0}I')",
    "upper('i')",
    "'Abc' LIKE 'a%'",
    "'a' = 'A'",
    "'a' < 'B'",
    "coalesce(NULL, 'x')",
    "abs(-1.5)",
    "round(2.5)",
    "round(2.5::float8)",
    "2 - 7 * 3 & 5",
    "octet_length('\u{e9}')",
    "char_length('\u{e9}')",
    "trim('  a ')",
    "substr('abc', 0, 2)",
    "true::text",
    "'yes'::boolean",
    "'[1,5]'::int4range::text",
    "'b a'::tsvector::text",
    "'10.0.0.1'::inet::text",
    "'{\"b\": 1.0}'::jsonb::text",
    "'ab  '::char(5)::text",
    "5 BETWEEN 1 AND 7",
    "NOT 4 > 6",
    "5 IN (1, 5)",
    "'10:30'::time::text",
    "'2026-01-05 23:59:59.7'::timestamp::date::text",
    "2.5::numeric::int",
    "2.5::float8::int",
    "'101'::bit(3)::int",
    "'(1,0.30000000000000004)'::point::text",
];

#[cfg(feature = "postgres")]
#[test]
fn every_setting_of_postgres_that_has_a_part_in_an_expression_is_known() {
    use crate::database::Postgres;
    let (_server, socket) =
        probity_testing::postgres::running(|url| Postgres::connect(url).is_ok());
    let mut database = Postgres::connect(&probity_testing::postgres::url(&socket)).unwrap();
    database.execute("CREATE TABLE \"Odd\" ()", &[]).unwrap();
    // In a session that settings end on errors, nothing could be asked under others.
    let all = "SELECT name, setting, coalesce(enumvals, '{on,off}')::text[] AS it, unnest(coalesce(enumvals, '{on,off}'))::text \
         FROM pg_settings WHERE context IN ('user', 'superuser') AND vartype IN ('bool', 'enum') \
         AND name <> 'exit_on_error'";
    let all = texts(database.query(all, &[]).unwrap());
    let asked: Vec<String> = OF_POSTGRES
        .iter()
        .map(|it| format!("({it})::text"))
        .collect();
    let mut asking = Asking::of(&mut database, format!("SELECT {}", asked.join(", ")));
    for row in &all {
        let (name, own, other) = (&row[0], &row[1], &row[3]);
        if own != other {
            asking.under(name, &format!("SET LOCAL {name} = '{other}'"), "");
        }
    }
    for (name, value) in [
        ("DateStyle", "ISO, DMY"),
        ("TimeZone", "Asia/Kathmandu"),
        ("timezone_abbreviations", "India"),
        ("extra_float_digits", "0"),
        ("search_path", "pg_catalog"),
        ("lc_messages", "C.UTF-8"),
        ("lc_numeric", "C.UTF-8"),
        ("lc_time", "C.UTF-8"),
        ("default_text_search_config", "german"),
    ] {
        asking.under(name, &format!("SET LOCAL {name} = '{value}'"), "");
    }
    asking.assert_found(
        &[
            "DateStyle",
            "IntervalStyle",
            "TimeZone",
            "array_nulls",
            "bytea_output",
            "extra_float_digits",
            "search_path",
            "standard_conforming_strings",
            "timezone_abbreviations",
            "transform_null_equals",
            "xmloption",
        ],
        80,
    );
}

#[cfg(feature = "mysql")]
const OF_MARIADB: &[&str] = &[
    r"'a\tb'",
    "coalesce('', 'x')",
    "lower('\u{c0}I')",
    "upper('i')",
    "HEX('\u{e9}')",
    "octet_length(lower(i))",
    "'A' = 'a'",
    "i = '5'",
    "octet_length(c)",
    "c = 'ab'",
    "v = 'AB'",
    "v < 'b'",
    r"'a_b' LIKE 'a\_b'",
    "v LIKE 'A%'",
    "NOT i > 6",
    "i - 7 * 3 & 5",
    "u - 1",
    "trim('  ')",
    "substr('abc', 0, 2)",
    "abs(d)",
    "round(d)",
    "round(f)",
    "coalesce(f, v)",
    "coalesce(NULL, d)",
    "t > dt",
    "t > moment",
    "dt = '2026-01-05'",
    "day = 20260105",
    "moment",
    "moment = '2001-01-05 10:00:00'",
    "e = 'b'",
    "e + 0",
    "i IN (1, 4, 5)",
    "i BETWEEN 1 AND 7",
    "b = 'ab'",
    "lower(d)",
    "lower(f)",
];

/// Values that columns make of others.
#[cfg(feature = "mysql")]
const INTO_COLUMNS: &str =
    "INSERT INTO made SELECT dt, t, day, i, d, f, f, v, c, i, e, u FROM probe";

#[cfg(feature = "mysql")]
fn probe(database: &mut dyn Database) {
    for sql in [
        "CREATE DATABASE probe",
        "USE probe",
        "CREATE TABLE probe (i INT, u BIGINT UNSIGNED, v VARCHAR(9), c CHAR(5), b VARBINARY(9), day DATE, dt DATETIME(6), t TIME(6), moment TIMESTAMP NULL, d DECIMAL(9,3), f DOUBLE, e ENUM('a','b')) DEFAULT CHARSET utf8mb4",
        "INSERT INTO probe VALUES (4, 3, 'ab', 'ab', 'ab', '2026-01-05', '1900-01-01 10:00:00.7', '10:00:00.7', '2001-01-05 10:00:00', 2.5, 2.5, 'b')",
        "CREATE TABLE made (dt DATETIME, t TIME, day DATETIME, d DECIMAL(9,3), i INT, f FLOAT, i2 INT, b VARBINARY(9), v VARCHAR(9), bits BIT(9), v2 VARCHAR(9), s VARCHAR(30)) DEFAULT CHARSET utf8mb4",
    ] {
        database.execute(sql, &[]).unwrap();
    }
}

#[cfg(feature = "mysql")]
impl Asking<'_> {
    /// Asks of values that columns make under each setting.
    fn of_assignments(&mut self, choices: &[(String, String)]) {
        let all = "SELECT * FROM made".to_owned();
        self.database.execute(INTO_COLUMNS, &[]).unwrap();
        self.plain = self.database.query(&all, &[]).unwrap();
        self.sql = all;
        for (name, value) in choices {
            let database = &mut self.database;
            let own = format!("SET @own = @@SESSION.{name}");
            database.execute(&own, &[]).unwrap();
            database.execute("DELETE FROM made", &[]).unwrap();
            let set = format!("SET SESSION {name} = {value}");
            let is_set = database.execute(&set, &[]).is_ok();
            let made = database.execute(INTO_COLUMNS, &[]);
            let back = format!("SET SESSION {name} = @own");
            database.execute(&back, &[]).unwrap();
            if is_set && made.is_ok() {
                self.under(name, "SET @probe = 1", "SET @probe = 1");
            }
        }
    }
}

/// Returns the settings of a session that are switches or choices, and some others, with values.
#[cfg(feature = "mysql")]
fn choices(database: &mut dyn Database) -> Vec<(String, String)> {
    let all = "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, COALESCE(ENUM_VALUE_LIST, 'ON,OFF') \
         FROM information_schema.SYSTEM_VARIABLES \
         WHERE VARIABLE_SCOPE IN ('SESSION', 'SESSION ONLY') AND READ_ONLY = 'NO' \
         AND VARIABLE_TYPE IN ('BOOLEAN', 'ENUM', 'SET', 'FLAGSET')";
    let all = texts(database.query(all, &[]).unwrap());
    let mut choices: Vec<(String, String)> = Vec::new();
    for row in &all {
        for value in row[2].split(',').filter(|it| *it != "default") {
            let values = match &*row[1] {
                "FLAGSET" => vec![format!("{value}=on"), format!("{value}=off")],
                _ => vec![value.to_owned()],
            };
            let values = values.into_iter();
            choices.extend(values.map(|value| (row[0].clone(), format!("'{value}'"))));
        }
    }
    for (name, value) in [
        ("time_zone", "'+12:45'"),
        ("timestamp", "86400"),
        ("character_set_connection", "utf16"),
        ("collation_connection", "utf8mb4_turkish_ci"),
        ("character_set_database", "latin1"),
        ("character_set_server", "latin1"),
        ("lc_time_names", "'de_DE'"),
        ("lc_messages", "'de_DE'"),
        ("div_precision_increment", "9"),
        ("default_week_format", "3"),
        ("group_concat_max_len", "4"),
        ("in_predicate_conversion_threshold", "2"),
        ("max_sort_length", "64"),
        ("insert_id", "5"),
        ("last_insert_id", "5"),
    ] {
        choices.push((name.to_owned(), value.to_owned()));
    }
    choices
}

#[cfg(feature = "mysql")]
#[test]
fn every_setting_of_mariadb_that_has_a_part_in_an_expression_is_known() {
    use crate::database::Mysql;
    let (_server, socket) = probity_testing::mariadb::running(|url| Mysql::connect(url).is_ok());
    let mut database = Mysql::connect(&probity_testing::mariadb::url(&socket, "mysql")).unwrap();
    probe(&mut database);
    let choices = choices(&mut database);
    let asked: Vec<String> = OF_MARIADB.iter().map(|it| format!("({it})")).collect();
    let sql = format!("SELECT {} FROM probe", asked.join(", "));
    let mut asking = Asking::of(&mut database, sql);
    for (name, value) in &choices {
        asking
            .database
            .execute(&format!("SET @own = @@SESSION.{name}"), &[])
            .unwrap();
        let back = format!("SET SESSION {name} = @own");
        asking.under(name, &format!("SET SESSION {name} = {value}"), &back);
    }
    asking.of_assignments(&choices);
    asking.assert_found(
        &[
            "character_set_connection",
            "collation_connection",
            "old_mode",
            "sql_mode",
            "time_zone",
            "timestamp",
        ],
        200,
    );
}

const OF_SQLITE: &[&str] = &[
    "v LIKE 'A%'",
    "v = 'AB'",
    "lower(v)",
    "upper(v)",
    "length(v)",
    "trim(v)",
    "substr(v, 0, 2)",
    "coalesce(NULL, n)",
    "abs(n)",
    "round(2.5)",
    "n - 7 * 3 & 5",
    "n = '5'",
    "NOT n > 6",
    "n IN (1, 5)",
    "n BETWEEN 1 AND 7",
    "1e20 || ''",
    "CAST(v AS BLOB)",
];

#[test]
fn every_setting_of_sqlite_that_has_a_part_in_an_expression_is_known() {
    use crate::database::Sqlite;
    let mut database = Sqlite::open(std::path::Path::new(":memory:")).unwrap();
    for sql in [
        "CREATE TABLE probe (v TEXT, n INTEGER)",
        "INSERT INTO probe VALUES ('ab', 5)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let names = database.query("PRAGMA pragma_list", &[]).unwrap();
    let asked = OF_SQLITE.join(", ");
    let mut asking = Asking::of(&mut database, format!("SELECT {asked} FROM probe"));
    let mut asked = BTreeSet::new();
    // Limits of the process are those of other tests, too.
    let names = texts(names).concat().into_iter();
    for name in names.filter(|it| !it.ends_with("heap_limit")) {
        let own = asking.database.query(&format!("PRAGMA {name}"), &[]);
        let own = own.unwrap_or_default().concat();
        let other = match own.as_slice() {
            [Value::Int(own @ (0 | 1))] => 1 - own,
            _ => continue,
        };
        if !asked.insert(name.clone()) {
            continue;
        }
        let back = format!("PRAGMA {name} = {}", 1 - other);
        asking.under(&name, &format!("PRAGMA {name} = {other}"), &back);
    }
    // It says nothing of itself.
    let [on, off] = ["on", "off"].map(|it| format!("PRAGMA case_sensitive_like = {it}"));
    asking.under("case_sensitive_like", &on, &off);
    asking.assert_found(&["case_sensitive_like"], 15);
}
