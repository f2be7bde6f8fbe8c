//! Values that the conditions of a table take, found by asking the database, which changes nothing.

use std::collections::BTreeMap;

use crate::database::value::Value;
use crate::database::{CatalogTable, Column, Constraint, Database, Dialect, Rule};
use crate::schema::generate::Generator;
use crate::spec::filler;

/// The most queries for one condition.
const QUESTIONS_MAX: usize = 2_000;
/// The number of rows with random values that must be accepted.
const DRAWS: usize = 8;
/// The longest text that is tried.
const LENGTH_MAX: usize = 40;
/// Texts that conditions often take.
const TEXTS: [&str; 11] = [
    "",
    "a",
    "A",
    "aa",
    "AA",
    "0",
    "{}",
    "[]",
    "+10000000000",
    "https://example.invalid/",
    "a@example.invalid",
];
/// Literals of types that are no texts.
const LITERALS: [&str; 9] = [
    "",
    "0",
    "{}",
    "[]",
    "0/0",
    "(0,0)",
    "((0,0))",
    "((0,0),(0,0))",
    "<(0,0),0>",
];
/// The most parts of a type of an application for which a row is tried.
const PARTS_MAX: usize = 24;
const NUMBERS: [i64; 7] = [0, 1, -1, 18, 100, 1_000, 2_000_000_000];
const MOMENTS: [&str; 3] = [
    "2000-01-01 00:00:00",
    "2024-01-01 00:00:00",
    "2100-01-01 00:00:00",
];

/// Changes generators until the conditions of `table` take what they make; gives a remark for each column of which there is
/// something to say.
pub(crate) fn fit(
    database: &mut dyn Database,
    table: &CatalogTable,
    filled: &mut Vec<(String, Generator)>,
) -> BTreeMap<String, String> {
    let mut remarks = BTreeMap::new();
    for (name, _) in &*filled {
        let members = table.column(name).map(|it| it.members.join(", "));
        if let Some(members) = members.filter(|it| !it.is_empty()) {
            remarks.insert(name.clone(), format!("one of: {members}"));
        }
    }
    fit_types(database, table, filled, &mut remarks);
    let mut trial = Trial {
        database,
        table,
        known: Vec::new(),
    };
    let conditions = table.constraints.iter().filter_map(condition);
    for (constraint, condition) in conditions {
        trial.known.push(condition);
        if trial.takes(filled) == Some(false) && !trial.search(constraint, condition, filled) {
            trial.known.pop();
            let column = constraint
                .columns
                .iter()
                .find(|it| filled.iter().any(|(name, _)| name == *it));
            if let Some(column) = column {
                let remark = format!(
                    "write a value that the condition takes: {}",
                    one_line(condition)
                );
                remarks.insert(column.clone(), remark);
            }
        }
    }
    remarks
}

/// Finds a value for types that are neither texts nor any that is known: types that an application made, and rare ones.
fn fit_types(
    database: &mut dyn Database,
    table: &CatalogTable,
    filled: &mut [(String, Generator)],
    remarks: &mut BTreeMap<String, String>,
) {
    if database.dialect() != Dialect::Postgres {
        return;
    }
    for (name, generator) in filled {
        let Some(column) = table.column(name) else {
            continue;
        };
        if column.is_text() || !matches!(generator, Generator::RandStr { .. }) {
            continue;
        }
        let drawn = generator.draw(&Value::Null, "").ok();
        let drawn = drawn.into_iter().map(|it| it.to_string());
        // A row of a type with parts, which are all NULL.
        let composed = (0..PARTS_MAX).map(|parts| format!("({})", ",".repeat(parts)));
        let literals = LITERALS.iter().map(|it| (*it).to_owned());
        let mut all = drawn.chain(literals).chain(composed).enumerate();
        let sql = format!("SELECT CAST(? AS {})::text", column.kind());
        let found = all.find(|(_, it)| {
            let asked = database.query(&sql, &[Value::Text(it.clone())]);
            asked.is_ok()
        });
        match found {
            Some((0, _)) => {}
            Some((_, text)) => *generator = Generator::ConstStr(text),
            None => drop(remarks.insert(
                name.clone(),
                format!("write a value of the type {}", one_line(column.kind())),
            )),
        }
    }
}

