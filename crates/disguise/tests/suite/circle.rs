//! Rows that refer to each other in a circle.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Database as _, Dialect, KeptReason};

use super::member::Member;

/// Albums have a cover among their pictures, pictures have an album, and users have a picture.
const DESCRIPTION: &str = r#"
[users]
table = "members"
id = "id"
placeholder = { id = { RandNum = { lb = 1000000, ub = 9000000000000 } } }
[tables.members]
references = [{ columns = ["face"], table = "pictures", to = ["id"] }]
[tables.albums]
owners = ["member"]
references = [{ columns = ["cover"], table = "pictures", to = ["id"] }]
[tables.pictures]
owners = ["member"]
references = [{ columns = ["album"], table = "albums", to = ["id"] }]
[[remove]]
table = "pictures"
[[remove]]
table = "albums"
[[remove]]
table = "members"
"#;

/// `MariaDB` would refuse to remove rows that refer to each other, so that there the description alone speaks of it.
fn tables(dialect: Dialect) -> Vec<String> {
    let refers = |table: &str| match dialect {
        Dialect::Mysql => String::new(),
        _ => format!("REFERENCES {table}(id) DEFERRABLE INITIALLY IMMEDIATE"),
    };
    let mut tables = vec![
        "CREATE TABLE members (id BIGINT PRIMARY KEY, face BIGINT)".to_owned(),
        format!(
            "CREATE TABLE albums (id BIGINT PRIMARY KEY, member BIGINT {}, cover BIGINT)",
            refers("members")
        ),
        format!(
            "CREATE TABLE pictures (id BIGINT PRIMARY KEY, member BIGINT {}, album BIGINT NOT NULL {}, hash BIGINT UNIQUE)",
            refers("members"),
            refers("albums")
        ),
    ];
    if dialect == Dialect::Sqlite {
        for (table, column) in [(0, "face"), (1, "cover")] {
            let column = format!("{column} BIGINT");
            let declared = format!("{column} {}", refers("pictures"));
            tables[table] = tables[table].replace(&column, &declared);
        }
    } else if dialect == Dialect::Postgres {
        for (table, column) in [("members", "face"), ("albums", "cover")] {
            tables.push(format!(
                "ALTER TABLE {table} ADD FOREIGN KEY ({column}) {}",
                refers("pictures")
            ));
        }
    }
    tables
}

pub(crate) fn rows_that_refer_to_each_other_in_a_circle_come_back_in_one_reveal() {
    let mut database = crate::connect();
    for sql in tables(database.dialect()) {
        database.execute(&sql, &[]).unwrap();
    }
    for sql in [
        "INSERT INTO members VALUES (1, NULL), (2, NULL)",
        "INSERT INTO albums VALUES (10, 1, NULL), (11, 1, NULL), (20, 2, NULL)",
        "INSERT INTO pictures VALUES (100, 1, 10, 7), (101, 1, 11, 8), (102, 1, 10, 9), (200, 2, 20, 10)",
        "UPDATE members SET face = 102 WHERE id = 1",
        "UPDATE albums SET cover = 101 WHERE id = 10",
        "UPDATE albums SET cover = 100 WHERE id = 11",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, DESCRIPTION);
    let tables = ["members", "albums", "pictures"];
    let before = member.rows(tables);
    let applied = member.leave();
    assert_eq!(member.rows(tables).map(|rows| rows.len()), [1, 1, 1]);
    // One row of the circle cannot come back, so that none can; the account begins without them.
    let database = member.engine.database();
    let taken = "INSERT INTO pictures VALUES (300, 2, 20, 8)";
    database.execute(taken, &[]).unwrap();
    let kept = member.return_from(&applied).kept;
    let rows = kept.iter().filter(|it| it.column.is_none());
    assert_eq!(rows.count(), 5, "{kept:?}");
    assert!(kept.iter().all(|it| it.reason == KeptReason::ParentMissing));
    assert_eq!(member.rows(tables).map(|rows| rows.len()), [2, 1, 2]);
    let database = member.engine.database();
    let free = "DELETE FROM pictures WHERE id = 300";
    database.execute(free, &[]).unwrap();
    let revealed = member.return_from(&applied);
    assert!(revealed.is_complete(), "{revealed:?}");
    assert_eq!(member.rows(tables), before);
}

/// D3: who came back in a circle of references was not registered, so that neither they nor anybody else could be disguised
/// any more, and the disguise stayed in the list for ever. It makes no difference who comes back in which way.
pub(crate) fn whoever_comes_back_in_a_circle_is_registered_and_may_leave_again() {
    for declared in [true, false] {
        let mut database = crate::connect();
        let dialect = if declared {
            database.dialect()
        } else {
            Dialect::Mysql
        };
        for sql in tables(dialect) {
            database.execute(&sql, &[]).unwrap();
        }
        for sql in [
            "INSERT INTO members VALUES (1, NULL)",
            "INSERT INTO albums VALUES (10, 1, NULL)",
            "INSERT INTO pictures VALUES (100, 1, 10, 7)",
            "UPDATE members SET face = 100 WHERE id = 1",
        ] {
            database.execute(sql, &[]).unwrap();
        }
        let mut member = Member::of(database, DESCRIPTION);
        member.leaves_and_returns(["members", "albums", "pictures"]);
    }
}
