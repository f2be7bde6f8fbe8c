//! Rows that were disguised meet the migrations that they missed.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{
    Dialect, Engine, Error, KeptReason, KeyCost, Mapping, Pseudo, Row, Schema, SpecError, SpecFile,
    Update, UpdateError, Value,
};

use super::forum::*;
use super::society::{Society, description};

const MIGRATION: [&str; 8] = [
    "ALTER TABLE stories ADD COLUMN loud_url TEXT",
    "UPDATE stories SET loud_url = upper(url)",
    "CREATE TABLE story_flags (story_id BIGINT PRIMARY KEY, is_moderated BIGINT)",
    "INSERT INTO story_flags SELECT id, is_moderated FROM stories",
    "ALTER TABLE stories DROP COLUMN is_moderated",
    "ALTER TABLE moderations RENAME COLUMN id TO number",
    "ALTER TABLE moderations RENAME TO judgements",
    "ALTER TABLE judgements ADD COLUMN is_old BIGINT DEFAULT 1",
];

const MAPPINGS: &str = r#"
[[update]]
name = "0001 loud urls, flags apart"
table = "stories"
[[update.into]]
table = "stories"
rest = true
drop = ["is_moderated"]
sql = { loud_url = "upper(url)" }
[[update.into]]
table = "story_flags"
columns = { story_id = "id", is_moderated = "is_moderated" }
where = "id > 0"

[[update]]
name = "0002 judgements"
table = "moderations"
[[update.into]]
table = "judgements"
rest = true
drop = ["id"]
columns = { number = "id" }
values = { is_old = 1 }
"#;

impl Forum {
    /// Migrates what is not disguised, and describes the new tables to a new engine.
    fn migrate(&mut self) {
        for sql in MIGRATION {
            self.sql(sql);
        }
        let schema = SCHEMA.replace("moderations", "judgements").replace(
            r#""judgements", "id_cols": ["id"]"#,
            r#""judgements", "id_cols": ["number"]"#,
        );
        let mut engine = Engine::new(
            self.database.boxed(),
            Schema::from_edna_json(&schema).unwrap(),
            Pseudo::from_edna_json(PSEUDO).unwrap(),
        );
        engine.options().key_cost = KeyCost::DANGER_LEAST;
        engine.install().unwrap();
        self.engine = engine;
    }

    /// Everything is there, as if nothing had been disguised before the migration.
    fn assert_migrated(&mut self) {
        for (what, expected) in [
            ("users", USERS),
            ("users WHERE id <= 4", USERS),
            ("stories WHERE id - 10 * user_id BETWEEN 0 AND 2", 12),
            (
                "stories WHERE url LIKE 'url%' AND loud_url = upper(url)",
                12,
            ),
            ("story_flags WHERE is_moderated = 0", 12),
            ("judgements WHERE action = 'edit' AND is_old = 1", 12),
            (
                "judgements WHERE user_id <= 4 AND moderator_user_id <= 4",
                12,
            ),
            ("probity_bags", 0),
            ("probity_locators", 0),
            ("probity_shared", 0),
            ("probity_principals", USERS),
        ] {
            let count = self.numbers(&format!("SELECT COUNT(*) FROM {what}"));
            assert_eq!(count, [expected], "{what}");
        }
    }
}

pub(crate) fn rows_that_were_disguised_meet_the_migrations_that_they_missed() {
    let mut forum = forum();
    let blank = forum.apply(BLANK, Some(1), false).unwrap();
    let anonymous = forum.apply(ANON, None, false).unwrap();
    let gone = forum.apply(GDPR, Some(2), true).unwrap();
    forum.migrate();
    let mappings = Mapping::parse(MAPPINGS).unwrap();
    forum.engine.updates().record(&mappings, time()).unwrap();
    assert_eq!(
        forum.engine.updates().names().unwrap(),
        ["0001 loud urls, flags apart", "0002 judgements"]
    );
    for (user, id) in [(2, gone.id), (1, blank.id)] {
        let revealed = forum.reveal(user, id);
        assert!(revealed.is_complete(), "{revealed:?}");
    }
    for user in 1..=USERS {
        let revealed = forum.reveal(user, anonymous.id);
        assert!(revealed.is_complete(), "{revealed:?}");
    }
    forum.assert_migrated();
}

