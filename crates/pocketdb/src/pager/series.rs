//! A list of bounded length that takes memory as it grows.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::pager::error::{Error, Result};

/// Number of items by which the capacity grows.
const STEP: usize = 4;

/// A list of at most `N` items.
#[derive(Debug, Clone)]
pub(crate) struct Series<T, const N: usize>(Vec<T>);

impl<T, const N: usize> Series<T, N> {
    /// Creates an empty series without memory.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends `item`; `what` names the limit in the error.
    pub(crate) fn push(&mut self, item: T, what: &'static str) -> Result<()> {
        if self.is_full() {
            return Err(Error::Limit(what));
        }
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(STEP.min(N - self.0.len()));
        }
        self.0.push(item);
        Ok(())
    }

    /// Returns whether the series has `N` items.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= N
    }

    /// Returns its bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }

    /// Removes `count` items from number `first` on.
    pub(crate) fn remove(&mut self, first: usize, count: usize) {
        self.0.drain(first..first + count);
    }
}

impl<T, const N: usize> Default for Series<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for Series<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const N: usize> DerefMut for Series<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_refuses_what_exceeds_its_bound_and_takes_no_more_than_a_step_too_much() {
        let mut series: Series<u8, 6> = Series::new();
        for number in 0..6 {
            series.push(number, "items").unwrap();
            assert!(series.0.capacity() <= series.len().next_multiple_of(STEP).min(6));
        }
        assert!(series.is_full());
        assert_eq!(series.push(6, "items"), Err(Error::Limit("items")));
        series.remove(1, 4);
        assert_eq!(&*series, &[0, 5]);
    }

    /// Items that were not there to be removed were left out without a word: the caller's numbers
    /// were wrong.
    #[test]
    #[should_panic(expected = "out of range")]
    fn items_that_are_not_there_are_not_removed() {
        let mut series: Series<u8, 6> = Series::new();
        series.push(0, "items").unwrap();
        series.remove(0, 2);
    }
}
