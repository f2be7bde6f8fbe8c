//! Readers who are behind placeholders when the row is taken away, and who come back before or after it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{DisguiseId, Error, Kept, KeptReason, SpecFile};

use super::society::{Society, description};

/// Every order of three.
const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Reveals the disguises in this order, again and again until nothing is hidden any more.
fn returned(society: &mut Society, all: [(i64, DisguiseId); 3], order: [usize; 3]) {
    for _ in 0..3 {
        for place in order {
            let (user, id) = all[place];
            match society.try_to_return(user, id) {
                // Whoever has nothing left and no account cannot say who they are.
                Ok(_) | Err(Error::WrongCredential) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    society.assert_as_before(&format!("{order:?}"));
}

/// A row came back without its editor, whose placeholder was away, and the editor's record took the empty column for a change of the
/// application and let the placeholder go, for which the row's own record waited: the reference was lost for ever. The placeholder is
/// waited for, and stays, while the column names nobody.
pub(crate) fn a_row_that_came_back_without_its_reader_gets_them_in_any_order() {
    for null in ["", " NOT NULL"] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT NOT NULL REFERENCES people(id), editor BIGINT{null} REFERENCES people(id))"
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
            "INSERT INTO posts VALUES (7, 2, 1)".to_owned(),
        ];
        in_any_order(&statements);
    }
}

fn in_any_order(statements: &[String]) {
    let tables = "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n";
    let all = description(&format!("{tables}[[remove]]\ntable = \"posts\"\n"));
    let hidden = all.split("[[remove]]").next().unwrap().to_owned()
        + "[[decorrelate]]\ntable = \"posts\"\nowners = [\"editor\"]\n";
    for order in ORDERS {
        let mut society = Society::of(statements, &hidden, &[1, 2]);
        let older = society.leave(1);
        society.spec = SpecFile::parse(&all).unwrap().spec;
        let newer = society.try_to_leave(None, false, None).unwrap().id;
        if order == [0, 1, 2] {
            society.reveal(2, newer);
            society.reveal(1, newer);
            let revealed = society.reveal(1, older);
            let kept: Vec<KeptReason> = revealed.kept.iter().map(|it| it.reason).collect();
            assert_eq!(kept, [KeptReason::Emptied], "{revealed:?}");
        }
        returned(&mut society, [(2, newer), (1, newer), (1, older)], order);
    }
}

/// As above for a reference to somebody who left, replaced by a placeholder. When everybody left,
/// no order of coming back restored the reference.
pub(crate) fn a_user_who_came_back_without_whom_they_refer_to_gets_them_in_any_order() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), invited_by BIGINT REFERENCES people(id))",
        "INSERT INTO people VALUES (5, 'five', NULL)",
        "INSERT INTO people VALUES (4, 'four', 5)",
    ]
    .map(str::to_owned);
    let leaving = description("[tables.people]\non_leave = { invited_by = \"placeholder\" }\n");
    for order in ORDERS {
        for everybody in [true, false] {
            let mut society = Society::of(&statements, &leaving, &[4, 5]);
            let older = society.leave(5);
            let whom = (!everybody).then_some(4);
            let newer = society.try_to_leave(whom, false, None).unwrap().id;
            returned(&mut society, [(4, newer), (5, newer), (5, older)], order);
        }
    }
}

