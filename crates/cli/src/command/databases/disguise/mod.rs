//! `probity disguise`: people hidden in a SQL database, and brought back.

mod advice;
mod change;
mod chunk;
mod credential;
mod decay;
mod dismiss;
mod export;
mod hold;
mod look;
mod outlet;
mod people;
mod receipt;
mod recorder;
mod replay;
mod separate;
mod sweep;
mod update;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use probity_disguise::database::connect;
use probity_disguise::{Admission, Database, Engine, Error, Pseudo, Schema, Share, SpecFile};

pub(super) use self::receipt::read_signer;
use crate::args::{DatabaseChoice, Description, DisguiseCommand, LogChoice};
use crate::config::Environment;
use crate::database_address::{Said, address, remedy_of_connection};
use crate::failure::{Failure, Status};
use crate::shell::quoted;

/// The engine over any database.
type AnyEngine = Engine<Box<dyn Database>>;

pub(crate) fn run(command: &DisguiseCommand, environment: &Environment) -> Result<Status, Failure> {
    match command {
        DisguiseCommand::Draft(args) => look::draft(args, environment),
        DisguiseCommand::Check(args) => look::check(args, environment),
        DisguiseCommand::Plan(args) => look::plan(args, environment),
        DisguiseCommand::Register(args) => people::register(args, environment),
        DisguiseCommand::Apply(args) => change::apply(args, environment),
        DisguiseCommand::Resume(args) => chunk::resume(args, environment),
        DisguiseCommand::Reveal(args) => change::reveal(args, environment),
        DisguiseCommand::SpeaksFor(args) => people::speaks_for(args, environment),
        DisguiseCommand::List(args) => people::list(args, environment),
        DisguiseCommand::SubjectName(args) => people::subject_name(args, environment),
        DisguiseCommand::Export(args) => export::export(args, environment),
        DisguiseCommand::Forget(args) => change::forget(args, environment),
        DisguiseCommand::Rekey(args) => people::rekey(args, environment),
        DisguiseCommand::Unregister(args) => people::unregister(args, environment),
        DisguiseCommand::ReceiptKey(args) => receipt::key(args),
        DisguiseCommand::CheckReceipt(args) => receipt::check(args),
        DisguiseCommand::Hold(args) => hold::hold(args, environment),
        DisguiseCommand::Lift(args) => hold::lift(args, environment),
        DisguiseCommand::Holds(args) => hold::holds(args, environment),
        DisguiseCommand::Scheduled(args) => sweep::scheduled(args, environment),
        DisguiseCommand::Cancel(args) => sweep::cancel(args, environment),
        DisguiseCommand::Sweep(args) => sweep::sweep(args, environment),
        DisguiseCommand::Decay(args) => decay::decay(args, environment),
        DisguiseCommand::Replay(args) => replay::replay(args, environment),
        DisguiseCommand::Dismiss(args) => dismiss::dismiss(args, environment),
        DisguiseCommand::Separate(args) => separate::separate(args, environment),
        DisguiseCommand::BeginLog(args) => separate::begin_log(args, environment),
        DisguiseCommand::Update(args) => update::update(args, environment),
    }
}

/// Returns the log that a command was given.
pub(crate) const fn log_of(command: &DisguiseCommand) -> Option<&LogChoice> {
    Some(match command {
        DisguiseCommand::Register(args) => &args.entry.log,
        DisguiseCommand::Apply(args) => &args.entry.log,
        DisguiseCommand::Resume(args) => &args.entry.log,
        DisguiseCommand::Reveal(args) => &args.entry.log,
        DisguiseCommand::SpeaksFor(args) => &args.entry.log,
        DisguiseCommand::List(args) => &args.entry.log,
        DisguiseCommand::Export(args) => &args.entry.log,
        DisguiseCommand::SubjectName(args) => &args.entry.log,
        DisguiseCommand::Forget(args) => &args.entry.log,
        DisguiseCommand::Rekey(args) => &args.entry.log,
        DisguiseCommand::Unregister(args) => &args.entry.log,
        DisguiseCommand::Hold(args) => &args.log,
        DisguiseCommand::Lift(args) => &args.log,
        DisguiseCommand::Cancel(args) => &args.entry.log,
        DisguiseCommand::Sweep(args) => &args.entry.log,
        DisguiseCommand::Decay(args) => &args.entry.log,
        DisguiseCommand::Replay(args) => &args.entry.log,
        DisguiseCommand::Dismiss(args) => &args.log,
        DisguiseCommand::Separate(args) => &args.entry.log,
        DisguiseCommand::BeginLog(args) => &args.entry.log,
        DisguiseCommand::Update(args) => &args.entry.log,
        _ => return None,
    })
}

