//! The proof of the table: for each pair of types that the tests know and the table lists, a server
//! makes of each value, under settings that no update says, what an update makes of it, or the update
//! is refused.

#[path = "../../../../tests/drawn/dice.rs"]
#[expect(dead_code, reason = "other tests draw more")]
mod dice;
#[path = "../../../../tests/drawn/kinds.rs"]
#[expect(dead_code, reason = "other tests make tables of them")]
mod kinds;
#[path = "../../../../tests/drawn/kinds_mariadb.rs"]
mod kinds_mariadb;
#[path = "../../../../tests/drawn/kinds_postgres.rs"]
mod kinds_postgres;
#[path = "../../../../tests/drawn/kinds_sqlite.rs"]
#[expect(dead_code, reason = "other tests make tables of them")]
mod kinds_sqlite;

use std::collections::{BTreeMap, BTreeSet};

use super::{Need, class, needs};
use crate::database::value::Value;
use crate::database::{Catalog, Column, Database, Dialect};
use crate::execute::update::question::Now;
use crate::execute::update::typed::{Kind, Kinds, Typed};
use crate::execute::update::{Mapping, Row};
use crate::records::shape::ShapeOf;

/// Values of a type, as statements write them.
type Values = (&'static str, &'static [&'static str]);

/// Texts that are values of other types, most of them of several.
const TEXTS: &[&str] = &[
    "'12.5'",
    "'1e3'",
    "'7'",
    "'true'",
    "'2026-01-05'",
    "'01/02/03'",
    "'2026-01-05 10:00:00.6'",
    "'2026-01-05 10:00 IST'",
    "'2026-02-31'",
    "'2026-00-10'",
    "'10:30:00.6'",
    "'-1 10:00:00'",
    "'{1,2}'",
    "'{NULL,a}'",
    "'{01/02/03}'",
    "'[1,5)'",
    "'[2026-01-01 10:00,2026-02-01)'",
    "'(0.30000000000000004,2)'",
    "'<a/>'",
    "'t<b/>'",
    "'a\\101'",
    "'10.0.0.1'",
    "'08:00:2b:01:02:03'",
    "'0000abcd-0000-4000-8000-000000000001'",
];

/// Types that the drawn schemas do not have.
const MORE_OF_POSTGRES: &[Values] = &[
    ("TEXT", TEXTS),
    ("DOUBLE PRECISION", &["0.30000000000000004", "2.5"]),
    ("NUMERIC", &["7", "12.5"]),
    ("TIME", &["'23:59:59.999'"]),
    ("DATE[]", &["'{2026-01-05,NULL}'"]),
    ("TIMESTAMP[]", &["'{2026-01-05 10:00}'"]),
    ("TIMESTAMPTZ[]", &["'{2026-01-05 10:00+00}'"]),
    ("BYTEA[]", &["'{\"\\\\\\\\x00ff\"}'"]),
    ("INTERVAL[]", &["'{-1 day -2 hours}'"]),
    ("DOUBLE PRECISION[]", &["'{0.30000000000000004}'"]),
    ("CHAR(5)[]", &["'{a,b}'"]),
    ("NUMRANGE", &["'[1.5,10)'"]),
    ("DATERANGE", &["'[2024-01-01,2024-02-01)'"]),
    ("TSRANGE", &["'[2024-01-01,infinity]'"]),
    ("BOX", &["'((0.30000000000000004,0),(1,1))'"]),
    ("REGCLASS", &["'pg_class'"]),
    ("TSQUERY", &["'a & b'"]),
];
const MORE_OF_MARIADB: &[Values] = &[
    ("VARCHAR(60)", TEXTS),
    ("CHAR(12)", &["'7'", "'12.5'", "'2026-01-05'", "'a'"]),
    ("VARBINARY(40)", &["'7'", "'12.5'", "'2026-01-05'"]),
    ("INT", &["7", "20260105", "20260231"]),
    ("DOUBLE", &["2.5", "1234567.8", "5e-324"]),
    ("DOUBLE(8,3)", &["0.1"]),
    ("DECIMAL(8,2) UNSIGNED ZEROFILL", &["5.10"]),
    ("DATE", &["'0000-00-00'"]),
    ("TIME(6)", &["'10:11:12.6'"]),
    ("DATETIME(6)", &["'2024-01-01 00:00:00.6'"]),
    ("TIMESTAMP(3) NULL", &["'2024-02-29 23:59:59.999'"]),
    ("ENUM('7','1')", &["'7'"]),
    ("DECIMAL(4,2)", &["1.50"]),
    ("ENUM('a','b','c')", &["'c'"]),
];

/// Settings under which a migration may have run: its statements, but for those that set a name which
/// the update says.
const OF_POSTGRES: [&[(&str, &str)]; 3] = [
    &[
        ("TimeZone", "America/New_York"),
        ("DateStyle", "SQL, MDY"),
        ("IntervalStyle", "sql_standard"),
        ("bytea_output", "escape"),
        ("extra_float_digits", "-5"),
        ("array_nulls", "off"),
        ("xmloption", "document"),
        ("timezone_abbreviations", "India"),
        ("lc_monetary", "C"),
        ("lc_numeric", "C"),
    ],
    &[
        ("TimeZone", "Asia/Kathmandu"),
        ("DateStyle", "Postgres, DMY"),
        ("IntervalStyle", "postgres_verbose"),
        ("extra_float_digits", "0"),
        ("timezone_abbreviations", "Australia"),
        ("lc_monetary", "C.UTF-8"),
        ("lc_numeric", "C.UTF-8"),
    ],
    &[
        ("TimeZone", "Pacific/Chatham"),
        ("DateStyle", "German, YMD"),
        ("IntervalStyle", "iso_8601"),
        ("extra_float_digits", "1"),
    ],
];
const OF_MARIADB: [&[(&str, &str)]; 3] = [
    &[
        ("time_zone", "'+12:45'"),
        ("sql_mode", "'NO_ZERO_DATE,NO_ZERO_IN_DATE'"),
        ("character_set_connection", "latin1"),
    ],
    &[
        ("time_zone", "'-11:15'"),
        (
            "sql_mode",
            "'STRICT_TRANS_TABLES,TIME_ROUND_FRACTIONAL,PAD_CHAR_TO_FULL_LENGTH'",
        ),
        ("character_set_results", "latin1"),
        ("timestamp", "86400"),
    ],
    &[
        ("time_zone", "'+05:30'"),
        ("sql_mode", "''"),
        ("old_mode", "'ZERO_DATE_TIME_CAST'"),
        ("collation_connection", "utf8mb4_bin"),
    ],
];

/// A pair that the table lists, by the places of its types, and the names of settings that are said.
#[derive(Debug)]
struct Pair {
    from: usize,
    into: usize,
    said: BTreeSet<&'static str>,
    /// The number of values that are taken: all for the first pair of two classes.
    values: usize,
}

/// Values of a pair whose classes another pair has, too.
const FEW: usize = 3;

struct Proof<'d> {
    database: &'d mut dyn Database,
    dialect: Dialect,
    /// The types, as statements and as the catalog name them, with how many values.
    kinds: Vec<(String, Column, usize)>,
    catalog: Catalog,
}

/// All types with all of their values.
fn all_kinds(dialect: Dialect, more: &[Values]) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let mut dice = dice::Dice::of(7);
    let drawn = kinds::kinds(dialect).iter().map(|kind| {
        let values = (0..60).map(|_| (kind.value)(&mut dice, 7));
        let values: BTreeSet<String> = values.collect();
        // The time of an update is no value.
        let sql = kind.sql.replace(" ON UPDATE CURRENT_TIMESTAMP", "");
        (sql, values.into_iter().collect())
    });
    let drawn: Vec<(String, Vec<String>)> = drawn.collect();
    let more = more.iter().map(|(sql, values)| {
        let values = values.iter().map(|it| (*it).to_owned());
        ((*sql).to_owned(), values.collect())
    });
    for (sql, mut values) in drawn.into_iter().chain(more) {
        match all.iter_mut().find(|(known, _)| *known == sql) {
            Some((_, known)) => known.append(&mut values),
            None => all.push((sql, values)),
        }
    }
    all
}

