//! Rows under placeholders that a disguise of everybody takes: they are told of, for perhaps nobody brings them back.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, SpecFile};

use super::forum::time;
use super::member::{Member, NOTES};
use super::society::{Society, description};

/// A person whose notes lie under placeholders, after they had everything forgotten.
fn forgotten() -> Member {
    let mut database = crate::connect();
    for sql in [
        "CREATE TABLE members (id BIGINT PRIMARY KEY)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, member BIGINT REFERENCES members(id))",
        "INSERT INTO members VALUES (1)",
        "INSERT INTO notes VALUES (6, 1), (7, 1)",
    ] {
        database.execute(sql, &[]).unwrap();
    }
    let (head, _) = NOTES.split_at(NOTES.find("[[remove]]").unwrap());
    let hide = format!("{head}[[decorrelate]]\ntable = \"notes\"\nowners = [\"member\"]\n");
    let mut member = Member::of(database, &hide);
    assert_eq!(
        member.engine.preview().caution_of_everybody().unwrap(),
        None
    );
    let applied = member.leave();
    assert!(applied.under_placeholders.is_empty());
    member.forget(None).unwrap();
    member
}

/// Rows of somebody who had everything forgotten went with a disguise of everybody, for good and
/// without a word. They are told of before and after.
pub(crate) fn rows_under_placeholders_are_told_of_when_everybody_leaves() {
    let notes = NOTES.replacen("[[remove]]\ntable = \"members\"\n", "", 1);
    let file = SpecFile::parse(&notes).unwrap();
    for chunk in [None, Some(1)] {
        let mut member = forgotten();
        let noted = member
            .engine
            .preview()
            .cautions(&file.spec)
            .unwrap()
            .concat();
        assert!(
            noted.contains("there are placeholders in members"),
            "{noted}"
        );
        let request = ApplyRequest {
            spec: &file.spec,
            user: None,
            over: None,
            expires: None,
            parameters: BTreeMap::new(),
            time: time(),
        };
        let applied = match chunk {
            None => member.engine.apply(&request).unwrap(),
            Some(rows) => {
                let done = member.engine.chunks().apply(&request, rows, time);
                done.map_err(|halted| halted.cause).unwrap()
            }
        };
        let expected = BTreeMap::from([("notes".to_owned(), 2)]);
        assert_eq!(applied.rows, expected, "{chunk:?}");
        assert_eq!(applied.under_placeholders, expected, "{chunk:?}");
    }
}

/// Two people with these posts, of whom `gone` are under placeholders, and everybody about to be disguised by `step`.
fn posts(rows: &str, gone: &[i64], step: &str) -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, body VARCHAR(20))"
            .to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        format!("INSERT INTO posts VALUES {rows}"),
    ];
    let all = description("[tables.posts]\nowners = [\"one\", \"two\"]\n");
    let (head, _) = all.split_at(all.find("[[remove]]").unwrap());
    let owners = "owners = [\"one\", \"two\"]\n";
    let hidden = format!("{head}[[decorrelate]]\ntable = \"posts\"\n{owners}");
    let mut society = Society::of(&statements, &hidden, &[1, 2]);
    for user in gone {
        society.leave(*user);
    }
    society.spec = SpecFile::parse(&format!("{head}{step}")).unwrap().spec;
    society
}

/// Each owner's record of a row counted, the living one's, too: more rows were said to be gone than there were.
pub(crate) fn a_row_under_placeholders_counts_once_and_only_if_nobody_else_has_it() {
    let rows = "(1, 1, 2, 'x'), (2, 2, 1, 'y'), (3, 1, NULL, 'z')";
    let overwrite =
        "[[modify]]\ntable = \"posts\"\ncolumn = \"body\"\nvalue = { ConstStr = \"\" }\n";
    let remove = "[[remove]]\ntable = \"posts\"\n";
    for step in [remove, overwrite] {
        for (gone, under) in [(&[1, 2][..], 3), (&[1], 1), (&[2], 0)] {
            for chunk in [None, Some(1)] {
                let mut society = posts(rows, gone, step);
                let applied = society.try_to_leave(None, false, chunk).unwrap();
                let told = applied.under_placeholders.get("posts").copied();
                assert_eq!(applied.rows["posts"], 3, "{gone:?} {chunk:?} {step}");
                assert_eq!(told.unwrap_or(0), under, "{gone:?} {chunk:?} {step}");
            }
        }
    }
}

/// The value went with the first owner, although that was a placeholder that perhaps nobody speaks for: the living owner never
/// got it back.
pub(crate) fn a_value_of_two_owners_goes_with_the_one_who_is_no_placeholder() {
    let step = "[[modify]]\ntable = \"posts\"\ncolumn = \"body\"\nvalue = { ConstStr = \"\" }\n";
    for rows in ["(1, 1, 2, 'x')", "(1, 2, 1, 'x')"] {
        for chunk in [None, Some(1)] {
            let mut society = posts(rows, &[1], step);
            let before = society.everything();
            let id = society.try_to_leave(None, false, chunk).unwrap().id;
            assert_ne!(society.everything(), before, "{rows} {chunk:?}");
            assert!(society.reveal(2, id).is_complete(), "{rows} {chunk:?}");
            assert_eq!(society.everything(), before, "{rows} {chunk:?}");
        }
    }
}
