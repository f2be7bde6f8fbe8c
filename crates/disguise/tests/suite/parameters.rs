//! Values that a specification asks for.

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, DecayRequest, Error, Spec, SpecFile, Value};

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
    forum.engine.check(&spec, &said).unwrap();
    let user = Value::Int(1);
    forum.engine.plan(&spec, Some(&user), &said).unwrap();
    said.insert("topci".to_owned(), Value::from("cats"));
    refused(forum.engine.check(&spec, &said));
    refused(forum.engine.plan(&spec, Some(&user), &said));
    refused(forum.engine.apply(&request(&spec, &said)));
    refused(forum.engine.begin(&request(&spec, &said)));
    let mut everybody = request(&spec, &said);
    everybody.user = None;
    refused(forum.engine.begin(&everybody));
    refused(forum.engine.schedule(&request(&spec, &said), time()));
    let decay = DecayRequest {
        spec: &spec,
        inactive: "users.karma < :least",
        parameters: said.clone(),
        expires: None,
        after: None,
        page: 10,
        time: time(),
    };
    refused(forum.engine.inactive(&decay).map(drop));
    refused(forum.engine.decay(&decay).map(drop));
    forum.assert_as_before();
    said.remove("topci");
    let applied = forum.engine.apply(&request(&spec, &said)).unwrap();
    assert_eq!(applied.rows["stories"], 1);
    assert!(forum.reveal(1, applied.id).is_complete());
    forum.assert_as_before();
}
