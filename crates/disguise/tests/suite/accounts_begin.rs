//! Accounts that refer to rows of others, who may be away.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

use probity_disguise::{Dialect, DisguiseId, KeptReason, SpecFile};

use super::sample::Sample;
use super::society::{Society, description};

const OWNED: &str = "[tables.posts]\nowners = [\"who\"]\n";
const SAID: &str =
    "[tables.people]\nreferences = [{ columns = [\"best\"], table = \"posts\", to = [\"id\"] }]\n";
const REMOVED: &str = "[[remove]]\ntable = \"posts\"\n";
const HIDDEN: &str = "[[decorrelate]]\ntable = \"posts\"\nowners = [\"who\"]\n";

/// The disguise that replaces owners by placeholders, instead of the one that removes them.
fn hiding(tables: &str, step: &str) -> String {
    let all = description(tables);
    let (head, _) = all.split_at(all.find("[[remove]]").unwrap());
    format!("{head}{step}")
}

/// The ways in which the key of favourites is known: said alone, or declared. `MariaDB` would look at
/// a declared one before the accounts go.
fn keys() -> &'static [bool] {
    match crate::connect().dialect() {
        Dialect::Mysql => &[false],
        _ => &[false, true],
    }
}

/// Two people with a favourite among two posts.
fn favourites(is_declared: bool, of: [i64; 2]) -> Society {
    let key = if is_declared {
        ", FOREIGN KEY (best) REFERENCES posts(id) DEFERRABLE INITIALLY DEFERRED"
    } else {
        ""
    };
    let [first, second] = of;
    let statements = [
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT)".to_owned(),
        format!("CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), best BIGINT{key})"),
        "INSERT INTO posts VALUES (10, 2), (11, 1)".to_owned(),
        format!("INSERT INTO people VALUES (1, 'one', {first}), (2, 'two', {second})"),
    ];
    Society::of(&statements, &description(&tables(is_declared)), &[1, 2])
}

fn tables(is_declared: bool) -> String {
    let said = if is_declared { "" } else { SAID };
    format!("{OWNED}{said}{REMOVED}")
}

/// Hides everybody, then has them leave; each with the disguises in the order in which they reveal them.
fn hidden_and_gone(
    society: &mut Society,
    is_declared: bool,
    way: usize,
) -> [(i64, [DisguiseId; 2]); 2] {
    let said = if is_declared { "" } else { SAID };
    let hiding = SpecFile::parse(&hiding(&format!("{OWNED}{said}"), HIDDEN)).unwrap();
    let leaving = std::mem::replace(&mut society.spec, hiding.spec);
    let older = society.try_to_leave(None, false, None).unwrap().id;
    society.spec = leaving;
    if way == 2 {
        return [1, 2].map(|user| {
            let gone = society.try_to_leave(Some(user), true, None);
            (user, [older, gone.unwrap().id])
        });
    }
    let chunk = (way == 1).then_some(1);
    let gone = society.try_to_leave(None, false, chunk);
    let gone = gone.unwrap_or_else(|error| panic!("{error:?}")).id;
    [1, 2].map(|user| (user, [older, gone]))
}

fn in_turn([older, newer]: [DisguiseId; 2], oldest_first: bool) -> [DisguiseId; 2] {
    if oldest_first {
        [older, newer]
    } else {
        [newer, older]
    }
}

/// The record of an account does not say who is behind the placeholder that owns its favourite. Once
/// the older disguise is revealed, that row waits for its owner, whose account waited for a row of
/// the first: nobody came back, nor did somebody who referred to their own row.
pub(crate) fn accounts_come_back_whoever_is_behind_the_rows_they_refer_to() {
    let mut sample = Sample::new();
    for favourite in [[10, 11], [11, 10]] {
        let ways = [(false, 0), (false, 1), (false, 2), (true, 0)];
        for (is_declared, way) in ways.into_iter().filter(|(it, _)| keys().contains(it)) {
            for order in [[0, 1], [1, 0]] {
                for oldest_first in [true, false] {
                    if sample.passes_over() {
                        continue;
                    }
                    let what = format!(
                        "declared {is_declared} {favourite:?} {way} {order:?} {oldest_first}"
                    );
                    let mut society = favourites(is_declared, favourite);
                    let gone = hidden_and_gone(&mut society, is_declared, way);
                    let tries = order.into_iter().chain(order).chain(order);
                    let tries = tries.flat_map(|it| {
                        in_turn(gone[it].1, oldest_first).map(|id| (gone[it].0, id))
                    });
                    for (user, id) in tries {
                        society.try_again(&[(user, id)].into());
                    }
                    society.assert_as_before(&what);
                }
            }
        }
    }
}