pub(crate) fn what_is_disguised_after_an_update_does_not_meet_it() {
    let mut forum = forum();
    let before = forum.apply(BLANK, Some(1), false).unwrap();
    forum.migrate();
    let mappings = Mapping::parse(MAPPINGS).unwrap();
    forum.engine.updates().record(&mappings, time()).unwrap();
    let spec = r#"{"story_flags": [{"Remove": {"pred": "True", "from": ""}}]}"#;
    let after = forum.apply(spec, None, false);
    // Rows without an owner have nobody who could bring them back.
    assert!(matches!(after, Err(Error::Spec(_))), "{after:?}");
    let after = forum.apply(BLANK, Some(1), false).unwrap();
    forum.sql("UPDATE stories SET loud_url = upper(url)");
    assert!(forum.reveal(1, after.id).is_complete());
    let revealed = forum.reveal(1, before.id);
    assert!(
        !revealed.is_complete(),
        "the application wrote loud urls of its own"
    );
    assert_eq!(
        forum.numbers("SELECT COUNT(*) FROM stories WHERE url LIKE 'url%'"),
        [12]
    );
}

pub(crate) fn shared_rows_removed_before_a_migration_come_back_owner_by_owner() {
    for order in [[1, 2], [2, 1]] {
        let mut forum = forum();
        let mut gone = std::collections::BTreeMap::new();
        for user in [1, 2] {
            gone.insert(
                user,
                forum.apply(GDPR_REMOVE, Some(user), false).unwrap().id,
            );
        }
        forum.migrate();
        let mappings = Mapping::parse(MAPPINGS).unwrap();
        forum.engine.updates().record(&mappings, time()).unwrap();
        let kept: Vec<_> = order
            .iter()
            .map(|user| forum.reveal(*user, gone[user]))
            .collect();
        assert!(kept[1].is_complete(), "{kept:?}");
        // What waited for the other owner comes with one more try.
        if !kept[0].is_complete() {
            assert!(forum.reveal(order[0], gone[&order[0]]).is_complete());
        }
        forum.assert_migrated();
    }
}

/// The second migration, as code.
struct Judgements;

impl Update for Judgements {
    fn name(&self) -> &'static str {
        "judgements in code"
    }

    fn rows(&self, mut row: Row) -> Result<Vec<Row>, String> {
        if row.table == "moderations" {
            "judgements".clone_into(&mut row.table);
            for (name, _) in &mut row.columns {
                if name == "id" {
                    "number".clone_into(name);
                }
            }
            if row.is_whole {
                row.columns.push(("is_old".to_owned(), Value::Int(1)));
            }
        }
        Ok(vec![row])
    }
}

pub(crate) fn an_update_by_code_is_asked_for_until_the_program_has_it() {
    let mut forum = forum();
    let gone = forum.apply(GDPR_REMOVE, Some(3), false).unwrap();
    forum.migrate();
    let mut mappings = Mapping::parse(MAPPINGS).unwrap();
    mappings.truncate(1);
    forum.engine.updates().record(&mappings, time()).unwrap();
    let name = Judgements.name().to_owned();
    assert!(forum.engine.updates().record_code(&name, time()).is_err());
    forum.engine.options().set_update(Box::new(Judgements));
    forum.engine.updates().record_code(&name, time()).unwrap();
    assert!(forum.engine.updates().record_code(&name, time()).is_err());
    let engine = Engine::stored(forum.database.boxed()).unwrap();
    let with_code = std::mem::replace(&mut forum.engine, engine);
    let refused = forum.reveal_as(3, gone.id, probity_disguise::References::Recorrelate);
    assert!(
        matches!(
            &refused,
            Err(Error::Update { name: found, source: UpdateError::NoCode }) if *found == name
        ),
        "{refused:?}"
    );
    forum.engine = with_code;
    let revealed = forum.reveal(3, gone.id);
    assert!(revealed.is_complete(), "{revealed:?}");
    forum.assert_migrated();
}

