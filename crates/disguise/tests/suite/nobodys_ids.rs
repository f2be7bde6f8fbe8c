//! Accounts whose ids mean nobody in the columns that say whose rows are.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Authority, Dialect, Error, Holding, Protection, SpecFile, Value,
};

use super::forum::time;
use super::member::Member;

const LEAVE: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandStr = { len = 12 } } }
[tables.notes]
owners = ["member"]
[[decorrelate]]
table = "notes"
owners = ["member"]
[[remove]]
table = "members"
"#;
const NUMBERS: &str = "RandNum = { lb = 1000000, ub = 2000000000 }";

fn meant(refused: Result<impl std::fmt::Debug, Error>) {
    match refused {
        Err(Error::Value { what }) => {
            assert!(what.contains("members means nobody"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

/// A person with the id 0, or a text that counts as none, was registered, and "hidden" with status 0:
/// the account went, and the rows stayed in clear. A hold on them bound nobody.
pub(crate) fn an_account_whose_id_means_nobody_is_refused_by_name() {
    // A blank is the empty text there.
    let (blank, like) = match crate::connect().dialect() {
        Dialect::Mysql => (" ", "VARCHAR(20)"),
        Dialect::Sqlite => (" ", "VARCHAR(20) COLLATE RTRIM"),
        _ => ("", "VARCHAR(20)"),
    };
    let texts = [("0", "VARCHAR(20)"), ("", "VARCHAR(20)"), (blank, like)];
    let texts = texts.map(|(id, kind)| (kind, "'ada'", Value::from(id)));
    let numbers = [("BIGINT", "7", Value::Int(0))];
    for (kind, other, id) in texts.into_iter().chain(numbers) {
        let mut database = crate::connect();
        for sql in [
            &format!("CREATE TABLE members (id {kind} PRIMARY KEY)"),
            &format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, member {kind})"),
            &format!("INSERT INTO members VALUES ({other})"),
            &format!("INSERT INTO notes VALUES (1, {other})"),
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let is_number = matches!(id, Value::Int(_));
        let leave = if is_number {
            LEAVE.replacen("RandStr = { len = 12 }", NUMBERS, 1)
        } else {
            LEAVE.to_owned()
        };
        let somebody = if is_number {
            Value::Int(7)
        } else {
            Value::from("ada")
        };
        let mut member = Member::called(somebody, database, &leave);
        let spec = SpecFile::parse(&leave).unwrap().spec;
        let none = BTreeMap::new();
        let everybody = |member: &mut Member| {
            let mut preview = member.engine.preview();
            let told = preview.foretell(&spec, None, &none).unwrap();
            (told, preview.cautions(&spec).unwrap().join("\n"))
        };
        let (told, cautions) = everybody(&mut member);
        assert!(told.is_empty() && !cautions.contains("means nobody"));
        for sql in [
            "INSERT INTO members VALUES (?)",
            "INSERT INTO notes VALUES (2, ?)",
        ] {
            let parameters = std::slice::from_ref(&id);
            member.engine.database().execute(sql, parameters).unwrap();
        }
        let (told, cautions) = everybody(&mut member);
        assert!(told.concat().contains("members means nobody"), "{told:?}");
        assert!(cautions.contains("members means nobody"), "{cautions}");
        let before = member.rows(["members", "notes"]);
        refused_for(&mut member, &id, &leave);
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}

fn refused_for(member: &mut Member, id: &Value, leave: &str) {
    let spec = SpecFile::parse(leave).unwrap().spec;
    let request = |user: Option<&Value>| ApplyRequest {
        spec: &spec,
        user: user.cloned(),
        over: None,
        parameters: BTreeMap::new(),
        expires: None,
        time: time(),
    };
    let authority = Authority {
        actor: "legal office",
        basis: "file 12/2026",
        time: time(),
    };
    let (engine, none) = (&mut member.engine, BTreeMap::new());
    meant(
        engine
            .people()
            .register(id, Protection::KeyAlone, time())
            .map(drop),
    );
    meant(engine.holds().place(Holding::Person(id), &authority));
    meant(engine.holds().place(Holding::Away(id), &authority));
    meant(engine.preview().plan(&spec, Some(id), &none));
    let told = engine.preview().foretell(&spec, Some(id), &none).unwrap();
    assert!(told.concat().contains("members means nobody"), "{told:?}");
    for user in [Some(id), None] {
        meant(engine.apply(&request(user)));
        let begun = engine.chunks().begin(&request(user));
        // Their rows are looked through first, in which a blank is nobody who is registered.
        if user.is_some() || id.is_nobody() {
            meant(begun);
        } else {
            assert!(begun.is_err());
        }
    }
    meant(engine.schedule().add(&request(Some(id)), time()));
    // It ends a registration of a program before, and here there is none.
    let ended = engine.people().unregister(id, None, time());
    assert!(matches!(ended, Err(Error::Value { .. })), "{ended:?}");
}
