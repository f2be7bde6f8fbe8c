//! Every operation, asked and answered as the server's own description says.

use std::collections::BTreeSet;
use std::fs;

use probity_disguise::{ApplyRequest, Engine, SpecFile};
use probity_format::Entry;
use probity_log::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::place::{Place, SHOP};
use crate::schema;

/// A server, and what of its description was met.
struct Met<'a> {
    place: &'a Place,
    description: Value,
    operations: BTreeSet<String>,
}

impl<'a> Met<'a> {
    fn new(place: &'a Place) -> Self {
        Self {
            place,
            description: place.get("/v1/openapi.json").json(),
            operations: BTreeSet::new(),
        }
    }

    /// Asks for an operation that is done; request and answer are as described.
    fn done(&mut self, operation: &str, body: &Value) -> Value {
        let answer = self.place.done(operation, body);
        let path = format!("/v1/disguise/{{database}}/{operation}");
        let described = &self.description["paths"][&path]["post"];
        let json = "application/json";
        let request = &described["requestBody"]["content"][json]["schema"];
        schema::expect(&self.description, request, body);
        let done = &described["responses"]["200"]["content"][json]["schema"];
        schema::expect(&self.description, done, &answer);
        self.operations.insert(operation.to_owned());
        answer
    }

    fn refused(&self, operation: &str, body: &Value, status: u16) -> String {
        let answer = self.place.post(SHOP, operation, body);
        assert_eq!(answer.status, status, "{operation} {answer:?}");
        let path = format!("/v1/disguise/{{database}}/{operation}");
        let described = &self.description["paths"][&path]["post"]["responses"]["default"];
        let schema = &described["content"]["application/problem+json"]["schema"];
        schema::expect(&self.description, schema, &answer.json());
        answer.problem()
    }
}

#[test]
fn every_operation_is_asked_and_answered_as_it_is_described() {
    let place = Place::sqlite();
    let met = &mut Met::new(&place);
    let before = place.rows();
    looking_changes_nothing(met);
    assert_eq!(place.rows(), before);
    let key = met.done("register", &json!({"user": "19", "spec": "leave"}))["credential"].clone();
    met.done(
        "register",
        &json!({"user": "20", "spec": "leave", "password": "correct horse"}),
    );
    a_hold_stands_until_it_is_lifted(met);
    a_grace_period_can_be_cancelled_and_ends(met);
    what_is_hidden_is_handed_out_and_a_new_password_opens_it(met);
    assert_eq!(place.rows(), before);
    what_was_cut_short_is_gone_on_with(met, &key);
    assert_eq!(place.rows(), before);
    updates_are_recorded_and_listed(met);
    the_inactive_are_hidden_page_by_page(met);
    a_receipt_proves_what_it_says_and_no_more(met, &key);
    a_registration_ends_with_the_account(met);
    met.done("register", &json!({"user": "19", "spec": "leave"}));
    let everybody = met.done("apply-everybody", &json!({"spec": "leave"}));
    assert_eq!(everybody["rows"]["people"], 3, "{everybody}");
    let replayed = met.done("replay", &json!({"dry_run": true}));
    // The disguise that was begun beside the server is told of in no log.
    let but_one = json!({"complete": false, "missed": [], "untold": 1});
    assert_eq!(replayed, but_one);
    let all: BTreeSet<String> = probity_http::operations().map(str::to_owned).collect();
    assert_eq!(met.operations, all);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    let entries = place.entries();
    let hold = |it: &&Value| it["action"] == "disguise.hold";
    let hold = entries.iter().find(hold).unwrap();
    assert_eq!(
        (&hold["actor"], &hold["basis"]),
        (&json!("shop"), &json!("file 7"))
    );
    assert!(
        entries.iter().all(|it| it["actor"] == "shop"),
        "{entries:?}"
    );
}

