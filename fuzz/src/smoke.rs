//! Feeds every target its seeds, its corpus and changed forms of both, for a given time each, as many
//! targets at once as there are processors.
//!
//! `smoke [--seconds N] [--seed N] [--target NAME]`. An input that breaks a promise is kept under
//! `fuzz/artifacts/`. The last line says how many targets held.

#![expect(
    clippy::disallowed_methods,
    reason = "it stops by the clock and keeps what it found"
)]

use std::error::Error;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use probity_fuzz::mutate::{Random, mutated};
use probity_fuzz::{Target, target, targets};

/// The longest an input may keep a parser busy.
const CHECK_TIME_MAX: Duration = Duration::from_secs(2);

struct Options {
    seconds: u64,
    seed: u64,
    targets: Vec<Target>,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options(std::env::args().skip(1))?;
    println!("seed {}", options.seed);
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = available_parallelism().map_or(1, NonZero::get);
    // Each target draws by itself, so that the order in which they end changes no input.
    scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(target) = options.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failed.fetch_add(usize::from(!told(target, &options)), Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{} passed, {failed} failed", options.targets.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Feeds one target and prints the outcome; whether it held.
fn told(target: &Target, options: &Options) -> bool {
    match fed(target, options) {
        Ok((inputs, accepted)) => {
            println!("{}: {inputs} inputs, {accepted} accepted", target.name);
            true
        }
        Err(problem) => {
            println!("{}: FAILED: {problem}", target.name);
            false
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        seconds: 5,
        seed: 1,
        targets: targets().collect(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--seconds" => options.seconds = value.parse()?,
            "--seed" => options.seed = value.parse()?,
            "--target" => {
                options.targets =
                    vec![target(&value).ok_or_else(|| format!("there is no target {value}"))?];
            }
            _ => return Err(format!("there is no option {name}").into()),
        }
    }
    Ok(options)
}

/// Feeds one target; gives back how many inputs it saw and how many it accepted.
fn fed(target: &Target, options: &Options) -> Result<(u64, u64), Box<dyn Error>> {
    let seeds = (target.seeds)();
    for seed in &seeds {
        if !checked(target, seed)? {
            return Err(format!("refuses its own seed {}", kept(target, seed)?).into());
        }
    }
    let mut pool = seeds;
    pool.extend(corpus(target)?);
    let mut accepted = 0;
    for input in &pool {
        accepted += u64::from(checked(target, input)?);
    }
    let originals = pool.len();
    let mut inputs = u64::try_from(pool.len())?;
    let mut random = Random::new(options.seed);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(options.seconds) {
        for _ in 0..64 {
            // Every second input comes from an original, for the pool drifts to what is short.
            let bases = if random.below(2) == 0 {
                originals
            } else {
                pool.len()
            };
            let (one, other) = (random.below(bases), random.below(pool.len()));
            let input = mutated(&pool[one], &pool[other], &mut random);
            inputs += 1;
            if checked(target, &input)? {
                accepted += 1;
                // What is accepted leads to more that is: keep some of it as a base.
                if pool.len() < originals + 256 {
                    pool.push(input);
                } else if random.below(16) == 0 {
                    let place = originals + random.below(256);
                    pool[place] = input;
                }
            }
        }
    }
    Ok((inputs, accepted))
}

/// Returns whether the target accepted the input; an error when it broke a promise or took too long.
fn checked(target: &Target, input: &[u8]) -> Result<bool, Box<dyn Error>> {
    let check = target.check;
    let began = Instant::now();
    let Ok(accepted) = catch_unwind(|| check(input)) else {
        return Err(format!("broke a promise on {}", kept(target, input)?).into());
    };
    if began.elapsed() > CHECK_TIME_MAX {
        let taken = began.elapsed().as_secs_f32();
        return Err(format!("took {taken:.1} s on {}", kept(target, input)?).into());
    }
    Ok(accepted)
}

/// Keeps the input for whoever looks into it; gives back where.
fn kept(target: &Target, input: &[u8]) -> Result<String, Box<dyn Error>> {
    let folder = folder("artifacts").join(target.name);
    std::fs::create_dir_all(&folder)?;
    // The name only has to differ from those of other inputs.
    let sum = input.iter().fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let place = folder.join(format!("{sum:016x}"));
    std::fs::write(&place, input)?;
    Ok(place.display().to_string())
}

fn corpus(target: &Target) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let folder = folder("corpus").join(target.name);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut places = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        places.push(entry?.path());
    }
    places.sort();
    places
        .into_iter()
        .map(|place| Ok(std::fs::read(place)?))
        .collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
