//! The folder `keys/`: wrapped secrets, and the forward-moving signing key.
//!
//! `docs/format.md`, "Keys on disk". At every open and every hour a new signing key is certified by
//! the one before, in the journal, and the old one is destroyed. A thief can sign only for what
//! follows its certificate.

use std::sync::Arc;

use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, RootKey, Secret};
use probity_format::note::{Signer as _, SigningKey, VerifierKey};
use probity_format::stream::StreamName;
use probity_format::wrap::{WRAPPED_BYTES, WrappedKind, WrappingKey};

use crate::advice;
use crate::epochs::{CertifiedKey, Epoch};
use crate::error::LogError;
use crate::files::{Files, is_strange};
use crate::history::{GEOMETRY, is_of_another_log};
use crate::journal::History;
use crate::slots::Slots;

/// The folder of wrapped keys.
pub(crate) const KEYS: &str = "keys";
const MASTER: &str = "keys/master.key";
pub(crate) const SIGNING: &str = "keys/signing.key";
/// The permanent key, for witnesses: it alone proves nothing.
pub(crate) const WITNESS: &str = "keys/witness.key";
/// A successor that may or may not be certified yet; see [`KeyStore::prepare_successor`].
const SUCCESSOR: &str = "keys/signing.next";
const KEY_FILE_BYTES_MAX: u64 = 4096;
/// Times that the journal and the signing key are read because a writer changes them meanwhile.
const SIGNING_KEY_READS_MAX: u32 = 8;

/// The secrets that the root key opens.
pub(crate) struct KeyStore {
    pub(crate) wrapping: Arc<WrappingKey>,
    pub(crate) master: MasterKey,
    signing: Secret,
    /// The fault of the signing key's file, where the successor stands in for it.
    stands_in: Option<&'static str>,
    /// This opening, once its certificate is made.
    epoch: Option<Epoch>,
}

impl KeyStore {
    /// Makes and stores the secrets of a new log; the geometry names their public half.
    pub(crate) fn create(
        files: &Files,
        root: &RootKey,
        fingerprint: &[u8; 32],
        signing: &Secret,
        witness: &Secret,
    ) -> Result<(), LogError> {
        let wrapping = root.wrapping_key(fingerprint);
        let master = random_secret()?;
        store(files, &wrapping, MASTER, WrappedKind::Master, &master)?;
        store(files, &wrapping, SIGNING, WrappedKind::Signing, signing)?;
        store(files, &wrapping, WITNESS, WrappedKind::Witness, witness)
    }

    /// Opens the secrets of a log.
    pub(crate) fn open(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let wrapping = root.wrapping_key(&geometry.fingerprint());
        let master = load(files, &wrapping, MASTER, WrappedKind::Master)?;
        let (signing, stands_in) = load_signing(files, &wrapping)?;
        match (master, signing) {
            (Loaded::Secret(master), Loaded::Secret(signing)) => Ok(Self {
                wrapping: Arc::new(wrapping),
                master: MasterKey::new(master),
                signing,
                stands_in,
                epoch: None,
            }),
            (Loaded::Nothing, _) => Err(damaged(MASTER, "is missing")),
            (_, Loaded::Nothing) => Err(damaged(SIGNING, "is missing")),
            // The root key opens one of them: it is this log's.
            (Loaded::Secret(_), Loaded::Closed) => Err(damaged(SIGNING, DOES_NOT_OPEN)),
            (Loaded::Closed, Loaded::Secret(_)) => Err(damaged(MASTER, DOES_NOT_OPEN)),
            (Loaded::Closed, Loaded::Closed) => Err(opens_nothing(files, &wrapping, geometry)),
        }
    }

    /// Opens the keys for reading: the master key, and the key that opens slots of subjects.
    pub(crate) fn open_for_reading(
        files: &Files,
        root: &RootKey,
        geometry: &Geometry,
    ) -> Result<(MasterKey, WrappingKey), LogError> {
        let wrapping = root.wrapping_key(&geometry.fingerprint());
        Ok((Self::open_master(files, &wrapping, geometry)?, wrapping))
    }