/// The command line named them and HTTP did not: an application that deletes accounts learned nothing of it.
#[test]
fn who_is_registered_without_a_row_is_named() {
    let place = Place::sqlite();
    let met = &mut Met::new(&place);
    let asked = [
        ("check", json!({"spec": "leave"})),
        ("sweep", json!({"dry_run": true})),
        ("sweep", json!({})),
    ];
    let named = |met: &mut Met<'_>| {
        asked.each_ref().map(|(operation, body)| {
            let answer = met.done(operation, body);
            let cautions = answer["cautions"].to_string();
            cautions.contains("without a row in the users table: 77; a newcomer")
        })
    };
    let mut database = place.database();
    let sql = "INSERT INTO people VALUES (77, 'Una')";
    database.execute(sql, &[]).unwrap();
    met.done("register", &json!({"user": "77", "spec": "leave"}));
    assert_eq!(named(met), [false; 3]);
    let sql = "DELETE FROM people WHERE id = 77";
    database.execute(sql, &[]).unwrap();
    assert_eq!(named(met), [true; 3]);
    met.done("unregister", &json!({"user": "77"}));
    assert_eq!(named(met), [false; 3]);
}

fn looking_changes_nothing(met: &mut Met<'_>) {
    let drafted = met.done("draft", &json!({}));
    let kept = fs::read_to_string(met.place.path("leave.toml")).unwrap();
    let text = drafted["specification"].as_str().unwrap();
    assert_eq!(text.trim_end(), kept.trim_end());
    let checked = met.done("check", &json!({"spec": "leave"}));
    assert_eq!(checked["tables"].as_array().unwrap().len(), 3, "{checked}");
    let planned = met.done("plan", &json!({"spec": "leave", "user": "19"}));
    let steps = planned["steps"].as_array().unwrap();
    let people = steps.iter().find(|it| it["table"] == "people").unwrap();
    assert_eq!(
        (&people["action"], &people["rows"]),
        (&json!("remove"), &json!(1))
    );
}

/// The application cannot end a registration over HTTP while the row is there, but for the person.
fn a_registration_ends_with_the_account(met: &mut Met<'_>) {
    let made = met.done("register", &json!({"user": "19", "spec": "leave"}));
    let there = json!({"user": "19"});
    assert_eq!(met.refused("unregister", &there, 422), "unfit");
    // The advice was to change the specification, of which it has none.
    let advised = met.place.post(SHOP, "unregister", &there).json();
    let advised = advised["remedy"].to_string();
    assert!(
        advised.contains("send the person's credential"),
        "{advised}"
    );
    let strange = json!({"user": "20", "credential": made["credential"]});
    assert_eq!(met.refused("unregister", &strange, 403), "wrong-credential");
    let ends = json!({"user": "19", "credential": made["credential"]});
    let ended = met.done("unregister", &ends);
    assert_eq!(ended["user"], "19", "{ended}");
    assert!(ended["entry"]["index"].is_u64(), "{ended}");
    assert_eq!(met.refused("unregister", &ends, 403), "wrong-credential");
}

fn a_hold_stands_until_it_is_lifted(met: &mut Met<'_>) {
    let hold = met.done("hold", &json!({"user": "20", "basis": "file 7"}));
    let of = json!({"user": "20"});
    let holds = met.done("holds", &of);
    assert_eq!(holds["holds"][0]["hold"], hold["hold"], "{holds}");
    assert_eq!(holds["holds"][0]["actor"], "shop", "{holds}");
    let apply = json!({"user": "20", "spec": "leave"});
    for look in ["check", "plan"] {
        let seen = met.done(look, &apply);
        assert_eq!(seen["refusals"].as_array().unwrap().len(), 1, "{seen}");
    }
    assert_eq!(met.refused("apply", &apply, 409), "held");
    let both = json!({"user": "20", "id": "0000000000000000", "basis": "x"});
    assert_eq!(met.refused("hold", &both, 400), "bad-request");
    let lift = json!({"hold": hold["hold"], "basis": "file 7"});
    met.done("lift", &lift);
    assert_eq!(met.refused("lift", &lift, 404), "no-such-hold");
    assert_eq!(met.done("holds", &of)["holds"], json!([]));
    let password = json!({"password": "correct horse"});
    let apply = json!({
        "user": "20", "spec": "leave", "parameters": {}, "over": password,
        "expires": "2190-01-01T00:00:00Z",
    });
    let applied = met.done("apply", &apply);
    let listed = met.done("list", &json!({"user": "20", "credential": password}));
    assert_eq!(listed["disguises"][0]["expires"], "2190-01-01T00:00:00Z");
    let reveal = json!({"user": "20", "credential": password, "id": applied["id"]});
    assert_eq!(met.done("reveal", &reveal)["complete"], true);
}

