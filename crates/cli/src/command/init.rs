//! `probity init`: a new log, its root key, and the verifier key to hand out.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use probity_log::{Log, LogError, LogLocation, Options, Proofs, RootKey, check_origin};
use serde::Serialize;

use super::read_geometry;
use crate::args::Init;
use crate::config::{Environment, key_path_beside, verifier_path_beside};
use crate::failure::{Failure, KEY_GIVEN, LOG_NAMED, Status};
use crate::key_file;
use crate::output::{Output, note};
use crate::output_file::OutputFile;
use crate::output_guard::folder_of;
use crate::remedy::can_name_log;
use crate::shell::{Words, quoted};

/// The document about a new log.
#[derive(Serialize)]
struct Created {
    log: String,
    origin: String,
    key_file: String,
    key_made: bool,
    verifier_key: String,
    verifier_key_file: String,
    heads: String,
    /// True where nothing named another place for the second copies than beside the log.
    #[serde(skip)]
    are_beside: bool,
}

/// The file for the verifier key, begun before the log, so that no log is made whose key has no
/// place.
pub(super) struct VerifierFile {
    path: PathBuf,
    file: OutputFile,
}

impl VerifierFile {
    /// Begins the file beside the log at `dir`; it must not exist.
    pub(super) fn begin(dir: &Path) -> Result<Self, Failure> {
        let path = verifier_path_beside(dir);
        if path.exists() {
            return Err(left_over(dir, &path));
        }
        let file = OutputFile::create_of_log(&path)
            .and_then(OutputFile::for_everyone)
            .map_err(|error| Failure::file("write the verifier key", &path, error))?;
        Ok(Self { path, file })
    }

    /// Writes the key of the log at `dir`; returns the key and the file's path.
    pub(super) fn finish(mut self, dir: &Path) -> Result<(String, PathBuf), Failure> {
        let key = read_geometry(dir)?.anchor().encode();
        writeln!(self.file, "{key}")
            .and_then(|()| self.file.finish())
            .map_err(|error| Failure::file("write the verifier key", &self.path, error))?;
        Ok((key, self.path))
    }
}

pub(crate) fn run(args: &Init, environment: &Environment) -> Result<Status, Failure> {
    let said = args.key.as_deref().or(environment.key_file.as_deref());
    let key_path = said.map_or_else(|| key_path_beside(&args.dir), Path::to_owned);
    environment.check_heads(&args.dir)?;
    let created = create(args, &key_path, environment.log_options())?;
    let mut output = Output::after("the log was created");
    if args.json {
        output.json(&created)?;
    } else {
        print(&created, &mut output)?;
    }
    output.flush()?;
    Ok(Status::Done)
}

fn create(args: &Init, key_path: &Path, options: Options) -> Result<Created, Failure> {
    let dir = args.dir.as_path();
    let shown = dir.display().to_string();
    check_place(dir, &options)?;
    if Log::exists(dir)? {
        let failure = Failure::from(LogError::Exists { path: shown });
        if !key_path.exists() && Log::geometry(dir).is_ok() {
            return Err(failure.remedy(format!(
                "choose another folder; to append to this log, its root key is needed: put {} back from a backup, or name the key with: probity append {LOG_NAMED} --key FILE",
                quoted(key_path)
            )).of_log(dir, None, None));
        }
        // An `init` that was killed after the creation leaves such a log.
        return Err(if verifier_path_beside(dir).exists() {
            failure
        } else {
            failure.also(&format!("its verifier key, which has no file beside it, is printed by: probity keys status {LOG_NAMED}{KEY_GIVEN}"))
        });
    }
    check_vacant(dir, &options)?;
    let heads = LogLocation::new(dir, options.heads.as_ref());
    let are_beside = options.heads.is_none();
    let origin = match &args.origin {
        Some(origin) => origin.clone(),
        None => default_origin(args)?,
    };
    // Before a key is made, which stays.
    check_origin(&origin)?;
    let verifier = VerifierFile::begin(dir)?;
    let key_made = !key_path.exists();
    let root = if key_made {
        key_file::create_root(key_path)?
    } else {
        key_file::read_root(key_path)?
    };
    create_log(args, &origin, &root, options).map_err(|failure| {
        if key_made {
            // Another creation may have read it since.
            failure.also(&format!(
                "the new root key stays in {}, and the next try uses it",
                key_path.display()
            ))
        } else {
            failure
        }
    })?;
    let (verifier_key, verifier_path) = verifier.finish(dir)?;
    Ok(Created {
        log: shown,
        origin,
        key_file: key_path.display().to_string(),
        key_made,
        verifier_key,
        verifier_key_file: verifier_path.display().to_string(),
        heads: heads.heads_path().to_owned(),
        are_beside,
    })
}

