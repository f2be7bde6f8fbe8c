//! `probity pocket`: a database in one file, with its key in another.

mod change;
mod create;
mod evidence;
mod import;
mod look;
mod person;
mod query;
mod reorganize;
mod schema;
mod takeover;
mod unfinished;
mod vault_failure;

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use probity_pocketdb::flash::{FileFlash, FlashError, Nand};
use probity_pocketdb::secure::FileStore;
use probity_pocketdb::{Error, SecureStore, Store, SystemFailure};
use serde::Serialize;

use self::schema::is_of_schema;
use self::unfinished::{root_under_way, unfinished};
use crate::args::{PocketChoice, PocketCommand, PocketCreate};
use crate::config::Environment;
use crate::envelope::Failed;
use crate::failure::{Failure, Status};
use crate::key_file;
use crate::output::Output;
use crate::output_file::is_part;
use crate::output_guard::{is_one_file, protect};
use crate::shell::quoted;

/// Bytes of the secure store: the NOR memory of the paper's token.
const STORE_BYTES: usize = 1 << 20;
/// The end of its words for a value of a unique column that is there already.
const TAKEN: &str = "has this value in another row already";

/// The remedy for a full chip, for commands that change a database.
const MORE_ROOM: &str = "the committed rows are safe; probity pocket reorganize FILE makes room as long as there is as much free as it writes; \
    else the rows go to a larger chip: make one with probity pocket create NEW --schema SCHEMA --size MIB, and import there, table by table, what \
    probity pocket query FILE \"SELECT * FROM TABLE\" --format csv gives, its lines sorted by the key";
/// The remedy for a full chip while `pocket reorganize` makes room.
const NO_ROOM_BESIDE: &str = "everything is as it was: what is written anew needs room beside what is there; the rows go to a larger chip: make one \
    with probity pocket create NEW --schema SCHEMA --size MIB, and import there, table by table, what \
    probity pocket query FILE \"SELECT * FROM TABLE\" --format csv gives, its lines sorted by the key";
/// The remedy for a full chip during a creation, which leaves nothing behind.
const MORE_FROM_THE_BEGINNING: &str = "make it larger with --size MIB";

/// The remedy where another file is named as the root file.
const NAME_THE_ROOT: &str = "name the root file with --root ROOT or PROBITY_POCKET_ROOT";

/// Remedies for a full disk and for any other failure of it.
const MORE_ON_DISK: &str =
    "make room on the disk, or allow larger files; what was committed before is safe";
const LOOK_AT_DISK: &str = "look for a failing disk, and take a copy of both files";

/// A database in files.
type Vault = Store<FileFlash, FileStore>;

pub(crate) fn run(command: &PocketCommand, environment: &Environment) -> Result<Status, Failure> {
    match command {
        PocketCommand::Create(args) => create(args, environment),
        PocketCommand::Exec(args) => change::run(args, environment),
        PocketCommand::Import(args) => import::run(args, environment),
        PocketCommand::Query(args) => query::run(args, environment),
        PocketCommand::Schema(args) => schema::run(args, environment),
        PocketCommand::Reorganize(args) => reorganize::run(args, environment),
        PocketCommand::Verify(args) => {
            let found = match &args.keyless {
                Some(key) => evidence::verify(args, key, environment),
                None => look::verify(args, environment),
            };
            with_document(args.json, &args.pocket.file, found)
        }
        PocketCommand::Sign(args) => evidence::sign(args, environment),
        PocketCommand::Extract(args) => evidence::extract(args, environment),
        PocketCommand::Check(args) => with_document(args.json, &args.file, evidence::check(args)),
        PocketCommand::Stats(args) => look::stats(args, environment),
        PocketCommand::Simulate(args) => look::simulate(args, environment),
    }
}

/// The document for a file that is not what was written or signed.
#[derive(Serialize)]
struct Unsound<'a> {
    file: &'a Path,
    intact: bool,
    fault: String,
    #[serde(flatten)]
    failed: Failed,
}

/// Returns `found`, after printing a document about a broken database where `json` asks for one.
fn with_document(
    json: bool,
    file: &Path,
    found: Result<Status, Failure>,
) -> Result<Status, Failure> {
    if let Err(failure) = &found
        && json
        && failure.status() == Status::Broken
    {
        let mut output = Output::new();
        output.json(&Unsound {
            file,
            intact: false,
            fault: failure.clause(),
            failed: Failed::new(failure),
        })?;
        output.flush()?;
    }
    found
}