fn a_grace_period_can_be_cancelled_and_ends(met: &mut Met<'_>) {
    let schedule = |due: &str| json!({"user": "20", "spec": "leave", "due": due});
    let later = met.done("schedule", &schedule("2190-01-01T00:00:00Z"));
    let waiting = met.done("scheduled", &json!({"user": "20"}));
    assert_eq!(waiting["disguises"][0]["id"], later["id"], "{waiting}");
    let cancel = json!({"id": later["id"]});
    met.done("cancel", &cancel);
    assert_eq!(met.refused("cancel", &cancel, 404), "no-such-disguise");
    // The advice named what a credential opens, and it has none.
    let advised = met.place.post(SHOP, "cancel", &cancel).json();
    assert_eq!(advised["remedy"], "see what is with scheduled", "{advised}");
    let due = met.done("schedule", &schedule("2001-01-01T00:00:00Z"));
    for dry in [true, false] {
        let swept = met.done("sweep", &json!({"dry_run": dry}));
        assert_eq!(swept["applied"], json!([due["id"]]), "{swept}");
    }
    assert_eq!(met.done("sweep", &json!({}))["applied"], json!([]));
}

fn what_is_hidden_is_handed_out_and_a_new_password_opens_it(met: &mut Met<'_>) {
    let old = json!({"password": "correct horse"});
    let with = |credential: &Value| json!({"user": "20", "credential": credential});
    let placeholders = met.done("speaks-for", &with(&old));
    assert_eq!(placeholders["placeholders"].as_array().unwrap().len(), 1);
    let exported = met.done("export", &with(&old));
    let rows = exported["rows"].as_array().unwrap();
    let name = |it: &&Value| it["table"] == "people" && it["values"]["name"] == "Al";
    assert!(rows.iter().any(|it| name(&it)), "{exported}");
    assert_eq!(met.refused("rekey", &with(&old), 400), "bad-request");
    let rekey = json!({"user": "20", "credential": old, "new_key": true, "password": "new horse"});
    let made = met.done("rekey", &rekey);
    // A short password was taken without a word.
    let caution = made["cautions"][0].as_str().unwrap();
    assert!(caution.contains("fewer than 12 characters"), "{made}");
    assert!(!caution.contains("new horse"), "{made}");
    assert!(made["credential"]["token"].is_string(), "{made}");
    for operation in ["list", "export", "speaks-for", "subject-name"] {
        let refused = met.refused(operation, &with(&old), 403);
        assert_eq!(refused, "wrong-credential", "{operation}");
    }
    let new = json!({"password": "new horse"});
    let names = met.done("subject-name", &with(&new));
    assert_eq!(names, met.done("subject-name", &json!({"user": "20"})));
    let name = &names["names"][0];
    let entries = met.place.entries();
    assert!(entries.iter().any(|it| it["subject"] == *name), "{names}");
    let listed = met.done("list", &with(&new));
    let reveal = json!({"user": "20", "credential": new, "id": listed["disguises"][0]["id"]});
    assert_eq!(met.done("reveal", &reveal)["complete"], true);
}

