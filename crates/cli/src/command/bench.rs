//! `probity bench`: hands over to the benchmarks.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use probity_bench::{BenchError, Files};

use crate::args::Bench;
use crate::failure::{Failure, Status};
use crate::output_file::{Existing, OutputFile};
use crate::output_guard::check_new;

/// Files that stay where they are there already.
const CREATED: Files = Files {
    check: |path| OutputFile::create(path).map(drop),
    write: |path, text| write(path, text, Existing::Keep),
    make_folder,
};
/// Files in the place of others.
const REPLACED: Files = Files {
    check: |path| OutputFile::begin(path, Existing::Replace).map(drop),
    write: |path, text| write(path, text, Existing::Replace),
    make_folder,
};

pub(crate) fn run(args: Bench) -> Result<Status, Failure> {
    let files = if args.overwrite { REPLACED } else { CREATED };
    args.command
        .with_files(files)
        .run(&mut io::stdout().lock())
        .map_err(|error| match error {
            BenchError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Failure::output(error)
            }
            BenchError::File { path, source } => Failure::file("write", &path, source),
            BenchError::Log(error) => error.into(),
            BenchError::Append(error) => error.into(),
            other => Failure::new("the benchmark could not be run").because(other),
        })?;
    Ok(Status::Done)
}

fn write(path: &Path, text: &str, existing: Existing) -> io::Result<()> {
    let mut file = OutputFile::begin(path, existing)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    check_new(folder)?;
    fs::create_dir_all(folder)
}
