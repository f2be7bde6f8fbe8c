//! Requests that are asked again under the same key: the same answer, and nothing done twice.

use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::client::{Answer, asked, posted};
use crate::place::{DESK, Place, SHOP};

/// Keeps people from being deleted.
const STOP: &str =
    "CREATE TRIGGER stays BEFORE DELETE ON people BEGIN SELECT RAISE(ABORT, 'not now'); END";

/// Asks under a key.
fn keyed(place: &Place, token: &str, key: &str, operation: &str, body: &Value) -> Answer {
    let path = format!("/v1/disguise/app/{operation}");
    let request = posted(&path, token, &body.to_string());
    let header = format!("Idempotency-Key: {key}\r\nConnection: close");
    asked(
        place.address(),
        &request.replace("Connection: close", &header),
    )
    .unwrap()
}

fn told(place: &Place, action: &str) -> usize {
    let entries = place.entries();
    let same = |it: &&Value| it["action"] == action && it["outcome"] == "ok";
    entries.iter().filter(same).count()
}

#[test]
fn the_same_request_with_the_same_key_is_done_once_and_answered_as_before() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let apply = json!({"user": "19", "spec": "leave"});
    let first = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(first.status, 200, "{first:?}");
    let hidden = place.rows();
    // Also after the server was killed.
    place.kill();
    place.start();
    for _ in 0..2 {
        let again = keyed(&place, SHOP, "\"one\"", "apply", &apply);
        assert_eq!((again.status, &again.text), (200, &first.text));
    }
    assert_eq!(place.rows(), hidden);
    // The key stands for these bytes and this operation.
    let other = json!({"user": "20", "spec": "leave"});
    let reveal = json!({"credential": key, "id": first.json()["id"]});
    for (operation, body) in [("apply", &other), ("reveal", &reveal)] {
        let refused = keyed(&place, SHOP, "\"one\"", operation, body);
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (422, "key-reused")
        );
    }
    let revealed = keyed(&place, SHOP, "\"two\"", "reveal", &reveal);
    assert_eq!(revealed.status, 200, "{revealed:?}");
    let again = keyed(&place, SHOP, "\"two\"", "reveal", &reveal);
    assert_eq!((again.status, &again.text), (200, &revealed.text));
    // A refusal is not kept: the next time the request may be possible.
    let twenty = |status: u16| {
        let answer = keyed(&place, SHOP, "\"three\"", "apply", &other);
        assert_eq!(answer.status, status, "{answer:?}");
    };
    twenty(409);
    place.registered("20");
    twenty(200);
    for bad in ["", "one", "\"\"", "\"a\", \"b\""] {
        let refused = keyed(&place, SHOP, bad, "apply", &apply);
        assert_eq!(
            (refused.status, refused.problem().as_str()),
            (400, "bad-request")
        );
    }
    place.stop();
    assert_eq!(told(&place, "disguise.apply"), 2);
    assert_eq!(told(&place, "disguise.reveal"), 1);
}

#[test]
fn an_answer_with_a_credential_is_kept_nowhere_and_others_cannot_be_read() {
    let place = Place::sqlite();
    let register = json!({"user": "19", "spec": "leave", "password": "correct horse"});
    // The key of one token is not that of another.
    let made = keyed(&place, DESK, "\"one\"", "register", &register);
    assert_eq!(made.status, 200, "{made:?}");
    for (token, problem) in [(DESK, "answer-withheld"), (SHOP, "already-registered")] {
        let again = keyed(&place, token, "\"one\"", "register", &register);
        assert_eq!((again.status, again.problem().as_str()), (409, problem));
    }
    let apply = json!({"user": "19", "spec": "leave"});
    let applied = keyed(&place, SHOP, "\"two\"", "apply", &apply);
    assert_eq!(applied.status, 200, "{applied:?}");
    let sql = "SELECT id, request, sealed FROM probity_answers";
    let rows = place.database().query(sql, &[]).unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let kept = rows.iter().flatten().map(ToString::to_string);
    let kept = kept.collect::<Vec<_>>().join(" ");
    let id = applied.json()["id"].as_str().unwrap().to_owned();
    let digits = id.bytes().map(|byte| format!("{byte:02x}"));
    assert!(!kept.contains(&digits.collect::<String>()), "{kept}");
    // Only the one with the credential holds nothing.
    let empty = rows.iter().filter(|row| row[2].to_string().is_empty());
    assert_eq!(empty.count(), 1);
}

