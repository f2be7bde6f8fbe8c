//! Rows of nobody that refer to rows that go when everybody leaves.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{Dialect, Error, SpecFile};

use super::sample::Sample;
use super::society::{Society, description};

/// Rules of declared keys, the last for databases that check at the commit.
const KEYS: [&str; 4] = [
    "",
    "ON DELETE RESTRICT",
    "ON DELETE CASCADE",
    "DEFERRABLE INITIALLY DEFERRED",
];

/// 97 and 98 are nobody. Posts have an author and an editor who reads them, and belong to a blog;
/// replies have an author of their own; marks and stars are owned through posts and marks.
fn tables(key: &str) -> Vec<String> {
    let key = match crate::connect().dialect() {
        Dialect::Mysql => key.replace("DEFERRABLE INITIALLY DEFERRED", ""),
        _ => key.to_owned(),
    };
    [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE blogs (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        format!("CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, editor BIGINT, blog BIGINT, after BIGINT, FOREIGN KEY (blog) REFERENCES blogs(id) {key}, FOREIGN KEY (after) REFERENCES posts(id) {key})"),
        format!("CREATE TABLE replies (id BIGINT PRIMARY KEY, who BIGINT, post BIGINT NOT NULL, FOREIGN KEY (post) REFERENCES posts(id) {key})"),
        format!("CREATE TABLE marks (id BIGINT PRIMARY KEY, post BIGINT NOT NULL, FOREIGN KEY (post) REFERENCES posts(id) {key})"),
        format!("CREATE TABLE stars (id BIGINT PRIMARY KEY, mark BIGINT NOT NULL, FOREIGN KEY (mark) REFERENCES marks(id) {key})"),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
    ]
    .into()
}

const DESCRIBED: &str = "[tables.blogs]\nowners = [\"who\"]\n\
    [tables.posts]\nowners = [\"author\"]\nreaders = [\"editor\"]\n\
    [tables.replies]\nowners = [\"who\"]\n\
    [tables.marks]\nthrough = [\"post\"]\n[tables.stars]\nthrough = [\"mark\"]\n\
    [[remove]]\ntable = \"blogs\"\n[[remove]]\ntable = \"posts\"\n[[remove]]\ntable = \"replies\"\n\
    [[remove]]\ntable = \"marks\"\n[[remove]]\ntable = \"stars\"\n";

fn society(key: &str, rows: &[&str]) -> Society {
    let mut statements = tables(key);
    statements.extend(rows.iter().map(|it| (*it).to_owned()));
    Society::of(&statements, &description(DESCRIBED), &[1, 2])
}

/// Has everybody leave and return, and tells what stays meanwhile, as the cautions foretell.
fn stays(key: &str, rows: &[&str], staying: &[(&str, &[i64])]) {
    let mut sample = Sample::new();
    for chunk in [None, Some(1), Some(3)] {
        for returning in [[1, 2], [2, 1]] {
            if sample.passes_over() {
                continue;
            }
            let what = format!("{key} {chunk:?} {returning:?}");
            let mut society = society(key, rows);
            let spec = SpecFile::parse(&description(DESCRIBED)).unwrap().spec;
            let told = society
                .engine
                .preview()
                .cautions_of_nobody(&spec, &BTreeMap::new());
            let told = told.unwrap().concat();
            let done = society.try_to_leave(None, false, chunk);
            let done = done.unwrap_or_else(|error| panic!("{what} {error:?}"));
            let mut left = BTreeMap::new();
            for table in ["blogs", "posts", "replies", "marks", "stars"] {
                let there = society.numbers(&format!("SELECT id FROM {table} ORDER BY id"));
                let of = staying.iter().find(|(name, _)| *name == table);
                let expected: &[i64] = of.map_or(&[], |(_, ids)| ids);
                assert_eq!(there, expected, "{table} {what}");
                if !expected.is_empty() {
                    left.insert(table.to_owned(), u64::try_from(expected.len()).unwrap());
                }
                let is_told = told.contains(&format!("of {table} as before"));
                assert_eq!(is_told, !expected.is_empty(), "{told} {what}");
            }
            assert_eq!(done.of_nobody, left, "{what}");
            for user in returning {
                society.reveal(user, done.id);
            }
            society.try_again(&[(1, done.id), (2, done.id)].into());
            society.assert_as_before(&what);
        }
    }
}

/// A row of nobody went with its reader, and the rows that are owned through it stood in the way.
pub(crate) fn rows_owned_through_a_row_that_goes_with_its_reader_go_along() {
    let rows = [
        "INSERT INTO posts VALUES (1, 97, 2, NULL, NULL), (2, 97, NULL, NULL, NULL), (3, 1, NULL, NULL, NULL), (4, 97, 1, NULL, NULL)",
        "INSERT INTO marks VALUES (1, 1), (2, 2), (3, 3), (4, 1), (5, 4)",
        "INSERT INTO stars VALUES (1, 1), (2, 2), (3, 3), (4, 5)",
    ];
    for key in KEYS {
        stays(
            key,
            &rows,
            &[("posts", &[2]), ("marks", &[2]), ("stars", &[2])],
        );
    }
}

/// As above for rows with an owner of their own who is nobody, and for those of somebody under rows
/// that stay.
pub(crate) fn rows_of_nobody_go_along_with_rows_that_go() {
    let rows = [
        "INSERT INTO posts VALUES (1, 97, 2, NULL, NULL), (2, 97, NULL, NULL, NULL), (3, 1, NULL, NULL, NULL)",
        "INSERT INTO replies VALUES (1, 2, 1), (2, 98, 1), (3, 98, 2), (4, 2, 2), (5, 98, 3), (6, 1, 1)",
    ];
    for key in KEYS {
        stays(key, &rows, &[("posts", &[2]), ("replies", &[3])]);
    }
}

/// As above over several rows of nobody, in one table and in several.
pub(crate) fn rows_of_nobody_go_along_over_others_of_nobody() {
    let rows = [
        "INSERT INTO blogs VALUES (1, 2), (2, 97)",
        "INSERT INTO posts VALUES (1, 97, NULL, 1, NULL), (2, 97, NULL, 2, NULL), (3, 98, NULL, NULL, 1), (4, 98, NULL, NULL, 3), (5, 98, NULL, NULL, 2), (6, 1, NULL, NULL, 5), (7, 98, NULL, 2, 6)",
        "INSERT INTO replies VALUES (1, 98, 1), (2, 98, 2), (3, 98, 4), (4, 98, 7)",
        "INSERT INTO marks VALUES (1, 1), (2, 2), (3, 4), (4, 6), (5, 7)",
        "INSERT INTO stars VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
    ];
    for key in KEYS {
        stays(
            key,
            &rows,
            &[
                ("blogs", &[2]),
                ("posts", &[2, 5]),
                ("replies", &[2]),
                ("marks", &[2]),
                ("stars", &[2]),
            ],
        );
    }
}

/// As above with rows of several owners, and with accounts to which a row refers in another way than
/// by its people.
pub(crate) fn rows_of_nobody_go_along_with_shared_rows_and_with_accounts() {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE teams (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT, team BIGINT, sponsor BIGINT, FOREIGN KEY (team) REFERENCES teams(id) ON DELETE RESTRICT, FOREIGN KEY (sponsor) REFERENCES people(id) ON DELETE CASCADE)",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
        "INSERT INTO teams VALUES (1, 1, 2), (2, 97, 98), (3, 97, 2)",
        "INSERT INTO notes VALUES (1, 97, 1, NULL), (2, 97, 2, NULL), (3, 98, 3, NULL), (4, 97, NULL, 1), (5, 98, NULL, NULL), (6, 98, 2, 2)",
    ];
    let described = "[tables.teams]\nowners = [\"one\", \"two\"]\n[tables.notes]\nowners = [\"who\"]\n\
        [[remove]]\ntable = \"teams\"\n[[remove]]\ntable = \"notes\"\n";
    for chunk in [None, Some(1), Some(3)] {
        for returning in [[1, 2], [2, 1]] {
            let what = format!("{chunk:?} {returning:?}");
            let statements = statements.map(str::to_owned);
            let mut society = Society::of(&statements, &description(described), &[1, 2]);
            let id = society.try_to_leave(None, false, chunk).unwrap().id;
            assert_eq!(society.numbers("SELECT id FROM teams"), [2], "{what}");
            let left = society.numbers("SELECT id FROM notes ORDER BY id");
            assert_eq!(left, [2, 5], "{what}");
            for user in returning {
                society.reveal(user, id);
            }
            society.try_again(&[(1, id), (2, id)].into());
            society.assert_as_before(&what);
        }
    }
}

