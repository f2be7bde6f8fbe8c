//! Rows, descriptions and migrations where several tenants share the tables.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    Credential, DisguiseId, Engine, Error, Kept, KeptReason, KeyCost, Mapping, Protection,
    References, RevealRequest, Revealed, Rows, SecretKey, SpecFile, Value, draft,
};

use super::forum::*;
use super::tenants::request;

/// Tables in which an id is one whatever the tenant, which is a text; SQL in it is a name like any other.
const NOTES: &str = r#"
tenant = "shop"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000 } }, name = { RandStr = { len = 12 } } }
[tables.kinds]
shared = true
[[modify]]
table = "notes"
column = "body"
value = { ConstStr = "" }
"#;
const SHOP: &str = "north' OR '1'='1";

struct Shop {
    engine: Engine<Box<dyn probity_disguise::Database>>,
    key: SecretKey,
}

impl Shop {
    fn new() -> Self {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE kinds (id BIGINT PRIMARY KEY, kind TEXT)",
            "CREATE TABLE people (id BIGINT PRIMARY KEY, shop VARCHAR(100), name VARCHAR(100))",
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, shop VARCHAR(100), person_id BIGINT REFERENCES people(id), kind_id BIGINT REFERENCES kinds(id), body VARCHAR(100))",
            "INSERT INTO kinds VALUES (1, 'plain')",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        for (id, shop) in [(1, SHOP), (2, "south")] {
            let values = [Value::Int(id), Value::from(shop)];
            let sql = "INSERT INTO people VALUES (?, ?, 'somebody')";
            database.execute(sql, &values).unwrap();
            for note in 0..3 {
                let sql = "INSERT INTO notes VALUES (?, ?, ?, 1, 'secret')";
                let values = [
                    Value::Int(10 * id + note),
                    Value::from(shop),
                    Value::Int(id),
                ];
                database.execute(sql, &values).unwrap();
            }
        }
        // Rows of no tenant at all.
        let sql = "INSERT INTO notes VALUES (30, NULL, 1, 1, 'nobody''s')";
        database.execute(sql, &[]).unwrap();
        let file = SpecFile::parse(NOTES).unwrap();
        let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        engine.install().unwrap();
        engine.set_tenant(Some(Value::from(SHOP)));
        let made = engine
            .people()
            .register(&Value::Int(1), Protection::KeyAlone, time());
        let key = made.unwrap().key;
        Self { engine, key }
    }

    fn apply(&mut self, spec: &str) -> DisguiseId {
        let spec = SpecFile::parse(spec).unwrap().spec;
        let applied = self.engine.apply(&request(&spec, Some(1), None));
        applied.unwrap().id
    }

    fn reveal(&mut self, id: DisguiseId) -> Revealed {
        let revealed = self.engine.reveal(&RevealRequest {
            user: Value::Int(1),
            credential: Credential::Key(&self.key),
            id,
            references: References::Recorrelate,
            rows: Rows::PerColumn,
            time: time(),
        });
        revealed.unwrap()
    }

    fn sql(&mut self, sql: &str) {
        self.engine.database().execute(sql, &[]).unwrap();
    }

    fn texts(&mut self, sql: &str) -> Vec<String> {
        let rows = self.engine.database().query(sql, &[]).unwrap();
        rows.iter().flatten().map(ToString::to_string).collect()
    }
}

fn reasons(revealed: &Revealed) -> Vec<KeptReason> {
    let reason = |it: &Kept| it.reason;
    revealed.kept.iter().map(reason).collect()
}

const BODIES: &str = "SELECT body FROM notes ORDER BY id";
const REMOVAL: &str = "[[remove]]\ntable = \"notes\"\n";

