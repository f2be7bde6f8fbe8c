//! Rows of several owners that refer to each other in a circle.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Dialect, DisguiseId, KeptReason, Revealed};

use super::sample::Sample;
use super::society::{Society, description};

/// Both leave, both return; the first place is that of who comes first.
const ORDERS: [[i64; 2]; 2] = [[1, 2], [2, 1]];

/// Folders have a cover among their files, and files have a folder; both may name two people.
/// `MariaDB` would refuse to remove such rows by declared keys, and so would each database where a
/// chunk takes a part of them, so that there the description alone speaks of the keys.
fn tables(rows: &[&str], chunk: Option<u32>) -> Vec<String> {
    let dialect = match chunk {
        Some(_) => Dialect::Mysql,
        None => crate::connect().dialect(),
    };
    let refers = match dialect {
        Dialect::Mysql => "",
        _ => "REFERENCES folders(id) DEFERRABLE INITIALLY IMMEDIATE",
    };
    let (at_once, later) = match dialect {
        Dialect::Sqlite => ("REFERENCES files(id)", None),
        Dialect::Postgres => (
            "",
            Some(
                "ALTER TABLE folders ADD FOREIGN KEY (cover) REFERENCES files(id) DEFERRABLE INITIALLY IMMEDIATE",
            ),
        ),
        _ => ("", None),
    };
    let mut tables = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        format!(
            "CREATE TABLE folders (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, cover BIGINT {at_once})"
        ),
        format!(
            "CREATE TABLE files (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, folder BIGINT NOT NULL {refers}, hash BIGINT UNIQUE)"
        ),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')".to_owned(),
    ];
    tables.extend(
        later
            .into_iter()
            .chain(rows.iter().copied())
            .map(str::to_owned),
    );
    tables
}

const FOLDERS: &str = "[tables.folders]\nowners = [\"one\", \"two\"]\n\
    references = [{ columns = [\"cover\"], table = \"files\", to = [\"id\"] }]\n\
    [tables.files]\nowners = [\"one\", \"two\"]\n\
    references = [{ columns = [\"folder\"], table = \"folders\", to = [\"id\"] }]\n\
    [[remove]]\ntable = \"files\"\n[[remove]]\ntable = \"folders\"\n";

/// Two folders of both, whose covers lie in the other one, and a third file.
const BOTH: [&str; 4] = [
    "INSERT INTO folders VALUES (10, 1, 2, NULL), (11, 2, 1, NULL)",
    "INSERT INTO files VALUES (100, 1, 2, 10, 7), (101, 2, 1, 11, 8), (102, 1, 2, 10, 9)",
    "UPDATE folders SET cover = 101 WHERE id = 10",
    "UPDATE folders SET cover = 100 WHERE id = 11",
];

fn folders(rows: &[&str], chunk: Option<u32>) -> Society {
    Society::of(&tables(rows, chunk), &description(FOLDERS), &[1, 2, 3])
}

/// Has people leave one after the other, in chunks if wanted.
fn all_leave(society: &mut Society, leaving: &[i64], chunk: Option<u32>) -> Vec<(i64, DisguiseId)> {
    let gone = leaving.iter().map(|user| {
        let left = society.try_to_leave(Some(*user), false, chunk);
        (*user, left.unwrap().id)
    });
    gone.collect()
}

fn returns(society: &mut Society, gone: &[(i64, DisguiseId)], user: i64) -> Revealed {
    let (_, id) = gone.iter().find(|(it, _)| *it == user).unwrap();
    society.reveal(user, *id)
}

fn count(society: &mut Society, table: &str) -> i64 {
    let counted = society.numbers(&format!("SELECT COUNT(*) FROM {table}"));
    counted.into_iter().sum()
}

/// They never came back: only rows of one owner were looked for in a circle.
pub(crate) fn shared_rows_in_a_circle_come_back_with_either_owner() {
    for leaving in ORDERS {
        for returning in ORDERS {
            for chunk in [None, Some(1)] {
                let what = format!("{leaving:?} {returning:?} {chunk:?}");
                let mut society = folders(&BOTH, chunk);
                let gone = all_leave(&mut society, &leaving, chunk);
                assert_eq!(count(&mut society, "folders"), 0, "{what}");
                assert_eq!(count(&mut society, "probity_shared"), 5, "{what}");
                for user in returning {
                    let revealed = returns(&mut society, &gone, user);
                    assert!(revealed.is_complete(), "{what} {revealed:?}");
                    assert_eq!(count(&mut society, "folders"), 2, "{what}");
                    assert_eq!(count(&mut society, "files"), 3, "{what}");
                    assert_eq!(count(&mut society, "probity_shared"), 0, "{what}");
                }
                society.assert_as_before(&what);
            }
        }
    }
}

