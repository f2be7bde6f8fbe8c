//! Rows under placeholders that a disguise of everybody takes: they are told of, for perhaps nobody brings them back.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{ApplyRequest, SpecFile};

use super::forum::time;
use super::member::{Member, NOTES};

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
    assert_eq!(member.engine.caution_of_everybody().unwrap(), None);
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
        let noted = member.engine.cautions(&file.spec).unwrap().concat();
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
                let done = member.engine.apply_in_chunks(&request, rows, time);
                done.map_err(|halted| halted.cause).unwrap()
            }
        };
        let expected = BTreeMap::from([("notes".to_owned(), 2)]);
        assert_eq!(applied.rows, expected, "{chunk:?}");
        assert_eq!(applied.under_placeholders, expected, "{chunk:?}");
    }
}
