//! Random schedules of disguises, reveals and writes of the application, held against the reference model.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;

use probity_disguise::{Credential, DisguiseId, Error, References, SecretKey, Suite, Value};

use super::dice::{Dice, SeedOnPanic, seeds};
use super::drawn_disguises::disguise;
use super::forum::*;
use super::model::{Cell, Model, Row, Table};

/// Steps of one schedule, before everything is revealed.
const STEPS: usize = 14;
/// One seed in so many has a person whose keys are of the hybrid suite.
const HYBRID_SEEDS: u64 = 6;
/// One seed in this many has reveals that hold no removed rows in memory.
const CLOSED_SEEDS: u64 = 2;
/// The rows that a disguise in one go holds, by the seed; zero stands for no limit.
const HELD: [u32; 6] = [0, 1, 0, 3, 0, 2];
/// Disguises are applied in turn as a whole, by the zeros, and in chunks of so many rows.
const CHUNKS: [u32; 7] = [0, 0, 1, 0, 0, 3, 0];
/// Rounds in which everybody may reveal everything before the rest counts as lost.
const ROUNDS: usize = 6;
/// Seeds of schedules that have found faults, run in the gate as well.
const FOUND: [u64; 6] = [11_952, 13_269, 35_984, 41_341, 62_825, 90_533];
/// The first placeholder's id that the generator of the forum draws.
const PLACEHOLDER_MIN: i64 = 1_000_000;

/// The forum beside its model.
struct Pair {
    forum: Forum,
    model: Model,
    /// The values that symbols of the model stand for.
    names: BTreeMap<usize, Value>,
    taken: BTreeSet<String>,
    open: Vec<(Option<i64>, DisguiseId)>,
    next: i64,
    trace: Vec<String>,
}

impl Pair {
    fn new(forum: Forum) -> Self {
        let mut pair = Self {
            forum,
            model: Model::default(),
            names: BTreeMap::new(),
            taken: BTreeSet::new(),
            open: Vec::new(),
            next: 100,
            trace: Vec::new(),
        };
        for row in pair.rows("users") {
            let Cell::Int(id) = row[0] else {
                panic!("{row:?}")
            };
            pair.model.people.insert(id, row[1..].to_vec());
            pair.model.registered.insert(id);
        }
        for table in Table::ALL {
            for row in pair.rows(table.name()) {
                let Cell::Int(id) = row[0] else {
                    panic!("{row:?}")
                };
                pair.model.rows.insert((table, id), row[1..].to_vec());
            }
        }
        pair
    }

    fn rows(&mut self, table: &str) -> Vec<Row> {
        let cell = |value: Value| match value {
            Value::Null => Cell::Null,
            Value::Int(number) => Cell::Int(number),
            Value::Text(text) => Cell::Text(text),
            other => panic!("{other:?}"),
        };
        let mut rows = self.forum.engine.preview().rows(table).unwrap();
        if let Some(tenant) = self.forum.tenant {
            let tenant = Some(Value::Int(tenant));
            assert!(rows.iter_mut().all(|row| row.pop() == tenant));
        }
        rows.into_iter()
            .map(|row| row.into_iter().map(cell).collect())
            .collect()
    }

    fn is_placeholder(cell: &Cell) -> bool {
        matches!(cell, Cell::Int(id) if *id >= PLACEHOLDER_MIN)
    }

    /// Compares `seen` with the model; a symbol takes the first value seen in its place.
    fn same(&mut self, expected: &Cell, seen: &Cell) -> bool {
        let Cell::Drawn(symbol) = expected else {
            return expected == seen;
        };
        let value = match seen {
            Cell::Int(id) if Self::is_placeholder(seen) => Value::Int(*id),
            Cell::Text(text) if text.len() == 12 => Value::from(text.as_str()),
            _ => return false,
        };
        if let Some(known) = self.names.get(symbol) {
            return *known == value;
        }
        let fresh = self.taken.insert(value.to_string());
        self.names.insert(*symbol, value);
        fresh
    }

