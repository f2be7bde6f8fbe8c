//! Requests that must not get through: from strangers, beyond the rights of a token, or malformed.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::client::{answer, asked, connected, posted};
use crate::place::{DESK, OTHER, Place, SHOP, sqlite_file};

#[test]
fn nobody_does_anything_without_a_token_that_has_the_right() {
    let place = Place::sqlite();
    let before = place.rows();
    let body = json!({"user": "19", "spec": "leave"});
    let path = "/v1/disguise/app/apply";
    let refused = |token: &str, path: &str| {
        let answer = asked(place.address(), &posted(path, token, &body.to_string())).unwrap();
        (answer.status, answer.problem())
    };
    let wrong = format!("{SHOP}0");
    let unknown = ["", "x", &wrong, SHOP.trim_end_matches('9'), "shop"];
    for token in unknown {
        assert_eq!(
            refused(token, path),
            (401, "unauthorized".into()),
            "{token}"
        );
    }
    let no_header = "POST /v1/disguise/app/apply HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                     Content-Length: 2\r\n\r\n{}";
    let basic = no_header.replace(
        "Host: x",
        &format!("Host: x\r\nAuthorization: Basic {SHOP}"),
    );
    for request in [no_header, &basic] {
        let answer = asked(place.address(), request).unwrap();
        assert_eq!(answer.problem(), "unauthorized");
        assert!(answer.header("www-authenticate").is_some());
    }
    assert_eq!(refused(DESK, path), (403, "forbidden".into()));
    assert_eq!(refused(OTHER, path), (403, "forbidden".into()));
    // A database that is there and one that is not look the same to those who may use neither.
    let other = refused(SHOP, "/v1/disguise/other/apply");
    assert_eq!(other, (403, "forbidden".into()));
    assert_eq!(refused(SHOP, "/v1/disguise/none/apply"), other);
    let traversal = [
        "/v1/disguise/app/..%2fapply",
        "/v1/disguise/app/",
        "/v1/disguise/app%ff/apply",
    ];
    for path in ["/v1/disguise/app/drop", "/v1/", "/"]
        .iter()
        .chain(&traversal)
    {
        assert_eq!(refused(SHOP, path), (404, "missing-path".into()), "{path}");
    }
    assert_eq!(place.rows(), before);
    let (_, said) = place.stop();
    assert!(!said.contains("token-0123"), "{said}");
    assert!(place.entries().is_empty());
}