fn condition(constraint: &Constraint) -> Option<(&Constraint, &str)> {
    match &constraint.rule {
        Rule::Check(condition) if !condition.is_empty() => Some((constraint, condition)),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Generators on trial against the conditions taken up so far.
struct Trial<'a> {
    database: &'a mut dyn Database,
    table: &'a CatalogTable,
    known: Vec<&'a str>,
}

impl Trial<'_> {
    /// Returns whether all conditions take rows of `filled`, `None` where the database cannot say. A random value is drawn several times,
    /// because one may fit by chance.
    fn takes(&mut self, filled: &[(String, Generator)]) -> Option<bool> {
        let is_random = |it: &Generator| {
            matches!(
                it,
                Generator::RandStr { .. }
                    | Generator::RandNum { .. }
                    | Generator::RandEmail
                    | Generator::RandPhone
                    | Generator::RandUuid
            )
        };
        let draws_any = filled.iter().any(|(_, it)| is_random(it));
        let times = if draws_any { DRAWS } else { 1 };
        for _ in 0..times {
            if !self.takes_once(filled)? {
                return Some(false);
            }
        }
        Some(true)
    }

    fn takes_once(&mut self, filled: &[(String, Generator)]) -> Option<bool> {
        let dialect = self.database.dialect();
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for column in &self.table.columns {
            let name = dialect.quote(&column.name);
            let generator = filled.iter().find(|(it, _)| *it == column.name);
            let value = match generator {
                Some((_, generator)) => generator.draw(&Value::Null, MOMENTS.first()?).ok()?,
                None => Value::Null,
            };
            let given = match (dialect, &value) {
                (_, Value::Null) => "NULL".to_owned(),
                // `MariaDB` answers what is asked of parameters alone before it has their values, and once for all.
                (Dialect::Mysql, value) => written(value),
                _ => "?".to_owned(),
            };
            columns.push(match dialect {
                Dialect::Postgres => format!("CAST({given} AS {}) AS {name}", column.kind()),
                Dialect::Sqlite | Dialect::Mysql => format!("{given} AS {name}"),
            });
            if given == "?" {
                values.push(value);
            }
        }
        let conditions: Vec<String> = self.known.iter().map(|it| format!("({it})")).collect();
        let sql = format!(
            "SELECT CASE WHEN NOT ({}) THEN 0 ELSE 1 END FROM (SELECT {}) AS probity_row",
            conditions.join(" AND "),
            columns.join(", ")
        );
        let answer = self.database.query(&sql, &values).ok()?;
        Some(answer.concat() != [Value::Int(0)])
    }

    /// Looks for generators of the columns of `constraint` that make rows which all conditions take.
    fn search(
        &mut self,
        constraint: &Constraint,
        condition: &str,
        filled: &mut Vec<(String, Generator)>,
    ) -> bool {
        let table = self.table;
        let columns = constraint
            .columns
            .iter()
            .filter_map(|name| table.column(name));
        let open: Vec<&Column> = columns
            .filter(|column| !column.has_default || filled.iter().any(|(it, _)| *it == column.name))
            .collect();
        // What is there already comes first, so that no more is changed than must be.
        let choices: Vec<Vec<Option<Generator>>> = open
            .iter()
            .map(|column| {
                let before = filled.iter().find(|(name, _)| *name == column.name);
                let others = choices(table, column, condition).into_iter().map(Some);
                let before = before.map(|(_, generator)| generator.clone());
                std::iter::once(before).chain(others).collect()
            })
            .collect();
        let mut place = vec![0; open.len()];
        for _ in 0..QUESTIONS_MAX {
            let mut row = filled.clone();
            for ((column, all), at) in open.iter().zip(&choices).zip(&place) {
                let Some(Some(generator)) = all.get(*at) else {
                    continue;
                };
                match row.iter_mut().find(|(name, _)| *name == column.name) {
                    Some((_, before)) => *before = generator.clone(),
                    None => row.push((column.name.clone(), generator.clone())),
                }
            }
            if self.takes(&row) == Some(true) {
                *filled = row;
                return true;
            }
            if !advance(&mut place, &choices) {
                return false;
            }
        }
        false
    }
}

/// A value that a generator made, as a literal.
fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''")),
        other => other.to_string(),
    }
}

/// The next combination; whether there is one.
fn advance(place: &mut [usize], choices: &[Vec<Option<Generator>>]) -> bool {
    for (at, all) in place.iter_mut().zip(choices) {
        *at = at.saturating_add(1);
        if *at < all.len() {
            return true;
        }
        *at = 0;
    }
    false
}

/// Returns candidates for a column, the likeliest first: those from its condition, and then those
/// that conditions often accept.
fn choices(table: &CatalogTable, column: &Column, condition: &str) -> Vec<Generator> {
    let text = |it: &str| Generator::ConstStr(it.to_owned());
    let longest = column.length_max().unwrap_or(LENGTH_MAX).min(LENGTH_MAX);
    let lengths: Vec<usize> = (1..=longest).collect();
    let random = lengths.iter().map(|len| Generator::RandStr { len: *len });
    let repeated = lengths
        .iter()
        .flat_map(|len| ["A", "0"].map(|it| text(&it.repeat(*len))));
    let is_text = column.is_text();
    if filler::is_unique(table, column) {
        let ranges = [(1_000_000_000, 2_147_483_647), (1, 32_767)];
        let numbers = ranges.map(|(lb, ub)| Generator::RandNum { lb, ub });
        let words = [
            Generator::RandEmail,
            Generator::RandPhone,
            Generator::RandUuid,
        ];
        return if column.is_integer() {
            numbers.into()
        } else {
            random.chain(words).collect()
        };
    }
    let (texts, numbers) = literals(condition);
    let near = numbers
        .iter()
        .flat_map(|it| [*it, it.saturating_add(1), it.saturating_sub(1)]);
    let near = near.map(Generator::ConstNum);
    let usual = NUMBERS.into_iter().map(Generator::ConstNum);
    let said = texts.iter().map(|it| text(it));
    if is_text {
        let usual = TEXTS.iter().map(|it| text(it));
        let usual = repeated.chain(usual);
        let first = std::iter::once(filler::value_of(column));
        let json = condition
            .to_lowercase()
            .contains("json")
            .then(|| text("{}"));
        let first = json.into_iter().chain(first);
        let fitting = first.chain(said).chain(random).chain(usual);
        let words = [
            Generator::RandEmail,
            Generator::RandPhone,
            Generator::RandUuid,
        ];
        return fitting.chain(words).collect();
    }
    let moments = MOMENTS.iter().map(|it| text(it));
    let truths = [Generator::Bool(true), Generator::Bool(false)];
    said.chain(near)
        .chain(usual)
        .chain(moments)
        .chain(truths)
        .collect()
}

/// The texts and whole numbers that a condition has.
fn literals(condition: &str) -> (Vec<String>, Vec<i64>) {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for (at, part) in condition.split('\'').enumerate() {
        if at % 2 == 1 {
            texts.push(part.to_owned());
            continue;
        }
        let is_digit =
            |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        let words = part.split(|letter| !is_digit(letter));
        numbers.extend(words.filter_map(|word| word.parse::<i64>().ok()));
    }
    (texts, numbers)
}
