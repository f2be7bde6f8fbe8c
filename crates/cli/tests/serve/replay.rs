//! A backup is restored while the server runs, and told what it missed.

use std::fs;

use probity_disguise::{Engine, SpecFile};
use serde_json::json;

use crate::place::{Place, SHOP};

#[test]
fn a_restored_backup_is_told_over_http_what_it_missed() {
    let place = Place::sqlite();
    let key = place.registered("19");
    let (database, backup) = (place.path("app.db"), place.path("backup.db"));
    fs::copy(&database, &backup).unwrap();
    let before = place.rows();
    let applied = place.done("apply", &json!({"user": "19", "spec": "leave"}));
    let nothing = place.done("replay", &json!({}));
    assert_eq!(nothing, json!({"complete": true, "missed": []}));
    fs::copy(&backup, &database).unwrap();
    assert_eq!(place.rows(), before);
    let looked = place.done("replay", &json!({"dry_run": true}));
    assert_eq!(looked["missed"][0]["outlook"], "possible", "{looked}");
    assert_eq!(looked["missed"][0]["key"], applied["id"], "{looked}");
    assert_eq!(place.rows(), before);
    let done = place.done("replay", &json!({}));
    assert_eq!(done["missed"][0]["outlook"], "done", "{done}");
    assert_eq!(done["complete"], true);
    let entries = applied["entry"]["index"].as_u64().unwrap() + 1;
    assert_eq!(done["entry"]["index"], entries);
    assert!(!place.rows().join("").contains("Bea"));
    let hidden = place.path("hidden.db");
    fs::copy(&database, &hidden).unwrap();
    let reveal = json!({"user": "19", "credential": key, "id": applied["id"]});
    assert_eq!(place.done("reveal", &reveal)["complete"], true);
    assert_eq!(place.rows(), before);
    // Who came back stays.
    fs::copy(&backup, &database).unwrap();
    let replayed = place.done("replay", &json!({}));
    assert_eq!(replayed["complete"], true, "{replayed}");
    assert_eq!(replayed["missed"][1]["outlook"], "taken back", "{replayed}");
    assert_eq!(place.rows(), before);
    // Where the backup has the disguise and not its reveal, its person must ask for it.
    fs::copy(&hidden, &database).unwrap();
    let replayed = place.done("replay", &json!({}));
    assert_eq!(replayed["complete"], false, "{replayed}");
    let reason = replayed["missed"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("reveal it again"), "{reason}");
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
    place.run(&["verify", "audit"]);
}

/// A backup from before the first registration got the advice to name a specification, and one that
/// was prepared anew the answer that nothing was missed.
#[test]
fn a_backup_of_another_database_is_told_apart_over_http() {
    let place = Place::sqlite();
    let (database, backup) = (place.path("app.db"), place.path("backup.db"));
    fs::copy(&database, &backup).unwrap();
    place.registered("19");
    place.done("apply", &json!({"user": "19", "spec": "leave"}));
    fs::copy(&backup, &database).unwrap();
    let problem = place.post(SHOP, "replay", &json!({}));
    assert_eq!(problem.status, 409);
    let remedy = problem.json()["remedy"].to_string();
    assert!(remedy.contains("restore a later one"), "{remedy}");
    let leave = fs::read_to_string(place.path("leave.toml")).unwrap();
    let file = SpecFile::parse(&leave).unwrap();
    let mut engine = Engine::new(place.database(), file.schema, file.pseudo.unwrap());
    engine.install().unwrap();
    drop(engine);
    let replayed = place.done("replay", &json!({}));
    let others = json!({"complete": false, "missed": [], "of_other_databases": 2});
    assert_eq!(replayed, others);
}

/// A replay that notes the log of a database by itself was tested in the library alone. Over HTTP each
/// operation is refused before, and none after it.
#[test]
fn a_replay_over_http_notes_the_log_of_the_database() {
    let place = Place::sqlite();
    let (database, backup) = (place.path("app.db"), place.path("backup.db"));
    // Both are done beside the server, without a log.
    let of = ["--spec", "leave.toml", "--user", "19"];
    let register = ["disguise", "register", "--credential-out", "19.key"];
    place.run(&[&register[..], &of].concat());
    place.run(&[&["disguise", "apply"], &of[..]].concat());
    fs::copy(&database, &backup).unwrap();
    let hold = |basis: &str| json!({"user": "20", "basis": basis});
    assert_eq!(place.refused("hold", &hold("file 7"), 409), "other-log");
    // The log has no operation at all yet, and nothing says that it is this database's.
    let replayed = place.done("replay", &json!({}));
    let unsaid = json!({"complete": false, "missed": [], "of_other_databases": 0});
    assert_eq!(replayed, unsaid);
    assert!(place.stop().0);
    place.run(&["disguise", "begin-log", "--log", "audit"]);
    place.start();
    place.done("hold", &hold("file 7"));
    fs::copy(&backup, &database).unwrap();
    assert_eq!(place.refused("hold", &hold("file 8"), 409), "other-log");
    let looked = place.done("replay", &json!({"dry_run": true}));
    assert_eq!(looked["complete"], true, "{looked}");
    assert_eq!(place.refused("hold", &hold("file 8"), 409), "other-log");
    let replayed = place.done("replay", &json!({}));
    assert_eq!(replayed["complete"], true, "{replayed}");
    place.done("hold", &hold("file 8"));
    let holds = place.done("holds", &json!({"user": "20"}));
    assert_eq!(holds["holds"].as_array().unwrap().len(), 2, "{holds}");
    let nothing = json!({"complete": true, "missed": []});
    assert_eq!(place.done("replay", &json!({})), nothing);
    let (ended_well, said) = place.stop();
    assert!(ended_well, "{said}");
}