fn open(choice: &DatabaseChoice, environment: &Environment) -> Result<Box<dyn Database>, Failure> {
    let said = Said {
        option: "--db",
        url: choice.url.as_deref(),
        file_option: "--db-file",
        file: choice.url_file.as_deref(),
    };
    let url = address(said, environment)?;
    let database = connect(&url).map_err(|error| {
        let remedy = remedy_of_connection(&error, &url);
        Failure::new("cannot open the database")
            .because(error)
            .remedy(remedy)
    })?;
    Ok(database)
}

/// Opens the engine with the description stored in the database.
fn stored(choice: &DatabaseChoice, environment: &Environment) -> Result<AnyEngine, Failure> {
    let engine = Engine::stored(open(choice, environment)?).map_err(refused)?;
    of_tenant(engine, choice)
}

/// Restricts the engine to the tenant of the command line, if one is named.
fn of_tenant(mut engine: AnyEngine, choice: &DatabaseChoice) -> Result<AnyEngine, Failure> {
    if let Some(tenant) = &choice.tenant {
        engine.set_written_tenant(tenant).map_err(refused)?;
    }
    Ok(engine)
}

/// Limits the engine to a share of the time.
fn at_share(engine: &mut AnyEngine, share: Option<Share>) {
    if let Some(share) = share {
        let alone = Admission::new(NonZero::<u32>::MIN);
        engine.set_admission(Arc::new(alone.with_share(share)));
    }
}

/// Refuses a tenant for commands about the whole database.
fn of_all_tenants(choice: &DatabaseChoice) -> Result<(), Failure> {
    match choice.tenant {
        None => Ok(()),
        Some(_) => Err(
            Failure::usage("this is about the whole database, whatever tenants it has")
                .remedy("leave --tenant out"),
        ),
    }
}

/// Makes an engine from a specification and description files; the database supplies what they
/// leave out.
fn described(
    database: Box<dyn Database>,
    file: Option<&SpecFile>,
    said: &Description,
) -> Result<Option<AnyEngine>, Failure> {
    let schema = read(said.schema.as_deref(), Schema::from_edna_json)?;
    let pseudo = read(said.pseudo.as_deref(), Pseudo::from_edna_json)?;
    Engine::described_by(database, file, (schema, pseudo)).map_err(refused)
}

fn read<T, E: std::error::Error + Send + Sync + 'static>(
    path: Option<&Path>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = fs::read_to_string(path).map_err(|error| Failure::file("read", path, error))?;
    let parsed = parse(&text).map_err(|error| in_file(path).because(error));
    parsed.map(Some)
}

/// Reports that the file at `path` is refused.
fn in_file(path: &Path) -> Failure {
    Failure::new(format!("{} is refused", path.display())).remedy("correct the file at that place")
}

/// Reports what the engine refused of the specification at `path`.
fn unfit(path: &Path) -> impl Fn(Error) -> Failure {
    move |error| {
        match error {
        Error::Spec(error) if error.is_of_parameter() => {
            Failure::new(format!("the parameters do not fit {}", path.display()))
                .because(error)
                .remedy("give the values of its parameters with --set NAME=VALUE")
        }
        Error::Spec(error) => {
            Failure::new(format!("{} does not fit the database", path.display()))
                .because(error)
                .remedy(format!(
                    "correct that place, and see whether it fits with: probity disguise check --spec {}",
                    quoted(path)
                ))
        }
        other => refused(other),
    }
    }
}

