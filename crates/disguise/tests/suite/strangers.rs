//! Faults that schemas drawn at random found, each in the smallest schema that has it.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Protection, SpecFile, Value, draft};

use super::forum::time;
use super::member::Member;

/// Two members, with the first registered, and the second where `more` says so.
fn members(tables: &[&str], description: &str) -> Member {
    let mut database = crate::connect();
    for sql in tables {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, description)
}

const HEAD: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
"#;

/// A row whose owner is NULL belongs to nobody, and a disguise of everybody that removed rows of its table was refused for it, which
/// `check` did not foretell. Such rows are left alone.
pub(crate) fn rows_of_nobody_stay_when_everybody_leaves() {
    let description = format!(
        "{HEAD}[tables.pages]\nthrough = [\"note\"]\n[[remove]]\ntable = \"pages\"\n[[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"members\"\n"
    );
    let mut member = members(
        &[
            "CREATE TABLE members (id INT PRIMARY KEY)",
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
            "CREATE TABLE pages (id INT PRIMARY KEY, note INT REFERENCES notes(id))",
            "INSERT INTO members VALUES (1)",
            "INSERT INTO notes VALUES (6, 1), (7, NULL)",
            "INSERT INTO pages VALUES (8, 6), (9, 7), (10, NULL)",
        ],
        &description,
    );
    let before = member.rows(["members", "notes", "pages"]);
    let applied = member.all_leave();
    let left = member.rows(["members", "notes", "pages"]);
    assert_eq!(left.map(|rows| rows.len()), [0, 1, 2]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes", "pages"]), before);
}

/// Placeholders that a disguise of everybody had just made were counted as users about to be removed, and with a key that is `ON
/// DELETE CASCADE` their rows refused it. Only the rows that go are counted.
pub(crate) fn rows_under_placeholders_of_everybody_do_not_count_as_cascading() {
    let description = format!(
        "{HEAD}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n[[remove]]\ntable = \"members\"\n"
    );
    let mut member = members(
        &[
            "CREATE TABLE members (id INT PRIMARY KEY)",
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT, FOREIGN KEY (member) REFERENCES members(id) ON DELETE CASCADE)",
            "INSERT INTO members VALUES (1)",
            "INSERT INTO notes VALUES (6, 1), (7, 1)",
        ],
        &description,
    );
    let before = member.rows(["members", "notes"]);
    let applied = member.all_leave();
    assert_eq!(member.rows(["notes"]).map(|rows| rows.len()), [2]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// Two owners of a row put the same constant into it; whoever returned second was told for ever that the application had changed
/// the value. A record whose value was there already is done.
pub(crate) fn one_value_of_two_owners_comes_back_in_either_order() {
    let description = format!(
        "{HEAD}[[modify]]\ntable = \"notes\"\ncolumn = \"mark\"\nvalue = {{ ConstNum = 9 }}\n"
    );
    for first_returns_first in [true, false] {
        let mut member = members(
            &[
                "CREATE TABLE members (id INT PRIMARY KEY)",
                "CREATE TABLE notes (id INT PRIMARY KEY, a INT REFERENCES members(id), b INT REFERENCES members(id), mark INT)",
                "INSERT INTO members VALUES (1), (2)",
                "INSERT INTO notes VALUES (6, 1, 2, 5)",
            ],
            &description,
        );
        let made = member
            .engine
            .people()
            .register(&Value::Int(2), Protection::KeyAlone, time());
        let key = made.unwrap().key;
        let before = member.rows(["notes"]);
        let first = member.leave();
        let second = member.apply(Some(Value::Int(2))).unwrap();
        if first_returns_first {
            assert!(member.return_from(&first).is_complete());
            assert!(
                member
                    .returned(Value::Int(2), &key, second.id)
                    .is_complete()
            );
        } else {
            assert!(
                member
                    .returned(Value::Int(2), &key, second.id)
                    .is_complete()
            );
            assert!(member.return_from(&first).is_complete());
        }
        assert_eq!(member.rows(["notes"]), before);
    }
}

/// An owner who is a part of a key to which other rows refer was decorrelated, and the database refused it in the middle. It is
/// foretold, as is a removal for which another table of a circle is in the way at once.
pub(crate) fn keys_that_others_refer_to_are_foretold_not_to_change() {
    let description = format!("{HEAD}[[decorrelate]]\ntable = \"orders\"\nowners = [\"member\"]\n");
    let mut member = members(
        &[
            "CREATE TABLE members (id INT PRIMARY KEY)",
            "CREATE TABLE orders (member INT REFERENCES members(id), part INT, PRIMARY KEY (member, part))",
            "CREATE TABLE items (id INT PRIMARY KEY, m INT, p INT, FOREIGN KEY (m, p) REFERENCES orders(member, part))",
            "INSERT INTO members VALUES (1), (2)",
            "INSERT INTO orders VALUES (1, 1), (1, 2), (2, 1)",
            "INSERT INTO items VALUES (6, 1, 1)",
        ],
        &description,
    );
    let spec = SpecFile::parse(&description).unwrap().spec;
    let mut told = |user: i64| {
        let user = Value::Int(user);
        member
            .engine
            .preview()
            .foretell(&spec, Some(&user), &BTreeMap::new())
            .unwrap()
    };
    assert_eq!(
        told(1),
        [
            "changing the key of rows of orders: 1 rows of items refer to these by foreign key (m, p), and nothing is said of them"
        ]
    );
    assert_eq!(
        told(2),
        ["the user has a row in table members and is not registered"]
    );
    member.try_to_leave().unwrap_err();
}

/// A row whose owner is a part of its key got another placeholder by a second disguise, and the records of the first did not know
/// it any more: values stayed hidden for ever. They follow the placeholders of the person.
pub(crate) fn values_of_a_row_follow_the_placeholder_in_its_key() {
    let description = format!(
        "{HEAD}[[modify]]\ntable = \"orders\"\ncolumn = \"what\"\nvalue = {{ RandNum = {{ lb = 100, ub = 999999 }} }}\n[[decorrelate]]\ntable = \"orders\"\nowners = [\"member\"]\n"
    );
    for older_first in [true, false] {
        let mut member = members(
            &[
                "CREATE TABLE members (id INT PRIMARY KEY)",
                "CREATE TABLE orders (member INT REFERENCES members(id), part INT, what INT, PRIMARY KEY (member, part))",
                "INSERT INTO members VALUES (1)",
                "INSERT INTO orders VALUES (1, 1, 7), (1, 2, 8)",
            ],
            &description,
        );
        let before = member.rows(["members", "orders"]);
        let older = member.leave();
        let newer = member.apply_over(&description);
        let order = if older_first {
            [&older, &newer]
        } else {
            [&newer, &older]
        };
        for applied in order.into_iter().chain(order) {
            member.return_from(applied);
        }
        assert_eq!(member.rows(["members", "orders"]), before, "{older_first}");
        assert_eq!(member.hidden_by(), 0);
    }
}

/// A disguise with the credential overwrote values of the person's placeholders, too, and once these were gone nothing could bring
/// the values back: the disguise stayed for ever. What is about an account that is gone is done.
pub(crate) fn values_of_placeholders_that_are_gone_hold_nothing_back() {
    let description = format!("{HEAD}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
    let mut member = members(
        &[
            "CREATE TABLE members (id INT PRIMARY KEY, mark INT)",
            "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
            "INSERT INTO members VALUES (1, 7)",
            "INSERT INTO notes VALUES (6, 1), (7, 1)",
        ],
        &description,
    );
    let before = member.rows(["members", "notes"]);
    let older = member.leave();
    let newer = member.apply_over(&format!(
        "{HEAD}[[modify]]\ntable = \"members\"\ncolumn = \"mark\"\nvalue = {{ ConstNum = 9 }}\n"
    ));
    assert!(member.return_from(&older).is_complete());
    assert!(member.return_from(&newer).is_complete());
    assert_eq!(member.rows(["members", "notes"]), before);
}

/// A path was followed letter by letter where as many rows were found as keys were looked for, and a reference that was let go of
/// came back only in the letters of the id. Both go by what the database takes for the same.
pub(crate) fn other_spellings_are_found_along_paths_and_where_a_reference_was_let_go_of() {
    let mut database = crate::connect();
    let text = match database.dialect() {
        Dialect::Sqlite => "VARCHAR(40) COLLATE NOCASE",
        Dialect::Postgres => {
            let sql = "CREATE COLLATION any_letters (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
            database.execute(sql, &[]).unwrap();
            "VARCHAR(40) COLLATE any_letters"
        }
        _ => "VARCHAR(40)",
    };
    for sql in [
        format!("CREATE TABLE members (id {text} PRIMARY KEY, friend {text})"),
        "ALTER TABLE members ADD CONSTRAINT friends FOREIGN KEY (friend) REFERENCES members(id)"
            .to_owned(),
        format!(
            "CREATE TABLE notes (id {text} PRIMARY KEY, member {text} REFERENCES members(id), next {text})"
        ),
        format!("CREATE TABLE pages (id INT PRIMARY KEY, note {text} REFERENCES notes(id))"),
        "INSERT INTO members VALUES ('ada', NULL), ('bob', 'ADA')".to_owned(),
        "INSERT INTO notes VALUES ('n', 'ada', 'O'), ('o', 'ADA', 'N')".to_owned(),
        "INSERT INTO pages VALUES (6, 'N'), (7, 'O')".to_owned(),
    ] {
        // `SQLite` adds no foreign key to a table; the specification says it.
        let is_later = sql.starts_with("ALTER") && database.dialect() == Dialect::Sqlite;
        if !is_later {
            database.execute(&sql, &[]).unwrap();
        }
    }
    let description = r#"
        [users]
        table = "members"
        id = "id"
        placeholder = { id = { RandStr = { len = 20 } } }
        [tables.members]
        on_leave = { friend = "null" }
        [tables.notes]
        owners = ["member"]
        references = [{ columns = ["next"], table = "notes", to = ["id"] }]
        [tables.pages]
        through = ["note"]
        references = [{ columns = ["note"], table = "notes", to = ["id"] }]
        [[remove]]
        table = "pages"
        [[remove]]
        table = "notes"
        [[remove]]
        table = "members"
    "#;
    let mut member = Member::called(Value::from("ada"), database, description);
    let before = member.rows(["members", "notes", "pages"]);
    let applied = member.leave();
    let back = member.return_from(&applied);
    assert!(back.is_complete(), "{back:?}");
    assert_eq!(member.rows(["members", "notes", "pages"]), before);
}

/// Drafts gave every placeholder the default of a unique column, an empty id where ids are bytes, and ids that no column holds which
/// refers to them. The database takes what they propose.
pub(crate) fn a_draft_makes_ids_that_their_columns_hold() {
    let mut database = crate::connect();
    let dialect = database.dialect();
    let (id, other) = match dialect {
        Dialect::Sqlite => ("BLOB", "BLOB"),
        Dialect::Postgres => ("BYTEA", "BYTEA"),
        _ => ("BINARY(16)", "BINARY(16)"),
    };
    let bytes = if dialect == Dialect::Postgres {
        "'\\x00ab'"
    } else {
        "x'00ab'"
    };
    for sql in [
        format!(
            "CREATE TABLE members (id {id} PRIMARY KEY, handle VARCHAR(20) NOT NULL DEFAULT 'x' UNIQUE)"
        ),
        format!("CREATE TABLE notes (id INT PRIMARY KEY, member {other} REFERENCES members(id))"),
        format!("INSERT INTO members VALUES ({bytes}, 'one')"),
        "INSERT INTO notes SELECT 6, id FROM members".to_owned(),
        "INSERT INTO notes SELECT 7, id FROM members".to_owned(),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let text = draft(&mut database, Some("members")).unwrap().text;
    let decorrelating = text.replacen("[[remove]]", "[[decorrelate]]\nowners = [\"member\"]", 1);
    let held = database
        .query("SELECT id FROM members", &[])
        .unwrap()
        .concat();
    let mut member = Member::called(held.into_iter().next().unwrap(), database, &decorrelating);
    assert_eq!(
        member.engine.preview().try_placeholder(time()).unwrap(),
        None
    );
    member.leaves_and_returns(["members", "notes"]);
}