pub(crate) fn an_update_that_does_not_fit_is_named_and_may_be_replaced() {
    let mut forum = forum();
    let gone = forum.apply(GDPR, Some(4), false).unwrap();
    forum.migrate();
    for (from, to, named) in [
        ("story_flags", "story_marks", "story_marks"),
        ("loud_url", "silent_url", "silent_url"),
    ] {
        let mappings = Mapping::parse(&MAPPINGS.replace(from, to)).unwrap();
        let refused = forum.engine.updates().record(&mappings, time());
        assert!(
            matches!(&refused, Err(Error::Spec(SpecError { what, .. })) if what.contains(named)),
            "{refused:?}"
        );
    }
    assert!(forum.engine.updates().names().unwrap().is_empty());
    let wrong = Mapping::parse(&MAPPINGS.replace("upper(url)", "upper(uri)")).unwrap();
    let refused = forum.engine.updates().record(&wrong, time());
    assert!(
        matches!(
            &refused,
            Err(Error::Update { name, source: UpdateError::Wrong(what) })
                if name.starts_with("0001") && what.contains("uri")
        ),
        "{refused:?}"
    );
    // Of a record of a program before, the columns are not known.
    let shapes = "DELETE FROM probity_settings WHERE name > ? AND name < ?";
    let names = ["shape:", "shape;"].map(|it| Value::Bytes(it.as_bytes().to_vec()));
    forum.engine.database().execute(shapes, &names).unwrap();
    forum.engine.updates().record(&wrong, time()).unwrap();
    let refused = forum.reveal_as(4, gone.id, probity_disguise::References::Recorrelate);
    assert!(
        matches!(
            &refused,
            Err(Error::Update { name, source: UpdateError::Wrong(what) })
                if name.starts_with("0001") && what.contains("uri")
        ),
        "{refused:?}"
    );
    let right = Mapping::parse(MAPPINGS).unwrap();
    assert!(forum.engine.updates().record(&right, time()).is_err());
    forum.engine.updates().replace(&right[0], time()).unwrap();
    let revealed = forum.reveal(4, gone.id);
    assert!(revealed.is_complete(), "{revealed:?}");
    forum.assert_migrated();
    let line = Mapping::parse("[[update]]\nname = \"a\"\ntable = \"b\"\nin = 1\n").unwrap_err();
    assert_eq!(line.place, "line 4");
}

/// An update into a table without identifying columns was taken, and a reveal then said that the table was no longer there. It is
/// refused; where the key goes later, the reveal says so.
pub(crate) fn an_update_into_a_table_without_a_key_is_refused() {
    let mut forum = forum();
    let gone = forum.apply(GDPR, Some(4), false).unwrap();
    forum.sql("CREATE TABLE story_texts (story_id BIGINT, body VARCHAR(40))");
    let mapping = "[[update]]\nname = \"apart\"\ntable = \"stories\"\n\n[[update.into]]\ntable = \"stories\"\nrest = true\n\n\
        [[update.into]]\ntable = \"story_texts\"\ncolumns = { story_id = \"id\" }\n";
    let mapping = Mapping::parse(mapping).unwrap();
    let refused = forum.engine.updates().record(&mapping, time());
    assert!(
        matches!(&refused, Err(Error::Spec(SpecError { what, .. })) if what.contains("no identifying columns")),
        "{refused:?}"
    );
    forum.sql("DROP TABLE story_texts");
    forum.sql("CREATE TABLE story_texts (story_id BIGINT PRIMARY KEY, body VARCHAR(40))");
    forum.engine.updates().record(&mapping, time()).unwrap();
    forum.sql("DROP TABLE story_texts");
    forum.sql("CREATE TABLE story_texts (story_id BIGINT, body VARCHAR(40))");
    let kept = forum.reveal(4, gone.id).kept;
    let without = kept.iter().filter(|it| it.table == "story_texts");
    let reasons: Vec<KeptReason> = without.map(|it| it.reason).collect();
    assert!(!reasons.is_empty(), "{kept:?}");
    assert!(
        reasons.iter().all(|it| *it == KeptReason::KeyChanged),
        "{kept:?}"
    );
    forum.sql("DROP TABLE story_texts");
    forum.sql("CREATE TABLE story_texts (story_id BIGINT PRIMARY KEY, body VARCHAR(40))");
    let back = forum.reveal(4, gone.id);
    assert!(back.is_complete(), "{back:?}");
}

