//! Servers that accept a connection and then say nothing, like one that is stopped or a tunnel that is stalled.

#![cfg(all(feature = "mysql", feature = "postgres"))]
#![expect(
    clippy::disallowed_methods,
    reason = "the time of a refusal is measured"
)]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probity_disguise::DatabaseErrorKind;
use probity_disguise::database::connect_holding;
use probity_testing::wait;

/// The most that a short opening may take on a machine with other work.
const SOON: Duration = Duration::from_secs(9);

/// Connecting waited without end for the greeting or the login: only accepting was bounded. Every command hung, and in
/// `serve` each such request kept a place for good.
#[test]
fn a_server_that_accepts_and_stays_silent_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for url in [
        format!("mysql://u:p@127.0.0.1:{port}/app?tcp_connect_timeout_ms=300"),
        format!("mariadb://u:p@127.0.0.1:{port}/app?tcp_connect_timeout_ms=300"),
        format!("postgres://u:p@127.0.0.1:{port}/app?connect_timeout=1"),
    ] {
        let begun = Instant::now();
        let refused = connect_holding(&url, ()).err().unwrap();
        assert!(begun.elapsed() < SOON, "{url}: {:?}", begun.elapsed());
        assert_eq!(refused.kind, DatabaseErrorKind::Silent, "{refused}");
        assert!(refused.message.contains("did not answer"), "{refused}");
    }
}

/// An attempt that was given up still has its connection, so that its permit must not be free before that is closed.
#[test]
fn what_an_attempt_holds_is_kept_until_its_connection_is_closed() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("mysql://u:p@127.0.0.1:{port}/app?tcp_connect_timeout_ms=200");
    let permit = Arc::new(());
    assert!(connect_holding(&url, Arc::clone(&permit)).is_err());
    assert_eq!(Arc::strong_count(&permit), 2);
    drop(silent.accept().unwrap());
    for _ in 0..200 {
        if Arc::strong_count(&permit) == 1 {
            break;
        }
        wait(20);
    }
    assert_eq!(Arc::strong_count(&permit), 1);
}

/// Connection errors named no cause: "error connecting to server", "invalid configuration", "invalid connection string".
#[test]
fn a_failed_connection_names_its_cause_and_no_password() {
    let free = probity_testing::free_port();
    for (url, cause) in [
        (format!("postgres://u:s3cret@127.0.0.1:{free}/a"), "refused"),
        (format!("mysql://u:s3cret@127.0.0.1:{free}/a"), "refused"),
        ("postgres://u:s3cret@localhost:abc/a".to_owned(), "port"),
    ] {
        let refused = connect_holding(&url, ()).err().unwrap().to_string();
        assert!(refused.contains(cause), "{url}: {refused}");
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}