#[test]
fn a_request_that_is_none_is_refused_and_the_fault_is_named() {
    let place = Place::sqlite();
    place.registered("19");
    let before = place.rows();
    let refused = |body: &str| {
        let request = posted("/v1/disguise/app/apply", SHOP, body);
        let answer = asked(place.address(), &request).unwrap();
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "bad-request")
        );
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    for nonsense in [
        "",
        "{",
        "nonsense",
        "[]",
        "null",
        "{}{}",
        "\u{1}\u{0}",
        "{\"user\":19}",
        "[\"leave\",\"19\"]",
    ] {
        refused(nonsense);
    }
    let deep = "[".repeat(100_000);
    refused(&deep);
    let told = refused(r#"{"user": "19", "spec": "leave", "usr": "20"}"#);
    assert!(told.contains("unknown field `usr`"), "{told}");
    let told = refused(r#"{"user": "19"}"#);
    assert!(told.contains("missing field `spec`"), "{told}");
    let told = refused(r#"{"user": "19", "user": "20", "spec": "leave"}"#);
    assert!(told.contains("duplicate field `user`"), "{told}");
    // A value meant for another field is not shown to whoever keeps answers.
    let told =
        refused("{\"user\": \"19\", \"spec\": \"leave\",\n \"chunk_rows\": \"secret-4711\"}");
    assert!(
        told.contains("line 2") && !told.contains("secret"),
        "{told}"
    );
    let body = json!({"user": "19", "spec": "leave", "over": {"key": "secret-4711"}});
    let told = refused(&body.to_string());
    assert!(!told.contains("secret"), "{told}");
    let body = json!({"user": "19", "spec": "leave", "over": {"password": "a", "key": "b"}});
    refused(&body.to_string());
    let body = json!({"user": "19", "spec": "leave", "parameters": {"topic": [1]}});
    assert!(refused(&body.to_string()).contains("topic"));
    for (field, value) in [("expires", "tomorrow"), ("expires", "2026-13-01T00:00:00Z")] {
        refused(&json!({"user": "19", "spec": "leave", field: value}).to_string());
    }
    assert_eq!(place.rows(), before);
}

#[test]
fn what_the_database_does_not_allow_is_said_and_changes_nothing() {
    let place = Place::sqlite();
    let before = place.rows();
    let list = json!({"user": "19", "credential": {"password": "x"}});
    assert_eq!(place.refused("list", &list, 409), "not-installed");
    place.registered("19");
    let body = |user: &str, spec: &str| json!({"user": user, "spec": spec});
    assert_eq!(
        place.refused("register", &body("19", "leave"), 409),
        "already-registered"
    );
    assert_eq!(
        place.refused("apply", &body("20", "leave"), 409),
        "unregistered"
    );
    assert_eq!(place.refused("apply", &body("19", "none"), 422), "unfit");
    assert_eq!(
        place.refused("apply", &body("19' OR 1=1", "leave"), 422),
        "unfit"
    );
    let ended = json!({"user": "19", "spec": "leave", "expires": "2001-01-01T00:00:00Z"});
    assert_eq!(place.refused("apply", &ended, 422), "unfit");
    assert_eq!(place.rows(), before);
    let applied = place.done("apply", &body("19", "leave"));
    let empty = json!({"user": "19", "spec": "leave", "password": ""});
    assert_eq!(place.refused("register", &empty, 400), "bad-request");
    let hidden = place.rows();
    let reveal = json!({"id": "0x", "credential": {"password": "x"}, "user": "19"});
    assert_eq!(place.refused("reveal", &reveal, 400), "bad-request");
    let nobody = json!({"id": applied["id"], "credential": {"password": "x"}});
    assert_eq!(place.refused("reveal", &nobody, 400), "bad-request");
    assert_eq!(place.rows(), hidden);
}

/// A mistyped user was refused as not registered, then registered, and a disguise of nobody was answered with 200 and no rows. There is
/// no such user, whoever asks what; and who is away is told so with their credential.
#[test]
fn a_user_without_a_row_is_no_user_and_gets_no_credential() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let before = place.rows();
    let body = |user: &str| json!({"user": user, "spec": "leave"});
    for user in ["77", "-1"] {
        for operation in ["apply", "register", "apply"] {
            assert_eq!(
                place.refused(operation, &body(user), 404),
                "no-such-user",
                "{operation}"
            );
        }
        let later = json!({"user": user, "spec": "leave", "due": "2040-01-01T00:00:00Z"});
        assert_eq!(place.refused("schedule", &later, 404), "no-such-user");
        let chunks = json!({"user": user, "spec": "leave", "chunk_rows": 1});
        assert_eq!(place.refused("apply", &chunks, 404), "no-such-user");
    }
    assert_eq!(place.rows(), before);
    place.done("apply", &body("19"));
    assert_eq!(place.refused("apply", &body("19"), 404), "no-such-user");
    let over = json!({"user": "19", "spec": "leave", "over": key});
    assert_eq!(place.refused("apply", &over, 409), "already-disguised");
    place.stop();
    let failed = place.entries();
    let failed = failed.iter().filter(|it| it["outcome"] == "failed");
    assert_eq!(failed.count(), 2 * 5 + 2);
}

/// An id above the largest integer of the database was answered as if the database had failed, and `hold` took it.
#[test]
fn an_id_that_no_row_can_have_is_refused_by_every_operation() {
    let place = Place::sqlite();
    place.registered("19");
    let before = place.rows();
    for user in ["9223372036854775808", "-9223372036854775809"] {
        let body = json!({"user": user, "spec": "leave"});
        let held = json!({"user": user, "basis": "file 7"});
        for (operation, body) in [("apply", &body), ("register", &body), ("hold", &held)] {
            assert_eq!(place.refused(operation, body, 422), "unfit", "{operation}");
        }
    }
    assert_eq!(place.rows(), before);
}

/// A body with another coding than `chunked`, or with two, was read as if it had been sent in chunks alone.
#[test]
fn a_transfer_coding_that_is_not_decoded_is_refused_and_the_connection_closed() {
    let place = Place::sqlite();
    place.registered("19");
    let text = r#"{"user": "19"}"#;
    let sent = |codings: &[&str], more: &str| {
        let codings: Vec<String> = codings
            .iter()
            .map(|coding| format!("Transfer-Encoding: {coding}\r\n"))
            .collect();
        let codings = codings.concat();
        // The connection is to stay open, as far as the client is concerned.
        let request = format!(
            "POST /v1/disguise/app/holds HTTP/1.1\r\nHost: probity\r\nAuthorization: Bearer {SHOP}\r\n\
             Content-Type: application/json\r\n{more}{codings}\r\n{:x}\r\n{text}\r\n0\r\n\r\n",
            text.len()
        );
        let mut socket = connected(place.address());
        socket.write_all(request.as_bytes()).unwrap();
        socket
    };
    for codings in [
        &["gzip, chunked"][..],
        &["chunked", "chunked"],
        &["chunked, chunked"],
        &["gzip", "chunked"],
        &["identity, chunked"],
    ] {
        let answer = answer(&mut sent(codings, "")).unwrap();
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (400, "bad-request"),
            "{codings:?}"
        );
        assert_eq!(answer.header("connection"), Some("close"), "{codings:?}");
    }
    for coding in ["chunked", "Chunked"] {
        let mut socket = sent(&[coding], "Connection: close\r\n");
        assert_eq!(answer(&mut socket).unwrap().status, 200, "{coding}");
    }
}

