//! A person registers, leaves and comes back, on every database and from another language.

use std::path::Path;
use std::process::Command;

use probity_disguise::database::connect;
use serde_json::{Value, json};

use crate::client::asked;
use crate::place::{Place, SHOP, sqlite_file};
use crate::{mariadb, postgres};

fn a_person_leaves_and_returns(place: &Place) {
    let before = place.rows();
    let key = place.registered("19");
    assert!(
        key["key"]
            .as_str()
            .unwrap()
            .starts_with("probity-disguise-key-v1 ")
    );
    place.done(
        "register",
        &json!({"user": "20", "spec": "leave", "password": "correct horse"}),
    );
    let apply = json!({"user": "19", "spec": "leave"});
    let applied = place.done("apply", &apply);
    let hidden = place.rows().join("\n");
    assert!(!hidden.contains("Very-Personal"), "{hidden}");
    assert!(!hidden.contains("Int(19)"), "{hidden}");
    assert_eq!(applied["rows"]["people"], 1, "{applied}");
    let id = applied["id"].as_str().unwrap();
    let listed = place.done("list", &json!({"user": "19", "credential": key}));
    assert_eq!(listed["disguises"][0]["id"], id);
    let reveal = json!({"user": "19", "credential": key, "id": id});
    let revealed = place.done("reveal", &reveal);
    assert_eq!(revealed["complete"], true, "{revealed}");
    assert_eq!(revealed["kept"], json!([]), "{revealed}");
    assert_eq!(place.rows(), before);
    assert_eq!(place.refused("reveal", &reveal, 404), "no-such-disguise");
    a_changed_row_stays_and_is_reported(place);
    another_language_does_the_same(place);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    the_log_tells_of_it(place);
}

fn a_changed_row_stays_and_is_reported(place: &Place) {
    let password = json!({"password": "correct horse"});
    let applied = place.done("apply", &json!({"user": "20", "spec": "leave"}));
    let sql = "INSERT INTO likes VALUES (2, 19, 2)";
    place.database().execute(sql, &[]).unwrap();
    let reveal = json!({"user": "20", "credential": password, "id": applied["id"]});
    let revealed = place.done("reveal", &reveal);
    assert_eq!(revealed["complete"], false);
    let kept = revealed["kept"].as_array().unwrap();
    let is_it = |it: &&Value| it["table"] == "likes" && it["identity"] == "2";
    let it = kept
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{revealed}"));
    assert_eq!(it["reason"], "a row with its key exists again");
    let sql = "DELETE FROM likes WHERE id = 2";
    place.database().execute(sql, &[]).unwrap();
    assert_eq!(place.done("reveal", &reveal)["complete"], true);
}

fn another_language_does_the_same(place: &Place) {
    let sql = "INSERT INTO people VALUES (21, 'Cyd Most-Private')";
    place.database().execute(sql, &[]).unwrap();
    let before = place.rows();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serve/person.py");
    let output = Command::new("python3")
        .arg(script)
        .args([&format!("http://{}", place.address()), "app", "21"])
        .env("PROBITY_TOKEN", SHOP)
        .output()
        .unwrap_or_else(|error| panic!("python3, which ./test installs: {error}"));
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["revealed"]["restored"]["people"], 1, "{told}");
    assert_eq!(place.rows(), before);
}

fn the_log_tells_of_it(place: &Place) {
    let entries = place.entries();
    let of = |action: &str, outcome: &str| {
        let same = |it: &&Value| it["action"] == action && it["outcome"] == outcome;
        entries.iter().filter(same).count()
    };
    assert_eq!(of("disguise.register", "ok"), 3);
    assert_eq!(of("disguise.apply", "ok"), 3);
    assert_eq!(of("disguise.reveal", "ok"), 4);
    assert_eq!(of("disguise.reveal", "denied"), 1);
    assert!(
        entries.iter().all(|it| it["actor"] == "shop"),
        "{entries:?}"
    );
    let all = format!("{entries:?}");
    for personal in ["Very-Personal", "Most-Private", "correct horse"] {
        assert!(!all.contains(personal), "{personal} in {all}");
    }
    place.run(&["verify", "audit"]);
}

#[test]
fn a_person_leaves_and_returns_on_sqlite() {
    a_person_leaves_and_returns(&Place::sqlite());
}

#[test]
fn a_person_leaves_and_returns_on_mariadb() {
    let (_server, socket) = mariadb::running(|url| connect(url).is_ok());
    let mut database = connect(&mariadb::url(&socket, "mysql")).unwrap();
    database.execute("CREATE DATABASE app", &[]).unwrap();
    a_person_leaves_and_returns(&Place::new(
        |folder| {
            sqlite_file(folder);
            mariadb::url(&socket, "app")
        },
        "",
    ));
}

