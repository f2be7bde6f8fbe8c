//! A bounded lock-free queue for many producers and many consumers.
//!
//! Each slot has a stamp that tells whose turn it is. It is the position of the next push while the
//! slot is free, and that position plus one while it holds a value. Producers claim positions at
//! the tail, consumers at the head, with one compare-exchange for any number of adjacent slots. The
//! stamps publish the contents.

#![expect(
    unsafe_code,
    reason = "values move in and out of slots that several threads share"
)]

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::error::Refusal;
use crate::sync::{AtomicUsize, Ordering, UnsafeCell, spin_loop};

// Positions grow forever: 63 bits of them outlast any process, 31 would not.
const _: () = assert!(usize::BITS == 64, "positions must never repeat");

/// The bit of the tail word that marks a closed ring.
const CLOSED: usize = 1;

/// A bounded queue for many producers and many consumers. No call ever waits for another thread.
///
/// Values of one producer come out in the order they went in. A slot that another thread is filling
/// counts as empty, and one that is being emptied counts as full. So under concurrency "full" and
/// "empty" describe only the next slot.
pub struct Ring<T> {
    /// Shared by producers: the next position to fill, shifted left by one, and [`CLOSED`].
    tail: CachePadded<AtomicUsize>,
    /// Shared by consumers: the next position to empty.
    head: CachePadded<AtomicUsize>,
    /// Each slot is owned by the thread that claimed its position.
    slots: Box<[Slot<T>]>,
    positions: Positions,
}