    fn check(&mut self) {
        for table in Table::ALL {
            let rows = self.rows(table.name());
            let expected: Vec<(i64, Row)> = self
                .model
                .rows
                .iter()
                .filter(|((of, _), _)| *of == table)
                .map(|((_, id), row)| (*id, row.clone()))
                .collect();
            let ids: BTreeSet<&Cell> = rows.iter().map(|row| &row[0]).collect();
            let wanted: Vec<Cell> = expected.iter().map(|(id, _)| Cell::Int(*id)).collect();
            assert_eq!(ids, wanted.iter().collect(), "{table:?} {:?}", self.trace);
            for (id, expected) in expected {
                let seen = rows.iter().find(|row| row[0] == Cell::Int(id)).unwrap();
                for (expected, seen) in expected.iter().zip(&seen[1..]) {
                    assert!(
                        self.same(expected, seen),
                        "{table:?} {id}: {seen:?} is not {expected:?} ({:?}) {:?}",
                        self.names,
                        self.trace
                    );
                }
            }
        }
        self.check_users();
    }

    fn check_users(&mut self) {
        let (placeholders, people): (Vec<Row>, Vec<Row>) = self
            .rows("users")
            .into_iter()
            .partition(|row| Self::is_placeholder(&row[0]));
        let people: BTreeMap<i64, Row> = people
            .into_iter()
            .map(|row| match row[0] {
                Cell::Int(id) => (id, row[1..].to_vec()),
                _ => panic!("{row:?}"),
            })
            .collect();
        assert_eq!(people, self.model.people, "{:?}", self.trace);
        let present = self.model.present();
        assert_eq!(placeholders.len(), present.len(), "{:?}", self.trace);
        let there: BTreeSet<String> = placeholders
            .iter()
            .map(|row| match row[0] {
                Cell::Int(id) => id.to_string(),
                _ => String::new(),
            })
            .collect();
        for symbol in present {
            if let Some(name) = self.names.get(&symbol) {
                assert!(
                    there.contains(&name.to_string()),
                    "{symbol} {:?}",
                    self.trace
                );
            }
        }
    }

    fn key(&self, user: i64) -> SecretKey {
        let key = &self.forum.keys[&user];
        SecretKey::of(key.suite(), *key.expose())
    }

    fn symbols(&self, ids: &[Value]) -> BTreeSet<usize> {
        let known = |id: &Value| {
            let found = self.names.iter().find(|(_, name)| *name == id);
            found.map(|(symbol, _)| *symbol)
        };
        ids.iter().filter_map(known).collect()
    }

    /// An answer, or nothing where a key was refused that nothing can tell whose it is.
    fn or_nothing<T>(&mut self, user: i64, answer: Result<Vec<T>, Error>) -> Vec<T> {
        if !matches!(answer, Err(Error::WrongCredential)) {
            return answer.unwrap();
        }
        let of_tenant = self.forum.tenant;
        let of_tenant = of_tenant.map_or_else(String::new, |it| format!(" AND tenant_id = {it}"));
        let count = format!("SELECT COUNT(*) FROM users WHERE id = {user}{of_tenant}");
        let is_away = self.forum.numbers(&count) == [0];
        assert!(is_away || self.model.forgot.contains(&user), "user {user}");
        Vec::new()
    }

    /// Compares the answers to a person: their placeholders, and the disguises that hide something
    /// of theirs.
    fn check_person(&mut self, user: i64) {
        let key = self.key(user);
        let credential = Credential::Key(&key);
        let id = Value::Int(user);
        let listed = self.forum.engine.list(&id, &credential, time());
        // Of whoever has no account and no records left, nothing tells that the key was theirs.
        let listed = self.or_nothing(user, listed);
        let listed: BTreeSet<DisguiseId> = listed.into_iter().map(|it| it.id).collect();
        assert_eq!(
            listed,
            self.model.disguises_of(user),
            "user {user} {:?}",
            self.trace
        );
        let spoken = self.forum.engine.speaks_for(&id, &credential, time());
        let spoken = self.or_nothing(user, spoken);
        let expected = self.model.spoken_for(user);
        if self.model.forgot.contains(&user) {
            if spoken.is_empty() {
                self.model.speaks_for_nobody(user);
            }
            return;
        }
        assert_eq!(spoken.len(), expected.len(), "user {user} {:?}", self.trace);
        let known: BTreeSet<usize> = expected
            .into_iter()
            .filter(|symbol| self.names.contains_key(symbol))
            .collect();
        assert_eq!(self.symbols(&spoken), known, "{:?}", self.trace);
    }

