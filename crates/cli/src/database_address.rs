//! The address of an application's database: from an argument without a password, a file, or the
//! environment.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use probity_disguise::database::{holds_password, is_address};
use probity_disguise::{DatabaseError, DatabaseErrorKind};
use zeroize::Zeroizing;

use crate::config::Environment;
use crate::failure::Failure;
use crate::key_file::warn_if_open;
use crate::one_line::first_line;

/// The longest file with an address, in bytes.
const FILE_BYTES_MAX: u64 = 4_096;
/// Room for the longest file, so that no reallocation leaves a copy of a password behind.
const FILE_BYTES_CAPACITY: usize = 8_192;

/// The forms of an address, for remedies.
const FORMS: &str =
    "write --db sqlite:FILE, --db mysql://USER@HOST/NAME or --db postgres://USER@HOST/NAME";

/// An argument with the address, and the one that names a file with it.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) option: &'static str,
    pub(crate) url: Option<&'a str>,
    pub(crate) file_option: &'static str,
    pub(crate) file: Option<&'a Path>,
}

/// Returns the address in the arguments, if there is one.
pub(crate) fn said(arguments: Said<'_>) -> Result<Option<Zeroizing<String>>, Failure> {
    let Said {
        option,
        url,
        file_option,
        file,
    } = arguments;
    if let Some(url) = url {
        if holds_password(url) {
            return Err(Failure::usage(format!(
                "the database's password stands in the argument {option}, for all to see"
            ))
            .remedy(format!(
                "write the address into a file that nobody else can read and name it with {file_option} FILE{}",
                or_environment(option)
            )));
        }
        if !is_address(url) {
            return Err(Failure::usage(format!("{url} is no address of a database"))
                .remedy(FORMS.replace("--db", option)));
        }
        return Ok(Some(Zeroizing::new(url.to_owned())));
    }
    file.map(in_file).transpose()
}

/// Returns the way by the environment, which only `--db` has.
fn or_environment(option: &str) -> &'static str {
    if option == "--db" {
        ", or set PROBITY_DB"
    } else {
        ""
    }
}

/// Returns the address in the arguments or in the environment.
pub(crate) fn address(
    arguments: Said<'_>,
    environment: &Environment,
) -> Result<Zeroizing<String>, Failure> {
    if let Some(url) = said(arguments)? {
        return Ok(url);
    }
    let url = environment.database.as_deref().ok_or_else(|| {
        Failure::usage("no database is named").remedy(format!(
            "{FORMS}, name a file with the address with --db-file FILE, or set PROBITY_DB"
        ))
    })?;
    if url.is_empty() {
        return Err(
            Failure::usage("no database is named, and PROBITY_DB is empty").remedy(format!(
                "{FORMS}, or set PROBITY_DB to such an address, which may hold a password"
            )),
        );
    }
    Ok(Zeroizing::new(url.to_owned()))
}

/// Returns the remedy where no connection to the database at `url` was made.
pub(crate) fn remedy_of_connection(error: &DatabaseError, url: &str) -> &'static str {
    match error.kind {
        DatabaseErrorKind::Busy => "another process has it locked: try again when that has ended",
        _ if !is_address(url) => FORMS,
        DatabaseErrorKind::Silent => {
            "see that the database runs, and that its address names its own port"
        }
        _ if url.starts_with("sqlite:") => {
            "check that the file exists, and who may read and write it"
        }
        _ => {
            "see that the database exists and runs, that the address names its host and port, and that user and password are right"
        }
    }
}

/// Reads the first line of a file.
fn in_file(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let failed = |error| Failure::file("read the address in", path, error);
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_CAPACITY));
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let line = first_line(text.as_bytes());
    // A text cut at an ASCII byte is a text.
    let line = str::from_utf8(line).unwrap_or_default().trim();
    if holds_password(line) {
        warn_if_open(path, "the password in");
    }
    if line.is_empty() {
        return Err(Failure::new(format!(
            "{} does not hold the address of a database on its first line",
            path.display()
        ))
        .remedy("write sqlite:FILE, mysql://USER:PASSWORD@HOST/NAME or postgres://USER:PASSWORD@HOST/NAME into it"));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Result<Option<Zeroizing<String>>, Failure> {
        said(Said {
            option: "--db",
            url: Some(url),
            file_option: "--db-file",
            file: None,
        })
    }

    #[test]
    fn a_password_in_an_argument_is_refused_and_not_quoted() {
        for url in [
            "mysql://app:s3cret@localhost/app",
            "mysql://app:s3/cr@et@localhost/app",
            "postgres://app:s3cret@localhost:5432/app?sslmode=disable",
            "postgres://app@localhost/app?connect_timeout=5&password=s3cret",
            "postgresql://:s3cret@localhost/app",
        ] {
            let refused = of(url).err().map(|error| error.to_string());
            let refused = refused.unwrap_or_default();
            assert!(refused.contains("--db"), "{url}");
            assert!(!refused.contains("s3"), "{refused}");
        }
        for url in [
            "sqlite:app.db",
            "sqlite:odd:name@here",
            "mysql://app@localhost:3306/app",
            "postgres://localhost:5432/app?sslmode=disable",
        ] {
            assert_eq!(of(url).unwrap().unwrap().as_str(), url);
        }
    }
}