/// A row that must name its editor went with its author. The editor left, too, and had everything forgotten: the row waited for an
/// account that never came. It comes back with a placeholder in the editor's place, which an editor who is only away replaces.
pub(crate) fn a_row_comes_back_without_a_reader_whom_it_must_name() {
    for (id, one, two) in [("BIGINT", "1", "2"), ("VARCHAR(20)", "'1'", "'2'")] {
        let statements = [
            format!("CREATE TABLE people (id {id} PRIMARY KEY, name VARCHAR(20))"),
            format!(
                "CREATE TABLE posts (id BIGINT PRIMARY KEY, author {id} NOT NULL REFERENCES people(id), editor {id} NOT NULL REFERENCES people(id))"
            ),
            format!(
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, one {id}, two {id}, proof {id} NOT NULL)"
            ),
            format!("INSERT INTO people VALUES ({one}, 'one'), ({two}, 'two')"),
            format!(
                "INSERT INTO posts VALUES (7, {one}, {two}), (8, {one}, {two}), (9, {two}, {one})"
            ),
            format!("INSERT INTO notes VALUES (4, {one}, {one}, {two}), (5, {two}, NULL, {one})"),
        ];
        let described = description(
            "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n\
             [tables.notes]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\"]\n\
             [[remove]]\ntable = \"posts\"\n[[remove]]\ntable = \"notes\"\n",
        );
        let described = if id == "BIGINT" {
            described
        } else {
            described.replacen(
                "RandNum = { lb = 1000000, ub = 2000000000 }",
                "RandStr = { len = 9 }",
                1,
            )
        };
        for chunk in [None, Some(1)] {
            let made = if id == "BIGINT" {
                Society::of
            } else {
                Society::of_texts
            };
            let mut society = made(&statements, &described, &[1, 2]);
            let gone =
                [1, 2].map(|user| society.try_to_leave(Some(user), false, chunk).unwrap().id);
            // The row comes back at once, and again after another leaving.
            let revealed = society.reveal(1, gone[0]);
            let is_waiting = |it: &&Kept| it.reason == KeptReason::OwnerMissing;
            let waiting = revealed.kept.iter().filter(is_waiting);
            assert_eq!(waiting.count(), 3, "{revealed:?}");
            let theirs = format!(
                "SELECT COUNT(*) FROM posts JOIN people ON people.id = editor WHERE author = {one} AND editor <> {two}"
            );
            assert_eq!(society.numbers(&theirs), [2], "{id} {chunk:?}");
            let proofs = format!(
                "SELECT COUNT(*) FROM notes JOIN people ON people.id = proof WHERE one = {one}"
            );
            assert_eq!(society.numbers(&proofs), [1], "{id} {chunk:?}");
            let again = society.try_to_leave(Some(1), false, chunk).unwrap().id;
            assert_eq!(society.numbers(&theirs), [0], "{id} {chunk:?}");
            society.reveal(1, again);
            assert_eq!(society.numbers(&theirs), [2], "{id} {chunk:?}");
            // Once the editor is back, the placeholders go.
            let back = society.reveal(2, gone[1]);
            assert!(back.is_complete(), "{back:?}");
            for id in [gone[0], again] {
                society.reveal(1, id);
            }
            society.assert_as_before(&format!("{id} {chunk:?}"));
            // An editor who had everything forgotten does not come back.
            let first = society.try_to_leave(Some(1), false, chunk).unwrap().id;
            society.leave(2);
            society.forget(2);
            society.reveal(1, first);
            assert_eq!(society.numbers(&theirs), [2], "{id} {chunk:?}");
            society.reveal(1, first);
            assert_eq!(society.numbers(&theirs), [2], "{id} {chunk:?}");
        }
    }
}

/// The first of two owners took a shared row back from a copy, without its readers, and the record of these lay where no reveal of
/// that owner came again: the readers were lost for ever.
pub(crate) fn a_shared_row_that_came_back_without_its_readers_gets_them() {
    for null in ["", " NOT NULL"] {
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!(
                "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT{null}, more BIGINT{null})"
            ),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')"
                .to_owned(),
            "INSERT INTO notes VALUES (1, 1, 2, 3, 4), (2, 1, 2, 3, 3)".to_owned(),
        ];
        let described = description(
            "[tables.notes]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\", \"more\"]\n\
             [[remove]]\ntable = \"notes\"\n",
        );
        for returning in [[1, 2, 3, 4], [2, 1, 4, 3], [1, 3, 2, 4], [3, 2, 4, 1]] {
            let mut society = Society::of(&statements, &described, &[1, 2, 3, 4]);
            let gone = [1, 2, 3, 4].map(|user| (user, society.leave(user)));
            for user in returning {
                let (_, id) = gone[usize::try_from(user - 1).unwrap()];
                society.reveal(user, id);
            }
            society.try_again(&gone.into());
            society.try_again(&gone.into());
            society.assert_as_before(&format!("{null} {returning:?}"));
        }
    }
}
