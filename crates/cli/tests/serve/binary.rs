//! A person whose id is of bytes leaves and comes back over HTTP.

use probity_disguise::Database as _;
use probity_disguise::database::Sqlite;
use serde_json::json;

use crate::place::{Place, SHOP, token};

#[test]
fn an_id_of_bytes_is_written_in_digits() {
    let place = Place::sqlite();
    let mut database = Sqlite::open(&place.path("bytes.db")).unwrap();
    for sql in [
        "CREATE TABLE people (id BLOB PRIMARY KEY, name TEXT NOT NULL)",
        "CREATE TABLE posts (id INTEGER PRIMARY KEY, author_id BLOB REFERENCES people(id))",
        "INSERT INTO people VALUES (x'00fe', 'Bea'), (x'ff', 'Al')",
        "INSERT INTO posts VALUES (1, x'00fe'), (2, x'ff')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let draft = ["disguise", "draft", "--db", "sqlite:bytes.db", "-o"];
    place.run(&[&draft[..], &["bytes.toml"]].concat());
    let all = probity_http::operations().collect::<Vec<_>>();
    let config = [
        "listen = \"127.0.0.1:0\"\n[log]\nfolder = \"audit\"\n",
        "[database.app]\nurl = \"sqlite:bytes.db\"\nspec.leave.file = \"bytes.toml\"\n",
        &token("shop", SHOP, "app", &all),
    ];
    place.configure(&config.concat());
    let person = json!({"user": "0x00fe", "spec": "leave"});
    let key = place.done("register", &person)["credential"].clone();
    for wrong in ["0x00FE", "0x0", "00fe"] {
        let answer = place.post(SHOP, "apply", &json!({"user": wrong, "spec": "leave"}));
        assert_eq!(answer.status / 100, 4, "{wrong} {answer:?}");
    }
    let applied = place.done("apply", &person);
    assert_eq!(applied["rows"]["people"], 1, "{applied}");
    let reveal = json!({"user": "0x00fe", "id": applied["id"], "credential": key});
    let revealed = place.post(SHOP, "reveal", &reveal);
    assert_eq!(revealed.status, 200, "{revealed:?}");
    assert_eq!(revealed.json()["complete"], true, "{revealed:?}");
}
