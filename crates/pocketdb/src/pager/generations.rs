//! Generations of keys: each reorganisation begins one, and destroys those whose pages it replaced.

use crate::pager::Pending;
use crate::pager::commit::Root;
use crate::pager::error::{Error, Result};
use crate::pager::root::{
    Level, SecureStore, read_chain, read_generation, write_chain, write_generation,
};
use crate::pager::seal::next_secrets;
use crate::pager::side::{Side, all_sides};

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
        let chain = read_chain(&mut self.secure)?;
        // Keys derived from zeros are known to everybody.
        if *chain == [0; 32] {
            return Err(Error::Root("is damaged"));
        }
        let [secret, chain] = next_secrets(&chain);
        write_generation(&mut self.secure, side, &secret)?;
        // Without the previous secret these keys cannot be derived again once they are destroyed.
        write_chain(&mut self.secure, &chain)?;
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