fn nullable(sql: &str) -> String {
    let end = if sql.ends_with(" NULL") { "" } else { " NULL" };
    format!("{sql}{end}")
}

impl<'d> Proof<'d> {
    /// Makes a table of the values of each type, and one for what becomes of values as that type.
    fn of(database: &'d mut dyn Database, more: &[Values]) -> Self {
        let dialect = database.dialect();
        let all = all_kinds(dialect, more);
        let end = match dialect {
            Dialect::Mysql => " DEFAULT CHARSET utf8mb4",
            Dialect::Sqlite | Dialect::Postgres => "",
        };
        for (place, (sql, values)) in all.iter().enumerate() {
            let kind = match dialect {
                Dialect::Mysql => nullable(sql),
                Dialect::Sqlite | Dialect::Postgres => sql.clone(),
            };
            for made in [
                format!("CREATE TABLE src{place} (n INT, v {kind}){end}"),
                format!("CREATE TABLE res{place} (a INT, n INT, s INT, x {kind}){end}"),
            ] {
                database.execute(&made, &[]).unwrap();
            }
            for (n, value) in values.iter().enumerate() {
                let sql = format!("INSERT INTO src{place} VALUES ({n}, {value})");
                database.execute(&sql, &[]).unwrap();
            }
        }
        let catalog = database.catalog().unwrap();
        let kinds = all.into_iter().enumerate();
        let kinds = kinds.map(|(place, (sql, values))| {
            let column = catalog[&format!("src{place}")].column("v");
            (sql, column.unwrap().clone(), values.len())
        });
        Self {
            dialect,
            kinds: kinds.collect(),
            catalog,
            database,
        }
    }

