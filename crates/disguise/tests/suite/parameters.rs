//! Values that a specification asks for.

use std::collections::BTreeMap;

use probity_disguise::{
    ApplyRequest, Database as _, DecayRequest, Dialect, Engine, Error, Spec, SpecFile, Value,
};

use super::forum::*;

const TOPIC: &str = r#"
inactive = "users.karma < :least"
[users]
table = "users"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, username = { RandStr = { len = 30 } } }
[parameters]
topic = "url0"
[[modify]]
table = "stories"
column = "url"
value = "Null"
where = "stories.url = :topic AND stories.id > :after"
[[modify]]
table = "moderations"
column = "action"
redact = { names = [":people"] }
"#;

/// Ids of texts.
const NAMED: &str = r#"
[users]
table = "named"
id = "id"
placeholder = { id = { RandStr = { len = 8 } } }
"#;

fn request<'a>(spec: &'a Spec, said: &BTreeMap<String, Value>) -> ApplyRequest<'a> {
    ApplyRequest {
        spec,
        user: Some(Value::Int(1)),
        over: None,
        parameters: said.clone(),
        expires: None,
        time: time(),
    }
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    let Err(Error::Spec(error)) = outcome else {
        panic!("{outcome:?}");
    };
    let said = error.to_string();
    assert_eq!(
        said,
        "parameter topci: is not in the specification, whose parameters are: after, least, people, topic"
    );
}

/// D11: a slip in the name of a parameter left the default in its place, and real rows were changed by it.
pub(crate) fn a_parameter_that_the_specification_lacks_is_refused_by_name() {
    let mut forum = forum();
    let spec = SpecFile::parse(TOPIC).unwrap().spec;
    let mut said = BTreeMap::from([
        ("topic".to_owned(), Value::from("url1")),
        ("after".to_owned(), Value::Int(0)),
        ("people".to_owned(), Value::from("Eve Example")),
        ("least".to_owned(), Value::Int(0)),
    ]);
    forum.engine.preview().check(&spec, &said).unwrap();
    let user = Value::Int(1);
    forum
        .engine
        .preview()
        .plan(&spec, Some(&user), &said)
        .unwrap();
    said.insert("topci".to_owned(), Value::from("cats"));
    refused(forum.engine.preview().check(&spec, &said));
    refused(forum.engine.preview().plan(&spec, Some(&user), &said));
    refused(forum.engine.apply(&request(&spec, &said)));
    refused(forum.engine.chunks().begin(&request(&spec, &said)));
    let mut everybody = request(&spec, &said);
    everybody.user = None;
    refused(forum.engine.chunks().begin(&everybody));
    refused(forum.engine.schedule().add(&request(&spec, &said), time()));
    let decay = DecayRequest {
        spec: &spec,
        inactive: "users.karma < :least",
        parameters: said.clone(),
        expires: None,
        after: None,
        page: 10,
        time: time(),
    };
    refused(forum.engine.decay().inactive(&decay).map(drop));
    refused(forum.engine.decay().apply(&decay).map(drop));
    forum.assert_as_before();
    said.remove("topci");
    let applied = forum.engine.apply(&request(&spec, &said)).unwrap();
    assert_eq!(applied.rows["stories"], 1);
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}

/// An id or a parameter with U+0000, which `PostgreSQL` holds in no text, was an error of the database, as if it had failed. It is
/// refused by name there; other databases hold it.
pub(crate) fn a_text_that_the_database_cannot_hold_is_refused_by_name() {
    let mut forum = forum();
    forum.sql("CREATE TABLE named (id VARCHAR(20) PRIMARY KEY)");
    let file = SpecFile::parse(TOPIC).unwrap();
    let said = BTreeMap::from([
        ("topic".to_owned(), Value::from("a\0b")),
        ("after".to_owned(), Value::Int(0)),
        ("people".to_owned(), Value::from("Ann")),
    ]);
    let named = SpecFile::parse(NAMED).unwrap();
    let is_postgres = forum.engine.database().dialect() == Dialect::Postgres;
    let planned = forum
        .engine
        .preview()
        .plan(&file.spec, Some(&Value::Int(1)), &said);
    let checked = forum.engine.preview().check(&file.spec, &said);
    let applied = forum.engine.apply(&request(&file.spec, &said));
    let outcomes = [planned.map(drop), checked, applied.map(drop)];
    for outcome in outcomes {
        match outcome {
            Err(Error::Spec(error)) if is_postgres => {
                let error = error.to_string();
                assert!(
                    error.contains("parameter topic: has the character U+0000"),
                    "{error}"
                );
            }
            other => assert!(other.is_ok() && !is_postgres, "{other:?}"),
        }
    }
    let database = std::mem::replace(forum.engine.database(), crate::connect());
    let mut engine = Engine::new(database, named.schema, named.pseudo.unwrap());
    match engine.user("a\0b") {
        Err(Error::Value { what }) if is_postgres => {
            assert!(
                what.starts_with("the id of a user has the character U+0000"),
                "{what}"
            );
        }
        other => assert_eq!(other.unwrap(), Value::from("a\0b")),
    }
}
