//! Columns that name people and cannot hold or compare an id: ranges, spellings, declared keys, and ids that run out.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use probity_disguise::{Dialect, Error, SpecFile, Value};

use super::member::{Member, NOTES};
use super::whose_rows::{is_refused, member, texts};

/// C3: the id of a placeholder above what the column of another table holds ended every reveal with an error of the type. Such a
/// column names no placeholder, and the person returns.
pub(crate) fn a_column_too_narrow_for_a_placeholder_names_none() {
    let mut narrow = vec!["SMALLINT"];
    if crate::connect().dialect() == Dialect::Postgres {
        narrow.extend(["NUMERIC(4)", "VARCHAR(3)"]);
    }
    for of_like in narrow {
        let mut database = crate::connect();
        for sql in [
            "CREATE TABLE members (id INTEGER PRIMARY KEY)".to_owned(),
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, member INTEGER)".to_owned(),
            format!("CREATE TABLE likes (id INTEGER PRIMARY KEY, member {of_like})"),
            "INSERT INTO members VALUES (1), (2)".to_owned(),
            "INSERT INTO notes VALUES (1, 1), (2, 2)".to_owned(),
            "INSERT INTO likes VALUES (1, '1'), (2, '2')".to_owned(),
        ] {
            database.execute(&sql, &[]).unwrap();
        }
        let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
        let described = format!(
            "{head}[tables.likes]\nowners = [\"member\"]\n[[remove]]\ntable = \"likes\"\n[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n[[remove]]\ntable = \"members\"\n"
        );
        let mut member = Member::of(database, &described);
        member.leaves_and_returns(["members", "notes", "likes"]);
    }
}

/// H4: a person whose id is above what some column holds could never leave, for the database refused the comparison. They have no
/// row there, and leave and return, alone and behind so many placeholders that these are listed in a table.
pub(crate) fn whoever_has_an_id_too_great_for_a_column_has_no_row_there() {
    let mut types = vec![["BIGINT", "SMALLINT", "5000000000"]];
    if crate::connect().dialect() == Dialect::Postgres {
        types.extend([
            ["VARCHAR(20)", "INTEGER", "ada"],
            ["VARCHAR(20)", "UUID", "ada"],
            ["VARCHAR(20)", "OID", "ada"],
            ["VARCHAR(20)", "BIGINT", "1e17"],
            ["VARCHAR(20)", "REAL", "1e-60"],
        ]);
    }
    for [of_id, of_member, id] in types {
        let is_number = of_id == "BIGINT";
        let others = if is_number {
            "(5000000000), (7)"
        } else {
            "('ada'), ('7'), ('1e17'), ('1e-60')"
        };
        let note = match of_member {
            "UUID" => "(1, '00000000-0000-0000-0000-000000000007')",
            _ => "(1, '7')",
        };
        let name = if is_number {
            Value::Int(5_000_000_000)
        } else {
            Value::from(id)
        };
        let mut member = member(name, [of_id, of_member], [others, note]);
        let [notes] = member.rows(["notes"]);
        member.leaves_and_returns(["members", "notes"]);
        member.leave();
        assert_eq!(member.rows(["notes"]), [notes], "{of_id} {of_member}");
    }
}

/// C2: of two values that a column takes for one the database told one alone, so that the row of whoever is no user went along, or
/// the own one stayed. A value that is not the person's id letter by letter goes with nobody.
pub(crate) fn a_row_of_nobody_goes_with_no_namesake() {
    let [strict, loose] = texts();
    for rows in [
        "(1, 'bob'), (2, 'BOB'), (3, 'eve')",
        "(1, 'BOB'), (2, 'bob'), (3, 'eve')",
    ] {
        let mut member = member("bob".into(), [strict, loose], ["('bob'), ('eve')", rows]);
        is_refused(&mut member, "give it the type and collation");
        assert!(member.try_all_to_leave().is_err());
        member.sql(&["DELETE FROM notes WHERE member = 'bob' AND id <> 3"]);
        member.sql(&["INSERT INTO notes VALUES (4, 'bob')"]);
        member.leaves_and_returns(["members", "notes"]);
    }
}

