//! A database whose address accepts connections and never answers: others are served meanwhile, and the server ends.

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use probity_testing::wait;
use serde_json::json;

use crate::client::{answer, connected, posted};
use crate::place::{OTHER, Place, SHOP, sqlite_file};

/// The time in which what does not wait for the silent database is done.
const SOON: Duration = Duration::from_secs(5);

/// Starts a server of which one database is silent; `option` belongs to its address.
fn place(silent: &TcpListener, option: &str) -> Place {
    let place = Place::new(sqlite_file, "parallel = 2\nwait_seconds = 10");
    let config = fs::read_to_string(place.path("probity.toml")).unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("postgres://u:p@127.0.0.1:{port}/app{option}");
    place.configure(&config.replace("sqlite:other.db", &url));
    place
}

fn asked(place: &Place) -> TcpStream {
    let mut socket = connected(place.address());
    let request = posted("/v1/disguise/other/holds", OTHER, "{}");
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

/// Requests for a silent database took all places for good: those for healthy ones were refused, and they themselves
/// were never answered.
#[test]
fn requests_for_a_silent_database_take_no_place_and_are_answered() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = place(&silent, "?connect_timeout=2");
    let mut waiting: Vec<TcpStream> = (0..4).map(|_| asked(&place)).collect();
    wait(500);
    let begun = Instant::now();
    for _ in 0..3 {
        let healthy = place.post(SHOP, "register", &json!({"user": "19", "spec": "leave"}));
        assert!(matches!(healthy.status, 200 | 409), "{healthy:?}");
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    for socket in &mut waiting {
        let refused = answer(socket).unwrap();
        assert_eq!(refused.problem(), "database-failed", "{refused:?}");
    }
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    assert!(said.contains("did not answer within 4 s"), "{said}");
}

/// A second signal was lost, so that a server went on for as long as a database kept a request waiting.
#[test]
fn the_second_signal_ends_a_server_that_waits_for_a_database() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = place(&silent, "?connect_timeout=60");
    let _waiting = asked(&place);
    wait(500);
    let begun = Instant::now();
    place.signal("TERM");
    wait(1_000);
    place.signal("TERM");
    let (ended_well, said) = place.ended();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(
        !ended_well && said.contains("stopped by a signal"),
        "{said}"
    );
}
