//! Hides a person in a database, shows what is left of them, and brings them back.

use std::collections::BTreeMap;
use std::error::Error;

use probity_disguise::database::Sqlite;
use probity_disguise::{
    ApplyRequest, Credential, Database as _, Engine, Protection, References, RevealRequest, Rows,
    SpecFile, Value,
};
use probity_examples::{new_folder, say};
use probity_format::Timestamp;

const APPLICATION: [&str; 5] = [
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER REFERENCES people, text TEXT)",
    "INSERT INTO people VALUES (19, 'Bea'), (20, 'Cem')",
    "INSERT INTO posts VALUES (1, 19, 'hello')",
    "INSERT INTO posts VALUES (2, 20, 'welcome')",
];

/// The account is removed; its posts stay, under placeholders.
const SPECIFICATION: &str = r#"
[users]
table = "people"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000 } }, name = { RandStr = { len = 20 } } }
[[decorrelate]]
table = "posts"
owners = ["author"]
[[remove]]
table = "people"
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut database = Sqlite::open(&new_folder()?.join("app.db"))?;
    for sql in APPLICATION {
        database.execute(sql, &[])?;
    }
    let file = SpecFile::parse(SPECIFICATION)?;
    let mut engine = Engine::new(database, file.schema, file.pseudo.ok_or("no users")?);
    engine.install()?;
    show(&mut engine, "at first")?;

    let (bea, time) = (
        Value::Int(19),
        Timestamp::from_nanoseconds(1_764_000_000_000_000_000)?,
    );
    // Bea alone keeps the key: it brings her back, and nothing else does.
    let registration = engine.people().register(&bea, Protection::KeyAlone, time)?;
    let applied = engine.apply(&ApplyRequest {
        spec: &file.spec,
        user: Some(bea.clone()),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time,
    })?;
    show(&mut engine, "while Bea is away")?;

    let revealed = engine.reveal(&RevealRequest {
        user: bea,
        credential: Credential::Key(&registration.key),
        id: applied.id,
        references: References::Recorrelate,
        rows: Rows::PerColumn,
        time,
    })?;
    show(&mut engine, "once Bea is back")?;
    say(if revealed.is_complete() {
        "all of it came back"
    } else {
        "some of it stays hidden"
    })?;
    Ok(())
}

fn show(engine: &mut Engine<Sqlite>, when: &str) -> Result<(), Box<dyn Error>> {
    let posts = "SELECT text, name FROM posts JOIN people ON author = people.id ORDER BY posts.id";
    for row in engine.database().query(posts, &[])? {
        if let [Value::Text(text), Value::Text(name)] = &row[..] {
            say(format_args!("{when}: {text:?} by {name}"))?;
        }
    }
    Ok(())
}