/// S9, S10, S20: with a key of their own anybody had a receipt for somebody else, and a reveal
/// without a user was anybody's. No log recorded refusals of `list` and `speaks-for`.
#[test]
fn a_wrong_password_and_an_unknown_user_get_the_same_answer() {
    let place = Place::sqlite();
    let password = json!({"password": "correct horse"});
    place.done(
        "register",
        &json!({"user": "19", "spec": "leave", "password": "correct horse"}),
    );
    let other = place.registered("20");
    let applied = place.done("apply", &json!({"user": "19", "spec": "leave"}));
    let hidden = place.rows();
    let told = |operation: &str, user: &str, credential: &Value| {
        let body = json!({"user": user, "credential": credential, "id": applied["id"]});
        let mut body = body.as_object().unwrap().clone();
        if ["list", "speaks-for"].contains(&operation) {
            body.remove("id");
        }
        if user.is_empty() {
            body.remove("user");
        }
        let answer = place.post(SHOP, operation, &Value::Object(body));
        (answer.status, answer.text)
    };
    for operation in ["list", "speaks-for", "export", "reveal", "forget"] {
        let wrong = told(operation, "19", &json!({"password": "wrong horse"}));
        assert_eq!(wrong.0, 403, "{wrong:?}");
        assert_eq!(told(operation, "4711", &password), wrong);
        assert_eq!(told(operation, "20", &password), wrong);
    }
    // Somebody else's own credential opens nothing of theirs, nor in their name what is its own.
    for operation in ["list", "speaks-for", "export", "reveal", "forget"] {
        let (status, text) = told(operation, "19", &other);
        assert_eq!(status, 403, "{operation} {text}");
    }
    let everything = json!({"user": "19", "credential": other, "everything": true});
    assert_eq!(
        place.refused("forget", &everything, 403),
        "wrong-credential"
    );
    // Without a user it is the person whose key it is, of whom that disguise hides nothing.
    let (status, text) = told("reveal", "", &other);
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"found\":false"), "{text}");
    assert_eq!(place.rows(), hidden);
    let (_, said) = place.stop();
    assert!(!said.contains("horse"), "{said}");
    let entries = place.entries();
    let denied = entries
        .iter()
        .filter(|it| it["outcome"] == "denied")
        .count();
    assert_eq!(denied, 5 * 4 + 1, "{entries:?}");
    let subject = |action: &str| {
        let of = entries.iter().filter(|it| it["action"] == action);
        of.map(|it| it["subject"].clone()).collect::<Vec<_>>()
    };
    let (lists, registered) = (subject("disguise.list"), subject("disguise.register"));
    assert_eq!(lists[0], registered[0]);
    assert_eq!([&lists[2], &lists[3]], [&registered[1], &registered[0]]);
    let reveals = subject("disguise.reveal");
    // The one without a user names the person whose key it was.
    assert_eq!((reveals.len(), &reveals[4]), (5, &registered[1]));
    assert!(!format!("{entries:?}").contains("horse"));
}