pub(crate) fn rows_that_moved_to_another_tenant_stay_there() {
    let mut shop = Shop::new();
    let before = shop.texts(BODIES);
    let id = shop.apply(NOTES);
    let mut hidden = before.clone();
    hidden[..3].fill(String::new());
    assert_eq!(shop.texts(BODIES), hidden);
    shop.sql("UPDATE notes SET shop = 'south' WHERE id = 11");
    let revealed = shop.reveal(id);
    assert_eq!(reasons(&revealed), [KeptReason::OtherTenant]);
    "secret".clone_into(&mut hidden[0]);
    "secret".clone_into(&mut hidden[2]);
    assert_eq!(shop.texts(BODIES), hidden);
    let back = "UPDATE notes SET shop = 'north'' OR ''1''=''1' WHERE id = 11";
    shop.sql(back);
    assert!(shop.reveal(id).is_complete());
    assert_eq!(shop.texts(BODIES), before);

    // The id of a removed row is another tenant's meanwhile.
    let id = shop.apply(REMOVAL);
    shop.sql("INSERT INTO notes VALUES (12, 'south', 2, 1, 'theirs')");
    let revealed = shop.reveal(id);
    assert_eq!(reasons(&revealed), [KeptReason::OtherTenant]);
    assert_eq!(
        shop.texts("SELECT body FROM notes WHERE id = 12"),
        ["theirs"]
    );
    shop.sql("DELETE FROM notes WHERE id = 12");
    assert!(shop.reveal(id).is_complete());
    assert_eq!(shop.texts(BODIES), before);
    // The account went to another tenant, and with it nothing that was hidden.
    let id = shop.apply(REMOVAL);
    shop.sql("UPDATE people SET shop = 'south' WHERE id = 1");
    let revealed = shop.reveal(id);
    assert_eq!(reasons(&revealed), [KeptReason::OwnerMissing; 3]);
    assert_eq!(shop.texts(BODIES), before[3..]);
}

pub(crate) fn a_migration_that_changes_the_tenant_brings_nothing_to_another() {
    let mut shop = Shop::new();
    let removed = shop.apply(REMOVAL);
    let mapping = "[[update]]\nname = \"0001 moved\"\ntable = \"notes\"\n[[update.into]]\ntable = \"notes\"\nrest = true\nvalues = { shop = \"south\" }\n";
    let mappings = Mapping::parse(mapping).unwrap();
    shop.engine.updates().record(&mappings, time()).unwrap();
    let rest = shop.texts(BODIES);
    let revealed = shop.reveal(removed);
    assert_eq!(reasons(&revealed), [KeptReason::OtherTenant; 3]);
    assert_eq!(shop.texts(BODIES), rest);
    let south = "SELECT COUNT(*) FROM notes WHERE shop = 'south'";
    assert_eq!(shop.texts(south), ["3"]);
}

pub(crate) fn descriptions_that_mix_tenants_up_are_refused() {
    let mut shop = Shop::new();
    let crossings = shop.engine.preview().cross_tenant_keys().unwrap();
    assert_eq!(crossings.len(), 1, "{crossings:?}");
    assert!(crossings[0].starts_with("foreign key notes(person_id) refers to people"));
    shop.sql("CREATE TABLE logins (id BIGINT PRIMARY KEY, person_id BIGINT REFERENCES people(id))");
    shop.sql("CREATE TABLE words (id BIGINT PRIMARY KEY, word TEXT)");
    let cases = [
        (
            "",
            "table logins: has rows that belong to people and no tenant column",
        ),
        (
            "[tables.logins]\nshared = true\nowners = [\"person_id\"]\n",
            "is shared by all tenants",
        ),
        (
            "[tables.logins]\nshared = true\n[[modify]]\ntable = \"kinds\"\ncolumn = \"kind\"\nvalue = \"Null\"\n",
            "table kinds is shared by all tenants",
        ),
        (
            "[tables.logins]\nshared = true\n[[remove]]\ntable = \"words\"\n",
            "table words has no tenant column",
        ),
        (
            "[tables.logins]\nshared = true\n[[modify]]\ntable = \"notes\"\ncolumn = \"shop\"\nvalue = \"Null\"\n",
            "column shop holds the tenant",
        ),
        (
            "[tables.logins]\nshared = true\n[[remove]]\ntable = \"notes\"\nfrom = \"notes JOIN words ON words.id = notes.id\"\n",
            "table words has no tenant column",
        ),
        (
            "[tables.logins]\nshared = true\n[tables.people]\nshared = true\n",
            "table people: has no tenant column",
        ),
        (
            "[tables.logins]\nshared = true\n[tables.notes]\nowners = [\"shop\"]\n",
            "table notes: column shop holds the tenant",
        ),
        (
            "[tables.logins]\nshared = true\n[tables.notes]\ntenant = \"person_id\"\nowners = []\n",
            "holds other values than the tenant column of people",
        ),
    ];
    let head = NOTES.split("[[modify]]").next().unwrap();
    for (text, message) in cases {
        let text = format!("{head}{text}");
        let file = SpecFile::parse(&text).unwrap();
        let mut database: Box<dyn probity_disguise::Database> = crate::connect();
        std::mem::swap(&mut database, shop.engine.database());
        let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
        engine.set_tenant(Some(Value::from(SHOP)));
        let outcome = engine.preview().check(&file.spec, &BTreeMap::new());
        match outcome {
            Err(Error::Spec(error)) => {
                assert!(error.to_string().contains(message), "{error}");
            }
            other => assert!(other.is_err(), "{text}"),
        }
        std::mem::swap(engine.database(), shop.engine.database());
    }
}

