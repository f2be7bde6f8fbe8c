//! Files in Edna's form with slips that her program never notices, and the same slips in our own form.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{
    Database as _, Dialect, Engine, Error, KeyCost, Pseudo, Schema, Spec, SpecFile,
};

use super::forum::*;
use super::member::Member;

/// A table and a column that are not there, and the column of another table.
const TABLES: &str = r#"{
 "users": {"table": "users", "id_cols": ["ID"], "owner_fks": [], "other_fks": []},
 "stories": {"table": "stories", "id_cols": ["id"],
   "owner_fks": [{"to_table": "users", "to_col": "id", "from_table": "stories", "from_col": "User_Id"}],
   "other_fks": [{"to_table": "topic", "to_col": "id", "from_table": "stories", "from_col": "id"}]},
 "moderations": {"table": "moderations", "id_cols": ["id"],
   "owner_fks": [{"to_table": "users", "to_col": "id", "from_table": "moderations", "from_col": "moderator_user_id"},
                 {"to_table": "users", "to_col": "id", "from_table": "moderations", "from_col": "user_id"}],
   "other_fks": [{"to_table": "stories", "to_col": "number", "from_table": "moderations", "from_col": "story_id"}]},
 "taggings": {"table": "taggings", "id_cols": ["id"], "owner_fks": [],
   "other_fks": [{"to_table": "stories", "to_col": "id", "from_table": "taggings", "from_col": "story_id"},
                 {"to_table": "stories", "to_col": "id", "from_table": "taggings", "from_col": "comment_id"}]}}"#;
const USERS_OF: &str = r#"{"table": "users", "id_col": "Id", "cols": ["Id", "userName", "karma"],
  "val_generation": [{"RandNum": {"lb": 1000000, "ub": 9000000000000}}, {"RandStr": {"len": 30}}, {"ConstNum": 0}]}"#;
const LEAVE: &str = r#"{"users": [{"Remove": {"pred": "True", "from": ""}}],
  "stories": [{"Modify": {"pred": "stories.URL = 'url0'", "from": "", "col": "Url", "gen_value": "Null"}},
              {"Decor": {"pred": "True", "from": "", "group_by_cols": ["url, IS_moderated"], "user_fk_cols": ["USER_ID"]}}],
  "moderations": [{"Decor": {"pred": "True", "from": "", "group_by_cols": [], "user_fk_cols": ["moderator_user_id, User_id"]}}]}"#;

/// D10, D15: each slip was a refusal, one after the other, although Edna goes on without a word.
pub(crate) fn slips_in_files_of_edna_are_noted_all_at_once_and_no_more() {
    let mut forum = forum();
    let before = forum.everything();
    let spec = Spec::from_edna_json(LEAVE).unwrap();
    let schema = Schema::from_edna_json(TABLES).unwrap();
    let pseudo = Pseudo::from_edna_json(USERS_OF).unwrap();
    let mut engine = Engine::new(forum.database.boxed(), schema, pseudo);
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.preview().check(&spec, &BTreeMap::new()).unwrap();
    let notes = engine.preview().cautions(&spec).unwrap();
    let parts = [
        "table users: column ID is called id",
        "table stories refers to table topic, which is not in the database",
        "table stories: column User_Id is called user_id",
        "table moderations refers to stories.number, which does not exist",
        "table taggings refers by column comment_id, which it does not have",
        "generator: column Id is called id",
        "generator: column userName is called username",
        "table stories, entry 1: column Url is called url",
        "table stories, entry 2: \"url, IS_moderated\" is taken for 2 columns",
        "table stories, entry 2: column IS_moderated is called is_moderated",
        "table stories, entry 2: column USER_ID is called user_id",
        "table moderations, entry 1: \"moderator_user_id, User_id\" is taken for 2 columns",
    ];
    for part in parts {
        assert!(
            notes.iter().any(|it| it.contains(part)),
            "{part}: {notes:?}"
        );
    }
    engine.install().unwrap();
    // What is stored serves as the files do.
    let mut engine = Engine::stored(forum.database.boxed()).unwrap();
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    assert_eq!(engine.preview().cautions(&spec).unwrap(), {
        let of_users = |it: &&String| !it.contains("generator:");
        notes.iter().filter(of_users).cloned().collect::<Vec<_>>()
    });
    std::mem::swap(&mut engine, &mut forum.engine);
    let applied = forum.apply(LEAVE, Some(1), false).unwrap();
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE user_id = 1"),
        [0]
    );
    let theirs = "SELECT COUNT(*) FROM moderations WHERE user_id = 1 OR moderator_user_id = 1";
    assert_eq!(forum.numbers(theirs), [0]);
    // Two stories are of one group, url and mark alike.
    assert_eq!(applied.pseudoprincipals, 2 + 6);
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(forum.everything(), before);
    forum.assert_as_before();
}