/// The placeholder of a shared row is revealed while the row is away, and both accounts waited for
/// rows of each other.
pub(crate) fn accounts_that_refer_to_shared_rows_come_back() {
    let described = "[tables.posts]\nowners = [\"who\", \"who2\"]\n\
        references = [{ columns = [\"re\"], table = \"posts\", to = [\"id\"] }]\n";
    let described = format!("{described}{SAID}");
    let statements = [
        "CREATE TABLE posts (id BIGINT PRIMARY KEY, who BIGINT, who2 BIGINT, re BIGINT)",
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), best BIGINT)",
        "INSERT INTO posts VALUES (10, 2, 3, 11), (11, 3, 3, NULL)",
        "INSERT INTO people VALUES (2, 'two', 11), (3, 'three', 10)",
    ];
    for two_first in [true, false] {
        let leaving = description(&format!("{described}{REMOVED}"));
        let mut society = Society::of(&statements.map(str::to_owned), &leaving, &[2, 3]);
        let two = society.leave(2);
        let hiding = SpecFile::parse(&hiding(&described, HIDDEN)).unwrap();
        let leaving = std::mem::replace(&mut society.spec, hiding.spec);
        let hidden = society.try_to_leave(None, false, None).unwrap().id;
        society.spec = leaving;
        society.reveal(3, hidden);
        let three = society.try_to_leave(Some(3), true, None).unwrap().id;
        if two_first {
            society.reveal(2, hidden);
        }
        for (user, id) in [(3, three), (2, hidden), (2, two), (3, three), (2, two)] {
            society.try_again(&[(user, id)].into());
        }
        society.assert_as_before(&format!("two first: {two_first}"));
    }
}

/// Somebody who returns is there, whoever else is away. A declared key is NULL until then.
pub(crate) fn an_account_begins_without_the_rows_of_those_who_are_away() {
    for is_declared in keys().iter().copied() {
        for at_once in [false, true] {
            let what = format!("declared {is_declared}, at once {at_once}");
            let mut society = favourites(is_declared, [10, 11]);
            let gone = if at_once || is_declared {
                let gone = society.try_to_leave(None, false, None).unwrap().id;
                [(1, gone), (2, gone)]
            } else {
                [1, 2].map(|user| (user, society.leave(user)))
            };
            let [(_, of_one), (_, of_two)] = gone;
            let revealed = society.reveal(1, of_one);
            let best = society.numbers("SELECT best FROM people WHERE id = 1");
            assert_eq!(society.numbers("SELECT id FROM posts"), [11], "{what}");
            if is_declared {
                assert_eq!(best, [-1], "{what}");
                let [kept] = revealed.kept.as_slice() else {
                    panic!("{what} {revealed:?}")
                };
                assert_eq!(kept.column.as_deref(), Some("best"), "{what}");
                assert_eq!(kept.reason, KeptReason::ParentMissing, "{what}");
            } else {
                assert_eq!(best, [10], "{what}");
                assert!(revealed.is_complete(), "{what} {revealed:?}");
            }
            assert!(society.reveal(2, of_two).is_complete(), "{what}");
            society.try_again(&[(1, of_one)].into());
            society.assert_as_before(&what);
        }
    }
}