    fn apply(&mut self, kind: usize, whom: Option<i64>, over: bool) {
        let (spec, steps) = disguise(kind);
        self.trace
            .push(format!("apply {kind} {whom:?} over {over}"));
        let over = over && whom.is_some();
        let outcome = match CHUNKS[self.trace.len() % CHUNKS.len()] {
            0 => self.forum.apply(spec, whom, over),
            rows => self.forum.apply_in_chunks(spec, (whom, over), rows),
        };
        match outcome {
            Ok(applied) => {
                let done = self.model.apply(applied.id, &steps, whom, over);
                assert!(done.is_some(), "should be refused {:?}", self.trace);
                self.trace.push(format!("is {}", applied.id));
                self.open.push((whom, applied.id));
            }
            Err(error) => {
                let nobody = "0000000000000000".parse().unwrap();
                let done = self.model.clone().apply(nobody, &steps, whom, over);
                assert!(done.is_none(), "{error:?} {:?}", self.trace);
            }
        }
    }

    fn reveal(&mut self, user: i64, id: DisguiseId, policy: References) {
        self.trace.push(format!("reveal {id} as {user} {policy:?}"));
        let outcome = self.forum.reveal_as(user, id, policy);
        if !self.model.can_reveal(user, id) {
            assert!(did_nothing(&outcome), "{outcome:?} {:?}", self.trace);
            return;
        }
        let revealed = match outcome {
            Ok(revealed) => revealed,
            Err(error) => panic!("{error:?} {:?}", self.trace),
        };
        let expected = self.model.reveal(user, id, policy);
        let plain = |cell: Cell| match cell {
            Cell::Int(id) => Some(id.to_string()),
            _ => None,
        };
        let expected: BTreeSet<(&str, String)> = expected
            .into_iter()
            .filter_map(|(table, id)| Some((table, plain(id)?)))
            .collect();
        let tenant = self.forum.tenant.map(|tenant| format!("{tenant}, "));
        let own = |identity: &str| match &tenant {
            Some(tenant) => identity.strip_prefix(tenant).unwrap().to_owned(),
            None => identity.to_owned(),
        };
        let kept: BTreeSet<(&str, String)> = revealed
            .kept
            .iter()
            .map(|it| (it.table.as_str(), own(&it.identity)))
            .filter(|(table, id)| *table != "users" || id.len() < 7)
            .collect();
        assert_eq!(kept, expected, "{revealed:?} {:?}", self.trace);
    }

    fn forget(&mut self, user: i64, id: DisguiseId) {
        self.trace.push(format!("forget {id} as {user}"));
        let key = self.key(user);
        let outcome =
            self.forum
                .engine
                .forget(&Value::Int(user), &Credential::Key(&key), id, time());
        if self.model.can_reveal(user, id) {
            outcome.unwrap();
            self.model.forget(user, id);
            self.check_person(user);
        } else {
            assert!(matches!(
                outcome,
                Err(Error::NoSuchDisguise | Error::WrongCredential)
            ));
        }
    }