const OWN: &str = r#"
[users]
table = "users"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } }, username = { RandStr = { len = 30 } } }
[tables.Stories]
owners = ["USER_ID"]
[[remove]]
table = "Stories"
where = "Stories.Url = 'url0'"
"#;

/// D10: our own form says what is meant, and a slip there is a mistake. Letters are no slip where the database ignores them.
pub(crate) fn slips_in_files_of_our_own_are_refused() {
    let mut forum = forum();
    let dialect = forum.engine.database().dialect();
    let engine = |text: &str| {
        let file = SpecFile::parse(text).unwrap();
        let mut engine = Engine::new(forum.database.boxed(), file.schema, file.pseudo.unwrap());
        engine.preview().check(&file.spec, &BTreeMap::new())
    };
    let refused = |outcome: Result<(), Error>, part: &str| {
        let Err(Error::Spec(error)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(error.to_string().contains(part), "{error}");
    };
    match dialect {
        // There the names of tables are files.
        Dialect::Mysql => refused(engine(OWN), "table Stories: is not in the database"),
        _ => engine(OWN).unwrap(),
    }
    let own = OWN.replace("Stories", "stories");
    engine(&own).unwrap();
    let owners = "owners = [\"USER_ID\"]";
    let to = |table: &str| {
        let reference = format!(
            "{owners}\nreferences = [{{ columns = [\"url\"], table = \"{table}\", to = [\"id\"] }}]"
        );
        own.replace(owners, &reference)
    };
    engine(&to("tags")).unwrap();
    refused(engine(&to("topic")), "refers to table topic");
    let two = own.replace(owners, "owners = [\"user_id, url\"]");
    refused(engine(&two), "has no column user_id, url");
}

/// D10: a file that no program reads any more was refused with the words of a parser.
pub(crate) fn a_condition_of_an_older_form_is_refused_by_its_form() {
    for older in [
        r#"[{"and": [{"col": "stories.user_id", "op": "=", "val": "$UID"}]}]"#,
        r#"{"Bool": true}"#,
    ] {
        let text = format!(r#"{{"stories": [{{"Remove": {{"pred": {older}, "from": ""}}}}]}}"#);
        for refused in [
            Spec::from_edna_json(&text).map(drop),
            SpecFile::parse(&text).map(drop),
        ] {
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused
                    .starts_with("line 1, table stories: pred is no text: this is an older form"),
                "{refused}"
            );
        }
    }
}

/// The tables of the files below, with names in letters of their own.
const LETTERS: [&str; 6] = [
    "CREATE TABLE people (~personId~ BIGINT PRIMARY KEY, ~firstName~ VARCHAR(40), roles SMALLINT)",
    "CREATE TABLE papers (~paperId~ BIGINT PRIMARY KEY, ~leadId~ BIGINT, title VARCHAR(40))",
    "CREATE INDEX leads ON papers (~leadId~)",
    "INSERT INTO people VALUES (1, 'Ada', 3), (2, 'Bea', 2), (3, 'Cy', 0)",
    "INSERT INTO papers VALUES (6, 1, 'on one'), (7, 2, 'on two'), (8, 1, 'on three')",
    "INSERT INTO papers VALUES (9, 0, 'on nobody')",
];
const LETTERS_TABLES: &str = r#"{
 "people": {"table": "people", "id_cols": ["personid"], "owner_fks": [], "other_fks": []},
 "papers": {"table": "papers", "id_cols": ["PAPERID"],
   "owner_fks": [{"to_table": "people", "to_col": "personid", "from_table": "papers", "from_col": "leadID"}], "other_fks": []}}"#;
const LETTERS_USERS: &str = r#"{"table": "people", "id_col": "personid", "cols": ["personid", "firstname", "roles"],
  "val_generation": [{"RandNum": {"lb": 1000000, "ub": 9000000000000}}, {"RandStr": {"len": 30}}, {"ConstNum": 0}]}"#;
