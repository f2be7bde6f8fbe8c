//! All claims, on a `MariaDB` server of Debian.

#![cfg(feature = "mysql")]
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use probity_disguise::Database;
use probity_disguise::database::Mysql;

#[path = "server/mariadb.rs"]
mod mariadb;
mod server;
#[macro_use]
mod suite;

/// Random schedules tried; a server takes longer than memory does.
const SCHEDULES: u64 = 12;
static SOCKET: OnceLock<String> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

fn start() -> server::Server {
    let answers = |url: &str| Mysql::connect(url).is_ok();
    let (server, socket) = mariadb::running(answers);
    SOCKET.set(socket).unwrap();
    server
}

/// A table of awkward values; the key has two columns, one of them text of a collation of its own.
const KINDS: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_bin, part SMALLINT, a DECIMAL(40,20), b VARBINARY(10), c DOUBLE, d FLOAT, e DATETIME(6), f JSON, g TIMESTAMP(3) NULL, h BOOLEAN, i BIGINT UNSIGNED, j TIME(6), k CHAR(5) CHARACTER SET utf8mb4, l DATE, m YEAR, n BIT(17), o ENUM('a','b'), p SET('x','y'), q UUID, r LONGTEXT, s BLOB, t POINT, PRIMARY KEY (code, part)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "INSERT INTO kinds VALUES (1, 'NULL', 1, 0.00000000000000000001, x'00ff', -0.0, 0.1, '2024-02-29 23:59:59.999999', '{\"b\": 1,  \"a\":1.0}', '2024-02-29 23:59:59.120', true, 18446744073709551615, '-838:59:58.000001', 'ab', '0000-00-00', 2026, b'10000000000000101', 'b', 'x,y', '00000000-0000-0000-0000-000000000001', 'a''b\"c`\\\\', x'ff00fe', POINT(1, 2.5))",
    "INSERT INTO kinds VALUES (1, 'null', 1, NULL, '', 5e-324, 3.4e38, '0001-01-01 00:00:00', 'null', NULL, false, 0, '838:59:59', NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, '', NULL)",
    "INSERT INTO kinds VALUES (1, 'x?', 3, -99999999999999999999.5, NULL, NULL, NULL, NULL, '[]', '1971-01-01 00:00:00', NULL, 9223372036854775808, NULL, '', '9999-12-31', 1901, b'0', 'a', 'y', NULL, _utf8mb4 x'f09f9880', NULL, NULL)",
];

fn connect() -> Box<dyn Database> {
    let socket = SOCKET.get().unwrap();
    let name = format!("forum{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut database = Mysql::connect(&mariadb::url(socket, "mysql")).unwrap();
    for sql in [format!("CREATE DATABASE {name}"), format!("USE {name}")] {
        database.execute(&sql, &[]).unwrap();
    }
    Box::new(database)
}

macro_rules! in_turn {
    ($($claim:ident)*) => {
        $(suite::$claim();)*
    };
}

#[test]
fn every_claim_holds_on_a_server() {
    let _server = start();
    for_every_claim!(in_turn);
}
