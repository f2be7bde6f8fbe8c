//! Ids, owners and keys that a column stores in another form than they were drawn in, and identities that are those of several rows.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, KeptReason, References, Revealed, Value};

use super::member::{Member, NOTES};

/// Types of ids and of owner columns that store a drawn number in forms of their own.
fn forms(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Sqlite => &[
            ("TEXT", "TEXT"),
            ("REAL", "REAL"),
            ("VARCHAR(40) COLLATE NOCASE", "VARCHAR(40) COLLATE NOCASE"),
            ("INTEGER", "TEXT"),
            ("INTEGER", "VARCHAR(30)"),
            ("INTEGER", "REAL"),
        ],
        Dialect::Postgres => &[
            ("VARCHAR(30)", "VARCHAR(30)"),
            ("CHAR(12)", "CHAR(12)"),
            ("NUMERIC", "INT"),
            ("NUMERIC", "BIGINT"),
            ("NUMERIC", "NUMERIC(14,3)"),
        ],
        _ => &[
            ("VARCHAR(30)", "VARCHAR(30)"),
            ("CHAR(12)", "CHAR(12)"),
            ("DOUBLE", "DOUBLE"),
        ],
    }
}

/// The id 7 as an application of such a column has it.
fn seven(id: &str) -> Value {
    match id {
        "INTEGER" | "NUMERIC" | "REAL" | "DOUBLE" => Value::Int(7),
        _ => Value::from("7"),
    }
}

/// Members 7 and 8, and a note of the first.
fn opened(id: &str, owner: &str, description: &str) -> Member {
    let mut database = crate::connect();
    for sql in [
        format!("CREATE TABLE members (id {id} NOT NULL PRIMARY KEY)"),
        format!(
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, member {owner} NOT NULL, what VARCHAR(20), FOREIGN KEY (member) REFERENCES members (id))"
        ),
        "INSERT INTO members VALUES ('7'), ('8')".to_owned(),
        "INSERT INTO notes VALUES (1, '7', 'before'), (2, '7', 'too'), (3, '8', 'other')"
            .to_owned(),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    Member::called(seven(id), database, description)
}

fn decorrelating() -> String {
    let (users, _) = NOTES.split_once("[[remove]]").unwrap();
    format!("{users}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n")
}

/// C1: a record said of an owner what was drawn, and the column stored it as a text, a decimal or a number of its own. The reveal
/// took the person's rows for changed by the application, and `--references delete` destroyed them.
pub(crate) fn owners_come_back_in_whatever_form_their_columns_store_placeholders() {
    let dialect = crate::connect().dialect();
    for (id, owner) in forms(dialect) {
        for references in [References::Recorrelate, References::Delete] {
            let mut member = opened(id, owner, &decorrelating());
            let before = member.rows(["members", "notes"]);
            let applied = member.leave();
            assert_ne!(member.rows(["members", "notes"]), before);
            let revealed = member.return_by(&applied, references);
            let about = format!("{id}, {owner}, {references:?}: {revealed:?}");
            assert!(revealed.is_complete(), "{about}");
            assert!(revealed.deleted.is_empty(), "{about}");
            assert_eq!(member.rows(["members", "notes"]), before, "{about}");
            assert_eq!(member.hidden_by(), 0, "{about}");
        }
        // A row made under the placeholder goes, and no other.
        let mut member = opened(id, owner, &decorrelating());
        let before = member.rows(["members", "notes"]);
        let applied = member.leave();
        member.sql(&["INSERT INTO notes SELECT 9, member, 'meanwhile' FROM notes WHERE id = 2"]);
        let revealed = member.return_by(&applied, References::Delete);
        let about = format!("{id}, {owner}: {revealed:?}");
        assert!(revealed.is_complete(), "{about}");
        assert_eq!(revealed.deleted.values().sum::<u64>(), 1, "{about}");
        assert_eq!(member.rows(["members", "notes"]), before, "{about}");
    }
}

/// H4: a row from before that the application gave to another placeholder of the same person looked like one made under that
/// placeholder, and was deleted with it. A row of which a record speaks is from before.
pub(crate) fn a_row_that_a_record_speaks_of_is_not_deleted_with_another_placeholder() {
    let mut member = opened("BIGINT", "BIGINT", &decorrelating());
    let before = member.rows(["members", "notes"]);
    let applied = member.leave();
    member.sql(&["UPDATE notes SET member = (SELECT m FROM (SELECT member AS m FROM notes WHERE id = 2) q) WHERE id = 1"]);
    let revealed = member.return_by(&applied, References::Delete);
    assert!(revealed.deleted.is_empty(), "{revealed:?}");
    assert_eq!(member.rows(["notes"]), [before.last().unwrap().clone()]);
}