/// A value whose row an update makes a row of another table was dropped by the reveal, with its record, where
/// the value that stands for it makes no such row.
pub(crate) fn a_value_that_an_update_makes_a_row_comes_back_as_one() {
    for value in ["\"Null\"", "{ ConstStr = \"gone\" }"] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE pics (id BIGINT PRIMARY KEY, who BIGINT, t VARCHAR(9))",
            "CREATE TABLE texts (pic BIGINT PRIMARY KEY, body VARCHAR(9))",
            "CREATE TABLE cards (id BIGINT PRIMARY KEY, who BIGINT, mail VARCHAR(9), phone VARCHAR(9))",
            "CREATE TABLE contacts (card BIGINT, kind VARCHAR(9), who BIGINT, v VARCHAR(9), PRIMARY KEY (card, kind))",
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO pics VALUES (11, 2, 'y'), (12, 1, 'z')",
            "INSERT INTO cards VALUES (21, 1, 'm', 'p'), (22, 2, 'n', 'q')",
        ]
        .map(str::to_owned);
        let all = description(&format!(
            "[tables.pics]\nowners = [\"who\"]\n[tables.cards]\nowners = [\"who\"]\n[tables.contacts]\nowners = [\"who\"]\n\
             [[modify]]\ntable = \"pics\"\ncolumn = \"t\"\nvalue = {value}\n\
             [[modify]]\ntable = \"cards\"\ncolumn = \"phone\"\nvalue = {value}\n"
        ));
        let (described, _) = all.split_at(all.find("[[remove]]").unwrap());
        let mut society = Society::of(&statements, described, &[1, 2]);
        let gone = society.leave(1);
        for sql in [
            "INSERT INTO texts SELECT id, t FROM pics WHERE t = 'y'",
            "UPDATE pics SET t = 'new'",
            "INSERT INTO contacts SELECT id, 'mail', who, mail FROM cards",
            "INSERT INTO contacts SELECT id, 'phone', who, phone FROM cards",
            "DELETE FROM cards",
        ] {
            society.sql(sql);
        }
        let updates = "[[update]]\nname = \"texts\"\ntable = \"pics\"\n\
            [[update.into]]\ntable = \"pics\"\nrest = true\ndrop = [\"t\"]\nvalues = { t = \"new\" }\n\
            [[update.into]]\ntable = \"texts\"\ncolumns = { pic = \"id\", body = \"t\" }\nwhere = \"t IS NOT NULL AND t <> 'gone'\"\n";
        let apart = "[[update]]\nname = \"apart\"\ntable = \"cards\"\n\
            [[update.into]]\ntable = \"contacts\"\ncolumns = { card = \"id\", who = \"who\", v = \"mail\" }\nvalues = { kind = \"mail\" }\n\
            [[update.into]]\ntable = \"contacts\"\ncolumns = { card = \"id\", who = \"who\", v = \"phone\" }\nvalues = { kind = \"phone\" }\n";
        for mapping in [updates, apart] {
            let mapping = Mapping::parse(mapping).unwrap();
            society.engine.updates().record(&mapping, time()).unwrap();
        }
        let revealed = society.reveal(1, gone);
        assert!(revealed.is_complete(), "{value} {revealed:?}");
        let texts = "SELECT COUNT(*) FROM texts WHERE (pic = 12 AND body = 'z') OR (pic = 11 AND body = 'y')";
        assert_eq!(society.numbers(texts), [2], "{value}");
        let contacts = "SELECT COUNT(*) FROM contacts WHERE (card = 21 AND kind = 'mail' AND v = 'm') OR (card = 21 AND kind = 'phone' AND v = 'p')";
        assert_eq!(society.numbers(contacts), [2], "{value}");
        assert_eq!(
            society.numbers("SELECT COUNT(*) FROM contacts"),
            [4],
            "{value}"
        );
    }
}

