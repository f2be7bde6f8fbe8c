//! Drawing one of many rows evenly, without counting all of them.

use crate::fail::Fail;
use crate::limits::{COUNTED_DRAW_MAX, DRAW_STEPS};
use crate::random::Random;

/// Draws one row; none where there is none. `from` gives the rows that open, in the order of their
/// hashes, from a place on. `length` counts all rows, with those that do not open.
///
/// Up to [`COUNTED_DRAW_MAX`] rows are drawn evenly. More are drawn almost evenly: the draw starts at
/// a random hash and skips a random number of rows, which evens out the gaps between hashes.
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
    // Fewer rows open than the draw skipped.
    let opened = from(0)?.count() as u64;
    from(0)?.nth(steps(random.below(opened))).transpose()
}

fn steps(count: u64) -> usize {
    usize::try_from(count).unwrap_or_default()
}
