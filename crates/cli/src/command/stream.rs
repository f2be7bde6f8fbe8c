//! `probity stream`: creating and listing streams.

use probity_log::{Cipher, Durability};
use serde::Serialize;

use super::{open_log, open_reader};
use crate::args::{StreamCreate, StreamList};
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::output::Output;

/// One stream as listed.
#[derive(Serialize)]
struct Streams<'a> {
    streams: &'a [Row],
}

#[derive(Serialize)]
struct Row {
    name: String,
    proofs: &'static str,
    cipher: &'static str,
    erasable: bool,
}

pub(crate) fn create(args: &StreamCreate, environment: &Environment) -> Result<Status, Failure> {
    let log = open_log(
        &args.dir,
        args.key.as_deref(),
        environment,
        Durability::default(),
    )?;
    log.create_stream(&args.name, args.config.config())?;
    log.close()?;
    let mut output = Output::after("the stream was created");
    output.line(&format!("stream {}: {}", args.name, args.config.config()))?;
    output.flush()?;
    Ok(Status::Done)
}

pub(crate) fn list(args: &StreamList, environment: &Environment) -> Result<Status, Failure> {
    let reader = open_reader(&args.dir, args.key.as_deref(), environment)?;
    // A damaged journal does not name all streams.
    reader.check(None)?;
    let mut rows: Vec<Row> = reader
        .streams()
        .map(|(name, config)| Row {
            name: name.to_string(),
            proofs: config.proofs.as_str(),
            cipher: config.cipher.as_str(),
            erasable: config.erasable,
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let mut output = Output::new();
    if args.json {
        output.json(&Streams { streams: &rows })?;
    } else {
        let cells = rows.iter().map(|row| {
            let erasable = if row.erasable { "yes" } else { "no" };
            [&row.name, row.proofs, said_of_cipher(row.cipher), erasable].map(str::to_owned)
        });
        let cells: Vec<[String; 4]> = cells.collect();
        output.table(["stream", "proofs", "cipher", "erasable"], &cells)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

/// Returns the cipher for people: streams without one hold what the log says of itself, for everybody
/// to read.
fn said_of_cipher(word: &'static str) -> &'static str {
    if word == Cipher::DangerNone.as_str() {
        "none (public)"
    } else {
        word
    }
}
