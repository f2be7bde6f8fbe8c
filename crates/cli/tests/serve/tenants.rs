//! Two tenants in one database, each under a name of its own in the configuration.

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use serde_json::{Value, json};

use crate::place::{DESK, OTHER, Place, SHOP, token};

/// Each tenant has a person 7.
const TABLES: [&str; 6] = [
    "CREATE TABLE orgs (id TEXT PRIMARY KEY)",
    "CREATE TABLE users (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (org_id, id))",
    "CREATE TABLE notes (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, user_id INTEGER, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id))",
    "INSERT INTO orgs VALUES ('acme'), ('bolt')",
    "INSERT INTO users VALUES ('acme', 7, 'Ann'), ('bolt', 7, 'Bob')",
    "INSERT INTO notes VALUES ('acme', 1, 7), ('bolt', 1, 7)",
];

/// Starts a server that knows the tenants by name, and the whole database too.
fn tenants() -> Place {
    let place = Place::sqlite();
    let mut database = Sqlite::open(&place.path("tenants.db")).unwrap();
    for sql in TABLES {
        database.execute(sql, &[]).unwrap();
    }
    let draft = ["disguise", "draft", "--db", "sqlite:tenants.db", "-o"];
    place.run(&[&draft[..], &["tenants.toml"]].concat());
    let entry = |name: &str, tenant: &str| {
        format!(
            "[database.{name}]\nurl = \"sqlite:tenants.db\"\n{tenant}spec.leave.file = \"tenants.toml\"\n"
        )
    };
    let all = probity_http::operations().collect::<Vec<_>>();
    let config = [
        "listen = \"127.0.0.1:0\"\nreceipt_key = \"receipts.key\"\n[log]\nfolder = \"audit\"\n",
        &entry("acme", "tenant = \"acme\"\n"),
        &entry("bolt", "tenant = \"bolt\"\n"),
        &entry("whole", ""),
        &token("shop", SHOP, "acme", &all),
        &token("other", OTHER, "bolt", &all),
        &token("desk", DESK, "whole", &all),
    ];
    place.configure(&config.concat());
    place
}

fn names(place: &Place) -> Vec<String> {
    let mut database = Sqlite::open(&place.path("tenants.db")).unwrap();
    let rows = database.query("SELECT name FROM users ORDER BY name", &[]);
    let names = rows.unwrap().into_iter().flatten();
    names.map(|name| name.to_string()).collect()
}

#[test]
fn a_token_of_one_tenant_reaches_nothing_of_another() {
    let place = tenants();
    let ask = |database: &str, operation: &str, body: &Value| {
        let token = match database {
            "acme" => SHOP,
            "bolt" => OTHER,
            _ => DESK,
        };
        place.post_to(database, token, operation, body)
    };
    let person = json!({"user": "7", "spec": "leave"});
    let registered = |tenant: &str| {
        let made = ask(tenant, "register", &person);
        assert_eq!(made.status, 200, "{made:?}");
        made.json()["credential"].clone()
    };
    let (of_acme, of_bolt) = (registered("acme"), registered("bolt"));
    let strange = place.post_to("bolt", SHOP, "apply", &person);
    assert_eq!(strange.problem(), "forbidden");
    let applied = ask("acme", "apply", &person).json();
    assert_eq!(names(&place), ["Bob"]);
    let reveal = |key: &Value| json!({"user": "7", "id": applied["id"], "credential": key});
    for (tenant, key, why) in [
        ("bolt", &of_acme, "wrong-credential"),
        ("acme", &of_bolt, "wrong-credential"),
    ] {
        assert_eq!(ask(tenant, "reveal", &reveal(key)).problem(), why);
    }
    // Of the person of the other tenant that disguise hides nothing.
    let nothing = ask("bolt", "reveal", &reveal(&of_bolt)).json();
    assert_eq!(nothing["found"], false, "{nothing}");
    assert_eq!(names(&place), ["Bob"]);
    let revealed = ask("acme", "reveal", &reveal(&of_acme)).json();
    assert_eq!(revealed["complete"], true, "{revealed}");
    assert_eq!(names(&place), ["Ann", "Bob"]);
    // Whoever names no tenant, or one for what concerns all of them, is refused.
    for (database, operation, body) in [
        ("whole", "apply", &person),
        ("acme", "update", &json!({})),
        ("acme", "draft", &json!({})),
    ] {
        assert_eq!(ask(database, operation, body).problem(), "unfit");
    }
    assert_eq!(ask("whole", "update", &json!({})).status, 200);
    let forget = json!({"user": "7", "credential": of_acme, "everything": true});
    let forgotten = ask("acme", "forget", &forget).json();
    let receipt =
        json!({"receipt": forgotten["receipt"], "key": forgotten["receipt_key"], "user": "7"});
    assert_eq!(
        ask("acme", "check-receipt", &receipt).json()["proves"],
        true
    );
    assert_eq!(
        ask("bolt", "check-receipt", &receipt).json()["proves"],
        false
    );
}

