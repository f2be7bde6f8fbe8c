//! Random schemas: whoever leaves one of them comes back, and every row of every table is as it was.

mod course;
mod ddl;
mod dice;
mod dump;
mod kinds;
mod kinds_mariadb;
mod kinds_postgres;
mod kinds_sqlite;
mod layout;
mod mix;
mod names;
mod person;
mod refusal;
mod rows;
mod schedule;
mod wish;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use probity_disguise::Database;

use self::course::Outcome;
use self::schedule::Done;

/// The most schemas in a hundred that may be refused.
const REFUSED_SHARE_MAX: usize = 5;
/// The number of schemas that are drawn for one seed before its refusals are a fault.
const DRAWS_MAX: u64 = 10;
/// The least number of disguises that a schedule applies, on average. They reach 3.7 on each
/// database.
const DISGUISES_MIN: u64 = 3;
/// The number of schedules from which on an average says something.
const AVERAGED_MIN: u64 = 40;

/// A connection to an empty place, by its name.
pub(crate) type Connect<'a> = &'a dyn Fn(&str) -> Box<dyn Database>;

/// The results of a campaign.
#[derive(Default)]
struct Tally {
    /// Schemas, with those that were refused or left out.
    drawn: usize,
    /// Schemas in which everything was done.
    done: u64,
    /// Seeds by the sentence of the manual.
    refused: BTreeMap<&'static str, Vec<u64>>,
    left_out: usize,
    failed: Vec<String>,
}

impl Tally {
    /// Draws schemas for a seed until one is neither refused nor left out, and works in it. `work`
    /// takes the place, the seed of the schema and the text for the statements.
    fn draw(
        &mut self,
        name: &str,
        first: u64,
        work: &dyn Fn(&str, u64, &mut String) -> Result<Outcome, String>,
    ) {
        for draw in 0..DRAWS_MAX {
            let seed = first ^ (draw << 32);
            let place = format!("{name}{seed}");
            let mut made = String::new();
            let run = || work(&place, seed, &mut made);
            let outcome = catch_unwind(AssertUnwindSafe(run));
            let outcome = outcome.unwrap_or_else(|_| Err("a panic".to_owned()));
            self.drawn += 1;
            let reason = match outcome {
                Ok(Outcome::Returned) => {
                    self.done += 1;
                    return;
                }
                Ok(Outcome::LeftOut) => {
                    self.left_out += 1;
                    continue;
                }
                Ok(Outcome::Refused(reason)) => match refusal::limit(&reason) {
                    Some(limit) => {
                        self.refused.entry(limit).or_default().push(seed);
                        continue;
                    }
                    None => format!("refused for no limit: {reason}"),
                },
                Err(reason) => reason,
            };
            self.failed.push(told(seed, &reason, &made));
            return;
        }
        let reason = format!("seed {first}: {DRAWS_MAX} schemas in turn are refused or left out");
        self.failed.push(reason);
    }

    /// Fails if something did, or if fewer schemas than `wanted` were worked in.
    fn end(&self, wanted: u64) {
        eprintln!(
            "{} schemas drawn, {} worked in, {} failed, {} left out, refused: {:?}",
            self.drawn,
            self.done,
            self.failed.len(),
            self.left_out,
            self.refused
        );
        assert!(self.failed.is_empty(), "{}", self.failed.join("\n\n"));
        assert_eq!(self.done, wanted, "schemas that were worked in");
    }
}

/// Leaves and returns in a schema of each seed.
pub(crate) fn everybody_returns(connect: Connect<'_>, seeds: std::ops::Range<u64>) {
    assert!(!seeds.is_empty(), "no seeds");
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        tally.draw("drawn", seed, &|place, seed, made| {
            course::run(connect(place), place, seed, made)
        });
    }
    tally.end(seeds.end - seeds.start);
    let refused: usize = tally.refused.values().map(Vec::len).sum();
    assert!(
        refused * 100 <= tally.drawn * REFUSED_SHARE_MAX,
        "{refused} of {} schemas are refused",
        tally.drawn
    );
}

/// Runs the schedules of these seeds over the schemas that belong to them; each schema has several.
pub(crate) fn schedules_end_where_they_began(connect: Connect<'_>, seeds: std::ops::Range<u64>) {
    assert!(!seeds.is_empty(), "no seeds");
    let mut tally = Tally::default();
    let done = Cell::new(Done::default());
    let schemas =
        seeds.start / mix::SCHEDULES_A_SCHEMA..seeds.end.div_ceil(mix::SCHEDULES_A_SCHEMA);
    for first in schemas.clone() {
        let from = first * mix::SCHEDULES_A_SCHEMA;
        let own = from.max(seeds.start)..(from + mix::SCHEDULES_A_SCHEMA).min(seeds.end);
        tally.draw(
            "scheduled",
            first,
            &|place, seed, made| match course::begun(connect(place), place, seed, made)? {
                Ok(course) => schedule::over(course, own.clone(), made, &done),
                Err(reason) => Ok(Outcome::Refused(reason)),
            },
        );
    }
    let done = done.get();
    eprintln!("{done:?}");
    tally.end(schemas.end - schemas.start);
    let wanted = seeds.end - seeds.start;
    assert_eq!(done.schedules, wanted, "schedules that ran");
    let says_something = wanted >= AVERAGED_MIN;
    assert!(
        !says_something || done.applied >= wanted * DISGUISES_MIN,
        "{done:?}"
    );
}

/// Returns the reason with its seed. If `DRAWN_OUT` names a folder, a file there gets the statements
/// that reproduce it.
fn told(seed: u64, reason: &str, made: &str) -> String {
    if let Ok(folder) = std::env::var("DRAWN_OUT") {
        let path = std::path::Path::new(&folder).join(format!(
            "{}{seed}.sql",
            std::thread::current()
                .name()
                .unwrap_or_default()
                .rsplit('_')
                .next()
                .unwrap()
        ));
        std::fs::write(path, format!("-- {reason}\n{made}")).unwrap();
    }
    format!("seed {seed}: {reason}")
}
