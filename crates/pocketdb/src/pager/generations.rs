//! Generations of keys: each reorganisation begins one, and destroys those whose pages it replaced.

use crate::pager::Pending;
use crate::pager::bytes::take;
use crate::pager::commit::Root;
use crate::pager::directory_code::{DirectoryCode, toggle};
use crate::pager::error::{Error, Result};
use crate::pager::root::{Level, Origin, PartState, RootRecord, SecureStore};
use crate::pager::seal::{Seal, next_secrets};
use crate::pager::secrets::{
    ChainSlot, read_chain, read_generation, write_chain, write_generation,
};
use crate::pager::side::{Side, all_sides};

/// Computes the code of the secrets that a record with these parts goes with: those of the sides in use,
/// and the chain's in `slot`.
///
/// It is part of the code of the directory. Without it, the secrets of one root file and the record of
/// another would make a state that never was.
#[inline(never)] // The secrets take no stack of what comes behind.
pub(crate) fn keys_code(
    store: &mut impl SecureStore,
    seal: &mut Seal,
    part: &PartState,
    slot: ChainSlot,
) -> Result<DirectoryCode> {
    let mut code = seal.begin_keys_code();
    seal.add_root_code(&mut code, &*read_chain(store, slot)?);
    for side in all_sides().filter(|&side| part.is_in_use(side)) {
        let secret = read_generation(store, side)?;
        let secret = secret.ok_or(Error::Root("lacks the key of a generation"))?;
        seal.add_root_code(&mut code, &[side]);
        seal.add_root_code(&mut code, &*secret);
    }
    Ok(take(&code.finish(), 0))
}

impl<S: SecureStore> Root<S> {
    /// Reads the keys of the generations in use. Destroys an older key that an interrupted end of a
    /// reorganisation left.
    pub(crate) fn read_generations(&mut self) -> Result<()> {
        let part = self.committed.part;
        self.seal.turn(part.generations());
        for side in all_sides() {
            let secret = read_generation(&mut self.secure, side)?;
            match secret {
                Some(secret) if part.is_in_use(side) => self.seal.set_side(side, Some(&secret)),
                Some(_) => self.destroy_generation(side)?,
                None if part.is_in_use(side) => {
                    return Err(Error::Root("lacks the key of a generation"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Overwrites the key of the generation of `side`; pages written under it can no longer be
    /// decrypted.
    pub(crate) fn destroy_generation(&mut self, side: u8) -> Result<()> {
        self.seal.set_side(side, None);
        write_generation(&mut self.secure, side, &[0; 32])?;
        Ok(self.secure.sync()?)
    }

    /// Creates the keys of the next generation; `next` is the sequence number of the next page of the
    /// buffer. Returns the generation and its first sequence number.
    ///
    /// Its first numbers are those that the record will have: no page has them yet, and every later
    /// page has them or higher ones.
    pub(crate) fn begin_generation(&mut self, next: u64) -> Result<(Level, u64)> {
        let state = self.committed.part;
        let free = all_sides().find(|&side| !state.is_in_use(side));
        let side = free.ok_or(Error::Root("has no room for another part"))?;
        let chain = read_chain(&mut self.secure, self.chain)?;
        // Keys derived from zeros are known to everybody.
        if *chain == [0; 32] {
            return Err(Error::Root("is damaged"));
        }
        let [secret, chain] = next_secrets(&chain);
        write_generation(&mut self.secure, side, &secret)?;
        // The record that begins the generation goes with this one; until then the one before holds.
        write_chain(&mut self.secure, self.chain.other(), &chain)?;
        self.pending = self.pending.max(Pending::Entries);
        self.seal.set_side(side, Some(&secret));
        let (since, since_sequence) = self.numbers_to_note(self.committed.epoch, next);
        let level = Level {
            side,
            since,
            ..Level::default()
        };
        Ok((level, since_sequence))
    }

    /// Finds the chain's secret that the newest record goes with, given the code of the entries that it
    /// counts, and destroys another that a loss of power left.
    ///
    /// The record of an earlier format binds none: there it is taken as it is, and the opening's own
    /// record vouches for it.
    pub(crate) fn adopt_chain(&mut self, entries: DirectoryCode, origin: Origin) -> Result<()> {
        let noted = self.committed.directory;
        for slot in ChainSlot::ALL {
            if self.bound_code(entries, slot)? == noted {
                self.chain = slot;
                let left = read_chain(&mut self.secure, slot.other())?;
                if *left != [0; 32] {
                    self.destroy_chain(slot.other())?;
                }
                return Ok(());
            }
        }
        let is_uncounted = !origin.is_counted && noted == DirectoryCode::default();
        if origin.is_bound || noted != entries && !is_uncounted {
            return Err(Error::Root("is damaged"));
        }
        self.chain = ChainSlot::First;
        self.committed.directory = self.bound_code(entries, self.chain)?;
        Ok(())
    }

    /// Returns the code of the newest record's directory and secrets, with the chain's in `slot`.
    fn bound_code(&mut self, mut entries: DirectoryCode, slot: ChainSlot) -> Result<DirectoryCode> {
        let part = self.committed.part;
        let keys = keys_code(&mut self.secure, &mut self.seal, &part, slot)?;
        toggle(&mut entries, keys);
        Ok(entries)
    }

    /// Returns whether `record` is to begin a generation, whose chain's secret is in the other slot.
    pub(super) fn begins_generation(&self, record: &RootRecord) -> bool {
        record.part.next.since > 0 && self.committed.part.next.since == 0
    }

    /// Works with the chain's secret of a generation that began, and destroys the one before: without it
    /// the keys of a generation cannot be derived again once they are destroyed.
    #[inline(never)] // Keeps its local variables off the stack of every commit.
    pub(super) fn turn_chain(&mut self) -> Result<()> {
        let before = self.chain;
        self.chain = before.other();
        self.destroy_chain(before)
    }

    fn destroy_chain(&mut self, slot: ChainSlot) -> Result<()> {
        write_chain(&mut self.secure, slot, &[0; 32])?;
        Ok(self.secure.sync()?)
    }

    /// Returns the side of the part being built.
    pub(crate) fn building_side(&self) -> Side {
        Side::new(self.committed.part.next.side)
    }

    /// Frees the chunks of all owners of a side.
    pub(crate) fn disown_side(&mut self, side: Side) -> Result<()> {
        side.owners()
            .into_iter()
            .try_for_each(|owner| self.disown(owner))
    }
}