/// Refuses a bad place for a new log or for the second copies of its heads.
///
/// A bad place is no folder, or the folder above it is missing. Nothing is damaged there: a name
/// was chosen badly.
pub(super) fn check_place(dir: &Path, options: &Options) -> Result<(), Failure> {
    let above = folder_of(dir);
    if !above.is_dir() {
        let missing = format!(
            "{} has no folder {} to lie in",
            dir.display(),
            above.display()
        );
        return Err(Failure::new(missing).remedy("make that folder first, or choose another one"));
    }
    let places = LogLocation::new(dir, options.heads.as_ref());
    for (folder, what) in [
        (dir, "the log"),
        (
            Path::new(places.heads_path()),
            "the second copies of the heads",
        ),
    ] {
        // Without the slash at the end, which would follow a link.
        let folder = folder.components().as_path();
        if folder.symlink_metadata().is_ok() && !folder.is_dir() {
            return Err(Failure::new(format!(
                "{what} cannot be made in {}, which is no folder",
                folder.display()
            ))
            .remedy("choose another folder"));
        }
    }
    Ok(())
}

/// Returns the failure for the verifier key, at `path`, of a log that is not at `dir`.
fn left_over(dir: &Path, path: &Path) -> Failure {
    let failure = Failure::new(format!(
        "{} is there already, the verifier key of a log that was in {}",
        path.display(),
        dir.display()
    ));
    failure.remedy(format!(
        "put that log back, or choose another folder; where it is gone for good, keep its key files under another name and try again: {} and {}",
        quoted(path),
        quoted(&key_path_beside(dir))
    ))
}

/// Refuses a new log where other files are, or in whose folder of second copies those of another
/// log are. A new root key is made after that: once it is there, it stays.
pub(super) fn check_vacant(dir: &Path, options: &Options) -> Result<(), Failure> {
    let places = LogLocation::new(dir, options.heads.as_ref());
    places.check_vacant().map_err(not_vacant)
}

/// Returns the failure of a creation in a place that is taken.
pub(super) fn not_vacant(error: LogError) -> Failure {
    match error {
        LogError::NotALog { path } => Failure::new(format!("{path} holds other files already"))
            .remedy("choose a folder that does not exist yet or is empty"),
        LogError::HeadsOfAnother { .. } => Failure::from(error).before_a_log(),
        error => error.into(),
    }
}

fn create_log(args: &Init, origin: &str, root: &RootKey, options: Options) -> Result<(), Failure> {
    let created = Log::create(&args.dir, origin, root, args.config.config(), options);
    created.and_then(|log| log.close()).map_err(not_vacant)?;
    say_kept(&args.dir);
    Ok(())
}

/// Warns that existing keys are kept: they may be those of a log whose other files are out of
/// reach.
fn say_kept(dir: &Path) {
    let kept = dir.join("set-aside");
    if kept.is_dir() {
        note(&format!(
            "warning: keys that were in {} already are kept in {}; where they are those of a log, put its other files and these keys back together",
            dir.join("keys").display(),
            kept.display()
        ));
    }
}

fn default_origin(args: &Init) -> Result<String, Failure> {
    let dir = args.dir.as_path();
    let name = dir.file_name().map(std::ffi::OsStr::to_os_string);
    let name = name.or_else(|| dir.canonicalize().ok()?.file_name().map(Into::into));
    let name = name.unwrap_or_default();
    match name.to_str() {
        Some(name) if !name.is_empty() && can_name_log(name) => Ok(name.to_owned()),
        _ => Err(Failure::new(format!(
            "the log would be named after its folder, and {:?} cannot be the name of a log, which has ASCII letters, digits, '-', '.', '_', '/' and ':' alone",
            name.to_string_lossy()
        ))
        .remedy(format!(
            "give it a name like example.com/audit: {}",
            with_origin(args)
        ))),
    }
}

/// Returns the command of `args` with a name for the log. What was chosen is fixed for good, so the
/// command names all of it.
fn with_origin(args: &Init) -> String {
    let mut words = Words::default();
    words.word("probity init");
    words.path(&args.dir);
    words.word("--origin NAME");
    words.file("--key", args.key.as_ref());
    words.flag("--erasable", args.config.erasable);
    if args.config.proofs != Proofs::Section {
        words.option("--proofs", args.config.proofs.as_str());
    }
    words.flag("--json", args.json);
    words.0
}

fn print(created: &Created, output: &mut Output) -> Result<(), Failure> {
    let Created {
        log,
        origin,
        key_file,
        key_made,
        verifier_key,
        verifier_key_file,
        heads,
        are_beside,
    } = created;
    output.line(&format!("log created in {log}, named {origin}"))?;
    let made = if *key_made { "made" } else { "used" };
    output.line(&format!("root key {made}: {key_file}"))?;
    output.line("  back it up apart from the log: without it nothing can be read or appended")?;
    output.line(&format!("verifier key made: {verifier_key_file}"))?;
    output.line(&format!("  {verifier_key}"))?;
    output.line(
        "  hand it now to whoever will check the log: it checks everything and opens nothing",
    )?;
    output.line(&format!(
        "  they check a copy with: probity verify {} --key {}",
        quoted(Path::new(log)),
        quoted(Path::new(verifier_key_file))
    ))?;
    output.line(&format!("second copies of the heads: {heads}"))?;
    if !are_beside {
        return Ok(());
    }
    output.line(
        "  beside the log an older copy of it is put back together with theirs: move that folder out of the operator's reach, and set PROBITY_HEADS to it",
    )
}