/// As above for those of everybody, who leave at once.
pub(crate) fn shared_rows_in_a_circle_that_leave_with_everybody_come_back() {
    for returning in ORDERS {
        for chunk in [None, Some(1)] {
            let what = format!("{returning:?} {chunk:?}");
            let mut society = folders(&BOTH, chunk);
            let id = society.try_to_leave(None, false, chunk).unwrap().id;
            assert_eq!(count(&mut society, "folders"), 0, "{what}");
            for user in returning.into_iter().chain([3]) {
                let revealed = society.reveal(user, id);
                assert!(revealed.is_complete(), "{what} {revealed:?}");
                assert_eq!(count(&mut society, "files"), 3, "{what}");
            }
            society.assert_as_before(&what);
        }
    }
}

/// Of a circle some rows may be of one owner alone. Whoever has not all of it waits for whoever has.
pub(crate) fn shared_rows_in_a_circle_with_rows_of_one_owner_come_back_with_that_owner() {
    for chunk in [None, Some(1)] {
        for returning in ORDERS {
            let what = format!("{chunk:?} {returning:?}");
            let rows = [
                "INSERT INTO folders VALUES (10, 1, NULL, NULL)",
                "INSERT INTO files VALUES (100, 1, 2, 10, 7)",
                "UPDATE folders SET cover = 100 WHERE id = 10",
            ];
            let mut society = folders(&rows, chunk);
            // The second leaves the file alone, and the first takes it along with the folder.
            let gone = all_leave(&mut society, &[2, 1], chunk);
            assert_eq!(count(&mut society, "files"), 0, "{what}");
            for user in returning {
                let revealed = returns(&mut society, &gone, user);
                let is_there = user == 1 || returning == [1, 2];
                assert_eq!(revealed.is_complete(), is_there, "{what} {revealed:?}");
                assert_eq!(count(&mut society, "files") == 1, is_there, "{what}");
            }
            society.try_again(&gone.iter().copied().collect());
            society.assert_as_before(&what);
        }
    }
}

/// Rows of one table that refer to each other or to themselves, by keys that the database knows.
pub(crate) fn shared_rows_of_one_table_that_refer_to_each_other_come_back() {
    let rows = [
        "INSERT INTO notes VALUES (6, 1, 2, 6), (7, 1, 2, NULL), (8, 2, 1, 7)",
        "UPDATE notes SET next = 8 WHERE id = 7",
    ];
    let described = "[tables.notes]\nowners = [\"one\", \"two\"]\n[[remove]]\ntable = \"notes\"\n";
    for declared in [true, false] {
        let key = if declared {
            "REFERENCES notes(id) DEFERRABLE INITIALLY IMMEDIATE"
        } else {
            ""
        };
        let key = match crate::connect().dialect() {
            Dialect::Mysql => key.replace(" DEFERRABLE INITIALLY IMMEDIATE", ""),
            _ => key.to_owned(),
        };
        let said = if declared {
            described.to_owned()
        } else {
            let said =
                "references = [{ columns = [\"next\"], table = \"notes\", to = [\"id\"] }]\n";
            described.replacen("[[remove]]", &format!("{said}[[remove]]"), 1)
        };
        let mut statements = vec![
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
            format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, next BIGINT, FOREIGN KEY (next) {key})")
                .replace(", FOREIGN KEY (next) )", ")"),
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        ];
        statements.extend(rows.map(str::to_owned));
        for leaving in ORDERS {
            for returning in ORDERS {
                for chunk in [None, Some(1)] {
                    let what = format!("{declared} {leaving:?} {returning:?} {chunk:?}");
                    let mut society = Society::of(&statements, &description(&said), &[1, 2]);
                    let gone = all_leave(&mut society, &leaving, chunk);
                    assert_eq!(count(&mut society, "notes"), 0, "{what}");
                    for user in returning {
                        returns(&mut society, &gone, user);
                        let there = society
                            .numbers("SELECT id FROM notes WHERE id IN (6, 7, 8) ORDER BY id");
                        assert_eq!(there, [6, 7, 8], "{what}");
                    }
                    society.try_again(&gone.iter().copied().collect());
                    society.assert_as_before(&what);
                }
            }
        }
    }
}

/// A row of the circle that the application made anew is the application's; the rest comes back
/// around it, once.
pub(crate) fn a_row_of_a_circle_that_was_made_anew_stays_and_voids_its_copy() {
    for returning in ORDERS {
        let mut society = folders(&BOTH, None);
        let gone = all_leave(&mut society, &[1, 2], None);
        society.sql("INSERT INTO folders VALUES (10, 3, NULL, NULL)");
        for user in returning {
            let revealed = returns(&mut society, &gone, user);
            assert_eq!(
                count(&mut society, "files"),
                3,
                "{returning:?} {revealed:?}"
            );
            assert_eq!(count(&mut society, "probity_shared"), 0, "{returning:?}");
        }
        let made = society.numbers("SELECT one FROM folders WHERE id = 10");
        assert_eq!(made, [3], "{returning:?}");
        // The copies of the others are void: what goes by itself now stays away.
        society.sql("UPDATE folders SET cover = NULL");
        society.sql("DELETE FROM files WHERE id = 102");
        for user in returning {
            let (_, id) = gone.iter().find(|(it, _)| *it == user).unwrap();
            drop(society.try_to_return(user, *id));
        }
        let left = society.numbers("SELECT id FROM files ORDER BY id");
        assert_eq!(left, [100, 101], "{returning:?}");
    }
}