    fn pairs(&self) -> Vec<Pair> {
        let places = 0..self.kinds.len();
        let all = places.clone().flat_map(|from| {
            let others = places.clone().filter(move |into| *into != from);
            others.map(move |into| (from, into))
        });
        let mut known = BTreeSet::new();
        let listed = all.filter_map(|(from, into)| {
            let [of, to] = [from, into].map(|it| class(self.dialect, &self.kinds[it].1));
            let said = needs(self.dialect, &of, &to)?;
            let is_costly = !said.is_empty();
            let is_first = known.insert((of, to));
            if is_costly && !is_first {
                return None;
            }
            let values = self.kinds[from].2;
            let values = if is_first { values } else { values.min(FEW) };
            let said = said
                .into_iter()
                .filter_map(|need| match (need, self.dialect) {
                    (Need::Trial, _) => None,
                    (Need::Zone, Dialect::Postgres) => Some("TimeZone"),
                    (Need::Zone, _) => Some("time_zone"),
                    (Need::Day, _) => Some("DateStyle"),
                    (Need::Interval, _) => Some("IntervalStyle"),
                    (Need::Bytes, _) => Some("bytea_output"),
                });
            Some(Pair {
                from,
                into,
                said: said.collect(),
                values,
            })
        });
        listed.collect()
    }

    /// Writes what an update makes, if it is not refused, of each value of the pair of which migrations
    /// have made something.
    fn update(&mut self, pair: &Pair) {
        let Pair {
            from,
            into,
            said,
            values: many,
        } = pair;
        let said: String = said.iter().map(|it| in_an_update(it)).collect();
        let text = format!(
            "[[update]]\nname = \"u\"\ntable = \"src{from}\"\n{said}[[update.into]]\ntable = \"res{into}\"\nsql = {{ x = \"v\" }}\n"
        );
        let mapping = Mapping::parse(&text).unwrap().remove(0);
        let sql = format!(
            "SELECT n, v FROM src{from} WHERE n < {many} \
             AND n IN (SELECT n FROM res{into} WHERE a = {from}) ORDER BY n"
        );
        let rows = self.database.query(&sql, &[]).unwrap();
        self.database.begin().unwrap();
        self.database.execute("SAVEPOINT of_value", &[]).unwrap();
        for row in rows {
            let [n, value] = <[Value; 2]>::try_from(row).unwrap();
            let row = Row::new(format!("src{from}"), vec![("v".to_owned(), value)]);
            let column = self.kinds[*from].1.clone();
            let kinds = Kinds::from([("v".to_owned(), Kind::Recorded(column))]);
            let mut row = Typed::recorded(row, &ShapeOf::None);
            row.kinds = kinds;
            let now = Now {
                catalog: &self.catalog,
                later: &[],
            };
            let made = mapping.rows(self.database, now, &row);
            let is_written = made.is_ok_and(|made| {
                let value = made[0].1.row.value("x").unwrap().clone();
                let sql = format!("INSERT INTO res{into} VALUES ({from}, {n}, -1, ?)");
                self.database.execute(&sql, &[value]).is_ok()
            });
            if !is_written {
                self.database
                    .execute("ROLLBACK TO SAVEPOINT of_value", &[])
                    .unwrap();
            }
            self.database.execute("SAVEPOINT of_value", &[]).unwrap();
        }
        self.database.commit().unwrap();
    }