/// As above when somebody comes back between two chunks, and the rest goes on without them.
pub(crate) fn rows_of_nobody_stay_with_rows_of_whoever_came_back_meanwhile() {
    let rows = [
        "INSERT INTO blogs VALUES (1, 2), (2, 97)",
        "INSERT INTO posts VALUES (1, 97, 2, NULL, NULL), (2, 97, NULL, 1, NULL), (3, 1, NULL, NULL, 1), (4, 98, NULL, NULL, 3)",
        "INSERT INTO replies VALUES (1, 98, 1), (2, 98, 2), (3, 98, 3), (4, 2, 3), (5, 98, 4)",
        "INSERT INTO marks VALUES (1, 1), (2, 2), (3, 4)",
        "INSERT INTO stars VALUES (1, 1), (2, 3)",
    ];
    for key in ["ON DELETE RESTRICT", "ON DELETE CASCADE"] {
        for back in [1, 2] {
            let mut is_done = false;
            for chunks in (0..).step_by(crate::CUTS) {
                if is_done {
                    break;
                }
                let what = format!("{key} {back} {chunks}");
                let mut society = society(key, &rows);
                let id = society.begin_of_all();
                is_done = (0..chunks).any(|_| society.go_on(id, &what));
                society.reveal(back, id);
                while !is_done && !society.go_on(id, &what) {}
                society.try_again(&[(1, id), (2, id)].into());
                society.try_again(&[(1, id), (2, id)].into());
                society.assert_as_before(&what);
            }
        }
    }
}

