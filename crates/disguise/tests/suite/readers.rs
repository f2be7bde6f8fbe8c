//! Readers who are behind placeholders when the row is taken away, and who come back before or after it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{DisguiseId, Error, KeptReason, SpecFile};

use super::sample::Sample;
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
    let mut sample = Sample::new();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT NOT NULL REFERENCES people(id), editor BIGINT REFERENCES people(id))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO posts VALUES (7, 2, 1)",
    ]
    .map(str::to_owned);
    let tables = "[tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n";
    let all = description(&format!("{tables}[[remove]]\ntable = \"posts\"\n"));
    let hidden = all.split("[[remove]]").next().unwrap().to_owned()
        + "[[decorrelate]]\ntable = \"posts\"\nowners = [\"editor\"]\n";
    for order in ORDERS {
        if sample.passes_over() {
            continue;
        }
        let mut society = Society::of(&statements, &hidden, &[1, 2]);
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

/// The first of two owners took a shared row back from a copy, without its readers, and the record of these lay where no reveal of
/// that owner came again: the readers were lost for ever.
pub(crate) fn a_shared_row_that_came_back_without_its_readers_gets_them() {
    let mut sample = Sample::new();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT, more BIGINT)",
        "CREATE TABLE drafts (id BIGINT PRIMARY KEY, author BIGINT, proof BIGINT)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')",
        "INSERT INTO notes VALUES (1, 1, 2, 3, 4), (2, 1, 2, 3, 3)",
        "INSERT INTO drafts VALUES (1, 1, 3), (2, 2, 4)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.notes]\nowners = [\"one\", \"two\"]\nreaders = [\"proof\", \"more\"]\n\
         [tables.drafts]\nowners = [\"author\"]\nreaders = [\"proof\"]\n\
         [[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"drafts\"\n",
    );
    for returning in [[1, 2, 3, 4], [2, 1, 4, 3], [1, 3, 2, 4], [3, 2, 4, 1]] {
        // The key of a reader may have changed between the two leavings.
        for changes in [false, true] {
            if sample.passes_over() {
                continue;
            }
            let mut society = Society::of(&statements, &described, &[1, 2, 3, 4]);
            let mut gone = std::collections::BTreeMap::from([(1, society.leave(1))]);
            if changes {
                society.rekey(3);
            }
            gone.extend([2, 3, 4].map(|user| (user, society.leave(user))));
            for user in returning {
                society.reveal(user, gone[&user]);
            }
            society.try_again(&gone);
            society.try_again(&gone);
            society.assert_as_before(&format!("{returning:?} {changes}"));
        }
    }
}