    /// A random statement of the application.
    fn write(&mut self, dice: &mut Dice) {
        let owners: Vec<Cell> = self.owners();
        let stories = self.ids(Table::Stories);
        let moderations = self.ids(Table::Moderations);
        let (Some(owner), Some(other)) = (dice.pick(&owners), dice.pick(&owners)) else {
            return;
        };
        self.next += 1;
        let next = self.next;
        let story = dice.pick(&stories);
        match (dice.throw(9), story) {
            (0, _) => {
                let row = vec![owner, Cell::Text(format!("new{next}")), Cell::Int(0)];
                self.put(Table::Stories, next, row);
            }
            (1, Some(id)) => self.set(Table::Stories, id, 1, Cell::Text(format!("new{next}"))),
            (2, Some(id)) => self.set(Table::Stories, id, 2, Cell::Int(next)),
            (3, Some(id)) => self.delete(Table::Stories, id),
            (4, Some(id)) => {
                let user = [Cell::Null, other][dice.throw(2)].clone();
                let row = vec![owner, Cell::Int(id), user, Cell::Text("new".to_owned())];
                self.put(Table::Moderations, next, row);
            }
            (5, _) => {
                if let Some(id) = dice.pick(&moderations) {
                    match dice.throw(3) {
                        0 => self.delete(Table::Moderations, id),
                        1 => self.set(Table::Moderations, id, [0, 2][dice.throw(2)], owner),
                        _ => self.set(Table::Moderations, id, 3, Cell::Text(format!("do{next}"))),
                    }
                }
            }
            (6, Some(id)) => self.set(Table::Stories, id, 0, owner),
            (7, _) => {
                // The id of a row that may be hidden.
                let id = [10, 11, 20, 30][dice.throw(4)];
                if !self.model.rows.contains_key(&(Table::Stories, id)) {
                    let row = vec![owner, Cell::Text("again".to_owned()), Cell::Int(0)];
                    self.put(Table::Stories, id, row);
                }
            }
            _ => self.take_or_free_name(dice),
        }
    }

    /// Everybody with an account whom the application can name.
    fn owners(&self) -> Vec<Cell> {
        let people = self.model.registered.iter().map(|id| Cell::Int(*id));
        let present = self.model.present();
        let known = present
            .into_iter()
            .filter(|symbol| self.names.contains_key(symbol));
        people.chain(known.map(Cell::Drawn)).collect()
    }

    fn ids(&self, table: Table) -> Vec<i64> {
        let keys = self.model.rows.keys();
        keys.filter(|(of, _)| *of == table)
            .map(|(_, id)| *id)
            .collect()
    }

    fn value(&self, cell: &Cell) -> Value {
        match cell {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Int(*number),
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Drawn(symbol) => self.names[symbol].clone(),
        }
    }

    /// Runs a statement of the application, which every tenant's application confines to its own rows.
    fn execute(&mut self, sql: &str, values: &[Value]) {
        self.trace.push(format!("{sql} {values:?}"));
        let own = self.forum.tenant.map(|tenant| match sql.strip_suffix(')') {
            Some(row) => format!("{row}, {tenant})"),
            None => format!("{sql} AND tenant_id = {tenant}"),
        });
        let database = self.forum.engine.database();
        let sql = own.as_deref().unwrap_or(sql);
        database.execute(sql, values).unwrap();
    }

    fn put(&mut self, table: Table, id: i64, row: Row) {
        let mut values = vec![Value::Int(id)];
        values.extend(row.iter().map(|cell| self.value(cell)));
        let marks = vec!["?"; values.len()].join(",");
        self.execute(
            &format!("INSERT INTO {} VALUES ({marks})", table.name()),
            &values,
        );
        self.model.rows.insert((table, id), row);
    }

    fn set(&mut self, table: Table, id: i64, column: usize, cell: Cell) {
        let values = [self.value(&cell), Value::Int(id)];
        let name = table.columns()[column];
        let sql = format!("UPDATE {} SET {name} = ? WHERE id = ?", table.name());
        self.execute(&sql, &values);
        self.model.rows.get_mut(&(table, id)).unwrap()[column] = cell;
    }

    fn delete(&mut self, table: Table, id: i64) {
        let sql = format!("DELETE FROM {} WHERE id = ?", table.name());
        self.execute(&sql, &[Value::Int(id)]);
        self.model.rows.remove(&(table, id));
    }

    /// Somebody new takes the name of an account that is away, or gives it back.
    fn take_or_free_name(&mut self, dice: &mut Dice) {
        let strangers: Vec<i64> = self
            .model
            .people
            .keys()
            .copied()
            .filter(|id| *id > 40)
            .collect();
        if let Some(id) = dice.pick(&strangers) {
            self.execute("DELETE FROM users WHERE id = ?", &[Value::Int(id)]);
            self.model.people.remove(&id);
            return;
        }
        let away: Vec<i64> = (1..=USERS)
            .filter(|id| !self.model.people.contains_key(id))
            .collect();
        if let Some(id) = dice.pick(&away) {
            let name = format!("user{id}");
            let values = [Value::Int(id + 50), Value::from(name.as_str())];
            self.execute("INSERT INTO users VALUES (?, ?, 1)", &values);
            let row = vec![Cell::Text(name), Cell::Int(1)];
            self.model.people.insert(id + 50, row);
        }
    }

