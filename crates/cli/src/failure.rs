//! The end of a command: an exit status, or a failure with its causes and a remedy.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use probity_log::{AppendError, LogError};

use crate::output_guard::Refusal;
use crate::remedy::{NAME_A_LOG, remedy_of, remedy_of_file, remedy_of_path};
use crate::shell::quoted;

/// The exit status of the program; scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done; for `verify`, intact.
    Done,
    /// The command could not do its work.
    Failed,
    /// Wrong usage.
    Usage,
    /// The evidence is broken.
    Broken,
    /// Intact, but parts are lost and the loss accepted, erased, or pruned.
    Partial,
}

impl Status {
    /// Returns its number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Broken => 3,
            Self::Partial => 4,
        }
    }
}

/// The placeholder in a remedy for the option that names the root key, which differs between
/// commands.
pub const ROOT_KEY_OPTION: &str = "{root key option}";
/// The placeholder in a remedy for what named the folder of second copies.
pub(crate) const HEADS_SAID: &str = "{heads said}";
/// The placeholder in a remedy for the folder of the log in a command that is advised.
pub const LOG_NAMED: &str = "{log}";
/// The placeholder in a remedy for the option that names the root key, where the command had it.
pub const KEY_GIVEN: &str = "{key given}";
/// The placeholder in a remedy for the option that names the root key which the command used, wherever
/// it found it: some faults show with it alone.
pub(crate) const ROOT_KEY_USED: &str = "{root key used}";
/// The words for a folder that no argument named.
const LOG_USUALLY: &str = "DIR";
/// The words for a folder that the environment names.
const HEADS_NAMED: &str = "PROBITY_HEADS names that folder";
/// The words for a folder that nothing names.
const HEADS_BESIDE: &str = "PROBITY_HEADS is not set, so that the folder beside the log is meant";
/// The option of most commands.
const ROOT_KEY_USUALLY: &str = "--key FILE or PROBITY_KEY_FILE";

/// The reason why a command could not do its work, with its cause and a remedy.
#[derive(Debug)]
pub struct Failure {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    remedy: Option<String>,
    status: Status,
    /// The replacement for [`ROOT_KEY_OPTION`].
    root_key_option: Option<&'static str>,
    /// True where the environment names the folder of second copies.
    names_heads: bool,
    /// The replacements for [`LOG_NAMED`], [`KEY_GIVEN`] and [`ROOT_KEY_USED`].
    log: Option<Box<[String; 3]>>,
}

