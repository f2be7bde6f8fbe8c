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

use crate::pager::bytes::{put, take, u32_at, u64_at};
use crate::pager::directory::TEMPORARY;
use crate::pager::flash::BLOCK_PAGES;
use crate::pager::seal::{
    Expanded, Form, Holder, MAC_BYTES, PAYLOAD_BYTES, PageIdentity, PageKeys, ROLE_BUFFER,
    ROLE_CATALOGUE, ROLE_DATA, ROLE_FILTER, ROLE_JOIN, ROLE_KEY, ROLE_LIST, ROLE_PART,
    ROLE_TEMPORARY, STREAM_BIT, Seal, next_secrets,
};
use crate::pager::side::{SIDES, bodies, lists, tables};

/// Number of blocks that the hash of a page takes: its place, its kind and its payload.
const HASHED_BLOCKS: usize = 2 + PAYLOAD_BYTES / 16;
const _: () = assert!(
    (HASHED_BLOCKS - 1).is_power_of_two(),
    "the power of the kind's block is made of squares"
);

/// An element of the field in which pages are hashed; products of keys are as secret as keys.
type Element = Zeroizing<[u8; 16]>;

/// Number of entries of an owner in the directory: no unit has a greater number.
const UNITS_MAX: u32 = 1 << 17;
/// Bound of the numbers believed of a page whose place is not fixed by its kind; no store reaches it.
const BELIEVED: u64 = 1 << 60;

/// The number under which a page was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sealed {
    /// The sequence number of a page of the buffer.
    Buffer(u64),
    /// The epoch of a page that one statement or task needed.
    Temporary(u64),
    /// The epoch of any other page.
    Lasting(u64),
}

impl Seal {
    /// Returns the number of the page at `page`, whichever kind it is of, or `None` if no key tried
    /// made it. Tried are the keys in use and those of the `generations` that follow the secret
    /// `chain`. The bytes are the same afterwards.
    ///
    /// A page of the catalogue is found if it is the first one.
    #[inline(never)] // The keys take no room on the stack of an opening.
    pub(crate) fn number_of(
        &mut self,
        page: u32,
        bytes: &mut [u8],
        chain: &[u8; 32],
        generations: u32,
    ) -> Option<Sealed> {
        let keys = Tried::new(&self.lasting);
        let found = self.number(&keys.reverse, keys.expanded, page, bytes, &[ROLE_CATALOGUE]);
        if found.is_some() {
            return found;
        }
        for side in 0..SIDES {
            let keys = self.sides.get(side).and_then(Option::as_ref);
            let Some(keys) = keys.map(Tried::new) else {
                continue;
            };
            let found = self.number(&keys.reverse, keys.expanded, page, bytes, &ROLES);
            if found.is_some() {
                return found;
            }
        }
        let mut chain = Zeroizing::new(*chain);
        for _ in 0..generations {
            let [next, following] = next_secrets(&chain);
            let keys = Tried::new(&PageKeys::new(&next));
            let found = self.number(&keys.reverse, keys.expanded, page, bytes, &ROLES);
            if found.is_some() {
                return found;
            }
            chain = following;
        }
        None
    }

    /// Returns the number of a page with one of `roles` under the keys given.
    fn number(
        &mut self,
        reverse: &Reverse,
        keys: Expanded,
        page: u32,
        bytes: &mut [u8],
        roles: &[u8],
    ) -> Option<Sealed> {
        let code: [u8; MAC_BYTES] = take(bytes, PAYLOAD_BYTES);
        let before = core::mem::replace(&mut self.recent, keys);
        self.apply_stream(&code, bytes);
        let nobody = PageIdentity {
            page: 0,
            epoch: 0,
            role: 0,
            owner: 0,
            number: 0,
        };
        let without: [u8; 16] = self.hash_page(&nobody, bytes).into();
        self.apply_stream(&code, bytes);
        self.recent = before;
        let hash = sum(&reverse.hash_of(&code), &without);
        let place = product(&hash, &reverse.place);
        // The code lacks one bit of the hash.
        let mut bit = [0; 16];
        put(&mut bit, 15, &[STREAM_BIT]);
        let other = sum(&place, &product(&bit, &reverse.place));
        for &role in roles {
            for owner in owners(role) {
                let mut kind = [0; 16];
                put(&mut kind, 0, &[role, owner]);
                let kind = product(&kind, &reverse.kind);
                let found = [*place, other].map(|place| sealed(&sum(&place, &kind), page, role));
                if let Some(found) = found.into_iter().flatten().next() {
                    return Some(found);
                }
            }
        }
        None
    }
}

