//! A set of slots, as ranges: an accepted loss may leave every other slot of millions void.

use std::ops::Range;

/// Slots in order, neighbours in one range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlotRanges(Vec<Range<u64>>);

impl SlotRanges {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the slots of `added`, which may be there already.
    pub(crate) fn add(&mut self, added: Range<u64>) {
        if added.is_empty() {
            return;
        }
        let first = self.0.partition_point(|it| it.end < added.start);
        let behind = self.0.partition_point(|it| it.start <= added.end);
        let joined = self.0.drain(first..behind).fold(added, |all, it| {
            all.start.min(it.start)..all.end.max(it.end)
        });
        self.0.insert(first, joined);
    }

    /// Adds slot `number`.
    pub(crate) fn add_one(&mut self, number: u64) {
        self.add(number..number.saturating_add(1));
    }

    /// Removes the slots of `removed`, as far as they are there.
    pub(crate) fn remove(&mut self, removed: Range<u64>) {
        if removed.is_empty() {
            return;
        }
        let parts = |it: Range<u64>| {
            let before = it.start..it.end.min(removed.start);
            [before, it.start.max(removed.end)..it.end]
        };
        let rest = std::mem::take(&mut self.0).into_iter().flat_map(parts);
        self.0 = rest.filter(|slots| !slots.is_empty()).collect();
    }

    /// Removes the slots from number `end` on.
    pub(crate) fn cut(&mut self, end: u64) {
        for slots in &mut self.0 {
            slots.end = slots.end.min(end);
        }
        self.0.retain(|slots| !slots.is_empty());
    }

    /// Returns whether slot `number` is one of them.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let next = self.0.partition_point(|it| it.end <= number);
        self.0.get(next).is_some_and(|it| it.start <= number)
    }

    /// Returns whether all slots of `range` are of them.
    pub(crate) fn contains_all(&self, range: Range<u64>) -> bool {
        let next = self.0.partition_point(|it| it.end <= range.start);
        let next = self.0.get(next);
        range.is_empty() || next.is_some_and(|it| it.start <= range.start && it.end >= range.end)
    }

    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }
}

impl FromIterator<u64> for SlotRanges {
    fn from_iter<T: IntoIterator<Item = u64>>(numbers: T) -> Self {
        let mut all = Self::default();
        for number in numbers {
            all.add_one(number);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Against a set of numbers, with ranges in any order, overlapping or not.
    #[test]
    fn a_set_of_ranges_is_the_set_of_its_numbers() {
        let mut drawn = 1_u64;
        let mut draw = |below: u64| {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (drawn >> 33) % below
        };
        for _ in 0..200 {
            let mut ranges = SlotRanges::default();
            let mut numbers = BTreeSet::new();
            for _ in 0..draw(12) {
                let start = draw(40);
                let end = start + draw(6);
                ranges.add(start..end);
                numbers.extend(start..end);
            }
            let start = draw(40);
            let end = start + draw(6);
            ranges.remove(start..end);
            numbers.retain(|number| !(start..end).contains(number));
            let end = draw(50);
            ranges.cut(end);
            numbers.retain(|number| *number < end);
            for number in 0..50 {
                assert_eq!(ranges.contains(number), numbers.contains(&number));
                let to = number + draw(5);
                let has_all = (number..to).all(|it| numbers.contains(&it));
                assert_eq!(ranges.contains_all(number..to), has_all);
            }
            let listed: Vec<u64> = ranges.iter().flatten().collect();
            assert_eq!(listed, numbers.iter().copied().collect::<Vec<_>>());
            assert_eq!(ranges, numbers.into_iter().collect());
            let mut apart = ranges.iter().zip(ranges.iter().skip(1));
            assert!(apart.all(|(one, next)| one.end < next.start));
        }
    }
}