    /// Opens the master key.
    pub(crate) fn open_master(
        files: &Files,
        wrapping: &WrappingKey,
        geometry: &Geometry,
    ) -> Result<MasterKey, LogError> {
        match load(files, wrapping, MASTER, WrappedKind::Master)? {
            Loaded::Secret(master) => Ok(MasterKey::new(master)),
            Loaded::Nothing => Err(damaged(MASTER, "is missing")),
            Loaded::Closed => {
                let signing = load(files, wrapping, SIGNING, WrappedKind::Signing);
                Err(match signing {
                    Ok(Loaded::Secret(_)) => damaged(MASTER, DOES_NOT_OPEN),
                    _ => opens_nothing(files, wrapping, geometry),
                })
            }
        }
    }

    /// The present signing key under the name `name`.
    pub(crate) fn signer(&self, name: &str) -> Result<SigningKey, LogError> {
        signing_key(name, &self.signing)
    }

    /// The witness key, which must be the one that `geometry` names.
    pub(crate) fn witness(
        &self,
        files: &Files,
        geometry: &Geometry,
    ) -> Result<SigningKey, LogError> {
        let witness = Witness::load(files, &self.wrapping, geometry)?;
        let reason = witness.reason();
        match witness {
            Witness::Key(key) => Ok(key),
            _ => Err(LogError::Broken {
                place: WITNESS.into(),
                reason: reason.unwrap_or_default(),
            }),
        }
    }

    /// Begins the epoch of this opening, whose certificate of `key` goes into frame `frame` of the
    /// journal. Does nothing where it has begun.
    pub(crate) fn begin_epoch(
        &mut self,
        frame: u64,
        key: &CertifiedKey,
    ) -> Result<Option<Epoch>, LogError> {
        if self.epoch.is_some() {
            return Ok(None);
        }
        let number = u32::try_from(frame).map_err(|_too_many| LogError::Broken {
            place: "the journal".into(),
            reason: "has no number left for another opening".into(),
        })?;
        self.epoch = Some(Epoch { number, key: *key });
        Ok(self.epoch)
    }

    /// This opening.
    ///
    /// # Errors
    /// [`LogError::Broken`] where it has not begun: readers would take its frames for foreign ones.
    pub(crate) fn epoch(&self) -> Result<Epoch, LogError> {
        self.epoch.ok_or_else(|| LogError::Broken {
            place: "the journal".into(),
            reason: "does not have the certificate of this opening yet".into(),
        })
    }

    /// Returns the successor that a crash left and the journal certified last; nothing where that is
    /// the present key, in its own file. Changes nothing.
    ///
    /// # Errors
    /// [`LogError::Broken`] where neither is there.
    pub(crate) fn certified_successor(
        &self,
        files: &Files,
        name: &str,
        history: &History,
    ) -> Result<Option<Secret>, LogError> {
        let certified = history.last_key();
        let present = self.signer(name)?;
        if self.stands_in.is_none() && present.verifier_key() == certified {
            return Ok(None);
        }
        if let Loaded::Secret(successor) =
            load(files, &self.wrapping, SUCCESSOR, WrappedKind::Signing)?
            && signing_key(name, &successor)?.verifier_key() == certified
        {
            return Ok(Some(successor));
        }
        Err(match self.stands_in {
            Some(fault) => damaged(SIGNING, fault),
            None => SigningKeyState::not_last(present.verifier_key(), history).error(),
        })
    }

    /// Returns whether the successor stands in for the signing key, whose file is gone or damaged.
    pub(crate) const fn is_stand_in(&self) -> bool {
        self.stands_in.is_some()
    }

    /// Makes a successor and stores it beside the present key. The successor replaces the present
    /// key once its certificate is signed for.
    ///
    /// A crash before that leaves an unknown successor, which the next open replaces.
    pub(crate) fn prepare_successor(&self, files: &Files) -> Result<Secret, LogError> {
        let successor = random_secret()?;
        store(
            files,
            &self.wrapping,
            SUCCESSOR,
            WrappedKind::Signing,
            &successor,
        )?;
        Ok(successor)
    }