#[test]
fn a_request_that_is_being_worked_on_is_not_begun_again() {
    let place = Place::sqlite();
    place.registered("19");
    let mut writer = place.database();
    writer.begin().unwrap();
    let hold = json!({"user": "19", "basis": "file 7"});
    let (answers, answer) = channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let (answers, place, hold) = (answers.clone(), &place, &hold);
            scope.spawn(move || {
                let told = keyed(place, SHOP, "\"one\"", "hold", hold);
                answers.send(told).unwrap();
            });
        }
        // While the file is locked neither can be done, and only one is tried.
        let first = answer.recv().unwrap();
        assert_eq!(
            (first.status, first.problem().as_str()),
            (409, "still-running")
        );
        assert!(first.header("retry-after").is_some());
        writer.commit().unwrap();
        let second = answer.recv().unwrap();
        assert_eq!(second.status, 200, "{second:?}");
        let again = keyed(&place, SHOP, "\"one\"", "hold", &hold);
        assert_eq!((again.status, &again.text), (200, &second.text));
    });
    let holds = place.done("holds", &json!({}));
    assert_eq!(holds["holds"].as_array().unwrap().len(), 1, "{holds}");
}

#[test]
fn a_key_is_forgotten_after_its_time_and_by_a_sweep() {
    let place = Place::sqlite();
    place.registered("19");
    let hold = json!({"user": "19", "basis": "file 7"});
    let held = |key: &str| keyed(&place, SHOP, key, "hold", &hold).json()["hold"].clone();
    let first = held("\"one\"");
    assert_eq!(held("\"one\""), first);
    let pass = "UPDATE probity_answers SET due = 0";
    place.database().execute(pass, &[]).unwrap();
    assert_ne!(held("\"one\""), first);
    held("\"two\"");
    place.database().execute(pass, &[]).unwrap();
    place.done("sweep", &json!({}));
    let rows = place
        .database()
        .query("SELECT id FROM probity_answers", &[]);
    assert!(rows.unwrap().is_empty());
}

#[test]
fn a_disguise_in_chunks_is_done_once_for_a_key_and_answered_as_before() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let apply = json!({"user": "19", "spec": "leave", "chunk_rows": 1});
    let applied = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(applied.status, 200, "{applied:?}");
    assert!(applied.json()["entry"]["index"].is_u64(), "{applied:?}");
    // Also after the server was killed, and once it is revealed.
    place.kill();
    place.start();
    let again = || {
        let again = keyed(&place, SHOP, "\"one\"", "apply", &apply);
        assert_eq!((again.status, &again.text), (200, &applied.text));
    };
    again();
    let listed = place.done("list", &json!({"user": "19", "credential": key}));
    assert_eq!(listed["disguises"].as_array().unwrap().len(), 1, "{listed}");
    place.done(
        "reveal",
        &json!({"credential": key, "id": applied.json()["id"]}),
    );
    again();
    place.stop();
    assert_eq!(told(&place, "disguise.begin"), 1);
    assert_eq!(told(&place, "disguise.apply"), 1);
}

