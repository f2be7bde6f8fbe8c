//! The anchored heads of one stream, in compact form.
//!
//! A busy stream anchors about one a second, so that a list of them would outgrow any memory. Only
//! their sizes are kept, a byte or two each, and a hash over the roots of each block of them.

use probity_format::checkpoint::Checkpoint;
use probity_format::tree::{EMPTY_ROOT, Hash, node_hash};

use crate::epochs::Floor;

/// Heads whose roots share one hash.
pub(super) const BLOCK_HEADS: usize = 4_096;

/// Anchored heads of one stream, each of at least the size of the one before.
#[derive(Debug, Clone, Default)]
pub(super) struct Anchors {
    /// The growth of each head over the one before, in LEB128.
    growth: Vec<u8>,
    /// The hash over the roots of each block; that of the last may be unfinished.
    blocks: Vec<Hash>,
    count: usize,
    /// Size of the last head, and the frame that anchors it.
    last: Option<(u64, u64)>,
    /// The epoch of that frame; where there is no head, of the last frame that names all streams,
    /// if there is one.
    epoch: Option<u32>,
    /// The number of certificates before the heads, with the size from which on it holds; both only
    /// grow.
    signers: Vec<(u64, usize)>,
}

impl Anchors {
    /// The heads of a stream that no frame names; `all` is the epoch of the last frame that names
    /// all streams.
    pub(super) fn unnamed(all: Option<u32>) -> Self {
        Self {
            epoch: all,
            ..Self::default()
        }
    }

    /// Adds a head that frame `frame`, of epoch `epoch`, anchors behind `certificates`.
    ///
    /// # Errors
    /// The fault, when the head is smaller than the one before.
    pub(super) fn add(
        &mut self,
        head: &Checkpoint,
        (frame, epoch): (u64, u32),
        certificates: usize,
    ) -> Result<(), String> {
        let (before, at) = self.last.unwrap_or_default();
        let Some(growth) = head.size().checked_sub(before) else {
            return Err(format!(
                "anchors {} at {} frames, though frame {at} did at {before}",
                head.origin(),
                head.size()
            ));
        };
        push_leb128(&mut self.growth, growth);
        if self.count.is_multiple_of(BLOCK_HEADS) {
            self.blocks.push(EMPTY_ROOT);
        }
        if let Some(block) = self.blocks.last_mut() {
            *block = node_hash(block, head.root());
        }
        self.count = self.count.saturating_add(1);
        self.last = Some((head.size(), frame));
        self.epoch = Some(epoch);
        let known = self.signers.last();
        // A repeated head does not show the signer: the stream did not grow, and its checkpoint
        // stays as it is.
        if self.count > 1 && growth == 0 {
            return Ok(());
        }
        if known.is_none_or(|(_, known)| *known < certificates) {
            self.signers.push((head.size(), certificates));
        }
        Ok(())
    }

    /// Size of the last head, and the frame that anchors it.
    pub(super) const fn last(&self) -> Option<(u64, u64)> {
        self.last
    }

    /// The floor: frames behind it are not older than the opening that anchored the last head.
    /// Without a head, it is the opening that last anchored all streams.
    pub(super) fn floor(&self) -> Option<Floor> {
        let size = self.last.map_or(0, |(size, _)| size);
        self.epoch.map(|epoch| Floor { size, epoch })
    }

    /// The number of certificates before the last head of at most `size` frames.
    pub(super) fn certificates_before(&self, size: u64) -> usize {
        let later = self.signers.partition_point(|(from, _)| *from <= size);
        let due = later.checked_sub(1).and_then(|it| self.signers.get(it));
        due.map_or(0, |(_, certificates)| *certificates)
    }
}

/// Heads whose roots differ from the anchored ones.
pub(super) struct Suspects {
    /// The number, among the stream's anchored heads, of the first.
    pub(super) first: usize,
    /// The roots that the stream has at their sizes, in order.
    pub(super) roots: Vec<Hash>,
    /// True when the block is whole, so that one of them differs for certain.
    pub(super) is_certain: bool,
}

