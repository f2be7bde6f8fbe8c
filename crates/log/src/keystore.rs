//! The folder `keys/`: wrapped secrets, and the forward-moving signing key.
//!
//! `docs/format.md`, "Keys on disk". At every open and every hour a new signing key is certified by the one before, in the
//! journal, and the old one is destroyed: a thief signs for what came after its certificate only.

use probity_format::geometry::Geometry;
use probity_format::keys::{MasterKey, RootKey, Secret};
use probity_format::note::{Signer as _, SigningKey, VerifierKey};
use probity_format::stream::StreamName;
use probity_format::wrap::{WrappedKind, WrappingKey};

use crate::error::LogError;
use crate::files::Files;

/// The folder of wrapped keys.
pub(crate) const KEYS: &str = "keys";
const MASTER: &str = "keys/master.key";
const SIGNING: &str = "keys/signing.key";
/// The key that stays, for witnesses: it alone proves nothing.
pub(crate) const WITNESS: &str = "keys/witness.key";
/// A successor that may or may not be certified yet; see [`KeyStore::prepare_successor`].
const SUCCESSOR: &str = "keys/signing.next";
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// What the root key opens.
pub(crate) struct KeyStore {
    pub(crate) wrapping: WrappingKey,
    pub(crate) master: MasterKey,
    signing: Secret,
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
        let master = Secret::new(random()?);
        store(files, &wrapping, MASTER, WrappedKind::Master, &master)?;
        store(files, &wrapping, SIGNING, WrappedKind::Signing, signing)?;
        store(files, &wrapping, WITNESS, WrappedKind::Witness, witness)
    }

    /// Opens the secrets of a log.
    pub(crate) fn open(
        files: &Files,
        root: &RootKey,
        fingerprint: &[u8; 32],
    ) -> Result<Self, LogError> {
        let wrapping = root.wrapping_key(fingerprint);
        let master = load(files, &wrapping, MASTER, WrappedKind::Master)?;
        let signing = load(files, &wrapping, SIGNING, WrappedKind::Signing)?;
        match (master, signing) {
            (Some(master), Some(signing)) => Ok(Self {
                wrapping,
                master: MasterKey::new(master),
                signing,
            }),
            _ => Err(LogError::Broken {
                place: "keys/".into(),
                reason: "the log's wrapped keys are missing; restore them from a backup".into(),
            }),
        }
    }

    /// Opens what reading needs: the master key, and the key that opens slots of subjects.
    pub(crate) fn open_for_reading(
        files: &Files,
        root: &RootKey,
        fingerprint: &[u8; 32],
    ) -> Result<(MasterKey, WrappingKey), LogError> {
        let wrapping = root.wrapping_key(fingerprint);
        let master = load(files, &wrapping, MASTER, WrappedKind::Master)?;
        let master = master.map(MasterKey::new).ok_or_else(|| LogError::Broken {
            place: MASTER.into(),
            reason: "the log's wrapped master key is missing; restore it from a backup".into(),
        })?;
        Ok((master, wrapping))
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
                reason: reason.unwrap_or_default().into(),
            }),
        }
    }

    /// If a crash left a successor that the journal certifies as `certified`, it becomes the present key.
    pub(crate) fn resume(
        &mut self,
        files: &Files,
        name: &str,
        certified: &VerifierKey,
    ) -> Result<(), LogError> {
        if self.signer(name)?.verifier_key() == certified {
            return Ok(());
        }
        if let Some(successor) = load(files, &self.wrapping, SUCCESSOR, WrappedKind::Signing)?
            && signing_key(name, &successor)?.verifier_key() == certified
        {
            return self.promote(files, successor);
        }
        Err(LogError::Broken {
            place: SIGNING.into(),
            reason: "the signing key is not the one the journal certified last; an older copy of keys/ was put back".into(),
        })
    }

    /// Makes a successor and stores it beside the present key. After its certificate is durable, [`KeyStore::promote`] it.
    ///
    /// A crash before the certificate leaves a successor nobody knows: the next open replaces it.
    pub(crate) fn prepare_successor(&self, files: &Files) -> Result<Secret, LogError> {
        let successor = Secret::new(random()?);
        store(
            files,
            &self.wrapping,
            SUCCESSOR,
            WrappedKind::Signing,
            &successor,
        )?;
        Ok(successor)
    }

    /// Replaces the present signing key by `successor`; the old one is gone from storage and memory.
    pub(crate) fn promote(&mut self, files: &Files, successor: Secret) -> Result<(), LogError> {
        store(
            files,
            &self.wrapping,
            SIGNING,
            WrappedKind::Signing,
            &successor,
        )?;
        self.signing = successor;
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

/// What stands in the file of the witness key.
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
            Err(LogError::WrongKey) => return Ok(Self::Wrong),
            seed => seed?,
        };
        let Some(seed) = seed else {
            return Ok(Self::Missing);
        };
        let key = signing_key(&geometry.stream_origin(StreamName::JOURNAL), &seed)?;
        let is_named = geometry.witness() == Some(key.verifier_key());
        Ok(if is_named {
            Self::Key(key)
        } else {
            Self::Wrong
        })
    }

    /// What is wrong with it, and what to do.
    pub(crate) const fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Key(_) => None,
            Self::Missing => Some(
                "is missing: put it back from a backup of keys/; witnesses know the log by this key, and no other can stand in for it",
            ),
            Self::Wrong => Some(
                "is not the key that probity.toml names: put it back from a backup of this log",
            ),
        }
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
/// Not from a generator in this process's memory: two machines that go on from one copy of that would draw the same.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], LogError> {
    let mut bytes = [0; N];
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
    Ok(bytes)
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

fn load(
    files: &Files,
    wrapping: &WrappingKey,
    name: &str,
    kind: WrappedKind,
) -> Result<Option<Secret>, LogError> {
    let Some(wrapped) = files.read(name, KEY_FILE_BYTES_MAX)? else {
        return Ok(None);
    };
    wrapping
        .unwrap(kind, name_label(kind), &wrapped)
        .map(Some)
        .map_err(|_refused| LogError::WrongKey)
}

const fn name_label(kind: WrappedKind) -> &'static [u8] {
    match kind {
        WrappedKind::Signing => b"signing",
        WrappedKind::Witness => b"witness",
        _ => b"master",
    }
}