#[test]
fn a_person_leaves_and_returns_on_postgres() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    a_person_leaves_and_returns(&Place::new(
        |folder| {
            sqlite_file(folder);
            postgres::url(&socket)
        },
        "",
    ));
}

#[test]
fn every_kind_of_credential_opens_what_it_should() {
    let place = Place::sqlite();
    let token = place.done(
        "register",
        &json!({"user": "19", "spec": "leave", "password": "correct horse"}),
    );
    let token = &token["credential"];
    assert!(
        token["token"]
            .as_str()
            .unwrap()
            .starts_with("probity-disguise-token-v1 ")
    );
    let shares = place.done(
        "register",
        &json!({"user": "20", "spec": "leave", "shares": true}),
    );
    let shares = shares["credential"]["shares"].as_array().unwrap();
    assert_eq!(shares.len(), 3);
    place.done("apply", &json!({"user": "19", "spec": "leave"}));
    place.done("apply", &json!({"user": "20", "spec": "leave"}));
    let opens = |user: &str, credential: &Value| {
        let listed = place.done("list", &json!({"user": user, "credential": credential}));
        assert_eq!(listed["disguises"].as_array().unwrap().len(), 1, "{listed}");
    };
    opens("19", token);
    opens("19", &json!({"password": "correct horse"}));
    for [first, second] in [[0, 1], [2, 0], [1, 2]] {
        opens("20", &json!({"shares": [shares[first], shares[second]]}));
    }
    let same = json!({"shares": [shares[1], shares[1]]});
    let list = json!({"user": "20", "credential": same});
    assert_eq!(place.refused("list", &list, 403), "wrong-credential");
}

#[test]
fn everybody_is_hidden_only_by_the_path_that_says_so() {
    let place = Place::sqlite();
    place.registered("19");
    place.registered("20");
    let apply = json!({"spec": "leave"});
    assert_eq!(place.refused("apply", &apply, 400), "bad-request");
    let applied = place.done("apply-everybody", &apply);
    assert_eq!(applied["rows"]["people"], 2, "{applied}");
}

#[test]
fn what_is_hidden_in_chunks_comes_back_whole() {
    let place = Place::sqlite();
    for id in 100..140 {
        let sql = format!("INSERT INTO posts VALUES ({id}, 19, 'again')");
        place.database().execute(&sql, &[]).unwrap();
    }
    let before = place.rows();
    let key = place.registered("19");
    let apply = json!({"user": "19", "spec": "leave", "chunk_rows": 7});
    let applied = place.done("apply", &apply);
    assert_eq!(applied["rows"]["posts"], 41, "{applied}");
    let reveal = json!({"credential": key, "id": applied["id"]});
    assert_eq!(place.done("reveal", &reveal)["complete"], true);
    assert_eq!(place.rows(), before);
}

#[test]
fn what_is_forgotten_has_a_receipt_that_anybody_can_check() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let applied = place.done("apply", &json!({"user": "19", "spec": "leave"}));
    let both = json!({"user": "19", "credential": key, "id": applied["id"], "everything": true});
    assert_eq!(place.refused("forget", &both, 400), "bad-request");
    let forget = json!({"user": "19", "credential": key, "id": applied["id"]});
    let forgotten = place.done("forget", &forget);
    assert_eq!(forgotten["forgotten"], applied["id"]);
    let receipt = forgotten["receipt"].as_str().unwrap();
    std::fs::write(place.path("19.receipt"), receipt).unwrap();
    let check = [
        "disguise",
        "check-receipt",
        "19.receipt",
        "--key",
        "receipts.pub",
    ];
    place.run(&[&check[..], &["--user", "19"]].concat());
    let reveal = json!({"user": "19", "credential": key, "id": applied["id"]});
    assert_eq!(place.refused("reveal", &reveal, 404), "no-such-disguise");
    let key = place.registered("20");
    let everything = json!({"user": "20", "credential": key, "everything": true});
    assert_eq!(place.done("forget", &everything)["forgotten"], "everything");
    assert_eq!(
        place.refused("forget", &everything, 403),
        "wrong-credential"
    );
}

#[test]
fn the_server_says_that_it_is_there_and_what_it_takes() {
    let place = Place::sqlite();
    assert_eq!(place.get("/healthz").json(), json!({"status": "ok"}));
    let described = place.get("/v1/openapi.json").json();
    assert_eq!(described["openapi"], "3.1.0");
    for operation in probity_http::operations() {
        let path = format!("/v1/disguise/{{database}}/{operation}");
        assert!(described["paths"][&path]["post"].is_object(), "{path}");
        let request = crate::client::posted(&path.replace("{database}", "app"), SHOP, "{}");
        let answer = asked(place.address(), &request).unwrap();
        assert_ne!(answer.status, 404, "{path}");
    }
}