/// Everybody leaves in chunks, and two rows of one person lie in a circle with one of another.
pub(crate) fn circles_over_several_chunks_come_back() {
    // Keys that are looked at row by row would let no chunk take a part of a circle.
    let is_late = crate::connect().dialect() == Dialect::Sqlite;
    let key = if is_late { "REFERENCES photos(id)" } else { "" };
    let said = |table: &str, column: &str, to: &str| {
        let reference = format!(
            "references = [{{ columns = [\"{column}\"], table = \"{to}\", to = [\"id\"] }}]"
        );
        format!("[tables.{table}]\nowners = [\"who\"]\n{reference}\n")
    };
    let removed = ["notes", "photos", "albums"].map(|it| format!("[[remove]]\ntable = \"{it}\"\n"));
    for through_account in [false, true] {
        let (best, note) = if through_account { (30, -1) } else { (-1, 30) };
        let statements = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20), best BIGINT)".to_owned(),
            "CREATE TABLE albums (id BIGINT PRIMARY KEY, who BIGINT, note BIGINT)".to_owned(),
            "CREATE TABLE photos (id BIGINT PRIMARY KEY, who BIGINT, album BIGINT)".to_owned(),
            format!("CREATE TABLE notes (id BIGINT PRIMARY KEY, who BIGINT, photo BIGINT {key})"),
            format!("INSERT INTO people VALUES (1, 'one', NULLIF({best}, -1)), (2, 'two', NULL)"),
            format!("INSERT INTO albums VALUES (40, 1, NULLIF({note}, -1))"),
            "INSERT INTO photos VALUES (20, 2, 40)".to_owned(),
            "INSERT INTO notes VALUES (30, 1, 20)".to_owned(),
        ];
        let people = SAID.replace("\"posts\"", "\"notes\"");
        let tables = format!(
            "{}{}{}{people}{}",
            said("albums", "note", "notes"),
            said("photos", "album", "albums"),
            said("notes", "photo", "photos"),
            removed.concat()
        );
        for chunk in [None, Some(1), Some(2), Some(1000)] {
            for order in [[1, 2], [2, 1]] {
                let what = format!("{through_account} {chunk:?} {order:?}");
                let mut society = Society::of(&statements, &description(&tables), &[1, 2]);
                let gone = society.try_to_leave(None, false, chunk);
                let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
                for user in order.into_iter().chain(order) {
                    society.try_again(&[(user, gone)].into());
                }
                society.assert_as_before(&what);
            }
        }
    }
}

/// A schema whose keys are declared once its rows are there.
pub(super) struct Declared {
    /// The tables with their columns.
    pub(super) tables: &'static [(&'static str, &'static str)],
    pub(super) keys: &'static [(&'static str, &'static str)],
    pub(super) rows: &'static [&'static str],
}

impl Declared {
    pub(super) fn society(&self, people: &[i64]) -> Society {
        let dialect = crate::connect().dialect();
        let is_at_once = dialect == Dialect::Sqlite;
        let late = |key: &str| {
            if dialect == Dialect::Mysql || key.ends_with("NOT DEFERRABLE") {
                ""
            } else {
                "DEFERRABLE INITIALLY DEFERRED"
            }
        };
        let mut statements = Vec::new();
        for (table, columns) in self.tables {
            let own = self.keys.iter().filter(|(of, _)| of == table && is_at_once);
            let own: Vec<String> = own
                .map(|(_, key)| format!(", {key} {}", late(key)))
                .collect();
            let own = own.concat();
            statements.push(format!("CREATE TABLE {table} ({columns}{own})"));
        }
        if is_at_once {
            statements.push("PRAGMA foreign_keys = OFF".to_owned());
        }
        statements.extend(self.rows.iter().map(|&sql| sql.to_owned()));
        if is_at_once {
            statements.push("PRAGMA foreign_keys = ON".to_owned());
        } else {
            let add = |(table, key): &(&str, &str)| {
                format!("ALTER TABLE {table} ADD {key} {}", late(key))
            };
            statements.extend(self.keys.iter().map(add));
        }
        let others = self.tables.iter().filter(|(table, _)| *table != "people");
        let owned = others
            .clone()
            .map(|(it, _)| format!("[tables.{it}]\nowners = [\"who\"]\n"));
        let removed = others.map(|(it, _)| format!("[[remove]]\ntable = \"{it}\"\n"));
        let described: String = owned.chain(removed).collect();
        Society::of(&statements, &description(&described), people)
    }
}

