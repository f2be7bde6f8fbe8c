//! A real column and an integer compare by their exact values, as in `SQLite`.

use probity_pocketdb::{Error, Extent, Value};

use crate::choice::{Choice, seed};
use crate::pair::{Cell, Kept, Pair};
use crate::query::Query;

/// Integers of which many are no double.
fn integers() -> Vec<i64> {
    let mut all = vec![
        0,
        1,
        -1,
        2,
        7,
        i64::MIN,
        i64::MIN + 1,
        i64::MAX,
        i64::MAX - 1,
    ];
    for power in [52, 53, 54, 55, 60, 62] {
        let power = 1i64 << power;
        for away in [-513, -512, -511, -3, -2, -1, 0, 1, 2, 3, 511, 512, 513] {
            all.extend([power + away, -(power + away)]);
        }
    }
    for away in [1, 2, 255, 256, 511, 512, 513, 1023, 1024, 1025, 2048] {
        all.extend([i64::MAX - away, i64::MIN + away]);
    }
    all
}

/// The integers as literals of reals, the doubles beside them, and halves.
fn reals() -> Vec<String> {
    let mut all: Vec<String> = [
        "-0.0",
        "0.0",
        "0.5",
        "-0.5",
        "1e300",
        "-1e300",
        "4503599627370495.5",
    ]
    .map(str::to_owned)
    .to_vec();
    for number in integers() {
        #[expect(clippy::cast_precision_loss, reason = "the nearest real is wanted")]
        let real = number as f64;
        for real in [real, real.next_up(), real.next_down()] {
            all.push(format!("{real:?}"));
        }
    }
    all
}

/// One condition on the column `x`.
fn condition(choice: &mut Choice, x: &str) -> String {
    let all = integers();
    let mut number = || *choice.of(&all);
    let (a, b, c) = (number(), number(), number());
    let not = if choice.percent(30) { "NOT " } else { "" };
    let sign = *choice.of(&["=", "<>", "<", "<=", ">", ">="]);
    match choice.below(4) {
        0 => format!("{x} {not}BETWEEN {} AND {}", a.min(b), a.max(b)),
        1 => format!("{x} {not}IN ({a}, {b}, {c})"),
        _ => format!("{not}({x} {sign} {a})"),
    }
}

fn query(text: String, ordered_by: Vec<usize>) -> Query {
    Query { text, ordered_by }
}

/// The two sides with rows of reals: with and without an index here, and reached by a reference.
fn filled(choice: &mut Choice) -> Pair {
    let mut pair = Pair::new(65_536, 400);
    for (own, other) in [
        (
            "CREATE TABLE r (id INTEGER PRIMARY KEY, x REAL INDEXED, y REAL)",
            "CREATE TABLE r (id INTEGER PRIMARY KEY, x REAL, y REAL)",
        ),
        (
            "CREATE TABLE s (id INTEGER PRIMARY KEY, r INTEGER REFERENCES r(id), g INTEGER)",
            "CREATE TABLE s (id INTEGER PRIMARY KEY, r INTEGER REFERENCES r(id) ON DELETE CASCADE, g INTEGER)",
        ),
    ] {
        pair.own(own).unwrap();
        pair.other.execute_batch(other).unwrap();
    }
    let (reals, integers) = (reals(), integers());
    for id in 1..=600 {
        let x = choice.of(&reals).clone();
        // A real column keeps an integer as the nearest real.
        let y = if choice.percent(50) {
            choice.of(&integers).to_string()
        } else {
            x.clone()
        };
        assert!(pair.change(&format!("INSERT INTO r VALUES ({id}, {x}, {y})")));
        let to = choice.below(id) + 1;
        assert!(pair.change(&format!("INSERT INTO s VALUES ({id}, {to}, {})", id % 5)));
    }
    pair
}

/// Asks for random comparisons in every place that has them; returns the rows seen.
fn ask(pair: &mut Pair, choice: &mut Choice, count: usize) -> usize {
    let mut seen = 0;
    for _ in 0..count {
        let x = *choice.of(&["x", "y"]);
        let (one, two) = (condition(choice, x), condition(choice, "x"));
        let (of_r, also) = (
            condition(choice, &format!("r.{x}")),
            condition(choice, "r.y"),
        );
        let joined = "FROM s JOIN r ON s.r = r.id WHERE";
        for (text, ordered_by) in [
            (
                format!("SELECT id, x, y FROM r WHERE {one} ORDER BY {x}"),
                vec![if x == "x" { 1 } else { 2 }],
            ),
            (format!("SELECT id FROM r WHERE {one} AND {two}"), vec![]),
            (format!("SELECT id FROM r WHERE {one} OR {two}"), vec![]),
            (
                format!("SELECT COUNT(*), MIN({x}), MAX(y) FROM r WHERE {one}"),
                vec![],
            ),
            (format!("SELECT s.id, r.x {joined} {of_r}"), vec![]),
            (
                format!(
                    "SELECT g, COUNT(*), MAX(r.x) {joined} {of_r} OR {also} GROUP BY g ORDER BY g"
                ),
                vec![0],
            ),
        ] {
            seen += pair.ask(&query(text, ordered_by));
        }
    }
    seen
}

