//! The 18 queries of the paper's table 1, with constants that exist at every size.

use super::data::Data;

/// A query and its name in the paper.
pub(super) struct Query {
    pub(super) name: &'static str,
    pub(super) text: String,
}

const T3: &str = "JOIN T3 ON T0.t3 = T3.id";
const T4: &str = "JOIN T4 ON T3.t4 = T4.id";
const T5: &str = "JOIN T5 ON T3.t5 = T5.id";
const ALL: &str = "JOIN T1 ON T0.t1 = T1.id JOIN T2 ON T1.t2 = T2.id JOIN T3 ON T0.t3 = T3.id \
                   JOIN T4 ON T3.t4 = T4.id JOIN T5 ON T3.t5 = T5.id";

/// Returns a query on T0 and the tables of `joins` that shows one column of each.
fn one(joins: &str, shown: &str, condition: &str) -> String {
    format!("SELECT T0.a1{shown} FROM T0 {joins} WHERE {condition}")
}

/// Returns the queries in the order of the paper.
pub(super) fn all(data: &Data) -> Vec<Query> {
    let label = |table, rows_each| format!("VAL_{}", data.labels(table, rows_each).div_ceil(2));
    let id = |table| data.rows(table).div_ceil(2);
    let (by3, by4, by5) = (T3.to_owned(), format!("{T3} {T4}"), format!("{T3} {T5}"));
    let (show4, show5) = (", T3.a1, T4.a1", ", T3.a1, T5.a1");
    let show = ", T1.a1, T2.a1, T3.a1, T4.a1, T5.a1";
    let range = |count| {
        let from = data.label_from_end(5, 100, count);
        one(&by5, show5, &format!("T5.dup100 >= '{from}'"))
    };
    let texts = [
        ("Mono1", one("", "", &format!("T0.id = {}", id(0)))),
        ("Mono2", one(&by3, ", T3.a1", &format!("T3.id = {}", id(3)))),
        (
            "Mono3",
            one("", "", &format!("T0.dup10 = '{}'", label(0, 10))),
        ),
        ("Mono4", one(&by5, show5, &format!("T5.id = {}", id(5)))),
        (
            "Mono5",
            one(&by3, ", T3.a1", &format!("T3.dup10 = '{}'", label(3, 10))),
        ),
        (
            "Mono6",
            one("", "", &format!("T0.dup100 = '{}'", label(0, 100))),
        ),
        (
            "Multi1",
            one(ALL, show, "T2.ms1 = 'VAL_50' AND T5.ms1 = 'VAL_50'"),
        ),
        (
            "Mono7",
            one(&by5, show5, &format!("T5.dup10 = '{}'", label(5, 10))),
        ),
        ("Mono8", one(&by4, show4, &format!("T4.id = {}", id(4)))),
        (
            "Mono9",
            one(&by3, ", T3.a1", &format!("T3.dup100 = '{}'", label(3, 100))),
        ),
        (
            "Multi2",
            one(
                ALL,
                show,
                "T2.ms10 = 'VAL_5' AND T4.ms10 = 'VAL_5' AND T5.ms10 = 'VAL_5'",
            ),
        ),
        (
            "Mono10",
            one(&by5, show5, &format!("T5.dup100 = '{}'", label(5, 100))),
        ),
        ("Range1", range(1)),
        (
            "Mono11",
            one(&by4, show4, &format!("T4.dup10 = '{}'", label(4, 10))),
        ),
        (
            "Multi3",
            one(ALL, show, "T2.ms10 = 'VAL_5' AND T5.ms10 = 'VAL_5'"),
        ),
        ("Range2", range(5)),
        ("Range3", range(10)),
        (
            "Mono12",
            one(&by4, show4, &format!("T4.dup100 = '{}'", label(4, 100))),
        ),
    ];
    texts
        .into_iter()
        .map(|(name, text)| Query { name, text })
        .collect()
}

/// Returns queries for features that the paper's do not use: groups, order, ranges, and updated
/// rows.
pub(super) fn more(data: &Data) -> Vec<Query> {
    let (rows, third) = (data.rows(0), data.rows(3).div_ceil(3));
    let from = data.label_from_end(0, 10, 3);
    let texts = [
        (
            "Count",
            "SELECT COUNT(*), MIN(T0.id), MAX(T0.id), AVG(T0.id) FROM T0".to_owned(),
        ),
        (
            "Groups",
            format!(
                "SELECT T2.ms10, COUNT(*), MIN(T0.id) FROM T0 JOIN T1 ON T0.t1 = T1.id \
                 JOIN T2 ON T1.t2 = T2.id WHERE T0.id > {} GROUP BY T2.ms10 ORDER BY T2.ms10",
                rows / 2
            ),
        ),
        (
            "Updated",
            format!("SELECT T0.id, T0.a1, T3.dup10 FROM T0 {T3} WHERE T3.dup10 = 'NEW_3'"),
        ),
        (
            "Not updated",
            format!(
                "SELECT T0.id, T3.dup10 FROM T0 {T3} WHERE T3.id BETWEEN {third} AND {}",
                third + 20
            ),
        ),
        (
            "Ordered",
            format!(
                "SELECT T0.id, T0.a1 FROM T0 WHERE T0.dup10 >= '{from}' ORDER BY T0.a1 DESC, T0.id LIMIT 15"
            ),
        ),
        (
            "Distinct",
            format!(
                "SELECT DISTINCT T3.dup10 FROM T0 {T3} WHERE T3.dup10 IN ('NEW_0', 'NEW_6', 'VAL_2') ORDER BY T3.dup10"
            ),
        ),
    ];
    let texts = texts.into_iter();
    texts.map(|(name, text)| Query { name, text }).collect()
}
