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

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use probity_disguise::Database;

use self::course::Outcome;

/// The most schemas in a hundred that may be refused.
const REFUSED_SHARE_MAX: usize = 5;

/// A connection to an empty place, by its name.
pub(crate) type Connect<'a> = &'a dyn Fn(&str) -> Box<dyn Database>;

/// Leaves and returns in the schema of each seed, and counts.
pub(crate) fn everybody_returns(connect: Connect<'_>, seeds: std::ops::Range<u64>) {
    let mut refused: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut failed: Vec<String> = Vec::new();
    let count = usize::try_from(seeds.end - seeds.start).unwrap();
    for seed in seeds {
        let place = format!("drawn{seed}");
        let mut made = String::new();
        let run = || course::run(connect(&place), &place, seed, &mut made);
        let outcome =
            catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".to_owned()));
        match outcome {
            Ok(Outcome::Returned) => {}
            Ok(Outcome::Refused(reason)) => match refusal::limit(&reason) {
                Some(limit) => refused.entry(limit).or_default().push(seed),
                None => failed.push(told(
                    seed,
                    &format!("refused for no limit: {reason}"),
                    &made,
                )),
            },
            Err(reason) => failed.push(told(seed, &reason, &made)),
        }
    }
    eprintln!(
        "{count} schemas, {} failed, refused: {refused:?}",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    let refused: usize = refused.values().map(Vec::len).sum();
    assert!(
        refused * 100 <= count * REFUSED_SHARE_MAX,
        "{refused} of {count} schemas are refused"
    );
}

/// Runs the schedules of these seeds over the schemas that belong to them; each schema has several.
pub(crate) fn schedules_end_where_they_began(connect: Connect<'_>, seeds: std::ops::Range<u64>) {
    let (mut count, mut schemas) = (0, 0);
    let mut failed: Vec<String> = Vec::new();
    let first = seeds.start / mix::SCHEDULES_A_SCHEMA;
    for seed in first..seeds.end.div_ceil(mix::SCHEDULES_A_SCHEMA) {
        let place = format!("scheduled{seed}");
        let mut made = String::new();
        let from = seed * mix::SCHEDULES_A_SCHEMA;
        let own = from.max(seeds.start)..(from + mix::SCHEDULES_A_SCHEMA).min(seeds.end);
        let run = || {
            let begun = course::begun(connect(&place), &place, seed, &mut made);
            let begun = begun.map_err(|reason| (from, reason))?;
            schedule::over(begun, own, &mut made)
        };
        let outcome = catch_unwind(AssertUnwindSafe(run));
        match outcome.unwrap_or_else(|_| Err((from, "a panic".to_owned()))) {
            Ok(run) => count += run,
            Err((schedule, reason)) => {
                failed.push(told(seed, &format!("schedule {schedule}: {reason}"), &made));
            }
        }
        schemas += 1;
    }
    eprintln!(
        "{count} schedules over {schemas} schemas, {} failed",
        failed.len()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
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
