//! `pocket create`: a new database, whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use probity_pocketdb::Store;
use probity_pocketdb::flash::{BLOCK_PAGES, FileFlash, PAGE_BYTES};
use probity_pocketdb::secure::FileStore;
use rustix::io::Errno;
use serde::Serialize;

use super::change::{read_script, run_script};
use super::person::Filled;
use super::takeover::Takeover;
use super::{Place, STORE_BYTES, Vault, person};
use crate::args::PocketCreate;
use crate::config::Environment;
use crate::database_address::{Said, said};
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::key_file::random_secret;
use crate::output::{Output, counted};
use crate::output_file::place_new;

/// Blocks of a mebibyte.
const MIB_BLOCKS: u32 = 8;
const _: () = assert!(MIB_BLOCKS as usize * BLOCK_PAGES as usize * PAGE_BYTES == 1 << 20);

#[derive(Serialize)]
struct Created<'a> {
    file: &'a Path,
    root: &'a Path,
    tables: u64,
    rows: u64,
    /// Entries of the log about the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    /// Keys of the store about the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    memory_bytes: usize,
}

pub(super) fn run(args: &PocketCreate, environment: &Environment) -> Result<Status, Failure> {
    let script = args.schema.as_deref().map(read_script).transpose()?;
    let from = said(Said {
        option: "--from",
        url: args.from.as_deref(),
        file_option: "--from-file",
        file: args.from_file.as_deref(),
    })?;
    let source = Source {
        script: script.as_deref(),
        url: from.as_ref().map(|url| url.as_str()),
    };
    let place = Place::of(&args.pocket, environment);
    let parts = Parts::of(&place)?;
    let vault = make(&place, &parts, args)?;
    let (tables, rows, found) = fill(&place, vault, args, source, environment)?;
    parts.put_in_place(&place)?;
    let mut output = Output::new();
    if args.json {
        output.json(&Created {
            file: &place.file,
            root: &place.root,
            tables,
            rows,
            entries: found.entries,
            keys: found.keys,
            memory_bytes: args.extent.ram,
        })?;
    } else {
        let (tables, rows) = (
            counted(tables, "table", "tables"),
            counted(rows, "row", "rows"),
        );
        output.line(&format!(
            "created {} with {tables} and {rows}",
            place.file.display()
        ))?;
        output.line(&format!(
            "its key is in {}: whoever has that file reads the database",
            place.root.display()
        ))?;
    }
    output.flush()?;
    Ok(found.status)
}

const FILE: &str = "create the pocket database";
const ROOT: &str = "create the root file";

/// Both files under names of their own, until they are whole: a database that lacks rows would be intact in every other way. Dropping them, or a signal that ends
/// the program, leaves neither; a kill leaves them under names that nobody asked for.
struct Parts {
    file: PathBuf,
    root: PathBuf,
}

impl Parts {
    fn of(place: &Place) -> Result<Self, Failure> {
        let part = |what: &str, path: &Path| {
            if path.symlink_metadata().is_ok() {
                return Err(Failure::file(what, path, Errno::EXIST.into())
                    .remedy("name another file; what is there stays"));
            }
            let mut part = path.as_os_str().to_owned();
            part.push(format!(".part-{}", std::process::id()));
            let part = PathBuf::from(part);
            let watched = interruption::remove_when_ended(&part);
            watched.map_err(|error| Failure::file(what, path, error))?;
            Ok(part)
        };
        Ok(Self {
            file: part(FILE, &place.file)?,
            root: part(ROOT, &place.root)?,
        })
    }

    /// The database first: without its root file it is no database that opens.
    fn put_in_place(self, place: &Place) -> Result<(), Failure> {
        for (what, part, path) in [
            (FILE, &self.file, &place.file),
            (ROOT, &self.root, &place.root),
        ] {
            let placed = place_new(part, path);
            placed.map_err(|error| Failure::file(what, path, error))?;
        }
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for part in [&self.file, &self.root] {
            // Where it went to its place there is none.
            drop(fs::remove_file(part));
            interruption::keep(part);
        }
    }
}

fn make(place: &Place, parts: &Parts, args: &PocketCreate) -> Result<Vault, Failure> {
    let secret = random_secret()
        .map_err(|error| Failure::new("the system has no random bytes").because(error))?;
    let flash = FileFlash::create(&parts.file, args.extent.size * MIB_BLOCKS, true)
        .map_err(|error| Failure::file(FILE, &place.file, error))?;
    let secure = FileStore::create(&parts.root, STORE_BYTES)
        .map_err(|error| Failure::file(ROOT, &place.root, error))?;
    Store::create(flash, secure, &secret, args.extent.ram).map_err(|error| place.refused(error))
}

/// Where its tables come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// Statements to run.
    script: Option<&'a str>,
    /// Another database.
    url: Option<&'a str>,
}

/// Fills the new database; returns how many tables and rows it has, and what was found about its subject.
fn fill(
    place: &Place,
    mut vault: Vault,
    args: &PocketCreate,
    source: Source<'_>,
    environment: &Environment,
) -> Result<(u64, u64, Filled), Failure> {
    if let Some(script) = source.script {
        run_script(place, &mut vault, script)?;
    }
    if let Some(url) = source.url {
        Takeover::new(url, args)?.run(place, &mut vault)?;
    }
    let found = person::fill(place, &mut vault, args, environment)?;
    let mut counts = (0, 0);
    for (number, _) in vault.tables() {
        counts = (counts.0 + 1, counts.1 + u64::from(vault.count(number)));
    }
    place.close(vault)?;
    Ok((counts.0, counts.1, found))
}