/// A circle of which one row is refused stays whole, and its copies stay good for either owner. In
/// chunks its rows went one before the other, and the others come back as they went.
pub(crate) fn a_refused_row_keeps_its_circle_and_voids_no_copy() {
    for returning in ORDERS {
        for chunk in [None, Some(1)] {
            let what = format!("{returning:?} {chunk:?}");
            let mut society = folders(&BOTH, chunk);
            let gone = all_leave(&mut society, &[1, 2], chunk);
            society.sql("INSERT INTO folders VALUES (20, 3, NULL, NULL)");
            society.sql("INSERT INTO files VALUES (300, 3, NULL, 20, 8)");
            for user in returning {
                let revealed = returns(&mut society, &gone, user);
                let (reason, copies, files) = match chunk {
                    None => (KeptReason::ParentMissing, 5, 1),
                    Some(_) => (KeptReason::Refused, 1, 3),
                };
                let mut kept = revealed.kept.iter();
                assert!(kept.any(|it| it.reason == reason), "{what} {revealed:?}");
                assert_eq!(count(&mut society, "probity_shared"), copies, "{what}");
                assert_eq!(count(&mut society, "files"), files, "{what}");
            }
            society.sql("DELETE FROM files WHERE id = 300");
            society.sql("DELETE FROM folders WHERE id = 20");
            for user in returning {
                let revealed = returns(&mut society, &gone, user);
                assert!(revealed.is_complete(), "{what} {revealed:?}");
            }
            society.assert_as_before(&what);
        }
    }
}

/// A copy of an earlier removal is void, also where rows go back together.
pub(crate) fn an_older_copy_of_a_row_in_a_circle_counts_no_more() {
    let mut society = folders(&BOTH, None);
    let gone = all_leave(&mut society, &[1, 2], None);
    // The first comes back with the rows, changes one, and takes them away once more.
    assert!(returns(&mut society, &gone, 2).is_complete());
    society.sql("UPDATE files SET hash = 70 WHERE id = 100");
    let again = society.leave(2);
    assert_eq!(count(&mut society, "probity_shared"), 5);
    let revealed = returns(&mut society, &gone, 1);
    let hash = society.numbers("SELECT hash FROM files WHERE id = 100");
    assert!(hash == [70], "{hash:?} {revealed:?}");
    assert!(society.reveal(2, again).is_complete());
    society.try_again(&gone.iter().copied().collect());
    society.sql("UPDATE files SET hash = 7 WHERE id = 100");
    society.assert_as_before("an older copy");
}

/// Everybody was refused where a shared row refers to one of one owner in the same table, by a key
/// that would change or remove it along.
pub(crate) fn rows_of_one_and_of_two_that_refer_to_each_other_go_together() {
    let mut sample = Sample::new();
    let described = "[tables.notes]\nowners = [\"one\", \"two\"]\n[[remove]]\ntable = \"notes\"\n";
    let all_rows = [
        "INSERT INTO notes VALUES (6, 1, NULL, NULL), (7, 2, 3, 6), (8, 3, NULL, 7)",
        "INSERT INTO notes VALUES (6, 1, 2, NULL), (7, 2, NULL, 6), (8, 3, 1, 7)",
        "INSERT INTO notes VALUES (6, 1, 1, NULL), (7, 2, 3, 6), (8, 3, 3, 6)",
    ];
    for rows in all_rows {
        for rule in ["", " ON DELETE CASCADE", " ON DELETE SET NULL"] {
            for chunk in [None, Some(2)] {
                if sample.passes_over() {
                    continue;
                }
                let what = format!("{rows} {rule} {chunk:?}");
                let statements = [
                    "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
                    format!(
                        "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, next BIGINT, \
                         FOREIGN KEY (next) REFERENCES notes(id){rule})"
                    ),
                    "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')".to_owned(),
                    rows.to_owned(),
                ];
                let mut society = Society::of(&statements, &description(described), &[1, 2, 3]);
                let gone = society.try_to_leave(None, false, chunk);
                let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}"));
                assert_eq!(count(&mut society, "notes"), 0, "{what}");
                for user in [3, 2, 1, 2, 3] {
                    society.try_again(&[(user, gone.id)].into());
                }
                society.assert_as_before(&what);
            }
        }
    }
}
