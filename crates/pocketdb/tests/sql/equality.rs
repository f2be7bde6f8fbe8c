//! On random snowflakes, after random changes, every query has the answer that `SQLite` gives.

use probity_pocketdb::Extent;

use crate::choice::{Choice, seed};
use crate::pair::Pair;
use crate::query;
use crate::schema::{Role, Schema, Type, literal};

/// Rows that one update meets at most.
const ROWS_CHANGED_MAX: usize = 150;

/// Work of one round.
struct Round {
    memory: usize,
    rows: usize,
    steps: usize,
    queries: usize,
}

/// Rows that were tried so far, of every table.
struct State {
    ids: Vec<usize>,
    keys: usize,
}

impl Round {
    /// Changes a random database and asks it; returns queries and rows seen.
    fn run(&self, seed: u64) -> (usize, usize) {
        let mut choice = Choice::new(seed);
        let schema = Schema::random(&mut choice);
        let mut pair = Pair::new(self.memory, 400);
        for number in 0..schema.tables.len() {
            let [own, other] = schema.create(number);
            pair.own(&own)
                .unwrap_or_else(|error| panic!("{own}: {error}"));
            pair.other.execute_batch(&other).unwrap();
        }
        let mut state = State {
            ids: vec![0; schema.tables.len()],
            keys: 0,
        };
        let mut seen = 0;
        for step in 0..self.steps {
            for _ in 0..self.rows / self.steps {
                insert(&schema, &mut state, &mut pair, &mut choice);
            }
            change(&schema, &mut state, &mut pair, &mut choice);
            reorganize(&mut pair, &mut choice);
            for _ in 0..self.rows / self.steps / 3 {
                insert(&schema, &mut state, &mut pair, &mut choice);
            }
            change(&schema, &mut state, &mut pair, &mut choice);
            if step % 3 == 2 {
                pair.reopen();
            }
            for _ in 0..self.queries / self.steps {
                seen += pair.ask(&query::random(&schema, &mut choice));
            }
        }
        pair.store().verify().unwrap();
        let store = pair.store();
        println!(
            "seed {seed}: {} reorganisations, {} parts",
            store.instance(),
            store.parts()
        );
        (self.queries / self.steps * self.steps, seen)
    }
}

/// Inserts a row to a random table, most often to the last.
fn insert(schema: &Schema, state: &mut State, pair: &mut Pair, choice: &mut Choice) {
    let last = schema.tables.len() - 1;
    let number = if choice.percent(50) {
        last
    } else {
        choice.below(last + 1)
    };
    let table = &schema.tables[number];
    let mut values = vec![format!("{}", state.ids[number] + 1)];
    for column in &table.columns {
        values.push(match &column.role {
            Role::Plain => column.literal(choice),
            Role::Unique => {
                state.keys += 1;
                let repeated = choice.percent(3) && state.keys > 20;
                let key = if repeated {
                    choice.below(20)
                } else {
                    state.keys
                };
                literal(column.kind, key)
            }
            Role::Reference { table, key: None } => {
                let known = state.ids[*table];
                let beyond = usize::from(choice.percent(2));
                format!("{}", choice.below(known + beyond) + 1)
            }
            Role::Reference {
                table,
                key: Some(key),
            } => {
                let kind = schema.tables[*table].columns[*key].kind;
                let exists = pair.other.query_row(
                    &format!(
                        "SELECT {} FROM {} ORDER BY id LIMIT 1 OFFSET {}",
                        schema.tables[*table].columns[*key].name,
                        schema.tables[*table].name,
                        choice.below(state.ids[*table] / 2 + 1),
                    ),
                    [],
                    |row| match kind {
                        Type::Text => row
                            .get::<_, String>(0)
                            .map(|text| format!("'{}'", text.replace('\'', "''"))),
                        _ => row.get::<_, i64>(0).map(|number| format!("{number}")),
                    },
                );
                exists.unwrap_or_else(|_| literal(kind, 99_999))
            }
        });
    }
    let text = format!("INSERT INTO {} VALUES ({})", table.name, values.join(", "));
    if pair.change(&text) {
        state.ids[number] += 1;
    }
}

