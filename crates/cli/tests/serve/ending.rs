//! Concurrent requests, the stop of a server, and its kill.

use std::fs;
use std::io::Write as _;
use std::thread;

use probity_log::storage::SmallDisk;
use serde_json::{Value, json};

use crate::client::{answer, connected, posted};
use crate::place::{Place, SHOP, sqlite_file};

const PEOPLE: i64 = 12;
const FIRST: i64 = 100;

/// Starts a server with a dozen people more, and returns what each of them keeps.
fn crowd(limits: &str) -> (Place, Vec<Value>) {
    let place = Place::new(sqlite_file, &format!("wait_seconds = 600\n{limits}"));
    let keys = crowded(&place);
    (place, keys)
}

/// Adds a dozen people, and gives what each of them keeps.
fn crowded(place: &Place) -> Vec<Value> {
    let mut database = place.database();
    for id in FIRST..FIRST + PEOPLE {
        for sql in [
            format!("INSERT INTO people VALUES ({id}, 'N{id}')"),
            format!("INSERT INTO posts VALUES ({id}, {id}, 'P{id}')"),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
    }
    drop(database);
    let keys = (FIRST..FIRST + PEOPLE).map(|id| place.registered(&id.to_string()));
    keys.collect()
}

fn apply(id: i64) -> String {
    let body = json!({"user": id.to_string(), "spec": "leave"});
    posted("/v1/disguise/app/apply", SHOP, &body.to_string())
}

/// Returns the one disguise of a person, or none. Checks that with it nothing names the person, and
/// that without it everything does.
fn all_or_nothing(place: &Place, id: i64, key: &Value) -> Option<Value> {
    let listed = listed(place, id, key);
    assert!(listed.len() < 2, "{listed:?}");
    let rows = place.rows();
    let own = [format!("\"N{id}\""), format!("posts [Int({id}), Int({id})")];
    for text in own {
        let is_there = rows.iter().any(|row| row.contains(&text));
        assert_eq!(is_there, listed.is_empty(), "{text}");
    }
    listed.first().cloned()
}

fn listed(place: &Place, id: i64, key: &Value) -> Vec<Value> {
    let list = json!({"user": id.to_string(), "credential": key});
    let listed = place.done("list", &list);
    listed["disguises"].as_array().unwrap().clone()
}

fn reveal(place: &Place, id: i64, key: &Value, disguise: &Value) {
    let body = json!({"user": id.to_string(), "credential": key, "id": disguise["id"]});
    assert_eq!(place.done("reveal", &body)["complete"], true);
}

#[test]
fn many_clients_are_answered_at_once_and_each_with_its_own() {
    let limits = "wait_seconds = 600\nconnections = 6\nparallel = 3";
    let place = Place::new(sqlite_file, limits);
    many_leave_and_return_at_once(&place);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    let entries = place.entries();
    let done = |action: &str| {
        let same = |it: &&Value| it["action"] == action && it["outcome"] == "ok";
        entries.iter().filter(same).count()
    };
    assert_eq!(done("disguise.apply"), 36);
    assert_eq!(done("disguise.reveal"), 36);
}

/// Lets a dozen people leave and return three times, all at the same time.
pub(crate) fn many_leave_and_return_at_once(place: &Place) {
    let keys = crowded(place);
    let before = place.rows();
    thread::scope(|scope| {
        for (id, key) in (FIRST..).zip(&keys) {
            scope.spawn(move || {
                for _ in 0..3 {
                    let body = json!({"user": id.to_string(), "spec": "leave"});
                    let applied = place.done("apply", &body);
                    let own = listed(place, id, key);
                    assert!(own.len() == 1 && own[0]["id"] == applied["id"], "{own:?}");
                    reveal(place, id, key, &applied);
                }
            });
        }
    });
    assert_eq!(place.rows(), before);
}

#[test]
fn a_server_that_is_killed_leaves_nothing_half_done() {
    let (place, keys) = crowd("parallel = 4");
    let before = place.rows();
    let mut sockets = Vec::new();
    for id in FIRST..FIRST + PEOPLE {
        let mut socket = connected(place.address());
        socket.write_all(apply(id).as_bytes()).unwrap();
        sockets.push(socket);
    }
    // One answer has come, so that others are under way or wait.
    assert_eq!(answer(&mut sockets[0]).unwrap().status, 200);
    place.kill();
    let statuses = sockets[1..]
        .iter_mut()
        .map(|socket| answer(socket).map(|it| it.status));
    let statuses: Vec<Option<u16>> = [Some(200)].into_iter().chain(statuses).collect();
    place.start();
    for ((id, key), status) in (FIRST..).zip(&keys).zip(statuses) {
        let disguise = all_or_nothing(&place, id, key);
        match (status, disguise) {
            // Every answered operation was durable before.
            (Some(status), disguise) => assert!(status == 200 && disguise.is_some(), "{id}"),
            (None, Some(disguise)) => reveal(&place, id, key, &disguise),
            (None, None) => {}
        }
    }
    assert_ne!(place.rows(), before);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    place.run(&["verify", "audit"]);
}

#[test]
fn a_server_that_is_stopped_finishes_what_it_has_begun() {
    let (place, keys) = crowd("parallel = 2");
    let mut sockets = Vec::new();
    for id in FIRST..FIRST + PEOPLE {
        let mut socket = connected(place.address());
        socket.write_all(apply(id).as_bytes()).unwrap();
        sockets.push(socket);
    }
    assert_eq!(answer(&mut sockets[0]).unwrap().status, 200);
    place.signal("TERM");
    let answered: Vec<Option<u16>> = sockets[1..]
        .iter_mut()
        .map(|socket| answer(socket).map(|it| it.status))
        .collect();
    assert!(
        answered.iter().flatten().all(|status| *status == 200),
        "{answered:?}"
    );
    let (ended_well, said) = place.ended();
    assert!(ended_well, "{said}");
    let done = 1 + answered.iter().flatten().count();
    let entries = place.entries();
    let is_apply = |it: &&Value| it["action"] == "disguise.apply";
    let applied = entries.iter().filter(is_apply).count();
    assert_eq!(applied, done, "{answered:?}");
    place.start();
    let hidden = (FIRST..)
        .zip(&keys)
        .filter_map(|(id, key)| all_or_nothing(&place, id, key));
    assert_eq!(hidden.count(), done);
}

#[test]
fn a_client_that_goes_leaves_nothing_half_done() {
    let (place, keys) = crowd("parallel = 2");
    let mut socket = connected(place.address());
    socket.write_all(apply(FIRST).as_bytes()).unwrap();
    drop(socket);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    place.start();
    all_or_nothing(&place, FIRST, &keys[0]);
}

#[test]
fn entries_go_to_the_stream_that_is_named() {
    let place = Place::sqlite();
    place.registered("19");
    place.stop();
    place.run(&["stream", "create", "audit", "disguises"]);
    let config = fs::read_to_string(place.path("probity.toml")).unwrap();
    let config = config.replace(
        "folder = \"audit\"",
        "folder = \"audit\"\nstream = \"disguises\"",
    );
    fs::write(place.path("probity.toml"), config).unwrap();
    place.start();
    let applied = place.done("apply", &json!({"user": "19", "spec": "leave"}));
    assert_eq!(applied["entry"], json!({"stream": "disguises", "index": 0}));
}

/// A server whose log had failed went on and refused every request until somebody started it anew. It ends by itself, so that whatever
/// supervises it starts it again.
#[test]
fn nothing_is_done_that_the_log_cannot_take() {
    let Some(disk) = SmallDisk::mounted("a server whose log is full", 512 << 10) else {
        return;
    };
    let place = Place::sqlite();
    place.registered("19");
    place.stop();
    let log = disk.path().join("audit").display().to_string();
    place.run(&["init", &log]);
    let config = fs::read_to_string(place.path("probity.toml")).unwrap();
    let config = config.replace("folder = \"audit\"", &format!("folder = {log:?}"));
    fs::write(place.path("probity.toml"), config).unwrap();
    place.start();
    let before = place.rows();
    let filler = disk.path().join("filler");
    assert!(fs::write(filler, vec![0; 1 << 20]).is_err());
    let apply = json!({"user": "19", "spec": "leave"});
    assert_eq!(place.refused("apply", &apply, 503), "not-recorded");
    assert_eq!(place.rows(), before);
    let (ended_well, said) = place.ended();
    assert!(!ended_well);
    assert!(
        said.contains("the log has failed and takes nothing more"),
        "{said}"
    );
}