#[test]
fn a_disguise_in_chunks_that_was_cut_is_gone_on_with_by_its_key_and_answered_as_a_whole() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let apply = json!({"user": "19", "spec": "leave", "chunk_rows": 1});
    place.database().execute(STOP, &[]).unwrap();
    let cut = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_ne!(cut.status, 200, "{cut:?}");
    assert!(cut.text.contains("was begun"), "{cut:?}");
    place.database().execute("DROP TRIGGER stays", &[]).unwrap();
    let applied = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(applied.status, 200, "{applied:?}");
    let rows = &applied.json()["rows"];
    assert_eq!(rows["people"], 1, "{applied:?}");
    assert_eq!(rows["posts"], 1, "{applied:?}");
    let again = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!((again.status, &again.text), (200, &applied.text));
    let listed = place.done("list", &json!({"user": "19", "credential": key}));
    assert_eq!(listed["disguises"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_disguise_in_chunks_that_another_request_finished_is_named_and_not_begun_again() {
    let place = Place::sqlite();
    place.registered("19");
    let apply = json!({"user": "19", "spec": "leave", "chunk_rows": 1});
    place.database().execute(STOP, &[]).unwrap();
    let cut = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_ne!(cut.status, 200, "{cut:?}");
    place.database().execute("DROP TRIGGER stays", &[]).unwrap();
    let resumed = place.done("resume", &json!({}));
    let id = resumed["disguises"][0]["id"].as_str().unwrap();
    let again = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(
        (again.status, again.problem().as_str()),
        (409, "answer-withheld")
    );
    assert!(again.text.contains(id), "{again:?}");
}

/// A disguise in chunks was ended part way by `cancel`, and whoever asked again was told that it was
/// done. The answer says that it was ended or finished, which the server cannot tell apart.
#[test]
fn a_disguise_in_chunks_that_another_request_ended_is_not_said_to_be_done() {
    let place = Place::sqlite();
    place.registered("19");
    let apply = json!({"user": "19", "spec": "leave", "chunk_rows": 1});
    place.database().execute(STOP, &[]).unwrap();
    let cut = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert!(cut.text.contains("was begun"), "{cut:?}");
    place.database().execute("DROP TRIGGER stays", &[]).unwrap();
    let said = cut.json()["detail"].as_str().unwrap().to_owned();
    let id = said.split_whitespace().nth(1).unwrap();
    place.done("cancel", &json!({"id": id}));
    let again = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(
        (again.status, again.problem().as_str()),
        (409, "answer-withheld")
    );
    let said = again.json()["detail"].as_str().unwrap().to_owned();
    assert!(said.contains("ended or finished"), "{said}");
    assert!(said.contains(id) && !said.contains("was done"), "{said}");
}

/// An answer that was kept for a repetition told of a person for a day after they had everything
/// forgotten. A reveal's answer names the rows that stayed. It is not given out any more.
#[test]
fn what_was_answered_about_a_forgotten_person_is_not_repeated() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let apply = json!({"user": "19", "spec": "leave"});
    let applied = keyed(&place, SHOP, "\"one\"", "apply", &apply);
    assert_eq!(applied.status, 200, "{applied:?}");
    // Somebody else has the id, so that rows stay hidden.
    let taken = "INSERT INTO people (id, name) VALUES (19, 'newcomer')";
    place.database().execute(taken, &[]).unwrap();
    let reveal = json!({"user": "19", "credential": key, "id": applied.json()["id"]});
    let revealed = keyed(&place, SHOP, "\"two\"", "reveal", &reveal);
    assert!(revealed.text.contains("\"identity\""), "{revealed:?}");
    let again = keyed(&place, SHOP, "\"two\"", "reveal", &reveal);
    assert_eq!((again.status, &again.text), (200, &revealed.text));
    let forget = json!({"user": "19", "credential": key, "everything": true});
    let forgotten = keyed(&place, SHOP, "\"three\"", "forget", &forget);
    assert_eq!(forgotten.status, 200, "{forgotten:?}");
    for (name, operation, body) in [("\"one\"", "apply", &apply), ("\"two\"", "reveal", &reveal)] {
        let again = keyed(&place, SHOP, name, operation, body);
        assert_eq!(
            (again.status, again.problem().as_str()),
            (409, "answer-withheld")
        );
    }
    // Whoever lost the receipt on the way still gets it.
    let again = keyed(&place, SHOP, "\"three\"", "forget", &forget);
    assert_eq!((again.status, &again.text), (200, &forgotten.text));
    let sql = "SELECT sealed FROM probity_answers";
    let rows = place.database().query(sql, &[]).unwrap();
    let kept = rows.iter().filter(|row| !row[0].to_string().is_empty());
    assert_eq!((rows.len(), kept.count()), (3, 1));
}
