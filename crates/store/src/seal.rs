//! Blocks of the file as they lie on the disk: AES-256-GCM under keys that are never used again after an opening.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, rand};
use probity_format::keys::Secret;
use zeroize::Zeroizing;

/// Bytes of a block as the database knows it.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Bytes of a block on the disk: salt, counter, tag and ciphertext.
pub(crate) const SEALED_BYTES: usize = SALT_BYTES + COUNTER_BYTES + TAG_BYTES + BLOCK_BYTES;

const SALT_BYTES: usize = 16;
const COUNTER_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// Keys of earlier openings that are kept at hand.
const KEYS_MAX: usize = 1024;
const KEY_INFO: &[u8] = b"probity/store/opening/v1";
const BLOCK_LABEL: &[u8; 16] = b"probity/store/b1";

type Salt = [u8; SALT_BYTES];

/// Seals and opens the blocks of one file.
///
/// Each opening of the file has a key of its own, made from the file's key and a random salt, and counts its blocks: a copy
/// of the file that is opened beside it, or a backup that was put back, never repeats a nonce under the same key.
pub(crate) struct Sealer {
    file_key: Secret,
    salt: Salt,
    key: LessSafeKey,
    counter: AtomicU64,
    earlier: Mutex<HashMap<Salt, LessSafeKey>>,
}

/// Why a block was not sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockError {
    /// The block was never written.
    Empty,
    /// The block was changed, or moved from another place or file.
    Damaged,
    /// The system gives no random bytes, or the provider refuses.
    Refused,
}

impl Sealer {
    pub(crate) fn new(file_key: Secret) -> Result<Self, BlockError> {
        let mut salt = Salt::default();
        rand::fill(&mut salt).map_err(|_none| BlockError::Refused)?;
        Ok(Self {
            key: opening_key(&file_key, &salt)?,
            file_key,
            salt,
            counter: AtomicU64::new(0),
            earlier: Mutex::default(),
        })
    }

    /// Seals `block` for the place `number`, and appends it to `out`.
    pub(crate) fn seal(
        &self,
        number: u64,
        block: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&counter);
        out.extend_from_slice(&[0; TAG_BYTES]);
        let start = out.len();
        out.extend_from_slice(block);
        let sealed = out.get_mut(start..).ok_or(BlockError::Refused)?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(counter), place(number), sealed)
            .map_err(|_refused| BlockError::Refused)?;
        let room = out.get_mut(start - TAG_BYTES..start);
        room.ok_or(BlockError::Refused)?
            .copy_from_slice(tag.as_ref());
        Ok(())
    }

    /// Opens what lies at the place `number` into `block`.
    pub(crate) fn open(
        &self,
        number: u64,
        sealed: &[u8],
        block: &mut [u8],
    ) -> Result<(), BlockError> {
        let (salt, rest) = sealed
            .split_first_chunk::<SALT_BYTES>()
            .ok_or(BlockError::Damaged)?;
        let (counter, rest) = rest
            .split_first_chunk::<COUNTER_BYTES>()
            .ok_or(BlockError::Damaged)?;
        let (tag, body) = rest
            .split_first_chunk::<TAG_BYTES>()
            .ok_or(BlockError::Damaged)?;
        if salt == &Salt::default() && sealed.iter().all(|byte| *byte == 0) {
            return Err(BlockError::Empty);
        }
        if block.len() != body.len() {
            return Err(BlockError::Damaged);
        }
        self.with_key(salt, |key| {
            key.open_separate_gather(nonce(*counter), place(number), body, tag, block)
                .map_err(|_damaged| BlockError::Damaged)
        })
    }

    fn with_key<T>(
        &self,
        salt: &Salt,
        work: impl FnOnce(&LessSafeKey) -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        if salt == &self.salt {
            return work(&self.key);
        }
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = earlier.get(salt) {
            return work(key);
        }
        let key = opening_key(&self.file_key, salt)?;
        let done = work(&key)?;
        if earlier.len() >= KEYS_MAX {
            earlier.clear();
        }
        earlier.insert(*salt, key);
        Ok(done)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// The key of the opening with this salt.
fn opening_key(file_key: &Secret, salt: &Salt) -> Result<LessSafeKey, BlockError> {
    let mut bytes = Zeroizing::new([0; 32]);
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(file_key.expose());
    extracted
        .expand(&[KEY_INFO], &AES_256_GCM)
        .and_then(|expanded| expanded.fill(&mut *bytes))
        .map_err(|_refused| BlockError::Refused)?;
    let key = UnboundKey::new(&AES_256_GCM, &*bytes);
    key.map(LessSafeKey::new)
        .map_err(|_refused| BlockError::Refused)
}

fn nonce(counter: [u8; COUNTER_BYTES]) -> Nonce {
    let mut bytes = [0; NONCE_BYTES];
    if let Some(room) = bytes.last_chunk_mut::<COUNTER_BYTES>() {
        *room = counter;
    }
    Nonce::assume_unique_for_key(bytes)
}

fn place(number: u64) -> Aad<[u8; 24]> {
    let mut bytes = [0; 24];
    let (label, rest) = bytes.split_at_mut(BLOCK_LABEL.len());
    label.copy_from_slice(BLOCK_LABEL);
    rest.copy_from_slice(&number.to_be_bytes());
    Aad::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(Secret::new([7; 32])).unwrap()
    }

    #[test]
    fn a_block_opens_at_its_place_in_its_file_and_unchanged_alone() {
        let (one, again) = (sealer(), sealer());
        let block = vec![b'x'; BLOCK_BYTES];
        let mut sealed = Vec::new();
        one.seal(5, &block, &mut sealed).unwrap();
        assert_eq!(sealed.len(), SEALED_BYTES);
        let open = |sealer: &Sealer, number, sealed: &[u8]| {
            let mut opened = vec![0; BLOCK_BYTES];
            sealer.open(number, sealed, &mut opened).map(|()| opened)
        };
        assert_eq!(open(&one, 5, &sealed).as_ref(), Ok(&block));
        assert_eq!(open(&again, 5, &sealed).as_ref(), Ok(&block));
        assert_eq!(open(&one, 6, &sealed), Err(BlockError::Damaged));
        let other = Sealer::new(Secret::new([8; 32])).unwrap();
        assert_eq!(open(&other, 5, &sealed), Err(BlockError::Damaged));
        for index in (0..SEALED_BYTES).step_by(7) {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(open(&one, 5, &changed), Err(BlockError::Damaged), "{index}");
        }
        assert_eq!(open(&one, 5, &[0; SEALED_BYTES]), Err(BlockError::Empty));
        assert_eq!(open(&one, 5, b"short"), Err(BlockError::Damaged));
    }

    #[test]
    fn no_two_openings_and_no_two_blocks_have_the_same_salt_and_counter() {
        let block = vec![0; BLOCK_BYTES];
        let mut heads = std::collections::BTreeSet::new();
        for _ in 0..16 {
            let sealer = sealer();
            for _ in 0..16 {
                let mut sealed = Vec::new();
                sealer.seal(1, &block, &mut sealed).unwrap();
                sealed.truncate(SALT_BYTES + COUNTER_BYTES);
                assert!(heads.insert(sealed));
            }
        }
    }
}