fn what_was_cut_short_is_gone_on_with(met: &mut Met<'_>, key: &Value) {
    let text = fs::read_to_string(met.place.path("leave.toml")).unwrap();
    let file = SpecFile::parse(&text).unwrap();
    let mut engine = Engine::stored(met.place.database()).unwrap();
    // The database belongs to the log of the server.
    engine.set_sink(Box::new(|_: &Entry<'_>| Ok(())));
    let request = ApplyRequest {
        spec: &file.spec,
        user: Some(engine.user("19").unwrap()),
        over: None,
        parameters: [].into(),
        expires: None,
        time: SystemClock::new().now(),
    };
    let id = engine.chunks().begin(&request).unwrap();
    engine
        .chunks()
        .proceed(id, 1, SystemClock::new().now())
        .unwrap();
    drop(engine);
    let resumed = met.done("resume", &json!({"chunk_rows": 1}));
    assert_eq!(resumed["disguises"][0]["id"], id.to_string(), "{resumed}");
    assert_eq!(met.done("resume", &json!({}))["disguises"], json!([]));
    let reveal = json!({"credential": key, "id": id.to_string(), "references": "recorrelate"});
    assert_eq!(met.done("reveal", &reveal)["complete"], true);
}

fn updates_are_recorded_and_listed(met: &mut Met<'_>) {
    let sql = "ALTER TABLE posts ADD COLUMN title VARCHAR(20)";
    met.place.database().execute(sql, &[]).unwrap();
    let mapping = "[[update]]\nname = \"titles\"\ntable = \"posts\"\n\
                   [[update.into]]\ntable = \"posts\"\nrest = true\nvalues = { title = \"none\" }\n";
    let update = json!({"mappings": [mapping]});
    let recorded = met.done("update", &update);
    assert_eq!(recorded["updates"], json!(["titles"]), "{recorded}");
    assert_eq!(met.refused("update", &update, 422), "unfit");
    assert_eq!(
        met.done("update", &json!({})),
        json!({"updates": ["titles"]})
    );
    assert_eq!(
        met.refused("update", &json!({"mappings": ["name ="]}), 422),
        "unfit"
    );
}

fn the_inactive_are_hidden_page_by_page(met: &mut Met<'_>) {
    let mut database = met.place.database();
    for id in 30..33 {
        let sql = format!("INSERT INTO people VALUES ({id}, 'Idle')");
        database.execute(&sql, &[]).unwrap();
    }
    drop(database);
    for id in 30..32 {
        met.done("register", &json!({"user": id.to_string()}));
    }
    let mut hidden = 0;
    let mut body = json!({"spec": "idle", "page": 1});
    loop {
        let page = met.done("decay", &body);
        hidden += page["disguises"].as_array().unwrap().len();
        let Some(next) = page["next"].as_str() else {
            break;
        };
        body["after"] = next.into();
    }
    assert_eq!(hidden, 2);
    assert_eq!(
        met.refused("decay", &json!({"spec": "leave"}), 422),
        "unfit"
    );
    met.done("register", &json!({"user": "32"}));
}

fn a_receipt_proves_what_it_says_and_no_more(met: &mut Met<'_>, key: &Value) {
    let forget = json!({"user": "19", "credential": key, "everything": true});
    let forgotten = met.done("forget", &forget);
    let public = fs::read_to_string(met.place.path("receipts.pub")).unwrap();
    assert_eq!(forgotten["receipt_key"], public.trim_end());
    let check = |receipt: &str, user: &str| json!({"receipt": receipt, "key": public.trim_end(), "user": user});
    let receipt = forgotten["receipt"].as_str().unwrap();
    let proven = met.done("check-receipt", &check(receipt, "19"));
    assert_eq!(proven["proves"], true, "{proven}");
    for changed in [
        check(receipt, "20"),
        check(&receipt.replace("everything", "0000000000000000"), "19"),
        check("", "19"),
    ] {
        assert_eq!(
            met.done("check-receipt", &changed),
            json!({"proves": false})
        );
    }
}
