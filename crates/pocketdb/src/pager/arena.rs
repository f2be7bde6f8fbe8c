//! The page frames, the only working memory for reading, building, sorting and joining.
//!
//! All frames are in one allocation made at opening. The lower ones cache pages. An operation that
//! needs working space leases frames from the upper end; the last lease is returned first. The
//! lowest frame is held while it contains rows of a transaction that are in no page on flash.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a frame that is not there is a defect; an empty page in its place would hide it, and what is written to it"
)]

use alloc::vec::Vec;

use crate::pager::error::{Error, Result};
use crate::pager::flash::PAGE_BYTES;

/// Number of frames that always stay with the cache.
const CACHE_FRAMES_MIN: usize = 2;
/// Page number of an empty frame.
const NOTHING: u32 = u32::MAX;
/// The frame that can be held.
pub(crate) const HELD: usize = 0;

/// The content of a cached frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    page: u32,
    epoch: u64,
    used: u64,
}

/// A range of leased frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    first: usize,
    frames: usize,
}

impl Area {
    /// Returns the number of frames of the area.
    pub(crate) fn frames(self) -> usize {
        self.frames
    }

    /// Returns the length of the area in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.frames * PAGE_BYTES
    }
}

/// The frames.
pub(crate) struct Arena {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    /// Number of frames below the leased ones.
    cached: usize,
    /// `true` if the lowest frame is a write buffer and not part of the cache.
    held: bool,
    clock: u64,
}

impl Arena {
    /// Allocates `frames` frames.
    pub(crate) fn new(frames: usize) -> Self {
        let head = Head {
            page: NOTHING,
            epoch: 0,
            used: 0,
        };
        Self {
            bytes: alloc::vec![0; frames * PAGE_BYTES],
            heads: alloc::vec![head; frames],
            cached: frames,
            held: false,
            clock: 0,
        }
    }

    /// Returns the number of all frames.
    pub(crate) fn frames(&self) -> usize {
        self.heads.len()
    }

    /// Returns the number of frames that can be leased now.
    pub(crate) fn spare(&self) -> usize {
        self.cached().saturating_sub(CACHE_FRAMES_MIN)
    }

    /// Returns the number of frames that cache pages now.
    pub(crate) fn cached(&self) -> usize {
        self.cached - usize::from(self.held)
    }

    /// Returns whether a frame is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Holds the lowest frame, filled from a cached page if `frame` is given.
    pub(crate) fn hold(&mut self, frame: Option<usize>) {
        if let Some(frame) = frame.filter(|&frame| frame != HELD) {
            let from = frame * PAGE_BYTES;
            self.bytes
                .copy_within(from..from + PAGE_BYTES, HELD * PAGE_BYTES);
        }
        self.heads[HELD].page = NOTHING;
        self.held = true;
    }

    /// Returns the held frame to the cache; `page` is the page that it then contains, if any.
    pub(crate) fn let_go(&mut self, page: Option<(u32, u64)>) {
        self.held = false;
        if let Some((page, epoch)) = page {
            self.note(HELD, page, epoch);
        }
    }

    /// Returns whether `area` is the last lease.
    pub(crate) fn is_last(&self, area: Area) -> bool {
        area.first == self.cached
    }

    /// Leases `frames` frames, which leave the cache.
    pub(crate) fn lease(&mut self, frames: usize) -> Result<Area> {
        if frames > self.spare() {
            return Err(Error::Share {
                needed: frames * PAGE_BYTES,
                given: self.spare() * PAGE_BYTES,
            });
        }
        self.cached -= frames;
        let area = Area {
            first: self.cached,
            frames,
        };
        for head in &mut self.heads[area.first..area.first + frames] {
            head.page = NOTHING;
        }
        Ok(area)
    }

    /// Returns the last lease to the cache.
    pub(crate) fn release(&mut self, area: Area) {
        assert_eq!(area.first, self.cached, "areas return in reverse order");
        self.cached = area.first + area.frames;
    }

    /// Returns all leased frames, also those of an operation that failed.
    pub(crate) fn reset(&mut self) {
        self.cached = self.heads.len();
    }

    /// Returns the bytes of an area.
    pub(crate) fn area(&self, area: Area) -> &[u8] {
        let at = area.first * PAGE_BYTES;
        &self.bytes[at..at + area.bytes()]
    }

    /// Returns the bytes of an area, mutable.
    pub(crate) fn area_mut(&mut self, area: Area) -> &mut [u8] {
        let at = area.first * PAGE_BYTES;
        &mut self.bytes[at..at + area.bytes()]
    }

    /// Returns one page of an area, mutable.
    pub(crate) fn area_page(&mut self, area: Area, number: usize) -> &mut [u8] {
        self.page_mut(area.first + number)
    }

    /// Returns the bytes of a cached page.
    pub(crate) fn page(&self, frame: usize) -> &[u8] {
        let at = frame * PAGE_BYTES;
        &self.bytes[at..at + PAGE_BYTES]
    }

    /// Returns the bytes of a frame, for reading a page into it.
    pub(crate) fn page_mut(&mut self, frame: usize) -> &mut [u8] {
        let at = frame * PAGE_BYTES;
        &mut self.bytes[at..at + PAGE_BYTES]
    }

