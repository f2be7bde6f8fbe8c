//! Requests of an application with concurrent disguises: effect on throughput and latency.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use clap::{Args, ValueEnum};
use probity_disguise::{
    Admission, Database as _, DatabaseErrorKind, SecretKey, Share, Spec, SpecFile, Suite, Value,
};

use super::application::{Application, Size};
use super::figure::{Figure, Way, write};
use super::place::{Place, called};
use super::ready::{Ready, timed};
use super::requests::Requests;
use super::{lobsters, websubmit};
use crate::command::{BenchError, OutputArguments};
use crate::workload::Random;

/// Greatest number of attempts for a transaction that conflicts with another one.
const TRIES_MAX: u32 = 100;

/// The mix of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mix {
    /// The forum's mix, without pauses, beside one user who leaves and returns
    Lobsters,
    /// Students who edit their answers every 250 to 500 ms, beside others who leave and return
    Websubmit,
}

/// The users of the forum that leave and return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Beside {
    /// A user at random
    Random,
    /// The user with the most rows
    Heaviest,
}

/// Arguments of `concurrency`.
#[derive(Debug, Args)]
pub struct ConcurrencyArguments {
    /// Mix of requests; may be repeated [default: both]
    #[arg(long = "application", value_enum)]
    mixes: Vec<Mix>,
    /// Empty database of a server, as in `probity disguise --db` [default: a new `SQLite` file]
    #[arg(long = "db", value_name = "URL")]
    database: Option<String>,
    /// File with the address of such a database, which may hold a password
    #[arg(long = "db-file", value_name = "FILE", conflicts_with = "database")]
    database_file: Option<PathBuf>,
    /// Sizes of the published evaluation, of its draft, or tiny ones
    #[arg(long, value_enum, default_value_t = Size::Paper)]
    size: Size,
    /// Connections that make requests [default: 13 of Lobsters, 100 of homework]
    #[arg(long)]
    threads: Option<usize>,
    /// Beside whom the forum's requests are made; may be repeated [default: both]
    #[arg(long, value_enum)]
    beside: Vec<Beside>,
    /// Students who leave and return all the time
    #[arg(long, default_value_t = 30)]
    disguisers: usize,
    /// Leave or return at once, at most; the others wait outside the database [default: one for each processor]
    #[arg(long, value_name = "N")]
    at_once: Option<NonZero<u32>>,
    /// Share of the time that those who leave and return are worked for, like 0.25; in between they wait outside the database
    /// [default: 1]
    #[arg(long, value_name = "SHARE")]
    share: Option<Share>,
    /// Seconds of each part of a round
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Rounds; in each, every part beside disguises has one without them before it, or after it in every other round
    #[arg(long, default_value_t = 5)]
    repeats: u32,
    /// Seed of the generators
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tiny sizes, for tests
    #[arg(long)]
    small: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// A part of a round, with the users that leave and return during it.
struct Part {
    name: &'static str,
    leaving: Vec<Value>,
    /// Requests per second in each round.
    rates: Vec<f64>,
    /// Decrease in per cent from the adjacent part without disguises, in each round.
    losses: Vec<f64>,
    /// Durations of all requests, applies and reveals, in milliseconds.
    requests: Vec<f64>,
    applies: Vec<f64>,
    reveals: Vec<f64>,
}

/// Durations of applies and reveals, in milliseconds.
type Times = (Vec<f64>, Vec<f64>);

/// State that all threads of a run share.
struct Run<'a> {
    place: &'a Place,
    application: &'a Application,
    requests: Requests,
    threads: usize,
    length: Duration,
    seed: u64,
    admission: Arc<Admission>,
    over: AtomicBool,
}

impl ConcurrencyArguments {
    /// Runs the requested measurements and writes the results.
    pub(crate) fn run(&self, out: &mut dyn std::io::Write) -> Result<(), BenchError> {
        let folder = self.output.folder()?;
        let mut figures = Vec::new();
        let mixes = match self.mixes.as_slice() {
            [] => Mix::value_variants(),
            some => some,
        };
        let said = self.database.as_deref().map(Place::server);
        let file = self.database_file.as_deref().map(Place::server_in);
        let server = said.or(file).transpose()?;
        for mix in mixes {
            let place = match &server {
                Some(place) => place,
                None => &Place::file(folder.path().join(format!("{mix:?}")), false),
            };
            self.measure(*mix, place, &mut figures)?;
            place.empty(mix.application().tables)?;
        }
        write(&figures, &self.output, out)
    }

