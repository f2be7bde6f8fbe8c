//! Encryption and authentication of flash pages; the layout is "Pages" in `docs/pocketdb-format.md`.

mod number;

pub(crate) use self::number::Sealed;

use aes::Aes128Enc;
use aes::cipher::{BlockCipherEncrypt as _, InnerIvInit as _, KeyInit as _, StreamCipher};
use cmac::{Cmac, Mac as _};
use polyval::universal_hash::UniversalHash as _;
use polyval::{Block, Polyval};
use zeroize::Zeroizing;

use crate::pager::bytes::{part, part_mut, put, take};
use crate::pager::directory_code::{DirectoryCode, EntryBytes};
use crate::pager::error::{Error, Result};
use crate::pager::flash::PAGE_BYTES;
use crate::pager::side::{SIDES, side_number};

/// Length of a page's payload in bytes.
pub(crate) const PAYLOAD_BYTES: usize = PAGE_BYTES - MAC_BYTES;
/// Length of the authentication code at the end of every page, in bytes.
pub(crate) const MAC_BYTES: usize = 16;
/// Length of a key tag in bytes.
pub(crate) const TAG_BYTES: usize = 10;

/// The keyed hash of a key in one index; the first [`TAG_BYTES`] make tags, the rest filters.
pub(crate) type KeyHash = [u8; 16];

/// Cipher operations by type, counted in blocks of 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CipherCounters {
    /// Blocks encrypted or decrypted.
    pub cipher_blocks: u64,
    /// Blocks authenticated.
    pub mac_blocks: u64,
    /// Blocks spent on key tags and filter positions.
    pub tag_blocks: u64,
}

/// The identity of a page, which its code authenticates. A page in another role or place is
/// invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageIdentity {
    /// Physical page number.
    pub(crate) page: u32,
    /// The number of the write, never used twice for one physical page. It is the sequence number
    /// of a buffer page, or the number of the unit's attempt.
    pub(crate) epoch: u64,
    /// Role of the page, such as [`ROLE_BUFFER`].
    pub(crate) role: u8,
    /// The owner of the page: a table, zero for the buffer.
    pub(crate) owner: u8,
    /// The number of the page among the owner's, zero for the buffer.
    pub(crate) number: u32,
}

/// A page of the commit buffer.
pub(crate) const ROLE_BUFFER: u8 = 1;
/// A page of rows.
pub(crate) const ROLE_DATA: u8 = 2;
/// A page of referenced ids.
pub(crate) const ROLE_JOIN: u8 = 3;
/// A page of key tags.
pub(crate) const ROLE_KEY: u8 = 4;
/// A page of filters and pointers.
pub(crate) const ROLE_FILTER: u8 = 5;
/// A page of the catalogue.
pub(crate) const ROLE_CATALOGUE: u8 = 6;
/// A page that is needed for one statement.
pub(crate) const ROLE_TEMPORARY: u8 = 7;
/// A page of the reorganised part.
pub(crate) const ROLE_PART: u8 = 8;
/// A page of lists of ids of the reorganised part.
pub(crate) const ROLE_LIST: u8 = 9;

impl PageIdentity {
    fn description(&self) -> &'static str {
        match self.role {
            ROLE_BUFFER => "commit buffer page",
            ROLE_DATA => "row page",
            ROLE_JOIN => "join page",
            ROLE_KEY => "key page",
            ROLE_FILTER => "filter page",
            ROLE_TEMPORARY => "temporary page",
            ROLE_PART => "reorganised page",
            ROLE_LIST => "list page",
            _ => "catalogue page",
        }
    }
}

/// The keys of pages; each generation has its own, which are destroyed at its end.
struct PageKeys {
    cipher: Zeroizing<[u8; 16]>,
    hash: Zeroizing<[u8; 16]>,
    /// Mixed into tags, so that they are meaningless once it is destroyed.
    mask: Zeroizing<[u8; 16]>,
}

impl PageKeys {
    fn new(secret: &[u8; 32]) -> Self {
        Self {
            cipher: derive(secret, LABEL_CIPHER),
            hash: derive(secret, LABEL_HASH),
            mask: derive(secret, LABEL_MASK),
        }
    }

    /// Returns the key that encrypts pages in the present form.
    fn synthetic(&self) -> Zeroizing<[u8; 16]> {
        // No key stream of format 6 contains this block: no page has role 255.
        let mut key = Block::from([0xFF; 16]);
        Aes128Enc::new(&(*self.cipher).into()).encrypt_block(&mut key);
        Zeroizing::new(key.into())
    }
}