    /// Copies `count` bytes from offset `at` of a cached page to a page of an area.
    pub(crate) fn copy_to_page(
        &mut self,
        frame: usize,
        at: usize,
        count: usize,
        (area, number): (Area, usize),
        to: usize,
    ) {
        let from = frame * PAGE_BYTES + at;
        let to = (area.first + number) * PAGE_BYTES + to;
        self.bytes.copy_within(from..from + count, to);
    }

    /// Copies a cached page to the first page of an area.
    pub(crate) fn copy_page(&mut self, frame: usize, area: Area) {
        self.copy_to_page(frame, 0, PAGE_BYTES, (area, 0), 0);
    }

    /// Copies `count` bytes between two areas.
    pub(crate) fn copy_within(&mut self, from: (Area, usize), to: (Area, usize), count: usize) {
        let from = from.0.first * PAGE_BYTES + from.1;
        let to = to.0.first * PAGE_BYTES + to.1;
        self.bytes.copy_within(from..from + count, to);
    }

    /// Returns the frame that caches `page` as written in `epoch`, if any.
    pub(crate) fn find(&mut self, page: u32, epoch: u64) -> Option<usize> {
        self.clock += 1;
        let clock = self.clock;
        let mut heads = self.heads.iter_mut().take(self.cached).enumerate();
        let (frame, head) = heads.find(|(_, head)| head.page == page && head.epoch == epoch)?;
        head.used = clock;
        Some(frame)
    }

    /// Evicts the least recently used page and returns its frame.
    pub(crate) fn victim(&mut self) -> usize {
        let heads = self.heads.iter_mut().take(self.cached).enumerate();
        let heads = heads.skip(usize::from(self.held));
        let oldest = heads.min_by_key(|(_, head)| head.used);
        let (frame, head) = oldest.expect("the cache keeps frames beside the leased and held ones");
        head.page = NOTHING;
        frame
    }

    /// Records that `frame` now caches `page`.
    pub(crate) fn note(&mut self, frame: usize, page: u32, epoch: u64) {
        self.clock += 1;
        let used = self.clock;
        self.heads[frame] = Head { page, epoch, used };
    }

    /// Empties the cache.
    pub(crate) fn forget(&mut self) {
        for head in &mut self.heads {
            head.page = NOTHING;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leased_frames_leave_the_cache_and_return_to_it() {
        let mut arena = Arena::new(5);
        for page in 0..5 {
            let frame = arena.victim();
            arena.note(frame, page, 1);
        }
        let area = arena.lease(3).unwrap();
        assert_eq!(arena.area(area).len(), 3 * PAGE_BYTES);
        assert!(matches!(arena.lease(1), Err(Error::Share { .. })));
        let kept = (0..5).filter(|&page| arena.find(page, 1).is_some());
        assert_eq!(kept.count(), 2);
        assert_eq!(arena.find(0, 2), None);
        arena.release(area);
        assert_eq!(arena.spare(), 3);
    }

    #[test]
    fn a_frame_held_is_no_victim_until_it_is_let_go() {
        let mut arena = Arena::new(4);
        for page in 0..4 {
            let frame = arena.victim();
            arena.page_mut(frame).fill(u8::try_from(page).unwrap());
            arena.note(frame, page, 1);
        }
        let frame = arena.find(2, 1);
        arena.hold(frame);
        assert_eq!((arena.page(HELD)[9], arena.find(0, 1)), (2, None));
        assert_eq!((arena.cached(), arena.spare()), (3, 1));
        for page in 5..12 {
            let frame = arena.victim();
            assert_ne!(frame, HELD);
            arena.note(frame, page, 1);
        }
        arena.let_go(Some((20, 7)));
        assert_eq!((arena.find(20, 7), arena.spare()), (Some(HELD), 2));
    }

    #[test]
    fn the_page_used_least_recently_makes_room() {
        let mut arena = Arena::new(2);
        for page in 0..2 {
            let frame = arena.victim();
            arena.note(frame, page, 1);
        }
        arena.find(0, 1);
        arena.victim();
        assert!(arena.find(0, 1).is_some());
        assert!(arena.find(1, 1).is_none());
    }

    /// Without a frame in the cache the held one was overwritten: rows that no page on flash had.
    #[test]
    #[should_panic(expected = "the cache keeps frames")]
    fn the_held_frame_makes_no_room() {
        let mut arena = Arena::new(1);
        arena.hold(None);
        arena.victim();
    }

    /// An area returned out of turn moved the border of the cache into one that was still leased.
    #[test]
    #[should_panic(expected = "reverse order")]
    fn an_area_out_of_turn_is_not_taken_back() {
        let mut arena = Arena::new(6);
        let first = arena.lease(1).unwrap();
        arena.lease(1).unwrap();
        arena.release(first);
    }

    /// A frame out of range was an empty page, and what was written to it vanished.
    #[test]
    #[should_panic(expected = "out of range")]
    fn a_frame_that_is_not_there_takes_no_bytes() {
        Arena::new(2).page_mut(2).fill(1);
    }
}
