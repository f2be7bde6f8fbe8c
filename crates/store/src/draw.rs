//! Drawing one of many rows evenly, without counting all of them.

use crate::fail::Fail;
use crate::limits::{COUNTED_DRAW_MAX, DRAW_STEPS};
use crate::random::Random;

/// One of `length` rows; `from` gives those from a place in the order of hashes on.
///
/// Of few rows each is as likely as any other. Of many, one is drawn by a random place and a random
/// number of steps from there, which evens out the gaps between hashes.
pub(crate) fn draw<T, I: Iterator<Item = Result<T, Fail>>>(
    from: impl Fn(u64) -> Result<I, Fail>,
    length: u64,
    random: &mut Random,
) -> Result<Option<T>, Fail> {
    if length <= COUNTED_DRAW_MAX {
        let skipped = random.below(length);
        return from(0)?.nth(steps(skipped)).transpose();
    }
    let place = random.next();
    let skipped = random.below(DRAW_STEPS);
    let mut rows = from(place)?.chain(from(0)?);
    rows.nth(steps(skipped)).transpose()
}

fn steps(count: u64) -> usize {
    usize::try_from(count).unwrap_or_default()
}