/// The first numbers of pages sealed in the present form; pages of format 6 have lower ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

impl Since {
    /// The value for a store without pages in the present form.
    pub(crate) const NEVER: Self = Self {
        epoch: u64::MAX,
        sequence: u64::MAX,
    };
}

/// The form of sealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The initial counter block is the code of the plain page, so that no other page has the same.
    Synthetic,
    /// The initial counter block is place and number of the page, as in format 6.
    Numbered,
}

/// Expanded keys, seven times as long.
struct Expanded {
    holder: Holder,
    form: Form,
    cipher: Aes128Enc,
    /// Hashes a page under a secret key; blocks are processed in parallel, unlike those of CMAC.
    hash: Polyval,
}

impl Expanded {
    fn new(holder: Holder, form: Form, keys: &PageKeys) -> Self {
        let key = match form {
            Form::Synthetic => keys.synthetic(),
            Form::Numbered => keys.cipher.clone(),
        };
        Self {
            holder,
            form,
            cipher: Aes128Enc::new(&(*key).into()),
            hash: Polyval::new(&(*keys.hash).into()),
        }
    }
}

/// The holder of keys: a side, or the database for all generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Lasting,
    Side(u8),
    /// Keys tried on a page that no record names; never taken for another page.
    Tried,
}

/// The assignment of pages to generations; each has the keys of its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The generation of the newest pages, apart from the next one.
    pub(crate) present: u8,
    /// The first epoch and the side of every generation, the oldest first.
    pub(crate) spans: [(u64, u8); SIDES],
    /// The first sequence number and the side of the next generation, once it began.
    pub(crate) next: Option<(u64, u8)>,
}

impl Default for Generations {
    fn default() -> Self {
        Self {
            present: 0,
            spans: [(u64::MAX, 0); SIDES],
            next: None,
        }
    }
}

impl Generations {
    /// Returns the side of a unit that was written under `epoch`.
    fn of_epoch(&self, epoch: u64) -> u8 {
        let mut spans = self.spans.iter().rev();
        let found = spans.find(|(first, _)| *first <= epoch);
        found.map_or(self.present, |&(_, side)| side)
    }

    /// Returns the side of a page of the buffer.
    fn of_sequence(&self, sequence: u64) -> u8 {
        match self.next {
            Some((first, side)) if sequence >= first => side,
            _ => self.present,
        }
    }
}

/// The running authentication code of bytes of the secure store.
pub(crate) struct RootCode(Cmac<Aes128Enc>);

impl RootCode {
    /// Returns the code of all bytes added.
    pub(crate) fn finish(self) -> [u8; MAC_BYTES] {
        self.0.finalize().into_bytes().into()
    }
}

/// The keys of one database image, overwritten when dropped.
pub(crate) struct Seal {
    /// The keys of pages that outlive every generation, which are those of the catalogue.
    lasting: PageKeys,
    sides: [Option<PageKeys>; SIDES],
    /// The keys used last and those before them, so that two generations can be read alternately.
    recent: Expanded,
    before: Expanded,
    generations: Generations,
    since: Since,
    /// Encrypts the hash of a page of format 6 to its code.
    page_cipher: Aes128Enc,
    root_mac: Cmac<Aes128Enc>,
    tag_mac: Cmac<Aes128Enc>,
    tag_cipher: Aes128Enc,
    pub(crate) counters: CipherCounters,
}

/// A bit in the last byte of a block. It is set in a key stream's first block, and clear in the
/// block that is encrypted to a code.
const STREAM_BIT: u8 = 0x80;
const LABEL_CIPHER: u8 = 1;
const LABEL_ROOT: u8 = 2;
const LABEL_TAG_HASH: u8 = 3;
const LABEL_TAG: u8 = 4;
const LABEL_HASH: u8 = 5;
const LABEL_CODE: u8 = 6;
const LABEL_MASK: u8 = 7;
const LABELS_STORED: [u8; 2] = [8, 9];
const LABELS_FIRST: [u8; 2] = [10, 11];
const LABELS_NEXT: [u8; 2] = [12, 13];
const LABELS_SIGNING: [u8; 2] = [14, 15];
const LABELS_CHAIN: [u8; 2] = [16, 17];