    fn measure(
        &self,
        mix: Mix,
        place: &Place,
        figures: &mut Vec<Figure>,
    ) -> Result<(), BenchError> {
        let application = mix.application();
        let size = if self.small { Size::Small } else { self.size };
        let mut ready = Ready::new(&application, place, size, Suite::X25519, self.seed)?;
        let mut nobody = Part::new("beside nobody", Vec::new());
        let mut parts = self.parts(mix, &ready);
        let leaving: Vec<Value> = parts.iter().flat_map(|it| it.leaving.clone()).collect();
        let mut run = Run {
            place,
            application: &application,
            requests: mix.requests(&mut ready, &leaving)?,
            threads: self.threads.unwrap_or_else(|| mix.threads(self.small)),
            length: Duration::from_secs_f64(self.seconds),
            seed: self.seed,
            admission: Arc::new(self.admission()),
            over: AtomicBool::new(false),
        };
        for round in 0..self.repeats {
            for part in &mut parts {
                run.pair(&mut nobody, part, round.is_multiple_of(2), &ready)?;
            }
        }
        let database = called(ready.engine.database().dialect());
        for part in std::iter::once(nobody).chain(parts) {
            part.tell(database, application.name, figures);
        }
        Ok(())
    }

    fn admission(&self) -> Admission {
        let admission = Admission::new(self.at_once.unwrap_or_else(processors));
        admission.with_share(self.share.unwrap_or(Share::WHOLE))
    }

    /// Returns the parts with disguises that can affect the requests.
    fn parts(&self, mix: Mix, ready: &Ready) -> Vec<Part> {
        match mix {
            Mix::Lobsters => {
                let beside = match self.beside.as_slice() {
                    [] => Beside::value_variants(),
                    some => some,
                };
                beside.iter().map(|it| it.part(ready)).collect()
            }
            Mix::Websubmit => {
                let students = ready.users.measured.iter().rev();
                let leaving = students.take(self.disguisers).cloned().collect();
                vec![Part::new("beside those who leave and return", leaving)]
            }
        }
    }
}

impl Beside {
    fn part(self, ready: &Ready) -> Part {
        let (name, user) = match self {
            Self::Random => (
                "beside a user at random",
                ready.measured(3).into_iter().nth(1),
            ),
            // The user with the highest id has the most rows.
            Self::Heaviest => ("beside the heaviest user", ready.users.all.last().cloned()),
        };
        Part::new(name, user.into_iter().collect())
    }
}

impl Mix {
    fn application(self) -> Application {
        match self {
            Self::Lobsters => lobsters::application(),
            Self::Websubmit => websubmit::application(),
        }
    }

    const fn threads(self, small: bool) -> usize {
        match self {
            _ if small => 2,
            Self::Lobsters => 13,
            Self::Websubmit => 100,
        }
    }

    fn requests(self, ready: &mut Ready, leaving: &[Value]) -> Result<Requests, BenchError> {
        let all = ready.users.measured.iter();
        let staying = all.filter(|user| !leaving.contains(user)).cloned();
        let staying: Vec<Value> = staying.collect();
        let counted = match self {
            Self::Lobsters => "stories",
            Self::Websubmit => "lectures",
        };
        let sql = format!("SELECT COUNT(*) FROM {counted}");
        let count = ready.engine.database().query(&sql, &[])?;
        let count = match count.into_iter().flatten().next() {
            Some(Value::Int(count)) => count.unsigned_abs(),
            _ => return Err(BenchError::Failed(format!("{counted} cannot be counted"))),
        };
        Ok(match self {
            Self::Lobsters => Requests::forum(staying, count),
            Self::Websubmit => Requests::homework(staying, count),
        })
    }
}

impl Part {
    const fn new(name: &'static str, leaving: Vec<Value>) -> Self {
        Self {
            name,
            leaving,
            rates: Vec::new(),
            losses: Vec::new(),
            requests: Vec::new(),
            applies: Vec::new(),
            reveals: Vec::new(),
        }
    }

    fn tell(self, database: &'static str, application: &'static str, figures: &mut Vec<Figure>) {
        let slowest = self.requests.iter().copied().fold(0.0, f64::max);
        let bounds = median_bounds(&self.losses);
        let told = [
            ("requests", "a second", self.rates),
            ("fewer requests", "%", self.losses),
            ("fewer requests, the bounds of the median,", "%", bounds),
            ("the slowest request", "ms", vec![slowest]),
            ("a request", "ms", self.requests),
            ("leaving", "ms", self.applies),
            ("returning", "ms", self.reveals),
        ];
        for (what, unit, mut samples) in told {
            if samples.is_empty() {
                continue;
            }
            samples.sort_by(f64::total_cmp);
            figures.push(Figure {
                database,
                application,
                operation: format!("{what} {}", self.name),
                way: Way::Disguise,
                unit,
                samples,
            });
        }
    }
}