pub(crate) fn tenants_are_not_taken_up_while_people_are_registered_without() {
    let [first, _second] = forums();
    let text = OF_TENANTS.replace("tenant = \"tenant_id\"", "");
    let file = SpecFile::parse(&text).unwrap();
    let pseudo = file.pseudo.unwrap();
    let mut engine = Engine::new(first.database.boxed(), file.schema, pseudo);
    assert!(matches!(engine.install(), Err(Error::Tenant { .. })));

    let mut alone = forum();
    for table in ["users", "stories", "moderations", "taggings"] {
        alone.sql(&format!("ALTER TABLE {table} ADD COLUMN tenant_id BIGINT"));
    }
    let mut engine = engine_of(&alone.database, Value::Int(1));
    assert!(matches!(engine.install(), Err(Error::Tenant { .. })));
    for user in 1..=USERS {
        let key = SecretKey::from_bytes(*alone.keys[&user].expose());
        let forgotten =
            alone
                .engine
                .forget_everything(&Value::Int(user), &Credential::Key(&key), time());
        forgotten.unwrap();
    }
    engine.install().unwrap();
    let stored = Engine::stored(alone.database.boxed()).unwrap();
    assert!(stored.has_tenants());
}

pub(crate) fn a_draft_proposes_the_tenant_column() {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE orgs (id BIGINT PRIMARY KEY, title TEXT)",
        "CREATE TABLE kinds (id BIGINT PRIMARY KEY, kind TEXT)",
        "CREATE TABLE users (org_id BIGINT NOT NULL REFERENCES orgs(id), id BIGINT NOT NULL, name VARCHAR(100) NOT NULL, PRIMARY KEY (org_id, id))",
        "CREATE TABLE posts (org_id BIGINT NOT NULL REFERENCES orgs(id), id BIGINT NOT NULL, user_id BIGINT, body TEXT, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, user_id) REFERENCES users (org_id, id))",
        "CREATE TABLE answers (org_id BIGINT NOT NULL REFERENCES orgs(id), id BIGINT NOT NULL, post_id BIGINT, body TEXT, PRIMARY KEY (org_id, id), FOREIGN KEY (org_id, post_id) REFERENCES posts (org_id, id))",
        "INSERT INTO orgs VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO users VALUES (1, 7, 'u'), (2, 7, 'v')",
        "INSERT INTO posts VALUES (1, 5, 7, 'p'), (2, 5, 7, 'q')",
        "INSERT INTO answers VALUES (1, 3, 5, 'a'), (2, 3, 5, 'b')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let made = draft(&mut *database, None).unwrap();
    let file = SpecFile::parse(&made.text).unwrap();
    assert_eq!(file.schema, made.schema, "{}", made.text);
    assert!(made.text.contains("tenant = \"org_id\""), "{}", made.text);
    assert!(
        made.text.contains("[tables.\"kinds\"]\nshared = true"),
        "{}",
        made.text
    );
    let mut engine = Engine::new(database, file.schema, made.pseudo);
    assert!(engine.has_tenants() && engine.preview().cross_tenant_keys().unwrap().is_empty());
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.install().unwrap();
    engine.set_tenant(Some(Value::Int(1)));
    let user = Value::Int(7);
    let key = engine
        .people()
        .register(&user, Protection::KeyAlone, time())
        .unwrap()
        .key;
    let applied = engine.apply(&request(&file.spec, Some(7), None)).unwrap();
    assert_eq!(applied.rows["users"], 1, "{}", made.text);
    assert_eq!(applied.rows["answers"], 1, "{}", made.text);
    engine.set_tenant(Some(Value::Int(2)));
    assert_eq!(engine.preview().rows("users").unwrap().len(), 1);
    assert_eq!(engine.preview().rows("answers").unwrap().len(), 1);
    engine.set_tenant(Some(Value::Int(1)));
    let revealed = engine.reveal(&RevealRequest {
        user,
        credential: Credential::Key(&key),
        id: applied.id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time: time(),
    });
    assert!(revealed.unwrap().is_complete());
}