impl Failure {
    /// Creates a failure from one lower-case clause.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
            remedy: None,
            status: Status::Failed,
            root_key_option: None,
            names_heads: false,
            log: None,
        }
    }

    /// Creates a failure for arguments that contradict each other.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            status: Status::Usage,
            ..Self::new(message)
        }
    }

    /// Creates a failure for broken evidence.
    pub fn broken(message: impl Into<String>) -> Self {
        Self {
            status: Status::Broken,
            ..Self::new(message)
        }
    }

    /// Creates a failure to do `what` with the file at `path`.
    pub fn file(what: &str, path: &Path, source: io::Error) -> Self {
        let refusal = source.get_ref().and_then(|cause| cause.downcast_ref());
        let remedy = refusal
            .map(Refusal::remedy)
            .or_else(|| remedy_of_file(&source))
            .or_else(|| remedy_of_path(what, &source));
        let remedy = remedy.map(str::to_owned);
        let failure = Self::new(format!("cannot {what} {}", path.display())).because(source);
        Self { remedy, ..failure }
    }

    /// Creates a failure to write to standard output. Its reader may stop early, and what follows
    /// is not read then: whoever takes what came for all of it must be able to see that.
    pub fn output(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Self::new("standard output was closed before its end");
        }
        Self::new("cannot write to standard output").because(source)
    }

    /// Makes it one of broken evidence.
    pub(crate) const fn of_damage(mut self) -> Self {
        self.status = Status::Broken;
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn because(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            source: Some(source.into()),
            ..self
        }
    }

    /// Sets the remedy: a sentence without a full stop.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    /// Puts `before` in front of the message: what was achieved until then.
    #[must_use]
    pub fn after(self, before: &str) -> Self {
        Self {
            message: format!("{before}, then {}", self.message),
            ..self
        }
    }

    /// Puts in front of the message what the failure prevents.
    #[must_use]
    pub fn so(self, what: &str) -> Self {
        Self {
            message: format!("{what}: {}", self.message),
            ..self
        }
    }

    /// Adds one more remedy: a sentence without a full stop.
    #[must_use]
    pub fn also(self, more: &str) -> Self {
        let remedy = match &self.remedy {
            Some(remedy) => format!("{remedy}; {more}"),
            None => more.to_owned(),
        };
        self.remedy(remedy)
    }

    /// Sets the option by which the command takes the root key, unless one is set.
    #[must_use]
    pub fn root_key_option(self, option: &'static str) -> Self {
        Self {
            root_key_option: self.root_key_option.or(Some(option)),
            ..self
        }
    }

    /// Sets whether the environment names the folder of second copies.
    #[must_use]
    pub fn names_heads(self, names_heads: bool) -> Self {
        Self {
            names_heads,
            ..self
        }
    }

    /// Leaves out the advice to create a log: a command that only reads would find nothing in it.
    #[must_use]
    pub fn of_reader(self) -> Self {
        match &self.remedy {
            Some(remedy) if remedy.starts_with(NAME_A_LOG) => self.remedy(NAME_A_LOG),
            _ => self,
        }
    }

    /// Sets the log, the root key that the command was given and the one that it used, which a command
    /// that is advised names again.
    #[must_use]
    pub fn of_log(self, dir: &Path, given: Option<&Path>, used: Option<&Path>) -> Self {
        let [given, used] = [given, used]
            .map(|key| key.map_or_else(String::new, |key| format!(" --key {}", quoted(key))));
        Self {
            log: Some(Box::new([quoted(dir), given, used])),
            ..self
        }
    }

    /// Returns the message and every cause once, without the remedy: for documents.
    pub fn clause(&self) -> String {
        let cause = self.source.as_deref().map(|source| source as &dyn Error);
        cause.map_or_else(
            || self.message.clone(),
            |cause| format!("{}: {}", self.message, chain_text(cause)),
        )
    }

    /// Returns the remedy, with the option by which the command takes the root key, and with what
    /// named the folder of second copies.
    pub fn help(&self) -> Option<String> {
        let option = self.root_key_option.unwrap_or(ROOT_KEY_USUALLY);
        let remedy = self.remedy.as_ref()?;
        let said = if self.names_heads {
            HEADS_NAMED
        } else {
            HEADS_BESIDE
        };
        let [log, given, used] = match self.log.as_deref() {
            Some(said) => said.each_ref().map(String::as_str),
            None => [LOG_USUALLY, "", ""],
        };
        let remedy = remedy.replace(ROOT_KEY_OPTION, option);
        let remedy = remedy.replace(LOG_NAMED, log).replace(KEY_GIVEN, given);
        let remedy = remedy.replace(ROOT_KEY_USED, used);
        Some(remedy.replace(HEADS_SAID, said))
    }

    /// Turns a refusal because of another log's files into one of a command that would have made a
    /// log: no evidence is broken.
    pub(crate) const fn before_a_log(mut self) -> Self {
        self.status = Status::Failed;
        self
    }

    /// Returns the exit status of the program.
    pub const fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for Failure {
    /// Writes the message, every cause once, and the remedy on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.clause())?;
        match self.help() {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let remedy = remedy_of(&error);
        let mut failure = Self {
            status: status_of(&error),
            ..Self::new(error.to_string())
        };
        if let Some(source) = error.source() {
            failure = failure.because(chain_text(source));
        }
        Self { remedy, ..failure }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Poisoned(cause) => {
                let failure =
                    Self::new("the log stopped taking entries").because(chain_text(&*cause));
                Self {
                    remedy: remedy_of(&cause),
                    ..failure
                }
            }
            AppendError::KeysUnread(cause) => {
                let unread = "the idempotency keys of the stream cannot be read";
                let failure = Self::new(unread).because(chain_text(&*cause));
                let remedy =
                    "verify the log; entries without an idempotency key can be appended meanwhile";
                Self {
                    status: status_of(&cause),
                    ..failure.remedy(remedy)
                }
            }
            AppendError::Full => Self::new("the log takes entries slower than they arrive")
                .remedy("try again; if it goes on, look for a slow disk"),
            other => Self::new(other.to_string()),
        }
    }
}

const fn status_of(error: &LogError) -> Status {
    match error {
        LogError::Broken { .. }
        | LogError::Damaged { .. }
        | LogError::RolledBack { .. }
        | LogError::Lost { .. }
        | LogError::KeysLost { .. }
        | LogError::HeadsOfAnother { .. }
        | LogError::Losses(_) => Status::Broken,
        _ => Status::Failed,
    }
}

/// Joins an error and its causes into one text, for errors that cannot be kept.
pub(crate) fn chain_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn the_chain_of_causes_is_printed_once_and_then_the_remedy() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = LogError::Storage {
            action: "write",
            name: "streams/x".into(),
            source: full,
        };
        let failure = Failure::from(error);
        assert_eq!(
            failure.to_string(),
            "error: cannot write streams/x: no storage space\nhelp: make room on the disk; a log is \
             repaired when it is opened"
        );
        assert_eq!(failure.status().code(), 1);
    }

    /// A disk that fails to write was reported without any advice.
    #[test]
    fn the_error_of_a_disk_has_a_remedy() {
        let failure = Failure::from(LogError::Storage {
            action: "sync",
            name: "durable".into(),
            source: io::Error::from_raw_os_error(Errno::IO.raw_os_error()),
        });
        assert!(failure.help().unwrap().contains("the system's messages"));
    }

    /// The advice for a loss named no folder and no key, though the command had both.
    #[test]
    fn the_advised_acceptance_of_a_loss_names_the_log_and_its_key() {
        let lost = || {
            Failure::from(LogError::Broken {
                place: "streams/a".into(),
                reason: "r".into(),
            })
            .remedy(format!(
                "probity append {LOG_NAMED} --accept-loss{KEY_GIVEN}"
            ))
        };
        let help = |failure: Failure| failure.help().unwrap();
        assert_eq!(help(lost()), "probity append DIR --accept-loss");
        let key = Some(Path::new("k"));
        let named = lost().of_log(Path::new("a log"), key, key);
        assert_eq!(help(named), "probity append 'a log' --accept-loss --key k");
    }

    #[test]
    fn broken_evidence_has_its_own_status() {
        let error = LogError::Broken {
            place: "p".into(),
            reason: "r".into(),
        };
        assert_eq!(Failure::from(error).status(), Status::Broken);
    }
}
