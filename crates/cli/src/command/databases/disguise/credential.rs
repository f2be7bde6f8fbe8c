//! Credential files, which `register` writes and people bring.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use probity_disguise::{Credential, CredentialLine, Error, RecoveryToken, SecretKey, TokenShare};
use probity_http::caution_of_password;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::key_file::warn_if_open;
use crate::one_line;
use crate::output::note;
use crate::output_file::OutputFile;
use crate::output_guard::protect;
use crate::terminal::secret_line;

/// The longest credential, in bytes.
const LINE_BYTES_MAX: u64 = 4_096;
/// Room for a whole line, so that no reallocation leaves a copy of a secret behind.
const LINE_BYTES_CAPACITY: usize = 8_192;

/// A credential as read from its file; it has no `Debug`.
pub(super) enum Brought {
    Key(SecretKey),
    Token(RecoveryToken),
    Password(Zeroizing<String>),
}

impl Brought {
    /// Reads a credential: one file, or two with a share each.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        match paths {
            [path] => Self::read_whole(path),
            [first, second] => {
                let (first, second) = (read_share(first)?, read_share(second)?);
                Ok(Self::Token(RecoveryToken::join(&first, &second)))
            }
            _ => Err(Failure::usage(
                "a credential is one file, or two files with a share each",
            )),
        }
    }

    /// Reads the first line of the file at `path`, or of standard input.
    fn read_whole(path: &Path) -> Result<Self, Failure> {
        match parsed(path)? {
            CredentialLine::Key(key) => Ok(Self::Key(key)),
            CredentialLine::Token(token) => Ok(Self::Token(token)),
            CredentialLine::Password(password) => Ok(Self::Password(password)),
            _ => {
                let shown = path.display();
                Err(
                    Failure::usage(format!("{shown} holds one share, and two are needed"))
                        .remedy("give the option once for each of two files with shares"),
                )
            }
        }
    }

    pub(super) fn credential(&self) -> Credential<'_> {
        match self {
            Self::Key(key) => Credential::Key(key),
            Self::Token(token) => Credential::Token(token),
            Self::Password(password) => Credential::Password(password),
        }
    }
}

/// Parses the first line of a file.
fn parsed(path: &Path) -> Result<CredentialLine, Failure> {
    CredentialLine::parse(&first_line(path, "the credential")?).map_err(|error| match error {
        Error::Suite { .. } => {
            Failure::new(format!("the key in {} cannot be used", path.display()))
                .because(error)
                .remedy("take a program that knows its suite")
        }
        // The reason could quote the secret.
        _ => Failure::new(format!("{} holds a damaged credential", path.display()))
            .remedy("take an undamaged copy"),
    })
}

fn read_share(path: &Path) -> Result<TokenShare, Failure> {
    if let CredentialLine::Share(share) = parsed(path)? {
        return Ok(share);
    }
    let shown = path.display();
    Err(Failure::usage(format!("{shown} holds no share of a token"))
        .remedy("give one file with a whole credential, or two with a share each"))
}

/// Reads the password on the first line of a file.
pub(super) fn read_password(path: &Path) -> Result<Zeroizing<String>, Failure> {
    first_line(path, "the password")
}

/// Reads a new password on the first line of a file. A terminal does not show it, so that a slip would
/// become the password: it is asked for twice there.
pub(super) fn read_new_password(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let password = read_password(path)?;
    if let Some(caution) = caution_of_password(&password) {
        note(&format!("warning: {caution}"));
    }
    if path == Path::new("-")
        && io::stdin().is_terminal()
        && *first_line(path, "the same password again")? != *password
    {
        return Err(Failure::usage("the two passwords are not the same")
            .remedy("type the new password twice"));
    }
    Ok(password)
}

/// A file for a credential, created first, so that no credential is lost for lack of a place.
pub(super) struct CredentialFile {
    path: PathBuf,
    /// `None` once it is written.
    file: Option<OutputFile>,
}

impl CredentialFile {
    /// Creates the file for its owner alone; it must not exist yet.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let file =
            OutputFile::reserve(path).map_err(|error| Failure::file("create", path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
        })
    }

    /// Writes the line durably; from then on no signal removes the file. A file that cannot be
    /// written is removed.
    pub(super) fn finish(&mut self, line: &str) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        let written = file.write_secret(line.as_bytes());
        let written = written.and_then(|()| file.write_secret(b"\n"));
        written
            .and_then(|()| file.finish())
            .map_err(|error| Failure::file("write", &self.path, error))
    }

    /// Returns its path for the report.
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Removes the file again, because its credential was not made or opens nothing.
    pub(super) fn give_up(self) {
        if self.file.is_none() {
            // The failure that led here is the one to report.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Reads a line of standard input, and no more: whoever writes it may keep it open.
fn typed(what: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let most = LINE_BYTES_MAX.saturating_add(2);
    if io::stdin().is_terminal() {
        return secret_line(what, usize::try_from(most).unwrap_or(usize::MAX));
    }
    let mut line = Zeroizing::new(Vec::with_capacity(LINE_BYTES_CAPACITY));
    let input = io::stdin().lock();
    input.take(most).read_until(b'\n', &mut line)?;
    Ok(line)
}

/// Returns the first line of the file at `path`, which holds `what`, or of standard input. An
/// empty one is refused, and one over [`LINE_BYTES_MAX`]: a password cut short would open by its
/// prefix alone.
pub(super) fn first_line(path: &Path, what: &str) -> Result<Zeroizing<String>, Failure> {
    let failed = |error| Failure::file(&format!("read {what} in"), path, error);
    let text = if path == Path::new("-") {
        typed(what).map_err(failed)?
    } else {
        protect(path);
        warn_if_open(path, "the secret in");
        let file = fs::File::open(path).map_err(failed)?;
        let mut text = Zeroizing::new(Vec::with_capacity(LINE_BYTES_CAPACITY));
        let mut file = file.take(LINE_BYTES_MAX.saturating_add(2));
        file.read_to_end(&mut text).map_err(failed)?;
        text
    };
    let line = one_line::first_line(&text);
    if line.is_empty() {
        // Nothing would pass for an empty password.
        let shown = path.display();
        return Err(Failure::new(format!("the first line of {shown} is empty"))
            .remedy(format!("write {what} on its first line")));
    }
    if u64::try_from(line.len()).is_ok_and(|length| length > LINE_BYTES_MAX) {
        let shown = path.display();
        return Err(Failure::usage(format!(
            "the first line of {shown} has more than {LINE_BYTES_MAX} bytes"
        ))
        .remedy("take a shorter credential; where one was registered from such a file by an earlier version, its first 4096 bytes open what it opened"));
    }
    match std::str::from_utf8(line) {
        Ok(line) => Ok(Zeroizing::new(line.to_owned())),
        Err(error) => Err(failed(io::Error::new(io::ErrorKind::InvalidData, error))),
    }
}