/// Roles of the pages of a generation.
const ROLES: [u8; 8] = [
    ROLE_BUFFER,
    ROLE_PART,
    ROLE_LIST,
    ROLE_TEMPORARY,
    ROLE_DATA,
    ROLE_JOIN,
    ROLE_KEY,
    ROLE_FILTER,
];

/// Returns the owners that pages of a role have.
fn owners(role: u8) -> core::ops::Range<u8> {
    match role {
        ROLE_BUFFER | ROLE_CATALOGUE => 0..1,
        ROLE_TEMPORARY => TEMPORARY..TEMPORARY + 1,
        ROLE_PART => bodies(),
        ROLE_LIST => lists(),
        _ => tables(),
    }
}

/// Returns the number in a first block, if the rest of it is that of a page at `page`.
fn sealed(place: &[u8; 16], page: u32, role: u8) -> Option<Sealed> {
    if u32_at(place, 0) != page {
        return None;
    }
    let (number, among) = (u64_at(place, 4), u32_at(place, 12));
    let is_fixed = matches!(role, ROLE_BUFFER | ROLE_CATALOGUE);
    let fits = match role {
        _ if is_fixed => among == 0,
        // A log keeps the place of a page in its block.
        ROLE_TEMPORARY | ROLE_PART | ROLE_LIST => {
            among % BLOCK_PAGES == page % BLOCK_PAGES && among / BLOCK_PAGES < UNITS_MAX
        }
        _ => among < UNITS_MAX,
    };
    (fits && (is_fixed || number < BELIEVED)).then_some(match role {
        ROLE_BUFFER => Sealed::Buffer(number),
        ROLE_TEMPORARY => Sealed::Temporary(number),
        _ => Sealed::Lasting(number),
    })
}

/// Keys to try on a page.
struct Tried {
    reverse: Reverse,
    expanded: Expanded,
}

impl Tried {
    fn new(keys: &PageKeys) -> Self {
        Self {
            reverse: Reverse::new(keys),
            expanded: Expanded::new(Holder::Tried, Form::Synthetic, keys),
        }
    }
}

/// The way back from a code to the place of its page.
struct Reverse {
    cipher: Aes128Dec,
    /// The inverse of what the hash multiplies the place with.
    place: Element,
    /// The factor that leads from the kind, behind the place in the hash, to its share of the place.
    kind: Element,
}

impl Reverse {
    fn new(keys: &PageKeys) -> Self {
        let key = &keys.hash;
        let mut power = key.clone();
        for _ in 0..(HASHED_BLOCKS - 1).trailing_zeros() {
            power = product(&power, &power);
        }
        let place = inverse(&product(&power, key));
        Self {
            cipher: Aes128Dec::new(&(*keys.synthetic()).into()),
            kind: product(&power, &place),
            place,
        }
    }

    /// Returns the hash that was encrypted to `code`.
    fn hash_of(&self, code: &[u8; MAC_BYTES]) -> [u8; 16] {
        let mut block = Block::from(*code);
        self.cipher.decrypt_block(&mut block);
        block.into()
    }
}

/// The sum in the field of the hash.
fn sum(one: &[u8; 16], other: &[u8; 16]) -> [u8; 16] {
    let mut sum = *one;
    for (byte, other) in sum.iter_mut().zip(other) {
        *byte ^= other;
    }
    sum
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
