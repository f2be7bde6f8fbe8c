//! Random schemas, which nobody made with disguises in mind, on every database.

#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests stop at the first surprise, and tell what they counted"
)]

use std::path::Path;

use probity_disguise::Database;
use probity_disguise::database::Sqlite;

mod drawn;
#[cfg(all(feature = "mysql", feature = "postgres"))]
#[path = "server/mariadb.rs"]
mod mariadb;
#[cfg(all(feature = "mysql", feature = "postgres"))]
#[path = "server/postgres.rs"]
mod postgres;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod server;

/// Schemas of the gate, on each database.
const FEW: u64 = 40;
/// Schemas of the slow tests, on each database.
const MANY: u64 = 200;

fn sqlite(_: &str) -> Box<dyn Database> {
    let mut database = Sqlite::open(Path::new(":memory:")).unwrap();
    database.execute("PRAGMA foreign_keys = ON", &[]).unwrap();
    Box::new(database)
}

/// The seeds that are said, or the first.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("SEED").map(|it| it.parse::<u64>()) {
        Ok(Ok(seed)) => seed..seed + 1,
        _ => 0..count,
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

#[cfg(all(feature = "mysql", feature = "postgres"))]
mod servers {
    use probity_disguise::database::{Mysql, Postgres};

    use super::*;

    fn on_mariadb(count: u64) {
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
        drawn::everybody_returns(&connect, seeds(count));
    }

    fn on_postgres(count: u64) {
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
        drawn::everybody_returns(&connect, seeds(count));
    }

    #[test]
    fn whoever_leaves_a_drawn_schema_returns_on_mariadb() {
        on_mariadb(FEW);
    }

    #[test]
    fn whoever_leaves_a_drawn_schema_returns_on_postgres() {
        on_postgres(FEW);
    }

    #[test]
    #[ignore = "takes minutes"]
    fn whoever_leaves_one_of_two_hundred_schemas_returns_on_mariadb() {
        on_mariadb(MANY);
    }

    #[test]
    #[ignore = "takes minutes"]
    fn whoever_leaves_one_of_two_hundred_schemas_returns_on_postgres() {
        on_postgres(MANY);
    }
}
