//! Ids of people who are away go to others, and the people change their keys, in any order.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};

use probity_disguise::{DisguiseId, Error};

use super::dice::Dice;
use super::society::{Society, description};

const PEOPLE: [i64; 3] = [1, 2, 3];

/// Columns that name people, each by table and column.
const NAMING: [(&str, &str); 8] = [
    ("posts", "author"),
    ("posts", "editor"),
    ("notes", "one"),
    ("notes", "two"),
    ("notes", "proof"),
    ("follows", "follower"),
    ("follows", "followee"),
    ("drafts", "editor"),
];

/// People, and who has the ids of those who are away.
struct Town {
    society: Society,
    /// The disguises of each person, the oldest first.
    gone: BTreeMap<i64, Vec<DisguiseId>>,
    away: BTreeSet<i64>,
    /// Newcomers by the id that they got, each with whether they registered.
    newcomers: BTreeMap<i64, bool>,
}

impl Town {
    fn new() -> Self {
        let mut statements: Vec<String> = [
            "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(20))",
            "CREATE TABLE posts (id BIGINT PRIMARY KEY, author BIGINT, editor BIGINT)",
            "CREATE TABLE notes (id BIGINT PRIMARY KEY, one BIGINT, two BIGINT, proof BIGINT)",
            "CREATE TABLE follows (follower BIGINT, followee BIGINT, PRIMARY KEY (follower, followee))",
            "CREATE TABLE drafts (id BIGINT PRIMARY KEY, author BIGINT, editor BIGINT NOT NULL)",
            "INSERT INTO people VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "INSERT INTO follows VALUES (1, 2), (2, 3), (3, 2)",
        ]
        .map(str::to_owned)
        .into();
        for (id, [one, two, three]) in [[1, 2, 3], [2, 3, 1], [3, 1, 2], [2, 1, 3]]
            .iter()
            .enumerate()
        {
            statements.push(format!("INSERT INTO posts VALUES ({id}, {one}, {two})"));
            statements.push(format!("INSERT INTO drafts VALUES ({id}, {one}, {three})"));
            statements.push(format!(
                "INSERT INTO notes VALUES ({id}, {one}, {two}, {three})"
            ));
        }
        let described = description(
            r#"
[tables.posts]
owners = ["author"]
readers = ["editor"]
[tables.drafts]
owners = ["author"]
readers = ["editor"]
[tables.notes]
owners = ["one", "two"]
readers = ["proof"]
[tables.follows]
owners = ["follower", "followee"]
on_leave = { follower = "remove", followee = "remove" }
[[remove]]
table = "posts"
[[remove]]
table = "drafts"
[[remove]]
table = "notes"
"#,
        );
        Self {
            society: Society::of(&statements, &described, &PEOPLE),
            gone: BTreeMap::new(),
            away: BTreeSet::new(),
            newcomers: BTreeMap::new(),
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        let Some(person) = dice.pick(&PEOPLE) else {
            return;
        };
        let is_taken = self.newcomers.contains_key(&person);
        match (dice.throw(6), self.away.contains(&person)) {
            (0 | 1, false) => {
                let chunk = dice.pick(&[None, Some(1), Some(3)]).flatten();
                let left = self.society.try_to_leave(Some(person), false, chunk);
                self.gone.entry(person).or_default().push(left.unwrap().id);
                self.away.insert(person);
            }
            (0 | 1, true) if !is_taken => {
                self.returns(person);
                self.away.remove(&person);
            }
            (2, _) => self.society.rekey(person),
            (3, true) if !is_taken => {
                let is_registered = dice.throw(2) == 0;
                let sql = format!("INSERT INTO people VALUES ({person}, 'newcomer')");
                self.society.sql(&sql);
                if is_registered {
                    drop(self.society.register_newcomer(person));
                }
                self.newcomers.insert(person, is_registered);
            }
            (4, _) => self.newcomer_goes(person),
            // Again what stayed, or in vain, because somebody else has the id.
            (5, is_away) if is_taken == is_away => self.returns(person),
            _ => {}
        }
    }

    /// Reveals what the person has hidden, the newest first.
    fn returns(&mut self, person: i64) {
        for id in self.gone.get(&person).into_iter().flatten().rev() {
            match self.society.try_to_return(person, *id) {
                Ok(_) | Err(Error::NoSuchDisguise) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn newcomer_goes(&mut self, person: i64) {
        if let Some(is_registered) = self.newcomers.remove(&person) {
            let sql = format!("DELETE FROM people WHERE id = {person}");
            self.society.sql(&sql);
            if is_registered {
                self.society.unregister(person);
            }
        }
    }

    /// Nothing names somebody who is away, whoever has the id.
    fn check(&mut self, what: &str) {
        for person in &self.away {
            for (table, column) in NAMING {
                let sql = format!("SELECT COUNT(*) FROM {table} WHERE {column} = {person}");
                let naming = self.society.numbers(&sql);
                assert_eq!(naming, [0], "{table}.{column} names {person}, {what}");
            }
        }
    }
}

/// Nothing that is put back names whoever has the id of somebody by then, and everything is as it was once all are back.
pub(crate) fn ids_given_anew_name_nobody_of_before_in_any_order() {
    for seed in 0..crate::SCHEDULES / 3 {
        let mut dice = Dice::of(seed);
        let mut town = Town::new();
        for step in 0..24 {
            town.step(&mut dice);
            town.check(&format!("step {step} of seed {seed}"));
        }
        for person in PEOPLE {
            town.newcomer_goes(person);
        }
        for _ in 0..4 {
            for person in PEOPLE {
                town.returns(person);
            }
        }
        town.society.assert_as_before(&format!("seed {seed}"));
    }
}
