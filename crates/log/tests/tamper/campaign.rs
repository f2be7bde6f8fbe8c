//! Runs every kind of attack at many random places: all are found, with the right class and place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use probity_log::verify::{FaultClass, Report};

use crate::kinds::{Kind, Place, Verdict, all};
use crate::random::Random;
use crate::world::{Look, Scene, World};

/// The seed of the places; `TAMPER_SEED` takes its place.
const SEED: u64 = 20_260_801;
/// Runs of each kind in the gate; `TAMPER_RUNS` replaces it, and `TAMPER_KIND` selects kinds by a
/// part of their name.
const RUNS: usize = 6;
/// Runs of each kind in the slow form.
const RUNS_SLOW: usize = 1_000;
/// Threads, each with a copy of its own.
const WORKERS: usize = 2;

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// The results of one kind.
#[derive(Default)]
struct Tally {
    runs: usize,
    found: usize,
    classes: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

fn campaign(runs: usize) {
    let seed = number("TAMPER_SEED", SEED);
    println!("TAMPER_SEED={seed}");
    let world = World::new();
    let mut kinds = all();
    let chosen = std::env::var("TAMPER_KIND").unwrap_or_default();
    kinds.retain(|kind| kind.name.contains(&chosen));
    assert!(!kinds.is_empty(), "no kind has {chosen:?} in its name");
    assert!(runs > 0, "no runs");
    let mut tallies: Vec<Tally> = Vec::new();
    std::thread::scope(|scope| {
        let (world, kinds) = (&world, kinds.as_slice());
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(move || work(world, kinds, worker, runs, seed)))
            .collect();
        for worker in workers {
            for (place, tally) in worker.join().unwrap().into_iter().enumerate() {
                if tallies.len() <= place {
                    tallies.push(Tally::default());
                }
                tallies[place].add(tally);
            }
        }
    });
    println!("{}", table(&kinds, &tallies));
    let wrong: Vec<String> = kinds
        .iter()
        .zip(&tallies)
        .flat_map(|(kind, tally)| {
            tally
                .wrong
                .iter()
                .map(|wrong| format!("{}: {wrong}", kind.name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        tallies.len() == kinds.len() && tallies.iter().all(|tally| tally.found == runs),
        "each kind is tried at {runs} places"
    );
}

/// The share of one worker: every kind, each of its places.
fn work(world: &World, kinds: &[Kind], worker: usize, runs: usize, seed: u64) -> Vec<Tally> {
    let mut scene = world.scene();
    let tally = |(number, kind): (usize, &Kind)| {
        let mut tally = Tally::default();
        for run in (worker..runs).step_by(WORKERS) {
            let mut random = Random::new(seed ^ ((number as u64) << 32 | run as u64));
            tally.run(kind, &mut scene, &mut random);
        }
        tally
    };
    let tallies = kinds.iter().enumerate().map(tally).collect();
    let report = scene.verify(Look::Keyed).unwrap();
    assert!(
        report.is_intact(),
        "put back as it was: {:?}",
        report.faults
    );
    tallies
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.found += other.found;
        for (class, count) in other.classes {
            *self.classes.entry(class).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }

    fn run(&mut self, kind: &Kind, scene: &mut Scene<'_>, random: &mut Random) {
        let place = (kind.attack)(scene, random);
        self.runs += 1;
        match judged(kind, scene, &place) {
            Ok(classes) => {
                self.found += 1;
                for class in classes {
                    *self.classes.entry(class).or_default() += 1;
                }
            }
            Err(wrong) => self.wrong.push(format!("run {}: {wrong}", self.runs)),
        }
        scene.undo();
    }
}

/// The reported classes, if the attack was found with the right class and place.
fn judged(kind: &Kind, scene: &Scene<'_>, place: &Place) -> Result<Vec<&'static str>, String> {
    let report = match (scene.verify(kind.look), kind.verdict) {
        (Err(error), Verdict::Refused(reason)) if error.to_string().contains(reason) => {
            return Ok(vec!["refused"]);
        }
        (Err(error), _) => return Err(format!("cannot be verified: {error}")),
        (Ok(report), _) => report,
    };
    if matches!(kind.verdict, Verdict::Listed) {
        return listed_as(&report, place);
    }
    let listed = || {
        report.faults.iter().fold(String::new(), |mut text, fault| {
            let _infallible = write!(text, "\n    {fault}");
            text
        })
    };
    let wanted = |class: FaultClass| match kind.verdict {
        Verdict::Fault(wanted) => class == wanted,
        // A forgery that is not refused is another log.
        Verdict::Refused(_) => class == FaultClass::KeyChain,
        Verdict::Listed => false,
    };
    let at_place =
        |stream: &str, found: &str| stream == place.stream && found.contains(&place.place);
    let mut faults = report.faults.iter();
    if !faults.any(|fault| wanted(fault.class) && at_place(&fault.stream, &fault.place)) {
        return Err(format!(
            "not found in stream {}, {}:{}",
            place.stream,
            place.place,
            listed()
        ));
    }
    let refused = matches!(kind.verdict, Verdict::Refused(_));
    let strange = |class: FaultClass| !wanted(class) && !kind.also.contains(&class) && !refused;
    if report.faults.iter().any(|fault| strange(fault.class)) {
        return Err(format!("called something else too:{}", listed()));
    }
    let mut classes: Vec<&str> = report
        .faults
        .iter()
        .map(|fault| fault.class.as_str())
        .collect();
    classes.sort_unstable();
    classes.dedup();
    Ok(classes)
}

/// Unchecked files must be listed all the same.
fn listed_as(report: &Report, place: &Place) -> Result<Vec<&'static str>, String> {
    if !report.is_intact() {
        return Err(format!("called a fault: {:?}", report.faults));
    }
    let stream = report.streams.iter().find(|it| it.name == place.stream);
    let is_tail = stream.is_some_and(|stream| stream.tail_bytes > 0);
    let mut unchecked = report.unchecked.iter();
    if is_tail && place.place.contains("/segments/") || unchecked.any(|it| it.path == place.place) {
        return Ok(vec!["listed"]);
    }
    Err(format!(
        "{} is not listed: {:?}",
        place.place, report.unchecked
    ))
}

fn table(kinds: &[Kind], tallies: &[Tally]) -> String {
    let mut text = String::from("| attack | 5.1 | runs | found | named |\n|---|---|---|---|---|\n");
    let mut sum = 0;
    for (kind, tally) in kinds.iter().zip(tallies) {
        let classes: Vec<&str> = tally.classes.keys().copied().collect();
        sum += tally.runs;
        let look = match kind.look {
            Look::Keyless => "",
            Look::Keyed => ", with the root key",
            Look::Anchor => ", with the verifier key",
        };
        let _infallible = writeln!(
            text,
            "| {} | {} | {} | {} | {}{look} |",
            kind.name,
            kind.of,
            tally.runs,
            tally.found,
            classes.join(", ")
        );
    }
    let _infallible = writeln!(text, "{} kinds, {sum} runs", kinds.len());
    text
}

#[test]
fn every_kind_of_attack_is_found_named_and_placed() {
    campaign(number("TAMPER_RUNS", RUNS as u64) as usize);
}

#[test]
#[ignore = "takes a quarter of an hour; run it with --ignored"]
fn every_kind_of_attack_is_found_at_a_thousand_places() {
    campaign(number("TAMPER_RUNS", RUNS_SLOW as u64) as usize);
}
