//! All claims, on a `PostgreSQL` server of Debian.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use probity_disguise::Database;
use probity_disguise::database::Postgres;

#[path = "server/postgres.rs"]
mod postgres;
mod server;
#[macro_use]
mod suite;

/// Random schedules tried; a server takes longer than memory does.
const SCHEDULES: u64 = 12;
static SOCKET: OnceLock<String> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

fn start() -> server::Server {
    let answers = |url: &str| Postgres::connect(url).is_ok();
    let (server, socket) = postgres::running(answers);
    SOCKET.set(socket).unwrap();
    server
}

/// A table of awkward values; the key has two columns, one of them a UUID.
const KINDS: &[&str] = &[
    "CREATE TABLE kinds (owner BIGINT REFERENCES users(id), code UUID, part SMALLINT, a NUMERIC(40,20), b BYTEA, c DOUBLE PRECISION, d REAL, e TIMESTAMPTZ, f JSON, g JSONB, h BOOLEAN, i TEXT[], j INTERVAL, k CHAR(5), PRIMARY KEY (code, part))",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000001', 1, 0.00000000000000000001, '\\x00ff', '-0', 0.1, '2024-02-29 23:59:59.999999+05', '{\"b\": 1,  \"a\":1.0}', '{\"b\": 1.00}', true, '{a,NULL,\"x y\"}', '1 mon 2 days 00:00:00.000001', 'ab')",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000001', 2, NULL, '', 'NaN', '3.4e38', 'infinity', 'null', NULL, false, '{}', NULL, NULL)",
    "INSERT INTO kinds VALUES (1, '00000000-0000-0000-0000-000000000002', 1, -99999999999999999999.5, NULL, '5e-324', NULL, '0001-01-01 00:00:00 BC', NULL, '[]', NULL, NULL, '-1 year', '')",
];

fn connect() -> Box<dyn Database> {
    let socket = SOCKET.get().unwrap();
    let name = format!("forum{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut database = Postgres::connect(&postgres::url(socket)).unwrap();
    database
        .execute(&format!("CREATE SCHEMA {name}"), &[])
        .unwrap();
    database
        .execute(&format!("SET search_path = {name}"), &[])
        .unwrap();
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
