//! All claims, on a `PostgreSQL` server of Debian, started on a private socket and stopped at the end.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use probity_disguise::Database;
use probity_disguise::database::Postgres;

mod suite;

/// Random schedules tried; a server takes longer than memory does.
const SCHEDULES: u64 = 12;
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
static SOCKET: OnceLock<String> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A server in a folder of its own.
struct Server {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The server refuses to run as root, so it runs as the user Debian made for it when we are root.
fn program(name: &str) -> Command {
    let mut command = Command::new(format!("{PROGRAMS}/{name}"));
    let id = |flag: &str, user: &[&str]| {
        let output = Command::new("id").arg(flag).args(user).output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse::<u32>()
            .unwrap()
    };
    if id("-u", &[]) == 0 {
        command
            .uid(id("-u", &["postgres"]))
            .gid(id("-g", &["postgres"]));
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let opened = Command::new("chmod")
        .arg("777")
        .arg(folder.path())
        .status()
        .unwrap();
    assert!(opened.success());
    let data = folder.path().join("data");
    let made = program("initdb")
        .args([
            "-U",
            "probity",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "-D",
        ])
        .arg(&data)
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let socket = folder.path().to_str().unwrap().to_owned();
    let child = program("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-k", &socket, "-c", "listen_addresses=", "-c", "fsync=off"])
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    let server = Server {
        child,
        _folder: folder,
    };
    let url = format!("host={socket} user=probity dbname=postgres");
    while Postgres::connect(&url).is_err() {
        assert!(Path::new(&socket).exists());
        std::thread::yield_now();
    }
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
    let mut database =
        Postgres::connect(&format!("host={socket} user=probity dbname=postgres")).unwrap();
    database
        .execute(&format!("CREATE SCHEMA {name}"), &[])
        .unwrap();
    database
        .execute(&format!("SET search_path = {name}"), &[])
        .unwrap();
    Box::new(database)
}

#[test]
fn every_claim_holds_on_a_server() {
    let _server = start();
    suite::removal_takes_user_and_stories_and_keeps_moderations_under_placeholders();
    suite::anonymising_everybody_gives_each_row_and_column_its_own_placeholder();
    suite::rows_of_one_owner_and_group_share_a_placeholder();
    suite::a_join_chooses_rows_and_nothing_else();
    suite::removal_over_an_anonymisation_comes_back_anonymous_and_then_in_full();
    suite::the_older_disguise_may_be_revealed_first();
    suite::chains_of_any_depth_unwind_in_any_order();
    suite::values_overwritten_twice_come_back_in_any_order();
    suite::owners_of_shared_rows_leave_and_return_in_any_order();
    suite::shared_rows_removed_for_everybody_come_back_owner_by_owner();
    suite::the_application_wins_and_a_retry_finds_what_is_left();
    suite::a_changed_value_stays_and_the_rest_of_the_row_follows_the_choice();
    suite::rows_made_meanwhile_follow_the_policy();
    suite::only_the_right_credential_opens_anything();
    suite::what_is_forgotten_never_comes_back();
    suite::wrong_specifications_change_nothing_and_name_their_place();
    suite::users_without_a_key_are_refused_before_anything_changes();
    suite::forgetting_one_disguise_leaves_the_way_to_another();
    suite::random_schedules_end_where_they_began();
    suite::a_cut_at_any_statement_changes_nothing();
    suite::every_kind_of_value_comes_back_bit_by_bit();
}