/// An integer that no double holds was rounded before it was compared, so that `x = 9007199254740993`
/// found 9007199254740992. It compares exactly, read by rows, by an index, by a range of a
/// reorganised index and over a reference.
#[test]
fn a_real_column_and_an_integer_compare_exactly() {
    let seed = seed(7);
    for number in 0..3 {
        let mut choice = Choice::new(seed + number);
        let mut pair = filled(&mut choice);
        let mut seen = ask(&mut pair, &mut choice, 60);
        pair.store()
            .reorganize(Extent::Whole, u32::MAX, u64::MAX)
            .unwrap();
        seen += ask(&mut pair, &mut choice, 60);
        for _ in 0..20 {
            let wanted = condition(&mut choice, "y");
            let far = choice.below(550) + 1;
            let window = format!("id BETWEEN {far} AND {}", far + 40);
            pair.change(&format!(
                "UPDATE r SET y = 0.25 WHERE ({wanted}) AND {window}"
            ));
            let wanted = condition(&mut choice, "x");
            pair.change(&format!("DELETE FROM r WHERE ({wanted}) AND id > 590"));
        }
        seen += ask(&mut pair, &mut choice, 20);
        assert!(seen > 10_000, "{seen}");
    }
}

/// The example, of literals and of parameters.
#[test]
fn an_integer_beside_a_double_is_not_that_double() {
    let mut pair = Pair::new(65_536, 400);
    for index in ["", " INDEXED"] {
        let table = if index.is_empty() { "plain" } else { "listed" };
        pair.own(&format!(
            "CREATE TABLE {table} (id INTEGER PRIMARY KEY, x REAL{index})"
        ))
        .unwrap();
        let other = format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY, x REAL)");
        pair.other.execute_batch(&other).unwrap();
        for (id, x) in [
            "9007199254740992.0",
            "9007199254740994.0",
            "9223372036854775808.0",
            "-0.0",
        ]
        .iter()
        .enumerate()
        {
            assert!(pair.change(&format!("INSERT INTO {table} VALUES ({}, {x})", id + 1)));
        }
        for sign in ["=", "<>", "<", "<=", ">", ">="] {
            for number in [9_007_199_254_740_993, 9_007_199_254_740_992, i64::MAX, 0] {
                let text = format!("SELECT id FROM {table} WHERE x {sign} {number}");
                pair.ask(&query(text.clone(), vec![]));
                let expected: Vec<Vec<Cell>> = pair.sqlite(&text);
                let mut kept = Kept::default();
                let text = format!("SELECT id FROM {table} WHERE x {sign} ? ORDER BY id");
                let parameters = [Value::Integer(number)];
                pair.store().execute(&text, &parameters, &mut kept).unwrap();
                assert_eq!(kept.rows, expected, "{text} {number}");
            }
        }
    }
}

/// An integer that no double holds referred to the row of the double nearest to it, and was shown as
/// that double. It refers to no row.
#[test]
fn an_integer_refers_to_a_double_of_its_value_alone() {
    let mut pair = Pair::new(65_536, 400);
    for table in [
        "CREATE TABLE a (id INTEGER PRIMARY KEY, u REAL UNIQUE)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, u REAL REFERENCES a(u))",
        "INSERT INTO a (u) VALUES (9007199254740992), (2), (9223372036854775808.0)",
    ] {
        pair.own(table).unwrap();
    }
    let mut kept = Kept::default();
    for (number, refers) in [
        (9_007_199_254_740_992, true),
        (9_007_199_254_740_993, false),
        (2, true),
        (3, false),
        (i64::MAX, false),
    ] {
        let literal = pair.own(&format!("INSERT INTO b (u) VALUES ({number})"));
        let parameter = pair.store().execute(
            "INSERT INTO b (u) VALUES (?)",
            &[Value::Integer(number)],
            &mut kept,
        );
        for result in [literal.map(drop), parameter.map(drop)] {
            match result {
                Ok(()) => assert!(refers, "{number}"),
                Err(error) => {
                    assert!(!refers, "{number}: {error}");
                    let said = format!("a has no row {number}");
                    assert!(
                        matches!(&error, Error::Key(what) if what.starts_with(&said)),
                        "{error}"
                    );
                }
            }
        }
    }
    pair.own("INSERT INTO b (u) VALUES (9007199254740992.0)")
        .unwrap();
}