/// H5: a key that was overwritten was looked for as it was drawn, and stored as a text or a number of its own. Its row was never
/// found again, in silence at the apply and as a row that is not there at each reveal.
pub(crate) fn a_key_that_was_overwritten_comes_back_in_whatever_form_it_is_stored() {
    let dialect = crate::connect().dialect();
    let number = "{ RandNum = { lb = 1000000, ub = 2000000000 } }";
    let text = "{ RandStr = { len = 6 } }";
    let keys: &[(&str, &str)] = match dialect {
        Dialect::Sqlite => &[("TEXT", number), ("REAL", number)],
        Dialect::Postgres => &[("VARCHAR(30)", number), ("CHAR(12)", text)],
        _ => &[("VARCHAR(30)", number), ("DOUBLE", number)],
    };
    for (key, generator) in keys {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE members (id BIGINT PRIMARY KEY)".to_owned(),
            format!(
                "CREATE TABLE notes (code {key} NOT NULL PRIMARY KEY, member BIGINT, what VARCHAR(9))"
            ),
            "INSERT INTO members VALUES (1), (2)".to_owned(),
            "INSERT INTO notes VALUES ('11', 1, 'a'), ('12', 1, 'b'), ('13', 2, 'c')".to_owned(),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        let (users, _) = NOTES.split_once("[[remove]]").unwrap();
        let description = format!(
            "{users}[[modify]]\ntable = \"notes\"\ncolumn = \"code\"\nvalue = {generator}\n[[modify]]\ntable = \"notes\"\ncolumn = \"what\"\nvalue = {{ ConstStr = \"gone\" }}\n"
        );
        Member::of(database, &description).leaves_and_returns(["members", "notes"]);
    }
}

/// C4: rows were written and deleted by an identity that nothing held to mean one row, such as a column that is not unique. A row of
/// another person with the same value was overwritten for good.
pub(crate) fn an_identity_that_several_rows_may_have_is_refused() {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, slug VARCHAR(20) NOT NULL, member BIGINT, what VARCHAR(9))",
        "INSERT INTO members VALUES (1), (2)",
        "INSERT INTO notes VALUES (6, 'one', 1, 'a'), (7, 'one', 2, 'b')",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let (users, _) = NOTES.split_once("[[remove]]").unwrap();
    let description = format!(
        "{users}identity = [\"slug\"]\n[[modify]]\ntable = \"notes\"\ncolumn = \"what\"\nvalue = {{ ConstStr = \"gone\" }}\n"
    );
    let mut member = Member::of(database, &description);
    let before = member.rows(["notes"]);
    let refusal = member.refusal();
    let said = "several rows of notes may have one identity (slug)";
    assert!(refusal.contains(said), "{refusal}");
    assert!(member.try_to_leave().is_err());
    assert_eq!(member.rows(["notes"]), before);
    // The database holds to it from here on.
    member.sql(&[
        "UPDATE notes SET slug = 'two' WHERE id = 7",
        "CREATE UNIQUE INDEX slugs ON notes (slug)",
    ]);
    member.leaves_and_returns(["members", "notes"]);
    // What was hidden by a key that is gone since stays until it is there again.
    let before = member.rows(["notes"]);
    let applied = member.leave();
    let on = match member.engine.database().dialect() {
        Dialect::Mysql => " ON notes",
        _ => "",
    };
    member.sql(&[
        &format!("DROP INDEX slugs{on}"),
        "UPDATE notes SET slug = 'one', what = 'gone' WHERE id = 7",
    ]);
    let reasons = |revealed: Revealed| -> Vec<KeptReason> {
        revealed.kept.iter().map(|it| it.reason).collect()
    };
    assert_eq!(
        reasons(member.return_from(&applied)),
        [KeptReason::KeyChanged]
    );
    member.sql(&[
        "UPDATE notes SET slug = 'two', what = 'b' WHERE id = 7",
        "CREATE UNIQUE INDEX slugs ON notes (slug)",
    ]);
    assert!(member.return_from(&applied).is_complete());
    assert_eq!(member.rows(["notes"]), before);
}

/// C4: where nothing holds the column of the users' ids to be unique, two people have one id, and each leaves with the rows of both.
pub(crate) fn an_id_that_several_users_may_have_is_refused() {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (serial BIGINT PRIMARY KEY, id BIGINT NOT NULL)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT)",
        "INSERT INTO members VALUES (11, 1), (12, 1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let mut member = Member::of(database, &decorrelating());
    let refusal = member.refusal();
    assert!(
        refusal.contains("several rows of members may have one id"),
        "{refusal}"
    );
    member.sql(&[
        "DELETE FROM members WHERE serial = 12",
        "CREATE UNIQUE INDEX ids ON members (id)",
    ]);
    assert!(member.cautions().is_empty());
}