/// Follows the anchored heads while a stream's tree grows.
pub(super) struct Comparison<'a> {
    anchors: &'a Anchors,
    rest: &'a [u8],
    /// Size of the head that is due.
    due: Option<u64>,
    /// Heads passed.
    passed: usize,
    /// The roots found in the block under way.
    roots: Vec<Hash>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(anchors: &'a Anchors) -> Self {
        let mut comparison = Self {
            anchors,
            rest: &anchors.growth,
            due: Some(0),
            passed: 0,
            roots: Vec::new(),
        };
        comparison.advance();
        comparison
    }

    /// Returns whether a head of `size` frames is anchored.
    pub(super) fn is_due(&self, size: u64) -> bool {
        self.due == Some(size)
    }

    /// Adds the root at the due size, for every head of that size.
    pub(super) fn pass(&mut self, root: Hash) -> Option<Suspects> {
        let size = self.due?;
        let mut suspects = None;
        while self.due == Some(size) {
            self.roots.push(root);
            self.passed = self.passed.saturating_add(1);
            self.advance();
            if self.roots.len() == BLOCK_HEADS || self.due.is_none() {
                // Further blocks of heads of the same size give the same result.
                let found = self.finish();
                suspects = suspects.or(found);
            }
        }
        suspects
    }

    /// Compares the roots found since the last whole block.
    pub(super) fn finish(&mut self) -> Option<Suspects> {
        let roots = std::mem::take(&mut self.roots);
        let first = self.passed.saturating_sub(roots.len());
        let found = roots
            .iter()
            .fold(EMPTY_ROOT, |hash, root| node_hash(&hash, root));
        let anchored = self.anchors.blocks.get(first / BLOCK_HEADS);
        let is_suspect = !roots.is_empty() && anchored != Some(&found);
        is_suspect.then_some(Suspects {
            first,
            is_certain: roots.len() == BLOCK_HEADS || self.due.is_none(),
            roots,
        })
    }

    fn advance(&mut self) {
        let growth = take_leb128(&mut self.rest);
        self.due = self
            .due
            .zip(growth)
            .map(|(size, growth)| size.saturating_add(growth));
    }
}

fn push_leb128(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn take_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift = shift.saturating_add(7);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(number: u64) -> Hash {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Hash::new(bytes)
    }

    fn head(size: u64) -> Checkpoint {
        Checkpoint::new("log.example/stream", size, root(size)).unwrap()
    }

    /// Heads of which some have the same size, over more than two blocks.
    fn sizes() -> Vec<u64> {
        (0..10_000_u64)
            .map(|number| 1 + number * number / 3)
            .collect()
    }

    fn anchors() -> Anchors {
        let mut anchors = Anchors::default();
        for (size, frame) in sizes().iter().zip(0_u64..) {
            anchors
                .add(
                    &head(*size),
                    (frame, 1),
                    usize::try_from(frame / 1_000).unwrap(),
                )
                .unwrap();
        }
        anchors
    }

    /// Grows to each size, with the root that `of` gives, and returns the first suspects.
    fn compare(anchors: &Anchors, of: impl Fn(u64) -> Hash) -> Vec<Suspects> {
        let mut comparison = Comparison::new(anchors);
        let mut distinct = sizes();
        distinct.dedup();
        let mut suspects = Vec::new();
        for size in distinct {
            assert!(comparison.is_due(size), "{size}");
            assert!(!comparison.is_due(size + 1), "{size}");
            suspects.extend(comparison.pass(of(size)));
        }
        suspects.extend(comparison.finish());
        assert!(comparison.due.is_none());
        suspects
    }

    #[test]
    fn every_changed_root_is_suspected_in_its_block() {
        let anchors = anchors();
        assert!(compare(&anchors, root).is_empty());
        for number in [0, 1, 2, 4_095, 4_096, 4_097, 8_191, 8_192, 9_999] {
            let changed = sizes()[number];
            let of = |size| {
                if size == changed {
                    root(size + 1)
                } else {
                    root(size)
                }
            };
            let suspects = compare(&anchors, of);
            assert!(!suspects.is_empty(), "head {number}");
            let first = suspects[0].first;
            let block = first..first + suspects[0].roots.len();
            assert!(block.contains(&number), "head {number} in {block:?}");
            assert_eq!(suspects[0].roots[number - first], root(changed + 1));
        }
    }

    #[test]
    fn a_head_smaller_than_the_one_before_is_refused() {
        let mut anchors = anchors();
        let (size, frame) = anchors.last().unwrap();
        assert_eq!(frame, 9_999);
        let refused = anchors.add(&head(size - 1), (10_000, 1), 10).unwrap_err();
        assert!(refused.contains("frame 9999"), "{refused}");
        assert_eq!(anchors.last(), Some((size, frame)));
    }

    #[test]
    fn the_signer_that_is_due_is_the_one_of_the_last_head_so_far() {
        let anchors = anchors();
        let sizes = sizes();
        assert_eq!(anchors.certificates_before(0), 0);
        assert_eq!(anchors.certificates_before(sizes[1_000] - 1), 0);
        assert_eq!(anchors.certificates_before(sizes[1_000]), 1);
        assert_eq!(anchors.certificates_before(u64::MAX), 9);
        assert_eq!(Anchors::default().certificates_before(5), 0);
    }

    #[test]
    fn a_head_takes_a_byte_or_two() {
        let mut anchors = Anchors::default();
        for number in 1..=100_000 {
            anchors.add(&head(number * 100), (number, 1), 0).unwrap();
        }
        let bytes = anchors.growth.len() + 32 * anchors.blocks.len();
        assert!(bytes < 110_000, "{bytes}");
    }
}
