//! A list of bounded length, stored inline in its owner: what `heapless` has, with the limits' errors.

use core::ops::{Deref, DerefMut};

use crate::pager::error::{Error, Result};

/// A list of at most `N` items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<T, const N: usize> {
    items: [T; N],
    count: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self {
            items: [T::default(); N],
            count: 0,
        }
    }

    /// Appends `item`; `what` names the limit in the error.
    pub(crate) fn push(&mut self, item: T, what: &'static str) -> Result<()> {
        let place = self.items.get_mut(self.count).ok_or(Error::Limit(what))?;
        *place = item;
        self.count += 1;
        Ok(())
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl<T, const N: usize> DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_refuses_what_exceeds_its_bound() {
        let mut list: List<u8, 2> = List::new();
        list.push(1, "items").unwrap();
        list.push(2, "items").unwrap();
        assert_eq!(list.push(3, "items"), Err(Error::Limit("items")));
        assert_eq!(&*list, &[1, 2]);
    }
}
