//! A database that is worked in for a share of the time.

use std::fs;

use serde_json::json;

use crate::place::{OTHER, Place, SHOP};

/// Starts a server whose database is worked in for `share` of the time, once `limits` are met.
fn place(share: &str, limits: &str) -> Place {
    let place = Place::sqlite();
    place.registered("19");
    let config = fs::read_to_string(place.path("probity.toml")).unwrap();
    let shared = format!("[database.app]\nconnections = 1\nshare = {share}\n");
    let config = config.replace("[database.app]\n", &shared);
    place.configure(&config.replace("[limits]\n", &format!("[limits]\n{limits}\n")));
    place
}

#[test]
fn whoever_comes_while_a_connection_rests_waits_like_for_a_connection() {
    // Work for a millionth of the time takes more than a microsecond, and then rests for more than
    // a second.
    let place = place("0.000001", "wait_seconds = 1");
    assert_eq!(place.post(SHOP, "holds", &json!({})).status, 200);
    let next = place.post(SHOP, "holds", &json!({}));
    assert_eq!(
        (next.status, next.problem().as_str()),
        (503, "busy"),
        "{next:?}"
    );
    assert_eq!(next.header("retry-after"), Some("1"));
    // Other databases have shares of their own.
    let elsewhere = place.post_to("other", OTHER, "holds", &json!({}));
    assert_eq!(elsewhere.problem(), "not-installed");
}

#[test]
fn a_person_leaves_and_returns_for_a_share_of_the_time() {
    let place = place("0.5", "");
    let before = place.rows();
    let key = place.registered("20");
    let body = json!({"user": "20", "spec": "leave", "chunk_rows": 1});
    let left = place.done("apply", &body);
    assert_ne!(place.rows(), before);
    let back = json!({"user": "20", "credential": key, "id": left["id"]});
    assert_eq!(place.done("reveal", &back)["complete"], true);
    assert_eq!(place.rows(), before);
}
