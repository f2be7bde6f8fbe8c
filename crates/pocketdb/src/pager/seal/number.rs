//! The number under which a page was sealed, found from the page itself.
//!
//! A page does not say its own number: whoever reads a page knows it. Of a page that no record names it
//! is found all the same, because the code is the encrypted hash of number and content, and the hash is
//! linear in the number. The bits that are no part of the number authenticate the page.

use aes::Aes128Dec;
use aes::cipher::{BlockCipherDecrypt as _, KeyInit as _};
use polyval::universal_hash::UniversalHash as _;
use polyval::{Block, Polyval};
use zeroize::Zeroizing;

use crate::pager::bytes::{take, u32_at, u64_at};
use crate::pager::seal::{
    Expanded, Form, Holder, MAC_BYTES, PAYLOAD_BYTES, PageIdentity, PageKeys, ROLE_BUFFER,
    ROLE_CATALOGUE, STREAM_BIT, Seal,
};

/// Number of blocks that the hash of a page takes: its place, its kind and its payload.
const HASHED_BLOCKS: usize = 2 + PAYLOAD_BYTES / 16;

/// An element of the field in which pages are hashed; products of keys are as secret as keys.
type Element = Zeroizing<[u8; 16]>;

impl Seal {
    /// Returns the sequence number of the page of the buffer that was programmed at `page`, or of one
    /// that the next reorganisation would have begun, whose secret is given. The
    /// bytes are the same afterwards.
    #[inline(never)] // The keys take no room on the stack of an opening.
    pub(crate) fn sequence_of(
        &mut self,
        page: u32,
        bytes: &mut [u8],
        next: Option<&[u8; 32]>,
    ) -> Option<u64> {
        let sides = [
            Some(self.generations.present),
            self.generations.next.map(|(_, side)| side),
        ];
        for side in sides.into_iter().flatten() {
            let keys = self.sides.get(usize::from(side)).and_then(Option::as_ref);
            let expanded = keys.map(|keys| (Reverse::new(keys), expand(keys)));
            let found = expanded.and_then(|keys| self.number(keys, page, ROLE_BUFFER, bytes));
            if found.is_some() {
                return found;
            }
        }
        let keys = PageKeys::new(next?);
        self.number(
            (Reverse::new(&keys), expand(&keys)),
            page,
            ROLE_BUFFER,
            bytes,
        )
    }

    /// Returns the epoch of the first page of a catalogue that was programmed at `page`.
    #[inline(never)]
    pub(crate) fn catalogue_epoch_of(&mut self, page: u32, bytes: &mut [u8]) -> Option<u64> {
        let keys = (Reverse::new(&self.lasting), expand(&self.lasting));
        self.number(keys, page, ROLE_CATALOGUE, bytes)
    }

    /// Returns the number of a page that has `role`, owner 0 and place 0 among the owner's; the bytes
    /// are the same afterwards.
    fn number(
        &mut self,
        (reverse, keys): (Reverse, Expanded),
        page: u32,
        role: u8,
        bytes: &mut [u8],
    ) -> Option<u64> {
        let code: [u8; MAC_BYTES] = take(bytes, PAYLOAD_BYTES);
        let before = core::mem::replace(&mut self.recent, keys);
        self.apply_stream(&code, bytes);
        let nowhere = PageIdentity {
            page: 0,
            epoch: 0,
            role,
            owner: 0,
            number: 0,
        };
        let without: [u8; 16] = self.hash_page(&nowhere, bytes).into();
        self.apply_stream(&code, bytes);
        self.recent = before;
        // The code lacks one bit of the hash.
        [0, STREAM_BIT].into_iter().find_map(|bit| {
            let mut hash = reverse.hash_of(&code);
            for (byte, other) in hash.iter_mut().zip(without) {
                *byte ^= other;
            }
            if let Some(last) = hash.last_mut() {
                *last ^= bit;
            }
            let place = product(&hash, &reverse.place);
            let fits = u32_at(&*place, 0) == page && u32_at(&*place, 12) == 0;
            fits.then(|| u64_at(&*place, 4))
        })
    }
}

/// The way back from a code to the place of its page.
struct Reverse {
    cipher: Aes128Dec,
    /// The inverse of what the hash multiplies the place with.
    place: Element,
}

impl Reverse {
    fn new(keys: &PageKeys) -> Self {
        let key = &keys.hash;
        let mut power = key.clone();
        for _ in 1..HASHED_BLOCKS {
            power = product(&power, key);
        }
        Self {
            cipher: Aes128Dec::new(&(*keys.synthetic()).into()),
            place: inverse(&power),
        }
    }

    /// Returns the hash that was encrypted to `code`.
    fn hash_of(&self, code: &[u8; MAC_BYTES]) -> [u8; 16] {
        let mut block = Block::from(*code);
        self.cipher.decrypt_block(&mut block);
        block.into()
    }
}

fn expand(keys: &PageKeys) -> Expanded {
    Expanded::new(Holder::Tried, Form::Synthetic, keys)
}

/// The product in the field of the hash.
fn product(one: &[u8; 16], other: &[u8; 16]) -> Element {
    let mut hash = Polyval::new(&(*one).into());
    hash.update(&[(*other).into()]);
    Zeroizing::new(hash.finalize().into())
}

/// The inverse of `element`: its power to 2^128 - 2, which is the product of the squares of squares.
fn inverse(element: &[u8; 16]) -> Element {
    let mut square = product(element, element);
    let mut all = square.clone();
    for _ in 2..128 {
        square = product(&square, &square);
        all = product(&all, &square);
    }
    all
}