/// The end of a registration could not be asked for over HTTP, so that a newcomer to a tenant lay under the key of the person before.
/// It ends that of one tenant alone, though another has a person with the same id.
#[test]
fn the_end_of_a_registration_is_of_one_tenant() {
    let place = tenants();
    let person = json!({"user": "7", "spec": "leave"});
    for (tenant, token) in [("acme", SHOP), ("bolt", OTHER)] {
        let made = place.post_to(tenant, token, "register", &person);
        assert_eq!(made.status, 200, "{made:?}");
    }
    let ends = json!({"user": "7"});
    let unregister = |tenant: &str, token: &str| place.post_to(tenant, token, "unregister", &ends);
    // The row is there still, in both.
    assert_eq!(unregister("acme", SHOP).problem(), "unfit");
    let mut database = Sqlite::open(&place.path("tenants.db")).unwrap();
    for sql in [
        "DELETE FROM notes WHERE org_id = 'acme'",
        "DELETE FROM users WHERE org_id = 'acme'",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    assert_eq!(unregister("acme", OTHER).problem(), "forbidden");
    assert_eq!(unregister("whole", DESK).problem(), "unfit");
    let ended = unregister("acme", SHOP);
    assert_eq!(ended.status, 200, "{ended:?}");
    assert_eq!(unregister("acme", SHOP).problem(), "unfit");
    // A newcomer registers there, and the person of the other tenant is registered still.
    let newcomer = "INSERT INTO users VALUES ('acme', 7, 'Zoe')";
    database.execute(newcomer, &[]).unwrap();
    let made = place.post_to("acme", SHOP, "register", &person);
    assert_eq!(made.status, 200, "{made:?}");
    let again = place.post_to("bolt", OTHER, "register", &person);
    assert_eq!(again.problem(), "already-registered");
    let (_, _) = place.stop();
    let entries = place.entries();
    let told = |it: &&Value| it["action"] == "disguise.unregister" && it["outcome"] == "ok";
    let told: Vec<&Value> = entries.iter().filter(told).collect();
    assert_eq!(told.len(), 1, "{entries:?}");
    assert_eq!(told[0]["actor"], "shop");
}

#[test]
fn a_person_chooses_a_key_that_no_quantum_computer_opens() {
    let place = Place::sqlite();
    let register = |suite: &str| json!({"user": "19", "spec": "leave", "suite": suite});
    assert_eq!(
        place.refused("register", &register("kyber"), 400),
        "bad-request"
    );
    let made = place.done("register", &register("x-wing"));
    let before = place.rows();
    let applied = place.done("apply", &json!({"user": "19", "spec": "leave"}));
    let rekey = json!({"user": "19", "credential": made["credential"], "suite": "x25519"});
    assert_eq!(place.refused("rekey", &rekey, 400), "bad-request");
    let reveal = json!({"user": "19", "id": applied["id"], "credential": made["credential"]});
    assert_eq!(place.done("reveal", &reveal)["complete"], true);
    assert_eq!(place.rows(), before);
}