struct Slot<T> {
    /// The position that this slot is free for, or that plus one while it holds that position's
    /// value.
    stamp: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// Adjacent slots that belong to the thread that claimed them.
#[derive(Clone, Copy)]
struct Claim {
    start: usize,
    count: usize,
}

// SAFETY: the ring owns its values; sending it sends them, which `T: Send` allows.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: threads that share the ring only move values through it and never share a value. Only the
// thread whose compare-exchange claimed a position accesses its slot.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    /// Creates an empty ring of `capacity` slots; 0 counts as 1.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let slots = (0..capacity)
            .map(|index| Slot {
                stamp: AtomicUsize::new(index),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            })
            .collect();
        Self {
            tail: CachePadded::new(AtomicUsize::new(0)),
            head: CachePadded::new(AtomicUsize::new(0)),
            slots,
            positions: Positions::new(capacity),
        }
    }

    /// Pushes `value` at the end.
    ///
    /// # Errors
    /// The value itself if there is no room.
    #[inline]
    pub fn try_push(&self, value: T) -> Result<(), T> {
        self.push(value).map_err(|(_, value)| value)
    }

    /// Pops the value at the front, if there is one.
    #[inline]
    pub fn try_pop(&self) -> Option<T> {
        let claim = self.claim_full(1)?;
        Some(self.empty(claim.start))
    }

    /// Moves values from the front of `values` to the end of the ring, as many as fit without a
    /// gap; returns their number.
    ///
    /// The values stay adjacent: no other producer's come between them.
    #[inline]
    pub fn push_batch(&self, values: &mut VecDeque<T>) -> usize {
        self.push_some(values).unwrap_or(0)
    }

    /// Moves up to `max` values from the front of the ring to the end of `into`; returns their
    /// number.
    #[inline]
    pub fn pop_batch(&self, into: &mut Vec<T>, max: usize) -> usize {
        // Reserves first: nothing may fail once slots are claimed.
        into.reserve(max.min(self.len()));
        let room = into.capacity().saturating_sub(into.len());
        let Some(claim) = self.claim_full(max.min(room).min(self.capacity())) else {
            return 0;
        };
        let mut position = claim.start;
        for _ in 0..claim.count {
            into.push(self.empty(position));
            position = self.positions.advance(position, 1);
        }
        claim.count
    }

    /// Returns the number of values, as of some moment during the call.
    pub fn len(&self) -> usize {
        // Relaxed: the number is only informative; no other memory access depends on it.
        let head = self.head.load(Ordering::Relaxed);
        let tail = self.tail.load(Ordering::Relaxed) >> 1;
        self.positions.distance(head, tail)
    }

    /// Returns whether the ring is empty, as of some moment during the call.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots.
    pub const fn capacity(&self) -> usize {
        self.positions.capacity
    }

    /// Pushes as [`Ring::try_push`] does; returns the reason of a refusal as well.
    #[inline]
    pub(crate) fn push(&self, value: T) -> Result<(), (Refusal, T)> {
        match self.claim_free(1) {
            Ok(claim) => {
                self.fill(claim.start, value);
                Ok(())
            }
            Err(refusal) => Err((refusal, value)),
        }
    }

    /// Pushes as [`Ring::push_batch`] does; returns the reason if nothing was moved. With no values
    /// it moves none.
    #[inline]
    pub(crate) fn push_some(&self, values: &mut VecDeque<T>) -> Result<usize, Refusal> {
        let claim = self.claim_free(values.len().min(self.capacity()))?;
        let mut position = claim.start;
        // The claim is no longer than `values`, and draining runs no code of `T`.
        for value in values.drain(..claim.count) {
            self.fill(position, value);
            position = self.positions.advance(position, 1);
        }
        Ok(claim.count)
    }

    /// Closes the ring for pushes; returns `true` for the one call that closed it.
    pub(crate) fn close(&self) -> bool {
        // Relaxed: the bit publishes no memory. It is part of the tail word, so it comes after
        // every successful claim and before every claim that fails because of it.
        self.tail.fetch_or(CLOSED, Ordering::Relaxed) & CLOSED == 0
    }

    /// Returns whether the ring is closed for pushes.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: as in `close`.
        self.tail.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Returns whether the ring is closed and consumers have claimed every value.
    pub(crate) fn is_drained(&self) -> bool {
        // Relaxed: once closed, the tail is constant and the head can only approach it. So a head
        // equal to the tail, even if outdated, means that no position is left.
        let tail = self.tail.load(Ordering::Relaxed);
        tail & CLOSED != 0 && self.head.load(Ordering::Relaxed) == tail >> 1
    }

    /// Claims the next free positions: up to `max` (at most the capacity) adjacent ones, and at
    /// least one unless `max` is 0.
    #[inline]
    fn claim_free(&self, max: usize) -> Result<Claim, Refusal> {
        // Relaxed: a guess; the compare-exchange checks it.
        let mut word = self.tail.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(Refusal::Closed);
            }
            let start = word >> 1;
            let count = self.run(start, 0, max);
            if count == 0 {
                // Relaxed: the thread that filled the slot moved the tail first, and the acquire of
                // the stamp made that visible. So an unchanged tail means that the slot is not
                // emptied yet.
                let now = self.tail.load(Ordering::Relaxed);
                if now == word {
                    return if max == 0 {
                        Ok(Claim { start, count })
                    } else {
                        Err(Refusal::Full)
                    };
                }
                word = now;
                continue;
            }
            let next = self.positions.advance(start, count) << 1;
            // Relaxed: the claim publishes nothing; the stamps of the claimed slots do. Free slots
            // from the tail on stay free until the tail moves, so on success all of them are
            // claimed.
            match self
                .tail
                .compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Ok(Claim { start, count }),
                Err(now) => {
                    word = now;
                    spin_loop();
                }
            }
        }
    }

    /// Claims the next filled positions: up to `max` (at most the capacity) adjacent ones.
    #[inline]
    fn claim_full(&self, max: usize) -> Option<Claim> {
        // Relaxed: a guess; the compare-exchange checks it.
        let mut start = self.head.load(Ordering::Relaxed);
        loop {
            let count = self.run(start, 1, max);
            if count == 0 {
                // Relaxed: the thread that emptied the slot moved the head first, and the acquire
                // of the stamp made that visible. So an unchanged head means that the slot is not
                // filled yet.
                let now = self.head.load(Ordering::Relaxed);
                if now == start {
                    return None;
                }
                start = now;
                continue;
            }
            let next = self.positions.advance(start, count);
            // Relaxed: as in `claim_free`, for filled slots and the head.
            match self
                .head
                .compare_exchange_weak(start, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(Claim { start, count }),
                Err(now) => {
                    start = now;
                    spin_loop();
                }
            }
        }
    }

    /// Returns the number of adjacent slots from `start` on, at most `max`, whose stamp is their
    /// position plus `turn`.
    ///
    /// `max` must be at most the capacity: with an outdated `start` a full lap could match again.
    #[inline]
    fn run(&self, start: usize, turn: usize, max: usize) -> usize {
        let mut position = start;
        let mut count = 0;
        while count < max {
            // Acquire: the last access to the slot by the thread that set the stamp happened
            // before.
            let stamp = self.slot(position).stamp.load(Ordering::Acquire);
            if stamp != position.wrapping_add(turn) {
                break;
            }
            position = self.positions.advance(position, 1);
            count += 1;
        }
        count
    }

    /// Fills the slot at `position`, which the caller claimed.
    #[inline]
    fn fill(&self, position: usize, value: T) {
        let slot = self.slot(position);
        slot.value.with_mut(|cell| {
            // SAFETY: valid: the pointer is that of a cell in `slots`. Exclusive: the caller
            // claimed `position`, whose stamp was free, so no other thread accesses the cell until
            // the store below.
            unsafe { &mut *cell }.write(value);
        });
        // Release: publishes the value to the consumer that reads this stamp.
        slot.stamp
            .store(position.wrapping_add(1), Ordering::Release);
    }

    /// Empties the slot at `position`, which the caller claimed.
    #[inline]
    fn empty(&self, position: usize) -> T {
        let slot = self.slot(position);
        let value = slot.value.with(|cell| {
            // SAFETY: valid: the pointer is that of a cell in `slots`. Initialised: the caller
            // claimed `position`, whose stamp was filled, read with acquire. Not read twice: no
            // other thread can claim the position, and the next producer overwrites the cell
            // without dropping its content.
            unsafe { cell.cast::<T>().read() }
        });
        // Release: the read above happens before the write of the producer that reads this stamp.
        slot.stamp
            .store(self.positions.next_lap(position), Ordering::Release);
        value
    }

    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        let index = self.positions.index(position);
        debug_assert!(index < self.slots.len(), "an index is below the capacity");
        // SAFETY: in bounds: `Positions` creates only positions whose index is below its capacity,
        // and there are as many slots. A bounds check would cost about as much as the other
        // arithmetic on this path.
        unsafe { self.slots.get_unchecked(index) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Some(value) = self.try_pop() {
            drop(value);
        }
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// The arithmetic of positions: the low bits are the slot's index, the high bits count laps.
///
/// If the capacity is no power of two, the indices from the capacity on are skipped.
#[derive(Debug, Clone, Copy)]
struct Positions {
    capacity: usize,
    /// Difference of positions between laps. It is a power of two of at least two. So a filled
    /// slot's stamp never equals the free stamp of the next lap.
    lap: usize,
    /// Number of indices per lap without a slot.
    skipped: usize,
}

impl Positions {
    const fn new(capacity: usize) -> Self {
        let lap = capacity.next_power_of_two();
        let lap = if lap < 2 { 2 } else { lap };
        Self {
            capacity,
            lap,
            skipped: lap - capacity,
        }
    }

    const fn index(self, position: usize) -> usize {
        position & (self.lap - 1)
    }

    /// Returns the position `count` slots later; `count` is at most the capacity.
    const fn advance(self, position: usize, count: usize) -> usize {
        debug_assert!(self.index(position) < self.capacity && count <= self.capacity);
        let wraps = self.index(position) + count >= self.capacity;
        position
            .wrapping_add(count)
            .wrapping_add(if wraps { self.skipped } else { 0 })
    }

    /// Returns the position of the same slot in the next lap.
    const fn next_lap(self, position: usize) -> usize {
        position.wrapping_add(self.lap)
    }

    /// Returns the number of slots from `head` to `tail`. Values read at different moments give a
    /// number within bounds.
    fn distance(self, head: usize, tail: usize) -> usize {
        let laps = (tail / self.lap).saturating_sub(head / self.lap);
        let ahead = laps
            .saturating_mul(self.capacity)
            .saturating_add(self.index(tail));
        ahead.saturating_sub(self.index(head)).min(self.capacity)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn positions_skip_the_indices_beyond_the_capacity() {
        for capacity in 1..=17 {
            let positions = Positions::new(capacity);
            let mut position = 0;
            for step in 0..capacity * 5 {
                assert_eq!(positions.index(position), step % capacity);
                for count in 0..=capacity {
                    let mut singly = position;
                    for _ in 0..count {
                        singly = positions.advance(singly, 1);
                    }
                    assert_eq!(positions.advance(position, count), singly);
                    assert_eq!(positions.distance(position, singly), count);
                }
                let mut lap = position;
                for _ in 0..capacity {
                    lap = positions.advance(lap, 1);
                }
                assert_eq!(positions.next_lap(position), lap);
                position = positions.advance(position, 1);
            }
        }
    }

    #[test]
    fn a_closed_ring_takes_nothing_and_is_drained_when_empty() {
        let ring = Ring::new(3);
        ring.try_push(1).unwrap();
        assert!(ring.close());
        assert!(!ring.close());
        assert_eq!(ring.push(2), Err((Refusal::Closed, 2)));
        assert_eq!(
            ring.push_some(&mut VecDeque::from([2])),
            Err(Refusal::Closed)
        );
        assert!(!ring.is_drained());
        assert_eq!(ring.try_pop(), Some(1));
        assert!(ring.is_drained());
    }
}
