//! Many deletes and updates with little memory: the same answers, for not many more reads.

use probity_pocketdb::Extent;

use crate::pair::Pair;
use crate::query::Query;

const ROWS: u32 = 8_000;
/// Rows of one statement, and rows for each one deleted, and for each one updated.
const TOGETHER: u32 = 30;
const STRIDE: u32 = 8;
const BLOCKS: u32 = 300;

const QUERIES: [&str; 5] = [
    "SELECT id, label, amount FROM t WHERE amount >= 0",
    "SELECT id, amount FROM t WHERE label = 'v3' AND amount <> 7",
    "SELECT COUNT(*), SUM(amount), MIN(id), MAX(id) FROM t",
    "SELECT label, COUNT(*) FROM t WHERE id BETWEEN 1000 AND 7000 GROUP BY label ORDER BY label",
    "SELECT id, label FROM t ORDER BY id LIMIT 400 OFFSET 100",
];

fn ask(pair: &mut Pair, text: &str) -> usize {
    pair.ask(&Query {
        text: text.to_owned(),
        ordered_by: Vec::new(),
    })
}

/// Page reads of all queries.
fn asked(pair: &mut Pair) -> u64 {
    let before = pair.store().counters().flash.page_reads;
    for text in QUERIES {
        assert!(ask(pair, text) > 0, "{text}");
    }
    pair.store().counters().flash.page_reads - before
}

/// Deletes and updates, a thousand of each, over all the rows.
fn change_many(pair: &mut Pair) {
    for at in (1..ROWS).step_by(STRIDE as usize) {
        assert!(pair.change(&format!("DELETE FROM t WHERE id = {at}")));
        let (id, value) = (at + 3, at % 5);
        assert!(pair.change(&format!("UPDATE t SET amount = {value} WHERE id = {id}")));
    }
}

/// A database with many changes since its reorganisation.
fn changed(memory: usize) -> Pair {
    let mut pair = Pair::new(memory, BLOCKS);
    let create = "CREATE TABLE t (id INTEGER PRIMARY KEY, label TEXT(10) INDEXED, amount INTEGER";
    pair.own(&format!("{create} INDEXED)")).unwrap();
    pair.other
        .execute_batch(&format!("{create})").replace(" INDEXED", ""))
        .unwrap();
    for first in (0..ROWS).step_by(TOGETHER as usize) {
        let row = |n: u32| format!("({}, 'v{}', {})", n + 1, n * 7 % 11, n * 13 % 101);
        let rows: Vec<String> = (first..ROWS.min(first + TOGETHER)).map(row).collect();
        assert!(pair.change(&format!("INSERT INTO t VALUES {}", rows.join(", "))));
    }
    pair.store()
        .reorganize(Extent::Whole, u32::MAX, u64::MAX)
        .unwrap();
    change_many(&mut pair);
    pair
}

#[test]
fn many_changes_cost_half_the_memory_no_more_than_three_times_the_reads() {
    let reads = [32_768, 65_536].map(|memory| {
        let mut pair = changed(memory);
        let queries = asked(&mut pair);
        let before = pair.store().counters().flash.page_reads;
        pair.store()
            .reorganize(Extent::Whole, u32::MAX, u64::MAX)
            .unwrap();
        let reorganisation = pair.store().counters().flash.page_reads - before;
        asked(&mut pair);
        [queries, reorganisation]
    });
    println!("32 KB and 64 KB, queries and reorganisation: {reads:?}");
    let [little, much] = reads;
    for (little, much) in little.into_iter().zip(much) {
        assert!(little <= 3 * much, "{little} reads instead of {much}");
    }
}

#[test]
fn changes_taken_back_or_made_between_queries_are_seen_at_once() {
    let mut pair = changed(32_768);
    asked(&mut pair);
    for round in 0..40 {
        let at = round * 197 + 2;
        assert!(pair.change("BEGIN"));
        assert!(pair.change(&format!("DELETE FROM t WHERE id = {at}")));
        assert!(pair.change(&format!("UPDATE t SET amount = 500 WHERE id = {}", at + 2)));
        ask(&mut pair, QUERIES[round % QUERIES.len()]);
        let end = if round % 2 == 0 { "ROLLBACK" } else { "COMMIT" };
        assert!(pair.change(end));
        ask(&mut pair, QUERIES[(round + 1) % QUERIES.len()]);
        if round % 10 == 9 {
            pair.reopen();
        }
    }
    pair.store().verify().unwrap();
}

/// Rows of the table with a wide column, and how many of its last rows a narrow update changes.
const WIDE_ROWS: u32 = 2_000;
const NARROW: u32 = 19;

/// A false positive of the filter was taken for a fault of the engine, where fewer parts had come
/// before a row's last update than a wide value has. Nothing could be read or reorganised any more.
#[test]
fn the_first_updates_do_not_hide_the_wide_values_of_their_rows() {
    let mut pair = Pair::new(32_768, BLOCKS);
    let create = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, c VARCHAR(480))";
    assert!(pair.change(create));
    for first in (0..WIDE_ROWS).step_by(20) {
        let row = |n: u32| format!("({n}, 'c{n}')");
        let rows: Vec<String> = (first..first + 20).map(row).collect();
        assert!(pair.change(&format!("INSERT INTO t (a, c) VALUES {}", rows.join(", "))));
    }
    for id in WIDE_ROWS - NARROW..WIDE_ROWS {
        assert!(pair.change(&format!("UPDATE t SET a = -1 WHERE id = {id}")));
    }
    assert!(pair.change("UPDATE t SET c = 'new' WHERE id = 1"));
    // These fill the filter, so that it takes most rows for updated.
    for first in (2..WIDE_ROWS * 3 / 4).step_by(100) {
        let last = first + 99;
        assert!(pair.change(&format!(
            "DELETE FROM t WHERE id BETWEEN {first} AND {last}"
        )));
    }
    let count = format!("SELECT COUNT(*) FROM t WHERE id >= {}", WIDE_ROWS - NARROW);
    for reorganized in [false, true] {
        let rows = ask(&mut pair, "SELECT id, a, c FROM t");
        assert!(rows > 400, "{rows}");
        ask(&mut pair, "SELECT COUNT(*), MIN(c), MAX(c) FROM t");
        ask(&mut pair, &count);
        assert!(pair.change("DELETE FROM t WHERE c = 'nothing'"));
        if !reorganized {
            pair.store()
                .reorganize(Extent::Whole, u32::MAX, u64::MAX)
                .unwrap();
        }
    }
    pair.store().verify().unwrap();
}