    /// Compares what updates made with what migrations made under their settings. Returns how many
    /// values were compared.
    fn compare(&mut self) -> usize {
        let (mut compared, mut wrong) = (0, Vec::new());
        for into in 0..self.kinds.len() {
            let sql = format!("SELECT a, n, s, x FROM res{into} ORDER BY s");
            let rows = self.database.query(&sql, &[]).unwrap();
            let mut made: BTreeMap<(String, String), Value> = BTreeMap::new();
            for row in rows {
                let [from, n, settings, value] = <[Value; 4]>::try_from(row).unwrap();
                let place = (from.to_string(), n.to_string());
                if settings.to_string() == "-1" {
                    made.insert(place, value);
                    continue;
                }
                let Some(of_update) = made.get(&place) else {
                    continue;
                };
                compared += 1;
                if !of_update.same(&value) {
                    let [of, to] = [from.to_string().parse().unwrap(), into];
                    let [of, to] = [of, to].map(|it: usize| &self.kinds[it].0);
                    wrong.push(format!(
                        "{of} {n} as {to} under {settings}: {value:?}, and by an update {of_update:?}"
                    ));
                }
            }
        }
        assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
        compared
    }
}

/// The settings that updates of the tests say, as an update and as a session say them.
const SAID: [(&str, &str, &str); 5] = [
    ("TimeZone", "time_zone", "Europe/Berlin"),
    ("time_zone", "time_zone", "+02:00"),
    ("DateStyle", "date_style", "SQL, DMY"),
    ("IntervalStyle", "interval_style", "sql_standard"),
    ("bytea_output", "bytea_output", "escape"),
];

fn said(name: &str) -> Option<(&'static str, &'static str)> {
    let mut all = SAID.iter();
    all.find_map(|(known, key, value)| (*known == name).then_some((*key, *value)))
}

fn in_an_update(name: &str) -> String {
    let (key, value) = said(name).unwrap();
    format!("{key} = \"{value}\"\n")
}

/// Pairs of which updates say the same settings, so that these are made but once.
fn by_settings(pairs: Vec<Pair>) -> BTreeMap<BTreeSet<&'static str>, Vec<Pair>> {
    let mut groups: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for pair in pairs {
        groups.entry(pair.said.clone()).or_default().push(pair);
    }
    groups
}

#[cfg(feature = "postgres")]
#[test]
fn postgres_converts_alike_under_all_settings_that_an_update_does_not_say() {
    use crate::database::Postgres;
    let (_server, socket) =
        probity_testing::postgres::running(|url| Postgres::connect(url).is_ok());
    let mut database = Postgres::connect(&probity_testing::postgres::url(&socket)).unwrap();
    for sql in kinds_postgres::MADE {
        database.execute(sql, &[]).unwrap();
    }
    // An error of one value leaves the others alone.
    let migrate = "CREATE FUNCTION migrate(a INT, b INT, n INT, s INT, kind TEXT) RETURNS void \
         LANGUAGE plpgsql AS $$ BEGIN \
         EXECUTE format('INSERT INTO res%s SELECT %s, n, %s, v%s FROM src%s WHERE n = %s', b, a, s, kind, a, n); \
         EXCEPTION WHEN OTHERS THEN NULL; END $$";
    database.execute(migrate, &[]).unwrap();
    let mut proof = Proof::of(&mut database, MORE_OF_POSTGRES);
    for (names, pairs) in by_settings(proof.pairs()) {
        let listed = pairs.iter().map(|it| {
            let kind = proof.kinds[it.into].1.assigned().replace('\'', "''");
            format!("({}, {}, {}, '::{kind}')", it.from, it.into, it.values)
        });
        let listed = listed.collect::<Vec<_>>().join(", ");
        for (place, settings) in OF_POSTGRES.iter().enumerate() {
            proof.database.begin().unwrap();
            let said = names.iter().filter_map(|name| Some((*name, said(name)?.1)));
            for (name, value) in settings.iter().copied().chain(said) {
                let sql = format!("SET LOCAL {name} = '{value}'");
                proof.database.execute(&sql, &[]).unwrap();
            }
            // By a conversion that is written, and by an assignment.
            let migrated = format!(
                "SELECT count(migrate(a, b, n, {place} + 10 * way, CASE way WHEN 0 THEN kind ELSE '' END)) \
                 FROM (VALUES {listed}) AS pairs (a, b, many, kind), generate_series(0, many - 1) AS n, \
                 generate_series(0, 1) AS way"
            );
            proof.database.query(&migrated, &[]).unwrap();
            proof.database.commit().unwrap();
        }
        for pair in &pairs {
            proof.update(pair);
        }
    }
    let compared = proof.compare();
    assert!(compared > 3_000, "{compared}");
}