impl Run<'_> {
    /// Measures a part without disguises and a part with them, in either order. A drift of the
    /// machine's speed then affects both alike.
    fn pair(
        &mut self,
        nobody: &mut Part,
        part: &mut Part,
        nobody_first: bool,
        ready: &Ready,
    ) -> Result<(), BenchError> {
        let (without, beside) = if nobody_first {
            let without = self.part(nobody, ready)?;
            (without, self.part(part, ready)?)
        } else {
            let beside = self.part(part, ready)?;
            (self.part(nobody, ready)?, beside)
        };
        part.losses.push((1.0 - beside / without) * 100.0);
        Ok(())
    }

    /// Runs one part of a round: every thread makes requests, and disguises run, until the time is
    /// over. Returns the requests per second.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark runs by the system's clock"
    )]
    fn part(&mut self, part: &mut Part, ready: &Ready) -> Result<f64, BenchError> {
        *self.over.get_mut() = false;
        let run = &*self;
        let removal = run.application.personal.first();
        let spec = SpecFile::parse(removal.map_or("", |it| it.spec))?.spec;
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..run.threads)
                .map(|number| scope.spawn(move || run.ask(number)))
                .collect();
            let mut leaving = Vec::new();
            for user in &part.leaving {
                let key = ready.key(user)?;
                leaving.push(run.leave(scope, &spec, user, key));
            }
            std::thread::sleep(run.length);
            // Relaxed: the threads are joined afterwards.
            run.over.store(true, Ordering::Relaxed);
            let mut count = 0;
            for thread in asking {
                let times = thread.join().map_err(|_panic| broken())??;
                count += times.len();
                part.requests.extend(times);
            }
            let rate = count as f64 / run.length.as_secs_f64();
            part.rates.push(rate);
            for thread in leaving {
                let (applies, reveals) = thread.join().map_err(|_panic| broken())??;
                part.applies.extend(applies);
                part.reveals.extend(reveals);
            }
            Ok(rate)
        })
    }

    /// Makes requests one after the other; returns their durations.
    fn ask(&self, number: usize) -> Result<Vec<f64>, BenchError> {
        let mut database = self.place.connect()?;
        let mut random = Random::new(self.seed.wrapping_add(number as u64 + 1));
        let mut times = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            self.requests.pause(&mut random, &self.over);
            let ((), ms) = timed(|| {
                persist(|| Ok(self.requests.ask(number, &mut random, database.as_mut())?))
            })?;
            times.push(ms);
        }
        Ok(times)
    }

    /// Applies and reveals the disguise of `user` until the time is over.
    fn leave<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        spec: &'scope Spec,
        user: &'scope Value,
        key: SecretKey,
    ) -> ScopedJoinHandle<'scope, Result<Times, BenchError>> {
        scope.spawn(move || {
            let mut ready = Ready::beside(self.place, user, key)?;
            ready.engine.set_admission(Arc::clone(&self.admission));
            let (mut applies, mut reveals) = (Vec::new(), Vec::new());
            while !self.over.load(Ordering::Relaxed) {
                let (applied, ms) = timed(|| persist(|| ready.apply(spec, Some(user), None)))?;
                applies.push(ms);
                let ((), ms) = timed(|| persist(|| ready.reveal(user, applied.id)))?;
                reveals.push(ms);
            }
            Ok((applies, reveals))
        })
    }
}

/// Returns the bounds of a 95 % confidence interval for the median. It assumes no distribution: the
/// ranks of the bounds follow from the binomial distribution with p = 1/2.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "places within the samples"
)]
fn median_bounds(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    // Normal approximation of the binomial distribution.
    let reach = 1.96 * count.sqrt() / 2.0;
    let lower = (count / 2.0 - reach - 1.0).floor().max(0.0) as usize;
    let upper = (count / 2.0 + reach).ceil() as usize;
    let last = sorted.len().saturating_sub(1);
    [lower, upper.min(last)]
        .iter()
        .filter_map(|place| sorted.get(*place).copied())
        .collect()
}

/// Retries `work` while it conflicts with another transaction.
fn persist<T>(mut work: impl FnMut() -> Result<T, BenchError>) -> Result<T, BenchError> {
    let mut tries = 1;
    loop {
        match work() {
            Err(error) if tries < TRIES_MAX && is_busy(&error) => tries += 1,
            done => return done,
        }
    }
}

fn is_busy(error: &BenchError) -> bool {
    match error {
        BenchError::Database(source)
        | BenchError::Disguise(probity_disguise::Error::Database { source, .. }) => {
            matches!(
                source.kind,
                DatabaseErrorKind::Busy | DatabaseErrorKind::Conflict
            )
        }
        _ => false,
    }
}

/// Returns the number of processors; 1 if it is unknown.
fn processors() -> NonZero<u32> {
    let known = std::thread::available_parallelism().ok();
    let count = known.and_then(|count| NonZero::try_from(count).ok());
    count.unwrap_or(NonZero::<u32>::MIN)
}

fn broken() -> BenchError {
    BenchError::Failed("a thread of the benchmark ended early".into())
}
