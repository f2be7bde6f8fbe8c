//! Random schemas, which nobody made with disguises in mind, on every database.

#![expect(
    clippy::disallowed_methods,
    clippy::fn_params_excessive_bools,
    clippy::format_push_string,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise, and tell what they counted"
)]

use std::path::Path;

use probity_disguise::Database;
use probity_disguise::database::Sqlite;
#[cfg(all(feature = "mysql", feature = "postgres"))]
use probity_testing::{mariadb, postgres};

mod drawn;

/// Schemas of the gate, on each database.
const FEW: u64 = 40;
/// Schemas of the slow tests, on each database.
const MANY: u64 = 200;

fn sqlite(_: &str) -> Box<dyn Database> {
    let mut database = Sqlite::open(Path::new(":memory:")).unwrap();
    database.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    Box::new(database)
}

/// Schedules of the gate, in memory and on a server.
const FEW_SCHEDULES: u64 = 100;
#[cfg(all(feature = "mysql", feature = "postgres"))]
const FEW_ON_A_SERVER: u64 = 40;
/// Schedules of the slow tests, on each database.
const MANY_SCHEDULES: u64 = 10_000;

/// The seeds that the variable `SEEDS` says, one or as in `100..200`, or the first.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let Ok(said) = std::env::var("SEEDS") else {
        return 0..count;
    };
    match said.split_once("..") {
        Some((from, to)) => from.parse().unwrap()..to.parse().unwrap(),
        None => said.parse().unwrap()..said.parse::<u64>().unwrap() + 1,
    }
}

#[test]
fn whoever_leaves_a_drawn_schema_returns_on_sqlite() {
    drawn::everybody_returns(&sqlite, seeds(FEW));
}

#[test]
#[ignore = "takes minutes"]
fn whoever_leaves_one_of_two_hundred_schemas_returns_on_sqlite() {
    drawn::everybody_returns(&sqlite, seeds(MANY));
}

#[test]
fn schedules_over_drawn_schemas_end_where_they_began_on_sqlite() {
    drawn::schedules_end_where_they_began(&sqlite, seeds(FEW_SCHEDULES));
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_schedules_over_drawn_schemas_end_where_they_began_on_sqlite() {
    drawn::schedules_end_where_they_began(&sqlite, seeds(MANY_SCHEDULES));
}

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod servers {
    use probity_disguise::database::{Mysql, Postgres};

    use super::*;

    type Test = fn(drawn::Connect<'_>, std::ops::Range<u64>);

    fn on_mariadb(test: Test, count: u64) {
        let (_server, socket) = mariadb::running(|url| Mysql::connect(url).is_ok());
        let connect = |place: &str| -> Box<dyn Database> {
            let mut database = Mysql::connect(&mariadb::url(&socket, "mysql")).unwrap();
            for sql in [
                format!("CREATE DATABASE {place} CHARACTER SET utf8mb4"),
                format!("USE {place}"),
            ] {
                database.execute(&sql, &[]).unwrap();
            }
            Box::new(database)
        };
        test(&connect, seeds(count));
    }

    fn on_postgres(test: Test, count: u64) {
        let (_server, socket) = postgres::running(|url| Postgres::connect(url).is_ok());
        let connect = |place: &str| -> Box<dyn Database> {
            let mut database = Postgres::connect(&postgres::url(&socket)).unwrap();
            for sql in [
                format!("CREATE SCHEMA {place}"),
                format!("SET search_path = {place}"),
            ] {
                database.execute(&sql, &[]).unwrap();
            }
            Box::new(database)
        };
        test(&connect, seeds(count));
    }

    #[test]
    fn whoever_leaves_a_drawn_schema_returns_on_mariadb() {
        on_mariadb(drawn::everybody_returns, FEW);
    }

    #[test]
    fn whoever_leaves_a_drawn_schema_returns_on_postgres() {
        on_postgres(drawn::everybody_returns, FEW);
    }

    #[test]
    #[ignore = "takes minutes"]
    fn whoever_leaves_one_of_two_hundred_schemas_returns_on_mariadb() {
        on_mariadb(drawn::everybody_returns, MANY);
    }

    #[test]
    #[ignore = "takes minutes"]
    fn whoever_leaves_one_of_two_hundred_schemas_returns_on_postgres() {
        on_postgres(drawn::everybody_returns, MANY);
    }

    #[test]
    fn schedules_over_drawn_schemas_end_where_they_began_on_mariadb() {
        on_mariadb(drawn::schedules_end_where_they_began, FEW_ON_A_SERVER);
    }

    #[test]
    #[ignore = "takes hours"]
    fn ten_thousand_schedules_over_drawn_schemas_end_where_they_began_on_mariadb() {
        on_mariadb(drawn::schedules_end_where_they_began, MANY_SCHEDULES);
    }

    #[test]
    fn schedules_over_drawn_schemas_end_where_they_began_on_postgres() {
        on_postgres(drawn::schedules_end_where_they_began, FEW_ON_A_SERVER);
    }

    #[test]
    #[ignore = "takes hours"]
    fn ten_thousand_schedules_over_drawn_schemas_end_where_they_began_on_postgres() {
        on_postgres(drawn::schedules_end_where_they_began, MANY_SCHEDULES);
    }
}
