//! The connections to a database: as many as are allowed and no more, side by side, and beyond the end of its server.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::thread::yield_now;

use probity_disguise::Database;
use probity_disguise::database::connect;
use probity_testing::server::Server;
use serde_json::json;

use crate::client::{answer, connected, posted};
use crate::place::{OTHER, Place, SHOP, sqlite_file};
use crate::{mariadb, postgres};

/// The most connections to the database.
const SIZE: usize = 3;

/// The most checks of a condition that must come about.
const LOOKS_MAX: u32 = 1_000_000;

/// A database server, with the statements in which it reports on itself.
struct Station<'a> {
    place: &'a Place,
    /// A connection to another database of the server.
    observer: Box<dyn Database + Send>,
    /// Keeps everybody from the posts.
    lock: &'static str,
    /// Counts the connections at work, which here means waiting for the posts.
    working: &'static str,
    /// Counts the connections to the database.
    open: &'static str,
}

impl Station<'_> {
    fn count(&mut self, sql: &str) -> usize {
        let rows = self.observer.query(sql, &[]).unwrap();
        rows[0][0].to_string().parse().unwrap()
    }

    /// Looks until as many are counted; a server notices a while later who has gone.
    fn wait_for(&mut self, sql: &str, expected: impl Fn(usize) -> bool) {
        for _ in 0..LOOKS_MAX {
            if expected(self.count(sql)) {
                return;
            }
            yield_now();
        }
        panic!("{sql} stays at {}", self.count(sql));
    }

    fn holds(&self) -> (u16, Option<String>) {
        let answer = self.place.post(SHOP, "holds", &json!({}));
        let after = answer.header("retry-after").map(str::to_owned);
        (answer.status, after)
    }
}

fn slow(place: &Place, user: i64) -> TcpStream {
    let body = json!({"user": user.to_string(), "spec": "leave"}).to_string();
    let mut socket = connected(place.address());
    let request = posted("/v1/disguise/app/apply", SHOP, &body);
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

/// Adds people to a server, of whom one fewer than there are connections leaves.
fn slow_requests_stand_side_by_side_and_the_bound_holds(station: &mut Station<'_>) {
    let place = station.place;
    let mut database = place.database();
    for user in 100..100 + i64::try_from(SIZE).unwrap() {
        for sql in [
            format!("INSERT INTO people VALUES ({user}, 'N{user}')"),
            format!("INSERT INTO posts VALUES ({user}, {user}, 'P{user}')"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        place.registered(&user.to_string());
    }
    database.begin().unwrap();
    database.execute(station.lock, &[]).unwrap();
    let mut sockets: Vec<TcpStream> = (100..102).map(|user| slow(place, user)).collect();
    station.wait_for(station.working, |count| count == 2);
    // While they wait, another request is answered.
    assert_eq!(station.holds(), (200, None));
    sockets.push(slow(place, 102));
    station.wait_for(station.working, |count| count == SIZE);
    // Now there is no connection for it, and none beyond the bound is made.
    let told = station.holds();
    assert_eq!((told.0, told.1.as_deref()), (503, Some("1")));
    station.wait_for(station.open, |count| count == SIZE + 1);
    // Whoever works elsewhere is not held up.
    let elsewhere = place.post_to("other", OTHER, "holds", &json!({}));
    assert_eq!(elsewhere.problem(), "not-installed");
    database.commit().unwrap();
    drop(database);
    for socket in &mut sockets {
        let answer = answer(socket).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    for _ in 0..2 * SIZE {
        assert_eq!(station.holds().0, 200);
    }
    station.wait_for(station.open, |count| (1..=SIZE).contains(&count));
}

/// Ends a server, begins it anew, and asks again.
fn a_server_that_was_restarted_is_used_again(place: &Place, server: &mut Server) {
    server.stop();
    let answer = place.post(SHOP, "holds", &json!({}));
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "database-failed")
    );
    server.restart(|| connect(&place.url).is_ok());
    let answer = place.post(SHOP, "holds", &json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn place(url: &str) -> Place {
    let prepared = |folder: &Path| {
        sqlite_file(folder);
        url.to_owned()
    };
    let place = Place::new(prepared, "wait_seconds = 2");
    let config = fs::read_to_string(place.path("probity.toml")).unwrap();
    let sized = format!("[database.app]\nconnections = {SIZE}\n");
    place.configure(&config.replace("[database.app]\n", &sized));
    place
}

#[test]
fn connections_are_shared_and_bounded_on_postgres() {
    let (mut server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut observer = connect(&url).unwrap();
    observer.execute("CREATE DATABASE app", &[]).unwrap();
    let place = place(&format!("{}/app", url.trim_end_matches("/postgres")));
    slow_requests_stand_side_by_side_and_the_bound_holds(&mut Station {
        place: &place,
        observer,
        lock: "LOCK TABLE posts IN ACCESS EXCLUSIVE MODE",
        working: "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'app' AND state = 'active'",
        open: "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = 'app'",
    });
    a_server_that_was_restarted_is_used_again(&place, &mut server);
}

#[test]
fn connections_are_shared_and_bounded_on_mariadb() {
    let (mut server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut observer = connect(&mariadb::url(&socket, "mysql")).unwrap();
    observer.execute("CREATE DATABASE app", &[]).unwrap();
    let place = place(&mariadb::url(&socket, "app"));
    slow_requests_stand_side_by_side_and_the_bound_holds(&mut Station {
        place: &place,
        observer,
        lock: "SELECT * FROM posts FOR UPDATE",
        working: "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'app' AND COMMAND <> 'Sleep'",
        open: "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = 'app'",
    });
    a_server_that_was_restarted_is_used_again(&place, &mut server);
}