/// A newcomer to the id of nobody gets no rows that were owned through one of theirs;
/// those wait. A row that named them itself names them again.
pub(crate) fn rows_that_went_along_wait_for_whoever_came_to_an_id_of_nobody() {
    let rows = [
        "INSERT INTO posts VALUES (1, 97, 2, NULL, NULL)",
        "INSERT INTO marks VALUES (1, 1)",
        "INSERT INTO replies VALUES (1, 97, 1)",
    ];
    for chunk in [None, Some(1)] {
        let mut society = society("ON DELETE RESTRICT", &rows);
        let id = society.try_to_leave(None, false, chunk).unwrap().id;
        society.reveal(1, id);
        society.sql("INSERT INTO people VALUES (97, 'new')");
        let revealed = society.reveal(2, id);
        let kept: Vec<&str> = revealed.kept.iter().map(|it| it.table.as_str()).collect();
        assert_eq!(kept, ["marks"], "{revealed:?}");
        assert_eq!(society.numbers("SELECT who FROM replies"), [97]);
        society.sql("DELETE FROM people WHERE id = 97");
        let revealed = society.reveal(2, id);
        assert!(revealed.is_complete(), "{revealed:?}");
        society.assert_as_before("the newcomer has gone");
    }
}

/// Rows of which the specification says nothing, because they name nobody at all, are in the way of
/// rows that go, and of no others. Nothing goes before that is known.
pub(crate) fn what_stands_in_the_way_of_everybody_is_found_before_anything_goes() {
    for key in ["ON DELETE RESTRICT", "ON DELETE CASCADE"] {
        for chunk in [None, Some(1)] {
            let what = format!("{key} {chunk:?}");
            let rows = [
                "INSERT INTO posts VALUES (1, 97, 2, NULL, NULL), (2, 97, NULL, NULL, NULL)",
                "INSERT INTO replies VALUES (1, 2, 1), (2, NULL, 1), (3, NULL, 2)",
                "INSERT INTO marks VALUES (1, 1)",
            ];
            let mut society = society(key, &rows);
            let none = BTreeMap::new();
            let told = society
                .engine
                .preview()
                .foretell(&society.spec, None, &none);
            let told = told.unwrap().concat();
            assert!(told.contains("rows of replies refer to these"), "{told}");
            let planned = society
                .engine
                .preview()
                .plan(&society.spec, None, &none)
                .unwrap();
            assert!(planned.iter().any(|it| !it.refused.is_empty()), "{what}");
            let before = society.everything();
            let refused = society.try_to_leave(None, false, chunk).unwrap_err();
            assert_eq!(society.everything(), before, "{what} {refused:?}");
            if chunk.is_some() {
                let is_named = match &refused {
                    Error::WouldOrphan { child, rows: 1, .. }
                    | Error::WouldCascade { child, rows: 1, .. } => child == "replies",
                    _ => false,
                };
                assert!(is_named, "{what} {refused:?}");
                assert_eq!(society.engine.chunks().unfinished().unwrap(), [], "{what}");
            }
            society.sql("DELETE FROM replies WHERE id = 2");
            let rest = society.everything();
            let id = society.try_to_leave(None, false, chunk).unwrap().id;
            society.reveal(1, id);
            society.reveal(2, id);
            assert_eq!(society.everything(), rest, "{what}");
        }
    }
}

