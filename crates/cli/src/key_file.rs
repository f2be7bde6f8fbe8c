//! Files that hold keys: the root key, which stays secret, and verifier keys, which do not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use probity_format::cosignature::WitnessKey;
use probity_format::keys::{SECRET_BYTES, Secret};
use probity_format::note::VerifierKey;
use probity_log::RootKey;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::failure::{Failure, ROOT_KEY_OPTION};
use crate::input_file::InputFile;
use crate::one_line::only_line;
use crate::output::note;
use crate::output_file::OutputFile;
use crate::output_guard::protect;
use crate::shell::quoted;

const FILE_BYTES_MAX: u64 = 4096;
/// Room for the longest file, so that no reallocation leaves a copy of a secret behind.
const FILE_BYTES_CAPACITY: usize = 8192;
const OTHERS: u32 = 0o077;

/// The beginning of a secret key that signs receipts of forgetting.
pub(crate) const RECEIPT_KEY_LABEL: &str = "probity-receipt-key-v1 ";

/// The makers of verifier key files, for remedies.
const MAKERS: &str =
    "`probity init` made DIR.vkey, and `probity pocket sign` the key of a pocket database";
/// The forms of key files, for remedies.
const ROOT_FORM: &str = "a root key file is one line beginning with probity-root-key-v1";
const VERIFIER_FORM: &str = "a verifier key file is one line like example.com/audit+1a2b3c4d+AX...";
const EITHER_FORM: &str = "a verifier key file is one line like example.com/audit+1a2b3c4d+AX..., a root key file one beginning with probity-root-key-v1";

/// A key of either kind that `verify` can be given.
pub(crate) enum Key {
    /// The root key, which opens the log's contents.
    Root(RootKey),
    /// The verifier key, which checks its signatures.
    Verifier(VerifierKey),
}

/// Makes a new root key and stores it durably at `path`, which must not exist.
pub(crate) fn create_root(path: &Path) -> Result<RootKey, Failure> {
    let fail = |source| Failure::file("create the key file", path, source);
    let bytes = random_secret().map_err(fail)?;
    let root = RootKey::new(Secret::copy_of(&bytes));
    let mut file = OutputFile::create_of_log(path).map_err(fail)?;
    file.write_secret(root.to_text().as_bytes())
        .and_then(|()| file.finish())
        .map_err(fail)?;
    protect(path);
    Ok(root)
}

