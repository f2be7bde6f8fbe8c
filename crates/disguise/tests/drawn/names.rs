//! Names of tables and columns, some of which need quotes.

use std::collections::BTreeSet;

use probity_disguise::Dialect;

use super::dice::Dice;
use super::layout::{Class, Table};
use super::mix;

const STRANGE: &[&str] = &[
    "order",
    "group",
    "select",
    "my table",
    "UPPER",
    "CamelCase",
    "semi;colon",
    "a-b",
    "dot.ted",
    "na\u{ef}ve",
    "what?",
    "it's",
    "100%",
    "user",
    "key",
    "back`tick",
    "double\"quote",
    "\u{1f600}",
    "$1",
    ":name",
    "from",
    "two  spaces",
    "[bracket]",
    "sla/sh",
    "#hash",
];

pub(crate) struct Names {
    dialect: Dialect,
    taken: BTreeSet<String>,
}

impl Names {
    pub(crate) const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            taken: BTreeSet::new(),
        }
    }

    pub(crate) fn table(&mut self, dice: &mut Dice, class: Class) -> String {
        let plain = match class {
            Class::Users => "users",
            Class::Owned => "posts",
            Class::Shared => "messages",
            Class::Follows => "follows",
            Class::Through => "answers",
            Class::Lookup => "countries",
        };
        let taken = std::mem::take(&mut self.taken);
        let name = self.one(dice, plain, &taken);
        self.taken = taken;
        self.taken.insert(name.to_lowercase());
        name
    }

    pub(crate) fn column(&self, dice: &mut Dice, table: &Table, plain: &str) -> String {
        let taken = table.columns.iter().map(|it| it.name.to_lowercase());
        self.one(dice, plain, &taken.collect())
    }

    fn one(&self, dice: &mut Dice, plain: &str, taken: &BTreeSet<String>) -> String {
        let mut name = if dice.in_a_hundred(mix::STRANGE_NAMES) {
            dice.word(STRANGE)
        } else {
            plain.to_owned()
        };
        // Names of `MariaDB` lie within the plane of three bytes.
        if self.dialect == Dialect::Mysql {
            name = name.replace('\u{1f600}', "\u{263a}");
        }
        let mut number = 2;
        let first = name.clone();
        while taken.contains(&name.to_lowercase()) {
            name = format!("{first}{number}");
            number += 1;
        }
        name
    }
}