/// Creates a database, on behalf of other commands too.
pub(crate) fn create(args: &PocketCreate, environment: &Environment) -> Result<Status, Failure> {
    create::run(args, environment)
}

/// The two files of a database.
struct Place {
    file: PathBuf,
    root: PathBuf,
    /// The remedy for a full chip.
    when_full: &'static str,
    /// The system's errors, as noted by the files that were opened.
    failures: Rc<RefCell<Vec<SystemFailure>>>,
}

impl Place {
    fn of(choice: &PocketChoice, environment: &Environment) -> Self {
        let place = Self::named(choice, environment);
        place.protect();
        place
    }

    /// Returns the two paths without protecting them, because the files do not exist yet.
    fn named(choice: &PocketChoice, environment: &Environment) -> Self {
        let said = choice.root.clone();
        Self {
            file: choice.file.clone(),
            root: said
                .or_else(|| environment.pocket_root.clone())
                .unwrap_or_else(|| beside(&choice.file, "root")),
            when_full: MORE_ROOM,
            failures: Rc::default(),
        }
    }

    /// Replaces the remedy for a full chip.
    fn when_full(self, advice: &'static str) -> Self {
        Self {
            when_full: advice,
            ..self
        }
    }

    fn protect(&self) {
        protect(&self.file);
        protect(&self.root);
    }

    /// Returns the path of the database with `ending` as a further extension.
    fn beside(&self, ending: &str) -> PathBuf {
        beside(&self.file, ending)
    }

    /// Opens the flash chip and locks it against other programs.
    fn chip(&self, durable: bool) -> Result<FileFlash, Failure> {
        self.opened_chip(|file| FileFlash::open(file, durable))
    }

    /// Opens the flash chip to read it alone, wherever it lies.
    fn chip_to_read(&self) -> Result<FileFlash, Failure> {
        self.opened_chip(FileFlash::open_to_read)
    }

    fn opened_chip(
        &self,
        open: impl FnOnce(&Path) -> io::Result<FileFlash>,
    ) -> Result<FileFlash, Failure> {
        if is_part(&self.file) {
            return Err(Failure::new(format!(
                "{} is what an interrupted creation left, or one that is under way: only part of a pocket database",
                self.file.display()
            ))
            .remedy("remove it with its root file, and create the database again"));
        }
        let chip = open(&self.file).map_err(|error| {
            if Self::is_root(&self.file) {
                return self.named_as_chip();
            }
            let missing = self.named_in("make one with: probity pocket create FILE");
            self.unopened("open the pocket database", &self.file, error, &missing)
        })?;
        self.watch(chip.failure());
        Ok(chip)
    }

    /// Adds a source of system errors that failures report.
    fn watch(&self, failure: SystemFailure) {
        self.failures.borrow_mut().push(failure);
    }

    /// Refuses a root file that is under way, one that never got its final name, and anything that
    /// is no file.
    fn check_root(&self) -> Result<(), Failure> {
        if is_part(&self.root) {
            return Err(root_under_way(&self.root));
        }
        self.check_two_files()?;
        match fs::metadata(&self.root) {
            Ok(found) if !found.is_file() => {
                Err(Failure::new(format!("{} is no file", self.root.display()))
                    .remedy(NAME_THE_ROOT))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                unfinished(self).map_or(Ok(()), Err)
            }
            // Opening it reports the rest.
            Ok(_) | Err(_) => self.check_no_chip(),
        }
    }