    /// Replaces the present signing key by `successor`; the old one is gone from storage and
    /// memory.
    pub(crate) fn promote(&mut self, files: &Files, successor: Secret) -> Result<(), LogError> {
        self.sign_with(successor);
        self.settle(files)
    }

    /// Signs with `successor` from now on; the old key is gone from memory.
    pub(crate) fn sign_with(&mut self, successor: Secret) {
        self.signing = successor;
    }

    /// Replaces the stored signing key by the present one; the old one is gone from storage.
    pub(crate) fn settle(&self, files: &Files) -> Result<(), LogError> {
        store(
            files,
            &self.wrapping,
            SIGNING,
            WrappedKind::Signing,
            &self.signing,
        )?;
        if files.read(SUCCESSOR, KEY_FILE_BYTES_MAX)?.is_some() {
            files.remove(SUCCESSOR)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for KeyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyStore").finish_non_exhaustive()
    }
}

/// The key in `keys/` that signs, as the journal knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningKeyState {
    /// The one that the journal certified last.
    Current,
    /// The one before, or none: its successor is certified and takes its place at the next opening.
    Succeeded,
    /// One that the journal certified before its last: an older copy of the key was put back, or the
    /// certified successor beside it is gone.
    Older,
    /// One that the journal never certified: the journal is an older copy, or the key is of another
    /// copy of the log.
    Uncertified,
    /// None that the root key opens.
    Missing,
}

impl SigningKeyState {
    /// The fault and its remedy, if the key does not sign for the log.
    pub fn fault(self) -> Option<String> {
        let (fault, advice) = match self {
            Self::Current | Self::Succeeded => return None,
            Self::Older => (
                "is not the signing key that the journal certified last, but one before: an older copy of the key was put back, or its certified \
                 successor keys/signing.next is gone or damaged",
                advice::SIGNING_KEY,
            ),
            Self::Uncertified => (
                "is not the signing key that the journal certified last, nor one before: the journal is an older copy, or the key \
                 is of another copy of the log",
                advice::NEWER_JOURNAL,
            ),
            Self::Missing => (
                "is missing, or does not open with the root key that opens the log: nobody can sign for the log",
                advice::SIGNING_KEY,
            ),
        };
        Some(format!("{fault}; {advice}"))
    }

    /// The error where the key does not sign for the log.
    pub(crate) fn error(self) -> LogError {
        LogError::Broken {
            place: SIGNING.into(),
            reason: self.fault().unwrap_or_default(),
        }
    }

    /// The state of the key `present`, which is not the one that the journal certified last.
    fn not_last(present: &VerifierKey, history: &History) -> Self {
        if history.has_key(present) {
            Self::Older
        } else {
            Self::Uncertified
        }
    }

    /// Reads the key, and the journal with `read_history` before it, until both are of one time: a
    /// writer certifies a key in the journal before it replaces the old one, and another may follow
    /// meanwhile.
    pub(crate) fn settled(
        (files, wrapping, name): (&Files, &WrappingKey, &str),
        read_history: impl Fn() -> Result<History, LogError>,
    ) -> Result<(Self, History), LogError> {
        let read = || {
            let history = read_history()?;
            let state = Self::read(files, wrapping, name, &history)?;
            Ok::<_, LogError>((state, history))
        };
        let mut found = read()?;
        for _ in 1..SIGNING_KEY_READS_MAX {
            if !matches!(found.0, Self::Older | Self::Uncertified) {
                break;
            }
            found = read()?;
        }
        Ok(found)
    }

    /// Compares the keys of a log that is called `name` with its journal.
    pub(crate) fn read(
        files: &Files,
        wrapping: &WrappingKey,
        name: &str,
        history: &History,
    ) -> Result<Self, LogError> {
        let certified = history.last_key();
        let key = |file| -> Result<Option<VerifierKey>, LogError> {
            match load(files, wrapping, file, WrappedKind::Signing) {
                Ok(Loaded::Secret(seed)) => {
                    Ok(Some(signing_key(name, &seed)?.verifier_key().clone()))
                }
                Ok(_) => Ok(None),
                Err(error) if is_strange(&error) => Ok(None),
                Err(error) => Err(error),
            }
        };
        // The successor first: a writer moves it into the place of the other, and removes it then.
        let successor = key(SUCCESSOR)?;
        Ok(match key(SIGNING)? {
            Some(present) if present == *certified => Self::Current,
            _ if successor.as_ref() == Some(certified) => Self::Succeeded,
            None => Self::Missing,
            Some(present) => Self::not_last(&present, history),
        })
    }
}

