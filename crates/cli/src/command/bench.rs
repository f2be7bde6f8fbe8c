//! `probity bench`: hands over to the benchmarks.

use std::io;

use probity_bench::BenchError;

use crate::args::Bench;
use crate::failure::{Failure, Status};

pub(crate) fn run(args: &Bench) -> Result<Status, Failure> {
    args.command
        .run(&mut io::stdout().lock())
        .map_err(|error| match error {
            BenchError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Failure::output(error)
            }
            BenchError::Log(error) => error.into(),
            BenchError::Append(error) => error.into(),
            other => Failure::new("the benchmark could not be run").because(other),
        })?;
    Ok(Status::Done)
}