#[cfg(feature = "mysql")]
#[test]
fn mariadb_converts_alike_under_all_settings_that_an_update_does_not_say() {
    use crate::database::Mysql;
    let (_server, socket) = probity_testing::mariadb::running(|url| Mysql::connect(url).is_ok());
    let mut database = Mysql::connect(&probity_testing::mariadb::url(&socket, "mysql")).unwrap();
    for sql in ["CREATE DATABASE proof", "USE proof"] {
        database.execute(sql, &[]).unwrap();
    }
    let own = ["sql_mode", "time_zone", "old_mode", "character_set_results"];
    let own = own.map(|it| format!("SESSION {it} = @own_{it}")).join(", ");
    let keep = own.replace("SESSION ", "");
    let keep = keep.split(", ").map(|it| {
        let (name, kept) = it.split_once(" = ").unwrap();
        format!("{kept} = @@{name}")
    });
    let keep = format!("SET {}", keep.collect::<Vec<_>>().join(", "));
    database.execute(&keep, &[]).unwrap();
    let back = format!("SET NAMES utf8mb4, SESSION timestamp = DEFAULT, {own}");
    let mut proof = Proof::of(&mut database, MORE_OF_MARIADB);
    for (names, pairs) in by_settings(proof.pairs()) {
        for (place, settings) in OF_MARIADB.iter().enumerate() {
            let set = settings.iter().map(|(name, value)| {
                let own = names.contains(name).then(|| said(name)).flatten();
                let own = own.map(|(_, value)| format!("'{value}'"));
                format!(
                    "SESSION {name} = {}",
                    own.unwrap_or_else(|| (*value).to_owned())
                )
            });
            let set = format!("SET {}", set.collect::<Vec<_>>().join(", "));
            proof.database.execute(&set, &[]).unwrap();
            for pair in &pairs {
                migrated_by_mariadb(&mut proof, pair, place);
            }
            proof.database.execute(&back, &[]).unwrap();
        }
        for pair in &pairs {
            proof.update(pair);
        }
    }
    let compared = proof.compare();
    assert!(compared > 3_000, "{compared}");
}

/// By UPDATE, and by ALTER TABLE: of all values in one go, or, where one of them is refused, of each.
#[cfg(feature = "mysql")]
fn migrated_by_mariadb(proof: &mut Proof<'_>, pair: &Pair, settings: usize) {
    let Pair { from, into, .. } = pair;
    let [before, after] = [from, into].map(|it| nullable(&proof.kinds[*it].0));
    let mut done = |values: &str| {
        let rows = format!("FROM src{from} WHERE {values}");
        let written = format!("INSERT INTO res{into} SELECT {from}, n, {settings}, v {rows}");
        let altered = [
            format!(
                "CREATE OR REPLACE TEMPORARY TABLE altered (n INT, v {before}) ENGINE = Aria DEFAULT CHARSET utf8mb4 SELECT n, v {rows}"
            ),
            format!("ALTER TABLE altered MODIFY v {after}"),
            format!("INSERT INTO res{into} SELECT {from}, n, {settings} + 10, v FROM altered"),
        ];
        let is_written = proof.database.execute(&written, &[]).is_ok();
        let is_altered = settings + 1 == OF_MARIADB.len()
            || altered
                .iter()
                .all(|sql| proof.database.execute(sql, &[]).is_ok());
        is_written && is_altered
    };
    if !done(&format!("n < {}", pair.values)) {
        for n in 0..pair.values {
            done(&format!("n = {n}"));
        }
    }
}

/// No setting has a part in conversions there, so that the one migration is that of the same library.
#[test]
fn sqlite_converts_in_one_way() {
    use crate::database::Sqlite;
    let mut database = Sqlite::open(std::path::Path::new(":memory:")).unwrap();
    let mut proof = Proof::of(&mut database, &[("TEXT", TEXTS)]);
    for pair in proof.pairs() {
        let Pair { from, into, .. } = pair;
        let sql = format!("INSERT INTO res{into} SELECT {from}, n, 0, v FROM src{from}");
        proof.database.execute(&sql, &[]).unwrap();
        proof.update(&pair);
    }
    let compared = proof.compare();
    assert!(compared > 500, "{compared}");
}