/// A row that the database kept under the condition of a migration was dropped by a reveal: a value by
/// itself has neither the type nor the collation of its column.
pub(crate) fn a_condition_of_an_update_compares_as_the_table_does() {
    let (nocase, insensitive) = match crate::connect().dialect() {
        Dialect::Sqlite => (" COLLATE NOCASE", true),
        Dialect::Mysql => (" COLLATE utf8mb4_general_ci", true),
        _ => ("", false),
    };
    for (condition, keeps) in [
        ("k = '7'", true),
        ("k IN ('7', '8')", true),
        ("b = 'xy'", insensitive),
        ("b BETWEEN 'xx' AND 'xz'", insensitive),
        ("substr(b, 1, 1) = 'X'", true),
        ("trim(b) = 'XY'", true),
    ] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, k BIGINT, b VARCHAR(20){nocase})"
            ),
            "INSERT INTO people VALUES (1, 'one')".to_owned(),
            "INSERT INTO posts VALUES (10, 1, 7, 'XY')".to_owned(),
        ];
        let tables = "[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n";
        let mut society = Society::of(&statements, &description(tables), &[1]);
        let id = society.leave(1);
        let mapping = format!(
            "[[update]]\nname = \"some\"\ntable = \"posts\"\n[[update.into]]\ntable = \"posts\"\nrest = true\nwhere = \"{condition}\"\n"
        );
        let mapping = Mapping::parse(&mapping).unwrap();
        society.engine.updates().record(&mapping, time()).unwrap();
        society.reveal(1, id);
        let expected: &[i64] = if keeps { &[10] } else { &[] };
        assert_eq!(
            society.numbers("SELECT id FROM posts"),
            expected,
            "{condition}"
        );
    }
}

/// A mapping that no reveal could read was recorded, and every reveal that met it failed.
pub(crate) fn a_mapping_that_cannot_be_read_is_refused_at_once() {
    let mut forum = forum();
    for expression in ["load(url)", "url ||", "upper(url", "(SELECT 1)"] {
        let mapping = format!(
            "[[update]]\nname = \"some\"\ntable = \"stories\"\n[[update.into]]\ntable = \"stories\"\nrest = true\nsql = {{ url = \"{expression}\" }}\n"
        );
        let mapping = Mapping::parse(&mapping).unwrap();
        let refused = forum.engine.updates().record(&mapping, time());
        assert!(
            matches!(refused, Err(Error::Spec(_))),
            "{expression} {refused:?}"
        );
    }
}