#[test]
fn a_body_beyond_the_limit_is_not_read() {
    let place = Place::new(sqlite_file, "body_bytes = 1000");
    let fits = format!("{{\"user\": \"{}\"}}", "9".repeat(900));
    assert_eq!(
        place
            .post(SHOP, "apply", &json!({"x": "9".repeat(900)}))
            .status,
        400
    );
    assert!(fits.len() < 1000);
    let answer = place.post(SHOP, "apply", &json!({"user": "9".repeat(2000)}));
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (413, "too-large")
    );
    // One that says nothing of its length is cut off where the limit is.
    let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    let head = posted("/v1/disguise/app/apply", SHOP, "");
    let head = head.replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let answer = asked(place.address(), &format!("{head}{chunk}{chunk}")).unwrap();
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (413, "too-large")
    );
    let text =
        posted("/v1/disguise/app/apply", SHOP, "{}").replace("application/json", "text/plain");
    let answer = asked(place.address(), &text).unwrap();
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (415, "wrong-media-type")
    );
    let described = posted("/v1/openapi.json", SHOP, "{}");
    for (answer, methods) in [
        (place.get("/v1/disguise/app/apply"), "POST"),
        (asked(place.address(), &described).unwrap(), "GET,HEAD"),
    ] {
        assert_eq!(
            (answer.status, answer.problem().as_str()),
            (405, "wrong-method")
        );
        assert_eq!(answer.header("allow"), Some(methods));
    }
}

#[test]
fn slow_clients_are_let_go_and_hold_nobody_up() {
    let place = Place::new(
        sqlite_file,
        "read_seconds = 6\nparallel = 1\nconnections = 8",
    );
    place.registered("19");
    let request = posted(
        "/v1/disguise/app/apply",
        SHOP,
        &json!({"user": "19", "spec": "leave"}).to_string(),
    );
    let (head, body) = request.split_at(request.find("\r\n\r\n").unwrap() + 4);
    // More of them than there are places at the database: they have none while they are slow.
    let mut slow: Vec<_> = (0..4).map(|_| connected(place.address())).collect();
    for (number, socket) in slow.iter_mut().enumerate() {
        let part = if number % 2 == 0 {
            "POST /v1/disguise"
        } else {
            head
        };
        socket.write_all(part.as_bytes()).unwrap();
    }
    place.registered("20");
    for (number, socket) in slow.iter_mut().enumerate() {
        let answer = answer(socket);
        if number % 2 == 1 {
            let answer = answer.unwrap();
            assert_eq!((answer.status, answer.problem().as_str()), (408, "slow"));
        }
    }
    assert!(!body.is_empty());
}

/// Expects that a server does not start with this configuration, and says why in these words.
fn is_refused(place: &Place, text: &str, words: &[&str]) {
    fs::write(place.path("bad.toml"), text).unwrap();
    let (mut child, line) = place.spawned("bad.toml");
    if !line.is_empty() {
        drop(child.kill());
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?} {line} {said}");
    for word in words {
        assert!(said.contains(word), "{word} is not in {said}");
    }
}