/// NIST SP 800-108 in counter mode with CMAC as its function, over both halves of `secret`.
fn derive(secret: &[u8; 32], label: u8) -> Zeroizing<[u8; 16]> {
    let (first, second) = secret.split_at(16);
    let mut outer = Cmac::<Aes128Enc>::new(&to_key(first));
    outer.update(second);
    let root = Zeroizing::new(<[u8; 16]>::from(outer.finalize().into_bytes()));
    let mut inner = Cmac::<Aes128Enc>::new((&*root).into());
    inner.update(&[label]);
    inner.update(b"probity-pocketdb");
    Zeroizing::new(inner.finalize().into_bytes().into())
}

fn derive_secret(secret: &[u8; 32], labels: [u8; 2]) -> Zeroizing<[u8; 32]> {
    let mut derived = Zeroizing::new([0; 32]);
    for (half, label) in derived.chunks_exact_mut(16).zip(labels) {
        half.copy_from_slice(&*derive(secret, label));
    }
    derived
}

/// Derives a new store's secrets from the randomness given: its own, the first generation's, and
/// the one for later generations. None can be derived from another.
pub(crate) fn first_secrets(given: &[u8; 32]) -> [Zeroizing<[u8; 32]>; 3] {
    [LABELS_STORED, LABELS_FIRST, LABELS_CHAIN].map(|labels| derive_secret(given, labels))
}

/// Derives the seed of the database's signing key.
pub(crate) fn signing_secret(secret: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    derive_secret(secret, LABELS_SIGNING)
}

/// Derives the secret of the next generation, and the one for those after it. Neither leads back,
/// or to the other.
pub(crate) fn next_secrets(chain: &[u8; 32]) -> [Zeroizing<[u8; 32]>; 2] {
    [LABELS_NEXT, LABELS_CHAIN].map(|labels| derive_secret(chain, labels))
}

impl Seal {
    /// Derives the lasting keys from the image's secret.
    pub(crate) fn new(secret: &[u8; 32], since: Since) -> Self {
        let lasting = PageKeys::new(secret);
        let expanded = || Expanded::new(Holder::Lasting, Form::Synthetic, &lasting);
        Self {
            recent: expanded(),
            before: expanded(),
            lasting,
            since,
            sides: [const { None }; SIDES],
            generations: Generations::default(),
            page_cipher: Aes128Enc::new((&*derive(secret, LABEL_CODE)).into()),
            root_mac: Cmac::new((&*derive(secret, LABEL_ROOT)).into()),
            tag_mac: Cmac::new((&*derive(secret, LABEL_TAG_HASH)).into()),
            tag_cipher: Aes128Enc::new((&*derive(secret, LABEL_TAG)).into()),
            counters: CipherCounters::default(),
        }
    }

    /// Sets the keys of the generation of `side`, or removes them.
    pub(crate) fn set_side(&mut self, side: u8, secret: Option<&[u8; 32]>) {
        let place = self.sides.get_mut(usize::from(side));
        debug_assert!(place.is_some(), "a side is one of those there are");
        if let Some(place) = place {
            *place = secret.map(PageKeys::new);
        }
        for keys in [&mut self.recent, &mut self.before] {
            if keys.holder == Holder::Side(side) {
                *keys = Expanded::new(Holder::Lasting, Form::Synthetic, &self.lasting);
            }
        }
    }

    /// Sets the first numbers of pages sealed in the present form.
    pub(crate) fn seal_anew(&mut self, since: Since) {
        self.since = since;
    }

    /// Returns whether more may be written under the epoch of a block.
    pub(crate) fn is_present(&self, epoch: u64) -> bool {
        epoch >= self.since.epoch
    }

    /// Sets the assignment of pages to generations.
    pub(crate) fn turn(&mut self, generations: Generations) {
        self.generations = generations;
    }