const LETTERS_LEAVE: &str = r#"{"people": [{"Modify": {"pred": "ROLES & 1", "from": "", "col": "Firstname", "gen_value": {"RandStr": {"len": 9}}}}],
  "papers": [{"Decor": {"pred": "leadid > 0", "from": "", "group_by_cols": [], "user_fk_cols": ["LEADID"]}}]}"#;

/// A file of Edna that says `firstname` of a column `firstName` was refused where the database tells names in quotes apart by
/// their letters. Her own database never does with names of columns, so that nothing else can be meant.
pub(crate) fn columns_in_files_of_edna_are_found_in_any_letters() {
    let mut database = crate::connect();
    let quote = match database.dialect() {
        Dialect::Mysql => "`",
        _ => "\"",
    };
    for sql in LETTERS {
        database.execute(&sql.replace('~', quote), &[]).unwrap();
    }
    let schema = Schema::from_edna_json(LETTERS_TABLES).unwrap();
    let pseudo = Pseudo::from_edna_json(LETTERS_USERS).unwrap();
    let spec = Spec::from_edna_json(LETTERS_LEAVE).unwrap();
    let mut member = Member::with(database, (schema, pseudo), spec);
    let cautions = member.cautions();
    for part in [
        "table people: column personid is called personId",
        "generator: column firstname is called firstName",
        "table people, entry 1: column Firstname is called firstName",
        "table papers, entry 1: column LEADID is called leadId",
    ] {
        assert!(cautions.iter().any(|it| it.contains(part)), "{cautions:?}");
    }
    member.leaves_and_returns(["people", "papers"]);
    // Of two columns that are told apart by their letters alone none is meant.
    if quote == "\"" && member.engine.database().dialect() == Dialect::Postgres {
        member.sql(&["ALTER TABLE papers ADD \"LeadId\" BIGINT"]);
        let refusal = member.refusal();
        assert!(refusal.contains("leadID"), "{refusal}");
    }
}

/// `"pred": "roles & 1"` of a conference was refused by `PostgreSQL` in its own words, because a number is no truth there. Elsewhere,
/// and so for Edna, each number but 0 is true.
pub(crate) fn a_number_in_the_place_of_a_truth_is_true_unless_it_is_0() {
    let mut forum = forum();
    let before = forum.everything();
    for (condition, stories) in [
        ("stories.id & 1", "id IN (11)"),
        ("id & 1 AND True", "id IN (11)"),
        ("NOT (id & 1)", "id IN (10, 12)"),
        ("id - 11", "id IN (10, 12)"),
        ("is_moderated OR id - 10", "id IN (11, 12)"),
        ("is_moderated", "1 = 0"),
        ("NOT is_moderated", "1 = 1"),
        ("id = 10 OR length(url) AND -(id - 12)", "id IN (10, 11)"),
        ("id * 0 OR 1", "1 = 1"),
        ("(0)", "1 = 0"),
        ("id = 11 AND 0.5", "id IN (11)"),
    ] {
        let text = BLANK.replace("\"True\"", &format!("\"{condition}\""));
        let applied = forum.apply(&text, Some(1), false).unwrap();
        let hidden = "SELECT COUNT(*) FROM stories WHERE url NOT LIKE 'url%'";
        let meant = format!("SELECT COUNT(*) FROM stories WHERE user_id = 1 AND ({stories})");
        let (all, count) = (forum.numbers(hidden), forum.numbers(&meant));
        assert_eq!(all, count, "{condition}");
        let among = forum.numbers(&format!("{hidden} AND user_id = 1 AND ({stories})"));
        assert_eq!(among, count, "{condition}");
        assert!(forum.reveal(1, applied.id).is_complete());
        assert_eq!(forum.everything(), before);
    }
    let joined = HOBBY.replace("tags.tag = 'star wars'", "tags.id & 1");
    let joined = joined.replace("tags.id = taggings", "tags.id & 1 AND tags.id = taggings");
    let applied = forum.apply(&joined, Some(1), false).unwrap();
    let theirs = "SELECT COUNT(*) FROM stories WHERE user_id = 1";
    assert_eq!(forum.numbers(theirs), [1]);
    assert!(forum.reveal(1, applied.id).is_complete());
    assert_eq!(forum.everything(), before);
}
