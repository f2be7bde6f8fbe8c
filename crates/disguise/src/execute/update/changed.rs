//! Columns of which nothing shows the type that a migration found: an expression that reads one would
//! find what the type makes of it with which rows are hidden.

use std::collections::{BTreeMap, BTreeSet};

use super::Mapping;
use super::question::Now;
use super::typed::{Kind, Typed};
use super::unsaid::before_migration;
use crate::database::{Column, Dialect};
use crate::error::Error;

/// A column that an expression reads, with the types of hidden rows, and where its values are now.
#[derive(Default)]
struct Untold<'r> {
    then: BTreeSet<String>,
    here: Option<(&'r str, &'r Column)>,
}

impl Mapping {
    /// Refuses a mapping whose expressions read columns of which it does not say the types that the
    /// migration found, unless their values are still, or again, in columns of the types with which rows
    /// may be hidden. A column may have got another type before its migration, or by it, or behind it.
    pub(super) fn refuse_untold_types(
        &self,
        dialect: Dialect,
        now: Now<'_>,
        rows: &[Typed],
    ) -> Result<(), Error> {
        let used = self.used();
        let mut untold: BTreeMap<&String, Untold<'_>> = BTreeMap::new();
        for row in before_migration(now.catalog.get(&self.table), rows) {
            for (name, kind) in &row.kinds {
                let Kind::Recorded(then) = kind else {
                    continue;
                };
                if !used.meets(name) || self.was.contains_key(name) {
                    continue;
                }
                let here = self.here(now, name);
                let shows = |(_, live): &(&str, &Column)| {
                    then.reads_as(dialect, live) || has_other_words(then, live)
                };
                if here.is_empty() || !here.iter().all(shows) {
                    let untold = untold.entry(name).or_default();
                    untold.then.insert(then.described(dialect));
                    untold.here = here.into_iter().find(|it| !shows(it)).or(untold.here);
                }
            }
        }
        if untold.is_empty() {
            return Ok(());
        }
        Err(self.refusal(self.asks_for(dialect, &untold)))
    }

    /// Returns the columns of now, with their tables, that have the values of one of its table, or else
    /// the column that has its name.
    fn here<'n>(&'n self, now: Now<'n>, name: &str) -> Vec<(&'n str, &'n Column)> {
        let left = self.into.iter().flat_map(|target| {
            let columns = target.places_of(name);
            columns.map(move |column| (&*target.table, column))
        });
        let left = left.filter_map(|(table, column)| Some((table, now.column(table, &column)?)));
        let mut here: Vec<_> = left.collect();
        if here.is_empty() {
            let live = now.column(&self.table, name);
            here.extend(live.map(|it| (&*self.table, it)));
        }
        here
    }

    /// Returns the message about columns of which the update does not say the types.
    fn asks_for(&self, dialect: Dialect, untold: &BTreeMap<&String, Untold<'_>>) -> String {
        let of = &self.table;
        let found = untold.iter().map(|(name, Untold { then, here })| {
            let now = here.map_or_else(
                || "is in no table now as it was".to_owned(),
                |(table, it)| format!("is {} now in {table}", it.described(dialect)),
            );
            let then: Vec<&str> = then.iter().map(String::as_str).collect();
            let then = then.join(" or ");
            format!("{name} (was {then} when rows were hidden, and {now})")
        });
        let found: Vec<String> = found.collect();
        let said = untold.iter().filter_map(|(name, it)| {
            let one = it.then.first();
            one.map(|it| format!("{} = {}", key(name), toml::Value::String(it.clone())))
        });
        let said: Vec<String> = said.collect();
        let alone = untold.values().all(|it| it.then.len() == 1);
        let or = if alone {
            " if they had not changed since, or with"
        } else {
            ", by"
        };
        format!(
            "reads columns of {of} of which nothing shows the types that the migration found: {}. Say them in the update, as was = {{ {} }}{or} the types that they had right before the migration",
            found.join(", "),
            said.join(", ")
        )
    }
}

/// Returns a name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    toml::Value::String(name.to_owned()).to_string()
}

/// Returns whether an enumeration has other words. Where it orders them, it is refused by itself.
fn has_other_words(then: &Column, live: &Column) -> bool {
    then.kind() == live.kind() && then.members != live.members
}