    #[expect(
        clippy::expect_used,
        reason = "pages under lasting keys would outlive the end of their generation"
    )]
    fn side(&self, number: u8) -> &PageKeys {
        let found = self.sides.get(usize::from(number)).and_then(Option::as_ref);
        found.expect("a page is of a generation that has its keys")
    }

    /// Returns the holder of a page's keys.
    fn holder(&self, identity: &PageIdentity) -> Holder {
        Holder::Side(match identity.role {
            ROLE_CATALOGUE => return Holder::Lasting,
            ROLE_PART | ROLE_LIST => side_number(identity.owner),
            ROLE_TEMPORARY => self.generations.present,
            ROLE_BUFFER => self.generations.of_sequence(identity.epoch),
            _ => self.generations.of_epoch(identity.epoch),
        })
    }

    /// Returns the form of a page.
    fn form(&self, identity: &PageIdentity) -> Form {
        let first = if identity.role == ROLE_BUFFER {
            self.since.sequence
        } else {
            self.since.epoch
        };
        if identity.epoch < first {
            Form::Numbered
        } else {
            Form::Synthetic
        }
    }

    /// Makes the keys of a page the most recent ones; returns the page's form.
    fn take_keys(&mut self, identity: &PageIdentity) -> Form {
        let (holder, form) = (self.holder(identity), self.form(identity));
        let fits = |keys: &Expanded| keys.holder == holder && keys.form == form;
        if fits(&self.recent) {
            return form;
        }
        core::mem::swap(&mut self.recent, &mut self.before);
        if !fits(&self.recent) {
            let keys = match holder {
                Holder::Lasting | Holder::Tried => &self.lasting,
                Holder::Side(number) => self.side(number),
            };
            self.recent = Expanded::new(holder, form, keys);
        }
        form
    }

    /// Encrypts the payload in `page` in place, appends its code, and returns the code.
    pub(crate) fn close(&mut self, identity: &PageIdentity, page: &mut [u8]) -> [u8; MAC_BYTES] {
        let form = self.take_keys(identity);
        assert_eq!(form, Form::Synthetic, "nothing is written in an old form");
        let code = self.plain_code(identity, page);
        self.apply_stream(&code, page);
        put(page, PAYLOAD_BYTES, &code);
        code
    }

    /// Decrypts the payload of `page` in place, checks its code, and returns the code. After an
    /// error the buffer contains nothing of the page.
    pub(crate) fn open(
        &mut self,
        identity: &PageIdentity,
        page: &mut [u8],
    ) -> Result<[u8; MAC_BYTES]> {
        let form = self.take_keys(identity);
        let found: [u8; MAC_BYTES] = take(page, PAYLOAD_BYTES);
        let code = match form {
            Form::Synthetic => {
                self.apply_stream(&found, page);
                self.plain_code(identity, page)
            }
            Form::Numbered => self.numbered_code(identity, page),
        };
        let pairs = code.iter().zip(found);
        if page.len() != PAGE_BYTES || pairs.fold(0, |all, (a, b)| all | (a ^ b)) != 0 {
            page.fill(0);
            return Err(Error::Tampered {
                page: identity.page,
                what: identity.description(),
            });
        }
        if form == Form::Numbered {
            self.apply_numbered(identity, page);
        }
        Ok(code)
    }

    /// Computes the hash of `key` in the index `domain`: equal for equal keys, otherwise
    /// pseudorandom.
    pub(crate) fn hash(&mut self, domain: u16, key: &[u8]) -> KeyHash {
        let mut mac = self.tag_mac.clone();
        mac.update(&domain.to_le_bytes());
        mac.update(key);
        self.counters.tag_blocks += (2 + key.len()).div_ceil(16) as u64;
        mac.finalize().into_bytes().into()
    }

    /// Computes the tag of a key, which is comparable only within one page.
    pub(crate) fn tag(&mut self, hash: &KeyHash, epoch: u64) -> [u8; TAG_BYTES] {
        let mut block = *hash;
        put(&mut block, TAG_BYTES, &take::<6>(&epoch.to_le_bytes(), 0));
        self.encrypt_tag(block, epoch)
    }

    /// Computes the noise in a slot without a tag: it looks like a tag and equals none.
    pub(crate) fn noise(&mut self, index: u16, slot: u32, epoch: u64) -> [u8; TAG_BYTES] {
        let mut block = [0xFF; 16];
        put(&mut block, 0, &index.to_le_bytes());
        put(&mut block, 2, &slot.to_le_bytes());
        put(&mut block, TAG_BYTES, &take::<6>(&epoch.to_le_bytes(), 0));
        self.encrypt_tag(block, epoch)
    }

    fn encrypt_tag(&mut self, mut block: [u8; 16], epoch: u64) -> [u8; TAG_BYTES] {
        let mask = &self.side(self.generations.of_epoch(epoch)).mask;
        for (byte, other) in block.iter_mut().zip(mask.iter()) {
            *byte ^= other;
        }
        let mut block = block.into();
        self.tag_cipher.encrypt_block(&mut block);
        self.counters.tag_blocks += 1;
        take(&block, 0)
    }

    /// Computes the code of bytes of the secure store.
    pub(crate) fn root_code(&mut self, bytes: &[u8]) -> [u8; MAC_BYTES] {
        let mut code = self.begin_root_code();
        self.add_root_code(&mut code, bytes);
        code.finish()
    }

    /// Computes the code of an entry of the directory.
    pub(crate) fn entry_code(
        &mut self,
        owner: u8,
        number: u32,
        bytes: &EntryBytes,
    ) -> DirectoryCode {
        let mut mac = self.root_mac.clone();
        mac.update(b"place");
        mac.update(&[owner]);
        mac.update(&number.to_le_bytes());
        mac.update(bytes);
        self.counters.mac_blocks += 2;
        take(&mac.finalize().into_bytes(), 0)
    }

    /// Begins the code of bytes that are added piece by piece.
    pub(crate) fn begin_root_code(&self) -> RootCode {
        let mut mac = self.root_mac.clone();
        mac.update(b"root");
        RootCode(mac)
    }

    /// Begins the code of the secrets that a record goes with.
    pub(crate) fn begin_keys_code(&self) -> RootCode {
        let mut mac = self.root_mac.clone();
        mac.update(b"keys");
        RootCode(mac)
    }

    /// Adds the next piece.
    pub(crate) fn add_root_code(&mut self, code: &mut RootCode, bytes: &[u8]) {
        code.0.update(bytes);
        self.counters.mac_blocks += bytes.len().div_ceil(16) as u64;
    }

    /// Computes the code of a page before encryption, under the key that encrypts it.
    fn plain_code(&mut self, identity: &PageIdentity, page: &[u8]) -> [u8; MAC_BYTES] {
        let mut code = self.hash_page(identity, page);
        // The first blocks of key streams have this bit set, so that no code equals one of their
        // blocks.
        if let Some(last) = code.last_mut() {
            *last &= !STREAM_BIT;
        }
        self.recent.cipher.encrypt_block(&mut code);
        code.into()
    }

    /// Encrypts or decrypts a payload with the key stream of its code.
    fn apply_stream(&mut self, code: &[u8; MAC_BYTES], page: &mut [u8]) {
        let mut start = *code;
        if let Some(last) = start.last_mut() {
            *last |= STREAM_BIT;
        }
        let core = ctr::CtrCore::inner_iv_init(self.recent.cipher.clone(), &start.into());
        self.apply(ctr::Ctr32LE::<Aes128Enc>::from_core(core), page);
    }

    fn hash_page(&mut self, identity: &PageIdentity, page: &[u8]) -> Block {
        let (mut place, mut kind) = (Block::default(), Block::default());
        put(&mut place, 0, &identity.page.to_le_bytes());
        put(&mut place, 4, &identity.epoch.to_le_bytes());
        put(&mut place, 12, &identity.number.to_le_bytes());
        put(&mut kind, 0, &[identity.role, identity.owner]);
        let mut hash = self.recent.hash.clone();
        hash.update(&[place, kind]);
        hash.update_padded(part(page, 0, PAYLOAD_BYTES));
        // Every page has the same number of blocks, so their number need not be hashed.
        self.counters.mac_blocks += (PAGE_BYTES / 16) as u64 + 2;
        hash.finalize()
    }

    /// Computes the code of an encrypted page of format 6.
    fn numbered_code(&mut self, identity: &PageIdentity, page: &[u8]) -> [u8; MAC_BYTES] {
        let mut code = self.hash_page(identity, page);
        self.page_cipher.encrypt_block(&mut code);
        code.into()
    }

    /// Decrypts a payload of format 6.
    fn apply_numbered(&mut self, identity: &PageIdentity, page: &mut [u8]) {
        if identity.role == ROLE_KEY {
            return;
        }
        let mut start = [0u8; 16];
        put(&mut start, 0, &identity.page.to_be_bytes());
        put(&mut start, 4, &identity.epoch.to_be_bytes());
        put(&mut start, 4, &[identity.role]);
        let core = ctr::CtrCore::inner_iv_init(self.recent.cipher.clone(), &start.into());
        self.apply(ctr::Ctr32BE::<Aes128Enc>::from_core(core), page);
    }

    fn apply(&mut self, mut stream: impl StreamCipher, page: &mut [u8]) {
        stream.apply_keystream(part_mut(page, 0, PAYLOAD_BYTES));
        self.counters.cipher_blocks += (PAYLOAD_BYTES / 16) as u64;
    }
}

fn to_key(half: &[u8]) -> aes::cipher::Key<Aes128Enc> {
    take::<16>(half, 0).into()
}

#[cfg(test)]
mod tests;
