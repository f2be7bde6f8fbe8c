//! References that the description alone says, against keys that the database declares.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use probity_disguise::{Error, Value};

use super::society::{Society, description};

/// Declared keys, of which the database refuses or changes what refers to nothing at once.
const KEYS: [&str; 2] = ["ON DELETE RESTRICT", "ON DELETE CASCADE"];

/// A table with a column `up` that refers to another table.
struct Table<'t> {
    name: &'t str,
    to: &'t str,
    /// The rest of the declared key; absent if the description alone says the reference.
    key: Option<&'t str>,
}

/// Tables, in the order in which rows can be made, with a row of each of two people.
fn society(tables: &[Table<'_>]) -> Society {
    let mut statements = vec![
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
    ];
    let (mut described, mut steps) = (String::new(), String::new());
    for Table { name, to, key } in tables {
        let refers = match key {
            Some(key) => format!("REFERENCES {to}(id) {key}"),
            None => String::new(),
        };
        statements.push(
            format!("CREATE TABLE {name} (id BIGINT PRIMARY KEY, who BIGINT, up BIGINT {refers})")
                .replace(
                    "up BIGINT REFERENCES",
                    "up BIGINT NOT NULL, FOREIGN KEY (up) REFERENCES",
                ),
        );
        statements.push(format!("INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2)"));
        described = format!("{described}[tables.{name}]\nowners = [\"who\"]\n");
        if key.is_none() {
            described = format!(
                "{described}references = [{{ columns = [\"up\"], table = \"{to}\", to = [\"id\"] }}]\n"
            );
        }
        steps = format!("{steps}[[remove]]\ntable = \"{name}\"\n");
    }
    Society::of(
        &statements,
        &description(&format!("{described}{steps}")),
        &[1, 2],
    )
}

/// Returns the tables in the order in which their rows go.
fn order(society: &mut Society) -> Vec<String> {
    let planned = society
        .engine
        .preview()
        .plan(&society.spec, None, &BTreeMap::new());
    let steps = planned.unwrap().into_iter();
    steps.map(|it| it.table).collect()
}

fn everybody_leaves_and_returns(tables: &[Table<'_>], what: &str) {
    for chunk in [None, Some(1)] {
        for whom in [Some(1), None] {
            let what = format!("{what} {chunk:?} {whom:?}");
            let mut society = society(tables);
            let user = whom.map(Value::Int);
            let none = BTreeMap::new();
            let told = society
                .engine
                .preview()
                .foretell(&society.spec, user.as_ref(), &none)
                .unwrap();
            assert!(told.is_empty(), "{what} {told:?}");
            let id = society.try_to_leave(whom, false, chunk);
            let id = id.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
            for user in whom.map_or_else(|| vec![2, 1], |user| vec![user]) {
                let revealed = society.reveal(user, id);
                assert!(revealed.is_complete(), "{what} {revealed:?}");
            }
            society.assert_as_before(&what);
        }
    }
}

/// The names of the tables decided which of the two went first, and the database refused it, or
/// would have taken rows along unseen.
pub(crate) fn a_declared_key_decides_the_order_against_a_reference_that_is_only_said() {
    for [said, declared] in [["aims", "bids"], ["bids", "aims"]] {
        for key in KEYS {
            let tables = [
                Table {
                    name: said,
                    to: declared,
                    key: None,
                },
                Table {
                    name: declared,
                    to: said,
                    key: Some(key),
                },
            ];
            let mut ordered = society(&tables);
            assert_eq!(order(&mut ordered), [declared, said, "people"]);
            everybody_leaves_and_returns(&tables, &format!("{said} {key}"));
        }
    }
}

/// As above where no declared key contradicts a single one of the others.
pub(crate) fn declared_keys_decide_the_order_in_a_longer_circle() {
    let names = [
        ["aims", "bids", "cups", "dues"],
        ["dues", "cups", "bids", "aims"],
        ["bids", "aims", "dues", "cups"],
    ];
    for [first, second, third, fourth] in names {
        for key in KEYS {
            let tables = [
                Table {
                    name: third,
                    to: fourth,
                    key: None,
                },
                Table {
                    name: second,
                    to: third,
                    key: Some(key),
                },
                Table {
                    name: first,
                    to: second,
                    key: None,
                },
                Table {
                    name: fourth,
                    to: first,
                    key: Some(key),
                },
            ];
            let order = order(&mut society(&tables));
            let at = |name: &str| order.iter().position(|it| it == name);
            assert!(at(second) < at(third), "{order:?}");
            assert!(at(fourth) < at(first), "{order:?}");
            everybody_leaves_and_returns(&tables, &format!("{first} {key}"));
        }
    }
}

/// A reference that is only said still decides where nothing contradicts it.
pub(crate) fn a_reference_that_is_only_said_decides_between_tables_without_keys() {
    for [child, parent] in [["aims", "bids"], ["bids", "aims"]] {
        let tables = [
            Table {
                name: parent,
                to: "people",
                key: Some(""),
            },
            Table {
                name: child,
                to: parent,
                key: None,
            },
        ];
        assert_eq!(order(&mut society(&tables)), [child, parent, "people"]);
    }
}

/// Albums have a cover, by a declared key, and pictures belong to whoever owns their album, as the
/// description alone says. 97 is nobody.
fn albums(cover: &str) -> Society {
    let statements = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))".to_owned(),
        "CREATE TABLE pictures (id BIGINT PRIMARY KEY, album BIGINT)".to_owned(),
        format!("CREATE TABLE albums (id BIGINT PRIMARY KEY, who BIGINT, cover BIGINT {cover})"),
        "INSERT INTO people VALUES (1, 'one'), (2, 'two')".to_owned(),
        "INSERT INTO pictures VALUES (1, 1), (2, 1), (3, 2), (4, 4), (5, 5)".to_owned(),
        "INSERT INTO albums VALUES (1, 1, 2), (2, 2, 3), (4, 97, 4), (5, 1, 5)".to_owned(),
    ];
    let described = "[tables.albums]\nowners = [\"who\"]\n[tables.pictures]\nthrough = [\"album\"]\n\
        references = [{ columns = [\"album\"], table = \"albums\", to = [\"id\"] }]\n\
        [[remove]]\ntable = \"albums\"\n[[remove]]\ntable = \"pictures\"\n";
    Society::of(&statements, &description(described), &[1, 2])
}

