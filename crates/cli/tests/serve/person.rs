//! A person registers, leaves and comes back, on every database and from another language.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use probity_disguise::database::connect;
use probity_disguise::{ApplyRequest, Credential, Engine, SecretKey, SpecFile};
use probity_format::Entry;
use probity_log::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::client::asked;
use crate::ending::many_leave_and_return_at_once;
use crate::place::{Place, SHOP, sqlite_file};
use crate::{mariadb, postgres};

/// Puts a placeholder in the place of the author of each post.
const ANONYMOUS: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000000, ub = 9000000000000 } }, name = { RandStr = { len = 20 } } }

[[decorrelate]]
table = "posts"
owners = ["author_id"]
"#;

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
    // A lost answer must not look like a failure when the reveal is repeated.
    let again = place.done("reveal", &reveal);
    assert_eq!(again["found"], false, "{again}");
    assert_eq!(place.rows(), before);
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
    assert_eq!(of("disguise.reveal", "ok"), 5);
    assert_eq!(of("disguise.reveal", "denied"), 0);
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
    for name in ["app", "crowd"] {
        let sql = format!("CREATE DATABASE {name}");
        database.execute(&sql, &[]).unwrap();
    }
    a_person_leaves_and_returns(&at(&mariadb::url(&socket, "app")));
    many_leave_and_return_at_once(&at(&mariadb::url(&socket, "crowd")));
}

#[test]
fn a_person_leaves_and_returns_on_postgres() {
    let (_server, socket) = postgres::running(|url| connect(url).is_ok());
    let url = postgres::url(&socket);
    let mut database = connect(&url).unwrap();
    database.execute("CREATE DATABASE crowd", &[]).unwrap();
    a_person_leaves_and_returns(&at(&url));
    let crowd = format!("{}/crowd", url.trim_end_matches("/postgres"));
    many_leave_and_return_at_once(&at(&crowd));
}

/// Starts a server for the database of a server.
fn at(url: &str) -> Place {
    let prepared = |folder: &Path| {
        sqlite_file(folder);
        url.to_owned()
    };
    Place::new(prepared, "wait_seconds = 600\nparallel = 3")
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
fn everybody_is_hidden_in_chunks_and_comes_back_one_after_the_other() {
    let place = Place::sqlite();
    for id in 100..140 {
        let sql = format!("INSERT INTO posts VALUES ({id}, {}, 'again')", 19 + id % 2);
        place.database().execute(&sql, &[]).unwrap();
    }
    let before = place.rows();
    let keys = ["19", "20"].map(|user| place.registered(user));
    let apply = json!({"spec": "leave", "chunk_rows": 0});
    assert_eq!(place.refused("apply-everybody", &apply, 400), "bad-request");
    let apply = json!({"spec": "leave", "chunk_rows": 7});
    let applied = place.done("apply-everybody", &apply);
    assert_eq!(applied["rows"]["people"], 2, "{applied}");
    assert_eq!(applied["rows"]["posts"], 42, "{applied}");
    let answers = [0, 1, 0].map(|at| {
        let reveal = json!({"credential": keys[at], "id": applied["id"]});
        place.post(SHOP, "reveal", &reveal).json()
    });
    // The second try brings the row that waited for the other's return.
    assert_eq!(answers[1]["complete"], true, "{answers:?}");
    assert_eq!(place.rows(), before);
}

/// Begins a disguise of user 20 in chunks, and gives their credential, too.
fn begun_for_another(place: &Place) -> (String, Value) {
    let key = place.registered("20");
    let leave = std::fs::read_to_string(place.path("leave.toml")).unwrap();
    let leave = SpecFile::parse(&leave).unwrap();
    let mut engine = Engine::stored(place.database()).unwrap();
    engine.set_sink(Box::new(|_: &Entry<'_>| Ok(())));
    let request = ApplyRequest {
        spec: &leave.spec,
        user: Some(probity_disguise::Value::Int(20)),
        over: None,
        parameters: [].into(),
        expires: None,
        time: SystemClock::new().now(),
    };
    (engine.chunks().begin(&request).unwrap().to_string(), key)
}

#[test]
fn chunks_over_placeholders_go_on_with_the_credential_alone() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let before = place.rows();
    let line = key["key"].as_str().unwrap().split(' ').next_back().unwrap();
    let bytes = URL_SAFE_NO_PAD.decode(line).unwrap();
    let secret = SecretKey::from_bytes(bytes.try_into().unwrap());
    let leave = std::fs::read_to_string(place.path("leave.toml")).unwrap();
    let (leave, anonymous) = (SpecFile::parse(&leave), SpecFile::parse(ANONYMOUS));
    let (leave, anonymous) = (leave.unwrap(), anonymous.unwrap());
    let mut engine = Engine::stored(place.database()).unwrap();
    // The database belongs to the log of the server.
    engine.set_sink(Box::new(|_: &Entry<'_>| Ok(())));
    let request = |spec, over| ApplyRequest {
        spec,
        user: Some(probity_disguise::Value::Int(19)),
        over,
        parameters: [].into(),
        expires: None,
        time: SystemClock::new().now(),
    };
    let hidden = engine.apply(&request(&anonymous.spec, None)).unwrap();
    let over = || Some(Credential::Key(&secret));
    let id = engine
        .chunks()
        .begin(&request(&leave.spec, over()))
        .unwrap();
    let first = engine
        .chunks()
        .proceed_over(id, over().as_ref(), 1, SystemClock::new().now());
    first.unwrap();
    drop(engine);
    let (id, hidden) = (id.to_string(), hidden.id.to_string());
    let listed = place.done("list", &json!({"user": "19", "credential": key}));
    let listed = listed["disguises"].as_array().unwrap();
    let is_unfinished = |id: &str| {
        let found = listed.iter().find(|it| it["id"] == id);
        found.unwrap()["unfinished"].as_bool().unwrap()
    };
    assert!(is_unfinished(&id) && !is_unfinished(&hidden), "{listed:?}");
    let resume = |body| place.refused("resume", &body, 422);
    assert_eq!(resume(json!({"id": id})), "unfit");
    // One that needs its credential does not hold up the others.
    let (other, credential) = begun_for_another(&place);
    let all = place.done("resume", &json!({}));
    assert_eq!(all["disguises"][0]["id"], other, "{all}");
    assert_eq!(all["refused"][0]["id"], id, "{all}");
    let reveal = json!({"credential": credential, "id": other});
    assert_eq!(place.done("reveal", &reveal)["complete"], true);
    assert_eq!(
        place.refused("resume", &json!({"over": key}), 400),
        "bad-request"
    );
    let resumed = place.done("resume", &json!({"id": id, "over": key}));
    assert_eq!(resumed["disguises"][0]["id"], id, "{resumed}");
    for id in [id, hidden] {
        let reveal = json!({"credential": key, "id": id});
        assert_eq!(place.done("reveal", &reveal)["complete"], true);
    }
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
    // The account went with it, so that nothing tells whose the key was.
    let reveal = json!({"user": "19", "credential": key, "id": applied["id"]});
    assert_eq!(place.refused("reveal", &reveal, 403), "wrong-credential");
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