/// A column that is empty for a while may be the one by which other rows of the same person refer to
/// theirs: the database refused the whole reveal, for good.
pub(crate) fn rows_that_refer_to_an_emptied_column_wait_for_it() {
    let invitations = Declared {
        tables: &[
            (
                "people",
                "id BIGINT PRIMARY KEY, name VARCHAR(20), code VARCHAR(10) UNIQUE, buddy VARCHAR(10)",
            ),
            (
                "invites",
                "id BIGINT PRIMARY KEY, code VARCHAR(10) UNIQUE NOT NULL, who BIGINT",
            ),
        ],
        keys: &[
            ("people", "FOREIGN KEY (code) REFERENCES invites(code)"),
            ("people", "FOREIGN KEY (buddy) REFERENCES people(code)"),
            ("invites", "FOREIGN KEY (who) REFERENCES people(id)"),
        ],
        rows: &[
            "INSERT INTO people VALUES (1, 'one', 'c2', 'c2'), (2, 'two', 'c1', 'c1')",
            "INSERT INTO invites VALUES (1, 'c2', 2), (2, 'c1', 1)",
        ],
    };
    let in_a_circle = Declared {
        tables: &[
            ("people", "id BIGINT PRIMARY KEY, name VARCHAR(20)"),
            (
                "labels",
                "id BIGINT PRIMARY KEY, code VARCHAR(10) UNIQUE NOT NULL, album BIGINT NOT NULL, who BIGINT",
            ),
            (
                "albums",
                "id BIGINT PRIMARY KEY, code VARCHAR(10) UNIQUE, cover BIGINT, who BIGINT",
            ),
            (
                "photos",
                "id BIGINT PRIMARY KEY, code VARCHAR(10) NOT NULL, who BIGINT",
            ),
        ],
        keys: &[
            ("labels", "FOREIGN KEY (album) REFERENCES albums(id)"),
            ("albums", "FOREIGN KEY (code) REFERENCES labels(code)"),
            ("albums", "FOREIGN KEY (cover) REFERENCES photos(id)"),
            ("photos", "FOREIGN KEY (code) REFERENCES albums(code)"),
        ],
        rows: &[
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO labels VALUES (5, 'c5', 7, 2)",
            "INSERT INTO albums VALUES (7, 'c5', 8, 1)",
            "INSERT INTO photos VALUES (8, 'c5', 1)",
        ],
    };
    if crate::connect().dialect() == Dialect::Mysql {
        // It looks at keys row by row, and lets nobody of a circle leave.
        return;
    }
    for (number, schema) in [invitations, in_a_circle].iter().enumerate() {
        for order in [[1, 2], [2, 1]] {
            all_come_back(schema, order, &format!("{number} {order:?}"));
        }
    }
}

fn all_come_back<const N: usize>(schema: &Declared, order: [i64; N], what: &str) {
    let mut society = schema.society(&order);
    let gone = society.try_to_leave(None, false, None);
    let gone = gone.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
    for user in order.into_iter().chain(order).chain(order) {
        society.try_again(&[(user, gone)].into());
    }
    society.assert_as_before(what);
}

/// A column of a key to rows of the same table was filled again before those rows had it, and the
/// database refused each reveal as a whole, for good.
pub(crate) fn an_emptied_column_of_a_key_to_its_own_table_is_filled_in_turn() {
    if crate::connect().dialect() == Dialect::Mysql {
        return;
    }
    let schema = Declared {
        tables: &[
            (
                "people",
                "id BIGINT PRIMARY KEY, name VARCHAR(20), org BIGINT, team BIGINT, mgr BIGINT, \
                 UNIQUE (org, id)",
            ),
            ("posts", "id BIGINT PRIMARY KEY, org BIGINT, who BIGINT"),
            (
                "teams",
                "org BIGINT NOT NULL, id BIGINT NOT NULL, who BIGINT, PRIMARY KEY (org, id)",
            ),
            ("orgs", "id BIGINT PRIMARY KEY, who BIGINT"),
        ],
        keys: &[
            ("people", "FOREIGN KEY (org) REFERENCES orgs(id)"),
            (
                "people",
                "FOREIGN KEY (org, team) REFERENCES teams(org, id)",
            ),
            (
                "people",
                "FOREIGN KEY (org, mgr) REFERENCES people(org, id)",
            ),
            ("teams", "FOREIGN KEY (org) REFERENCES orgs(id)"),
            ("posts", "FOREIGN KEY (org, who) REFERENCES people(org, id)"),
        ],
        rows: &[
            "INSERT INTO people VALUES (1, 'a', 1, 5, 1), (2, 'b', 1, 6, 1), (3, 'c', 1, 5, 2)",
            "INSERT INTO orgs VALUES (1, 3)",
            "INSERT INTO teams VALUES (1, 5, 2), (1, 6, 1)",
            "INSERT INTO posts VALUES (1, 1, 1), (2, 1, 2), (3, 1, 3)",
        ],
    };
    for order in [
        [1, 2, 3],
        [1, 3, 2],
        [2, 1, 3],
        [2, 3, 1],
        [3, 1, 2],
        [3, 2, 1],
    ] {
        all_come_back(&schema, order, &format!("{order:?}"));
    }
}

