//! Two tenants in one database.

use std::fs;

use serde_json::Value;

use crate::place::Place;

/// Two tenants in one database, each with a person 7.
const OF_TENANTS: [&str; 6] = [
    "CREATE TABLE orgs (id TEXT PRIMARY KEY)",
    "CREATE TABLE users (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (org_id, id))",
    "CREATE TABLE notes (org_id TEXT NOT NULL REFERENCES orgs(id), id INTEGER NOT NULL, user_id INTEGER, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id))",
    "INSERT INTO orgs VALUES ('acme'), ('bolt')",
    "INSERT INTO users VALUES ('acme', 7, 'Ann'), ('bolt', 7, 'Bob')",
    "INSERT INTO notes VALUES ('acme', 1, 7), ('bolt', 1, 7)",
];

#[test]
fn a_person_of_one_tenant_leaves_and_the_same_id_of_another_stays() {
    let place = Place::sqlite();
    let mut database = place.database();
    for sql in OF_TENANTS {
        database.execute(sql, &[]).unwrap();
    }
    for table in ["likes", "posts", "people"] {
        database
            .execute(&format!("DROP TABLE {table}"), &[])
            .unwrap();
    }
    let mut names = || {
        let rows = database.query("SELECT name FROM users ORDER BY name", &[]);
        let rows = rows.unwrap().into_iter().flatten();
        rows.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    place.run(&["disguise", "draft", "-o", "leave.toml"], 0);
    // The commands of its first lines were refused as they stood, for they named no tenant.
    let drafted = fs::read_to_string(place.path("leave.toml")).unwrap();
    let advised = drafted
        .lines()
        .filter(|line| line.starts_with("#   probity"));
    let advised: Vec<&str> = advised.collect();
    assert!(advised.len() == 2 && advised.iter().all(|line| line.ends_with(" --tenant T")));
    let of = |tenant: &str, args: &[&str], status: i32| {
        let tenant = ["--tenant", tenant];
        place.run(&[&["disguise"], args, &tenant[..]].concat(), status)
    };
    let (checked, _) = of("acme", &["check", "--spec", "leave.toml"], 0);
    assert!(checked.starts_with("the specification fits"), "{checked}");
    let spec = ["--spec", "leave.toml", "--user", "7"];
    for tenant in ["acme", "bolt"] {
        let out = format!("{tenant}.key");
        let register = ["register", "--credential-out", &out];
        of(tenant, &[&register[..], &spec].concat(), 0);
    }
    let apply = [&["apply", "--log", "audit", "--json"][..], &spec].concat();
    let (_, stderr) = place.run(&[&["disguise"], &apply[..]].concat(), 1);
    assert!(stderr.contains("one must be named") && stderr.contains("--tenant"));
    let (applied, _) = of("acme", &apply, 0);
    let applied: Value = serde_json::from_str(&applied).unwrap();
    let id = applied["id"].as_str().unwrap();
    assert_eq!(names(), ["Bob"]);
    let reveal = ["reveal", "--id", id, "--user", "7", "--log", "audit"];
    for (tenant, key) in [("bolt", "acme.key"), ("acme", "bolt.key")] {
        let (_, stderr) = of(tenant, &[&reveal[..], &["--credential", key]].concat(), 1);
        assert!(stderr.contains("the credential does not fit"), "{stderr}");
    }
    // Of the person whose credential it is, that disguise hides nothing.
    let with = [&reveal[..], &["--credential", "bolt.key"]].concat();
    let (stdout, _) = of("bolt", &with, 0);
    assert!(
        stdout.contains("nothing of this person is hidden"),
        "{stdout}"
    );
    assert_eq!(names(), ["Bob"]);
    of(
        "acme",
        &[&reveal[..], &["--credential", "acme.key"]].concat(),
        0,
    );
    assert_eq!(names(), ["Ann", "Bob"]);
    let (_, stderr) = of("acme", &["update"], 2);
    assert!(stderr.contains("whole database"), "{stderr}");
    let (entries, _) = place.run(&["export", "audit", "--format", "jsonl"], 0);
    // Hexadecimal digits spell neither name.
    let named = ["acme", "bolt"].iter().any(|name| entries.contains(name));
    assert!(!named && entries.contains("tenant"), "{entries}");
    drop(database);
    replayed_by_tenant(&place, &apply);
}

/// A replay is that of one tenant, and says what others have missed.
fn replayed_by_tenant(place: &Place, apply: &[&str]) {
    let of = |tenant: &str, args: &[&str]| {
        let tenant = ["--tenant", tenant];
        place.run(&[&["disguise"], args, &tenant[..]].concat(), 0)
    };
    fs::copy(place.path("app.db"), place.path("backup.db")).unwrap();
    for tenant in ["acme", "bolt"] {
        of(tenant, apply);
    }
    fs::copy(place.path("backup.db"), place.path("app.db")).unwrap();
    let replay = ["replay", "--spec", "leave.toml", "--log", "audit"];
    of("bolt", &replay);
    let (stdout, _) = of("bolt", &replay);
    assert!(
        stdout.contains("tenant bolt lacks nothing")
            && stdout.contains("other tenants have missed 1 operation:"),
        "{stdout}"
    );
    let (stdout, _) = of("acme", &replay);
    assert!(!stdout.contains("other tenants"), "{stdout}");
}
