//! Keys by which the database empties references by itself when what they refer to gets another key.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Error, KeptReason, SpecFile, Value};

use super::member::Member;

const HEAD: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 2000000000 } } }
[tables.remarks]
owners = ["author"]
"#;
const OWNER: &str = "[[decorrelate]]\ntable = \"settings\"\nowners = [\"member\"]\n";
const VALUE: &str = "[[modify]]\ntable = \"settings\"\ncolumn = \"nick\"\nvalue = { RandNum = { lb = 100, ub = 999999 } }\n";
const TABLES: [&str; 3] = ["members", "settings", "remarks"];

/// Settings of member 1, to which remarks of member 2 refer; a change of the key does `action` to these.
fn member_with(action: &str, description: &str) -> Member {
    let mut database = crate::connect();
    let refers = |from: &str, to: &str| {
        // No database tells columns apart by their letters.
        let [from, to] = [from, to].map(str::to_uppercase);
        format!("FOREIGN KEY ({from}) REFERENCES settings({to}) ON UPDATE {action}")
    };
    let remarks = format!(
        "CREATE TABLE remarks (id INT PRIMARY KEY, author INT REFERENCES members(id), m INT, p INT, nick INT, {}, {})",
        refers("m, p", "member, part"),
        refers("nick", "nick")
    );
    for sql in [
        "CREATE TABLE members (id INT PRIMARY KEY)",
        "CREATE TABLE settings (member INT NOT NULL REFERENCES members(id), part INT NOT NULL, nick INT UNIQUE, PRIMARY KEY (member, part))",
        &remarks,
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO settings VALUES (1, 1, 7)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    Member::of(database, description)
}

/// A key `ON UPDATE SET NULL` was taken for `ON UPDATE CASCADE`: remarks of somebody else lost what they referred to for good when
/// the row got a placeholder or another value, and so they did when these went back. Nothing is changed while rows refer to it.
pub(crate) fn no_key_changes_where_the_database_would_empty_references_to_it() {
    let mut actions = vec!["SET NULL"];
    // InnoDB has no default there.
    if crate::connect().dialect() != Dialect::Mysql {
        actions.push("SET DEFAULT");
    }
    for action in actions {
        for (change, refers, columns) in [
            (
                OWNER,
                "UPDATE remarks SET m = (SELECT member FROM settings WHERE part = 1), p = 1",
                "m, p",
            ),
            (
                VALUE,
                "UPDATE remarks SET nick = (SELECT nick FROM settings WHERE part = 1)",
                "nick",
            ),
        ] {
            let description = format!("{HEAD}{change}");
            let mut member = member_with(action, &description);
            member.sql(&[
                "INSERT INTO remarks VALUES (6, 2, NULL, NULL, NULL)",
                refers,
            ]);
            let before = member.rows(TABLES);
            let spec = SpecFile::parse(&description).unwrap().spec;
            let user = Some(Value::Int(1));
            for whom in [user.as_ref(), None] {
                let told = member
                    .engine
                    .preview()
                    .foretell(&spec, whom, &BTreeMap::new())
                    .unwrap();
                let sentence = format!(
                    "changing the key of rows of settings: 1 rows of remarks refer to these by foreign key ({columns}), and nothing is said of them"
                );
                assert_eq!(told, [sentence], "{action}");
            }
            let noted = member.cautions();
            assert!(
                noted[0].contains("ON UPDATE SET NULL or SET DEFAULT"),
                "{noted:?}"
            );
            for whom in [user, None] {
                let refused = member.apply(whom).unwrap_err();
                assert!(matches!(refused, Error::WouldEmpty { .. }), "{refused:?}");
            }
            assert_eq!(member.rows(TABLES), before);

            // The way back, with a reference that was made meanwhile.
            member.sql(&["UPDATE remarks SET m = NULL, p = NULL, nick = NULL"]);
            let free = member.rows(TABLES);
            let applied = member.leave();
            member.sql(&[refers]);
            let hidden = member.rows(TABLES);
            let revealed = member.return_from(&applied);
            assert_eq!(member.rows(TABLES), hidden);
            let kept: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
            assert_eq!(kept, [KeptReason::Refused], "{revealed:?}");
            let said = revealed.kept[0].said.as_deref();
            assert!(said.unwrap().contains("rows of remarks"), "{said:?}");
            member.sql(&["UPDATE remarks SET m = NULL, p = NULL, nick = NULL"]);
            assert!(member.return_from(&applied).is_complete());
            assert_eq!(member.rows(TABLES), free);
        }
        moved_meanwhile(action);
    }
}

/// Rows that were made under a placeholder stay there, with what refers to them.
fn moved_meanwhile(action: &str) {
    let notes = "[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n";
    let mut member = member_with(action, &format!("{HEAD}{OWNER}"));
    member.sql(&[
        "DELETE FROM settings",
        "CREATE TABLE notes (id INT PRIMARY KEY, member INT REFERENCES members(id))",
        "INSERT INTO notes VALUES (8, 1)",
    ]);
    let mut member = member.again(&format!("{HEAD}{notes}"));
    let applied = member.leave();
    member.sql(&[
        "INSERT INTO settings SELECT member, 1, 5 FROM notes",
        "INSERT INTO remarks SELECT 6, 2, member, 1, NULL FROM notes",
    ]);
    let [settings, remarks] = member.rows(["settings", "remarks"]);
    member.return_from(&applied);
    assert_eq!(member.rows(["settings", "remarks"]), [settings, remarks]);
}
