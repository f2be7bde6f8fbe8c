//! A buffer for one value or record: short ones are inline, longer ones on the heap.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::pager::bytes::{part, part_mut};
use crate::pager::error::{Error, Result};
use crate::pager::seal::PAYLOAD_BYTES;

/// Longest buffer stored inline, in bytes.
const FEW: usize = 64;

/// A buffer of zeros at first.
#[derive(Debug, Clone)]
pub(crate) struct Scratch {
    few: [u8; FEW],
    many: Vec<u8>,
    count: usize,
}

impl Scratch {
    /// Creates a buffer of `count` bytes.
    pub(crate) fn new(count: usize) -> Self {
        let many = if count > FEW {
            alloc::vec![0; count]
        } else {
            Vec::new()
        };
        Self {
            few: [0; FEW],
            many,
            count,
        }
    }

    /// Creates a buffer for a record of a result, which must fit into a page.
    pub(crate) fn record(width: usize) -> Result<Self> {
        if width > PAYLOAD_BYTES {
            return Err(Error::Limit("the width of a result row"));
        }
        Ok(Self::new(width))
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let bytes: &[u8] = if self.count > FEW {
            &self.many
        } else {
            &self.few
        };
        part(bytes, 0, self.count)
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = if self.count > FEW {
            &mut self.many
        } else {
            &mut self.few
        };
        part_mut(bytes, 0, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_has_as_many_bytes_as_were_asked_for() {
        for count in [0, 1, FEW, FEW + 1, PAYLOAD_BYTES] {
            let mut scratch = Scratch::record(count).unwrap();
            assert_eq!(&*scratch, &*alloc::vec![0; count]);
            scratch.fill(7);
            assert_eq!(&*scratch, &*alloc::vec![7; count]);
        }
        assert!(Scratch::record(PAYLOAD_BYTES + 1).is_err());
    }
}