/// Two migrations that were deployed together could not be recorded: the table between them is gone.
pub(crate) fn updates_lead_over_tables_that_are_gone_since() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, b VARCHAR(20))",
        "INSERT INTO people VALUES (1, 'one')",
        "INSERT INTO posts VALUES (10, 1, 'x')",
    ]
    .map(str::to_owned);
    let tables = "[tables.posts]\nowners = [\"who\"]\n[[remove]]\ntable = \"posts\"\n";
    let mut society = Society::of(&statements, &description(tables), &[1]);
    let id = society.leave(1);
    society.sql("ALTER TABLE posts RENAME TO answers");
    society.sql("ALTER TABLE answers RENAME COLUMN b TO body");
    let mappings = Mapping::parse(
        "[[update]]\nname = \"a\"\ntable = \"posts\"\n[[update.into]]\ntable = \"replies\"\nrest = true\n\
         [[update]]\nname = \"b\"\ntable = \"replies\"\n[[update.into]]\ntable = \"answers\"\nrest = true\ndrop = [\"b\"]\ncolumns = { body = \"b\" }\n",
    );
    let mappings = mappings.unwrap();
    let alone = society.engine.updates().record(&mappings[..1], time());
    assert!(matches!(alone, Err(Error::Spec(_))), "{alone:?}");
    let all = description(&tables.replace("posts", "answers"));
    let file = SpecFile::parse(&all).unwrap();
    let database = std::mem::replace(society.engine.database(), crate::connect());
    let mut engine = Engine::new(database, file.schema, file.pseudo.unwrap());
    engine.options().key_cost = KeyCost::DANGER_LEAST;
    engine.install().unwrap();
    society.engine = engine;
    society.engine.updates().record(&mappings, time()).unwrap();
    let revealed = society.reveal(1, id);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(
        society.numbers("SELECT id FROM answers WHERE body = 'x'"),
        [10]
    );
}

/// Of a row of two people that an update made rows of two tables, the second never came back: the first one that did took the
/// name of both copies away, and the reveals said that everything was put back.
pub(crate) fn a_shared_row_that_became_several_comes_back_in_all_parts() {
    for (order, is_referring) in [
        ([1, 2], false),
        ([2, 1], false),
        ([1, 2], true),
        ([2, 1], true),
    ] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, one BIGINT, other BIGINT, a VARCHAR(9), b VARCHAR(9))",
            "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "INSERT INTO posts VALUES (10, 1, 2, 'a', 'b'), (11, 2, 1, 'c', 'd'), (12, 1, 3, 'e', 'f')",
        ]
        .map(str::to_owned);
        let described = description(
            "[tables.posts]\nowners = [\"one\", \"other\"]\n[[remove]]\ntable = \"posts\"\n",
        );
        let mut society = Society::of(&statements, &described, &[1, 2, 3]);
        let gone = [1, 2].map(|user| (user, society.leave(user)));
        let gone = std::collections::BTreeMap::from(gone);
        let key = if is_referring {
            ", FOREIGN KEY (post) REFERENCES posts (id)"
        } else {
            ""
        };
        society.sql(&format!(
            "CREATE TABLE texts (post BIGINT PRIMARY KEY, b VARCHAR(9){key})"
        ));
        society.sql("INSERT INTO texts SELECT id, b FROM posts");
        society.sql("ALTER TABLE posts DROP COLUMN b");
        let into = [
            "[[update.into]]\ntable = \"posts\"\nrest = true\ndrop = [\"b\"]\n",
            "[[update.into]]\ntable = \"texts\"\ncolumns = { post = \"id\", b = \"b\" }\n",
        ]
        .concat();
        let mapping = format!("[[update]]\nname = \"apart\"\ntable = \"posts\"\n{into}");
        let mapping = Mapping::parse(&mapping).unwrap();
        society.engine.updates().record(&mapping, time()).unwrap();
        let what = format!("{order:?} {is_referring}");
        for user in order {
            society.reveal(user, gone[&user]);
        }
        society.try_again(&gone);
        let texts = "SELECT COUNT(*) FROM texts WHERE post = 10 AND b = 'b' OR post = 11 AND b = 'd' OR post = 12 AND b = 'f'";
        assert_eq!(society.numbers(texts), [3], "{what}");
        let posts = "SELECT COUNT(*) FROM posts WHERE id = 10 AND one = 1 AND other = 2 OR id = 11 AND one = 2 AND other = 1 OR id = 12 AND one = 1 AND other = 3";
        assert_eq!(society.numbers(posts), [3], "{what}");
        for table in ["probity_bags", "probity_locators", "probity_shared"] {
            let count = society.numbers(&format!("SELECT COUNT(*) FROM {table}"));
            assert_eq!(count, [0], "{table}, {what}");
        }
    }
}