/// The signing key in `keys/` that is `wanted`, under the name `name`; nothing where none of them
/// is.
pub(crate) fn signer_of_key(
    files: &Files,
    wrapping: &WrappingKey,
    name: &str,
    wanted: &VerifierKey,
) -> Result<Option<SigningKey>, LogError> {
    let mut damage = None;
    for file in [SIGNING, SUCCESSOR] {
        match load(files, wrapping, file, WrappedKind::Signing) {
            Ok(Loaded::Secret(seed)) => {
                let key = signing_key(name, &seed)?;
                if key.verifier_key().key() == wanted.key() {
                    return Ok(Some(key));
                }
            }
            Ok(_) => {}
            Err(error) => damage = Some(error),
        }
    }
    damage.map_or(Ok(None), Err)
}

/// The content of the witness key's file.
pub(crate) enum Witness {
    /// The key that the geometry names.
    Key(SigningKey),
    /// Nothing.
    Missing,
    /// Another key, or no key of this log.
    Wrong,
}

impl Witness {
    pub(crate) fn load(
        files: &Files,
        wrapping: &WrappingKey,
        geometry: &Geometry,
    ) -> Result<Self, LogError> {
        let seed = match load(files, wrapping, WITNESS, WrappedKind::Witness) {
            Err(error) if is_strange(&error) => return Ok(Self::Wrong),
            seed => seed?,
        };
        let seed = match seed {
            Loaded::Nothing => return Ok(Self::Missing),
            Loaded::Closed => return Ok(Self::Wrong),
            Loaded::Secret(seed) => seed,
        };
        let key = signing_key(&geometry.stream_origin(StreamName::JOURNAL), &seed)?;
        let is_named = geometry.witness() == Some(key.verifier_key());
        Ok(if is_named {
            Self::Key(key)
        } else {
            Self::Wrong
        })
    }

    /// The fault and its remedy.
    pub(crate) fn reason(&self) -> Option<String> {
        let fault = match self {
            Self::Key(_) => return None,
            Self::Missing => {
                "is missing: the log is read and verified as before, and no command writes to it, for witnesses know it by this key \
                 and no other can replace it"
            }
            Self::Wrong => "is not the key that probity.toml names",
        };
        Some(format!("{fault}; {}", advice::FIXED_KEY))
    }
}

/// The signing key called `name` from `seed`.
pub(crate) fn signing_key(name: &str, seed: &Secret) -> Result<SigningKey, LogError> {
    SigningKey::from_seed(name, seed.expose()).map_err(|error| LogError::Broken {
        place: SIGNING.into(),
        reason: error.to_string(),
    })
}

/// Fresh random bytes from the operating system's generator.
///
/// A generator in this process's memory would not do: two machines that continue from one copy of
/// it would draw the same bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], LogError> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// A fresh random secret, drawn into the place where it stays.
pub(crate) fn random_secret() -> Result<Secret, LogError> {
    Secret::filled(fill)
}

fn fill(bytes: &mut [u8]) -> Result<(), LogError> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled = filled.saturating_add(more),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(LogError::Storage {
                    action: "draw random bytes from",
                    name: "the operating system".into(),
                    source: error.into(),
                });
            }
        }
    }
    Ok(())
}

fn store(
    files: &Files,
    wrapping: &WrappingKey,
    name: &str,
    kind: WrappedKind,
    secret: &Secret,
) -> Result<(), LogError> {
    let wrapped = wrapping
        .wrap(kind, name_label(kind), secret, random()?)
        .map_err(|error| LogError::Broken {
            place: name.into(),
            reason: error.to_string(),
        })?;
    files.replace(name, &wrapped)
}