    /// Refuses the chip in the place of its root file: it seemed to be open in another program.
    fn check_two_files(&self) -> Result<(), Failure> {
        if !is_one_file(&self.file, &self.root) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{} is the chip, and its root file is another file",
            self.root.display()
        ))
        .remedy(NAME_THE_ROOT))
    }

    /// Returns whether the file at `path` is a root file, of whatever database.
    fn is_root(path: &Path) -> bool {
        let opened = FileStore::open(path, STORE_BYTES);
        opened.is_ok_and(|mut root| Vault::memory_given(&mut root).is_ok())
    }

    /// Refuses a root file in the place of the chip: nothing is damaged, and an older copy would not
    /// open.
    fn named_as_chip(&self) -> Failure {
        let swapped = if FileFlash::is_at(&self.root) {
            format!("; {} is the chip", self.root.display())
        } else {
            String::new()
        };
        Failure::usage(format!(
            "{} is a root file, and the chip is another file{swapped}",
            self.file.display()
        ))
        .remedy("name the chip first, and its root file with --root ROOT or PROBITY_POCKET_ROOT where it is not FILE.root")
    }

    /// Refuses the chip of another database in the place of the root file.
    fn check_no_chip(&self) -> Result<(), Failure> {
        if !FileFlash::is_at(&self.root) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{} is a chip, and the root file is another file",
            self.root.display()
        ))
        .remedy(NAME_THE_ROOT))
    }

    /// Explains why a file cannot be opened; `missing` is the remedy where there is none.
    fn unopened(&self, what: &str, file: &Path, error: io::Error, missing: &str) -> Failure {
        let remedy = match error.kind() {
            io::ErrorKind::WouldBlock => "wait until the other command has ended",
            io::ErrorKind::InvalidData => return self.damaged(file, error),
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                "each opening writes to both files: copy them to where you may write, or get the permission"
            }
            io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge => missing,
            _ => return Failure::file(what, file, error),
        };
        Failure::file(what, file, error).remedy(remedy)
    }

    /// Reports a file whose content was never written to it.
    fn damaged(&self, file: &Path, error: io::Error) -> Failure {
        Failure::broken(format!("{} is not what was written", file.display()))
            .because(error)
            .remedy(if file == self.root {
                "take an undamaged copy, or name the root file that was made with the database with --root ROOT"
            } else {
                "take an undamaged copy of the database"
            })
    }

    /// Opens the database; with `durable`, what is written must survive a loss of power.
    fn open(&self, durable: bool) -> Result<Vault, Failure> {
        self.open_on(self.chip(durable)?)
    }

    /// Opens the database on a chip that the caller has opened.
    fn open_on<F: Nand>(&self, flash: F) -> Result<Store<F, FileStore>, Failure> {
        let secure = self.secure()?;
        self.open_with(flash, secure)
    }

    /// Opens the root file and locks it against other programs.
    fn secure(&self) -> Result<FileStore, Failure> {
        self.check_root()?;
        key_file::warn_if_open(&self.root, "the root file, which holds the database's key,");
        let secure = FileStore::open(&self.root, STORE_BYTES).map_err(|error| {
            let missing = "name it with --root ROOT or PROBITY_POCKET_ROOT";
            self.unopened("open the root file", &self.root, error, missing)
        })?;
        self.watch(secure.failure());
        Ok(secure)
    }

    /// Opens the database with the memory that it was created with.
    fn open_with<F: Nand, S: SecureStore>(
        &self,
        flash: F,
        mut secure: S,
    ) -> Result<Store<F, S>, Failure> {
        let memory = Store::<F, S>::memory_given(&mut secure);
        memory
            .and_then(|memory| Store::open(flash, secure, memory))
            .map_err(|error| self.refused(error))
    }

    /// Translates a refusal of the engine for the terminal, with its remedy.
    fn refused(&self, error: Error) -> Failure {
        let file = self.file.display();
        match error {
            // A page that another program rewrote meanwhile is one that nobody here wrote.
            Error::Flash(FlashError::Changed) => {
                Failure::broken(format!("{file} is not what was written"))
                    .because(FlashError::Changed)
                    .remedy("let no other program write to it, or take an undamaged copy")
            }
            Error::Tampered { .. } => Failure::broken(format!("{file} is not what was written"))
                .because(error)
                .remedy("put back the newest copy of the database, or both files from one backup: a copy that is older than its root file looks like this, and so does the file of another database"),
            Error::Root(what) if what.starts_with("is older") => Failure::broken(format!(
                "{} does not open {file}",
                self.root.display()
            ))
            .because(error)
            .remedy("put the newest root file back, or both files from one backup: the root file and the chip belong together"),
            Error::Root(_) => Failure::broken(format!(
                "{} does not open {file}",
                self.root.display()
            ))
            .because(error)
            .remedy("take an undamaged copy, or name the root file that was made with the database with --root ROOT"),
            Error::ForeignRoot(_) => Failure::new(format!(
                "{} does not open {file}",
                self.root.display()
            ))
            .because(error)
            .remedy("name the root file that was made with the database with --root ROOT"),
            Error::NewerFormat(_) => Failure::new(format!("cannot read {file}"))
                .because(error)
                .remedy("use the version of probity that wrote it, or a later one"),
            Error::DeviceFull => Failure::new(format!("{file} has no room left"))
                .because(error)
                .remedy(self.named_in(self.when_full)),
            Error::Key(ref what) if what.ends_with(TAKEN) => {
                Failure::new("the pocket database refuses").because(error).remedy(
                    "a unique column has each value once; create --from takes a table over without UNIQUE with --plain TABLE",
                )
            }
            Error::Key(_) => Failure::new("the pocket database refuses").because(error).remedy(
                "rows that others refer to come first; keys of rows are 1, 2, 3 ... in order, or left out",
            ),
            Error::Share { .. } => Failure::new("the statement takes too much memory")
                .because(error)
                .remedy("ask for fewer comparisons or columns at a time, or change fewer rows with one statement"),
            Error::Memory { .. } => Failure::new("the memory does not suffice")
                .because(error)
                .remedy("create the database with more --ram, or with fewer or narrower tables"),
            Error::SecureStore | Error::Flash(FlashError::Medium) => self.medium(error),
            // While a database is created, it is not there to be looked at.
            Error::Sql { ref what, .. } | Error::Name(ref what)
                if is_of_schema(what) && self.file.is_file() =>
            {
                Failure::new("the pocket database refuses")
                    .because(error)
                    .remedy(self.named_in(schema::ADVICE))
            }
            error => Failure::new("the pocket database refuses").because(error),
        }
    }

    /// Returns a remedy with the database in the place of FILE.
    fn named_in(&self, remedy: &str) -> String {
        remedy.replace(" FILE", &format!(" {}", quoted(&self.file)))
    }

    /// Reports a failed file with the system's error and the remedy.
    fn medium(&self, error: Error) -> Failure {
        let path = if error == Error::SecureStore {
            &self.root
        } else {
            &self.file
        };
        let failure = Failure::new(format!("cannot read or write {}", path.display()));
        let failures = self.failures.borrow();
        let Some(cause) = failures.iter().find_map(SystemFailure::first) else {
            return failure.because(error);
        };
        let is_full = matches!(
            cause.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let remedy = if is_full { MORE_ON_DISK } else { LOOK_AT_DISK };
        failure.because(cause.to_string()).remedy(remedy)
    }

    /// Closes the database and stores the counts of its operations.
    fn close<F: Nand>(&self, vault: Store<F, FileStore>) -> Result<(), Failure> {
        vault.close().map(drop).map_err(|error| self.refused(error))
    }

    /// Closes the database behind changes that `ran`, of which `done` says what was committed: that
    /// stands, also where the work behind it fails or the counts of operations cannot be stored. A
    /// page that is not what was written outweighs another failure.
    fn close_after<F: Nand, T>(
        &self,
        vault: Store<F, FileStore>,
        ran: Result<T, Failure>,
        done: impl FnOnce(&T) -> String,
    ) -> Result<T, Failure> {
        match (ran, self.close(vault)) {
            (Ok(ran), Ok(())) => Ok(ran),
            (Ok(ran), Err(failure)) => Err(self.committed(&done(&ran), failure)),
            (Err(ran), Err(closed)) if closed.status() == Status::Broken => {
                // The closing repeats what the command met itself.
                Err(match ran.status() {
                    Status::Broken => ran,
                    _ => closed.after(&ran.clause()),
                })
            }
            (Err(ran), _) => Err(ran),
        }
    }

    /// Says in front of a failure what was `done` and committed before it.
    fn committed(&self, done: &str, failure: Failure) -> Failure {
        let is_broken = failure.status() == Status::Broken;
        let failure = failure.after(&format!("{done} and committed"));
        let repeat = format!(
            "do not repeat the command; see what is stored with: probity pocket stats {}",
            quoted(&self.file)
        );
        if is_broken {
            failure.also("do not repeat the command, for its rows are stored")
        } else {
            failure.remedy(repeat)
        }
    }
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chip that another program rewrote while it was read ended the command with the status of a
    /// refusal.
    #[test]
    fn a_chip_that_changes_while_it_is_read_is_not_what_was_written() {
        let place = Place {
            file: "v".into(),
            root: "v.root".into(),
            when_full: MORE_ROOM,
            failures: Rc::default(),
        };
        let changed = place.refused(Error::Flash(FlashError::Changed));
        assert_eq!(changed.status(), Status::Broken);
        assert!(changed.clause().contains("another program"));
        let full = place.refused(Error::DeviceFull);
        assert_eq!(full.status(), Status::Failed);
    }
}
