//! `pocket import`: rows of a CSV or JSON file.

use std::io::{self, Cursor, Read};
use std::path::Path;

use probity_vault::{End, Import, Observer, RowsFormat as Form};
use rustix::io::Errno;
use serde::Serialize;

use super::Place;
use crate::args::{PocketImport, RowsFormat};
use crate::command::input::Input;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::output::{Output, counted};
use crate::output_guard::secret;
use crate::progress::Progress;

/// Bytes by which the file of a key is recognised.
const HEAD_BYTES: usize = 32;

#[derive(Serialize)]
struct Imported<'a> {
    table: &'a str,
    rows: u64,
}

pub(super) fn run(args: &PocketImport, environment: &Environment) -> Result<Status, Failure> {
    let format = args.format.unwrap_or_else(|| format_of(&args.rows));
    interruption::end_gracefully()?;
    if args.rows.is_dir() {
        // Reading it would fail too, and its rows would be called malformed.
        return Err(Failure::file("read", &args.rows, Errno::ISDIR.into()));
    }
    let input = without_key(&args.rows, Input::open(&args.rows)?)?;
    let place = Place::of(&args.pocket, environment);
    let mut vault = place.open(true)?;
    let mut import = Import::new(&mut vault, &args.table, args.rows_per_commit)
        .map_err(|error| place.vault_refused(error))?;
    let form = match format {
        RowsFormat::Csv => Form::Csv,
        RowsFormat::Json => Form::Json,
    };
    let mut shown = Shown(Progress::new("rows"));
    let ran = import.read(form, input, &mut shown);
    shown.0.clear();
    let rows = import.committed();
    let kept = counted(rows, "row was imported", "rows were imported");
    let ran = ran.map_err(|error| place.vault_refused(error).after(&kept));
    if place.close_after(vault, ran, |_| kept.clone())? == End::Stopped {
        return Err(Failure::new("a signal asked to stop")
            .after(&kept)
            .remedy("leave these rows out of the input, but not the heading of a CSV file, and run the same command again"));
    }
    show(args, rows).map_err(|failure| place.committed(&kept, failure))?;
    Ok(Status::Done)
}

fn show(args: &PocketImport, rows: u64) -> Result<(), Failure> {
    let mut output = Output::new();
    if args.json {
        let table = &args.table;
        output.json(&Imported { table, rows })?;
    } else {
        let rows = counted(rows, "row", "rows");
        output.line(&format!("imported {rows} into {}", args.table))?;
    }
    output.flush()
}

/// Refuses the file of a key by its beginning: a message about its rows would show the key.
fn without_key<R: Read>(path: &Path, mut input: R) -> Result<impl Read, Failure> {
    let head = beginning(&mut input);
    match secret(&head) {
        Some(what) => Err(
            Failure::new(format!("{} holds {what}, and no rows", path.display()))
                .remedy("name the file of the rows; nothing of this one was imported"),
        ),
        None => Ok(Cursor::new(head).chain(input)),
    }
}

/// Returns the first bytes of a file, or its first line and what came with it: no key begins with a
/// shorter one, and whoever writes into a pipe may wait before the next.
fn beginning(input: &mut impl Read) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut buffer = [0; HEAD_BYTES];
    while head.len() < HEAD_BYTES && !head.contains(&b'\n') {
        let room = buffer.get_mut(head.len()..).unwrap_or_default();
        match input.read(room) {
            Ok(count) if count > 0 => head.extend_from_slice(room.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What could not be read now is reported when it is read as rows.
            Ok(_) | Err(_) => break,
        }
    }
    head
}

fn format_of(path: &Path) -> RowsFormat {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("json" | "jsonl") => RowsFormat::Json,
        _ => RowsFormat::Csv,
    }
}

/// The count of rows on the terminal; a signal stops the import.
struct Shown(Progress);

impl Observer for Shown {
    fn took(&mut self, _number: u64) {
        self.0.add_one();
    }

    fn is_stopped(&self) -> bool {
        interruption::is_stopped()
    }
}