/// Translates a refusal of the engine for the terminal, with its remedy.
fn refused(error: Error) -> Failure {
    let remedy = remedy_of(&error);
    let failure = match error {
        Error::Spec(error) => {
            Failure::new("the specification does not fit the database").because(error)
        }
        Error::Audit(cause) => Failure::new("the log did not take the entry").because(cause),
        error => Failure::from(error),
    };
    match remedy {
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

fn remedy_of(error: &Error) -> Option<&'static str> {
    match error {
        Error::NotInstalled => Some(
            "name the specification with --spec FILE once; register and apply store what it says",
        ),
        Error::Unreadable { .. } => Some(
            "insert the rows that are missing in that table from a backup, and keep those that are there; or give up what this disguise hid, for good: probity disguise forget --id",
        ),
        Error::DamagedRow { .. } => {
            Some("restore that row from a backup of the database; nothing was changed")
        }
        Error::RecordsLost { .. } => Some(
            "restore the table from a backup of the database: what is hidden does not come back without it; nothing was changed",
        ),
        Error::Unregistered { .. } | Error::NotRegistered { .. } => {
            Some("give them a credential first: probity disguise register")
        }
        Error::NoSuchUser { .. } => Some(
            "look at the id; who has left already comes back with their credential: probity disguise list, reveal; where the application deleted the account: probity disguise unregister",
        ),
        Error::WrongCredential => Some(
            "give the credential of this user: the file that register or rekey wrote last, or their password; \
             once everything was forgotten, none fits",
        ),
        Error::AlreadyDisguised { .. } => {
            Some("bring them back first with: probity disguise reveal")
        }
        Error::AlreadyRegistered => Some(
            "change their credential with: probity disguise rekey; where the account of a person before was deleted, end their registration: probity disguise unregister",
        ),
        Error::NoSuchHold => Some("see the holds in force with: probity disguise holds"),
        Error::NoSuchDisguise => Some("see what the credential opens with: probity disguise list"),
        Error::EndedByAnother { .. } => Some(
            "see with the person's credential whether it hides anything: probity disguise list",
        ),
        Error::WouldEmpty { .. } => Some(
            "declare the key ON UPDATE CASCADE, or let the specification remove these rows or leave that column alone",
        ),
        Error::WouldCascade { .. } | Error::WouldOrphan { .. } => {
            Some("say in the specification what happens to those rows")
        }
        Error::Circle { .. } => Some(
            "let one of these columns be NULL, or let the specification keep one of these tables",
        ),
        Error::Tenant { .. } => Some(
            "name one with --tenant T, as the tenant columns hold it, where the specification names such columns",
        ),
        Error::Placeholder { .. } => Some(
            "write under users.placeholder what the column takes, and see with: probity disguise check --try",
        ),
        Error::NoFreeId { .. } => Some("let the generator of the id draw from a wider range"),
        Error::Held { .. } => Some("see what holds there are with: probity disguise holds"),
        Error::Unsettled(_) => Some(
            "see whether it was done with: probity disguise list, or with replay --dry-run and the log",
        ),
        _ => remedy_of_recording(error),
    }
}

/// Returns the remedy where the log that an operation needs is not the one at hand, or takes no entry.
const fn remedy_of_recording(error: &Error) -> Option<&'static str> {
    match error {
        Error::LogNeeded => Some(
            "name that log with --log DIR; if it is lost, or this is a copy of another database, give this one an identity and a log of its own: probity disguise separate --log NEW; nothing was changed",
        ),
        Error::SameLog => Some(
            "begin a log for the copy and name it: probity init DIR, then --log DIR; nothing was changed",
        ),
        Error::UnclearLog => Some(
            "where the log that has the operations of the database is there, name it once before: probity disguise begin-log --log DIR; otherwise make a log with a key of its own: probity init NEW, then separate --log NEW; nothing was changed",
        ),
        Error::UnsaidLog => Some(
            "where this is a backup of a database that had a log, replay that log: probity disguise replay --log DIR; where it never had one, name its first: probity disguise begin-log --log DIR; nothing was changed",
        ),
        Error::OtherLog => Some(
            "name that log with --log; if it is lost, or this is a copy of another database, give this one an identity and a log of its own: probity disguise separate --log NEW; nothing was changed",
        ),
        Error::Unrecorded { .. } => Some(
            "name the log, and its stream and key, as when it was begun: --log DIR; nothing was changed",
        ),
        Error::Audit(_) => Some("nothing was changed; look at the log with: probity verify DIR"),
        _ => None,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match std::error::Error::source(&error) {
            Some(source) => Self::new(message).because(source.to_string()),
            None => Self::new(message),
        }
    }
}
