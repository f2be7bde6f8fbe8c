//! Benchmarks of disguises: the three applications of Edna's evaluation, compared with hand-written
//! statements.

mod application;
mod busy;
mod concurrency;
mod everybody;
mod figure;
mod hotcrp;
mod lobsters;
mod manual;
mod measure;
mod place;
mod ready;
mod requests;
mod websubmit;

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use probity_disguise::Suite;

use self::application::{Application, Size};
use self::busy::Busy;
pub use self::concurrency::ConcurrencyArguments;
use self::measure::Measurement;
use self::place::Place;
use crate::command::{BenchError, OutputArguments};

/// Default number of users measured one by one, as in the paper.
const USERS: usize = 200;
/// Number of users measured one by one in a test.
const USERS_SMALL: usize = 3;
/// Default number of measurements of the disguise of all users.
const ROUNDS: usize = 5;

/// The applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Homework: users, lectures, questions, answers
    Websubmit,
    /// Conferences: papers, reviews, comments, conflicts
    Hotcrp,
    /// A forum of links: stories, comments, votes, messages
    Lobsters,
}

impl Name {
    const ALL: [Self; 3] = [Self::Websubmit, Self::Hotcrp, Self::Lobsters];

    fn application(self) -> Application {
        match self {
            Self::Websubmit => websubmit::application(),
            Self::Hotcrp => hotcrp::application(),
            Self::Lobsters => lobsters::application(),
        }
    }
}

/// Arguments of `disguise`.
#[derive(Debug, Args)]
pub struct DisguiseArguments {
    /// Application; may be repeated [default: all three]
    #[arg(long = "application", value_enum)]
    applications: Vec<Name>,
    /// Empty database, as in `probity disguise --db`; may be repeated [default: a new `SQLite` file]
    #[arg(long = "db", value_name = "URL")]
    databases: Vec<String>,
    /// File with the address of such a database, which may hold a password; may be repeated
    #[arg(long = "db-file", value_name = "FILE")]
    database_files: Vec<PathBuf>,
    /// Sizes of the published evaluation, of its draft, or tiny ones
    #[arg(long, value_enum, default_value_t = Size::Paper)]
    size: Size,
    /// Users measured one by one, spread over all [default: 200]
    #[arg(long)]
    users: Option<usize>,
    /// Measurements of the disguise of everybody [default: 5]
    #[arg(long)]
    rounds: Option<usize>,
    /// Threads that keep the processor busy beside the measurement
    #[arg(long, value_name = "THREADS", default_value_t = 0)]
    load: usize,
    /// Let `SQLite` wait for the disk at every commit; servers are set at their own place
    #[arg(long)]
    sync: bool,
    /// Suite of everybody's keys: x25519 or x-wing
    #[arg(long, default_value_t = Suite::X25519)]
    suite: Suite,
    /// Seed of the generators
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tiny sizes, for tests
    #[arg(long)]
    small: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

impl DisguiseArguments {
    /// Runs the requested measurements and writes the results.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), BenchError> {
        let folder = self.output.folder()?;
        let _busy = Busy::start(self.load);
        let mut figures = Vec::new();
        let names = match self.applications.as_slice() {
            [] => &Name::ALL,
            some => some,
        };
        for name in names {
            let application = name.application();
            for place in self.places(folder.path().join(application.name))? {
                let mut measurement = Measurement {
                    application: &application,
                    place: &place,
                    size: if self.small { Size::Small } else { self.size },
                    users: self
                        .users
                        .unwrap_or(if self.small { USERS_SMALL } else { USERS }),
                    rounds: self.rounds.unwrap_or(if self.small { 1 } else { ROUNDS }),
                    suite: self.suite,
                    seed: self.seed,
                    figures: &mut figures,
                };
                measurement.run()?;
            }
        }
        figure::write(&figures, &self.output, out)
    }

    fn places(&self, file: PathBuf) -> Result<Vec<Place>, BenchError> {
        let said = self.databases.iter().map(|url| Place::server(url));
        let files = self.database_files.iter();
        let all = said.chain(files.map(|file| Place::server_in(file)));
        let all: Vec<Place> = all.collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Ok(vec![Place::file(file, self.sync)]);
        }
        Ok(all)
    }
}