/// Goes on with a reorganisation: some tasks, perhaps stopped in the middle of one, or all.
fn reorganize(pair: &mut Pair, choice: &mut Choice) {
    let tasks = *choice.of(&[0, 5, 20, u32::MAX, u32::MAX]);
    let operations = if choice.percent(30) {
        choice.below(600) as u64
    } else {
        u64::MAX
    };
    let extent = *choice.of(&[Extent::Whole, Extent::Levels, Extent::Levels]);
    let progress = pair.store().reorganize(extent, tasks, operations).unwrap();
    assert!(progress.done <= progress.tasks);
    if choice.percent(5) {
        pair.store().cancel_reorganization().unwrap();
    }
}

/// Updates and deletes a few rows, now and then in a transaction that is taken back.
fn change(schema: &Schema, state: &mut State, pair: &mut Pair, choice: &mut Choice) {
    let transaction = choice.percent(30);
    let undone = transaction && choice.percent(50);
    if transaction {
        assert!(pair.change("BEGIN"));
    }
    for _ in 0..choice.below(6) {
        let number = choice.below(schema.tables.len());
        let table = &schema.tables[number];
        let plain: Vec<_> = table
            .columns
            .iter()
            .filter(|column| matches!(column.role, Role::Plain))
            .collect();
        let column = *choice.of(&plain);
        let value = column.literal(choice);
        let wanted = if choice.percent(60) {
            format!("id = {}", choice.below(state.ids[number] + 1))
        } else {
            let by = *choice.of(&plain);
            // The changes of one transaction are bounded by the memory.
            let from = choice.below(state.ids[number] + 1);
            let to = from + ROWS_CHANGED_MAX;
            let value = by.literal(choice);
            format!("{} = {value} AND id BETWEEN {from} AND {to}", by.name)
        };
        let delete = choice.percent(40) && (number > 0 || choice.percent(30));
        let text = if delete {
            format!("DELETE FROM {} WHERE {wanted} AND id > 20", table.name)
        } else {
            format!(
                "UPDATE {} SET {} = {value} WHERE {wanted}",
                table.name, column.name
            )
        };
        pair.change(&text);
    }
    if transaction {
        let mut last = state.ids.len();
        if choice.percent(50) {
            insert(schema, state, pair, choice);
        }
        let end = if undone { "ROLLBACK" } else { "COMMIT" };
        // A statement that was refused has ended the transaction on this side already.
        let open = pair.own(end).is_ok();
        let other = if open { end } else { "ROLLBACK" };
        drop(pair.other.execute_batch(other));
        while last > 0 {
            last -= 1;
            let text = format!("SELECT COUNT(*) FROM {}", schema.tables[last].name);
            let _: i64 = pair.other.query_row(&text, [], |row| row.get(0)).unwrap();
            let table = pair.store().table(&schema.tables[last].name).unwrap();
            state.ids[last] = pair.store().count(table) as usize;
        }
    }
}

#[test]
fn a_thousand_random_queries_equal_sqlite() {
    let seed = seed(20);
    let mut total = (0, 0);
    for number in 0..10 {
        let round = Round {
            memory: if number % 3 == 2 { 32_768 } else { 65_536 },
            rows: 900,
            steps: 5,
            queries: 100,
        };
        let (queries, rows) = round.run(seed + number);
        total = (total.0 + queries, total.1 + rows);
    }
    println!("{} queries, {} rows", total.0, total.1);
    assert!(total.0 == 1_000 && total.1 > 10_000);
}

#[test]
#[ignore = "takes minutes; run with --release --ignored"]
fn ten_thousand_random_queries_equal_sqlite() {
    let seed = seed(1_000);
    let mut total = (0, 0);
    for number in 0..50 {
        let round = Round {
            memory: *Choice::new(number).of(&[32_768, 40_960, 65_536]),
            rows: 6_000,
            steps: 10,
            queries: 200,
        };
        let (queries, rows) = round.run(seed + number);
        total = (total.0 + queries, total.1 + rows);
    }
    println!("{} queries, {} rows", total.0, total.1);
    assert!(total.0 == 10_000 && total.1 > 100_000);
}