/// Draws a secret from the system's random bytes.
pub(crate) fn random_secret() -> io::Result<Zeroizing<[u8; SECRET_BYTES]>> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += getrandom(rest, GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Reads the root key at `path`; warns if others can read it.
pub(crate) fn read_root(path: &Path) -> Result<RootKey, Failure> {
    let root = read_root_shown(path)?;
    warn_if_open(path, "the root key");
    Ok(root)
}

/// Reads the root key at `path` for a command that shows itself who can read it.
pub(crate) fn read_root_shown(path: &Path) -> Result<RootKey, Failure> {
    let missing = format!("name the key file with {ROOT_KEY_OPTION}");
    let read = read_any(path, &missing, ROOT_FORM);
    match read? {
        Key::Root(root) => Ok(root),
        Key::Verifier(_) => Err(Failure::new(format!(
            "{} holds a verifier key, which opens nothing",
            path.display()
        ))
        .remedy("give the root key file that `probity init` made")),
    }
}

/// Reads the verifier key at `path`, the value of `option`.
pub(crate) fn read_verifier(path: &Path, option: &str) -> Result<VerifierKey, Failure> {
    let missing = format!("name the verifier key's file with {option}; {MAKERS}");
    match read_any(path, &missing, VERIFIER_FORM)? {
        Key::Verifier(key) => Ok(key),
        Key::Root(_) => Err(Failure::new(format!(
            "{} holds a root key, which must not leave its owner",
            path.display()
        ))
        .remedy("give the verifier key: `probity init` made DIR.vkey, and `probity keys status DIR` prints it")),
    }
}

/// Reads the verifier key of a witness at `path`.
pub(crate) fn read_witness(path: &Path) -> Result<WitnessKey, Failure> {
    protect(path);
    let text = read_text(path).map_err(|error| Failure::file("read the key file", path, error))?;
    // The reason could quote the file, which may be a secret key.
    WitnessKey::parse(only_line(&text)).map_err(|_reason| {
        Failure::new(format!("{} is no verifier key of a witness", path.display())).remedy(
            "take it from the witness's operator: name, +, 8 hexadecimal digits, +, base64; the key of a log is given with --key",
        )
    })
}

/// Reads the key at `path`, of either kind.
pub(crate) fn read(path: &Path) -> Result<Key, Failure> {
    let missing = "name the file of the verifier key or of the root key with --key FILE";
    let key = read_any(path, missing, EITHER_FORM)?;
    if matches!(key, Key::Root(_)) {
        warn_if_open(path, "the root key");
    }
    Ok(key)
}

fn read_any(path: &Path, missing: &str, form: &str) -> Result<Key, Failure> {
    // A command never overwrites a file that it reads as a key, however damaged it is.
    protect(path);
    let text = read_text(path).map_err(|error| {
        let is_absent = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory
        );
        let is_damaged = error.kind() == io::ErrorKind::InvalidData;
        let failure = Failure::file("read the key file", path, error);
        // Another file would not help where this one cannot be read.
        match is_absent {
            true => failure.remedy(missing),
            false if is_damaged => failure.remedy(format!("take an undamaged copy; {form}")),
            false => failure,
        }
    })?;
    let text = only_line(&text);
    if let Ok(root) = RootKey::from_text(text) {
        return Ok(Key::Root(root));
    }
    if text.starts_with(RECEIPT_KEY_LABEL) {
        let what = format!(
            "{} holds the secret key of receipts, which must not leave its owner",
            path.display()
        );
        return Err(Failure::new(what).remedy(
            "give the public key: probity disguise receipt-key FILE --name NAME prints it",
        ));
    }
    // The reason could quote the file, which may be a damaged root key.
    VerifierKey::parse(text)
        .map(Key::Verifier)
        .map_err(|_reason| {
            Failure::new(format!("{} is no key file", path.display()))
                .remedy(format!("take an undamaged copy; {form}"))
        })
}

/// Returns whether others than its owner may read or write the file at `path`.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & OTHERS != 0)
}

/// Warns, once for each file, if others than its owner can read the file at `path`, which holds
/// `what`. Some commands read a key again.
pub(crate) fn warn_if_open(path: &Path, what: &str) {
    static WARNED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if is_open_to_others(path) && warned.insert(path.to_owned()) {
        note(&format!(
            "warning: others can read {what} {0}; restrict it with: chmod 600 {0}",
            quoted(path)
        ));
    }
}

fn read_text(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = InputFile::open(path)?;
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_CAPACITY));
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if length as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is too long for a key",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_key_is_stored_for_its_owner_alone_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.key");
        let made = create_root(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(!is_open_to_others(&path));
        assert_eq!(*read_root(&path).unwrap().to_text(), *made.to_text());
        assert!(create_root(&path).is_err());
        assert_eq!(*read_root(&path).unwrap().to_text(), *made.to_text());
    }

    /// The file was there, empty, before the key was in it. A kill left it so, and the next command
    /// that makes a key refused it.
    #[test]
    fn a_root_key_file_is_whole_as_soon_as_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = |number| folder.path().join(format!("log{number}.key"));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                (0..50).all(|number| {
                    let there = std::iter::repeat_with(|| fs::read_to_string(path(number)));
                    let text = there.flatten().next();
                    text.is_some_and(|text| text.ends_with('\n') && text.len() > 40)
                })
            });
            for number in 0..50 {
                create_root(&path(number)).unwrap();
            }
            assert!(reader.join().unwrap());
        });
    }

    #[test]
    fn a_damaged_key_file_is_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.key");
        let made = create_root(&path).unwrap().to_text();
        let (_, secret) = made.split_once(' ').unwrap();
        let secret: String = secret.chars().take(8).collect();
        #[expect(clippy::disallowed_methods, reason = "the test damages the file")]
        fs::write(&path, made.trim_end().trim_end_matches('=')).unwrap();
        let message = read_root(&path).err().unwrap().to_string();
        assert!(!message.contains(&secret), "{message}");
    }
}