/// A slip in the address of a database in a file showed with the first request only.
#[test]
fn a_database_in_a_file_that_is_not_there_is_told_at_the_start() {
    let place = Place::sqlite();
    place.stop();
    let good = fs::read_to_string(place.path("probity.toml")).unwrap();
    assert!(good.contains("sqlite:") && good.contains("127.0.0.1:0"));
    // The address is taken, so that the server ends by itself.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = good.replace("127.0.0.1:0", &address);
    let text = text.replace("sqlite:", "sqlite:not-");
    let words = ["warning: the database other cannot be opened", &address];
    is_refused(&place, &text, &words);
}

#[test]
fn a_configuration_is_refused_with_its_line() {
    let place = Place::sqlite();
    place.stop();
    let good = fs::read_to_string(place.path("probity.toml")).unwrap();
    let refused = |text: &str, words: &[&str]| is_refused(&place, text, words);
    let changed = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    refused(
        &changed("receipt_key", "receipts_key"),
        &["line 2", "receipts_key"],
    );
    refused(
        &changed("127.0.0.1:0", "0.0.0.0:0"),
        &["line 1", "allow_plaintext"],
    );
    refused(
        &changed("[\"app\"]", "[\"ap\"]"),
        &["there is no database \"ap\"", "line"],
    );
    refused(
        &changed("\"register\"]", "\"everything\"]"),
        &["\"everything\"", "line"],
    );
    refused(&changed("\"shop\"", "\"desk\""), &["twice", "line"]);
    refused(
        &changed("[limits]", "[limits]\nparallel = 0"),
        &["parallel"],
    );
    refused(
        &changed("sha256 = \"", "sha256 = \"0"),
        &["64 hexadecimal digits", "line"],
    );
    refused(
        &changed("url_file = \"app.url\"", ""),
        &["url or url_file", "line"],
    );
    for share in ["0", "1.5", "-0.25", "nan"] {
        let shared = format!("[database.app]\nshare = {share}\n");
        refused(&changed("[database.app]\n", &shared), &["share", "line"]);
    }
    refused(&changed("leave.toml", "none.toml"), &["none.toml"]);
    refused(&changed("app.url", "leave.toml"), &["leave.toml"]);
    refused(
        &changed("folder = \"audit\"", "folder = \"none\""),
        &["none"],
    );
    refused(
        &changed(
            "folder = \"audit\"",
            "folder = \"audit\"\nstream = \"none\"",
        ),
        &["none"],
    );
    refused("listen = ", &["line 1"]);
    refused("", &["log"]);
}

/// `019` and `+19` were taken for user 19, and `register` answered with the name in the request. So
/// an application knew one person by two names. Every operation refuses an id in another spelling
/// than that of the users table.
#[test]
fn an_id_in_another_spelling_is_refused_by_every_operation() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let before = place.rows();
    for user in ["019", "+19", "-019", "00", "-0"] {
        let body = json!({"user": user, "spec": "leave"});
        let later = json!({"user": user, "spec": "leave", "due": "2040-01-01T00:00:00Z"});
        let held = json!({"user": user, "basis": "file 7"});
        let asks = json!({"user": user, "credential": key});
        let reveals = json!({"user": user, "credential": key, "id": "5a0c91b2d3e4f506"});
        let forgets = json!({"user": user, "credential": key, "everything": true});
        let rekeys = json!({"user": user, "credential": key, "new_key": true});
        let about = json!({"user": user});
        for (operation, body) in [
            ("apply", &body),
            ("plan", &body),
            ("register", &body),
            ("schedule", &later),
            ("hold", &held),
            ("list", &asks),
            ("speaks-for", &asks),
            ("export", &asks),
            ("subject-name", &asks),
            ("reveal", &reveals),
            ("forget", &forgets),
            ("rekey", &rekeys),
            ("holds", &about),
            ("scheduled", &about),
        ] {
            let said = place.refused(operation, body, 422);
            assert_eq!(said, "unfit", "{operation} {user}");
        }
    }
    assert_eq!(place.rows(), before);
    place.stop();
    // The entry of the registration is the only one.
    assert_eq!(place.entries().len(), 1);
}