/// A row of nobody that went along with a shared row came back with the one owner alone who had its record, and was lost when that
/// owner forgot. It comes back with whoever brings the shared row back, once.
pub(crate) fn a_row_of_nobody_comes_back_with_whoever_brings_the_shared_row_back() {
    let mut sample = Sample::new();
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE teams (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT)",
        "CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT, team BIGINT NOT NULL, FOREIGN KEY (team) REFERENCES teams(id))",
        "CREATE TABLE marks (id BIGINT PRIMARY KEY, who BIGINT, note BIGINT NOT NULL, FOREIGN KEY (note) REFERENCES notes(id))",
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO teams VALUES (1, 1, 2), (2, 3, 1), (3, 1, 97)",
        "INSERT INTO notes VALUES (1, 97, 1), (2, 98, 2), (3, 97, 3)",
        "INSERT INTO marks VALUES (1, 98, 1), (2, 97, 2), (3, 97, 3)",
    ]
    .map(str::to_owned);
    let described = description(
        "[tables.teams]\nowners = [\"one\", \"two\"]\n[tables.notes]\nowners = [\"who\"]\n\
         [tables.marks]\nowners = [\"who\"]\n[[remove]]\ntable = \"teams\"\n\
         [[remove]]\ntable = \"notes\"\n[[remove]]\ntable = \"marks\"\n",
    );
    let there = "SELECT teams.id FROM teams JOIN notes ON team = teams.id JOIN marks ON note = notes.id ORDER BY teams.id";
    let teams = "SELECT id FROM teams ORDER BY id";
    for chunk in [None, Some(1), Some(3)] {
        for is_left in [false, true] {
            for returning in [[1, 2, 3], [2, 3, 1], [3, 1, 2], [2, 1, 3]] {
                for forgets in [None, Some(returning[1]), Some(returning[2])] {
                    if sample.passes_over() {
                        continue;
                    }
                    let what = format!("{chunk:?} {is_left} {returning:?} {forgets:?}");
                    let mut society = Society::of(&statements, &described, &[1, 2, 3]);
                    // One owner may have left before the others.
                    let first = is_left.then(|| society.leave(3));
                    let all = society.try_to_leave(None, false, chunk).unwrap().id;
                    assert!(society.numbers(teams).is_empty(), "{what}");
                    let notes = society.numbers("SELECT id FROM notes");
                    assert!(notes.is_empty(), "{what}");
                    if let Some(forgets) = forgets {
                        society.forget_everything(forgets);
                    }
                    for user in returning.into_iter().filter(|it| Some(*it) != forgets) {
                        let id = first.filter(|_| user == 3).unwrap_or(all);
                        society.reveal(user, id);
                        let expected = society.numbers(teams);
                        assert_eq!(society.numbers(there), expected, "{what} {user}");
                        let counted = society.numbers("SELECT COUNT(*) FROM notes");
                        assert_eq!(counted, [i64::try_from(expected.len()).unwrap()], "{what}");
                    }
                    if forgets.is_none() {
                        let of_three = first.unwrap_or(all);
                        society.try_again(&[(1, all), (2, all), (3, of_three)].into());
                        society.assert_as_before(&what);
                    }
                }
            }
        }
    }
}