/// `PostgreSQL` refuses a row of which a part of such a key is NULL: with one column empty nobody came
/// back, as each reveal was refused as a whole. Such an account waits.
pub(crate) fn a_key_that_is_matched_full_is_not_emptied_in_part() {
    if crate::connect().dialect() != Dialect::Postgres {
        return;
    }
    let schema = Declared {
        tables: &[
            (
                "people",
                "id BIGINT PRIMARY KEY, name VARCHAR(20), org BIGINT, team BIGINT",
            ),
            (
                "teams",
                "org BIGINT NOT NULL, id BIGINT NOT NULL, who BIGINT, PRIMARY KEY (org, id)",
            ),
        ],
        keys: &[(
            "people",
            "FOREIGN KEY (org, team) REFERENCES teams(org, id) MATCH FULL",
        )],
        rows: &[
            "INSERT INTO people VALUES (1, 'one', 1, 12), (2, 'two', NULL, NULL)",
            "INSERT INTO teams VALUES (1, 12, 2)",
        ],
    };
    for order in [[1, 2], [2, 1]] {
        all_come_back(&schema, order, &format!("{order:?}"));
    }
}

/// Every reference in a circle was empty at first, though the database took the rows as they were:
/// somebody whose row may not be without one never came back, though nobody else was away.
pub(crate) fn a_circle_whose_rows_may_not_be_without_a_reference_goes_back_whole() {
    let dialect = crate::connect().dialect();
    if dialect == Dialect::Mysql {
        // It lets nobody of a circle leave.
        return;
    }
    let checked = Declared {
        tables: &[
            (
                "people",
                "id BIGINT PRIMARY KEY, name VARCHAR(20), team BIGINT, role VARCHAR(9), \
                 CHECK ((team IS NULL) = (role IS NULL))",
            ),
            ("teams", "id BIGINT PRIMARY KEY, who BIGINT"),
        ],
        keys: &[
            ("people", "FOREIGN KEY (team) REFERENCES teams(id)"),
            ("teams", "FOREIGN KEY (who) REFERENCES people(id)"),
        ],
        rows: &[
            "INSERT INTO people VALUES (1, 'one', 7, 'boss'), (2, 'two', NULL, NULL)",
            "INSERT INTO teams VALUES (7, 1)",
        ],
    };
    let full = Declared {
        tables: &[
            ("people", "id BIGINT PRIMARY KEY, name VARCHAR(20)"),
            (
                "x",
                "id BIGINT PRIMARY KEY, who BIGINT, a BIGINT NOT NULL, b BIGINT",
            ),
            (
                "y",
                "id BIGINT PRIMARY KEY, who BIGINT, a BIGINT NOT NULL, x BIGINT, UNIQUE (a, id)",
            ),
        ],
        keys: &[
            (
                "x",
                "FOREIGN KEY (a, b) REFERENCES y(a, id) MATCH FULL NOT DEFERRABLE",
            ),
            ("y", "FOREIGN KEY (x) REFERENCES x(id)"),
        ],
        rows: &[
            "INSERT INTO people VALUES (1, 'one'), (2, 'two')",
            "INSERT INTO x VALUES (5, 1, 9, 6)",
            "INSERT INTO y VALUES (6, 1, 9, 5)",
        ],
    };
    let mut schemas = vec![checked];
    // `SQLite` reads `MATCH FULL` and does not enforce it.
    schemas.extend((dialect == Dialect::Postgres).then_some(full));
    for (number, schema) in schemas.iter().enumerate() {
        let mut society = schema.society(&[1, 2]);
        let gone = society.leave(1);
        society.reveal(1, gone);
        society.assert_as_before(&number.to_string());
    }
}
