//! `pocket create`: a new database, whole or not at all.
//!
//! Both files are filled under part names beside their places and renamed when complete, the root
//! file last. A signal removes the parts. After a kill or a loss of power the parts have names that
//! no command opens. After a kill between the two renames, commands print the missing step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use probity_pocketdb::Store;
use probity_pocketdb::flash::{BLOCK_PAGES, FileFlash, PAGE_BYTES};
use probity_pocketdb::secure::FileStore;
use probity_vault::run_script;
use serde::Serialize;

use super::change::read_script;
use super::person::Found;
use super::takeover::{Untaken, take_over};
use super::unfinished::{roots_left, unfinished};
use super::{MORE_FROM_THE_BEGINNING, Place, STORE_BYTES, Vault, person};
use crate::args::PocketCreate;
use crate::command::reading::LostForm;
use crate::config::Environment;
use crate::database_address::{Said, said};
use crate::failure::{Failure, Status};
use crate::interruption;
use crate::key_file::random_secret;
use crate::output::{Output, counted, note};
use crate::output_file::{
    Existing, check_output, is_part, left_over, part_of, put_new, sync_folder_of,
};

/// Blocks per mebibyte.
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
    /// Keys of the store that do not open, of whomever they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
    /// Parts of the log that were given up, of whomever they were.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    lost: &'a [LostForm],
    /// Files of hidden rows that do not say whose they are.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unnamed: &'a [PathBuf],
    /// Parts of another database that were not taken as they were.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    untaken: Option<&'a Untaken>,
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
    let place = Place::named(&args.pocket, environment).when_full(MORE_FROM_THE_BEGINNING);
    check_places(&place)?;
    place.protect();
    let parts = Parts::of(&place);
    let vault = make(&place, &parts, args)?;
    let Filled {
        tables,
        rows,
        untaken,
        found,
    } = fill(&place, vault, args, source, environment)?;
    parts.put_in_place(&place)?;
    let mut output = Output::after(format!("{} was created", place.file.display()));
    if args.json {
        output.json(&Created {
            file: &place.file,
            root: &place.root,
            tables,
            rows,
            entries: found.entries,
            keys: found.keys,
            unreadable: found.unreadable,
            lost: &found.lost,
            unnamed: &found.unnamed,
            untaken: untaken.as_ref(),
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
            "its key is in {}: keep it private, and back up both files together: an older copy of one does not open the other",
            place.root.display()
        ))?;
    }
    output.flush()?;
    Ok(found.status)
}

/// Refuses paths that are taken or that no new file may have, and warns of left-over parts.
fn check_places(place: &Place) -> Result<(), Failure> {
    place.check_two_files()?;
    if let Some(failure) = unfinished(place) {
        return Err(failure);
    }
    for (path, what) in [
        (&place.file, "create the pocket database"),
        (&place.root, "create the root file"),
    ] {
        let failed = |error| Failure::file(what, path, error);
        if is_part(path) {
            return Err(Failure::new(format!(
                "{} has the name of a file under way",
                path.display()
            ))
            .remedy("choose a name that does not end in .part- and a number"));
        }
        check_output(path, Existing::Keep).map_err(failed)?;
    }
    tell_what_is_left(place);
    Ok(())
}

/// Warns of parts left by killed creations. A folder that cannot be listed is passed over, because
/// it may still be writable.
fn tell_what_is_left(place: &Place) {
    let complete = roots_left(place);
    for path in [&place.file, &place.root] {
        for part in left_over(path).unwrap_or_default() {
            let advice = if complete.contains(&part) {
                "without its database: remove it, unless that has another name by now"
            } else {
                "remove it"
            };
            note(&format!(
                "{} is left of a creation that was interrupted: {advice}",
                part.display()
            ));
        }
    }
}

/// The two files under way, removed on drop or by a signal that ends the program.
struct Parts {
    file: PathBuf,
    root: PathBuf,
}

impl Parts {
    fn of(place: &Place) -> Self {
        Self {
            file: part_of(&place.file),
            root: part_of(&place.root),
        }
    }

    /// Renames the complete files, the root file last: without it the other one is no database.
    fn put_in_place(self, place: &Place) -> Result<(), Failure> {
        let put = || {
            put_new(&self.file, &place.file)?;
            sync_folder_of(&place.file)?;
            put_new(&self.root, &place.root)
                // If the second place was taken meanwhile, the first has to be free again.
                .inspect_err(|_taken| drop(fs::remove_file(&place.file)))?;
            sync_folder_of(&place.root)
        };
        interruption::put_in_place(&[&self.file, &self.root], put)
            .map_err(|error| Failure::file("create the pocket database", &place.file, error))
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for part in [&self.file, &self.root] {
            // After the renames they are gone; otherwise the first error is the one to report.
            drop(fs::remove_file(part));
            interruption::keep(part);
        }
    }
}

/// Makes both files.
fn make(place: &Place, parts: &Parts, args: &PocketCreate) -> Result<Vault, Failure> {
    let secret = random_secret()
        .map_err(|error| Failure::new("the system has no random bytes").because(error))?;
    let flash = made(&parts.file, |part| {
        FileFlash::create(part, args.extent.size * MIB_BLOCKS, true)
    })
    .map_err(|error| Failure::file("create the pocket database", &place.file, error))?;
    let secure = made(&parts.root, |part| FileStore::create(part, STORE_BYTES))
        .map_err(|error| Failure::file("create the root file", &place.root, error))?;
    place.watch(flash.failure());
    place.watch(secure.failure());
    Store::create(flash, secure, &secret, args.extent.ram).map_err(|error| place.refused(error))
}

/// Makes the file at `part`, which a signal removes from then on.
fn made<T>(part: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    interruption::remove_when_ended(part)?;
    make(part)
}

/// The origin of the tables.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// Statements to run.
    script: Option<&'a str>,
    /// The URL of another database.
    url: Option<&'a str>,
}

/// The content of a new database.
struct Filled {
    tables: u64,
    rows: u64,
    /// Parts of another database that were not taken as they were.
    untaken: Option<Untaken>,
    /// The findings about its subject.
    found: Found,
}

/// Fills the new database.
fn fill(
    place: &Place,
    mut vault: Vault,
    args: &PocketCreate,
    source: Source<'_>,
    environment: &Environment,
) -> Result<Filled, Failure> {
    if let Some(script) = source.script {
        run_script(&mut vault, script).map_err(|error| place.vault_refused(error))?;
    }
    let taken = source
        .url
        .map(|url| take_over(place, &mut vault, url, args));
    let untaken = taken.transpose()?;
    let found = person::fill(place, &mut vault, args, environment)?;
    let mut counts = (0, 0);
    for (number, _) in vault.tables() {
        counts = (counts.0 + 1, counts.1 + u64::from(vault.count(number)));
    }
    place.close(vault)?;
    Ok(Filled {
        tables: counts.0,
        rows: counts.1,
        untaken,
        found,
    })
}