/// Rows of which only the rows that refer to them say whose they are must go before those, and the
/// database refused it, or would have changed the others. The reference is empty until all is gone.
pub(crate) fn a_declared_key_to_rows_on_a_path_over_its_own_is_emptied_first() {
    for key in ["", "ON DELETE RESTRICT", "ON DELETE CASCADE"] {
        for chunk in [None, Some(1), Some(2)] {
            for whom in [Some(1), None] {
                let what = format!("{key} {chunk:?} {whom:?}");
                let mut society = albums(&format!("REFERENCES pictures(id) {key}"));
                let user = whom.map(Value::Int);
                let none = BTreeMap::new();
                let told = society
                    .engine
                    .preview()
                    .foretell(&society.spec, user.as_ref(), &none)
                    .unwrap();
                assert!(told.is_empty(), "{what} {told:?}");
                let id = society.try_to_leave(whom, false, chunk);
                let id = id.unwrap_or_else(|error| panic!("{what} {error:?}")).id;
                let left: &[i64] = if whom.is_some() { &[3, 4] } else { &[4] };
                let there = society.numbers("SELECT id FROM pictures ORDER BY id");
                assert_eq!(there, left, "{what}");
                for user in whom.map_or_else(|| vec![2, 1], |user| vec![user]) {
                    let revealed = society.reveal(user, id);
                    assert!(revealed.is_complete(), "{what} {revealed:?}");
                }
                society.assert_as_before(&what);
            }
        }
    }
}

/// As above where the reference may not be NULL: no order is right, and that is said beforehand.
pub(crate) fn a_declared_key_that_may_not_be_empty_on_such_a_path_is_foretold() {
    for chunk in [None, Some(1)] {
        let mut society = albums("NOT NULL REFERENCES pictures(id) ON DELETE CASCADE");
        let none = BTreeMap::new();
        let told = society
            .engine
            .preview()
            .foretell(&society.spec, None, &none);
        let told = told.unwrap().concat();
        assert!(
            told.contains("refer to these by foreign key (cover)"),
            "{told}"
        );
        let before = society.everything();
        let refused = society.try_to_leave(None, false, chunk).unwrap_err();
        assert!(matches!(refused, Error::WouldCascade { .. }), "{refused:?}");
        assert_eq!(society.everything(), before, "{chunk:?}");
        assert_eq!(
            society.engine.chunks().unfinished().unwrap(),
            [],
            "{chunk:?}"
        );
    }
}
