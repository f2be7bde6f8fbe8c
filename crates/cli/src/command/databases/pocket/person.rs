//! `pocket create --subject`: the sources of a person's own database.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use probity_log::clock::{Clock as _, SystemClock};
use probity_log::reader::Filter;
use probity_pocketdb::flash::FileFlash;
use probity_pocketdb::secure::FileStore;
use probity_store::{Clock, Options, Store};
use probity_vault::{Attribution, Observer, Person, VaultError};

use super::{Place, Vault};
use crate::args::PocketCreate;
use crate::command::proxy::{read_policy, subject_of};
use crate::command::reading::{self, LostForm, OnDamage, nothing_about};
use crate::command::store::not_opened;
use crate::config::Environment;
use crate::failure::{Failure, Status};
use crate::key_file::warn_if_open;
use crate::output::{counted, note};
use crate::progress::Progress;

/// Size limits of a file with hidden rows and of one with a credential, in bytes.
const EXPORT_BYTES_MAX: u64 = 256 << 20;
const CREDENTIAL_BYTES_MAX: u64 = 64 << 10;

/// The result of an import about a subject.
pub(super) struct Found {
    /// The status of the command, if all else succeeds.
    pub(super) status: Status,
    /// Entries of the log, if one was named.
    pub(super) entries: Option<u64>,
    /// Keys of the store, if one was named.
    pub(super) keys: Option<u64>,
    /// Keys of the store that do not open, if one was named.
    pub(super) unreadable: Option<u64>,
    /// Losses of the log that were accepted: nothing tells whom they were about.
    pub(super) lost: Vec<LostForm>,
    /// Files of hidden rows that do not say whose they are.
    pub(super) unnamed: Vec<PathBuf>,
}

/// Imports everything about the subject that the arguments name.
pub(super) fn fill(
    place: &Place,
    vault: &mut Vault,
    args: &PocketCreate,
    environment: &Environment,
) -> Result<Found, Failure> {
    let mut found = Found {
        status: Status::Done,
        entries: None,
        keys: None,
        unreadable: None,
        lost: Vec::new(),
        unnamed: Vec::new(),
    };
    let Some(subject) = &args.subject else {
        return Ok(found);
    };
    let refused = |error| place.vault_refused(error);
    let mut sources = Sources {
        place,
        person: Person::new(vault, subject).map_err(refused)?,
        args,
    };
    if let Some(log) = &args.log {
        (found.status, found.lost) = sources.log(log, subject, environment)?;
    }
    if let Some(store) = &args.store {
        let status = sources.store(store)?;
        if status != Status::Done {
            found.status = status;
        }
    }
    for path in &args.credentials {
        sources.credential(path)?;
    }
    let tenant = args.tenant.as_deref();
    let known = sources.person.known_as(&args.users, tenant);
    known.map_err(refused)?;
    for path in &args.disguises {
        if sources.hidden_rows(path, subject)? == Attribution::Unnamed {
            found.unnamed.push(path.clone());
        }
    }
    let filled = sources.person.finish().map_err(refused)?;
    (found.entries, found.keys) = (filled.entries, filled.keys);
    found.unreadable = filled.unreadable;
    tell_nothing(args, subject, &found);
    Ok(found)
}

/// Reports sources without the subject: a mistyped name must not pass for somebody about whom
/// nothing is held.
fn tell_nothing(args: &PocketCreate, subject: &str, found: &Found) {
    if let (Some(log), Some(0)) = (&args.log, found.entries) {
        nothing_about(subject, log);
    }
    if let (Some(store), Some(0)) = (&args.store, found.keys) {
        note(&format!(
            "0 keys about {subject} found in {}",
            store.display()
        ));
    }
}

/// The files that the arguments name, and the database that they fill.
struct Sources<'a> {
    place: &'a Place,
    person: Person<'a, FileFlash, FileStore>,
    args: &'a PocketCreate,
}

