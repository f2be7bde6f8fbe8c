//! Drawing one of many rows evenly, without counting all of them.

use crate::fail::Fail;
use crate::limits::{COUNTED_DRAW_MAX, DRAW_STEPS};
use crate::random::Random;

/// One of the rows that `from` gives from a place in the order of hashes on; none where it gives none. `length` counts
/// them all, and those that it passes over because they do not open.
///
/// Of few rows each is as likely as any other. Of many, one is drawn by a random place and a random
/// number of steps from there, which evens out the gaps between hashes.
pub(crate) fn draw<T, I: Iterator<Item = Result<T, Fail>>>(
    from: impl Fn(u64) -> Result<I, Fail>,
    length: u64,
    random: &mut Random,
) -> Result<Option<T>, Fail> {
    let drawn = if length <= COUNTED_DRAW_MAX {
        from(0)?.nth(steps(random.below(length)))
    } else {
        let place = random.next();
        let mut rows = from(place)?.chain(from(0)?);
        rows.nth(steps(random.below(DRAW_STEPS)))
    };
    if let Some(drawn) = drawn {
        return drawn.map(Some);
    }
    // So few open that the draw went past them.
    let opened = from(0)?.count() as u64;
    from(0)?.nth(steps(random.below(opened))).transpose()
}

fn steps(count: u64) -> usize {
    usize::try_from(count).unwrap_or_default()
}