/// C1: a declared key compares as the column does that it refers to, and the path to the owner as the other, so that a row of
/// somebody present went along. Such a path is refused by name.
pub(crate) fn a_declared_key_of_unlike_columns_is_no_path() {
    let [strict, loose] = texts();
    let dialect = crate::connect().dialect();
    let kinds: &[(&str, &str)] = match dialect {
        Dialect::Sqlite => &[(strict, loose), (loose, strict), ("TEXT", "INTEGER")],
        Dialect::Postgres => &[(strict, loose), (strict, "CHAR(20)")],
        // MariaDB takes no such key.
        _ => return,
    };
    for (of_page, of_verse) in kinds {
        let mut member = member(
            "bob".into(),
            [strict, strict],
            ["('bob'), ('eve')", "(1, 'bob')"],
        );
        let pages = format!("CREATE TABLE pages (id {of_page} PRIMARY KEY, member {strict})");
        let verses = format!(
            "CREATE TABLE verses (id BIGINT PRIMARY KEY, page {of_verse} REFERENCES pages (id))"
        );
        member.sql(&[&pages, &verses]);
        member.sql(&["INSERT INTO pages VALUES ('7', 'bob'), ('07', 'eve')"]);
        member.sql(&["INSERT INTO verses VALUES (1, '7')"]);
        let described = "[users]\ntable = \"members\"\nid = \"id\"\nplaceholder = { id = { RandStr = { len = 8 } } }
[tables.pages]\nowners = [\"member\"]
[tables.verses]\nthrough = [\"page\"]
[[remove]]\ntable = \"verses\"\n[[remove]]\ntable = \"pages\"\n";
        let file = SpecFile::parse(described).unwrap();
        let engine = member.described(file.schema, file.pseudo.unwrap());
        let mut member = member.over(engine).again(described);
        let before = member.rows(["verses", "pages"]);
        let refused = member.refusal();
        assert!(
            refused.contains("column page of verses compares otherwise than id of pages"),
            "{of_page} {of_verse}: {refused}"
        );
        assert!(member.try_to_leave().is_err());
        assert_eq!(member.rows(["verses", "pages"]), before);
    }
}

/// H3: a column that rounds or shortens the id of a placeholder named nobody from then on, and the row was lost to its person. The
/// disguise is refused, and nothing is changed.
pub(crate) fn a_column_that_alters_the_id_of_a_placeholder_gets_none() {
    let far = "RandNum = { lb = 1000000001, ub = 1000000031 }";
    let (of_member, far) = match crate::connect().dialect() {
        Dialect::Sqlite => ("REAL", "ConstNum = 9007199254740993"),
        Dialect::Postgres => ("REAL", far),
        _ => ("FLOAT", far),
    };
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)".to_owned(),
        format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, member {of_member})"),
        "INSERT INTO members VALUES (1), (2)".to_owned(),
        "INSERT INTO notes VALUES (1, 1), (2, 2)".to_owned(),
    ] {
        database.execute(&sql, &[]).unwrap();
    }
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let head = head.replacen("RandNum = { lb = 1000000, ub = 2000000000 }", far, 1);
    let described = format!("{head}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
    let mut member = Member::of(database, &described);
    let before = member.rows(["members", "notes"]);
    // The range has ids that the column keeps, so that a few tries may go through.
    let refused = (0..8).find_map(|_| {
        let left = member.try_to_leave();
        if let Ok(applied) = &left {
            assert!(member.return_from(applied).is_complete());
        }
        assert_eq!(member.rows(["members", "notes"]), before);
        left.err()
    });
    let refused = refused.unwrap().to_string();
    assert!(refused.contains("column member of notes"), "{refused}");
    assert_eq!(member.hidden_by(), 0);
}

/// H1: where the one value of a generator was in use, drawing ids never ended, inside the transaction. It ends with an error that
/// says which column lacks free ids.
pub(crate) fn ids_that_run_out_end_in_an_error() {
    for only in ["RandNum = { lb = 1000, ub = 1000 }", "ConstNum = 1000"] {
        let mut first = member(1.into(), ["BIGINT", "BIGINT"], ["(1), (1000)", "(1, 1)"]);
        let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
        let head = head.replacen("RandNum = { lb = 1000000, ub = 2000000000 }", only, 1);
        let described =
            format!("{head}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
        let file = SpecFile::parse(&described).unwrap();
        let engine = first.described(file.schema, file.pseudo.unwrap());
        let mut member = first.over(engine).again(&described);
        let before = member.rows(["members", "notes"]);
        let noted = member.cautions().concat();
        assert!(noted.contains("column id of members"), "{noted}");
        let refused = member.try_to_leave().unwrap_err().to_string();
        assert!(refused.contains("members"), "{refused}");
        assert!(refused.contains("no unused id in 16 tries"), "{refused}");
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}

/// `check` passed with a note, and a disguise ended in an error of the database, which compares no two values of such types. The
/// column is refused by name.
pub(crate) fn a_column_that_is_not_compared_with_the_ids_is_refused() {
    let uuid = "'00000000-0000-0000-0000-000000000007'";
    let pairs: &[[&str; 3]] = match crate::connect().dialect() {
        Dialect::Sqlite => return,
        Dialect::Postgres => &[
            ["BYTEA", "bigint", "'\\x07'"],
            ["BYTEA", "uuid", "'\\x07'"],
            ["BYTEA", "numeric(20,0)", "'\\x07'"],
            ["BYTEA", "real", "'\\x07'"],
            ["BYTEA", "oid", "'\\x07'"],
            ["BYTEA", "name", "'\\x07'"],
            ["BYTEA", "text", "'\\x07'"],
        ],
        _ => &[
            ["UUID", "smallint(6)", uuid],
            ["UUID", "decimal(14,3)", uuid],
            ["UUID", "date", uuid],
            ["INET6", "bigint(20)", "'::7'"],
            ["BIGINT", "uuid", "7"],
            ["DECIMAL(14,3)", "uuid", "7"],
        ],
    };
    for [of_id, of_member, id] in pairs {
        let name = match *of_id {
            "BYTEA" => Value::Bytes(vec![7]),
            "BIGINT" => Value::Int(7),
            "DECIMAL(14,3)" => Value::from("7.000"),
            _ => Value::from(id.trim_matches('\'')),
        };
        let rows = [&format!("({id})"), "(1, NULL)"];
        let mut member = member(name, [of_id, of_member], rows);
        let before = member.rows(["members", "notes"]);
        let refused = member.refusal();
        let said = format!("column member has the type {of_member}, which holds no id of members");
        assert!(refused.contains(&said), "{of_id} {of_member}: {refused}");
        let refused = member.try_to_leave();
        assert!(matches!(refused, Err(Error::Spec(_))), "{refused:?}");
        assert!(member.try_in_chunks(1).is_err());
        assert!(member.try_all_to_leave().is_err());
        assert_eq!(member.rows(["members", "notes"]), before);
    }
}