impl Sources<'_> {
    /// Imports the entries of the log at `dir`. Returns the status of a command that otherwise
    /// succeeds, and the losses that were accepted.
    fn log(
        &mut self,
        dir: &Path,
        subject: &str,
        environment: &Environment,
    ) -> Result<(Status, Vec<LostForm>), Failure> {
        let args = self.args;
        let on_damage = OnDamage::of(args.damaged_too);
        let reader = reading::open(dir, args.log_key.as_deref(), environment, on_damage)?;
        let filter = Filter {
            subject: Some(subject.to_owned()),
            ..Filter::default()
        };
        let damage = reading::told(&reader, &filter, || {
            let mut shown = Shown(Progress::new("entries"));
            let read = self.person.log(&reader, args.damaged_too, &mut shown);
            shown.0.clear();
            read.map_err(|error| match error {
                VaultError::Log(error) => on_damage.offer(error.into()),
                error => self.place.vault_refused(error),
            })
        })?;
        let lost = reader.accepted_losses().map(LostForm::from).collect();
        Ok((reading::status_after(&damage), lost))
    }

    /// Imports the subject's keys from the embedded store in `folder`.
    ///
    /// Returns the status of a command that otherwise succeeds.
    fn store(&mut self, folder: &Path) -> Result<Status, Failure> {
        // Opening would create a store.
        if !Store::is_there(folder) {
            return Err(Failure::new(format!("{} is no store", folder.display()))
                .remedy("name the folder that the proxy was given with --store"));
        }
        let policy = read_policy(self.args.policy.as_deref())?;
        let store_key = &self.args.store_key;
        let key = store_key.clone().unwrap_or_else(|| Store::key_file(folder));
        warn_if_open(&key, "the key of the store,");
        let options = Options {
            key_file: store_key.clone(),
            subject_of: subject_of(Arc::new(policy.clone())),
            clock: standing(),
            ..Options::default()
        };
        let store = Store::open(folder, options).map_err(|error| {
            let failure = Failure::new(format!("cannot open the store {}", folder.display()));
            not_opened(
                failure.remedy("stop the proxy that serves it"),
                folder,
                error,
            )
        })?;
        let name = folder.display().to_string();
        let filled = self.person.items(&store, &policy, &name);
        let damaged = store.damaged_subjects().len() as u64;
        store
            .close()
            .map_err(|error| Failure::new("the store could not be closed").because(error))?;
        filled.map_err(|error| self.place.vault_refused(error))?;
        if damaged == 0 {
            return Ok(Status::Done);
        }
        note(&format!(
            "warning: {} in {}: what belongs to them is missing here, whoever they are; copy the store and its key file aside, put both files of the store back from one backup, of one time, \
             and make the database anew",
            counted(
                damaged,
                "key of a subject is damaged",
                "keys of subjects are damaged"
            ),
            folder.display()
        ));
        Ok(Status::Broken)
    }

    fn credential(&mut self, path: &Path) -> Result<(), Failure> {
        warn_if_open(path, "the secret in");
        let secret = read(path, CREDENTIAL_BYTES_MAX)?;
        // A copy without it would pass for one that reveals.
        if secret.is_empty() {
            let text = format!("{} is empty, and no credential", path.display());
            return Err(Failure::new(text)
                .remedy("put the credential back from a backup, or leave the option out"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let taken = self.person.credential(&name, &secret);
        taken.map_err(|error| self.place.vault_refused(error))
    }

    /// Returns the subject in words, with the ids that were named.
    fn named(&self, subject: &str) -> String {
        let of = |tenant: &String| format!(" of the tenant {tenant}");
        let tenant = self.args.tenant.as_ref().map_or_else(String::new, of);
        match self.args.users.as_slice() {
            [] => format!("{subject}{tenant}"),
            users => format!("{subject}, who is {}{tenant}", users.join(" or ")),
        }
    }

    fn hidden_rows(&mut self, path: &Path, subject: &str) -> Result<Attribution, Failure> {
        let export = read(path, EXPORT_BYTES_MAX)?;
        let taken = self.person.hidden_rows(&export);
        if matches!(taken, Ok(Attribution::Unnamed)) {
            note(&format!(
                "warning: {} does not say whose rows it has, as exports of earlier versions do not: see that they are those of {subject}",
                path.display()
            ));
        }
        taken.map_err(|error| match error {
            VaultError::OtherPerson => Failure::new(format!(
                "{} has the rows of another person than {}",
                path.display(),
                self.named(subject)
            ))
            .remedy(format!(
                "leave it out; where {subject} has another id in the database of the disguises, name that with --user, and its tenant with --tenant where it has several"
            )),
            VaultError::NoExport(fault) => Failure::new(format!(
                "{} is no export of a disguise: {fault}",
                path.display()
            )),
            error @ VaultError::HiddenTooLong { .. } => {
                Failure::new(format!("{}: {error}", path.display())).remedy(
                    "leave that row out, and hand it over in a file of its own beside the database",
                )
            }
            error => self.place.vault_refused(error),
        })
    }
}

/// Returns a clock that stands: what expires while it is read would be a part of itself in the copy.
fn standing() -> Clock {
    let milliseconds = SystemClock::new().now().nanoseconds() / 1_000_000;
    let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
    Clock::Manual(Arc::new(AtomicU64::new(milliseconds)))
}

/// Reads a file of at most `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::file("read", path, error);
    let length = fs::metadata(path).map_err(failed)?.len();
    if length > most {
        return Err(Failure::new(format!(
            "{} is longer than {most} bytes",
            path.display()
        )));
    }
    fs::read(path).map_err(failed)
}

/// The count of entries on the terminal.
struct Shown(Progress);

impl Observer for Shown {
    fn took(&mut self, _number: u64) {
        self.0.add_one();
    }
}
