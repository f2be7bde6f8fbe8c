//! The program `probity-bench`, which runs the benchmarks; it is meant for developers of Probity.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;
use probity_bench::BenchCommand;

/// Measure the log on this machine.
#[derive(Debug, Parser)]
#[command(name = "probity-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    match arguments
        .command
        .run(&mut out)
        .and_then(|()| Ok(out.flush()?))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            let mut err = std::io::stderr().lock();
            while let Some(error) = cause {
                // If standard error cannot be written, there is no other place to report to.
                let _unreportable = writeln!(err, "probity-bench: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