/// The content of the file of a wrapped secret.
enum Loaded {
    /// There is no such file.
    Nothing,
    /// One of the form of a wrapped secret that the root key does not open.
    Closed,
    Secret(Secret),
}

/// The fault of a wrapped secret that stays closed where the root key opens another.
const DOES_NOT_OPEN: &str = "does not open though the root key is this log's: it was changed";

/// Returns the error for a root key that opens neither the master key nor the signing key. The root
/// key is the wrong one, unless the log's own bytes show another fault.
fn opens_nothing(files: &Files, wrapping: &WrappingKey, geometry: &Geometry) -> LogError {
    let (place, fault, advice) = if is_of_another_log(files, geometry) {
        let fault = "is not the geometry that the journal was written with, and so the root key opens nothing: one of them is \
                     of another log";
        (GEOMETRY, fault, advice::GEOMETRY)
    } else if opens_other(files, wrapping, geometry) {
        let fault = "holds keys that do not open though the root key is this log's: it is of another log, or was changed";
        (KEYS, fault, advice::FIXED_KEYS)
    } else {
        return LogError::WrongKey;
    };
    LogError::Broken {
        place: place.into(),
        reason: format!("{fault}; {advice}"),
    }
}

/// Returns whether the root key opens anything else of the log: the witness key, a successor, or
/// the key of a subject.
fn opens_other(files: &Files, wrapping: &WrappingKey, geometry: &Geometry) -> bool {
    let kinds = [
        (WITNESS, WrappedKind::Witness),
        (SUCCESSOR, WrappedKind::Signing),
    ];
    let opens = |(name, kind)| matches!(load(files, wrapping, name, kind), Ok(Loaded::Secret(_)));
    // One of the first is as good as all.
    kinds.into_iter().any(opens)
        || Slots::read(files, wrapping, geometry.version(), 0).is_ok_and(|slots| slots.has_keys())
}

/// The signing key, and nothing else where its file holds it. Where that is gone or damaged, the
/// successor, if there is one, with the fault of the file.
fn load_signing(
    files: &Files,
    wrapping: &WrappingKey,
) -> Result<(Loaded, Option<&'static str>), LogError> {
    let signing = load(files, wrapping, SIGNING, WrappedKind::Signing);
    let fault = match &signing {
        Ok(Loaded::Secret(_)) => return Ok((signing?, None)),
        Ok(Loaded::Nothing) => "is missing",
        Ok(Loaded::Closed) => DOES_NOT_OPEN,
        Err(error) if is_strange(error) => "is no wrapped key",
        Err(_) => return Ok((signing?, None)),
    };
    match load(files, wrapping, SUCCESSOR, WrappedKind::Signing) {
        Ok(successor @ Loaded::Secret(_)) => Ok((successor, Some(fault))),
        _ => Ok((signing?, None)),
    }
}

/// The error for the file `name` of `keys/`.
fn damaged(name: &str, reason: &str) -> LogError {
    let advice = match name {
        SIGNING | SUCCESSOR => advice::SIGNING_KEY,
        _ => advice::FIXED_KEY,
    };
    LogError::Broken {
        place: name.into(),
        reason: format!("{reason}; {advice}"),
    }
}

fn load(
    files: &Files,
    wrapping: &WrappingKey,
    name: &str,
    kind: WrappedKind,
) -> Result<Loaded, LogError> {
    let Some(wrapped) = files.read(name, KEY_FILE_BYTES_MAX)? else {
        return Ok(Loaded::Nothing);
    };
    if wrapped.len() != WRAPPED_BYTES {
        let reason = format!("has {} bytes instead of {WRAPPED_BYTES}", wrapped.len());
        return Err(damaged(name, &reason));
    }
    let opened = wrapping.unwrap(kind, name_label(kind), &wrapped);
    Ok(opened.map_or(Loaded::Closed, Loaded::Secret))
}

const fn name_label(kind: WrappedKind) -> &'static [u8] {
    match kind {
        WrappedKind::Signing => b"signing",
        WrappedKind::Witness => b"witness",
        _ => b"master",
    }
}

#[cfg(test)]
mod tests;