    fn random_step(&mut self, dice: &mut Dice, writes: bool) {
        let user = i64::try_from(dice.throw(4)).unwrap() + 1;
        let policies = [
            References::Recorrelate,
            References::Recorrelate,
            References::Delete,
            References::Retain,
        ];
        match dice.throw(if writes { 12 } else { 8 }) {
            0..=3 => {
                let kind = dice.throw(8);
                // Removing the accounts of all at once would leave nobody to refer to.
                let whom = if kind < 2 || dice.throw(2) == 1 {
                    Some(user)
                } else {
                    None
                };
                let over = dice.throw(2) == 1;
                self.apply(kind, whom, over);
            }
            4..=7 => {
                if let Some((whom, id)) = dice.pick(&self.open) {
                    let policy = if writes {
                        policies[dice.throw(4)]
                    } else {
                        References::Recorrelate
                    };
                    if writes && dice.throw(12) == 0 {
                        self.forget(whom.unwrap_or(user), id);
                    } else {
                        self.reveal(whom.unwrap_or(user), id, policy);
                    }
                }
            }
            _ => self.write(dice),
        }
        self.check();
        self.check_person(user);
    }

    /// Everybody reveals everything until nothing is left.
    fn reveal_all(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.trace.len();
            for user in 1..=USERS {
                for id in self.model.disguises_of(user) {
                    if self.model.can_reveal(user, id) {
                        self.reveal(user, id, References::Recorrelate);
                        self.check();
                    }
                }
                self.check_person(user);
            }
            if self.trace.len() == before {
                break;
            }
        }
    }
}

/// Returns the rows that a disguise in one go holds in the schedule of a seed.
fn held(seed: u64) -> u32 {
    let turn = seed / CLOSED_SEEDS % u64::try_from(HELD.len()).unwrap();
    HELD[usize::try_from(turn).unwrap()]
}

fn random_schedule(seed: u64, rows: u32, writes: bool) {
    let _seed = SeedOnPanic(seed);
    let mut dice = Dice::of(seed);
    let mut pair = Pair::new(forum());
    if seed.is_multiple_of(HYBRID_SEEDS) {
        pair.forum.rekey(2, Suite::XWing);
    }
    if seed.is_multiple_of(CLOSED_SEEDS) {
        pair.forum.engine.options().reveal_bytes = 0;
    }
    if let Some(rows) = NonZero::new(rows) {
        pair.forum.engine.options().apply_rows = rows;
    }
    for _ in 0..STEPS {
        pair.random_step(&mut dice, writes);
    }
    pair.reveal_all();
    if !writes {
        pair.forum.assert_as_before();
    }
}

/// Two tenants with the same ids, whose steps come in any order; the application writes in both.
fn random_schedule_of_tenants(seed: u64) {
    let _seed = SeedOnPanic(seed);
    let mut dice = Dice::of(seed);
    let mut pairs = forums().map(Pair::new);
    for _ in 0..2 * STEPS {
        pairs[dice.throw(2)].random_step(&mut dice, true);
        pairs.iter_mut().for_each(Pair::check);
    }
    for pair in &mut pairs {
        pair.reveal_all();
    }
    pairs.iter_mut().for_each(Pair::check);
}

pub(crate) fn random_schedules_of_two_tenants_do_what_two_models_say() {
    for seed in seeds(crate::SCHEDULES.div_ceil(6)) {
        random_schedule_of_tenants(seed);
    }
}

pub(crate) fn random_schedules_end_where_they_began() {
    for seed in seeds(crate::SCHEDULES) {
        random_schedule(seed, held(seed), false);
    }
}

pub(crate) fn random_schedules_do_what_the_model_says() {
    for seed in FOUND {
        random_schedule(seed, 0, true);
    }
    many_random_schedules(crate::SCHEDULES);
}

/// The schedules that the slow tests run too.
pub(crate) fn many_random_schedules(count: u64) {
    for seed in seeds(count) {
        random_schedule(seed, held(seed), true);
    }
}
